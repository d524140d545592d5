//! One open session of an agent, between its turns and in them.
//!
//! A resting session either waits for a prompt, or its prompt waits for the results of calls.

use std::sync::Arc;

use super::tools::{SessionTools, next_call};
use crate::acp::call::CallWork;
use crate::acp::server::AcpServer;
use crate::acp::wire::Update;
use crate::bridge::ToolCallRequest;
use crate::live::inbox::Inbox;
use crate::live::session::Pulse;

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
