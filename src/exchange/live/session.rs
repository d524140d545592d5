//! A session: one conversation of a kept process, in its turns and between them.
//!
//! In: the [input](TurnInput) of one turn after the other. Out: the events of the turn, in its [`Report`], and its [`TurnEnd`].
//! A session either has a process of its own, or lives in a [`Host`] with others. Between its turns, the
//! [pool](super::pool::Pool) holds it; in a turn, a [`Turn`](super::turn::Turn) does.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::streams::Figures;
use super::turn::{Report, TurnEnd};
use crate::EndedProcess;
use crate::host::Host;
use dfp_model::event::Event;

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

/// The origin of a turn's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A session that knows nothing.
    Fresh,
    /// A session that knows nothing, in a process that was started ahead.
    Spare,
    /// A session that knows the thread's beginning.
    Continued,
}

/// The beginning of a turn.
#[derive(Debug)]
pub struct TurnInput<S: Session> {
    /// The whole thread for a session that knows nothing, or else its new part.
    pub input: S::Input,
    /// The setup that the session has, or is to get with this turn.
    pub setup: Arc<S::Setup>,
    pub origin: Origin,
}

/// A report of a session's own process, in a turn or between two turns.
#[derive(Debug, PartialEq, Eq)]
pub enum Pulse {
    /// A line came, and perhaps events.
    Alive,
    /// The session has answered what it was sent ahead: a turn would not wait for its start. Reported once for each priming.
    Ready {
        /// True if that was its [setup](Session::prime).
        is_primed: bool,
    },
    /// The turn's result is among the events.
    TurnOver,
    /// The CLI lacks something that a session needs; the reason.
    Unsupported(String),
    /// The process is going or gone, or the session can't continue.
    Ended,
    /// The process could not read what it was started with: another one can take the turn.
    Lost,
}

/// A session of any form. The methods with a body are for some forms alone.
pub trait Session: Debug + Send + Sized + 'static {
    /// The setup of the session. Sessions with different setups are not exchangeable.
    type Setup: PartialEq + Debug + Send + Sync + 'static;
    /// The input that a turn begins with.
    type Input: Debug + Send + Sync + 'static;
    /// The facts known of a reply beside its events.
    type ReplyFacts: Send + 'static;

    /// True if the CLI loses the result of a call whose id it has had before: a session whose API repeats an id is not continued.
    const LOSES_REPEATED_IDS: bool = false;

    /// The id of its process.
    fn pid(&self) -> u32;

    /// The host that it shares with others; `None` for a session with a process of its own.
    fn host(&self) -> Option<&Host> {
        None
    }

    /// Makes a turn; dropped if the turn is given up.
    fn turn(
        &mut self,
        turn: TurnInput<Self>,
        report: &Report,
    ) -> impl Future<Output = TurnEnd<Self::ReplyFacts>> + Send;

    /// Stops the turn, and ends the session. A process of its own is killed `kill_grace` after it was asked to end; the result is
    /// its end.
    fn stop(self, kill_grace: Duration) -> impl Future<Output = Option<EndedProcess>> + Send;

    /// Answers the CLI's requests between turns, until there is something to report of the session. Cancel safe.
    fn idle(&mut self) -> impl Future<Output = Pulse> + Send;

    /// Ends the session in the background.
    fn end(self);

    /// Returns whether its process is gone or ending already, though nobody has noticed yet.
    fn is_ending(&self) -> bool {
        false
    }

    /// Returns whether the session can take no more turns, though nothing is wrong with it.
    fn is_worn_out(&self) -> bool {
        false
    }

    /// The model that answers, if the CLI knows that it takes no images. Asked only for calls with an image.
    fn blind_model(&self) -> impl Future<Output = Option<String>> + Send {
        std::future::ready(None)
    }

    // A session with a process of its own, which may be started ahead of a call, as a spare:

    /// Waits for the next line of the turn, and adds its meaning to `events`. Cancel safe.
    fn next(&mut self, _events: &mut Vec<Event>) -> impl Future<Output = Pulse> + Send {
        std::future::ready(Pulse::Ended)
    }

    /// Queues the request to stop the turn.
    fn say_interrupt(&mut self) {}

    /// The progress of the handshake.
    fn handshake(&self) -> Handshake {
        Handshake::Done
    }

    /// The figures of the turn.
    fn figures(&self) -> Option<&Figures> {
        None
    }

    /// The lines of this turn that were no events.
    fn diagnostics(&self) -> &[String] {
        &[]
    }

    /// Waits for the end of its process, after asking for it unless the process `has_ended` by itself.
    fn ended(self, _has_ended: bool) -> impl Future<Output = Option<EndedProcess>> + Send {
        self.end();
        std::future::ready(None)
    }

    /// Returns whether a process that was started without knowing its setup can be told this one.
    fn serves_any_start(_setup: &Self::Setup) -> bool {
        true
    }

    /// Sends `setup` ahead of the first turn.
    fn prime(&mut self, _setup: &Arc<Self::Setup>) {}

    /// Asks for the CLI's version, in a process that can't be sent anything else yet: an answer shows that it has started.
    fn ask_version(&mut self) {}

    /// The CLI's version, if the CLI has reported it when it was [asked](Session::ask_version).
    fn version(&self) -> Option<&str> {
        None
    }

    /// The deadline for the answer to what was sent ahead; `None` if nothing is due.
    fn answers_by(&self) -> Option<Instant> {
        None
    }
}
