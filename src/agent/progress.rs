//! Where a run is, as far as places in its journal are named by that.
//!
//! In: turns and calls, as they begin. Out: their places, and whether the journal knows what has happened there.

use std::collections::HashMap;

use super::journal::Journal;
use crate::event::Reply;
use crate::message::ToolCall;

/// Where a run is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What its places begin with ([`super::shared::RunOrigin::scope`]).
    scope: String,
    turns: u32,
    /// Calls of this turn so far.
    calls: u32,
    /// Of calls, by their ids.
    places: HashMap<String, String>,
    /// The turn that is next to end: it had ended in an earlier attempt.
    pub recorded: Option<Box<Reply>>,
    /// This turn is such a one.
    pub replayed: bool,
    /// Calls that somebody was asked about because their tools had begun.
    pub questions: HashMap<String, ToolCall>,
}

impl Progress {
    /// That of a run whose places begin with `scope`.
    pub fn new(scope: &str) -> Progress {
        Progress {
            scope: scope.to_owned(),
            ..Progress::default()
        }
    }

    /// A turn is to begin: `true` if it had ended in an earlier attempt, and is taken from there.
    pub fn enter_turn(&mut self, journal: &Journal) -> bool {
        self.turns += 1;
        self.calls = 0;
        self.recorded = journal.turn(&self.turn());
        self.replayed = self.recorded.is_some();
        self.replayed
    }

    /// The place of this turn.
    pub fn turn(&self) -> String {
        self.turn_place(self.turns)
    }

    /// A call has come: it has its place from now on.
    pub fn enter_call(&mut self, id: &str) {
        if self.places.contains_key(id) {
            return;
        }
        self.calls += 1;
        let at = format!("{}.{}", self.turn(), self.calls);
        self.places.insert(id.to_owned(), at);
    }

    /// Where call `id` was made.
    pub fn place(&self, id: &str) -> String {
        self.places.get(id).cloned().unwrap_or_default()
    }

    /// Whether an earlier attempt has reported what happens to call `id`.
    pub fn was_reported(&self, journal: &Journal, id: &str) -> bool {
        journal.ended(&self.place(id)).is_some() || journal.turn(&self.turn_place(self.turns + 1)).is_some()
    }

    fn turn_place(&self, turn: u32) -> String {
        format!("{}{turn}", self.scope)
    }
}
