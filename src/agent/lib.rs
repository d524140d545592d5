//! An agent's run: a model, its tools, and the executor between them.
//!
//! ```text
//! spec ─▶ Agent ─start─▶ AgentRun ─next─▶ events for the caller, requests to the host (JavaScript runs the tools)
//!                            ▲─complete, decide─┘
//! ```
//!
//! In: the JSON of a run (`spec`) and the models that answer. Out: batches of `event::AgentEvent`s, and one result. The executor decides what is
//! to be done next; this module does it: it begins turns, passes calls to the host, and takes results back. The [`executor`] is a pure function. [`claude_code`] runs claude itself in a workspace, for suites that
//! compare agents.

pub mod claude_code;
mod conversation;
mod drive;
mod durable;
mod event;
pub mod executor;
mod journal;
mod pending;
mod spec;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use event::AgentEvent;
use journal::Journal;
use pending::HostRequests;
use serde_json::value::{RawValue, to_raw_value};
use spec::{Fingerprint, Spec};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use dfp_model::error::{Code, ProviderError};
use dfp_process::Vars;
use dfp_process::limit::NestedPermit;
use dfp_run::next_id;

pub use conversation::{Conversation, ToolCalls};

/// The most events that wait for a slow host. When so many wait, the run waits too.
const EVENTS_WAITING: usize = 256;

/// An `event::AgentResult` as JSON, or the error that prevented one.
type EncodedResult = Result<Box<RawValue>, Box<ProviderError>>;

/// A run that is checked and not begun.
#[derive(Debug)]
pub struct Agent {
    spec: Spec,
    journal: Journal,
    /// Harmless changes of the options since an earlier attempt.
    changes: Vec<String>,
}

impl Agent {
    /// Reads and checks `spec`: its tools' schemas, limits and built-in tools.
    ///
    /// # Errors
    /// `INVALID_OPTION` or `INVALID_TOOL`, naming the field, what it holds and what is allowed.
    pub fn new(spec: &str) -> Result<Agent, Box<ProviderError>> {
        let spec = Spec::parse(spec)?;
        let (journal, changes) = (Journal::default(), Vec::new());
        Ok(Agent { spec, journal, changes })
    }

    /// How agent number `agent` wants its tool calls delivered, and the name of that option in errors.
    pub fn tool_calls(&self, agent: usize) -> Option<(ToolCalls, String)> {
        let agent = self.spec.agents.get(agent)?;
        Some((agent.tool_calls, format!("{}toolCalls", agent.path)))
    }

    /// Has the run go on after `entries`, a JSON array of the texts that earlier attempts have stored. With an empty array the run begins, and
    /// its entries are stored from then on. `models` as for [`Agent::start`].
    ///
    /// # Errors
    /// `CHECKPOINT_INVALID`, `CHECKPOINT_MISMATCH`: the reason why the run can't go on.
    pub fn resume(&mut self, entries: &str, models: &[Conversation]) -> Result<(), Box<ProviderError>> {
        let entries: Vec<String> =
            serde_json::from_str(entries).map_err(|error| journal::invalid(&error.to_string()))?;
        let providers: Vec<&str> = models.iter().map(|talk| talk.model.id()).collect();
        let now = Fingerprint::new(&self.spec, &providers);
        let run_id = self.spec.run_id.as_deref().unwrap_or_default();
        (self.journal, self.changes) = Journal::read(&entries, run_id, now)?;
        Ok(())
    }

    /// Begins the run and returns at once. Must be called inside the runtime. `models` are the models of the spec's agents, in their order;
    /// `env` as for [`dfp_run::ProviderObject::start`]. A run that is `cancelled` before it begins asks no model.
    ///
    /// # Errors
    /// `INTERNAL`: the number of models is not the number of agents.
    pub fn start(
        self,
        models: Vec<Conversation>,
        env: Option<Vars>,
        cancelled: bool,
    ) -> Result<AgentRun, Box<ProviderError>> {
        if models.len() != self.spec.agents.len() {
            let reason = format!("{} agents, but {} models", self.spec.agents.len(), models.len());
            return Err(Box::new(ProviderError::new("", Code::Internal, reason)));
        }
        let env = Arc::new(env.unwrap_or_else(|| std::env::vars_os().collect()));
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
        let cancel = CancellationToken::new();
        if cancelled {
            cancel.cancel();
        }
        let host = Arc::new(HostRequests::default());
        let run_id = self.spec.run_id.clone().unwrap_or_else(|| next_id("agent"));
        let origin = RunOrigin::root(run_id.clone());
        let shared = Arc::new(Shared {
            spec: self.spec,
            journal: self.journal,
            changes: self.changes,
            run_id,
            models,
            env,
            events: sender,
            host: Arc::clone(&host),
            unrecorded: AtomicBool::new(false),
        });
        let child_token = cancel.child_token();
        let task = tokio::spawn(async move {
            let messages = serde_json::from_str(shared.spec.messages.get()).map_err(|error| {
                let reason = format!("messages can't be read: {error}");
                Box::new(ProviderError::new("", Code::InvalidMessages, reason))
            })?;
            let ended = drive::run(shared, origin, messages, child_token).await;
            to_raw_value(&ended).map_err(|error| bug(&error.to_string()))
        });
        Ok(AgentRun {
            cancel,
            events: AsyncMutex::new(receiver),
            task: AsyncMutex::new(Some(task)),
            host,
        })
    }
}

/// A run that was begun. Dropping it cancels the run.
#[derive(Debug)]
pub struct AgentRun {
    cancel: CancellationToken,
    events: AsyncMutex<mpsc::Receiver<AgentEvent>>,
    task: AsyncMutex<Option<JoinHandle<EncodedResult>>>,
    host: Arc<HostRequests>,
}

impl AgentRun {
    /// The next batch of events and requests as a JSON array; `None` once the run has ended and all were delivered.
    pub async fn next(&self) -> Option<String> {
        let mut batch = Vec::new();
        if self.events.lock().await.recv_many(&mut batch, EVENTS_WAITING).await == 0 {
            return None;
        }
        let json = serde_json::to_string(&batch);
        Some(json.unwrap_or_else(|error| {
            let warning = serde_json::json!([{"type": "warning", "code": "INTERNAL", "message": error.to_string()}]);
            warning.to_string()
        }))
    }

    /// The result of the run as JSON, once everything that it has started has ended. Can be taken once.
    ///
    /// # Errors
    /// `INVALID_MESSAGES`: the thread can't be read. `INTERNAL`: a bug.
    pub async fn result(&self) -> EncodedResult {
        let Some(task) = self.task.lock().await.take() else {
            return Err(bug("its result was taken before"));
        };
        task.await.map_err(|panic| bug(&panic.to_string()))?
    }

    /// Answers request number `request` to run a tool: `{"content": string
    ///
    /// blocks, "isError"?: boolean}`.
    ///
    /// # Errors
    /// `answer` doesn't have that form.
    pub fn complete(&self, request: u32, answer: &str) -> Result<(), serde_json::Error> {
        self.host.complete(request, answer)
    }

    /// Answers request number `request` to decide about a call: `{"allow": boolean, "reason"?: string, "args"?: object}`.
    ///
    /// # Errors
    /// `decision` doesn't have that form.
    pub fn decide(&self, request: u32, decision: &str) -> Result<(), serde_json::Error> {
        self.host.decide(request, decision)
    }

    /// Answers request number `request` to store an entry: `null` if it is durable, else `{"locked": boolean, "message": string}`.
    ///
    /// # Errors
    /// `answer` doesn't have that form.
    pub fn stored(&self, request: u32, answer: &str) -> Result<(), serde_json::Error> {
        self.host.stored(request, answer)
    }

    /// Cancels the run with everything that it has started; [`AgentRun::result`] then has the status `cancelled`.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

fn bug(reason: &str) -> Box<ProviderError> {
    let reason = format!("a bug in this package stopped the run: {reason}");
    Box::new(ProviderError::new("", Code::Internal, reason).with_hint("Please report it with what you did."))
}

impl Drop for AgentRun {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

// The state that the runs of one `runAgent` share, and how one run descends from another.

/// The state that all runs of one `runAgent` share.
#[derive(Debug)]
struct Shared {
    pub spec: Spec,
    /// The models of the spec's agents, in their order.
    pub models: Vec<Conversation>,
    pub env: Arc<Vars>,
    pub events: mpsc::Sender<AgentEvent>,
    /// The journal of all these runs.
    pub journal: Journal,
    /// Harmless changes of the options since an earlier attempt.
    pub changes: Vec<String>,
    /// The caller's id for the run, or else the id of its first run.
    pub run_id: String,
    pub host: Arc<HostRequests>,
    /// A log could not be written, and the caller was told: nothing further is recorded.
    pub unrecorded: AtomicBool,
}

/// The identity of one run: its agent, its id, and the run that handed it its task.
#[derive(Debug, Clone)]
struct RunOrigin {
    /// The agent's index in the spec.
    pub agent: usize,
    pub run_id: String,
    pub parent: Option<String>,
    pub depth: u32,
    /// The prefix of its places in the journal: empty for the first run, `2.3/` for the run started by the call at `2.3`.
    pub scope: String,
    /// The permit of the run that waits for this one.
    pub nested: Option<NestedPermit>,
}

impl RunOrigin {
    /// The first run.
    pub fn root(run_id: String) -> RunOrigin {
        RunOrigin {
            agent: 0,
            run_id,
            parent: None,
            depth: 0,
            scope: String::new(),
            nested: None,
        }
    }

    /// A run to which this one hands a task by its call at the place `at`. `nested` is the permit that this run holds meanwhile. If it holds
    /// none, the permit that it got from its own parent is free, and is passed on.
    pub fn child(&self, agent: usize, at: &str, nested: Option<NestedPermit>) -> RunOrigin {
        RunOrigin {
            agent,
            run_id: next_id("agent"),
            parent: Some(self.run_id.clone()),
            depth: self.depth + 1,
            scope: format!("{at}/"),
            nested: nested.or_else(|| self.nested.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
