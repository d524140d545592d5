//! What recordings don't show: broken lines, other orders, limits.

use super::{Decoder, Wire};
use crate::event::{Event, Failure, Outcome};

/// Decodes `pieces` and tells the events in short form.
pub(super) fn decode(wire: Wire, pieces: &[&[u8]]) -> (Vec<String>, Decoder) {
    let mut decoder = Decoder::new(wire);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    decoder.finish(&mut events);
    (events.iter().map(brief).collect(), decoder)
}

fn stream(text: &str) -> Vec<String> {
    decode(Wire::ClaudeStream, &[text.as_bytes()]).0
}

fn brief(event: &Event) -> String {
    match event {
        Event::TextDelta { text, .. } => format!("text {text}"),
        Event::ThinkingDelta { text, .. } => format!("thinking {text}"),
        Event::Message { id, content } => format!("message {} {content}", id.as_deref().unwrap_or("-")),
        Event::ToolCall { tool_call: call } => format!("call {} {} {}", call.id, call.name, call.args.get()),
        Event::InvalidToolCall {
            invalid_tool_call: call,
        } => format!("invalid call {} {}", call.args, call.error),
        Event::ToolResult { content, is_error, .. } => format!("result {is_error} {content}"),
        Event::Failure(Failure { kind, message, .. }) => {
            format!("failure {} {message}", kind.as_deref().unwrap_or("-"))
        }
        Event::Outcome(outcome) => format!("outcome {}", outcome.text.as_deref().unwrap_or("-")),
        Event::Other { kind, .. } => format!("other {kind}"),
        Event::Usage { usage, .. } => format!("usage {} {}", usage.input_tokens, usage.output_tokens),
        Event::Session {
            session_id: Some(id),
            model: None,
            ..
        } => format!("session {id}"),
        Event::Warning { code, message } => format!("warning {code} {message}"),
        other => format!("{other:?}"),
    }
}

fn start(id: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"message_start","message":{{"id":"{id}","model":"m"}}}},"parent_tool_use_id":null}}"#
    ) + "\n"
}

/// A text delta; `text` is JSON without its quotes.
fn delta(text: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}}}"#
    ) + "\n"
}

fn thinking_delta(index: u32, text: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":{index},"delta":{{"type":"thinking_delta","thinking":"{text}"}}}}}}"#
    ) + "\n"
}

fn event(kind: &str) -> String {
    format!(r#"{{"type":"stream_event","event":{{"type":"{kind}","index":0}}}}"#) + "\n"
}

/// An `assistant` line with these blocks.
fn assistant(id: &str, blocks: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"{id}","model":"m","content":[{blocks}]}},"parent_tool_use_id":null}}"#
    ) + "\n"
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn tool_use(id: &str, input: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"t","input":{input}}}"#)
}

fn result(text: &str) -> String {
    format!(r#"{{"is_error":false,"subtype":"success","num_turns":1,"result":"{text}","type":"result"}}"#) + "\n"
}

#[test]
fn line_ends_mark_blank_lines_and_noise() {
    let crlf = format!("\u{feff}{}\r\n\r\n  \r\n", assistant("a", &text("hi")).trim_end())
        + "npm warn deprecated\r\n"
        + "\x1b[33m[dotenv]\x1b[0m loaded\n"
        + "{\"no\":\"type\"}\n42\n"
        + &format!("\x1b[?25l{}", result("hi"));
    let (events, decoder) = decode(Wire::ClaudeStream, &[crlf.as_bytes()]);
    assert_eq!(events, ["text hi", "message a hi", "outcome hi"]);
    assert_eq!(
        decoder.diagnostics(),
        [
            "line 4: not JSON: npm warn deprecated",
            "line 5: not JSON: [dotenv] loaded",
            "line 6: no event: {\"no\":\"type\"}",
            "line 7: not JSON: 42"
        ]
    );
    assert_eq!(decoder.parse_errors()[1].line, 5);
    assert!(decoder.saw_json() && !decoder.cut_short());
    assert_eq!(decoder.plain_text(), None);
}

#[test]
fn a_line_cut_short_is_told_and_a_last_line_without_an_end_is_read() {
    let (events, decoder) = decode(Wire::ClaudeStream, &[delta("a").as_bytes(), b"{\"type\":\"resu"]);
    assert_eq!(events, ["text a", "message - a"]);
    assert!(decoder.cut_short());
    assert_eq!(decoder.diagnostics(), ["line 2: cut short: {\"type\":\"resu"]);
    let whole = result("a");
    let (events, decoder) = decode(Wire::ClaudeStream, &[whole.trim_end().as_bytes()]);
    assert_eq!(events, ["text a", "message - a", "outcome a"]);
    assert!(!decoder.cut_short());
}

#[test]
fn fields_of_the_wrong_type_spoil_only_themselves() {
    let lines = [
        r#"{"type":5}"#,
        r#"{"type":"assistant","message":"oops"}"#,
        r#"{"type":"assistant","message":{"id":7,"content":[{"type":"text","text":{}},{"type":"text","text":"x"},3]}}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":[]}}}"#,
        r#"{"type":"stream_event","event":null}"#,
        r#"{"type":"user","message":[]}"#,
        r#"{"type":"rate_limit_event","rate_limit_info":"no"}"#,
        r#"{"type":"system","subtype":"api_retry","attempt":"two"}"#,
        r#"{"type":"result","subtype":"success","is_error":"no","num_turns":1.0,"result":"x","usage":[],"total_cost_usd":"1","modelUsage":3}"#,
    ];
    let (events, decoder) = decode(Wire::ClaudeStream, &[lines.join("\n").as_bytes()]);
    assert_eq!(
        events,
        [
            "text x",
            "message - x",
            "other user",
            "Retry { by: \"cli\", attempt: 0, max_attempts: None, delay_ms: 0, reason: \"\", http_status: None }",
            "outcome x"
        ]
    );
    let notes: Vec<&str> = decoder
        .diagnostics()
        .iter()
        .map(|note| note.split_once(", expected").map_or(note.as_str(), |(note, _)| note))
        .collect();
    assert_eq!(
        notes,
        [
            "line 1: no event: {\"type\":5}",
            "line 2: assistant: message: invalid type: string \"oops\"",
            "line 3: assistant: content block: invalid type: map",
            "line 4: stream_event: event: invalid type: sequence",
            "line 6: user: message: invalid length 0",
            "line 7: rate_limit_event: rate_limit_info: invalid type: string \"no\"",
            "line 8: system: attempt: invalid type: string \"two\"",
            "line 9: result: usage: invalid length 0",
        ]
    );
}

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

/// qwen 0.15.10 told an answer whose stream was cut as a success that ends in an error's words.
#[test]
fn qwens_answer_that_was_cut_is_a_failure() {
    let said = |usage: &str| {
        let text = "Hello.[API Error: terminated (cause: other side closed)]";
        format!(
            r#"{{"type":"assistant","message":{{"id":"q","model":"m","content":[{{"type":"text","text":"{text}"}}],"usage":{{{usage}}}}}}}
{{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"{text}"}}
"#
        )
    };
    assert_eq!(
        stream(&said(r#""input_tokens":0,"output_tokens":0"#)),
        [
            "failure - terminated (cause: other side closed)",
            "outcome Hello.[API Error: terminated (cause: other side closed)]",
        ]
    );
    // A model that was asked says what it likes.
    let answered = stream(&said(r#""input_tokens":9,"output_tokens":9"#));
    assert!(
        answered.iter().all(|event| !event.starts_with("failure")),
        "{answered:?}"
    );
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
    // As 2.1.330 prints it before its `api_retry`.
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

/// Text of which claude has asked for the rest, in each way it shows that.
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
    let streamed = |id: &str, said: &str| {
        start(id)
            + &event("content_block_start")
            + &delta(said)
            + &assistant(id, &text(said))
            + &event("content_block_stop")
    };
    let end = || event("message_stop");
    let asked = asks("Output token limit hit. Resume directly, and so on");
    let one = ["text One, ", "text two.", "message b One, two.", "outcome two."];

    // 2.1.330 and 2.1.197 with pieces, then without.
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

    // What parts two messages, and what is no part of an answer.
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
            "invalid call [] arguments are no object",
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
            "thinking so",
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

#[test]
fn bytes_split_inside_a_character() {
    let line = assistant("a", &text("é🦀"));
    let bytes = line.as_bytes();
    for at in 0..bytes.len() {
        let (events, _) = decode(Wire::ClaudeStream, &[&bytes[..at], &bytes[at..]]);
        assert_eq!(events, ["text é🦀", "message a é🦀"], "cut at {at}");
    }
}

#[test]
fn each_turn_has_its_outcome_and_at_most_one_failure() {
    let failed = r#"{"type":"assistant","message":{"id":"s","model":"<synthetic>","content":[{"type":"text","text":"API Error: 529"}]},"error":"server_error"}
{"type":"result","subtype":"success","is_error":true,"result":"API Error: 529","api_error_status":529}
"#;
    let lines = assistant("a", &text("one"))
        + &result("one")
        + failed
        + &assistant("b", &text("two"))
        + &result("two")
        + r#"{"type":"command_lifecycle"}"#;
    assert_eq!(
        stream(&lines),
        [
            "text one",
            "message a one",
            "outcome one",
            "failure server_error API Error: 529",
            "outcome API Error: 529",
            "text two",
            "message b two",
            "outcome two",
            "other command_lifecycle"
        ]
    );
    let died = failed.lines().next().unwrap_or_default();
    assert_eq!(stream(died), ["failure server_error API Error: 529"]);
    assert_eq!(
        stream(&format!("{died}\n{}{}", assistant("b", &text("two")), result("two"))),
        [
            "text two",
            "message b two",
            "warning SERVER_ERROR API Error: 529",
            "outcome two"
        ]
    );
}

#[test]
fn what_the_cli_says_itself_is_content_only_if_the_result_repeats_it() {
    let own = |text: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"s","model":"<synthetic>","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        ) + "\n"
    };
    let said = assistant("a", &text("x"));
    assert_eq!(
        stream(&(said.clone() + &own("No response requested.") + &result("x"))),
        ["text x", "message a x", "outcome x"]
    );
    assert_eq!(
        stream(&(said + &own("Done.") + &result("Done."))),
        [
            "text x",
            "message a x",
            "text Done.",
            "message - Done.",
            "outcome Done."
        ]
    );
}

#[test]
fn subagents_and_echoes_are_no_content() {
    let lines = assistant("a", &text("x")).replace("null", "\"toolu_1\"")
        + &start("b").replace("null", "\"toolu_1\"")
        + "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"echo\"},\"isReplay\":true}\n";
    assert_eq!(stream(&lines), ["other assistant", "other stream_event", "other user"]);
}

#[test]
fn deep_and_long_arguments_pass_as_they_are() {
    let deep = "{\"a\":".repeat(5000) + "1" + &"}".repeat(5000);
    assert_eq!(
        stream(&assistant("a", &tool_use("1", &deep))),
        [format!("call 1 t {deep}")]
    );
}

#[test]
fn json_alone_pretty_after_noise_and_as_an_array() {
    let object = r#"{"type":"result","subtype":"success","is_error":false,"result":"hi","num_turns":1,
        "modelUsage":{"small":{"outputTokens":1},"claude-opus-4-8[1m]":{"outputTokens":7}}}"#;
    let pretty = format!("warning: x\n{}\n", object.replace(',', ",\n  "));
    let want = ["text hi", "message - hi", "outcome hi"];
    for (name, text) in [
        ("one line", object.replace('\n', "")),
        ("pretty, after noise", pretty.clone()),
        ("array", format!("[{object}]")),
        ("pretty array", format!("[\n{object}\n]")),
        ("coloured", format!("\x1b[32m{object}\x1b[0m")),
        ("lines", assistant("-", &text("hi")) + object),
    ] {
        assert_eq!(decode(Wire::ClaudeJson, &[text.as_bytes()]).0, want, "{name}");
    }
    let mut events = Vec::new();
    let mut decoder = Decoder::new(Wire::ClaudeJson);
    decoder.push(pretty.as_bytes(), &mut events);
    decoder.finish(&mut events);
    assert_eq!(decoder.diagnostics(), ["line 1: not JSON: warning: x"]);
    let Some(Event::Outcome(outcome)) = events.pop() else {
        panic!("{events:?}")
    };
    assert_eq!(
        *outcome,
        Outcome {
            subtype: Some("success".into()),
            text: Some("hi".into()),
            num_turns: Some(1),
            model: Some("claude-opus-4-8".into()),
            ..Outcome::default()
        }
    );
}

#[test]
fn text_is_kept_for_whoever_knows_the_exit_code() {
    let printed: &[&[u8]] = &[
        b"\xEF\xBB\xBF\x1b[1mHel\xC3",
        b"\xA9lo\x1b[0m\r\n\r\n",
        b"{\"tool_calls\":[]}\n",
    ];
    let plain = "Helélo\r\n\r\n{\"tool_calls\":[]}\n";
    for wire in [Wire::Text, Wire::ClaudeStream, Wire::ClaudeJson] {
        let (events, decoder) = decode(wire, printed);
        assert_eq!(events, [""; 0], "{wire:?}");
        assert_eq!(decoder.plain_text().as_deref(), Some(plain), "{wire:?}");
        assert!(!decoder.saw_json());
    }
    let (events, decoder) = decode(Wire::Text, &[]);
    assert_eq!((events, decoder.plain_text()), (vec![], None));
}

#[test]
fn a_line_over_the_limit_is_a_diagnostic() {
    let mut decoder = Decoder::with_line_limit(Wire::ClaudeStream, 200);
    let mut events = Vec::new();
    let lines = assistant("a", &text(&"x".repeat(500))) + &assistant("b", &text("y"));
    decoder.push(lines.as_bytes(), &mut events);
    decoder.finish(&mut events);
    assert_eq!(events.iter().map(brief).collect::<Vec<_>>(), ["text y", "message b y"]);
    assert_eq!(
        decoder.diagnostics(),
        ["line 1: 617 bytes are more than a line may have; dropped"]
    );
}

#[test]
fn a_line_of_sixty_four_mebibytes_in_pipe_sized_pieces() {
    let frame = assistant("a", &text(""));
    let (before, after) = frame.split_at(frame.len() - r#""}]},"parent_tool_use_id":null}"#.len() - 1);
    let piece = "x".repeat(8192);
    let pieces = (64 << 20) / piece.len() - 1;
    let mut decoder = Decoder::new(Wire::ClaudeStream);
    let mut events = Vec::new();
    decoder.push(before.as_bytes(), &mut events);
    for _ in 0..pieces {
        decoder.push(piece.as_bytes(), &mut events);
    }
    decoder.push(after.as_bytes(), &mut events);
    decoder.finish(&mut events);
    let [Event::TextDelta { text, .. }, Event::Message { content, .. }] = events.as_slice() else {
        panic!("{} events, {:?}", events.len(), decoder.diagnostics());
    };
    assert_eq!(
        (text.len(), content.len()),
        (pieces * piece.len(), pieces * piece.len())
    );
}
