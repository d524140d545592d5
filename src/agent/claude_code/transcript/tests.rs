use serde_json::json;

use super::*;
use crate::claude_code::result::OutputCapture;
use dfp_process::Tee;

/// A run of twenty thousand bytes: turns, each with a message, a call and its result.
fn long_run() -> String {
    let line = |value: Value| format!("{value}\n");
    let turn = |n: usize| {
        let (message, call) = (format!("m{n:03}"), format!("c{n:03}"));
        line(
            json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": message, "role": "assistant",
            "content": [{"type": "text", "text": format!("turn {n}")}, {"type": "tool_use", "id": call, "name": "Bash", "input": {"n": n}}]}}),
        ) + &line(
            json!({"type": "user", "parent_tool_use_id": null, "message": {"role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call, "content": format!("result {n}"), "is_error": false}]}}),
        )
    };
    (0..100).map(turn).collect()
}

/// A long run keeps the events of the captured output, except those of lines that the cut goes through.
#[test]
fn what_the_output_has_lost_is_not_kept() {
    let output = long_run();
    let limit = output.len() / 3;
    let (reader, capture) = (Arc::new(TranscriptReader::new(limit)), OutputCapture::new(limit, None));
    let mut decoder = Decoder::new(Wire::ClaudeStream);
    decoder.set_observer(reader.clone());
    let mut events = Vec::new();
    for piece in output.as_bytes().chunks(1000) {
        capture.copy(piece);
        decoder.push(piece, &mut events);
        assert!(
            reader.lock().read.calls.len() < 50,
            "memory is bounded while it goes on, too"
        );
    }
    decoder.finish(&mut events);
    let (live, stored) = (reader.take(), read(&capture.take().text));
    let is_near = |live: usize, stored: usize| live >= stored && live <= stored + 2;
    let contents = |read: &Transcript| {
        read.messages
            .iter()
            .map(|message| message.content.clone())
            .collect::<Vec<_>>()
    };
    let (live_texts, stored_texts) = (contents(&live), contents(&stored));
    assert!(stored_texts.len() > 20 && is_near(live_texts.len(), stored_texts.len()));
    assert!(stored_texts.iter().all(|text| live_texts.contains(text)));
    assert!(is_near(live.calls.len(), stored.calls.len()));
    assert!(live.calls.iter().all(|call| call.result.is_some()));
    let ends = |texts: &[String]| (texts.first().cloned(), texts.last().cloned());
    assert_eq!(
        ends(&live_texts),
        (Some("turn 0".to_owned()), Some("turn 99".to_owned()))
    );
}

#[test]
fn a_result_whose_call_is_left_out_stands_for_itself() {
    let reader = TranscriptReader::new(100);
    let line = |text: String| Line::Text {
        number: 1,
        text: text.into(),
        terminated: true,
    };
    let call = |id: &str| Event::ToolCall {
        tool_call: dfp_model::message::ToolCall {
            id: id.to_owned(),
            name: "Bash".to_owned(),
            args: serde_json::value::RawValue::from_string("{\"a\":1}".to_owned()).unwrap(),
        },
    };
    let result = |id: &str| Event::ToolResult {
        tool_call_id: id.to_owned(),
        content: "done".to_owned(),
        is_error: false,
    };
    reader.line(&line("x".repeat(30)), &[call("early")]);
    reader.line(&line("x".repeat(20)), &[call("lost"), call("late")]);
    reader.line(&line("x".repeat(20)), &[result("early"), result("lost")]);
    reader.line(&line("x".repeat(70)), &[result("late")]);
    let calls = reader.take().calls;
    let shown = |call: &TranscriptCall| {
        (
            call.id.clone(),
            call.name.clone(),
            call.arguments.clone(),
            call.result.clone(),
        )
    };
    let owned = |id: &str, name: &str, args: &str, result: Option<&str>| {
        (
            id.to_owned(),
            name.to_owned(),
            args.to_owned(),
            result.map(str::to_owned),
        )
    };
    assert_eq!(
        calls.iter().map(shown).collect::<Vec<_>>(),
        [
            owned("early", "Bash", "{\"a\":1}", None),
            owned("late", "unknown", "{}", Some("done")),
        ]
    );
}
