//! Starting a process: its description ([`Spec`]: program, environment and limits), the way from there to a [`Running`], and the ways
//! to a result: [`output`] for a program, [`run_shell`] for a command line.
//!
//! The live processes of each owner are listed, so that an owner's end takes them along: [`kill_all`] needs no runtime and returns when
//! all signals are sent, for `process.on("exit")` and for a Node environment's clean-up hook. A process is registered before its start
//! returns, under a gate that [`kill_all`] closes: a start either is over and registered when the killing begins, or is refused. A
//! process is taken off the list in the moment it is reaped, under the lock the killing holds: no signal can hit an id that became
//! somebody else's.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::activity::{self, Label};
use super::env::{self, EnvPlan, OWNER_VARIABLE, RUN_VARIABLE, Vars, next_run_id, owner_mark};
use super::fault::{Launch, StartError};
use super::pipes::{self, Feed, Flow, Tee, Tees};
use super::resolve::{Resolved, resolve};
use super::running::{Closer, End, Exit, Running, Supervisor};
use super::sys::{Target, kill_now};
use super::{limit, sys};

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
    /// The owner of the process, for [`kill_all`]: one number per Node environment.
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
    let (pipes, target, registration) = enter(spec.owner, || {
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
    let supervisor = Supervisor {
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

// Command lines, run in the system's shell under the same supervision as every other process. Both output streams are joined, and only
// the end is kept.

/// The number of characters kept of the output.
const SHOWN: usize = 4_000;
/// Bytes of the longest character of UTF-8.
const CHARACTER: usize = 4;

/// A command line to run.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellCommand {
    /// The line as a person would write it: for `/bin/sh -c`, on Windows for `cmd.exe /d /s /c`.
    pub command: String,
    pub cwd: PathBuf,
    /// The time limit, ms; 0 for no limit.
    pub timeout: u64,
}

/// The result of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellReport {
    /// The exit code; `None` if it was ended by a signal.
    pub exit_code: Option<i32>,
    /// True if the command was ended by its time limit.
    pub timed_out: bool,
    /// The last 4,000 characters printed, on either stream.
    pub output: String,
}

/// Runs `command` with the environment `base` and an empty standard input. When the command exits, whatever it left running is
/// ended, also processes in sessions of their own (Linux); if this process is killed, everything is ended.
///
/// # Errors
/// The same as those of [`start`].
pub async fn run_shell(
    command: ShellCommand,
    base: Arc<Vars>,
    owner: u64,
    cancel: CancellationToken,
) -> Result<ShellReport, StartError> {
    let printed = Arc::new(Tail::default());
    let tee: Arc<dyn Tee> = Arc::clone(&printed) as Arc<dyn Tee>;
    let tracker = TaskTracker::new();
    let mut running = start(
        Spec {
            env: EnvPlan {
                base: Some(base),
                ..EnvPlan::default()
            },
            cwd: Some(command.cwd),
            limits: ProcessLimits {
                timeout: (command.timeout > 0).then(|| Duration::from_millis(command.timeout)),
                max_stdout: usize::MAX,
                ..ProcessLimits::default()
            },
            owner,
            guarded: true,
            tracker: tracker.clone(),
            tees: Tees {
                stdout: Some(Arc::clone(&tee)),
                stderr: Some(tee),
            },
            ..shell(command.command)
        },
        cancel,
    )?;
    while running.next().await.is_some() {}
    let exit = running.exit().await;
    // The caller may look at the folder next: by then no process works in it any more.
    tracker.close();
    tracker.wait().await;
    Ok(ShellReport {
        exit_code: if exit.end == End::Timeout { None } else { exit.code },
        timed_out: exit.end == End::Timeout,
        output: printed.text(),
    })
}

/// Makes the process of a command. Its shell waits for a line, which it gets once the watchdog knows of it, and only then
/// starts the command's own shell. If this process is killed earlier, the shell finds its input at an end and exits.
#[cfg(unix)]
fn shell(command: String) -> Spec {
    const GATE: &str = r#"read -r go || exit; exec /bin/sh -c "$1" </dev/null"#;
    Spec {
        args: ["-c", GATE, "sh", &command].map(OsString::from).into(),
        stdin: Stdin::Bytes(Bytes::from_static(b"go\n")),
        ..Spec::new("/bin/sh")
    }
}

#[cfg(windows)]
fn shell(command: String) -> Spec {
    Spec {
        args: ["/d", "/s", "/c"].map(OsString::from).into(),
        // `cmd.exe` has its own rules of quoting: it takes the text between the outer quotes as it is.
        verbatim: Some(format!("\"{command}\"").into()),
        stdin: Stdin::Null,
        ..Spec::new("cmd.exe")
    }
}

/// The end of the output.
#[derive(Debug, Default)]
struct Tail(Mutex<Vec<u8>>);

impl Tail {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        let left_out = text.chars().count().saturating_sub(SHOWN);
        text.chars().skip(left_out).collect()
    }
}

impl Tee for Tail {
    fn copy(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        // The buffer is cut seldom, so that each byte is moved once or twice.
        if kept.len() > 4 * SHOWN * CHARACTER {
            let left_out = kept.len() - SHOWN * CHARACTER;
            kept.drain(..left_out);
        }
    }
}

// The live processes of each owner.

/// The processes of one owner.
#[derive(Debug, Default)]
struct Owner {
    /// True once the owner has ended. Starting a process holds it for reading, ending the owner for writing.
    ended: RwLock<bool>,
    live: Mutex<HashMap<u32, Target>>,
}

static OWNERS: LazyLock<Mutex<HashMap<u64, Arc<Owner>>>> = LazyLock::new(Mutex::default);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn owner(id: u64) -> Arc<Owner> {
    locked(&OWNERS).entry(id).or_default().clone()
}

/// Kills (`SIGKILL`) every process of `id`, their groups and what they have started elsewhere, and refuses every later
/// start for it. Returns how many runs were killed. Blocks for some milliseconds at most, needs no runtime.
///
/// Ids of owners are never reused: each Node environment gets the next number.
pub fn kill_all(id: u64) -> usize {
    let owner = owner(id);
    *owner.ended.write().unwrap_or_else(PoisonError::into_inner) = true;
    let live = locked(&owner.live);
    let targets: Vec<Target> = live.values().cloned().collect();
    kill_now(&targets);
    targets.len()
}

/// The process ids of the leaders of `id` that are not reaped yet, sorted.
pub fn live_leaders(id: u64) -> Vec<u32> {
    let mut pids: Vec<u32> = locked(&owner(id).live).keys().copied().collect();
    pids.sort_unstable();
    pids
}

/// An entry in the list of the live processes.
#[derive(Debug)]
pub(super) struct Registration {
    owner: Arc<Owner>,
    pid: u32,
}

impl Registration {
    /// Calls `reap` and, if it returns true, takes the process off the list. For [`kill_all`] that is one step.
    pub fn release(&self, reap: impl FnOnce() -> bool) -> bool {
        let mut live = locked(&self.owner.live);
        let reaped = reap();
        if reaped {
            live.remove(&self.pid);
        }
        reaped
    }
}

/// Starts a process with `spawn` and registers it, unless the owner has ended.
fn enter<T>(
    id: u64,
    spawn: impl FnOnce() -> Result<(T, Target), StartError>,
) -> Result<(T, Target, Registration), StartError> {
    let owner = owner(id);
    let ended = owner.ended.read().unwrap_or_else(PoisonError::into_inner);
    if *ended {
        return Err(StartError::OwnerEnded);
    }
    let (child, target) = spawn()?;
    let pid = target.pid();
    locked(&owner.live).insert(pid, target.clone());
    drop(ended);
    Ok((child, target, Registration { owner, pid }))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    async fn run(command: &str, timeout: u64, cancel: CancellationToken) -> ShellReport {
        let folder = tempfile::tempdir().unwrap();
        let command = ShellCommand {
            command: command.to_owned(),
            cwd: folder.path().to_owned(),
            timeout,
        };
        run_shell(command, Arc::new(std::env::vars_os().collect()), 0, cancel)
            .await
            .unwrap()
    }

    fn report(exit_code: Option<i32>, timed_out: bool, output: &str) -> ShellReport {
        ShellReport {
            exit_code,
            timed_out,
            output: output.to_owned(),
        }
    }

    #[tokio::test]
    async fn gives_the_code_and_what_both_streams_have_said() {
        let never = CancellationToken::new;
        let quoted = run(r#"printf '%s' "a  b" >&2; cat; exit 3"#, 0, never()).await;
        assert_eq!(quoted, report(Some(3), false, "a  b"));
        assert_eq!(run("kill -9 $$", 0, never()).await, report(None, false, ""));
        assert_eq!(
            run("echo on; exec sleep 100", 2_000, never()).await,
            report(None, true, "on\n")
        );
        let long = run(
            "i=0; while [ $i -lt 3000 ]; do printf 'äöü '; i=$((i+1)); done",
            0,
            never(),
        )
        .await;
        assert_eq!(long, report(Some(0), false, &"äöü ".repeat(1000)));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn leaves_nothing_behind_when_it_has_exited() {
        let left = run("sleep 100 >/dev/null 2>&1 & echo $!", 0, CancellationToken::new()).await;
        // A zombie, which its new parent has to reap, has no command line.
        let line = std::fs::read(format!("/proc/{}/cmdline", left.output.trim())).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&line), "");
    }
}
