//! Calls that the thread has not brought, and quotations of calls that it has.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::corpus::{WAYS, calls};
use super::*;
use dfp_model::message::{Content, Message, MessageFields, Role};

/// The rules for the answer to a thread with these texts of a tool.
fn rules(texts: &[String], bound: &[&str], any_name: bool) -> TextCalls {
    let messages: Vec<Message> = texts.iter().map(|text| Message::new(Role::Tool, text)).collect();
    rules_of(&messages, bound, any_name)
}

fn rules_of(messages: &[Message], bound: &[&str], any_name: bool) -> TextCalls {
    let thread = ForeignTexts::of(messages, true);
    let bound = bound.iter().map(|name| (*name).to_owned());
    TextCalls::Unquoted(Arc::new(Unquoted::new(|| thread, bound, any_name)))
}

struct Found {
    calls: Vec<String>,
    invalid: Vec<(Option<String>, String)>,
    ignored: Option<String>,
    text: String,
}

fn read(rules: &TextCalls, text: &str) -> Found {
    let mut gate = Gate::new(rules);
    let mut shown = gate.push(text).unwrap_or_default();
    let (rest, calls) = gate.finish();
    shown.extend(rest);
    Found {
        calls: calls
            .tool_calls
            .iter()
            .map(|call| format!("{} {} {}", call.id, call.name, call.args.get()))
            .collect(),
        invalid: calls
            .invalid
            .into_iter()
            .map(|invalid| (invalid.name, invalid.error))
            .collect(),
        ignored: calls.ignored,
        text: shown,
    }
}

fn block(name: &str, args: &Value) -> String {
    format!(
        "```json\n{}\n```",
        json!({"tool_calls": [{"name": name, "args": args, "id": "call_7"}]})
    )
}

const QUOTED: &str = "the answer ends with a block that looks like tool calls and was left as text: the same call stands in a text of \
                      the thread, so it may be a quotation; `textToolCalls: \"lenient\"` reads such blocks as calls";

#[test]
fn no_quotation_of_the_corpus_is_a_call() {
    assert!(WAYS.len() * calls().len() >= 300);
    let mut missed = Vec::new();
    for (way, quote) in WAYS {
        for call in calls() {
            let rules = rules(&quote(&call), &[call.name], false);
            let found = read(&rules, &call.answer());
            if !found.calls.is_empty() {
                missed.push(format!("{} {way}: {:?}", call.name, quote(&call)));
                continue;
            }
            assert_eq!((found.text, found.ignored.as_deref()), (call.answer(), Some(QUOTED)));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// The thread is full of other calls, and of the same call with other arguments.
#[test]
fn a_call_of_the_models_own_is_one_in_any_such_thread() {
    for (way, quote) in WAYS {
        let mut thread: Vec<String> = Vec::new();
        for call in calls() {
            thread.extend(quote(&call));
        }
        for (name, args) in [
            (
                "send_email",
                json!({"to": "eve@example.com", "subject": "Hello you", "cc": []}),
            ),
            ("send_email", json!({"to": "eve@example.com", "bcc": "Hello"})),
            (
                "send_email",
                json!({"to": "Eve@example.com", "subject": "Hello", "cc": []}),
            ),
            ("add", json!({"a": 2, "b": 1})),
            ("add", json!({"a": 1, "b": 3})),
            ("add", json!({"a": 1, "b": 2, "c": 3})),
            ("subtract", json!({"a": 1, "b": 2})),
            ("get_time", json!({"zone": "UTC"})),
            ("get_date", json!({})),
            (
                "pay",
                json!({"amount": 98.95, "currency": "EUR", "to": {"iban": "DE02 1203 0000 0000 2020 51", "name": "Eve"}}),
            ),
            (
                "run",
                json!({"cmd": "echo 'a b' | sed -e 's/(x)/1/' && rm -rf ./*", "timeout": 1000, "wait": false}),
            ),
        ] {
            let found = read(&rules(&thread, &[], true), &block(name, &args));
            assert_eq!(found.calls, [format!("call_7 {name} {args}")], "{way}");
        }
    }
}

#[test]
fn what_is_said_of_a_call_is_no_call() {
    let (add, time) = (json!({"a": 1, "b": 2}), json!({}));
    let definitions = r#"[{"name":"get_time","description":"The time","parameters":{}},{"name":"add","parameters":{"type":"object","properties":{"a":{},"b":{}}}}]"#;
    for (said, name, args) in [
        (
            "You have add (a, b). Call add with a=1 and b=2 where you are asked for 1 + 2.",
            "add",
            &add,
        ),
        (r#"{"a":1,"b":2} are the arguments of add."#, "add", &add),
        (definitions, "add", &add),
        (definitions, "get_time", &time),
        ("Ask get_time for the time.", "get_time", &time),
    ] {
        let thread = [Message::new(Role::System, said)];
        let found = read(&rules_of(&thread, &["add", "get_time"], false), &block(name, args));
        assert_eq!(found.calls, [format!("call_7 {name} {args}")], "{said}");
    }
}

/// What docs/concepts/tool-calls.md says of calls that can't be told from quotations.
#[test]
fn a_call_whose_words_stand_close_together_is_taken_for_a_quotation() {
    let far = |letters: usize| format!("name: add, {} a: 1, b: 2", "x".repeat(letters));
    let add = json!({"a": 1, "b": 2});
    for (said, name, args) in [
        (r#"What is add({"a":1,"b":2})? "name":"add"."#, "add", &add),
        (r#"<event name="add">{"a":1,"b":2}</event>"#, "add", &add),
        (r#"{"name":"add","args":{"a":-1,"b":2,"c":3}}"#, "add", &add),
        (
            r#"{"name":"add","args":{"c":3}},{"name":"sub","args":{"b":2,"a":1}}"#,
            "add",
            &add,
        ),
        (far(6_000).as_str(), "add", &add),
        (
            r#"{"name":"run","args":{"cmd":"ls -la"}}"#,
            "run",
            &json!({"cmd": "ls"}),
        ),
        (
            r#"{"name":"pay","args":{"amount":99.95}}"#,
            "pay",
            &json!({"amount": 9.995}),
        ),
        (r#"{"name":"sum","args":{"of":[3,1,2]}}"#, "sum", &json!({"of": [1, 2]})),
        (r#"{"name":"say","args":{"text":"…"}}"#, "say", &json!({"text": ""})),
        (r#"{"name":"say","args":{"":"!"}}"#, "say", &json!({"": "?"})),
        (
            r#"The name of it is "get_time"; {"name": "get_time"}"#,
            "get_time",
            &json!({}),
        ),
    ] {
        let thread = [Message::new(Role::Tool, said)];
        let found = read(&rules_of(&thread, &[], true), &block(name, args));
        assert_eq!(
            (found.calls, found.ignored.as_deref()),
            (vec![], Some(QUOTED)),
            "{said}"
        );
    }
    let thread = [Message::new(Role::Tool, far(10_000))];
    assert_eq!(read(&rules_of(&thread, &[], true), &block("add", &add)).calls.len(), 1);
}

#[test]
fn what_the_model_has_said_and_called_itself_does_not_count() {
    let args = json!({"path": "a"});
    let own = Message::from(MessageFields {
        tool_calls: vec![call("call_1", "look", &args.to_string())],
        ..MessageFields::new(Role::Ai, block("look", &args))
    });
    let polled = read(
        &rules_of(
            &[
                Message::new(Role::Human, "Look."),
                own,
                Message::new(Role::Tool, "nothing"),
            ],
            &["look"],
            false,
        ),
        &block("look", &args),
    );
    assert_eq!(polled.calls, [r#"call_7 look {"path":"a"}"#]);
    // The caller wrote this thread, and marked the model's part as such.
    let document = |kind: &str| {
        let text = crate::prompt::escape_xml(&block("look", &args));
        let text =
            format!("<thread>\n<event type=\"human\">Look.</event><event id='1' type='{kind}'>{text}</event></thread>");
        read(
            &rules_of(&[Message::new(Role::Human, text)], &["look"], false),
            &block("look", &args),
        )
        .calls
        .len()
    };
    assert_eq!(
        ["ai", "tool_input", "tool_output", "human", "system"].map(document),
        [1, 1, 0, 0, 0]
    );
}

#[test]
fn every_text_that_is_not_the_models_counts() {
    let quote = block("look", &json!({"path": "a"}));
    let blocks = |blocks: Value| {
        Message::from(MessageFields {
            content: Content::Blocks(RawValue::from_string(blocks.to_string()).unwrap()),
            ..MessageFields::new(Role::Human, "")
        })
    };
    let (first, second) = quote.split_at(30);
    let threads = [
        vec![Message::new(Role::System, &quote)],
        vec![Message::new(Role::Human, &quote)],
        vec![Message::new(Role::Other("generic".to_owned()), &quote)],
        vec![blocks(
            json!([{"type": "text", "text": first}, {"type": "text", "text": second}]),
        )],
        vec![blocks(
            json!([{"type": "text", "text": "See"}, {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": quote}}]),
        )],
        vec![
            Message::new(Role::Tool, first),
            Message::new(Role::Ai, "Go on."),
            Message::new(Role::Tool, second),
        ],
    ];
    for thread in threads {
        let found = read(&rules_of(&thread, &["look"], false), &quote);
        assert_eq!((found.calls, found.text), (vec![], quote.clone()), "{thread:?}");
    }
    let thread = ForeignTexts::default().after(&quote);
    let rules = TextCalls::Unquoted(Arc::new(Unquoted::new(|| thread, [], true)));
    assert_eq!(read(&rules, &quote).calls.len(), 0);
}

/// An agent's answer used to be raw JSON when its model called a tool that the agent did not have. Upstream tells the model so,
/// and goes on.
#[test]
fn a_call_of_a_tool_that_is_not_bound_is_one() {
    let of = |names: &[&str]| {
        let calls: Vec<Value> = names.iter().map(|name| json!({"name": name, "args": {}})).collect();
        json!({ "tool_calls": calls }).to_string()
    };
    let bound = rules(&[], &["a", "b"], false);
    for (names, calls) in [
        (&["c"][..], &["call_0 c {}"][..]),
        (&["c", "d"], &["call_0 c {}", "call_1 d {}"]),
        (&["a", "c", "b"], &["call_0 a {}", "call_1 c {}", "call_2 b {}"]),
    ] {
        let found = read(&bound, &of(names));
        assert_eq!(
            (found.calls, found.invalid, found.ignored, found.text.as_str()),
            (calls.iter().map(ToString::to_string).collect(), vec![], None, "")
        );
    }
    let quoted = read(&rules(&[of(&["c"])], &["a"], false), &of(&["c"]));
    assert_eq!(
        (quoted.calls.len(), quoted.ignored.as_deref(), quoted.text),
        (0, Some(QUOTED), of(&["c"]))
    );
}

#[test]
fn what_cannot_be_read_counts_where_it_names_a_bound_tool() {
    let bound = rules(&[], &["a", "b"], false);
    let damaged = |name: &str| format!("{{\"tool_calls\":[{{\"name\":\"{name}\",\"args\":{{\"at\": }}}}]}}");
    assert_eq!(read(&bound, &damaged("c")).text, damaged("c"));
    let found = read(&bound, &damaged("a"));
    assert_eq!((found.invalid.len(), found.text.as_str()), (1, ""));
    let any = read(&rules(&[], &["a"], true), &damaged("c"));
    assert_eq!((any.invalid.len(), any.text.as_str()), (1, ""));
    let quoted = read(&rules(&[damaged("a")], &["a"], false), &damaged("a"));
    assert_eq!((quoted.invalid.len(), quoted.ignored.as_deref()), (0, Some(QUOTED)));
}

#[test]
fn a_call_behind_a_quotation_counts_and_one_before_it_does_not() {
    let quote = block("a", &json!({"x": 1}));
    let own = block("a", &json!({"x": 2}));
    let rules = rules(std::slice::from_ref(&quote), &["a"], false);
    let found = read(&rules, &format!("{quote}\nI look:\n{own}"));
    assert_eq!(
        (found.calls, found.text),
        (vec!["call_7 a {\"x\":2}".to_owned()], format!("{quote}\nI look:"))
    );
    let found = read(&rules, &format!("{own}\n{quote}"));
    assert_eq!((found.calls.len(), found.ignored.as_deref()), (0, Some(QUOTED)));
    // This is one of several calls in a block.
    let both = json!({"tool_calls": [{"name": "a", "args": {"x": 2}}, {"name": "a", "args": {"x": 1}}]}).to_string();
    assert_eq!(read(&rules, &both).text, both);
    assert_eq!(
        rules.remainder(&format!("{quote}\nI look:\n{own}")),
        format!("{quote}\nI look:")
    );
}

#[test]
fn an_object_of_another_key_is_held_back_until_it_is_none() {
    let thought = r#"{"thought":"I look","tool_calls":[{"name":"a","args":{}}]}"#;
    let rules = rules(&[], &["a"], false);
    let found = read(&rules, &format!("x\n```json\n{thought}\n```"));
    assert_eq!(
        (found.calls.as_slice(), found.text.as_str()),
        (&["call_0 a {}".to_owned()][..], "x")
    );
    let mut gate = Gate::new(&rules);
    let pieces = ["x {\"a\"", ": \"{\\\"b\\\"", "}\"}", " y {\"", "c", "\" d"];
    let shown: Vec<_> = pieces.map(|piece| gate.push(piece).unwrap_or_default()).into();
    assert_eq!(shown, ["x", "", " {\"a\": \"{\\\"b\\\"}\"}", " y", "", " {\"c\" d"]);
}

/// If the work grew with the square of a text, this would not end.
#[test]
fn hostile_threads_and_answers_are_compared_in_linear_time() {
    let length = 60_000;
    let args = json!({"a": {"b": [1, 2, 3]}, "c": "x".repeat(1_000)});
    let answer = block("add", &args);
    let start = &answer[..answer.len() - 60];
    for piece in [
        "name:add,",
        "\"name\":\"add\",\"args\":{",
        "{\"name\":\"add\",\"args\":{\"a\":{\"b\":[1,2,",
        start,
        "\\",
        "\\\\\"",
        "&amp;",
        "&",
        "<a",
        "<",
        "{",
        "}",
        "> ",
        "\n",
        "[",
        "[x] ",
        "\u{200b}",
        "\\u",
        "é",
    ] {
        for end in ["", "\n<b>{\"name\":\"add\",\"args\":"] {
            let thread = format!("{}{end}", piece.repeat(length / piece.len()));
            assert_eq!(
                read(&rules(&[thread], &["add"], false), &answer).calls.len(),
                1,
                "{piece}"
            );
        }
    }
    let deep = format!("{}{}", "{\"a\":[".repeat(5_000), "]}".repeat(5_000));
    let deep = format!("{{\"tool_calls\":[{{\"name\":\"a\",\"args\":{deep}}}]}}");
    assert_eq!(read(&rules(&[], &["a"], false), &deep).calls.len(), 1);
    assert_eq!(
        read(&rules(std::slice::from_ref(&deep), &["a"], false), &deep)
            .calls
            .len(),
        0
    );
    let wide: serde_json::Map<String, Value> = (0..20_000).map(|at| (at.to_string(), json!(at))).collect();
    let wide = block("a", &Value::Object(wide));
    assert_eq!(
        read(&rules(std::slice::from_ref(&wide), &["a"], false), &wide)
            .calls
            .len(),
        0
    );
    let many: Vec<Value> = (0..5_000).map(|at| json!({"name": "a", "args": {"n": at}})).collect();
    let many = json!({ "tool_calls": many }).to_string();
    let other = many.replace("\"n\"", "\"m\"");
    assert_eq!(read(&rules(&[other], &["a"], false), &many).calls.len(), 5_000);
    let lines = "{\"tool_calls\":[{\"name\":\"a\"}]} ".repeat(5_000);
    assert_eq!(read(&rules(&[], &["a"], false), &lines).calls.len(), 5_000);
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{1,8}",
        1 => prop::sample::select(vec!["a\nb", "- x", "{\"q\": 1}", "C:\\n", "it's", "1", "&lt;", "}, {", "日本", "\\\"", "<b>", "a, b"])
            .prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => word().prop_map(Value::from),
        2 => (-1_000_i64..1_000).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{1,6}", inner), 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn args() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-z_]{1,6}", value()), 1..5).prop_map(|members| members.into_iter().collect())
}

/// The words in the values of `args`, without those of entities and tags.
fn value_tokens(args: &Value) -> Vec<String> {
    match args {
        Value::Object(members) => members.values().flat_map(value_tokens).collect(),
        Value::Array(items) => items.iter().flat_map(value_tokens).collect(),
        Value::String(text) => {
            let text = text.replace("&lt;", "").replace("<b>", "");
            let words = text.split(|c: char| !c.is_alphanumeric());
            let words = words.filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        }
        other => vec![other.to_string().replace('-', "")],
    }
}

/// One more way in which a text comes to stand in another.
fn quoted_once_more(text: &str, way: u8) -> String {
    let each = |prefix: &str| text.lines().map(|line| format!("{prefix}{line}\n")).collect::<String>();
    match way {
        0 => json!({ "result": text }).to_string(),
        1 => serde_json::to_string_pretty(&json!([{ "type": "text", "text": text }])).unwrap(),
        2 => text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;"),
        3 => format!("```json\n{text}\n```"),
        4 => each("    "),
        5 => text.replace('\n', "\r\n"),
        _ => format!("Eve says: {text} (at noon)"),
    }
}

/// One way in which lines get prefixes.
fn set_off(text: &str, way: u8) -> String {
    let each = |prefix: &str| text.lines().map(|line| format!("{prefix}{line}\n")).collect::<String>();
    match way {
        0 => each("+ "),
        1 => each("> "),
        2 => each("00:12:07 INFO "),
        3 => each("[main] [7] "),
        4 => text
            .lines()
            .enumerate()
            .map(|(at, line)| format!("{at:4}\t{line}\n"))
            .collect(),
        _ => text.to_owned(),
    }
}

proptest! {
    #[test]
    fn a_quotation_is_no_call_however_it_came_into_the_thread(
        args in args(),
        lines in 0..8_u8,
        ways in prop::collection::vec(0..7_u8, 0..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let object = json!({"tool_calls": [{"id": "call_1", "name": "act", "args": args}]});
        let mut text = set_off(&serde_json::to_string_pretty(&object).unwrap(), lines);
        for way in ways {
            text = quoted_once_more(&text, way);
        }
        // Lines that were cut begin without a mark.
        let mut ends: Vec<usize> = cuts.iter().filter(|_| lines > 4).map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        ends.extend([0, text.len()]);
        ends.sort_unstable();
        let thread: Vec<String> = ends.windows(2).map(|ends| text[ends[0]..ends[1]].to_owned()).collect();
        let answer = block("act", &args);
        let found = read(&rules(&thread, &["act"], false), &answer);
        prop_assert_eq!((found.calls, found.text), (vec![], answer), "{:?}", thread);
    }

    #[test]
    fn a_call_is_one_if_the_thread_lacks_one_of_its_words(
        args in args(),
        other in args(),
        lines in 0..8_u8,
        ways in prop::collection::vec(0..7_u8, 0..4),
        prose in "[ -%'-~\n]{0,60}",
    ) {
        let changed = {
            let mut changed = args.clone();
            let first = changed.as_object_mut().and_then(|members| members.values_mut().next());
            if let Some(first) = first { *first = json!("changed"); }
            changed
        };
        let calls: Vec<Value> = [("act", &other), ("act", &changed)]
            .map(|(name, args)| json!({"id": "call_1", "name": name, "args": args})).into();
        let mut text = set_off(&serde_json::to_string_pretty(&json!({ "tool_calls": calls })).unwrap(), lines);
        // Letters and digits alone are compared, so two line numbers in a row, 8 and 9, are the word 89.
        let letters: String = format!("{prose}{text}").chars().filter(|c| c.is_alphanumeric()).collect();
        for way in ways {
            text = quoted_once_more(&text, way);
        }
        let thread = format!("{prose}{text}");
        prop_assume!(value_tokens(&args).iter().any(|word| !thread.contains(word) && !letters.contains(word)));
        let found = read(&rules(&[thread], &["act"], false), &block("act", &args));
        prop_assert_eq!(found.calls, vec![format!("call_7 act {args}")]);
    }

    #[test]
    fn however_an_answer_is_cut_it_is_read_the_same(
        before in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "\"", "\"tool_calls\"", "\"x\"", ":", "[", "]", ",", "```", "json", "\n", " ", "\\", "1", "text",
            "{\"x\":{\"tool_calls\":[{\"name\":\"a\"}]},", "{\"x\":1,", "\"tool_calls\":[{\"name\":\"a\"}]}", "~~~",
        ]), 0..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let text = before.concat();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        ends.extend([0, text.len()]);
        ends.sort_unstable();
        let rules = rules(&[], &["a"], false);
        let (mut gate, mut shown) = (Gate::new(&rules), String::new());
        for piece in ends.windows(2) {
            shown.extend(gate.push(&text[piece[0]..piece[1]]));
        }
        let (rest, calls) = gate.finish();
        shown.extend(rest);
        let whole = read(&rules, &text);
        prop_assert_eq!(&shown, &whole.text);
        prop_assert_eq!(calls.tool_calls.len(), whole.calls.len());
        if calls.is_empty() {
            prop_assert_eq!(shown, text);
        }
    }
}
