//! The run log: a file of JSON lines that holds the events of one or more runs.
//!
//! ```text
//! events ─redact─▶ lines ─recorder─▶ file ─read─▶ Recording ─┬─▶ the same events again (replay)
//!                                                             └─timeline─▶ text, HTML, JSON
//! ```
//!
//! In: a run's header and its events as JSON. Out: the lines of a file; and from the bytes of a file, its runs. A header line opens
//! a run, and every later line names its run. So runs may share a file: an agent and those it hands work to, or the members of a
//! fallback provider. `docs/guide/run-log.md` describes the format, `docs/schemas/run-recording.schema.json` defines it.

mod builder;
pub mod deltas;
pub mod html;
pub mod normalised;
pub mod read;
pub mod spending;
pub mod text;
pub mod timeline;

use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::value::RawValue;

use dfp_model::message::Message;
use dfp_text::redact::{Channel, Redactor};

/// The value of `format` in every header line.
pub const FORMAT: &str = "deep-factor-run";

/// The version that is written, and the newest version that is read.
pub const VERSION: u32 = 1;

/// The first bytes of a run log. A file that begins otherwise is not appended to.
pub const BEGINNING: &[u8] = br#"{"format":"deep-factor-run","version":1,"#;

/// The facts about a run that are known before it begins.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The run's id, unique in its process.
    pub run_id: String,
    /// The run that this run is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The provider's id, for example `claude`.
    pub provider: String,
    /// When the run began, ms since the epoch.
    pub started_at: u64,
    /// Figures of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Prompt>,
}

/// Figures of a prompt. The text itself is there only if it was asked for.
#[derive(Debug, Clone, Serialize)]
pub struct Prompt {
    /// The number of the thread's messages.
    pub messages: usize,
    /// The number of characters in all messages together.
    pub characters: usize,
    /// The SHA-256 of the thread's JSON, in hexadecimal: equal for equal threads.
    pub sha256: String,
    /// The names of the tools that the model may call.
    pub tools: Vec<String>,
    /// The thread itself, if the option `prompts` asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<Box<RawValue>>,
}

impl Prompt {
    /// The figures of `messages`, whose JSON is `thread`. If `whole`, the thread itself is included.
    pub fn new(thread: Box<RawValue>, messages: &[Message], tools: Vec<String>, whole: bool) -> Prompt {
        let characters = messages.iter().map(|message| message.content.as_text().chars().count());
        Prompt {
            messages: messages.len(),
            characters: characters.sum(),
            sha256: hex(digest(&SHA256, thread.get().as_bytes()).as_ref()),
            tools,
            thread: whole.then_some(thread),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The time of an event, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// ms since the epoch, by the wall clock.
    pub at: u64,
    /// ms since the run's beginning, by a clock that never goes back.
    pub t: u64,
}

/// The line that opens a run, without its line feed.
pub fn header_line(header: &Header, redactor: &Redactor) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct WholeLog<'a> {
        format: &'static str,
        version: u32,
        #[serde(flatten)]
        header: &'a Header,
        package_version: &'static str,
        platform: String,
    }
    let whole = WholeLog {
        format: FORMAT,
        version: VERSION,
        header,
        package_version: env!("CARGO_PKG_VERSION"),
        platform: platform(),
    };
    serde_json::to_string(&whole).map(|line| redactor.redact_json(Channel::Record, &line).into_owned())
}

/// The line of an event of `run`. `event` is its JSON, redacted already.
pub fn event_line(run: &str, stamp: Stamp, event: &str) -> String {
    line(run, stamp, "event", event)
}

/// The line of a run's end. A run whose last event is its end (`done`) has no such line.
pub fn end_line(run: &str, stamp: Stamp, end: &End, redactor: &Redactor) -> Result<String, serde_json::Error> {
    let end = serde_json::to_string(end)?;
    Ok(line(run, stamp, "end", &redactor.redact_json(Channel::Record, &end)))
}

fn line(run: &str, Stamp { at, t }: Stamp, key: &str, json: &str) -> String {
    let run = serde_json::Value::from(run);
    format!(r#"{{"at":{at},"t":{t},"run":{run},"{key}":{json}}}"#)
}

/// The end of a run that got no answer.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum End {
    Failed {
        /// A `ProviderError` as JSON.
        error: Box<RawValue>,
    },
    Cancelled,
}

/// The operating system and processor by Node's names, for example `linux-x64`.
fn platform() -> String {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{os}-{arch}")
}

#[cfg(test)]
mod tests;
