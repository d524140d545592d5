//! What was found in an answer.

use crate::message::{InvalidToolCall, ToolCall};

/// What a [`Gate`](super::Gate) has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calls {
    /// As [`Extraction::tool_calls`](super::Extraction::tool_calls).
    pub tool_calls: Vec<ToolCall>,
    /// As [`Extraction::invalid`](super::Extraction::invalid).
    pub invalid: Vec<InvalidToolCall>,
    /// Why what looks like calls at the end of the answer is text, where it may have been meant as calls.
    pub ignored: Option<String>,
}

impl Calls {
    /// Whether the text is no more than text.
    pub fn is_empty(&self) -> bool {
        self.tool_calls.is_empty() && self.invalid.is_empty()
    }
}
