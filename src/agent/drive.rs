//! The driver: does what the executor says, for one run and the runs it hands tasks to.
//!
//! In: a spec, the thread, and what happens meanwhile (the model's turn, the host's answers, other agents, time, the caller's
//! wish to end it). Out: events on the way, and what the run came to, when everything it has started has ended.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::conversation::{Called, Conversation, Exchange, News};
use super::event::{AgentEvent, AgentResult, Kind};
use super::host::Host;
use super::news::{self, OwnCalls};
use super::next_run_id;
use super::spec::{Spec, Who};
use super::thread::Thread;
use crate::error::{Code, ProviderError};
use crate::event::{Event, Reply};
use crate::executor::builtin::Task;
use crate::executor::{Answer, Effect, Input, Origin, Outcome, Spent, State, Status, step};
use crate::message::ToolCall;
use crate::process::Vars;
use crate::run::Ended;
use crate::run::model::Question;
use crate::toolcall::make_unique;

/// What all runs of one `runAgent` share.
#[derive(Debug)]
pub(super) struct Shared {
    pub spec: Spec,
    /// Of the spec's agents, in their order.
    pub models: Vec<Arc<dyn Conversation>>,
    pub env: Arc<Vars>,
    pub events: mpsc::Sender<AgentEvent>,
    pub host: Arc<Host>,
}

/// Whose run it is, and who handed it its task.
#[derive(Debug, Clone)]
pub(super) struct Lineage {
    who: usize,
    run_id: String,
    parent: Option<String>,
    depth: u32,
}

impl Lineage {
    /// The first run.
    pub fn root() -> Lineage {
        Lineage {
            who: 0,
            run_id: next_run_id(),
            parent: None,
            depth: 0,
        }
    }

    fn child(&self, who: usize) -> Lineage {
        Lineage {
            who,
            run_id: next_run_id(),
            parent: Some(self.run_id.clone()),
            depth: self.depth + 1,
        }
    }
}

/// One run.
pub(super) struct Driver<'a> {
    shared: &'a Arc<Shared>,
    who: &'a Who,
    model: &'a Arc<dyn Conversation>,
    lineage: Lineage,
    thread: Thread,
    /// The tools, as a question has them.
    tools: String,
    exchange: Option<Exchange>,
    /// Call ids there have been.
    taken: HashSet<String>,
    /// Callbacks that wait, by their call.
    callbacks: HashMap<String, oneshot::Sender<Answer>>,
    /// Requests to the host that are open, by their call.
    requests: HashMap<String, u32>,
    inbox: mpsc::UnboundedSender<Input>,
    children: JoinSet<Input>,
    /// What ends a child, by its call.
    stops: HashMap<String, CancellationToken>,
    cancel: CancellationToken,
    outcome: Option<Box<Outcome>>,
    warned_of_cost: bool,
    own_calls: OwnCalls,
}

/// What wakes a run.
enum Woken {
    Input(Input),
    News(News),
}

impl<'a> Driver<'a> {
    /// Runs to the end.
    pub fn run(
        shared: &'a Arc<Shared>,
        lineage: Lineage,
        messages: Vec<Box<RawValue>>,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = AgentResult> + Send + 'a>> {
        // Boxed: a run may await another of its kind.
        Box::pin(async move {
            let (who, model) = (&shared.spec.agents[lineage.who], &shared.models[lineage.who]);
            let (inbox, mut answers) = mpsc::unbounded_channel();
            let mut driver = Driver {
                shared,
                who,
                model,
                thread: Thread::new(who.system_prompt.as_deref(), &messages),
                tools: "[]".to_owned(),
                exchange: None,
                taken: taken(&messages),
                callbacks: HashMap::new(),
                requests: HashMap::new(),
                inbox,
                children: JoinSet::new(),
                stops: HashMap::new(),
                cancel,
                outcome: None,
                warned_of_cost: false,
                own_calls: OwnCalls::default(),
                lineage,
            };
            let outcome = driver.drive(&mut answers).await;
            let Driver { lineage, thread, .. } = driver;
            AgentResult::new(lineage.run_id, outcome, thread.grown())
        })
    }

    async fn drive(&mut self, answers: &mut mpsc::UnboundedReceiver<Input>) -> Outcome {
        let deadline = self
            .who
            .limits
            .timeout_ms
            .map(|ms| Instant::now() + Duration::from_millis(ms));
        let rules = match self
            .shared
            .spec
            .rules(self.model.id(), self.lineage.who, self.lineage.depth)
        {
            Ok(rules) => rules,
            Err((name, reason)) => return self.impossible(&format!("{name}: {reason}")),
        };
        let specs: Vec<String> = rules.specs().map(encode_tool).collect();
        self.tools = format!("[{}]", specs.join(","));
        self.emit(Kind::RunStarted {
            provider: self.model.id().to_owned(),
            tools: rules.order.clone(),
        })
        .await;
        let first = match self.cancel.is_cancelled() {
            true => Input::Cancelled,
            false => match self.model.ready(&self.shared.env) {
                Ok(()) => Input::Started,
                Err(error) => Input::ProviderFailed(error),
            },
        };
        if self.lineage.depth == 0 && matches!(first, Input::Started) {
            self.look_at_targets().await;
        }
        let mut state = self.feed(State::Idle(Box::new(rules)), first).await;
        loop {
            if let Some(outcome) = self.outcome.take() {
                // What was told to end has to have ended before anybody is told that the run has.
                while self.children.join_next().await.is_some() {}
                self.emit(Kind::ended(&outcome)).await;
                return *outcome;
            }
            let woken = tokio::select! {
                biased;
                () = self.cancel.cancelled() => Woken::Input(Input::Cancelled),
                () = at(deadline) => Woken::Input(Input::TimeUp),
                Some(input) = answers.recv() => Woken::Input(input),
                Some(Ok(input)) = self.children.join_next(), if !self.children.is_empty() => Woken::Input(input),
                news = next(&mut self.exchange) => Woken::News(news),
            };
            state = match woken {
                Woken::Input(input) => self.feed(state, input).await,
                Woken::News(news) => self.hear(state, news).await,
            };
        }
    }

    async fn hear(&mut self, mut state: State, news: News) -> State {
        self.pass_log().await;
        match news {
            News::Events(events) => {
                for event in events {
                    if let Event::Message { content, .. } = &event {
                        self.thread.heard(content.trim());
                    }
                    for kind in self.own_calls.told(event) {
                        self.emit(kind).await;
                    }
                }
                state
            }
            News::Called(called) => {
                let Called { id, name, args, reply } = called;
                let mut calls = [ToolCall { id, name, args }];
                make_unique(&mut calls, &mut self.taken);
                let [call] = calls;
                self.callbacks.insert(call.id.clone(), reply);
                self.thread.called(self.model.id(), call.clone());
                self.call(state, call, Origin::Callback).await
            }
            News::Ended(ended) => {
                self.exchange = None;
                match ended {
                    Ended::Replied(reply) => {
                        state = self.replied(state, *reply).await;
                        self.feed(state, Input::TurnEnded).await
                    }
                    Ended::Failed(error) => self.feed(state, Input::ProviderFailed(error)).await,
                    // Nobody here has cancelled it.
                    Ended::Cancelled => {
                        let error =
                            ProviderError::new(self.model.id(), Code::Closed, "the provider's run was cancelled");
                        self.feed(state, Input::ProviderFailed(Box::new(error))).await
                    }
                }
            }
        }
    }

    /// A turn has ended with `reply`: what it used, what it said, what it calls.
    async fn replied(&mut self, mut state: State, reply: Reply) -> State {
        let spent = Spent {
            usage: reply.usage.clone(),
            cost_usd: reply.cost_usd,
        };
        self.emit(Kind::Usage {
            usage: spent.usage.clone(),
            cost_usd: spent.cost_usd,
        })
        .await;
        if spent.cost_usd.is_none() && self.who.limits.max_cost_usd.is_some() && !self.warned_of_cost {
            self.warned_of_cost = true;
            let message = format!(
                "{} does not tell what it costs: \"maxCostUsd\" limits nothing",
                self.model.id()
            );
            self.emit(warning("COST_UNKNOWN", message)).await;
        }
        state = self.feed(state, Input::Spent(spent)).await;
        state = self.feed(state, Input::Said(reply.content.clone())).await;
        let (calls, invalid) = (reply.tool_calls.clone(), reply.invalid_tool_calls.clone());
        self.taken.extend(calls.iter().map(|call| call.id.clone()));
        self.thread.replied(self.model.id(), reply);
        for call in &invalid {
            let note = news::unreadable(call);
            self.emit(warning(
                "INVALID_TOOL_CALL",
                format!("a tool call can't be read: {}", call.error),
            ))
            .await;
            state = self.feed(state, Input::Unreadable(note)).await;
        }
        for call in calls {
            state = self.call(state, call, Origin::Turn).await;
        }
        state
    }

    async fn call(&mut self, state: State, call: ToolCall, origin: Origin) -> State {
        self.emit(Kind::ToolCall {
            tool_call: call.clone(),
        })
        .await;
        self.feed(state, Input::Call(call, origin)).await
    }

    /// One step of the executor, and all it asks for.
    async fn feed(&mut self, state: State, input: Input) -> State {
        let (state, effects) = step(state, input);
        let mut failed = None;
        for effect in effects {
            if let Err(error) = self.perform(effect).await {
                failed = Some(error);
            }
        }
        match failed {
            Some(error) => Box::pin(self.feed(state, Input::ProviderFailed(error))).await,
            None => state,
        }
    }

    async fn perform(&mut self, effect: Effect) -> Result<(), Box<ProviderError>> {
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
            Effect::NextTurn { notes } => {
                for note in notes {
                    self.thread.noted(note);
                }
                let question = Question {
                    messages: self.thread.question(),
                    tools: self.tools.clone(),
                    call: json!({"events": true, "partial": true, "log": self.who.log}).to_string(),
                    env: Some(self.shared.env.as_ref().clone()),
                };
                let exchange = self.model.begin(question).await?;
                self.own_calls = OwnCalls::new(exchange.calls_back());
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
        let lineage = self.lineage.child(who);
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
    async fn look_at_targets(&self) {
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

    async fn emit(&self, kind: Kind) {
        let Lineage { run_id, parent, .. } = &self.lineage;
        let event = AgentEvent {
            kind,
            run_id: run_id.clone(),
            agent: self.who.name.clone(),
            parent_run_id: parent.clone(),
        };
        // A host that has gone is no reason to fail: its going ends the run.
        let _ = self.shared.events.send(event).await;
    }

    async fn pass_log(&self) {
        let log = self.exchange.as_ref().and_then(Exchange::take_log);
        self.emit_log(log).await;
    }

    async fn emit_log(&self, log: Option<String>) {
        if let Some(Ok(records)) = log.map(RawValue::from_string) {
            let who = self.lineage.who;
            self.emit(Kind::Log { who, records }).await;
        }
    }

    fn impossible(&self, reason: &str) -> Outcome {
        let error = ProviderError::new(self.model.id(), Code::Internal, reason);
        Outcome {
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

/// The call ids of a thread, which no new call may repeat.
fn taken(messages: &[Box<RawValue>]) -> HashSet<String> {
    let read = |message: &Box<RawValue>| serde_json::from_str::<crate::message::Message>(message.get()).ok();
    let calls = messages.iter().filter_map(read).flat_map(|message| message.tool_calls);
    calls.map(|call| call.id).filter(|id| !id.is_empty()).collect()
}

fn encode_tool(spec: &crate::message::ToolSpec) -> String {
    let (name, schema) = (json!(spec.name), spec.schema.get());
    match &spec.description {
        Some(description) => format!(
            r#"{{"name":{name},"description":{},"schema":{schema}}}"#,
            json!(description)
        ),
        None => format!(r#"{{"name":{name},"schema":{schema}}}"#),
    }
}

fn warning(code: &str, message: String) -> Kind {
    Kind::Warning {
        code: code.to_owned(),
        message,
    }
}

async fn next(exchange: &mut Option<Exchange>) -> News {
    match exchange {
        Some(exchange) => exchange.next().await,
        None => std::future::pending().await,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
