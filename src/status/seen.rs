//! What is shown of processes: index.d.ts's `ProcessLimits` and `Status`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::process::activity::{AllRuns, BudgetActivity, ProcessState, RateLimitWindow, Runs};

/// A process that one of ours has started.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    pub pid: u32,
    pub provider: String,
    pub engine: String,
    pub state: ProcessState,
    pub started_at: u64,
    pub conversations: Vec<String>,
    /// Resident, bytes: its own and, where it is looked from outside, that of all it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// How many processes it has started that are still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descendants: Option<usize>,
}

/// A program that uses this package.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Host {
    pub pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    pub process_wide: AllRuns,
    pub per_binary: BTreeMap<String, Runs>,
    pub processes: Vec<Process>,
    pub rate_limits: Vec<RateLimitWindow>,
    pub budgets: Vec<BudgetActivity>,
    /// Where its gateways listen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
}

/// A process whose program has ended, or knows nothing of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Leftover {
    pub pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The program that has started it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
}

/// What there is to see of other processes.
#[derive(Debug, Default, Serialize)]
pub(super) struct Machine {
    pub hosts: Vec<Host>,
    pub leftovers: Vec<Leftover>,
}
