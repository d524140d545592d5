//! The lines that claude and qwen print, as they are on the wire, and the end of a turn: the `result` line, decoded to `Usage`, `Failure`
//! and `Outcome`.
//!
//! Kinds of lines that are frequent in a turn are parsed in one typed pass. If that fails, because one name holds an object in
//! one kind and a string in another (`message`, `event`), or because a field is ill-typed, the line is taken apart field by
//! field. Fields of rare kinds stay raw altogether.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Claude, Turn};
use crate::decode::format::{API_ERROR, Out, failure_of, read_usage};
use crate::decode::json::{Count, Fields, Members, Text, Wtf8, is_array, is_object, is_string, is_true, word};
use crate::decode::lines::strip_owned;
use dfp_model::event::{Event, Failure, Outcome, PermissionDenial};

/// The frequent kinds of lines, parsed in one pass.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ClaudeLine<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    pub subtype: Option<&'a RawValue>,
    /// Present in `stream_event` only.
    pub event: Option<StreamEvent<'a>>,
    /// Present in `assistant` and `user` only. Boxed, like everything else that a delta lacks: a delta's line is parsed 50
    /// times a second.
    pub message: Option<Box<ApiMessage<'a>>>,
    /// Not null in a subagent's line, which is never part of the answer.
    pub parent_tool_use_id: Option<&'a RawValue>,
    /// Present in `assistant`: the code of a failure (claude).
    pub error: Option<&'a RawValue>,
    /// Present in a `stream_event` with a `message_stop` if the response was cut short: its blocks from `from_block_index` on
    /// had no `assistant` line and will have none (claude 2.1.330).
    pub abandoned_blocks: Option<&'a RawValue>,
}

/// A [`ClaudeLine`] whose fields are all raw: for lines of other kinds, and for ill-typed ones.
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
    /// Present in `content_block_delta` and `message_delta`.
    pub delta: Option<Delta<'a>>,
    /// Present in `message_start`.
    pub message: Option<Box<ApiMessage<'a>>>,
    /// Present in `content_block_start`.
    pub content_block: Option<Box<ContentBlock<'a>>>,
    /// Present in `message_delta`: the usage of the response.
    pub usage: Option<&'a RawValue>,
}

/// The `delta` of a `content_block_delta`, or of a `message_delta`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    /// Present in a `text_delta`.
    pub text: Option<Wtf8<'a>>,
    /// Present in a `thinking_delta`.
    pub thinking: Option<Wtf8<'a>>,
    /// Present in an `input_json_delta`.
    pub partial_json: Option<Wtf8<'a>>,
    /// Present in a `message_delta`.
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
    /// The usage so far in claude's `message_start`; the final one in qwen's lines.
    pub usage: Option<&'a RawValue>,
}

/// An [`ApiMessage`] whose fields are raw, for one that is partly ill-typed.
#[derive(Debug, Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
}

/// The content of a message: a string, or blocks.
#[derive(Debug)]
pub(in crate::decode) enum Content<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<ContentBlock<'a>>),
}

/// A content block of any type.
#[derive(Debug, Default, Deserialize)]
pub(in crate::decode) struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<&'a RawValue>,
    /// Present in `text`.
    pub text: Option<Text<'a>>,
    /// Present in `thinking`; empty if the CLI hides the reasoning (claude 2.1.330).
    pub thinking: Option<Text<'a>>,
    /// Present in `thinking`: the signature by which the API recognises the block.
    pub signature: Option<Text<'a>>,
    /// Present in `redacted_thinking`, and the only content of it.
    pub data: Option<Text<'a>>,
    /// Present in `tool_use`.
    pub id: Option<Text<'a>>,
    /// Present in `tool_use`.
    pub name: Option<Text<'a>>,
    /// Present in `tool_use`.
    pub input: Option<&'a RawValue>,
    /// Present in `tool_result`.
    pub tool_use_id: Option<Text<'a>>,
    /// Present in `tool_result`: a string or an array of blocks.
    pub content: Option<&'a RawValue>,
    /// Present in `tool_result`.
    pub is_error: Option<&'a RawValue>,
}

impl<'a> ClaudeLine<'a> {
    /// Parses a line; `None` if it is not a JSON object. Ill-typed fields in a line of a known kind are reported and left out.
    pub fn read(json: &'a str, fields: &mut Fields) -> Option<ClaudeLine<'a>> {
        if let Ok(line) = serde_json::from_str(json) {
            return Some(line);
        }
        let raw: RawLine = serde_json::from_str(json).ok()?;
        let (event, message) = match word(raw.kind).as_deref() {
            Some("stream_event") => (fields.read("event", raw.event), None),
            Some("assistant" | "user") => (None, ApiMessage::read(raw.message, fields).map(Box::new)),
            _ => (None, None),
        };
        Some(ClaudeLine {
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

/// A `system` line of one of the subtypes that are decoded.
#[derive(Debug, Deserialize)]
pub(super) struct System<'a> {
    #[serde(borrow)]
    pub session_id: Option<&'a RawValue>,
    pub model: Option<&'a RawValue>,
    /// The field's spelling in claude's lines.
    #[serde(rename = "permissionMode")]
    pub permission_mode_claude: Option<&'a RawValue>,
    pub permission_mode: Option<&'a RawValue>,
    pub claude_code_version: Option<&'a RawValue>,
    pub qwen_code_version: Option<&'a RawValue>,
    /// Names.
    pub tools: Option<&'a RawValue>,
    // api_retry
    pub attempt: Option<&'a RawValue>,
    pub max_retries: Option<&'a RawValue>,
    pub retry_delay_ms: Option<&'a RawValue>,
    pub error_status: Option<&'a RawValue>,
    pub error: Option<&'a RawValue>,
    /// Present in qwen's `retry`.
    pub data: Option<&'a RawValue>,
    // informational, permission_denied, model_refusal…, model_fallback
    pub content: Option<&'a RawValue>,
    pub message: Option<&'a RawValue>,
    pub api_refusal_explanation: Option<&'a RawValue>,
    pub trigger: Option<&'a RawValue>,
    pub original_model: Option<&'a RawValue>,
    pub fallback_model: Option<&'a RawValue>,
}

/// The details of a request that qwen 0.24.4 makes again.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RetryData<'a> {
    #[serde(borrow)]
    pub reason: Option<&'a RawValue>,
    /// Present only before a pause of a minute.
    pub attempt: Option<&'a RawValue>,
    pub max_retries: Option<&'a RawValue>,
    pub delay_ms: Option<&'a RawValue>,
    /// True if the text so far is the beginning of the answer; otherwise it is void.
    pub preserve_text: Option<&'a RawValue>,
}

/// A `rate_limit_event` line.
#[derive(Debug, Deserialize)]
pub(super) struct RateLimitLine<'a> {
    #[serde(borrow)]
    pub rate_limit_info: Option<&'a RawValue>,
}

/// The payload of a `rate_limit_event` line.
#[derive(Debug, Deserialize)]
pub(super) struct RateLimitInfo<'a> {
    #[serde(borrow)]
    pub status: Option<&'a RawValue>,
    /// Seconds since the epoch.
    #[serde(rename = "resetsAt")]
    pub resets_at: Option<&'a RawValue>,
    #[serde(rename = "rateLimitType")]
    pub limit_type: Option<&'a RawValue>,
    /// The reason why usage beyond the plan is not for sale.
    #[serde(rename = "overageDisabledReason")]
    pub overage_disabled_reason: Option<&'a RawValue>,
    pub utilization: Option<&'a RawValue>,
    /// All windows of the plan by their names: `five_hour`, `seven_day` (2.1.330 and 2.1.332, with every answer; 2.1.197 tells none).
    #[serde(rename = "unifiedWindows")]
    pub windows: Option<&'a RawValue>,
}

/// A window of a plan, as `unifiedWindows` has it.
#[derive(Debug, Deserialize)]
pub(super) struct PlanWindow {
    /// `allowed`, `allowed_warning` or `rejected`; 2.1.330 tells none.
    pub status: Option<String>,
    /// Seconds since the epoch.
    #[serde(rename = "resetsAt")]
    pub resets_at: Option<u64>,
    pub utilization: Option<f64>,
}

/// The `result` line, the last word on a turn. It has the fields that both versions write (CLI-FACTS 1.1, 1b §1) and that are
/// used here.
#[derive(Debug, Deserialize)]
struct ResultLine<'a> {
    #[serde(borrow)]
    subtype: Option<&'a RawValue>,
    is_error: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    stop_reason: Option<&'a RawValue>,
    num_turns: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    /// US dollars, cumulative in a live session, like `modelUsage` and `duration_api_ms`.
    total_cost_usd: Option<&'a RawValue>,
    duration_ms: Option<&'a RawValue>,
    session_id: Option<&'a RawValue>,
    #[serde(rename = "modelUsage")]
    model_usage: Option<&'a RawValue>,
    /// "on", "off", "cooldown" (2.1.197, 2.1.332).
    fast_mode_state: Option<&'a RawValue>,
    /// The reason, if it is not on (2.1.332).
    fast_mode_disabled_reason: Option<&'a RawValue>,
    terminal_reason: Option<&'a RawValue>,
    api_error_status: Option<&'a RawValue>,
    api_error: Option<&'a RawValue>,
    api_error_type: Option<&'a RawValue>,
    permission_denials: Option<&'a RawValue>,
    /// The answer that fits `--json-schema` (claude 2.1.197, 2.1.330).
    structured_output: Option<&'a RawValue>,
    /// The answer that fits a schema, in qwen's lines (0.24.4).
    structured_result: Option<&'a RawValue>,
    /// The reasons of a failure, instead of `result`, if the subtype is no success (claude).
    errors: Option<&'a RawValue>,
    /// The reason of a failure, in qwen's lines: `{message}`.
    error: Option<&'a RawValue>,
}

/// Returns whether an object without a `type` has the fields that make a [`ResultLine`] an answer.
pub(super) fn is_bare_result(json: &str) -> bool {
    let line: Option<ResultLine> = serde_json::from_str(json).ok();
    line.is_some_and(|line| line.result.is_some_and(is_string) || line.structured_output.is_some())
}

/// An error object with a message.
#[derive(Debug, Deserialize)]
struct Explained<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

/// One model's figures in `modelUsage`.
#[derive(Debug, Deserialize)]
struct ModelFigures<'a> {
    #[serde(borrow, rename = "outputTokens")]
    output_tokens: Option<&'a RawValue>,
}

/// A call that was not permitted.
#[derive(Debug, Deserialize)]
struct Denial<'a> {
    #[serde(borrow, default)]
    tool_name: Text<'a>,
    #[serde(default)]
    tool_use_id: Text<'a>,
    tool_input: Option<&'a RawValue>,
}

/// How the API served an answer, in its usage.
#[derive(Debug, Default, Deserialize)]
struct ServedAs {
    #[serde(default)]
    service_tier: Option<String>,
    #[serde(default)]
    speed: Option<String>,
}

/// The word for the usual tier and the usual speed.
const USUAL: &str = "standard";

/// Bytes; in a successful turn a longer text that repeats the messages is not read, since it would be one more copy.
const LONG: usize = 64 * 1024;

impl Claude {
    /// Decodes the `result` line, which ends the turn: usage, the failure if there is one, and the outcome.
    pub(super) fn result(&mut self, json: &str, fields: &mut Fields, out: &mut Out) {
        let Some(line) = fields.read_line::<ResultLine>(json) else {
            return;
        };
        self.generic.close(out);
        // qwen 0.24.4 prints the reason of a failed run as a message of its model, and once more here.
        if let Some(reason) = line.error.filter(|_| is_true(line.is_error))
            && let Some(reason) = explained(reason, fields)
            && self.assembler.is_open_with(&reason)
        {
            self.assembler.discard(out);
        }
        let spoke = self.assembler.end_turn(out) | self.generic.take_spoke();
        let turn = std::mem::take(&mut self.turn);
        let usage = read_usage(fields, line.usage);
        let served: ServedAs = fields.read("usage", line.usage).unwrap_or_default();
        let fast_mode = fields.string("fast_mode_state", line.fast_mode_state);
        let is_fast = fast_mode.as_deref() == Some("on");
        let subtype = fields.string("subtype", line.subtype);
        let is_error = fields.read::<bool>("is_error", line.is_error).unwrap_or_default();
        let failed = is_error || subtype.as_deref().is_some_and(|subtype| subtype != "success");
        let repeats = spoke && !failed && !turn.disguised && turn.synthetic.is_none();
        let text = line.result.filter(|text| !(repeats && text.get().len() > LONG));
        let text = fields
            .read::<Text>("result", text)
            .map(|Text(text)| strip_owned(text).into_owned());
        let outcome = Outcome {
            subtype,
            is_error,
            stop_reason: fields.string("stop_reason", line.stop_reason),
            num_turns: fields.small("num_turns", line.num_turns),
            usage: usage.clone(),
            cost_usd: fields.read::<f64>("total_cost_usd", line.total_cost_usd),
            duration_ms: fields.count("duration_ms", line.duration_ms),
            session_id: fields.string("session_id", line.session_id),
            model: turn.model.clone().or_else(|| busiest_model(fields, line.model_usage)),
            text,
            permission_denials: denials(fields, line.permission_denials),
            structured: fields.read::<Value>("structured_output", line.structured_output.or(line.structured_result)),
            cache_miss: None,
            // It names the usual ones in each answer.
            service_tier: served.service_tier.filter(|tier| tier != USUAL),
            speed: served.speed.filter(|speed| is_fast || speed != USUAL),
            fast_mode: match fields.string("fast_mode_disabled_reason", line.fast_mode_disabled_reason) {
                Some(reason) => fast_mode.map(|state| format!("{state} ({reason})")),
                None => fast_mode,
            },
        };
        let failure = (failed || turn.disguised).then(|| failure(&turn, &outcome, &line, fields));
        if failure.is_none() {
            if let Some(overcome) = &turn.failure {
                out.warning(
                    overcome.kind.as_deref().unwrap_or_default().to_uppercase(),
                    &overcome.message,
                );
            }
            // In `json` the result is all there is; in a stream it repeats the messages, except those that the CLI writes
            // itself.
            let answer = outcome.text.as_deref().unwrap_or_default();
            if !answer.is_empty() && (!spoke || turn.synthetic.as_deref() == Some(answer)) {
                self.assembler.message(None, answer, out);
                self.assembler.end_turn(out);
            }
        }
        if let Some(usage) = usage {
            out.event(Event::Usage {
                usage,
                raw_stop_reason: outcome.stop_reason.clone(),
            });
        }
        if let Some(failure) = failure {
            out.event(Event::Failure(failure));
        }
        out.event(Event::Outcome(Box::new(outcome)));
    }
}

/// The one failure of a turn: the failure of the `assistant` line, completed by `result`.
fn failure(turn: &Turn, outcome: &Outcome, line: &ResultLine, fields: &mut Fields) -> Failure {
    let earlier = turn.failure.clone().unwrap_or_default();
    let listed: Vec<Text> = fields.read("errors", line.errors).unwrap_or_default();
    let listed: Vec<&str> = listed.iter().map(|Text(error)| error.as_ref()).collect();
    let message = [
        turn.disguised.then(|| earlier.message.clone()),
        outcome.text.clone(),
        Some(listed.join("\n")),
        line.error.and_then(|error| explained(error, fields)),
        Some(earlier.message.clone()),
        fields.string("terminal_reason", line.terminal_reason),
        outcome.subtype.clone(),
    ];
    let error_subtype = outcome.subtype.clone().filter(|subtype| subtype != "success");
    let message = message.into_iter().flatten().find(|text| !text.trim().is_empty());
    let message = message.unwrap_or_default();
    // The message is still in qwen's bracket if it came with the tokens of the answers before it.
    let bracketed = if message.starts_with(API_ERROR) {
        failure_of(&message)
    } else {
        Failure::default()
    };
    Failure {
        kind: fields
            .string("api_error", line.api_error)
            .or(earlier.kind)
            .or_else(|| fields.string("api_error_type", line.api_error_type))
            .or(bracketed.kind)
            .or(error_subtype),
        more_kinds: [earlier.more_kinds, bracketed.more_kinds].concat(),
        message: match bracketed.message.is_empty() {
            true => message,
            false => bracketed.message,
        },
        http_status: fields
            .small("api_error_status", line.api_error_status)
            .or(earlier.http_status)
            .or(bracketed.http_status),
        terminal_reason: fields.string("terminal_reason", line.terminal_reason),
        resets_at: turn.resets_at,
        retry_after_ms: None,
        limit_type: turn.limit_type.clone(),
        no_plan: turn.no_plan,
    }
}

/// The text of a `result` line's `error`.
fn explained(error: &RawValue, fields: &mut Fields) -> Option<String> {
    match is_object(error) {
        true => fields
            .read::<Explained>("error", Some(error))
            .and_then(|error| fields.string("error.message", error.message)),
        false => fields.string("error", Some(error)),
    }
}

/// The calls that were not permitted; entries that can't be read as calls are left out.
fn denials(fields: &mut Fields, raw: Option<&RawValue>) -> Vec<PermissionDenial> {
    let listed: Vec<&RawValue> = fields.read("permission_denials", raw).unwrap_or_default();
    let read = |raw| fields.read::<Denial>("permission_denials", Some(raw));
    let denials = listed.into_iter().filter_map(read);
    denials
        .map(|denial| PermissionDenial {
            tool_name: denial.tool_name.into_string(),
            tool_use_id: denial.tool_use_id.into_string(),
            tool_input: denial.tool_input.map(RawValue::to_owned).unwrap_or_default(),
        })
        .collect()
}

/// The model in `modelUsage` that wrote most; the others did side jobs. 2.1.197 adds the context's size to the name
/// (`claude-opus-4-8[1m]`), which the API's name does not have.
fn busiest_model(fields: &mut Fields, raw: Option<&RawValue>) -> Option<String> {
    let Members(models) = fields.read("modelUsage", raw)?;
    let mut busiest = None;
    for (name, figures) in models {
        let figures: Option<ModelFigures> = fields.read("modelUsage", Some(figures));
        let written = figures
            .and_then(|figures| fields.count("outputTokens", figures.output_tokens))
            .unwrap_or_default();
        if busiest.as_ref().is_none_or(|(most, _)| written > *most) {
            busiest = Some((written, name));
        }
    }
    busiest.map(|(_, name)| name.split_once('[').map_or(name.as_ref(), |(name, _)| name).to_owned())
}
