//! One turn of a copilot session: opens the session if there is none, with the thread as its history, or gives it the results
//! that it waits for; and reads until the reply has come.
//!
//! In: a [`CopilotTurnInput`]. Out: events, and the result of the turn. Giving the turn up aborts it and forgets the session; so does
//! every result except waiting calls.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::task::TaskTracker;

use super::conversation::CopilotConversation;
use super::history::{self, Of};
use super::reader::{CopilotTurnReader, CopilotTurnStep};
use super::service::CopilotService;
use super::setup::Setup;
use super::wire;
use crate::EndedProcess;
use crate::form::WorkParts;
use crate::host::Heartbeat;
use crate::live::thread::SessionThread;
use crate::live::turn::{self, Report, Work};
use crate::random::uuid;
use crate::rpc::RequestError;
use dfp_model::event::{Event, Failure};

/// The time to wait for the exit of a process that has closed its output.
const EXIT: Duration = Duration::from_secs(10);
/// The failure of a turn whose process has ended.
const GONE: &str = "server_gone";
/// The answer to a call that no tool can take.
const UNFIT: &str = "Error: the arguments must be a JSON object";

/// The result of a call, by the API's id.
#[derive(Debug)]
pub struct CopilotCallResult {
    pub call: String,
    pub text: String,
    pub is_error: bool,
}

/// The input of a turn, and its session.
#[derive(Debug)]
pub enum CopilotTurnInput {
    /// A thread, for a session that is to be opened.
    Fresh {
        service: Arc<CopilotService>,
        thread: Arc<SessionThread>,
        /// Text that is said after the thread and is no part of it.
        note: Option<String>,
    },
    /// Results, for a session that waits for them.
    Continued {
        conversation: Box<CopilotConversation>,
        results: Vec<CopilotCallResult>,
    },
}

type CopilotTurnEnd = turn::TurnEnd<CopilotConversation, ()>;

/// The work of a turn.
#[derive(Debug)]
pub struct CopilotSessionWork {
    service: Arc<CopilotService>,
    setup: Arc<Setup>,
    /// The input, until it is sent.
    unsent: Option<CopilotUnsent>,
    /// The session, as soon as there is one.
    conversation: Option<Box<CopilotConversation>>,
    is_fresh: bool,
    /// The check whether the server answers, for messages that have no answer.
    heartbeat: Heartbeat,
    tracker: TaskTracker,
}

/// The input that is still to be sent.
#[derive(Debug)]
enum CopilotUnsent {
    Whole(Arc<SessionThread>, Option<String>),
    Results(Vec<CopilotCallResult>),
}

impl CopilotSessionWork {
    /// Makes the work of the turn that begins with `input`.
    pub fn new(input: CopilotTurnInput, parts: WorkParts<'_, Setup>) -> CopilotSessionWork {
        let (service, conversation, unsent) = match input {
            CopilotTurnInput::Fresh { service, thread, note } => (service, None, CopilotUnsent::Whole(thread, note)),
            CopilotTurnInput::Continued { conversation, results } => (
                Arc::clone(&conversation.service),
                Some(conversation),
                CopilotUnsent::Results(results),
            ),
        };
        CopilotSessionWork {
            service,
            setup: parts.setup,
            unsent: Some(unsent),
            is_fresh: conversation.is_none(),
            conversation,
            heartbeat: Heartbeat::default(),
            tracker: parts.tracker.clone(),
        }
    }

    /// The model that answers, as far as it is known before its answer.
    fn model(&self) -> Option<&str> {
        self.setup.model.as_deref().or(self.service.model.as_deref())
    }

    /// Opens a session whose history is `thread`, and lets its model answer.
    async fn open(&mut self, thread: &SessionThread, note: Option<&str>, report: &Report) -> Result<(), RequestError> {
        let service = Arc::clone(&self.service);
        let id = uuid();
        let of = Of {
            session: &id,
            model: self.model().unwrap_or_default(),
            version: service.version.as_deref().unwrap_or_default(),
            folder: &service.folder,
            tools: &self.setup.tools,
        };
        let history = history::write(thread.messages(), note, &of);
        service.server.protocol().files.open(&id, history);
        let conversation = CopilotConversation::new(Arc::clone(&service), id.clone(), self.tracker.clone());
        self.conversation = Some(Box::new(conversation));
        let resume = wire::resume(&id, &self.setup, self.model(), service.api.as_ref(), &service.folder);
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

    /// Gives the results to a session that waits for them.
    fn answer(&mut self, results: Vec<CopilotCallResult>) -> Result<(), RequestError> {
        let Some(conversation) = &mut self.conversation else {
            return Err(RequestError::Gone);
        };
        let service = Arc::clone(&conversation.service);
        if service.host().is_over() {
            return Err(RequestError::Gone);
        }
        // The answers to these requests tell nothing of the model.
        self.heartbeat = service.heartbeat();
        let pending = std::mem::take(&mut conversation.pending);
        for CopilotCallResult { call, text, is_error } in results {
            let request = pending.iter().find(|(known, _)| *known == call);
            let Some((_, request)) = request else {
                return Err(RequestError::Gone);
            };
            let result = wire::result(&conversation.id, request, &text, is_error);
            give(&service, &result);
        }
        Ok(())
    }

    /// Reads until the reply has come.
    async fn read(&mut self, report: &Report) -> CopilotTurnEnd {
        let setup = Arc::clone(&self.setup);
        let model = self.model().unwrap_or_default().to_owned();
        let Some(conversation) = self.conversation.as_mut() else {
            return CopilotTurnEnd::Vanished;
        };
        let mut reader = CopilotTurnReader::new(&setup.tools, &conversation.id, &model);
        let before = conversation.inbox.bytes();
        let mut session_event = Some(Event::Session {
            session_id: Some(conversation.id.clone()),
            model: Some(model).filter(|model| !model.is_empty()),
            permission_mode: None,
            version: self.service.version.clone(),
        });
        let mut events = Vec::new();
        let end = loop {
            let next = tokio::select! {
                biased;
                next = conversation.inbox.next() => next,
                // Nobody gets the results any more: the whole thread goes to another server.
                () = self.heartbeat.missed(), if session_event.is_some() => return CopilotTurnEnd::Vanished,
            };
            let received = conversation.inbox.bytes() - before;
            report.received(received);
            if received > 0 {
                report.begun();
            }
            let Some(event) = next else { break None };
            events.extend(session_event.take());
            let step = reader.push(event, &mut events);
            for request in reader.take_unfit() {
                give(
                    &conversation.service,
                    &wire::result(&conversation.id, &request, UNFIT, true),
                );
            }
            match step {
                CopilotTurnStep::More => report.tell(&mut events).await,
                step => {
                    if step == CopilotTurnStep::Failed {
                        // At once, since the request would be made again (NEW-CLIS 1.5).
                        conversation.service.abort(&conversation.id);
                    }
                    report.push(events);
                    break Some(step);
                }
            }
        };
        match end {
            Some(CopilotTurnStep::Reply) => {
                let has_repeated_ids = reader.has_repeated_ids;
                conversation.pending = reader.into_pending();
                let goes_on = !conversation.pending.is_empty() && !has_repeated_ids;
                CopilotTurnEnd::Reply {
                    // A session that waits for nothing is not kept: copilot would put a date before its next message.
                    session: self.conversation.take_if(|_| goes_on),
                    known: (),
                    diagnostics: Vec::new(),
                    stdout_tail: String::new(),
                }
            }
            Some(_) => CopilotTurnEnd::Failed,
            None if !conversation.service.host().is_over() => {
                report.fail(Failure::of("more came for this session than could be taken"))
            }
            // Nothing came back after the results: the server was gone by then.
            None if session_event.is_some() && !self.is_fresh => CopilotTurnEnd::Vanished,
            None => self.not_started(RequestError::Gone, report).await,
        }
    }

    /// The end of a turn that could not be begun.
    async fn not_started(&mut self, error: RequestError, report: &Report) -> CopilotTurnEnd {
        match error {
            RequestError::Refused(refused) => report.fail(Failure::of(refused.message)),
            RequestError::TooLong => report.fail(Failure::named(
                "line_too_long",
                "copilot answered with a message that is longer than can be taken",
            )),
            RequestError::Unanswered(unanswered) => {
                let reason = format!("copilot --headless hangs: {unanswered}");
                report.fail(Failure::named(GONE, reason))
            }
            RequestError::Gone => {
                let exit = self.service.host().ended(EXIT).await;
                let failure = Failure::named(GONE, "copilot --headless ended in the middle of a turn");
                report.host_gone(exit.as_deref(), failure)
            }
        }
    }
}

/// Sends a result; its answer tells nothing of the model.
fn give(service: &CopilotService, result: &Value) {
    drop(service.server.post("session.tools.handlePendingToolCall", result));
}

impl Work for CopilotSessionWork {
    type Session = CopilotConversation;
    type ReplyFacts = ();

    async fn turn(&mut self, report: &Report) -> CopilotTurnEnd {
        let had_served = self.service.host().has_served();
        let sent = match self.unsent.take() {
            Some(CopilotUnsent::Whole(thread, note)) => self.open(&thread, note.as_deref(), report).await,
            Some(CopilotUnsent::Results(results)) => match self.answer(results) {
                // The model was not asked anything yet: another session can take the turn.
                Err(_) => return CopilotTurnEnd::Vanished,
                sent => sent,
            },
            None => Err(RequestError::Gone),
        };
        match sent {
            Ok(()) => self.read(report).await,
            // The process has died since its last turn, or hangs, and got nothing of this one. A process that never was of use
            // would fail again.
            Err(RequestError::Gone | RequestError::Unanswered(_)) if had_served => CopilotTurnEnd::Vanished,
            Err(error) => self.not_started(error, report).await,
        }
    }

    async fn stop(mut self) -> Option<EndedProcess> {
        // Nobody waits for a server that may hang.
        if let Some(conversation) = self.conversation.take() {
            self.tracker.spawn(conversation.close());
        }
        None
    }

    fn end(self) {
        if let Some(conversation) = self.conversation {
            self.tracker.spawn(conversation.close());
        }
    }
}
