//! One call as an exchange: a session of its own, one prompt, one answer.
//!
//! In: the prompt of the print form. Out: the pieces of the answer as they come, and at the end what the process says of it. Nothing of
//! the session is used again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::server::{AcpServer, EXIT, OpeningPermit};
use super::wire::{self, Answered, Session, Update};
use crate::decode::{api_status, failure_of};
use crate::event::{Event, Failure, Outcome};
use crate::exchange::host::{self, Unanswered};
use crate::exchange::live::inbox::Inbox;
use crate::exchange::live::process_turn::Unusable;
use crate::exchange::rpc::message::RpcError;
use crate::exchange::rpc::{Answer, Answering, RequestError};
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

/// A call under way.
pub struct WarmTurn {
    server: Arc<AcpServer>,
    form: WarmForm,
    prompt: String,
    /// What comes for its session, as soon as there is one.
    inbox: Option<Inbox<Update>>,
    /// How many bytes its answers had.
    answered_bytes: u64,
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
    /// The session is being opened; when that must be done, and how long it may take.
    Opening(Answering, Instant, Duration),
    /// The prompt was sent; this is to be its answer.
    Asked(Answering),
    /// The answer, or an error, is there.
    Over,
    /// Nothing more will come.
    Gone,
    /// It can't be used.
    Unusable(Unusable),
}

/// The CLI opens no sessions, for this reason: no prompt was sent.
fn unsupported(reason: impl Into<String>) -> Phase {
    Phase::Unusable(Unusable::Unsupported {
        reason: reason.into(),
        may_have_asked: false,
    })
}

impl WarmTurn {
    /// Begins a call of `prompt` in a process of `form`.
    pub fn begin(
        server: Arc<AcpServer>,
        form: WarmForm,
        prompt: String,
        (invocation, limits): (Invocation, Limits),
    ) -> WarmTurn {
        WarmTurn {
            server,
            form,
            prompt,
            inbox: None,
            answered_bytes: 0,
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

    /// Has a session opened, when it is this call's turn.
    async fn open(&mut self) -> Phase {
        let Some(permit) = self.server.opening_permit().await else {
            return Phase::Unusable(Unusable::Vanished);
        };
        self.opens = Some(permit);
        let host = self.server.host();
        let (request, patience) = (wire::session_new(host.folder()), host.patience());
        let answer = self.server.rpc.post("session/new", &request);
        Phase::Opening(answer, Instant::now() + patience, patience)
    }

    async fn opened(&mut self, answer: Answer, events: &mut Vec<Event>) -> Phase {
        self.opens = None;
        let answer = match answer {
            Ok(answer) => answer,
            Err(RequestError::Refused(error)) if NOT_UNDERSTOOD.contains(&error.code) => {
                return unsupported(format!("it opens no session: {}", error.reason()));
            }
            Err(RequestError::Refused(error)) => return self.failed(&error, events),
            Err(RequestError::Unanswered(unanswered)) => return self.hangs(unanswered, events),
            Err(RequestError::Gone) => {
                if self.server.host().has_served() {
                    return Phase::Unusable(Unusable::Vanished);
                }
                return match self.exit().await {
                    // That says nothing of the program.
                    Some(exit) if exit.was_killed() => self.gone(events).await,
                    // One that was never of use would not be the next time.
                    _ => unsupported("it ended instead of opening a session"),
                };
            }
            Err(RequestError::TooLong) => return self.gone(events).await,
        };
        self.answered_bytes += answer.get().len() as u64;
        let Ok(session) = serde_json::from_str::<Session>(answer.get()) else {
            return unsupported("it opened a session without an id");
        };
        self.server.host().count_session();
        self.inbox = Some(self.server.rpc.inbox(&session.session_id));
        let prompt = wire::session_prompt(&session.session_id, &std::mem::take(&mut self.prompt));
        let asked = self.server.rpc.post("session/prompt", &prompt);
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

    async fn answered(&mut self, answer: Answer, events: &mut Vec<Event>) -> Phase {
        // What was told before it belongs to it.
        while let Some(update) = self.inbox.as_mut().and_then(Inbox::take) {
            self.update(update, events);
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(RequestError::Refused(error)) => return self.failed(&error, events),
            Err(_) => return self.gone(events).await,
        };
        self.answered_bytes += answer.get().len() as u64;
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
            events.push(Event::Failure(Failure::of(why)));
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
        self.fails(failure(self.form.errors, error), events)
    }

    fn fails(&mut self, failure: Failure, events: &mut Vec<Event>) -> Phase {
        self.say(events);
        events.push(Event::Failure(failure));
        events.push(Event::Outcome(Box::new(Outcome {
            is_error: true,
            session_id: self.session.clone(),
            model: self.model.clone(),
            ..Outcome::default()
        })));
        Phase::Over
    }

    /// The process does not open the session: another may.
    fn hangs(&mut self, unanswered: Unanswered, events: &mut Vec<Event>) -> Phase {
        match self.server.host().has_served() {
            // One that was never of use would hang again.
            false => self.fails(
                Failure::named(GONE, format!("the CLI's process hangs: {unanswered}")),
                events,
            ),
            true => Phase::Unusable(Unusable::Vanished),
        }
    }

    /// Nothing more comes for this call.
    async fn gone(&mut self, events: &mut Vec<Event>) -> Phase {
        // Whatever becomes of this wait: its answer is not asked for again.
        self.phase = Phase::Gone;
        let message = match self.server.host().is_over() {
            true => "the CLI's process ended in the middle of the call",
            false => "more came for this call than could be taken",
        };
        self.say(events);
        let exit = self.exit().await;
        // A signal says so itself.
        if exit.is_none_or(|exit| exit.signal.is_none()) {
            events.push(Event::Failure(Failure::named(GONE, message)));
        }
        Phase::Gone
    }

    /// How the process has ended, if it has.
    async fn exit(&self) -> Option<Arc<Exit>> {
        match self.server.host().is_over() {
            true => self.server.host().ended(EXIT).await,
            false => None,
        }
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
        let (Phase::Asked(answer), Some(session)) = (&mut self.phase, &self.session) else {
            return;
        };
        let cancel = wire::session_cancel(session);
        self.server.rpc.notify("session/cancel", Some(&cancel));
        if tokio::time::timeout(CANCEL, answer).await.is_err() {
            self.server.host().retire();
        }
    }
}

/// What comes next for a call.
enum Heard {
    Opened(Answer),
    /// What its session tells; `None` where nothing more will come.
    Told(Option<Update>),
    Answered(Answer),
}

impl Exchange for WarmTurn {
    type Unusable = Unusable;

    fn pid(&self) -> Option<u32> {
        Some(self.server.host().pid())
    }

    fn has_begun(&self) -> bool {
        // Before, the process may turn out to be gone, and another takes the call.
        self.session.is_some() || matches!(self.phase, Phase::Over | Phase::Gone)
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.answered_bytes + self.inbox.as_ref().map_or(0, Inbox::bytes)
    }

    /// Cancel safe: waiting for the exit of a process loses nothing but the reason.
    async fn next(&mut self, events: &mut Vec<Event>) -> Progress {
        let heard = match (&mut self.phase, &mut self.inbox) {
            (Phase::Over | Phase::Gone | Phase::Unusable(_), _) => return Progress::Over,
            (Phase::Queued, _) => {
                self.phase = self.open().await;
                return Progress::More;
            }
            (Phase::Opening(answer, until, patience), _) => Heard::Opened(match timeout_at(*until, answer).await {
                Ok(answer) => answer.unwrap_or(Err(RequestError::Gone)),
                Err(_) => Err(RequestError::Unanswered(self.server.host().hangs(*patience))),
            }),
            (Phase::Asked(_), None) => Heard::Told(None),
            (Phase::Asked(answer), Some(inbox)) => tokio::select! {
                biased;
                update = inbox.next() => Heard::Told(update),
                answer = answer => Heard::Answered(answer.unwrap_or(Err(RequestError::Gone))),
            },
        };
        self.phase = match heard {
            Heard::Told(Some(update)) => {
                self.update(update, events);
                return Progress::More;
            }
            Heard::Told(None) => self.gone(events).await,
            Heard::Opened(answer) => self.opened(answer, events).await,
            Heard::Answered(answer) => self.answered(answer, events).await,
        };
        match self.phase {
            Phase::Queued | Phase::Opening(..) | Phase::Asked(_) => Progress::More,
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
            Phase::Gone if self.reason.is_none() => self.exit().await,
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
            (Phase::Gone, None, Some(exit)) => invocation.ended(of_exit(&exit, server.host().sessions()), &limits),
            _ => WarmTurn::evidence(invocation, None),
        };
        Finish::Ended(Box::new(ended))
    }
}

/// The end of the process as that of a run.
fn of_exit(exit: &Exit, sessions: u32) -> EndedProcess {
    let mut ended = host::of_exit(exit);
    if sessions > 1 {
        // It speaks of other calls as well.
        ended.exit.stderr.clear();
    }
    ended
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
