//! The codex server of one provider, and its threads between calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::task::TaskTracker;

use super::capabilities::Binary;
use super::servers::{Serving, Shared};
use crate::exchange::codex_live::conversation::Conversation;
use crate::exchange::codex_live::recall::Recall;
use crate::exchange::codex_live::service::Service;
use crate::exchange::host::Host;
use crate::exchange::live::pool::Pool;
use crate::provider::options::Options;

/// How many conversations may rest: about 1 MB each (0.169.0: 228 MB with 100, 130 without).
pub(super) const MOST_RESTING: usize = 100;

/// The servers and threads of one provider.
#[derive(Debug)]
pub(super) struct CodexSessions {
    pub pool: Arc<Pool<Conversation>>,
    /// One for each environment that calls were made with.
    pub servers: Shared<Service>,
    /// The vendor's model catalog, of the binary that printed it.
    pub vendor: AsyncMutex<Option<(Binary, Arc<Value>)>>,
    recall: Arc<Mutex<Recall>>,
}

impl CodexSessions {
    /// `None` where the options want no sessions.
    pub fn new(options: &Options, runs: &TaskTracker) -> Option<CodexSessions> {
        options.engine.may_be_live().then(|| CodexSessions {
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

    /// Gives back what is remembered of replies: the provider is closed.
    pub fn forget(&self) {
        self.recall().close();
    }

    /// The same, for who outlives this.
    pub fn shared_recall(&self) -> Arc<Mutex<Recall>> {
        Arc::clone(&self.recall)
    }
}

impl Serving for Service {
    fn host(&self) -> &Host {
        Service::host(self)
    }
}
