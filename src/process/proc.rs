//! One process of the system's table, as [`tree`](super::tree) asks about it. Unix only.

use std::io;

/// One process of the system's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Proc {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// Any number that grows with time and stays the same for a process's life: clock ticks since boot on Linux,
    /// a time of day folded into a number elsewhere.
    pub start: u64,
    /// True if the process is dead and only not waited for yet.
    pub zombie: bool,
}

/// The run mark that a process's environment has.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "elsewhere nobody's environment is shown")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The environment has the mark of the run in question.
    Run,
    /// The environment has no mark, or another run's.
    None,
    /// The environment is empty. It also looks empty in the middle of an `exec`, when the new environment is not in place yet
    /// and the parent already goes on, and maybe exits: such a process is nobody's child and in no known group.
    Empty,
}

/// Returns whether a look failed because the host has no room for another open file; a later look may succeed.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}
