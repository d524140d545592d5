//! Where the sessions of a form come from.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use crate::error::ProviderError;
use crate::event::{EngineUsed, Event};
use crate::exchange::installed::Installed;
use crate::exchange::live::process_turn::{Origin, Unusable};
use crate::exchange::{Evidence, Exchange};
use crate::process::Vars;
use crate::run::base::Base;
use crate::run::cli_attempt::CliAttempt;
use crate::run::live_support::Unserved;

/// A turn that is to be begun.
pub(in crate::run) struct TurnAsked<'a, C> {
    pub attempt: &'a CliAttempt<'a>,
    pub call: &'a C,
    pub installed: &'a Installed,
    /// Nothing that has waited for it was gone yet.
    pub takes_waiting: bool,
}

/// A turn that was begun.
pub(in crate::run) struct Begun<E> {
    pub exchange: E,
    pub origin: Origin,
    /// What there is to say of its session.
    pub notes: Vec<Event>,
    /// What was sent.
    pub sent: String,
    /// What the log is told of its session: an object.
    pub figures: Value,
}

/// Why a turn was not begun.
pub(in crate::run) enum NotBegun {
    Cancelled,
    /// The CLI has refused a flag that the call can do without.
    FlagRefused(String),
    /// Another call has just found out that the installed CLI can't.
    Unserved(Unserved),
    /// The installed CLI can't, which turned out now.
    Unsupported(Unsupported),
    Failed(Box<ProviderError>),
}

/// That the installed CLI can't do what a form needs.
pub(in crate::run) struct Unsupported {
    /// What it is that it can't.
    pub reason: String,
    /// A model may have been asked already.
    pub may_have_asked: bool,
    /// How its process has ended, if it has.
    pub evidence: Option<Box<Evidence>>,
}

impl Unsupported {
    /// Before any model was asked.
    pub fn because(reason: impl Into<String>) -> Unsupported {
        Unsupported {
            reason: reason.into(),
            may_have_asked: false,
            evidence: None,
        }
    }
}

/// Sessions of one form, those that wait and those that can be had.
pub(in crate::run) trait Source: Debug + Send + Sync + 'static {
    /// The engine that its calls have.
    const ENGINE: EngineUsed;

    /// A call as it takes it.
    type Call: Send + Sync + 'static;
    type Turn: Exchange<Unusable = Unusable>;

    /// The CLI as the process of a call is started.
    fn installed(&self, engine: &Base, call: &Self::Call, env: &Arc<Vars>) -> Result<Installed, Box<ProviderError>>;

    /// Begins a turn: of a session that knows the thread's beginning, or of another. No longer than the call's time runs: it is dropped
    /// then.
    fn begin(
        self: &Arc<Self>,
        asked: &TurnAsked<'_, Self::Call>,
    ) -> impl Future<Output = Result<Begun<Self::Turn>, NotBegun>> + Send;
}
