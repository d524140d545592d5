//! claude's and qwen's lines to events.
//!
//! In: one JSON object of `--output-format stream-json` (or `json`). Out: events; a turn ends with its `result` line,
//! which need not be the last line of the turn, and the decoder is ready for the next turn.
//!
//! | line | events |
//! |---|---|
//! | `system/init` | `Session` (again on every turn of a live session) |
//! | `stream_event` | `TextDelta`, `ThinkingDelta`; the rest of the stream is told again by whole lines |
//! | `assistant` | `Message`, `ToolCall`; a failure if it carries an `error` |
//! | `user` | `ToolResult`; echoes are `Other` |
//! | `system/api_retry`, `rate_limit_event` | `Retry`, `RateLimit` |
//! | `system/informational`, `permission_denied`, `model_refusal…`, `model_fallback` | `Warning` with the subtype in upper case as its code |
//! | `result` | `Usage`, `Failure` if it is one, `Outcome` |
//! | subagents' lines, control lines, hooks, anything else | `Other` |

mod outcome;
mod wire;

use std::borrow::Cow;

use serde_json::value::RawValue;

use self::wire::{ApiMessage, Block, Delta, Head, RateLimitInfo, RateLimitLine, StreamEvent, System};
use super::ansi::strip_ansi;
use super::json::{Fields, Text, Wtf8, is_array, is_string, is_true, word};
use super::notes::Out;
use super::speech::{Speech, tool_call};
use super::{Format, Verdict};
use crate::event::{Event, Failure};

/// The model of messages the CLI writes itself.
const SYNTHETIC: &str = "<synthetic>";

/// How qwen 0.15.10 spells an API error: as the model's answer, in a run that succeeds.
const QWEN_ERROR: &str = "[API Error: ";

/// The state between lines.
#[derive(Debug, Default)]
pub(super) struct Claude {
    speech: Speech,
    turn: Turn,
}

/// What is known of the turn that is going on.
#[derive(Debug, Default)]
struct Turn {
    /// The model that answered.
    model: Option<String>,
    /// What an `assistant` line with an `error` said; the `result` line decides and adds to it.
    failure: Option<Failure>,
    /// The failure stands though the `result` line tells of a success (qwen).
    disguised: bool,
    /// The text of a message the CLI wrote itself: content only if `result` repeats it.
    synthetic: Option<String>,
    /// When the limit that was hit ends, ms since the epoch.
    resets_at: Option<u64>,
}

impl Format for Claude {
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict {
        let Ok(head) = serde_json::from_str::<Head>(json) else {
            return Verdict::NotJson;
        };
        let Some(kind) = word(head.kind) else {
            return Verdict::Foreign;
        };
        if head.parent_tool_use_id.is_some() {
            out.other(kind, json);
            return Verdict::Event;
        }
        let mut fields = Fields::default();
        match kind.as_ref() {
            "stream_event" => self.stream_event(&head, &mut fields, out),
            "assistant" => self.assistant(&head, &mut fields, out),
            "user" => self.user(&head, json, &mut fields, out),
            "result" => self.result(json, &mut fields, out),
            "system" => self.system(&head, json, &mut fields, out),
            "rate_limit_event" => self.rate_limit(json, &mut fields, out),
            _ => out.other(kind.as_ref(), json),
        }
        if let Some(complaint) = fields.complaint() {
            out.note(&format!("{kind}: {complaint}"));
        }
        Verdict::Event
    }

    fn finish(&mut self, out: &mut Out) {
        self.speech.end_turn(out);
        if let Some(failure) = std::mem::take(&mut self.turn).failure {
            out.event(Event::Failure(failure));
        }
    }
}

impl Claude {
    fn stream_event(&mut self, head: &Head, fields: &mut Fields, out: &mut Out) {
        let Some(event) = fields.read::<StreamEvent>("event", head.event) else {
            return;
        };
        match word(event.kind).as_deref() {
            Some("content_block_delta") => {
                let Some(delta) = fields.read::<Delta>("delta", event.delta) else {
                    return;
                };
                match (word(delta.kind).as_deref(), delta.text, delta.thinking) {
                    (Some("text_delta"), Some(text), _) => self.speech.text_delta(text, out),
                    (Some("thinking_delta"), _, Some(thinking)) => {
                        let index = fields.count("index", event.index);
                        self.speech.thinking_delta(index, thinking, out);
                    }
                    // Arguments and signatures come whole with the `assistant` line.
                    _ => {}
                }
            }
            Some("message_start") => {
                let message = fields.read::<ApiMessage>("message", event.message);
                let id = message.as_ref().and_then(|message| fields.string("id", message.id));
                self.speech.begin(id, out);
                if let Some(model) = message.and_then(|message| fields.string("model", message.model)) {
                    self.turn.model = Some(model);
                }
            }
            Some("content_block_start") => {
                self.speech.block(out);
                let block = fields.read::<Block>("content_block", event.content_block);
                if let Some(block) = block.filter(|block| word(block.kind).as_deref() == Some("text"))
                    && let Some(text) = fields.read::<Wtf8>("text", block.text)
                    && !text.0.is_empty()
                {
                    self.speech.text_delta(text, out);
                }
            }
            Some("content_block_stop") => self.speech.block(out),
            Some("message_stop") => self.speech.close(out),
            _ => {}
        }
    }

    fn assistant(&mut self, head: &Head, fields: &mut Fields, out: &mut Out) {
        let Some(message) = fields.read::<ApiMessage>("message", head.message) else {
            return;
        };
        let blocks = content_blocks(&message, fields);
        let text = || joined_text(&message, &blocks);
        let model = fields.string("model", message.model);
        let synthetic = model.as_deref() == Some(SYNTHETIC);
        if let Some(kind) = fields.string("error", head.error) {
            self.speech.close(out);
            self.turn.failure = Some(Failure {
                kind: Some(kind),
                message: text(),
                ..Failure::default()
            });
            return;
        }
        if synthetic {
            self.turn.synthetic = Some(text());
            return;
        }
        if model.is_some() {
            self.turn.model = model;
        }
        if is_qwen_error(&message, &blocks) {
            self.speech.discard();
            self.turn.failure = Some(qwen_failure(&text()));
            self.turn.disguised = true;
            return;
        }
        self.speech.enter(fields.string("id", message.id).as_deref(), out);
        if message.content.is_some_and(is_string) {
            self.speech.text(&text(), out);
        }
        for block in &blocks {
            self.block(block, fields, out);
        }
    }

    fn block(&mut self, block: &Block, fields: &mut Fields, out: &mut Out) {
        match word(block.kind).as_deref() {
            Some("text") => {
                if let Some(text) = fields.read::<Text>("text", block.text) {
                    self.speech.text(&text.0, out);
                }
            }
            Some("thinking") => {
                if let Some(text) = fields.read::<Text>("thinking", block.thinking) {
                    self.speech.thinking(&text.0, out);
                }
            }
            Some("tool_use") => {
                let id = fields.string("id", block.id).unwrap_or_default();
                let name = fields.string("name", block.name).unwrap_or_default();
                self.speech.call(tool_call(id, name, block.input));
            }
            _ => {}
        }
    }

    fn user(&mut self, head: &Head, json: &str, fields: &mut Fields, out: &mut Out) {
        let Some(message) = fields.read::<ApiMessage>("message", head.message) else {
            return;
        };
        self.speech.settle(out);
        let mut results = 0;
        for block in content_blocks(&message, fields) {
            if word(block.kind).as_deref() != Some("tool_result") {
                continue;
            }
            results += 1;
            out.event(Event::ToolResult {
                tool_call_id: fields.string("tool_use_id", block.tool_use_id).unwrap_or_default(),
                content: block
                    .content
                    .map_or_else(String::new, |content| match word(Some(content)) {
                        Some(text) => strip_ansi(&text).into_owned(),
                        None => content.get().to_owned(),
                    }),
                is_error: is_true(block.is_error),
            });
        }
        if results == 0 {
            out.other("user", json);
        }
    }

    fn system(&mut self, head: &Head, json: &str, fields: &mut Fields, out: &mut Out) {
        let subtype = word(head.subtype).unwrap_or_default();
        let Some(line) = fields.read_line::<System>(json) else {
            return;
        };
        match subtype.as_ref() {
            "init" => out.event(Event::Session {
                session_id: fields.string("session_id", line.session_id),
                model: fields.string("model", line.model),
                permission_mode: fields.string("permissionMode", line.permission_mode_claude.or(line.permission_mode)),
                version: fields.string("version", line.claude_code_version.or(line.qwen_code_version)),
            }),
            "api_retry" => out.event(Event::Retry {
                by: "cli",
                attempt: fields.small("attempt", line.attempt).unwrap_or_default(),
                max_attempts: fields.small("max_retries", line.max_retries),
                delay_ms: fields.count("retry_delay_ms", line.retry_delay_ms).unwrap_or_default(),
                reason: fields.string("error", line.error).unwrap_or_default(),
                http_status: fields.small("error_status", line.error_status),
            }),
            "informational" | "permission_denied" | "model_fallback" => {
                out.warning(subtype.to_uppercase(), warning_text(&subtype, &line));
            }
            _ if subtype.starts_with("model_refusal") => {
                out.warning(subtype.to_uppercase(), warning_text(&subtype, &line));
            }
            "" => out.other("system", json),
            _ => out.other(format!("system/{subtype}"), json),
        }
    }

    fn rate_limit(&mut self, json: &str, fields: &mut Fields, out: &mut Out) {
        let line = fields.read_line::<RateLimitLine>(json);
        let info = line.and_then(|line| fields.read::<RateLimitInfo>("rate_limit_info", line.rate_limit_info));
        let Some(info) = info else { return };
        let status = fields.string("status", info.status).unwrap_or_default();
        let seconds = fields.count("resetsAt", info.resets_at);
        let resets_at = seconds.map(|seconds| seconds.saturating_mul(1000));
        if status == "rejected" {
            self.turn.resets_at = resets_at;
        }
        out.event(Event::RateLimit {
            status,
            resets_at,
            limit_type: fields.string("rateLimitType", info.limit_type),
            utilization: fields.read::<f64>("utilization", info.utilization),
        });
    }
}

/// The blocks of a message, if its content is an array of them.
fn content_blocks<'a>(message: &ApiMessage<'a>, fields: &mut Fields) -> Vec<Block<'a>> {
    let raw: Vec<&RawValue> = match message.content {
        Some(content) if is_array(content) => fields.read("content", Some(content)).unwrap_or_default(),
        Some(content) if !is_string(content) => {
            fields.complain("content: neither blocks nor a string");
            Vec::new()
        }
        _ => Vec::new(),
    };
    raw.into_iter()
        .filter_map(|block| fields.read("content block", Some(block)))
        .collect()
}

/// All of a message's text, as one string.
fn joined_text(message: &ApiMessage, blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| word(block.text));
    let text: String = word(message.content).into_iter().chain(texts).collect();
    strip_ansi(&text).into_owned()
}

/// Qwen's API errors look like an answer; that no token was read or written gives them away.
fn is_qwen_error(message: &ApiMessage, blocks: &[Block]) -> bool {
    let begins = matches!(blocks, [block] if word(block.text).is_some_and(|text| text.starts_with(QWEN_ERROR)));
    begins
        && super::usage::read_usage(&mut Fields::default(), message.usage).is_some_and(|usage| usage.total_tokens == 0)
}

/// `[API Error: 401 Incorrect API key provided]` in its parts.
fn qwen_failure(text: &str) -> Failure {
    let reason = text.strip_prefix(QWEN_ERROR).unwrap_or(text);
    let reason = reason.trim_end().strip_suffix(']').unwrap_or(reason);
    let status = reason.split(' ').next().and_then(|word| word.parse().ok());
    Failure {
        message: reason.to_owned(),
        http_status: status.filter(|status| (400..600).contains(status)),
        ..Failure::default()
    }
}

/// What a line that becomes a warning says, or what its fields mean.
fn warning_text(subtype: &str, line: &System) -> String {
    let said = [line.message, line.content, line.api_refusal_explanation]
        .into_iter()
        .find_map(|field| word(field).filter(|text| !text.is_empty()));
    if let Some(said) = said {
        return strip_ansi(&said).into_owned();
    }
    let named = |field| word(field).unwrap_or(Cow::Borrowed("unknown"));
    match subtype {
        "model_fallback" => format!(
            "{} answers instead of {}: {}",
            named(line.fallback_model),
            named(line.original_model),
            named(line.trigger)
        ),
        _ => format!("the safeguards of {} stopped the answer", named(line.original_model)),
    }
}
