//! Exchanges with a provider: bytes of a process or a connection become events here.
//!
//! [`mod@print`]: one process per call, the whole thread as one prompt. A kept process is a [`form`]: [`claude_live`] and [`qwen_live`]
//! have one for each conversation (claude's control protocol, qwen's stream-json input), [`codex_live`], [`opencode_live`] and [`copilot_live`] one for
//! all of them (JSON-RPC, HTTP), [`acp_warm`] one for many calls, which remembers none. What they share: the thread, its setup, the pool of
//! resting sessions and a turn ([`live`]), the process that serves many ([`mod@host`]), JSON-RPC over its standard streams ([`rpc`]), claude's
//! control lines ([`control`]) and user lines ([`user_line`]), and the [`installed`] CLI. [`http`]: one HTTP request per call. Whoever drives one (`run::attempt`) knows no more of them than [`Exchange`].

use std::time::Duration;

use serde_json::Value;

use crate::event::{Event, Reply};
pub use crate::fold::ProviderCallId;
pub use crate::judge::{Evidence, StopReason};

pub mod acp_live;
pub mod acp_warm;
pub mod claude_live;
pub mod codex_live;
pub mod control;
pub mod copilot_live;
pub mod form;
pub mod host;
pub mod http;
pub mod installed;
pub mod live;
pub mod opencode_live;
pub mod print;
mod private_home;
mod process;
pub mod qwen_live;
pub mod rpc;
pub mod scratch;
mod session_files;
pub mod user_line;
pub mod uuid;

pub use process::{EndedProcess, Invocation};

/// One request and its answer: what a new kind of engine implements.
///
/// The driver calls [`next`](Exchange::next) until it says [`Progress::Over`] or calls [`stop`](Exchange::stop), and then
/// [`finish`](Exchange::finish).
pub trait Exchange: Send {
    /// Why an exchange came to nothing that is no failure of the call's; [`std::convert::Infallible`] where there is no such thing.
    type Unusable: Send;

    /// Whether it keeps the call's limits (time, silence, output, cancelling) itself: its [`next`](Exchange::next) is over in
    /// time then. The driver keeps those of all others.
    const KEEPS_LIMITS: bool = false;

    /// Its process, if it has one.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Whether it is certain that there is an exchange: nothing is reported of one before. A process that waited for a turn may be
    /// gone.
    fn has_begun(&self) -> bool {
        true
    }

    /// How long it has gone on.
    fn elapsed(&self) -> Duration;

    /// How many bytes have come so far.
    fn received_bytes(&self) -> u64;

    /// Waits for something to come; what it means is added to `events`.
    ///
    /// Cancel safe as far as the driver needs it: a `next` that is dropped before it is ready has lost no event that could still
    /// be reported, but an HTTP request may be without its connection then. Only `stop` may follow.
    fn next(&mut self, events: &mut Vec<Event>) -> impl Future<Output = Progress> + Send;

    /// The driver gives it up, for `reason`. Takes effect at once or with [`finish`](Exchange::finish).
    fn stop(&mut self, reason: StopReason);

    /// Waits until nothing is left of it but what can be used again.
    fn finish(self) -> impl Future<Output = Finish<Self::Unusable>> + Send;
}

/// What [`Exchange::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to come.
    More,
    /// Nothing more will come.
    Over,
}

/// What an exchange comes to.
#[derive(Debug)]
pub enum Finish<U> {
    /// It is to be judged.
    Ended(Box<Ended>),
    /// It was none that could be judged. Its end, if there is anything to tell of it.
    Unusable(U, Option<Box<Ended>>),
}

/// An exchange that is over.
pub struct Ended {
    /// What it is judged by.
    pub evidence: Evidence,
    /// How long its process took to start.
    pub spawn: Option<Duration>,
    /// When its process printed its first byte, where that is known better than by who has waited for it.
    pub first_byte: Option<Duration>,
    /// When it was over.
    pub exit: Option<Duration>,
    /// What only exchanges of this kind have to tell the log: an object.
    pub figures: Value,
    /// The flag of ours that a CLI too old for it has refused before it did anything.
    pub refused_flag: Option<String>,
    /// Why a CLI has refused the schema of the answer before it did anything.
    pub refused_schema: Option<String>,
    /// Something was done that must not be done again.
    pub has_side_effects: bool,
    /// What is to be done when the verdict is known, before the last events go out.
    pub on_verdict: Option<OnVerdict>,
}

/// Puts what can be used again where the next call finds it, or ends it. It gets the reply, if there is one, and the ids of
/// its calls.
pub type OnVerdict = Box<dyn FnOnce(Option<(&Reply, &[ProviderCallId])>) + Send>;

impl Ended {
    /// One of which nothing is known but `evidence`.
    pub fn new(evidence: Evidence) -> Ended {
        Ended {
            evidence,
            spawn: None,
            first_byte: None,
            exit: None,
            figures: Value::Null,
            refused_flag: None,
            refused_schema: None,
            has_side_effects: false,
            on_verdict: None,
        }
    }
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Ended")
            .field("evidence", &self.evidence)
            .finish_non_exhaustive()
    }
}
