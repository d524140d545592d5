//! The description of a process to start: program, environment and limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::task::TaskTracker;

use super::activity::Label;
use super::env::EnvPlan;
use super::limit;
use super::resolve::Resolved;
use super::tee::Tees;

/// A process to start.
#[derive(Debug)]
pub struct Spec {
    /// A bare name, looked for on the child's PATH, or a path, relative to the host's working folder.
    pub program: OsString,
    /// The result of looking `program` up, if that was done already.
    pub resolved: Option<Resolved>,
    /// The arguments, without the program.
    pub args: Vec<OsString>,
    /// Text appended to the arguments without quoting, for a program with its own rules of quoting. Windows only.
    #[cfg(windows)]
    pub verbatim: Option<OsString>,
    /// The environment. [`super::RUN_VARIABLE`] is added, and `PWD` where `cwd` is set and the plan doesn't mention `PWD`.
    pub env: EnvPlan,
    /// The id of the run, if its arguments name it already.
    pub run_id: Option<String>,
    /// The working folder; `None` is the host's.
    pub cwd: Option<PathBuf>,
    pub stdin: Stdin,
    /// The limits at which the run is ended.
    pub limits: ProcessLimits,
    /// The label under which the process is listed for people; without one it is not listed.
    pub label: Option<Label>,
    /// The owner of the process, for [`super::registry::kill_all`]: one number per Node environment.
    pub owner: u64,
    /// Held until the leader has exited; its waiting time goes into [`super::Timings::queued`].
    pub permit: Option<limit::Permit>,
    /// The means by which the exit is noticed.
    pub waiting: Waiting,
    /// True if the group gets a watchdog, a tiny shell that ends it when the host is killed. Unix only.
    pub guarded: bool,
    /// Tracks the run until nothing of it is left. That is later than its [`super::Exit`] if the process ended by itself.
    pub tracker: TaskTracker,
    /// The receivers of copies of its output.
    pub tees: Tees,
    /// A resource that the process needs while it may exist; it is dropped when the process is known to have exited.
    pub in_use: Option<InUse>,
}

impl Spec {
    /// Describes `program` without arguments and input, in the host's environment and folder, with default limits, for owner 0.
    pub fn new(program: impl Into<OsString>) -> Self {
        Spec {
            program: program.into(),
            resolved: None,
            args: Vec::new(),
            #[cfg(windows)]
            verbatim: None,
            env: EnvPlan::default(),
            run_id: None,
            cwd: None,
            stdin: Stdin::Null,
            limits: ProcessLimits::default(),
            label: None,
            owner: 0,
            permit: None,
            waiting: Waiting::Auto,
            guarded: false,
            tracker: TaskTracker::new(),
            tees: Tees::default(),
            in_use: None,
        }
    }
}

/// A resource that has to outlive a process, such as a folder that is removed when it is dropped.
pub type InUse = Arc<dyn std::any::Any + Send + Sync>;

/// The standard input of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stdin {
    /// The null device.
    #[default]
    Null,
    /// These bytes, then the end of the input.
    Bytes(Bytes),
    /// An open input, taken with [`super::Running::stdin`].
    Open,
}

/// The limits at which a run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Wall-clock time from the start of the process, not counting the queue. Default: none.
    pub timeout: Option<Duration>,
    /// The part of `timeout` that was used before the process was started. Default: nothing.
    pub spent: Duration,
    /// Time without a byte of stdout or stderr. Default: none.
    pub idle_timeout: Option<Duration>,
    /// The time from SIGTERM to SIGKILL. Default: 2 s.
    pub kill_grace: Duration,
    /// Time in all for which output is waited for after the exit, where other processes hold the pipes. Default: 250 ms.
    pub drain: Duration,
    /// The number of bytes of stdout that are allowed. So many are delivered; one more ends the run. Default: 10 MiB.
    pub max_stdout: usize,
}

impl ProcessLimits {
    /// The part of `timeout` that is left for the process.
    pub fn time_left(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_sub(self.spent))
    }
}

impl Default for ProcessLimits {
    fn default() -> Self {
        ProcessLimits {
            timeout: None,
            spent: Duration::ZERO,
            idle_timeout: None,
            kill_grace: Duration::from_secs(2),
            drain: Duration::from_millis(250),
            max_stdout: 10 * 1024 * 1024,
        }
    }
}

/// The means by which the exit of a process is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// A pidfd where the system has it, else a thread.
    #[default]
    Auto,
    /// A thread per process: for sandboxes whose pidfds never report an exit, and to test the fallback.
    Thread,
}

/// The longest grace that is accepted; the cap keeps clocks from overflowing.
pub(super) const LONGEST_GRACE: Duration = Duration::from_secs(24 * 3600);
