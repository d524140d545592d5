//! What the executor asks for, done.
//!
//! In: one effect. Out: the event that reports it, a turn that begins or ends, a request to the host, a run of another agent.

use std::sync::Arc;

use super::conversation::Turn;
use super::drive::Driver;
use super::event::{AgentResult, Kind, Phase};
use super::report::Reporter;
use super::spec::AgentSpec;
use super::turn_events::OwnCalls;
use crate::executor::builtin::Task;
use crate::executor::{Effect, Input, Spent, Status};
use crate::message::{Message, Role, ToolCall, ToolResult};
use crate::run::request::{CallOptions, GivenSchema, Request};

impl Driver<'_> {
    pub(super) async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Ask(tool_call) => self.ask(tool_call).await,
            Effect::Execute(tool_call) => self.execute_once(tool_call).await,
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
                self.emit_of(&id, kind).await;
            }
            Effect::StartChild { id, task } => self.start_child(id, task).await,
            Effect::Reply { call, answer } => self.reply(call, answer).await,
            Effect::Abandon(id) => {
                if let Some(request) = self.pending.abandon(&self.reporter.shared.host, &id) {
                    self.emit(Kind::Abandon { request }).await;
                }
            }
            // A run that is cancelled asks nothing more; the driver gets to know next.
            Effect::NextTurn { .. } if self.cancel.is_cancelled() => {}
            Effect::NextTurn { notes } => {
                if !notes.is_empty() {
                    self.thread.noted(notes.join("\n\n"));
                }
                if self.enter_turn() {
                    return;
                }
                self.enter_phase(Phase::Queue, None).await;
                let request = Request {
                    messages: self.thread.messages(),
                    tools: self.tools.clone(),
                    options: CallOptions {
                        events: true,
                        partial: true,
                        log: self.agent.log,
                        record: self.reporter.turn_record(),
                        output_schema: self.output_schema(),
                        unknown_tools: true,
                        choices: self.agent.choices.clone(),
                        ..CallOptions::default()
                    },
                    env: Some(Arc::clone(&self.reporter.shared.env)),
                    nested_permit: self.reporter.lineage.nested.clone(),
                };
                self.own_calls = OwnCalls::default();
                self.turn = Some(self.talk.begin(request));
            }
            Effect::Stop => {
                if let Some(turn) = self.turn.take() {
                    let log = turn.take_log();
                    turn.stop().await;
                    self.reporter.emit_log(log).await;
                    self.enter_phase(Phase::None, None).await;
                }
            }
            Effect::Finish(outcome) => self.outcome = Some(outcome),
        }
    }

    /// What the answer has to fit: only the run's own agent answers the caller.
    pub(super) fn output_schema(&self) -> Option<GivenSchema> {
        let Reporter { shared, lineage, .. } = &self.reporter;
        shared.spec.output_schema.clone().filter(|_| lineage.depth == 0)
    }

    /// The one answer to a call: into the thread, and to whoever waits for it.
    async fn reply(&mut self, call: ToolCall, answer: ToolResult) {
        self.thread.answered(&call, &answer);
        let kind = Kind::ToolResult {
            tool_call_id: call.id.clone(),
            name: call.name,
            content: answer.content.clone(),
            is_error: answer.is_error,
        };
        self.emit_of(&call.id, kind).await;
        self.pending.answered(&call.id, answer);
    }

    async fn start_child(&mut self, id: String, task: Task) {
        let shared = Arc::clone(self.reporter.shared);
        let at = self.place(&id);
        if let Some((answer, spent)) = shared.journal.ended(&at) {
            return self.pending.known(Input::ChildEnded { id, answer, spent });
        }
        let named = |agent: &AgentSpec| agent.name.as_deref() == Some(task.agent.as_str());
        let Some(agent) = shared.spec.agents.iter().position(named) else {
            return self
                .pending
                .refuse(id, &format!("there is no agent \"{}\"", task.agent));
        };
        let calls_back = self.turn.as_ref().is_some_and(Turn::calls_back);
        let lineage = (self.reporter.lineage).child(agent, &at, calls_back.then(|| self.nested.clone()));
        self.emit(Kind::Deferred {
            tool_call_id: id.clone(),
            action: "handoff",
            to: task.agent.clone(),
            child_run_id: lineage.run_id.clone(),
        })
        .await;
        let (call, stop) = (id.clone(), self.cancel.child_token());
        let cancel = stop.clone();
        self.pending.wait_for(&call, stop, async move {
            let messages = vec![Message::new(Role::Human, task.task)];
            let result = Driver::run(&shared, lineage, messages, cancel).await;
            let (answer, spent) = child_answer(&task.agent, result);
            Input::ChildEnded { id, answer, spent }
        });
    }

    /// Says which agents a task can't be handed to as things are; that is no reason not to begin.
    pub(super) async fn look_at_targets(&self) {
        let shared = self.reporter.shared;
        for (agent, talk) in shared.spec.agents.iter().zip(&shared.models).skip(1) {
            if let Err(error) = talk.model.ready(&shared.env) {
                let name = agent.name.as_deref().unwrap_or_default();
                let message = format!("the agent \"{name}\" can't be asked: {}", error.message);
                self.emit(Kind::warning("AGENT_UNAVAILABLE", message)).await;
            }
        }
    }

    /// The number of a new request to the host about call `id`, and whose call it is.
    pub(super) fn request(&mut self, id: &str) -> (u32, usize) {
        let Reporter { shared, lineage, .. } = &self.reporter;
        (self.pending.request(&shared.host, id), lineage.agent)
    }

    pub(super) async fn emit(&self, kind: Kind) {
        self.reporter.emit(kind).await;
    }

    pub(super) async fn pass_log(&self) {
        let log = self.turn.as_ref().map_or_else(Vec::new, Turn::take_log);
        self.reporter.emit_log(log).await;
    }
}

/// The answer to the call that handed a task to `agent`.
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
