//! Running other programs: starting them, feeding and reading them, ending them, and leaving nothing behind.
//!
//! In: a [`Spec`] (program, arguments, environment, limits) and a cancellation token. Out: a [`Running`] that yields stdout in
//! chunks and at last an [`Exit`], which says why and how the run ended. This module knows nothing of CLIs or models.
//!
//! The *host* is the program that loaded this library, a *run* is one started process with all it starts in turn, and its
//! *leader* is the process that was started itself.
//!
//! What holds for every run:
//!
//! - **Start**: `posix_spawn` into a process group of its own, never `fork`. What is wrong with a program, its
//!   interpreter or its working folder has an error of its own ([`StartError`]).
//! - **Feed and drain** at the same time; a slow consumer bounds memory and loses nothing, and deadlines go on.
//! - **Settle** on the exit of the process, plus at most [`ProcessLimits::drain`] of waiting for data. A grandchild that
//!   holds the pipes delays nothing; a process that closes its stdout is still waited for.
//! - **End** by timeout, silence, cancellation, too much output, an exit that does not follow complete output, [`Closer::close`] or dropping: stdin is closed, the
//!   group gets SIGTERM, then after [`ProcessLimits::kill_grace`] SIGKILL. Descendants that left the group are found by the
//!   table of processes and, on Linux, by [`RUN_VARIABLE`] in their environment.
//! - **Afterwards**, also after a success, a background task has the rest of the group gone within the grace. The
//!   leader is reaped last, so that no signal can hit an id that is somebody else's. A run that was ended reports its
//!   end when this is done.
//! - `SIGCHLD` and other people's children are left alone.
//!
//! [`kill_all`] is for a host that ends and can say so. For one that is killed there is the watchdog
//! ([`Spec::guarded`]); without it, the children see the end of their stdin, and what does not heed that lives on. On Windows a run is
//! a job object that ends with its host (`windows.rs`).

#[cfg(any(windows, test))]
mod access_list;
pub mod activity;
mod env;
mod fault;
pub mod limit;
mod pipes;
mod resolve;
mod running;
mod search_folders;
mod start;
#[cfg(unix)]
#[path = "unix.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;
#[cfg(unix)]
mod tree;
#[cfg(unix)]
mod watchdog;

#[cfg(windows)]
pub use access_list::user_sid;
#[cfg(windows)]
pub use env::profile_folder;
pub use env::{
    EnvPlan, OWNER_VARIABLE, RUN_VARIABLE, Vars, local_offset_min, machine_bytes, next_run_id, resident_bytes, variable,
};
pub use fault::{StartError, TooLong};
pub use pipes::{HeadTail, StdinClosed, StdinWriter, Tee, Tees};
#[cfg(any(test, feature = "test-support"))]
pub use resolve::counted;
pub use resolve::{Resolved, resolve, resolve_also_in};
pub use running::{Closer, End, Exit, Hold, Running, StderrWatch, Timings};
pub use search_folders::{NotTaken, SearchFolders, Searched, VersionOf, version_of_path};
pub use start::{
    InUse, Output, ProcessLimits, ShellCommand, ShellReport, Spec, Stdin, Waiting, kill_all, live_leaders, output,
    run_shell, start,
};
#[cfg(unix)]
pub use sys::FolderGuard;
#[cfg(target_os = "linux")]
pub use tree::started;
