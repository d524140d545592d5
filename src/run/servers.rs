//! The processes of one provider that serve many conversations each.
//!
//! In: which one a call needs. Out: one that runs, or the place for a new one; those that nobody uses end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use super::capabilities::Binary;
use crate::process::{Vars, resident_bytes};

/// A server that has grown beyond this takes no new conversations: 180 MB are usual for codex after 300 of them (0.169.0), 400 to
/// 530 for opencode (1.18.34).
const MOST_MEMORY: u64 = 1 << 30;

/// How often it is looked whether a server is still needed, at most.
const LOOK: Duration = Duration::from_secs(1);

/// What is asked of a process that serves many conversations.
pub(super) trait Serving: std::fmt::Debug + Send + Sync + 'static {
    /// The process.
    fn pid(&self) -> u32;
    /// Whether it is no more, or about to be.
    fn is_over(&self) -> bool;
    /// It takes no new conversations from now on; those that rest end.
    fn retire(&self);
}

/// A server that takes conversations.
#[derive(Debug)]
pub(super) struct Server<S> {
    pub env: Arc<Vars>,
    pub binary: Binary,
    pub service: Arc<S>,
    pub used: Instant,
}

/// The servers of one provider, the longest unused first. Held while one is being started: who comes meanwhile waits for it.
pub(super) type Servers<S> = Arc<AsyncMutex<Vec<Server<S>>>>;

impl<S: Serving> Server<S> {
    /// A server that has just been started.
    pub fn new(env: &Arc<Vars>, binary: &Binary, service: &Arc<S>) -> Server<S> {
        Server {
            env: Arc::clone(env),
            binary: binary.clone(),
            service: Arc::clone(service),
            used: Instant::now(),
        }
    }

    /// Whether it has this environment and this binary.
    pub fn is_of(&self, env: &Arc<Vars>, binary: &Binary) -> bool {
        self.binary == *binary && (Arc::ptr_eq(&self.env, env) || self.env == *env)
    }
}

/// The first of `servers` that `serves`, if there is one. Those that are gone or have grown too large go.
pub(super) fn running<S: Serving>(servers: &mut Vec<Server<S>>, serves: impl Fn(&Server<S>) -> bool) -> Option<Arc<S>> {
    servers.retain(|known| {
        let grown = resident_bytes(known.service.pid()).is_some_and(|bytes| bytes > MOST_MEMORY);
        if grown {
            known.service.retire();
        }
        !grown && !known.service.is_over()
    });
    let at = servers.iter().position(serves)?;
    let mut found = servers.remove(at);
    found.used = Instant::now();
    let service = Arc::clone(&found.service);
    servers.push(found);
    Some(service)
}

/// Ends servers that nobody has used for `keep_alive`, until there are none left.
pub(super) async fn end_unused<S: Serving>(servers: Servers<S>, keep_alive: Duration) {
    loop {
        tokio::time::sleep(keep_alive.clamp(LOOK, Duration::from_secs(30))).await;
        let mut servers = servers.lock().await;
        // A conversation of it, resting or not, counts as a use.
        let in_use = |known: &Server<S>| Arc::strong_count(&known.service) > 1;
        for known in servers.iter_mut().filter(|known| in_use(known)) {
            known.used = Instant::now();
        }
        servers.retain(|known| in_use(known) || known.used.elapsed() < keep_alive);
        if servers.is_empty() {
            return;
        }
    }
}
