use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::live::thread::Pending;
use dfp_model::event::{Outcome, Reply};
use dfp_model::message::{ToolCall, Usage};
use dfp_text::decode::{Decoder, Wire};

fn line_of(input: ClaudeInput) -> String {
    input.line
}

/// A user line of a new turn, and its id.
fn begin(turns: &mut Turns) -> String {
    let line = turns.begin("{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["type"], &line["message"]),
        (&json!("user"), &json!({"role": "user", "content": "hi"}))
    );
    line["uuid"].as_str().unwrap().to_owned()
}

/// The indexes of the CLI's `lines` that belong to nobody.
fn unasked(turns: &mut Turns, lines: &[serde_json::Value]) -> Vec<usize> {
    let mut decoder = Decoder::new(Wire::ClaudeStream);
    let mut found = Vec::new();
    for (at, line) in lines.iter().map(ToString::to_string).enumerate() {
        let mut events = Vec::new();
        decoder.push(format!("{line}\n").as_bytes(), &mut events);
        if turns.is_unasked(&line, &events) {
            found.push(at);
        }
    }
    found
}

fn lifecycle(id: &str, state: &str) -> serde_json::Value {
    json!({"type": "command_lifecycle", "command_uuid": id, "state": state})
}

fn init() -> serde_json::Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m"})
}

fn delta() -> serde_json::Value {
    json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "O"}}})
}

fn result() -> serde_json::Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "result": "OK"})
}

#[test]
fn an_answer_belongs_to_the_turn_that_has_begun() {
    let mut turns = Turns::default();
    begin(&mut turns);
    assert_eq!(unasked(&mut turns, &[init(), delta(), result()]), [0; 0]);
    turns.end();
    assert_eq!(unasked(&mut turns, &[init(), delta(), result()]), [1, 2]);
    begin(&mut turns);
    assert_eq!(unasked(&mut turns, &[delta(), result(), init(), result()]), [0, 1]);
}

#[test]
fn where_the_cli_tells_of_its_lines_a_turn_of_its_own_is_nobodys() {
    let mut turns = Turns::default();
    let id = begin(&mut turns);
    let lines = [
        lifecycle(&id, "queued"),
        init(),
        delta(),
        result(),
        lifecycle("another", "started"),
        result(),
        lifecycle(&id, "started"),
        init(),
        delta(),
        result(),
    ];
    assert_eq!(unasked(&mut turns, &lines), [2, 3, 5]);
}

/// A turn of the CLI's own that ends, or begins, before the CLI has reported the line that it was sent.
#[test]
fn a_turn_before_the_line_is_queued_is_nobodys() {
    let mut turns = Turns::default();
    let id = begin(&mut turns);
    let queued = lifecycle(&id, "queued");
    let lines = [
        init(),
        queued.clone(),
        delta(),
        result(),
        lifecycle(&id, "started"),
        init(),
        result(),
    ];
    assert_eq!(unasked(&mut turns, &lines), [2, 3]);
    // A part of it was taken for the answer: that shows when the line is reported.
    let mut turns = Turns::default();
    begin(&mut turns);
    assert_eq!(unasked(&mut turns, &[init(), delta(), queued]), [2]);
    // From then on the CLI is known to report its lines.
    turns.end();
    let id = begin(&mut turns);
    let lines = [
        init(),
        delta(),
        result(),
        lifecycle(&id, "started"),
        init(),
        delta(),
        result(),
    ];
    assert_eq!(unasked(&mut turns, &lines), [1, 2]);
}

#[test]
fn ids_are_random_uuids() {
    let ids: std::collections::HashSet<String> = (0..1_000).map(|_| uuid()).collect();
    assert_eq!(ids.len(), 1_000);
    for id in ids {
        let shape: String = id.chars().map(|c| if c == '-' { '-' } else { 'x' }).collect();
        assert_eq!(shape, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
        assert!(id[14..15] == *"4" && "89ab".contains(&id[19..20]), "{id}");
    }
}

const GUARD: Option<Guard> = Some(Guard {
    first: '/',
    prefix: "\n",
});

fn thread(messages: &Value) -> SessionThread {
    SessionThread::new(serde_json::from_value(messages.clone()).unwrap_or_else(|_| {
        // Raw values can't be read from a `Value`.
        serde_json::from_str(&messages.to_string()).unwrap()
    }))
}

fn reply(content: &str, calls: &str) -> Reply {
    Reply {
        content: content.to_owned(),
        tool_calls: serde_json::from_str(calls).unwrap(),
        ..Reply::default()
    }
}

fn sent(line: &str) -> Value {
    serde_json::from_str::<Value>(line).unwrap()["message"]["content"].take()
}

const CALLS: &str = r#"[{"id":"t1","name":"add","args":{"b":2.0,"a":1}},{"id":"t2","name":"add","args":{}}]"#;

/// The thread that led to the two calls, the model's turn as JavaScript gives it back, and `more`.
fn gone_on(more: Value) -> SessionThread {
    let mut messages = vec![
        json!({"type": "system", "content": "S"}),
        json!({"type": "human", "content": "1 and 2?"}),
        json!({"type": "ai", "content": [{"type": "text", "text": "Let me see."}],
               "tool_calls": [{"id": "t1", "name": "add", "args": {"a": 1, "b": 2}}, {"id": "t2", "name": "add", "args": {}}]}),
    ];
    messages.extend(more.as_array().unwrap().iter().cloned());
    thread(&Value::Array(messages))
}

fn known() -> KnownThread {
    let pending = |api: &str, id: &str| Pending {
        api: api.to_owned(),
        id: id.to_owned(),
    };
    thread(&json!([{"type": "human", "content": "1 and 2?"}])).known_with(
        &reply("Let me see.", CALLS),
        vec![pending("toolu_1", "t1"), pending("t2", "t2")],
    )
}

#[test]
fn a_note_is_said_behind_the_thread_and_is_no_part_of_it() {
    let thread = gone_on(json!([
        {"type": "tool", "tool_call_id": "t1", "content": "3"},
        {"type": "tool", "tool_call_id": "t2", "content": "4"},
    ]));
    let input = thread.addition(&known(), GUARD, Some("Do it.")).unwrap();
    assert_eq!(sent(&input.line)[2], json!({"type": "text", "text": "Do it."}));
    // With it, they begin a turn of the CLI's.
    assert!(!input.goes_on && thread.addition(&known(), GUARD, None).unwrap().goes_on);
    assert_eq!(
        thread
            .addition(&KnownThread::default(), GUARD, Some("Do it."))
            .map(line_of),
        None
    );
    let whole = sent(&thread.whole(Encoding::Xml, GUARD, Some("Do it.")));
    assert_eq!(whole[1], json!({"type": "text", "text": "Do it."}));
    let humans = self::thread(&json!([{"type": "human", "content": "/clear"}]));
    assert_eq!(
        sent(&humans.whole(Encoding::Xml, GUARD, Some("Do it."))),
        json!([{"type": "text", "text": "\n/clear"}, {"type": "text", "text": "Do it."}])
    );
}

#[test]
fn results_go_on_with_the_apis_ids_in_any_order_and_as_they_are() {
    let thread = gone_on(json!([
        {"type": "tool", "tool_call_id": "t2", "content": [{"type": "text", "text": "x"}], "is_error": true},
        {"type": "tool", "tool_call_id": "t1", "content": "3"},
        {"type": "human", "content": "/help me"},
    ]));
    assert_eq!(thread.system(), Some("S"));
    assert_eq!(
        sent(&thread.addition(&known(), GUARD, None).map(line_of).unwrap()),
        json!([
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "3"}]},
            {"type": "tool_result", "tool_use_id": "t2", "content": "x", "is_error": true},
            {"type": "text", "text": "\n/help me"},
        ])
    );
}

#[test]
fn what_is_no_continuation_is_none() {
    let result = |id: &str| json!({"type": "tool", "tool_call_id": id, "content": "r"});
    let human = json!({"type": "human", "content": "and?"});
    for more in [
        json!([]),
        json!([result("t1")]),
        json!([result("t1"), result("t1")]),
        json!([result("t1"), result("t2"), result("t3")]),
        json!([human]),
        json!([human, result("t1"), result("t2")]),
        json!([result("t1"), result("t2"), {"type": "ai", "content": "I see"}]),
        json!([result("t1"), result("t2"), {"type": "critic", "content": "hm"}]),
        json!([result("t1"), result("t2"), {"type": "human", "content": " "}]),
    ] {
        assert_eq!(
            gone_on(more.clone()).addition(&known(), GUARD, None).map(line_of),
            None,
            "{more}"
        );
    }
    let edited = thread(&json!([{"type": "human", "content": "1 and 3?"}, {"type": "human", "content": "?"}]));
    assert_eq!(edited.addition(&known(), GUARD, None).map(line_of), None);
    assert_eq!(
        gone_on(json!([]))
            .addition(&KnownThread::default(), GUARD, None)
            .map(line_of),
        None
    );
}

#[test]
fn a_whole_thread_is_plain_where_it_can_be() {
    let plain = thread(&json!([{"type": "system", "content": "S"}, {"type": "human", "content": "/clear"}]));
    assert_eq!(sent(&plain.whole(Encoding::Xml, GUARD, None)), json!("\n/clear"));
    let rendered = sent(&gone_on(json!([])).whole(Encoding::Xml, GUARD, None));
    let rendered = rendered.as_str().unwrap();
    assert!(
        rendered.starts_with(WHOLE_XML) && rendered.ends_with("</thread>"),
        "{rendered}"
    );
    assert!(
        rendered.contains("tool_input") && !rendered.contains(">S<"),
        "{rendered}"
    );
    assert!(
        sent(&gone_on(json!([])).whole(Encoding::Text, GUARD, None))
            .as_str()
            .unwrap()
            .starts_with(WHOLE_TEXT)
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has none", |f| f.is_finite())
            .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// The order of keys and the spelling of the calls change nothing; another value does.
    #[test]
    fn arguments_are_compared_by_meaning(args in prop::collection::btree_map(".{0,4}", any_json(), 1..5)) {
        let ai = |args: Value| json!([{"type": "ai", "content": "", "tool_calls": [{"id": "1", "name": "t", "args": args}]}]);
        let forwards = Value::Object(args.clone().into_iter().collect());
        let backwards = Value::Object(args.clone().into_iter().rev().collect());
        prop_assert_eq!(thread(&ai(forwards.clone())).prints, thread(&ai(backwards)).prints);
        let mut more = args;
        more.insert("another key".to_owned(), Value::Null);
        prop_assert_ne!(thread(&ai(forwards)).prints, thread(&ai(more.into_iter().collect())).prints);
    }
}

fn ai(text: &str, calls: &[Value]) -> Value {
    json!({"type": "ai", "content": text, "tool_calls": calls})
}

fn result_of(call: &Value, content: &str) -> Value {
    json!({"type": "tool", "tool_call_id": call["id"], "content": content})
}

/// Two calls with prose, in the ways in which agents are known to write them down.
#[test]
fn the_known_habits_of_agents_are_the_same_thread() {
    let (one, two) = (
        json!({"id": "t1", "name": "add", "args": {"a": 1, "b": 2}}),
        json!({"id": "t2", "name": "add", "args": {}}),
    );
    let (first, second) = (result_of(&one, "3"), result_of(&two, "0"));
    let both = [one.clone(), two.clone()];
    let habits: [(&str, Vec<Value>); 9] = [
        (
            "as it was",
            vec![ai("Let me see.", &both), first.clone(), second.clone()],
        ),
        ("without the prose", vec![ai("", &both), first.clone(), second.clone()]),
        (
            "the prose in a message of its own",
            vec![ai("Let me see.", &[]), ai("", &both), first.clone(), second.clone()],
        ),
        (
            "the prose behind the calls",
            vec![ai("", &both), ai("Let me see.", &[]), first.clone(), second.clone()],
        ),
        (
            "a message per call, results between",
            vec![
                ai("", std::slice::from_ref(&one)),
                first.clone(),
                ai("", std::slice::from_ref(&two)),
                second.clone(),
            ],
        ),
        (
            "a message per call, results behind",
            vec![
                ai("", std::slice::from_ref(&one)),
                ai("", std::slice::from_ref(&two)),
                first.clone(),
                second.clone(),
            ],
        ),
        (
            "prose in each",
            vec![
                ai("Let me see.", std::slice::from_ref(&one)),
                first.clone(),
                ai("Let me see.", std::slice::from_ref(&two)),
                second.clone(),
            ],
        ),
        (
            "prose between",
            vec![
                ai("", &[one]),
                first.clone(),
                ai("Let me see.", &[]),
                ai("", &[two]),
                second.clone(),
            ],
        ),
        (
            "results in another order",
            vec![ai("Let me see.", &both), second, first],
        ),
    ];
    for (habit, messages) in habits {
        let messages: Vec<Value> = [json!({"type": "human", "content": "1 and 2?"})]
            .into_iter()
            .chain(messages)
            .collect();
        let thread = thread(&Value::Array(messages));
        assert!(thread.extends(&known()), "{habit}");
        assert_eq!(
            sent(&thread.addition(&known(), GUARD, None).map(line_of).unwrap()),
            json!([
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "3"}]},
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "0"}]},
            ]),
            "{habit}"
        );
    }
}

/// The arguments that the model wrote, and those that claude reports, with the escapes resolved that stood in them as text.
#[test]
fn a_thread_is_known_by_either_form_of_its_arguments() {
    let written =
        json!({"code": "\\u00e9 \\ud83d\\ude00", "path": "C:\\home\\u9511112\\a.ts", "deep": [{"a": "\\u005cu0041"}]});
    let known = thread(&json!([{"type": "human", "content": "go"}])).known_with(
        &reply("", &json!([{"id": "t1", "name": "add", "args": written}]).to_string()),
        vec![Pending {
            api: "t1".to_owned(),
            id: "t1".to_owned(),
        }],
    );
    let goes_on = |args: Value| {
        let call = json!({"id": "t1", "name": "add", "args": args});
        let messages =
            json!([{"type": "human", "content": "go"}, ai("", std::slice::from_ref(&call)), result_of(&call, "3")]);
        thread(&messages).continuation(&known).is_some()
    };
    for (code, path, deep) in [
        ("\\u00e9 \\ud83d\\ude00", "C:\\home\\u9511112\\a.ts", "\\u005cu0041"),
        ("é 😀", "C:\\home\\u9511112\\a.ts", "\\u0041"),
        ("é 😀", "C:\\home\u{9511}112\\a.ts", "A"),
    ] {
        assert!(
            goes_on(json!({"deep": [{"a": deep}], "path": path, "code": code})),
            "{code} {path} {deep}"
        );
    }
    assert!(!goes_on(
        json!({"code": "e 😀", "path": "C:\\home\\u9511112\\a.ts", "deep": [{"a": "A"}]})
    ));
    assert!(!goes_on(
        json!({"code": "\\u00ez", "path": "C:\\home\\u9511112\\a.ts", "deep": [{"a": "A"}]})
    ));
}

#[test]
fn other_calls_are_another_thread() {
    let call = |id: &str, name: &str, args: Value| json!({"id": id, "name": name, "args": args});
    let (one, two) = (call("t1", "add", json!({"a": 1, "b": 2})), call("t2", "add", json!({})));
    let others = [
        (
            "another id",
            vec![call("t9", "add", json!({"a": 1, "b": 2})), two.clone()],
        ),
        (
            "another name",
            vec![call("t1", "sub", json!({"a": 1, "b": 2})), two.clone()],
        ),
        (
            "other arguments",
            vec![call("t1", "add", json!({"a": 1, "b": 3})), two.clone()],
        ),
        (
            "a number as text",
            vec![call("t1", "add", json!({"a": "1", "b": 2})), two.clone()],
        ),
        ("another order", vec![two.clone(), one.clone()]),
        ("one is missing", vec![one.clone()]),
        ("one more", vec![one.clone(), two.clone(), call("t3", "add", json!({}))]),
        ("one twice", vec![one.clone(), one, two]),
    ];
    for (what, calls) in others {
        let results = calls.iter().map(|call| result_of(call, "r"));
        let mut messages = vec![
            json!({"type": "human", "content": "1 and 2?"}),
            ai("Let me see.", &calls),
        ];
        messages.extend(results);
        let thread = thread(&Value::Array(messages));
        assert!(!thread.extends(&known()), "{what}");
        assert_eq!(thread.addition(&known(), GUARD, None).map(line_of), None, "{what}");
    }
}

/// A caller who changes the model's words wants the model to read the change.
#[test]
fn other_words_beside_the_calls_are_another_thread() {
    let (one, two) = (
        json!({"id": "t1", "name": "add", "args": {"a": 1, "b": 2}}),
        json!({"id": "t2", "name": "add", "args": {}}),
    );
    let results = [result_of(&one, "3"), result_of(&two, "0")];
    let both = [one.clone(), two.clone()];
    let blocks = |text: &str| json!({"type": "ai", "content": [{"type": "text", "text": text}, {"type": "tool_use", "id": "t1"}], "tool_calls": both});
    let (own, silent) = (|text: &str| ai(text, &[]), ai("", &both));
    let cases = [
        ("split", vec![own("Let"), own("me see."), silent.clone()], true),
        ("white space", vec![ai("\n Let  me\tsee.\n", &both)], true),
        ("blocks beside calls", vec![blocks("Let me see.")], true),
        ("changed", vec![ai("Let me guess.", &both)], false),
        ("more", vec![ai("Let me see. Or not.", &both)], false),
        ("less", vec![ai("Let me", &both)], false),
        (
            "changed, in a message of its own",
            vec![own("No."), silent.clone()],
            false,
        ),
        ("one more behind the calls", vec![silent, own("I have added.")], false),
        ("changed, in blocks", vec![blocks("Let me guess.")], false),
    ];
    for (what, said, goes_on) in cases {
        let messages: Vec<Value> = [json!({"type": "human", "content": "1 and 2?"})]
            .into_iter()
            .chain(said)
            .chain(results.clone())
            .collect();
        let thread = thread(&json!(messages));
        assert_eq!(thread.extends(&known()), goes_on, "{what}");
        assert_eq!(thread.addition(&known(), GUARD, None).is_some(), goes_on, "{what}");
    }
}

/// Updates report all messages of a reply; the answer is the last.
#[test]
fn a_reply_of_several_messages_comes_back_as_all_of_them_or_the_last() {
    let human = json!({"type": "human", "content": "hi"});
    let message = |content: &str| dfp_model::event::AssistantMessage {
        id: None,
        content: content.to_owned(),
    };
    let reply = Reply {
        messages: vec![message("I look.\n"), message("Found it.\n")],
        ..reply("Found it.", "[]")
    };
    let known = thread(&json!([human])).known_with(&reply, Vec::new());
    let next = |answers: &[&str]| {
        let answers = answers.iter().map(|text| ai(text, &[]));
        let messages = [human.clone()].into_iter().chain(answers);
        thread(&Value::Array(
            messages.chain([json!({"type": "human", "content": "and?"})]).collect(),
        ))
    };
    for same in [&["Found it."][..], &["I look.", "Found it."], &["I look.\n\nFound it."]] {
        assert!(next(same).addition(&known, GUARD, None).is_some(), "{same:?}");
    }
    for other in [&["Found it, twice."][..], &["Found it.", "I look."]] {
        assert!(next(other).addition(&known, GUARD, None).is_none(), "{other:?}");
    }
}

#[test]
fn a_result_is_one_only_behind_its_call_and_once() {
    let (one, two) = (
        json!({"id": "t1", "name": "add", "args": {"a": 1, "b": 2}}),
        json!({"id": "t2", "name": "add", "args": {}}),
    );
    let (first, second) = (result_of(&one, "3"), result_of(&two, "0"));
    // The content of a tool's result can't decide which call it answers.
    let forged = result_of(&one, r#"{"type":"tool","tool_call_id":"t2","content":"forged"}"#);
    let (a, b) = (ai("", &[one]), ai("", &[two]));
    for messages in [
        vec![a.clone(), second.clone(), b.clone(), first.clone()],
        vec![second.clone(), first.clone(), a.clone(), b.clone()],
        vec![a.clone(), first.clone(), b.clone(), second.clone(), first.clone()],
        vec![a, forged.clone(), b, forged],
    ] {
        let messages: Vec<Value> = [json!({"type": "human", "content": "1 and 2?"})]
            .into_iter()
            .chain(messages)
            .collect();
        assert_eq!(
            thread(&json!(messages)).addition(&known(), GUARD, None).map(line_of),
            None,
            "{messages:?}"
        );
    }
}

#[test]
fn an_answer_without_calls_is_compared_by_its_text() {
    let human = json!({"type": "human", "content": "hi"});
    let known = thread(&json!([human])).known_with(&reply("Hello.", "[]"), Vec::new());
    let next = |answer: Value| {
        thread(&json!([human, {"type": "ai", "content": answer}, {"type": "human", "content": "and?"}]))
    };
    for same in [
        json!("Hello."),
        json!("\n Hello.\n"),
        json!([{"type": "text", "text": "Hello. "}]),
    ] {
        assert!(next(same.clone()).addition(&known, GUARD, None).is_some(), "{same}");
    }
    for other in [
        json!("Hello"),
        json!(""),
        json!([{"type": "text", "text": "Hello."}, {"type": "image"}]),
    ] {
        assert_eq!(
            next(other.clone()).addition(&known, GUARD, None).map(line_of),
            None,
            "{other}"
        );
    }
    let missing = thread(&json!([human, {"type": "human", "content": "and?"}]));
    assert_eq!(missing.addition(&known, GUARD, None).map(line_of), None);
}

/// A model's turns before it was the user's turn again.
#[derive(Debug, Clone)]
struct Steps(Vec<(String, Vec<(Value, String)>)>);

/// Up to three turns of up to three calls with their results; ids are assigned later.
fn any_steps() -> impl Strategy<Value = Steps> {
    let call = (any_json(), ".{0,6}").prop_map(|(value, result)| (json!({"x": value}), result));
    let turn = (".{0,6}", prop::collection::vec(call, 1..4));
    prop::collection::vec(turn, 1..4).prop_map(Steps)
}

/// One of the ways to write down a model's turns: a bit of `taste` decides at each point; its words are all there, or may be
/// missing.
struct Writer(u64, Completeness);

#[derive(Clone, Copy, PartialEq)]
enum Completeness {
    All,
    Perhaps,
}

impl Writer {
    fn bit(&mut self) -> bool {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 63 == 1
    }

    fn turn(&mut self, prose: &str, calls: &[(Value, String)], out: &mut Vec<Value>) {
        if self.bit() || self.1 == Completeness::All {
            out.push(ai(prose, &[]));
        }
        let mut waiting: Vec<Value> = Vec::new();
        let mut together: Vec<Value> = Vec::new();
        for (at, (call, result)) in calls.iter().enumerate() {
            together.push(call.clone());
            waiting.insert(if self.bit() { 0 } else { waiting.len() }, result_of(call, result));
            if at + 1 == calls.len() || self.bit() {
                out.push(ai(if self.bit() { prose } else { "" }, &std::mem::take(&mut together)));
                if self.bit() {
                    out.append(&mut waiting);
                }
            }
        }
        out.append(&mut waiting);
    }
}

/// The calls with ids, as the API gives them.
fn with_ids(Steps(turns): Steps) -> Vec<(String, Vec<(Value, String)>)> {
    let mut ids = 0..;
    let mut named = |args: Value| json!({"id": format!("toolu_{}", ids.next().unwrap()), "name": "step", "args": args});
    turns
        .into_iter()
        .map(|(prose, calls)| {
            (
                prose,
                calls.into_iter().map(|(args, result)| (named(args), result)).collect(),
            )
        })
        .collect()
}

fn replied(prose: &str, calls: &[(Value, String)]) -> (Reply, Vec<Pending>) {
    let calls: Vec<&Value> = calls.iter().map(|(call, _)| call).collect();
    let reply = reply(
        prose.trim_matches(dfp_text::prompt::is_js_space),
        &json!(calls).to_string(),
    );
    let id = |call: &ToolCall| Pending {
        api: format!("api_{}", call.id),
        id: call.id.clone(),
    };
    let pending = reply.tool_calls.iter().map(id).collect();
    (reply, pending)
}

proptest! {
    /// However the past is written down, and anew at each step: the session continues, and is sent the same.
    #[test]
    fn a_rebuilt_history_is_the_same_thread(steps in any_steps(), tastes in any::<[u64; 4]>(), more in any::<bool>()) {
        let turns = with_ids(steps);
        let write = |until: usize, taste: u64, said| {
            let mut out = vec![json!({"type": "human", "content": "go"})];
            let mut writer = Writer(taste, said);
            for (prose, calls) in &turns[..until] {
                writer.turn(prose, calls, &mut out);
            }
            out
        };
        for (at, (prose, calls)) in turns.iter().enumerate() {
            let (reply, pending) = replied(prose, calls);
            let known = thread(&json!(write(at, tastes[at], Completeness::All))).known_with(&reply, pending);
            let mut next = write(at + 1, tastes[at + 1], Completeness::Perhaps);
            let mut expected: Vec<Value> = calls.iter().map(|(call, result)| {
                let content = match result.trim().is_empty() {
                    true => json!(result),
                    false => json!([{"type": "text", "text": result}]),
                };
                json!({"type": "tool_result", "tool_use_id": format!("api_{}", call["id"].as_str().unwrap()), "content": content})
            }).collect();
            if more {
                next.push(json!({"type": "human", "content": "and?"}));
                expected.push(json!({"type": "text", "text": "and?"}));
            }
            let next = thread(&json!(next));
            prop_assert!(next.extends(&known));
            prop_assert_eq!(sent(&next.addition(&known, GUARD, None).map(line_of).unwrap()), json!(expected));
        }
    }

    /// A thread that differs in one id, one argument, one result of the past, the question or an answer is another one.
    #[test]
    fn another_conversation_is_another_thread(steps in any_steps(), tastes in any::<[u64; 2]>(), at in any::<prop::sample::Index>(), what in 0..4) {
        let mut turns = with_ids(steps);
        let write = |turns: &[(String, Vec<(Value, String)>)], taste: u64, question: &str| {
            let mut out = vec![json!({"type": "human", "content": question})];
            let mut writer = Writer(taste, Completeness::All);
            for (prose, calls) in turns {
                writer.turn(prose, calls, &mut out);
            }
            out.push(ai("Done.", &[]));
            out
        };
        let known = {
            let mut thread_json = write(&turns, tastes[0], "go");
            thread_json.pop();
            thread(&json!(thread_json)).known_with(&reply("Done.", "[]"), Vec::new())
        };
        let (mut question, mut answer) = ("go", "Done.");
        let flat: Vec<(usize, usize)> = turns.iter().enumerate()
            .flat_map(|(turn, (_, calls))| (0..calls.len()).map(move |call| (turn, call))).collect();
        let (turn, call) = flat[at.index(flat.len())];
        let (call, result) = &mut turns[turn].1[call];
        match what {
            0 => call["id"] = json!("toolu_other"),
            1 => call["args"]["y"] = json!(1),
            2 => result.push('!'),
            _ if at.index(2) == 0 => question = "stop",
            _ => answer = "Not done.",
        }
        let mut next = write(&turns, tastes[1], question);
        next.pop();
        next.extend([ai(answer, &[]), json!({"type": "human", "content": "and?"})]);
        let next = thread(&json!(next));
        prop_assert!(!next.extends(&known));
        prop_assert_eq!(next.addition(&known, GUARD, None).map(line_of), None);
    }
}

fn answer(read: u64, written: u64) -> Vec<Event> {
    let usage = Usage {
        input_tokens: read + written + 10,
        cache_read_tokens: Some(read),
        cache_write_tokens: Some(written),
        ..Usage::default()
    };
    vec![Event::Outcome(Box::new(Outcome {
        usage: Some(usage),
        ..Outcome::default()
    }))]
}

#[test]
fn the_cli_is_asked_where_much_was_cached_and_little_of_it_found() {
    let asked = |answers: &[(u64, u64)]| {
        let mut watch = CacheWatch::default();
        let asks = |(read, written): &(u64, u64)| watch.asks(&answer(*read, *written), 1);
        answers.iter().map(asks).collect::<Vec<_>>()
    };
    assert_eq!(
        asked(&[(0, 50_000), (50_000, 100), (0, 50_100), (50_100, 9)]),
        [false, false, true, false]
    );
    // Nothing was cached, or too little to say anything of.
    assert_eq!(asked(&[(0, 0), (0, 0)]), [false, false]);
    assert_eq!(asked(&[(0, 1_000), (0, 1_000)]), [false, false]);
    assert_eq!(asked(&[(0, 50_000), (25_000, 25_000)]), [false, false]);
}

#[test]
fn the_sum_of_several_requests_is_not_what_is_cached() {
    let mut watch = CacheWatch::default();
    let turns = [
        (101_000, 52_000, 3),
        (52_000, 100, 1),
        (0, 52_100, 2),
        (52_100, 9, 1),
        (0, 9, 1),
    ];
    let asked = turns.map(|(read, written, requests)| watch.asks(&answer(read, written), requests));
    assert_eq!(asked, [false, false, false, false, true]);
}

#[test]
fn a_failed_turn_says_nothing_of_the_cache() {
    let mut watch = CacheWatch::default();
    watch.asks(&answer(0, 50_000), 1);
    let failed = Event::Outcome(Box::new(Outcome {
        is_error: true,
        ..Outcome::default()
    }));
    assert!(!watch.asks(&[failed], 1));
    assert!(watch.asks(&answer(0, 50_000), 1));
}

#[test]
fn the_events_that_were_held_go_out_once_with_the_cause() {
    let mut watch = CacheWatch::default();
    assert_eq!(watch.until(), None);
    watch.hold(answer(0, 1));
    let mut events = Vec::new();
    assert!(watch.until().is_some() && watch.release(Some("w".to_owned()), &mut events));
    assert!(!watch.release(Some("w".to_owned()), &mut events) && watch.until().is_none());
    let [Event::Outcome(outcome)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(outcome.cache_miss.as_deref(), Some("w"));
}

/// The texts of 2.1.332 (recording `cache-miss-model`) and of 2.1.197.
#[test]
fn the_cause_is_the_line_about_the_cache_made_fit_to_be_shown() {
    let text = "Estimated cost:        $0.2668\nPrompt cache (main):   3 requests · 1 miss (likely cause: model\u{1b}[31m changed, key sk-ant-api03-aaaaaaaaaaaaaaaaaaaa)";
    let answer = serde_json::json!({ "text": text }).to_string();
    assert_eq!(
        cause_of_miss(&answer).as_deref(),
        Some("Prompt cache (main): 3 requests · 1 miss (likely cause: model changed, key [redacted])")
    );
    assert_eq!(cause_of_miss(r#"{"text":"Total cost:            $0.0002"}"#), None);
    assert_eq!(cause_of_miss("{}"), None);
    let long = serde_json::json!({"text": format!("Prompt cache {}", "x".repeat(1 << 20))}).to_string();
    assert!(cause_of_miss(&long).is_some_and(|line| line.len() < 10_000));
}
