//! The timeline of a recording, for people: pieces joined to messages, calls with their results and durations, and the figures of
//! each run.
//!
//! Events are read by their fields, whoever wrote them: providers' events, agents' events, and unknown kinds, which are shown with
//! their name and fields.
//!
//! A recording's timeline is made here ([`timeline`]), of the runs that `builder` has read. So is that of a normalised log of the
//! Claude Code adapter ([`normalised`]), so that the same views show both.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::builder;
use super::read::{Problem, Recording};
use super::text::{self, list, one_line, pretty, string};
use dfp_model::message::cache_hit_share;

/// All runs of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// The runs in the order in which they began, each followed by its parts.
    pub runs: Vec<RunView>,
    /// Secrets were redacted when the file was written.
    #[serde(skip)]
    pub redacted: bool,
    /// The lines of the file that could not be read.
    pub problems: Vec<Problem>,
}

/// One run, as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    pub run_id: String,
    /// The run that this run is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The number of runs that this one is nested in.
    pub depth: usize,
    /// The role of a run that is no call of its own: `agent`, `agent reviewer`, `turn 2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub provider: String,
    /// When the run began, ms since the epoch.
    pub started_at: u64,
    /// `replied`, `failed`, `cancelled` or `unknown`; `timeout` in a normalised log.
    pub outcome: String,
    /// `true` if the log holds all of the run.
    pub complete: bool,
    /// The time from the beginning to the last line, ms.
    pub duration_ms: u64,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// All tokens that the model read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// All tokens that the model wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// The share of the input that was read from a cache, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_hit_share: Option<f64>,
    /// The tokens are an estimate.
    pub tokens_estimated: bool,
    /// The cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens by kind.
    #[serde(skip)]
    pub tokens: Option<Tokens>,
    /// The run is an agent's: each of its usage events is of one turn.
    #[serde(skip)]
    pub is_agents: bool,
    /// Further facts of the header and the events, as text.
    pub facts: Vec<Fact>,
    pub items: Vec<Item>,
}

/// A name and a value to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// For example `CLI version`.
    pub name: String,
    /// For example `2.1.330`.
    pub value: String,
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Kind {
    Start,
    Session,
    Prompt,
    Thinking,
    Message,
    ToolCall,
    ToolResult,
    Usage,
    Limit,
    Retry,
    Warning,
    Error,
    End,
    Other,
}

/// One item of a timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The kind of the item.
    pub kind: Kind,
    /// ms since the run's beginning.
    pub t: u64,
    /// The duration, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// A word or two: a tool's name, an error's code.
    pub title: String,
    /// Short facts about it.
    pub facts: Vec<Fact>,
    /// The item's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The arguments of a call, JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// A call in a few words: the first of its arguments that is text.
    #[serde(skip)]
    pub summary: Option<String>,
    /// The result of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<CallResult>,
    /// The tokens that the event reports.
    #[serde(skip)]
    pub tokens: Option<Tokens>,
    /// The cost in US dollars that the event reports.
    #[serde(skip)]
    pub cost_usd: Option<f64>,
    /// The wait before the next attempt, ms.
    #[serde(skip)]
    pub wait_ms: Option<u64>,
    /// The item is a call that still waited for its result when the run ended.
    #[serde(skip)]
    pub is_cut: bool,
}

/// Tokens by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All tokens that the model read.
    pub input: u64,
    pub output: Option<u64>,
    /// The part of the input that was read from a cache.
    pub cache_read: Option<u64>,
    /// The part of the input that was written to a cache.
    pub cache_written: Option<u64>,
    /// The part of the output that was thinking.
    pub reasoning: Option<u64>,
    /// The figures are an estimate.
    pub estimated: bool,
}

impl Tokens {
    /// The figures of an event's `usage`; `None` if the input's is missing.
    pub(super) fn read(usage: &Value) -> Option<Tokens> {
        let tokens = |name: &str| usage[name].as_u64();
        Some(Tokens {
            input: tokens("inputTokens")?,
            output: tokens("outputTokens"),
            cache_read: tokens("cacheReadTokens"),
            cache_written: tokens("cacheWriteTokens"),
            reasoning: tokens("reasoningTokens"),
            estimated: usage["estimated"].as_bool().unwrap_or_default(),
        })
    }

    /// The share of the input that was read from a cache, in per cent; `None` if that is unknown.
    pub(super) fn cache_hit(self) -> Option<String> {
        self.cache_hit_share().map(text::percent)
    }

    pub(super) fn cache_hit_share(self) -> Option<f64> {
        cache_hit_share(self.input, self.cache_read)
    }

    /// The sum of two turns' tokens.
    pub(super) fn plus(self, more: Tokens) -> Tokens {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Tokens {
            input: self.input.saturating_add(more.input),
            output: sum(self.output, more.output),
            cache_read: sum(self.cache_read, more.cache_read),
            cache_written: sum(self.cache_written, more.cache_written),
            reasoning: sum(self.reasoning, more.reasoning),
            estimated: self.estimated || more.estimated,
        }
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallResult {
    /// The result as text.
    pub content: String,
    /// The tool has failed.
    pub is_error: bool,
}

impl Item {
    /// `true` if the item tells of a failure.
    pub fn failed(&self) -> bool {
        self.kind == Kind::Error || self.result.as_ref().is_some_and(|result| result.is_error)
    }

    pub(super) fn new(kind: Kind, t: u64, title: impl Into<String>) -> Item {
        Item {
            kind,
            t,
            duration_ms: None,
            title: title.into(),
            facts: Vec::new(),
            text: None,
            args: None,
            summary: None,
            result: None,
            tokens: None,
            cost_usd: None,
            wait_ms: None,
            is_cut: false,
        }
    }

    pub(super) fn fact(mut self, name: &str, value: Option<String>) -> Item {
        self.facts.extend(value.map(|value| fact(name, &value)));
        self
    }

    pub(super) fn text(mut self, text: Option<String>) -> Item {
        self.text = text;
        self
    }
}

/// A fact on one line.
pub(super) fn fact(name: &str, value: &str) -> Fact {
    Fact {
        name: name.to_owned(),
        value: one_line(value),
    }
}

// All runs of a file, in which each run is followed by its parts.

/// The timeline of `recording`.
pub fn timeline(recording: &Recording) -> Timeline {
    Timeline {
        runs: nested(recording),
        redacted: true,
        problems: recording.problems.clone(),
    }
}

/// The views of all runs, each followed by its parts.
fn nested(recording: &Recording) -> Vec<RunView> {
    let nodes: Vec<Node> = recording
        .runs
        .iter()
        .map(|run| Node {
            id: &run.id,
            parent: run.parent.as_deref(),
            is_agents: run.is_agents(),
        })
        .collect();
    let placed = positions(&nodes).into_iter().filter_map(|place| {
        let mut view = builder::run_view(recording.runs.get(place.index)?);
        view.depth = place.depth;
        view.role = view.role.or_else(|| place.role());
        Some(view)
    });
    placed.collect()
}

/// The properties of a run that decide on its position.
#[derive(Debug)]
struct Node<'a> {
    pub id: &'a str,
    pub parent: Option<&'a str>,
    pub is_agents: bool,
}

/// The position of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    pub index: usize,
    /// The number of runs that this one is nested in.
    pub depth: usize,
    /// The number of the turn, from 1, if the run is a turn of an agent.
    pub turn: Option<u32>,
}

impl Position {
    /// The role of a run that has none of its own: `turn 2`.
    fn role(&self) -> Option<String> {
        self.turn.map(|number| format!("turn {number}"))
    }
}

/// The positions of `nodes`, which are in the order in which they began. Each run is followed by its parts.
fn positions(nodes: &[Node]) -> Vec<Position> {
    let mut latest: HashMap<&str, usize> = HashMap::new();
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waiting = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        // A part begins after the whole, so only earlier runs are looked at, and no run gets nested in itself.
        let whole = node.parent.and_then(|parent| latest.get(parent));
        match whole.and_then(|whole| parts.get_mut(*whole)) {
            Some(parts) => parts.push(index),
            None => waiting.push(Position {
                index,
                depth: 0,
                turn: None,
            }),
        }
        latest.insert(node.id, index);
    }
    waiting.reverse();
    let mut places = Vec::with_capacity(nodes.len());
    while let Some(place) = waiting.pop() {
        places.push(place);
        let (Some(whole), Some(inside)) = (nodes.get(place.index), parts.get(place.index)) else {
            continue;
        };
        let mut turns = 0;
        let inside: Vec<_> = inside
            .iter()
            .map(|part| {
                let is_turn = whole.is_agents && nodes.get(*part).is_some_and(|part| !part.is_agents);
                turns += u32::from(is_turn);
                Position {
                    index: *part,
                    depth: place.depth + 1,
                    turn: is_turn.then_some(turns),
                }
            })
            .collect();
        waiting.extend(inside.into_iter().rev());
    }
    places
}

// The normalised log of the Claude Code adapter (`youbencha-log.json`). In: the bytes of a file. Out: a [`Timeline`] as run logs have
// it. The file is one document in which not everything has a time; an item without one takes the time of the item before it.

/// The adapter's word for an unknown value.
const UNKNOWN: &str = "unknown";

/// The most characters of an [`Item::summary`].
const SUMMARY_CHARS: usize = 80;

/// The timeline of the log; `None` if `bytes` are no normalised log.
pub fn normalised(bytes: &[u8]) -> Option<Timeline> {
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
        normalised(log.to_string().as_bytes()).map(|timeline| render(&timeline, Style::default()))
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
        assert_eq!(normalised(b"{"), None);
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
