//! One run's timeline, written event by event.
//!
//! In: a run's events as JSON of any origin. Out: its [`RunView`]. A field of another type than expected is as good as none.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::read::Run;
use super::timeline::{Fact, Item, Kind, Outcome, RunView};
use super::view::{self, one_line};

/// The most characters of an [`Item::gist`].
const GIST: usize = 80;

impl Item {
    fn new(kind: Kind, t: u64, title: impl Into<String>) -> Item {
        Item {
            kind,
            t,
            duration_ms: None,
            title: title.into(),
            facts: Vec::new(),
            text: None,
            args: None,
            gist: None,
            result: None,
        }
    }

    fn fact(mut self, name: &str, value: Option<String>) -> Item {
        self.facts.extend(value.map(|value| fact(name, &value)));
        self
    }

    fn text(mut self, text: Option<String>) -> Item {
        self.text = text;
        self
    }
}

fn fact(name: &str, value: &str) -> Fact {
    Fact {
        name: name.to_owned(),
        value: one_line(value),
    }
}

/// What there is to see of `run`.
pub(super) fn run_view(run: &Run) -> RunView {
    let header = view::json(run.header.get());
    let mut scribe = Scribe::new(run);
    scribe.prompt(&header["prompt"]);
    for entry in &run.entries {
        scribe.event(entry.t, &entry.kind, &view::json(entry.event.get()));
    }
    if let Some(end) = &run.end {
        scribe.end(
            end.t,
            &end.status,
            end.error.as_deref().map(|error| view::json(error.get())),
        );
    }
    let mut view = scribe.finish();
    let package = string(&header["packageVersion"]);
    let platform = string(&header["platform"]);
    view.facts
        .extend(package.map(|version| fact("recorded by", &format!("deep-factor-providers {version}"))));
    view.facts.extend(platform.map(|platform| fact("platform", &platform)));
    view
}

/// Writes a run's items, event by event.
struct Scribe {
    view: RunView,
    /// Where the item is whose pieces come.
    open: Option<(Kind, usize)>,
    /// Where each call is.
    calls: HashMap<String, usize>,
}

impl Scribe {
    fn new(run: &Run) -> Scribe {
        let last = run.entries.last().map(|entry| entry.t);
        Scribe {
            view: RunView {
                run_id: run.id.clone(),
                parent_run_id: run.parent.clone(),
                provider: run.provider.clone(),
                started_at: run.started_at,
                outcome: run.outcome().to_owned(),
                complete: run.complete(),
                duration_ms: run.end.as_ref().map(|end| end.t).or(last).unwrap_or_default(),
                model: None,
                input_tokens: None,
                output_tokens: None,
                tokens_estimated: false,
                cost_usd: None,
                facts: Vec::new(),
                items: Vec::new(),
            },
            open: None,
            calls: HashMap::new(),
        }
    }

    fn prompt(&mut self, prompt: &Value) {
        let Some(messages) = prompt["messages"].as_u64() else {
            return;
        };
        let tools: Vec<String> = list(&prompt["tools"]).filter_map(string).collect();
        let mut item = Item::new(Kind::Prompt, 0, "prompt")
            .fact("messages", Some(view::count(messages)))
            .fact("characters", prompt["characters"].as_u64().map(view::count))
            .fact("tools", (!tools.is_empty()).then(|| tools.join(", ")))
            .fact(
                "SHA-256",
                string(&prompt["sha256"]).map(|hash| hash.chars().take(12).collect()),
            );
        let spoken = list(&prompt["thread"]).map(|message| {
            let calls = &message["tool_calls"];
            let calls = if list(calls).next().is_some() {
                format!("\n{calls}")
            } else {
                String::new()
            };
            format!(
                "{}: {}{calls}",
                string(&message["type"]).unwrap_or_default(),
                words(&message["content"])
            )
        });
        let spoken: Vec<String> = spoken.collect();
        item.text = (!spoken.is_empty()).then(|| spoken.join("\n\n"));
        self.view.items.push(item);
    }

    fn event(&mut self, t: u64, kind: &str, event: &Value) {
        match kind {
            "text_delta" => self.piece(Kind::Message, t, event),
            "thinking_delta" => self.piece(Kind::Thinking, t, event),
            "message" => self.message(t, event),
            _ => {
                self.open = None;
                self.whole(t, kind, event);
            }
        }
    }

    /// A piece of a message, or of its reasoning.
    fn piece(&mut self, kind: Kind, t: u64, event: &Value) {
        let index = match self.open {
            Some((open, index)) if open == kind => index,
            _ => {
                let title = if kind == Kind::Message { "message" } else { "thinking" };
                self.view
                    .items
                    .push(Item::new(kind, t, title).text(Some(String::new())));
                self.view.items.len() - 1
            }
        };
        self.open = Some((kind, index));
        let Some(item) = self.view.items.get_mut(index) else {
            return;
        };
        item.duration_ms = Some(t.saturating_sub(item.t));
        item.text.get_or_insert_default().push_str(&words(&event["text"]));
    }

    /// A message, whole: its pieces came before, or it is one.
    fn message(&mut self, t: u64, event: &Value) {
        let text = words(&event["content"]);
        match self.open.take() {
            Some((Kind::Message, index)) => {
                let Some(item) = self.view.items.get_mut(index) else {
                    return;
                };
                item.duration_ms = Some(t.saturating_sub(item.t));
                item.text = Some(text);
            }
            _ => self
                .view
                .items
                .push(Item::new(Kind::Message, t, "message").text(Some(text))),
        }
    }

    fn whole(&mut self, t: u64, kind: &str, event: &Value) {
        let text = |name: &str| string(&event[name]);
        let number = |name: &str| event[name].as_u64();
        let item = match kind {
            "start" => Item::new(Kind::Start, t, "start")
                .fact("attempt", number("attempt").map(|attempt| attempt.to_string()))
                .fact("pid", number("pid").map(|pid| pid.to_string()))
                .fact("queued", number("queuedMs").filter(|ms| *ms > 0).map(view::duration)),
            "session" => {
                self.view.model = text("model").or_else(|| self.view.model.take());
                Item::new(Kind::Session, t, "session")
                    .fact("model", text("model"))
                    .fact("CLI version", text("version"))
                    .fact("permissions", text("permissionMode"))
                    .fact("session", text("sessionId"))
            }
            "tool_call" => return self.call(t, call_of(event)),
            "tool_result" => return self.result(t, event),
            "invalid_tool_call" => {
                let call = &event["invalidToolCall"];
                let name = string(&call["name"]).unwrap_or_else(|| "tool call".to_owned());
                let mut item =
                    Item::new(Kind::Error, t, format!("unreadable call: {name}")).text(string(&call["error"]));
                item.args = string(&call["args"]);
                item
            }
            "usage" => {
                self.usage(&event["usage"]);
                usage_item(t, &event["usage"]).fact("stop reason", text("rawStopReason"))
            }
            "rate_limit" => Item::new(Kind::Limit, t, text("status").unwrap_or_default())
                .fact("window", text("limitType"))
                .fact(
                    "used",
                    event["utilization"]
                        .as_f64()
                        .map(|share| format!("{:.0} %", share * 100.0)),
                )
                .fact("resets", number("resetsAt").map(view::date)),
            "retry" => Item::new(Kind::Retry, t, "tried again")
                .fact("by", text("by"))
                .fact("attempt", number("attempt").map(|attempt| (attempt + 1).to_string()))
                .fact("after", number("delayMs").map(view::duration))
                .fact("HTTP status", number("httpStatus").map(|status| status.to_string()))
                .text(text("reason")),
            "warning" => Item::new(Kind::Warning, t, text("code").unwrap_or_default()).text(text("message")),
            "fallback" => Item::new(
                Kind::Warning,
                t,
                format!("not answered by {}", text("provider").unwrap_or_default()),
            )
            .fact("code", text("code"))
            .text(text("message")),
            "done" => return self.done(t, &event["reply"]),
            "run_completed" => {
                return self.done(
                    t,
                    if event["result"].is_object() {
                        &event["result"]
                    } else {
                        event
                    },
                );
            }
            "run_failed" => error_item(
                t,
                if event["error"].is_object() {
                    &event["error"]
                } else {
                    event
                },
            ),
            "other" => Item::new(Kind::Other, t, text("kind").unwrap_or_default())
                .text(Some(pretty(&event["raw"])).filter(|raw| raw != "null")),
            _ => unknown(t, kind, event),
        };
        self.view.items.push(item);
    }

    fn call(&mut self, t: u64, call: &Value) {
        let mut item = Item::new(Kind::ToolCall, t, string(&call["name"]).unwrap_or_default());
        item.args = Some(pretty(&call["args"]));
        let mut texts = call["args"]
            .as_object()
            .into_iter()
            .flat_map(Map::values)
            .filter_map(Value::as_str);
        item.gist = texts.next().map(|text| crate::error::clip(&one_line(text), GIST));
        if let Some(id) = call_id(call) {
            self.calls.insert(id, self.view.items.len());
        }
        self.view.items.push(item);
    }

    fn result(&mut self, t: u64, event: &Value) {
        let outcome = Outcome {
            content: words(&event["content"]),
            is_error: event["isError"].as_bool().unwrap_or_default(),
        };
        let id = call_id(event).or_else(|| call_id(call_of(event)));
        let known = id.as_ref().and_then(|id| self.calls.get(id)).copied();
        match known.and_then(|index| self.view.items.get_mut(index)) {
            Some(call) if call.result.is_none() => {
                call.duration_ms = Some(t.saturating_sub(call.t));
                call.result = Some(outcome);
            }
            _ => {
                let mut item = Item::new(Kind::ToolResult, t, "tool result").fact("call", id);
                item.result = Some(outcome);
                self.view.items.push(item);
            }
        }
    }

    fn done(&mut self, t: u64, reply: &Value) {
        self.usage(&reply["usage"]);
        self.view.model = string(&reply["model"]).or_else(|| self.view.model.take());
        self.view.cost_usd = reply["costUsd"].as_f64();
        let item = Item::new(Kind::End, t, "done")
            .fact("status", string(&reply["status"]))
            .fact("stop reason", string(&reply["stopReason"]))
            .fact("turns", reply["numTurns"].as_u64().map(|turns| turns.to_string()))
            .fact(
                "calls to run",
                Some(list(&reply["toolCalls"]).count())
                    .filter(|calls| *calls > 0)
                    .map(|calls| calls.to_string()),
            );
        self.view.items.push(item);
    }

    fn end(&mut self, t: u64, status: &str, error: Option<Value>) {
        let item = match (status, error) {
            ("cancelled", _) => Item::new(Kind::End, t, "cancelled").text(Some("The caller ended the run.".to_owned())),
            (_, Some(error)) => {
                self.usage(&error["usage"]);
                error_item(t, &error)
            }
            (status, None) => Item::new(Kind::End, t, status),
        };
        self.view.items.push(item);
    }

    fn usage(&mut self, usage: &Value) {
        let Some(input) = usage["inputTokens"].as_u64() else {
            return;
        };
        self.view.input_tokens = Some(input);
        self.view.output_tokens = usage["outputTokens"].as_u64();
        self.view.tokens_estimated = usage["estimated"].as_bool().unwrap_or_default();
    }

    fn finish(mut self) -> RunView {
        if !self.view.complete {
            let why = if self.view.outcome == "unknown" {
                "The log ends before the run did."
            } else {
                "Lines of the log are missing."
            };
            let t = self.view.duration_ms;
            self.view
                .items
                .push(Item::new(Kind::Warning, t, "incomplete").text(Some(why.to_owned())));
        }
        self.view
    }
}

fn usage_item(t: u64, usage: &Value) -> Item {
    let tokens = |name: &str| usage[name].as_u64().map(view::count);
    let estimated = usage["estimated"].as_bool().unwrap_or_default();
    Item::new(Kind::Usage, t, if estimated { "tokens (estimated)" } else { "tokens" })
        .fact("input", tokens("inputTokens"))
        .fact("output", tokens("outputTokens"))
        .fact("cache read", tokens("cacheReadTokens"))
        .fact("cache written", tokens("cacheWriteTokens"))
        .fact("reasoning", tokens("reasoningTokens"))
}

fn error_item(t: u64, error: &Value) -> Item {
    let text = |name: &str| string(&error[name]);
    let code = text("code").unwrap_or_else(|| "failed".to_owned());
    Item::new(Kind::Error, t, code)
        .fact("category", text("category"))
        .fact(
            "attempts",
            error["attempts"].as_u64().map(|attempts| attempts.to_string()),
        )
        .fact("exit code", error["exitCode"].as_i64().map(|code| code.to_string()))
        .fact("signal", text("signal"))
        .fact(
            "HTTP status",
            error["httpStatus"].as_u64().map(|status| status.to_string()),
        )
        .text(text("message"))
}

/// A kind of which nothing is known: its short fields are facts, the rest is JSON.
fn unknown(t: u64, kind: &str, event: &Value) -> Item {
    let mut item = Item::new(Kind::Other, t, kind);
    let mut rest = Map::new();
    for (name, value) in event
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "type")
    {
        match value {
            Value::String(text) if text.len() <= 80 && !text.contains('\n') => {
                item = item.fact(name, Some(text.clone()))
            }
            Value::Bool(_) | Value::Number(_) => item = item.fact(name, Some(value.to_string())),
            Value::Null => {}
            _ => drop(rest.insert(name.clone(), value.clone())),
        }
    }
    item.text((!rest.is_empty()).then(|| pretty(&Value::Object(rest))))
}

/// The call in an event, whichever way it is held.
fn call_of(event: &Value) -> &Value {
    if event["toolCall"].is_object() {
        &event["toolCall"]
    } else {
        event
    }
}

fn call_id(value: &Value) -> Option<String> {
    string(&value["toolCallId"]).or_else(|| string(&value["id"]))
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Text, or blocks of it, or else JSON.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => pretty(other),
    }
}

fn pretty(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}
