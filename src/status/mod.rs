//! What goes on: in this process ([`own`]), and on this machine, beside what run logs say was used ([`of_machine`]).
//!
//! In: what this process knows of itself, what others publish, the table of processes, files of logs. Out: JSON for `limits()` and for
//! the `status` command. Everything but the first is foreign: it is shown, and nothing is done for what it says.

mod logs;
#[cfg(target_os = "linux")]
mod machine;
mod seen;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::error::{Code, ProviderError};
use crate::process::activity;
use crate::process::resident_bytes;
use crate::runlog::spending::Spending;
use seen::{Machine, Process};

/// Who is to blame for errors that no provider is.
const PACKAGE: &str = "deep-factor-providers";

/// What goes on in this process: index.d.ts's `ProcessLimits`. A look at memory costs some 10 µs per process.
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
        })
        .collect();
    json!({
        "processWide": now.process_wide, "perBinary": now.per_binary, "processes": processes,
        "rateLimits": now.rate_limits, "budgets": now.budgets,
    })
}

/// What goes on on this machine among processes of this user, and what the logs at `paths` (files, or folders of them) hold since `since`,
/// ms since the epoch.
///
/// # Errors
/// `NOT_FOUND` for a path that there is not, `INTERNAL` where the work was ended.
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

/// `None` where the system does not show other processes' environments: everywhere but on Linux.
fn machine() -> Option<Machine> {
    #[cfg(target_os = "linux")]
    return Some(machine::look());
    #[cfg(not(target_os = "linux"))]
    None
}

fn refused(code: Code, reason: String) -> ProviderError {
    ProviderError::new(PACKAGE, code, reason)
}
