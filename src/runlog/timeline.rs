//! A recording in, what a person wants to see of it out: pieces joined to messages, calls with their results and durations,
//! and the figures of each run.
//!
//! Events are taken by their fields, whoever wrote them: those of providers, those of agents, and kinds that are not known,
//! which are shown by their name and what they hold.

use serde::Serialize;

use super::read::{Problem, Recording};
use super::scribe;

/// All runs of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// In the order in which they began.
    pub runs: Vec<RunView>,
    /// What could not be read of the file.
    pub problems: Vec<Problem>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// Its id.
    pub run_id: String,
    /// The run it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The provider's id.
    pub provider: String,
    /// ms since the epoch.
    pub started_at: u64,
    /// `replied`, `failed`, `cancelled` or `unknown`.
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
    /// What else the header and the events tell of the run, in words.
    pub facts: Vec<Fact>,
    /// What happened.
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
    /// Its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A call's arguments, JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// What a call is about, in a few words: the first of its arguments that is text.
    #[serde(skip)]
    pub gist: Option<String>,
    /// What came of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Outcome>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
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
}

/// What there is to see of `recording`.
pub fn timeline(recording: &Recording) -> Timeline {
    Timeline {
        runs: recording.runs.iter().map(scribe::run_view).collect(),
        problems: recording.problems.clone(),
    }
}
