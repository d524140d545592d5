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
//!
//! [`Lines`] redacts the events, and keeps their order and number. The pieces of a message (`text_delta`, `thinking_delta`) may be
//! harmless one by one and a key together. So a piece that may be the beginning of a secret waits for the next ones, up to a limit. No
//! other event waits.

mod builder;
pub mod html;
pub mod read;
pub mod spending;
pub mod text;
pub mod timeline;

use std::borrow::Cow;
use std::ops::Range;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use dfp_model::message::{Lossy, Message};
use dfp_text::redact::{Channel, REDACTED, Redactor};

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

/// The most bytes of all pieces that wait: more than any key has.
const MOST_HELD: usize = 16 * 1024;

/// Makes the log lines of one run, and holds back the pieces that wait.
#[derive(Debug)]
pub struct Lines {
    run: String,
    redactor: Redactor,
    /// The type of the pieces that wait.
    kind: String,
    held: Vec<DeltaPiece>,
    /// The last character of this type that was let go: a key can only begin where a word begins.
    context: String,
}

/// A piece of a message that waits: when it came, its event's JSON, and its text.
#[derive(Debug)]
struct DeltaPiece {
    stamp: Stamp,
    json: String,
    text: String,
}

/// The two fields of an event that matter here. They are borrowed as raw JSON, so that no other field can fail the reading.
#[derive(Deserialize)]
struct Seen<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    text: Option<&'a serde_json::value::RawValue>,
}

impl Lines {
    /// Starts the lines of the run `run`.
    pub fn new(run: String, redactor: Redactor) -> Lines {
        Lines {
            run,
            redactor,
            kind: String::new(),
            held: Vec::new(),
            context: String::new(),
        }
    }

    /// The redactor of the run's secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Takes an event. Lines that are ready are appended to `out`.
    pub fn push(&mut self, stamp: Stamp, json: String, out: &mut Vec<String>) {
        let Some((kind, text)) = delta(&json) else {
            self.flush(out);
            self.context.clear();
            out.push(event_line(
                &self.run,
                stamp,
                &self.redactor.redact_json(Channel::Record, &json),
            ));
            return;
        };
        if kind != self.kind {
            self.flush(out);
            self.context.clear();
            self.kind = kind;
        }
        self.held.push(DeltaPiece { stamp, json, text });
        let joined = self.joined();
        if joined.len() > MOST_HELD {
            return self.flush(out);
        }
        // Only whole pieces go, and none whose end may be the beginning of a secret.
        let so_far = self.redactor.so_far(Channel::Record, &joined, self.context.len());
        let mut ends = Vec::with_capacity(self.held.len());
        let mut end = self.context.len();
        for piece in &self.held {
            end += piece.text.len();
            ends.push(end);
        }
        let ready = ends.iter().rposition(|end| so_far.parts_at(*end));
        if let Some(last) = ready {
            self.release(last + 1, &joined, &so_far.spans, out);
        }
    }

    /// Appends the lines of all pieces that wait to `out`.
    pub fn flush(&mut self, out: &mut Vec<String>) {
        if self.held.is_empty() {
            return;
        }
        let joined = self.joined();
        let spans = self.redactor.spans_from(Channel::Record, &joined, self.context.len());
        self.release(self.held.len(), &joined, &spans, out);
    }

    /// Lets the first `count` pieces go. `joined` is the text of `context` and all pieces together, `spans` are the secrets in it.
    fn release(&mut self, count: usize, joined: &str, spans: &[Range<usize>], out: &mut Vec<String>) {
        let mut start = self.context.len();
        for piece in self.held.drain(..count) {
            let end = start + piece.text.len();
            let mut text = String::new();
            let mut from = start;
            // The replacement stands in the piece where the secret begins; the parts in other pieces are left out.
            for span in spans.iter().filter(|span| span.end > start && span.start < end) {
                text.push_str(&joined[from..span.start.max(from)]);
                if span.start >= start || start == self.context.len() {
                    text.push_str(REDACTED);
                }
                from = span.end.min(end);
            }
            text.push_str(&joined[from..end]);
            let json = self.redactor.redact_json(Channel::Record, &piece.json);
            let json = if text == piece.text {
                json
            } else {
                with_text(json, text)
            };
            out.push(event_line(&self.run, piece.stamp, &json));
            start = end;
        }
        self.context = joined[..start].chars().next_back().into_iter().collect();
    }

    fn joined(&self) -> String {
        let pieces = self.held.iter().map(|piece| piece.text.as_str());
        std::iter::once(self.context.as_str()).chain(pieces).collect()
    }
}

/// The type and text of an event that is a piece of a message; `None` for any other.
fn delta(json: &str) -> Option<(String, String)> {
    let seen: Seen = serde_json::from_str(json).ok()?;
    let read = |raw: &serde_json::value::RawValue| serde_json::from_str::<Lossy>(raw.get()).ok().map(|text| text.0);
    let kind = read(seen.kind?)?;
    let text = kind.ends_with("_delta").then_some(seen.text?)?;
    Some((kind, read(text)?))
}

fn with_text(json: Cow<'_, str>, text: String) -> Cow<'_, str> {
    match serde_json::from_str::<Value>(&json) {
        Ok(Value::Object(mut event)) => {
            event.insert("text".to_owned(), Value::from(text));
            Cow::Owned(Value::Object(event).to_string())
        }
        _ => json,
    }
}

#[cfg(test)]
mod tests;
