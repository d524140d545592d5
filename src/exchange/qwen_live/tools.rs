//! The caller's tools in a session.
//!
//! In: declarations. Out: an MCP server for each session, and the calls that come over it.

use std::io;

use tokio::sync::{mpsc, watch};

use crate::bridge::{self, Bridge, BridgeOptions, Connection, ToolCallRequest};
use dfp_provider::callbacks::Callbacks;
use dfp_provider::declare::mcp::Declarations;

/// The MCP server of a session's tools, and the calls that come over it. Dropping it ends the server.
#[derive(Debug)]
pub struct Tools {
    bridge: Bridge,
    calls: mpsc::Receiver<ToolCallRequest>,
}

impl Tools {
    /// Serves these tools; `None` if there are none. Must be called inside the runtime.
    ///
    /// # Errors
    /// The system gives no port, or no random bytes.
    pub fn serve(declarations: &Declarations) -> io::Result<Option<Tools>> {
        if declarations.tools().is_empty() {
            return Ok(None);
        }
        let (consumer, calls) = bridge::call_channel();
        let bridge = Bridge::start_for(declarations.clone(), BridgeOptions::default(), consumer)?;
        Ok(Some(Tools { bridge, calls }))
    }

    /// The address and the token of the server, which the CLI has to be told.
    pub(super) fn callbacks(&self) -> Callbacks {
        Callbacks {
            url: self.bridge.url().to_owned(),
            token: self.bridge.token().to_owned(),
        }
    }

    /// The progress of the CLI's connection to the server.
    pub(super) fn connection(&self) -> watch::Receiver<Connection> {
        self.bridge.connected()
    }

    /// Returns whether the CLI has asked for the list of tools: a request that it makes earlier goes without them.
    pub(super) fn are_listed(&self) -> bool {
        *self.connection().borrow() >= Connection::Listed
    }
}

/// Resolves when the CLI has asked for the tools; never for a session without any. Cancel safe.
pub(super) async fn listed(connection: Option<watch::Receiver<Connection>>) {
    if let Some(mut connection) = connection {
        let is_listed = |connection: &Connection| *connection >= Connection::Listed;
        if connection.wait_for(is_listed).await.is_ok() {
            return;
        }
    }
    std::future::pending().await
}

/// Waits for the next call over the session's server; forever if there is no server. Cancel safe.
pub(super) async fn next_call(tools: &mut Option<Tools>) -> ToolCallRequest {
    let call = match tools {
        Some(tools) => tools.calls.recv().await,
        None => None,
    };
    match call {
        Some(call) => call,
        None => std::future::pending().await,
    }
}
