//! A process that was started ahead of its first turn, as the pool knows it.

use std::sync::Arc;

use tokio::sync::watch;

use super::idle_task::{IdleCommand, IdleHandle, StartState};
use super::session::Session;
use dfp_process::Vars;

/// A process that was started ahead.
pub(super) struct Spare<S: Session> {
    pub id: u64,
    /// The environment that the process has inherited.
    pub env: Arc<Vars>,
    /// The setup sent ahead; `None` for nothing.
    pub setup: Option<Arc<S::Setup>>,
    /// True if a caller asked for it: it stays then, although others would be more likely to be used.
    pub is_asked_for: bool,
    /// The progress of its start.
    pub start_state: watch::Receiver<StartState>,
    pub line: IdleHandle<S>,
}

impl<S: Session> Spare<S> {
    /// Returns whether a session that needs `setup` can begin with it.
    pub fn serves(&self, setup: &Arc<S::Setup>) -> bool {
        match &self.setup {
            Some(own) => own == setup,
            None => S::serves_any_start(setup),
        }
    }

    /// Sends it `setup`, if it has none yet.
    pub fn prime(&mut self, setup: &Arc<S::Setup>) {
        if self.setup.is_none() && self.serves(setup) && self.line.send(IdleCommand::Prime(Arc::clone(setup))).is_ok() {
            self.setup = Some(Arc::clone(setup));
        }
    }

    /// The rank of the time that a turn would wait for it, compared with other spares: a process takes half a second to start, a
    /// setup 40 ms to be sent.
    pub fn distance(&self) -> u8 {
        let has_setup = self.setup.is_some();
        let is_ready = matches!(*self.start_state.borrow(), StartState::Ready { is_primed } if is_primed == has_setup);
        u8::from(!is_ready) * 2 + u8::from(!has_setup)
    }
}
