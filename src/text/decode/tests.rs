//! Tests of what recordings don't show: broken lines, other orders, limits.

mod messages;

use serde_json::{Value, json};

use super::{Decoder, Wire};
use dfp_model::event::{Event, Failure, Outcome};

/// Decodes `pieces` and returns the events in short form.
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
        Event::Reasoning { details } => {
            let shown: Vec<&str> = details.iter().map(|detail| detail.shown()).collect();
            format!("reasoning {}", shown.join("|"))
        }
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

/// Makes a text delta; `text` is JSON without its quotes.
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

/// Makes an `assistant` line with these blocks.
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
fn a_line_cut_short_is_reported_and_a_last_line_without_an_end_is_read() {
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

/// claude 2.1.330 and later tell all windows of a plan with each answer; the one that they speak of comes last.
#[test]
fn every_window_of_a_plan_is_reported() {
    let window =
        |utilization: f64, resets: u64| json!({"utilization": utilization, "resetsAt": resets, "status": "allowed"});
    let mut windows = json!({"five_hour": window(0.42, 10), "seven_day": window(0.17, 20)});
    let line = |windows: &Value| {
        let info =
            json!({"status": "allowed", "resetsAt": 10, "rateLimitType": "five_hour", "unifiedWindows": windows});
        format!("{}\n", json!({"type": "rate_limit_event", "rate_limit_info": info}))
    };
    let limit = |kind: &str, utilization: &str, resets: u64| {
        format!(
            "RateLimit {{ status: \"allowed\", resets_at: Some({resets}), limit_type: Some(\"{kind}\"), utilization: {utilization} }}"
        )
    };
    let (events, _) = decode(Wire::ClaudeStream, &[line(&windows).as_bytes()]);
    assert_eq!(
        events,
        [
            limit("seven_day", "Some(0.17)", 20_000),
            limit("five_hour", "Some(0.42)", 10_000)
        ]
    );
    // 2.1.330 tells no status of the windows.
    windows["seven_day"].as_object_mut().unwrap().remove("status");
    let (events, _) = decode(Wire::ClaudeStream, &[line(&windows).as_bytes()]);
    assert_eq!(events[0], limit("seven_day", "Some(0.17)", 20_000));
    // Names are the CLI's, but their number is bounded.
    for at in 0..100 {
        windows[format!("w{at}")] = window(0.0, 1);
    }
    let (events, _) = decode(Wire::ClaudeStream, &[line(&windows).as_bytes()]);
    assert_eq!(events.len(), 9);
    // What can't be read is left out, and noted.
    let (events, decoder) = decode(Wire::ClaudeStream, &[line(&json!({"five_hour": 1})).as_bytes()]);
    assert_eq!(events, [limit("five_hour", "None", 10_000)]);
    assert_eq!(decoder.diagnostics().len(), 1);
}

/// qwen 0.15.10 reported an answer whose stream was cut as a success that ends in an error's text.
#[test]
fn qwens_answer_that_was_cut_is_a_failure() {
    let cut_text = "Hello.[API Error: terminated (cause: other side closed)]";
    let empty_text = r" \n\t [API Error: Model stream ended with empty response text.]";
    let saying = |text: &str, usage: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"q","model":"m","content":[{{"type":"text","text":"{text}"}}],"usage":{{{usage}}}}}}}
{{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"{text}"}}
"#
        )
    };
    let answer = |usage: &str| saying(cut_text, usage);
    assert_eq!(
        stream(&answer(r#""input_tokens":0,"output_tokens":0"#)),
        [
            "failure - terminated (cause: other side closed)",
            "outcome Hello.[API Error: terminated (cause: other side closed)]",
        ]
    );
    let cut = |lines: &str| stream(lines).iter().any(|event| event.starts_with("failure"));
    // A model's own text may look like this, and so may that of a CLI which does not know yet what was written.
    let init = |version: &str| format!("{{\"type\":\"system\",\"subtype\":\"init\",\"{version}\":\"1.0.0\"}}\n");
    let (read, written) = (
        answer(r#""input_tokens":9,"output_tokens":0"#),
        answer(r#""input_tokens":9,"output_tokens":9"#),
    );
    assert!(!cut(&written) && !cut(&(init("qwen_code_version") + &written)));
    assert!(!cut(&read) && !cut(&(init("claude_code_version") + &read)));
    assert!(cut(&(init("qwen_code_version") + &read)));
    let white_space = saying(empty_text, r#""input_tokens":9,"output_tokens":9"#);
    assert!(cut(&(init("qwen_code_version") + &white_space)) && !cut(&white_space));
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
    let answer = assistant("a", &text("x"));
    assert_eq!(
        stream(&(answer.clone() + &own("No response requested.") + &result("x"))),
        ["text x", "message a x", "outcome x"]
    );
    assert_eq!(
        stream(&(answer + &own("Done.") + &result("Done."))),
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

/// The number of bytes of `text` that make the output complete; `None` if it never is.
fn complete_at(wire: Wire, text: &str, size: usize) -> Option<usize> {
    let (mut decoder, mut events, mut at) = (Decoder::new(wire), Vec::new(), 0);
    let mut found = None;
    for piece in text.as_bytes().chunks(size) {
        decoder.push(piece, &mut events);
        at += piece.len();
        match decoder.is_complete() {
            true => found = found.or(Some(at)),
            false => found = None,
        }
    }
    found
}

#[test]
fn a_document_is_complete_with_its_last_bracket() {
    let one = r#"{"type":"result","subtype":"success","is_error":false,"result":"a } \" ] {","num_turns":1}"#;
    let many = format!("[{{\"type\":\"system\"}},\n{one}]");
    let noisy = format!("warning: [x] {{\n[not json]\n{one}\n");
    for (text, end) in [(one, one.len()), (&many, many.len()), (&noisy, noisy.len() - 1)] {
        assert_eq!(complete_at(Wire::ClaudeJson, text, 1), Some(end), "{text}");
        assert_eq!(
            complete_at(Wire::ClaudeJson, text, usize::MAX),
            Some(text.len()),
            "{text}"
        );
    }
    assert_eq!(complete_at(Wire::ClaudeJson, &one[..one.len() - 1], 1), None);
    assert_eq!(
        complete_at(Wire::ClaudeJson, &format!("{one}\nbye [\n"), 1),
        Some(one.len())
    );
    assert_eq!(complete_at(Wire::ClaudeJson, &format!("{one}\n{{\"type\":"), 1), None);
    assert_eq!(complete_at(Wire::GenericJson, one, 1), None, "it may print one more");
    assert_eq!(complete_at(Wire::Text, one, 1), None);
}

#[test]
fn a_turn_that_begins_after_the_last_makes_a_stream_incomplete() {
    let result = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"a\",\"num_turns\":1}\n";
    let init = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}\n";
    let noise = "{\"type\":\"system\",\"subtype\":\"background_tasks_changed\"}\nnoise\n";
    for (text, end) in [
        (format!("{init}{result}"), Some(init.len() + result.len())),
        (format!("{init}{result}{noise}"), Some(init.len() + result.len())),
        (format!("{result}{init}"), None),
        (format!("{result}{init}{result}"), Some(2 * result.len() + init.len())),
        (result.trim_end().to_owned(), None),
    ] {
        assert_eq!(complete_at(Wire::ClaudeStream, &text, 1), end, "{text}");
    }
}
