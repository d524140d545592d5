//! The codex server of one provider, and its threads between calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::task::TaskTracker;

use super::capabilities::Binary;
use crate::exchange::codex_live::conversation::Conversation;
use crate::exchange::codex_live::recall::Recall;
use crate::exchange::codex_live::service::Service;
use crate::exchange::live::pool::Pool;
use crate::process::{Vars, resident_bytes};
use crate::provider::options::{EngineKind, Options};

/// How many conversations may rest: about 1 MB each (0.169.0: 228 MB with 100, 130 without).
pub(super) const MOST_RESTING: usize = 100;

/// A server that has grown beyond this takes no new threads: 180 MB are usual after 300 conversations (0.169.0).
const MOST_MEMORY: u64 = 1 << 30;

/// How often it is looked whether a server is still needed, at most.
const LOOK: Duration = Duration::from_secs(1);

/// The servers and threads of one provider.
#[derive(Debug)]
pub(super) struct CodexSessions {
    pub pool: Arc<Pool<Conversation>>,
    /// One for each environment that calls were made with, the longest unused first. Held while one is being started: who comes
    /// meanwhile waits for it.
    pub servers: Arc<AsyncMutex<Vec<Server>>>,
    /// The vendor's model catalog, of the binary that printed it.
    pub vendor: AsyncMutex<Option<(Binary, Arc<Value>)>>,
    recall: Arc<Mutex<Recall>>,
}

/// A server that takes threads.
#[derive(Debug)]
pub(super) struct Server {
    pub env: Arc<Vars>,
    pub binary: Binary,
    pub service: Arc<Service>,
    pub used: Instant,
}

impl CodexSessions {
    /// `None` where the options want no sessions.
    pub fn new(options: &Options, runs: &TaskTracker) -> Option<CodexSessions> {
        (options.engine != EngineKind::Print).then(|| CodexSessions {
            pool: Arc::new(Pool::new(MOST_RESTING, options.keep_alive, 0, runs.clone())),
            servers: Arc::default(),
            vendor: AsyncMutex::default(),
            recall: Arc::default(),
        })
    }

    /// What is known of replies.
    pub fn recall(&self) -> MutexGuard<'_, Recall> {
        self.recall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, for who outlives this.
    pub fn shared_recall(&self) -> Arc<Mutex<Recall>> {
        Arc::clone(&self.recall)
    }
}

/// The server of `servers` for this environment, this binary and threads of `model`, if there is one. Those that are gone or have grown too large go.
pub(super) fn running(
    servers: &mut Vec<Server>,
    env: &Arc<Vars>,
    binary: &Binary,
    model: Option<&str>,
) -> Option<Arc<Service>> {
    servers.retain(|known| {
        let server = &known.service.server;
        let grown = resident_bytes(server.pid()).is_some_and(|bytes| bytes > MOST_MEMORY);
        if grown {
            server.retire();
        }
        !grown && !server.is_over()
    });
    let serves = |known: &Server| is_of(known, env, binary) && known.service.serves(model);
    let at = servers.iter().position(serves)?;
    let mut found = servers.remove(at);
    found.used = Instant::now();
    let service = Arc::clone(&found.service);
    servers.push(found);
    Some(service)
}

/// Whether `known` has this environment and this binary.
pub(super) fn is_of(known: &Server, env: &Arc<Vars>, binary: &Binary) -> bool {
    known.binary == *binary && (Arc::ptr_eq(&known.env, env) || known.env == *env)
}

/// Ends servers that nobody has used for `keep_alive`, until there are none left.
pub(super) async fn end_unused(servers: Arc<AsyncMutex<Vec<Server>>>, keep_alive: Duration) {
    loop {
        tokio::time::sleep(keep_alive.clamp(LOOK, Duration::from_secs(30))).await;
        let mut servers = servers.lock().await;
        // A thread of it, resting or not, counts as a use.
        let in_use = |known: &Server| Arc::strong_count(&known.service) > 1;
        for known in servers.iter_mut().filter(|known| in_use(known)) {
            known.used = Instant::now();
        }
        servers.retain(|known| in_use(known) || known.used.elapsed() < keep_alive);
        if servers.is_empty() {
            return;
        }
    }
}
