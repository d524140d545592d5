//! Decodes the output lines of claude and qwen to events.
//!
//! In: one JSON object of `--output-format stream-json` (or `json`). Out: events; a turn ends with its `result` line,
//! which need not be the last line of the turn, and the decoder is ready for the next turn.
//!
//! | line | events |
//! |---|---|
//! | `system/init` | `Session` (again on every turn of a live session) |
//! | `stream_event` | `TextDelta`, `ThinkingDelta`, `ToolCallDelta` where those are asked for; the rest of the stream is repeated by whole lines |
//! | `assistant` | `Message`, `ToolCall`; a failure if it carries an `error` |
//! | `user` | `ToolResult`; echoes are `Other` |
//! | `system/api_retry`, `rate_limit_event` | `Retry`, `RateLimit` |
//! | `system/retry` (qwen 0.24.4) | `Retry` where it says after how long; `Abandoned` where what was said is void, else the text goes on |
//! | `system/informational`, `permission_denied`, `model_refusal…`, `model_fallback` | `Warning` with the subtype in upper case as its code |
//! | `result` | `Usage`, `Failure` if it is one, `Outcome` |
//! | subagents' lines, control lines, hooks, anything else | `Other` |
//! | `content`, `turn.*`, lines with a `role` | as CLI-ADAPTER-PROTOCOL has them (`generic`) |
//! | an object without a `type` that has a `result` | as `result`, where it is all there is ([`Claude::of_results`]) |

pub(in crate::decode) mod wire;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use self::wire::{
    ApiMessage, ClaudeLine, Content, ContentBlock, PlanWindow, RateLimitInfo, RateLimitLine, RetryData, StreamEvent,
    System, is_bare_result,
};
use super::assembler::{ChunkJoiner, MessageAssembler};
use super::format::{API_ERROR, Format, Out, Verdict, failure_of, read_usage, tool_call};
use super::generic::{Answers, Generic};
use super::json::{Fields, Text, Wtf8, is_object, is_true, word};
use super::lines::{strip_ansi, strip_owned};
use dfp_model::event::{Event, Failure};
use dfp_model::message::Usage;
use dfp_model::message::reasoning::ReasoningDetail;

/// The beginnings of the messages by which the CLI, in the user's name, asks for the rest of an answer that met the model's
/// output limit or was cut by a lost connection (2.1.330; 2.1.197 asks after the model's limit too, but does not show it). All
/// of it is one answer, whose last part is not a whole one.
const ASKS_FOR_THE_REST: [&str; 2] = [
    "Output token limit hit. Resume directly",
    "Your response above was cut off mid-stream. Resume directly",
];

/// The kind of failure of an answer that has reached its limit of tokens: the CLI's own word for it.
pub const MAX_OUTPUT_TOKENS: &str = "max_output_tokens";

/// The most windows of a plan that are reported beside the one that the CLI speaks of: a plan has two or three.
const MOST_WINDOWS: usize = 8;

/// The status of a window of which the CLI tells only the figures: it speaks of one that is used up by itself.
const ALLOWED: &str = "allowed";

/// The model name of messages that the CLI writes itself.
const SYNTHETIC: &str = "<synthetic>";

/// The decoder's state between lines.
#[derive(Debug, Default)]
pub(super) struct Claude {
    assembler: MessageAssembler,
    turn: Turn,
    /// Decodes lines that are not in claude's own format: its old stream, and the output of programs in its place.
    generic: Generic,
    /// True if a subagent's lines are the ones to decode.
    of_subagent: bool,
    /// True if a result line need not have a `type`.
    takes_bare_results: bool,
    of_qwen: bool,
    /// True if the arguments of calls are reported piece by piece.
    tells_call_deltas: bool,
    /// True if a response that has reached its limit of tokens ends the turn.
    ends_at_limit: bool,
    /// The tools that the last `system/init` listed; `None` once they were taken.
    offered: Option<Vec<String>>,
    /// The calls of the response that is being streamed that no `assistant` line has reported yet. The last one is still being
    /// written if its block is open.
    written: Vec<WrittenCall>,
    is_writing: bool,
}

/// A tool call as the model writes it. The CLI's later report of it has resolved escapes that the model had written as text
/// (`\\u00e9`, claude 2.1.332; `\\u` before any four hexadecimal digits, 2.1.197).
#[derive(Debug)]
struct WrittenCall {
    id: String,
    name: String,
    joiner: ChunkJoiner,
    args: String,
}

/// The facts known about the current turn.
#[derive(Debug, Default)]
struct Turn {
    /// The model that answered.
    model: Option<String>,
    /// The failure of an `assistant` line with an `error`; the `result` line decides on it and adds to it.
    failure: Option<Failure>,
    /// True if the failure stands although the `result` line reports a success (qwen).
    disguised: bool,
    /// The text of a message that the CLI wrote itself: it is content only if `result` repeats it.
    synthetic: Option<String>,
    /// When the plan limit that was hit is reset, ms since the epoch.
    resets_at: Option<u64>,
    /// The name of that limit of the plan.
    limit_type: Option<String>,
    /// True if the account has no plan.
    no_plan: bool,
    /// True if the CLI is claude, which never prints two messages of the model in a row except as parts of one answer.
    is_claude: bool,
    /// True if the CLI is certainly qwen: it has told its version.
    is_qwen: bool,
    /// True if nothing has come since an `assistant` line that would separate it from the next.
    spoke_last: bool,
    /// The usage of the turn's responses so far, as their streams report it.
    streamed: Option<Usage>,
    /// True if the turn has ended at its limit of tokens: later output belongs to a response that the caller has not asked for.
    is_over: bool,
}

impl Format for Claude {
    fn take_offered(&mut self) -> Option<Vec<String>> {
        self.offered.take()
    }

    fn object(&mut self, json: &str, out: &mut Out) -> Verdict {
        if self.turn.is_over {
            return Verdict::Event;
        }
        let mut fields = Fields::default();
        let Some(mut line) = ClaudeLine::read(json, &mut fields) else {
            return Verdict::NotJson;
        };
        let kind = match word(line.kind) {
            Some(kind) => kind,
            None if self.takes_bare_results && is_bare_result(json) => Cow::Borrowed("result"),
            None => return self.generic.object(None, json, out),
        };
        match kind.as_ref() {
            "stream_event" | "rate_limit_event" | "assistant" => {}
            "system" if word(line.subtype).as_deref() == Some("status") => {}
            _ => self.turn.spoke_last = false,
        }
        match kind.as_ref() {
            _ if line.parent_tool_use_id.is_some() && !self.of_subagent => out.other(kind.as_ref(), json),
            "stream_event" => {
                let cut = line.abandoned_blocks.is_some();
                self.stream_event(line.event.take().unwrap_or_default(), cut, out);
            }
            "assistant" => self.assistant(&mut line, out),
            "user" => self.user(line, json, out),
            "result" => self.result(json, &mut fields, out),
            "system" => self.system(&line, json, &mut fields, out),
            "rate_limit_event" => self.rate_limit(json, &mut fields, out),
            _ => return self.generic.object(Some(&kind), json, out),
        }
        if let Some(complaint) = fields.complaint() {
            out.note(&format!("{kind}: {complaint}"));
        }
        Verdict::Event
    }

    fn tell_call_deltas(&mut self) {
        self.tells_call_deltas = true;
    }

    fn end_at_limit(&mut self) {
        self.ends_at_limit = true;
    }

    fn finish(&mut self, out: &mut Out) {
        self.generic.finish(out);
        self.assembler.end_turn(out);
        let turn = std::mem::take(&mut self.turn);
        if let Some(failure) = turn.failure.filter(|_| !turn.is_over) {
            out.event(Event::Failure(failure));
        }
    }
}

impl Claude {
    /// Makes a decoder that also accepts `answers` as an answer.
    pub fn new(answers: Answers) -> Self {
        Claude {
            generic: Generic::new(answers),
            ..Claude::default()
        }
    }

    /// Makes a decoder that accepts results without a `type`. Programs in a CLI's place print no more than they were asked for,
    /// as deep-factor-agent's doubles of claude do (`{"result":"Hi"}`). It also accepts `answers` as an answer.
    pub fn of_results(answers: Answers) -> Self {
        Claude {
            takes_bare_results: true,
            ..Claude::new(answers)
        }
    }

    /// Makes a decoder for the lines of one subagent.
    pub fn of_subagent() -> Self {
        Claude {
            of_subagent: true,
            ..Claude::default()
        }
    }

    /// Makes a decoder for qwen's lines.
    pub fn of_qwen() -> Self {
        Claude {
            of_qwen: true,
            ..Claude::default()
        }
    }

    /// Decodes an event of the API's stream; `cut` is true if the CLI says that the response was cut short.
    fn stream_event(&mut self, event: StreamEvent, cut: bool, out: &mut Out) {
        match word(event.kind).as_deref() {
            Some("content_block_delta") => {
                let delta = event.delta.unwrap_or_default();
                match (word(delta.kind).as_deref(), delta.text, delta.thinking) {
                    (Some("text_delta"), Some(text), _) => self.assembler.text_delta(text, out),
                    (Some("thinking_delta"), _, Some(thinking)) => {
                        self.assembler.thinking_delta(event.index, thinking, out)
                    }
                    (Some("input_json_delta"), ..) => self.call_delta(delta.partial_json, out),
                    // Signatures come whole with the `assistant` line.
                    _ => {}
                }
            }
            Some("message_start") => {
                self.written.clear();
                self.is_writing = false;
                let message = event.message.unwrap_or_default();
                self.assembler.begin(message.id.map(Text::into_string), out);
                if let Some(model) = message.model {
                    self.turn.model = Some(model.into_string());
                }
            }
            Some("content_block_start") => {
                self.assembler.block(out);
                let mut block = event.content_block.unwrap_or_default();
                self.is_writing = !self.of_qwen && word(block.kind).as_deref() == Some("tool_use");
                if self.is_writing {
                    self.written.push(WrittenCall {
                        id: block.id.take().unwrap_or_default().into_string(),
                        name: block.name.take().unwrap_or_default().into_string(),
                        joiner: ChunkJoiner::default(),
                        args: String::new(),
                    });
                }
                if let (Some("text"), Some(Text(text))) = (word(block.kind).as_deref(), block.text)
                    && !text.is_empty()
                {
                    self.assembler.text_delta(text.into(), out);
                }
            }
            Some("content_block_stop") => {
                self.is_writing = false;
                self.assembler.block(out);
            }
            Some("message_stop") if cut => self.assembler.cut(out),
            // A response that ends like this may still be void: only the next line tells (`system/retry`, 0.24.4).
            Some("message_stop") if self.of_qwen && !self.assembler.has_calls() => {}
            Some("message_stop") => self.assembler.stop(out),
            Some("message_delta") => {
                let delta = event.delta.unwrap_or_default();
                if let Some(usage) = read_usage(&mut Fields::default(), event.usage) {
                    self.turn.streamed.get_or_insert_default().add(&usage);
                }
                match word(delta.stop_reason).as_deref() {
                    Some("max_tokens") if self.ends_at_limit => self.limit_ends(out),
                    Some("max_tokens") => self.assembler.reached_limit(out),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The turn ends with a response that has reached its limit of tokens. A call in it was cut, or is one of several: none of them is to run.
    fn limit_ends(&mut self, out: &mut Out) {
        self.assembler.close_without_calls(out);
        if let Some(usage) = self.turn.streamed.take() {
            out.event(Event::Usage {
                usage,
                raw_stop_reason: Some("max_tokens".to_owned()),
            });
        }
        out.event(Event::Failure(Failure {
            kind: Some(MAX_OUTPUT_TOKENS.to_owned()),
            message: "the answer hit the limit of output tokens and is cut short".to_owned(),
            ..Failure::default()
        }));
        self.turn.is_over = true;
    }

    /// Adds a piece of the arguments of the call that is being written. The whole call comes with its `assistant` line.
    fn call_delta(&mut self, piece: Option<Wtf8>, out: &mut Out) {
        let (Some(call), Some(piece), true) = (self.written.last_mut(), piece, self.is_writing) else {
            return;
        };
        let delta = call.joiner.join_json(piece);
        call.args.push_str(&delta);
        if self.tells_call_deltas && !delta.is_empty() && !call.id.is_empty() {
            out.event(Event::ToolCallDelta {
                tool_call_id: call.id.clone(),
                name: call.name.clone(),
                delta: delta.into_owned(),
            });
        }
    }

    /// The arguments of the call `id` as the model wrote them, if all of their pieces have come.
    fn written(&mut self, id: &str) -> Option<Box<RawValue>> {
        let at = self.written.iter().position(|call| call.id == id)?;
        let args = self.written.remove(at).args;
        let args: Box<RawValue> = serde_json::from_str(&args).ok()?;
        is_object(&args).then_some(args)
    }

    /// Decodes an `assistant` line: content blocks of the model's message, a message that the CLI wrote itself, or a failure.
    fn assistant(&mut self, line: &mut ClaudeLine, out: &mut Out) {
        let Some(message) = line.message.take() else { return };
        let in_a_row = std::mem::take(&mut self.turn.spoke_last);
        if let Some(kind) = word(line.error) {
            self.assembler.close(out);
            self.turn.failure = Some(Failure {
                kind: Some(kind.into_owned()),
                message: joined_text(&message.content),
                ..Failure::default()
            });
            return;
        }
        match message.model {
            Some(Text(model)) if model == SYNTHETIC => {
                self.turn.synthetic = Some(joined_text(&message.content));
                return;
            }
            Some(ref model) => self.turn.model = Some(model.0.clone().into_owned()),
            None => {}
        }
        if let Some(failure) = qwen_error(&message, self.turn.is_qwen) {
            self.assembler.discard(out);
            self.turn.failure = Some(failure);
            self.turn.disguised = true;
            return;
        }
        // qwen repeats a response's reasoning and its text as messages with ids of their own, of which the stream names the first (0.24.4).
        let is_repeated = self.of_qwen && self.assembler.is_unconfirmed();
        let id = message.id.as_ref().map(|id| id.0.as_ref()).filter(|_| !is_repeated);
        if in_a_row && self.turn.is_claude {
            self.assembler.followed_by(id, out);
        }
        self.turn.spoke_last = true;
        self.assembler.enter(id, out);
        match message.content {
            Content::Text(text) => self.assembler.text(text, out),
            Content::Blocks(blocks) => blocks.into_iter().for_each(|block| self.block(block, out)),
        }
    }

    /// Adds one whole content block to the entered message. A call's arguments are those streamed, if all of their pieces came.
    fn block(&mut self, block: ContentBlock, out: &mut Out) {
        match (word(block.kind).as_deref(), block.text, block.thinking) {
            (Some("text"), Some(Text(text)), _) => self.assembler.text(text, out),
            (Some("thinking"), _, Some(Text(thinking))) => {
                let signature = block.signature.as_ref().map(|Text(signature)| signature.as_ref());
                self.assembler.thinking(thinking, signature, out);
            }
            (Some("redacted_thinking"), ..) => {
                out.reasoning(block.data.map(|Text(data)| ReasoningDetail::redacted(&data)));
            }
            (Some("tool_use"), ..) => {
                let id = block.id.unwrap_or_default().into_string();
                let name = block.name.unwrap_or_default().into_string();
                let written = self.written(&id);
                self.assembler
                    .call(tool_call(id, name, written.as_deref().or(block.input)));
            }
            _ => {}
        }
    }

    /// Decodes a `user` line: results of tools, the CLI's request for the rest of an answer, or an echo.
    fn user(&mut self, line: ClaudeLine, json: &str, out: &mut Out) {
        if line.message.as_deref().is_some_and(asks_for_the_rest) {
            self.assembler.goes_on(out);
            return out.other("user", json);
        }
        self.assembler.settle(out);
        let blocks = match line.message.unwrap_or_default().content {
            Content::Blocks(blocks) => blocks,
            Content::Text(_) => Vec::new(),
        };
        let is_result = |block: &ContentBlock| word(block.kind).as_deref() == Some("tool_result");
        if !blocks.iter().any(is_result) {
            out.other("user", json);
        }
        for block in blocks.into_iter().filter(is_result) {
            out.event(Event::ToolResult {
                tool_call_id: block.tool_use_id.unwrap_or_default().into_string(),
                content: block
                    .content
                    .map_or_else(String::new, |content| match word(Some(content)) {
                        Some(text) => strip_owned(text).into_owned(),
                        None => content.get().to_owned(),
                    }),
                is_error: is_true(block.is_error),
            });
        }
    }

    /// Decodes a `system` line by its subtype.
    fn system(&mut self, line: &ClaudeLine, json: &str, fields: &mut Fields, out: &mut Out) {
        let subtype = word(line.subtype).unwrap_or_default();
        let Some(line) = fields.read_line::<System>(json) else {
            return;
        };
        match subtype.as_ref() {
            "init" => {
                self.turn.is_claude = line.claude_code_version.is_some();
                self.turn.is_qwen = line.qwen_code_version.is_some();
                self.offered = line.tools.and_then(|tools| serde_json::from_str(tools.get()).ok());
                out.event(Event::Session {
                    session_id: fields.string("session_id", line.session_id),
                    model: fields.string("model", line.model),
                    permission_mode: fields
                        .string("permissionMode", line.permission_mode_claude.or(line.permission_mode)),
                    version: fields.string("version", line.claude_code_version.or(line.qwen_code_version)),
                });
            }
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
            "retry" => self.retry(line.data, json, fields, out),
            "" => out.other("system", json),
            _ => out.other(format!("system/{subtype}"), json),
        }
    }

    /// Handles a line by which qwen asks its model again, for the whole answer or for its rest.
    fn retry(&mut self, data: Option<&RawValue>, json: &str, fields: &mut Fields, out: &mut Out) {
        let data = fields.read::<RetryData>("data", data).unwrap_or_default();
        match fields.read::<bool>("preserveText", data.preserve_text) {
            Some(false) => self.assembler.discard(out),
            Some(true) => self.assembler.resume_text(),
            None => {}
        }
        let Some(attempt) = fields.small("attempt", data.attempt) else {
            return out.other("system/retry", json);
        };
        out.event(Event::Retry {
            by: "cli",
            attempt,
            max_attempts: fields.small("maxRetries", data.max_retries),
            delay_ms: fields.count("delayMs", data.delay_ms).unwrap_or_default(),
            reason: fields.string("reason", data.reason).unwrap_or_default(),
            http_status: None,
        });
    }

    /// Decodes a `rate_limit_event`: the state of a plan's window. The failure of a refused request gets its facts from here.
    fn rate_limit(&mut self, json: &str, fields: &mut Fields, out: &mut Out) {
        let line = fields.read_line::<RateLimitLine>(json);
        let info = line.and_then(|line| fields.read::<RateLimitInfo>("rate_limit_info", line.rate_limit_info));
        let Some(info) = info else { return };
        let status = fields.string("status", info.status).unwrap_or_default();
        let seconds = fields.count("resetsAt", info.resets_at);
        let resets_at = seconds.map(|seconds| seconds.saturating_mul(1000));
        let limit_type = fields.string("rateLimitType", info.limit_type);
        if status == "rejected" {
            self.turn.resets_at = resets_at;
            self.turn.limit_type.clone_from(&limit_type);
            // The reason also stands beside a window of a plan, where only usage beyond the window is switched off.
            let disabled = fields.string("overageDisabledReason", info.overage_disabled_reason);
            let is_of_plan = limit_type.as_deref().is_some_and(|window| window != "overage");
            self.turn.no_plan = disabled.as_deref() == Some("org_level_disabled") && !is_of_plan;
        }
        let windows: BTreeMap<String, PlanWindow> = fields.read("unifiedWindows", info.windows).unwrap_or_default();
        let own = limit_type.as_ref().and_then(|name| windows.get(name));
        let utilization = fields
            .read::<f64>("utilization", info.utilization)
            .or(own.and_then(|window| window.utilization));
        let others = windows.iter().filter(|(name, _)| Some(*name) != limit_type.as_ref());
        for (name, window) in others.take(MOST_WINDOWS) {
            out.event(Event::RateLimit {
                status: window.status.clone().unwrap_or_else(|| ALLOWED.to_owned()),
                resets_at: window.resets_at.map(|seconds| seconds.saturating_mul(1000)),
                limit_type: Some(name.clone()),
                utilization: window.utilization,
            });
        }
        // The window that the CLI itself speaks of is last, since the last one counts where there is room for one.
        out.event(Event::RateLimit {
            status,
            resets_at,
            limit_type,
            utilization,
        });
    }
}

/// Returns whether a message in the user's name is the CLI's own request for the rest of an answer.
fn asks_for_the_rest(message: &ApiMessage) -> bool {
    let text = match &message.content {
        Content::Text(text) => text.as_ref(),
        Content::Blocks(blocks) => match blocks.as_slice() {
            [
                ContentBlock {
                    text: Some(Text(text)), ..
                },
            ] => text.as_ref(),
            _ => "",
        },
    };
    ASKS_FOR_THE_REST.iter().any(|request| text.starts_with(request))
}

/// All text of a message, as one string.
fn joined_text(content: &Content) -> String {
    let text = match content {
        Content::Text(text) => text.clone().into_owned(),
        Content::Blocks(blocks) => blocks
            .iter()
            .filter_map(|block| block.text.as_ref())
            .map(|text| text.0.as_ref())
            .collect(),
    };
    strip_owned(text.into()).into_owned()
}

/// The whole text with which qwen 0.15.10 reports an answer of white space, whose tokens it counts.
const QWEN_EMPTY: &str = "[API Error: Model stream ended with empty response text.]";

/// Recognises an API error of qwen's that looks like an answer, or like the end of one that was cut
/// (drift/qwen-oldest/err-cut-stream). It gives itself away by a usage of no tokens read or written. A CLI that is certainly qwen tells
/// those read where its API has answered without a word (0.15.10); claude may say that nothing was written before it knows.
fn qwen_error(message: &ApiMessage, is_qwen: bool) -> Option<Failure> {
    let usage = read_usage(&mut Fields::default(), message.usage)?;
    let Content::Blocks(blocks) = &message.content else {
        return None;
    };
    let [
        ContentBlock {
            text: Some(Text(text)), ..
        },
    ] = blocks.as_slice()
    else {
        return None;
    };
    let is_empty = is_qwen && text.trim() == QWEN_EMPTY;
    let tokens = if is_qwen {
        usage.output_tokens
    } else {
        usage.total_tokens
    };
    if tokens > 0 && !is_empty {
        return None;
    }
    let at = match text.starts_with(API_ERROR) {
        true => 0,
        false => text.rfind(API_ERROR).filter(|_| text.trim_end().ends_with(']'))?,
    };
    Some(failure_of(&text[at..]))
}

/// The text of the warning that a line leads to: the line's own, or one made of its fields.
fn warning_text(subtype: &str, line: &System) -> String {
    let text = [line.message, line.content, line.api_refusal_explanation]
        .into_iter()
        .find_map(|field| word(field).filter(|text| !text.is_empty()));
    if let Some(text) = text {
        return strip_ansi(&text).into_owned();
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
