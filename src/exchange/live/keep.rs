//! The interface between a session and the pool that keeps it between its turns.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::EndedProcess;

/// The time that a CLI may take to answer the handshake, the same as for a host: half a second on an idle machine. qwen 0.24.4 was
/// seen to take more than 30 s on two cores with a load of 20.
pub const HANDSHAKE: Duration = Duration::from_secs(60);

/// The progress of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// Nothing was sent to the CLI yet.
    Unasked,
    /// `initialize` was sent at this time, and is not answered yet.
    Asked(Instant),
    /// The CLI speaks the protocol.
    Done,
}

/// The result of [`Keepable::idle`].
#[derive(Debug, PartialEq, Eq)]
pub enum Idle {
    /// The session has answered what it was sent ahead: a turn would not wait for its start. Reported once for each priming.
    Ready {
        /// True if that was its [setup](Keepable::prime).
        is_primed: bool,
    },
    /// The CLI lacks something that a session needs; the reason.
    Unsupported(String),
    /// The process is going or gone, or the session can't continue.
    Ended,
}

/// A session that can be kept between its turns. The methods with a body are for forms that can be started ahead of a call, as
/// spares.
pub trait Keepable: Send + Sized + 'static {
    /// The setup of the session.
    type Setup: PartialEq + Send + Sync + 'static;

    /// True if the CLI loses the result of a call whose id it has had before: a session whose API repeats an id is not continued.
    const LOSES_REPEATED_IDS: bool = false;

    /// Returns whether a process that was started without knowing its setup can be told this one.
    fn serves_any_start(_setup: &Self::Setup) -> bool {
        true
    }

    /// The id of its process.
    fn pid(&self) -> u32;

    /// Returns whether its process is gone or ending already, though nobody has noticed yet.
    fn is_ending(&self) -> bool {
        false
    }

    /// Answers the CLI's requests between turns, until there is something to report of the session. Cancel safe.
    fn idle(&mut self) -> impl Future<Output = Idle> + Send;

    /// Ends the session in the background.
    fn end(self);

    /// Sends `setup` ahead of the first turn.
    fn prime(&mut self, _setup: &Arc<Self::Setup>) {}

    /// Asks for the CLI's version, in a process that can't be sent anything else yet: an answer shows that it has started.
    fn ask_version(&mut self) {}

    /// The deadline for the answer to what was sent ahead; `None` if nothing is due.
    fn answers_by(&self) -> Option<Instant> {
        None
    }

    /// Waits for the end of the process, after asking for it unless the process `has_ended` by itself. `None` for a form without
    /// spares.
    fn ended(self, _has_ended: bool) -> impl Future<Output = Option<EndedProcess>> + Send {
        self.end();
        std::future::ready(None)
    }
}
