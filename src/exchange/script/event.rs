//! The events of a script, as JavaScript writes them: `{"text_delta": {"text": "Hi"}}`. The kind stands outside, since raw JSON text
//! (a call's arguments) can't be read within an object that names its own kind.

use serde::Deserialize;
use serde_json::value::RawValue;

use dfp_model::error::{Code, Partial, ProviderError};
use dfp_model::event::{Event, Outcome};
use dfp_model::message::{InvalidToolCall, ToolCall, Usage};

/// One event of an answer, or its end. The fields are those of [`Event`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ScriptEvent {
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
    pub(super) fn into_event(self) -> Option<Event> {
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
pub(super) struct ScriptOutcome {
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
pub(super) struct ScriptFailure {
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
    pub(super) fn into_error(self, provider: &str) -> ProviderError {
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
