//! An exchange with a function of the caller's: a test's script answers in the place of a server.
//!
//! In: a request as JSON, and the [`Script`] that it goes to. Out: the events that the script tells, as they come, and its end or
//! its error. Nothing here knows JavaScript: the script is a function that takes messages, and whoever made it calls
//! [`Script::tell`].
//!
//! JavaScript writes an event as `{"text_delta": {"text": "Hi"}}`. The kind stands outside, since raw JSON text (a call's arguments) can't
//! be read within an object that names its own kind.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Ended, Evidence, Exchange, StopReason, Unusable};
use dfp_model::error::{Code, Partial, ProviderError};
use dfp_model::event::{Event, Outcome};
use dfp_model::message::{InvalidToolCall, ToolCall, Usage};
use dfp_process::limit::Permit;
use dfp_provider::api::answer::Body;
use dfp_provider::judge::{HttpEnd, HttpEvidence};
use dfp_text::redact::Redactor;

/// Takes a message for the script as JSON: `{"number", "request"}` asks, `{"number", "left": true}` says that nobody waits for the
/// answer any more. Returns at once.
pub type Listener = Arc<dyn Fn(String) + Send + Sync>;

/// A script, and the requests that it has not answered yet.
pub struct Script {
    /// `None` from [`Script::end`] on.
    listener: Mutex<Option<Listener>>,
    last_number: AtomicU32,
    open: Mutex<HashMap<u32, mpsc::UnboundedSender<String>>>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

impl Script {
    /// Makes the script that `listener` answers for.
    pub fn new(listener: Listener) -> Script {
        Script {
            listener: Mutex::new(Some(listener)),
            last_number: AtomicU32::new(0),
            open: Mutex::default(),
        }
    }

    /// Takes a part of the answer to the request `number`: a JSON array of events. The answer to a request that nobody waits for is
    /// ignored.
    pub fn tell(&self, number: u32, events: String) {
        if let Some(answer) = self.opened().get(&number) {
            // The exchange may be about to end.
            let _gone = answer.send(events);
        }
    }

    /// Lets go of the listener, which is told nothing from then on.
    pub fn end(&self) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Gives the listener a message.
    fn say(&self, message: String) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(message);
        }
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, HashMap<u32, mpsc::UnboundedSender<String>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the request to the script.
    fn ask(&self, request: &[u8]) -> (u32, mpsc::UnboundedReceiver<String>) {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (answer, answers) = mpsc::unbounded_channel();
        self.opened().insert(number, answer);
        let request = String::from_utf8_lossy(request);
        self.say(format!(r#"{{"number":{number},"request":{request}}}"#));
        (number, answers)
    }

    fn leave(&self, number: u32, is_over: bool) {
        self.opened().remove(&number);
        if !is_over {
            self.say(format!(r#"{{"number":{number},"left":true}}"#));
        }
    }
}

/// A request to a script.
pub struct ScriptRequest {
    pub script: Arc<Script>,
    /// The id of the provider, for errors.
    pub provider: String,
    /// The request as JSON.
    pub body: Bytes,
    /// The redactor of the provider's own secrets.
    pub redactor: Redactor,
    /// The request's place among those that may run at once, held until it is over.
    pub permit: Permit,
}

/// A request to a script under way.
pub struct ScriptExchange {
    request: ScriptRequest,
    asked: Option<(u32, mpsc::UnboundedReceiver<String>)>,
    began: Option<Instant>,
    bytes: u64,
    is_over: bool,
    end: HttpEnd,
    failure: Option<Box<ProviderError>>,
}

impl ScriptExchange {
    /// Makes the exchange of `request`. The script is asked with the first [`Exchange::next`].
    pub fn new(request: ScriptRequest) -> ScriptExchange {
        ScriptExchange {
            request,
            asked: None,
            began: None,
            bytes: 0,
            is_over: false,
            end: HttpEnd::Lost("the script was never asked".to_owned()),
            failure: None,
        }
    }

    fn fail(&mut self, error: ProviderError) -> ControlFlow<()> {
        self.failure = Some(Box::new(error));
        self.is_over = true;
        ControlFlow::Break(())
    }

    /// Takes one part of the answer.
    fn take(&mut self, part: &str, events: &mut Vec<Event>) -> ControlFlow<()> {
        let script_events: Vec<ScriptEvent> = match serde_json::from_str(part) {
            Ok(events) => events,
            Err(error) => {
                let reason = format!("the script's answer can't be read: {error}");
                let error = ProviderError::new(&self.request.provider, Code::Internal, reason);
                return self.fail(error);
            }
        };
        for event in script_events {
            match event {
                ScriptEvent::Failed(fault) => return self.fail(fault.into_error(&self.request.provider)),
                ScriptEvent::Over(outcome) => {
                    events.push(Event::Outcome(Box::new(outcome.into())));
                    self.end = HttpEnd::Answered(Body::Complete);
                    self.is_over = true;
                    return ControlFlow::Break(());
                }
                event => events.extend(event.into_event()),
            }
        }
        ControlFlow::Continue(())
    }
}

impl Drop for ScriptExchange {
    fn drop(&mut self) {
        if let Some((number, _)) = &self.asked {
            self.request.script.leave(*number, self.is_over);
        }
    }
}

#[async_trait]
impl Exchange for ScriptExchange {
    fn elapsed(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn received_bytes(&self) -> u64 {
        self.bytes
    }

    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        self.began.get_or_insert_with(Instant::now);
        let ScriptRequest { script, body, .. } = &self.request;
        let (_, answers) = self.asked.get_or_insert_with(|| script.ask(body));
        match answers.recv().await {
            Some(part) => {
                self.bytes += part.len() as u64;
                self.take(&part, events)
            }
            None => ControlFlow::Break(()),
        }
    }

    fn stop(&mut self, reason: StopReason) {
        self.end = HttpEnd::Stopped(reason);
    }

    async fn finish(mut self: Box<Self>) -> Result<Box<Ended>, Unusable> {
        if let Some(error) = self.failure.take() {
            return Err(Unusable::Failed(error));
        }
        let evidence = Evidence::Http(HttpEvidence {
            origin: "the script".to_owned(),
            end: std::mem::replace(&mut self.end, HttpEnd::Answered(Body::Empty)),
            status: None,
            diagnostics: Vec::new(),
            redactor: self.request.redactor.clone(),
        });
        Ok(Box::new(Ended {
            exit: Some(self.elapsed()),
            figures: Value::Null,
            ..Ended::new(evidence)
        }))
    }
}

/// One event of an answer, or its end. The fields are those of [`Event`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase")]
enum ScriptEvent {
    Session {
        session_id: Option<String>,
        model: Option<String>,
        permission_mode: Option<String>,
        version: Option<String>,
    },
    TextDelta {
        message_id: Option<String>,
        text: String,
    },
    ThinkingDelta {
        message_id: Option<String>,
        text: String,
    },
    Message {
        id: Option<String>,
        content: String,
    },
    ToolCallDelta {
        tool_call_id: String,
        name: String,
        delta: String,
    },
    ToolCall {
        tool_call: ToolCall,
    },
    InvalidToolCall {
        invalid_tool_call: InvalidToolCall,
    },
    ToolResult {
        tool_call_id: String,
        content: String,
        #[serde(default)]
        is_error: bool,
    },
    Usage {
        usage: Usage,
        raw_stop_reason: Option<String>,
    },
    RateLimit {
        status: String,
        resets_at: Option<u64>,
        limit_type: Option<String>,
        utilization: Option<f64>,
    },
    Retry {
        by: String,
        attempt: u32,
        max_attempts: Option<u32>,
        delay_ms: u64,
        reason: String,
        http_status: Option<u16>,
    },
    Waiting {
        until: u64,
        reason: String,
    },
    Warning {
        code: String,
        message: String,
    },
    Other {
        kind: String,
        raw: Box<RawValue>,
    },
    /// The answer is whole.
    Over(ScriptOutcome),
    /// The call fails.
    Failed(Box<ScriptFailure>),
}

impl ScriptEvent {
    /// The event; `None` for an end.
    fn into_event(self) -> Option<Event> {
        Some(match self {
            ScriptEvent::Session {
                session_id,
                model,
                permission_mode,
                version,
            } => Event::Session {
                session_id,
                model,
                permission_mode,
                version,
            },
            ScriptEvent::TextDelta { message_id, text } => Event::TextDelta { message_id, text },
            ScriptEvent::ThinkingDelta { message_id, text } => Event::ThinkingDelta { message_id, text },
            ScriptEvent::Message { id, content } => Event::Message { id, content },
            ScriptEvent::ToolCallDelta {
                tool_call_id,
                name,
                delta,
            } => Event::ToolCallDelta {
                tool_call_id,
                name,
                delta,
            },
            ScriptEvent::ToolCall { tool_call } => Event::ToolCall { tool_call },
            ScriptEvent::InvalidToolCall { invalid_tool_call } => Event::InvalidToolCall { invalid_tool_call },
            ScriptEvent::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => Event::ToolResult {
                tool_call_id,
                content,
                is_error,
            },
            ScriptEvent::Usage { usage, raw_stop_reason } => Event::Usage { usage, raw_stop_reason },
            ScriptEvent::RateLimit {
                status,
                resets_at,
                limit_type,
                utilization,
            } => Event::RateLimit {
                status,
                resets_at,
                limit_type,
                utilization,
            },
            ScriptEvent::Retry {
                by,
                attempt,
                max_attempts,
                delay_ms,
                reason,
                http_status,
            } => Event::Retry {
                by: if by == "cli" { "cli" } else { "provider" },
                attempt,
                max_attempts,
                delay_ms,
                reason,
                http_status,
            },
            ScriptEvent::Waiting { until, reason } => Event::Waiting { until, reason },
            ScriptEvent::Warning { code, message } => Event::Warning { code, message },
            ScriptEvent::Other { kind, raw } => Event::Other { kind, raw },
            ScriptEvent::Over(_) | ScriptEvent::Failed(_) => return None,
        })
    }
}

/// The figures of a whole answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScriptOutcome {
    stop_reason: Option<String>,
    cost_usd: Option<f64>,
    duration_ms: Option<u64>,
    num_turns: Option<u32>,
    session_id: Option<String>,
    model: Option<String>,
}

impl From<ScriptOutcome> for Outcome {
    fn from(outcome: ScriptOutcome) -> Outcome {
        Outcome {
            stop_reason: outcome.stop_reason,
            cost_usd: outcome.cost_usd,
            duration_ms: outcome.duration_ms,
            num_turns: outcome.num_turns,
            session_id: outcome.session_id,
            model: outcome.model,
            ..Outcome::default()
        }
    }
}

/// The error of a call, by its code.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScriptFailure {
    code: String,
    message: String,
    should_retry: Option<bool>,
    should_fallback: Option<bool>,
    hint: Option<String>,
    retry_after_ms: Option<u64>,
    resets_at: Option<u64>,
    exit_code: Option<i32>,
    signal: Option<String>,
    http_status: Option<u16>,
    stdout_tail: Option<String>,
    stderr_tail: Option<String>,
    partial: Option<ScriptPartial>,
    usage: Option<Usage>,
}

/// The part of an answer that had come when the call failed.
#[derive(Debug, Deserialize)]
struct ScriptPartial {
    #[serde(default)]
    text: String,
    #[serde(default)]
    events: u64,
    usage: Option<Usage>,
}

impl ScriptFailure {
    /// The error of `provider`. A code that there is not is [`Code::Unknown`].
    fn into_error(self, provider: &str) -> ProviderError {
        let code = Code::ALL.iter().find(|code| code.as_str() == self.code);
        let error = ProviderError::new(provider, code.copied().unwrap_or(Code::Unknown), self.message);
        let partial = self
            .partial
            .map(|ScriptPartial { text, events, usage }| Partial { text, events, usage });
        ProviderError {
            should_retry: self.should_retry.unwrap_or(error.should_retry),
            should_fallback: self.should_fallback.unwrap_or(error.should_fallback),
            hint: self.hint,
            retry_after_ms: self.retry_after_ms,
            resets_at: self.resets_at,
            exit_code: self.exit_code,
            signal: self.signal,
            http_status: self.http_status,
            stdout_tail: self.stdout_tail,
            stderr_tail: self.stderr_tail,
            partial,
            usage: self.usage,
            ..error
        }
    }
}
