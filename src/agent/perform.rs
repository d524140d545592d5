//! Carries out the executor's effects.
//!
//! In: one effect. Out: the event that reports it, and a turn that begins or ends, a request to the host, or a run of another agent.

use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::conversation::{AgentThread, Conversation, Turn};
use super::durable::DurableCalls;
use super::event::{AgentResult, Kind, OwnCalls, Phase};
use super::report::Reporter;
use super::spec::AgentSpec;
use super::{RunOrigin, Shared};
use crate::executor::rules::Task;
use crate::executor::{Effect, Input, RunOutcome, Status};
use dfp_model::message::{Message, Role, Spent, ToolCall, ToolResult, ToolSpec};
use dfp_process::limit::NestedPermit;
use dfp_run::request::{CallOptions, Request};

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
