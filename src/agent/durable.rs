//! Carries out the executor's effects, each of them once, however often the run is resumed.
//!
//! In: one effect, or the answer to an earlier one. Out: the event that reports it, and a turn that begins or ends, a request to the host,
//! or a run of another agent; or the answer of an earlier attempt, if the journal has one for this place of the run.
//!
//! A turn is stored before its calls begin, the beginning of a tool before it runs, and its end before the model learns of it.

use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::conversation::{AgentThread, Conversation, Turn};
use super::event::{AgentResult, Kind, OwnCalls, Phase, Reporter};
use super::journal::{Decision, Entry, Journal, Progress, Store};
use super::pending::PendingCalls;
use super::spec::{AgentSpec, OnResume};
use super::{RunOrigin, Shared};
use crate::executor::{Effect, Input, RunOutcome, Status, Task, Tool};
use dfp_model::error::ProviderError;
use dfp_model::event::Reply;
use dfp_model::message::{Message, Role, Spent, ToolCall, ToolResult, ToolSpec};
use dfp_process::limit::NestedPermit;
use dfp_run::request::{CallOptions, Request};
use dfp_run::structured;

/// The function that runs another agent. The driver hands itself over here, since this module can't use the one that uses it.
pub(super) type RunAgent =
    fn(Arc<Shared>, RunOrigin, Vec<Message>, CancellationToken) -> Pin<Box<dyn Future<Output = AgentResult> + Send>>;

/// The turns of a run's model: its provider, its thread, and the turn under way.
pub(super) struct AgentTurns<'a> {
    pub talk: &'a Conversation,
    pub thread: AgentThread,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// The model's turn, if one is under way.
    pub turn: Option<Turn>,
    pub own_calls: OwnCalls,
    /// The permit of this run's turn, which child runs may use while the turn waits for them.
    pub nested: NestedPermit,
    pub run_agent: RunAgent,
}

impl AgentTurns<'_> {
    /// Carries out `effect`. Returns the outcome of the run if this was its last effect.
    pub async fn perform(&mut self, calls: &mut DurableCalls<'_>, effect: Effect) -> Option<Box<RunOutcome>> {
        match effect {
            Effect::Ask(tool_call) => calls.ask(tool_call).await,
            Effect::Execute(tool_call) => calls.execute_once(tool_call).await,
            Effect::Permission(decided) => {
                let id = decided.id.clone();
                let kind = Kind::Permission {
                    tool_call_id: decided.id,
                    name: decided.name,
                    allow: decided.allow,
                    by: decided.by,
                    reason: decided.reason,
                    args: decided.args,
                };
                calls.emit_of(&id, kind).await;
            }
            Effect::StartChild { id, task } => self.start_child(calls, id, task).await,
            Effect::Reply { call, answer } => self.reply(calls, call, answer).await,
            Effect::Abandon(id) => {
                if let Some(request) = calls.pending.abandon(&calls.reporter.shared.host, &id) {
                    calls.emit(Kind::Abandon { request }).await;
                }
            }
            // A cancelled run begins no further turn; the driver notices the cancellation next.
            Effect::NextTurn { .. } if calls.cancel.is_cancelled() => {}
            Effect::NextTurn { notes } => {
                if !notes.is_empty() {
                    self.thread.noted(notes.join("\n\n"));
                }
                if calls.enter_turn() {
                    return None;
                }
                calls.reporter.enter_phase(Phase::Queue, None).await;
                let request = Request {
                    messages: self.thread.messages(),
                    tools: self.tools.clone(),
                    options: CallOptions {
                        events: true,
                        partial: true,
                        log: calls.agent.log,
                        record: calls.reporter.turn_record(),
                        output_schema: calls.reporter.output_schema().cloned(),
                        unknown_tools: true,
                        choices: calls.agent.choices.clone(),
                        ..CallOptions::default()
                    },
                    env: Some(Arc::clone(&calls.reporter.shared.env)),
                    nested_permit: calls.reporter.origin.nested.clone(),
                    ..Request::default()
                };
                self.own_calls = OwnCalls::default();
                self.turn = Some(self.talk.begin(request));
            }
            Effect::Stop => {
                if let Some(turn) = self.turn.take() {
                    let log = turn.take_log();
                    turn.stop().await;
                    calls.reporter.emit_log(log).await;
                    calls.reporter.enter_phase(Phase::None, None).await;
                }
            }
            Effect::Finish(outcome) => return Some(outcome),
        }
        None
    }

    /// Gives a call its one result: in the thread, to the caller as an event, and to the provider if that waits for it.
    async fn reply(&mut self, calls: &mut DurableCalls<'_>, call: ToolCall, answer: ToolResult) {
        self.thread.answered(&call, &answer);
        let kind = Kind::ToolResult {
            tool_call_id: call.id.clone(),
            name: call.name,
            content: answer.content.clone(),
            is_error: answer.is_error,
        };
        calls.emit_of(&call.id, kind).await;
        calls.pending.answered(&call.id, answer);
    }

    /// Starts the run of the agent that gets `task` by call `id`. If an earlier attempt has its result, that is used instead.
    async fn start_child(&mut self, calls: &mut DurableCalls<'_>, id: String, task: Task) {
        let shared = Arc::clone(calls.reporter.shared);
        let at = calls.progress.place(&id);
        if let Some((answer, spent)) = shared.journal.ended(&at) {
            return calls.pending.known(Input::ChildEnded { id, answer, spent });
        }
        let named = |agent: &AgentSpec| agent.name.as_deref() == Some(task.agent.as_str());
        let Some(agent) = shared.spec.agents.iter().position(named) else {
            let reason = format!("there is no agent \"{}\"", task.agent);
            return calls.pending.refuse(id, &reason);
        };
        let calls_back = self.turn.as_ref().is_some_and(Turn::calls_back);
        let origin = (calls.reporter.origin).child(agent, &at, calls_back.then(|| self.nested.clone()));
        calls
            .emit(Kind::Deferred {
                tool_call_id: id.clone(),
                action: "handoff",
                to: task.agent.clone(),
                child_run_id: origin.run_id.clone(),
            })
            .await;
        let (call, stop) = (id.clone(), calls.cancel.child_token());
        let (cancel, run_agent) = (stop.clone(), self.run_agent);
        calls.pending.wait_for(&call, stop, async move {
            let messages = vec![Message::new(Role::Human, task.task)];
            let result = run_agent(shared, origin, messages, cancel).await;
            let (answer, spent) = child_answer(&task.agent, result);
            Input::ChildEnded { id, answer, spent }
        });
    }

    /// Passes on the records that the turn has collected since the last time.
    pub async fn pass_log(&self, reporter: &Reporter<'_>) {
        let log = self.turn.as_ref().map_or_else(Vec::new, Turn::take_log);
        reporter.emit_log(log).await;
    }
}

/// Warns of agents that can't take a task at present, for example because their CLI is missing. The run begins all the same.
pub(super) async fn look_at_targets(reporter: &Reporter<'_>) {
    let shared = reporter.shared;
    for (agent, talk) in shared.spec.agents.iter().zip(&shared.models).skip(1) {
        if let Err(error) = talk.model.ready(&shared.env) {
            let name = agent.name.as_deref().unwrap_or_default();
            let message = format!("the agent \"{name}\" can't be asked: {}", error.message);
            reporter.emit(Kind::warning("AGENT_UNAVAILABLE", message)).await;
        }
    }
}

/// The result of the call that handed a task to `agent`, made of the result of its run.
fn child_answer(agent: &str, result: AgentResult) -> (ToolResult, Spent) {
    let why = result
        .error
        .as_ref()
        .map_or(String::new(), |error| format!(": {}", error.message));
    let answer = match result.status {
        Status::Completed => ToolResult::text(result.output),
        Status::Failed => ToolResult::error(format!("the agent \"{agent}\" failed{why}")),
        Status::Cancelled => ToolResult::error(format!("the agent \"{agent}\" was cancelled")),
        Status::Limit => ToolResult::error(format!("the agent \"{agent}\" was stopped{why}")),
    };
    let spent = Spent {
        usage: result.usage,
        cost_usd: result.cost_usd,
    };
    (answer, spent)
}

// The calls, and what is stored of each before the run goes on.

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
