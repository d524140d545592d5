//! Starting a process: its description ([`Spec`]: program, environment and limits), and the way from there to a [`Running`].

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::activity::{self, Label};
use super::env::{self, EnvPlan, OWNER_VARIABLE, RUN_VARIABLE, Vars, next_run_id, owner_mark};
use super::fault::StartError;
use super::launch::Launch;
use super::pipes::{self, Feed, Flow, Tees};
use super::resolve::{Resolved, resolve};
use super::running::{Closer, Exit, Running};
use super::{limit, registry, supervise, sys};

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

/// Starts a process. Call it inside of a tokio runtime with io and time. It takes a fraction of a millisecond, and up to 31 ms
/// if the program's file is being written just now.
///
/// # Errors
/// [`StartError`], which says what to repair. No process is left running then.
pub fn start(spec: Spec, cancel: CancellationToken) -> Result<Running, StartError> {
    let began = Instant::now();
    let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
    if cancel.is_cancelled() {
        return Err(StartError::Cancelled);
    }
    let run_id = spec.run_id.clone().unwrap_or_else(next_run_id);
    let launch = prepare(&spec, &run_id)?;
    let failed = |source: io::Error| StartError::Os {
        file: launch.file.clone(),
        source,
    };
    let missing = || io::Error::from(io::ErrorKind::BrokenPipe);

    let wants_stdin = spec.stdin != Stdin::Null;
    let watchdog = spec.guarded.then(sys::Watchdog::spawn);
    // The time is taken before the call, since on a busy system the child may have run for long before the call returns.
    let mut started = began;
    let (pipes, target, registration) = registry::enter(spec.owner, || {
        started = Instant::now();
        sys::spawn(&launch, wants_stdin, &run_id)
    })?;
    let pid = target.pid();
    let listed = activity::list(pid, &run_id, spec.label);
    // From here on an early return drops the group, which kills it.
    let mut group = sys::Group::new(target, registration, spec.waiting, watchdog).map_err(failed)?;
    let guarded = group.guard(spec.limits.kill_grace.min(LONGEST_GRACE));
    let stdin = pipes.stdin.map(ChildStdin::from_std).transpose().map_err(failed)?;
    let (feed, writer) = match (stdin, spec.stdin) {
        (Some(pipe), Stdin::Bytes(bytes)) => (Feed::bytes(pipe, bytes, guarded), None),
        (Some(pipe), Stdin::Open) => {
            let (feed, writer) = Feed::open(pipe, guarded);
            (feed, Some(writer))
        }
        _ => (Feed::NONE, None),
    };
    let stdout = pipes
        .stdout
        .ok_or_else(missing)
        .and_then(ChildStdout::from_std)
        .map_err(failed)?;
    let stderr = pipes
        .stderr
        .ok_or_else(missing)
        .and_then(ChildStderr::from_std)
        .map_err(failed)?;

    let (chunks, receiver) = mpsc::channel(pipes::CHUNKS);
    let (answer, exit) = oneshot::channel();
    let flow = Arc::new(Flow::new(started, spec.tees));
    let closed = CancellationToken::new();
    let (killed, cleared) = (CancellationToken::new(), CancellationToken::new());
    let (complete, completed) = watch::channel(false);
    let supervisor = supervise::Supervisor {
        run_id: run_id.clone(),
        pid,
        group,
        feed,
        stdout,
        stderr,
        chunks,
        answer,
        flow: flow.clone(),
        limits: spec.limits,
        cancel,
        closed: closed.clone(),
        killed: killed.clone(),
        cleared: cleared.clone(),
        completed,
        in_use: spec.in_use,
        queued: spec.permit.as_ref().map_or(Duration::ZERO, limit::Permit::queued),
        permit: spec.permit,
        listed,
        started,
        spawn: began.elapsed(),
    };
    spec.tracker.spawn_on(supervisor.run(), &runtime);
    Ok(Running {
        pid,
        run_id,
        chunks: receiver,
        stdin: writer,
        flow,
        exit,
        closer: Closer(closed.clone()),
        killed,
        cleared,
        complete,
        _end_on_drop: closed.drop_guard(),
    })
}

/// Resolves a [`Spec`] into the arguments of the system call, and refuses what can't be started.
fn prepare(spec: &Spec, run_id: &str) -> Result<Launch, StartError> {
    if let Some(name) = spec.env.invalid() {
        let what = format!(
            "{:?} can't be a variable of an environment, or its value holds a NUL character",
            name
        );
        return Err(StartError::InvalidInput { what });
    }
    let cwd = match &spec.cwd {
        // An empty path would be the host's folder, silently.
        Some(cwd) if cwd.as_os_str().is_empty() => return Err(StartError::CwdNotFound { cwd: cwd.clone() }),
        Some(cwd) => Some(std::path::absolute(cwd).map_err(|source| StartError::Os {
            file: cwd.clone(),
            source,
        })?),
        None => None,
    };
    let mut vars = spec.env.vars();
    set(&mut vars, RUN_VARIABLE, run_id.into());
    match &spec.label {
        Some(label) => set(&mut vars, OWNER_VARIABLE, owner_mark(label).into()),
        // An inherited value names the owner of this process, not of the child.
        None => vars.retain(|(name, _)| name != OWNER_VARIABLE),
    }
    if let Some(cwd) = cwd
        .as_ref()
        .filter(|_| cfg!(unix) && !spec.env.mentions(OsStr::new("PWD")))
    {
        // An inherited PWD would name another folder than the one the child is in; some CLIs believe it.
        set(&mut vars, "PWD", cwd.clone().into_os_string());
    }
    let resolved = match &spec.resolved {
        Some(resolved) => resolved.clone(),
        None => resolve(&spec.program, env::lookup(&vars, "PATH"))?,
    };
    if let Some(folder) = &resolved.also_on_path {
        add_to_path(&mut vars, folder);
    }
    let (file, mut args) = resolved.command();
    args.extend(spec.args.iter().cloned());
    let launch = Launch {
        file,
        args,
        #[cfg(windows)]
        verbatim: spec.verbatim.clone(),
        vars,
        cwd,
    };
    launch.check()?;
    Ok(launch)
}

/// Adds `folder` at the end of the PATH.
fn add_to_path(vars: &mut Vars, folder: &Path) {
    let path = env::lookup(vars, "PATH").unwrap_or_default();
    let folders = std::env::split_paths(path).chain([folder.to_owned()]);
    // A folder whose name can't stand in a PATH is left out.
    let Ok(path) = std::env::join_paths(folders.filter(|folder| !folder.as_os_str().is_empty())) else {
        return;
    };
    let name = vars.iter().map(|(name, _)| name).find(|name| env::is_path(name));
    let name = name.cloned().unwrap_or_else(|| "PATH".into());
    vars.retain(|(other, _)| *other != name);
    vars.push((name, path));
}

fn set(vars: &mut Vars, name: &str, value: OsString) {
    vars.retain(|(n, _)| n != name);
    vars.push((name.into(), value));
}

/// The stdout of a process that has ended, and its exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// All of stdout, up to the limit.
    pub stdout: Vec<u8>,
    /// How the process ended, with its stderr and timings.
    pub exit: Exit,
}

/// Runs a process to its end and collects its stdout. Dropping the future ends the process.
///
/// # Errors
/// The same as those of [`start`]. The way the run ends is in [`Output::exit`], not an error.
pub async fn output(spec: Spec, cancel: CancellationToken) -> Result<Output, StartError> {
    let mut running = start(spec, cancel)?;
    let mut stdout = Vec::new();
    while let Some(chunk) = running.next().await {
        stdout.extend_from_slice(&chunk);
    }
    Ok(Output {
        stdout,
        exit: running.exit().await,
    })
}
