//! Decodes grok's JSON lines (`--output-format streaming-json`, 1.0.41) to events.
//!
//! In: `text` and `thought` in pieces, `tool_call` and `tool_call_update` of its own tools, `usage` after every response, and
//! at the end `end` or `error`. Out: one message, its usage, and an outcome. When the model's safeguards stop an answer, grok
//! exits with 0 and `stopReason: "refusal"`; here that is a failure.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::assembler::MessageAssembler;
use super::format::{Format, Out, Verdict, read_usage, status, tool_call, typed_line};
use super::json::{Count, Fields, Text, word};
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::Usage;

/// The decoder's state between lines.
#[derive(Debug, Default)]
pub(super) struct Grok {
    assembler: MessageAssembler,
    /// True if grok has reached its own limit of turns; its last line then says only that the turn was cancelled.
    reached_limit: bool,
}

#[derive(Debug, Deserialize)]
struct GrokLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    // text, thought
    data: Option<&'a RawValue>,
    // error
    message: Option<&'a RawValue>,
    // tool_call, tool_call_update
    #[serde(rename = "toolCallId")]
    call_id: Option<&'a RawValue>,
    #[serde(rename = "toolName")]
    tool_name: Option<&'a RawValue>,
    #[serde(rename = "rawInput")]
    input: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    // usage, end
    usage: Option<&'a RawValue>,
    #[serde(rename = "stopReason")]
    stop_reason: Option<&'a RawValue>,
    #[serde(rename = "sessionId")]
    session_id: Option<&'a RawValue>,
    num_turns: Option<Count>,
}

/// The figures of `usage` that grok has in addition to the common ones.
#[derive(Debug, Default, Deserialize)]
struct Thought {
    reasoning_tokens: Option<Count>,
}

impl Format for Grok {
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict {
        typed_line(
            json,
            out,
            |line: &GrokLine| line.kind,
            |kind, line, fields, out| {
                match kind {
                    "text" => {
                        let text = fields.read::<Text>("data", line.data).unwrap_or_default();
                        self.assembler.piece(&text.0, out);
                    }
                    "thought" => {
                        let text = fields.string("data", line.data).unwrap_or_default();
                        if !text.is_empty() {
                            out.event(Event::ThinkingDelta { message_id: None, text });
                        }
                    }
                    "tool_call" => {
                        self.assembler.close(out);
                        let id = fields.string("toolCallId", line.call_id).unwrap_or_default();
                        let name = fields.string("toolName", line.tool_name).unwrap_or_default();
                        out.event(tool_call(id, name, line.input));
                    }
                    "tool_call_update" => self.result(line, fields, out),
                    // There is one after every response; their sum is in `end`.
                    "usage" => {}
                    "max_turns_reached" => self.reached_limit = true,
                    "end" => self.end(line, fields, out),
                    "error" => {
                        self.assembler.end_turn(out);
                        let message = fields.string("message", line.message).unwrap_or_default();
                        out.event(Event::Failure(worded_failure(&message)));
                    }
                    other => out.other(other, json),
                }
            },
        )
    }

    fn finish(&mut self, out: &mut Out) {
        self.assembler.end_turn(out);
    }
}

impl Grok {
    /// Reports the result of one of grok's own tools, once it is over.
    fn result(&self, line: &GrokLine, fields: &mut Fields, out: &mut Out) {
        let state = word(line.status);
        let is_error = match state.as_deref() {
            Some("completed") => false,
            Some("failed") => true,
            _ => return,
        };
        out.event(Event::ToolResult {
            tool_call_id: fields.string("toolCallId", line.call_id).unwrap_or_default(),
            content: line.content.map(|content| content.get().to_owned()).unwrap_or_default(),
            is_error,
        });
    }

    fn end(&mut self, line: &GrokLine, fields: &mut Fields, out: &mut Out) {
        self.assembler.end_turn(out);
        let thought: Option<Thought> = fields.read("usage", line.usage);
        let usage = read_usage(fields, line.usage).map(|usage| Usage {
            reasoning_tokens: usage.reasoning_tokens.or(thought
                .and_then(|thought| thought.reasoning_tokens)
                .map(|Count(tokens)| tokens)),
            ..usage
        });
        let stop_reason = fields.string("stopReason", line.stop_reason);
        if let Some(usage) = usage.clone() {
            out.event(Event::Usage {
                usage,
                raw_stop_reason: stop_reason.clone(),
            });
        }
        let is_error = stop_reason.as_deref() != Some("end_turn");
        if is_error {
            out.event(Event::Failure(Failure {
                kind: match self.reached_limit {
                    true => Some("max_turn_requests".to_owned()),
                    false => stop_reason.clone(),
                },
                message: match stop_reason.as_deref() {
                    _ if self.reached_limit => "max turns reached".to_owned(),
                    Some("refusal") => "the model's safeguards stopped the answer".to_owned(),
                    Some(reason) => format!("the CLI ended the turn: {reason}"),
                    None => "the CLI's last word does not say how the turn ended".to_owned(),
                },
                ..Failure::default()
            }));
        }
        out.event(Event::Outcome(Box::new(Outcome {
            subtype: (!is_error).then(|| "success".to_owned()),
            is_error,
            stop_reason,
            num_turns: line.num_turns.and_then(|Count(turns)| u32::try_from(turns).ok()),
            usage,
            session_id: fields.string("sessionId", line.session_id),
            ..Outcome::default()
        })));
    }
}

/// The body of a failure, as JSON behind `Internal error: `.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Inner {
    Text(String),
    Fields {
        message: String,
        #[serde(default)]
        http_status: Option<u16>,
        #[serde(default)]
        error_kind: Option<String>,
    },
}

/// The failure that grok words as `text`, usually JSON behind words of its own.
fn worded_failure(text: &str) -> Failure {
    let inner = text
        .strip_prefix("Internal error: ")
        .and_then(|inner| serde_json::from_str(inner).ok());
    inner_failure(inner.unwrap_or_else(|| Inner::Text(text.to_owned())))
}

/// The failure of an error over the Agent Client Protocol, whose `data` holds the JSON that `worded_failure` reads behind
/// grok's words.
pub fn grok_failure(message: &str, data: &Value) -> Failure {
    let inner = Inner::deserialize(data).ok();
    inner_failure(inner.unwrap_or_else(|| Inner::Text(message.to_owned())))
}

/// The API's own words, kind and status, from inside up to two layers of grok's words.
fn inner_failure(inner: Inner) -> Failure {
    let (text, told, kind) = match inner {
        Inner::Text(text) => (text, None, None),
        Inner::Fields {
            message,
            http_status,
            error_kind,
        } => (message, http_status, error_kind),
    };
    // The text after it is about the CLI: its version, its models.
    let text = text
        .split_once("\n\n  Model: ")
        .map_or(&*text, |(reason, _)| reason)
        .trim();
    let (worded, reason) = layer(text);
    let (named, message) = match reason.split_once(": ") {
        Some((word, message)) if is_kind(word) => (Some(word), message),
        _ => (None, reason),
    };
    let in_brackets = || {
        let (_, last) = reason.strip_suffix(')')?.rsplit_once(" (")?;
        is_kind(last).then_some(last)
    };
    let mut kinds = kind
        .into_iter()
        .chain(worded.kind.map(str::to_owned))
        .chain(named.or_else(in_brackets).map(str::to_owned));
    Failure {
        kind: kinds.next(),
        more_kinds: kinds.collect(),
        message: message.to_owned(),
        http_status: status(told.or(worded.status)),
        ..Failure::default()
    }
}

/// The facts in the sentence that grok puts before the API's words.
#[derive(Debug, Default)]
struct Worded<'a> {
    status: Option<u16>,
    kind: Option<&'a str>,
}

/// Splits `API error (status 400 Bad Request): …`, `Unauthorized (401) from URL: …` or `stream error (server_error): …` from
/// the text behind it.
fn layer(text: &str) -> (Worded<'_>, &str) {
    let number = |text: &str| text.get(..3).and_then(|digits| digits.parse().ok());
    let beginnings = [
        ("API error (status ", "): "),
        ("Unauthorized (", ": "),
        ("stream error (", "): "),
    ];
    for (beginning, end) in beginnings {
        if let Some((inside, rest)) = text.strip_prefix(beginning).and_then(|rest| rest.split_once(end)) {
            let worded = Worded {
                status: number(inside),
                kind: Some(inside).filter(|inside| is_kind(inside)),
            };
            return (worded, rest);
        }
    }
    (Worded::default(), text)
}

/// Returns whether `word` is a machine's word, such as `rate_limit_error`.
fn is_kind(word: &str) -> bool {
    word.contains('_') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::super::Wire;
    use super::super::golden::decode;
    use super::*;

    /// The wordings are those of grok 1.0.41.
    #[test]
    fn the_apis_words_are_taken_out_of_groks() {
        let read = |text: &str| {
            let failure = worded_failure(text);
            (failure.http_status, failure.kind, failure.message)
        };
        for (text, status, kind, message) in [
            (
                r#"Internal error: {"message": "API error (status 403 Forbidden): permission_error: not allowed", "http_status": 403}"#,
                Some(403),
                Some("permission_error"),
                "not allowed",
            ),
            (
                r#"Internal error: "Unauthorized (401) from http://127.0.0.1:1/v1/chat/completions: invalid_request_error: Incorrect API key provided\n\n  Model:     m\n  Auth:      ApiKey""#,
                Some(401),
                Some("invalid_request_error"),
                "Incorrect API key provided",
            ),
            (
                r#"Internal error: "stream error (server_error): server exploded""#,
                None,
                Some("server_error"),
                "server exploded",
            ),
            (
                r#"Internal error: "empty response from model (no_visible_content)""#,
                None,
                Some("no_visible_content"),
                "empty response from model (no_visible_content)",
            ),
            (
                r#"Internal error: {"message": "response truncated by max_tokens", "error_kind": "max_tokens_truncation"}"#,
                None,
                Some("max_tokens_truncation"),
                "response truncated by max_tokens",
            ),
            (
                "rate_limit_error: slow down",
                None,
                Some("rate_limit_error"),
                "slow down",
            ),
            ("Note: line 500", None, None, "Note: line 500"),
            ("Internal error: {\"x\":1}", None, None, "Internal error: {\"x\":1}"),
        ] {
            assert_eq!(
                read(text),
                (status, kind.map(str::to_owned), message.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_refusal_is_no_success() {
        let lines = "{\"type\":\"text\",\"data\":\"Hel\"}\n{\"type\":\"end\",\"stopReason\":\"refusal\"}\n";
        let (events, _) = decode(Wire::GrokStream, [lines.as_bytes()]);
        let failure = events.iter().find_map(|event| match event {
            Event::Failure(failure) => failure.kind.as_deref(),
            _ => None,
        });
        assert_eq!(failure, Some("refusal"));
    }
}
