//! The current state of this process ([`own`]), and that of this machine with the usage in run logs ([`of_machine`]).
//!
//! In: this process's own state, the states that other processes publish, the table of processes, and files of logs. Out: JSON for
//! `limits()` and for the `status` command. Everything but the first is foreign: it is shown, and no action depends on it.

mod logs;
#[cfg(target_os = "linux")]
mod machine;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use dfp_model::error::{Code, ProviderError};
use dfp_model::message::Usage;
use dfp_process::activity::{self, AllRuns, BudgetActivity, ProcessState, RateLimitWindow, Runs};
use dfp_process::resident_bytes;
use dfp_record::runlog::spending::Spending;

/// The provider that errors without one name.
const PACKAGE: &str = "deep-factor-providers";

/// The state of this process: `ProcessLimits` in index.d.ts. Reading memory costs about 10 µs per process.
pub fn own() -> Value {
    let now = activity::snapshot();
    let processes: Vec<Process> = now
        .processes
        .into_iter()
        .map(|process| Process {
            memory_bytes: resident_bytes(process.pid),
            descendants: None,
            pid: process.pid,
            provider: process.provider,
            engine: process.engine,
            state: process.state,
            started_at: process.started_at,
            conversations: process.conversations,
            usage: process.usage,
        })
        .collect();
    json!({
        "processWide": now.process_wide, "perBinary": now.per_binary, "processes": processes,
        "rateLimits": now.rate_limits, "budgets": now.budgets,
    })
}

/// The state of this machine for processes of this user, and the usage in the logs at `paths` (files, or folders of them) since
/// `since`, ms since the epoch.
///
/// # Errors
/// `NOT_FOUND`: a path doesn't exist. `INTERNAL`: the work was aborted.
pub async fn of_machine(paths: Vec<PathBuf>, since: u64) -> Result<Value, Box<ProviderError>> {
    let work = tokio::task::spawn_blocking(move || {
        let spent = logs::add_up(&paths, since).map_err(|missing| {
            let reason = format!(
                "there are no run logs at {}: {}",
                missing.path.display(),
                missing.source
            );
            Box::new(refused(Code::NotFound, reason).with_hint("Name a run log, or a folder that holds some."))
        })?;
        Ok(whole(spent.as_ref()))
    });
    match work.await {
        Ok(done) => done,
        Err(error) => Err(Box::new(refused(Code::Internal, error.to_string()))),
    }
}

fn whole(spent: Option<&(Spending, logs::Files)>) -> Value {
    let mut whole = json!({"machine": machine()});
    if let (Some((spending, files)), Some(whole)) = (spent, whole.as_object_mut()) {
        whole.insert("spending".to_owned(), json!(spending));
        whole.insert("files".to_owned(), json!(files));
    }
    whole
}

/// The state of other processes; `None` if the system doesn't show their environments: everywhere but on Linux.
fn machine() -> Option<Machine> {
    #[cfg(target_os = "linux")]
    return Some(machine::look());
    #[cfg(not(target_os = "linux"))]
    None
}

fn refused(code: Code, reason: String) -> ProviderError {
    ProviderError::new(PACKAGE, code, reason)
}

// The shown facts about processes: `ProcessLimits` and `Status` in index.d.ts.

/// A process that this package has started.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
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
struct Program {
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
struct Leftover {
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
struct Machine {
    pub hosts: Vec<Program>,
    pub leftovers: Vec<Leftover>,
}
