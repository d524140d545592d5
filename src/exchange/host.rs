//! A process that serves many calls at a time: the parts that are common to all protocols.
//!
//! In: a process that was started for that. Out: a [`Host`], the handle that its calls share, and an [`Ending`] for the reader of
//! the process's output. The process ends with the last handle: a host that is retired gets no new calls, and so ends after those
//! it has.
//!
//! What the process says about a session is delivered to the owner of the session. In: events with the names of their sessions
//! ([`Inboxes::deliver`]). Out: the events of each session, in order ([`Inbox::next`]). An owner that takes nothing neither holds up the
//! others nor uses up all memory.

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::EndedProcess;
use super::live::session::Pulse;
use dfp_process::{Closer, End, Exit, Running};

/// The shortest wait for an answer that says something about the host if it is given up. An answer takes 17 ms as a rule, and a
/// second on a busy machine.
const TELLING: Duration = Duration::from_secs(2);

/// The time for which a host may leave a request unanswered that needs only the host itself: neither a network nor a model.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The time before the host has served anything: it may still be loading.
    pub first: Duration,
    /// The time from then on.
    pub later: Duration,
}

/// The error of a request that the host has left unanswered for this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered(pub Duration);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it left a request unanswered for {} s", self.0.as_secs())
    }
}

/// The knowledge of whether a host still answers, shared by all who wait for it. The patience is counted for the host: it does
/// not begin anew with each call.
#[derive(Debug, Clone, Default)]
pub struct Life(Arc<LifeState>);

#[derive(Debug, Default)]
struct LifeState {
    retired: CancellationToken,
    /// Cancelled when the host is known to hang.
    hangs: CancellationToken,
    /// The time for which the host has left a request unanswered, if it hangs.
    hung: OnceLock<Unanswered>,
    /// The moment since which the host owes an answer and has said nothing.
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

    /// Begins to wait. With `is_telling`, giving up this wait unanswered may prove that the host hangs.
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

/// A wait for an answer, which is counted when it is dropped.
#[derive(Debug)]
struct Wait {
    life: Life,
    since: Instant,
    is_telling: bool,
}

impl Wait {
    /// The result of `answer`, if the host is not silent for `patience`, counted from the first request that it owes an answer,
    /// whoever sent it.
    async fn for_answer<T>(mut self, patience: Duration, answer: impl Future<Output = T>) -> Result<T, Unanswered> {
        let silent = self.life.silent().unwrap_or(self.since);
        // A host that has not been asked for a while is not judged by a time in which nobody has waited.
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
    /// The number of sessions that the host has opened.
    sessions: AtomicU32,
    /// True if the host was made ready ahead of its first session.
    prewarmed: AtomicBool,
    patience: Patience,
    life: Life,
}

/// Reports the end of a host to its handle.
#[derive(Debug)]
pub struct Ending {
    over: CancellationToken,
    exit: watch::Sender<Option<Arc<Exit>>>,
}

impl Ending {
    /// Notes that no answer will come any more.
    pub fn over(&self) {
        self.over.cancel();
    }

    /// Notes that the process has exited.
    pub fn exited(self, exit: Exit) {
        self.exit.send_replace(Some(Arc::new(exit)));
    }
}

impl Host {
    /// Makes the handle of `running`, which runs in `folder`.
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

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The folder that the process runs in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of sessions that the host has opened.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Notes that everything has been done that can be done ahead of a session.
    pub fn prewarmed(&self) {
        self.prewarmed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the host has been of use. If such a host fails before a session, another one is tried; one that never was
    /// of use would fail again.
    pub fn has_served(&self) -> bool {
        self.sessions() > 0 || self.prewarmed.load(Ordering::Relaxed)
    }

    /// Counts a session that the host has opened.
    pub fn count_session(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// Cancelled when the process has exited, or is about to.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Returns whether the process has exited, or is about to.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Stops taking new calls: those under way come to their ends, and resting sessions end.
    pub fn retire(&self) {
        self.life.0.retired.cancel();
    }

    /// Cancelled when the host takes no new calls any more.
    pub fn retired(&self) -> &CancellationToken {
        &self.life.0.retired
    }

    /// The knowledge of whether the host answers. It must be told of everything that the host says.
    pub fn life(&self) -> &Life {
        &self.life
    }

    /// Returns whether a new call may go to the host.
    pub fn takes_calls(&self) -> bool {
        !self.is_over() && !self.retired().is_cancelled()
    }

    /// The time for which the host may leave a request unanswered just now.
    pub fn patience(&self) -> Duration {
        match self.has_served() {
            false => self.patience.first,
            true => self.patience.later,
        }
    }

    /// The result of `answer`, which answers a request that needs only the host. A host that does not give it in time hangs: it
    /// is retired, and nobody waits for it again. The time runs from the oldest request that is unanswered and after which the
    /// host has said nothing, whether or not somebody still waits for it, since callers may be less patient than a host is given.
    /// So a host that has been of use hangs as well if a call gives up a waiting request.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn answer<T>(&self, answer: impl Future<Output = T>) -> Result<T, Unanswered> {
        if let Some(hung) = self.life.0.hung.get() {
            return Err(*hung);
        }
        // A host that was never of use may still be loading.
        let wait = self.life.wait(self.has_served());
        wait.for_answer(self.patience(), answer).await
    }

    /// Watches whether the host still answers: `answer` is the answer to a question that is asked only for this.
    pub fn heartbeat<T>(&self, answer: impl Future<Output = T> + Send + 'static) -> Heartbeat {
        let answered = async move {
            answer.await;
        };
        let answered = self.life.wait(true).for_answer(self.patience(), answered);
        Heartbeat(Some(Box::pin(async move { answered.await.is_ok() })))
    }

    /// Begins to end the process, whatever calls it has.
    pub fn close(&self) {
        self.over.cancel();
        self.closer.close();
    }

    /// The closer of the process, for those who outlive the handle.
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

impl AsRef<Host> for Host {
    fn as_ref(&self) -> &Host {
        self
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.closer.close();
    }
}

/// The check whether a host still answers, made beside a turn whose own message is answered only at its end.
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

/// Makes the end of a host the end of a call in it.
pub fn of_exit(exit: &Exit) -> EndedProcess {
    let mut exit = exit.clone();
    if exit.end == End::Closed {
        // The call has not asked for it; the end of its provider is told by the provider's own token.
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

/// The bytes that may wait for a session's owner.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// The inboxes of the sessions of one process.
#[derive(Debug)]
pub struct Inboxes<E> {
    state: Arc<Mutex<InboxState<E>>>,
}

#[derive(Debug)]
struct InboxState<E> {
    routes: HashMap<String, InboxRoute<E>>,
    /// True if the process has exited, so that nothing will come.
    closed: bool,
}

/// The channel to a session's owner.
#[derive(Debug)]
struct InboxRoute<E> {
    events: mpsc::UnboundedSender<Delivered<E>>,
    waiting: Arc<AtomicUsize>,
}

/// An event, and its length in bytes as received.
#[derive(Debug)]
struct Delivered<E> {
    event: E,
    bytes: usize,
}

/// The events of one session. Dropping it ends the delivery.
#[derive(Debug)]
pub struct Inbox<E> {
    session: String,
    events: mpsc::UnboundedReceiver<Delivered<E>>,
    waiting: Arc<AtomicUsize>,
    state: Arc<Mutex<InboxState<E>>>,
    /// The number of bytes so far.
    bytes: u64,
    /// True if another inbox has this session's id, and gets the events for it.
    is_second: bool,
}

impl<E> Default for Inboxes<E> {
    fn default() -> Self {
        let state = InboxState {
            routes: HashMap::new(),
            closed: false,
        };
        Inboxes {
            state: Arc::new(Mutex::new(state)),
        }
    }
}

impl<E> Inboxes<E> {
    /// Opens the inbox for `session`, which gets everything that comes from now on. It gets nothing if another inbox has the
    /// session already: a server may give an id twice, and a conversation must not see another's messages.
    pub fn open(&self, session: &str) -> Inbox<E> {
        let (sender, events) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let route = InboxRoute {
            events: sender,
            waiting: Arc::clone(&waiting),
        };
        let mut state = locked(&self.state);
        let is_second = state.routes.contains_key(session);
        if !state.closed && !is_second {
            state.routes.insert(session.to_owned(), route);
        }
        drop(state);
        Inbox {
            session: session.to_owned(),
            events,
            waiting,
            state: Arc::clone(&self.state),
            bytes: 0,
            is_second,
        }
    }

    /// Returns whether an inbox for `session` is open.
    pub fn has(&self, session: &str) -> bool {
        locked(&self.state).routes.contains_key(session)
    }

    /// Hands `event`, which came in `bytes` bytes, to the owner of `session`, if it has one.
    pub fn deliver(&self, session: &str, event: E, bytes: usize) {
        let mut state = locked(&self.state);
        let Some(route) = state.routes.get(session) else {
            return;
        };
        let waiting = route.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if waiting > MOST_WAITING || route.events.send(Delivered { event, bytes }).is_err() {
            // The owner learns in this way that nothing more will come.
            state.routes.remove(session);
        }
    }

    /// Ends the delivery for `session`.
    pub fn end(&self, session: &str) {
        locked(&self.state).routes.remove(session);
    }

    /// Ends the delivery for all sessions that are open now.
    pub fn clear(&self) {
        locked(&self.state).routes.clear();
    }

    /// Ends the delivery for all sessions, also for those to come.
    pub fn close(&self) {
        let mut state = locked(&self.state);
        state.closed = true;
        state.routes.clear();
    }
}

impl<E> Inbox<E> {
    /// Returns whether another inbox has this session's id, so that nothing comes here.
    pub fn is_second(&self) -> bool {
        self.is_second
    }

    /// Waits for the next event; `None` if nothing more will come. Cancel safe.
    pub async fn next(&mut self) -> Option<E> {
        let Delivered { event, bytes } = self.events.recv().await?;
        Some(self.counted(event, bytes))
    }

    /// Waits until the session, which rests in `host`, can't continue: nothing more will come, or an event is one with which it does
    /// not `go_on`. Cancel safe.
    pub async fn rest(&mut self, host: &Host, go_on: impl Fn(&E) -> bool) -> Pulse {
        while let Some(event) = self.next_at_rest(host).await {
            if !go_on(&event) {
                break;
            }
        }
        Pulse::Ended
    }

    /// Waits for the next event of a session that rests in `host`: `None` also if the host takes no calls any more. Cancel safe.
    pub async fn next_at_rest(&mut self, host: &Host) -> Option<E> {
        tokio::select! {
            biased;
            () = host.retired().cancelled() => None,
            event = self.next() => event,
        }
    }

    /// Takes an event that has come already, if there is one.
    pub fn take(&mut self) -> Option<E> {
        let Delivered { event, bytes } = self.events.try_recv().ok()?;
        Some(self.counted(event, bytes))
    }

    fn counted(&mut self, event: E, bytes: usize) -> E {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes += bytes as u64;
        event
    }

    /// The number of bytes that have come.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<E> Drop for Inbox<E> {
    fn drop(&mut self) {
        if !self.is_second {
            locked(&self.state).routes.remove(&self.session);
        }
    }
}

fn locked<E>(state: &Mutex<InboxState<E>>) -> MutexGuard<'_, InboxState<E>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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
        // Each wait is too short to say anything.
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
        // The host still owes an answer that nobody waits for, for an hour.
        assert_eq!(ask(&life, Duration::from_millis(1)).await, None);
        advance(Duration::from_secs(3600)).await;
        let answers = sleep(Duration::from_secs(1));
        assert_eq!(life.wait(true).for_answer(PATIENCE, answers).await, Ok(()));
        assert!(!life.0.retired.is_cancelled());
    }

    #[tokio::test]
    async fn each_owner_gets_its_own_and_learns_of_the_end() {
        let inboxes = Inboxes::default();
        let (mut one, mut two) = (inboxes.open("1"), inboxes.open("2"));
        inboxes.deliver("2", "b", 5);
        inboxes.deliver("1", "a", 3);
        inboxes.deliver("3", "nobody's", 1);
        assert_eq!((one.next().await, two.next().await), (Some("a"), Some("b")));
        assert_eq!((one.bytes(), two.bytes()), (3, 5));
        drop(one);
        assert!(!inboxes.has("1") && inboxes.has("2"));
        inboxes.close();
        assert_eq!((two.next().await, inboxes.open("4").next().await), (None, None));
    }

    #[tokio::test]
    async fn who_has_a_session_keeps_it_when_its_id_is_given_again() {
        let inboxes = Inboxes::default();
        let mut first = inboxes.open("1");
        let mut second = inboxes.open("1");
        inboxes.deliver("1", "a", 1);
        assert_eq!((first.next().await, second.next().await), (Some("a"), None));
        assert!(second.is_second() && !first.is_second());
        drop(second);
        inboxes.deliver("1", "b", 1);
        assert_eq!(first.next().await, Some("b"));
    }

    #[tokio::test]
    async fn an_owner_that_takes_nothing_loses_the_rest_and_no_other_does() {
        let inboxes = Inboxes::default();
        let (mut slow, mut other) = (inboxes.open("slow"), inboxes.open("other"));
        inboxes.deliver("slow", 1, MOST_WAITING);
        inboxes.deliver("slow", 2, 1);
        inboxes.deliver("other", 3, 1);
        assert_eq!((slow.next().await, other.next().await), (Some(1), Some(3)));
        assert!(!inboxes.has("slow") && inboxes.has("other"));
    }
}
