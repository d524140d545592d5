//! The messages of one process about many sessions, delivered to the owner of each.
//!
//! In: events with the names of their sessions ([`Inboxes::deliver`]). Out: the events of each session, in order
//! ([`Inbox::next`]). An owner that takes nothing neither holds up the others nor uses up all memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::session::Pulse;
use crate::host::Host;

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
