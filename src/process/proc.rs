//! One process of the system's table, as [`tree`](super::tree) asks about it. Unix only.

use std::io;

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Proc {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// Any number that grows with time and stays the same for a process's life: clock ticks since boot on Linux,
    /// a time of day folded into a number elsewhere.
    pub start: u64,
    /// Dead already, only not waited for.
    pub zombie: bool,
}

/// Whether a process was started by a run, by the mark in its environment.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "elsewhere nobody's environment is shown")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// It has the run's mark.
    Run,
    /// It has none, or another run's.
    None,
    /// Its environment is empty. So is that of a process in the middle of an `exec`, when its new environment is not in place yet
    /// and its parent already goes on, and maybe ends: it is then nobody's child and in no group that is known.
    Empty,
}

/// Whether a look failed since the host has no room for another open file: a later one may succeed.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}
