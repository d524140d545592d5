//! The outputs of a format's decoder: events for the caller, oddities for the diagnostics.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::ansi::strip_ansi;
use dfp_model::error::clip;
use dfp_model::event::Event;
use dfp_model::message::reasoning::ReasoningDetail;

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
