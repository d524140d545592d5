//! What happens in a run, in the order it happens, and the fold of it into one [`Reply`].
//!
//! In: events from a decoder (`decode/`) and from the orchestrator (`run`). Out: the `ProviderEvent`s of index.d.ts (the
//! same names, serialised), and the reply an `AIMessage` is built from.

mod kind;

pub use kind::EventKind;
#[cfg(test)]
pub(crate) use kind::tests as kinds;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::reasoning::ReasoningDetail;
use crate::message::{InvalidToolCall, ToolCall, Usage};

/// One thing that happened. Serialised as `{"type": "text_delta", …}` with camelCase fields: that is the public
/// `ProviderEvent`. Kinds that no decoder knows are kept as [`Event::Other`].
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Event {
    /// The provider's process (or request) is on its way. First event of every attempt.
    Start {
        /// Unique per run.
        run_id: String,
        /// The provider's id, `claude`.
        provider: String,
        /// Process id of the CLI.
        #[serde(skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// Which attempt this is, from 1.
        attempt: u32,
        /// How long it waited for a free place, in ms.
        queued_ms: u64,
        /// How the CLI is driven; none for an API.
        #[serde(skip_serializing_if = "Option::is_none")]
        engine: Option<EngineUsed>,
        /// Live engine only: whether the process knows the thread's beginning.
        #[serde(skip_serializing_if = "Option::is_none")]
        continued: Option<bool>,
    },
    /// The provider identified itself (claude: `system/init`).
    Session {
        /// The provider's id of the session.
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        /// The model as the CLI names it.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The CLI's permission mode.
        #[serde(skip_serializing_if = "Option::is_none")]
        permission_mode: Option<String>,
        /// The CLI's version.
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
    /// A piece of the answer's text, verbatim. The deltas of a message, joined, are the message; those before an
    /// [`Event::Abandoned`] belong to none.
    TextDelta {
        /// The message it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The piece; may be white space only.
        text: String,
    },
    /// A piece of the model's reasoning.
    ThinkingDelta {
        /// The message it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        text: String,
    },
    /// One message of the model, whole, verbatim.
    Message {
        /// The API's id of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        content: String,
    },
    /// A piece of the arguments of a native call that the model is writing. The [`Event::ToolCall`] of the same id says what the call is;
    /// there may be none, where the call broke off or can't be read. Kept in no run log: the call is there, whole.
    ToolCallDelta {
        tool_call_id: String,
        /// The tool's name, as the caller has it.
        name: String,
        /// The piece of JSON text.
        delta: String,
    },
    /// The model calls a tool (native, or found in its text).
    ToolCall { tool_call: ToolCall },
    /// Text that looks like a tool call and can't be read as one.
    InvalidToolCall {
        /// What could be read of it.
        invalid_tool_call: InvalidToolCall,
    },
    /// The CLI ran a tool of its own and this came back. A call with a result is not the caller's to run.
    ToolResult {
        /// The call it answers.
        tool_call_id: String,
        /// The result as text (content blocks as JSON).
        content: String,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// Tokens used so far, as the provider counts them.
    Usage {
        usage: Usage,
        /// Why the model stopped, in the provider's vocabulary (`end_turn`).
        #[serde(skip_serializing_if = "Option::is_none")]
        raw_stop_reason: Option<String>,
    },
    /// The subscription's limits (claude: `rate_limit_event`).
    RateLimit {
        /// `allowed`, `allowed_warning` or `rejected`.
        status: String,
        /// When the limit ends, ms since the epoch.
        #[serde(skip_serializing_if = "Option::is_none")]
        resets_at: Option<u64>,
        /// `five_hour`, `seven_day`, …
        #[serde(skip_serializing_if = "Option::is_none")]
        limit_type: Option<String>,
        /// Share used, 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        utilization: Option<f64>,
    },
    /// Somebody tries again: the CLI by itself, or this package.
    Retry {
        /// `cli` or `provider`.
        by: &'static str,
        /// Which further attempt, from 1.
        attempt: u32,
        /// How many there may be.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_attempts: Option<u32>,
        /// How long it waits before, in ms.
        delay_ms: u64,
        reason: String,
        /// HTTP status behind it.
        #[serde(skip_serializing_if = "Option::is_none")]
        http_status: Option<u16>,
    },
    /// The plan is used up, and the call waits until it is there again. No process is there meanwhile, and no place in the queue.
    Waiting {
        /// When it is asked again, ms since the epoch.
        until: u64,
        /// Why, in the provider's words.
        reason: String,
    },
    /// Something the user should know that is no failure.
    Warning {
        /// Stable, upper case.
        code: String,
        message: String,
    },
    /// A block of reasoning is complete; the [`Event::ThinkingDelta`]s before it were its pieces. The decoder's word to the fold.
    #[serde(skip)]
    Reasoning {
        /// What it holds; without any text it adds to its pieces.
        details: Vec<ReasoningDetail>,
    },
    /// Of the message whose pieces came last none will come: it was broken off and is asked for again, or was none. The
    /// decoder's word to the fold.
    #[serde(skip)]
    Abandoned,
    /// The model gives its answer by a tool of the CLI's own, which is there for nothing else. The exchange's word to the fold.
    #[serde(skip)]
    Answer { tool_call: ToolCall },
    /// The provider says that (and why) it failed. Never content. The orchestrator turns it into a `ProviderError`.
    #[serde(skip)]
    Failure(Failure),
    /// The provider's last word on the run (claude: `result`). Not sent to JavaScript; `Done` is.
    #[serde(skip)]
    Outcome(Box<Outcome>),
    /// The run is over and succeeded. Last event.
    Done { reply: Box<Reply> },
    /// A line of a kind no decoder knows, as it came.
    Other {
        /// Its `type` (and `subtype`, joined by `/`).
        kind: String,
        /// The JSON text of the line.
        raw: Box<RawValue>,
    },
}

impl Event {
    /// What it is, by the name it has in logs and in JavaScript; `None` for what goes to neither.
    pub fn kind(&self) -> Option<EventKind> {
        Some(match self {
            Event::Start { .. } => EventKind::Start,
            Event::Session { .. } => EventKind::Session,
            Event::TextDelta { .. } => EventKind::TextDelta,
            Event::ThinkingDelta { .. } => EventKind::ThinkingDelta,
            Event::Message { .. } => EventKind::Message,
            Event::ToolCallDelta { .. } => EventKind::ToolCallDelta,
            Event::ToolCall { .. } => EventKind::ToolCall,
            Event::InvalidToolCall { .. } => EventKind::InvalidToolCall,
            Event::ToolResult { .. } => EventKind::ToolResult,
            Event::Usage { .. } => EventKind::Usage,
            Event::RateLimit { .. } => EventKind::RateLimit,
            Event::Retry { .. } => EventKind::Retry,
            Event::Waiting { .. } => EventKind::Waiting,
            Event::Warning { .. } => EventKind::Warning,
            Event::Done { .. } => EventKind::Done,
            Event::Other { .. } => EventKind::Other,
            Event::Reasoning { .. }
            | Event::Abandoned
            | Event::Answer { .. }
            | Event::Failure(_)
            | Event::Outcome(_) => return None,
        })
    }
}

/// What a provider says of its own failure, from error channels only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// The provider's own machine-readable word (claude: `assistant.error`, `rate_limit`; gemini: `error.type`).
    pub kind: Option<String>,
    /// Further such identifiers, where it has several (a body's `code`, `type`, `status` and `details[].reason`): any of them may be
    /// the one that is known.
    pub more_kinds: Vec<String>,
    /// The reason as the provider put it.
    pub message: String,
    /// HTTP status of the API's answer.
    pub http_status: Option<u16>,
    /// Why the run ended, where the provider has a word for it (claude: `terminal_reason`).
    pub terminal_reason: Option<String>,
    /// When it may be tried again, ms since the epoch, if a structured field says so.
    pub resets_at: Option<u64>,
    /// How long to wait before it is tried again, ms, if a structured field says so (Google: `RetryInfo.retryDelay`).
    pub retry_after_ms: Option<u64>,
    /// Which limit of the account's plan refused the request, in the provider's word (claude: `five_hour`, `overage`).
    pub limit_type: Option<String>,
    /// The account's organisation has no plan that could be used up, as a field says (claude: `overageDisabledReason`).
    pub no_plan: bool,
}

impl Failure {
    /// One of which nothing is known but this.
    pub fn of(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            ..Failure::default()
        }
    }

    /// The same, of a kind that has a name.
    pub fn named(kind: &str, message: impl Into<String>) -> Failure {
        Failure {
            kind: Some(kind.to_owned()),
            ..Failure::of(message)
        }
    }
}

/// The provider's last word: figures that only the end of a run knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// `success`, `error_max_turns`, … (claude's `subtype`).
    pub subtype: Option<String>,
    /// The provider calls it a failure.
    pub is_error: bool,
    /// The answer as the provider sums it up. Absent where it is long and repeats text that came before (claude's wire).
    pub text: Option<String>,
    /// Why the model stopped, in the provider's vocabulary.
    pub stop_reason: Option<String>,
    /// Turns taken; 0 means that the prompt never reached the model (claude: a slash command).
    pub num_turns: Option<u32>,
    /// Tokens of this run.
    pub usage: Option<Usage>,
    /// US dollars, as the provider estimates them.
    pub cost_usd: Option<f64>,
    /// The provider's own clock, ms.
    pub duration_ms: Option<u64>,
    /// The provider's session id.
    pub session_id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The answer that fits a schema, beside the text (claude's `structured_output`, qwen's `structured_result`).
    pub structured: Option<Value>,
    /// Calls that the CLI did not permit.
    pub permission_denials: Vec<PermissionDenial>,
}

/// A call of a tool that the CLI did not permit (claude's and qwen's `permission_denials`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionDenial {
    /// The tool, as the CLI calls it.
    pub tool_name: String,
    pub tool_use_id: String,
    /// The call's arguments, as raw text.
    pub tool_input: Box<RawValue>,
}

impl PartialEq for PermissionDenial {
    fn eq(&self, other: &Self) -> bool {
        let fields = |denial: &PermissionDenial| (denial.tool_name.clone(), denial.tool_use_id.clone());
        fields(self) == fields(other) && self.tool_input.get() == other.tool_input.get()
    }
}

/// One message of the model in a [`Reply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The API's id of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its text, tool calls taken out.
    pub content: String,
}

/// Which run it was, and when things happened in its last attempt. Times are ms by a monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInfo {
    /// The run's id: unique over machines, in the order of time.
    pub id: String,
    /// The process's id; it may be somebody else's by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The CLI's engine; none for an API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineUsed>,
    /// The folder of the login that served it, where the option `login` names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// Waiting for a free place, before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// What starting the process took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawn_ms: Option<u64>,
    /// From the process's start to its first byte of standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
    /// From the process's start to the first event read from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_event_ms: Option<u64>,
    /// From the process's start to its exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_ms: Option<u64>,
    /// Live engine only: whether the process knew the thread's beginning. Its times count from the turn's beginning then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued: Option<bool>,
}

/// How a CLI was driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineUsed {
    /// One process for this call.
    Print,
    /// A turn of a process that takes one after the other.
    Live,
    /// A session of its own in a process that serves many calls.
    Warm,
}

impl EngineUsed {
    /// Its name in options and logs.
    pub fn name(self) -> &'static str {
        match self {
            EngineUsed::Print => "print",
            EngineUsed::Live => "live",
            EngineUsed::Warm => "warm",
        }
    }
}

/// Everything a run came to: what an `AIMessage` is built from. What is read again (of a checkpoint) is what was written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reply {
    /// The answer: the last message's text, trimmed, tool calls taken out.
    pub content: String,
    /// All messages of the model, in order, never glued.
    pub messages: Vec<AssistantMessage>,
    /// Calls the caller is to run.
    pub tool_calls: Vec<ToolCall>,
    /// What looked like calls and could not be read.
    pub invalid_tool_calls: Vec<InvalidToolCall>,
    /// The answer as a value, where one was asked for by a schema: it fits that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The model's reasoning, if the provider shows it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// The same block by block, with what its API seals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<ReasoningDetail>,
    /// Tokens: measured, or estimated and marked.
    pub usage: Usage,
    /// The API's id of the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's session id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Why the model stopped, in the provider's vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The CLI's permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The CLI's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// US dollars, as the provider estimates them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The provider's own clock, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Turns the provider took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_turns: Option<u32>,
    /// Calls that the CLI did not permit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permission_denials: Vec<PermissionDenial>,
    /// Output lines that were no events: kept, not fatal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<String>,
    /// Which run it was; the orchestrator knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunInfo>,
}

impl Reply {
    /// Whether it says nothing: no word, no call and no value. White space is no word, nor is reasoning.
    pub fn is_silent(&self) -> bool {
        self.content.trim().is_empty()
            && self.tool_calls.is_empty()
            && self.invalid_tool_calls.is_empty()
            && self.structured.is_none()
    }
}
