//! Running other programs: starting them, feeding and reading them, ending them, and leaving nothing behind.
//!
//! In: a [`Spec`] (program, arguments, environment, limits) and a cancellation token. Out: a [`Running`] that yields
//! stdout in chunks and at last an [`Exit`], which says why and how the run ended. Knows nothing of CLIs or models.
//!
//! What holds for every run:
//!
//! - **Start**: `posix_spawn` into a process group of its own, never `fork`. What is wrong with a program, its
//!   interpreter or its working folder is told apart ([`StartError`]).
//! - **Feed and drain** at the same time; a slow consumer bounds memory and loses nothing, and deadlines go on.
//! - **Settle** on the exit of the process, plus at most [`Limits::drain`] of waiting for data. A grandchild that
//!   holds the pipes delays nothing; a process that closes its stdout is still waited for.
//! - **End** by timeout, silence, cancellation, too much output, an exit that does not follow complete output, [`Closer::close`] or dropping: stdin is closed, the
//!   group gets SIGTERM, then after [`Limits::kill_grace`] SIGKILL. Descendants that left the group are found by the
//!   table of processes and, on Linux, by [`RUN_VARIABLE`] in their environment.
//! - **Afterwards**, also after a success, a background task has the rest of the group gone within the grace. The
//!   leader is reaped last, so that no signal can hit an id that is somebody else's. A run that was ended reports its
//!   end when this is done.
//! - `SIGCHLD` and other people's children are left alone.
//!
//! [`registry::kill_all`] is for a host that ends and can say so. For one that is killed there is the watchdog
//! ([`Spec::guarded`]); without it, the children see the end of their stdin, and what does not heed that lives on.

mod drain;
mod env;
mod fault;
mod feed;
pub mod limit;
mod memory;
pub mod registry;
mod resolve;
mod running;
mod shim;
mod status;
mod supervise;
#[cfg(unix)]
#[path = "unix.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;
mod tee;
#[cfg(unix)]
mod tree;
#[cfg(unix)]
mod wait;
#[cfg(unix)]
mod watchdog;
pub mod zone;

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use env::{EnvPlan, Vars};
pub use fault::{StartError, TooLong};
pub use feed::{StdinClosed, StdinWriter};
pub use memory::resident_bytes;
pub use resolve::{Resolved, resolve};
pub use running::{Closer, End, Exit, Hold, Running, Timings};
pub use tee::{Tee, Tees};

use fault::Launch;
use feed::Feed;
use status::Status;

/// The variable that marks every process of a run with the run's id. A process that forked twice and left both its
/// group and its parents is still found by it (Linux; not if it cleared its environment before `exec`).
pub const RUN_VARIABLE: &str = "DEEP_FACTOR_RUN";

/// What to run.
#[derive(Debug)]
pub struct Spec {
    /// A bare name, looked for on the child's PATH, or a path, relative to the host's working folder.
    pub program: OsString,
    /// The arguments, without the program.
    pub args: Vec<OsString>,
    /// The environment. [`RUN_VARIABLE`] is added, and `PWD` where `cwd` is given and the plan doesn't speak of it.
    pub env: EnvPlan,
    /// The working folder; `None` is the host's.
    pub cwd: Option<PathBuf>,
    /// The standard input.
    pub stdin: Stdin,
    /// When to end it.
    pub limits: Limits,
    /// Whose process it is, for [`registry::kill_all`]: one number per Node environment.
    pub owner: u64,
    /// Held until the leader has exited; its waiting time goes into [`Timings::queued`].
    pub permit: Option<limit::Permit>,
    /// How the exit is learnt.
    pub waiting: Waiting,
    /// Whether the group gets a watchdog, a tiny shell that ends it when the host is killed. Unix only.
    pub guarded: bool,
    /// A private folder of the run, which the watchdog removes then.
    pub folder: Option<PathBuf>,
    /// Tracks the run until nothing of it is left, which is later than its [`Exit`] where it ended by itself.
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
            args: Vec::new(),
            env: EnvPlan::default(),
            cwd: None,
            stdin: Stdin::Null,
            limits: Limits::default(),
            owner: 0,
            permit: None,
            waiting: Waiting::Auto,
            guarded: false,
            folder: None,
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
    /// Open, for [`Running::stdin`].
    Open,
}

/// When a run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time from the start of the process, not of the queueing. Default: none.
    pub timeout: Option<Duration>,
    /// Time without a byte of stdout or stderr. Default: none.
    pub idle_timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL. Default: 2 s.
    pub kill_grace: Duration,
    /// How long in all data is waited for after the exit, where others hold the pipes. Default: 250 ms.
    pub drain: Duration,
    /// How many bytes of stdout there may be; as many are delivered, one more ends the run. Default: 10 MiB.
    pub max_stdout: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            timeout: None,
            idle_timeout: None,
            kill_grace: Duration::from_secs(2),
            drain: Duration::from_millis(250),
            max_stdout: 10 * 1024 * 1024,
        }
    }
}

/// How the exit of a process is learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// A pidfd where the system has it, else a thread.
    #[default]
    Auto,
    /// A thread per process: for sandboxes that have pidfds which never tell, and to test the fall-back.
    Thread,
}

/// A longer grace is no grace; this keeps clocks from overflowing.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 3600);

/// A child's ends of its stdio, ours.
struct Pipes {
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
}

/// Starts a process. Call it inside of a tokio runtime with io and time; it takes a fraction of a millisecond (and up
/// to 31 ms where the program's file is being written just now).
///
/// # Errors
/// [`StartError`], which says what to repair. Nothing is left running then.
pub fn start(spec: Spec, cancel: CancellationToken) -> Result<Running, StartError> {
    let began = Instant::now();
    let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
    if cancel.is_cancelled() {
        return Err(StartError::Cancelled);
    }
    let run_id = next_run_id();
    let launch = prepare(&spec, &run_id)?;
    let failed = |source: io::Error| StartError::Os {
        file: launch.file.clone(),
        source,
    };
    let missing = || io::Error::from(io::ErrorKind::BrokenPipe);

    let wants_stdin = spec.stdin != Stdin::Null;
    let watchdog = spec.guarded.then(sys::Watchdog::spawn);
    // Before the call, for the child may have run for long when a busy system lets it return.
    let mut started = began;
    let (pipes, target, registration) = registry::enter(spec.owner, || {
        started = Instant::now();
        sys::spawn(&launch, wants_stdin, &run_id)
    })?;
    let pid = target.pid();
    // From here on an early return drops the group, which kills it.
    let mut group = sys::Group::new(target, registration, spec.waiting, watchdog).map_err(failed)?;
    let guarded = group.guard(spec.limits.kill_grace.min(LONGEST_GRACE), spec.folder.as_deref());
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

    let (chunks, receiver) = mpsc::channel(drain::QUEUE);
    let (answer, exit) = oneshot::channel();
    let flow = Arc::new(drain::Flow::new(started, spec.tees));
    let closed = CancellationToken::new();
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
        completed,
        in_use: spec.in_use,
        queued: spec.permit.as_ref().map_or(Duration::ZERO, limit::Permit::queued),
        permit: spec.permit,
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
        complete,
        _end_on_drop: closed.drop_guard(),
    })
}

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
    if let Some(cwd) = cwd
        .as_ref()
        .filter(|_| cfg!(unix) && !spec.env.mentions(OsStr::new("PWD")))
    {
        // An inherited PWD would name another folder than the one the child is in; some CLIs believe it.
        set(&mut vars, "PWD", cwd.clone().into_os_string());
    }
    let Resolved {
        file, prefix: mut args, ..
    } = resolve(&spec.program, env::lookup(&vars, "PATH"))?;
    args.extend(spec.args.iter().cloned());
    let launch = Launch { file, args, vars, cwd };
    launch.check()?;
    Ok(launch)
}

fn set(vars: &mut Vars, name: &str, value: OsString) {
    vars.retain(|(n, _)| n != name);
    vars.push((name.into(), value));
}

/// Of this process, and unlike every other's: seeded by the system, differently in every process.
static HOST: LazyLock<u64> = LazyLock::new(|| std::hash::RandomState::new().build_hasher().finish());

/// What the environment of every process of every run of this host holds, and that of no other process.
#[cfg(unix)]
fn host_mark() -> String {
    format!("{RUN_VARIABLE}={:016x}-", *HOST)
}

/// Unique on this machine: other hosts mark their runs as well, and must not find ours.
fn next_run_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("{:016x}-{}", *HOST, COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What a process has said, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// All of stdout, up to the limit.
    pub stdout: Vec<u8>,
    /// The rest of the story.
    pub exit: Exit,
}

/// Runs a process to its end and collects its stdout. Dropping the future ends the process.
///
/// # Errors
/// As [`start`]. How the run ends is in [`Output::exit`], not an error.
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
