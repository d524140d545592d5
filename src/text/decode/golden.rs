//! The recordings of the real CLIs, for the tests of every room: their files, what they decode to, and an event as a line.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "only tests use it")]

use std::path::{Path, PathBuf};

use super::{Decoder, Wire};
use dfp_model::event::Event;
use dfp_model::message::Usage;

/// One recorded run.
pub struct Recording {
    pub name: String,
    pub wire: Wire,
    pub argv: Vec<String>,
    pub exit_code: Option<i32>,
    pub stdout: Vec<u8>,
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures")
}

/// The wire format that a recorded command line asks for; `None` if it is not a run of a prompt.
pub fn wire_of(cli: &str, argv: &[String]) -> Option<Wire> {
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
pub fn recordings(cli: &str) -> Vec<Recording> {
    recordings_in(&fixtures().join("recordings").join(cli), cli)
}

/// The models' texts of all recordings, message by message.
pub fn answers() -> Vec<String> {
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
pub fn decode<'a>(wire: Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Decoder) {
    let mut decoder = Decoder::new(wire);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    decoder.finish(&mut events);
    (events, decoder)
}

/// One event on one line: its kind and its important fields. Ids that change with every recording are cut.
pub fn line(event: &Event) -> String {
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

#[cfg(test)]
mod tests;
