//! The wire formats by name, the trait that each format's decoder implements, and what it writes to: [`Out`] takes events for the
//! caller, and oddities for the diagnostics ([`Notes`]).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ansi::strip_ansi;
use super::json::{Fields, word};
use dfp_model::error::clip;
use dfp_model::event::Event;
use dfp_model::message::reasoning::ReasoningDetail;

/// The format in which a CLI writes its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// JSON lines of `claude --output-format stream-json` (2.1.197, 2.1.330).
    ClaudeStream,
    /// JSON lines of `qwen --output-format stream-json` (0.15.10, 0.24.4): claude's format, with differences in message ids and
    /// ends.
    QwenStream,
    /// `claude --output-format json`: one `result` object, or with `--verbose`, as with qwen, an array of all events.
    ClaudeJson,
    /// Plain text: all of standard output is the answer.
    Text,
    /// JSON lines of `codex exec --json` (0.169.0).
    CodexJson,
    /// JSON lines of `gemini --output-format stream-json` (0.61.0).
    GeminiStream,
    /// `gemini --output-format json`: one object.
    GeminiJson,
    /// JSON lines of `grok --output-format streaming-json` (1.0.41).
    GrokStream,
    /// JSON lines of `opencode run --format json` (1.18.34).
    OpencodeJson,
    /// JSON lines of `copilot --output-format json` (1.0.102).
    CopilotJson,
    /// The `stream-json` of CLI-ADAPTER-PROTOCOL, claude's included: for CLIs described by their user.
    GenericStream,
    /// The `json` of CLI-ADAPTER-PROTOCOL.
    GenericJson,
}

impl Wire {
    /// Returns whether a successful run always has an [`Event::Outcome`]. A sequence of message
    /// lines (`{"role": …}`) has no definite last one.
    pub fn tells_its_end(self) -> bool {
        !matches!(self, Wire::Text | Wire::GenericStream)
    }

    /// Returns whether a run ends with an object that repeats the answer: as text, or as a value in its place.
    pub fn repeats_the_answer(self) -> bool {
        matches!(self, Wire::ClaudeStream | Wire::ClaudeJson)
    }

    /// Returns whether an answer by a schema is the answer's text, since the format has no other place for it.
    pub fn structures_in_text(self) -> bool {
        matches!(self, Wire::Text | Wire::CodexJson)
    }
}

/// The kind of one piece of output, as a format judged it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The piece is a line of the protocol.
    Event,
    /// The piece is a JSON object, but no line of the protocol.
    Foreign,
    /// The piece is not a JSON object.
    NotJson,
}

/// Shows the name alone: the addon need not hold the code that shows every implementor.
impl std::fmt::Debug for dyn Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Format")
    }
}

/// A wire format's decoder: a small state, and a pure function from one JSON object to events.
pub(super) trait Format: Send {
    /// Decodes the text of one JSON object (or of something that begins like one).
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict;
    /// Ends the output and reports what is still open.
    fn finish(&mut self, out: &mut Out);
    /// From now on also reports the arguments of native calls piece by piece, if the format has them.
    fn tell_call_deltas(&mut self) {}
    /// From now on ends the turn with a response that has reached its limit of tokens, if the format shows that.
    fn end_at_limit(&mut self) {}
    /// The tools that the CLI offers its model, by its names, where it has said so since this was asked last.
    fn take_offered(&mut self) -> Option<Vec<String>> {
        None
    }
}

/// Decodes a line that names its kind in a field of its own: `read` gets that word, and fields that can't be read are noted.
pub(super) fn typed_line<'a, L: Deserialize<'a>>(
    json: &'a str,
    out: &mut Out,
    kind: impl FnOnce(&L) -> Option<&'a RawValue>,
    read: impl FnOnce(&str, &L, &mut Fields, &mut Out),
) -> Verdict {
    let Ok(line) = serde_json::from_str::<L>(json) else {
        return Verdict::NotJson;
    };
    let Some(kind) = word(kind(&line)) else {
        return Verdict::Foreign;
    };
    let mut fields = Fields::default();
    read(&kind, &line, &mut fields, out);
    if let Some(complaint) = fields.complaint() {
        out.note(&format!("{kind}: {complaint}"));
    }
    Verdict::Event
}

/// The number of diagnostics that are kept. Further ones are only counted.
pub const MAX_NOTES: usize = 50;

/// The number of characters of a line that a diagnostic shows.
const MAX_NOTE: usize = 300;

/// A line that could not be read, or not completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line's number, from 1.
    pub line: u64,
    /// The problem with the line.
    pub message: String,
}

/// The diagnostics of one output, limited in number and length.
#[derive(Debug, Default)]
pub struct Notes {
    texts: Vec<String>,
    parse_errors: Vec<ParseError>,
    /// The number of diagnostics beyond the kept ones.
    more: u64,
}

impl Notes {
    /// Adds a diagnostic: `what` is odd about the line, and the text it concerns.
    pub fn add(&mut self, line: Option<u64>, what: &str, text: &str) {
        if self.texts.len() >= MAX_NOTES {
            self.more += 1;
            self.texts.truncate(MAX_NOTES);
            self.texts.push(format!("and {} more", self.more));
            return;
        }
        let text = clip(text, MAX_NOTE);
        let message = match text.as_str() {
            "" => what.to_owned(),
            text => format!("{what}: {}", strip_ansi(text)),
        };
        self.texts.push(match line {
            Some(line) => format!("line {line}: {message}"),
            None => message.clone(),
        });
        if let Some(line) = line {
            self.parse_errors.push(ParseError { line, message });
        }
    }

    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    pub fn parse_errors(&self) -> &[ParseError] {
        &self.parse_errors
    }
}

/// The receiver of a format's results while it decodes one line.
#[derive(Debug)]
pub struct Out<'a> {
    events: &'a mut Vec<Event>,
    notes: &'a mut Notes,
    line: Option<u64>,
}

impl<'a> Out<'a> {
    pub fn new(events: &'a mut Vec<Event>, notes: &'a mut Notes, line: Option<u64>) -> Self {
        Out { events, notes, line }
    }

    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Reports a piece of reasoning, unless it is empty.
    pub fn thinking(&mut self, message_id: &Option<String>, text: Cow<'_, str>) {
        if !text.is_empty() {
            self.event(Event::ThinkingDelta {
                message_id: message_id.clone(),
                text: text.into_owned(),
            });
        }
    }

    /// Reports a whole block of reasoning of which no piece has come.
    pub fn thought(&mut self, message_id: &Option<String>, text: Cow<'_, str>) {
        let details = ReasoningDetail::text(&text, None);
        self.thinking(message_id, text);
        self.reasoning(details);
    }

    /// Reports that a block of reasoning is complete, unless it is empty.
    pub fn reasoning(&mut self, details: impl IntoIterator<Item = ReasoningDetail>) {
        let details: Vec<_> = details.into_iter().collect();
        if !details.is_empty() {
            self.event(Event::Reasoning { details });
        }
    }

    /// Reports a line of an unknown kind, unchanged.
    pub fn other(&mut self, kind: impl Into<String>, json: &str) {
        if let Ok(raw) = serde_json::from_str::<&RawValue>(json) {
            self.event(Event::Other {
                kind: kind.into(),
                raw: raw.to_owned(),
            });
        }
    }

    pub fn warning(&mut self, code: impl Into<String>, message: impl Into<String>) {
        self.event(Event::Warning {
            code: code.into(),
            message: message.into(),
        });
    }

    /// Adds a diagnostic about the current line.
    pub fn note(&mut self, what: &str) {
        self.notes.add(self.line, what, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_in_number_and_length() {
        let mut notes = Notes::default();
        for line in 1..=60 {
            notes.add(Some(line), "odd", &"é".repeat(1000));
        }
        assert_eq!(notes.texts().len(), MAX_NOTES + 1);
        assert_eq!(notes.texts()[MAX_NOTES], "and 10 more");
        assert_eq!(notes.parse_errors().len(), MAX_NOTES);
        assert_eq!(notes.parse_errors()[49].line, 50);
        assert_eq!(notes.texts()[0], format!("line 1: odd: {}…", "é".repeat(MAX_NOTE - 1)));
    }
}
