//! Tells whether the output so far is complete, before the process has exited.
//!
//! In: bytes, and the events decoded from them. Out: yes or no. Only wire formats with a definite last event can tell: `result`
//! of claude, qwen and gemini, `turn.completed` and `turn.failed` of codex, `step_finish` of opencode with a reason that ends a
//! run, `result` of copilot, the one document of the `json` formats. With the others only the exit shows that no more comes.

use super::Wire;
use dfp_model::event::Event;

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
}
