//! A fair queue that limits how many processes run at once, per key (the CLI's binary) and altogether.
//!
//! In: requests for a permit. Out: permits, in the order of asking; a key at its limit does not hold up the others.
//!
//! A permit belongs to one run and is returned when the run's leader has exited, before its output is consumed and before the
//! rest of its group is gone. What the limit protects (the CLI's own configuration, the memory of a Node process each) ends
//! with the leader, and a slow consumer must not hold up the queue. A session's process keeps its permit longer
//! ([`Permit::taken`]).

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::activity;

/// The default limit, per key and for all together.
pub const DEFAULT_CONCURRENCY: usize = 4;

/// The number of runs that hold a permit, and of those that wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Runs that hold a permit.
    pub running: usize,
    pub waiting: usize,
}

/// The state of a [`Limiter`] at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimiterState {
    pub all: Load,
    /// Each key with a permit out, or with a run that waits for one.
    pub keys: BTreeMap<String, Load>,
}

/// The error of a run that was cancelled in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cancelled after {} ms in the queue", queued.as_millis())]
pub struct QueueCancelled {
    /// The time it had waited.
    pub queued: Duration,
}

/// The permit that a waiting run lends to runs of its own, one at a time. Without it they would queue behind the very run that
/// waits for them. Clones share it.
#[derive(Debug, Clone)]
pub struct NestedPermit(Arc<Semaphore>);

impl Default for NestedPermit {
    fn default() -> Self {
        NestedPermit(Arc::new(Semaphore::new(1)))
    }
}

/// A fair queue for permits. Clones share it.
#[derive(Debug, Clone)]
pub struct Limiter(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    limit: usize,
    /// The number of runs that each provider allows, by the provider's name.
    allowed: HashMap<String, usize>,
    running: usize,
    /// The number of running runs for each key.
    keys: HashMap<String, usize>,
    queue: VecDeque<PermitWaiter>,
    next_ticket: u64,
}

#[derive(Debug)]
struct PermitWaiter {
    ticket: u64,
    key: String,
    concurrency: usize,
    granted: oneshot::Sender<()>,
}

/// The process-wide limiter.
pub fn global() -> &'static Limiter {
    static GLOBAL: LazyLock<Limiter> = LazyLock::new(|| Limiter::new(DEFAULT_CONCURRENCY));
    &GLOBAL
}

impl Limiter {
    /// Makes a limiter for `limit` runs at once; 0 counts as 1.
    pub fn new(limit: usize) -> Self {
        let state = State {
            limit: limit.max(1),
            allowed: HashMap::new(),
            running: 0,
            keys: HashMap::new(),
            queue: VecDeque::new(),
            next_ticket: 0,
        };
        Limiter(Arc::new(Mutex::new(state)))
    }

    /// Lets the runs of `provider` be `concurrency` at a time. The limit for all together is the sum over the providers, so
    /// that one provider's calls hold up no other's. Of several providers with one name the highest number counts.
    pub fn allow(&self, provider: &str, concurrency: usize) {
        let mut state = self.lock();
        let allowed = state.allowed.entry(provider.to_owned()).or_default();
        *allowed = (*allowed).max(concurrency);
        let all = state
            .allowed
            .values()
            .fold(0_usize, |sum, allowed| sum.saturating_add(*allowed));
        if all > state.limit {
            state.limit = all;
            state.grant();
        }
    }

    /// Waits for a permit: at most `concurrency` runs of `key` go on at once, 0 counts as 1. Each request brings its own
    /// number, so that two providers of one binary may differ. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`QueueCancelled`] when `cancel` is cancelled first.
    pub async fn acquire(
        &self,
        key: &str,
        concurrency: usize,
        cancel: &CancellationToken,
    ) -> Result<Permit, QueueCancelled> {
        let began = Instant::now();
        let (ticket, mut granted) = self.enqueue(key, concurrency);
        // A permit that is free at once is not waited for, even if the system holds this thread up meanwhile.
        let queued = match granted.try_recv() {
            Ok(()) if cancel.is_cancelled() => return Err(QueueCancelled { queued: Duration::ZERO }),
            Ok(()) => Duration::ZERO,
            Err(_) => tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(QueueCancelled { queued: began.elapsed() }),
                // The sender is only dropped with the ticket, which this future holds.
                _ = granted => began.elapsed(),
            },
        };
        Ok(Permit {
            _ticket: Some(ticket),
            _nested: None,
            queued,
            is_place: false,
        })
    }

    /// Waits for a permit like [`Limiter::acquire`], or for the `nested` permit, whichever is free first.
    ///
    /// # Errors
    /// The same as [`Limiter::acquire`]'s.
    pub async fn acquire_or(
        &self,
        nested: Option<&NestedPermit>,
        key: &str,
        concurrency: usize,
        cancel: &CancellationToken,
    ) -> Result<Permit, QueueCancelled> {
        let Some(NestedPermit(nested)) = nested else {
            return self.acquire(key, concurrency, cancel).await;
        };
        let began = Instant::now();
        tokio::select! {
            biased;
            queued = self.acquire(key, concurrency, cancel) => queued,
            Ok(nested) = Arc::clone(nested).acquire_owned() => {
                Ok(Permit {
                    _ticket: None,
                    _nested: Some(nested),
                    queued: began.elapsed(),
                    is_place: false,
                })
            }
        }
    }

    /// The limit for all keys together.
    pub fn limit(&self) -> usize {
        self.lock().limit
    }

    /// The runs that hold permits and those that wait, as of now.
    pub fn snapshot(&self) -> LimiterState {
        let state = self.lock();
        let mut keys: BTreeMap<String, Load> = BTreeMap::new();
        for (name, running) in &state.keys {
            keys.entry(name.clone()).or_default().running = *running;
        }
        for waiting in &state.queue {
            keys.entry(waiting.key.clone()).or_default().waiting += 1;
        }
        LimiterState {
            all: Load {
                running: state.running,
                waiting: state.queue.len(),
            },
            keys,
        }
    }

    /// Puts a request at the end of the queue, and grants it at once if it may run.
    fn enqueue(&self, key: &str, concurrency: usize) -> (Ticket, oneshot::Receiver<()>) {
        let (granted, receiver) = oneshot::channel();
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push_back(PermitWaiter {
            ticket,
            key: key.to_owned(),
            concurrency,
            granted,
        });
        state.grant();
        drop(state);
        activity::changed();
        (
            Ticket {
                limiter: self.clone(),
                number: ticket,
                key: key.to_owned(),
            },
            receiver,
        )
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives permits to the runs that may have one, the longest waiting first.
    fn grant(&mut self) {
        let mut held_up: HashSet<String> = HashSet::new();
        let mut at = 0;
        while self.running < self.limit && at < self.queue.len() {
            let waiting = &self.queue[at];
            let running = self.keys.get(&waiting.key).copied().unwrap_or_default();
            if held_up.contains(&waiting.key) || running >= waiting.concurrency.max(1) {
                held_up.insert(waiting.key.clone());
                at += 1;
                continue;
            }
            let Some(waiting) = self.queue.remove(at) else { break };
            self.keys.insert(waiting.key, running + 1);
            self.running += 1;
            // If nobody receives this, the ticket is being dropped and gives the permit back.
            let _ = waiting.granted.send(());
        }
    }

    fn leave(&mut self, number: u64, key: &str) {
        if let Some(at) = self.queue.iter().position(|waiting| waiting.ticket == number) {
            self.queue.remove(at);
        } else {
            self.running -= 1;
            if let Some(running) = self.keys.get_mut(key) {
                *running -= 1;
            }
        }
        self.grant();
        self.keys.retain(|_, running| *running > 0);
    }
}

/// A run's position: first in the queue, then among the running.
#[derive(Debug)]
struct Ticket {
    limiter: Limiter,
    number: u64,
    key: String,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.limiter.lock().leave(self.number, &self.key);
        activity::changed();
    }
}

/// The right to run one process. Dropping it lets the next run in.
#[derive(Debug)]
pub struct Permit {
    _ticket: Option<Ticket>,
    _nested: Option<OwnedSemaphorePermit>,
    queued: Duration,
    is_place: bool,
}

impl Permit {
    /// Makes a permit for a session's process, held until nothing of its group is left. A launcher that was ended leaves its
    /// CLI behind for a while, and on a busy machine there would be twice as many of those as allowed.
    pub fn taken(place: OwnedSemaphorePermit) -> Permit {
        Permit {
            _ticket: None,
            _nested: Some(place),
            queued: Duration::ZERO,
            is_place: true,
        }
    }

    /// Returns whether the permit is held until the whole group is gone, rather than the leader alone.
    pub fn is_place(&self) -> bool {
        self.is_place
    }

    /// The time spent waiting for the permit.
    pub fn queued(&self) -> Duration {
        self.queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: usize = 1;

    fn load(running: usize, waiting: usize) -> Load {
        Load { running, waiting }
    }

    async fn take(limiter: &Limiter, key: &str, concurrency: usize) -> Permit {
        limiter
            .acquire(key, concurrency, &CancellationToken::new())
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn who_is_waited_for_takes_turns_with_the_nested_permit() {
        let (limiter, nested, cancel) = (Limiter::new(1), NestedPermit::default(), CancellationToken::new());
        let waits = take(&limiter, "a", ALONE).await;
        let child = || limiter.acquire_or(Some(&nested), "a", ALONE, &cancel);
        let first = child().await.unwrap();
        let second = tokio::time::timeout(Duration::from_millis(20), child()).await;
        assert!(second.is_err(), "one at a time");
        assert_eq!(limiter.snapshot().all, load(1, 0));
        drop(first);
        let second = child().await.unwrap();
        let mut third = Box::pin(child());
        assert!(
            tokio::time::timeout(Duration::from_millis(20), &mut third)
                .await
                .is_err()
        );
        drop(waits);
        third.await.unwrap();
        drop(second);
    }

    /// Starts tasks one after the other, each in the queue before the next asks, and returns the order of their turns.
    async fn turns(limiter: &Limiter, asks: &[(&'static str, usize)]) -> Vec<usize> {
        let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
        for (number, (key, concurrency)) in asks.iter().copied().enumerate() {
            let (limiter, done) = (limiter.clone(), done.clone());
            tokio::spawn(async move {
                let permit = take(&limiter, key, concurrency).await;
                done.send(number).unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
                drop(permit);
            });
            tokio::task::yield_now().await;
        }
        drop(done);
        let mut seen = Vec::new();
        while let Some(number) = order.recv().await {
            seen.push(number);
        }
        seen
    }

    #[tokio::test(start_paused = true)]
    async fn first_come_first_served() {
        let limiter = Limiter::new(1);
        let asks = [("a", ALONE), ("b", ALONE), ("a", ALONE), ("c", ALONE), ("a", ALONE)];
        assert_eq!(turns(&limiter, &asks).await, [0, 1, 2, 3, 4]);
        assert_eq!(limiter.snapshot(), LimiterState::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_key_does_not_hold_up_the_others() {
        let limiter = Limiter::new(4);
        let asks = [("a", ALONE), ("a", ALONE), ("a", ALONE), ("b", ALONE)];
        assert_eq!(turns(&limiter, &asks).await, [0, 3, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn limits_hold_and_the_snapshot_tells() {
        let limiter = Limiter::new(3);
        let (a1, _a2) = (take(&limiter, "a", 2).await, take(&limiter, "a", 2).await);
        let cancel = CancellationToken::new();
        let third = limiter.acquire("a", 2, &cancel);
        tokio::pin!(third);
        assert!(futures_poll(&mut third).await.is_none());
        let _b = take(&limiter, "b", 2).await;
        let keys = BTreeMap::from([("a".to_owned(), load(2, 1)), ("b".to_owned(), load(1, 0))]);
        assert_eq!(limiter.snapshot(), LimiterState { all: load(3, 1), keys });
        drop(a1);
        assert!(third.await.is_ok());
    }

    #[tokio::test]
    async fn a_permit_that_is_free_at_once_is_not_waited_for() {
        assert_eq!(take(&Limiter::new(1), "a", ALONE).await.queued(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn leaving_the_queue_frees_nothing_twice() {
        let limiter = Limiter::new(1);
        let held = take(&limiter, "a", ALONE).await;
        let cancel = CancellationToken::new();
        let mut cancelled = Box::pin(limiter.acquire("a", ALONE, &cancel));
        let mut dropped = Box::pin(limiter.acquire("a", ALONE, &cancel));
        let mut granted_unseen = Box::pin(limiter.acquire("b", ALONE, &cancel));
        assert!(futures_poll(&mut cancelled).await.is_none());
        assert!(futures_poll(&mut dropped).await.is_none());
        assert!(futures_poll(&mut granted_unseen).await.is_none());
        tokio::time::advance(Duration::from_millis(30)).await;
        drop(dropped);
        cancel.cancel();
        assert_eq!(
            cancelled.await.unwrap_err(),
            QueueCancelled {
                queued: Duration::from_millis(30)
            }
        );
        drop(held);
        assert_eq!(
            limiter.snapshot().all,
            load(1, 0),
            "granted, though its owner has not looked yet"
        );
        drop(granted_unseen);
        assert_eq!(limiter.snapshot(), LimiterState::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_raised_limit_lets_the_waiting_in() {
        let limiter = Limiter::new(0);
        let _one = take(&limiter, "a", DEFAULT_CONCURRENCY).await;
        let cancel = CancellationToken::new();
        let mut two = Box::pin(limiter.acquire("a", DEFAULT_CONCURRENCY, &cancel));
        assert!(futures_poll(&mut two).await.is_none());
        limiter.allow("one", 2);
        assert!(two.await.is_ok());
    }

    #[test]
    fn what_providers_may_have_is_added_up() {
        let limiter = Limiter::new(4);
        limiter.allow("claude", 4);
        limiter.allow("claude", 2);
        assert_eq!(limiter.limit(), 4);
        limiter.allow("codex", 4);
        assert_eq!(limiter.limit(), 8);
        limiter.allow("claude", 6);
        assert_eq!(limiter.limit(), 10);
    }

    /// Polls `future` once and returns its value if it is ready.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
