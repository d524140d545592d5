//! The results of the recordings of 0.169.0 and 0.150.0 (`__tests__/fixtures/codex-app-server`).

use std::collections::HashMap;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::codex_live::inbound::{self, Notice};
use crate::rpc::message::{self, Message};
use dfp_model::message::ToolSpec;

fn recorded(file: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/codex-app-server");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.map(|(_, raw)| raw.to_owned()).collect()
}

fn tools() -> Tools {
    let tool = |name: &str| -> ToolSpec {
        serde_json::from_str(&json!({"name": name, "schema": {"type": "object"}}).to_string()).unwrap()
    };
    crate::codex_live::settings::declare(&["add", "get_weather"].map(tool))
}

fn line_of(event: &Event) -> Option<String> {
    Some(match event {
        Event::TextDelta { text, .. } => format!("delta {text}"),
        Event::ThinkingDelta { text, .. } => format!("thinking {text}"),
        Event::Reasoning { details } => {
            let kept = serde_json::to_string(details).unwrap();
            format!("reasoning {kept}")
        }
        Event::Message { content, .. } => format!("message {content}"),
        Event::ToolCall { tool_call } => format!("call {} {} {}", tool_call.id, tool_call.name, tool_call.args),
        Event::Usage { usage, .. } => format!("usage {}/{}", usage.input_tokens, usage.output_tokens),
        Event::Failure(failure) => format!(
            "failure {} {} {}",
            failure.kind.as_deref().unwrap_or("-"),
            failure.http_status.unwrap_or_default(),
            failure.message.chars().take(60).collect::<String>()
        ),
        Event::RateLimit { status, resets_at, .. } => format!("limit {status} {}", resets_at.unwrap_or_default()),
        Event::Warning { message, .. } => format!("warning {message}"),
        _ => return None,
    })
}

/// The events of a recording, thread by thread in the order in which they begin; each reply ends with `reply` or `failed`.
fn play(case: &str) -> Vec<String> {
    let tools = tools();
    let mut threads: Vec<String> = Vec::new();
    let mut readers: HashMap<String, (CodexTurnReader, Vec<String>)> = HashMap::new();
    let mut limits = RateLimits::default();
    for line in recorded(&format!("{case}.stdout")) {
        let Message::Notification { method, params } = message::read(&line) else {
            continue;
        };
        let (thread, event) = match inbound::read(&method, params) {
            Some(Notice::Thread(thread, event)) => (thread, event),
            Some(Notice::RateLimits(now)) => {
                limits = now;
                continue;
            }
            None => continue,
        };
        let (reader, lines) = readers.entry(thread.clone()).or_insert_with(|| {
            threads.push(thread.clone());
            (CodexTurnReader::new(&tools, &thread, "m", None), Vec::new())
        });
        let mut events = Vec::new();
        let step = reader.push(event, &limits, &mut events);
        lines.extend(events.iter().filter_map(line_of));
        lines.extend(reader.take_unfit().into_iter().map(|call| format!("unfit {call}")));
        if step != TurnStep::More {
            lines.push(if step == TurnStep::Reply { "reply" } else { "failed" }.to_owned());
            let turn = reader.turn.clone();
            *reader = CodexTurnReader::new(&tools, &thread, "m", turn);
        }
    }
    let lines = threads.into_iter().filter_map(|thread| readers.remove(&thread));
    lines.flat_map(|(_, lines)| lines).collect()
}

/// The recordings, and the reason for each. Their replies are in `replies.txt`; `UPDATE_GOLDENS=1` writes it anew.
const CASES: &[(&str, &str)] = &[
    (
        "recipe-whole",
        "the whole protocol: two calls, results and a message, a further turn, an injected history, an interrupt",
    ),
    ("version-0.150.0", "the oldest version says the same"),
    (
        "tool-three-parallel",
        "calls come in the model's order, at the end of the response",
    ),
    (
        "tool-call-before-response-end",
        "pitfall 3: requests for results may come before it",
    ),
    ("answer-two-messages", "two messages are two"),
    ("stop-refusal", "pitfall 5: a refusal is reported as an empty success"),
    ("answer-empty", "pitfall 5: an empty answer"),
    (
        "tool-unknown",
        "pitfall 7: codex answers a call of a tool that is not there, and the reply costs two responses",
    ),
    (
        "tool-bad-json-args",
        "pitfall 7: the same with arguments that are no JSON",
    ),
    ("err-401", "an error with a status"),
    ("err-429-usage-limit", "an error with a word"),
    (
        "err-stream-cut-in-call",
        "pitfall 4: the error comes when the call was answered",
    ),
    (
        "auto-compaction-without-catalog",
        "pitfall 2: a history that codex replaces is a failure",
    ),
    ("codemode-direct-only-namespace", "tools in a namespace"),
];

#[test]
fn recordings_come_to_these_replies() {
    let mut golden = String::new();
    for (case, why) in CASES {
        golden += &format!("# {case}: {why}\n");
        for line in play(case) {
            golden += &format!("{}\n", line.replace('\n', "\\n"));
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/codex-app-server/replies.txt");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&file, &golden).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), golden);
}

/// Pitfall 4: until the call is answered there is only silence.
#[test]
fn a_stream_that_breaks_behind_a_call_is_known_by_its_silence() {
    let tools = tools();
    let mut reader = CodexTurnReader::new(&tools, "t", "m", Some("turn".to_owned()));
    let item = json!({"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"});
    let mut events = Vec::new();
    let turn = "turn".to_owned();
    assert_eq!(
        reader.push(ThreadEvent::RawItem { turn, item }, &RateLimits::default(), &mut events),
        TurnStep::More
    );
    assert!(reader.waits_behind_call());
    assert_eq!(reader.silent(&RateLimits::default(), &mut events), TurnStep::Failed);
    assert_eq!(
        events.iter().filter_map(line_of).collect::<Vec<_>>(),
        ["failure silent_stream 0 stream disconnected before completion: nothing came behind a"]
    );
}

/// codex hands over arguments that are JSON but not an object, and waits then.
#[test]
fn arguments_that_no_tool_can_take_are_answered_here() {
    let tools = tools();
    let mut reader = CodexTurnReader::new(&tools, "t", "m", Some("turn".to_owned()));
    let mut events = Vec::new();
    for (id, arguments) in [("a", "[1,2]"), ("b", "\"str\"")] {
        let item = json!({"type": "function_call", "call_id": id, "name": "add", "arguments": arguments});
        let turn = "turn".to_owned();
        reader.push(ThreadEvent::RawItem { turn, item }, &RateLimits::default(), &mut events);
    }
    let completed = ThreadEvent::ResponseCompleted {
        turn: "turn".to_owned(),
        usage: None,
    };
    assert_eq!(
        reader.push(completed, &RateLimits::default(), &mut events),
        TurnStep::More
    );
    assert_eq!(reader.take_unfit(), ["a", "b"]);
    assert!(events.is_empty());
}

/// A request that nobody understands, a reroute, a warning.
#[test]
fn what_is_unexpected_is_reported_or_fails_the_turn() {
    let tools = tools();
    let mut reader = CodexTurnReader::new(&tools, "t", "m", Some("turn".to_owned()));
    let mut events = Vec::new();
    let mut push = |event| reader.push(event, &RateLimits::default(), &mut events);
    assert_eq!(push(ThreadEvent::Rerouted { model: "n".to_owned() }), TurnStep::More);
    assert_eq!(
        push(ThreadEvent::Warning {
            message: "w".to_owned()
        }),
        TurnStep::More
    );
    let Message::Request(request) =
        message::read(r#"{"id":7,"method":"item/tool/requestUserInput","params":{"threadId":"t"}}"#)
    else {
        panic!("no request")
    };
    let (thread, event) = inbound::asked(&request);
    assert_eq!(thread.as_deref(), Some("t"));
    assert_eq!(push(event), TurnStep::Failed);
    let model = events.iter().find_map(|event| match event {
        Event::Outcome(outcome) => outcome.model.clone(),
        _ => None,
    });
    assert_eq!(model.as_deref(), Some("n"));
    assert_eq!(events.iter().filter_map(line_of).next().as_deref(), Some("warning w"));
}
