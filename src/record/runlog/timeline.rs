//! The timeline of a recording, for people: pieces joined to messages, calls with their results and durations, and the figures of
//! each run.
//!
//! Events are read by their fields, whoever wrote them: providers' events, agents' events, and unknown kinds, which are shown with
//! their name and fields.

use serde::Serialize;
use serde_json::Value;

use super::read::Problem;
use super::view::{self, one_line};
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
        self.cache_hit_share().map(view::percent)
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
