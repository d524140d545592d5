//! One turn of a codex thread: opens the thread if there is none, sends the new part, and reads until the reply has come.
//!
//! In: a [`CodexTurnInput`]. Out: events, and the result of the turn. Giving the turn up stops it and forgets the thread; so does
//! every result but a reply, since codex keeps failed turns in its history (CODEX-LIVE pitfall 17). A new thread costs 10 to 17
//! ms.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::task::TaskTracker;

use super::conversation::CodexConversation;
use super::inbound::ThreadEvent;
use super::items;
use super::reader::{CodexTurnReader, CodexTurnStep};
use super::recall::Recalled;
use super::service::CodexService;
use super::settings::refused_setting;
use super::setup::Setup;
use super::wire::{CodexTurnStart, InjectItems, ThreadStart, ToolAnswer};
use crate::EndedProcess;
use crate::form::WorkParts;
use crate::host::Heartbeat;
use crate::live::keep::Keepable;
use crate::live::turn::{self, Report, Work};
use crate::rpc::message::RpcError;
use crate::rpc::{Answering, RequestError};
use dfp_model::event::{Event, Failure};

/// The time for which a stream may be silent if no option sets it: codex's own limit.
const SILENCE: Duration = Duration::from_secs(300);
/// The time after its own limit that codex takes to report it.
const SLACK: Duration = Duration::from_secs(1);
/// The time to wait for the exit of a process that has closed its output.
const EXIT: Duration = Duration::from_secs(10);
/// The failure of a turn whose process has ended.
const GONE: &str = "server_gone";
/// The answer to a call that no tool can take.
const UNFIT: &str = "Error: the arguments must be a JSON object";

/// The input of a turn, and its thread.
#[derive(Debug)]
pub enum CodexTurnInput {
    /// A history, for a thread that is to be opened.
    Fresh {
        service: Arc<CodexService>,
        items: Vec<Value>,
    },
    /// The new part, for a thread that knows the beginning.
    Continued {
        conversation: Box<CodexConversation>,
        /// The results of its calls, by the API's ids.
        results: Vec<(String, ToolAnswer)>,
        items: Vec<Value>,
    },
}

type CodexTurnEnd = turn::TurnEnd<CodexConversation, Recalled>;

/// The work of a turn.
#[derive(Debug)]
pub struct ThreadWork {
    service: Arc<CodexService>,
    setup: Arc<Setup>,
    /// The time for which nothing may come after a call.
    silence: Duration,
    /// The results with which the turn begins.
    results: Vec<(String, ToolAnswer)>,
    /// The items after the results, or those of the whole history.
    items: Vec<Value>,
    /// The thread, as soon as there is one.
    conversation: Option<Box<CodexConversation>>,
    /// True if the thread is opened for this turn.
    is_fresh: bool,
    /// The pending answer for a thread that is being opened.
    opened: Option<Answering>,
    /// The check whether the server answers, for messages that have no answer.
    heartbeat: Heartbeat,
    tracker: TaskTracker,
}

impl ThreadWork {
    /// Makes the work of the turn that begins with `opening`.
    pub fn new(opening: CodexTurnInput, parts: WorkParts<'_, Setup>) -> ThreadWork {
        let (service, conversation, results, items) = match opening {
            CodexTurnInput::Fresh { service, items } => (service, None, Vec::new(), items),
            CodexTurnInput::Continued {
                conversation,
                results,
                items,
            } => (Arc::clone(&conversation.service), Some(conversation), results, items),
        };
        ThreadWork {
            service,
            setup: parts.setup,
            silence: parts.limits.idle_timeout.unwrap_or(SILENCE) + SLACK,
            results,
            items,
            is_fresh: conversation.is_none(),
            conversation,
            opened: None,
            heartbeat: Heartbeat::default(),
            tracker: parts.tracker.clone(),
        }
    }

    /// Opens a thread, without the settings that an older codex does not take.
    async fn open(&mut self, report: &Report) -> Result<(), CodexTurnEnd> {
        let (service, setup) = (Arc::clone(&self.service), Arc::clone(&self.setup));
        let silence = self.silence;
        let namespace = setup.namespace();
        let mut settings = service.config.thread_settings(silence, namespace);
        for name in service.refused_settings() {
            settings.remove(&name);
        }
        let tools = setup.dynamic_tools();
        loop {
            let start = ThreadStart {
                cwd: &service.folder,
                approval_policy: "never",
                sandbox: "read-only",
                base_instructions: (!setup.own_instructions).then_some(""),
                developer_instructions: &setup.system,
                ephemeral: true,
                environments: [],
                experimental_raw_events: true,
                config: &settings,
                model: setup.model.as_deref(),
                model_provider: service.config.thread_provider(),
                dynamic_tools: &tools,
            };
            let answer = self.opened.insert(service.server.post("thread/start", &start));
            let answer = service.server.answer(answer).await;
            if !matches!(answer, Err(RequestError::Unanswered(_))) {
                self.opened = None;
            }
            match answer {
                Ok(answer) => return self.opened(&answer, report).await,
                Err(RequestError::Refused(refused)) => match refused_setting(&refused.message, &settings) {
                    Some(name) => {
                        settings.remove(&name);
                        service.remember_refused(name);
                    }
                    None => return Err(self.not_started(RequestError::Refused(refused), report).await),
                },
                // The process has died since its last turn, or hangs, and got nothing of this one. A process that never was of
                // use would fail again.
                Err(RequestError::Gone | RequestError::Unanswered(_)) if service.host().has_served() => {
                    return Err(CodexTurnEnd::Vanished);
                }
                Err(error) => return Err(self.not_started(error, report).await),
            }
        }
    }

    async fn opened(&mut self, answer: &RawValue, report: &Report) -> Result<(), CodexTurnEnd> {
        let Ok(opened) = serde_json::from_str::<CodexOpened>(answer.get()) else {
            let error = RpcError::of("codex opened a thread without an id");
            return Err(self.not_started(RequestError::Refused(error), report).await);
        };
        let service = Arc::clone(&self.service);
        service.host().count_session();
        report.begun();
        let (id, model) = (opened.thread.id, opened.model);
        if !opened.instruction_sources.is_empty() {
            let sources = opened.instruction_sources.join(", ");
            let message = format!("codex sends instructions of the user's with this thread: {sources}");
            report.push([Event::Warning {
                code: "INSTRUCTIONS_SENT".to_owned(),
                message,
            }]);
        }
        let tracker = self.tracker.clone();
        let conversation = CodexConversation::new(service, id, model, tracker);
        if conversation.inbox.is_second() {
            // The thread is sent nothing: it belongs to another call, and continues as it is.
            let error = RpcError::of("codex opened a thread with the id of one that is open");
            return Err(self.not_started(RequestError::Refused(error), report).await);
        }
        self.conversation = Some(Box::new(conversation));
        Ok(())
    }

    /// Injects `items` into an idle thread, and starts a turn. The two are sent one directly after the other, which loses nothing
    /// (CODEX-LIVE pitfall 10).
    async fn start_turn(&mut self) -> Result<(), RequestError> {
        let items = std::mem::take(&mut self.items);
        let Some(conversation) = &mut self.conversation else {
            return Err(RequestError::Gone);
        };
        conversation.is_starting = true;
        let (server, thread_id) = (&conversation.service.server, conversation.id.as_str());
        let injected = (!items.is_empty()).then(|| {
            let inject = InjectItems {
                thread_id,
                items: &items,
            };
            server.post("thread/inject_items", &inject)
        });
        let output_schema = self.setup.output.as_ref();
        let start = CodexTurnStart {
            thread_id,
            input: [],
            effort: self.setup.effort.as_deref(),
            output_schema,
        };
        let started = server.post("turn/start", &start);
        for answer in injected.into_iter().chain([started]) {
            server.answer(answer).await?;
        }
        Ok(())
    }

    /// Sends the new part to a thread that waits.
    async fn continue_turn(&mut self) -> Result<(), RequestError> {
        if self.results.is_empty() {
            return self.start_turn().await;
        }
        let (results, items) = (std::mem::take(&mut self.results), std::mem::take(&mut self.items));
        let Some(conversation) = &mut self.conversation else {
            return Err(RequestError::Gone);
        };
        let service = Arc::clone(&conversation.service);
        if service.host().is_over() {
            return Err(RequestError::Gone);
        }
        if items.is_empty() {
            // Results have no answer.
            self.heartbeat = service.heartbeat();
        } else {
            // Sent directly before the results, most of the items would miss the request (CODEX-LIVE pitfall 10).
            let inject = InjectItems {
                thread_id: &conversation.id,
                items: &items,
            };
            service.server.request("thread/inject_items", &inject).await?;
        }
        for (call, answer) in results {
            conversation.answer(&call, answer);
        }
        Ok(())
    }

    /// Reads until the reply has come.
    async fn read(&mut self, report: &Report) -> CodexTurnEnd {
        let setup = Arc::clone(&self.setup);
        let Some(conversation) = self.conversation.as_mut() else {
            return CodexTurnEnd::Vanished;
        };
        let (session, model) = (conversation.id.clone(), conversation.model.clone());
        let mut reader = CodexTurnReader::new(&setup.tools, &session, &model, conversation.turn.clone());
        let before = conversation.inbox.bytes();
        let mut session_event = Some(Event::Session {
            session_id: Some(session.clone()),
            model: Some(model.clone()).filter(|model| !model.is_empty()),
            permission_mode: None,
            version: self.service.version.clone(),
        });
        let mut events = Vec::new();
        let end = loop {
            let next = conversation.inbox.next();
            let next = async {
                match reader.waits_behind_call() {
                    false => Ok(next.await),
                    true => tokio::time::timeout(self.silence, next).await,
                }
            };
            let next = tokio::select! {
                biased;
                next = next => next,
                // Nobody gets the results any more: the whole thread goes to another server.
                () = self.heartbeat.missed(), if session_event.is_some() => return CodexTurnEnd::Vanished,
            };
            let received = conversation.inbox.bytes() - before;
            report.received(received);
            if received > 0 {
                report.begun();
            }
            events.extend(session_event.take_if(|_| matches!(next, Ok(Some(_)))));
            let limits = conversation.service.server.protocol().limits();
            let step = match next {
                Ok(Some(ThreadEvent::ToolCall { request, call })) => {
                    conversation.asked(call, request);
                    CodexTurnStep::More
                }
                Ok(Some(event)) => reader.push(event, &limits, &mut events),
                Ok(None) => break None,
                Err(_) => reader.silent(&limits, &mut events),
            };
            conversation.turn.clone_from(&reader.turn);
            conversation.is_starting &= reader.turn.is_none() && step == CodexTurnStep::More;
            for call in reader.take_unfit() {
                conversation.answer(&call, items::answer_of(UNFIT));
            }
            if step != CodexTurnStep::More {
                report.push(events);
                break Some(step);
            }
            report.tell(&mut events).await;
        };
        match end {
            Some(CodexTurnStep::Reply) => {
                let (items, callers) = reader.into_items();
                CodexTurnEnd::Reply {
                    session: self.conversation.take(),
                    known: Recalled::new(items, callers),
                    diagnostics: Vec::new(),
                    stdout_tail: String::new(),
                }
            }
            Some(_) => CodexTurnEnd::Failed,
            None if !conversation.service.host().is_over() => {
                report.fail(Failure::of("more came for this thread than could be taken"))
            }
            // Nothing came back after the input, not even for the results, which codex reports at once: it was gone by then.
            None if session_event.is_some() && !self.is_fresh => CodexTurnEnd::Vanished,
            None => self.not_started(RequestError::Gone, report).await,
        }
    }

    /// Returns whether a server that failed in this way has got nothing of the turn, and another one may do better.
    fn may_try_another(&self, error: &RequestError) -> bool {
        // A server that never was of use would fail again.
        matches!(error, RequestError::Unanswered(_)) && self.service.host().sessions() > 1
    }

    /// The end of a turn that could not be begun.
    async fn not_started(&mut self, error: RequestError, report: &Report) -> CodexTurnEnd {
        match error {
            RequestError::Refused(refused) => report.fail(Failure::of(refused.message)),
            RequestError::TooLong => report.fail(Failure::named(
                "line_too_long",
                "codex answered with a line that is longer than can be taken",
            )),
            RequestError::Unanswered(unanswered) => {
                let reason = format!("codex app-server hangs: {unanswered}");
                report.fail(Failure::named(GONE, reason))
            }
            RequestError::Gone => {
                let exit = self.service.host().ended(EXIT).await;
                let failure = Failure::named(GONE, "codex app-server ended in the middle of a turn");
                report.host_gone(exit.as_deref(), failure)
            }
        }
    }
}

impl Work for ThreadWork {
    type Session = CodexConversation;
    type ReplyFacts = Recalled;

    async fn turn(&mut self, report: &Report) -> CodexTurnEnd {
        let sent = match self.is_fresh {
            true => match self.open(report).await {
                Ok(()) => self.start_turn().await,
                Err(end) => return end,
            },
            false => match self.continue_turn().await {
                // The model was not asked anything yet: another thread can take the turn.
                Err(_) => return CodexTurnEnd::Vanished,
                sent => sent,
            },
        };
        match sent {
            Ok(()) => self.read(report).await,
            Err(error) if self.may_try_another(&error) => CodexTurnEnd::Vanished,
            Err(error) => {
                if let Some(conversation) = &mut self.conversation {
                    conversation.is_starting &= matches!(error, RequestError::Unanswered(_));
                }
                self.not_started(error, report).await
            }
        }
    }

    async fn stop(mut self) -> Option<EndedProcess> {
        if let Some(conversation) = self.conversation.take() {
            conversation.close().await;
        }
        self.end();
        None
    }

    fn end(self) {
        if let Some(conversation) = self.conversation {
            conversation.end();
        }
        if let Some(answer) = self.opened {
            // The thread is opened for nobody. This wait must not keep the server alive.
            let service = Arc::downgrade(&self.service);
            self.tracker.spawn(async move {
                if let Ok(Ok(answer)) = answer.await
                    && let Ok(opened) = serde_json::from_str::<CodexOpened>(answer.get())
                    && let Some(service) = service.upgrade()
                {
                    service.unsubscribe(&opened.thread.id);
                }
            });
        }
    }
}

/// The answer to `thread/start`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodexOpened {
    thread: OpenedThread,
    #[serde(default)]
    model: String,
    #[serde(default)]
    instruction_sources: Vec<String>,
}

#[derive(Deserialize)]
struct OpenedThread {
    id: String,
}
