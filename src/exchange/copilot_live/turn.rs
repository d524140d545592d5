//! One session of copilot, between its turns and in them: it opens with the thread as its history, or gets the results that it waits for,
//! and reads until the reply has come.
//!
//! In: a [`CopilotInput`]. Out: events, and the end of the turn. Giving the turn up aborts it and forgets the session; so does every
//! end except waiting calls. A resting session has calls for whose results the server waits, for as long as it takes (six minutes were
//! measured); it costs nothing meanwhile.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::history::{self, Of};
use super::reader::CopilotTurnReader;
use super::wire::{self, SessionEvent};
use super::{Copilot, CopilotService, CopilotSetup};
use crate::EndedProcess;
use crate::form::InServer;
use crate::host::{Heartbeat, Inbox};
use crate::live::session::{
    Incoming, Program, Pulse, Session, SessionProcess, TurnInput, TurnStep, UNFIT, not_opened, opening,
};
use crate::live::thread::SessionThread;
use crate::live::turn::{Report, TurnEnd};
use crate::random::uuid;
use crate::rpc::RequestError;

/// The words for copilot in the reasons of failures.
const PROGRAM: Program = Program {
    process: "copilot --headless",
    session: "session",
};

/// The result of a call, by the API's id.
#[derive(Debug)]
pub struct CopilotCallResult {
    pub call: String,
    pub text: String,
    pub is_error: bool,
}

/// The input of a turn.
#[derive(Debug)]
pub enum CopilotInput {
    /// A thread, for a session that is to be opened, and text that is said after the thread and is no part of it.
    Whole(Arc<SessionThread>, Option<String>),
    /// Results, for a session that waits for them.
    Results(Vec<CopilotCallResult>),
}

/// A session of a copilot server.
#[derive(Debug)]
pub struct CopilotSession {
    place: InServer<Copilot>,
    /// The server's side of it, as soon as there is one.
    conversation: Option<CopilotConversation>,
}

impl CopilotSession {
    /// Makes a session that its first turn opens.
    pub fn new(place: InServer<Copilot>) -> CopilotSession {
        CopilotSession {
            place,
            conversation: None,
        }
    }

    /// The model that answers, as far as it is known before its answer.
    fn model(&self) -> Option<&str> {
        self.place.setup.model.as_deref().or(self.place.server.model.as_deref())
    }

    /// Opens a session whose history is `thread`, and lets its model answer.
    async fn open(&mut self, thread: &SessionThread, note: Option<&str>, report: &Report) -> Result<(), RequestError> {
        let service = Arc::clone(&self.place.server);
        let id = uuid();
        let of = Of {
            session: &id,
            model: self.model().unwrap_or_default(),
            version: service.version.as_deref().unwrap_or_default(),
            folder: &service.folder,
            tools: &self.place.setup.tools,
            searches_tools: self.place.setup.choices.searches_tools,
        };
        let history = history::write(thread.messages(), note, &of);
        service.server.protocol().files.open(&id, history);
        self.conversation = Some(CopilotConversation::new(Arc::clone(&service), id.clone()));
        let resume = wire::resume(
            &id,
            &self.place.setup,
            self.model(),
            service.api.as_ref(),
            &service.folder,
        );
        service.server.request("session.resume", &resume).await?;
        service.host().count_session();
        report.begun();
        service
            .server
            .request("session.options.update", &wire::options(&id))
            .await?;
        service
            .server
            .request("session.sendMessages", &wire::go_on(&id))
            .await?;
        Ok(())
    }

    /// Gives the results to a session that waits for them. The answers to these requests tell nothing of the model, so the server is
    /// asked for a heartbeat.
    fn answer(&mut self, results: Vec<CopilotCallResult>) -> Option<Heartbeat> {
        let conversation = self.conversation.as_mut()?;
        if self.place.server.host().is_over() {
            return None;
        }
        let heartbeat = self.place.server.heartbeat();
        let pending = std::mem::take(&mut conversation.pending);
        for CopilotCallResult { call, text, is_error } in results {
            let (_, request) = pending.iter().find(|(known, _)| *known == call)?;
            let result = wire::result(&conversation.id, request, &text, is_error);
            give(&self.place.server, &result);
        }
        Some(heartbeat)
    }

    /// Reads until the reply has come.
    async fn read(&mut self, is_fresh: bool, heartbeat: Heartbeat, report: &Report) -> TurnEnd<()> {
        let model = self.model().unwrap_or_default().to_owned();
        let Some(conversation) = &mut self.conversation else {
            return TurnEnd::Vanished;
        };
        let mut reader = CopilotTurnReader::new(
            &self.place.setup.tools,
            self.place.setup.choices.searches_tools,
            &conversation.id,
            &model,
        );
        let opening = opening(&conversation.id, &model, self.place.server.version.as_deref());
        let mut incoming = Incoming::new(report, &conversation.inbox, heartbeat, opening);
        loop {
            let Some(event) = incoming.next(&mut conversation.inbox).await else {
                return incoming.closed(self.place.server.host(), is_fresh, PROGRAM).await;
            };
            let step = reader.push(event, &mut incoming.events);
            for request in reader.take_unfit() {
                give(
                    &self.place.server,
                    &wire::result(&conversation.id, &request, UNFIT, true),
                );
            }
            match step {
                TurnStep::More => incoming.tell().await,
                TurnStep::Failed => {
                    // At once, since the request would be made again (NEW-CLIS 1.5).
                    self.place.server.abort(&conversation.id);
                    incoming.push();
                    return TurnEnd::Failed;
                }
                TurnStep::Reply => {
                    incoming.push();
                    let has_repeated_ids = reader.has_repeated_ids;
                    conversation.pending = reader.into_pending();
                    // A session that waits for nothing is not kept: copilot would put a date before its next message.
                    return TurnEnd::reply(!conversation.pending.is_empty() && !has_repeated_ids, ());
                }
            }
        }
    }
}

/// Sends a result; its answer tells nothing of the model.
fn give(service: &CopilotService, result: &Value) {
    drop(service.server.post("session.tools.handlePendingToolCall", result));
}

impl Session for CopilotSession {
    type Setup = CopilotSetup;
    type Input = CopilotInput;
    type ReplyFacts = ();

    fn process(&self) -> Option<SessionProcess<'_>> {
        self.place.process()
    }

    async fn turn(&mut self, turn: TurnInput<CopilotSession>, report: &Report) -> TurnEnd<()> {
        let had_served = self.place.server.host().has_served();
        match turn.input {
            CopilotInput::Whole(thread, note) => match self.open(&thread, note.as_deref(), report).await {
                Ok(()) => self.read(true, Heartbeat::default(), report).await,
                Err(error) => not_opened(report, self.place.server.host(), had_served, PROGRAM, error).await,
            },
            CopilotInput::Results(results) => match self.answer(results) {
                Some(heartbeat) => self.read(false, heartbeat, report).await,
                // The model was not asked anything yet: another session can take the turn.
                None => TurnEnd::Vanished,
            },
        }
    }

    async fn stop(self, _: Duration) -> Option<EndedProcess> {
        // Nobody waits for a server that may hang.
        self.end();
        None
    }

    async fn idle(&mut self) -> Pulse {
        let Some(conversation) = &mut self.conversation else {
            return Pulse::Ended;
        };
        // Otherwise nobody answers its calls any more, or its history has changed.
        let goes_on = |event: &SessionEvent| {
            !matches!(
                event,
                SessionEvent::CallStarted { .. }
                    | SessionEvent::CallFailed(_)
                    | SessionEvent::Failed(_)
                    | SessionEvent::Compaction
                    | SessionEvent::Idle
                    | SessionEvent::Closed
            )
        };
        conversation.inbox.rest(conversation.service.host(), goes_on).await
    }

    async fn ended(self, _: bool) -> Option<EndedProcess> {
        self.conversation?.close().await;
        None
    }
}

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
}
