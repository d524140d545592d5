//! The state that the runs of one `runAgent` share, and how one run descends from another.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::mpsc;

use super::conversation::Conversation;
use super::event::AgentEvent;
use super::host::HostRequests;
use super::journal::Journal;
use super::spec::Spec;
use dfp_process::Vars;
use dfp_process::limit::NestedPermit;
use dfp_run::next_id;

/// The state that all runs of one `runAgent` share.
#[derive(Debug)]
pub(super) struct Shared {
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
pub(super) struct RunOrigin {
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
