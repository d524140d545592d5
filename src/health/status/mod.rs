//! The current state of this process ([`own`]), and that of this machine with the usage in run logs ([`of_machine`]).
//!
//! In: this process's own state, the states that other processes publish, the table of processes, and files of logs. Out: JSON for
//! `limits()` and for the `status` command. Everything but the first is foreign: it is shown, and no action depends on it.

mod logs;
#[cfg(target_os = "linux")]
mod machine;
mod seen;

use std::path::PathBuf;

use serde_json::{Value, json};

use dfp_model::error::{Code, ProviderError};
use dfp_process::activity;
use dfp_process::resident_bytes;
use dfp_record::runlog::spending::Spending;
use seen::{Machine, Process};

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
