//! What a session is to the pool that keeps it between its turns.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::exchange::EndedProcess;

/// How long a CLI may take to answer the handshake, as long as a host: half a second on an idle machine. qwen 0.24.4 was seen to take more than
/// 30 s on two cores with a load of 20.
pub const HANDSHAKE: Duration = Duration::from_secs(60);

/// How far the handshake is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// Nothing was sent to it yet.
    Unasked,
    /// `initialize` is under way since then.
    Asked(Instant),
    /// The CLI speaks the protocol.
    Done,
}

/// What [`Keepable::idle`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Idle {
    /// It has answered what it was sent ahead: a turn would not wait for its start. Found once for each priming.
    Ready {
        /// That was its [setup](Keepable::prime).
        is_primed: bool,
    },
    /// The CLI does not do what a session needs; the reason.
    Unsupported(String),
    /// The process is going or gone, or the session can't go on any more.
    Ended,
}

/// A session that can be kept between its turns. The methods with a body are for forms that can be started ahead of a call, as
/// spares.
pub trait Keepable: Send + Sized + 'static {
    /// Its setup.
    type Setup: PartialEq + Send + Sync + 'static;

    /// Whether its CLI loses the result of a call whose id it has had before: a session whose API gives one again is not gone on with.
    const LOSES_REPEATED_IDS: bool = false;

    /// Whether a process that was started without knowing its setup can be told this one.
    fn serves_any_start(_setup: &Self::Setup) -> bool {
        true
    }

    /// Its process.
    fn pid(&self) -> u32;

    /// Whether its process is gone or ending already, though nobody has noticed yet.
    fn is_ending(&self) -> bool {
        false
    }

    /// Answers what it asks between turns, until there is something to report of it. Cancel safe.
    fn idle(&mut self) -> impl Future<Output = Idle> + Send;

    /// Ends it in the background.
    fn end(self);

    /// Tells it `setup` ahead of its first turn.
    fn prime(&mut self, _setup: &Arc<Self::Setup>) {}

    /// Asks it for its version, of a process that nothing else can be sent yet: an answer says that it has started.
    fn ask_version(&mut self) {}

    /// When it must have answered what it was asked ahead; `None` where nothing is due.
    fn answers_by(&self) -> Option<Instant> {
        None
    }

    /// Waits for its end, which it is asked for unless it `has_ended` by itself. `None` for a form without spares.
    fn ended(self, _has_ended: bool) -> impl Future<Output = Option<EndedProcess>> + Send {
        self.end();
        std::future::ready(None)
    }
}
