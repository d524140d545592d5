//! The processes of one provider that serve many calls each.
//!
//! In: the key of the server that a call needs. Out: that server, or the place for a new one; unused servers end.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use crate::lifecycle::Lifecycle;
use dfp_exchange::form::Server;
use dfp_exchange::host::Host;
use dfp_exchange::installed::Binary;
use dfp_process::{Vars, resident_bytes};

/// A server that has grown beyond this takes no new calls: 180 MB are usual for codex after 300 conversations (0.169.0), 400 to 530 for
/// opencode (1.18.34), 370 for gemini after 100 sessions (0.61.0).
const MOST_MEMORY: u64 = 1 << 30;

/// The shortest interval between two checks whether a server is still needed.
const LOOK: Duration = Duration::from_secs(1);

/// Returns whether `server` uses too much memory.
pub(crate) fn has_grown(server: &impl Server) -> bool {
    resident_bytes(server.host().pid()).is_some_and(|bytes| bytes > MOST_MEMORY)
}

/// The facts that calls must share to be served by one process.
#[derive(Debug, Clone)]
pub(crate) struct ServerKey {
    pub env: Arc<Vars>,
    pub binary: Binary,
}

impl ServerKey {
    /// The key of the calls with this environment and this binary.
    pub fn new(env: &Arc<Vars>, binary: &Binary) -> ServerKey {
        ServerKey {
            env: Arc::clone(env),
            binary: binary.clone(),
        }
    }
}

impl PartialEq for ServerKey {
    fn eq(&self, other: &Self) -> bool {
        self.binary == other.binary && (Arc::ptr_eq(&self.env, &other.env) || self.env == other.env)
    }
}

/// A server that takes calls.
#[derive(Debug)]
pub(crate) struct KeptServer<S> {
    pub key: ServerKey,
    pub service: Arc<S>,
    used: Instant,
    /// True if another server that takes its place is being started.
    pub is_being_replaced: bool,
}

/// The rules for keeping servers.
pub(crate) struct Keeping<'a, S> {
    pub all: &'a Shared<S>,
    /// The greatest number of servers.
    pub most: usize,
    /// The time for which a server may stay unused.
    pub keep_alive: Duration,
    /// The lifecycle whose tasks end the servers.
    pub lifecycle: &'a Lifecycle,
}

/// The servers of one provider, the longest unused first.
#[derive(Debug)]
pub(crate) struct Servers<S>(Vec<KeptServer<S>>);

/// The servers behind a lock, which is never held while one is being started: those that run serve their calls meanwhile.
pub(crate) type Shared<S> = Arc<AsyncMutex<Servers<S>>>;

/// The locks of the starts that go on, one for each key.
#[derive(Debug, Default)]
pub(crate) struct Starts(Mutex<Vec<(ServerKey, Weak<AsyncMutex<()>>)>>);

impl Starts {
    /// The lock to hold while a server for `key` is started. After waiting for it, look again whether there is a server.
    pub fn of(&self, key: &ServerKey) -> Arc<AsyncMutex<()>> {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.retain(|(_, start)| start.strong_count() > 0);
        let known = starts.iter().find(|(of, _)| of == key);
        if let Some(start) = known.and_then(|(_, start)| start.upgrade()) {
            return start;
        }
        let start = Arc::default();
        starts.push((key.clone(), Arc::downgrade(&start)));
        start
    }
}

impl<S> Default for Servers<S> {
    fn default() -> Self {
        Servers(Vec::new())
    }
}

impl<S: Server> Servers<S> {
    /// Returns the first server that `serves` selects, and drops those that take no calls any more.
    pub fn find(&mut self, serves: impl Fn(&KeptServer<S>) -> bool) -> Option<&mut KeptServer<S>> {
        self.0.retain(|known| known.service.host().takes_calls());
        let at = self.0.iter().position(serves)?;
        let mut found = self.0.remove(at);
        found.used = Instant::now();
        self.0.push(found);
        self.0.last_mut()
    }

    /// Retires the servers that `which` selects: they take no new calls, and end with those they have.
    pub fn retire(&mut self, which: impl Fn(&KeptServer<S>) -> bool) {
        self.0.retain(|known| {
            let goes = which(known);
            if goes {
                known.service.host().retire();
            }
            !goes
        });
    }

    /// The servers of `key`.
    pub fn of(&self, key: &ServerKey) -> impl Iterator<Item = &Arc<S>> {
        let of_key = self.0.iter().filter(move |known| known.key == *key);
        of_key.map(|known| &known.service)
    }

    /// Adds `service`, which was started for `key`; the longest unused servers above the greatest number are retired.
    pub fn add(&mut self, key: ServerKey, service: S, keeping: &Keeping<'_, S>) -> Arc<S> {
        let Keeping {
            all,
            most,
            keep_alive,
            lifecycle,
        } = *keeping;
        while self.0.len() >= most.max(1) {
            self.0.remove(0).service.host().retire();
        }
        if self.0.is_empty() {
            let unused = end_unused(Arc::clone(all), keep_alive);
            let closing = lifecycle.closing.clone();
            lifecycle.runs.spawn(async move {
                closing.run_until_cancelled(unused).await;
            });
        }
        let service = Arc::new(service);
        let dropped = drop_retired(Arc::clone(all), service.host());
        let closing = lifecycle.closing.clone();
        lifecycle.runs.spawn(async move {
            closing.run_until_cancelled(dropped).await;
        });
        self.0.push(KeptServer {
            key,
            service: Arc::clone(&service),
            used: Instant::now(),
            is_being_replaced: false,
        });
        service
    }
}

/// Drops `host` as soon as it takes no calls any more: it ends with those it has then.
fn drop_retired<S: Server>(all: Shared<S>, host: &Host) -> impl Future<Output = ()> + Send + use<S> {
    let (retired, over) = (host.retired().clone(), host.over().clone());
    async move {
        tokio::select! {
            () = retired.cancelled() => {}
            () = over.cancelled() => {}
        }
        all.lock().await.0.retain(|known| known.service.host().takes_calls());
    }
}

/// Ends servers that were unused for `keep_alive`, until there are none left.
async fn end_unused<S: Server>(all: Shared<S>, keep_alive: Duration) {
    loop {
        tokio::time::sleep(keep_alive.clamp(LOOK, Duration::from_secs(30))).await;
        let servers = &mut all.lock().await.0;
        // A conversation of it, resting or not, counts as a use.
        let in_use = |known: &KeptServer<S>| Arc::strong_count(&known.service) > 1;
        for known in servers.iter_mut().filter(|known| in_use(known)) {
            known.used = Instant::now();
        }
        servers.retain(|known| in_use(known) || known.used.elapsed() < keep_alive);
        if servers.is_empty() {
            return;
        }
    }
}
