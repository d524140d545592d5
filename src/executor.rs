//! The executor: what an agent's run does next, for every provider the same.
//!
//! ```text
//! Input (a call, a decision, a result, a turn's end …) ─step(State, Input)─▶ (State, Vec<Effect>)
//! ```
//!
//! In: what happened, one [`Input`] at a time. Out: the state it leads to, and the [`Effect`]s the driver (`agent`) carries
//! out. Nothing is done here and no clock is read, so every order of events can be tried. What holds in each of them:
//!
//! - every call gets exactly one [`Effect::Reply`], however the run ends;
//! - nothing is executed that was not permitted first, and nothing after the end;
//! - a call that can't run (unknown, ill-formed, denied, failed) is the model's to hear of, not an error of the run.
//!
//! A state belongs to one run: a child's is another value, so the two can't get in each other's way.

pub mod builtin;
mod calls;
mod close;
pub mod policy;
pub mod rules;
mod running;
pub mod tool;

use serde_json::value::RawValue;

use crate::error::ProviderError;
use crate::message::{ToolCall, ToolResult, Usage};
use policy::By;
use rules::{Limit, Rules};
pub use running::RunState;

/// Where a run is.
#[derive(Debug)]
pub enum State {
    /// Not begun.
    Idle(Box<Rules>),
    /// The model is at work, or its calls are.
    Running(Box<RunState>),
    /// All that is missing is what another agent is to answer.
    AwaitingDeferred(Box<RunState>),
    Complete,
    /// Over: failed, cancelled or stopped by a limit.
    Failed,
}

/// How a call reached us, which is how its result goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// With the end of a turn: all results go into the next one.
    Turn,
    /// In the middle of a turn, by a callback that waits: its result goes back at once.
    Callback,
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The run shall begin.
    Started,
    /// The model calls a tool.
    Call(ToolCall, Origin),
    /// The model wrote something that was meant as a call: what to tell it.
    Unreadable(String),
    /// Whoever was asked has decided about call `id`.
    Decided {
        id: String,
        /// Whether it may run.
        allow: bool,
        /// Why, for the model and for the record.
        reason: Option<String>,
        /// Arguments in place of the model's.
        args: Option<Box<RawValue>>,
    },
    /// Call `id` was executed, well or not.
    Executed {
        id: String,
        /// What came of it.
        answer: ToolResult,
    },
    /// The agent that call `id` was handed to has ended.
    ChildEnded {
        id: String,
        /// Its answer, or why there is none.
        answer: ToolResult,
        /// What it has used.
        spent: Spent,
    },
    /// The provider wants no answer to call `id` any more, which it has made by a callback.
    TakenBack { id: String },
    /// Tokens and dollars of this run's own.
    Spent(Spent),
    /// The model's last text.
    Output(String),
    /// The model's turn is over. Its text and its calls came before.
    TurnEnded,
    /// The provider has failed.
    ProviderFailed(Box<ProviderError>),
    /// The caller wants no more of it.
    Cancelled,
    /// `timeoutMs` has passed.
    TimeUp,
}

/// Tokens and dollars.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spent {
    /// Tokens.
    pub usage: Usage,
    /// US dollars, if anybody reported it.
    pub cost_usd: Option<f64>,
}

impl Spent {
    /// Adds `more`.
    pub fn add(&mut self, more: &Spent) {
        self.usage.add(&more.usage);
        self.cost_usd = match (self.cost_usd, more.cost_usd) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Effect {
    /// Ask whether this call may run: [`Input::Decided`].
    Ask(ToolCall),
    /// Say what was decided about a call.
    Permission(Permission),
    /// Run this call of the caller's: [`Input::Executed`].
    Execute(ToolCall),
    /// Let another agent do this: [`Input::ChildEnded`].
    StartChild { id: String, task: builtin::Task },
    /// The one answer to a call.
    Reply { call: ToolCall, answer: ToolResult },
    /// Nobody waits for this call any more: end its tool or its agent, take the question back.
    Abandon(String),
    /// Send the thread (grown by calls and answers) to the model: [`Input::TurnEnded`]. `notes` go first, as user messages.
    NextTurn {
        /// What the model has to know besides.
        notes: Vec<String>,
    },
    /// End the model's turn, if one is under way.
    Stop,
    /// The run is over. Last effect, once.
    Finish(Box<RunOutcome>),
}

/// What was decided about a call.
#[derive(Debug, Clone)]
pub struct Permission {
    pub id: String,
    pub name: String,
    /// Whether it may run.
    pub allow: bool,
    pub by: By,
    /// Why, where somebody gave a reason.
    pub reason: Option<String>,
    /// The arguments it runs with, where somebody replaced the model's.
    pub args: Option<Box<RawValue>>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The model had its last word.
    Completed,
    /// The provider failed, or the model did not give what was required.
    Failed,
    /// The caller wanted no more of it.
    Cancelled,
    /// A limit was reached.
    Limit,
}

/// All that a run came to.
#[derive(Debug)]
pub struct RunOutcome {
    pub status: Status,
    /// The model's final text; its latest, if the run did not get so far.
    pub output: String,
    /// All tokens and dollars, those of agents it handed tasks to included.
    pub spent: Spent,
    /// How often the model was asked.
    pub steps: u32,
    /// The arguments of `completion-report`.
    pub report: Option<Box<RawValue>>,
    /// The arguments of the last `planner-output`.
    pub plan: Option<Box<RawValue>>,
    /// Which limit it was.
    pub limit: Option<Limit>,
    /// Why it failed or was stopped; `None` if it was cancelled.
    pub error: Option<Box<ProviderError>>,
}

/// Where `input` leads, and what is to be done.
pub fn step(state: State, input: Input) -> (State, Vec<Effect>) {
    let mut effects = Vec::new();
    let state = match state {
        State::Idle(rules) => match input {
            Input::Started | Input::Cancelled | Input::TimeUp | Input::ProviderFailed(_) => {
                RunState::new(*rules).step(input, &mut effects)
            }
            other => {
                refuse(other, &mut effects);
                State::Idle(rules)
            }
        },
        State::Running(run) | State::AwaitingDeferred(run) => run.step(input, &mut effects),
        over @ (State::Complete | State::Failed) => {
            refuse(input, &mut effects);
            over
        }
    };
    (state, effects)
}

/// Before a run and after it there is nothing to be done, but a call that comes all the same is answered.
fn refuse(input: Input, effects: &mut Vec<Effect>) {
    if let Input::Call(call, _) = input {
        let answer = ToolResult::error(format!("\"{}\" was not run: the run is not under way", call.name));
        effects.push(Effect::Reply { call, answer });
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
