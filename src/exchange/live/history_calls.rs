//! The calls of a history that is being written, whose ids must be unique in it.
//!
//! In: the calls and the results of a thread, in its order, by the caller's ids. Out: the ids in the history.

use std::collections::HashSet;

use dfp_model::message::Message;

/// The result of a call that nobody has answered. Without one, codex would say "aborted".
pub const NO_RESULT: &str = "Error: this call has no result";
/// The text before a result whose call does not exist.
pub const ORPHAN: &str = "The result of an earlier tool call:";

/// The calls of a history so far.
#[derive(Debug, Default)]
pub struct HistoryCalls {
    /// Calls without a result: the caller's id, and the one used in the history.
    open: Vec<(String, String)>,
    /// The ids in use: each may be there once.
    used: HashSet<String>,
    /// The number of ids that were made here.
    made: usize,
}

impl HistoryCalls {
    /// Adds a call that the caller calls `id`, and returns its id in the history.
    pub fn open(&mut self, id: &str) -> String {
        let mut unique = id.to_owned();
        while unique.is_empty() || !self.used.insert(unique.clone()) {
            self.made += 1;
            unique = format!("call_df_{}", self.made);
        }
        self.open.push((id.to_owned(), unique.clone()));
        unique
    }

    /// Notes that the history has a call `id` that is not the caller's.
    pub fn note_used(&mut self, id: String) {
        self.used.insert(id);
    }

    /// Takes the call whose result `message` is, and returns its id in the history; `None` if there is no such call.
    pub fn answered(&mut self, message: &Message) -> Option<String> {
        let at = match message.tool_call_id.as_str() {
            "" => (!self.open.is_empty()).then_some(0),
            id => self.open.iter().position(|(callers, _)| callers == id),
        };
        at.map(|at| self.open.remove(at).1)
    }

    /// Takes the calls that nobody has answered: their ids in the history.
    pub fn take_unanswered(&mut self) -> Vec<String> {
        self.open.drain(..).map(|(_, id)| id).collect()
    }
}
