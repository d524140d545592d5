//! Laws that hold for any text and any way to cut it.

use proptest::prelude::*;

use super::*;

/// Text made of everything that is significant to the scanner.
fn adversarial() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "```",
        "`",
        "``",
        "````",
        "~~~",
        "~",
        "json",
        "JSON",
        "ts",
        "tool_calls",
        "\"tool_calls\"",
        ":",
        ",",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        "\\\"",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "\t",
        "\u{2028}",
        "null",
        "1",
        "é",
        "🦀",
        "x",
        "Some text.",
        "...",
        "…",
    ]);
    let whole = prop::sample::select(vec![
        "{\"tool_calls\":[{\"name\":\"a\"}]}",
        "{\"tool_calls\":[{\"name\":\"a\",}]}",
        "{\"tool_calls\":[]}",
        "{\"tool_calls\":[{\"name\":\"",
        "{\"x\":1}",
        "\n```json\n{\"tool_calls\":[{\"name\":\"b\",\"args\":{\"s\":\"```\"}}]}\n```\n",
        "\n```ts\nlet x = {};\n```\n",
        "```json\n{",
    ]);
    let piece = prop_oneof![3 => marks, 1 => whole];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

fn through_the_gate(text: &str, cuts: &[prop::sample::Index]) -> (String, Extraction) {
    let mut ends: Vec<usize> = cuts
        .iter()
        .map(|cut| text.floor_char_boundary(cut.index(text.len() + 1)))
        .collect();
    ends.sort_unstable();
    ends.push(text.len());
    let (mut gate, mut out, mut from) = (Gate::new(&TextCalls::Lenient), String::new(), 0);
    for end in ends {
        out.extend(gate.push(&text[from..end]));
        from = end;
    }
    let (
        rest,
        Calls {
            tool_calls, invalid, ..
        },
    ) = gate.finish();
    out.extend(rest);
    let extraction = Extraction {
        tool_calls,
        invalid,
        content: out.trim_matches(is_js_space).to_owned(),
        remainder: out.clone(),
    };
    (out, extraction)
}

/// Returns whether all of `part`'s characters are in `whole`, in order.
fn is_left_of(part: &str, whole: &str) -> bool {
    let mut whole = whole.chars();
    part.chars().all(|c| whole.any(|other| other == c))
}

proptest! {
    #[test]
    fn the_gate_lets_through_what_is_left_of_the_whole(
        text in adversarial(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let whole = extract(&text);
        let (out, extraction) = through_the_gate(&text, &cuts);
        prop_assert_eq!(&out, &whole.remainder);
        prop_assert_eq!(&extraction, &whole);
        prop_assert_eq!(&whole.content, whole.remainder.trim_matches(is_js_space));
        if whole.tool_calls.is_empty() && whole.invalid.is_empty() {
            prop_assert_eq!(out, text);
        } else {
            prop_assert!(is_left_of(&out, &text));
            prop_assert!(text.contains("tool_calls"));
            prop_assert!(whole.invalid.iter().all(|invalid| text.contains(&invalid.args)));
        }
    }

    #[test]
    fn any_text_at_all_is_no_problem(text in any::<String>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9)) {
        let (out, extraction) = through_the_gate(&text, &cuts);
        prop_assert_eq!(out, text);
        prop_assert_eq!(extraction.tool_calls, []);
    }

    /// Prose and blocks alternate: all calls are found, and all prose is left.
    #[test]
    fn calls_and_what_is_left_account_for_everything(
        parts in prop::collection::vec(("[a-z .,!]{0,9}[a-z]", "[ -~é\n]{0,30}", 0..4_u8), 1..6),
    ) {
        let (mut text, mut calls, mut left) = (String::new(), Vec::new(), String::new());
        for (prose, value, form) in parts {
            let args = serde_json::json!({ "value": value }).to_string();
            let object = serde_json::json!({ "why": value, "tool_calls": [{ "name": "t", "args": { "value": value } }] });
            let (open, close) = [("```json\n", "\n```"), ("```\n", "\n```"), ("", ""), ("~~~JSON\n", "\n~~~")][usize::from(form)];
            text += &format!("{prose}\n{open}{object}{close}\n");
            left += &format!("{prose}\n\n");
            calls.push(call(&format!("call_{}", calls.len()), "t", &args));
        }
        let expected = Extraction { tool_calls: calls, content: left.trim().to_owned(), remainder: left.trim_end().to_owned(), invalid: vec![] };
        prop_assert_eq!(extract(&text), expected);
    }

    #[test]
    fn ids_are_unique_afterwards(ids in prop::collection::vec("c(_[12]){0,2}", 0..12), taken in prop::collection::hash_set("c(_[12]){0,2}", 0..4)) {
        let mut calls: Vec<ToolCall> = ids.iter().map(|id| call(id, "t", "{}")).collect();
        let mut all = TakenIds::from(taken.clone());
        make_unique(&mut calls, &mut all);
        prop_assert_eq!(all.ids.len(), taken.len() + calls.len());
        for (index, id) in ids.iter().enumerate() {
            prop_assert_eq!(calls[index].id == *id, !taken.contains(id) && !ids[..index].contains(id));
        }
    }
}

/// The output after each of the pieces.
fn streamed(pieces: &[&str]) -> Vec<String> {
    let mut gate = Gate::new(&TextCalls::Lenient);
    let mut out: Vec<String> = pieces
        .iter()
        .map(|piece| gate.push(piece).unwrap_or_default())
        .collect();
    out.push(gate.finish().0.unwrap_or_default());
    out
}

#[test]
fn ordinary_text_is_not_held_back() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("prose", &["a", " b", " ", "c\n"], &["a", " b", "", " c", "\n"]),
        (
            "code",
            &["x\n```t", "s\n", "c", "onst {\n", "a"],
            &["x", "", "\n```ts\nc", "onst {", "\na", ""],
        ),
        ("a brace", &["if (a) {", " ", "b"], &["if (a)", "", " { b", ""]),
        (
            "another object",
            &["{\"a\"", ":{}", "}", "x"],
            &["", "", "{\"a\":{}}", "x", ""],
        ),
        ("a list", &["[1, ", "{\"a\": ", "1}]"], &["[1,", " {\"a\":", " 1}]", ""]),
        (
            "no call in the block",
            &["```json\n", "{\"a\": 1}", "\n```", "\nx"],
            &["", "```json\n{\"a\": 1}", "", "\n```\nx", ""],
        ),
        (
            "a call",
            &[
                "x ",
                "```json\n{\"tool_calls\":",
                "[{\"name\":\"a\"}]}",
                "\n",
                "```",
                "\n\n",
            ],
            &["x", "", "", "", "", "", ""],
        ),
        (
            "a call first",
            &["\n{\"tool_calls\":[{\"name\":\"a\"}]}", "\n\nx ", " y"],
            &["", "x", "  y", ""],
        ),
        ("half a block", &["x\n``"], &["x", "\n``"]),
    ];
    for (name, pieces, expected) in cases {
        assert_eq!(streamed(pieces), *expected, "{name}");
    }
}
