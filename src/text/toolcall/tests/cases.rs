//! Calls as models write them, and answers without any.

use super::*;

const A: &str = r#"{"tool_calls":[{"name":"a","args":{"x":1},"id":"i"}]}"#;
const B: &str = r#"{"tool_calls":[{"name":"b"}]}"#;

/// The calls as `id name args`, and the content; asserts that nothing is invalid.
fn found(text: &str) -> (Vec<String>, String) {
    let extraction = extract(text);
    assert_eq!(extraction.invalid, [], "{text}");
    let calls = extraction.tool_calls.iter();
    let calls = calls
        .map(|call| format!("{} {} {}", call.id, call.name, call.args.get()))
        .collect();
    (calls, extraction.content)
}

#[track_caller]
fn finds(name: &str, text: &str, calls: &[&str], content: &str) {
    assert_eq!(
        found(text),
        (calls.iter().map(|call| call.to_string()).collect(), content.to_owned()),
        "{name}"
    );
}

#[test]
fn in_every_place_models_put_them() {
    let a: &[&str] = &[r#"i a {"x":1}"#];
    let ab: &[&str] = &[r#"i a {"x":1}"#, "call_1 b {}"];
    let cases: &[(&str, String, &[&str], &str)] = &[
        (
            "two blocks",
            format!("1\n```json\n{A}\n```\n2\n```json\n{B}\n```\n3"),
            ab,
            "1\n\n2\n\n3",
        ),
        ("upper case", format!("```JSON\n{A}\n```"), a, ""),
        ("title case", format!("```Json\n{A}\n```"), a, ""),
        ("no info", format!("```\n{A}\n```"), a, ""),
        ("info tool_calls", format!("```tool_calls\n{A}\n```"), a, ""),
        ("info javascript", format!("```javascript\n{A}\n```"), a, ""),
        ("info after a space", format!("``` json\n{A}\n```"), a, ""),
        ("no space after info", format!("```json{A}```"), a, ""),
        ("tildes", format!("~~~json\n{A}\n~~~\nx"), a, "x"),
        ("four backticks", format!("````json\n{A}\n````"), a, ""),
        ("longer closing fence", format!("```json\n{A}\n`````"), a, ""),
        ("indented", format!("- do:\n  ```json\n    {A}\n  ```\n"), a, "- do:"),
        ("crlf", format!("x\r\n```json\r\n{A}\r\n```\r\ny"), a, "x\r\n\r\ny"),
        ("blank lines", format!("```json\n\n\n{A}\n\n\n```"), a, ""),
        (
            "fence in mid-line",
            format!("Calling: ```json\n{A}\n```"),
            a,
            "Calling:",
        ),
        (
            "text behind the closing fence",
            format!("```json\n{A}\n```More"),
            a,
            "More",
        ),
        ("no fence", A.to_owned(), a, ""),
        (
            "no fence, prose before and after",
            format!("Sure.\n{A}\nDone."),
            a,
            "Sure.\n\nDone.",
        ),
        ("no fence, same line", format!("Sure: {A} (done)"), a, "Sure:  (done)"),
        ("no fence, two", format!("{A}\n{B}"), ab, ""),
        ("no fence, side by side", format!("{A}{B}"), ab, ""),
        ("one block, two objects", format!("```json\n{A}\n{B}\n```\nx"), ab, "x"),
        (
            "one block, another object first",
            format!("```json\n{{\"x\":1}}\n{A}\n```"),
            a,
            "```json\n{\"x\":1}\n\n```",
        ),
        (
            "one block, another object last",
            format!("```json\n{A}\n{{\"x\":1}}\n```"),
            a,
            "{\"x\":1}",
        ),
        (
            "one block, text behind",
            format!("```json\n{A}\nThat's it.\n```\nx"),
            a,
            "That's it.\n\nx",
        ),
        ("no closing fence", format!("x\n```json\n{A}\n"), a, "x"),
        ("half a closing fence", format!("```json\n{A}\n``"), a, "``"),
        ("in backticks on a line of its own", format!("x\n`{A}`\ny"), a, "x\n\ny"),
        (
            "behind a code block",
            format!("```ts\nlet a = {{}};\n```\n```json\n{A}\n```"),
            a,
            "```ts\nlet a = {};\n```",
        ),
        (
            "behind a block closed in mid-line",
            format!("```ts\nlet a;```\n{A}"),
            a,
            "```ts\nlet a;```",
        ),
        (
            "behind a block on one line",
            format!("```ts let a;```\n{A}"),
            a,
            "```ts let a;```",
        ),
        (
            "behind an unclosed block",
            format!("```sh\nls\n\n```json\n{A}\n```"),
            a,
            "```sh\nls",
        ),
        ("behind an empty block", format!("```\n```\n{A}"), a, "```\n```"),
        (
            "behind fences in prose",
            format!("Use ``` for code.\n```json\n{A}\n```"),
            a,
            "Use ``` for code.",
        ),
        (
            "behind braces",
            format!("{{ {{}} {{x: 1}} ${{y}} {{\"a\"}} {{\"b\": c}}\n{A}"),
            a,
            "{ {} {x: 1} ${y} {\"a\"} {\"b\": c}",
        ),
        ("behind an open brace", format!("{{\"a\" is\n\n{A}"), a, "{\"a\" is"),
        (
            "behind brackets",
            format!("[x](y) [ ] [1, [2]] [\"q\" [{{}}]\n{A}"),
            a,
            "[x](y) [ ] [1, [2]] [\"q\" [{}]",
        ),
        (
            "behind a quote of the format",
            format!("I say `{{\"tool_calls\": [...]}}`:\n{A}"),
            a,
            "I say `{\"tool_calls\": [...]}`:",
        ),
    ];
    for (name, text, calls, content) in cases {
        finds(name, text, calls, content);
    }
}

#[test]
fn in_every_form_models_give_them() {
    let entries: &[(&str, &str, &[&str])] = &[
        (
            "arguments",
            r#"{"name":"a","arguments":{"x":1}}"#,
            &[r#"call_0 a {"x":1}"#],
        ),
        (
            "parameters",
            r#"{"name":"a","parameters":{"x":1}}"#,
            &[r#"call_0 a {"x":1}"#],
        ),
        ("input", r#"{"name":"a","input":{"x":1}}"#, &[r#"call_0 a {"x":1}"#]),
        (
            "a null before an alias",
            r#"{"name":"a","args":null,"input":{"x":1}}"#,
            &[r#"call_0 a {"x":1}"#],
        ),
        (
            "arguments as a string",
            r#"{"name":"a","args":"{\"x\": 1.0}"}"#,
            &[r#"call_0 a {"x":1.0}"#],
        ),
        (
            "no arguments as a string",
            r#"{"name":"a","args":" "}"#,
            &["call_0 a {}"],
        ),
        (
            "OpenAI's form",
            r#"{"id":"q","type":"function","function":{"name":"a","arguments":"{\"x\":\"\\ud800\"}"}}"#,
            &[r#"q a {"x":"\ud800"}"#],
        ),
        (
            "nulls between",
            r#"null,{"name":"a"},null,{"name":"b"},null"#,
            &["call_0 a {}", "call_1 b {}"],
        ),
        ("an empty id", r#"{"name":"a","id":""}"#, &["call_0 a {}"]),
        ("a number as id", r#"{"name":"a","id":7}"#, &["7 a {}"]),
        ("the same key twice", r#"{"name":"b","name":"a"}"#, &["call_0 a {}"]),
        (
            "escapes in keys and name",
            r#"{"n\u0061me":"\u0061\ud800"}"#,
            &["call_0 a\u{FFFD} {}"],
        ),
        (
            "key order and numbers",
            r#"{"name":"a","args":{"z":1e400,"2":-0.0,"a":[ ]}}"#,
            &[r#"call_0 a {"z":1e400,"2":-0.0,"a":[]}"#],
        ),
        (
            "fences in an argument",
            r#"{"name":"a","args":{"x":"```\n```json\n}]}"}}"#,
            &[r#"call_0 a {"x":"```\n```json\n}]}"}"#],
        ),
        (
            "a call in an argument",
            r#"{"name":"a","args":{"tool_calls":[{"name":"b"}]}}"#,
            &[r#"call_0 a {"tool_calls":[{"name":"b"}]}"#],
        ),
    ];
    for (name, entries, calls) in entries {
        for text in [
            format!("{{\"tool_calls\":[{entries}]}}"),
            format!("```json\n{{ \"\\u0074ool_calls\" : [ {entries} ] , \"\\ud800\": 1 }}\n```"),
        ] {
            finds(name, &text, calls, "");
        }
    }
}

#[test]
fn depth_is_no_limit() {
    let args = format!("{}{}", "{\"a\":[".repeat(5_000), "]}".repeat(5_000));
    let text = format!("```json\n{{\"tool_calls\":[{{\"name\":\"deep\",\"args\":{args}}}]}}\n```");
    assert_eq!(extract(&text).tool_calls, [call("call_0", "deep", &args)]);
}

#[test]
fn never_where_there_is_none() {
    let nested = format!("{{\"messages\": [{A}], \"m\": {A}}}");
    let quoted = A.replace('"', "\\\"");
    let texts = [
        (
            "prose",
            "Set tool_calls: [] and \"tool_calls\" to [{\"name\": 1}]".to_owned(),
        ),
        ("in a string", format!("{{\"text\": \"{quoted}\"}}")),
        ("in a string in a list", format!("[\"{quoted}\"]")),
        ("in a deeper object", nested.clone()),
        ("in a deeper object of a block", format!("```json\n{nested}\n```")),
        (
            "in a deeper object that is damaged",
            format!("{{\"n\": ..., \"m\": {A}}}"),
        ),
        (
            "in a deeper object of a damaged block",
            format!("```json\n{{\"n\": ..., \"m\": {A}}}\n```"),
        ),
        ("in a list", format!("[{A}, {A}]")),
        ("in a list in a block", format!("```json\n[{A}]\n```")),
        ("in TypeScript", "```ts const x = {tool_calls: []}```".to_owned()),
        ("in code", format!("```ts\nconst x = {A};\n```")),
        ("on a line of code", format!("```py\nx = 1\n{A}\n```")),
        (
            "in code with a fence in a string",
            format!("```py\nx = '```'\n{A}\n```"),
        ),
        (
            "in a document in a block",
            format!("````md\n# x\n```json\n{A}\n```\n````"),
        ),
        ("in a document in tildes", format!("~~~md\n# x\n```json\n{A}\n```\n~~~")),
        (
            "in a document in a block of as many backticks",
            format!("```md\n# x\n```json\n{A}\n```\n```"),
        ),
        (
            "in a string in a block",
            format!("```py\nx = \"\"\"\n```json\n{A}\n{A}\n```\n\"\"\"\n```\ny"),
        ),
        ("in a broken document", format!("```md\n```json\n{A}\n{{\"x\":1}}")),
        ("in inline code", format!("Answer with `{A}` or ``{A}``.")),
        ("in an unclosed block", format!("```sh\nls\n{A}")),
        ("empty list", "{\"tool_calls\": [ ]}".to_owned()),
        ("nulls only", "{\"tool_calls\": [null]}".to_owned()),
        (
            "no list",
            "{\"tool_calls\": {\"name\": \"a\"}}\n{\"tool_calls\": null}".to_owned(),
        ),
        (
            "another key",
            "{\"tool_call\": [{\"name\": \"a\"}], \"Tool_Calls\": [1]}".to_owned(),
        ),
        (
            "the last of two keys is empty",
            "{\"tool_calls\": [{\"name\": \"a\"}], \"tool_calls\": []}".to_owned(),
        ),
        (
            "a template",
            "{\"tool_calls\": [...]} {\"tool_calls\": […]} {\"tool_calls\": ...}".to_owned(),
        ),
        ("the key as a value", "{\"a\": \"tool_calls\"".to_owned()),
        ("fences alone", "``` ``` ~~~ ` `` ```` \n~~~".to_owned()),
    ];
    for (name, text) in texts {
        assert_eq!(found(&text), (vec![], text.trim().to_owned()), "{name}");
        assert_eq!(extract(&format!(" {text}\n")).remainder, format!(" {text}\n"), "{name}");
    }
}

#[test]
fn white_space_goes_only_with_what_was_taken_out() {
    let cases = [
        (format!("\n {A} \n"), ""),
        (format!("\n {A} \n x \n"), "x \n"),
        (format!(" x \n{A}\n"), " x"),
        (format!(" x \n{A}\n{B} y\n"), " x \n\n y\n"),
        (format!("\u{FEFF}{A}\u{2028}"), ""),
        (format!("{A}\u{85}"), "\u{85}"),
    ];
    for (text, remainder) in cases {
        let extraction = extract(&text);
        assert_eq!(extraction.remainder, remainder, "{text:?}");
        assert_eq!(extraction.content, remainder.trim_matches(is_js_space), "{text:?}");
    }
}
