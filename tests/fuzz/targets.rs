//! What is fuzzed: every place that reads what others have written. In: bytes. Out: nothing, or a panic.
//!
//! Two drivers share this list: `tests/integration/fuzz.rs` (stable Rust, part of `cargo test`) and the crate around this file
//! (cargo-fuzz: libFuzzer, guided by coverage). A target is a name, seeds and a function; one more is one more row.

use std::collections::HashSet;
use std::sync::Arc;

use deep_factor_providers::classify::{self, TextFacts, UserRule};
use deep_factor_providers::command::{self, Installed, Mode};
use deep_factor_providers::declare::mcp;
use deep_factor_providers::decode::lines::{Stripper, strip_ansi};
use deep_factor_providers::decode::{Decoder, Wire};
use deep_factor_providers::event::Event;
use deep_factor_providers::exchange::codex_live::inbound::{self, Notice};
use deep_factor_providers::exchange::codex_live::reader::CodexTurnReader;
use deep_factor_providers::exchange::codex_live::service::{self, Keep};
use deep_factor_providers::exchange::codex_live::settings::{self, UserConfig};
use deep_factor_providers::exchange::live::session::TurnStep;
use deep_factor_providers::exchange::rpc;
use deep_factor_providers::exchange::stream_json::{self, Inbound};
use deep_factor_providers::fold::Fold;
use deep_factor_providers::message::Message;
use deep_factor_providers::output;
use deep_factor_providers::prompt;
use deep_factor_providers::provider::options::{Options, OutputFormat};
use deep_factor_providers::provider::{self, Provider, custom};
use deep_factor_providers::redact::{Channel, Redactor};
use deep_factor_providers::toolcall::{self, Gate, Mark, Marked, TextCalls};

/// One thing to fuzz.
pub struct Target {
    /// What it is called; its corpus is `corpus/<name>`.
    pub name: &'static str,
    /// Panics where a law is broken.
    pub run: fn(&[u8]),
    /// Inputs to begin with, beside the corpus.
    pub seeds: &'static [&'static str],
    /// Whether the recordings of real CLIs are seeds, too.
    pub recordings: bool,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "decode",
        run: decode,
        seeds: &[
            "\x00{\"type\":\"result\",\"subtype\":\"success\"}\n",
            "\x27\u{feff}[{}]",
        ],
        recordings: true,
    },
    Target {
        name: "output",
        run: parse_output,
        seeds: &["\x01{\"content\":\"hi\"}", "\x02[error] 429"],
        recordings: true,
    },
    Target {
        name: "toolcall",
        run: toolcall,
        seeds: &[
            "Sure.\n```json\n{\"tool_calls\":[{\"name\":\"a\",\"args\":{\"s\":\"```\"}}]}\n```\nDone",
            "{\"tool_calls\":[{\"name\":\"a\",}]} ~~~\n{'tool_calls': [",
        ],
        recordings: false,
    },
    Target {
        name: "ansi",
        run: ansi,
        seeds: &["\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x1b\\ \u{9b}2J \x1b(B\x1bP1$r\x1b\\"],
        recordings: false,
    },
    Target {
        name: "classify",
        run: classify,
        seeds: &[
            "429 Too Many Requests: retry after 1h2m3s",
            "You've hit your limit · resets 3pm (UTC)",
            "Try again at Oct 3rd, 2026 10:50 PM. retry-after-ms: 99999999999999.999999999",
            "resets 2026-02-30T25:61:61.9999999999+99:99 sk-ant-api03-x error: unknown option '--x'",
        ],
        recordings: true,
    },
    Target {
        name: "user-rule",
        run: user_rule,
        seeds: &["quota\0QUOTA_EXCEEDED\0come back", "(?i)a{9999}{9999}\0X\0"],
        recordings: false,
    },
    Target {
        name: "options",
        run: options,
        seeds: &[
            r#"{"model":"sonnet","timeout":60000,"env":{"A":"b","C":null},"extraArgs":["--x"],"retry":{"maxAttempts":2}}"#,
            r#"{"cwd":"/tmp","inputEncoding":"text","systemPrompt":null,"disableBuiltInTools":false,"permissionMode":"plan"}"#,
            r#"{"promptStyle":"arg","outputFormat":"text","noInput":true,"maxBuffer":1e3,"killGrace":-1,"spares":0.5}"#,
        ],
        recordings: false,
    },
    Target {
        name: "config",
        run: config,
        seeds: &[
            r#"{"providerId":"my-cli","command":"my-cli","defaultArgs":["--print"],"outputFormat":"stream-json","promptStyle":"stdin","models":[{"modelId":"small","name":"Small"}],"defaultModel":"small","maxTokens":4096,"timeout":120000,"modelArgs":["--model","{model}"],"errorRules":[{"pattern":"quota","code":"QUOTA_EXCEEDED","hint":"x"}]}"#,
        ],
        recordings: false,
    },
    Target {
        name: "thread",
        run: thread,
        seeds: &[
            r#"[{"role":"system","content":"a"},{"role":"human","content":"<b> & \u0000 \ud800"},{"role":"ai","content":"","toolCalls":[{"id":"1","name":"t","args":{"x":1.0}}]},{"role":"tool","content":"ok","toolCallId":"1"}]"#,
        ],
        recordings: false,
    },
    Target {
        name: "control-line",
        run: control_line,
        seeds: &[
            r#"{"type":"control_request","request_id":"1","request":{"subtype":"mcp_message","server_name":"tools","message":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}}"#,
            r#"{"type":"control_response","response":{"subtype":"error","request_id":"1","error":"no"}}"#,
        ],
        recordings: true,
    },
    Target {
        name: "app-server-line",
        run: app_server_line,
        seeds: &[
            r#"{"method":"item/tool/call","id":0,"params":{"threadId":"t","callId":"c","arguments":{}}}"#,
            r#"{"method":"rawResponseItem/completed","params":{"threadId":"t","turnId":"u","item":{"type":"function_call","call_id":"c","name":"a","arguments":"[1]"}}}"#,
            r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"failed","error":{"message":"m","codexErrorInfo":{"x":{"httpStatusCode":401}}}}}}"#,
        ],
        recordings: false,
    },
];

/// The moment that relative times count from: 2026-06-01T00:00:00Z.
const NOW_MS: u64 = 1_780_272_000_000;

const WIRES: [Wire; 9] = [
    Wire::ClaudeStream,
    Wire::ClaudeJson,
    Wire::Text,
    Wire::CodexJson,
    Wire::GeminiStream,
    Wire::GeminiJson,
    Wire::OpencodeJson,
    Wire::GenericStream,
    Wire::GenericJson,
];

/// The first byte, which chooses what a target does with the rest.
fn split(data: &[u8]) -> (usize, &[u8]) {
    match data {
        [first, rest @ ..] => (usize::from(*first), rest),
        [] => (0, data),
    }
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// One of the providers, none at all included.
fn provider_by(choice: usize) -> &'static str {
    provider::ALL
        .get(choice % (provider::ALL.len() + 1))
        .map_or("", |provider| provider.id.as_ref())
}

/// However output is cut into pieces, it decodes to the same events, and they fold.
fn decode(data: &[u8]) {
    let (choice, data) = split(data);
    let wire = WIRES[choice % WIRES.len()];
    let through = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut decoder, mut events) = (Decoder::with_line_limit(wire, 1 << 16), Vec::new());
        pieces.for_each(|piece| decoder.push(piece, &mut events));
        decoder.finish(&mut events);
        (events, decoder)
    };
    let (events, whole) = through(&mut std::iter::once(data));
    let (same, cut) = through(&mut data.chunks(choice / WIRES.len() % 7 + 1));
    assert_eq!(format!("{events:?}"), format!("{same:?}"), "{wire:?}");
    assert_eq!(whole.plain_text(), cut.plain_text());
    assert_eq!(whole.diagnostics(), cut.diagnostics());
    assert!(whole.diagnostics().len() <= 51);
    fold(events);
}

fn fold(events: Vec<Event>) {
    let (mut fold, mut public) = (Fold::new(HashSet::new(), TextCalls::Lenient), Vec::new());
    for event in events {
        fold.push(event, &mut public);
    }
    let calls = fold.finish(&mut public).reply.tool_calls;
    let ids: HashSet<&String> = calls.iter().map(|call| &call.id).collect();
    assert_eq!(ids.len(), calls.len(), "an id stands twice");
}

/// Every format of every provider.
fn parse_output(data: &[u8]) {
    let (choice, data) = split(data);
    let format = [OutputFormat::Text, OutputFormat::Json, OutputFormat::StreamJson][choice % 3];
    let parsed = output::parse(&text(data), format, Some(provider_by(choice / 3)), NOW_MS);
    assert_eq!(parsed.is_error, parsed.error.is_some());
}

/// What comes out of the gate is the remainder of the whole, and the same calls are found.
fn toolcall(data: &[u8]) {
    let (choice, data) = split(data);
    let text = text(data);
    let whole = toolcall::extract(&text);
    assert!(whole.remainder.len() <= text.len());
    let (mut gate, mut shown, mut rest) = (Gate::new(&TextCalls::Lenient), String::new(), text.as_str());
    while let Some((at, next)) = rest.char_indices().nth(choice % 5) {
        let (piece, tail) = rest.split_at(at + next.len_utf8());
        shown.push_str(&gate.push(piece).unwrap_or_default());
        rest = tail;
    }
    shown.push_str(&gate.push(rest).unwrap_or_default());
    let (last, found) = gate.finish();
    shown.push_str(&last.unwrap_or_default());
    assert_eq!(shown, whole.remainder);
    assert_eq!((&found.tool_calls, &found.invalid), (&whole.tool_calls, &whole.invalid));
    marked(&text, choice % 5 + 1);
    let mut calls = whole.tool_calls;
    toolcall::make_unique(&mut calls, &mut HashSet::from(["call_0".to_owned()]).into());
    let ids: HashSet<&String> = calls.iter().map(|call| &call.id).collect();
    assert_eq!(ids.len(), calls.len());
}

/// In the marked form no call comes of a text without the mark, and all of it comes out.
fn marked(text: &str, size: usize) {
    let mark = Mark::new(0x5bd1_e995_9e37_79b9);
    let holds = text.contains(mark.as_str());
    let rules = Marked::new(mark, ["a", "add"].map(str::to_owned));
    let (mut gate, mut shown) = (Gate::new(&TextCalls::Marked(Arc::new(rules))), String::new());
    let characters: Vec<char> = text.chars().collect();
    for piece in characters.chunks(size) {
        shown.extend(gate.push(&piece.iter().collect::<String>()));
    }
    let (last, found) = gate.finish();
    shown.extend(last);
    if !holds {
        assert!(found.is_empty());
        assert_eq!(shown, text);
    }
}

/// Stripping is the same for every way of cutting, leaves no ESC, and nothing to strip.
fn ansi(data: &[u8]) {
    let (choice, data) = split(data);
    let text = text(data);
    let whole = strip_ansi(&text);
    assert!(!whole.contains('\x1B'));
    assert_eq!(strip_ansi(&whole), whole);
    let (mut stripper, mut joined, mut rest) = (Stripper::default(), String::new(), text.as_str());
    while let Some((at, next)) = rest.char_indices().nth(choice % 3) {
        let (piece, tail) = rest.split_at(at + next.len_utf8());
        joined.push_str(&stripper.strip(piece));
        rest = tail;
    }
    joined.push_str(&stripper.strip(rest));
    assert_eq!(joined, whole);
}

/// Any error text has a verdict: one line, with a wait that is no nonsense; and what is redacted stays so.
fn classify(data: &[u8]) {
    let (choice, data) = split(data);
    let text = text(data);
    let context = TextFacts {
        provider: provider_by(choice),
        exit_code: (choice % 3 == 0).then_some(1),
        ..TextFacts::default()
    };
    let verdict = classify::classify_text(&text, &context, NOW_MS);
    assert!(!verdict.reason.contains('\n'), "{:?}", verdict.reason);
    assert!(!verdict.reason.is_empty());
    let offset = [None, Some(0), Some(-720), Some(840), Some(i32::MAX), Some(i32::MIN)][choice % 6];
    let _wait = classify::retry_after_in(&text, NOW_MS, offset);
    let _early = classify::retry_after_in(&text, 0, offset);
    let redactor = Redactor::default();
    let redacted = redactor.redact(Channel::Error, &text);
    assert_eq!(redactor.redact(Channel::Error, &redacted), redacted);
    let _flag = classify::unsupported_flag(context.provider, &text);
}

/// A rule of the user's own: `pattern NUL code NUL hint`.
fn user_rule(data: &[u8]) {
    let text = text(data);
    let mut parts = text.splitn(3, '\0');
    let mut next = || parts.next().unwrap_or_default();
    let (pattern, code, hint) = (next(), next(), next());
    let _rule = UserRule::new(pattern, code, Some(hint.to_owned()));
}

/// Options are refused with one clear sentence, or make a command line.
fn options(data: &[u8]) {
    let json = text(data);
    for provider in provider::ALL {
        with_options(provider, &json);
    }
}

fn with_options(provider: &Provider, json: &str) {
    match Options::parse(provider, json) {
        Ok(options) => {
            for mode in [Mode::Print("hi"), Mode::Live] {
                let line = command::build(provider, &options, mode, true, &Installed::default());
                let _flags = line.map(|line| line.all_flags());
            }
        }
        Err(error) => {
            assert!(
                !error.message.is_empty() && !error.message.contains('\n'),
                "{}",
                error.message
            );
            assert!(error.message.chars().count() <= 480, "{}", error.message);
        }
    }
}

/// The description of a CLI is refused with one clear sentence, or is a provider that takes options.
fn config(data: &[u8]) {
    match custom::provider(&text(data)) {
        Ok(provider) => with_options(&provider, "{}"),
        Err(error) => {
            assert!(
                !error.message.is_empty() && !error.message.contains('\n'),
                "{}",
                error.message
            );
            assert!(error.message.chars().count() <= 480, "{}", error.message);
        }
    }
}

/// Any thread renders, as XML that holds nothing XML forbids.
fn thread(data: &[u8]) {
    let Ok(messages) = serde_json::from_slice::<Vec<Message>>(data) else {
        return;
    };
    let xml = prompt::messages_to_xml(&messages);
    let forbidden = |c: char| matches!(c, '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\u{FFFE}' | '\u{FFFF}');
    let passed_through = messages.len() == 1;
    assert!(passed_through || !xml.contains(forbidden));
    let _text = prompt::messages_to_prompt(&messages);
}

/// A line of the CLI's control protocol, and the message for our tools in it.
fn control_line(data: &[u8]) {
    for line in text(data).lines() {
        if let Some(Inbound::Mcp { message, .. }) = stream_json::read(line) {
            let message = serde_json::from_str(message.get()).unwrap_or_default();
            let _answer = mcp::answer(&[], false, &message);
        }
    }
}

/// A line of `codex app-server` is what it is, whoever wrote it; what a thread is told ends a turn at most.
fn app_server_line(data: &[u8]) {
    let (choice, rest) = split(data);
    let text = text(rest);
    let _ = UserConfig::read(&text);
    let _ = service::catalog(
        &serde_json::from_str(&text).unwrap_or_default(),
        &["m"],
        Keep::default(),
    );
    let tools = settings::declare(&[]);
    let mut reader = CodexTurnReader::new(&tools, "t", "m", (choice % 2 == 0).then(|| "u".to_owned()));
    let mut events = Vec::new();
    for line in text.lines() {
        let event = match rpc::message::read(line) {
            rpc::message::Message::Notification { method, params } => match inbound::read(&method, params) {
                Some(Notice::Thread(_, event)) => event,
                Some(Notice::RateLimits(_)) | None => continue,
            },
            rpc::message::Message::Request(request) => inbound::asked(&request).1,
            rpc::message::Message::Answer { .. } | rpc::message::Message::Nothing => continue,
        };
        let step = reader.push(event, &inbound::RateLimits::default(), &mut events);
        let ended = events.iter().any(|event| matches!(event, Event::Outcome(_)));
        assert_eq!(step != TurnStep::More, ended);
        if ended {
            break;
        }
    }
    let _ = reader.into_recalled();
    fold(events);
}
