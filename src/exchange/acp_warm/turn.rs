//! One call as an exchange: a session of its own, one prompt, one answer.
//!
//! In: the prompt of the print form. Out: the pieces of the answer as they come, and at the end what the process says of it. Nothing of
//! the session is used again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::server::{AcpServer, Inbox, OpeningPermit, ServerMessage};
use super::wire::{self, Answered, RpcError, Session, Update};
use crate::decode::{api_status, failure_of};
use crate::event::{Event, Failure, Outcome};
use crate::exchange::{Ended, EndedProcess, Evidence, Exchange, Finish, Invocation, Progress, StopReason};
use crate::judge::TurnEvidence;
use crate::message::Usage;
use crate::process::{Exit, Limits};
use crate::provider::{AcpErrors, AcpUsage, WarmForm};

/// How long a prompt that was cancelled may take to end: 9 ms as a rule. What takes longer is stuck, and so may be its process.
const CANCEL: Duration = Duration::from_secs(3);

/// What the protocol calls it that the user has not logged in.
const AUTH_REQUIRED: i64 = -32_000;

/// The codes of JSON-RPC that say that a request is not known or not understood.
const NOT_UNDERSTOOD: [i64; 3] = [-32_601, -32_602, -32_600];

/// The kind of a failure whose process has ended in the middle of the call.
pub const GONE: &str = "process_gone";

/// Why a call came to nothing that is no failure of its own: no prompt was sent.
#[derive(Debug)]
pub enum Unusable {
    /// The process had ended, of which nobody knew.
    Vanished,
    /// It opens no sessions, for this reason.
    Unsupported(String),
}

/// A call under way.
pub struct WarmTurn {
    server: Arc<AcpServer>,
    form: WarmForm,
    prompt: String,
    inbox: Inbox,
    phase: Phase,
    /// Held while its session is being opened.
    opens: Option<OpeningPermit>,
    session: Option<String>,
    model: Option<String>,
    text: String,
    usage: Option<Usage>,
    reason: Option<StopReason>,
    began: Instant,
    invocation: Invocation,
    limits: Limits,
}

/// How far it is.
enum Phase {
    /// Another session is being opened.
    Queued,
    /// The session is being opened, by this request.
    Opening(u64),
    /// The prompt was sent, with this request.
    Asked(u64),
    /// The answer, or an error, is there.
    Over,
    /// Nothing more will come.
    Gone,
    /// It can't be used.
    Unusable(Unusable),
}

impl WarmTurn {
    /// Begins a call of `prompt` in a process of `form`.
    pub fn begin(
        server: Arc<AcpServer>,
        form: WarmForm,
        prompt: String,
        (invocation, limits): (Invocation, Limits),
    ) -> WarmTurn {
        let inbox = server.inbox();
        WarmTurn {
            server,
            form,
            prompt,
            inbox,
            phase: Phase::Queued,
            opens: None,
            session: None,
            model: None,
            text: String::new(),
            usage: None,
            reason: None,
            began: Instant::now(),
            invocation,
            limits,
        }
    }

    fn opened(&mut self, result: Result<Box<RawValue>, RpcError>, events: &mut Vec<Event>) -> Phase {
        self.opens = None;
        let answer = match result {
            Ok(answer) => answer,
            Err(error) if NOT_UNDERSTOOD.contains(&error.code) => {
                return Phase::Unusable(Unusable::Unsupported(format!(
                    "it opens no session: {}",
                    error.reason()
                )));
            }
            Err(error) => return self.failed(&error, events),
        };
        let Ok(session) = serde_json::from_str::<Session>(answer.get()) else {
            return Phase::Unusable(Unusable::Unsupported("it opened a session without an id".to_owned()));
        };
        self.server.count_session();
        self.server.listen(&mut self.inbox, &session.session_id);
        let prompt = wire::session_prompt(&session.session_id, &std::mem::take(&mut self.prompt));
        let asked = self.server.ask(&mut self.inbox, "session/prompt", &prompt);
        self.model = session.models.current().map(str::to_owned);
        events.push(Event::Session {
            session_id: Some(session.session_id.clone()),
            model: self.model.clone(),
            permission_mode: None,
            version: self.server.version().map(str::to_owned),
        });
        self.session = Some(session.session_id);
        Phase::Asked(asked)
    }

    fn update(&mut self, update: Update, events: &mut Vec<Event>) {
        if let Some(text) = update.text {
            self.text.push_str(&text);
            events.push(Event::TextDelta { message_id: None, text });
        }
        if let Some(text) = update.thought {
            events.push(Event::ThinkingDelta { message_id: None, text });
        }
        if self.form.usage == AcpUsage::Update && update.usage.is_some() {
            self.usage = update.usage;
        }
    }

    fn answered(&mut self, result: Result<Box<RawValue>, RpcError>, events: &mut Vec<Event>) -> Phase {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => return self.failed(&error, events),
        };
        let answer: Answered = serde_json::from_str(answer.get()).unwrap_or_default();
        if self.form.usage == AcpUsage::Quota {
            self.usage = answer.meta.usage();
        }
        self.say(events);
        if let Some(usage) = self.usage.clone() {
            events.push(Event::Usage {
                usage,
                raw_stop_reason: answer.stop_reason.clone(),
            });
        }
        // Nobody here has asked for that: the agent gave up.
        let refused = match answer.stop_reason.as_deref() {
            Some("cancelled") if self.reason.is_none() => Some("the CLI cancelled the call"),
            Some("refusal") => Some("the agent refused to go on"),
            _ => None,
        };
        if let Some(why) = refused {
            events.push(Event::Failure(Failure {
                message: why.to_owned(),
                ..Failure::default()
            }));
        }
        events.push(Event::Outcome(Box::new(Outcome {
            is_error: refused.is_some(),
            stop_reason: answer.stop_reason.clone(),
            usage: self.usage.clone(),
            session_id: self.session.clone(),
            model: answer.meta.model().or_else(|| self.model.clone()),
            ..Outcome::default()
        })));
        Phase::Over
    }

    /// The whole message, of which the pieces were told.
    fn say(&mut self, events: &mut Vec<Event>) {
        if !self.text.is_empty() {
            events.push(Event::Message {
                id: None,
                content: std::mem::take(&mut self.text),
            });
        }
    }

    fn failed(&mut self, error: &RpcError, events: &mut Vec<Event>) -> Phase {
        self.say(events);
        events.push(Event::Failure(failure(self.form.errors, error)));
        events.push(Event::Outcome(Box::new(Outcome {
            is_error: true,
            session_id: self.session.clone(),
            model: self.model.clone(),
            ..Outcome::default()
        })));
        Phase::Over
    }

    /// Nothing more comes for this call.
    async fn gone(&mut self, events: &mut Vec<Event>) -> Phase {
        if matches!(self.phase, Phase::Opening(_)) {
            return Phase::Unusable(match self.server.sessions() {
                // One that was never of use would not be the next time.
                0 => Unusable::Unsupported("it ended instead of opening a session".to_owned()),
                _ => Unusable::Vanished,
            });
        }
        let message = match self.server.is_over() {
            true => "the CLI's process ended in the middle of the call",
            false => "more came for this call than could be taken",
        };
        self.say(events);
        let exit = self.server.exit().await;
        // A signal says so itself.
        if exit.is_none_or(|exit| exit.signal.is_none()) {
            events.push(Event::Failure(Failure {
                kind: Some(GONE.to_owned()),
                message: message.to_owned(),
                ..Failure::default()
            }));
        }
        Phase::Gone
    }

    fn evidence(invocation: Invocation, stopped: Option<StopReason>) -> Ended {
        Ended::new(Evidence::Turn(TurnEvidence {
            wire: invocation.wire,
            flags: invocation.flags,
            stopped,
            diagnostics: Vec::new(),
            // The lines of all calls are mixed there, and hold what the users say.
            stdout_tail: String::new(),
        }))
    }

    /// Waits until the prompt that was cancelled has ended, so that nothing is asked of an API any more.
    async fn settle(&mut self) {
        let (Phase::Asked(id), Some(session)) = (&self.phase, &self.session) else {
            return;
        };
        let id = *id;
        self.server.send(wire::session_cancel(session));
        let over = async {
            while let Some(message) = self.inbox.next().await {
                if matches!(message, ServerMessage::Answer(answered, _) if answered == id) {
                    break;
                }
            }
        };
        if tokio::time::timeout(CANCEL, over).await.is_err() {
            self.server.retire();
        }
    }
}

impl Exchange for WarmTurn {
    type Unusable = Unusable;

    fn pid(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn has_begun(&self) -> bool {
        // Before, the process may turn out to be gone, and another takes the call.
        self.session.is_some() || matches!(self.phase, Phase::Over | Phase::Gone)
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.inbox.bytes()
    }

    /// Cancel safe: waiting for the exit of a process loses nothing but the reason.
    async fn next(&mut self, events: &mut Vec<Event>) -> Progress {
        if matches!(self.phase, Phase::Over | Phase::Gone | Phase::Unusable(_)) {
            return Progress::Over;
        }
        if matches!(self.phase, Phase::Queued) {
            self.opens = Some(self.server.opening_permit().await);
            let request = wire::session_new(self.server.folder());
            self.phase = Phase::Opening(self.server.ask(&mut self.inbox, "session/new", &request));
        }
        let message = self.inbox.next().await;
        self.phase = match (message, &self.phase) {
            (None, _) => self.gone(events).await,
            (Some(ServerMessage::Update(update)), _) => {
                self.update(update, events);
                return Progress::More;
            }
            (Some(ServerMessage::Answer(id, result)), Phase::Opening(asked)) if id == *asked => {
                self.opened(result, events)
            }
            (Some(ServerMessage::Answer(id, result)), Phase::Asked(asked)) if id == *asked => {
                self.answered(result, events)
            }
            (Some(ServerMessage::Answer(..)), _) => return Progress::More,
        };
        match self.phase {
            Phase::Queued | Phase::Opening(_) | Phase::Asked(_) => Progress::More,
            Phase::Over | Phase::Gone | Phase::Unusable(_) => Progress::Over,
        }
    }

    fn stop(&mut self, reason: StopReason) {
        self.reason = Some(reason);
    }

    async fn finish(mut self) -> Finish<Unusable> {
        if self.reason.is_some() {
            self.settle().await;
        }
        let exit = match self.phase {
            Phase::Gone => self.server.exit().await,
            _ => None,
        };
        let WarmTurn {
            phase,
            reason,
            invocation,
            limits,
            server,
            ..
        } = self;
        let ended = match (phase, reason, exit) {
            (_, Some(reason), _) => WarmTurn::evidence(invocation, Some(reason)),
            (Phase::Unusable(unusable), None, _) => return Finish::Unusable(unusable, None),
            (Phase::Gone, None, Some(exit)) => invocation.ended(of_exit(&exit, server.sessions()), &limits),
            _ => WarmTurn::evidence(invocation, None),
        };
        Finish::Ended(Box::new(ended))
    }
}

/// The end of the process as that of a run.
fn of_exit(exit: &Exit, sessions: u32) -> EndedProcess {
    let mut exit = exit.clone();
    if sessions > 1 {
        // It speaks of other calls as well.
        exit.stderr.clear();
    }
    EndedProcess {
        exit,
        plain: None,
        cut_short: true,
        diagnostics: Vec::new(),
        stdout_tail: String::new(),
    }
}

/// What an error says of the call.
fn failure(errors: AcpErrors, error: &RpcError) -> Failure {
    let failure = failure_of(error.reason());
    if error.code == AUTH_REQUIRED {
        return Failure {
            kind: failure.kind.or(Some("auth_required".to_owned())),
            ..failure
        };
    }
    match errors {
        AcpErrors::Details => failure,
        // 500 is also what the CLI's own failures have: a stream that broke off is "terminated".
        AcpErrors::HttpStatus => Failure {
            http_status: failure
                .http_status
                .or(api_status(u16::try_from(error.code).ok().filter(|code| *code != 500))),
            ..failure
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(code: i64, message: &str, data: serde_json::Value) -> RpcError {
        RpcError {
            code,
            message: message.to_owned(),
            data,
        }
    }

    /// As gemini 0.61.0 and qwen 0.24.4 say them.
    #[test]
    fn an_errors_code_is_a_status_where_it_is_one() {
        let read = |errors, error: RpcError| {
            let failure = failure(errors, &error);
            (failure.http_status, failure.kind, failure.message)
        };
        let status = AcpErrors::HttpStatus;
        let unauthenticated = r#"{"error":{"code":401,"message":"bad key","status":"UNAUTHENTICATED"}}"#;
        assert_eq!(
            read(status, error(429, "slow down", json!(null))),
            (Some(429), None, "slow down".to_owned())
        );
        let (found, _, message) = read(status, error(401, unauthenticated, json!(null)));
        assert_eq!((found, message.as_str()), (Some(401), "bad key"));
        assert_eq!(
            read(status, error(500, "terminated", json!(null))),
            (None, None, "terminated".to_owned())
        );
        assert_eq!(
            read(status, error(-32_000, "Authentication required", json!(null))),
            (
                None,
                Some("auth_required".to_owned()),
                "Authentication required".to_owned()
            )
        );
        let details = error(-32_603, "Internal error", json!({"details": "401 bad key"}));
        assert_eq!(
            read(AcpErrors::Details, details),
            (Some(401), None, "401 bad key".to_owned())
        );
    }
}
