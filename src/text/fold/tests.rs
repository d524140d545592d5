//! The fold of a decoder's events into public events and a reply.

use super::*;
use dfp_model::message::{InvalidToolCall, ToolCall};

fn run(events: Vec<Event>, taken: &[&str]) -> (Vec<String>, Folded) {
    let mut fold = Fold::new(taken.iter().map(|id| (*id).to_owned()).collect(), TextCalls::Lenient);
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
fn what_was_broken_off_is_no_part_of_what_comes_next() {
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
fn a_message_that_is_not_what_its_pieces_were_is_taken_whole() {
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
    let both = [true, false].map(|has_listener| {
        let (mut fold, mut out) = (
            Fold::new(HashSet::new(), TextCalls::Lenient).with_listener(has_listener),
            Vec::new(),
        );
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

fn native(id: &str, name: &str, args: &str) -> Event {
    Event::ToolCall {
        tool_call: ToolCall {
            id: id.into(),
            name: name.into(),
            args: serde_json::value::RawValue::from_string(args.into()).unwrap(),
        },
    }
}

/// An unreadable native call used to be lost on its way into the reply, so that nobody knew of it, least of all the model.
#[test]
fn a_native_call_that_can_t_be_read_is_in_the_reply() {
    let invalid = InvalidToolCall {
        id: Some("c1".into()),
        name: Some("get".into()),
        args: "{\"a\":".into(),
        error: "arguments are not JSON".into(),
    };
    let event = Event::InvalidToolCall {
        invalid_tool_call: invalid.clone(),
    };
    let (out, folded) = run(vec![event, native("c2", "get", "{}")], &[]);
    assert_eq!(
        out,
        [
            r#"{"type":"invalid_tool_call","invalidToolCall":{"id":"c1","name":"get","args":"{\"a\":","error":"arguments are not JSON"}}"#,
            r#"{"type":"tool_call","toolCall":{"id":"c2","name":"get","args":{}}}"#,
        ]
    );
    assert_eq!(folded.reply.invalid_tool_calls, [invalid]);
    assert_eq!(folded.reply.tool_calls.len(), 1);
}

#[test]
fn a_native_id_printed_twice_is_one_call() {
    let ids = |folded: &Folded| {
        let ids = folded
            .reply
            .tool_calls
            .iter()
            .map(|call| format!("{} {}", call.id, call.name));
        ids.collect::<Vec<_>>()
    };
    let twice = || vec![native("c1", "get", "{}"), native("c1", "get", "{}")];
    assert_eq!(ids(&run(twice(), &[]).1), ["c1 get"]);
    // The thread has a call of this id: the new call gets another id, and stays a call.
    let (out, folded) = run(twice(), &["c1"]);
    assert_eq!((out.len(), folded.reply.tool_calls.len()), (1, 1));
    assert_ne!(folded.reply.tool_calls[0].id, "c1");
    // Other arguments under the same id are another call: an API may give all calls of an answer one id.
    let folded = run(vec![native("c1", "get", "{}"), native("c1", "get", r#"{"a":1}"#)], &[]).1;
    assert_eq!(ids(&folded), ["c1 get", "c1_2 get"]);
    // Another tool under the same id, and calls without one, are calls of their own.
    let others = vec![
        native("c1", "get", "{}"),
        native("c1", "put", "{}"),
        native("", "get", "{}"),
        native("", "get", "{}"),
    ];
    assert_eq!(run(others, &[]).1.reply.tool_calls.len(), 4);
}

/// The result names the provider's id; the call in the reply has another one if the thread had that id already.
#[test]
fn a_call_the_cli_answered_is_known_by_the_id_it_was_given() {
    let result = || Event::ToolResult {
        tool_call_id: "c1".into(),
        content: "ok".into(),
        is_error: false,
    };
    let (out, folded) = run(vec![native("c1", "Bash", "{}"), result()], &["c1"]);
    let parsed = |json: &str| -> serde_json::Value { serde_json::from_str(json).unwrap() };
    assert_eq!(folded.reply.tool_calls, []);
    assert_eq!(parsed(&out[0])["toolCall"]["id"], parsed(&out[1])["toolCallId"]);
    // This CLI counts its calls anew in every step.
    let (_, folded) = run(
        vec![native("c1", "Bash", "{}"), result(), native("c1", "Bash", "{}")],
        &[],
    );
    assert_eq!(folded.reply.tool_calls.len(), 1);
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

/// claude's last event has the escapes in an answer by a schema resolved, although the model wrote them as text; the call that
/// gave the answer still has them.
#[test]
fn an_answer_by_a_schema_is_what_the_model_wrote() {
    let answer = |id: &str, args: &str| match native(id, "StructuredOutput", args) {
        Event::ToolCall { tool_call } => Event::Answer { tool_call },
        other => other,
    };
    let result = |id: &str, is_error| Event::ToolResult {
        tool_call_id: id.into(),
        content: String::new(),
        is_error,
    };
    let outcome = || {
        Event::Outcome(Box::new(Outcome {
            structured: Some(serde_json::json!({"a": "é"})),
            ..Outcome::default()
        }))
    };
    let good = r#"{"a":"\\u00e9"}"#;
    for events in [
        vec![answer("c1", good), outcome()],
        vec![answer("c1", good), result("c1", false), outcome()],
        vec![
            answer("c1", "{}"),
            result("c1", true),
            answer("c2", good),
            result("c2", false),
            outcome(),
        ],
    ] {
        let (_, folded) = run(events, &[]);
        assert_eq!(folded.reply.tool_calls, []);
        let structured = folded.outcome.and_then(|outcome| outcome.structured);
        assert_eq!(structured, Some(serde_json::json!({"a": "\\u00e9"})));
    }
}

/// A search of the CLI's own that stands beside a call of the caller's, which ends the turn.
#[test]
fn a_call_of_a_tool_of_the_clis_own_is_never_the_callers() {
    let mut fold = Fold::new(HashSet::new(), TextCalls::Off).with_own_tools(vec!["Search"]);
    let mut out = Vec::new();
    fold.push(native("s1", "Search", "{}"), &mut out);
    fold.push(native("a1", "add", "{}"), &mut out);
    let folded = fold.finish(&mut out);
    let calls: Vec<&str> = folded.reply.tool_calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(calls, ["add"]);
    let answered = out.iter().filter_map(|event| match event {
        Event::ToolResult {
            tool_call_id, is_error, ..
        } => Some((tool_call_id.as_str(), *is_error)),
        _ => None,
    });
    assert_eq!(answered.collect::<Vec<_>>(), [("s1", true)]);
}
