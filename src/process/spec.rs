//! What a process is to be: program, surroundings, limits.

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

/// What to run.
#[derive(Debug)]
pub struct Spec {
    /// A bare name, looked for on the child's PATH, or a path, relative to the host's working folder.
    pub program: OsString,
    /// What `program` stands for, where that was looked up already.
    pub resolved: Option<Resolved>,
    /// The arguments, without the program.
    pub args: Vec<OsString>,
    /// What stands behind the arguments as it is, for a program with its own rules of quoting. Windows only.
    #[cfg(windows)]
    pub verbatim: Option<OsString>,
    /// The environment. [`super::RUN_VARIABLE`] is added, and `PWD` where `cwd` is set and the plan doesn't speak of it.
    pub env: EnvPlan,
    /// The working folder; `None` is the host's.
    pub cwd: Option<PathBuf>,
    pub stdin: Stdin,
    /// When to end it.
    pub limits: ProcessLimits,
    /// What people know it by; a process without one is listed nowhere.
    pub label: Option<Label>,
    /// Whose process it is, for [`super::registry::kill_all`]: one number per Node environment.
    pub owner: u64,
    /// Held until the leader has exited; its waiting time goes into [`super::Timings::queued`].
    pub permit: Option<limit::Permit>,
    /// How the exit is noticed.
    pub waiting: Waiting,
    /// Whether the group gets a watchdog, a tiny shell that ends it when the host is killed. Unix only.
    pub guarded: bool,
    /// Tracks the run until nothing of it is left, which is later than its [`super::Exit`] where it ended by itself.
    pub tracker: TaskTracker,
    /// Who gets copies of what it prints.
    pub tees: Tees,
    /// What the process needs as long as it may be there: it is dropped when the process is known to have exited.
    pub in_use: Option<InUse>,
}

impl Spec {
    /// `program` without arguments and input, in the host's environment and folder, with default limits, for owner 0.
    pub fn new(program: impl Into<OsString>) -> Self {
        Spec {
            program: program.into(),
            resolved: None,
            args: Vec::new(),
            #[cfg(windows)]
            verbatim: None,
            env: EnvPlan::default(),
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

/// Something that has to outlive a process, such as a folder that is removed when it is dropped.
pub type InUse = Arc<dyn std::any::Any + Send + Sync>;

/// The standard input of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stdin {
    /// The null device.
    #[default]
    Null,
    /// These bytes, then the end.
    Bytes(Bytes),
    /// Open, for [`super::Running::stdin`].
    Open,
}

/// When a run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Wall-clock time from the start of the process, not of the queueing. Default: none.
    pub timeout: Option<Duration>,
    /// How much of that was used before the process was started. Default: nothing.
    pub spent: Duration,
    /// Time without a byte of stdout or stderr. Default: none.
    pub idle_timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL. Default: 2 s.
    pub kill_grace: Duration,
    /// How long in all data is waited for after the exit, where others hold the pipes. Default: 250 ms.
    pub drain: Duration,
    /// How many bytes of stdout there may be; as many are delivered, one more ends the run. Default: 10 MiB.
    pub max_stdout: usize,
}

impl ProcessLimits {
    /// How much of `timeout` there is for the process.
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

/// How the exit of a process is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// A pidfd where the system has it, else a thread.
    #[default]
    Auto,
    /// A thread per process: for sandboxes that have pidfds which never tell, and to test the fall-back.
    Thread,
}

/// A longer grace is no grace; this keeps clocks from overflowing.
pub(super) const LONGEST_GRACE: Duration = Duration::from_secs(24 * 3600);
