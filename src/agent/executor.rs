//! The executor decides what an agent's run does next, in the same way for every provider.
//!
//! ```text
//! Input (a call, a decision, a result, a turn's end …) ─step(State, Input)─▶ (State, Vec<Effect>)
//! ```
//!
//! In: what happened, one [`Input`] at a time. Out: the state it leads to, and the [`Effect`]s that the driver (`agent`) carries
//! out. The executor does nothing itself and reads no clock, so every order of events can be tested. In every order it holds that:
//!
//! - every call gets exactly one [`Effect::Reply`], however the run ends;
//! - nothing is executed that was not permitted first, and nothing after the end;
//! - a call that can't run (unknown, ill-formed, denied, failed) is reported to the model, and is not an error of the run.
//!
//! A state belongs to one run. A child's run has a state of its own, so the two can't interfere.

pub mod rules;
mod running;

use serde_json::value::RawValue;

use dfp_model::error::ProviderError;
use dfp_model::message::{Spent, ToolCall, ToolResult};
use rules::{By, Limit, Rules};
pub use running::RunState;

/// The state of a run.
#[derive(Debug)]
pub enum State {
    /// Before the beginning.
    Idle(Box<Rules>),
    /// The model is at work, or the tools it has called are.
    Running(Box<RunState>),
    /// Only answers of other agents are missing.
    AwaitingDeferred(Box<RunState>),
    Complete,
    /// The run has failed, was cancelled, or was stopped by a limit.
    Failed,
}

/// The way in which a call was delivered, which is also the way its result goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// With the end of a turn. The results of all its calls go into the next turn.
    Turn,
    /// In the middle of a turn, by a callback that waits. The result goes back at once.
    Callback,
}

/// Something that happened in a run.
#[derive(Debug)]
pub enum Input {
    /// The run is to begin.
    Started,
    /// The model calls a tool.
    Call(ToolCall, Origin),
    /// The model wrote something that was meant as a call. The text tells the model what is wrong with it.
    Unreadable(String),
    /// Call `id` was decided about by whoever was asked.
    Decided {
        id: String,
        /// The call may run.
        allow: bool,
        /// The reason, for the model and the log.
        reason: Option<String>,
        /// Arguments that replace the model's.
        args: Option<Box<RawValue>>,
    },
    /// Call `id` has been executed, successfully or not.
    Executed {
        id: String,
        /// The tool's result.
        answer: ToolResult,
    },
    /// The agent that got the task of call `id` has ended.
    ChildEnded {
        id: String,
        /// The agent's answer, or the reason why there is none.
        answer: ToolResult,
        /// The tokens and dollars that the agent has used.
        spent: Spent,
    },
    /// The provider has withdrawn call `id`, which it had made by a callback.
    TakenBack { id: String },
    /// Tokens and dollars that the run's own model has used.
    Spent(Spent),
    /// The latest text of the model.
    Output(String),
    /// The model's turn is over. Its text and its calls came before.
    TurnEnded,
    /// The provider has failed.
    ProviderFailed(Box<ProviderError>),
    /// The caller has cancelled the run.
    Cancelled,
    /// The limit `timeoutMs` has passed.
    TimeUp,
}

/// Something that the driver has to do. Effects are carried out in their order.
#[derive(Debug)]
pub enum Effect {
    /// Ask whether this call may run; the answer is [`Input::Decided`].
    Ask(ToolCall),
    /// Report the decision about a call.
    Permission(Permission),
    /// Run this call of one of the caller's tools; the answer is [`Input::Executed`].
    Execute(ToolCall),
    /// Start another agent's run for this task; the answer is [`Input::ChildEnded`].
    StartChild { id: String, task: rules::Task },
    /// Give a call its one result.
    Reply { call: ToolCall, answer: ToolResult },
    /// The result of this call is no longer needed: end its tool or its agent, and withdraw the question about it.
    Abandon(String),
    /// Send the thread, which has grown by calls and results, to the model; the answer is [`Input::TurnEnded`]. `notes` are added
    /// to it as user messages.
    NextTurn {
        /// Further things that the model has to know.
        notes: Vec<String>,
    },
    /// End the model's turn, if one is under way.
    Stop,
    /// The run is over. This is the last effect, and comes once.
    Finish(Box<RunOutcome>),
}

/// The decision about a call.
#[derive(Debug, Clone)]
pub struct Permission {
    pub id: String,
    pub name: String,
    /// The call may run.
    pub allow: bool,
    pub by: By,
    /// The reason, if one was given.
    pub reason: Option<String>,
    /// The arguments it runs with, if the model's were replaced.
    pub args: Option<Box<RawValue>>,
}

/// The way in which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The model has given its final answer.
    Completed,
    /// The provider failed, or the model did not deliver what was required.
    Failed,
    /// The caller cancelled the run.
    Cancelled,
    /// A limit was reached.
    Limit,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    pub status: Status,
    /// The model's final text, or its latest one if the run did not complete.
    pub output: String,
    /// All tokens and dollars, including those of agents that got tasks.
    pub spent: Spent,
    /// The number of times the model was asked.
    pub steps: u32,
    /// The arguments of `completion-report`.
    pub report: Option<Box<RawValue>>,
    /// The arguments of the last `planner-output`.
    pub plan: Option<Box<RawValue>>,
    /// The limit that was reached.
    pub limit: Option<Limit>,
    /// The reason why the run failed or was stopped; `None` if it was cancelled.
    pub error: Option<Box<ProviderError>>,
}

/// The state to which `input` leads from `state`, and the effects.
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

/// Handles an input before the run or after it. Nothing is done, except that a call is answered.
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
