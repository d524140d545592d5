//! What one process says of many sessions, delivered to the owner of each.
//!
//! In: events with the session they are of ([`Inboxes::deliver`]). Out: each session's, in order ([`Inbox::next`]). An owner that takes
//! nothing neither holds up the others nor takes all memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::exchange::host::Host;

/// How much may wait for a session's owner, bytes.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// The inboxes of the sessions of one process.
#[derive(Debug)]
pub struct Inboxes<E> {
    state: Arc<Mutex<State<E>>>,
}

#[derive(Debug)]
struct State<E> {
    routes: HashMap<String, Route<E>>,
    /// The process is no more: nothing will come.
    closed: bool,
}

/// The way to a session's owner.
#[derive(Debug)]
struct Route<E> {
    events: mpsc::UnboundedSender<Delivered<E>>,
    waiting: Arc<AtomicUsize>,
}

/// An event, and how many bytes it had.
#[derive(Debug)]
struct Delivered<E> {
    event: E,
    bytes: usize,
}

/// What comes for one session. Dropping it ends the delivery.
#[derive(Debug)]
pub struct Inbox<E> {
    session: String,
    events: mpsc::UnboundedReceiver<Delivered<E>>,
    waiting: Arc<AtomicUsize>,
    state: Arc<Mutex<State<E>>>,
    /// Bytes so far.
    bytes: u64,
    /// Another has this session's id, and what comes for it.
    is_second: bool,
}

impl<E> Default for Inboxes<E> {
    fn default() -> Self {
        let state = State {
            routes: HashMap::new(),
            closed: false,
        };
        Inboxes {
            state: Arc::new(Mutex::new(state)),
        }
    }
}

impl<E> Inboxes<E> {
    /// What comes for `session` from now on: nothing, where somebody has it already. A server may give an id twice, and no conversation shall
    /// hear of another.
    pub fn open(&self, session: &str) -> Inbox<E> {
        let (sender, events) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let route = Route {
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

    /// Whether anybody waits for what comes for `session`.
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
            // Its owner learns that nothing more will come.
            state.routes.remove(session);
        }
    }

    /// Nothing more will come for `session`.
    pub fn end(&self, session: &str) {
        locked(&self.state).routes.remove(session);
    }

    /// Nothing more will come for those that are open now.
    pub fn clear(&self) {
        locked(&self.state).routes.clear();
    }

    /// Nothing more will come for anybody.
    pub fn close(&self) {
        let mut state = locked(&self.state);
        state.closed = true;
        state.routes.clear();
    }
}

impl<E> Inbox<E> {
    /// Whether another has this session's id: nothing comes here.
    pub fn is_second(&self) -> bool {
        self.is_second
    }

    /// What comes next; `None` where nothing more will. Cancel safe.
    pub async fn next(&mut self) -> Option<E> {
        let Delivered { event, bytes } = self.events.recv().await?;
        Some(self.counted(event, bytes))
    }

    /// The same for a session that rests in `host`: `None`, too, where that takes no calls any more. Cancel safe.
    pub async fn next_at_rest(&mut self, host: &Host) -> Option<E> {
        tokio::select! {
            biased;
            () = host.retired().cancelled() => None,
            event = self.next() => event,
        }
    }

    /// What has come already, if there is anything.
    pub fn take(&mut self) -> Option<E> {
        let Delivered { event, bytes } = self.events.try_recv().ok()?;
        Some(self.counted(event, bytes))
    }

    fn counted(&mut self, event: E, bytes: usize) -> E {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes += bytes as u64;
        event
    }

    /// How many bytes have come.
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

fn locked<E>(state: &Mutex<State<E>>) -> MutexGuard<'_, State<E>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

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
