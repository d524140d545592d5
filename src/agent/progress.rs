//! Where a run is, as far as places in its journal are named by that.
//!
//! In: nothing; this is state of the driver. Out: the same.

use std::collections::HashMap;

use crate::event::Reply;
use crate::message::ToolCall;

/// Where a run is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Turns so far.
    pub turns: u32,
    /// Calls of this turn so far.
    pub calls: u32,
    /// Of calls, by their ids.
    pub places: HashMap<String, String>,
    /// The turn that is next to end: it had ended in an earlier attempt.
    pub recorded: Option<Box<Reply>>,
    /// This turn is such a one.
    pub replayed: bool,
    /// Calls that somebody was asked about because their tools had begun.
    pub questions: HashMap<String, ToolCall>,
}
