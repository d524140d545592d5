//! What becomes of a decoder's events.

use super::*;
use crate::message::ToolCall;

fn run(events: Vec<Event>, taken: &[&str]) -> (Vec<String>, Folded) {
    let mut fold = Fold::new(taken.iter().map(|id| (*id).to_owned()).collect());
    let mut out = Vec::new();
    for event in events {
        fold.push(event, &mut out);
    }
    let folded = fold.finish(&mut out);
    (
        out.iter().map(|event| serde_json::to_string(event).unwrap()).collect(),
        folded,
    )
}

fn delta(text: &str) -> Event {
    Event::TextDelta {
        message_id: None,
        text: text.into(),
    }
}

fn message(content: &str) -> Event {
    Event::Message {
        id: Some("m1".into()),
        content: content.into(),
    }
}

#[test]
fn text_passes_verbatim() {
    let (out, folded) = run(
        vec![delta("Hel"), delta(" "), delta("lo \n"), message("Hel lo \n")],
        &[],
    );
    assert_eq!(
        out,
        [
            r#"{"type":"text_delta","text":"Hel"}"#,
            r#"{"type":"text_delta","text":" lo"}"#,
            r#"{"type":"text_delta","messageId":"m1","text":" \n"}"#,
            r#"{"type":"message","id":"m1","content":"Hel lo \n"}"#,
        ]
    );
    assert_eq!((folded.reply.content.as_str(), folded.events), ("Hel lo", 4));
}

#[test]
fn calls_in_text_become_calls_with_ids_of_their_own() {
    let text =
        "Let me see.\n\n```json\n{\"tool_calls\":[{\"name\":\"a\",\"args\":{\"z\":1,\"b\":2},\"id\":\"call_1\"}]}\n```";
    let (out, folded) = run(vec![delta(text), message(text)], &["call_1"]);
    assert_eq!(out[0], r#"{"type":"text_delta","text":"Let me see."}"#);
    assert_eq!(folded.reply.content, "Let me see.");
    assert_eq!(folded.reply.tool_calls.len(), 1);
    assert_ne!(folded.reply.tool_calls[0].id, "call_1");
    assert_eq!(folded.reply.tool_calls[0].args.get(), r#"{"z":1,"b":2}"#);
    assert!(
        out.last()
            .unwrap()
            .starts_with(r#"{"type":"tool_call","toolCall":{"id":""#)
    );
}

#[test]
fn what_was_broken_off_is_no_part_of_what_is_said_next() {
    let half = "Let me see.\n\n```json\n{\"tool_calls\": [{\"name\": \"a\", \"args\": {";
    let call = "Now.\n{\"tool_calls\":[{\"name\":\"a\",\"args\":{\"b\":2}}]}";
    let reply = |next: Vec<Event>| run([vec![delta(half), Event::Abandoned], next].concat(), &[]).1;

    let folded = reply(vec![delta("Hel"), delta("lo"), message("Hello")]);
    assert_eq!(
        (folded.reply.content.as_str(), folded.text().as_ref()),
        ("Hello", "Hello")
    );
    assert!(folded.reply.tool_calls.is_empty() && folded.reply.invalid_tool_calls.is_empty());

    let folded = reply(vec![delta(call), message(call)]);
    assert_eq!((folded.reply.content.as_str(), folded.text().as_ref()), ("Now.", call));
    let [only] = folded.reply.tool_calls.as_slice() else {
        panic!("{:?}", folded.reply.tool_calls)
    };
    assert_eq!(only.args.get(), r#"{"b":2}"#);

    assert_eq!(reply(vec![delta("Hel")]).text(), "Hel");
    assert_eq!(reply(vec![]).text(), half);
}

#[test]
fn a_message_that_is_not_what_its_pieces_said_is_taken_whole() {
    let half = "Let me see.\n```json\n{\"tool_calls\": [{\"name\": \"a\", \"args\": {";
    let (out, folded) = run(vec![delta(half), message("Hello")], &[]);
    assert_eq!(
        out,
        [
            r#"{"type":"text_delta","text":"Let me see."}"#,
            r#"{"type":"message","id":"m1","content":"Hello"}"#
        ]
    );
    assert_eq!(
        (folded.reply.content.as_str(), folded.text().as_ref()),
        ("Hello", "Hello")
    );
    assert!(folded.reply.tool_calls.is_empty() && folded.reply.invalid_tool_calls.is_empty());

    let call = "Now.\n{\"tool_calls\":[{\"name\":\"a\",\"args\":{}}]}";
    let (_, folded) = run(vec![delta("Now?"), message(call)], &[]);
    assert_eq!(
        (folded.reply.content.as_str(), folded.reply.tool_calls.len()),
        ("Now.", 1)
    );
}

#[test]
fn texts_nobody_hears_are_counted_and_kept_all_the_same() {
    let call = "\n{\"tool_calls\":[{\"name\":\"a\",\"args\":{}}]}";
    let events = [
        delta("Hel"),
        delta("lo "),
        message("Hello "),
        delta("x"),
        delta(call),
        message(&format!("x{call}")),
    ];
    let both = [true, false].map(|heard| {
        let (mut fold, mut out) = (Fold::new(HashSet::new()).heard(heard), Vec::new());
        events.iter().for_each(|event| fold.push(event.clone(), &mut out));
        fold.push(delta("cut"), &mut out);
        (fold.finish(&mut out), out)
    });
    let [(loud, all), (quiet, few)] = both;
    assert_eq!(loud.reply, quiet.reply);
    assert_eq!((all.len() as u64, loud.events), (quiet.events, quiet.events));
    assert!(matches!(few.as_slice(), [Event::ToolCall { .. }]), "{few:?}");
    assert_eq!(
        (loud.text(), quiet.text().as_ref()),
        (quiet.text(), format!("Hello x{call}cut").as_str())
    );
    assert_eq!((quiet.reply.content.as_str(), quiet.reply.messages.len()), ("x", 2));
}

#[test]
fn a_last_word_alone_becomes_the_message() {
    let outcome = Outcome {
        text: Some("Hi".into()),
        cost_usd: Some(0.5),
        ..Outcome::default()
    };
    let (out, folded) = run(vec![Event::Outcome(Box::new(outcome))], &[]);
    assert_eq!(
        out,
        [
            r#"{"type":"text_delta","text":"Hi"}"#,
            r#"{"type":"message","content":"Hi"}"#
        ]
    );
    assert_eq!(
        (folded.reply.content.as_str(), folded.reply.cost_usd),
        ("Hi", Some(0.5))
    );
}

#[test]
fn calls_the_cli_answered_are_not_the_callers() {
    let call = |id: &str| Event::ToolCall {
        tool_call: ToolCall {
            id: id.into(),
            name: "Bash".into(),
            args: serde_json::value::RawValue::from_string("{}".into()).unwrap(),
        },
    };
    let result = Event::ToolResult {
        tool_call_id: "t1".into(),
        content: "ok".into(),
        is_error: false,
    };
    let (_, folded) = run(vec![call("t1"), result, call("t2")], &[]);
    assert_eq!(
        folded
            .reply
            .tool_calls
            .iter()
            .map(|call| call.id.as_str())
            .collect::<Vec<_>>(),
        ["t2"]
    );
}

#[test]
fn an_error_is_never_content() {
    let outcome = Outcome {
        text: Some("API Error: 529".into()),
        is_error: true,
        ..Outcome::default()
    };
    let (out, folded) = run(vec![Event::Outcome(Box::new(outcome))], &[]);
    assert!(out.is_empty() && folded.reply.content.is_empty());
}
