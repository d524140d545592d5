//! What a run's processes are known by.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that marks every process of a run with the run's id. A process that forked twice and left both its
/// group and its parents is still found by it (Linux; not if it cleared its environment before `exec`).
pub const RUN_VARIABLE: &str = "DEEP_FACTOR_RUN";

/// Of this process, and unlike every other's: seeded by the system, differently in every process.
static HOST: LazyLock<u64> = LazyLock::new(|| std::hash::RandomState::new().build_hasher().finish());

/// What the environment of every process of every run of this host holds, and that of no other process.
#[cfg(unix)]
pub(super) fn host_mark() -> String {
    format!("{RUN_VARIABLE}={:016x}-", *HOST)
}

/// Unique on this machine: other hosts mark their runs as well, and must not find ours.
pub(super) fn next_run_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("{:016x}-{}", *HOST, COUNT.fetch_add(1, Ordering::Relaxed))
}
