//! The timeline of a recording, for people: pieces joined to messages, calls with their results and durations, and the figures of
//! each run.
//!
//! Events are read by their fields, whoever wrote them: providers' events, agents' events, and unknown kinds, which are shown with
//! their name and fields.
//!
//! A recording's timeline is made here ([`timeline`]), of the runs that `builder` has read.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::builder;
use super::read::{Problem, Recording};
use super::text::{self, one_line};
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
