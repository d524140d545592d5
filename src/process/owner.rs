//! Whose a process is, as its environment tells people who look.

use std::sync::LazyLock;

use super::activity::Label;

/// The variable that says whose process it is, for people who look: `<owner's pid>:<owner's start>:<engine>:<provider>`. Nothing is
/// ended for what it says.
pub const OWNER_VARIABLE: &str = "DEEP_FACTOR_OWNER";

/// The value of [`OWNER_VARIABLE`] in a process of this one's. A start of 0 says that it is unknown.
pub(super) fn owner_mark(label: &Label) -> String {
    let pid = std::process::id();
    let start = LazyLock::force(&START);
    format!("{pid}:{start}:{}:{}", label.engine, label.provider)
}

/// When this process was started, in the system's own count: ids are used again, and this tells who has one now.
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
