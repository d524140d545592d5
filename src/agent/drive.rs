//! The driver: does what the executor says, for one run and the runs it hands tasks to.
//!
//! In: a spec, the thread, and what happens meanwhile (the model's turn, the host's answers, other agents, time, the caller's
//! wish to end it). Out: events on the way, and what the run came to, when everything it has started has ended.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
use super::perform::warning;
use super::spec::{Spec, Who};
use super::thread::Thread;
use crate::error::{Code, ProviderError};
use crate::event::{Event, Reply};
use crate::executor::{Answer, Input, Origin, Outcome, Spent, State, Status, step};
use crate::message::{Message, ToolCall, ToolSpec};
use crate::process::Vars;
use crate::process::limit::NestedPermit;
use crate::recorder::Recorder;
use crate::run::{Ended, id};
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
    /// A log could not be written: nothing further is recorded, and it was told.
    pub unrecorded: AtomicBool,
}

/// Whose run it is, and who handed it its task.
#[derive(Debug, Clone)]
pub(super) struct Lineage {
    pub(super) who: usize,
    pub(super) run_id: String,
    pub(super) parent: Option<String>,
    depth: u32,
    /// Of the run that waits for this one.
    pub(super) nested: Option<NestedPermit>,
}

impl Lineage {
    /// The first run.
    pub fn root() -> Lineage {
        Lineage {
            who: 0,
            run_id: id::next("agent"),
            parent: None,
            depth: 0,
            nested: None,
        }
    }

    /// A run that this one hands a task to. `nested`: for the permit that this one keeps meanwhile; if it keeps none, the one it got
    /// itself is free, too.
    pub fn child(&self, who: usize, nested: Option<NestedPermit>) -> Lineage {
        Lineage {
            who,
            run_id: id::next("agent"),
            parent: Some(self.run_id.clone()),
            depth: self.depth + 1,
            nested: nested.or_else(|| self.nested.clone()),
        }
    }
}

/// One run.
pub(super) struct Driver<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) who: &'a Who,
    pub(super) model: &'a Arc<dyn Conversation>,
    pub(super) lineage: Lineage,
    pub(super) thread: Thread,
    /// The tools, as a question has them.
    pub(super) tools: String,
    pub(super) exchange: Option<Exchange>,
    /// Call ids there have been.
    pub(super) taken: HashSet<String>,
    /// Callbacks that wait, by their call.
    pub(super) callbacks: HashMap<String, oneshot::Sender<Answer>>,
    /// Requests to the host that are open, by their call.
    pub(super) requests: HashMap<String, u32>,
    pub(super) inbox: mpsc::UnboundedSender<Input>,
    pub(super) children: JoinSet<Input>,
    /// What ends a child, by its call.
    pub(super) stops: HashMap<String, CancellationToken>,
    pub(super) cancel: CancellationToken,
    pub(super) outcome: Option<Box<Outcome>>,
    pub(super) warned_of_cost: bool,
    pub(super) own_calls: OwnCalls,
    /// For the runs that this one waits for with its own turn under way.
    pub(super) nested: NestedPermit,
    /// The run's log, if it is recorded.
    pub(super) recorder: Option<Recorder>,
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
                nested: NestedPermit::default(),
                recorder: None,
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
        let recorded = self.begin_log(&rules.order).await;
        self.emit(Kind::RunStarted {
            provider: self.model.id().to_owned(),
            tools: rules.order.clone(),
        })
        .await;
        let first = match self.cancel.is_cancelled() {
            true => Input::Cancelled,
            false => match recorded.and_then(|()| self.model.ready(&self.shared.env)) {
                Ok(()) => Input::Started,
                Err(error) => Input::ProviderFailed(error),
            },
        };
        if self.lineage.depth == 0 && matches!(first, Input::Started) {
            self.look_at_targets().await;
        }
        // Looking at the others has taken time.
        let first = match self.cancel.is_cancelled() {
            true => Input::Cancelled,
            false => first,
        };
        let mut state = self.feed(State::Idle(Box::new(rules)), first).await;
        loop {
            if let Some(mut outcome) = self.outcome.take() {
                // What was told to end has to have ended before anybody is told that the run has.
                while let Some(ended) = self.children.join_next().await {
                    if let Ok(Input::ChildEnded { spent, .. }) = ended {
                        outcome.spent.add(&spent);
                    }
                }
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
                let Called {
                    id,
                    name,
                    args,
                    reply,
                    taken_back,
                } = called;
                let mut calls = [ToolCall { id, name, args }];
                make_unique(&mut calls, &mut self.taken);
                let [call] = calls;
                self.callbacks.insert(call.id.clone(), reply);
                let (inbox, id) = (self.inbox.clone(), call.id.clone());
                tokio::spawn(async move {
                    if taken_back.await.is_ok() {
                        // A run that has ended hears nothing.
                        let _ = inbox.send(Input::TakenBack { id });
                    }
                });
                self.thread.called(self.model.id(), call.clone());
                self.call(state, call, Origin::Callback).await
            }
            News::Ended(ended) => {
                let called_back = self.exchange.take().is_some_and(|exchange| exchange.calls_back());
                match ended {
                    Ended::Replied(mut reply) => {
                        if called_back {
                            // They came by callback, and have their answers.
                            reply.tool_calls.clear();
                        }
                        state = self.replied(state, *reply).await;
                        self.feed(state, Input::TurnEnded).await
                    }
                    Ended::Failed(error) => {
                        if let Some(usage) = error.usage.clone() {
                            let cost_usd = None;
                            state = self.spend(state, Spent { usage, cost_usd }).await;
                        }
                        self.feed(state, Input::ProviderFailed(error)).await
                    }
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
        if spent.cost_usd.is_none() && self.who.limits.max_cost_usd.is_some() && !self.warned_of_cost {
            self.warned_of_cost = true;
            let message = format!(
                "{} does not tell what it costs: \"maxCostUsd\" limits nothing",
                self.model.id()
            );
            self.emit(warning("COST_UNKNOWN", message)).await;
        }
        state = self.spend(state, spent).await;
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

    async fn spend(&mut self, state: State, spent: Spent) -> State {
        self.emit(Kind::Usage {
            usage: spent.usage.clone(),
            cost_usd: spent.cost_usd,
        })
        .await;
        self.feed(state, Input::Spent(spent)).await
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

/// The call ids of a thread, which no new call may repeat.
fn taken(messages: &[Box<RawValue>]) -> HashSet<String> {
    let read = messages
        .iter()
        .map(|message| serde_json::from_str::<Message>(message.get()));
    let calls = read.flatten().flat_map(|message| message.tool_calls);
    calls.map(|call| call.id).filter(|id| !id.is_empty()).collect()
}

fn encode_tool(spec: &ToolSpec) -> String {
    let (name, schema) = (json!(spec.name), spec.schema.get());
    match &spec.description {
        Some(description) => format!(
            r#"{{"name":{name},"description":{},"schema":{schema}}}"#,
            json!(description)
        ),
        None => format!(r#"{{"name":{name},"schema":{schema}}}"#),
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
