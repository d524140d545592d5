//! The tool calls found in an answer.

use dfp_model::message::{InvalidToolCall, ToolCall};

/// The calls that a [`Gate`](super::Gate) has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calls {
    /// The calls, as in [`Extraction::tool_calls`](super::Extraction::tool_calls).
    pub tool_calls: Vec<ToolCall>,
    /// The unreadable calls, as in [`Extraction::invalid`](super::Extraction::invalid).
    pub invalid: Vec<InvalidToolCall>,
    /// The reason why text at the end of the answer that looks like calls is not taken for calls, if it may have been meant so.
    pub ignored: Option<String>,
}

impl Calls {
    /// Returns whether the answer is text only.
    pub fn is_empty(&self) -> bool {
        self.tool_calls.is_empty() && self.invalid.is_empty()
    }
}
