//! The wire formats by name, and the trait that each format's decoder implements.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Fields, word};
use super::notes::Out;

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
    /// Returns whether a successful run always has an [`Event::Outcome`](dfp_model::event::Event::Outcome). A sequence of message
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

/// A wire format's decoder: a small state, and a pure function from one JSON object to events.
pub(super) trait Format: std::fmt::Debug + Send {
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
