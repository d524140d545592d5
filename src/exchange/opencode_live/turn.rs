//! One session of opencode, between its turns and in them.
//!
//! One turn opens the session if there is none, sends the new part, and reads until the answer has come. In: an [`OpencodeInput`]. Out:
//! events, and the end of the turn. Giving the turn up aborts it and forgets the session; so does every end but a reply, since opencode
//! keeps failed turns in its history (OTHER-LIVE 1.7). The next call then replays the thread, which costs 20 ms.
//!
//! A resting session holds nothing open: its calls are in the history as rejected ones, and their results are written over them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::history::{self, ReplayTarget};
use super::inbound::{OpencodeAnswer, ServerEvent};
use super::reader::{OpencodeOpenCall, OpencodeTurnReader, OpencodeTurnStep};
use super::server::{self, AGENT, AnswerFormat, HttpFailure, Id, InputPart, OpencodeCallResult, Prompt, SessionOpened};
use super::service::OpencodeService;
use super::{Model, Opencode, OpencodeSetup, ToolSet};
use crate::EndedProcess;
use crate::form::InServer;
use crate::host::{Heartbeat, Inbox};
use crate::live::session::{EXIT, GONE, Incoming, Pulse, Session, SessionProcess, TurnInput, opening};
use crate::live::thread::SessionThread;
use crate::live::turn::{Report, TurnEnd};
use dfp_model::error::{Code, clip};
use dfp_model::event::{Event, Failure};
use dfp_model::message::{Message, Role};
use dfp_provider::choices::effort_option;

/// The time that an aborted turn may take to end, and the server to forget its session, together: 15 to 50 ms were measured. The
/// caller of the turn waits so long at most.
const ABORT: Duration = Duration::from_secs(2);
/// The interval at which the abort is repeated: an abort before the turn has begun has no effect.
const AGAIN: Duration = Duration::from_millis(100);

/// A message that was sent, and its answer.
pub type PromptTask = JoinHandle<Result<Bytes, HttpFailure>>;

/// A session of a server.
#[derive(Debug)]
pub struct OpencodeConversation {
    /// The server in which the session lives.
    pub service: Arc<OpencodeService>,
    /// The session's folder, and the tools in it.
    pub set: Arc<ToolSet>,
    pub id: Id,
    /// The model that answers.
    pub model: Option<Model>,
    /// The server's events on the session.
    pub inbox: Inbox<ServerEvent>,
    /// The calls for whose results it waits.
    pub calls: Vec<OpencodeOpenCall>,
    /// The message that is being answered.
    pub asking: Option<PromptTask>,
    tracker: TaskTracker,
}

impl OpencodeConversation {
    /// Makes the session `id` of `service`, in the folder of `set`.
    pub fn new(
        service: Arc<OpencodeService>,
        set: Arc<ToolSet>,
        id: Id,
        model: Option<Model>,
        tracker: TaskTracker,
    ) -> OpencodeConversation {
        OpencodeConversation {
            inbox: service.server.inbox(id.as_str()),
            service,
            set,
            id,
            model,
            calls: Vec::new(),
            asking: None,
            tracker,
        }
    }

    /// `path` with the session's folder as its instance.
    pub fn path(&self, path: &str) -> String {
        server::of_directory(path, &self.set.directory)
    }

    /// Sends a message; its answer, of at most `most` bytes, comes when the turn is over, whoever waits for it.
    pub fn ask(&mut self, body: Vec<u8>, most: usize) {
        // Waiting for an answer does not keep the server alive.
        let http = self.service.server.http.clone();
        let path = self.path(&server::messages(&self.id));
        self.asking = Some(
            self.tracker
                .spawn(async move { http.ask_up_to(most, Method::POST, &path, Some(body.into())).await }),
        );
    }

    /// Rejects the request for permission `request`, in the background.
    pub fn reject(&self, request: &Id) {
        let http = self.service.server.http.clone();
        let path = self.path(&server::permission(request));
        self.tracker.spawn(async move {
            // A request that was rejected together with another one does not exist any more.
            let _ = http.send(Method::POST, &path, &server::reject()).await;
        });
    }

    /// Aborts the turn, and returns whether it has ended in time. A server that takes too long gets no new calls, and the abort
    /// is repeated as long as it lives; the sessions of others in it continue.
    pub async fn abort(&mut self) -> bool {
        let Some(mut asking) = self.asking.take() else {
            return true;
        };
        let host = self.service.host();
        if host.is_over() {
            asking.abort();
            return true;
        }
        let (http, path) = (self.service.server.http.clone(), self.path(&server::abort(&self.id)));
        let over = host.over().clone();
        let mut aborted = Box::pin(async move {
            loop {
                let asked = async {
                    // A server that is gone does not answer this, nor the message.
                    let _ = http.ask(Method::POST, &path, None).await;
                    tokio::time::timeout(AGAIN, &mut asking).await.is_ok()
                };
                match over.run_until_cancelled(asked).await {
                    Some(false) => {}
                    Some(true) => return,
                    None => return asking.abort(),
                }
            }
        });
        let is_in_time = tokio::time::timeout(ABORT, &mut aborted).await.is_ok();
        if !is_in_time {
            host.retire();
            self.tracker.spawn(aborted);
        }
        is_in_time
    }
}

impl OpencodeConversation {
    /// Stops the turn in progress, if there is one, and makes the server forget the session.
    pub async fn close(mut self) {
        let began = Instant::now();
        let is_in_time = self.abort().await;
        let host = self.service.host();
        if host.is_over() {
            return;
        }
        let path = self.path(&server::session(&self.id));
        let (http, over) = (self.service.server.http.clone(), host.over().clone());
        let mut forgotten = Box::pin(async move {
            // If it does not, that costs only memory.
            let forgotten = http.ask(Method::DELETE, &path, None);
            let _ = over.run_until_cancelled(forgotten).await;
        });
        let patience = match is_in_time {
            true => ABORT.saturating_sub(began.elapsed()),
            // Nobody waits a second time for a server that may hang.
            false => Duration::ZERO,
        };
        if tokio::time::timeout(patience, &mut forgotten).await.is_err() {
            self.tracker.spawn(forgotten);
        }
    }
}

/// The time by which the stream may report the end of a turn later than its answer: some milliseconds were measured.
const LATE: Duration = Duration::from_secs(5);
/// The failure of a message that opencode itself refuses: the cause is only in opencode's log.
const REFUSED: &str = "refused_message";
/// The failure of a turn whose answer has more bytes than allowed.
const TOO_LONG: &str = "answer_too_long";
/// The failure of a turn for which there is no session.
const NO_SESSION: &str = "no_session";

/// The input of a turn.
#[derive(Debug)]
pub enum OpencodeInput {
    /// A thread, for a session that is to be opened, and text that is said after the thread and is no part of it.
    Whole(Arc<SessionThread>, Option<String>),
    /// The results of calls, by the API's ids, and the messages after them.
    New(Vec<(String, OpencodeCallResult)>, Vec<Vec<InputPart>>),
}

/// A session of an opencode server.
#[derive(Debug)]
pub struct OpencodeSession {
    place: InServer<Opencode>,
    /// The server's side of it, as soon as there is one.
    conversation: Option<OpencodeConversation>,
}

/// The reason why a session did not take a message.
enum NotSent {
    /// The session is gone: the model was not asked anything.
    Vanished,
    Failed(HttpFailure),
}

impl OpencodeSession {
    /// Makes a session that its first turn opens.
    pub fn new(place: InServer<Opencode>) -> OpencodeSession {
        OpencodeSession {
            place,
            conversation: None,
        }
    }

    /// Opens a session for `thread`, and returns the messages that are still to be sent to it: the user's last ones, and `note`.
    async fn open(
        &mut self,
        thread: &SessionThread,
        note: Option<String>,
        report: &Report,
    ) -> Result<Vec<Vec<InputPart>>, HttpFailure> {
        let (service, setup) = (Arc::clone(&self.place.server), Arc::clone(&self.place.setup));
        let set = service.tool_set(&setup.tools).await?;
        let model = service.model(setup.model.as_ref(), &set.directory).await;
        let all = thread.messages();
        // The last one is asked; what is before it is history.
        let is_asked = |message: &Message| !matches!(message.role, Role::Ai | Role::Tool);
        let (past, last) = match all.split_last() {
            Some((last, past)) if is_asked(last) => (past, history::user_parts(last)),
            _ => (all, Vec::new()),
        };
        let id = match (past, &model) {
            ([], _) => {
                let path = server::of_directory("/session", &set.directory);
                let opened = service.server.send(Method::POST, &path, &server::new_session()).await?;
                serde_json::from_slice::<SessionOpened>(&opened)
                    .ok()
                    .map(|opened| opened.id)
            }
            (_, None) => return Err(HttpFailure::Refused(500, "no model is configured".to_owned())),
            (past, Some(model)) => {
                let place = ReplayTarget {
                    directory: &set.directory,
                    version: &service.version,
                    model,
                    tools: &setup.tools,
                    ids: &service.ids,
                };
                let (body, session) = history::replay(past, &place);
                let path = server::of_directory("/sync/replay", &set.directory);
                service.server.send(Method::POST, &path, &body).await?;
                Id::new(&session)
            }
        };
        let id = id.ok_or_else(|| HttpFailure::Unfit("opencode opened a session without an id".to_owned()))?;
        service.host().count_session();
        report.begun();
        self.conversation = Some(OpencodeConversation::new(
            service,
            set,
            id,
            model,
            self.place.tracker.clone(),
        ));
        Ok(with_note(vec![last], note))
    }

    /// Sends `messages` to the session, the last of which is answered.
    async fn say(&mut self, messages: &[Vec<InputPart>]) -> Result<(), NotSent> {
        let Some(session) = &mut self.conversation else {
            return Err(NotSent::Vanished);
        };
        let (last, before) = messages
            .split_last()
            .map_or((&[][..], &[][..]), |(last, before)| (last, before));
        for parts in before.iter().filter(|parts| !parts.is_empty()) {
            let prompt = prompt(&self.place.setup, session, parts, true);
            let path = session.path(&server::messages(&session.id));
            let added = session.service.server.send(Method::POST, &path, &prompt).await;
            added.map_err(|_| NotSent::Vanished)?;
        }
        let body = serde_json::to_vec(&prompt(&self.place.setup, session, last, false));
        let body = body.map_err(|error| NotSent::Failed(HttpFailure::Lost(error.to_string())))?;
        session.ask(body, self.place.limits.max_stdout);
        Ok(())
    }

    /// Sends the input of a turn. The heartbeat watches a turn that is answered only at its end.
    async fn send(&mut self, input: OpencodeInput, report: &Report) -> Result<Heartbeat, NotSent> {
        match input {
            OpencodeInput::Whole(thread, note) => {
                let messages = self.open(&thread, note, report).await.map_err(NotSent::Failed)?;
                self.say(&messages).await?;
                Ok(Heartbeat::default())
            }
            OpencodeInput::New(results, messages) => {
                let session = self.conversation.as_mut().ok_or(NotSent::Vanished)?;
                let heartbeat = session.service.heartbeat();
                // The model was not asked anything yet: another session can take the turn.
                let written = write_results(session, results).await;
                written.map_err(|_| NotSent::Vanished)?;
                self.say(&messages).await?;
                Ok(heartbeat)
            }
        }
    }

    /// Reads until the answer has come.
    async fn read(&mut self, is_fresh: bool, heartbeat: Heartbeat, report: &Report) -> TurnEnd<()> {
        let Some(session) = &mut self.conversation else {
            return TurnEnd::Vanished;
        };
        let id = session.id.as_str().to_owned();
        let mut reader = OpencodeTurnReader::new(&self.place.setup.tools, &id);
        let model = session.model.as_ref().map(ToString::to_string).unwrap_or_default();
        let opening = opening(&id, &model, Some(&self.place.server.version));
        let mut incoming = Incoming::new(report, &session.inbox, heartbeat, opening);
        let mut answer = None;
        let mut latest: Option<Instant> = None;
        let mut is_idle = false;
        // The stream reports the end of a turn, too: events before that belong to the reply.
        while answer.is_none() || !is_idle {
            // If this is given up, the running request must be in the session, to be aborted.
            let OpencodeConversation { inbox, asking, .. } = &mut *session;
            let done = async {
                match asking {
                    Some(asking) => asking
                        .await
                        .unwrap_or_else(|error| Err(HttpFailure::Lost(error.to_string()))),
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                next = incoming.wait(inbox) => next,
                done = done => {
                    answer = Some(done);
                    session.asking = None;
                    latest = Some(Instant::now() + LATE);
                    is_idle |= !matches!(answer, Some(Ok(_)));
                    continue;
                }
                () = sleep_until(latest.unwrap_or_else(Instant::now)), if latest.is_some() => break,
            };
            let Some(event) = next else { break };
            let step = reader.push(event, &mut incoming.events);
            // Events before the turn may be the last ones of the turn before.
            if reader.has_begun() || !incoming.events.is_empty() {
                incoming.begun(&session.inbox);
            }
            match step {
                OpencodeTurnStep::More => {}
                OpencodeTurnStep::Reject(request) => session.reject(&request),
                // Before the turn begins, this is the end of the turn before.
                OpencodeTurnStep::Idle => is_idle = reader.has_begun() || answer.is_some(),
                OpencodeTurnStep::Abort => {
                    incoming.push();
                    return TurnEnd::Failed;
                }
            }
            if !incoming.events.is_empty() {
                incoming.tell().await;
            }
        }
        // Nothing came back: the whole thread goes to another server.
        let may_try_another = incoming.is_untouched() && !is_fresh;
        let body = match answer {
            _ if incoming.hangs() => return TurnEnd::Vanished,
            Some(Ok(body)) => body,
            // The process has died since its last turn, and told nothing of this one.
            Some(Err(HttpFailure::Lost(_))) if may_try_another && self.place.server.server.has_ended().await => {
                return TurnEnd::Vanished;
            }
            Some(Err(failure)) => return self.no_session(failure, report).await,
            // The process is gone, or more came than could be taken.
            None if self.place.server.host().is_over() && may_try_another => return TurnEnd::Vanished,
            None if self.place.server.host().is_over() => return self.gone(report).await,
            None => {
                let reason = "more came for this session than could be taken";
                return report.fail(Failure::named(NO_SESSION, reason));
            }
        };
        let Some(answer) = OpencodeAnswer::read(&body) else {
            let reason = "opencode's answer to the message can't be read";
            return report.fail(Failure::named(NO_SESSION, reason));
        };
        incoming.begun(&session.inbox);
        let open = reader.finish(answer, &mut incoming.events);
        incoming.push();
        match open {
            Some(open) => {
                session.calls = open.calls;
                TurnEnd::reply(!open.has_lost, ())
            }
            None => TurnEnd::Failed,
        }
    }

    /// The end of a turn for which there is no session, or whose message was not taken.
    async fn no_session(&self, failure: HttpFailure, report: &Report) -> TurnEnd<()> {
        match failure {
            HttpFailure::Lost(reason) => match self.place.server.server.has_ended().await {
                // The process has died since its last turn, and got nothing of this one. A process that never was of use would
                // die again.
                true if self.conversation.is_none() && self.place.server.host().has_served() => TurnEnd::Vanished,
                true => self.gone(report).await,
                false => report.fail(Failure::named(NO_SESSION, reason)),
            },
            HttpFailure::Unfit(reason) => report.fail(Failure::named(NO_SESSION, reason)),
            // A process that never was of use would hang again.
            HttpFailure::Unanswered(_) if self.conversation.is_none() && self.place.server.host().has_served() => {
                TurnEnd::Vanished
            }
            HttpFailure::Unanswered(unanswered) => {
                report.fail(Failure::named(GONE, format!("opencode serve hangs: {unanswered}")))
            }
            HttpFailure::TooLong(most) => {
                let reason = format!("the answer has more than {most} bytes, the limit of the option `maxBuffer`");
                report.fail(Failure::named(TOO_LONG, reason))
            }
            HttpFailure::Refused(status, body) => {
                let start: String = body.chars().take(500).collect();
                let reason = format!("opencode refused the message with status {status}: {start}");
                report.fail(Failure::named(REFUSED, reason))
            }
        }
    }

    /// The warning that the model has no variant of the chosen name: opencode ignores that in silence (1.18.34).
    async fn missing_variant(&self) -> Option<Event> {
        let (session, variant) = (self.conversation.as_ref()?, self.place.setup.variant.as_ref()?);
        let model = session.model.as_ref()?;
        // If the server can't be asked, the turn itself will report that; of a model that is not named, nothing is known.
        let facts = self.place.server.facts(model, &session.set.directory).await.ok()??;
        let option = effort_option(variant);
        (!facts.variants.contains(variant)).then(|| Event::Warning {
            code: Code::UnsupportedOption.as_str().to_owned(),
            message: match facts.variants.as_slice() {
                [] => format!("{option} has no effect: opencode's model {model} has no variants"),
                known => format!(
                    "{option} has no effect: opencode's model {model} has no variant \"{variant}\"; it has: {}",
                    clip(&known.join(", "), 300)
                ),
            },
        })
    }

    async fn gone(&self, report: &Report) -> TurnEnd<()> {
        let exit = self.place.server.host().ended(EXIT).await;
        if let Some(fault) = self.place.server.server.fault() {
            return report.fail(Failure::named(GONE, fault));
        }
        let failure = Failure::named(GONE, "opencode serve ended in the middle of a turn");
        report.host_gone(exit.as_deref(), failure)
    }
}

impl Session for OpencodeSession {
    type Setup = OpencodeSetup;
    type Input = OpencodeInput;
    type ReplyFacts = ();

    fn process(&self) -> Option<SessionProcess<'_>> {
        self.place.process()
    }

    async fn turn(&mut self, turn: TurnInput<OpencodeSession>, report: &Report) -> TurnEnd<()> {
        let is_fresh = self.conversation.is_none();
        match self.send(turn.input, report).await {
            Ok(heartbeat) => {
                report.push(self.missing_variant().await);
                self.read(is_fresh, heartbeat, report).await
            }
            Err(NotSent::Vanished) if !is_fresh => TurnEnd::Vanished,
            Err(NotSent::Vanished) => {
                let lost = HttpFailure::Lost("the session is gone".to_owned());
                self.no_session(lost, report).await
            }
            Err(NotSent::Failed(failure)) => self.no_session(failure, report).await,
        }
    }

    async fn idle(&mut self) -> Pulse {
        let Some(session) = &mut self.conversation else {
            return Pulse::Ended;
        };
        let goes_on = |event: &ServerEvent| !matches!(event, ServerEvent::Gone);
        session.inbox.rest(session.service.host(), goes_on).await
    }

    async fn ended(self, _: bool) -> Option<EndedProcess> {
        self.conversation?.close().await;
        None
    }

    async fn blind_model(&self) -> Option<String> {
        let service = &self.place.server;
        let (model, set) = match &self.conversation {
            Some(session) => (session.model.clone()?, Arc::clone(&session.set)),
            None => {
                let set = service.tool_set(&self.place.setup.tools).await.ok()?;
                (
                    service.model(self.place.setup.model.as_ref(), &set.directory).await?,
                    set,
                )
            }
        };
        // If the server can't be asked, the turn itself will report that.
        let facts = service.facts(&model, &set.directory).await.ok()?;
        (!facts.is_some_and(|facts| facts.takes_images))
            .then(|| format!("opencode's model {model} (by its `modalities.input`)"))
    }
}

fn prompt<'a>(
    setup: &'a OpencodeSetup,
    session: &'a OpencodeConversation,
    parts: &'a [InputPart],
    no_reply: bool,
) -> Prompt<'a> {
    let schema = setup.schema.as_deref().filter(|_| !no_reply);
    let schema = schema.and_then(|schema| serde_json::from_str(schema).ok());
    Prompt {
        agent: AGENT,
        model: session.model.as_ref(),
        variant: setup.variant.as_deref(),
        format: schema.map(|schema| AnswerFormat::JsonSchema { schema }),
        system: &setup.system,
        no_reply,
        parts,
    }
}

/// Adds `note` to the last of `messages`.
pub fn with_note(mut messages: Vec<Vec<InputPart>>, note: Option<String>) -> Vec<Vec<InputPart>> {
    if let Some(text) = note {
        match messages.last_mut() {
            Some(last) => last.push(InputPart::Text { text }),
            None => messages.push(vec![InputPart::Text { text }]),
        }
    }
    messages
}

/// Writes the results over the calls that were rejected.
async fn write_results(
    session: &mut OpencodeConversation,
    results: Vec<(String, OpencodeCallResult)>,
) -> Result<(), HttpFailure> {
    let calls = std::mem::take(&mut session.calls);
    for (id, result) in results {
        let Some(call) = calls.iter().find(|call| call.id == id) else {
            return Err(HttpFailure::Lost("no call has this id".to_owned()));
        };
        let (of, message, ids) = (session.id.as_str(), call.message.as_str(), &session.service.ids);
        let state = result.state(&call.input, |file| history::attachment(file, of, message, ids));
        let body = json!({
            "type": "tool", "tool": call.tool, "callID": call.api_id, "state": state,
            "id": call.part, "sessionID": session.id, "messageID": call.message,
        });
        let path = session.path(&server::part(&session.id, &call.message, &call.part));
        session.service.server.send(Method::PATCH, &path, &body).await?;
    }
    Ok(())
}
