//! Every recording of a real CLI, decoded and compared whole with `__tests__/fixtures/decode/<cli>.txt`.
//!
//! `UPDATE_GOLDENS=1 cargo test --lib decode::golden` writes the files anew; read the diff before you commit it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Decoder, Wire};
use crate::event::{Event, kinds};
use crate::fold::Fold;
use crate::message::Usage;
use crate::toolcall::TextCalls;

/// One recorded run.
pub(crate) struct Recording {
    pub name: String,
    pub wire: Wire,
    pub argv: Vec<String>,
    pub exit_code: Option<i32>,
    pub stdout: Vec<u8>,
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("__tests__/fixtures")
}

/// The wire format that a recorded command line asks for; `None` if it is not a run of a prompt.
pub(crate) fn wire_of(cli: &str, argv: &[String]) -> Option<Wire> {
    let has = |word: &str| argv.iter().any(|arg| arg == word);
    let format = argv
        .iter()
        .position(|arg| arg == "--output-format" || arg == "--format")
        .and_then(|at| argv.get(at + 1));
    match (cli, format.map(String::as_str)) {
        ("claude" | "claude-2.1.330", Some("stream-json")) => Some(Wire::ClaudeStream),
        ("claude" | "claude-2.1.330", Some("json")) => Some(Wire::ClaudeJson),
        ("claude" | "claude-2.1.330", _) => (has("-p") || has("--print")).then_some(Wire::Text),
        ("qwen" | "qwen-0.24.4", Some("stream-json")) => Some(Wire::QwenStream),
        ("qwen" | "qwen-0.24.4", Some("json")) => Some(Wire::ClaudeJson),
        ("qwen" | "qwen-0.24.4", _) => Some(Wire::Text),
        ("codex", _) => has("exec").then_some(if has("--json") { Wire::CodexJson } else { Wire::Text }),
        ("gemini", Some("stream-json")) => Some(Wire::GeminiStream),
        ("gemini", Some("json")) => Some(Wire::GeminiJson),
        ("gemini", _) => Some(Wire::Text),
        ("grok", Some("streaming-json")) => Some(Wire::GrokStream),
        ("opencode", Some("json")) => Some(Wire::OpencodeJson),
        ("opencode", _) => has("run").then_some(Wire::Text),
        ("copilot", Some("json")) => Some(Wire::CopilotJson),
        ("copilot", _) => has("--available-tools").then_some(Wire::Text),
        _ => None,
    }
}

/// The recorded runs of `cli` that printed anything.
pub(crate) fn recordings(cli: &str) -> Vec<Recording> {
    recordings_in(&fixtures().join("recordings").join(cli), cli)
}

/// The models' texts of all recordings, message by message.
pub(crate) fn answers() -> Vec<String> {
    let folders = |set: &str| {
        let mut folders: Vec<PathBuf> = std::fs::read_dir(fixtures().join(set))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        folders.sort_unstable();
        folders
    };
    let mut answers = Vec::new();
    for folder in folders("recordings").into_iter().chain(folders("drift")) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let cli = name.split('-').next().unwrap();
        for Recording { wire, stdout, .. } in recordings_in(&folder, cli) {
            let (events, decoder) = decode(wire, [stdout.as_slice()]);
            answers.extend(decoder.plain_text());
            answers.extend(events.into_iter().filter_map(|event| match event {
                Event::Message { content, .. } => Some(content),
                _ => None,
            }));
        }
    }
    answers
}

fn recordings_in(folder: &Path, cli: &str) -> Vec<Recording> {
    #[derive(serde::Deserialize)]
    struct Meta {
        argv: Vec<String>,
        exit_code: Option<i32>,
    }
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".stdout")?.to_owned()))
        .collect();
    names.sort_unstable();
    let read = |name: String| {
        let stdout = std::fs::read(folder.join(format!("{name}.stdout"))).unwrap();
        let meta = std::fs::read_to_string(folder.join(format!("{name}.meta.json"))).unwrap();
        let Meta { argv, exit_code } = serde_json::from_str(&meta).unwrap();
        let wire = wire_of(cli, &argv).filter(|_| !stdout.is_empty())?;
        Some(Recording {
            name,
            wire,
            argv,
            exit_code,
            stdout,
        })
    };
    names.into_iter().filter_map(read).collect()
}

/// Decodes `pieces`, and returns all events and the decoder.
pub(crate) fn decode<'a>(wire: Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Decoder) {
    let mut decoder = Decoder::new(wire);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    decoder.finish(&mut events);
    (events, decoder)
}

fn snapshot(events: &[Event], decoder: &Decoder) -> String {
    let mut text = String::new();
    for event in events {
        writeln!(text, "  {}", line(event)).unwrap();
    }
    let notes = decoder.diagnostics();
    for note in notes.iter().take(3) {
        writeln!(text, "  ! {}", short(note)).unwrap();
    }
    if notes.len() > 3 {
        writeln!(text, "  ! and {} more", notes.len() - 3).unwrap();
    }
    if let Some(plain) = decoder.plain_text() {
        writeln!(text, "  plain {}", short(&plain)).unwrap();
    }
    if decoder.cut_short() {
        text.push_str("  cut short\n");
    }
    text
}

/// One event on one line: its kind and its important fields. Ids that change with every recording are cut.
pub(crate) fn line(event: &Event) -> String {
    match event {
        Event::TextDelta { message_id, text } => format!("text {} {}", id(message_id), short(text)),
        Event::ThinkingDelta { message_id, text } => format!("thinking {} {}", id(message_id), short(text)),
        Event::Reasoning { details } => {
            let details = serde_json::to_string(details).unwrap_or_default();
            format!("reasoning {}", short(&details))
        }
        Event::Message { id: message, content } => format!("message {} {}", id(message), short(content)),
        Event::ToolCallDelta {
            tool_call_id,
            name,
            delta,
        } => format!("call piece {tool_call_id} {name} {}", short(delta)),
        Event::ToolCall { tool_call: call } => format!("call {} {} {}", call.id, call.name, short(call.args.get())),
        Event::ToolResult {
            tool_call_id,
            content,
            is_error,
        } => format!("result {tool_call_id} error={is_error} {}", short(content)),
        Event::Abandoned => "abandoned".to_owned(),
        Event::Failure(failure) => format!(
            "failure {} http={} terminal={} resets={} {}",
            word(&failure.kind),
            figure(&failure.http_status),
            word(&failure.terminal_reason),
            figure(&failure.resets_at),
            short(&failure.message)
        ),
        Event::Usage { usage, raw_stop_reason } => format!("usage {} stop={}", tokens(usage), word(raw_stop_reason)),
        Event::Outcome(outcome) => format!(
            "outcome {} error={} turns={} stop={} cost={} clock={} session={} model={} {} {}",
            word(&outcome.subtype),
            outcome.is_error,
            figure(&outcome.num_turns),
            word(&outcome.stop_reason),
            figure(&outcome.cost_usd),
            outcome.duration_ms.is_some(),
            id(&outcome.session_id),
            word(&outcome.model),
            outcome.usage.as_ref().map_or_else(|| "-".to_owned(), tokens),
            outcome.text.as_deref().map_or_else(|| "-".to_owned(), short),
        ),
        Event::Other { kind, raw } => format!("other {kind} {} bytes", raw.get().len()),
        Event::Session {
            session_id,
            model,
            permission_mode,
            version,
        } => format!(
            "session {} model={} mode={} version={}",
            id(session_id),
            word(model),
            word(permission_mode),
            word(version)
        ),
        other => format!("{other:?}"),
    }
}

fn tokens(usage: &Usage) -> String {
    format!(
        "in={} out={} total={} read={} written={} thinking={}",
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        figure(&usage.cache_read_tokens),
        figure(&usage.cache_write_tokens),
        figure(&usage.reasoning_tokens),
    )
}

fn word(word: &Option<String>) -> &str {
    word.as_deref().unwrap_or("-")
}

fn figure(figure: &Option<impl ToString>) -> String {
    figure.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn id(id: &Option<String>) -> String {
    match id {
        Some(id) if id.starts_with("msg_") || id.len() < 12 => id.clone(),
        Some(id) => id.chars().take(8).collect(),
        None => "-".to_owned(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{:?}… ({} bytes)", &text[..at], text.len()),
        None => format!("{text:?}"),
    }
}

fn check(cli: &str) {
    let mut text = String::new();
    for Recording { name, wire, stdout, .. } in recordings(cli) {
        let (events, decoder) = decode(wire, [stdout.as_slice()]);
        write!(text, "{name} ({wire:?})\n{}", snapshot(&events, &decoder)).unwrap();
    }
    let path = fixtures().join("decode").join(format!("{cli}.txt"));
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (number, (is, was)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(is, was, "{}:{}", path.display(), number + 1);
    }
    assert_eq!(text.lines().count(), golden.lines().count(), "{}", path.display());
}

/// Checks that the deltas of every message, joined, are the message, and that a turn has at most one failure.
fn check_invariants(cli: &str) {
    for Recording { name, wire, stdout, .. } in recordings(cli) {
        let (events, _) = decode(wire, [stdout.as_slice()]);
        let (mut streamed, mut failures) = (String::new(), 0);
        for event in &events {
            // An event is serialised under its name in the common vocabulary.
            let tag = serde_json::to_value(event).ok().map(|event| event["type"].clone());
            assert_eq!(
                tag.and_then(|tag| Some(tag.as_str()?.to_owned())),
                event.kind().map(kinds::name),
                "{event:?}"
            );
            match event {
                Event::TextDelta { text, .. } => streamed.push_str(text),
                Event::Message { content, .. } => assert_eq!(std::mem::take(&mut streamed), *content, "{cli}/{name}"),
                Event::Abandoned => streamed.clear(),
                Event::Failure(_) => failures += 1,
                Event::Outcome(_) => {
                    assert!(failures <= 1, "{cli}/{name}");
                    failures = 0;
                }
                _ => {}
            }
        }
        assert_eq!(streamed, "", "{cli}/{name}: deltas without a message");
        assert!(failures <= 1, "{cli}/{name}");
    }
}

/// Checks that the events are the same however the pipe cuts the bytes.
fn check_chunking(cli: &str) {
    for Recording { name, wire, stdout, .. } in recordings(cli) {
        let (events, decoder) = decode(wire, [stdout.as_slice()]);
        let whole = format!("{events:?} {}", snapshot(&events, &decoder));
        for size in [1, 7, 4096] {
            let (events, decoder) = decode(wire, stdout.chunks(size));
            assert_eq!(
                format!("{events:?} {}", snapshot(&events, &decoder)),
                whole,
                "{cli}/{name} by {size}"
            );
        }
    }
}

/// Checks that the public events of a run, as a run log holds them, fold to the reply that the log has in `done`.
fn check_replay(cli: &str) {
    let fold = |events: Vec<Event>| {
        let (mut fold, mut public) = (Fold::new(HashSet::new(), TextCalls::Lenient), Vec::new());
        for event in events {
            fold.push(event, &mut public);
        }
        let reply = fold.finish(&mut public).reply;
        let texts = (reply.content, reply.messages, reply.thinking, reply.message_id);
        (format!("{texts:?} {:?}", reply.tool_calls), public)
    };
    for Recording { name, wire, stdout, .. } in recordings(cli) {
        let (reply, recorded) = fold(decode(wire, [stdout.as_slice()]).0);
        let (replayed, again) = fold(recorded.clone());
        assert_eq!(replayed, reply, "{cli}/{name}");
        // Folding keeps every event: the log of a killed run can be read as it is.
        let json = |events: &[Event]| serde_json::to_string(events).unwrap();
        assert_eq!(json(&again), json(&recorded), "{cli}/{name}");
    }
}

macro_rules! recorded {
    ($($name:ident $cli:literal;)*) => {$(
        mod $name {
            #[test]
            fn as_the_golden_file_says() {
                super::check($cli);
            }
            #[test]
            fn deltas_are_the_messages() {
                super::check_invariants($cli);
            }
            #[test]
            fn replayed_it_is_the_same_reply() {
                super::check_replay($cli);
            }
            #[test]
            fn any_chunking() {
                super::check_chunking($cli);
            }
        }
    )*};
}

recorded! {
    claude "claude";
    claude_2_1_330 "claude-2.1.330";
    qwen "qwen";
    qwen_0_24_4 "qwen-0.24.4";
    codex "codex";
    gemini "gemini";
    opencode "opencode";
    copilot "copilot";
    grok "grok";
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Cuts at random places of a recording that has deltas, snapshots, calls, control lines and four turns.
    #[test]
    fn cuts_anywhere(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9)) {
        let path = fixtures().join("recordings/claude-2.1.330/defer-live-multistep.stdout");
        let stdout = std::fs::read(path).unwrap();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stdout.len() + 1)).collect();
        cuts.extend([0, stdout.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &stdout[ends[0]..ends[1]]);
        let (whole, _) = decode(Wire::ClaudeStream, [stdout.as_slice()]);
        let (cut, _) = decode(Wire::ClaudeStream, pieces);
        prop_assert_eq!(format!("{cut:?}"), format!("{whole:?}"));
    }
}
