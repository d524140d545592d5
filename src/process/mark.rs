//! The marks in the environment by which a run's processes are recognised.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that marks every process of a run with the run's id. It still finds a process that forked twice and left both
/// its group and its parents (Linux; not if the process cleared its environment before `exec`).
pub const RUN_VARIABLE: &str = "DEEP_FACTOR_RUN";

/// A random number of this process, different in every other: seeded by the system.
static HOST: LazyLock<u64> = LazyLock::new(|| std::hash::RandomState::new().build_hasher().finish());

/// The text that the environment of every process of this host's runs contains, and that of no other process.
#[cfg(unix)]
pub(super) fn host_mark() -> String {
    format!("{RUN_VARIABLE}={:016x}-", *HOST)
}

/// Makes a run id that is unique on this machine: other hosts mark their runs as well, and must not find ours.
pub fn next_run_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("{:016x}-{}", *HOST, COUNT.fetch_add(1, Ordering::Relaxed))
}
