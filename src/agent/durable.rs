//! Resumable runs: which place an effect has in the run, what had happened there in an earlier attempt, and what is stored before the run goes
//! on.
//!
//! In: the executor's effects and the answers to them. Out: the same effects, answered by the journal where they have happened before, and
//! carried out where they have not. A turn is stored before its calls begin, the beginning of a tool before it runs, and its end before the
//! model learns of it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::event::Kind;
use super::journal::{Decision, Entry, Journal, Progress, Store};
use super::pending::PendingCalls;
use super::report::Reporter;
use super::spec::{AgentSpec, OnResume};
use crate::executor::Input;
use crate::executor::rules::Tool;
use dfp_model::error::ProviderError;
use dfp_model::event::Reply;
use dfp_model::message::{Spent, ToolCall, ToolResult};
use dfp_run::structured;

/// The tool calls of a run, its reports of them, and the journal that both go through.
pub(super) struct DurableCalls<'a> {
    pub agent: &'a AgentSpec,
    /// The agent's own tools, by which arguments are checked.
    pub tools: Vec<Arc<Tool>>,
    pub reporter: Reporter<'a>,
    pub pending: PendingCalls,
    pub progress: Progress,
    pub cancel: CancellationToken,
}

impl DurableCalls<'_> {
    /// Reports an event.
    pub async fn emit(&self, kind: Kind) {
        self.reporter.emit(kind).await;
    }

    /// Reports an event about call `id`, unless an earlier attempt has reported it.
    pub async fn emit_of(&self, id: &str, kind: Kind) {
        if !self.progress.was_reported(self.journal(), id) {
            self.emit(kind).await;
        }
    }

    /// The journal of the whole run.
    pub fn journal(&self) -> &Journal {
        &self.reporter.shared.journal
    }

    /// Begins a turn. Returns `true` if the turn had ended in an earlier attempt; its reply is then taken from the journal.
    pub fn enter_turn(&mut self) -> bool {
        self.progress.enter_turn(&self.reporter.shared.journal)
    }

    /// Stores `entry`; does nothing for a run without a checkpoint.
    async fn keep(&self, entry: Entry) -> Result<(), Box<ProviderError>> {
        let shared = self.reporter.shared;
        let store = Store {
            host: &shared.host,
            events: &shared.events,
            run_id: &shared.run_id,
            cancel: &self.cancel,
        };
        shared.journal.append(entry, &store).await
    }

    /// Stores the first entry of the run, unless an earlier attempt has.
    pub async fn keep_beginning(&self) -> Result<(), Box<ProviderError>> {
        let shared = self.reporter.shared;
        match &shared.journal.begins {
            Some(run) if self.reporter.origin.depth == 0 => {
                let (run_id, run) = (shared.run_id.clone(), run.clone());
                self.keep(Entry::Run { run_id, run }).await
            }
            _ => Ok(()),
        }
    }

    /// Stores the reply of a turn that has just ended.
    pub async fn keep_turn(&self, reply: &Reply) -> Result<(), Box<ProviderError>> {
        if self.progress.replayed || !self.journal().is_on() {
            return Ok(());
        }
        let (at, reply) = (self.progress.turn(), Box::new(reply.clone()));
        self.keep(Entry::Turn { at, reply }).await
    }

    /// Stores the tokens and cost of a turn that failed. Those of another agent's turns are stored with the answer to the call that started it.
    pub async fn keep_spent(&self, spent: &Spent) {
        if self.reporter.origin.depth == 0 {
            // A failing store is ignored here: the run ends by the turn's own failure, which says more.
            let _ = self.keep(Entry::Spent(spent.clone())).await;
        }
    }

    /// Stores `input` before the executor gets it. Returns the input for the executor: an error in its place if storing failed, or `None` if the
    /// input was not meant for the executor.
    pub async fn keep_input(&mut self, input: Input) -> Option<Input> {
        if !self.journal().is_on() {
            return Some(input);
        }
        let input = match input {
            Input::Decided {
                id,
                allow,
                reason,
                args,
            } => match self.progress.questions.remove(&id) {
                Some(mut call) if allow => {
                    if let Some(args) = args {
                        call.args = args;
                    }
                    let mistakes = self.tools.iter().find(|tool| tool.spec.name == call.name);
                    match mistakes.map(|tool| structured::aside(|| tool.check(&call.args))) {
                        Some(Err(reason)) => Input::Executed {
                            id,
                            answer: ToolResult::error(format!("the arguments do not fit its schema: {reason}")),
                        },
                        _ => {
                            self.execute(call).await;
                            return None;
                        }
                    }
                }
                Some(call) => Input::Executed {
                    id,
                    answer: unknown(&call.name, reason.as_deref()),
                },
                None => Input::Decided {
                    id,
                    allow,
                    reason,
                    args,
                },
            },
            other => other,
        };
        let kept = match &input {
            Input::Decided {
                id,
                allow,
                reason,
                args,
            } => {
                let at = self.progress.place(id);
                let decision = Decision {
                    allow: *allow,
                    reason: reason.clone(),
                    args: args.clone(),
                };
                match self.reporter.shared.journal.decision(&at) {
                    Some(_) => Ok(()),
                    None => self.keep(Entry::Decision { at, decision }).await,
                }
            }
            Input::Executed { id, answer } => self.keep_end(id, answer, &Spent::default()).await,
            // A child that was cancelled with this run has not finished, so its end is not stored.
            Input::ChildEnded { id, answer, spent } if !self.cancel.is_cancelled() => {
                self.keep_end(id, answer, spent).await
            }
            _ => Ok(()),
        };
        Some(match kept {
            Ok(()) => input,
            Err(error) => Input::ProviderFailed(error),
        })
    }

    async fn keep_end(&self, id: &str, answer: &ToolResult, spent: &Spent) -> Result<(), Box<ProviderError>> {
        let at = self.progress.place(id);
        if self.reporter.shared.journal.ended(&at).is_some() {
            return Ok(());
        }
        let (answer, spent) = (answer.clone(), spent.clone());
        self.keep(Entry::ToolEnded { at, answer, spent }).await
    }

    /// Asks the host whether `tool_call` may run, unless an earlier attempt has the decision.
    pub async fn ask(&mut self, tool_call: ToolCall) {
        let at = self.progress.place(&tool_call.id);
        if let Some(Decision { allow, reason, args }) = self.reporter.shared.journal.decision(&at) {
            let id = tool_call.id;
            return self.pending.known(Input::Decided {
                id,
                allow,
                reason,
                args,
            });
        }
        self.emit_ask(tool_call, false).await;
    }

    /// Runs `tool_call` once: a result of an earlier attempt is used again, and a tool that may have run already is treated as its `onResume`
    /// says.
    pub async fn execute_once(&mut self, tool_call: ToolCall) {
        let (journal, at) = (&self.reporter.shared.journal, self.progress.place(&tool_call.id));
        let id = tool_call.id.clone();
        if let Some((answer, _)) = journal.ended(&at) {
            return self.pending.known(Input::Executed { id, answer });
        }
        if !journal.begun(&at) {
            return match self.keep(Entry::ToolBegun { at }).await {
                Ok(()) => self.execute(tool_call).await,
                Err(error) => self.pending.known(Input::ProviderFailed(error)),
            };
        }
        match self.agent.on_resume.get(&tool_call.name).copied().unwrap_or_default() {
            OnResume::Rerun => self.execute(tool_call).await,
            OnResume::Ask => {
                self.progress.questions.insert(id, tool_call.clone());
                self.emit_ask(tool_call, true).await;
            }
            OnResume::Fail => {
                let answer = unknown(&tool_call.name, None);
                self.pending.known(Input::Executed { id, answer });
            }
        }
    }

    /// Requests the execution of `tool_call` from the host. The idempotency key is the same in every attempt, since it is made of
    /// the run's id and the call's place.
    async fn execute(&mut self, tool_call: ToolCall) {
        let idempotency_key = format!("{}/{}", self.reporter.shared.run_id, self.progress.place(&tool_call.id));
        let (request, who) = self.request(&tool_call.id);
        self.emit(Kind::Execute {
            request,
            who,
            tool_call,
            idempotency_key,
        })
        .await;
    }

    /// Opens a request to the host about call `id`. Returns its number, and the index of the agent in the spec.
    fn request(&mut self, id: &str) -> (u32, usize) {
        let Reporter { shared, origin, .. } = &self.reporter;
        (self.pending.request(&shared.host, id), origin.agent)
    }

    /// Requests a decision about `tool_call` from the host.
    async fn emit_ask(&mut self, tool_call: ToolCall, interrupted: bool) {
        let (request, who) = self.request(&tool_call.id);
        self.emit(Kind::Ask {
            request,
            who,
            tool_call,
            interrupted,
        })
        .await;
    }
}

/// The result that the model gets for a tool that was interrupted, so that nobody knows whether it took effect.
fn unknown(name: &str, why: Option<&str>) -> ToolResult {
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    ToolResult::error(format!(
        "\"{name}\" had begun when the run was interrupted, and did not say that it ended{why}. It is unknown whether it happened: find \
         out before you call it again"
    ))
}
