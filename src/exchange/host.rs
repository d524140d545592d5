//! A process that serves many calls at a time: what all of its kind have in common, whatever they speak.
//!
//! In: a process that was started for that. Out: a [`Host`], the handle that its calls share, and an [`Ending`] for whoever reads what
//! the process says. The process ends with the last handle: a host that is retired gets no new calls, and so ends behind those it has.

use std::fmt;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::EndedProcess;
use super::print::NotStarted;
use crate::process::{Closer, End, Exit, Running};

/// A request that is given up sooner says nothing of its host: one takes 17 ms as a rule, and a second on a busy machine.
const TELLING: Duration = Duration::from_secs(2);

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
    /// It has refused to serve, in these words: perhaps for something that is no fact of the program.
    Refused(String),
    /// It has ended before it was ready.
    Ended(Option<Arc<Exit>>),
}

impl From<NotStarted> for NoHost {
    fn from(error: NotStarted) -> Self {
        NoHost::NotStarted(error)
    }
}

/// Whether a host still answers, as all know who wait for it. Their patience is with the host: it does not begin anew with each call.
#[derive(Debug, Clone, Default)]
pub struct Life(Arc<LifeState>);

#[derive(Debug, Default)]
struct LifeState {
    retired: CancellationToken,
    /// Cancelled when it is known to hang.
    hangs: CancellationToken,
    /// What it has left unanswered.
    hung: OnceLock<Unanswered>,
    /// Since when it owes an answer and has said nothing.
    silent: Mutex<Option<Instant>>,
}

impl Life {
    /// Notes that the host has said something, so that no request is overdue.
    pub fn mark_responsive(&self) {
        *self.silent() = None;
    }

    fn silent(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody waits from now on. `is_telling`: whether it says that the host hangs where that is given up unanswered.
    fn wait(&self, is_telling: bool) -> Wait {
        let since = Instant::now();
        self.silent().get_or_insert(since);
        Wait {
            life: self.clone(),
            since,
            is_telling,
        }
    }

    fn hangs(&self, unanswered: Duration) -> Unanswered {
        let hung = *self.0.hung.get_or_init(|| Unanswered(unanswered));
        self.0.retired.cancel();
        self.0.hangs.cancel();
        hung
    }
}

/// Somebody waits for an answer.
#[derive(Debug)]
struct Wait {
    life: Life,
    since: Instant,
    is_telling: bool,
}

impl Wait {
    /// What `answer` comes to, where the host may be silent for `patience`, whoever has asked it first.
    async fn for_answer<T>(mut self, patience: Duration, answer: impl Future<Output = T>) -> Result<T, Unanswered> {
        let silent = self.life.silent().unwrap_or(self.since);
        // A host that has not been asked for a while is not judged by what nobody has waited for.
        let until = (silent + patience).clamp(self.since + TELLING.min(patience), self.since + patience);
        let hangs = self.life.0.hangs.clone();
        tokio::select! {
            biased;
            answer = answer => {
                self.is_telling = false;
                self.life.mark_responsive();
                Ok(answer)
            }
            () = tokio::time::sleep_until(until) => Err(self.life.hangs(patience)),
            () = hangs.cancelled() => Err(self.life.hangs(patience)),
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let waited = self.since.elapsed();
        let was_silent = self.life.silent().is_some_and(|silent| silent <= self.since);
        if self.is_telling && was_silent && waited >= TELLING {
            self.life.hangs(waited);
        }
    }
}

/// A running process that serves calls.
#[derive(Debug)]
pub struct Host {
    pid: u32,
    folder: PathBuf,
    exit: watch::Receiver<Option<Arc<Exit>>>,
    over: CancellationToken,
    closer: Closer,
    /// How many sessions it has opened.
    sessions: AtomicU32,
    /// It was made ready ahead of its first session.
    prewarmed: AtomicBool,
    patience: Patience,
    life: Life,
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
            closer: running.closer(),
            sessions: AtomicU32::new(0),
            prewarmed: AtomicBool::new(false),
            patience,
            life: Life::default(),
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
        self.life.0.retired.cancel();
    }

    /// Cancelled when it takes no new calls any more.
    pub fn retired(&self) -> &CancellationToken {
        &self.life.0.retired
    }

    /// Whether it answers: to be told of all that it says.
    pub fn life(&self) -> &Life {
        &self.life
    }

    /// Whether a new call may go to it.
    pub fn takes_calls(&self) -> bool {
        !self.is_over() && !self.retired().is_cancelled()
    }

    /// How long it may leave a request unanswered just now.
    pub fn patience(&self) -> Duration {
        match self.has_served() {
            false => self.patience.first,
            true => self.patience.later,
        }
    }

    /// What `answer` comes to, the answer to a request that needs nothing but the host. One that does not give it in time hangs: it is
    /// retired, and not waited for again, by anybody. Its time runs from the oldest request that it owes an answer to and has said nothing
    /// since, whether or not somebody still waits for that: callers may be less patient than a host is given. So one that is of use
    /// otherwise hangs as well where a call gives up a request that waits.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn answer<T>(&self, answer: impl Future<Output = T>) -> Result<T, Unanswered> {
        if let Some(hung) = self.life.0.hung.get() {
            return Err(*hung);
        }
        // One that was never of use may still be loading.
        let wait = self.life.wait(self.has_served());
        wait.for_answer(self.patience(), answer).await
    }

    /// Whether it still answers: `answer` is that to a question that is asked for nothing else.
    pub fn heartbeat<T>(&self, answer: impl Future<Output = T> + Send + 'static) -> Heartbeat {
        let answered = async move {
            answer.await;
        };
        let answered = self.life.wait(true).for_answer(self.patience(), answered);
        Heartbeat(Some(Box::pin(async move { answered.await.is_ok() })))
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

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep, timeout};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    async fn ask(life: &Life, limit: Duration) -> Option<Result<(), Unanswered>> {
        let asked = life.wait(true).for_answer(PATIENCE, pending::<()>());
        timeout(limit, asked).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn patience_is_with_the_host_however_little_its_callers_have() {
        let life = Life::default();
        // Too short to say anything, each of them.
        for _ in 0..8 {
            assert_eq!(ask(&life, Duration::from_secs(1)).await, None);
            assert!(!life.0.retired.is_cancelled());
        }
        let began = Instant::now();
        let asked = life.wait(false).for_answer(PATIENCE, pending::<()>());
        assert_eq!(asked.await, Err(Unanswered(PATIENCE)));
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        assert!(life.0.retired.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_gives_up_a_request_tells_all_others() {
        let life = Life::default();
        let other = life.wait(true).for_answer(PATIENCE, pending::<()>());
        let (given_up, other) = tokio::join!(ask(&life, Duration::from_secs(3)), other);
        assert_eq!((given_up, other), (None, Err(Unanswered(Duration::from_secs(3)))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_speaks_and_one_that_was_not_asked_are_not_judged() {
        let life = Life::default();
        let speaks = async {
            sleep(Duration::from_secs(1)).await;
            life.mark_responsive();
        };
        tokio::join!(ask(&life, Duration::from_secs(3)), speaks);
        assert!(!life.0.retired.is_cancelled());
        // It still owes an answer that nobody waits for, for an hour.
        assert_eq!(ask(&life, Duration::from_millis(1)).await, None);
        advance(Duration::from_secs(3600)).await;
        let answers = sleep(Duration::from_secs(1));
        assert_eq!(life.wait(true).for_answer(PATIENCE, answers).await, Ok(()));
        assert!(!life.0.retired.is_cancelled());
    }
}
