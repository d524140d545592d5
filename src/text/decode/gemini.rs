//! Decodes gemini's output to events (0.61.0): JSON lines of `--output-format stream-json`, or the one object of `json`.
//!
//! In: `init`, `message` in pieces, `tool_use`, `tool_result`, `error` (a warning), `result`; or `{session_id, response,
//! stats}`. Out: one message per run of pieces, and the usage of all models together, as LangChain counts it: the tokens of
//! reasoning are output. gemini reports SAFETY and MAX_TOKENS as plain success, so they can't be seen here.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembler::MessageAssembler;
use super::format::{Format, Out, Verdict, failure_of, status, tool_call};
use super::json::{Count, Fields, Members, Text, is_true, word};
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::Usage;

/// The decoder's state between lines.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    assembler: MessageAssembler,
    session_id: Option<String>,
    /// The text of the last `error`.
    complaint: Option<String>,
}

#[derive(Debug, Deserialize)]
struct GeminiLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    session_id: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    // message; error
    role: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    delta: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    // tool_use, tool_result
    tool_id: Option<&'a RawValue>,
    tool_name: Option<&'a RawValue>,
    parameters: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    // result; `status` is tool_result's, too
    status: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    stats: Option<&'a RawValue>,
    // `json` only
    response: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct GeminiErrorInfo<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    code: Option<&'a RawValue>,
}

/// The `stats` of both formats.
#[derive(Debug, Default, Deserialize)]
struct Stats<'a> {
    // stream-json
    total_tokens: Option<Count>,
    input_tokens: Option<Count>,
    output_tokens: Option<Count>,
    cached: Option<Count>,
    duration_ms: Option<Count>,
    #[serde(borrow)]
    models: Option<Members<'a>>,
}

/// One model's figures: `output_tokens` in `stream-json`, `tokens` in `json`.
#[derive(Debug, Deserialize)]
struct ModelStats {
    output_tokens: Option<Count>,
    tokens: Option<GeminiTokens>,
}

#[derive(Debug, Default, Deserialize)]
struct GeminiTokens {
    /// All of the input, including the part that came from the cache.
    prompt: Option<Count>,
    /// The part of the input that tools caused.
    tool: Option<Count>,
    candidates: Option<Count>,
    thoughts: Option<Count>,
    cached: Option<Count>,
}

impl Format for Gemini {
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict {
        let Ok(line) = serde_json::from_str::<GeminiLine>(json) else {
            return Verdict::NotJson;
        };
        let mut fields = Fields::default();
        let kind = word(line.kind);
        match kind.as_deref() {
            None if line.response.is_none() && line.stats.is_none() && line.error.is_none() => return Verdict::Foreign,
            None => {
                self.session(&line, &mut fields, out);
                let text = fields.read::<Text>("response", line.response).unwrap_or_default();
                self.assembler.message(None, &text.0, out);
                self.end(&line, &mut fields, out);
            }
            Some("init") => self.session(&line, &mut fields, out),
            Some("message") => {
                let text = fields.read::<Text>("content", line.content).unwrap_or_default();
                match word(line.role).as_deref() {
                    Some("assistant") if is_true(line.delta) => self.assembler.piece(&text.0, out),
                    Some("assistant") => self.assembler.message(None, &text.0, out),
                    // This is an echo of the prompt.
                    _ => {}
                }
            }
            Some("tool_use") => {
                self.assembler.close(out);
                let id = fields.string("tool_id", line.tool_id).unwrap_or_default();
                let name = fields.string("tool_name", line.tool_name).unwrap_or_default();
                out.event(tool_call(id, name, line.parameters));
            }
            Some("tool_result") => {
                let error = fields.read::<GeminiErrorInfo>("error", line.error);
                let output = fields.string("output", line.output);
                out.event(Event::ToolResult {
                    tool_call_id: fields.string("tool_id", line.tool_id).unwrap_or_default(),
                    content: output
                        .or_else(|| fields.string("error.message", error.and_then(|error| error.message)))
                        .unwrap_or_default(),
                    is_error: word(line.status).as_deref() == Some("error"),
                });
            }
            Some("error") => {
                let message = fields.string("message", line.message).unwrap_or_default();
                self.complaint = Some(message.clone());
                out.warning(super::codex::CLI_WARNING, message);
            }
            Some("result") => self.end(&line, &mut fields, out),
            Some(other) => out.other(other, json),
        }
        if let Some(complaint) = fields.complaint() {
            out.note(&format!("{}: {complaint}", kind.as_deref().unwrap_or("json")));
        }
        Verdict::Event
    }

    fn finish(&mut self, out: &mut Out) {
        self.assembler.end_turn(out);
    }
}

impl Gemini {
    fn session(&mut self, line: &GeminiLine, fields: &mut Fields, out: &mut Out) {
        self.session_id = fields.string("session_id", line.session_id);
        out.event(Event::Session {
            session_id: self.session_id.clone(),
            model: fields.string("model", line.model),
            permission_mode: None,
            version: None,
        });
    }

    fn end(&mut self, line: &GeminiLine, fields: &mut Fields, out: &mut Out) {
        self.assembler.end_turn(out);
        let stats: Option<Stats> = fields.read("stats", line.stats);
        let duration_ms = stats.as_ref().and_then(|stats| stats.duration_ms).map(|count| count.0);
        let (usage, model) = stats.map(|stats| figures(stats, fields)).unwrap_or_default();
        let failed = line.error.is_some() || line.status.is_some() && word(line.status).as_deref() != Some("success");
        if let Some(usage) = usage.clone() {
            out.event(Event::Usage {
                usage,
                raw_stop_reason: None,
            });
        }
        if failed {
            let complaint = self.complaint.take();
            out.event(Event::Failure(failure(line, complaint, fields)));
        }
        out.event(Event::Outcome(Box::new(Outcome {
            subtype: fields.string("status", line.status),
            is_error: failed,
            text: fields.string("response", line.response),
            usage,
            duration_ms,
            session_id: self.session_id.clone(),
            model,
            ..Outcome::default()
        })));
    }
}

/// The failure of a result. One without an error of its own failed by the error before it (drift/gemini/err-empty-stream).
fn failure(line: &GeminiLine, complaint: Option<String>, fields: &mut Fields) -> Failure {
    let error: Option<GeminiErrorInfo> = fields.read("error", line.error);
    let Some(error) = error else {
        return complaint.as_deref().map(failure_of).unwrap_or_default();
    };
    let inner = failure_of(&fields.string("error.message", error.message).unwrap_or_default());
    let named = fields.string("error.type", error.kind).filter(|kind| kind != "unknown");
    let code = error.code.and_then(|code| fields.small("error.code", Some(code)));
    Failure {
        more_kinds: inner
            .more_kinds
            .into_iter()
            .chain(inner.kind.as_ref().and(named.clone()))
            .collect(),
        kind: inner.kind.or(named),
        http_status: inner.http_status.or(status(code)),
        message: inner.message,
        ..Failure::default()
    }
}

/// The tokens of all models together, and the model that wrote most: a routing model may have been called, too.
fn figures(stats: Stats, fields: &mut Fields) -> (Option<Usage>, Option<String>) {
    let count = |count: Option<Count>| count.unwrap_or_default().0;
    let mut busiest: Option<(u64, String)> = None;
    let mut sum = None;
    for (name, raw) in stats.models.unwrap_or_default().0 {
        let Some(model) = fields.read::<ModelStats>("models", Some(raw)) else {
            continue;
        };
        let mut written = count(model.output_tokens);
        if let Some(tokens) = model.tokens {
            written = count(tokens.candidates).saturating_add(count(tokens.thoughts));
            let sum: &mut [u64; 4] = sum.get_or_insert_default();
            let read = count(tokens.prompt).saturating_add(count(tokens.tool));
            for (total, more) in sum
                .iter_mut()
                .zip([read, written, count(tokens.cached), count(tokens.thoughts)])
            {
                *total = total.saturating_add(more);
            }
        }
        if busiest.as_ref().is_none_or(|(most, _)| written > *most) {
            busiest = Some((written, name.into_owned()));
        }
    }
    // A stream does not count reasoning: it is the part of the total beyond input and answer.
    let streamed = stats.input_tokens.map(|Count(read)| {
        let written = count(stats.total_tokens).saturating_sub(read);
        let answer = count(stats.output_tokens);
        [
            read,
            written.max(answer),
            count(stats.cached),
            written.saturating_sub(answer),
        ]
    });
    let usage = sum.or(streamed).map(|[read, written, cached, thoughts]| Usage {
        input_tokens: read,
        output_tokens: written,
        total_tokens: read.saturating_add(written),
        cache_read_tokens: Some(cached),
        reasoning_tokens: Some(thoughts),
        ..Usage::default()
    });
    (usage, busiest.map(|(_, name)| name))
}

#[cfg(test)]
mod tests {
    use crate::decode::Wire;
    use crate::decode::tests::decode;

    #[test]
    fn messages_end_where_tools_begin() {
        let lines = r#"
            {"type":"message","role":"assistant","content":"Let me ","delta":true}
            {"type":"message","role":"assistant","content":"look.\u001b[0m","delta":true}
            {"type":"tool_use","tool_name":"read_file","tool_id":"t1","parameters":{"path":"a"}}
            {"type":"tool_result","tool_id":"t1","status":"error","error":{"type":"X","message":"no such file"}}
            {"type":"error","severity":"warning","message":"loop detected"}
            {"type":"message","role":"assistant","content":"Gone."}
            {"type":"later_kind"}"#;
        assert_eq!(
            decode(Wire::GeminiStream, &[lines.as_bytes()]).0,
            [
                "text Let me ",
                "text look.",
                "message - Let me look.",
                r#"call t1 read_file {"path":"a"}"#,
                "result true no such file",
                "warning CLI_WARNING loop detected",
                "text Gone.",
                "message - Gone.",
                "other later_kind",
            ]
        );
    }

    #[test]
    fn a_failure_without_a_message_has_the_one_before_it() {
        let lines = r#"
            {"type":"error","severity":"error","message":"Model stream ended without a finish reason."}
            {"type":"result","status":"error","stats":{}}"#;
        assert_eq!(
            decode(Wire::GeminiStream, &[lines.as_bytes()]).0,
            [
                "warning CLI_WARNING Model stream ended without a finish reason.",
                "failure - Model stream ended without a finish reason.",
                "outcome -",
            ]
        );
    }

    #[test]
    fn an_error_object_after_noise_is_a_failure() {
        let text = "[STARTUP] x\n{\n \"session_id\": \"s\",\n \"error\": {\"type\": \"ApiError\", \"message\": \"quota\", \"code\": 429}\n}";
        let (events, decoder) = decode(Wire::GeminiJson, &[text.as_bytes()]);
        assert_eq!(events[1..], ["failure ApiError quota", "outcome -"]);
        assert_eq!(decoder.diagnostics(), ["line 1: not JSON: [STARTUP] x"]);
    }
}
