//! An agent's run: a model, its tools, and the executor between them.
//!
//! ```text
//! spec ─▶ Agent ─start─▶ AgentRun ─next─▶ events for the caller, requests to the host (JavaScript runs the tools)
//!                            ▲─complete, decide─┘
//! ```
//!
//! In: the JSON of a run (`spec`) and the models that answer. Out: batches of `event::AgentEvent`s, and one result. What is
//! to be done next is the executor's to decide; here it is done: turns are begun, calls go to the host, results go back.

mod conversation;
mod drive;
mod durable;
mod event;
mod fingerprint;
mod host;
mod journal;
mod pending;
mod perform;
mod progress;
mod report;
mod shared;
mod spec;
mod thread;
mod turn_events;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::{Code, ProviderError};
use crate::process::Vars;
use crate::run::id;
pub use conversation::{Conversation, ToolCalls};
use event::AgentEvent;
use fingerprint::Fingerprint;
use host::Host;
use journal::Journal;
use shared::{RunOrigin, Shared};
use spec::Spec;

/// Events that may wait for a slow host; then the run waits.
const EVENTS_WAITING: usize = 256;

/// An `event::AgentResult` as JSON, or why there is none.
type EncodedResult = Result<Box<RawValue>, Box<ProviderError>>;

/// What is to be run, checked.
#[derive(Debug)]
pub struct Agent {
    spec: Spec,
    journal: Journal,
    /// What has changed since the run was begun.
    changes: Vec<String>,
}

impl Agent {
    /// Reads and checks what `spec` asks for: its tools' schemas, limits, built-in tools.
    ///
    /// # Errors
    /// `INVALID_OPTION` or `INVALID_TOOL`, naming the field, what it holds and what is allowed.
    pub fn new(spec: &str) -> Result<Agent, Box<ProviderError>> {
        let spec = Spec::parse(spec)?;
        let (journal, changes) = (Journal::default(), Vec::new());
        Ok(Agent { spec, journal, changes })
    }

    /// How agent number `agent` is to be called back, and what that option is called in errors.
    pub fn tool_calls(&self, agent: usize) -> Option<(ToolCalls, String)> {
        let agent = self.spec.agents.get(agent)?;
        Some((agent.tool_calls, format!("{}toolCalls", agent.path)))
    }

    /// The run goes on after `entries`, which earlier attempts have left, a JSON array of texts; empty: it begins, and what happens is
    /// kept. `models` as for [`Agent::start`].
    ///
    /// # Errors
    /// `CHECKPOINT_INVALID`, `CHECKPOINT_MISMATCH`: why it can't go on.
    pub fn resume(&mut self, entries: &str, models: &[Conversation]) -> Result<(), Box<ProviderError>> {
        let entries: Vec<String> =
            serde_json::from_str(entries).map_err(|error| journal::invalid(&error.to_string()))?;
        let providers: Vec<&str> = models.iter().map(|talk| talk.model.id()).collect();
        let now = Fingerprint::new(&self.spec, &providers);
        let run_id = self.spec.run_id.as_deref().unwrap_or_default();
        (self.journal, self.changes) = Journal::read(&entries, run_id, now)?;
        Ok(())
    }

    /// Begins the run. Must be called inside the runtime; returns at once. `models` are those of the spec's agents, in their
    /// order; `env` as for [`crate::run::model::ProviderObject::start`]. One that is `cancelled` before it begins asks nobody.
    ///
    /// # Errors
    /// `INTERNAL`: there are not as many models as agents.
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
        let host = Arc::new(Host::default());
        let run_id = self.spec.run_id.clone().unwrap_or_else(|| id::next("agent"));
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

/// A run that goes on, or has ended. Dropping it ends it.
#[derive(Debug)]
pub struct AgentRun {
    cancel: CancellationToken,
    events: AsyncMutex<mpsc::Receiver<AgentEvent>>,
    task: AsyncMutex<Option<JoinHandle<EncodedResult>>>,
    host: Arc<Host>,
}

impl AgentRun {
    /// The next batch of events and requests as a JSON array; `None` when no more will come.
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

    /// What the run came to, as JSON, once everything it has started has ended; once.
    ///
    /// # Errors
    /// `INVALID_MESSAGES`: the thread can't be read. `INTERNAL`: a bug.
    pub async fn result(&self) -> EncodedResult {
        let Some(task) = self.task.lock().await.take() else {
            return Err(bug("its result was taken before"));
        };
        task.await.map_err(|panic| bug(&panic.to_string()))?
    }

    /// The answer to the request `execute` with this number: `{"content": string | blocks, "isError"?: boolean}`.
    ///
    /// # Errors
    /// `answer` is not that.
    pub fn complete(&self, request: u32, answer: &str) -> Result<(), serde_json::Error> {
        self.host.complete(request, answer)
    }

    /// The answer to the request `ask` with this number: `{"allow": boolean, "reason"?: string, "args"?: object}`.
    ///
    /// # Errors
    /// `decision` is not that.
    pub fn decide(&self, request: u32, decision: &str) -> Result<(), serde_json::Error> {
        self.host.decide(request, decision)
    }

    /// The answer to the request `append` with this number: `null`, or `{"locked": boolean, "message": string}`.
    ///
    /// # Errors
    /// `answer` is not that.
    pub fn stored(&self, request: u32, answer: &str) -> Result<(), serde_json::Error> {
        self.host.stored(request, answer)
    }

    /// Ends the run with everything it has started; [`AgentRun::result`] then says so.
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

#[cfg(test)]
mod tests;
