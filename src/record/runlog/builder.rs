//! Builds the timeline of one run, event by event.
//!
//! In: a run's events as JSON, of any origin. Out: its [`RunView`]. A field whose type is not the expected one is treated as
//! missing.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::read::{Run, RunHeader};
use super::text::{self, list, one_line, pretty, string, text_of};
use super::timeline::{CallResult, Item, Kind, RunView, Tokens, fact};
use dfp_model::event::EventKind;

/// The most characters of an [`Item::summary`].
const SUMMARY_CHARS: usize = 80;

/// The view of `run`.
pub(super) fn run_view(run: &Run) -> RunView {
    let mut builder = TimelineBuilder::new(run.opening());
    builder.header(&text::json(run.header.get()));
    for entry in &run.entries {
        builder.event(entry.t, &entry.kind, &text::json(entry.event.get()));
    }
    if let Some(end) = &run.end {
        let error = end.error.as_deref().map(|error| text::json(error.get()));
        builder.end(end.t, &end.status, error);
    }
    builder.finish(run.outcome(), run.complete())
}

/// Builds the items of one run from its events.
#[derive(Debug)]
pub(super) struct TimelineBuilder {
    view: RunView,
    /// No event has come yet.
    fresh: bool,
    /// The item to which the next pieces are added: its kind and index.
    open: Option<(Kind, usize)>,
    /// The index of each call's item, by call id.
    calls: HashMap<String, usize>,
}

impl TimelineBuilder {
    /// Starts the view of the run that `opening` begins.
    pub(super) fn new(opening: RunHeader) -> TimelineBuilder {
        TimelineBuilder {
            view: RunView {
                run_id: opening.id,
                parent_run_id: opening.parent,
                depth: 0,
                role: None,
                provider: opening.provider,
                started_at: opening.started_at,
                outcome: String::new(),
                complete: false,
                duration_ms: 0,
                model: None,
                input_tokens: None,
                output_tokens: None,
                cache_hit_share: None,
                tokens_estimated: false,
                cost_usd: None,
                tokens: None,
                is_agents: false,
                facts: Vec::new(),
                items: Vec::new(),
            },
            fresh: true,
            open: None,
            calls: HashMap::new(),
        }
    }

    /// Takes the header: the prompt, and the package that recorded the run.
    pub(super) fn header(&mut self, header: &Value) {
        self.prompt(&header["prompt"]);
        let package = string(&header["packageVersion"]);
        let platform = string(&header["platform"]);
        let facts = &mut self.view.facts;
        facts.extend(package.map(|version| fact("recorded by", &format!("deep-factor-providers {version}"))));
        facts.extend(platform.map(|platform| fact("platform", &platform)));
    }

    /// Adds the item of the prompt, with the thread if the header has it.
    fn prompt(&mut self, prompt: &Value) {
        let Some(messages) = prompt["messages"].as_u64() else {
            return;
        };
        let tools: Vec<String> = list(&prompt["tools"]).filter_map(string).collect();
        let mut item = Item::new(Kind::Prompt, 0, "prompt")
            .fact("messages", Some(text::count(messages)))
            .fact("characters", prompt["characters"].as_u64().map(text::count))
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
        self.push(item);
    }

    /// Takes an event of the type `name`, `t` ms after the run's beginning.
    pub(super) fn event(&mut self, t: u64, name: &str, event: &Value) {
        let kind = EventKind::named(name);
        self.view.duration_ms = t;
        if std::mem::take(&mut self.fresh) {
            self.view.is_agents = kind == Some(EventKind::RunStarted);
        }
        let goes_on = [EventKind::TextDelta, EventKind::ThinkingDelta, EventKind::Message];
        if !kind.is_some_and(|kind| goes_on.contains(&kind)) {
            self.open = None;
        }
        match kind {
            Some(kind) => self.known(t, kind, name, event),
            None => self.push(unknown_item(t, name, event)),
        }
    }

    /// Takes a piece of a message, or of its reasoning.
    fn piece(&mut self, kind: Kind, t: u64, event: &Value) {
        let index = match self.open {
            Some((open, index)) if open == kind => index,
            _ => {
                let title = if kind == Kind::Message { "message" } else { "thinking" };
                self.push(Item::new(kind, t, title).text(Some(String::new())));
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

    /// Takes a whole message: the end of its pieces, or all of it at once.
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
            _ => self.push(Item::new(Kind::Message, t, "message").text(Some(text))),
        }
    }

    /// Takes an event of a known kind. Kinds that need other events are handled here, the rest become items by themselves.
    fn known(&mut self, t: u64, kind: EventKind, name: &str, event: &Value) {
        let text = |name: &str| string(&event[name]);
        match kind {
            EventKind::ToolCall => return self.call(t, call_of(event)),
            // Logs have no such pieces of calls; the whole call follows.
            EventKind::ToolCallDelta => return,
            EventKind::Permission | EventKind::Deferred if self.about_call(t, kind, event) => return,
            EventKind::TextDelta => return self.piece(Kind::Message, t, event),
            EventKind::ThinkingDelta => return self.piece(Kind::Thinking, t, event),
            EventKind::Message => return self.message(t, event),
            EventKind::ToolResult => return self.result(t, event),
            EventKind::Done => return self.done(t, &event["reply"]),
            EventKind::RunCompleted => return self.done(t, inner(event, "result")),
            EventKind::RunFailed if event["status"] == "cancelled" => return self.end(t, "cancelled", None),
            EventKind::Session => self.view.model = text("model").or_else(|| self.view.model.take()),
            EventKind::RunStarted => {
                let name = text("agent").map(|name| format!("agent {}", one_line(&name)));
                self.view.role = Some(name.unwrap_or_else(|| "agent".to_owned()));
            }
            EventKind::Usage => {
                self.usage(&event["usage"], self.view.is_agents);
                let cost = event["costUsd"].as_f64();
                self.view.cost_usd = cost
                    .map(|cost| cost + self.view.cost_usd.unwrap_or_default())
                    .or(self.view.cost_usd);
            }
            _ => {}
        }
        let mut item = item_of_event(t, kind, name, event);
        if kind == EventKind::Waiting {
            let from = self.view.started_at.saturating_add(t);
            item.wait_ms = event["until"].as_u64().map(|until| until.saturating_sub(from));
        }
        self.push(item);
    }

    fn push(&mut self, item: Item) {
        self.view.items.push(item);
    }

    /// Adds the item of a call, to which its result is added later.
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
            .map(|text| dfp_model::error::clip(&one_line(text), SUMMARY_CHARS));
        if let Some(id) = call_id(call) {
            self.calls.insert(id, self.view.items.len());
        }
        self.push(item);
    }

    /// Adds a decision about a call, or the run that works on it, to the call's item. Returns `false` if the call is unknown.
    fn about_call(&mut self, t: u64, kind: EventKind, event: &Value) -> bool {
        let index = call_id(event).and_then(|id| self.calls.get(&id).copied());
        let Some(call) = index.and_then(|index| self.view.items.get_mut(index)) else {
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
                .push(fact("decided after", &text::duration(t.saturating_sub(call.t))));
        }
        call.facts
            .extend(event["reason"].as_str().map(|reason| fact("reason", reason)));
        if event["args"].is_object() {
            call.args = Some(pretty(&event["args"]));
            call.facts.push(fact("arguments", "replaced"));
        }
        true
    }

    /// Adds a result to its call's item, or an item of its own if the call is unknown or has a result already.
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
                self.push(item);
            }
        }
    }

    /// Takes the reply that ended the run: its totals replace the sums so far.
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
            )
            .fact(
                "cached in the session so far",
                Tokens::read(&reply["run"]["sessionUsage"]).and_then(Tokens::cache_hit),
            )
            .fact("on the cache", string(&reply["cacheMiss"]));
        self.push(item);
    }

    /// Takes the line of a run's end, or the event that says the same.
    pub(super) fn end(&mut self, t: u64, status: &str, error: Option<Value>) {
        self.view.duration_ms = t;
        let item = match (status, error) {
            ("cancelled", _) => Item::new(Kind::End, t, "cancelled").text(Some("The caller ended the run.".to_owned())),
            (_, Some(error)) => {
                self.usage(&error["usage"], false);
                error_item(t, &error)
            }
            (status, None) => Item::new(Kind::End, t, status),
        };
        self.push(item);
    }

    /// Takes the run's tokens; `more`: they are of one further turn, and are added.
    fn usage(&mut self, usage: &Value, more: bool) {
        let Some(input) = usage["inputTokens"].as_u64() else {
            return;
        };
        let estimated = usage["estimated"].as_bool().unwrap_or_default();
        let before = |known: Option<u64>| known.filter(|_| more).unwrap_or_default();
        let view = &mut self.view;
        let tokens = Tokens::read(usage);
        view.tokens = match view.tokens.filter(|_| more) {
            Some(before) => tokens.map(|tokens| before.plus(tokens)),
            None => tokens,
        };
        let output = usage["outputTokens"].as_u64();
        view.cache_hit_share = view.tokens.and_then(Tokens::cache_hit_share);
        view.tokens_estimated = estimated || (more && view.tokens_estimated);
        view.input_tokens = Some(before(view.input_tokens).saturating_add(input));
        view.output_tokens = output
            .map(|output| before(view.output_tokens).saturating_add(output))
            .or(view.output_tokens);
    }

    /// Ends the view of a run with `outcome`; `complete`: the log holds all of it.
    pub(super) fn finish(mut self, outcome: &str, complete: bool) -> RunView {
        outcome.clone_into(&mut self.view.outcome);
        self.view.complete = complete;
        // A run that ended with a reply leaves its open calls to the caller. In any other run they were waited for until the end.
        if outcome != "replied" {
            let end = self.view.duration_ms;
            let is_open = |item: &&mut Item| item.kind == Kind::ToolCall && item.result.is_none();
            for call in self.view.items.iter_mut().filter(is_open) {
                call.is_cut = true;
                call.duration_ms = call.duration_ms.or(Some(end.saturating_sub(call.t)));
            }
        }
        if !complete {
            let why = if outcome == "unknown" {
                "The log ends before the run did."
            } else {
                "Lines of the log are missing."
            };
            let t = self.view.duration_ms;
            self.push(Item::new(Kind::Warning, t, "incomplete").text(Some(why.to_owned())));
        }
        self.view
    }
}

// The items of single events, which are made without looking at any other event.

/// The item of an event of the known kind `kind`, whose type is `name`, and which is no piece of another item.
fn item_of_event(t: u64, kind: EventKind, name: &str, event: &Value) -> Item {
    let text = |name: &str| string(&event[name]);
    let number = |name: &str| event[name].as_u64();
    match kind {
        EventKind::Start => Item::new(Kind::Start, t, "start")
            .fact("attempt", number("attempt").map(|attempt| attempt.to_string()))
            .fact("pid", number("pid").map(|pid| pid.to_string()))
            .fact("queued", number("queuedMs").filter(|ms| *ms > 0).map(text::duration)),
        EventKind::Session => Item::new(Kind::Session, t, "session")
            .fact("model", text("model"))
            .fact("CLI version", text("version"))
            .fact("permissions", text("permissionMode"))
            .fact("session", text("sessionId")),
        EventKind::RunStarted => Item::new(Kind::Start, t, "start").fact(
            "tools",
            Some(list(&event["tools"]).filter_map(string).collect::<Vec<_>>().join(", ")).filter(|all| !all.is_empty()),
        ),
        EventKind::InvalidToolCall => {
            let call = &event["invalidToolCall"];
            let name = string(&call["name"]).unwrap_or_else(|| "tool call".to_owned());
            let mut item = Item::new(Kind::Error, t, format!("unreadable call: {name}")).text(string(&call["error"]));
            item.args = string(&call["args"]);
            item
        }
        EventKind::Usage => usage(t, event),
        EventKind::RateLimit => Item::new(Kind::Limit, t, text("status").unwrap_or_default())
            .fact("window", text("limitType"))
            .fact("used", event["utilization"].as_f64().map(text::percent))
            .fact("resets", number("resetsAt").map(text::date)),
        EventKind::Retry => {
            let mut item = Item::new(Kind::Retry, t, "tried again")
                .fact("by", text("by"))
                .fact(
                    "attempt",
                    number("attempt").map(|attempt| attempt.saturating_add(1).to_string()),
                )
                .fact("after", number("delayMs").map(text::duration))
                .fact("HTTP status", number("httpStatus").map(|status| status.to_string()))
                .text(text("reason"));
            item.wait_ms = number("delayMs");
            item
        }
        EventKind::Waiting => Item::new(Kind::Retry, t, "waits for its plan")
            .fact("until", number("until").map(text::date))
            .text(text("reason")),
        EventKind::Warning => Item::new(Kind::Warning, t, text("code").unwrap_or_default()).text(text("message")),
        EventKind::Fallback => Item::new(
            Kind::Warning,
            t,
            format!("not answered by {}", text("provider").unwrap_or_default()),
        )
        .fact("code", text("code"))
        .text(text("message")),
        EventKind::RunFailed => error_item(t, inner(event, "error")).fact("limit", text("limit")),
        EventKind::Other => Item::new(Kind::Other, t, text("kind").unwrap_or_default())
            .text(Some(pretty(&event["raw"])).filter(|raw| raw != "null")),
        _ => unknown_item(t, name, event),
    }
}

/// The object in the field `field` of `event`, or `event` itself if there is none.
fn inner<'a>(event: &'a Value, field: &str) -> &'a Value {
    if event[field].is_object() { &event[field] } else { event }
}

/// The item of a usage event.
fn usage(t: u64, event: &Value) -> Item {
    let usage = &event["usage"];
    let cost = event["costUsd"].as_f64();
    let tokens = |name: &str| usage[name].as_u64().map(text::count);
    let estimated = usage["estimated"].as_bool().unwrap_or_default();
    let mut item = Item::new(Kind::Usage, t, if estimated { "tokens (estimated)" } else { "tokens" })
        .fact("input", tokens("inputTokens"))
        .fact("output", tokens("outputTokens"))
        .fact(
            "cache read",
            tokens("cacheReadTokens").map(|read| match Tokens::read(usage).and_then(Tokens::cache_hit) {
                Some(share) => format!("{read} ({share} of the input)"),
                None => read,
            }),
        )
        .fact("cache written", tokens("cacheWriteTokens"))
        .fact("kept 5 minutes", tokens("cacheWrite5mTokens"))
        .fact("kept an hour", tokens("cacheWrite1hTokens"))
        .fact("reasoning", tokens("reasoningTokens"))
        .fact("cost", cost.map(text::dollars))
        .fact("stop reason", string(&event["rawStopReason"]));
    item.tokens = Tokens::read(usage);
    item.cost_usd = cost;
    item
}

/// The item of a `ProviderError`.
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

/// The item of an event of an unknown kind: its short fields are facts, the rest is JSON.
fn unknown_item(t: u64, kind: &str, event: &Value) -> Item {
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

/// The call in an event: its field `toolCall`, or the event itself.
fn call_of(event: &Value) -> &Value {
    if event["toolCall"].is_object() {
        &event["toolCall"]
    } else {
        event
    }
}

/// The id of the call in an event.
fn call_id(value: &Value) -> Option<String> {
    string(&value["toolCallId"]).or_else(|| string(&value["id"]))
}
