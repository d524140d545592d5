//! A recording in, what a person wants to see of it out: pieces joined to messages, calls with their results and durations,
//! and the figures of each run.
//!
//! Events are taken by their fields, whoever wrote them: those of providers, those of agents, and kinds that are not known,
//! which are shown by their name and what they hold.

use serde::Serialize;
use serde_json::Value;

use super::read::Problem;
use super::view::one_line;

/// All runs of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// In the order in which they began, each with its parts behind it.
    pub runs: Vec<RunView>,
    /// Secrets were taken out when the file was written.
    #[serde(skip)]
    pub redacted: bool,
    /// What could not be read of the file.
    pub problems: Vec<Problem>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    pub run_id: String,
    /// The run it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// How many runs it is inside of.
    pub depth: usize,
    /// What it is, if it is no call of its own: `agent`, `agent reviewer`, `turn 2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub provider: String,
    /// ms since the epoch.
    pub started_at: u64,
    /// `replied`, `failed`, `cancelled` or `unknown`; `timeout` in a normalised log.
    pub outcome: String,
    /// Whether the log holds all of it.
    pub complete: bool,
    /// From the beginning to the last line, ms.
    pub duration_ms: u64,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Everything the model read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Everything it wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Whether the tokens are an estimate.
    pub tokens_estimated: bool,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens by what they were.
    #[serde(skip)]
    pub tokens: Option<Tokens>,
    /// Its events are those of an agent, whose figures are of a turn each.
    #[serde(skip)]
    pub is_agents: bool,
    /// What else the header and the events tell of the run, as text.
    pub facts: Vec<Fact>,
    pub items: Vec<Item>,
}

/// A name and a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// `CLI version`.
    pub name: String,
    /// `2.1.330`.
    pub value: String,
}

/// What kind of thing happened.
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

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// What kind of thing.
    pub kind: Kind,
    /// ms since the run's beginning.
    pub t: u64,
    /// How long it went on, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// In a word or two: a tool's name, an error's code.
    pub title: String,
    /// Short things to know.
    pub facts: Vec<Fact>,
    /// Its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A call's arguments, JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// What a call is about, in a few words: the first of its arguments that is text.
    #[serde(skip)]
    pub summary: Option<String>,
    /// What came of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<CallResult>,
    /// The tokens it tells of.
    #[serde(skip)]
    pub tokens: Option<Tokens>,
    /// US dollars that it tells of.
    #[serde(skip)]
    pub cost_usd: Option<f64>,
    /// How long it waits before the next attempt, ms.
    #[serde(skip)]
    pub wait_ms: Option<u64>,
    /// A call that waited for its result when the run was ended.
    #[serde(skip)]
    pub is_cut: bool,
}

/// Tokens by what they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Everything the model read.
    pub input: u64,
    pub output: Option<u64>,
    /// Of the input, what came from a cache.
    pub cache_read: Option<u64>,
    /// Of the input, what was put into a cache.
    pub cache_written: Option<u64>,
    /// Of the output, what was thinking.
    pub reasoning: Option<u64>,
    /// Whether they are an estimate.
    pub estimated: bool,
}

impl Tokens {
    /// The figures of an event's `usage`; `None` where it has none.
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

    /// Those of two turns together.
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

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallResult {
    /// The result as text.
    pub content: String,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl Item {
    /// Whether it tells of a failure.
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

/// A fact, on one line.
pub(super) fn fact(name: &str, value: &str) -> Fact {
    Fact {
        name: name.to_owned(),
        value: one_line(value),
    }
}
