//! Reads the normalised log of the Claude Code adapter (`youbencha-log.json`) as a run log.
//!
//! In: the bytes of a file. Out: a [`Timeline`] as run logs have it, so that the same views show both. The file is one document in
//! which not everything has a time; an item without one takes the time of the item before it.

use serde_json::{Map, Value};

use super::text::{self, list, one_line, pretty, string};
use super::timeline::{CallResult, Fact, Item, Kind, RunView, Timeline, Tokens, fact};

/// The adapter's word for an unknown value.
const UNKNOWN: &str = "unknown";

/// The most characters of an [`Item::summary`].
const SUMMARY_CHARS: usize = 80;

/// The timeline of the log; `None` if `bytes` are no normalised log.
pub fn timeline(bytes: &[u8]) -> Option<Timeline> {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes));
    let log = text::json(&text);
    let is_one = log["agent_info"].is_object() && log["execution"].is_object();
    is_one.then(|| Timeline {
        runs: vec![run(&log)],
        problems: Vec::new(),
        redacted: false,
    })
}

/// The view of the log's only run.
fn run(log: &Value) -> RunView {
    let (agent, execution, usage) = (&log["agent_info"], &log["execution"], &log["usage"]);
    let started_at = execution["started_at"]
        .as_str()
        .and_then(text::moment)
        .unwrap_or_default();
    let duration_ms = execution["duration_ms"].as_u64().unwrap_or_default();
    let model = known(&log["model_info"]["name"]);
    let outcome = match execution["status"].as_str() {
        Some("success") => "replied",
        Some("timeout") => "timeout",
        Some(_) => "failed",
        None => "unknown",
    };
    let clock = Clock {
        started_at,
        duration_ms,
    };
    let mut items = clock.merged(
        list(&log["messages"]).map(message).collect(),
        list(&log["tool_calls"]).map(call).collect(),
    );
    items.extend(clock.records(&log["warnings"], Kind::Warning));
    items.extend(clock.records(&log["errors"], Kind::Error));
    let tokens = |name: &str| usage[name].as_u64();
    // With a total of 0 the run's usage is unknown.
    let counted = tokens("total_tokens").is_some_and(|total| total > 0);
    let split = counted.then(|| Tokens {
        input: tokens("input_tokens").unwrap_or_default(),
        output: tokens("output_tokens"),
        cache_read: tokens("cache_read_tokens"),
        cache_written: tokens("cache_write_tokens"),
        ..Tokens::default()
    });
    if counted {
        let mut item = Item::new(Kind::Usage, duration_ms, "tokens")
            .fact("input", tokens("input_tokens").map(text::count))
            .fact("output", tokens("output_tokens").map(text::count))
            .fact(
                "cache read",
                tokens("cache_read_tokens").map(|read| {
                    let share = split
                        .and_then(Tokens::cache_hit)
                        .map(|share| format!(" ({share} of the input)"));
                    text::count(read) + &share.unwrap_or_default()
                }),
            )
            .fact("cache written", tokens("cache_write_tokens").map(text::count));
        item.tokens = split;
        items.push(item);
    }
    items.push(
        Item::new(Kind::End, duration_ms, "done")
            .fact("status", string(&execution["status"]))
            .fact("exit code", number(&execution["exit_code"]))
            .fact("turns", number(&execution["num_turns"])),
    );
    RunView {
        run_id: known(&execution["session_id"]).unwrap_or_else(|| "no session".to_owned()),
        parent_run_id: None,
        depth: 0,
        role: None,
        provider: known(&agent["name"]).unwrap_or_else(|| "claude-code".to_owned()),
        started_at,
        outcome: outcome.to_owned(),
        complete: outcome != UNKNOWN,
        duration_ms,
        model,
        input_tokens: tokens("input_tokens").filter(|_| counted),
        output_tokens: tokens("output_tokens").filter(|_| counted),
        cache_hit_share: split.and_then(Tokens::cache_hit_share),
        tokens_estimated: false,
        cost_usd: usage["cost_usd"].as_f64(),
        tokens: split,
        is_agents: false,
        facts: facts(log),
        items,
    }
}

/// The facts of the run: the agent, its options and its environment.
fn facts(log: &Value) -> Vec<Fact> {
    let (agent, execution, host) = (&log["agent_info"], &log["execution"], &log["environment"]);
    let text = |name: &str, value: Option<String>| value.map(|value| fact(name, &value));
    let flag = |name: &str, value: &Value| value.as_bool().filter(|yes| *yes).map(|_| fact(name, "yes"));
    let platform = known(&host["os"]).map(|os| match known(&host["arch"]) {
        Some(arch) => format!("{os}, {arch}"),
        None => os,
    });
    [
        text("CLI version", known(&agent["version"])),
        text("agent", known(&agent["agent_name"])),
        text("requested model", known(&log["model_info"]["requested"])),
        text("permissions", known(&execution["permission_mode"])),
        flag("timed out", &execution["timed_out"]),
        flag("output truncated", &execution["truncated"]),
        text("platform", platform),
        text("Node", known(&host["node_version"])),
        text("workspace", known(&host["working_directory"])),
        text("repository", known(&host["repo_directory"])),
        text("adapter", known(&agent["adapter_version"])),
        text("log", known(&log["version"])),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The time of an item in ms since the epoch, if it is recorded, and the item.
type Timed = (Option<u64>, Item);

/// The item of a message.
fn message(message: &Value) -> Timed {
    let kind = match message["role"].as_str() {
        Some("user") => Kind::Prompt,
        _ => Kind::Message,
    };
    let title = match (kind, message["role"].as_str()) {
        (Kind::Prompt, _) => "prompt",
        (_, Some("system")) => "system",
        _ => "message",
    };
    let item = Item::new(kind, 0, title).text(string(&message["content"]));
    (when(message), of_subagent(item, message))
}

/// The item of a call with its result.
fn call(call: &Value) -> Timed {
    let mut item = Item::new(Kind::ToolCall, 0, string(&call["name"]).unwrap_or_default());
    let args = call["arguments"].as_str().map(text::json).unwrap_or_default();
    let mut texts = args
        .as_object()
        .into_iter()
        .flat_map(Map::values)
        .filter_map(Value::as_str);
    item.summary = texts
        .next()
        .map(|text| dfp_model::error::clip(&one_line(text), SUMMARY_CHARS));
    item.args = match args {
        Value::Null => string(&call["arguments"]),
        args => Some(pretty(&args)),
    };
    if call["denied"].as_bool() == Some(true) {
        item = item.fact("permission", Some("denied".to_owned()));
    }
    item.result = string(&call["result"]).map(|content| CallResult {
        content,
        is_error: call["is_error"].as_bool().unwrap_or_default(),
    });
    (when(call), of_subagent(item, call))
}

fn of_subagent(item: Item, value: &Value) -> Item {
    item.fact("by a subagent of", known(&value["parent_tool_use_id"]))
}

fn when(value: &Value) -> Option<u64> {
    value["timestamp"].as_str().and_then(text::moment)
}

/// The beginning and length of the run, by which offsets are counted.
struct Clock {
    started_at: u64,
    duration_ms: u64,
}

impl Clock {
    fn offset(&self, at: u64) -> u64 {
        at.saturating_sub(self.started_at).min(self.duration_ms)
    }

    /// Merges two lists, each in its own order, by time. A message stands before calls of the same moment.
    fn merged(&self, messages: Vec<Timed>, calls: Vec<Timed>) -> Vec<Item> {
        let mut all: Vec<Item> = [messages, calls]
            .into_iter()
            .flat_map(|list| {
                let mut latest = 0;
                list.into_iter().map(move |(at, item)| {
                    latest = at.map_or(latest, |at| self.offset(at).max(latest));
                    Item { t: latest, ..item }
                })
            })
            .collect();
        all.sort_by_key(|item| item.t);
        all
    }

    /// The items of the log's errors or warnings. A record without a time stands at the end.
    fn records(&self, list: &Value, kind: Kind) -> Vec<Item> {
        let records = text::list(list).map(|record| {
            let t = when(record).map_or(self.duration_ms, |at| self.offset(at));
            let title = known(&record["code"]).unwrap_or_else(|| "failed".to_owned());
            let mut item = Item::new(kind, t, title).text(string(&record["message"]));
            for (name, value) in record["context"].as_object().into_iter().flatten() {
                let short = match value {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                };
                item = item.fact(name, Some(dfp_model::error::clip(&short, SUMMARY_CHARS)));
            }
            item
        });
        records.collect()
    }
}

fn known(value: &Value) -> Option<String> {
    string(value).filter(|text| !text.is_empty() && text != UNKNOWN)
}

fn number(value: &Value) -> Option<String> {
    value.is_number().then(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::text::{Style, render};
    use super::*;

    fn shown(log: &Value) -> Option<String> {
        timeline(log.to_string().as_bytes()).map(|timeline| render(&timeline, Style::default()))
    }

    #[test]
    fn it_is_shown_as_a_run_log_is() {
        let log = json!({
            "version": "1.0.0",
            "agent_info": {"name": "claude-code", "version": "2.1.330", "adapter_version": "1.0.0"},
            "model_info": {"name": "claude-opus", "provider": "anthropic"},
            "execution": {"started_at": "2026-01-31T23:59:59.000Z", "completed_at": "2026-02-01T00:00:03.500Z",
                "duration_ms": 4500, "exit_code": 124, "status": "timeout", "timed_out": true, "truncated": false,
                "session_id": "s-1", "num_turns": 2},
            "messages": [
                {"role": "user", "content": "Fix it.", "timestamp": "2026-01-31T23:59:59.000Z"},
                {"role": "assistant", "content": "Let me see.", "timestamp": "2026-02-01T00:00:00.000Z"},
                {"role": "assistant", "content": "Fixed."},
            ],
            "tool_calls": [
                {"id": "t1", "name": "Read", "arguments": "{\"file_path\":\"a.js\"}", "result": "let a;",
                    "timestamp": "2026-02-01T00:00:00.000Z"},
                {"id": "t2", "name": "Bash", "arguments": "cut {", "result": "no", "is_error": true, "denied": true,
                    "parent_tool_use_id": "t1"},
            ],
            "usage": {"input_tokens": 1200, "output_tokens": 34, "total_tokens": 1234, "cost_usd": 0.5},
            "errors": [{"message": "too long", "timestamp": "2026-02-01T00:00:03.500Z", "code": "CLAUDE_TIMEOUT",
                "context": {"timeout": 4500}}],
            "warnings": [],
            "environment": {"os": "linux", "arch": "x86_64", "node_version": "v22.0.0", "working_directory": "/w"},
        });
        let expected = r#"claude-code  s-1  2026-01-31 23:59:59 UTC
timeout after 4.5 s · 1,200 tokens in, 34 out · $0.50 · 2 tool calls · 2 errors
model: claude-opus, CLI version: 2.1.330, timed out: yes, platform: linux, x86_64, Node: v22.0.0, workspace: /w, adapter: 1.0.0, log: 1.0.0
+0.000  prompt
        │ Fix it.
+1.000  message
        │ Let me see.
+1.000  message
        │ Fixed.
+1.000  tool      Read  { "file_path": "a.js" }
        │ let a;
+1.000  tool      Bash  permission: denied  by a subagent of: t1  cut {
        │ no
+4.500  error     CLAUDE_TIMEOUT  timeout: 4500
        │ too long
+4.500  tokens    input: 1,200  output: 34
+4.500  end       done  status: timeout  exit code: 124  turns: 2
"#;
        assert_eq!(shown(&log).unwrap(), expected);
    }

    #[test]
    fn what_is_missing_is_left_out_and_other_documents_are_none() {
        let bare = shown(&json!({"agent_info": {}, "execution": {}})).unwrap();
        assert_eq!(
            bare,
            "claude-code  no session  1970-01-01 00:00:00 UTC\nunfinished after 0 ms\n+0.000  end       done\n"
        );
        assert_eq!(shown(&json!({"agent_info": "x", "execution": {}})), None);
        assert_eq!(timeline(b"{"), None);
    }

    proptest! {
        #[test]
        fn foreign_documents_are_shown_whatever_they_hold(text in ".*", at in ".*", number in any::<f64>()) {
            let log = json!({"agent_info": {"name": number}, "execution": {"started_at": at, "duration_ms": number},
                "messages": [{"content": text, "role": text, "timestamp": at}, text, number],
                "tool_calls": [{"arguments": text, "result": text}, {"arguments": number}], "errors": [{"context": {"a": [text]}}]});
            prop_assert!(shown(&log).is_some());
        }
    }
}
