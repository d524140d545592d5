//! The owner of a process, written into its environment for people who look at it.

use std::sync::LazyLock;

use super::activity::Label;

/// The variable that names the owner of a process: `<owner's pid>:<owner's start>:<engine>:<provider>`. It informs people only;
/// no process is ended because of it.
pub const OWNER_VARIABLE: &str = "DEEP_FACTOR_OWNER";

/// The value of [`OWNER_VARIABLE`] for a process that this one starts. A start of 0 means that it is unknown.
pub(super) fn owner_mark(label: &Label) -> String {
    let pid = std::process::id();
    let start = LazyLock::force(&START);
    format!("{pid}:{start}:{}:{}", label.engine, label.provider)
}

/// The start time of this process, in the system's own units. Process ids are reused; with the start time it is clear which
/// process had this one.
static START: LazyLock<u64> = LazyLock::new(own_start);

#[cfg(target_os = "linux")]
fn own_start() -> u64 {
    let pid = i32::try_from(std::process::id()).ok();
    pid.and_then(super::proc_linux::started).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn own_start() -> u64 {
    0
}
