//! Tests of the events of a stream, however it is cut, and of the calls of an answer, whole and in pieces.

use proptest::prelude::*;

use super::*;
use dfp_model::message::ToolSpec;

fn read(pieces: &[&[u8]]) -> Vec<String> {
    let mut events = Events::default();
    let mut seen = Vec::new();
    for piece in pieces {
        events.push(piece, |data| seen.push(data.to_owned()));
    }
    events.finish(|data| seen.push(data.to_owned()));
    seen
}

#[test]
fn every_form_the_standard_knows() {
    for (body, expected) in [
        ("data: a\n\ndata:b\n\n", &["a", "b"][..]),
        ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &["a", "b", "c"]),
        ("\u{FEFF}data: a\n\n", &["a"]),
        ("data: a\n\n\u{FEFF}data: b\n\n", &["a"]),
        (": keep-alive\n\n:\n\ndata: a\n: in between\n\n", &["a"]),
        (
            "event: message\nid: 7\nretry: 10\ndata: {\"a\":\ndata:  1}\n\n",
            &["{\"a\":\n 1}"],
        ),
        ("data\n\ndata:\n\n", &["", ""]),
        ("database: x\n\ndata : y\n\n", &[]),
        ("data: a\n\ndata: cut", &["a", "cut"]),
        ("data: a\n\ndata: cut\n", &["a", "cut"]),
        ("", &[]),
    ] {
        assert_eq!(read(&[body.as_bytes()]), expected, "{body:?}");
    }
}

#[test]
fn an_event_over_the_limit_is_lost_and_those_around_it_are_not() {
    let body = b"data: 1\n\ndata: {\"a\":\"123456789\"}\n\ndata: 2\n\n";
    for size in [1, 2, 7, 100] {
        let mut events = Events::with_limit(16);
        let (mut seen, mut lost) = (Vec::new(), Vec::new());
        for piece in body.chunks(size) {
            events.push(piece, |data| seen.push(data.to_owned()));
            lost.extend(events.lost());
        }
        assert_eq!(seen, ["1", "2"], "{size}");
        let lost: Vec<_> = lost.iter().map(|cut| (cut.bytes(), cut.text(&[], "a"))).collect();
        assert_eq!(lost, [(17, Some("123456789".to_owned()))], "{size}");
        assert_eq!(events.waiting(), 0);
    }
}

#[test]
fn an_event_is_there_with_its_blank_line() {
    let mut events = Events::default();
    let mut seen = Vec::new();
    events.push(b"data: a\r\n", |data| seen.push(data.to_owned()));
    assert!(seen.is_empty());
    events.push(b"\r", |data| seen.push(data.to_owned()));
    assert_eq!(seen, ["a"]);
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_events(
        body in prop::collection::vec(prop::sample::select(vec![
            &b"data: "[..], b"data:{}", b"\n", b"\r\n", b"\r", b": x",
            b"\xEF\xBB\xBF", b"\xF0\x9F", "🦀".as_bytes(), b"event: y",
        ]), 0..40),
        size in 1usize..6,
    ) {
        let body = body.concat();
        let pieces: Vec<&[u8]> = body.chunks(size).collect();
        prop_assert_eq!(read(&pieces), read(&[&body]));
    }
}

fn calls(pieces: &[&str]) -> Vec<String> {
    let spec = ToolSpec {
        name: "a.b".to_owned(),
        description: None,
        schema: RawValue::from_string("{}".to_owned()).unwrap(),
    };
    let tools = Tools::new(&[spec], 64);
    let wire = tools.declared()[0].name.clone();
    let mut calls = AnswerCalls::default();
    for piece in pieces {
        let piece = piece.replace("$AB", &wire);
        let redactor = Redactor::default();
        let mut told = DeltaSink {
            tools: &tools,
            redactor: &redactor,
            events: Vec::new(),
        };
        calls.take(
            &mut Fields::default(),
            Some(serde_json::from_str(&piece).unwrap()),
            &mut told,
        );
    }
    let finished = calls
        .finish(&tools, &Redactor::default())
        .into_iter()
        .filter(|event| !matches!(event, Event::ToolCallDelta { .. }))
        .map(|event| match event {
            Event::ToolCall { tool_call: call } => format!("{} {} {}", call.id, call.name, call.args),
            Event::InvalidToolCall {
                invalid_tool_call: call,
            } => {
                format!(
                    "invalid {} {} {}: {}",
                    call.id.unwrap(),
                    call.name.unwrap(),
                    call.args,
                    call.error
                )
            }
            other => format!("{other:?}"),
        });
    finished.collect()
}

#[test]
fn pieces_by_the_book() {
    assert_eq!(
        calls(&[
            r#"[{"index":0,"id":"c1","type":"function","function":{"name":"$AB","arguments":""}}]"#,
            r#"[{"index":1,"id":"c2","function":{"name":"get","arguments":""}}]"#,
            r#"[{"index":1,"function":{"arguments":"{\"z\": 1.0,"}},{"index":0,"function":{"arguments":"{}"}}]"#,
            r#"[{"index":1,"function":{"arguments":"\"a\":2}"}}]"#,
        ]),
        ["c1 a.b {}", r#"c2 get {"z": 1.0,"a":2}"#]
    );
}

#[test]
fn servers_with_ways_of_their_own() {
    for (what, pieces, expected) in [
        (
            "id and name in every piece",
            &[
                r#"[{"index":0,"id":"c","function":{"name":"get","arguments":"{\"a\""}}]"#,
                r#"[{"index":0,"id":"c","function":{"name":"get","arguments":":1}"}}]"#,
                r#"[{"index":0,"id":"c","function":{"name":"get","arguments":""}}]"#,
            ][..],
            &[r#"c get {"a":1}"#][..],
        ),
        (
            "every call at index 0",
            &[
                r#"[{"index":0,"id":"c1","function":{"name":"get","arguments":"{}"}}]"#,
                r#"[{"index":0,"id":"c2","function":{"name":"get","arguments":"{}"}}]"#,
                r#"[{"index":0,"id":"","function":{"name":"get","arguments":"{\"a\":1}"}}]"#,
            ],
            &["c1 get {}", "c2 get {}", r#"call_2 get {"a":1}"#],
        ),
        (
            "no index, whole, with and without ids",
            &[
                r#"[{"id":"c1","function":{"name":"get","arguments":"{}"}},{"id":"c2","function":{"name":"get","arguments":"{}"}}]"#,
                r#"[{"function":{"name":"put","arguments":{"a": 1.0}}}]"#,
            ],
            &["c1 get {}", "c2 get {}", r#"call_2 put {"a": 1.0}"#],
        ),
        (
            "no index, in pieces",
            &[
                r#"[{"id":"c1","function":{"name":"get","arguments":"{\"a\":"}}]"#,
                r#"[{"function":{"arguments":"1}"}}]"#,
                r#"[{"id":"c2","function":{"name":"get"}}]"#,
                r#"[{"id":"c2","function":{"arguments":"{}"}}]"#,
            ],
            &[r#"c1 get {"a":1}"#, "c2 get {}"],
        ),
        (
            "a name in pieces, arguments of null",
            &[
                r#"[{"index":0,"id":"c","function":{"name":"get_"}}]"#,
                r#"[{"index":0,"function":{"name":"it","arguments":null}}]"#,
            ],
            &["c get_it {}"],
        ),
        (
            "a character cut in two",
            &[
                r#"[{"index":0,"id":"c","function":{"name":"get","arguments":"{\"a\":\"\ud83e"}}]"#,
                r#"[{"index":0,"function":{"arguments":"\udd80\ud800\"}"}}]"#,
            ],
            &["c get {\"a\":\"🦀\u{FFFD}\"}"],
        ),
        (
            "arguments that are none, a call without a name",
            &[
                r#"[{"index":0,"id":"c1","function":{"name":"get","arguments":"{\"a\":"}}]"#,
                r#"[{"index":1,"id":"c2","function":{"name":"get","arguments":"[1]"}}]"#,
                r#"[{"index":2,"id":"c3","function":{"arguments":"{}"}}, 7, {"index":"x"}]"#,
            ],
            &[
                "invalid c1 get {\"a\":: arguments are not JSON: EOF while parsing a value at line 1 column 5",
                "invalid c2 get [1]: arguments are not a JSON object",
                "invalid c3  {}: the call names no tool",
            ],
        ),
        (
            "arguments under an index of their own (Nebius, Cerebras)",
            &[
                r#"[{"index":0,"id":"c1","function":{"name":"get","arguments":""}}]"#,
                r#"[{"index":1,"function":{"arguments":"{\"a\":"}}]"#,
                r#"[{"index":1,"function":{"arguments":"1}"}}]"#,
                r#"[{"index":2,"id":"c2","function":{"name":"put","arguments":""}}]"#,
                r#"[{"index":3,"id":null,"function":{"name":null,"arguments":"{\"b\":2}"}}]"#,
            ],
            &[r#"c1 get {"a":1}"#, r#"c2 put {"b":2}"#],
        ),
        (
            "arguments that are nobody's, and a call without any",
            &[
                r#"[{"index":0,"id":"c1","function":{"name":"get","arguments":""}}]"#,
                r#"[{"index":1,"id":"c2","function":{"name":"put","arguments":"{\"a\":1}"}}]"#,
                r#"[{"index":2,"function":{"arguments":"{\"b\":2}"}}]"#,
            ],
            &[
                "invalid c1 get {}: its arguments came in pieces that say of no call that they are its",
                r#"c2 put {"a":1}"#,
                r#"invalid call_2  {"b":2}: the call names no tool"#,
            ],
        ),
        (
            "an object that is none yet, and the arguments behind it (Bedrock)",
            &[
                r#"[{"index":0,"id":"c1","function":{"name":"get","arguments":"{}"}}]"#,
                r#"[{"index":0,"function":{"arguments":"{\"a\":"}}]"#,
                r#"[{"index":0,"function":{"arguments":"1}"}}]"#,
                r#"[{"index":1,"id":"c2","function":{"name":"get","arguments":"{}"}}]"#,
                r#"[{"index":1,"id":"c2","function":{"name":"get","arguments":"{\"a\":2}"}}]"#,
                r#"[{"index":2,"id":"c3","function":{"name":"get","arguments":"{}"}}]"#,
                r#"[{"index":2,"function":{"arguments":" "}}]"#,
            ],
            &[r#"c1 get {"a":1}"#, r#"c2 get {"a":2}"#, "c3 get {}"],
        ),
        (
            "one id for all calls",
            &[
                r#"[{"index":0,"id":"c","function":{"name":"get","arguments":"{\"n\":1}"}}]"#,
                r#"[{"index":1,"id":"c","function":{"name":"get","arguments":"{\"n\":1}"}}]"#,
                r#"[{"id":"c","function":{"name":"get","arguments":"{\"n\":2}"}}]"#,
                r#"[{"id":"c","function":{"name":"get","arguments":"{\"n\":3}"}}]"#,
            ],
            &[
                r#"c get {"n":1}"#,
                r#"c_2 get {"n":1}"#,
                r#"c_3 get {"n":2}"#,
                r#"c_4 get {"n":3}"#,
            ],
        ),
    ] {
        assert_eq!(calls(pieces), expected, "{what}");
    }
}

/// The pieces of arguments that elements report, and the calls behind them.
fn deltas_of(pieces: &[&str], redactor: &Redactor) -> Vec<String> {
    let tools = Tools::new(
        &[ToolSpec {
            name: "get".to_owned(),
            description: None,
            schema: RawValue::from_string("{}".to_owned()).unwrap(),
        }],
        64,
    );
    let (mut calls, mut told) = (AnswerCalls::default(), Vec::new());
    for piece in pieces {
        let mut chunk = DeltaSink {
            tools: &tools,
            redactor,
            events: Vec::new(),
        };
        calls.take(
            &mut Fields::default(),
            Some(serde_json::from_str(piece).unwrap()),
            &mut chunk,
        );
        told.append(&mut chunk.events);
    }
    told.extend(calls.finish(&tools, redactor));
    let line = |event| match event {
        Event::ToolCallDelta {
            tool_call_id: id,
            name,
            delta,
        } => format!("{id} {name} {delta}"),
        Event::ToolCall { tool_call: call } => format!("call {} {}", call.id, call.args),
        Event::InvalidToolCall { .. } => "invalid".to_owned(),
        other => panic!("{other:?}"),
    };
    told.into_iter().map(line).collect()
}

/// Gemini wants its signatures back beside the calls that had them.
#[test]
fn what_stands_beside_a_function_is_kept_with_its_call() {
    let pieces = [
        r#"[{"index":0,"id":"c1","function":{"name":"get","arguments":""}}]"#,
        r#"[{"index":1,"id":"c2","type":"function","extra_content":{"google":{"thought_signature":"S"}},"function":{"name":"get","arguments":"{}"}}]"#,
    ];
    let tools = Tools::new(&[], 64);
    let redactor = Redactor::default();
    let (mut calls, mut told) = (
        AnswerCalls::default(),
        DeltaSink {
            tools: &tools,
            redactor: &redactor,
            events: Vec::new(),
        },
    );
    for piece in pieces {
        calls.take(
            &mut Fields::default(),
            Some(serde_json::from_str(piece).unwrap()),
            &mut told,
        );
    }
    let events = calls.finish(&tools, &redactor);
    let Some(Event::Reasoning { details }) = events.last() else {
        panic!("{events:?}")
    };
    let beside = |id: &str, index: usize| Value::Object(ReasoningDetail::beside(details, id, index)).to_string();
    assert_eq!(
        beside("c2", 7),
        r#"{"extra_content":{"google":{"thought_signature":"S"}}}"#
    );
    assert_eq!(beside("renamed", 1), beside("c2", 1));
    assert_eq!(beside("c1", 0), "{}");
}

#[test]
fn arguments_are_told_piece_by_piece() {
    let pieces = [
        r#"[{"index":0,"id":"c1","function":{"name":"get","arguments":""}}]"#,
        r#"[{"index":1,"id":"c2","function":{"name":"get","arguments":"{"}}]"#,
        r#"[{"index":0,"function":{"arguments":"{\"a\":\"\ud83e"}},{"index":1,"function":{"arguments":"}"}}]"#,
        r#"[{"index":0,"function":{"arguments":"\udd80\"}"}}]"#,
    ];
    assert_eq!(
        deltas_of(&pieces, &Redactor::default()),
        [
            "c2 get {",
            "c1 get {\"a\":\"",
            "c2 get }",
            "c1 get 🦀\"}",
            "call c1 {\"a\":\"🦀\"}",
            "call c2 {}"
        ]
    );
}

#[test]
fn what_is_not_by_the_book_is_told_whole() {
    for (case, piece) in [
        ("no id", r#"[{"index":0,"function":{"name":"get","arguments":"{}"}}]"#),
        (
            "no object",
            r#"[{"index":0,"id":"c","function":{"name":"get","arguments":"null"}}]"#,
        ),
        (
            "no tool of the caller's",
            r#"[{"index":0,"id":"c","function":{"name":"put","arguments":"{}"}}]"#,
        ),
    ] {
        assert_eq!(deltas_of(&[piece], &Redactor::default()).len(), 1, "{case}");
    }
    // An object that may be a placeholder is reported when something follows.
    let held = [
        r#"[{"index":0,"id":"c","function":{"name":"get","arguments":"{}"}}]"#,
        r#"[{"index":0,"function":{"arguments":"{\"a\":"}}]"#,
        r#"[{"index":0,"function":{"arguments":"1}"}}]"#,
    ];
    assert_eq!(
        deltas_of(&held, &Redactor::default()),
        ["c get {\"a\":", "c get 1}", "call c {\"a\":1}"]
    );
    assert_eq!(deltas_of(&held[..1], &Redactor::default()), ["call c {}"]);
    let twice = r#"[{"index":0,"id":"c","function":{"name":"get","arguments":"{"}},{"index":1,"id":"c","function":{"name":"get","arguments":"{}"}}]"#;
    assert!(!deltas_of(&[twice], &Redactor::default()).contains(&"c get {}".to_owned()));
}
