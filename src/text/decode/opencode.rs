//! Decodes opencode's output lines to events (`opencode run --format json`, 1.18.34).
//!
//! In: parts, each complete: `step_start`, `text`, `reasoning`, `tool_use`, `step_finish`, `error`. There are no deltas, and no
//! first or last event. Out: the text parts of one step as one message, usage and cost summed over the steps.
//!
//! A step that ends with `stop` or `length` ends the run, which has failed if it has neither text nor calls; after `tool-calls`
//! the next step follows. `unknown` means that opencode could not tell why the model stopped and asks again, for ever: that is
//! a failure at once, so that the caller can end it. A run without such a last step was cut off: opencode loses the output that
//! is not read when it exits.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembler::MessageAssembler;
use super::format::{Format, Out, Verdict, status, tool_call, typed_line};
use super::json::{Count, Fields, Text, word};
use super::lines::strip_owned;
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::Usage;

/// The decoder's state between lines.
#[derive(Debug, Default)]
pub(super) struct Opencode {
    assembler: MessageAssembler,
    session_id: Option<String>,
    /// The usage, summed over the steps of this run.
    usage: Option<Usage>,
    cost_usd: f64,
    answer: Option<String>,
    failed: bool,
    /// The reason with which the last step ended, if it did not end the run.
    pending: Option<String>,
}

#[derive(Debug, Deserialize)]
struct OpencodeLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(rename = "sessionID")]
    session_id: Option<&'a RawValue>,
    part: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "messageID")]
    message_id: Option<&'a RawValue>,
    // text, reasoning
    text: Option<&'a RawValue>,
    // tool_use
    tool: Option<&'a RawValue>,
    #[serde(rename = "callID")]
    call_id: Option<&'a RawValue>,
    state: Option<&'a RawValue>,
    // step_finish
    reason: Option<&'a RawValue>,
    tokens: Option<&'a RawValue>,
    cost: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ToolState<'a> {
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// The tokens of a step. `input` excludes tokens served from the cache, `output` those of reasoning.
#[derive(Debug, Default, Deserialize)]
struct OpencodeTokens {
    input: Option<Count>,
    output: Option<Count>,
    reasoning: Option<Count>,
    cache: Option<Cache>,
}

#[derive(Debug, Default, Deserialize)]
struct Cache {
    read: Option<Count>,
    write: Option<Count>,
}

#[derive(Debug, Deserialize)]
struct OpencodeErrorInfo<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ErrorData<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(rename = "statusCode")]
    status_code: Option<&'a RawValue>,
}

impl Format for Opencode {
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict {
        typed_line(
            json,
            out,
            |line: &OpencodeLine| line.kind,
            |kind, line, fields, out| {
                self.session(line, fields, out);
                match kind {
                    // Later lines belong to attempts that opencode makes by itself.
                    _ if self.failed => {}
                    "error" => {
                        let failure = failure(line, fields);
                        self.fail(failure, out);
                    }
                    "step_start" | "text" | "reasoning" | "tool_use" | "step_finish" => {
                        if let Some(part) = fields.read::<Part>("part", line.part) {
                            self.part(kind, &part, fields, out);
                        }
                    }
                    _ => out.other(kind, json),
                }
            },
        )
    }

    fn finish(&mut self, out: &mut Out) {
        self.assembler.end_turn(out);
        if self.pending.as_deref() == Some("content-filter") {
            self.fail(
                stopped("content-filter", "the provider's content filter stopped the answer"),
                out,
            );
        }
    }
}

impl Opencode {
    fn part(&mut self, kind: &str, part: &Part, fields: &mut Fields, out: &mut Out) {
        match kind {
            "step_start" => {
                self.assembler.close(out);
                self.pending = None;
                self.answer = None;
            }
            "text" => {
                let id = fields.string("messageID", part.message_id);
                let Text(text) = fields.read("text", part.text).unwrap_or_default();
                let text = strip_owned(text);
                self.answer.get_or_insert_default().push_str(&text);
                self.assembler.enter(id.as_deref(), out);
                self.assembler.text(text, out);
            }
            "reasoning" => {
                let id = fields.string("messageID", part.message_id);
                let Text(text) = fields.read("text", part.text).unwrap_or_default();
                out.thought(&id, strip_owned(text));
            }
            "tool_use" => {
                self.assembler.close(out);
                let Some(state) = fields.read::<ToolState>("state", part.state) else {
                    return;
                };
                let id = fields.string("callID", part.call_id).unwrap_or_default();
                let name = fields.string("tool", part.tool).unwrap_or_default();
                out.event(tool_call(id.clone(), name, state.input));
                let Text(content) = fields.read("output", state.output.or(state.error)).unwrap_or_default();
                out.event(Event::ToolResult {
                    tool_call_id: id,
                    content: strip_owned(content).into_owned(),
                    is_error: word(state.status).as_deref() == Some("error"),
                });
            }
            _ => self.step_finish(part, fields, out),
        }
    }

    /// Decodes the end of a step: its usage and cost, and whether it ends the run.
    fn step_finish(&mut self, part: &Part, fields: &mut Fields, out: &mut Out) {
        self.assembler.close(out);
        let reason = fields.string("reason", part.reason);
        if let Some(tokens) = fields.read::<OpencodeTokens>("tokens", part.tokens) {
            let usage = self.usage.get_or_insert_default();
            add(usage, &tokens);
            out.event(Event::Usage {
                usage: usage.clone(),
                raw_stop_reason: reason.clone(),
            });
        }
        self.cost_usd += fields.read::<f64>("cost", part.cost).unwrap_or_default();
        match reason.as_deref() {
            Some("stop" | "length") => self.end(reason, out),
            Some("unknown") => {
                let why = "the answer ended without a reason that opencode knows; it would ask again for ever";
                self.pending = reason;
                self.fail(stopped("unknown", why), out);
            }
            _ => self.pending = reason,
        }
    }

    fn session(&mut self, line: &OpencodeLine, fields: &mut Fields, out: &mut Out) {
        let session_id = fields.string("sessionID", line.session_id);
        if session_id.is_some() && session_id != self.session_id {
            self.session_id = session_id;
            out.event(Event::Session {
                session_id: self.session_id.clone(),
                model: None,
                permission_mode: None,
                version: None,
            });
        }
    }

    /// Ends the run as failed. It is reported once: some errors come twice, and the endless loop repeats its own.
    fn fail(&mut self, failure: Failure, out: &mut Out) {
        self.assembler.end_turn(out);
        self.failed = true;
        out.event(Event::Failure(failure));
        let reason = self.pending.take();
        self.end(reason, out);
    }

    fn end(&mut self, stop_reason: Option<String>, out: &mut Out) {
        let outcome = Outcome {
            is_error: self.failed,
            text: self.answer.take(),
            stop_reason,
            cost_usd: self.usage.is_some().then_some(self.cost_usd),
            usage: self.usage.take(),
            session_id: self.session_id.clone(),
            ..Outcome::default()
        };
        self.cost_usd = 0.0;
        out.event(Event::Outcome(Box::new(outcome)));
    }
}

fn failure(line: &OpencodeLine, fields: &mut Fields) -> Failure {
    let error = fields.read::<OpencodeErrorInfo>("error", line.error);
    let name = error.as_ref().and_then(|error| fields.string("error.name", error.name));
    let data = error.and_then(|error| fields.read::<ErrorData>("error.data", error.data));
    let message = data
        .as_ref()
        .and_then(|data| fields.string("error.data.message", data.message));
    Failure {
        message: message.or_else(|| name.clone()).unwrap_or_default(),
        kind: name,
        http_status: status(data.and_then(|data| fields.small("statusCode", data.status_code))),
        ..Failure::default()
    }
}

fn stopped(reason: &str, why: &str) -> Failure {
    Failure {
        kind: Some(reason.to_owned()),
        message: why.to_owned(),
        ..Failure::default()
    }
}

/// Adds a step's tokens.
fn add(usage: &mut Usage, tokens: &OpencodeTokens) {
    let count = |count: Option<Count>| count.unwrap_or_default().0;
    let cache = tokens.cache.as_ref();
    let (read, write) = (
        count(cache.and_then(|cache| cache.read)),
        count(cache.and_then(|cache| cache.write)),
    );
    let reasoning = count(tokens.reasoning);
    let grow = |total: &mut u64, more: &[u64]| *total = more.iter().fold(*total, |sum, more| sum.saturating_add(*more));
    grow(&mut usage.input_tokens, &[count(tokens.input), read, write]);
    grow(&mut usage.output_tokens, &[count(tokens.output), reasoning]);
    grow(usage.cache_read_tokens.get_or_insert_default(), &[read]);
    grow(usage.cache_write_tokens.get_or_insert_default(), &[write]);
    grow(usage.reasoning_tokens.get_or_insert_default(), &[reasoning]);
    usage.total_tokens = usage.input_tokens.saturating_add(usage.output_tokens);
}

#[cfg(test)]
mod tests {
    use crate::decode::Wire;
    use crate::decode::tests::decode;

    fn events(lines: &[&str]) -> Vec<String> {
        decode(Wire::OpencodeJson, &[lines.join("\n").as_bytes()]).0
    }

    /// The CLI reports this twice: in the step's end and in an error.
    #[test]
    fn a_filtered_answer_fails_once_whether_the_error_line_comes_or_not() {
        let text = r#"{"type":"text","sessionID":"s","part":{"messageID":"m","text":"No."}}"#;
        let finish = r#"{"type":"step_finish","sessionID":"s","part":{"reason":"content-filter"}}"#;
        let error =
            r#"{"type":"error","sessionID":"s","error":{"name":"ContentFilterError","data":{"message":"filtered"}}}"#;
        assert_eq!(
            events(&[text, finish, error, error]),
            [
                "session s",
                "text No.",
                "message m No.",
                "failure ContentFilterError filtered",
                "outcome No."
            ]
        );
        assert_eq!(
            events(&[text, finish])[3..],
            [
                "failure content-filter the provider's content filter stopped the answer",
                "outcome No."
            ]
        );
    }

    #[test]
    fn whether_a_run_without_a_word_is_an_answer_is_the_judges_to_say() {
        let finish = r#"{"type":"step_finish","sessionID":"s","part":{"reason":"stop"}}"#;
        let thought = r#"{"type":"reasoning","sessionID":"s","part":{"messageID":"m","text":"Hm."}}"#;
        let text = r#"{"type":"text","sessionID":"s","part":{"messageID":"m","text":""}}"#;
        let tool = r#"{"type":"tool_use","sessionID":"s","part":{"callID":"c","tool":"ls","state":{"status":"completed","input":{},"output":""}}}"#;
        for lines in [&[finish][..], &[thought, text, finish], &[tool, finish]] {
            let told = events(lines);
            assert!(told.last().is_some_and(|last| last.starts_with("outcome")), "{told:?}");
            assert!(!told.iter().any(|event| event.starts_with("failure")), "{told:?}");
        }
    }

    #[test]
    fn the_parts_of_a_step_are_one_message_and_a_cut_line_ends_nothing() {
        let part =
            |text: &str| format!(r#"{{"type":"text","sessionID":"s","part":{{"messageID":"m","text":"{text}"}}}}"#);
        let lines = [part("a\\n"), part("b"), r#"{"type":"text","sess"#.to_owned()].join("\n");
        let (events, decoder) = decode(Wire::OpencodeJson, &[lines.as_bytes()]);
        assert_eq!(events, ["session s", "text a\n", "text b", "message m a\nb"]);
        assert!(decoder.cut_short());
    }
}
