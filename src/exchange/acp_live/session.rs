//! One kept session, between its turns and in them.
//!
//! A session that rests either waits for a prompt, or its prompt waits for the results of calls.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::setup::Setup;
use super::tools::{SessionTools, next_call};
use crate::bridge::ToolCallRequest;
use crate::exchange::acp_warm::server::AcpServer;
use crate::exchange::acp_warm::wire::Update;
use crate::exchange::acp_warm::work::CallWork;
use crate::exchange::live::inbox::Inbox;
use crate::exchange::live::keep::{Idle, Keepable};

/// A session that takes one turn after the other.
#[derive(Debug)]
pub struct KeptSession {
    /// What is asked in it.
    pub call: CallWork,
    /// What the agent tells of it.
    pub inbox: Inbox<Update>,
    pub tools: Option<SessionTools>,
    /// The calls whose results its prompt waits for.
    pub open: Vec<ToolCallRequest>,
    tracker: TaskTracker,
}

impl KeptSession {
    /// The session of `call`, in which the agent may call `tools`.
    pub fn new(call: CallWork, inbox: Inbox<Update>, tools: Option<SessionTools>, tracker: TaskTracker) -> KeptSession {
        KeptSession {
            call,
            inbox,
            tools,
            open: Vec::new(),
            tracker,
        }
    }

    /// The process it lives in.
    pub fn server(&self) -> &Arc<AcpServer> {
        self.call.server()
    }

    /// Has the prompt end, if there is one, and the agent forget the session where it can.
    pub async fn close(self) {
        let KeptSession {
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
        // Not before: a call that fails would have the agent ask its model what now.
        drop((open, tools));
        call.close();
    }
}

impl Keepable for KeptSession {
    type Setup = Setup;

    fn pid(&self) -> u32 {
        self.server().host().pid()
    }

    async fn idle(&mut self) -> Idle {
        let server = Arc::clone(self.server());
        let host = server.host();
        match &mut self.call.asked {
            // What is told meanwhile belongs to the turn that comes.
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
                Idle::Ended
            }
            None => loop {
                tokio::select! {
                    // What comes behind an answer belongs to nobody.
                    next = self.inbox.next_at_rest(host) => match next {
                        Some(_) => {}
                        None => return Idle::Ended,
                    },
                    call = next_call(&mut self.tools) => drop(call),
                }
            },
        }
    }

    fn end(self) {
        let tracker = self.tracker.clone();
        tracker.spawn(self.close());
    }
}
