//! One open session of an agent, between its turns and in them, and the caller's tools in it.
//!
//! A resting session either waits for a prompt, or its prompt waits for the results of calls.
//!
//! [`SessionTools`] is an MCP server for the session. In: declarations. Out: the description of the server for `session/new`, the names
//! under which agents know its tools, and the calls that come over it.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::acp::call::CallWork;
use crate::acp::server::AcpServer;
use crate::acp::wire::{self, Update};
use crate::bridge::{self, Bridge, BridgeOptions, Connection, ToolCallRequest};
use crate::live::inbox::Inbox;
use crate::live::session::Pulse;
use dfp_provider::declare::mcp::{Declarations, SERVER};

/// A session that takes one turn after the other.
#[derive(Debug)]
pub struct OpenSession {
    /// The call that is made in the session.
    pub call: CallWork,
    /// The agent's messages about the session.
    pub inbox: Inbox<Update>,
    pub tools: Option<SessionTools>,
    /// The calls for whose results its prompt waits.
    pub open: Vec<ToolCallRequest>,
    /// The number of calls that have come so far.
    pub calls: usize,
    /// False if the agent was seen to make calls of which it tells nothing.
    pub announces_calls: bool,
}

impl OpenSession {
    /// Makes the session of `call`, in which the agent may call `tools`.
    pub fn new(call: CallWork, inbox: Inbox<Update>, tools: Option<SessionTools>) -> OpenSession {
        OpenSession {
            call,
            inbox,
            tools,
            open: Vec::new(),
            calls: 0,
            announces_calls: true,
        }
    }

    /// Returns whether the agent has told of all calls that have come. They come over another connection than what its model says before
    /// them, and may be faster.
    pub fn has_announced_calls(&self) -> bool {
        let protocol = self.server().rpc.protocol();
        let announced = self
            .call
            .session()
            .map_or(0, |session| protocol.announced_calls(session));
        announced >= self.calls
    }

    /// The process in which the session lives.
    pub fn server(&self) -> &Arc<AcpServer> {
        self.call.server()
    }

    /// Ends the prompt, if there is one, and makes the agent forget the session if it can.
    pub async fn close(self) {
        let OpenSession {
            mut call,
            inbox,
            tools,
            open,
            ..
        } = self;
        drop(inbox);
        let server = Arc::clone(call.server());
        if let Some(session) = call.session() {
            server.rpc.protocol().permit_none(session);
        }
        call.cancel().await;
        // Not earlier: a call that fails would make the agent ask its model how to go on.
        drop((open, tools));
        call.close();
    }

    /// Waits until the session can't continue. Cancel safe.
    pub async fn idle(&mut self) -> Pulse {
        let server = Arc::clone(self.server());
        let host = server.host();
        match &mut self.call.asked {
            // Updates that come meanwhile belong to the next turn.
            Some(asked) => {
                let first = self.open.first_mut();
                let taken_back = async {
                    match first {
                        Some(call) => call.reply.closed().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = host.retired().cancelled() => {}
                    _ = asked => self.call.asked = None,
                    () = taken_back => {}
                }
                Pulse::Ended
            }
            None => loop {
                tokio::select! {
                    // Updates that come after an answer belong to nobody.
                    next = self.inbox.next_at_rest(host) => match next {
                        Some(_) => {}
                        None => return Pulse::Ended,
                    },
                    call = next_call(&mut self.tools) => drop(call),
                }
            },
        }
    }
}

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
