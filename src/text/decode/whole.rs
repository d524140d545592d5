//! Judges an output as a whole: whether it is complete before the process has exited, and what it is if no event was seen in it.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Wire;
use super::facts::failure_of;
use dfp_model::event::{Event, Failure};

// Completeness. Only wire formats with a definite last event can tell: `result` of claude, qwen and gemini, `turn.completed` and
// `turn.failed` of codex, `step_finish` of opencode with a reason that ends a run, `result` of copilot, the one document of the
// `json` formats. With the others only the exit shows that no more comes.

/// The number of times that a document's end is looked at more closely: each look reads all of the output.
const MAX_LOOKS: u32 = 8;

impl Wire {
    /// Returns whether an [`Event::Outcome`] is the last event of a run in this format.
    pub(super) fn has_last_event(self) -> bool {
        match self {
            Wire::ClaudeStream
            | Wire::QwenStream
            | Wire::ClaudeJson
            | Wire::CodexJson
            | Wire::GeminiStream
            | Wire::GeminiJson
            | Wire::GrokStream
            | Wire::OpencodeJson
            | Wire::CopilotJson => true,
            Wire::Text | Wire::GenericStream | Wire::GenericJson => false,
        }
    }
}

/// The completeness of an output after the newest `events`, if it was `complete` before them.
pub(super) fn after(complete: bool, events: &[Event]) -> bool {
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

/// A finder for the end of a JSON document in output that comes in pieces; it looks at every byte once.
#[derive(Debug, Default)]
pub struct DocumentEnd {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// True if this line began with something that opens no document.
    noise: bool,
    /// True if no document has begun since the last one was closed.
    closed: bool,
    looks: u32,
}

impl DocumentEnd {
    /// Takes the next bytes. Returns `true` if a document may have ended, no other has begun, and decoding it is worth a try.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let mut closes = false;
        for &byte in bytes {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' if self.depth > 0 => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' if self.depth > 0 || !self.noise => {
                    self.depth += 1;
                    (closes, self.closed) = (false, false);
                }
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    closes = self.depth == 0;
                    self.closed = closes;
                }
                b'\n' | b'\r' => self.noise = false,
                _ if self.depth == 0 && !byte.is_ascii_whitespace() => self.noise = true,
                _ => {}
            }
        }
        if closes {
            self.looks += 1;
        }
        closes && self.looks <= MAX_LOOKS
    }

    /// Returns whether a document has ended and no other has begun.
    pub fn is_over(&self) -> bool {
        self.closed
    }

    /// Returns whether a further document has begun.
    pub fn goes_on(&self) -> bool {
        !self.closed
    }
}

// Output without events. A program in the place of a CLI may print its answer as text, whatever format it was asked for. JSON is
// never such a text: it is an error's body, or the beginning of a stream or object whose end was lost.

/// The kind of an output without an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plain {
    /// Text. In [`Wire::Text`] the output always is: an answer may be JSON there, and its end can't be told from a cut.
    Text,
    /// Whole JSON, with the failure in its `error`, if it has one.
    Json(Option<Box<Failure>>),
    /// The beginning of JSON whose end is missing.
    Cut,
}

/// An object with an `error`; its other fields don't matter.
#[derive(Deserialize)]
struct Erroneous {
    #[serde(rename = "error")]
    _error: IgnoredAny,
}

/// The kind of `text`, which was printed in place of `wire`'s format. `text` is
/// [`Decoder::plain_text`](super::Decoder::plain_text).
pub fn plain(wire: Wire, text: &str) -> Plain {
    if wire == Wire::Text {
        return Plain::Text;
    }
    let text = text.trim();
    match values(text) {
        PlainValues::Json => Plain::Json(failure_in(text)),
        PlainValues::Cut => Plain::Cut,
        PlainValues::Other => after_noise(text),
    }
}

/// The result of reading a text as a sequence of JSON objects and arrays.
enum PlainValues {
    /// All of the text is JSON.
    Json,
    /// The text is JSON whose end is missing.
    Cut,
    /// The text is something else, or blank.
    Other,
}

fn values(text: &str) -> PlainValues {
    let mut rest = text;
    while rest.starts_with(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => rest = rest.get(values.byte_offset()..).unwrap_or_default().trim_start(),
            Some(Err(error)) if error.is_eof() || ends_in_a_number(rest) => return PlainValues::Cut,
            _ => return PlainValues::Other,
        }
        if rest.is_empty() {
            return PlainValues::Json;
        }
    }
    PlainValues::Other
}

/// Returns whether the only flaw of `json` is that it ends in the middle of a number (`0.`), which serde_json does not report
/// as an end of input.
fn ends_in_a_number(json: &str) -> bool {
    let whole = || serde_json::from_str::<IgnoredAny>(&format!("{json}0"));
    json.ends_with(['.', 'e', 'E', '+', '-']) && whole().is_err_and(|error| error.is_eof())
}

/// Recognises JSON after lines of another kind. A cut object counts only if a name follows its brace, so that text which
/// quotes JSON is not taken for it; a whole one counts only if it is an error's.
fn after_noise(text: &str) -> Plain {
    for (at, _) in text.match_indices("\n{").take(super::json::MAX_FALSE_STARTS) {
        let rest = &text[at + 1..];
        let named = rest[1..].trim_start();
        match values(rest) {
            PlainValues::Cut if named.is_empty() || named.starts_with('"') => return Plain::Cut,
            PlainValues::Json => match failure_in(rest) {
                None => return Plain::Text,
                failure => return Plain::Json(failure),
            },
            _ => {}
        }
    }
    Plain::Text
}

/// The failure in the first JSON value, if it has an `error`.
fn failure_in(text: &str) -> Option<Box<Failure>> {
    let first = serde_json::Deserializer::from_str(text)
        .into_iter::<&serde_json::value::RawValue>()
        .next()?
        .ok()?;
    serde_json::from_str::<Erroneous>(first.get()).ok()?;
    Some(Box::new(failure_of(first.get())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Decoder;

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
        let result =
            "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"a\",\"num_turns\":1}\n";
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

    fn read(text: &str) -> Plain {
        plain(Wire::ClaudeStream, text)
    }

    fn json(message: &str) -> Plain {
        Plain::Json(Some(Box::new(Failure {
            message: message.to_owned(),
            ..Failure::default()
        })))
    }

    #[test]
    fn json_is_no_text_wherever_it_ends() {
        for text in [
            r#"{"error":"no"}"#,
            "{\"error\":\"no\"}\n{\"more\":1}\n",
            "[STARTUP] x\n{\"error\":\"no\"}",
        ] {
            assert_eq!(read(text), json("no"), "{text}");
        }
        for text in [r#"{"a":1}"#, "[1, 2]\n", "{}\n{}\n", "[]"] {
            assert_eq!(read(text), Plain::Json(None), "{text}");
        }
        for text in [
            "{",
            "[",
            "{\"",
            r#"{"type":"sys"#,
            "{\"a\":1}\n{\"b\"",
            "[{\"type\":\"system\"},",
            "Loaded credentials.\n{\n \"session_id\": \"s\",\n",
            "Loaded credentials.\n{",
            "{\"a\":\"\u{FFFD}",
            "{\"a\":0.",
            "[1e-",
            "[tru",
        ] {
            assert_eq!(read(text), Plain::Cut, "{text}");
        }
    }

    #[test]
    fn texts_stay_texts() {
        for text in [
            "Hello.",
            "42",
            "\"quoted\"",
            "[1] is where it says so",
            "{braces} in prose",
            "{name}, you are right",
            "Put this in:\n{\"a\": 1}\nand go on.",
            "Put this in:\n{\"a\": 1}",
            "{\"a\":1} is what it prints",
            "fn main() {\n}\n{\n  let x = 1;",
        ] {
            assert_eq!(read(text), Plain::Text, "{text}");
            assert_eq!(plain(Wire::Text, text), Plain::Text, "{text}");
        }
        assert_eq!(plain(Wire::Text, r#"{"error":"no"}"#), Plain::Text);
    }
}
