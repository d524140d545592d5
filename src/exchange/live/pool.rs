//! The sessions of one provider between its calls: those that rest after a turn, and spares: fresh, or primed with the
//! setup that the next thread will have.
//!
//! In: sessions whose turn is over ([`Pool::park`]), processes started ahead ([`Pool::fill_spares`], [`Pool::prewarm`]). Out: for a thread
//! the session that knows its beginning, or a spare, or the news that there is none ([`Pool::claim`], [`Pool::claim_spare`]).
//!
//! Each waiting session has a task that answers the CLI and ends it: when it was unused for too long, when room is needed
//! (the one unused for longest goes first), and when its process dies. The tasks neither keep Node alive nor outlive the
//! provider, whose token ends the processes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::idle_task::{self, IdleHandle, StartState};
use super::keep::Keepable;
use super::spare::Spare;
use super::thread::{KnownThread, SessionThread};
use crate::process::{Vars, resident_bytes};

/// How many ended sessions are remembered, so that a thread that comes back can be informed why it starts anew.
const REMEMBERED: usize = 32;
/// A spare older than this is replaced: logins and the CLI itself change on disk.
const SPARE_AGE: Duration = Duration::from_secs(30 * 60);

/// A session that has grown beyond this is not kept: 220 to 235 MB are usual after twenty turns (2.1.197, 2.1.330), and what
/// is far beyond grows on.
const MOST_MEMORY: u64 = 1 << 30;

/// The setup of a session: it serves no call that differs in it.
#[derive(Debug)]
pub struct SessionKey<T> {
    /// System prompt and tools.
    pub setup: Arc<T>,
    /// The environment its process inherits.
    pub env: Arc<Vars>,
}

impl<T> Clone for SessionKey<T> {
    fn clone(&self) -> Self {
        SessionKey {
            setup: Arc::clone(&self.setup),
            env: Arc::clone(&self.env),
        }
    }
}

impl<T: PartialEq> PartialEq for SessionKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.setup == other.setup && (Arc::ptr_eq(&self.env, &other.env) || self.env == other.env)
    }
}

/// Why a session ended that a thread would have gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionReason {
    /// It was unused for too long.
    Expired,
    /// Other threads needed its place.
    Displaced,
    /// Its process took too much memory.
    Grown,
}

struct Waiting<S: Keepable> {
    id: u64,
    key: SessionKey<S::Setup>,
    known: KnownThread,
    line: IdleHandle<S>,
}

struct State<S: Keepable> {
    /// The longest unused first.
    waiting: Vec<Waiting<S>>,
    spares: Vec<Spare<S>>,
    /// Spares that are being started.
    coming: usize,
    evicted: VecDeque<(SessionKey<S::Setup>, KnownThread, EvictionReason)>,
}

/// The waiting sessions of one provider.
pub struct Pool<S: Keepable> {
    /// How many sessions there may be, those at work included.
    capacity: usize,
    /// One for each of them, returned when the process is no more.
    places: Arc<Semaphore>,
    /// A session has come into the pool.
    session_added: Notify,
    keep_alive: Duration,
    spares: usize,
    tracker: TaskTracker,
    next_id: AtomicU64,
    state: Mutex<State<S>>,
}

impl<S: Keepable> std::fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl<S: Keepable> Pool<S> {
    /// A pool for at most `capacity` processes, each kept for `keep_alive` after its turn, with `spares` started ahead. Its
    /// tasks are tracked by `tracker`.
    pub fn new(capacity: usize, keep_alive: Duration, spares: usize, tracker: TaskTracker) -> Self {
        Pool {
            capacity: capacity.max(1),
            places: Arc::new(Semaphore::new(capacity.clamp(1, Semaphore::MAX_PERMITS))),
            session_added: Notify::new(),
            keep_alive,
            spares,
            tracker,
            next_id: AtomicU64::new(0),
            state: Mutex::new(State {
                waiting: Vec::new(),
                spares: Vec::new(),
                coming: 0,
                evicted: VecDeque::new(),
            }),
        }
    }

    /// The session for `thread`, taken out of the pool, and what `next` makes of what it knows: of those for which that is something,
    /// the one that knows most.
    /// Where calls have ids that are not unique, several may know as much: then it is the one whose messages are the thread's, or none.
    pub async fn claim<T>(
        &self,
        key: &SessionKey<S::Setup>,
        thread: &SessionThread,
        mut next: impl FnMut(&KnownThread) -> Option<T>,
    ) -> Option<(Box<S>, T)> {
        // More than one round only where a process has died just now.
        loop {
            let found = {
                let mut state = self.lock();
                let known = |at: usize| &state.waiting[at].known;
                let fits = |at: &usize| thread.extends(known(*at)) && state.waiting[*at].key == *key;
                let fit = (0..state.waiting.len()).filter(fits);
                let mut fit: Vec<(usize, T)> = fit.filter_map(|at| Some((at, next(known(at))?))).collect();
                let most = fit.iter().map(|(at, _)| known(*at).len()).max();
                fit.retain(|(at, _)| Some(known(*at).len()) == most);
                let best = match fit.len() {
                    1 => fit.pop(),
                    _ => fit.into_iter().rfind(|(at, _)| thread.repeats(known(*at))),
                };
                best.map(|(at, next)| (state.waiting.remove(at).line, next))
            };
            let (line, next) = found?;
            match idle_task::fetch(line).await {
                // A launcher that was killed just now leaves its CLI behind for a moment, which would answer.
                Some(session) if session.is_ending() => session.end(),
                Some(session) => return Some((session, next)),
                None => {}
            }
        }
    }

    /// A spare for sessions of this kind, taken out of the pool; those that have inherited another environment end.
    pub async fn claim_spare(&self, key: &SessionKey<S::Setup>) -> Option<Box<S>> {
        loop {
            let spare = {
                let mut state = self.lock();
                // Dropping the line of the others ends them.
                state.spares.retain(|spare| spare.env == key.env);
                let best = (0..state.spares.len())
                    .filter(|at| state.spares[*at].serves(&key.setup))
                    .min_by_key(|at| state.spares[*at].distance());
                best.map(|at| state.spares.remove(at))
            };
            if let Some(session) = idle_task::fetch(spare?.line).await {
                return Some(session);
            }
        }
    }

    /// Why `thread` does not find the session it left, if it left one: reported once.
    pub fn eviction(&self, key: &SessionKey<S::Setup>, thread: &SessionThread) -> Option<EvictionReason> {
        let mut state = self.lock();
        let at = state
            .evicted
            .iter()
            .position(|(evicted, known, _)| thread.extends(known) && evicted == key)?;
        state.evicted.remove(at).map(|(_, _, why)| why)
    }

    /// Makes room for one more process beside `at_work` others: spares and sessions that can wait no longer end.
    pub fn make_room(&self, at_work: usize) {
        let mut state = self.lock();
        let room = self.capacity.saturating_sub(at_work + 1);
        while state.waiting.len() + state.spares.len() > room {
            if !state.waiting.is_empty() {
                let Waiting { key, known, .. } = state.waiting.remove(0);
                state.remember(key, known, EvictionReason::Displaced);
            } else {
                state.spares.pop();
            }
        }
    }

    /// The place of a process that is to be started, with as many at work as `at_work` says, it included. Sessions that wait end
    /// to make room for it; their places are free when their processes are gone, which is waited for.
    pub async fn place(&self, at_work: impl Fn() -> usize) -> Option<OwnedSemaphorePermit> {
        loop {
            let session_added = self.session_added.notified();
            tokio::pin!(session_added);
            // From now on: what comes into the pool behind the look at it takes room as well.
            session_added.as_mut().enable();
            self.make_room(at_work().saturating_sub(1));
            tokio::select! {
                biased;
                place = Arc::clone(&self.places).acquire_owned() => return place.ok(),
                () = session_added => {}
            }
        }
    }

    /// The place of a process to be started, if there is one free beside `at_work` processes.
    pub fn place_now(&self, at_work: usize) -> Option<OwnedSemaphorePermit> {
        let has_room = self.has_room(&self.lock(), at_work);
        has_room
            .then(|| Arc::clone(&self.places).try_acquire_owned().ok())
            .flatten()
    }

    /// Keeps `session`, which knows `known`, for the thread's next call; `at_work` others are at work.
    pub fn park(self: &Arc<Self>, session: S, key: SessionKey<S::Setup>, known: KnownThread, at_work: usize) {
        if self.keep_alive.is_zero() || self.capacity <= at_work {
            return session.end();
        }
        if resident_bytes(session.pid()).is_some_and(|bytes| bytes > MOST_MEMORY) {
            self.lock().remember(key, known, EvictionReason::Grown);
            return session.end();
        }
        self.make_room(at_work);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = self.watch(session, id, self.keep_alive, None);
        self.lock().waiting.push(Waiting { id, key, known, line });
        self.session_added.notify_waiters();
    }

    /// Starts spares until there are as many as there should be, as far as there is room beside `at_work` processes. Where it is
    /// known the setup of the next thread's session, `setup`, they are sent it ahead.
    pub fn fill_spares(
        self: &Arc<Self>,
        at_work: usize,
        env: &Arc<Vars>,
        setup: Option<&Arc<S::Setup>>,
        mut start: impl FnMut(OwnedSemaphorePermit) -> Option<S>,
    ) {
        if let (Some(setup), true) = (setup, self.spares > 0) {
            let mut state = self.lock();
            // Dropping the line ends it. What a caller has asked for stays.
            state.spares.retain(|spare| spare.is_asked_for || spare.serves(setup));
            let own = state
                .spares
                .iter_mut()
                .filter(|spare| !spare.is_asked_for && spare.env == *env);
            own.for_each(|spare| spare.prime(setup));
        }
        loop {
            let mut state = self.lock();
            let serves = |spare: &&Spare<S>| setup.is_none_or(|setup| spare.serves(setup));
            let spares = state.spares.iter().filter(serves).count() + state.coming;
            if spares >= self.spares || !self.has_room(&state, at_work) {
                return;
            }
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                return;
            };
            state.coming += 1;
            drop(state);
            let session = start(place);
            self.lock().coming -= 1;
            match session {
                Some(session) => drop(self.add(session, env, setup, false)),
                None => return,
            }
        }
    }

    /// Sees to it that there are `number` spares which are sent `setup` ahead (nothing, if that is not known), as far as there is
    /// room beside `at_work` processes. How far each is comes out of the receivers, which close when it is taken or has ended.
    ///
    /// # Errors
    /// What `start` says.
    pub fn prewarm<E>(
        self: &Arc<Self>,
        number: usize,
        at_work: usize,
        env: &Arc<Vars>,
        setup: Option<&Arc<S::Setup>>,
        mut start: impl FnMut(OwnedSemaphorePermit) -> Result<S, E>,
    ) -> Result<Vec<watch::Receiver<StartState>>, E> {
        let mut warm: Vec<watch::Receiver<StartState>> = {
            let mut state = self.lock();
            state.spares.retain(|spare| spare.env == *env);
            let serves = |spare: &&mut Spare<S>| setup.is_none_or(|setup| spare.serves(setup));
            let there = state.spares.iter_mut().filter(serves).take(number).map(|spare| {
                if let Some(setup) = setup {
                    spare.prime(setup);
                }
                spare.is_asked_for = true;
                spare.start_state.clone()
            });
            there.collect()
        };
        while warm.len() < number {
            let place = {
                let mut state = self.lock();
                // Those that serve another setup were started on a guess.
                while !self.has_room(&state, at_work)
                    && let Some(at) = state.spares.iter().position(|spare| !spare.is_asked_for)
                {
                    state.spares.remove(at);
                }
                match self.has_room(&state, at_work) {
                    true => Arc::clone(&self.places).try_acquire_owned().ok(),
                    false => None,
                }
            };
            let Some(place) = place else { break };
            let session = start(place)?;
            warm.push(self.add(session, env, setup, true));
        }
        Ok(warm)
    }

    /// A spare that was started elsewhere and has answered already. It counts as one that was asked for.
    pub fn add_ready(self: &Arc<Self>, session: S, env: &Arc<Vars>, setup: Option<&Arc<S::Setup>>) {
        drop(self.add(session, env, setup, true));
    }

    fn has_room(&self, state: &State<S>, at_work: usize) -> bool {
        state.waiting.len() + state.spares.len() + state.coming + at_work < self.capacity
    }

    fn add(
        self: &Arc<Self>,
        mut session: S,
        env: &Arc<Vars>,
        setup: Option<&Arc<S::Setup>>,
        is_asked_for: bool,
    ) -> watch::Receiver<StartState> {
        match setup {
            Some(setup) => session.prime(setup),
            None => session.ask_version(),
        }
        let (start_state_sender, start_state) = watch::channel(StartState::Starting);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = self.watch(session, id, SPARE_AGE, Some(start_state_sender));
        self.lock().spares.push(Spare {
            id,
            env: Arc::clone(env),
            setup: setup.cloned(),
            is_asked_for,
            start_state: start_state.clone(),
            line,
        });
        self.session_added.notify_waiters();
        start_state
    }

    /// How many spares are wanted.
    pub fn spares(&self) -> usize {
        self.spares
    }

    fn watch(
        self: &Arc<Self>,
        session: S,
        id: u64,
        longest: Duration,
        start_state: Option<watch::Sender<StartState>>,
    ) -> IdleHandle<S> {
        let pool = Arc::downgrade(self);
        idle_task::watch(session, longest, start_state, &self.tracker, move |is_expired| {
            if let Some(pool) = pool.upgrade() {
                pool.lock().forget(id, is_expired.then_some(EvictionReason::Expired));
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Keepable> State<S> {
    fn forget(&mut self, id: u64, why: Option<EvictionReason>) {
        self.spares.retain(|spare| spare.id != id);
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) else {
            return;
        };
        let Waiting { key, known, .. } = self.waiting.remove(at);
        if let Some(why) = why {
            self.remember(key, known, why);
        }
    }

    fn remember(&mut self, key: SessionKey<S::Setup>, known: KnownThread, why: EvictionReason) {
        if self.evicted.len() == REMEMBERED {
            self.evicted.pop_front();
        }
        self.evicted.push_back((key, known, why));
    }
}
