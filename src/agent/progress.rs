//! The position of a run: the number of its turn and of its calls, from which the places in its journal are made.
//!
//! In: turns and calls as they begin. Out: their places, and whether the journal has an entry for them.

use std::collections::HashMap;

use super::journal::Journal;
use dfp_model::event::Reply;
use dfp_model::message::ToolCall;

/// The position of one run.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The prefix of the run's places ([`super::shared::RunOrigin::scope`]).
    scope: String,
    turns: u32,
    /// The number of calls of this turn so far.
    calls: u32,
    /// The places of calls, by call id.
    places: HashMap<String, String>,
    /// The reply of this turn, if it had ended in an earlier attempt.
    pub recorded: Option<Box<Reply>>,
    /// This turn had ended in an earlier attempt.
    pub replayed: bool,
    /// Calls about which the host was asked because an earlier attempt was interrupted while their tool ran.
    pub questions: HashMap<String, ToolCall>,
}

impl Progress {
    /// The beginning of a run whose places begin with `scope`.
    pub fn new(scope: &str) -> Progress {
        Progress {
            scope: scope.to_owned(),
            ..Progress::default()
        }
    }

    /// Begins a turn. Returns `true` if it had ended in an earlier attempt; its reply is then `recorded`.
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

    /// Gives a new call its place in this turn.
    pub fn enter_call(&mut self, id: &str) {
        if self.places.contains_key(id) {
            return;
        }
        self.calls += 1;
        let at = format!("{}.{}", self.turn(), self.calls);
        self.places.insert(id.to_owned(), at);
    }

    /// The place of call `id`; empty for an unknown one.
    pub fn place(&self, id: &str) -> String {
        self.places.get(id).cloned().unwrap_or_default()
    }

    /// `true` if an earlier attempt has reported the events of call `id`.
    pub fn was_reported(&self, journal: &Journal, id: &str) -> bool {
        journal.ended(&self.place(id)).is_some() || journal.turn(&self.turn_place(self.turns + 1)).is_some()
    }

    fn turn_place(&self, turn: u32) -> String {
        format!("{}{turn}", self.scope)
    }
}
