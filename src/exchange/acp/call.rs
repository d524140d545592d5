//! One call: a session of its own, one prompt, one answer.
//!
//! In: the prompt of the print form, or the session that it has become. Out: the pieces of the answer as they come, and at the
//! end the result that the process reports. Nothing of the session is used again.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::task::TaskTracker;

use super::choices::{self, AcpSession, Choice, SessionChoices, Way};
use super::server::{AcpServer, CallPermit, EXIT, EndedSession};
use super::wire::{self, Answered, Loaded, Update};
use crate::host::Inbox;
use crate::live::turn::{Report, TurnEnd};
use crate::rpc::message::RpcError;
use crate::rpc::{Answer, Answering, RequestError};
use crate::scratch::{self, SessionFiles};
use dfp_model::error::{Code, clip};
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::Usage;
use dfp_process::Exit;
use dfp_provider::choices::effort_option;
use dfp_provider::command::PrivateSession;
use dfp_provider::{AcpErrors, AcpUsage, WarmForm, WarmThread};
use dfp_text::decode::{api_status, failure_of, grok_failure};

/// The time that a cancelled prompt may take to end: 9 ms as a rule. A prompt that takes longer is stuck, and so may be its
/// process.
const CANCEL: Duration = Duration::from_secs(3);

/// The protocol's code for a user who has not logged in.
const AUTH_REQUIRED: i64 = -32_000;

/// The codes of JSON-RPC for a request that is not known or not understood.
const NOT_UNDERSTOOD: [i64; 3] = [-32_601, -32_602, -32_600];

/// The kind of a failure whose process has ended in the middle of the call.
pub const GONE: &str = "process_gone";

/// The kind of failure of an answer without the usage that the agent reports for every whole one.
const NO_USAGE: &str = "no_usage";

/// The end of a call's turn.
type CallEnd = TurnEnd<()>;

/// The surroundings in which a session is opened.
#[derive(Debug, Default)]
pub struct SessionPlace {
    /// The session's folder; `None` for that of the process.
    pub folder: Option<PathBuf>,
    /// The MCP servers with the session's tools.
    pub servers: Vec<Value>,
}

/// The work of one call.
#[derive(Debug)]
pub struct CallWork {
    server: Arc<AcpServer>,
    form: WarmForm,
    place: SessionPlace,
    prompt: Arc<str>,
    /// The thread as a session of the CLI's own.
    file: Option<Arc<PrivateSession>>,
    /// The choices for its session.
    chosen: SessionChoices,
    /// The files of that session, once they are written.
    files: Option<SessionFiles>,
    /// Tracks the tasks that the call leaves behind.
    tracker: TaskTracker,
    session: Option<String>,
    /// The pending answer to the prompt that was sent.
    pub(crate) asked: Option<Answering>,
    /// Held while a request of the call is under way.
    permit: Option<CallPermit>,
    /// The number of bytes of its answers.
    answered_bytes: u64,
    model: Option<String>,
    text: String,
    usage: Option<Usage>,
    /// True if the prompt has had earlier turns: then the usage in its answer is that of all of them.
    is_split: bool,
}

/// The result of a call whose CLI opens no sessions, for this reason: no prompt was sent.
fn unsupported(reason: impl Into<String>) -> CallEnd {
    CallEnd::Unsupported {
        reason: reason.into(),
        may_have_asked: false,
    }
}

impl CallWork {
    /// Makes the call of `prompt`, whose thread may be the session `file`, in a process of `form`.
    pub fn new(
        server: Arc<AcpServer>,
        form: WarmForm,
        prompt: Arc<str>,
        file: Option<Arc<PrivateSession>>,
    ) -> CallWork {
        CallWork {
            server,
            form,
            place: SessionPlace::default(),
            prompt,
            chosen: SessionChoices {
                model: file.as_ref().and_then(|file| file.model.clone()),
                effort: file.as_ref().and_then(|file| file.effort.clone()),
            },
            file,
            files: None,
            tracker: TaskTracker::new(),
            session: None,
            asked: None,
            permit: None,
            answered_bytes: 0,
            model: None,
            text: String::new(),
            usage: None,
            is_split: false,
        }
    }

    /// Adds a tracker for the tasks that the call leaves behind.
    pub fn tracked(self, tracker: &TaskTracker) -> CallWork {
        CallWork {
            tracker: tracker.clone(),
            ..self
        }
    }

    /// Adds the choices for the call's session.
    pub(crate) fn choosing(self, chosen: SessionChoices) -> CallWork {
        CallWork { chosen, ..self }
    }

    /// Sets the place in which the call's session is opened.
    pub(crate) fn placed(self, place: SessionPlace) -> CallWork {
        CallWork { place, ..self }
    }

    /// The process.
    pub(crate) fn server(&self) -> &Arc<AcpServer> {
        &self.server
    }

    /// The session's id, once it is open.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Opens a session, when it is this call's turn.
    pub(crate) async fn open(&mut self, report: &Report) -> Result<AcpSession, CallEnd> {
        let Some(_permit) = self.server.opening_permit().await else {
            return Err(CallEnd::Vanished);
        };
        self.permit = Some(self.server.call_permit().await);
        let server = Arc::clone(&self.server);
        let host = server.host();
        let answer = match self.file.clone() {
            None => {
                let folder = self.place.folder.as_deref().unwrap_or(host.folder());
                let opening = wire::session_new(folder, &self.place.servers);
                server.rpc.post("session/new", &opening)
            }
            Some(file) => match self.write(&file) {
                Ok(folder) => server.rpc.post("session/load", &wire::session_load(&file.id, &folder)),
                // The session's folder has gone with the process.
                Err(_) if host.is_over() && host.has_served() => return Err(CallEnd::Vanished),
                Err(error) => {
                    let reason = format!("the thread can't be written as a session: {error}");
                    return Err(self.fails(Failure::of(reason), report));
                }
            },
        };
        let answer = match server.rpc.answer(answer).await {
            Ok(answer) => answer,
            Err(RequestError::Refused(error)) if self.is_unserved(&error) => {
                return Err(unsupported(format!("it opens no session: {}", error.reason())));
            }
            Err(RequestError::Refused(error)) => return Err(self.failed(&error, report)),
            Err(RequestError::Gone) if !host.has_served() => {
                return Err(match host.ended(EXIT).await {
                    // A killed process says nothing about the program.
                    Some(exit) if exit.was_killed() => self.gone(report).await,
                    // A process that never was of use would not be the next time.
                    _ => unsupported("it ended instead of opening a session"),
                });
            }
            // A process that never was of use would hang again.
            Err(RequestError::Unanswered(unanswered)) if !host.has_served() => {
                let reason = format!("the CLI's process hangs: {unanswered}");
                return Err(self.fails(Failure::named(GONE, reason), report));
            }
            Err(RequestError::Gone | RequestError::Unanswered(_)) => return Err(CallEnd::Vanished),
            Err(RequestError::TooLong) => return Err(self.gone(report).await),
        };
        self.answered_bytes += answer.get().len() as u64;
        let session = match &self.file {
            None => serde_json::from_str(answer.get()).ok(),
            Some(file) => serde_json::from_str(answer.get())
                .ok()
                .map(|Loaded { models, config_options }| AcpSession {
                    session_id: file.id.clone(),
                    models,
                    config_options,
                }),
        };
        let Some(session) = session else {
            return Err(unsupported("it opened a session without an id"));
        };
        if server.rpc.has_inbox(&session.session_id) {
            return Err(unsupported("it opened a session that is there already"));
        }
        host.count_session();
        report.begun();
        // A session that is sent no prompt is closed as well.
        self.session = Some(session.session_id.clone());
        let session = self.choose(session, Choice::Model, report).await?;
        self.choose(session, Choice::Effort, report).await
    }

    /// Returns whether the refusal of a session with `error` means that the CLI can't do this at all.
    fn is_unserved(&self, error: &RpcError) -> bool {
        let is_ours = self.file.is_some();
        // If a session that we wrote is not found or not read, this version keeps its sessions elsewhere or in another shape.
        NOT_UNDERSTOOD.contains(&error.code) || is_ours && error.code != AUTH_REQUIRED
    }

    /// Makes a choice in `session`, and checks the agent's offer first: for a model that grok does not know, it takes another one
    /// without a word (1.0.41).
    async fn choose(
        &mut self,
        mut session: AcpSession,
        choice: Choice,
        report: &Report,
    ) -> Result<AcpSession, CallEnd> {
        let chosen = match choice {
            Choice::Model => self.chosen.model.clone(),
            Choice::Effort => self.chosen.effort.clone(),
        };
        let Some(chosen) = chosen else {
            return Ok(session);
        };
        let (method, params) = match choices::way(&session, choice, &chosen) {
            Way::Nothing => return Ok(session),
            // The agent reads the effort in the session's file, and is silent about one that its model has not (grok 1.0.41).
            Way::None(_, reason) if choice == Choice::Effort && !self.form.is_told_choices => {
                report.push([Event::Warning {
                    code: Code::UnsupportedOption.as_str().to_owned(),
                    message: format!("{} has no effect: {reason}", effort_option(&chosen)),
                }]);
                return Ok(session);
            }
            Way::None(kind, reason) => return Err(self.fails(Failure::named(kind, reason), report)),
            Way::Request(method, params) => (method, params),
        };
        match self.server.rpc.request(method, &params).await {
            Ok(answer) => {
                // Another model may offer other levels.
                if let Ok(Loaded { config_options, .. }) = serde_json::from_str(answer.get())
                    && config_options != choices::ConfigOptions::default()
                {
                    session.config_options = config_options;
                }
                if choice == Choice::Model {
                    session.models.current_model_id = Some(chosen);
                }
                Ok(session)
            }
            Err(RequestError::Refused(error)) => Err(self.failed(&error, report)),
            Err(_) => Err(CallEnd::Vanished),
        }
    }

    /// Writes the session `file` into the process's home, and returns the folder that it belongs to.
    fn write(&mut self, file: &PrivateSession) -> io::Result<PathBuf> {
        let folder = scratch::real_path(self.server.host().folder())?;
        let private = self.server.rpc.private_folder();
        let private = private.ok_or_else(|| io::Error::other("the process has no home of ours"))?;
        self.files = Some(SessionFiles::write(file, private, &folder)?);
        Ok(folder)
    }

    /// Sends the prompt to `session`, and returns the inbox for its updates.
    pub(crate) fn ask(&mut self, session: AcpSession, report: &Report) -> Inbox<Update> {
        let AcpSession { session_id, models, .. } = session;
        let inbox = self.server.rpc.inbox(&session_id);
        let prompt = match self.form.thread {
            WarmThread::Prompt => wire::session_prompt(&session_id, &std::mem::take(&mut self.prompt)),
            WarmThread::History { prompt } => {
                let schema = self.file.as_ref().and_then(|file| file.schema.as_deref());
                wire::verbatim_prompt(&session_id, prompt, schema)
            }
        };
        self.model = models.current().map(str::to_owned);
        self.begin(report);
        self.asked = Some(self.server.rpc.post("session/prompt", &prompt));
        inbox
    }

    /// Begins a turn in the session that is open.
    pub(crate) fn begin(&mut self, report: &Report) {
        self.usage = None;
        self.answered_bytes = 0;
        report.push([Event::Session {
            session_id: self.session.clone(),
            model: self.model.clone(),
            permission_mode: None,
            version: self.server.version().map(str::to_owned),
        }]);
    }

    /// Sends `prompt` to the session that is open.
    pub(crate) async fn say_to_it(&mut self, prompt: &str) {
        if let Some(session) = &self.session {
            self.permit = Some(self.server.call_permit().await);
            let prompt = wire::session_prompt(session, prompt);
            self.asked = Some(self.server.rpc.post("session/prompt", &prompt));
            self.is_split = false;
        }
    }

    /// Reads until the answer has come.
    pub(super) async fn read(&mut self, mut inbox: Inbox<Update>, report: &Report) -> CallEnd {
        let mut events = Vec::new();
        let answer = loop {
            let Some(answer) = &mut self.asked else {
                return CallEnd::Vanished;
            };
            let update = tokio::select! {
                biased;
                update = inbox.next() => update,
                answer = answer => break answer.unwrap_or(Err(RequestError::Gone)),
            };
            report.received(self.answered_bytes + inbox.bytes());
            match update {
                Some(update) => self.update(update, &mut events, report),
                None => return self.gone(report).await,
            }
            report.tell(&mut events).await;
        };
        // Updates that came before the answer belong to it.
        while let Some(update) = inbox.take() {
            self.update(update, &mut events, report);
        }
        report.push(events);
        self.asked = None;
        if let Ok(answer) = &answer {
            self.answered_bytes += answer.get().len() as u64;
        }
        report.received(self.answered_bytes + inbox.bytes());
        self.answered(answer, report).await
    }

    pub(crate) fn update(&mut self, update: Update, events: &mut Vec<Event>, report: &Report) {
        if update.acts && self.form.has_own_tools {
            report.acted();
        }
        if let Some(text) = update.text {
            self.text.push_str(&text);
            events.push(Event::TextDelta { message_id: None, text });
        }
        if let Some(text) = update.thought {
            events.push(Event::ThinkingDelta { message_id: None, text });
        }
        if matches!(self.form.usage, AcpUsage::Update | AcpUsage::Any) && update.usage.is_some() {
            self.usage = update.usage;
        }
    }

    /// The usage of the turn as far as it was told, for a turn that ends before its prompt.
    pub(crate) fn take_usage(&mut self) -> Option<Usage> {
        self.is_split = true;
        self.usage.take()
    }

    /// Ends the turn with the agent's answer to the prompt: its usage, and a reply if it stopped with `end_turn`. Any other stop
    /// reason is a failure, and so is a missing usage for an agent that reports one in every whole answer.
    pub(crate) async fn answered(&mut self, answer: Answer, report: &Report) -> CallEnd {
        let answer = match answer {
            Ok(answer) => answer,
            Err(RequestError::Refused(error)) => return self.failed(&error, report),
            Err(_) => return self.gone(report).await,
        };
        let answer: Answered = serde_json::from_str(answer.get()).unwrap_or_default();
        match self.form.usage {
            _ if self.is_split => {}
            AcpUsage::Quota => self.usage = answer.meta.usage(),
            AcpUsage::Update => {}
            AcpUsage::Meta => self.usage = answer.meta.counted(),
            AcpUsage::Any => {
                let told = answer.usage().or_else(|| answer.meta.usage());
                self.usage = told.or(self.usage.take());
            }
        }
        self.say(report);
        report.push(self.usage.clone().map(|usage| Event::Usage {
            usage,
            raw_stop_reason: answer.stop_reason.clone(),
        }));
        let outcome = Outcome {
            stop_reason: answer.stop_reason.clone(),
            usage: self.usage.clone(),
            num_turns: answer.meta.turns(),
            model: answer.meta.model().or_else(|| self.model.clone()),
            ..self.known()
        };
        // Nobody here has asked for that: the agent gave up.
        let refused = match answer.stop_reason.as_deref() {
            Some("cancelled") => Some(Failure::of("the CLI cancelled the call")),
            Some("refusal") => Some(Failure::named("refusal", "the agent refused to go on")),
            Some(kind @ ("max_tokens" | "max_turn_requests")) => {
                let why = "the agent reached a limit before its answer was whole";
                Some(Failure::named(kind, why))
            }
            // An agent whose connection broke off reports the part that it had as an answer.
            Some("end_turn") if self.form.usage == AcpUsage::Meta && !self.is_split && self.usage.is_none() => {
                let why = "the agent ended its answer without saying what it cost: the answer has broken off";
                Some(Failure::named(NO_USAGE, why))
            }
            Some("end_turn") => None,
            Some(reason) => Some(Failure::of(format!(
                "the agent ended its turn with {:?}",
                clip(reason, 60)
            ))),
            None => Some(Failure::of("the agent does not say how its turn ended")),
        };
        if let Some(failure) = refused {
            return report.fail_with(failure, outcome);
        }
        report.push([Event::Outcome(Box::new(outcome))]);
        CallEnd::reply(true, ())
    }

    /// Notes that no request is under way in its session for now.
    pub(crate) fn rest(&mut self) {
        self.permit = None;
        self.server.close_ended(&self.tracker);
    }

    /// Closes the session, and then removes its files.
    pub(crate) fn close(&mut self) {
        let permit = self.permit.take();
        match self.session.take() {
            Some(id) => {
                let files = self.files.take();
                let session = EndedSession { id, _files: files };
                self.server.end_session(session, permit, &self.tracker);
            }
            None => {
                drop(permit);
                self.server.close_ended(&self.tracker);
            }
        }
    }

    /// The facts that the outcome of any call has.
    pub(crate) fn known(&self) -> Outcome {
        Outcome {
            session_id: self.session.clone(),
            model: self.model.clone(),
            ..Outcome::default()
        }
    }

    /// Reports the whole message, of which the pieces were reported before.
    pub(crate) fn say(&mut self, report: &Report) {
        if !self.text.is_empty() {
            report.push([Event::Message {
                id: None,
                content: std::mem::take(&mut self.text),
            }]);
        }
    }

    fn failed(&mut self, error: &RpcError, report: &Report) -> CallEnd {
        self.fails(failure(self.form.errors, error), report)
    }

    fn fails(&mut self, failure: Failure, report: &Report) -> CallEnd {
        self.say(report);
        report.fail_with(failure, self.known())
    }

    /// Cancels the prompt that was sent, and waits for its end, so that no more requests go to an API.
    pub(crate) async fn cancel(&mut self) {
        let (Some(session), Some(answer)) = (&self.session, self.asked.take()) else {
            return;
        };
        let cancel = wire::session_cancel(session);
        self.server.rpc.notify("session/cancel", Some(&cancel));
        if tokio::time::timeout(CANCEL, answer).await.is_err() {
            self.server.host().retire();
        }
    }

    /// Ends the call when nothing more comes for it.
    pub(crate) async fn gone(&mut self, report: &Report) -> CallEnd {
        self.say(report);
        let host = self.server.host();
        if !host.is_over() {
            let failure = Failure::named(GONE, "more came for this call than could be taken");
            return report.host_gone(None, failure);
        }
        let exit = host.ended(EXIT).await.map(|exit| Exit {
            // If the process had other sessions, its standard error is about them as well.
            stderr: match host.sessions() {
                0 | 1 => exit.stderr.clone(),
                _ => String::new(),
            },
            ..(*exit).clone()
        });
        let failure = Failure::named(GONE, "the CLI's process ended in the middle of the call");
        report.host_gone(exit.as_ref(), failure)
    }
}

/// The failure that an error of the agent means.
fn failure(errors: AcpErrors, error: &RpcError) -> Failure {
    let failure = failure_of(error.reason());
    if error.code == AUTH_REQUIRED {
        return Failure {
            kind: failure.kind.or(Some("auth_required".to_owned())),
            // The rest of grok's message is for programs (1.0.41: "no auth method id provided").
            message: match error.message.is_empty() {
                true => failure.message,
                false => error.message.clone(),
            },
            ..failure
        };
    }
    // The shape of grok's errors, from an agent that is not grok's own provider.
    let is_told_in_data = error.data.get("message").is_some_and(Value::is_string);
    match errors {
        _ if is_told_in_data => grok_failure(&error.message, &error.data),
        AcpErrors::Details => failure,
        AcpErrors::Data => grok_failure(&error.message, &error.data),
        // 500 is also the code of the CLI's own failures: a stream that broke off is "terminated".
        AcpErrors::HttpStatus => Failure {
            http_status: failure
                .http_status
                .or(api_status(u16::try_from(error.code).ok().filter(|code| *code != 500))),
            ..failure
        },
    }
}

#[cfg(test)]
mod tests;
