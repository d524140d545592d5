//! Decodes copilot's output lines to events (`copilot --output-format json`, 1.0.102). They are the events of its sessions,
//! which its server sends as well (`exchange::copilot_live`).
//!
//! In: `{type, data}`, one per line: the deltas of a message, the message, then the usage of its request; at the end one line
//! without `data`, `result`. Out: messages, and calls of the CLI's own tools with their results. There is no token usage, since
//! the lines have none.
//!
//! A request that failed is a `model.call_failure`. The CLI would make it again, up to five times in a minute, and no setting
//! prevents that: the first one counts as the failure of the run, so that the run can be ended there. When an answer reaches
//! the model's limit, the CLI asks for its continuation, twice, and the pieces become no message: that is a failure, too.
//! SIGTERM and SIGINT lead to exit code 0 and no `result`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembler::MessageAssembler;
use super::format::{Format, Out, Verdict, failure_of, status, tool_call, typed_line};
use super::json::{Fields, Text, Wtf8, is_true, word};
use super::lines::strip_owned;
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::reasoning::ReasoningDetail;

/// The kind of the failure of a request that the CLI would make again.
pub const CALL_FAILED: &str = "model_call_failed";
/// The kind of the failure of an answer that reached the model's limit, which the CLI would ask to continue.
pub const LENGTH: &str = "length";

/// The decoder's state between lines.
#[derive(Debug, Default)]
pub(super) struct Copilot {
    assembler: MessageAssembler,
    model: Option<String>,
    answer: Option<String>,
    failed: bool,
    /// True if text of the current request has come, but its message has not.
    is_streaming: bool,
    /// True if reasoning of the current request has come piece by piece.
    has_thought: bool,
}

#[derive(Debug, Deserialize)]
struct CopilotLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
    // result
    #[serde(rename = "sessionId")]
    session_id: Option<&'a RawValue>,
    #[serde(rename = "exitCode")]
    exit_code: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
}

/// The fields used here, of all events together.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    message_id: Option<&'a RawValue>,
    delta_content: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    reasoning_text: Option<&'a RawValue>,
    reasoning_blocks: Option<&'a RawValue>,
    tool_requests: Option<&'a RawValue>,
    // tool.execution_complete
    tool_call_id: Option<&'a RawValue>,
    success: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    // session.warning
    warning_type: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolRequest<'a> {
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ToolOutput<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopilotFigures<'a> {
    #[serde(borrow)]
    session_duration_ms: Option<&'a RawValue>,
}

impl Format for Copilot {
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict {
        typed_line(
            json,
            out,
            |line: &CopilotLine| line.kind,
            |kind, line, fields, out| {
                match (kind, line.data) {
                    // Later lines belong to attempts that the CLI makes by itself.
                    _ if self.failed => {}
                    ("result", None) => self.result(line, fields, out),
                    (kind, Some(raw)) => {
                        let data = fields.read::<Data>("data", Some(raw)).unwrap_or_default();
                        self.event(kind, &data, raw, json, fields, out);
                    }
                    (kind, None) => out.other(kind, json),
                }
            },
        )
    }

    fn finish(&mut self, out: &mut Out) {
        if self.is_streaming {
            self.assembler.discard(out);
        }
        self.assembler.end_turn(out);
    }
}

impl Copilot {
    /// Decodes an event that has `data`.
    fn event(&mut self, kind: &str, data: &Data, raw: &RawValue, json: &str, fields: &mut Fields, out: &mut Out) {
        match kind {
            "model.call_start" => {
                let model = fields.string("model", data.model);
                if model.is_some() && model != self.model {
                    self.model = model;
                    out.event(Event::Session {
                        session_id: None,
                        model: self.model.clone(),
                        permission_mode: None,
                        version: None,
                    });
                }
            }
            "assistant.message_start" => {
                let id = fields.string("messageId", data.message_id);
                self.assembler.begin(id, out);
            }
            "assistant.reasoning_delta" => {
                self.has_thought = true;
                let Text(piece) = fields.read("deltaContent", data.delta_content).unwrap_or_default();
                out.thinking(&None, strip_owned(piece));
            }
            "assistant.message_delta" => {
                self.is_streaming = true;
                let piece = fields.read::<Wtf8>("deltaContent", data.delta_content);
                self.assembler.text_delta(piece.unwrap_or_default(), out);
            }
            "assistant.message" => self.message(data, fields, out),
            "tool.execution_complete" => {
                let output = fields.read::<ToolOutput>("result", data.result.or(data.error));
                let text = output.and_then(|output| output.content.or(output.message));
                let Text(content) = fields.read("content", text).unwrap_or_default();
                out.event(Event::ToolResult {
                    tool_call_id: fields.string("toolCallId", data.tool_call_id).unwrap_or_default(),
                    content: strip_owned(content).into_owned(),
                    is_error: !is_true(data.success),
                });
            }
            "model.call_final_result" if self.is_streaming && word(data.result).as_deref() == Some("success") => {
                self.fail(cut_by_limit(), out);
            }
            "model.call_failure" => self.fail(failed_call(raw.get()), out),
            "session.error" => self.fail(failed_session(raw.get()), out),
            "session.warning" => {
                let code = word(data.warning_type).unwrap_or_default().to_uppercase();
                let message = fields.string("message", data.message).unwrap_or_default();
                out.warning(code, message);
            }
            // These lines repeat what others say, or say nothing that a caller needs.
            "user.message"
            | "assistant.turn_start"
            | "assistant.turn_end"
            | "assistant.reasoning"
            | "assistant.idle"
            | "model.call_finished"
            | "model.call_final_result"
            | "tool.execution_start"
            | "session.tools_updated" => {}
            _ => out.other(kind, json),
        }
    }

    fn message(&mut self, data: &Data, fields: &mut Fields, out: &mut Out) {
        self.is_streaming = false;
        let id = fields.string("messageId", data.message_id);
        let Text(thought) = fields.read("reasoningText", data.reasoning_text).unwrap_or_default();
        let thought = strip_owned(thought);
        if !std::mem::take(&mut self.has_thought) {
            out.thinking(&id, thought.clone());
        }
        let blocks = data.reasoning_blocks.map(|blocks| reasoning_of(blocks.get()));
        let blocks = blocks.filter(|blocks| !blocks.is_empty());
        out.reasoning(blocks.unwrap_or_else(|| ReasoningDetail::text(&thought, None).into_iter().collect()));
        self.assembler.enter(id.as_deref(), out);
        let Text(text) = fields.read("content", data.content).unwrap_or_default();
        self.answer = Some(strip_owned(text.clone()).into_owned());
        self.assembler.text(text, out);
        let requests: Vec<ToolRequest> = fields.read("toolRequests", data.tool_requests).unwrap_or_default();
        for request in requests {
            let id = fields.string("toolCallId", request.tool_call_id).unwrap_or_default();
            let name = fields.string("name", request.name).unwrap_or_default();
            self.assembler.call(tool_call(id, name, request.arguments));
        }
        self.assembler.close(out);
    }

    /// Ends the run as failed; the first failure is the one reported.
    fn fail(&mut self, failure: Failure, out: &mut Out) {
        self.assembler.end_turn(out);
        self.failed = true;
        out.event(Event::Failure(failure));
        let outcome = Outcome {
            is_error: true,
            model: self.model.clone(),
            ..Outcome::default()
        };
        out.event(Event::Outcome(Box::new(outcome)));
    }

    fn result(&mut self, line: &CopilotLine, fields: &mut Fields, out: &mut Out) {
        self.assembler.end_turn(out);
        let figures = fields.read::<CopilotFigures>("usage", line.usage);
        let outcome = Outcome {
            is_error: line.exit_code.is_none_or(|code| code.get() != "0"),
            text: self.answer.take(),
            session_id: fields.string("sessionId", line.session_id),
            model: self.model.clone(),
            duration_ms: figures.and_then(|figures| fields.count("sessionDurationMs", figures.session_duration_ms)),
            ..Outcome::default()
        };
        out.event(Event::Outcome(Box::new(outcome)));
    }
}

/// The failure of an answer that reached the model's limit.
pub fn cut_by_limit() -> Failure {
    Failure::named(LENGTH, "the answer reached the limit of the model's output")
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FailedCall {
    status_code: Option<u16>,
    error_message: Option<String>,
    error_code: Option<String>,
    error_type: Option<String>,
    failure_kind: Option<String>,
}

/// The failure that a `model.call_failure` with this `data` reports: the API's own error, as JSON or as text.
pub fn failed_call(data: &str) -> Failure {
    let call: FailedCall = serde_json::from_str(data).unwrap_or_default();
    let message = call.error_message.unwrap_or_default();
    // The message is a JSON text: the API's error, or a sentence.
    let sentence = serde_json::from_str::<String>(&message);
    let told = failure_of(sentence.as_deref().unwrap_or(&message));
    let kinds = told.kind.into_iter().chain(told.more_kinds);
    let kinds = kinds.chain([call.error_code, call.error_type].into_iter().flatten());
    let mut more_kinds: Vec<String> = Vec::new();
    for kind in kinds {
        if !more_kinds.contains(&kind) {
            more_kinds.push(kind);
        }
    }
    let of = call.failure_kind.unwrap_or_else(|| "api".to_owned());
    Failure {
        kind: Some(CALL_FAILED.to_owned()),
        more_kinds,
        message: match told.message {
            message if message.is_empty() => format!("a request failed ({of})"),
            message => message,
        },
        http_status: status(call.status_code).or(told.http_status),
        ..Failure::default()
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FailedSession {
    error_type: Option<String>,
    error_code: Option<String>,
    provider_error_type: Option<String>,
    message: String,
    status_code: Option<u16>,
}

/// The failure that a `session.error` with this `data` reports.
pub fn failed_session(data: &str) -> Failure {
    let error: FailedSession = serde_json::from_str(data).unwrap_or_default();
    let finer = [error.error_code, error.provider_error_type];
    Failure {
        // copilot uses "query" for every other kind.
        kind: error.error_type.filter(|kind| kind != "query"),
        more_kinds: finer.into_iter().flatten().collect(),
        message: error.message,
        http_status: status(error.status_code),
        ..Failure::default()
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Sealed {
    provider: String,
    blocks: Vec<serde_json::Value>,
}

/// The parts of a message's reasoning that its API has sealed (`reasoningBlocks`): a signature, or an item's encrypted content.
pub fn reasoning_of(blocks: &str) -> Vec<ReasoningDetail> {
    let sealed: Sealed = serde_json::from_str(blocks).unwrap_or_default();
    let word =
        |block: &serde_json::Value, name: &str| block.get(name).and_then(|word| word.as_str().map(str::to_owned));
    let details = sealed.blocks.iter().flat_map(|block| match sealed.provider.as_str() {
        "openai-responses" => ReasoningDetail::of_item(block),
        _ => {
            let redacted = word(block, "data").map(|data| ReasoningDetail::redacted(&data));
            let text = word(block, "thinking").unwrap_or_default();
            let signed = ReasoningDetail::text(&text, word(block, "signature").as_deref());
            redacted.or(signed).into_iter().collect()
        }
    });
    details.collect()
}
