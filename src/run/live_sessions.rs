//! The sessions of one provider, those at work and those that wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::task::TaskTracker;

use super::codex_sessions::CodexSessions;
use super::opencode_sessions::OpencodeSessions;
use crate::event::Event;
use crate::exchange::claude_live::session::Session;
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::pool::{EvictionReason, Pool};
use crate::exchange::live::setup::Setup;
use crate::exchange::qwen_live;
use crate::provider::options::Options;
use crate::provider::{LiveForm, Provider};

/// What a provider keeps between its calls, by the form of its live engine.
#[derive(Debug)]
pub(super) enum Live {
    /// A process for each conversation.
    Claude(LiveSessions<Session>),
    /// A process for each conversation, whose calls wait in it.
    Qwen(LiveSessions<qwen_live::session::Session>),
    /// A process for all of them.
    Codex(CodexSessions),
    /// The same, of opencode.
    Opencode(OpencodeSessions),
}

impl Live {
    /// `None` where the options want no sessions, or the provider has none.
    pub fn new(provider: &Provider, options: &Options, runs: &TaskTracker) -> Option<Live> {
        match provider.live? {
            LiveForm::ClaudeControl => LiveSessions::new(options, runs).map(Live::Claude),
            LiveForm::QwenStream => LiveSessions::new(options, runs).map(Live::Qwen),
            LiveForm::CodexAppServer => CodexSessions::new(options, runs).map(Live::Codex),
            LiveForm::OpencodeServe => OpencodeSessions::new(options, runs).map(Live::Opencode),
        }
    }

    /// Gives back what is kept beside the sessions, which end by themselves: the provider is closed.
    pub fn forget(&self) {
        if let Live::Codex(live) = self {
            live.forget();
        }
    }
}

/// A warning.
pub(super) fn warning(code: &str, message: String) -> Event {
    Event::Warning {
        code: code.to_owned(),
        message,
    }
}

/// That the thread was sent whole to another session than the one that knew it. `places`: how many there are.
pub(super) fn evicted_warning(why: EvictionReason, options: &Options, places: &str) -> Event {
    let reason = match why {
        EvictionReason::Expired => format!(
            "unused for {} ms, the option `keepAlive`",
            options.keep_alive.as_millis()
        ),
        EvictionReason::Displaced => format!("other threads needed its place: {places}"),
        EvictionReason::Grown => "its process took more than 1 GiB of memory".to_owned(),
    };
    warning(
        "SESSION_EXPIRED",
        format!("the session that knew this thread has ended ({reason}): the thread was sent whole to another"),
    )
}

/// The sessions of one provider.
#[derive(Debug)]
pub(super) struct LiveSessions<S: Keepable<Setup = Setup>> {
    pub pool: Arc<Pool<S>>,
    pub at_work: Arc<AtomicUsize>,
    recent: Mutex<Recent>,
}

/// The setups of the last calls' sessions.
#[derive(Debug, Default)]
struct Recent {
    setup: Option<Arc<Setup>>,
    /// How many calls in a row.
    times: u32,
}

/// In how many calls in a row a setup is the same before it is thought that the next one has it, too.
const STABLE: u32 = 2;

impl<S: Keepable<Setup = Setup>> LiveSessions<S> {
    /// `None` where the options want no sessions.
    pub fn new(options: &Options, runs: &TaskTracker) -> Option<LiveSessions<S>> {
        let pool = || {
            Pool::new(
                options.max_concurrency,
                options.keep_alive,
                options.spares,
                runs.clone(),
            )
        };
        options.engine.may_be_live().then(|| LiveSessions {
            pool: Arc::new(pool()),
            at_work: Arc::default(),
            recent: Mutex::default(),
        })
    }

    /// A call's session is set up with `setup`.
    pub fn note(&self, setup: &Arc<Setup>) {
        let mut recent = self.recent();
        recent.times = match recent.setup.as_ref() == Some(setup) {
            true => recent.times.saturating_add(1),
            false => 1,
        };
        recent.setup = Some(Arc::clone(setup));
    }

    /// The setup of the last call's session.
    pub fn last_setup(&self) -> Option<Arc<Setup>> {
        self.recent().setup.clone()
    }

    /// The most likely setup of the next call's session.
    pub fn likely_setup(&self) -> Option<Arc<Setup>> {
        let recent = self.recent();
        recent.setup.clone().filter(|_| recent.times >= STABLE)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a process as working until the seat is dropped.
    pub fn seat(&self) -> Seat {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(&self.at_work))
    }

    /// How many processes work just now.
    pub fn working(&self) -> usize {
        self.at_work.load(Ordering::Relaxed)
    }
}

/// A process that works.
pub(super) struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
