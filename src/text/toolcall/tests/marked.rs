//! The marked form: the calls that count, the text that does not, and laws for any text and any way to cut it.

use proptest::prelude::*;

use super::*;

const MARK: &str = "call_aaaaaaaaaa";

fn rules() -> TextCalls {
    let bound = ["a", "send_email"].map(str::to_owned);
    TextCalls::Marked(Arc::new(Marked::new(Mark::new(0), bound)))
}

/// The result of reading an answer through a gate: the calls as `id name args`, the unreadable ones, the note, and the text.
type Read = (Vec<String>, Vec<InvalidToolCall>, Option<String>, String);

fn read_pieces(calls: &TextCalls, pieces: &[&str]) -> Read {
    let (mut gate, mut text) = (Gate::new(calls), String::new());
    for piece in pieces {
        text.extend(gate.push(piece));
    }
    let (rest, calls) = gate.finish();
    text.extend(rest);
    let shown = |call: &ToolCall| format!("{} {} {}", call.id, call.name, call.args.get());
    let found = calls.tool_calls.iter().map(shown).collect();
    (found, calls.invalid, calls.ignored, text)
}

fn read(text: &str) -> Read {
    read_pieces(&rules(), &[text])
}

fn object(name: &str, id: &str) -> String {
    format!(r#"{{"tool_calls":[{{"name":"{name}","args":{{"x":"}}\"` ["}},"id":"{id}"}}]}}"#)
}

#[test]
fn a_mark_is_fifty_random_bits() {
    assert_eq!(Mark::new(0).as_str(), MARK);
    assert_eq!(Mark::new(u64::MAX).as_str(), "call_9999999999");
    assert_eq!(Mark::new(1 | 2 << 5 | 31 << 45).as_str(), "call_bcaaaaaaa9");
}

#[test]
fn a_marked_block_at_the_end_counts_in_every_form() {
    let a = object("a", "call_aaaaaaaaaa_1");
    let b = r#"{ "tool_calls" : [ {"id": "call_aaaaaaaaaa", "name": "a"}, {"id":"call_aaaaaaaaaa-x","name":"send_email","args":{}} ] }"#;
    let in_a = r#"call_1 a {"x":"}\"` ["}"#;
    let in_b = ["call_0 a {}", "call_x send_email {}"];
    let cases: &[(&str, String, &[&str], &str)] = &[
        ("asked for", format!("```json\n{a}\n```"), &[in_a], ""),
        (
            "prose before",
            format!("I look.\n\n```json\n{a}\n```\n\n"),
            &[in_a],
            "I look.",
        ),
        ("no fence", format!("I look: {a}"), &[in_a], "I look:"),
        ("several calls", b.to_owned(), &in_b, ""),
        ("another key first", format!("x {{\"y\":1,{}", &a[1..]), &[in_a], "x"),
        ("no info", format!("x\n```\n{a}\n```"), &[in_a], "x"),
        ("tildes", format!("x\n~~~~JSON\r\n{a}\r\n~~~~"), &[in_a], "x"),
        ("on one line", format!("x ```json {a}```"), &[in_a], "x"),
        (
            "other info",
            format!("x\n``` tool_calls now \n\n {a} \n\n```\n"),
            &[in_a],
            "x",
        ),
        ("fence left open", format!("x\n```json\n{a}\n"), &[in_a], "x"),
        ("fence never opened", format!("x\n{a}\n```"), &[in_a], "x"),
        (
            "two objects in a block",
            format!("x\n```json\n{a}\n{a}\n```"),
            &[in_a, in_a],
            "x",
        ),
        (
            "two blocks",
            format!("x\n```json\n{a}\n```\n```json\n{a}\n```"),
            &[in_a, in_a],
            "x",
        ),
        ("two without fences", format!("x {a}\n{a}"), &[in_a, in_a], "x"),
        (
            "behind a block left open",
            format!("```ts\nlet x = {{\n```json\n{a}\n```"),
            &[in_a],
            "```ts\nlet x = {",
        ),
        ("behind a block", format!("```\nls\n```\n{a}"), &[in_a], "```\nls\n```"),
        (
            "behind damage",
            format!("{{\"tool_calls\": \"{a}"),
            &[in_a],
            "{\"tool_calls\": \"",
        ),
        (
            "behind a quotation",
            format!("```json\n{}\n```\nI look.\n{a}", object("a", "call_1")),
            &[in_a],
            "```json\n{\"tool_calls\":[{\"name\":\"a\",\"args\":{\"x\":\"}\\\"` [\"},\"id\":\"call_1\"}]}\n```\nI look.",
        ),
    ];
    for (name, text, calls, content) in cases {
        let calls: Vec<String> = calls.iter().map(|call| (*call).to_owned()).collect();
        assert_eq!(read(text), (calls, vec![], None, (*content).to_owned()), "{name}");
    }
}

#[test]
fn everything_else_is_text_whole() {
    let a = object("a", "call_aaaaaaaaaa_1");
    let cases = [
        ("words behind it", format!("```json\n{a}\n```\nDone.")),
        ("words behind it, no fence", format!("{a} Done.")),
        ("another block behind it", format!("```json\n{a}\n```\n```sh\nls\n```")),
        ("a tag behind it", format!("<pre>{a}</pre>")),
        ("another object behind it", format!("{a}{{\"x\":1}}")),
        ("within another object", format!("{{\"x\":{a}}}")),
        ("within a list", format!("[{a}]")),
        ("in inline code", format!("`{a}`")),
        ("no list", format!("{{\"tool_calls\":{{\"id\":\"{MARK}_1\"}}}}")),
        ("an empty list", "{\"tool_calls\":[]}".to_owned()),
        ("the mark alone", format!("{MARK}_1")),
        ("nothing", String::new()),
        ("white space", " \n\u{2028}\t".to_owned()),
    ];
    for (name, text) in cases {
        assert_eq!(read(&text), (vec![], vec![], None, text.clone()), "{name}");
    }
}

#[test]
fn what_may_have_been_meant_is_text_and_noted() {
    let note = |reason: &str| {
        Some(format!(
            "the answer ends with a block that looks like tool calls and was left as text: {reason}"
        ))
    };
    let unmarked = note(
        "its ids lack this call's mark, so it may be a quotation; `textToolCalls: \"lenient\"` reads such blocks as calls",
    );
    let quote = object("send_email", "call_1");
    let guessed = object("send_email", "call_k7f3q9x2ab_1");
    let both = format!(
        r#"{{"tool_calls":[{{"name":"a","id":"{MARK}_1"}},{{"name":"send_email","args":{{}},"id":"call_2"}}]}}"#
    );
    let no_id = r#"{"tool_calls":[{"name":"a","args":{}}]}"#;
    let cut = r#"{"tool_calls":[{"name":"a","args":{"x":"#;
    for text in [
        quote.clone(),
        format!("```json\n{quote}\n```"),
        guessed,
        both,
        no_id.to_owned(),
        cut.to_owned(),
        format!("```json\n{quote}\n{}\n```", object("a", "call_aaaaaaaaaa_1")),
    ] {
        assert_eq!(read(&text), (vec![], vec![], unmarked.clone(), text.clone()), "{text}");
    }
    // The mark proves that it is a call; the agent answers that there is no such tool.
    let found = read(&object("unknown", "call_aaaaaaaaaa_1"));
    assert_eq!(found.0, [r#"call_1 unknown {"x":"}\"` ["}"#]);
    // A text may mention tools that are not bound as it likes.
    let other = object("other", "call_1");
    assert_eq!(read(&other), (vec![], vec![], None, other.clone()));
}

#[test]
fn a_marked_block_that_cannot_be_read_is_invalid() {
    let damaged = format!(r#"{{"tool_calls":[{{"name":"a","args":{{"at": }},"id":"{MARK}_1"}}]}}"#);
    let cut = format!(r#"{{"tool_calls":[{{"id":"{MARK}_1","name":"a","args":{{"x":"y"#);
    let quote = format!(r#"{{"tool_calls":[{{"id":"{MARK}_1","name":"a","args":{{"x":"say "no""}}}}]}}"#);
    for (text, args, content) in [
        (format!("Hm.\n```json\n{damaged}\n```"), &damaged, "Hm."),
        (damaged.clone(), &damaged, ""),
        (format!("Hm.\n```json\n{cut}"), &cut, "Hm."),
        (format!("Hm.\n{quote}\n```\n"), &quote, "Hm."),
    ] {
        let (calls, invalid, ignored, left) = read(&text);
        assert_eq!((calls.len(), ignored, left.as_str()), (0, None, content), "{text}");
        let [
            InvalidToolCall {
                id: None,
                name: None,
                args: written,
                error,
            },
        ] = &invalid[..]
        else {
            panic!("{invalid:?}")
        };
        assert_eq!(written, args);
        assert!(error.starts_with("the JSON is "), "{error}");
    }
    // Each entry is judged by itself.
    let entries = format!(
        r#"{{"tool_calls":[{{"name":"a","args":7,"id":"{MARK}_1"}},{{"name":"a","id":"{MARK}_2"}},"{MARK}"]}}"#
    );
    let (calls, invalid, _, left) = read(&entries);
    assert_eq!((calls, left.as_str()), (vec!["call_2 a {}".to_owned()], ""));
    let invalid: Vec<_> = invalid
        .iter()
        .map(|one| (one.id.as_deref(), one.error.as_str()))
        .collect();
    assert_eq!(
        invalid,
        [
            (Some("call_1"), "the arguments are not an object"),
            (None, "the call is not an object")
        ]
    );
    for text in [format!("```json\n{damaged}\n```\nDone."), format!("{damaged} Done.")] {
        assert_eq!(read(&text), (vec![], vec![], None, text.clone()), "{text}");
    }
}

#[test]
fn ordinary_text_is_not_held_back() {
    let streamed = |pieces: &[&str]| -> Vec<String> {
        let mut gate = Gate::new(&rules());
        let mut out: Vec<String> = pieces
            .iter()
            .map(|piece| gate.push(piece).unwrap_or_default())
            .collect();
        out.push(gate.finish().0.unwrap_or_default());
        out
    };
    let cases: &[(&[&str], &[&str])] = &[
        (&["a", " b", " ", "c\n"], &["a", " b", "", " c", "\n"]),
        (
            &["x\n```t", "s\n", "c", "onst {\n", "a"],
            &["x", "", "\n```ts\nc", "onst", " {\na", ""],
        ),
        (&["{\"a\"", ":{}", "}", "x"], &["", "", "{\"a\":{}}", "x", ""]),
        (&["{\"tool", "s\"}"], &["", "{\"tools\"}", ""]),
        (&["x {\"tool_calls\":[]}", " y"], &["x", "", " {\"tool_calls\":[]} y"]),
        (&["x\n``"], &["x", "\n``"]),
    ];
    for (pieces, expected) in cases {
        assert_eq!(streamed(pieces), *expected, "{pieces:?}");
    }
}

/// Text of everything that is significant here, without the mark.
fn unmarked() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "```",
        "``",
        "`",
        "~~~",
        "json",
        "\n",
        "\r\n",
        " ",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ":",
        ",",
        "\"tool_calls\"",
        "{\"tool_calls\":[{\"name\":\"a\"}]}",
        "{\"tool_calls\":[{\"name\":\"send_email\",\"args\":{},\"id\":\"call_1\"}]}",
        "{\"tool_calls\":[{\"name\":\"a\",}]}",
        "{\"tool_calls\": [",
        "\n```json\n",
        "\n```\n",
        "<pre>",
        "é",
        "\u{2028}",
        "🦀",
        "call_aaaaaaaaa",
        "Some text.",
        "{\"x\":1}",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

fn cut<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let mut ends: Vec<usize> = cuts
        .iter()
        .map(|cut| text.floor_char_boundary(cut.index(text.len() + 1)))
        .collect();
    ends.extend([0, text.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
}

proptest! {
    #[test]
    fn without_the_mark_nothing_is_a_call(
        text in prop_oneof![4 => unmarked(), 1 => any::<String>()],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        prop_assume!(!text.contains(MARK));
        let (calls, invalid, _, left) = read_pieces(&rules(), &cut(&text, &cuts));
        prop_assert_eq!((calls, invalid), (vec![], vec![]));
        prop_assert_eq!(left, text);
    }

    #[test]
    fn a_marked_block_is_found_whatever_stands_before_it(
        before in prop_oneof![4 => unmarked(), 1 => any::<String>()],
        value: String,
        form in 0..4_usize,
        space in "[ \n]{0,3}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let args = serde_json::json!({ "x": value });
        let object = serde_json::json!({ "tool_calls": [{ "name": "a", "args": args, "id": "call_aaaaaaaaaa_7" }] });
        let (open, close) = [("\n```json\n", "\n```"), ("\n~~~\n", "\n~~~"), (" ", ""), ("", "")][form];
        let text = format!("{before}{open}{object}{close}{space}");
        let whole = read(&text);
        prop_assert_eq!(&whole.0, &vec![format!("call_7 a {args}")]);
        prop_assert!(before.starts_with(&whole.3) && whole.3.trim_end_matches(is_js_space) == whole.3);
        if form < 2 {
            prop_assert_eq!(&whole.3, before.trim_end_matches(is_js_space));
        }
        prop_assert_eq!(&read_pieces(&rules(), &cut(&text, &cuts)), &whole);
        prop_assert_eq!(rules().remainder(&text), whole.3);
    }
}

/// If the work grew with the square of the text, this would not end.
#[test]
fn hostile_text_is_read_in_linear_time() {
    let length = 100_000;
    for piece in [
        "{",
        "{\"tool_calls\":[",
        "{\"tool_calls\":\"",
        "}",
        "`",
        "\\\"",
        "{\"tool_calls\":[{\"name\":\"a\"}]}\n",
        " ",
        "\n```json\n",
    ] {
        let text = format!("{}}}", piece.repeat(length / piece.len()));
        assert_eq!(read(&text).3, text);
        let bytes: Vec<&str> = text.split_inclusive(|_| true).collect();
        assert_eq!(read_pieces(&rules(), &bytes).3, text);
    }
    let marked = "{\"tool_calls\":[{\"name\":\"a\",\"id\":\"call_aaaaaaaaaa\"}]}\n".repeat(5_000);
    assert_eq!(read(&marked).0.len(), 5_000);
}
