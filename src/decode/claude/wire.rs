//! The lines claude and qwen print, as they are on the wire.
//!
//! The kinds a turn has many of are read in one typed pass. Where that fails, because the same name holds an object in
//! one kind and a string in another (`message`, `event`), or because something is ill-typed, the line is taken apart field
//! by field. Kinds a turn has few of stay raw altogether.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::json::{Count, Fields, Text, Wtf8, is_array, is_string, word};

/// The kinds of lines every turn has many of, read in one pass.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    pub subtype: Option<&'a RawValue>,
    /// `stream_event` only.
    pub event: Option<StreamEvent<'a>>,
    /// `assistant` and `user` only. Boxed, as all that a delta has not: its line is read 50 times a second.
    pub message: Option<Box<ApiMessage<'a>>>,
    /// Not null: a subagent's line, never part of the answer.
    pub parent_tool_use_id: Option<&'a RawValue>,
    /// `assistant`: the code of a failure (claude).
    pub error: Option<&'a RawValue>,
    /// `stream_event` with a `message_stop`: the response was cut short, and of its blocks from `from_block_index` on no
    /// `assistant` line came nor will come (claude 2.1.330).
    pub abandoned_blocks: Option<&'a RawValue>,
}

/// [`Line`] where a field is not what its name says: in a line of another kind, or in one that is ill-typed.
#[derive(Debug, Deserialize)]
struct RawLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    subtype: Option<&'a RawValue>,
    event: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    parent_tool_use_id: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    abandoned_blocks: Option<&'a RawValue>,
}

/// One event of the API's stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    pub index: Option<Count>,
    /// `content_block_delta`, `message_delta`.
    pub delta: Option<Delta<'a>>,
    /// `message_start`.
    pub message: Option<Box<ApiMessage<'a>>>,
    /// `content_block_start`.
    pub content_block: Option<Box<Block<'a>>>,
}

/// The `delta` of a `content_block_delta`, or of a `message_delta`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    /// `text_delta`.
    pub text: Option<Wtf8<'a>>,
    /// `thinking_delta`.
    pub thinking: Option<Wtf8<'a>>,
    /// `input_json_delta`.
    pub partial_json: Option<Wtf8<'a>>,
    /// That of a `message_delta`.
    pub stop_reason: Option<&'a RawValue>,
}

/// A message of the API.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ApiMessage<'a> {
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    pub model: Option<Text<'a>>,
    #[serde(default)]
    pub content: Content<'a>,
    /// Of `message_start` in claude's lines; final in qwen's.
    pub usage: Option<&'a RawValue>,
}

/// [`ApiMessage`] where some of it is ill-typed.
#[derive(Debug, Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
}

/// What a message holds.
#[derive(Debug)]
pub(in crate::decode) enum Content<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

/// A content block of any type.
#[derive(Debug, Default, Deserialize)]
pub(in crate::decode) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    /// `text`.
    pub text: Option<Text<'a>>,
    /// `thinking`; empty where the CLI hides it (claude 2.1.330).
    pub thinking: Option<Text<'a>>,
    /// `thinking`: by what the API knows it again.
    pub signature: Option<Text<'a>>,
    /// `redacted_thinking`: all there is of it.
    pub data: Option<Text<'a>>,
    /// `tool_use`.
    pub id: Option<Text<'a>>,
    /// `tool_use`.
    pub name: Option<Text<'a>>,
    /// `tool_use`.
    pub input: Option<&'a RawValue>,
    /// `tool_result`.
    pub tool_use_id: Option<Text<'a>>,
    /// `tool_result`: a string or an array of blocks.
    pub content: Option<&'a RawValue>,
    /// `tool_result`.
    pub is_error: Option<&'a RawValue>,
}

impl<'a> Line<'a> {
    /// Reads a line; `None` if it is no JSON object. What is ill-typed in a line of a known kind is reported and left out.
    pub fn read(json: &'a str, fields: &mut Fields) -> Option<Line<'a>> {
        if let Ok(line) = serde_json::from_str(json) {
            return Some(line);
        }
        let raw: RawLine = serde_json::from_str(json).ok()?;
        let (event, message) = match word(raw.kind).as_deref() {
            Some("stream_event") => (fields.read("event", raw.event), None),
            Some("assistant" | "user") => (None, ApiMessage::read(raw.message, fields).map(Box::new)),
            _ => (None, None),
        };
        Some(Line {
            kind: raw.kind,
            subtype: raw.subtype,
            event,
            message,
            parent_tool_use_id: raw.parent_tool_use_id,
            error: raw.error,
            abandoned_blocks: raw.abandoned_blocks,
        })
    }
}

impl<'a> ApiMessage<'a> {
    fn read(raw: Option<&'a RawValue>, fields: &mut Fields) -> Option<ApiMessage<'a>> {
        let raw: RawMessage = fields.read("message", raw)?;
        let content = match raw.content {
            Some(content) if is_array(content) => {
                let blocks: Vec<&RawValue> = fields.read("content", Some(content)).unwrap_or_default();
                let blocks = blocks
                    .into_iter()
                    .filter_map(|block| fields.read("content block", Some(block)));
                Content::Blocks(blocks.collect())
            }
            content => Content::Text(fields.read::<Text>("content", content).unwrap_or_default().0),
        };
        Some(ApiMessage {
            id: fields.read("id", raw.id),
            model: fields.read("model", raw.model),
            content,
            usage: raw.usage,
        })
    }
}

impl Default for Content<'_> {
    fn default() -> Self {
        Content::Blocks(Vec::new())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrBlocks;
        impl<'de> Visitor<'de> for TextOrBlocks {
            type Value = Content<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string or an array of blocks")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Content<'de>, E> {
                Ok(Content::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content<'de>, E> {
                Ok(Content::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content<'de>, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = seq.next_element()? {
                    blocks.push(block);
                }
                Ok(Content::Blocks(blocks))
            }
        }
        deserializer.deserialize_any(TextOrBlocks)
    }
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
    pub permission_mode: Option<&'a RawValue>,
    pub claude_code_version: Option<&'a RawValue>,
    pub qwen_code_version: Option<&'a RawValue>,
    // api_retry
    pub attempt: Option<&'a RawValue>,
    pub max_retries: Option<&'a RawValue>,
    pub retry_delay_ms: Option<&'a RawValue>,
    pub error_status: Option<&'a RawValue>,
    pub error: Option<&'a RawValue>,
    /// qwen's `retry`.
    pub data: Option<&'a RawValue>,
    // informational, permission_denied, model_refusal…, model_fallback
    pub content: Option<&'a RawValue>,
    pub message: Option<&'a RawValue>,
    pub api_refusal_explanation: Option<&'a RawValue>,
    pub trigger: Option<&'a RawValue>,
    pub original_model: Option<&'a RawValue>,
    pub fallback_model: Option<&'a RawValue>,
}

/// What qwen 0.24.4 says of a request that it makes again.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RetryData<'a> {
    #[serde(borrow)]
    pub reason: Option<&'a RawValue>,
    /// Only before a pause of a minute.
    pub attempt: Option<&'a RawValue>,
    pub max_retries: Option<&'a RawValue>,
    pub delay_ms: Option<&'a RawValue>,
    /// Whether what was said so far is the answer's beginning; otherwise it is void.
    pub preserve_text: Option<&'a RawValue>,
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
    /// Why nothing is sold beyond the plan.
    #[serde(rename = "overageDisabledReason")]
    pub overage_disabled_reason: Option<&'a RawValue>,
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
    pub permission_denials: Option<&'a RawValue>,
    /// The answer that fits `--json-schema` (claude 2.1.197, 2.1.330).
    pub structured_output: Option<&'a RawValue>,
    /// The same in qwen (0.24.4).
    pub structured_result: Option<&'a RawValue>,
    /// Instead of `result` where the subtype is no success (claude).
    pub errors: Option<&'a RawValue>,
    /// The same in qwen: `{message}`.
    pub error: Option<&'a RawValue>,
}

/// Whether an object without a `type` has what makes a [`ResultLine`] an answer.
pub(super) fn is_bare_result(json: &str) -> bool {
    let line: Option<ResultLine> = serde_json::from_str(json).ok();
    line.is_some_and(|line| line.result.is_some_and(is_string) || line.structured_output.is_some())
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

/// A call that was not permitted.
#[derive(Debug, Deserialize)]
pub(super) struct Denial<'a> {
    #[serde(borrow, default)]
    pub tool_name: Text<'a>,
    #[serde(default)]
    pub tool_use_id: Text<'a>,
    pub tool_input: Option<&'a RawValue>,
}
