//! The events of a run in order, and the [`Reply`] that they fold into.
//!
//! In: events from a decoder (`decode/`) and from the orchestrator (`run`). Out: the `ProviderEvent`s of index.d.ts (the
//! same names, serialised), and the reply an `AIMessage` is built from.

use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::reasoning::ReasoningDetail;
use crate::message::{InvalidToolCall, ToolCall, Usage};

/// One event of a run. Serialised as `{"type": "text_delta", …}` with camelCase fields, it is the public `ProviderEvent`. Lines
/// of kinds that no decoder knows are kept as [`Event::Other`].
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Event {
    /// The provider's process (or request) was started. The first event of every attempt.
    Start {
        /// Unique per run.
        run_id: String,
        /// The provider's id, `claude`.
        provider: String,
        /// Process id of the CLI.
        #[serde(skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The time spent waiting for a free place, ms.
        queued_ms: u64,
        /// The engine that drives the CLI; `None` for an API.
        #[serde(skip_serializing_if = "Option::is_none")]
        engine: Option<EngineUsed>,
        /// Live engine only: true if the process already has the beginning of the thread.
        #[serde(skip_serializing_if = "Option::is_none")]
        continued: Option<bool>,
        /// Live engine only: how its session knows the thread.
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<SessionUsed>,
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
        /// The message that the piece belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The piece; may be white space only.
        text: String,
    },
    /// A piece of the model's reasoning.
    ThinkingDelta {
        /// The message that the piece belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        text: String,
    },
    /// One message of the model, whole, verbatim.
    Message {
        /// The API's id of the message.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        content: String,
    },
    /// A piece of the arguments of a native call that the model is writing. The [`Event::ToolCall`] of the same id has the
    /// whole call; it does not come if the call broke off or can't be read. No run log keeps the pieces, since the whole call
    /// is in it.
    ToolCallDelta {
        tool_call_id: String,
        /// The tool's name, as the caller has it.
        name: String,
        /// The piece of JSON text.
        delta: String,
    },
    /// The model calls a tool (native, or found in its text).
    ToolCall { tool_call: ToolCall },
    /// A text looks like a tool call and can't be read as one.
    InvalidToolCall {
        /// The readable parts of it.
        invalid_tool_call: InvalidToolCall,
    },
    /// A tool of the CLI's own returned a result. The caller must not run a call that has a result.
    ToolResult {
        /// The call it answers.
        tool_call_id: String,
        /// The result as text (content blocks as JSON).
        content: String,
        /// True if the tool failed.
        is_error: bool,
    },
    /// Tokens used so far, as the provider counts them.
    Usage {
        usage: Usage,
        /// The reason why the model stopped, in the provider's vocabulary (`end_turn`).
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
        /// The share used, 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        utilization: Option<f64>,
    },
    /// The CLI, or this package, tries again.
    Retry {
        /// The party that tries again: `cli` or `provider`.
        by: &'static str,
        /// The number of the further attempt, from 1.
        attempt: u32,
        /// The largest number of further attempts.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_attempts: Option<u32>,
        /// The wait before it, ms.
        delay_ms: u64,
        reason: String,
        /// The HTTP status that caused it.
        #[serde(skip_serializing_if = "Option::is_none")]
        http_status: Option<u16>,
    },
    /// The plan is used up, and the call waits until it is available again. Meanwhile the call has no process and no place in
    /// the queue.
    Waiting {
        /// When the provider is called again, ms since the epoch.
        until: u64,
        /// The reason, in the provider's words.
        reason: String,
    },
    /// Information for the user that is not a failure.
    Warning {
        /// The stable code, in upper case.
        code: String,
        message: String,
    },
    /// A block of reasoning is complete; the [`Event::ThinkingDelta`]s before it were its pieces. Sent by a decoder to the fold
    /// only.
    #[serde(skip)]
    Reasoning {
        /// The block's details; if they have no text, they add to the pieces.
        details: Vec<ReasoningDetail>,
    },
    /// The message of the last pieces will not come: it was broken off and is asked for again, or it was none. Sent by a
    /// decoder to the fold only.
    #[serde(skip)]
    Abandoned,
    /// The model gives its answer by a call of the CLI's own tool for answers. Sent by an exchange to the fold only.
    #[serde(skip)]
    Answer { tool_call: ToolCall },
    /// The provider reports that it failed, and why. This is never content; the orchestrator turns it into a `ProviderError`.
    #[serde(skip)]
    Failure(Failure),
    /// The provider's last report on the run (claude: `result`). It is not sent to JavaScript; `Done` is.
    #[serde(skip)]
    Outcome(Box<Outcome>),
    /// The run has succeeded. The last event.
    Done { reply: Box<Reply> },
    /// A line of a kind that no decoder knows, unchanged.
    Other {
        /// The line's `type` (and `subtype`, joined by `/`).
        kind: String,
        /// The JSON text of the line.
        raw: Box<RawValue>,
    },
}

/// The JSON array of `events`.
///
/// Every byte of a stream is written here: generic code is compiled where it is called, and this room is built for speed.
///
/// # Errors
/// What JSON can't express.
#[inline(never)]
pub fn to_json(events: &[Event]) -> serde_json::Result<String> {
    serde_json::to_string(events)
}

impl Event {
    /// The event's kind, under its name in logs and in JavaScript; `None` for an event that goes to neither.
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

/// A provider's report of its own failure, from error channels only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// The provider's own machine-readable word (claude: `assistant.error`, `rate_limit`; gemini: `error.type`).
    pub kind: Option<String>,
    /// Further such words, if there are several (a body's `code`, `type`, `status` and `details[].reason`): any of them may be
    /// the one that the rules know.
    pub more_kinds: Vec<String>,
    /// The reason in the provider's words.
    pub message: String,
    /// The HTTP status of the API's answer.
    pub http_status: Option<u16>,
    /// The reason why the run ended, if the provider has a word for it (claude: `terminal_reason`).
    pub terminal_reason: Option<String>,
    /// When the request may be tried again, ms since the epoch, if a structured field says so.
    pub resets_at: Option<u64>,
    /// The time to wait before trying again, ms, if a structured field says so (Google: `RetryInfo.retryDelay`).
    pub retry_after_ms: Option<u64>,
    /// The limit of the account's plan that refused the request, in the provider's word (claude: `five_hour`, `overage`).
    pub limit_type: Option<String>,
    /// True if a field says that the account's organisation has no plan that could be used up (claude:
    /// `overageDisabledReason`).
    pub no_plan: bool,
}

impl Failure {
    /// Makes a failure with nothing but a message.
    pub fn of(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            ..Failure::default()
        }
    }

    /// Makes a failure with a message and a kind.
    pub fn named(kind: &str, message: impl Into<String>) -> Failure {
        Failure {
            kind: Some(kind.to_owned()),
            ..Failure::of(message)
        }
    }
}

/// The provider's last report: figures that are known only at the end of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// `success`, `error_max_turns`, … (claude's `subtype`).
    pub subtype: Option<String>,
    /// True if the provider calls the run a failure.
    pub is_error: bool,
    /// The answer as the provider repeats it. Absent if it is long and repeats text that came before (claude's wire).
    pub text: Option<String>,
    /// The reason why the model stopped, in the provider's vocabulary.
    pub stop_reason: Option<String>,
    /// The number of turns; 0 means that the prompt never reached the model (claude: a slash command).
    pub num_turns: Option<u32>,
    /// The tokens of this run.
    pub usage: Option<Usage>,
    /// US dollars, as the provider estimates them.
    pub cost_usd: Option<f64>,
    /// The duration by the provider's own clock, ms.
    pub duration_ms: Option<u64>,
    /// The provider's session id.
    pub session_id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The answer that fits a schema, beside the text (claude's `structured_output`, qwen's `structured_result`).
    pub structured: Option<Value>,
    /// The calls that the CLI did not permit.
    pub permission_denials: Vec<PermissionDenial>,
    /// The service tier of the answer, as its API names it.
    pub service_tier: Option<String>,
    /// The speed of the answer, as its API names it (claude in its fast mode).
    pub speed: Option<String>,
    /// The CLI's words for its fast mode (claude: "on", "off", "cooldown"), with the reason if it is not on.
    pub fast_mode: Option<String>,
    /// The CLI's own words about the prompt cache (claude 2.1.330 and later, in a session), if this answer found much less in it than there was.
    pub cache_miss: Option<String>,
}

/// A tool call that the CLI did not permit (claude's and qwen's `permission_denials`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionDenial {
    /// The tool, under the CLI's name for it.
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
    /// The API's id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The message's text without tool calls.
    pub content: String,
}

/// The identity of a run, and the timings of its last attempt, in ms by a monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInfo {
    /// The run's id: unique across machines, and sortable by time.
    pub id: String,
    /// The process's id; by now it may belong to another process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The CLI's engine; `None` for an API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineUsed>,
    /// The file of the CLI that was started; `None` for an API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_path: Option<String>,
    /// The folder of the login that served the run, if the option `login` names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// The wait for a free place, before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// The time that starting the process took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawn_ms: Option<u64>,
    /// The time from the process's start to its first byte of standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
    /// The time from the process's start to the first event read from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_event_ms: Option<u64>,
    /// The time from the process's start to its exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_ms: Option<u64>,
    /// Live engine only: true if the process already had the beginning of the thread. The times then count from the beginning
    /// of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued: Option<bool>,
    /// Live engine only: how its session knows the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionUsed>,
    /// Live engine only: the tokens of all answers of the CLI's session so far, this one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_usage: Option<Usage>,
}

/// The way in which a live session has come to know a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionUsed {
    /// The thread has no reply yet.
    New,
    /// The session was there from the beginning.
    Continued,
    /// A new session got the thread in messages of the CLI's own, as if it had been there.
    Restored,
    /// A new session was told the thread as text.
    Replayed,
}

/// The engine that drove a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineUsed {
    /// One process for this call.
    Print,
    /// A turn of a process that takes several turns one after the other.
    Live,
    /// A session of its own in a process that serves many calls.
    Warm,
}

impl EngineUsed {
    /// The engine's name in options and logs.
    pub fn name(self) -> &'static str {
        match self {
            EngineUsed::Print => "print",
            EngineUsed::Live => "live",
            EngineUsed::Warm => "warm",
        }
    }
}

/// The result of a successful run, from which an `AIMessage` is built. Reading a serialised reply (from a checkpoint) gives the
/// same reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reply {
    /// The answer: the last message's text, trimmed, without tool calls.
    pub content: String,
    /// All messages of the model, in order, never glued.
    pub messages: Vec<AssistantMessage>,
    /// Calls that the caller is to run.
    pub tool_calls: Vec<ToolCall>,
    /// Texts that looked like calls and could not be read.
    pub invalid_tool_calls: Vec<InvalidToolCall>,
    /// The answer as a value that fits the schema, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The model's reasoning, if the provider shows it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// The reasoning block by block, with the parts that its API seals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<ReasoningDetail>,
    /// Token usage: measured, or estimated and marked so.
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
    /// The reason why the model stopped, in the provider's vocabulary.
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
    /// The duration by the provider's own clock, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The number of turns that the provider took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_turns: Option<u32>,
    /// The calls that the CLI did not permit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permission_denials: Vec<PermissionDenial>,
    /// The service tier of the answer, as its API names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// The speed of the answer, as its API names it, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<String>,
    /// The CLI's words for its fast mode; only for the check of a choice.
    #[serde(skip)]
    pub fast_mode: Option<String>,
    /// The CLI's own words about the prompt cache, if this answer found much less in it than there was: for people, and no decision
    /// depends on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_miss: Option<String>,
    /// Output lines that were no events: they are kept, and not fatal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<String>,
    /// The run's identity and timings; the orchestrator fills them in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunInfo>,
}

impl Reply {
    /// Returns whether the reply has no text, no call and no value. White space does not count as text, and reasoning does not
    /// count at all.
    pub fn is_silent(&self) -> bool {
        self.content.trim().is_empty()
            && self.tool_calls.is_empty()
            && self.invalid_tool_calls.is_empty()
            && self.structured.is_none()
    }
}

// The names of events: one vocabulary for a provider's run, an agent's run, and readers of run logs.
//
// In: an event's `type`. Out: an [`EventKind`], or none for a name that only another version knows. A `match` on it must not
// have a catch-all, so that a new kind does not compile until each reader of logs handles it.

/// The kind of an event: its `type` in index.d.ts and in a run log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The first event of an attempt.
    Start,
    /// The provider identified itself.
    Session,
    /// A piece of the answer's text.
    TextDelta,
    /// A piece of the model's reasoning.
    ThinkingDelta,
    /// A message of the model, whole.
    Message,
    /// A piece of the arguments of a call.
    ToolCallDelta,
    /// The model calls a tool.
    ToolCall,
    /// A text looks like a call and can't be read as one.
    InvalidToolCall,
    /// The result of a tool.
    ToolResult,
    /// The token usage.
    Usage,
    /// The state of a subscription's limit.
    RateLimit,
    Retry,
    /// The call waits for a plan that is used up to be available again.
    Waiting,
    /// Information for the user that is not a failure.
    Warning,
    /// A provider of a list was passed over (`js/fallback.cjs`).
    Fallback,
    /// The last event of a provider's run that succeeded.
    Done,
    /// A line of a kind that no decoder knows.
    Other,
    /// The first event of an agent's run.
    RunStarted,
    /// The decision about a call.
    Permission,
    /// A call waits for another agent.
    Deferred,
    /// The last event of an agent's run that ended well.
    RunCompleted,
    /// The last event of any other run of an agent.
    RunFailed,
}

impl EventKind {
    /// The kind with this `name`, if this version knows one.
    pub fn named(name: &str) -> Option<EventKind> {
        EventKind::deserialize(StrDeserializer::<Error>::new(name)).ok()
    }

    /// Returns whether an event of this kind is the last of a run.
    pub fn is_last(self) -> bool {
        matches!(self, EventKind::Done | EventKind::RunCompleted | EventKind::RunFailed)
    }
}

/// The kinds by their names in index.d.ts, for the tests of every room.
#[cfg(any(test, feature = "test-support"))]
#[allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "only tests use it")]
pub mod kinds {
    use std::collections::BTreeSet;

    use super::EventKind;

    /// The name of `kind` in logs and in JavaScript.
    pub fn name(kind: EventKind) -> String {
        let name = serde_json::to_value(kind).unwrap();
        name.as_str().unwrap().to_owned()
    }

    /// All kinds: the events that index.d.ts declares.
    pub fn all() -> BTreeSet<EventKind> {
        declared().iter().filter_map(|name| EventKind::named(name)).collect()
    }

    /// The names of events in index.d.ts.
    pub(super) fn declared() -> BTreeSet<String> {
        let contract = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../index.d.ts")).unwrap();
        let of = |union: &str| {
            let (_, rest) = contract.split_once(&format!("export type {union}")).unwrap();
            let (body, _) = rest.split_once(";\n\n").unwrap();
            let names = body.split("type: \"").skip(1);
            let names = names.map(|rest| rest.split('"').next().unwrap().to_owned());
            names.collect::<BTreeSet<_>>()
        };
        let names: BTreeSet<_> = of("ProviderEvent").into_iter().chain(of("AgentEvent")).collect();
        assert!(names.len() > 15, "{names:?}");
        names
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::EventKind;
    use super::kinds::{all, declared};

    #[test]
    fn the_contract_names_the_same_events() {
        let unknown: Vec<_> = declared()
            .into_iter()
            .filter(|name| EventKind::named(name).is_none_or(|kind| super::kinds::name(kind) != *name))
            .collect();
        assert_eq!(unknown, Vec::<String>::new());
        // The last kind of the enum is used, so that a kind which only Rust has is noticed.
        assert_eq!(all().len(), EventKind::RunFailed as usize + 1);
    }

    #[test]
    fn a_name_of_another_version_is_none() {
        for foreign in ["", "Start", "text-delta", "teleported"] {
            assert_eq!(EventKind::named(foreign), None, "{foreign}");
        }
        assert_eq!(
            serde_json::to_value(EventKind::TextDelta).unwrap(),
            Value::from("text_delta")
        );
    }
}
