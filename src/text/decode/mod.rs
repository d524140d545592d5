//! Decodes a CLI's output to events.
//!
//! In: bytes of standard output, in any pieces. Out: [`Event`]s, the same for every way of cutting the bytes. The steps
//! between: [`lines`] splits bytes into lines, one file per wire format turns a line into events with little state, and
//! [`lines::strip_ansi`] removes control sequences after JSON decoding. Nothing here fails: output that can't be read becomes a
//! diagnostic, and output without any JSON stays available as [`Decoder::plain_text`].

pub mod assembler;
mod claude;
mod codex;
pub mod copilot;
pub mod format;
mod gemini;
mod generic;
mod grok;
pub mod json;
pub mod lines;
mod opencode;

#[cfg(any(test, feature = "test-support"))]
pub mod golden;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use self::claude::Claude;
pub use self::claude::MAX_OUTPUT_TOKENS;
use self::codex::Codex;
use self::copilot::Copilot;
pub use self::format::status as api_status;
use self::format::{Format, Notes, Out, Verdict};
pub use self::format::{ParseError, Wire, failure_of};
use self::gemini::Gemini;
use self::generic::Answers;
use self::grok::Grok;
pub use self::grok::grok_failure;
pub use self::json::{DocumentEnd, Plain, plain};
pub use self::lines::LineObserver;
use self::lines::{Line, Lines, strip_ansi};
use self::opencode::Opencode;
use dfp_model::event::Event;

/// The way a wire format's JSON is laid out in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// One event per line.
    Lines,
    /// One event per line; if no line is one, the output is read as [`Documents`](Framing::Documents).
    LinesOrDocuments,
    /// Objects or arrays that may span lines, read when the output is over.
    Documents,
    /// The output is not JSON.
    Text,
}

/// Decodes one process's output. Feed it with [`push`](Decoder::push), end it with [`finish`](Decoder::finish).
///
/// A process that takes several turns (a live session) gives one [`Event::Outcome`] per turn, and at most one
/// [`Event::Failure`] before it.
#[derive(Debug)]
pub struct Decoder {
    wire: Wire,
    framing: Framing,
    lines: Lines,
    reader: LineReader,
    /// The bytes pushed: all of them, or those before the first line of the protocol.
    raw: Vec<u8>,
    /// The number of bytes of `raw` that are kept at most.
    raw_limit: usize,
    complete: bool,
    document: DocumentEnd,
}

/// The part of a [`Decoder`] that decodes lines.
#[derive(Debug)]
struct LineReader {
    format: Option<Box<dyn Format>>,
    observer: Option<Arc<dyn LineObserver>>,
    notes: Notes,
    saw_json: bool,
    cut_short: bool,
    /// Bytes of the longest line that was dropped; 0 for none.
    dropped: u64,
}

impl Decoder {
    /// Makes a decoder that drops lines longer than [`lines::MAX_LINE`].
    pub fn new(wire: Wire) -> Self {
        Decoder::with_line_limit(wire, lines::MAX_LINE)
    }

    /// Makes a decoder that drops lines longer than `limit` bytes, with a diagnostic.
    pub fn with_line_limit(wire: Wire, limit: usize) -> Self {
        let framing = match wire {
            Wire::ClaudeStream
            | Wire::QwenStream
            | Wire::CodexJson
            | Wire::GeminiStream
            | Wire::GrokStream
            | Wire::OpencodeJson
            | Wire::CopilotJson => Framing::Lines,
            Wire::GenericStream => Framing::LinesOrDocuments,
            Wire::ClaudeJson | Wire::GeminiJson | Wire::GenericJson => Framing::Documents,
            Wire::Text => Framing::Text,
        };
        let format: Option<Box<dyn Format>> = match wire {
            Wire::ClaudeStream => Some(Box::new(Claude::new(Answers::None))),
            Wire::ClaudeJson => Some(Box::new(Claude::of_results(Answers::Untyped))),
            Wire::GenericStream => Some(Box::new(Claude::new(Answers::Untyped))),
            Wire::QwenStream => Some(Box::new(Claude::of_qwen())),
            Wire::GenericJson => Some(Box::new(Claude::new(Answers::Any))),
            Wire::CodexJson => Some(Box::new(Codex::default())),
            Wire::GeminiStream | Wire::GeminiJson => Some(Box::new(Gemini::default())),
            Wire::GrokStream => Some(Box::new(Grok::default())),
            Wire::OpencodeJson => Some(Box::new(Opencode::default())),
            Wire::CopilotJson => Some(Box::new(Copilot::default())),
            Wire::Text => None,
        };
        Decoder {
            wire,
            framing,
            lines: Lines::with_limit(limit),
            reader: LineReader {
                format,
                observer: None,
                notes: Notes::default(),
                saw_json: false,
                cut_short: false,
                dropped: 0,
            },
            raw: Vec::new(),
            raw_limit: usize::MAX,
            complete: false,
            document: DocumentEnd::default(),
        }
    }

    /// Keeps no more than `limit` bytes of output that is not in the wire format; [`Decoder::plain_text`] then has only the
    /// beginning. This is for line formats; documents and text have to be kept whole.
    #[must_use]
    pub fn keeping(mut self, limit: usize) -> Self {
        self.raw_limit = limit;
        self
    }

    /// Also reports the arguments of native calls piece by piece ([`Event::ToolCallDelta`], under the CLI's names), if the
    /// format has them. For callers who know which of the tools are their own.
    #[must_use]
    pub fn with_call_deltas(mut self) -> Self {
        if let Some(format) = &mut self.reader.format {
            format.tell_call_deltas();
        }
        self
    }

    /// A response that has reached its limit of tokens ends the turn with an [`Event::Failure`] of the kind [`MAX_OUTPUT_TOKENS`], where the
    /// format shows that: for who ends a CLI there that would ask its API for the rest.
    #[must_use]
    pub fn ending_at_limit(mut self) -> Self {
        if let Some(format) = &mut self.reader.format {
            format.end_at_limit();
        }
        self
    }

    /// Makes a decoder for the lines of one subagent of claude's. Every other decoder reports them as [`Event::Other`], since
    /// they are no part of the answer.
    pub fn of_subagent() -> Self {
        let mut decoder = Decoder::new(Wire::ClaudeStream);
        decoder.reader.format = Some(Box::new(Claude::of_subagent()));
        decoder
    }

    /// The names of the tools that the CLI offers its model, if it has listed them since the last call of this (claude and qwen list them
    /// as a turn begins).
    pub fn take_offered(&mut self) -> Option<Vec<String>> {
        self.reader.format.as_mut()?.take_offered()
    }

    /// Has `observer` see every line from now on, in formats of one event per line.
    pub fn set_observer(&mut self, observer: Arc<dyn LineObserver>) {
        self.reader.observer = Some(observer);
    }

    /// Takes the next bytes of output and appends their events to `events`.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        if matches!(self.framing, Framing::Lines | Framing::LinesOrDocuments) {
            let reader = &mut self.reader;
            let before = events.len();
            self.lines.push(bytes, |line| reader.observed_line(&line, events));
            if self.wire.has_last_event() {
                self.complete = completeness(self.complete, &events[before..]);
            }
            if self.reader.saw_json {
                self.raw = Vec::new();
                return;
            }
            let room = self.raw_limit.saturating_sub(self.raw.len());
            self.raw.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        self.raw.extend_from_slice(bytes);
        if self.wire.has_last_event() {
            self.complete = match self.document.push(bytes) {
                true => holds_outcome(self.wire, &self.raw),
                false => self.complete && !self.document.goes_on(),
            };
        }
    }

    /// Returns whether the run's output is complete, as far as its bytes tell: the process may exit at any moment now. Always
    /// false in a format without a last event.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Ends the output: reads what is left and completes what is open.
    pub fn finish(&mut self, events: &mut Vec<Event>) {
        let raw = std::mem::take(&mut self.raw);
        let text = text_of(&raw);
        match self.framing {
            Framing::Lines | Framing::LinesOrDocuments => {
                let reader = &mut self.reader;
                self.lines.finish(|line| reader.observed_line(&line, events));
                if !reader.saw_json && self.wire == Wire::ClaudeStream {
                    reader.format = Some(Box::new(Claude::of_results(Answers::None)));
                }
                if !reader.saw_json && matches!(self.wire, Wire::ClaudeStream | Wire::GenericStream) {
                    reader.documents_instead(&text, events);
                }
            }
            Framing::Documents => {
                self.reader.documents(&text, events);
                // JSON holds no raw ESC, so text that has one is coloured output around it.
                if !self.reader.saw_json && text.contains('\x1B') {
                    self.reader.documents_instead(&strip_ansi(&text), events);
                }
            }
            // The text is an answer or an error, which only the exit code tells: it is `plain_text`, not an event.
            Framing::Text => {}
        }
        let before = events.len();
        self.reader.finish(events);
        if !self.reader.saw_json {
            self.raw = raw;
        }
        if let Some(observer) = &self.reader.observer {
            observer.end(&events[before..], self.plain_text(), self.diagnostics());
        }
    }

    /// The oddities of the output, for people: lines that are no events, fields of the wrong type, a line that is cut short or
    /// too long. At most 51 entries, the last of which counts the rest; each shows at most 300 characters of its line.
    pub fn diagnostics(&self) -> &[String] {
        self.reader.notes.texts()
    }

    /// The diagnostics that belong to a line, with its number.
    pub fn parse_errors(&self) -> &[ParseError] {
        self.reader.notes.parse_errors()
    }

    /// Returns whether any output in the wire format was seen. Always `false` for [`Wire::Text`].
    pub fn saw_json(&self) -> bool {
        self.reader.saw_json
    }

    /// Returns whether the output ended in the middle of a JSON line: the process died, or its output was lost.
    pub fn cut_short(&self) -> bool {
        self.reader.cut_short
    }

    /// The length of the longest line that was dropped for its length, bytes; `None` if none was.
    pub fn dropped_line(&self) -> Option<u64> {
        (self.reader.dropped > 0).then_some(self.reader.dropped)
    }

    /// The whole output, if the format is [`Wire::Text`] or a JSON format of which nothing was seen. Line ends are unchanged,
    /// control sequences removed. The exit code and [`plain`] tell whether it is the answer or the reason of a failure.
    pub fn plain_text(&self) -> Option<String> {
        if self.reader.saw_json || self.raw.trim_ascii().is_empty() {
            return None;
        }
        Some(strip_ansi(&text_of(&self.raw)).into_owned())
    }
}

/// The completeness of an output after the newest `events`, if it was `complete` before them.
fn completeness(complete: bool, events: &[Event]) -> bool {
    events.iter().fold(complete, |complete, event| match event {
        Event::Outcome(_) => true,
        // A further turn has begun: claude starts one for work that went on in the background.
        Event::Session { .. }
        | Event::TextDelta { .. }
        | Event::ThinkingDelta { .. }
        | Event::Message { .. }
        | Event::ToolCallDelta { .. }
        | Event::ToolCall { .. }
        | Event::InvalidToolCall { .. }
        | Event::ToolResult { .. }
        | Event::Retry { .. } => false,
        _ => complete,
    })
}

/// Returns whether `output`, taken as the whole output, has an outcome.
fn holds_outcome(wire: Wire, output: &[u8]) -> bool {
    let (mut decoder, mut events) = (Decoder::new(wire), Vec::new());
    decoder.raw.extend_from_slice(output);
    decoder.finish(&mut events);
    completeness(false, &events)
}

/// Decodes output as text: invalid UTF-8 becomes U+FFFD, and a byte order mark is dropped.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes))
}

impl LineReader {
    fn observed_line(&mut self, line: &Line<'_>, events: &mut Vec<Event>) {
        let before = events.len();
        self.line(line, events);
        if let Some(observer) = &self.observer {
            observer.line(line, &events[before..]);
        }
    }

    fn line(&mut self, line: &Line<'_>, events: &mut Vec<Event>) {
        match *line {
            Line::TooLong { number, ref cut } => {
                let bytes = cut.bytes();
                self.dropped = self.dropped.max(bytes);
                let what = format!("{bytes} bytes are more than a line may have; dropped");
                self.notes.add(Some(number), &what, "");
            }
            Line::Text {
                number,
                ref text,
                terminated,
            } => {
                let text = text.trim_ascii();
                match self.value(number, text, events) {
                    Verdict::Event => {}
                    Verdict::Foreign => self.notes.add(Some(number), "no event", text),
                    Verdict::NotJson if !terminated && text.starts_with(['{', '[']) => {
                        self.cut_short = true;
                        self.notes.add(Some(number), "cut short", text);
                    }
                    Verdict::NotJson => self.notes.add(Some(number), "not JSON", text),
                }
            }
        }
    }

    fn documents(&mut self, text: &str, events: &mut Vec<Event>) {
        json::documents(text, |number, found| match found {
            Ok(value) => {
                if self.value(number, value.get(), events) != Verdict::Event {
                    self.notes.add(Some(number), "no event", value.get());
                }
            }
            Err(line) => {
                self.cut_short |= line.starts_with(['{', '[']) && !text.ends_with('\n');
                self.notes.add(Some(number), "not JSON", line);
            }
        });
    }

    /// Reads output in which no line was found as documents; the diagnostics of this attempt count only if it finds something.
    fn documents_instead(&mut self, text: &str, events: &mut Vec<Event>) {
        let (notes, cut_short) = (std::mem::take(&mut self.notes), self.cut_short);
        self.cut_short = false;
        self.documents(text, events);
        if !self.saw_json {
            self.notes = notes;
            self.cut_short |= cut_short;
        }
    }

    /// Decodes one JSON value: an object, or an array of them.
    fn value(&mut self, number: u64, text: &str, events: &mut Vec<Event>) -> Verdict {
        let verdict = match text.as_bytes().first() {
            Some(b'{') => self.object(number, text, events),
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
                Err(_) => Verdict::NotJson,
                Ok(items) => items.iter().fold(Verdict::Foreign, |verdict, item| {
                    match json::is_object(item) && self.object(number, item.get(), events) == Verdict::Event {
                        true => Verdict::Event,
                        false => verdict,
                    }
                }),
            },
            _ => Verdict::NotJson,
        };
        if verdict == Verdict::NotJson
            && let plain = strip_ansi(text)
            && plain.len() < text.len()
        {
            return self.value(number, plain.trim_ascii(), events);
        }
        verdict
    }

    fn object(&mut self, number: u64, json: &str, events: &mut Vec<Event>) -> Verdict {
        let Some(format) = &mut self.format else {
            return Verdict::Foreign;
        };
        let verdict = format.object(json, &mut Out::new(events, &mut self.notes, Some(number)));
        self.saw_json |= verdict == Verdict::Event;
        verdict
    }

    fn finish(&mut self, events: &mut Vec<Event>) {
        if let Some(format) = &mut self.format {
            format.finish(&mut Out::new(events, &mut self.notes, None));
        }
    }
}
