//! The transcript of a run: its messages, its tool calls and its end.
//!
//! `reader` makes a [`Transcript`] of a run's output, and `log` makes the log of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use dfp_model::event::{Failure, Outcome};
use dfp_model::message::Usage;

/// The value for anything unknown.
pub const UNKNOWN: &str = "unknown";

/// The facts about a run that its output tells.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The tool calls, in order.
    pub calls: Vec<TranscriptCall>,
    /// The calls that were not permitted.
    pub denials: Vec<Denial>,
    pub version: Option<String>,
    /// The CLI's id of the session.
    pub session_id: Option<String>,
    /// The permission mode, by the CLI's name for it.
    pub permission_mode: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The tokens, as the CLI counts them.
    pub usage: Option<Usage>,
    /// The end of the run, as the CLI reports it.
    pub outcome: Option<Outcome>,
    /// The failure, as the CLI reports it.
    pub failure: Option<Failure>,
    /// The time when a rate limit ends, ms since the epoch.
    pub resets_at: Option<u64>,
    /// The whole output, if it has no event at all.
    pub plain: Option<String>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// Some of the output is missing.
    pub truncated: bool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `user`, `assistant` or `system`.
    pub role: &'static str,
    pub content: String,
    /// The time of the line, ISO 8601, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The call for which a subagent works; `None` in the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The offset in the output at which the message begins, bytes.
    #[serde(skip)]
    pub at: u64,
}

/// One tool call with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TranscriptCall {
    /// The API's id of the call.
    pub id: String,
    /// The tool's name; `unknown` if the call itself is in the missing middle of the output.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// The result as text (content blocks as JSON); `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The tool has failed, or was not permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The call was not permitted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// The time of the line, ISO 8601, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The call for which a subagent works; `None` in the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The offset in the output at which the call begins, bytes.
    #[serde(skip)]
    pub at: u64,
    /// The offset at which its result begins, bytes; without a result, that of the call.
    #[serde(skip)]
    pub result_at: u64,
}

/// A call that was not permitted (`permission_denials` of the result).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Denial {
    /// The tool's name.
    #[serde(default, rename(serialize = "toolName"), alias = "toolName")]
    pub tool_name: String,
    /// The API's id of the call.
    #[serde(default, rename(serialize = "toolUseId"), alias = "toolUseId")]
    pub tool_use_id: String,
    /// The arguments.
    #[serde(default, rename(serialize = "toolInput"), alias = "toolInput")]
    pub tool_input: Value,
}
