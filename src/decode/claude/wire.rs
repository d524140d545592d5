//! The lines claude and qwen print, as they are on the wire. Fields stay raw until their line's kind is known: the same
//! name holds an object in one kind and a string in another (`message`, `event`, `error`).

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decode::json::Wtf8;

/// What tells the kinds of lines apart, and the fields every turn has many of.
#[derive(Debug, Deserialize)]
pub(super) struct Head<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    pub subtype: Option<&'a RawValue>,
    /// `stream_event` only.
    pub event: Option<&'a RawValue>,
    /// `assistant` and `user`: an API message.
    pub message: Option<&'a RawValue>,
    /// Not null: a subagent's line, never part of the answer.
    pub parent_tool_use_id: Option<&'a RawValue>,
    /// `assistant`: the code of a failure (claude).
    pub error: Option<&'a RawValue>,
}

/// One event of the API's stream, in `stream_event`.
#[derive(Debug, Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    pub index: Option<&'a RawValue>,
    /// `content_block_delta` only; `message_delta` has another one under this name.
    pub delta: Option<&'a RawValue>,
    /// `message_start` only.
    pub message: Option<&'a RawValue>,
    /// `content_block_start` only.
    pub content_block: Option<&'a RawValue>,
}

/// The `delta` of a `content_block_delta`.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    /// `text_delta` only.
    pub text: Option<Wtf8<'a>>,
    /// `thinking_delta` only.
    pub thinking: Option<Wtf8<'a>>,
}

/// A message of the API.
#[derive(Debug, Deserialize)]
pub(super) struct ApiMessage<'a> {
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    pub model: Option<&'a RawValue>,
    /// An array of blocks, or a string.
    pub content: Option<&'a RawValue>,
    /// Of `message_start` in claude's lines; final in qwen's.
    pub usage: Option<&'a RawValue>,
}

/// A content block of any type.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    /// `text`.
    pub text: Option<&'a RawValue>,
    /// `thinking`; empty where the CLI hides it (claude 2.1.330).
    pub thinking: Option<&'a RawValue>,
    /// `tool_use`.
    pub id: Option<&'a RawValue>,
    /// `tool_use`.
    pub name: Option<&'a RawValue>,
    /// `tool_use`.
    pub input: Option<&'a RawValue>,
    /// `tool_result`.
    pub tool_use_id: Option<&'a RawValue>,
    /// `tool_result`: a string or an array of blocks.
    pub content: Option<&'a RawValue>,
    /// `tool_result`.
    pub is_error: Option<&'a RawValue>,
}

/// `system` lines of the subtypes that are read.
#[derive(Debug, Deserialize)]
pub(super) struct System<'a> {
    #[serde(borrow)]
    pub session_id: Option<&'a RawValue>,
    pub model: Option<&'a RawValue>,
    /// claude.
    #[serde(rename = "permissionMode")]
    pub permission_mode_claude: Option<&'a RawValue>,
    /// qwen.
    pub permission_mode: Option<&'a RawValue>,
    pub claude_code_version: Option<&'a RawValue>,
    pub qwen_code_version: Option<&'a RawValue>,
    // api_retry
    pub attempt: Option<&'a RawValue>,
    pub max_retries: Option<&'a RawValue>,
    pub retry_delay_ms: Option<&'a RawValue>,
    pub error_status: Option<&'a RawValue>,
    pub error: Option<&'a RawValue>,
    // informational, permission_denied, model_refusal…, model_fallback
    pub content: Option<&'a RawValue>,
    pub message: Option<&'a RawValue>,
    pub api_refusal_explanation: Option<&'a RawValue>,
    pub trigger: Option<&'a RawValue>,
    pub original_model: Option<&'a RawValue>,
    pub fallback_model: Option<&'a RawValue>,
}

/// `rate_limit_event`.
#[derive(Debug, Deserialize)]
pub(super) struct RateLimitLine<'a> {
    #[serde(borrow)]
    pub rate_limit_info: Option<&'a RawValue>,
}

/// Its payload.
#[derive(Debug, Deserialize)]
pub(super) struct RateLimitInfo<'a> {
    #[serde(borrow)]
    pub status: Option<&'a RawValue>,
    /// Seconds since the epoch.
    #[serde(rename = "resetsAt")]
    pub resets_at: Option<&'a RawValue>,
    #[serde(rename = "rateLimitType")]
    pub limit_type: Option<&'a RawValue>,
    pub utilization: Option<&'a RawValue>,
}

/// `result`: the last word on a turn. All that both versions write (CLI-FACTS 1.1, 1b §1) and that is used here.
#[derive(Debug, Deserialize)]
pub(super) struct ResultLine<'a> {
    #[serde(borrow)]
    pub subtype: Option<&'a RawValue>,
    pub is_error: Option<&'a RawValue>,
    pub result: Option<&'a RawValue>,
    pub stop_reason: Option<&'a RawValue>,
    pub num_turns: Option<&'a RawValue>,
    pub usage: Option<&'a RawValue>,
    /// Cumulative in a live session, as are `modelUsage` and `duration_api_ms`.
    pub total_cost_usd: Option<&'a RawValue>,
    pub duration_ms: Option<&'a RawValue>,
    pub session_id: Option<&'a RawValue>,
    #[serde(rename = "modelUsage")]
    pub model_usage: Option<&'a RawValue>,
    pub terminal_reason: Option<&'a RawValue>,
    pub api_error_status: Option<&'a RawValue>,
    pub api_error: Option<&'a RawValue>,
    pub api_error_type: Option<&'a RawValue>,
    /// Instead of `result` where the subtype is no success (claude).
    pub errors: Option<&'a RawValue>,
    /// The same in qwen: `{message}`.
    pub error: Option<&'a RawValue>,
}

/// An object that explains itself.
#[derive(Debug, Deserialize)]
pub(super) struct Explained<'a> {
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
}

/// One model's figures in `modelUsage`.
#[derive(Debug, Deserialize)]
pub(super) struct ModelFigures<'a> {
    #[serde(borrow, rename = "outputTokens")]
    pub output_tokens: Option<&'a RawValue>,
}
