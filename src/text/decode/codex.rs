//! Decodes codex's output lines to events (`codex exec --json`, 0.169.0).
//!
//! In: one JSON object per line; a turn is `turn.started`, items, and `turn.completed` or `turn.failed`. Out: a message for
//! every `agent_message`, the last of which is the answer; there are no text deltas on the wire.
//!
//! An item of type `error` and a top-level `error` that says "Reconnecting..." are not failures: only `turn.failed` is, or an
//! `error` after which the process ends.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembler::MessageAssembler;
use super::format::{Format, Out, Verdict, failure_of, read_usage, tool_call, typed_line};
use super::json::{Fields, Text, word};
use super::lines::strip_owned;
use dfp_model::event::{Event, Failure, Outcome};

/// The code of warnings for which a CLI has no code of its own.
pub(super) const CLI_WARNING: &str = "CLI_WARNING";

/// The decoder's state between lines.
#[derive(Debug, Default)]
pub(super) struct Codex {
    assembler: MessageAssembler,
    /// The last top-level `error`: the reason of the failure, if the turn fails.
    trouble: Option<Failure>,
    /// The number of reconnections so far in this turn.
    reconnections: u32,
    /// The ids of calls that were reported when they began.
    calls: Vec<String>,
    session_id: Option<String>,
    answer: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CodexLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    /// Present in `thread.started`.
    thread_id: Option<&'a RawValue>,
    /// Present in `item.*`.
    item: Option<&'a RawValue>,
    /// Present in `turn.completed`.
    usage: Option<&'a RawValue>,
    /// Present in `turn.failed`, and in an API's own error object.
    error: Option<&'a RawValue>,
    /// Present in `error`.
    message: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct CodexItem<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<&'a RawValue>,
    /// Present in `agent_message` and `reasoning`.
    text: Option<&'a RawValue>,
    /// Present in the form that CLI-ADAPTER-PROTOCOL also knows: `item.agent_message.text`.
    agent_message: Option<&'a RawValue>,
    /// Present in `error`.
    message: Option<&'a RawValue>,
    // command_execution
    command: Option<&'a RawValue>,
    aggregated_output: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    // mcp_tool_call
    server: Option<&'a RawValue>,
    tool: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// An error object, of which only the text matters.
#[derive(Debug, Deserialize)]
struct CodexError<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
}

/// A search of the web, which the API has made itself.
#[derive(Debug)]
struct WebSearch {
    id: String,
    query: String,
}

impl WebSearch {
    /// The search in `item`, if it is one. 0.169.0 writes its `id` twice, which only a map takes.
    fn of(item: &RawValue) -> Option<WebSearch> {
        // Other items are spared the reading.
        if !item.get().contains("\"web_search\"") {
            return None;
        }
        let fields: HashMap<String, &RawValue> = serde_json::from_str(item.get()).ok()?;
        let text = |name: &str| word(fields.get(name).copied()).unwrap_or_default().into_owned();
        (text("type") == "web_search").then(|| WebSearch {
            id: text("id"),
            query: text("query"),
        })
    }

    /// Tells of it as a call of the CLI's own. What was found is known to the model alone.
    fn tell(self, out: &mut Out) {
        let args = serde_json::value::to_raw_value(&serde_json::json!({"query": self.query})).ok();
        out.event(tool_call(self.id.clone(), "web_search".to_owned(), args.as_deref()));
        out.event(Event::ToolResult {
            tool_call_id: self.id,
            content: String::new(),
            is_error: false,
        });
    }
}

impl Format for Codex {
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict {
        typed_line(
            json,
            out,
            |line: &CodexLine| line.kind,
            |kind, line, fields, out| {
                match kind {
                    "thread.started" => {
                        self.session_id = fields.string("thread_id", line.thread_id);
                        out.event(Event::Session {
                            session_id: self.session_id.clone(),
                            model: None,
                            permission_mode: None,
                            version: None,
                        });
                    }
                    "turn.started" => self.end_turn(out),
                    "item.started" | "item.completed" => match (line.item.and_then(WebSearch::of), kind) {
                        (Some(search), "item.completed") => search.tell(out),
                        (Some(_), _) => out.other(kind, json),
                        (None, _) => {
                            if let Some(item) = fields.read::<CodexItem>("item", line.item) {
                                self.item(&item, kind == "item.completed", json, fields, out);
                            }
                        }
                    },
                    "turn.completed" => {
                        if let Some(overcome) = self.trouble.take() {
                            out.warning(CLI_WARNING, overcome.message);
                        }
                        let usage = read_usage(fields, line.usage);
                        if let Some(usage) = usage.clone() {
                            out.event(Event::Usage {
                                usage,
                                raw_stop_reason: None,
                            });
                        }
                        let outcome = Outcome {
                            usage,
                            text: self.answer.take(),
                            session_id: self.session_id.clone(),
                            ..Outcome::default()
                        };
                        out.event(Event::Outcome(Box::new(outcome)));
                        self.end_turn(out);
                    }
                    "turn.failed" => {
                        let error = fields.read::<CodexError>("error", line.error);
                        let message = error.and_then(|error| fields.string("error.message", error.message));
                        let failure = message
                            .map(|text| failure_of(&text))
                            .or(self.trouble.take())
                            .unwrap_or_default();
                        out.event(Event::Failure(failure));
                        let outcome = Outcome {
                            is_error: true,
                            session_id: self.session_id.clone(),
                            ..Outcome::default()
                        };
                        out.event(Event::Outcome(Box::new(outcome)));
                        self.end_turn(out);
                    }
                    "error" => {
                        let message = fields.string("message", line.message).unwrap_or_default();
                        match (message.strip_prefix("Reconnecting... "), line.error) {
                            (Some(state), _) => self.reconnecting(state, out),
                            // An API's own error object, printed unchanged.
                            (None, Some(error)) if message.is_empty() => self.trouble = Some(failure_of(error.get())),
                            (None, _) => self.trouble = Some(failure_of(&message)),
                        }
                    }
                    _ => out.other(kind, json),
                }
            },
        )
    }

    fn finish(&mut self, out: &mut Out) {
        if let Some(failure) = self.trouble.take() {
            out.event(Event::Failure(failure));
        }
    }
}

impl Codex {
    fn item(&mut self, item: &CodexItem, completed: bool, json: &str, fields: &mut Fields, out: &mut Out) {
        let kind = word(item.kind)
            .or(item.agent_message.map(|_| "agent_message".into()))
            .unwrap_or_default();
        let id = fields.string("item.id", item.id);
        match kind.as_ref() {
            "agent_message" | "reasoning" if completed => {
                let nested = fields.read::<CodexError>("agent_message", item.agent_message);
                let text: Text = fields
                    .read("text", item.text.or(nested.and_then(|error| error.text)))
                    .unwrap_or_default();
                let text = strip_owned(text.0);
                if kind == "reasoning" {
                    return out.thought(&id, text);
                }
                self.assembler.message(id.as_deref(), &text, out);
                self.answer = Some(text.into_owned());
            }
            "error" if completed => {
                out.warning(CLI_WARNING, fields.string("message", item.message).unwrap_or_default());
            }
            "command_execution" => {
                let args = format!("{{\"command\":{}}}", item.command.map_or("null", RawValue::get));
                self.call(
                    id,
                    "command_execution".to_owned(),
                    serde_json::from_str(&args).ok(),
                    out,
                );
                if completed {
                    let output = word(item.aggregated_output).unwrap_or_default();
                    self.result(item, strip_owned(output).into_owned(), out);
                }
            }
            "mcp_tool_call" => {
                // The name has the form in which claude names the tools of a server.
                let [server, tool] = [item.server, item.tool].map(|name| word(name).unwrap_or_default());
                self.call(id, format!("mcp__{server}__{tool}"), item.arguments, out);
                if completed {
                    let result = fields.read::<CodexError>("result", item.result.or(item.error));
                    let content = result.and_then(|result| match word(result.message) {
                        Some(message) => Some(message.into_owned()),
                        None => result.content.map(|content| content.get().to_owned()),
                    });
                    self.result(item, content.unwrap_or_default(), out);
                }
            }
            _ => out.other(
                if completed { "item.completed" } else { "item.started" }.to_owned() + "/" + &kind,
                json,
            ),
        }
    }

    /// Reports a call once: when it begins, or at its end if only that is reported.
    fn call(&mut self, id: Option<String>, name: String, args: Option<&RawValue>, out: &mut Out) {
        let id = id.unwrap_or_default();
        if !self.calls.contains(&id) {
            self.calls.push(id.clone());
            out.event(tool_call(id, name, args));
        }
    }

    fn result(&mut self, item: &CodexItem, content: String, out: &mut Out) {
        let tool_call_id = word(item.id).unwrap_or_default().into_owned();
        self.calls.retain(|id| *id != tool_call_id);
        out.event(Event::ToolResult {
            tool_call_id,
            content,
            is_error: item.error.is_some() || matches!(word(item.status).as_deref(), Some("failed" | "declined")),
        });
    }

    /// Reports a reconnection; `state` is `2/5 (reason)` or `waiting for network (reason)`.
    fn reconnecting(&mut self, state: &str, out: &mut Out) {
        self.reconnections += 1;
        let (progress, reason) = state.split_once(" (").unwrap_or((state, state));
        let counts = progress
            .split_once('/')
            .and_then(|(attempt, of)| Some((attempt.parse().ok()?, of.parse().ok()?)));
        out.event(Event::Retry {
            by: "cli",
            attempt: counts.map_or(self.reconnections, |(attempt, _)| attempt),
            max_attempts: counts.map(|(_, of)| of),
            delay_ms: 0,
            reason: reason.strip_suffix(')').unwrap_or(reason).to_owned(),
            http_status: None,
        });
    }

    fn end_turn(&mut self, out: &mut Out) {
        self.assembler.end_turn(out);
        self.trouble = None;
        self.answer = None;
        self.reconnections = 0;
        self.calls.clear();
    }
}

#[cfg(test)]
mod tests {
    use crate::decode::Wire;
    use crate::decode::tests::decode;

    fn events(lines: &str) -> Vec<String> {
        decode(Wire::CodexJson, &[lines.as_bytes()]).0
    }

    #[test]
    fn every_agent_message_is_a_message_and_each_call_is_one_event() {
        let lines = r#"
            {"type":"turn.started"}
            {"type":"item.completed","item":{"id":"0","type":"reasoning","text":"hm"}}
            {"type":"item.completed","item":{"id":"1","type":"agent_message","text":"I look."}}
            {"type":"item.started","item":{"id":"2","type":"command_execution","command":"ls \"a\"","status":"in_progress"}}
            {"type":"item.completed","item":{"id":"2","type":"command_execution","command":"ls \"a\"","aggregated_output":"\u001b[1ma\n","status":"failed"}}
            {"type":"item.completed","item":{"id":"3","type":"mcp_tool_call","server":"df","tool":"add","arguments":{"b":1,"a":2},"result":{"content":[{"type":"text","text":"3"}]},"status":"completed"}}
            {"type":"item.started","item":{"id":"item_6","type":"web_search","id":"6","query":"","action":{"type":"other"}}}
            {"type":"item.completed","item":{"id":"item_6","type":"web_search","id":"6","query":"news","action":{"type":"search","query":"news"}}}
            {"type":"item.completed","item":{"id":"4","type":"todo_list","items":[]}}
            {"type":"item.completed","item":{"id":"5","agent_message":{"text":"Done."}}}
            {"type":"turn.completed"}"#;
        assert_eq!(
            events(lines),
            [
                "thinking hm",
                "reasoning hm",
                "text I look.",
                "message 1 I look.",
                r#"call 2 command_execution {"command":"ls \"a\""}"#,
                "result true a\n",
                r#"call 3 mcp__df__add {"b":1,"a":2}"#,
                r#"result false [{"type":"text","text":"3"}]"#,
                "other item.started",
                r#"call 6 web_search {"query":"news"}"#,
                "result false ",
                "other item.completed/todo_list",
                "text Done.",
                "message 5 Done.",
                "outcome Done.",
            ]
        );
    }

    #[test]
    fn an_error_is_a_failure_only_if_the_turn_ends_with_it() {
        let error = r#"{"type":"error","message":"stream disconnected"}"#;
        assert_eq!(
            events(&format!("{error}\n{}", r#"{"type":"turn.completed"}"#)),
            ["warning CLI_WARNING stream disconnected", "outcome -"]
        );
        assert_eq!(
            events(&format!(
                "{error}\n{}",
                r#"{"type":"turn.failed","error":{"message":"gave up"}}"#
            )),
            ["failure - gave up", "outcome -"]
        );
        assert_eq!(
            events(&format!("{error}\n{}", r#"{"type":"turn.failed"}"#)),
            ["failure - stream disconnected", "outcome -"]
        );
        assert_eq!(events(error), ["failure - stream disconnected"]);
    }
}
