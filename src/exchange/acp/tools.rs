//! The caller's tools in a session: an MCP server for the session, and the calls that come over it.
//!
//! In: declarations. Out: the description of the server for `session/new`, the names under which agents know its tools, and
//! [`ToolCallRequest`]s.

use std::io;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::acp::wire;
use crate::bridge::{self, Bridge, BridgeOptions, Connection, ToolCallRequest};
use dfp_provider::declare::mcp::{Declarations, SERVER};

/// The MCP server of a session's tools. Dropping it ends the server, and the calls that wait.
#[derive(Debug)]
pub struct SessionTools {
    bridge: Bridge,
    calls: mpsc::Receiver<ToolCallRequest>,
    /// The tools' names on the wire.
    tools: Vec<String>,
}

impl SessionTools {
    /// Serves these tools; `None` if there are none. Must be called inside the runtime.
    ///
    /// # Errors
    /// The system gives no port, or no random bytes.
    pub fn serve(declarations: &Declarations) -> io::Result<Option<SessionTools>> {
        if declarations.tools().is_empty() {
            return Ok(None);
        }
        let (consumer, calls) = bridge::call_channel();
        Ok(Some(SessionTools {
            bridge: Bridge::start_for(declarations.clone(), BridgeOptions::default(), consumer)?,
            calls,
            tools: declarations.tools().iter().map(|tool| tool.name.clone()).collect(),
        }))
    }

    /// The description of the server for the agent.
    pub fn server(&self) -> Value {
        wire::http_server(SERVER, self.bridge.url(), self.bridge.token())
    }

    /// The sentence about the server in the first prompt: some agents hide tools until they are searched for (qwen 0.15.10).
    pub fn introduction(&self) -> String {
        let names = self.tools.join(", ");
        format!("The tools of the MCP server \"{SERVER}\" are yours to call: {names}\n\n")
    }

    /// Returns whether the agent has asked for the list of tools.
    pub fn are_listed(&self) -> bool {
        *self.bridge.connected().borrow() >= Connection::Listed
    }

    /// The names under which agents know the tools: of qwen and claude, of gemini, of opencode.
    pub fn names(&self) -> Vec<String> {
        let names = |tool: &String| {
            [
                format!("mcp__{SERVER}__{tool}"),
                format!("mcp_{SERVER}_{tool}"),
                format!("{SERVER}_{tool}"),
            ]
        };
        self.tools.iter().flat_map(names).collect()
    }
}

/// Waits for the next call; waits forever for a session without tools. Cancel safe.
pub async fn next_call(tools: &mut Option<SessionTools>) -> ToolCallRequest {
    if let Some(tools) = tools
        && let Some(call) = tools.calls.recv().await
    {
        return call;
    }
    std::future::pending().await
}

/// Refuses the calls that have come already: nobody has asked for them.
pub fn refuse_early(tools: &mut Option<SessionTools>) {
    // A dropped call is answered with an error.
    while let Some(tools) = tools
        && tools.calls.try_recv().is_ok()
    {}
}
