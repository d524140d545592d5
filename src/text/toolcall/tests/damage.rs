//! Unreadable calls, which were meant as calls.

use super::*;

type Reported = (Option<&'static str>, Option<&'static str>, &'static str, &'static str);

#[track_caller]
fn tells(name: &str, text: &str, calls: &[ToolCall], invalid: &[Reported], content: &str) {
    let expected = Extraction {
        tool_calls: calls.to_vec(),
        invalid: invalid
            .iter()
            .map(|(id, name, args, error)| InvalidToolCall {
                id: id.map(str::to_owned),
                name: name.map(str::to_owned),
                args: args.to_string(),
                error: error.to_string(),
            })
            .collect(),
        content: content.to_owned(),
        remainder: content.to_owned(),
    };
    assert_eq!(extract(text), expected, "{name}");
}

#[test]
fn entries_that_are_no_calls() {
    let good = call("call_0", "b", "{}");
    let cases: &[(&str, &str, Reported)] = &[
        (
            "no name",
            r#"{"id":"1","args":{}}"#,
            (Some("1"), None, r#"{"id":"1","args":{}}"#, "the call has no name"),
        ),
        (
            "empty name",
            r#"{"name":""}"#,
            (None, None, r#"{"name":""}"#, "the call has no name"),
        ),
        (
            "a number as name",
            r#"{"name":1}"#,
            (None, None, r#"{"name":1}"#, "the call has no name"),
        ),
        (
            "a list as args",
            r#"{"name":"a","args":[ 1]}"#,
            (None, Some("a"), "[ 1]", "the arguments are not an object"),
        ),
        (
            "a number as args",
            r#"{"name":"a","id":"1","input":1}"#,
            (Some("1"), Some("a"), "1", "the arguments are not an object"),
        ),
        (
            "a list in a string",
            r#"{"name":"a","args":"[1]"}"#,
            (None, Some("a"), r#""[1]""#, "the arguments are not an object"),
        ),
        (
            "half an object in a string",
            r#"{"name":"a","args":"{\"x\""}"#,
            (None, Some("a"), r#""{\"x\"""#, "the arguments are not an object"),
        ),
        (
            "a string",
            r#""a""#,
            (None, None, r#""a""#, "the call is not an object"),
        ),
        ("a list", "[null]", (None, None, "[null]", "the call is not an object")),
    ];
    for (name, entry, expected) in cases {
        let text = format!("x\n```json\n{{\"tool_calls\":[{entry},{{\"name\":\"b\"}}]}}\n```");
        tells(name, &text, std::slice::from_ref(&good), &[*expected], "x");
    }
}

#[test]
fn malformed_and_cut_off_json() {
    let b = call("call_0", "b", "{}");
    let good = r#"{"tool_calls":[{"name":"b"}]}"#;
    let comma = (
        None,
        None,
        r#"{"tool_calls":[{"name":"a",}]}"#,
        "the JSON is malformed: key must be a string at line 1 column 28",
    );
    let brace = (
        None,
        None,
        r#"{"tool_calls":[{"name":"a"}]"#,
        "the JSON is cut off: EOF while parsing an object at line 1 column 28",
    );
    let bracket = (
        None,
        None,
        r#"{"tool_calls":[{"name":"a"}}"#,
        "the JSON is malformed: expected `,` or `]` at line 1 column 28",
    );
    let quotes = (
        None,
        None,
        r#"{"why":"say "hi"","tool_calls":[{"name":"a"}]}"#,
        "the JSON is malformed: expected `,` or `}` at line 1 column 14",
    );
    let newline = (
        None,
        None,
        "{\"tool_calls\":[{\"name\":\"a\",\"args\":{\"x\":\"1\n2\"}}]}",
        "the JSON is malformed: control character (\\u0000-\\u001F) found while parsing a string at line 1 column 41",
    );
    let number = (
        None,
        None,
        r#"{"tool_calls":[{"name":01}]}"#,
        "the JSON is malformed: invalid number at line 1 column 25",
    );
    let string = (
        None,
        None,
        r#"{"tool_calls":[{"name":"a"#,
        "the JSON is cut off: EOF while parsing a string at line 1 column 25",
    );
    let list = (
        None,
        None,
        r#"{"tool_calls": ["#,
        "the JSON is cut off: EOF while parsing a list at line 1 column 16",
    );
    let key = (
        None,
        None,
        r#"{"tool_calls""#,
        "the JSON is cut off: EOF while parsing an object at line 1 column 13",
    );

    for (name, expected) in [
        ("comma", comma),
        ("bracket", bracket),
        ("quotes", quotes),
        ("newline", newline),
        ("number", number),
    ] {
        let json = expected.2;
        tells(name, &format!("x\n\n{json}\n\ny"), &[], &[expected], "x\n\n\n\ny");
        tells(name, &format!("x\n```json\n{json}\n```\ny"), &[], &[expected], "x\n\ny");
        tells(
            name,
            &format!("```json {json} ```\n{good}"),
            std::slice::from_ref(&b),
            &[expected],
            "",
        );
        tells(
            name,
            &format!("```json\n{good}\n{json}\n```\n"),
            std::slice::from_ref(&b),
            &[expected],
            "",
        );
    }
    for (name, expected) in [("string", string), ("list", list), ("key", key), ("brace", brace)] {
        let json = expected.2;
        tells(name, &format!("x\n{json}"), &[], &[expected], "x");
        tells(name, &format!("x\n```json\n{json}\n"), &[], &[expected], "x");
    }
    // A missing brace shows at the closing fence, and at the next opening one if that is missing too.
    tells(
        "brace",
        &format!("```json\n{}\n```\n{good}\nx", brace.2),
        std::slice::from_ref(&b),
        &[brace],
        "x",
    );
    tells(
        "brace",
        &format!("```json\n{}\n```json\n{good}\n```\nx", brace.2),
        std::slice::from_ref(&b),
        &[brace],
        "x",
    );
}

#[test]
fn damage_elsewhere_stays_text() {
    for text in [
        "```json\n{\"x\": 1,}\n```",
        "```json\n{\"x\": 1",
        "{\"x\": 1,} and {\"y\" = 2}",
        "{\"tool_calls\"} is the key",
        "{\"tool_ca",
        "{\"x\": [{\"tool_calls\": [{\"name\": \"a\"}",
    ] {
        tells(text, text, &[], &[], text);
    }
}
