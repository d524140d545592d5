//! The wire formats by name, and what a file of one has to be able to do.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Fields, word};
use super::notes::Out;

/// How a CLI writes its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// JSON lines of `claude --output-format stream-json` (2.1.197, 2.1.330).
    ClaudeStream,
    /// Those of `qwen --output-format stream-json` (0.15.10, 0.24.4): claude's, with ids and an end of messages of their own.
    QwenStream,
    /// `claude --output-format json`: one `result` object, or with `--verbose`, as with qwen, an array of all events.
    ClaudeJson,
    /// All of standard output is the answer.
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
    /// `stream-json` of CLI-ADAPTER-PROTOCOL, claude's included: for CLIs described by their user.
    GenericStream,
    /// `json` of CLI-ADAPTER-PROTOCOL.
    GenericJson,
}

impl Wire {
    /// Whether a run that went well always has an [`Event::Outcome`](crate::event::Event::Outcome). Lines of messages (`{"role": …}`) have no last one.
    pub fn tells_its_end(self) -> bool {
        !matches!(self, Wire::Text | Wire::GenericStream)
    }

    /// Whether the last thing of a run is an object that holds the answer once more: its text, or a value in the text's place.
    pub fn repeats_the_answer(self) -> bool {
        matches!(self, Wire::ClaudeStream | Wire::ClaudeJson)
    }

    /// Whether an answer by a schema is the answer's text: there is no other place for it.
    pub fn structures_in_text(self) -> bool {
        matches!(self, Wire::Text | Wire::CodexJson)
    }
}

/// What a format makes of one piece of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A line of the protocol.
    Event,
    /// A JSON object that is no line of the protocol.
    Foreign,
    /// Not a JSON object.
    NotJson,
}

/// A wire format: small state, and a pure function from one JSON object to events.
pub(super) trait Format: std::fmt::Debug + Send {
    /// Reads the text of one JSON object (or what begins like one).
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict;
    /// The output is over.
    fn finish(&mut self, out: &mut Out);
    /// From now on the arguments of native calls are told piece by piece, too, where the format has them so.
    fn tell_call_deltas(&mut self) {}
}

/// Reads a line that says what it is in a field of its own: `read` gets that word, and what of the line's fields it can't read is noted.
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
