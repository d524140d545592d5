//! Tests how claude's and qwen's lines become messages: pieces, snapshots, broken-off responses, continued ones.

use super::*;

#[test]
fn deltas_and_their_snapshot_are_one_text() {
    let deltas = start("a") + &event("content_block_start") + &delta("Hel") + &delta(" ") + &delta("\\nlo");
    let snapshot = assistant("a", &text("Hel \\nlo"));
    let want = [
        "text Hel",
        "text  ",
        "text \nlo",
        "message a Hel \nlo",
        "outcome Hel \nlo",
    ];
    let end = event("content_block_stop") + &event("message_stop");
    for (name, lines) in [
        (
            "claude: the snapshot before the block's end",
            deltas.clone() + &snapshot + &end,
        ),
        (
            "qwen: between the block's end and the message's",
            deltas.clone() + &event("content_block_stop") + &snapshot + &event("message_stop"),
        ),
        ("after the message's end", deltas.clone() + &end + &snapshot),
        ("no snapshot", deltas.clone() + &end),
        ("no end", deltas.clone() + &snapshot),
        ("neither", deltas.clone()),
    ] {
        assert_eq!(stream(&(lines + &result("Hel \\nlo"))), want, "{name}");
    }
}

#[test]
fn a_snapshot_may_say_more_than_its_deltas_or_come_alone() {
    let lines = start("a")
        + &delta("Hel")
        + &assistant("a", &text("Hello"))
        + &assistant("a", &text(" you"))
        + &assistant("b", &text("!"));
    assert_eq!(
        stream(&lines),
        [
            "text Hel",
            "text lo",
            "text  you",
            "message a Hello you",
            "text !",
            "message b !"
        ]
    );
}

#[test]
fn a_snapshot_that_differs_wins_and_is_noted() {
    let lines = start("a") + &delta("Hlo") + &assistant("a", &text("Hello")) + &assistant("a", &text("."));
    let (events, decoder) = decode(Wire::ClaudeStream, &[lines.as_bytes()]);
    assert_eq!(events, ["text Hlo", "text .", "message a Hello."]);
    assert_eq!(
        decoder.diagnostics(),
        ["line 3: the whole message differs from its pieces; the whole one is taken"]
    );
}

/// In 0.24.4 the stream names the message of the reasoning, and the whole text comes under another id.
#[test]
fn qwens_reasoning_and_its_text_have_ids_of_their_own() {
    let thinking = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}}"#;
    let lines = start("a")
        + thinking
        + "\n"
        + &event("content_block_stop")
        + &assistant("a", r#"{"type":"thinking","thinking":"Hm.","signature":""}"#)
        + &event("content_block_start")
        + &delta("Hello ")
        + &delta("there.")
        + &event("content_block_stop")
        + &assistant("b", &text("Hello there."))
        + &event("message_stop")
        + &result("Hello there.");
    assert_eq!(
        decode(Wire::QwenStream, &[lines.as_bytes()]).0,
        [
            "thinking Hm.",
            "reasoning Hm.",
            "text Hello ",
            "text there.",
            "message a Hello there.",
            "outcome Hello there."
        ]
    );
}

/// In 0.24.4 a response that met the model's limit is void although it had ended; each later part of the next answer that is
/// asked for belongs to one block.
#[test]
fn the_parts_of_qwens_answer_that_met_a_limit_are_said_once() {
    let retry = |keeps: bool| {
        format!(r#"{{"type":"system","subtype":"retry","data":{{"reason":"retry","preserveText":{keeps}}}}}"#) + "\n"
    };
    let block = |words: &str| event("content_block_start") + &delta(words) + &event("content_block_stop");
    let lines = start("a")
        + &block("Too short")
        + &assistant("a", &text("Too short"))
        + &event("message_stop")
        + &retry(false)
        + &start("b")
        + &block("One, ")
        + &retry(true)
        + &delta("two, ")
        + &retry(true)
        + &delta("three.")
        + &assistant("b", &text("One, two, three."))
        + &event("message_stop")
        + &result("One, two, three.");
    assert_eq!(
        decode(Wire::QwenStream, &[lines.as_bytes()]).0,
        [
            "text Too short",
            "Abandoned",
            "other system/retry",
            "text One, ",
            "other system/retry",
            "text two, ",
            "other system/retry",
            "text three.",
            "message b One, two, three.",
            "outcome One, two, three."
        ]
    );
}

#[test]
fn a_broken_off_message_is_no_message() {
    let lines = start("a")
        + &delta("half of")
        + &start("b")
        + &delta("whole")
        + &assistant("b", &text("whole"))
        + &result("whole");
    assert_eq!(
        stream(&lines),
        [
            "text half of",
            "Abandoned",
            "text whole",
            "message b whole",
            "outcome whole"
        ]
    );
}

#[test]
fn what_a_cut_response_streamed_is_no_message() {
    // 2.1.330 prints this before its `api_retry`.
    let cut = r#"{"type":"stream_event","event":{"type":"message_stop"},"abandoned_blocks":{"api_message_id":"a","from_block_index":0}}"#;
    let lines =
        start("a") + &delta("half of") + cut + "\n" + &start("b") + &delta("whole") + &assistant("b", &text("whole"));
    assert_eq!(
        stream(&lines),
        ["text half of", "Abandoned", "text whole", "message b whole"]
    );

    let lines = start("a")
        + &delta("one")
        + &assistant("a", &text("one"))
        + &event("content_block_start")
        + &delta(", half")
        + cut
        + "\n"
        + &result("");
    assert_eq!(stream(&lines), ["text one", "text , half", "message a one", "outcome "]);
}

/// These are answers whose rest claude has asked for, in each way in which claude shows that.
#[test]
fn an_answer_in_several_parts_is_one_message() {
    let init = r#"{"type":"system","subtype":"init","claude_code_version":"2.1.330"}"#.to_owned() + "\n";
    let asks = |text: &str| {
        format!(r#"{{"type":"user","message":{{"content":[{{"type":"text","text":"{text}"}}]}},"isSynthetic":true}}"#)
            + "\n"
    };
    let limit = r#"{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}}"#
        .to_owned()
        + "\n";
    let streamed = |id: &str, prose: &str| {
        start(id)
            + &event("content_block_start")
            + &delta(prose)
            + &assistant(id, &text(prose))
            + &event("content_block_stop")
    };
    let end = || event("message_stop");
    let asked = asks("Output token limit hit. Resume directly, and so on");
    let one = ["text One, ", "text two.", "message b One, two.", "outcome two."];

    // Each pair is the version that shows its request for the rest (2.1.330), then the one that does not (2.1.197): first with
    // pieces, then without.
    let lines = streamed("a", "One, ") + &limit + &end() + &asked + &streamed("b", "two.") + &end() + &result("two.");
    let expected = [
        "text One, ",
        "other user",
        "text two.",
        "message b One, two.",
        "outcome two.",
    ];
    assert_eq!(stream(&lines), expected);
    let lines = streamed("a", "One, ") + &limit + &end() + &streamed("b", "two.") + &end() + &result("two.");
    assert_eq!(stream(&lines), one);
    let lines = assistant("a", &text("One, ")) + &asked + &assistant("b", &text("two.")) + &result("two.");
    assert_eq!(stream(&lines), expected);
    let lines = init.clone() + &assistant("a", &text("One, ")) + &assistant("b", &text("two.")) + &result("two.");
    assert_eq!(stream(&lines)[1..], one);

    // The connection was lost after the first block; the next attempt is lost, too.
    let cut = r#"{"type":"stream_event","event":{"type":"message_stop"},"abandoned_blocks":{"api_message_id":"a","from_block_index":1}}"#
        .to_owned()
        + "\n";
    let asked = asks("Your response above was cut off mid-stream. Resume directly from where it stops");
    let half = start("b") + &event("content_block_start") + &delta("thr");
    let lines =
        streamed("a", "One, ") + &cut + &asked + &half + &cut + &asked + &streamed("c", "two.") + &result("two.");
    assert_eq!(
        stream(&lines),
        [
            "text One, ",
            "other user",
            "text thr",
            "other user",
            "text two.",
            "message c One, two.",
            "outcome two."
        ]
    );

    // These lines separate two messages, or are no part of an answer.
    let parted = asks("Something else");
    let lines = init.clone() + &assistant("a", &text("One.")) + &parted + &assistant("b", &text("Two."));
    let two = [
        "text One.",
        "message a One.",
        "other user",
        "text Two.",
        "message b Two.",
    ];
    assert_eq!(stream(&lines)[1..], two);
    let used = text("One.") + "," + &tool_use("1", "{}");
    let lines = init + &assistant("a", &used) + &assistant("b", &text("Two."));
    let two = [
        "text One.",
        "message a One.",
        "call 1 t {}",
        "text Two.",
        "message b Two.",
    ];
    assert_eq!(stream(&lines)[1..], two);
}

/// For who ends the CLI there: whole or with a call in it, the answer is what had come of it.
#[test]
fn an_answer_that_ends_at_its_limit_is_not_asked_for_any_more_of() {
    let limit = r#"{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":7,"output_tokens":3}}}"#
        .to_owned()
        + "\n";
    let mut lines = start("a")
        + &event("content_block_start")
        + &delta("One, ")
        + &assistant("a", &text("One, "))
        + &event("content_block_stop")
        + &assistant("a", &tool_use("1", "{}"))
        + &limit
        + &event("message_stop");
    lines += &(start("b") + &delta("two.") + &assistant("b", &text("two.")) + &result("two."));
    let mut decoder = Decoder::new(Wire::ClaudeStream).ending_at_limit();
    let mut events = Vec::new();
    decoder.push(lines.as_bytes(), &mut events);
    decoder.finish(&mut events);
    let said = [
        "text One, ",
        "message a One, ",
        "usage 7 3",
        "failure max_output_tokens the answer hit the limit of output tokens and is cut short",
    ];
    assert_eq!(events.iter().map(brief).collect::<Vec<_>>(), said);
}

#[test]
fn calls_follow_the_text_of_their_message() {
    let lines = assistant("a", &text("one"))
        + &assistant("a", &tool_use("1", r#"{"z":1.0,"a":"\ud800"}"#))
        + &assistant("a", &text(" two"))
        + &assistant(
            "a",
            &(tool_use("2", "[]") + "," + r#"{"type":"tool_use","id":"3","name":"t"}"#),
        )
        + r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","content":"\u001b[1mok","is_error":true}]}}"#
        + "\n"
        + &result("");
    assert_eq!(
        stream(&lines),
        [
            "text one",
            "text  two",
            "message a one two",
            r#"call 1 t {"z":1.0,"a":"\ud800"}"#,
            "invalid call [] arguments are not a JSON object",
            "call 3 t {}",
            "result true ok",
            "outcome "
        ]
    );
}

#[test]
fn reasoning_once_and_hidden_reasoning_never() {
    let block = |text: &str| format!(r#"{{"type":"thinking","thinking":"{text}","signature":"s"}}"#);
    let streamed = start("a") + &thinking_delta(0, "hm") + &thinking_delta(0, "m") + &thinking_delta(1, "aha");
    let lines = streamed
        + &assistant("a", &block("hmm"))
        + &assistant("a", &block("aha"))
        + &event("message_stop")
        + &assistant("b", &(block("so") + "," + &block("") + "," + &text("x")));
    assert_eq!(
        stream(&lines),
        [
            "thinking hm",
            "thinking m",
            "thinking aha",
            "reasoning hmm",
            "reasoning aha",
            "thinking so",
            "reasoning so",
            "reasoning ",
            "text x",
            "message b x"
        ]
    );
}

#[test]
fn characters_and_control_sequences_split_between_deltas() {
    let lines = start("a")
        + &delta("a\\ud83e")
        + &delta("")
        + &delta("\\udd80b\\u001b[3")
        + &delta("1mred\\ud83e")
        + &delta("x\\udd80")
        + &delta("\\ud83e")
        + &event("content_block_stop");
    let want = [
        "text a",
        "text 🦀b",
        "text red",
        "text \u{FFFD}x\u{FFFD}",
        "text \u{FFFD}",
        "message a a🦀bred\u{FFFD}x\u{FFFD}\u{FFFD}",
    ];
    assert_eq!(stream(&lines), want);
    let snapshot = assistant("a", &text("a\\ud83e\\udd80"));
    assert_eq!(
        stream(&(start("a") + &delta("a\\ud83e") + &snapshot)),
        ["text a", "text 🦀", "message a a🦀"]
    );
}

/// Makes a piece of a call's arguments; `json` is JSON without its quotes.
fn args_delta(json: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":"{json}"}}}}}}"#
    ) + "\n"
}

/// claude 2.1.197 and 2.1.332 resolve `\u00e9` in an argument's text before they report the call.
#[test]
fn arguments_are_those_of_their_pieces_where_these_are_whole() {
    let begin = |id: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"{id}","name":"t","input":{{}}}}}}}}"#
        ) + "\n"
    };
    let call = |pieces: &[&str], input: &str| {
        let pieces: String = pieces.iter().map(|piece| args_delta(piece)).collect();
        let lines =
            start("a") + &begin("c") + &pieces + &assistant("a", &tool_use("c", input)) + &event("message_stop");
        stream(&lines)
    };
    assert_eq!(
        call(&["", r#"{\"a\":\"\\\\u0"#, r#"0e9\u009b31m\"}"#], r#"{"a":"é"}"#),
        ["call c t {\"a\":\"\\\\u00e9\u{9b}31m\"}"]
    );
    for pieces in [&[][..], &[""], &[r#"{\"a\":"#], &["[1]"], &["1}"]] {
        assert_eq!(call(pieces, r#"{"a":1}"#), [r#"call c t {"a":1}"#], "{pieces:?}");
    }
    // These pieces belong to another call, or to a response that was begun anew.
    let other = start("a") + &begin("b") + &args_delta("{}") + &assistant("a", &tool_use("c", r#"{"a":1}"#));
    assert_eq!(stream(&other), [r#"call c t {"a":1}"#]);
    let anew =
        start("a") + &begin("c") + &args_delta("{}") + &start("b") + &assistant("b", &tool_use("c", r#"{"a":1}"#));
    assert_eq!(stream(&anew), [r#"call c t {"a":1}"#]);
    // Two calls share an id, each with its own arguments.
    let two = start("a")
        + &begin("c")
        + &args_delta(r#"{\"n\":1.0}"#)
        + &assistant("a", &tool_use("c", r#"{"n":1}"#))
        + &begin("c")
        + &args_delta(r#"{\"n\":2.0}"#)
        + &assistant("a", &tool_use("c", r#"{"n":2}"#));
    assert_eq!(stream(&two), [r#"call c t {"n":1.0}"#, r#"call c t {"n":2.0}"#]);
}
