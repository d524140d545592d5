//! A process that serves many calls at a time: what all of its kind have in common, whatever they speak.
//!
//! In: a process that was started for that. Out: a [`Host`], the handle that its calls share, and an [`Ending`] for whoever reads what
//! the process says. The process ends with the last handle: a host that is retired gets no new calls, and so ends behind those it has.

use std::fmt;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::EndedProcess;
use super::print::NotStarted;
use crate::process::{Closer, End, Exit, Running};

/// How long a host may leave a request unanswered that needs nothing but the host itself: neither a network nor a model.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Before it has served anything: it may still be loading.
    pub first: Duration,
    /// From then on.
    pub later: Duration,
}

/// A request that the host has left unanswered for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered(pub Duration);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it left a request unanswered for {} s", self.0.as_secs())
    }
}

/// Why there is no host.
#[derive(Debug)]
pub enum NoHost {
    /// The process could not be started.
    NotStarted(NotStarted),
    /// It does not do what is needed, for this reason.
    Unsupported(String),
    /// It has ended before it was ready.
    Ended(Option<Arc<Exit>>),
}

impl From<NotStarted> for NoHost {
    fn from(error: NotStarted) -> Self {
        NoHost::NotStarted(error)
    }
}

/// A running process that serves calls.
#[derive(Debug)]
pub struct Host {
    pid: u32,
    folder: PathBuf,
    exit: watch::Receiver<Option<Arc<Exit>>>,
    over: CancellationToken,
    retired: CancellationToken,
    closer: Closer,
    /// How many sessions it has opened.
    sessions: AtomicU32,
    /// It was made ready ahead of its first session.
    prewarmed: AtomicBool,
    patience: Patience,
    /// What it has left unanswered.
    hung: OnceLock<Unanswered>,
}

/// Tells the end of a host to its handle.
#[derive(Debug)]
pub struct Ending {
    over: CancellationToken,
    exit: watch::Sender<Option<Arc<Exit>>>,
}

impl Ending {
    /// No answer will come any more.
    pub fn over(&self) {
        self.over.cancel();
    }

    /// The process is no more.
    pub fn exited(self, exit: Exit) {
        self.exit.send_replace(Some(Arc::new(exit)));
    }
}

impl Host {
    /// The handle of `running`, which runs in `folder`.
    pub fn new(running: &Running, folder: PathBuf, patience: Patience) -> (Host, Ending) {
        let (sender, exit) = watch::channel(None);
        let over = CancellationToken::new();
        let host = Host {
            pid: running.pid(),
            folder,
            exit,
            over: over.clone(),
            retired: CancellationToken::new(),
            closer: running.closer(),
            sessions: AtomicU32::new(0),
            prewarmed: AtomicBool::new(false),
            patience,
            hung: OnceLock::new(),
        };
        (host, Ending { over, exit: sender })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The folder it runs in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many sessions it has opened.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// It has done all that can be done ahead of a session.
    pub fn prewarmed(&self) {
        self.prewarmed.store(true, Ordering::Relaxed);
    }

    /// Whether it has been of use: where it fails before a session, another one is tried. One that never was would fail again.
    pub fn has_served(&self) -> bool {
        self.sessions() > 0 || self.prewarmed.load(Ordering::Relaxed)
    }

    /// It has opened a session.
    pub fn count_session(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// Cancelled when the process is no more, or about to be.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Whether the process is no more, or about to be.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Takes no new calls from now on: those under way come to their ends, those that rest end.
    pub fn retire(&self) {
        self.retired.cancel();
    }

    /// Cancelled when it takes no new calls any more.
    pub fn retired(&self) -> &CancellationToken {
        &self.retired
    }

    /// Whether a new call may go to it.
    pub fn takes_calls(&self) -> bool {
        !self.is_over() && !self.retired.is_cancelled()
    }

    /// How long it may leave a request unanswered just now.
    pub fn patience(&self) -> Duration {
        match self.has_served() {
            false => self.patience.first,
            true => self.patience.later,
        }
    }

    /// What `answer` comes to, the answer to a request that needs nothing but the host. One that does not give it in time hangs:
    /// it is retired, and not waited for again.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn answer<T>(&self, answer: impl Future<Output = T>) -> Result<T, Unanswered> {
        if let Some(hung) = self.hung.get() {
            return Err(*hung);
        }
        let patience = self.patience();
        let answer = tokio::time::timeout(patience, answer).await;
        answer.map_err(|_| self.hangs(patience))
    }

    /// Whether it still answers: `answer` is that to a question that is asked for nothing else.
    pub fn heartbeat<T>(&self, answer: impl Future<Output = T> + Send + 'static) -> Heartbeat {
        let (patience, retired) = (self.patience(), self.retired.clone());
        Heartbeat(Some(Box::pin(async move {
            let answer = tokio::time::timeout(patience, answer).await;
            if answer.is_err() {
                retired.cancel();
            }
            answer.is_ok()
        })))
    }

    /// It has left a request unanswered for so long.
    pub fn hangs(&self, patience: Duration) -> Unanswered {
        self.retire();
        *self.hung.get_or_init(|| Unanswered(patience))
    }

    /// Begins to end the process, whoever is in it.
    pub fn close(&self) {
        self.over.cancel();
        self.closer.close();
    }

    /// The same, for who outlives the handle.
    pub fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// Waits for the end of the process, for `patience` at most.
    pub async fn ended(&self, patience: Duration) -> Option<Arc<Exit>> {
        let mut exit = self.exit.clone();
        let exited = async { exit.wait_for(Option::is_some).await.ok()?.clone() };
        tokio::time::timeout(patience, exited).await.ok().flatten()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.closer.close();
    }
}

/// Whether a host still answers, found out beside a turn whose own message has no answer before its end.
#[derive(Default)]
pub struct Heartbeat(Option<Pin<Box<dyn Future<Output = bool> + Send>>>);

impl Heartbeat {
    /// Resolves when the host hangs, and never otherwise. Cancel safe.
    pub async fn missed(&mut self) {
        if let Some(answered) = &mut self.0 {
            let is_alive = answered.await;
            self.0 = None;
            if !is_alive {
                return;
            }
        }
        pending().await
    }
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heartbeat").field(&self.0.is_some()).finish()
    }
}

/// The end of a host as that of a call in it.
pub fn of_exit(exit: &Exit) -> EndedProcess {
    let mut exit = exit.clone();
    if exit.end == End::Closed {
        // The call has not asked for it: what is the end of its provider is told by its own token.
        exit.end = End::Exited;
    }
    EndedProcess {
        exit,
        plain: None,
        cut_short: true,
        dropped_line: None,
        diagnostics: Vec::new(),
        stdout_tail: String::new(),
    }
}
