//! What the runs of one `runAgent` have in common, and how they descend from each other.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::mpsc;

use super::conversation::Conversation;
use super::event::AgentEvent;
use super::host::Host;
use super::journal::Journal;
use super::spec::Spec;
use crate::process::Vars;
use crate::process::limit::NestedPermit;
use crate::run::id;

/// What all runs of one `runAgent` share.
#[derive(Debug)]
pub(super) struct Shared {
    pub spec: Spec,
    /// Of the spec's agents, in their order.
    pub models: Vec<Conversation>,
    pub env: Arc<Vars>,
    pub events: mpsc::Sender<AgentEvent>,
    /// What is durable of it.
    pub journal: Journal,
    /// What has changed since it was begun.
    pub changes: Vec<String>,
    /// What the caller calls the run, or its first run's id.
    pub run_id: String,
    pub host: Arc<Host>,
    /// A log could not be written: nothing further is recorded, and the caller knows.
    pub unrecorded: AtomicBool,
}

/// Whose run it is, and who handed it its task.
#[derive(Debug, Clone)]
pub(super) struct RunOrigin {
    /// The agent's place in the spec.
    pub agent: usize,
    pub run_id: String,
    pub parent: Option<String>,
    pub depth: u32,
    /// What its places begin with: empty for the first, `2.3/` for that of the call at `2.3`.
    pub scope: String,
    /// Of the run that waits for this one.
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

    /// A run that this one hands a task to, by its call at `at`. `nested`: for the permit that this one keeps meanwhile; if it keeps none, the one
    /// it got itself is free, too.
    pub fn child(&self, agent: usize, at: &str, nested: Option<NestedPermit>) -> RunOrigin {
        RunOrigin {
            agent,
            run_id: id::next("agent"),
            parent: Some(self.run_id.clone()),
            depth: self.depth + 1,
            scope: format!("{at}/"),
            nested: nested.or_else(|| self.nested.clone()),
        }
    }
}
