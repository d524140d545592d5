//! The source of a form's sessions.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::cli_attempt::CliAttempt;
use crate::live_support::{LiveSupport, Unserved};
use dfp_exchange::form::ProcessOptions;
use dfp_exchange::installed::Installed;
use dfp_exchange::live::turn::{Origin, Unusable};
use dfp_exchange::{Evidence, Exchange};
use dfp_model::error::ProviderError;
use dfp_model::event::{EngineUsed, Event};
use dfp_provider::command::CommandLine;

/// A turn that is to be begun.
pub(crate) struct TurnAsked<'a, C> {
    pub attempt: &'a CliAttempt<'a>,
    pub call: &'a C,
    /// The CLI as the call's process is started. Code that starts a process, or opens a session, takes it from
    /// [`looked_at`](TurnAsked::looked_at).
    pub installed: &'a Installed,
    /// The known support of the engine by the CLI.
    pub support: &'a LiveSupport,
    /// True if the program was looked at for this turn.
    pub is_looked_at: bool,
    /// False once a waiting process turned out to be gone: then no other waiting one is taken.
    pub takes_waiting: bool,
}

impl<'a, C> TurnAsked<'a, C> {
    /// The CLI as it is installed now.
    ///
    /// # Errors
    /// `NotLookedAt` if nobody has looked at it for this turn.
    pub fn looked_at(&self) -> Result<&'a Installed, NotBegun> {
        self.is_looked_at.then_some(self.installed).ok_or(NotBegun::NotLookedAt)
    }
}

/// A turn that was begun.
pub(crate) struct Begun<E> {
    pub exchange: E,
    pub origin: Origin,
    /// The events that are reported about the session.
    pub notes: Vec<Event>,
    /// The text that was sent; called only if nobody reports usage.
    pub sent: Box<dyn FnOnce() -> String + Send>,
    /// The fields of the session for the log: an object.
    pub figures: Value,
}

/// The reason for which a turn was not begun.
pub(crate) enum NotBegun {
    Cancelled,
    /// The CLI serves the engine, but not this call, for this reason.
    Left(&'static str),
    /// No session waits for the turn, and the installed CLI has to be looked at before another is started: look again, then retry.
    NotLookedAt,
    /// The CLI has refused a flag that the call can do without.
    FlagRefused(String),
    /// Another call has just found out that the installed CLI does not serve the engine.
    Unserved(Unserved),
    /// This turn has found out that the installed CLI does not serve the engine.
    Unsupported(Unsupported),
    Failed(Box<ProviderError>),
}

/// The finding that the installed CLI lacks something that a form needs.
pub(crate) struct Unsupported {
    /// The missing feature, in words.
    pub reason: String,
    /// True if a model may have been asked already.
    pub may_have_asked: bool,
    /// The evidence of how its process has ended, if it has.
    pub evidence: Option<Box<Evidence>>,
}

impl Unsupported {
    /// The finding for this reason, made before any model was asked.
    pub fn because(reason: impl Into<String>) -> Unsupported {
        Unsupported {
            reason: reason.into(),
            may_have_asked: false,
            evidence: None,
        }
    }
}

/// A source of sessions of one form: of those that wait, and of new ones.
pub(crate) trait Source: Debug + Send + Sync + 'static {
    /// The engine that its calls have.
    const ENGINE: EngineUsed;

    /// A call as the source takes it.
    type Call: Send + Sync + 'static;
    type Turn: Exchange<Unusable = Unusable>;

    /// Returns whether a session may know the beginning of this call's thread.
    fn may_continue(call: &Self::Call) -> bool;

    /// The options with which the process of a call is started.
    fn options(call: &Self::Call) -> ProcessOptions;

    /// Completes the command line of a process, from that of the CLI in `file`.
    fn line(line: CommandLine, _file: &Path) -> CommandLine {
        line
    }

    /// Begins a turn of a session that knows the thread's beginning, or of another. The future is dropped when the call's time is
    /// up.
    fn begin(
        self: &Arc<Self>,
        asked: &TurnAsked<'_, Self::Call>,
    ) -> impl Future<Output = Result<Begun<Self::Turn>, NotBegun>> + Send;
}
