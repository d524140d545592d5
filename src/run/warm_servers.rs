//! The warm processes of one provider, which serve its calls without memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use super::capabilities::Binary;
use crate::exchange::acp_warm::server::AcpServer;
use crate::process::{Vars, resident_bytes};
use crate::provider::Provider;
use crate::provider::choices::Choices;
use crate::provider::options::Options;

/// A process that has grown beyond this gets no more calls, however many it has served: 230 MB when it has started, 370 after 100
/// sessions (gemini 0.61.0).
const MOST_MEMORY: u64 = 1 << 30;

/// How often it is looked whether a process is still needed, at most.
const LOOK: Duration = Duration::from_secs(1);

/// How many there may be: each takes 230 MB.
const MOST: usize = 4;

/// The processes of one provider.
#[derive(Debug, Default)]
pub(super) struct WarmServers {
    /// Held while one is being started: who comes meanwhile waits for it.
    pub all: Arc<AsyncMutex<Servers>>,
}

impl WarmServers {
    /// `None` where the options want none, or the provider has none.
    pub fn new(provider: &Provider, options: &Options) -> Option<WarmServers> {
        let is_wanted = provider.warm.is_some() && options.engine.may_be_warm();
        is_wanted.then(WarmServers::default)
    }
}

/// What calls have to have in common to be served by one process.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerKey {
    pub env: Arc<Vars>,
    pub binary: Binary,
    /// They stand on its command line and in the settings of its folder.
    pub choices: Choices,
}

/// All of them, the longest unused first.
#[derive(Debug, Default)]
pub(super) struct Servers(Vec<Server>);

/// A process that takes calls.
#[derive(Debug)]
pub(super) struct Server {
    key: ServerKey,
    pub server: Arc<AcpServer>,
    used: Instant,
    /// Another one that takes its place is being started.
    pub is_being_replaced: bool,
}

impl Server {
    /// Whether it has served long enough.
    pub fn is_worn(&self, max_sessions: u32) -> bool {
        let has_grown = || resident_bytes(self.server.pid()).is_some_and(|bytes| bytes > MOST_MEMORY);
        self.server.sessions() >= max_sessions || has_grown()
    }
}

impl Servers {
    /// The one for `key`, if there is one that takes calls.
    pub fn find(&mut self, key: &ServerKey) -> Option<&mut Server> {
        self.0
            .retain(|known| !known.server.is_over() && !known.server.is_retired());
        let at = self.0.iter().position(|known| known.key == *key)?;
        let mut found = self.0.remove(at);
        found.used = Instant::now();
        self.0.push(found);
        self.0.last_mut()
    }

    /// From now on `server` is the one for `key`. What it replaces, and the longest unused beyond `max_concurrency`, end with their calls.
    pub fn add(&mut self, key: ServerKey, server: AcpServer, max_concurrency: usize) -> Arc<AcpServer> {
        self.0.retain(|known| known.key != key);
        while self.0.len() >= max_concurrency.clamp(1, MOST) {
            self.0.remove(0);
        }
        let server = Arc::new(server);
        self.0.push(Server {
            key,
            server: Arc::clone(&server),
            used: Instant::now(),
            is_being_replaced: false,
        });
        server
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Ends processes that nobody has used for `keep_alive`, until there are none left.
pub(super) async fn end_unused(all: Arc<AsyncMutex<Servers>>, keep_alive: Duration) {
    loop {
        tokio::time::sleep(keep_alive.clamp(LOOK, Duration::from_secs(30))).await;
        let mut all = all.lock().await;
        let in_use = |known: &Server| Arc::strong_count(&known.server) > 1;
        for known in all.0.iter_mut().filter(|known| in_use(known)) {
            known.used = Instant::now();
        }
        all.0.retain(|known| in_use(known) || known.used.elapsed() < keep_alive);
        if all.0.is_empty() {
            return;
        }
    }
}
