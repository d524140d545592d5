//! Where a format's findings go: events to the caller, oddities to the diagnostics.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::ansi::strip_ansi;
use crate::error::clip;
use crate::event::Event;
use crate::message::reasoning::ReasoningDetail;

/// How many diagnostics are kept. More are counted.
pub const MAX_NOTES: usize = 50;

/// How much of a line a diagnostic shows, characters.
const MAX_NOTE: usize = 300;

/// A line that could not be read, or not wholly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line's number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub message: String,
}

/// The diagnostics of one output, limited in number and length.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    texts: Vec<String>,
    parse_errors: Vec<ParseError>,
    /// How many there were beyond those.
    more: u64,
}

impl Notes {
    /// Notes `what` is odd about a line, and the text it is about.
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

/// What a format writes to while it reads one line.
#[derive(Debug)]
pub(crate) struct Out<'a> {
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

    /// A piece of reasoning, if there is anything in it.
    pub fn thinking(&mut self, message_id: &Option<String>, text: Cow<'_, str>) {
        if !text.is_empty() {
            self.event(Event::ThinkingDelta {
                message_id: message_id.clone(),
                text: text.into_owned(),
            });
        }
    }

    /// A block of reasoning of which no piece has come, whole.
    pub fn thought(&mut self, message_id: &Option<String>, text: Cow<'_, str>) {
        let details = ReasoningDetail::text(&text, None);
        self.thinking(message_id, text);
        self.reasoning(details);
    }

    /// A block of reasoning is complete, if there is anything in it.
    pub fn reasoning(&mut self, details: impl IntoIterator<Item = ReasoningDetail>) {
        let details: Vec<_> = details.into_iter().collect();
        if !details.is_empty() {
            self.event(Event::Reasoning { details });
        }
    }

    /// A line of a kind nobody reads, kept as it came.
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

    /// Something is odd about the line.
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
