//! The opencode servers of one provider, and their sessions between calls.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::servers::{Serving, Shared};
use crate::exchange::host::Host;
use crate::exchange::live::pool::Pool;
use crate::exchange::opencode_live::service::Service;
use crate::exchange::opencode_live::session::Session;
use crate::provider::options::Options;

/// How many conversations may rest.
pub(super) const MOST_RESTING: usize = 100;

/// The servers and sessions of one provider.
#[derive(Debug)]
pub(super) struct OpencodeSessions {
    pub pool: Arc<Pool<Session>>,
    /// One for each environment and command line that calls were made with.
    pub servers: Shared<Service>,
}

impl OpencodeSessions {
    /// `None` where the options want no sessions.
    pub fn new(options: &Options, runs: &TaskTracker) -> Option<OpencodeSessions> {
        options.engine.may_be_live().then(|| OpencodeSessions {
            pool: Arc::new(Pool::new(MOST_RESTING, options.keep_alive, 0, runs.clone())),
            servers: Arc::default(),
        })
    }
}

impl Serving for Service {
    fn host(&self) -> &Host {
        Service::host(self)
    }
}
