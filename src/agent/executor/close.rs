//! The end of a run: every open call is answered, and then there is one [`RunOutcome`].

use std::collections::BTreeMap;

use super::rules::{Limit, Rules};
use super::running::{Pending, give_up};
use super::{Effect, RunOutcome, State, Status};
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::Spent;

/// The reason why a run ends.
#[derive(Debug)]
pub(super) enum End {
    /// The model has given its final answer.
    Completed,
    Failed(Box<ProviderError>),
    Cancelled,
    /// A limit was reached.
    Limit(Limit, Box<ProviderError>),
}

impl End {
    /// Status, limit and error of the outcome.
    pub fn parts(self) -> (Status, Option<Limit>, Option<Box<ProviderError>>) {
        match self {
            End::Completed => (Status::Completed, None, None),
            End::Failed(error) => (Status::Failed, None, Some(error)),
            End::Cancelled => (Status::Cancelled, None, None),
            End::Limit(limit, error) => (Status::Limit, Some(limit), Some(error)),
        }
    }

    /// The end of a run whose model did not call a required tool.
    pub fn missing(provider: &str, code: Code, reason: String) -> End {
        let hint = "say in the prompt when to call it, or make it optional";
        End::Failed(Box::new(ProviderError::new(provider, code, reason).with_hint(hint)))
    }

    /// The end of a run that has reached `limit`.
    pub fn limit(rules: &Rules, limit: Limit, spent: &Spent) -> End {
        let limits = &rules.limits;
        let count = |count: Option<u32>| count.unwrap_or_default();
        let reason = match limit {
            Limit::MaxSteps => format!("the model was asked {} times and wants to go on", limits.max_steps),
            Limit::MaxToolCalls => format!("the model wants more than {} tool calls", count(limits.max_tool_calls)),
            Limit::TimeoutMs => format!("the run took longer than {} ms", limits.timeout_ms.unwrap_or_default()),
            Limit::MaxCostUsd => format!(
                "the run has cost {:.4} of {} US dollars and wants to go on",
                spent.cost_usd.unwrap_or_default(),
                limits.max_cost_usd.unwrap_or_default()
            ),
            Limit::MaxRepeatedCalls => format!(
                "the model makes the same call more than {} times",
                count(limits.max_repeated_calls)
            ),
        };
        let hint = format!("raise the limit \"{}\" if that is too few", limit.as_str());
        let error = ProviderError::new(&rules.provider, Code::AgentLimit, reason).with_hint(hint);
        End::Limit(limit, Box::new(error))
    }
}

/// Answers the `open` calls and ends the run with `outcome`.
pub(super) fn close(outcome: RunOutcome, open: BTreeMap<u32, Pending>, effects: &mut Vec<Effect>) -> State {
    let status = outcome.status;
    let why = match (status, outcome.limit) {
        (Status::Cancelled, _) => "the run was cancelled".to_owned(),
        (_, Some(limit)) => format!("the run has reached its limit \"{}\"", limit.as_str()),
        _ => "the run has ended".to_owned(),
    };
    // Tools and agents are ended first, then the model's turn, and only then calls are answered: no answer may cause the model to
    // go on.
    let mut answers = Vec::new();
    give_up(open, &why, effects, &mut answers);
    effects.push(Effect::Stop);
    effects.append(&mut answers);
    effects.push(Effect::Finish(Box::new(outcome)));
    match status {
        Status::Completed => State::Complete,
        Status::Failed | Status::Cancelled | Status::Limit => State::Failed,
    }
}
