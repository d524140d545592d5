//! The sessions of one provider between its calls: those that rest after a turn, and spares, which are fresh or primed with the
//! setup that the next thread will have.
//!
//! In: sessions whose turn is over ([`Pool::park`]), processes started ahead ([`Pool::fill_spares`], [`Pool::prewarm`]). Out: for
//! a thread the session that knows its beginning, or a spare, or nothing if there is neither ([`Pool::claim`],
//! [`Pool::claim_spare`]).
//!
//! Each waiting session has a task that answers the CLI, and that ends the session when it was unused for too long, when room is
//! needed, and when its process dies. The tasks neither keep Node alive nor outlive the provider, whose token ends the processes.
//!
//! Waiting sessions have a bound of their own, apart from calls at work. Beyond it, the answered thread that was unused for
//! longest makes room: nobody knows whether it goes on. A session that waits for a tool's result stays, since its thread is about
//! to go on. If all of them wait for results, the one that comes last is not kept: agents take turns, so the one unused for
//! longest is the one that is needed next.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::session::{self, IdleCommand, IdleHandle, Session, StartState};
use super::thread::{KnownThread, SessionThread};
use dfp_process::{Vars, machine_bytes, resident_bytes};

/// The number of ended sessions that are remembered, so that a thread that comes back can be told why it starts anew.
const REMEMBERED: usize = 32;
/// The age at which a spare is replaced: logins and the CLI itself change on disk.
const SPARE_AGE: Duration = Duration::from_secs(30 * 60);

/// The memory, in bytes, beyond which a session is not kept: 220 to 235 MB are usual after twenty turns (2.1.197, 2.1.330), and a
/// process far beyond grows on.
const MOST_MEMORY: u64 = 1 << 30;

/// The key of a session: it serves only calls with an equal key.
#[derive(Debug)]
pub struct SessionKey<T> {
    /// The system prompt and the tools.
    pub setup: Arc<T>,
    /// The environment that its process inherits.
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

/// The reason why a session ended from which a thread would have continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionReason {
    /// The session was unused for too long.
    Expired,
    /// Other threads needed its place: the number of waiting sessions is bounded.
    Displaced,
    /// The waiting sessions took too much memory together.
    Crowded,
    /// The session's process took too much memory.
    Grown,
}

struct PoolWaiter<S: Session> {
    id: u64,
    key: SessionKey<S::Setup>,
    known: KnownThread,
    /// The memory of its process when the session was parked, bytes.
    memory: u64,
    line: IdleHandle<S>,
}

/// The bounds of the waiting sessions, spares included.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub number: usize,
    /// The memory that their processes may take together, bytes; the last one that is left may take more.
    pub memory: u64,
}

impl Bounds {
    /// At most `number` processes, in a third of the machine's memory: twenty claudes take about 4 GB, of 16.
    pub fn of_processes(number: usize) -> Bounds {
        Bounds {
            number,
            memory: machine_bytes().map_or(u64::MAX, |bytes| bytes / 3),
        }
    }

    /// At most `number` sessions in processes that serve others as well.
    pub fn of_sessions(number: usize) -> Bounds {
        Bounds {
            number,
            memory: u64::MAX,
        }
    }
}

struct PoolState<S: Session> {
    bounds: Bounds,
    /// The waiting sessions, the longest unused first.
    waiting: Vec<PoolWaiter<S>>,
    spares: Vec<Spare<S>>,
    /// The number of spares that are being started.
    coming: usize,
    evicted: VecDeque<(SessionKey<S::Setup>, KnownThread, EvictionReason)>,
}

/// The waiting sessions of one provider.
pub struct Pool<S: Session> {
    bounds: Bounds,
    /// One permit for each process there may be, at work or not; it is returned when the process is gone.
    places: Arc<Semaphore>,
    keep_alive: Duration,
    spares: usize,
    tracker: TaskTracker,
    next_id: AtomicU64,
    state: Mutex<PoolState<S>>,
}

impl<S: Session> std::fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

impl<S: Session> Pool<S> {
    /// Makes a pool within `bounds`. Each session is kept for `keep_alive` after its turn, `spares` are started ahead, and
    /// `at_work` processes may work beside them. The pool's tasks are tracked by `tracker`.
    pub fn new(bounds: Bounds, at_work: usize, keep_alive: Duration, spares: usize, tracker: TaskTracker) -> Self {
        let places = bounds.number.saturating_add(at_work.max(1));
        Pool {
            bounds,
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            keep_alive,
            spares,
            tracker,
            next_id: AtomicU64::new(0),
            state: Mutex::new(PoolState {
                bounds,
                waiting: Vec::new(),
                spares: Vec::new(),
                coming: 0,
                evicted: VecDeque::new(),
            }),
        }
    }

    /// Takes the session for `thread` out of the pool, with the result of `next` for what the session knows. Of the sessions for
    /// which `next` has a result, it is the one that knows most. If calls have ids that are not unique, several sessions may know
    /// as much: then it is the one whose messages are the thread's, or none. A session that waits for results which the thread has, and for
    /// which `next` has none, ends.
    pub async fn claim<T>(
        &self,
        key: &SessionKey<S::Setup>,
        thread: &SessionThread,
        mut next: impl FnMut(&KnownThread) -> Option<T>,
    ) -> Option<(Box<S>, T)> {
        // There is more than one round only if a process has died just now.
        loop {
            let found = {
                let mut state = self.lock();
                let known = |at: usize| &state.waiting[at].known;
                let fits = |at: &usize| thread.extends(known(*at)) && state.waiting[*at].key == *key;
                let (mut fit, mut left) = (Vec::new(), Vec::new());
                for at in (0..state.waiting.len()).filter(fits) {
                    match next(known(at)) {
                        Some(next) => fit.push((at, next)),
                        // The results for which it waits go elsewhere, with what it does not take beside them.
                        None if known(at).waits_for_results() && thread.continuation(known(at)).is_some() => {
                            left.push(state.waiting[at].id);
                        }
                        None => {}
                    }
                }
                let most = fit.iter().map(|(at, _)| known(*at).len()).max();
                fit.retain(|(at, _)| Some(known(*at).len()) == most);
                let best = match fit.len() {
                    1 => fit.pop(),
                    _ => fit.into_iter().rfind(|(at, _)| thread.repeats(known(*at))),
                };
                let best = best.map(|(at, next)| (state.waiting.remove(at).line, next));
                // Dropping their channels ends them.
                state.waiting.retain(|waiting| !left.contains(&waiting.id));
                best
            };
            let (line, next) = found?;
            match session::fetch(line).await {
                // A launcher that was killed just now leaves its CLI behind for a moment, which would answer.
                Some(session) if session.is_ending() => session.end(),
                Some(session) => return Some((session, next)),
                None => {}
            }
        }
    }

    /// Returns whether a session knows the beginning of `thread`, or one did that has ended.
    pub fn knows(&self, key: &SessionKey<S::Setup>, thread: &SessionThread) -> bool {
        let state = self.lock();
        let waiting = state.waiting.iter().map(|waiting| (&waiting.key, &waiting.known));
        let evicted = state.evicted.iter().map(|(key, known, _)| (key, known));
        waiting
            .chain(evicted)
            .any(|(own, known)| thread.extends(known) && own == key)
    }

    /// Takes a spare for sessions of this key out of the pool; spares that have inherited another environment end.
    pub async fn claim_spare(&self, key: &SessionKey<S::Setup>) -> Option<Box<S>> {
        loop {
            let spare = {
                let mut state = self.lock();
                // Dropping the channels of the others ends them.
                state.spares.retain(|spare| spare.env == key.env);
                let best = (0..state.spares.len())
                    .filter(|at| state.spares[*at].serves(&key.setup))
                    .min_by_key(|at| state.spares[*at].distance());
                best.map(|at| state.spares.remove(at))
            };
            if let Some(session) = session::fetch(spare?.line).await {
                return Some(session);
            }
        }
    }

    /// The reason why `thread` does not find its earlier session, if it had one: reported once.
    pub fn eviction(&self, key: &SessionKey<S::Setup>, thread: &SessionThread) -> Option<EvictionReason> {
        let mut state = self.lock();
        let at = state
            .evicted
            .iter()
            .position(|(evicted, known, _)| thread.extends(known) && evicted == key)?;
        state.evicted.remove(at).map(|(_, _, why)| why)
    }

    /// Waits for the place of a process that is to be started for a call. Waiting sessions leave a place for each call that may
    /// work: a place is waited for only while ending processes still have theirs.
    pub async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// Takes the place of a process to be started ahead, if there is room for it.
    pub fn place_now(&self) -> Option<OwnedSemaphorePermit> {
        let has_room = self.lock().has_room();
        has_room
            .then(|| Arc::clone(&self.places).try_acquire_owned().ok())
            .flatten()
    }

    /// Keeps `session`, which knows `known`, for the thread's next call, if there is room for it.
    pub fn park(self: &Arc<Self>, session: S, key: SessionKey<S::Setup>, known: KnownThread) {
        if self.keep_alive.is_zero() || self.bounds.number == 0 {
            return session.end();
        }
        let memory = resident_bytes(session.pid()).unwrap_or_default();
        if memory > MOST_MEMORY {
            self.lock().remember(key, known, EvictionReason::Grown);
            return session.end();
        }
        // The lock is held all the while: of two sessions that come at once, each counts the other.
        let mut state = self.lock();
        if let Err(why) = state.make_room(known.waits_for_results(), memory) {
            state.remember(key, known, why);
            drop(state);
            return session.end();
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = self.watch(session, id, self.keep_alive, None);
        state.waiting.push(PoolWaiter {
            id,
            key,
            known,
            memory,
            line,
        });
    }

    /// Starts spares until there are as many as there should be, as far as there is room. They are sent `setup` ahead, if the
    /// setup of the next thread's session is known.
    pub fn fill_spares(
        self: &Arc<Self>,
        env: &Arc<Vars>,
        setup: Option<&Arc<S::Setup>>,
        mut start: impl FnMut(OwnedSemaphorePermit) -> Option<S>,
    ) {
        if let (Some(setup), true) = (setup, self.spares > 0) {
            let mut state = self.lock();
            // Dropping the channel ends a spare. Spares that a caller has asked for stay.
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
            if spares >= self.spares || !state.has_room() {
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

    /// Makes sure that there are `number` spares which are sent `setup` ahead (nothing, if that is not known), as far as there is
    /// room. The receivers report the progress of each spare, and close when it is taken or has ended.
    ///
    /// # Errors
    /// The error of `start`.
    pub fn prewarm<E>(
        self: &Arc<Self>,
        number: usize,
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
                // Spares for another setup were started on a guess.
                while !state.has_room()
                    && let Some(at) = state.spares.iter().position(|spare| !spare.is_asked_for)
                {
                    state.spares.remove(at);
                }
                match state.has_room() {
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

    /// Adds a spare that was started elsewhere and has answered already. It counts as one that was asked for.
    pub fn add_ready(self: &Arc<Self>, session: S, env: &Arc<Vars>, setup: Option<&Arc<S::Setup>>) {
        drop(self.add(session, env, setup, true));
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
        start_state
    }

    /// The number of spares that are wanted.
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
        session::watch(session, longest, start_state, &self.tracker, move |is_expired| {
            if let Some(pool) = pool.upgrade() {
                pool.lock().forget(id, is_expired.then_some(EvictionReason::Expired));
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, PoolState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Session> PoolState<S> {
    fn has_room(&self) -> bool {
        self.waiting.len() + self.spares.len() + self.coming < self.bounds.number
    }

    /// The reason why there is no room beside a new session that takes `memory` bytes; `None` if there is room.
    fn lacks_room(&self, memory: u64) -> Option<EvictionReason> {
        let taken: u64 = self.waiting.iter().map(|waiting| waiting.memory).sum();
        let is_crowded = taken > 0 && taken.saturating_add(memory) > self.bounds.memory;
        match self.has_room() {
            false => Some(EvictionReason::Displaced),
            true => is_crowded.then_some(EvictionReason::Crowded),
        }
    }

    /// Makes room for a session that takes `memory` bytes, and which may be one that `waits_for_results`.
    ///
    /// # Errors
    /// The new session must end, for this reason: the waiting ones are more likely to be needed.
    fn make_room(&mut self, waits_for_results: bool, memory: u64) -> Result<(), EvictionReason> {
        while let Some(why) = self.lacks_room(memory) {
            let answered = self
                .waiting
                .iter()
                .position(|waiting| !waiting.known.waits_for_results());
            if let Some(at) = answered {
                // Dropping the channel ends it.
                let PoolWaiter { key, known, .. } = self.waiting.remove(at);
                self.remember(key, known, why);
            } else if !waits_for_results || self.spares.pop().is_none() {
                return Err(why);
            }
        }
        Ok(())
    }

    fn forget(&mut self, id: u64, why: Option<EvictionReason>) {
        self.spares.retain(|spare| spare.id != id);
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) else {
            return;
        };
        let PoolWaiter { key, known, .. } = self.waiting.remove(at);
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

/// A process that was started ahead.
pub(super) struct Spare<S: Session> {
    pub id: u64,
    /// The environment that the process has inherited.
    pub env: Arc<Vars>,
    /// The setup sent ahead; `None` for nothing.
    pub setup: Option<Arc<S::Setup>>,
    /// True if a caller asked for it: it stays then, although others would be more likely to be used.
    pub is_asked_for: bool,
    /// The progress of its start.
    pub start_state: watch::Receiver<StartState>,
    pub line: IdleHandle<S>,
}

impl<S: Session> Spare<S> {
    /// Returns whether a session that needs `setup` can begin with it.
    pub fn serves(&self, setup: &Arc<S::Setup>) -> bool {
        match &self.setup {
            Some(own) => own == setup,
            None => S::serves_any_start(setup),
        }
    }

    /// Sends it `setup`, if it has none yet.
    pub fn prime(&mut self, setup: &Arc<S::Setup>) {
        if self.setup.is_none() && self.serves(setup) && self.line.send(IdleCommand::Prime(Arc::clone(setup))).is_ok() {
            self.setup = Some(Arc::clone(setup));
        }
    }

    /// The rank of the time that a turn would wait for it, compared with other spares: a process takes half a second to start, a
    /// setup 40 ms to be sent.
    pub fn distance(&self) -> u8 {
        let has_setup = self.setup.is_some();
        let is_ready = matches!(*self.start_state.borrow(), StartState::Ready { is_primed } if is_primed == has_setup);
        u8::from(!is_ready) * 2 + u8::from(!has_setup)
    }
}
