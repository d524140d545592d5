//! What happened in a run: its messages, the tools it used, how it ended.
//!
//! A [`Transcript`] is made of the run's output by `reader`. The log is made of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Failure, Outcome};
use crate::message::Usage;

/// What stands for what is not known.
pub const UNKNOWN: &str = "unknown";

/// What is known of a run from its output.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// Which tools were used, in order of the calls.
    pub calls: Vec<TranscriptCall>,
    /// Calls that were not permitted.
    pub denials: Vec<Denial>,
    pub version: Option<String>,
    /// The CLI's id of the session.
    pub session_id: Option<String>,
    /// Its permission mode, as the CLI names it.
    pub permission_mode: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// Tokens, as the CLI counts them.
    pub usage: Option<Usage>,
    /// How the run ended, as the CLI reports it.
    pub outcome: Option<Outcome>,
    /// Its failure, as the CLI reports it.
    pub failure: Option<Failure>,
    /// When a limit ends, ms since the epoch.
    pub resets_at: Option<u64>,
    /// Output that holds no event at all.
    pub plain: Option<String>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// Whether some of the output is missing.
    pub truncated: bool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `user`, `assistant` or `system`.
    pub role: &'static str,
    pub content: String,
    /// When, ISO 8601, where the line has a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The call a subagent works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// Where it began in the output, bytes.
    #[serde(skip)]
    pub at: u64,
}

/// One call of a tool, with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TranscriptCall {
    /// The API's id of it.
    pub id: String,
    /// The tool; `unknown` where the call itself is in the missing middle.
    pub name: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
    /// What came back, as text (content blocks as JSON); nothing if nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether the tool failed, or was not permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Whether it was not permitted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// When, ISO 8601, where the line has a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The call a subagent works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// Where it began in the output, bytes.
    #[serde(skip)]
    pub at: u64,
    /// Where its result came; where it began itself without one.
    #[serde(skip)]
    pub result_at: u64,
}

/// A call that was not permitted (`permission_denials` of the result).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Denial {
    /// The tool.
    #[serde(default, rename(serialize = "toolName"), alias = "toolName")]
    pub tool_name: String,
    /// The API's id of the call.
    #[serde(default, rename(serialize = "toolUseId"), alias = "toolUseId")]
    pub tool_use_id: String,
    /// Its arguments.
    #[serde(default, rename(serialize = "toolInput"), alias = "toolInput")]
    pub tool_input: Value,
}
