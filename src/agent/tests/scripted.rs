//! A scripted provider, and the host of a run over it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::super::*;
use dfp_exchange::bridge::ToolCallRequest;
use dfp_model::event::{Event, EventKind, Reply};
use dfp_model::message::{ToolCall, ToolResult};
use dfp_run::request::{CallOptions, Request};
use dfp_run::{CallDelivery, Model};
use dfp_run::{Ended, Run};
use dfp_text::redact::Redactor;

pub(super) type ScriptedRun = (Run, Option<mpsc::Receiver<ToolCallRequest>>);
pub(super) type ScriptedTurn = Box<dyn FnOnce() -> ScriptedRun + Send>;

/// A provider that answers one scripted turn after the other, and keeps the requests.
pub(super) struct Fake {
    pub(super) turns: Mutex<VecDeque<ScriptedTurn>>,
    pub(super) asked: Mutex<Vec<Value>>,
    /// The options of each call.
    pub(super) calls: Mutex<Vec<CallOptions>>,
    pub(super) missing: Option<ProviderError>,
}

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Fake")
    }
}

impl Fake {
    pub(super) fn new(turns: Vec<ScriptedTurn>) -> Arc<Fake> {
        Arc::new(Fake {
            turns: Mutex::new(turns.into()),
            asked: Mutex::default(),
            calls: Mutex::default(),
            missing: None,
        })
    }

    pub(super) fn options(&self) -> Vec<CallOptions> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Fake {
    fn take(&self, request: &Request) -> ScriptedRun {
        let asked = serde_json::to_value(&request.messages).unwrap();
        self.asked.lock().unwrap().push(asked);
        self.calls.lock().unwrap().push(request.options.clone());
        match self.turns.lock().unwrap().pop_front() {
            Some(turn) => turn(),
            None => {
                let none = ProviderError::new("fake", Code::Internal, "the script is over");
                (
                    Run::scripted(Vec::new(), |_| async { Ended::Failed(Box::new(none)) }),
                    None,
                )
            }
        }
    }
}

impl Model for Fake {
    fn id(&self) -> &str {
        "fake"
    }

    fn ready(&self, _env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        self.missing.clone().map_or(Ok(()), |error| Err(Box::new(error)))
    }

    fn redactor(&self, _env: &Vars) -> Redactor {
        Redactor::default()
    }

    fn calls(&self) -> CallDelivery {
        CallDelivery::Callbacks
    }

    fn begin(self: Arc<Self>, request: Request) -> Run {
        self.take(&request).0
    }

    fn begin_with_callbacks(self: Arc<Self>, request: Request) -> ScriptedRun {
        self.take(&request)
    }
}

pub(super) fn reply(text: &str, calls: Vec<ToolCall>) -> Ended {
    Ended::Replied(Box::new(Reply {
        content: text.to_owned(),
        tool_calls: calls,
        cost_usd: Some(0.5),
        ..Reply::default()
    }))
}

pub(super) fn tool_call(id: &str, name: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        args: RawValue::from_string("{}".to_owned()).unwrap(),
    }
}

/// A turn that ends with these calls.
pub(super) fn turn(text: &'static str, calls: Vec<ToolCall>) -> ScriptedTurn {
    let message = Event::Message {
        id: None,
        content: text.to_owned(),
    };
    Box::new(move || {
        let run = Run::scripted(vec![message], move |_| async move { reply(text, calls) });
        (run, None)
    })
}

/// A turn in which `act` calls back, and which then ends with `text`.
pub(super) fn calling<F>(text: &'static str, act: impl FnOnce(Caller) -> F + Send + 'static) -> ScriptedTurn
where
    F: Future<Output = ()> + Send + 'static,
{
    Box::new(move || {
        let (calls, receiver) = mpsc::channel(4);
        let run = Run::scripted(Vec::new(), move |cancel| async move {
            tokio::select! {
                () = cancel.cancelled() => Ended::Cancelled,
                // Real CLIs report calls by callback in their reply, too.
                () = act(Caller(calls)) => reply(text, vec![tool_call("1", "slow")]),
            }
        });
        (run, Some(receiver))
    })
}

pub(super) struct Caller(mpsc::Sender<ToolCallRequest>);

impl Caller {
    pub(super) async fn call(&self, id: &str, name: &str) -> oneshot::Receiver<ToolResult> {
        self.send(tool_call(id, name)).await
    }

    /// Sends a call. Dropping the receiver withdraws it.
    pub(super) async fn send(&self, call: ToolCall) -> oneshot::Receiver<ToolResult> {
        let (reply, result) = oneshot::channel();
        let request = ToolCallRequest { call, reply };
        self.0.send(request).await.unwrap();
        result
    }
}

pub(super) fn text(result: &ToolResult) -> (&str, bool) {
    (result.content.as_text(), result.is_error)
}

pub(super) fn start(fake: &Arc<Fake>, builtins: &Value) -> AgentRun {
    start_with(fake, builtins, &Value::Null)
}

pub(super) fn start_with(fake: &Arc<Fake>, builtins: &Value, record: &Value) -> AgentRun {
    start_as(fake, builtins, record, false)
}

pub(super) fn start_as(fake: &Arc<Fake>, builtins: &Value, record: &Value, cancelled: bool) -> AgentRun {
    let tools = ["fast", "slow"].map(|name| json!({"name": name, "schema": {}}));
    let spec = json!({
        "agents": [{"path": "", "tools": tools, "permissions": {}, "limits": {}, "how": {}}],
        "messages": [{"type": "human", "content": "Go."}],
        "builtins": builtins,
        "handoff": {},
        "record": record,
    });
    let agent = Agent::new(&spec.to_string()).unwrap();
    let model = Arc::clone(fake) as Arc<dyn Model>;
    let talk = Conversation::new(&model, ToolCalls::Auto, "toolCalls").unwrap();
    agent.start(vec![talk], None, cancelled).unwrap()
}

/// Plays the host until the run has ended: `host` answers a request `execute` for the tool of that name, or ignores it.
pub(super) async fn play(run: &AgentRun, mut host: impl FnMut(&str, u32)) -> (Vec<Value>, Value) {
    let mut events = Vec::new();
    while let Some(batch) = run.next().await {
        for event in serde_json::from_str::<Vec<Value>>(&batch).unwrap() {
            if event["type"] == "execute" {
                let request = u32::try_from(event["request"].as_u64().unwrap()).unwrap();
                host(event["toolCall"]["name"].as_str().unwrap(), request);
            }
            let name = event["type"].as_str().unwrap();
            let is_request = ["execute", "ask", "abandon", "log"].contains(&name);
            assert_ne!(EventKind::named(name).is_some(), is_request, "{event}");
            events.push(event);
        }
    }
    let result = run.result().await.unwrap();
    (events, serde_json::from_str(result.get()).unwrap())
}

pub(super) fn done(run: &AgentRun, request: u32, text: &str) {
    run.complete(request, &json!({"content": text}).to_string()).unwrap();
}

pub(super) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}
