//! The warm processes of one provider, which serve its calls without memory.

use super::servers::{Serving, Shared};
use crate::exchange::acp_warm::server::AcpServer;
use crate::exchange::host::Host;
use crate::provider::Provider;
use crate::provider::options::Options;

/// How many there may be: each takes 230 MB.
pub(super) const MOST: usize = 4;

/// The processes of one provider.
#[derive(Debug, Default)]
pub(super) struct WarmServers {
    pub all: Shared<AcpServer>,
}

impl WarmServers {
    /// `None` where the options want none, or the provider has none.
    pub fn new(provider: &Provider, options: &Options) -> Option<WarmServers> {
        let is_wanted = provider.warm.is_some() && options.engine.may_be_warm();
        is_wanted.then(WarmServers::default)
    }
}

impl Serving for AcpServer {
    fn host(&self) -> &Host {
        AcpServer::host(self)
    }
}
