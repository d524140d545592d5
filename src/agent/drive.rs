//! The driver: carries out the executor's decisions for one run, and for the runs it hands tasks to.
//!
//! In: a spec, the thread, and everything that happens meanwhile (the model's turn, the host's answers, other agents, time, a cancellation by
//! the caller). Out: events on the way, and the run's result once everything that was started has ended.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::conversation::{AgentThread, Turn, TurnEvent};
use super::durable::{self, AgentTurns, DurableCalls};
use super::event::{self, AgentResult, Kind, OwnCalls, Phase, Reporter};
use super::journal::Progress;
use super::pending::PendingCalls;
use super::{RunOrigin, Shared};
use crate::executor::{Input, Origin, RunOutcome, State, Status, Tool, step};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{Event, Reply};
use dfp_model::message::{Message, Spent, ToolCall};
use dfp_process::limit::NestedPermit;
use dfp_provider::classify::hint;
use dfp_run::{Ended, structured};

/// Compiles the schemas of the agent's tools. For the run's own agent all schemas of the run are compiled, those of the other agents and of the
/// answer too, so that a wrong one fails the run at its beginning.
async fn compiled(shared: &Shared, origin: &RunOrigin) -> Result<Vec<Arc<Tool>>, Box<ProviderError>> {
    if origin.depth == 0 {
        shared.spec.compile().await?;
    }
    shared.spec.agents[origin.agent].compiled_tools().await
}

/// The state of one agent's run.
struct Driver<'a> {
    calls: DurableCalls<'a>,
    turns: AgentTurns<'a>,
    outcome: Option<Box<RunOutcome>>,
    /// The value of the last reply, where an output schema asks for one.
    structured: Option<Value>,
    warned_of_cost: bool,
}

/// The two sources of what a run reacts to.
enum Woken {
    Input(Input),
    Turn(TurnEvent),
}

/// Runs an agent until it has ended, and returns its result.
pub(super) fn run(
    shared: Arc<Shared>,
    origin: RunOrigin,
    messages: Vec<Message>,
    cancel: CancellationToken,
) -> Pin<Box<dyn Future<Output = AgentResult> + Send>> {
    // Boxed because the type is recursive: a run may await another run that it has handed a task to.
    Box::pin(async move {
        let (agent, talk) = (&shared.spec.agents[origin.agent], &shared.models[origin.agent]);
        let mut driver = Driver {
            calls: DurableCalls {
                agent,
                tools: Vec::new(),
                pending: PendingCalls::new(&messages),
                progress: Progress::new(&origin.scope),
                reporter: Reporter::new(&shared, origin),
                cancel,
            },
            turns: AgentTurns {
                talk,
                thread: AgentThread::new(agent.system_prompt.as_deref(), messages),
                tools: Vec::new(),
                turn: None,
                own_calls: OwnCalls::default(),
                nested: NestedPermit::default(),
                run_agent: run,
            },
            outcome: None,
            structured: None,
            warned_of_cost: false,
        };
        let outcome = driver.drive().await;
        let Driver {
            calls,
            turns,
            structured,
            ..
        } = driver;
        let origin = calls.reporter.origin;
        let resumed = shared.journal.resumed.clone().filter(|_| origin.depth == 0);
        let result = AgentResult::new(origin.run_id, outcome, structured, turns.thread.into_added());
        AgentResult { resumed, ..result }
    })
}

impl Driver<'_> {
    /// Runs the agent to its end: compiles the schemas, begins the log and the first entry, and then feeds the executor with every
    /// input until it has an outcome.
    async fn drive(&mut self) -> RunOutcome {
        let deadline = self
            .calls
            .agent
            .limits
            .timeout_ms
            .map(|ms| Instant::now() + Duration::from_millis(ms));
        let shared = self.calls.reporter.shared;
        let origin = &self.calls.reporter.origin;
        let (env, depth) = (Arc::clone(&shared.env), origin.depth);
        let journal = &shared.journal;
        let compiled = tokio::select! {
            biased;
            () = self.calls.cancel.cancelled() => Ok(Vec::new()),
            () = at(deadline) => Ok(Vec::new()),
            compiled = compiled(shared, origin) => compiled,
        };
        let (tools, refused) = match compiled {
            Ok(tools) => (tools, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let rules = match shared
            .spec
            .rules(self.turns.talk.model.id(), self.calls.agent, &tools, depth)
        {
            Ok(rules) => rules,
            Err((name, reason)) => return self.impossible(&format!("{name}: {reason}")),
        };
        self.turns.tools = rules.specs().cloned().collect();
        self.calls.tools = tools;
        let id = self.turns.talk.model.id();
        let recorded = (self.calls.reporter)
            .begin_log(id, &self.turns.thread.messages(), &rules.order)
            .await;
        self.calls
            .emit(Kind::RunStarted {
                provider: id.to_owned(),
                tools: rules.order.clone(),
                resumed: journal.resumed.clone().filter(|_| depth == 0),
            })
            .await;
        let first = match self.calls.cancel.is_cancelled() {
            true => Input::Cancelled,
            false => match refused
                .map_or(recorded, Err)
                .and_then(|()| self.turns.talk.model.ready(&env))
            {
                Ok(()) => match self.calls.keep_beginning().await {
                    Ok(()) => Input::Started,
                    Err(error) => Input::ProviderFailed(error),
                },
                Err(error) => Input::ProviderFailed(error),
            },
        };
        if depth == 0 && matches!(first, Input::Started) {
            durable::look_at_targets(&self.calls.reporter).await;
            for change in &shared.changes {
                let message = format!("the run goes on, but {change}");
                self.calls.emit(Kind::warning("CHECKPOINT_CHANGED", message)).await;
            }
        }
        // The caller may have cancelled while the other agents were looked at.
        let first = match self.calls.cancel.is_cancelled() {
            true => Input::Cancelled,
            false => first,
        };
        let mut state = self.feed(State::Idle(Box::new(rules)), first).await;
        if depth == 0 && journal.lost != Spent::default() {
            state = self.feed(state, Input::Spent(journal.lost.clone())).await;
        }
        loop {
            if let Some(mut outcome) = self.outcome.take() {
                // Everything that was cancelled must have ended before anybody learns that the run has.
                while let Some(ended) = self.calls.pending.child_ended().await {
                    if let Input::ChildEnded { spent, .. } = ended {
                        outcome.spent.add(&spent);
                    }
                }
                self.require_value(&mut outcome);
                self.calls.emit(Kind::ended(&outcome)).await;
                return *outcome;
            }
            let woken = tokio::select! {
                biased;
                () = self.calls.cancel.cancelled() => Woken::Input(Input::Cancelled),
                () = at(deadline) => Woken::Input(Input::TimeUp),
                input = self.calls.pending.next() => Woken::Input(input),
                event = next(&mut self.turns.turn, &mut self.calls.progress) => Woken::Turn(event),
            };
            state = match woken {
                Woken::Input(input) => self.feed_kept(state, input).await,
                Woken::Turn(event) => self.take(state, event).await,
            };
        }
    }

    /// Makes one step of the executor. With a checkpoint, the input is stored before the step is made.
    async fn feed_kept(&mut self, mut state: State, input: Input) -> State {
        if matches!(input, Input::Cancelled) && self.calls.reporter.shared.journal.is_on() {
            // Answers that have arrived by now are kept before the cancellation, so that a resumed run doesn't repeat those calls.
            while let Some(input) = self.calls.pending.ready().filter(|_| self.outcome.is_none()) {
                if let Some(input) = self.calls.keep_input(input).await {
                    state = self.feed(state, input).await;
                }
            }
        }
        match self.calls.keep_input(input).await {
            Some(input) => self.feed(state, input).await,
            None => state,
        }
    }

    /// Takes an event of the model's turn. Events are reported, and calls, usage and the end of the turn go to the executor.
    async fn take(&mut self, mut state: State, event: TurnEvent) -> State {
        self.turns.pass_log(&self.calls.reporter).await;
        match event {
            TurnEvent::Events(events) => {
                for event in events {
                    match &event {
                        Event::Start { .. } => self.calls.reporter.enter_phase(Phase::Model, None).await,
                        Event::Waiting { until, .. } => {
                            self.calls.reporter.enter_phase(Phase::Quota, Some(*until)).await
                        }
                        _ => {}
                    }
                    if let Event::Message { content, .. } = &event {
                        self.turns.thread.add_answer(content.trim());
                    }
                    // The provider tries again: texts of the failed attempt belong to no message.
                    if matches!(event, Event::Retry { by: "provider", .. }) {
                        self.turns.thread.forget_answers();
                    }
                    for kind in self.turns.own_calls.kinds(event) {
                        self.calls.emit(kind).await;
                    }
                }
                state
            }
            TurnEvent::Call(request) => {
                let call = self.calls.pending.call_back(request);
                self.turns.thread.called(self.turns.talk.model.id(), call.clone());
                self.call(state, call, Origin::Callback).await
            }
            TurnEvent::Ended(ended) => {
                let called_back = self.turns.turn.take().is_some_and(|turn| turn.calls_back());
                self.calls.reporter.enter_phase(Phase::None, None).await;
                self.tell_turn(&ended).await;
                match ended {
                    Ended::Replied(mut reply) => {
                        if called_back {
                            // These calls came by callback, and have been answered.
                            reply.tool_calls.clear();
                        }
                        let kept = self.calls.keep_turn(&reply).await;
                        if let Err(error) = kept {
                            // The turn was paid for, but could not be stored.
                            let (usage, cost_usd) = (reply.usage, reply.cost_usd);
                            state = self.spend(state, Spent { usage, cost_usd }, None).await;
                            return self.feed(state, Input::ProviderFailed(error)).await;
                        }
                        state = self.replied(state, *reply).await;
                        self.feed(state, Input::TurnEnded).await
                    }
                    Ended::Failed(error) => {
                        if let Some(usage) = error.usage.clone() {
                            let spent = Spent { usage, cost_usd: None };
                            self.calls.keep_spent(&spent).await;
                            state = self.spend(state, spent, None).await;
                        }
                        self.feed(state, Input::ProviderFailed(error)).await
                    }
                    // This run has not cancelled its turn, so the provider's run was ended from outside.
                    Ended::Cancelled => {
                        let error = ProviderError::new(
                            self.turns.talk.model.id(),
                            Code::Closed,
                            "the provider's run was cancelled",
                        );
                        self.feed(state, Input::ProviderFailed(Box::new(error))).await
                    }
                }
            }
        }
    }

    /// Reports how a turn ended to a host that observes the agent's turns (`observe`).
    async fn tell_turn(&self, ended: &Ended) {
        if !self.calls.agent.observe {
            return;
        }
        let (reply, error) = match ended {
            Ended::Replied(reply) => (Some(reply.clone()), None),
            Ended::Failed(error) => (None, Some(error.clone())),
            Ended::Cancelled => return,
        };
        self.calls.emit(Kind::TurnOver { reply, error }).await;
    }

    /// Handles the reply that ended a turn: its usage, its text and its tool calls.
    async fn replied(&mut self, mut state: State, reply: Reply) -> State {
        let spent = Spent {
            usage: reply.usage.clone(),
            cost_usd: reply.cost_usd,
        };
        if spent.cost_usd.is_none() && self.calls.agent.limits.max_cost_usd.is_some() && !self.warned_of_cost {
            self.warned_of_cost = true;
            let message = format!(
                "{} does not tell what it costs: \"maxCostUsd\" limits nothing",
                self.turns.talk.model.id()
            );
            self.calls.emit(Kind::warning("COST_UNKNOWN", message)).await;
        }
        state = self.spend(state, spent, reply.model.clone()).await;
        state = self.feed(state, Input::Output(reply.content.clone())).await;
        self.structured.clone_from(&reply.structured);
        let (calls, invalid) = (reply.tool_calls.clone(), reply.invalid_tool_calls.clone());
        self.calls.pending.take_ids(&calls);
        self.turns.thread.replied(self.turns.talk.model.id(), reply);
        for call in &invalid {
            let note = event::unreadable(call);
            if !self.calls.progress.replayed {
                let message = format!("a tool call can't be read: {}", call.error);
                self.calls.emit(Kind::warning("INVALID_TOOL_CALL", message)).await;
            }
            state = self.feed(state, Input::Unreadable(note)).await;
        }
        for call in calls {
            state = self.call(state, call, Origin::Turn).await;
        }
        state
    }

    /// Reports and counts what a turn has used; `model` is the one that answered, if it is known.
    async fn spend(&mut self, state: State, spent: Spent, model: Option<String>) -> State {
        if !self.calls.progress.replayed {
            self.calls
                .emit(Kind::Usage {
                    usage: spent.usage.clone(),
                    cost_usd: spent.cost_usd,
                    model,
                })
                .await;
        }
        self.feed(state, Input::Spent(spent)).await
    }

    async fn call(&mut self, state: State, call: ToolCall, origin: Origin) -> State {
        self.calls.progress.enter_call(&call.id);
        let tool_call = call.clone();
        self.calls
            .emit_of(&call.id, Kind::Event(Event::ToolCall { tool_call }))
            .await;
        self.feed(state, Input::Call(call, origin)).await
    }

    /// Makes one step of the executor and carries out every effect of it.
    async fn feed(&mut self, state: State, input: Input) -> State {
        // These steps check arguments against a schema, which may take long: they run aside from the runtime's workers.
        let (state, effects) = match input {
            Input::Call(..) | Input::Decided { .. } => structured::aside(|| step(state, input)),
            _ => step(state, input),
        };
        for effect in effects {
            if let Some(outcome) = self.turns.perform(&mut self.calls, effect).await {
                self.outcome = Some(outcome);
            }
        }
        state
    }

    /// Fails a run that had to end with a value and ended with the call of a tool instead.
    fn require_value(&self, outcome: &mut RunOutcome) {
        if outcome.status != Status::Completed
            || self.structured.is_some()
            || self.calls.reporter.output_schema().is_none()
        {
            return;
        }
        let id = self.turns.talk.model.id();
        let reason = "the run has ended without an answer that fits `outputSchema`: its last word was a tool call";
        let error = ProviderError::new(id, Code::OutputInvalid, reason).with_hint(hint(id, Code::OutputInvalid));
        outcome.status = Status::Failed;
        outcome.error = Some(Box::new(error));
    }

    /// The outcome of a run that can't even begin, for a reason that is a bug.
    fn impossible(&self, reason: &str) -> RunOutcome {
        let error = ProviderError::new(self.turns.talk.model.id(), Code::Internal, reason);
        RunOutcome {
            status: Status::Failed,
            output: String::new(),
            spent: Spent::default(),
            steps: 0,
            report: None,
            plan: None,
            limit: None,
            error: Some(Box::new(error)),
        }
    }
}

async fn next(turn: &mut Option<Turn>, progress: &mut Progress) -> TurnEvent {
    if let Some(reply) = progress.recorded.take() {
        return TurnEvent::Ended(Ended::Replied(reply));
    }
    match turn {
        Some(turn) => turn.next().await,
        None => std::future::pending().await,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
