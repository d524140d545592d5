//! One run's timeline, built event by event.
//!
//! In: a run's events as JSON of any origin. Out: its [`RunView`]. A field of another type than expected is as good as none.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::read::Run;
use super::timeline::{CallResult, Item, Kind, RunView, fact};
use super::view::{self, list, one_line, pretty, string, text_of};
use crate::event::EventKind;

/// The most characters of an [`Item::summary`].
const SUMMARY_CHARS: usize = 80;

/// What there is to see of `run`.
pub(super) fn run_view(run: &Run) -> RunView {
    let header = view::json(run.header.get());
    let mut builder = TimelineBuilder::new(run);
    builder.prompt(&header["prompt"]);
    for entry in &run.entries {
        builder.event(entry.t, &entry.kind, &view::json(entry.event.get()));
    }
    if let Some(end) = &run.end {
        builder.end(
            end.t,
            &end.status,
            end.error.as_deref().map(|error| view::json(error.get())),
        );
    }
    let mut view = builder.finish();
    let package = string(&header["packageVersion"]);
    let platform = string(&header["platform"]);
    view.facts
        .extend(package.map(|version| fact("recorded by", &format!("deep-factor-providers {version}"))));
    view.facts.extend(platform.map(|platform| fact("platform", &platform)));
    view
}

/// Builds a run's items, event by event.
struct TimelineBuilder {
    view: RunView,
    /// Its events are those of an agent, whose figures are of many turns.
    agents: bool,
    /// Where the item is whose pieces come.
    open: Option<(Kind, usize)>,
    /// Where each call is.
    calls: HashMap<String, usize>,
}

impl TimelineBuilder {
    fn new(run: &Run) -> TimelineBuilder {
        let last = run.entries.last().map(|entry| entry.t);
        TimelineBuilder {
            view: RunView {
                run_id: run.id.clone(),
                parent_run_id: run.parent.clone(),
                depth: 0,
                role: None,
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
            agents: run.is_agents(),
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
                text_of(&message["content"])
            )
        });
        let spoken: Vec<String> = spoken.collect();
        item.text = (!spoken.is_empty()).then(|| spoken.join("\n\n"));
        self.view.items.push(item);
    }

    /// An event called `name`.
    fn event(&mut self, t: u64, name: &str, event: &Value) {
        let kind = EventKind::named(name);
        let goes_on = [EventKind::TextDelta, EventKind::ThinkingDelta, EventKind::Message];
        if !kind.is_some_and(|kind| goes_on.contains(&kind)) {
            self.open = None;
        }
        match kind {
            Some(kind) => self.known(t, (kind, name), event),
            None => self.view.items.push(unknown(t, name, event)),
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
        item.text.get_or_insert_default().push_str(&text_of(&event["text"]));
    }

    /// A message, whole: its pieces came before, or it is one.
    fn message(&mut self, t: u64, event: &Value) {
        let text = text_of(&event["content"]);
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

    fn known(&mut self, t: u64, (kind, name): (EventKind, &str), event: &Value) {
        let text = |name: &str| string(&event[name]);
        let number = |name: &str| event[name].as_u64();
        let item = match kind {
            EventKind::Start => Item::new(Kind::Start, t, "start")
                .fact("attempt", number("attempt").map(|attempt| attempt.to_string()))
                .fact("pid", number("pid").map(|pid| pid.to_string()))
                .fact("queued", number("queuedMs").filter(|ms| *ms > 0).map(view::duration)),
            EventKind::Session => {
                self.view.model = text("model").or_else(|| self.view.model.take());
                Item::new(Kind::Session, t, "session")
                    .fact("model", text("model"))
                    .fact("CLI version", text("version"))
                    .fact("permissions", text("permissionMode"))
                    .fact("session", text("sessionId"))
            }
            EventKind::RunStarted => {
                let name = text("agent").map(|name| format!("agent {}", one_line(&name)));
                self.view.role = Some(name.unwrap_or_else(|| "agent".to_owned()));
                Item::new(Kind::Start, t, "start").fact(
                    "tools",
                    Some(list(&event["tools"]).filter_map(string).collect::<Vec<_>>().join(", "))
                        .filter(|all| !all.is_empty()),
                )
            }
            EventKind::ToolCall => return self.call(t, call_of(event)),
            EventKind::Permission | EventKind::Deferred => {
                if self.about_call(t, kind, event) {
                    return;
                }
                unknown(t, name, event)
            }
            EventKind::TextDelta => return self.piece(Kind::Message, t, event),
            EventKind::ThinkingDelta => return self.piece(Kind::Thinking, t, event),
            EventKind::Message => return self.message(t, event),
            EventKind::ToolResult => return self.result(t, event),
            EventKind::InvalidToolCall => {
                let call = &event["invalidToolCall"];
                let name = string(&call["name"]).unwrap_or_else(|| "tool call".to_owned());
                let mut item =
                    Item::new(Kind::Error, t, format!("unreadable call: {name}")).text(string(&call["error"]));
                item.args = string(&call["args"]);
                item
            }
            EventKind::Usage => {
                self.usage(&event["usage"], self.agents);
                let cost = event["costUsd"].as_f64();
                self.view.cost_usd = cost
                    .map(|cost| cost + self.view.cost_usd.unwrap_or_default())
                    .or(self.view.cost_usd);
                usage_item(t, &event["usage"])
                    .fact("cost", cost.map(view::dollars))
                    .fact("stop reason", text("rawStopReason"))
            }
            EventKind::RateLimit => Item::new(Kind::Limit, t, text("status").unwrap_or_default())
                .fact("window", text("limitType"))
                .fact(
                    "used",
                    event["utilization"]
                        .as_f64()
                        .map(|share| format!("{:.0} %", share * 100.0)),
                )
                .fact("resets", number("resetsAt").map(view::date)),
            EventKind::Retry => Item::new(Kind::Retry, t, "tried again")
                .fact("by", text("by"))
                .fact("attempt", number("attempt").map(|attempt| (attempt + 1).to_string()))
                .fact("after", number("delayMs").map(view::duration))
                .fact("HTTP status", number("httpStatus").map(|status| status.to_string()))
                .text(text("reason")),
            EventKind::Waiting => Item::new(Kind::Retry, t, "waits for its plan")
                .fact("until", number("until").map(view::date))
                .text(text("reason")),
            EventKind::Warning => Item::new(Kind::Warning, t, text("code").unwrap_or_default()).text(text("message")),
            EventKind::Fallback => Item::new(
                Kind::Warning,
                t,
                format!("not answered by {}", text("provider").unwrap_or_default()),
            )
            .fact("code", text("code"))
            .text(text("message")),
            EventKind::Done => return self.done(t, &event["reply"]),
            EventKind::RunCompleted => {
                return self.done(
                    t,
                    if event["result"].is_object() {
                        &event["result"]
                    } else {
                        event
                    },
                );
            }
            EventKind::RunFailed => match (event["status"].as_str(), text("limit")) {
                (Some("cancelled"), _) => return self.end(t, "cancelled", None),
                (_, limit) => error_item(
                    t,
                    if event["error"].is_object() {
                        &event["error"]
                    } else {
                        event
                    },
                )
                .fact("limit", limit),
            },
            EventKind::Other => Item::new(Kind::Other, t, text("kind").unwrap_or_default())
                .text(Some(pretty(&event["raw"])).filter(|raw| raw != "null")),
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
        item.summary = texts
            .next()
            .map(|text| crate::error::clip(&one_line(text), SUMMARY_CHARS));
        if let Some(id) = call_id(call) {
            self.calls.insert(id, self.view.items.len());
        }
        self.view.items.push(item);
    }

    /// What was decided about a call, or who works on it: added to the call, if it is known.
    fn about_call(&mut self, t: u64, kind: EventKind, event: &Value) -> bool {
        let call = call_id(event).and_then(|id| self.calls.get(&id).copied());
        let Some(call) = call.and_then(|index| self.view.items.get_mut(index)) else {
            return false;
        };
        if kind == EventKind::Deferred {
            let fields = [("handed to", "to"), ("run", "childRunId")];
            call.facts.extend(
                fields
                    .into_iter()
                    .filter_map(|(name, field)| Some(fact(name, event[field].as_str()?))),
            );
            return true;
        }
        let by = event["by"].as_str().unwrap_or_default();
        let allowed = if event["allow"].as_bool() == Some(true) {
            "allowed"
        } else {
            "denied"
        };
        call.facts.push(fact(
            "permission",
            &match by {
                "default" | "" => allowed.to_owned(),
                "builtin" => format!("{allowed}, built in"),
                by => format!("{allowed} by {by}"),
            },
        ));
        if by == "ask" {
            call.facts
                .push(fact("decided after", &view::duration(t.saturating_sub(call.t))));
        }
        call.facts
            .extend(event["reason"].as_str().map(|reason| fact("reason", reason)));
        if event["args"].is_object() {
            call.args = Some(pretty(&event["args"]));
            call.facts.push(fact("arguments", "replaced"));
        }
        true
    }

    fn result(&mut self, t: u64, event: &Value) {
        let outcome = CallResult {
            content: text_of(&event["content"]),
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
        self.usage(&reply["usage"], false);
        self.view.model = string(&reply["model"]).or_else(|| self.view.model.take());
        self.view.cost_usd = reply["costUsd"].as_f64();
        let item = Item::new(Kind::End, t, "done")
            .fact("status", string(&reply["status"]))
            .fact("stop reason", string(&reply["stopReason"]))
            .fact("steps", reply["steps"].as_u64().map(|steps| steps.to_string()))
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
                self.usage(&error["usage"], false);
                error_item(t, &error)
            }
            (status, None) => Item::new(Kind::End, t, status),
        };
        self.view.items.push(item);
    }

    /// Takes the run's tokens; `more`: those of one turn more.
    fn usage(&mut self, usage: &Value, more: bool) {
        let Some(input) = usage["inputTokens"].as_u64() else {
            return;
        };
        let estimated = usage["estimated"].as_bool().unwrap_or_default();
        let before = |known: Option<u64>| known.filter(|_| more).unwrap_or_default();
        let view = &mut self.view;
        let output = usage["outputTokens"].as_u64();
        view.tokens_estimated = estimated || (more && view.tokens_estimated);
        view.input_tokens = Some(before(view.input_tokens).saturating_add(input));
        view.output_tokens = output
            .map(|output| before(view.output_tokens).saturating_add(output))
            .or(view.output_tokens);
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
