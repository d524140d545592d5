//! The shown facts about processes: `ProcessLimits` and `Status` in index.d.ts.

use std::collections::BTreeMap;

use serde::Serialize;

use dfp_model::message::Usage;
use dfp_process::activity::{AllRuns, BudgetActivity, ProcessState, RateLimitWindow, Runs};

/// A process that this package has started.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    pub pid: u32,
    pub provider: String,
    pub engine: String,
    pub state: ProcessState,
    pub started_at: u64,
    pub conversations: Vec<String>,
    /// The tokens of all answers in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Resident memory in bytes: the process's own and, seen from another program, that of all processes it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The number of running processes that it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descendants: Option<usize>,
}

/// A program that uses this package.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Program {
    pub pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    pub process_wide: AllRuns,
    pub per_binary: BTreeMap<String, Runs>,
    pub processes: Vec<Process>,
    pub rate_limits: Vec<RateLimitWindow>,
    pub budgets: Vec<BudgetActivity>,
    /// The addresses at which its gateways listen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
}

/// A process whose program has ended, or doesn't know it.
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

/// The state of other processes.
#[derive(Debug, Default, Serialize)]
pub(super) struct Machine {
    pub hosts: Vec<Program>,
    pub leftovers: Vec<Leftover>,
}
