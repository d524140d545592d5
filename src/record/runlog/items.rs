//! Makes items of single events, without looking at any other event.

use serde_json::{Map, Value};

use super::timeline::{Item, Kind, Tokens};
use super::view::{self, list, pretty, string};
use dfp_model::event::EventKind;

/// The item of an event of the known kind `kind`, whose type is `name`, and which is no piece of another item.
pub(super) fn of_event(t: u64, kind: EventKind, name: &str, event: &Value) -> Item {
    let text = |name: &str| string(&event[name]);
    let number = |name: &str| event[name].as_u64();
    match kind {
        EventKind::Start => Item::new(Kind::Start, t, "start")
            .fact("attempt", number("attempt").map(|attempt| attempt.to_string()))
            .fact("pid", number("pid").map(|pid| pid.to_string()))
            .fact("queued", number("queuedMs").filter(|ms| *ms > 0).map(view::duration)),
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
            .fact("used", event["utilization"].as_f64().map(view::percent))
            .fact("resets", number("resetsAt").map(view::date)),
        EventKind::Retry => {
            let mut item = Item::new(Kind::Retry, t, "tried again")
                .fact("by", text("by"))
                .fact(
                    "attempt",
                    number("attempt").map(|attempt| attempt.saturating_add(1).to_string()),
                )
                .fact("after", number("delayMs").map(view::duration))
                .fact("HTTP status", number("httpStatus").map(|status| status.to_string()))
                .text(text("reason"));
            item.wait_ms = number("delayMs");
            item
        }
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
        EventKind::RunFailed => error(t, inner(event, "error")).fact("limit", text("limit")),
        EventKind::Other => Item::new(Kind::Other, t, text("kind").unwrap_or_default())
            .text(Some(pretty(&event["raw"])).filter(|raw| raw != "null")),
        _ => unknown(t, name, event),
    }
}

/// The object in the field `field` of `event`, or `event` itself if there is none.
pub(super) fn inner<'a>(event: &'a Value, field: &str) -> &'a Value {
    if event[field].is_object() { &event[field] } else { event }
}

/// The item of a usage event.
fn usage(t: u64, event: &Value) -> Item {
    let usage = &event["usage"];
    let cost = event["costUsd"].as_f64();
    let tokens = |name: &str| usage[name].as_u64().map(view::count);
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
        .fact("cost", cost.map(view::dollars))
        .fact("stop reason", string(&event["rawStopReason"]));
    item.tokens = Tokens::read(usage);
    item.cost_usd = cost;
    item
}

/// The item of a `ProviderError`.
pub(super) fn error(t: u64, error: &Value) -> Item {
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
pub(super) fn unknown(t: u64, kind: &str, event: &Value) -> Item {
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
pub(super) fn call_of(event: &Value) -> &Value {
    if event["toolCall"].is_object() {
        &event["toolCall"]
    } else {
        event
    }
}

/// The id of the call in an event.
pub(super) fn call_id(value: &Value) -> Option<String> {
    string(&value["toolCallId"]).or_else(|| string(&value["id"]))
}
