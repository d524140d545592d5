//! One session of a copilot server, between its turns and in them.
//!
//! A resting session has calls for whose results the server waits, for as long as it takes (six minutes were measured); it costs
//! nothing meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::inbound::SessionEvent;
use super::service::CopilotService;
use crate::live::inbox::Inbox;
use crate::live::session::Pulse;

/// The time that a server may take to stop and forget a session: 2 ms on an idle machine. A server that takes longer gets no new
/// calls.
const STOP: Duration = Duration::from_secs(3);

/// A session of a server.
#[derive(Debug)]
pub struct CopilotConversation {
    /// The server in which the session lives.
    pub service: Arc<CopilotService>,
    pub id: String,
    /// The server's events on the session.
    pub inbox: Inbox<SessionEvent>,
    /// The server's requests for results: the call's id, and the request's.
    pub pending: Vec<(String, String)>,
}

impl CopilotConversation {
    /// Makes the session `id` of `service`, of which nothing has come yet.
    pub fn new(service: Arc<CopilotService>, id: String) -> CopilotConversation {
        CopilotConversation {
            inbox: service.server.inbox(&id),
            service,
            id,
            pending: Vec::new(),
        }
    }

    /// Stops the turn in progress, and makes the server forget the session.
    pub async fn close(self) {
        let CopilotConversation { service, id, inbox, .. } = self;
        drop(inbox);
        service.abort(&id);
        if tokio::time::timeout(STOP, service.forget(&id)).await.is_err() {
            service.host().retire();
        }
    }

    /// Waits until the session can't continue. Cancel safe.
    pub async fn idle(&mut self) -> Pulse {
        loop {
            match self.inbox.next_at_rest(self.service.host()).await {
                // Nobody answers its calls any more, or its history has changed.
                None
                | Some(
                    SessionEvent::CallStarted { .. }
                    | SessionEvent::CallFailed(_)
                    | SessionEvent::Failed(_)
                    | SessionEvent::Compaction
                    | SessionEvent::Idle
                    | SessionEvent::Closed,
                ) => return Pulse::Ended,
                Some(_) => {}
            }
        }
    }
}
