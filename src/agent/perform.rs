//! What the executor asks for, done.
//!
//! In: one effect. Out: the event that tells of it, a turn that begins or ends, a request to the host, a run of another agent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use serde_json::value::RawValue;

use super::conversation::Exchange;
use super::drive::{Driver, Lineage};
use super::event::{AgentEvent, AgentResult, Kind};
use super::news::OwnCalls;
use super::record;
use super::spec::Who;
use crate::error::ProviderError;
use crate::executor::builtin::Task;
use crate::executor::{Answer, Effect, Input, Spent, Status};
use crate::message::ToolCall;
use crate::run::model::Question;

impl Driver<'_> {
    pub(super) async fn perform(&mut self, effect: Effect) -> Result<(), Box<ProviderError>> {
        match effect {
            Effect::Ask(tool_call) => {
                let (request, who) = (self.request(&tool_call.id), self.lineage.who);
                self.emit(Kind::Ask {
                    request,
                    who,
                    tool_call,
                })
                .await;
            }
            Effect::Execute(tool_call) => {
                let (request, who) = (self.request(&tool_call.id), self.lineage.who);
                self.emit(Kind::Execute {
                    request,
                    who,
                    tool_call,
                })
                .await;
            }
            Effect::Permission(decided) => {
                self.emit(Kind::Permission {
                    tool_call_id: decided.id,
                    name: decided.name,
                    allow: decided.allow,
                    by: decided.by,
                    reason: decided.reason,
                    args: decided.args,
                })
                .await;
            }
            Effect::StartChild { id, task } => self.start_child(id, task).await,
            Effect::Reply { call, answer, .. } => self.reply(call, answer).await,
            Effect::Abandon(id) => {
                if let Some(request) = self.requests.remove(&id) {
                    self.shared.host.forget(request);
                    self.emit(Kind::Abandon { request }).await;
                }
                if let Some(stop) = self.stops.remove(&id) {
                    stop.cancel();
                }
            }
            // Of a run that was told to end nobody asks anything; the driver hears of it next.
            Effect::NextTurn { .. } if self.cancel.is_cancelled() => {}
            Effect::NextTurn { notes } => {
                if !notes.is_empty() {
                    self.thread.noted(notes.join("\n\n"));
                }
                let question = Question {
                    messages: self.thread.question().into(),
                    tools: self.tools.clone(),
                    call: json!({
                        "events": true, "partial": true, "log": self.who.log, "record": self.turn_record(), "unknown_tools": true,
                    })
                    .to_string(),
                    env: Some(self.shared.env.as_ref().clone()),
                    lent: self.lineage.nested.clone(),
                };
                let exchange = self.model.begin(question).await?;
                self.own_calls = OwnCalls::default();
                self.exchange = Some(exchange);
            }
            Effect::Stop => {
                if let Some(exchange) = self.exchange.take() {
                    let log = exchange.take_log();
                    exchange.stop().await;
                    self.emit_log(log).await;
                }
            }
            Effect::Finish(outcome) => self.outcome = Some(outcome),
        }
        Ok(())
    }

    /// The one answer to a call: into the thread, and to whoever waits for it.
    async fn reply(&mut self, call: ToolCall, answer: Answer) {
        self.requests.remove(&call.id);
        self.stops.remove(&call.id);
        self.thread.answered(&call, &answer);
        self.emit(Kind::ToolResult {
            tool_call_id: call.id.clone(),
            name: call.name,
            content: answer.content.clone(),
            is_error: answer.is_error,
        })
        .await;
        if let Some(waiting) = self.callbacks.remove(&call.id) {
            // A callback that has hung up wants no answer.
            let _ = waiting.send(answer);
        }
    }

    async fn start_child(&mut self, id: String, task: Task) {
        let named = |who: &Who| who.name.as_deref() == Some(task.agent.as_str());
        let Some(who) = self.shared.spec.agents.iter().position(named) else {
            let answer = Answer::error(&format!("there is no agent \"{}\"", task.agent));
            let spent = Spent::default();
            let _ = self.inbox.send(Input::ChildEnded { id, answer, spent });
            return;
        };
        let calls_back = self.exchange.as_ref().is_some_and(Exchange::calls_back);
        let lineage = self.lineage.child(who, calls_back.then(|| self.nested.clone()));
        self.emit(Kind::Deferred {
            tool_call_id: id.clone(),
            action: "handoff",
            to: task.agent.clone(),
            child_run_id: lineage.run_id.clone(),
        })
        .await;
        let stop = self.cancel.child_token();
        self.stops.insert(id.clone(), stop.clone());
        let shared = Arc::clone(self.shared);
        let message = json!({"type": "human", "content": task.task});
        let messages = serde_json::value::to_raw_value(&message).into_iter().collect();
        self.children.spawn(async move {
            let result = Driver::run(&shared, lineage, messages, stop).await;
            let (answer, spent) = child_answer(&task.agent, result);
            Input::ChildEnded { id, answer, spent }
        });
    }

    /// Says which agents a task can't be handed to as things are; that is no reason not to begin.
    pub(super) async fn look_at_targets(&self) {
        let targets = self.shared.spec.agents.iter().zip(&self.shared.models).skip(1);
        for (who, model) in targets {
            if let Err(error) = model.ready(&self.shared.env) {
                let name = who.name.as_deref().unwrap_or_default();
                let message = format!("the agent \"{name}\" can't be asked: {}", error.message);
                self.emit(warning("AGENT_UNAVAILABLE", message)).await;
            }
        }
    }

    fn request(&mut self, id: &str) -> u32 {
        let request = self.shared.host.ask(&self.inbox, id);
        self.requests.insert(id.to_owned(), request);
        request
    }

    pub(super) async fn emit(&self, kind: Kind) {
        let event = self.event(kind);
        if record::is_lost(&event.kind) && self.shared.unrecorded.swap(true, Ordering::Relaxed) {
            // A turn's log has failed, and another one said so for all.
            return;
        }
        // A host that has gone is no reason to fail: its going ends the run.
        if let Some(lost) = self.write(&event).await {
            let _ = self.shared.events.send(self.event(lost)).await;
        }
        let _ = self.shared.events.send(event).await;
    }

    fn event(&self, kind: Kind) -> AgentEvent {
        let Lineage { run_id, parent, .. } = &self.lineage;
        AgentEvent {
            kind,
            run_id: run_id.clone(),
            agent: self.who.name.clone(),
            parent_run_id: parent.clone(),
        }
    }

    pub(super) async fn pass_log(&self) {
        let log = self.exchange.as_ref().and_then(Exchange::take_log);
        self.emit_log(log).await;
    }

    async fn emit_log(&self, log: Option<String>) {
        if let Some(Ok(records)) = log.map(RawValue::from_string) {
            let who = self.lineage.who;
            self.emit(Kind::Log { who, records }).await;
        }
    }
}

/// What the agent that handed a task to `agent` is told.
fn child_answer(agent: &str, result: AgentResult) -> (Answer, Spent) {
    let why = result
        .error
        .as_ref()
        .map_or(String::new(), |error| format!(": {}", error.message));
    let answer = match result.status {
        Status::Completed => Answer::text(&result.output),
        Status::Failed => Answer::error(&format!("the agent \"{agent}\" failed{why}")),
        Status::Cancelled => Answer::error(&format!("the agent \"{agent}\" was cancelled")),
        Status::Limit => Answer::error(&format!("the agent \"{agent}\" was stopped{why}")),
    };
    let spent = Spent {
        usage: result.usage,
        cost_usd: result.cost_usd,
    };
    (answer, spent)
}

pub(super) fn warning(code: &str, message: String) -> Kind {
    Kind::Warning {
        code: code.to_owned(),
        message,
    }
}
