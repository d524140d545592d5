//! A run: the process as its owner sees it, the one task that watches over it until nothing of it is left, and its end: the
//! system's status, and the report for the owner.
//!
//! In: a started [`Group`], its pipes, the limits. Out: chunks of stdout, one [`Exit`], and later an empty process group.
//!
//! ```text
//! watch    exited │ cancelled │ closed │ over limit │ timeout │ idle │ complete and still there after the grace
//!            │    └─ close stdin ─ TERM ─ grace ─ KILL ─┐
//! answer   leader exited ─ output read, or patience over ─ (if it was ended: cleared) ─ Exit
//! clear    leader exited ─ output read, or patience over ─ TERM what is left ─ grace ─ KILL ─ reap
//! ```
//!
//! A process that exits by itself is answered for at once, and cleared up after in the background (who needs to know waits for
//! [`Running::cleared`]). One that was ended is cleared up after first: who ends a run finds nothing of it when it is reported over.
//! One whose output is complete and that does not exit is answered for when its grace is over, and ended in the background.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::activity::Listed;
use super::limit::Permit;
use super::pipes::{self, Feed, Flow, StdinWriter};
use super::start::{InUse, LONGEST_GRACE, ProcessLimits};
use super::sys::Group;

/// The reason why a run is over. The first reason stays: a process that exits with 0 after its timeout has timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The process ended by itself, with any status.
    Exited,
    /// Its output was complete ([`Running::set_complete`]), but it did not exit within [`super::ProcessLimits::kill_grace`]. It
    /// is ended in the background; how that goes says nothing about the run, so [`Exit`] has neither code nor signal.
    Lingered,
    /// [`super::ProcessLimits::timeout`] passed.
    Timeout,
    /// [`super::ProcessLimits::idle_timeout`] passed without a byte.
    IdleTimeout,
    /// The run's cancellation token was cancelled.
    Cancelled,
    /// There were more than [`super::ProcessLimits::max_stdout`] bytes, so the output that was read is cut. This also holds if
    /// the process has exited by itself.
    OutputLimit,
    /// [`Closer::close`] or [`Running::kill`] was called, or [`Running`] was dropped.
    Closed,
}

/// Durations of a run's phases, by a monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// The wait for a permit, before the start.
    pub queued: Duration,
    /// The time that [`super::start`] took, within which the process was started.
    pub spawn: Duration,
    /// The time from the process's start to its first byte of stdout.
    pub first_byte: Option<Duration>,
    /// The time from the process's start to its exit.
    pub exit: Duration,
    /// The time from the process's start to this report: the exit, and what was left to read.
    pub settled: Duration,
}

/// Exit codes above this come from a shell whose program was killed by a signal.
const SIGNALLED: i32 = 128;

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The run's id, unique on this machine.
    pub run_id: String,
    /// The process's id; by now it may belong to another process.
    pub pid: u32,
    /// The reason why the run is over.
    pub end: End,
    /// The exit code. If both code and signal are `None`, the process has outlived SIGKILL for 5 s, or the host reaped it.
    pub code: Option<i32>,
    /// The name of the signal that killed it, such as `SIGKILL`. (A shell's 137 is a code.)
    pub signal: Option<String>,
    /// The first 8 and the last 24 KiB of stderr, with a line that says how much is left out between.
    pub stderr: String,
    /// Bytes of stderr in all.
    pub stderr_bytes: u64,
    /// Bytes of stdout in all, including those over the limit and those not taken.
    pub stdout_bytes: u64,
    /// Bytes of stdout read when the end began: when the process exited, or when it was decided to end it.
    pub stdout_bytes_at_end: u64,
    pub timings: Timings,
}

impl Exit {
    /// Returns whether the process ended by itself with code 0.
    pub fn success(&self) -> bool {
        self.end == End::Exited && self.code == Some(0)
    }

    /// Returns whether a signal that was not sent from here killed the process; a shell's report of one counts.
    pub fn was_killed(&self) -> bool {
        self.end == End::Exited && (self.signal.is_some() || self.code.is_some_and(|code| code > SIGNALLED))
    }
}

/// A running process. Dropping it ends the process with everything it started.
#[derive(Debug)]
pub struct Running {
    pub(super) pid: u32,
    pub(super) run_id: String,
    pub(super) chunks: mpsc::Receiver<Bytes>,
    pub(super) stdin: Option<StdinWriter>,
    pub(super) flow: Arc<Flow>,
    pub(super) exit: oneshot::Receiver<Exit>,
    pub(super) closer: Closer,
    pub(super) killed: CancellationToken,
    pub(super) cleared: CancellationToken,
    pub(super) complete: watch::Sender<bool>,
    pub(super) _end_on_drop: DropGuard,
}

impl Running {
    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The run's id: the value of the child's variable [`super::RUN_VARIABLE`].
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The next piece of stdout; `None` when there will be no more. That can be long before the process exits.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.chunks.recv().await
    }

    /// Resolves when the process itself has exited. What it has started may live on for a moment, and hold its pipes.
    pub fn exited(&self) -> impl Future<Output = ()> + Send + use<> {
        self.flow.exited.clone().cancelled_owned()
    }

    /// Resolves when nothing of the run is left: neither the process nor what it has started. That is later than its
    /// [report](Running::exit) where the process has exited by itself.
    pub fn cleared(&self) -> impl Future<Output = ()> + Send + use<> {
        self.cleared.clone().cancelled_owned()
    }

    /// Returns whether the process is gone or exiting already, even if its [exit](Running::exited) is not reported yet. Looks
    /// at the system, which takes some 20 µs (Linux; `false` elsewhere).
    pub fn is_ending(&self) -> bool {
        is_ending(self.pid)
    }

    /// The time since the process was started.
    pub fn elapsed(&self) -> Duration {
        self.flow.elapsed()
    }

    /// Takes the open stdin, if [`super::Stdin::Open`] was asked for; `None` from the second call on.
    pub fn stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// The first 8 and the last 24 KiB of stderr so far.
    pub fn stderr(&self) -> String {
        self.flow.stderr().0
    }

    /// Returns a view of stderr that follows it as it comes.
    pub fn stderr_watch(&self) -> StderrWatch {
        StderrWatch(Arc::clone(&self.flow))
    }

    /// Stops counting the run's silence until the returned value is dropped: the process waits for its owner.
    pub fn hold(&self) -> Hold {
        self.flow.hold();
        Hold(Arc::clone(&self.flow))
    }

    /// Says whether stdout holds all that the owner waits for. While it does, no time limit ends the run: the process has
    /// [`super::ProcessLimits::kill_grace`] to exit by itself, and is then ended ([`End::Lingered`]).
    pub fn set_complete(&self, complete: bool) {
        self.complete
            .send_if_modified(|was| std::mem::replace(was, complete) != complete);
    }

    /// Returns a handle that can end the run from elsewhere.
    pub fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// Ends the run as [`Closer::close`] does, but with SIGKILL at once: for a process that would use the grace to ask its API again. If
    /// the process has exited by itself, what it has left behind is killed so.
    pub fn kill(&self) {
        self.killed.cancel();
    }

    /// Waits until the run is over: the process has exited and its output is read. Stdout that was not taken with
    /// [`Running::next`] before is dropped. Dropping the future ends the process.
    pub async fn exit(mut self) -> Exit {
        self.chunks.close();
        while self.chunks.recv().await.is_some() {}
        match (&mut self.exit).await {
            Ok(exit) => exit,
            // The runtime is shutting down and ended the supervisor, which has killed the group.
            Err(_) => {
                let (stderr, stderr_bytes) = self.flow.stderr();
                Exit {
                    run_id: self.run_id.clone(),
                    pid: self.pid,
                    end: End::Closed,
                    code: None,
                    signal: None,
                    stderr,
                    stderr_bytes,
                    stdout_bytes: self.flow.stdout_bytes(),
                    stdout_bytes_at_end: self.flow.stdout_bytes(),
                    timings: Timings::default(),
                }
            }
        }
    }
}

/// A view of a process's stderr as it comes.
#[derive(Debug, Clone)]
pub struct StderrWatch(Arc<Flow>);

impl StderrWatch {
    /// The first 8 and the last 24 KiB of stderr so far.
    pub fn text(&self) -> String {
        self.0.stderr().0
    }

    /// Resolves when more has come than at the time of the call: read [`StderrWatch::text`] after calling this, then await it.
    pub fn stderr_grew(&self) -> impl Future<Output = ()> + Send + '_ {
        self.0.stderr_grew()
    }
}

/// A guard that keeps [`super::ProcessLimits::idle_timeout`] from passing until it is dropped.
#[derive(Debug)]
pub struct Hold(Arc<Flow>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A handle that ends a run from elsewhere.
#[derive(Debug, Clone)]
pub struct Closer(pub(super) CancellationToken);

impl Closer {
    /// Begins to end the run ([`End::Closed`]): stdin is closed, SIGTERM, the grace, SIGKILL. Does nothing to a run
    /// that is over. Returns at once.
    pub fn close(&self) {
        self.0.cancel();
    }
}

// The task that watches over the run.

/// Time after SIGKILL for which the answer waits for the exit. A process that survives longer sleeps in the kernel, for example
/// on a dead network drive.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Time after a run that ended by itself until its remains are looked for. Nobody waits for that, and a run that follows at
/// once finds the watchdog still there.
const LINGER: Duration = Duration::from_millis(20);

/// Everything that the supervising task owns.
pub(super) struct Supervisor {
    pub run_id: String,
    pub pid: u32,
    pub group: Group,
    pub feed: Feed,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
    pub chunks: mpsc::Sender<Bytes>,
    pub answer: oneshot::Sender<Exit>,
    pub flow: Arc<Flow>,
    pub limits: ProcessLimits,
    pub cancel: CancellationToken,
    pub closed: CancellationToken,
    pub killed: CancellationToken,
    pub cleared: CancellationToken,
    pub completed: watch::Receiver<bool>,
    pub in_use: Option<InUse>,
    pub permit: Option<Permit>,
    pub listed: Option<Listed>,
    pub started: Instant,
    pub queued: Duration,
    pub spawn: Duration,
}

/// The end of a run as the watching phase saw it, kept for the report.
struct Seen {
    end: End,
    status: Status,
    exit: Duration,
    stdout_bytes: u64,
}

impl Supervisor {
    /// Supervises the run with three concurrent parts: `feeding` writes the input, `watching` waits for the reason of the end
    /// and ends the group, `answering` drains the output and sends the [`Exit`]. A permit that is not a session's place and the
    /// listing are released as soon as the leader has exited.
    pub async fn run(self) {
        let Supervisor {
            run_id,
            pid,
            mut group,
            feed,
            stdout,
            stderr,
            chunks,
            answer,
            flow,
            limits,
            ..
        } = self;
        let Supervisor {
            cancel,
            closed,
            killed,
            cleared,
            completed,
            in_use,
            permit,
            listed,
            started,
            queued,
            spawn,
            ..
        } = self;
        let grace = limits.kill_grace.min(LONGEST_GRACE);
        let no_input = CancellationToken::new();
        // All of the input has been written, and its end.
        let fed = CancellationToken::new();
        let drained = CancellationToken::new();
        // The end of the runtime, which drops this, kills the group as well.
        let _cleared_on_drop = cleared.clone().drop_guard();
        let (report, reported) = oneshot::channel();

        let feeding = async {
            tokio::select! {
                biased;
                () = no_input.cancelled() => {}
                () = feed.run() => fed.cancel(),
            }
        };

        let (place, permit) = match permit {
            Some(permit) if permit.is_place() => (Some(permit), None),
            permit => (None, permit),
        };

        let watching = async {
            let reason = tokio::select! {
                biased;
                status = group.exited() => Ok(status),
                () = cancel.cancelled() => Err(End::Cancelled),
                () = killed.cancelled() => Err(End::Closed),
                () = closed.cancelled() => Err(End::Closed),
                () = flow.over_limit.cancelled() => Err(End::OutputLimit),
                () = lingering(completed.clone(), grace) => Err(End::Lingered),
                () = while_incomplete(completed.clone(), || after(started, limits.time_left())) => Err(End::Timeout),
                () = while_incomplete(completed.clone(), || idle(&flow, limits.idle_timeout)) => Err(End::IdleTimeout),
            };
            let input_was_open = !fed.is_cancelled();
            no_input.cancel();
            let grace = match killed.is_cancelled() {
                true => Duration::ZERO,
                false => grace,
            };
            let kill_at = Instant::now() + grace;
            let stdout_bytes = flow.stdout_bytes();
            let seen = |end, status| Seen {
                end,
                status,
                exit: started.elapsed(),
                stdout_bytes,
            };
            // If the answer's receiver is gone, nobody listens any more: only the end of the runtime drops it.
            match reason {
                Ok(status) => {
                    flow.exited.cancel();
                    drop((permit, listed, in_use));
                    let _ = report.send(seen(End::Exited, status));
                    // Other processes of the group may be writing the last of the answer, unless nobody wants it. Their delay changes
                    // nothing here.
                    let settled = async {
                        let _ = timeout(limits.drain, drained.cancelled()).await;
                        sleep(LINGER).await;
                    };
                    let grace = tokio::select! {
                        biased;
                        () = killed.cancelled() => Duration::ZERO,
                        () = settled => grace,
                    };
                    group.clear(true, Instant::now() + grace).await;
                }
                Err(End::Lingered) => {
                    flow.exited.cancel();
                    let _ = report.send(seen(End::Lingered, Status::UNKNOWN));
                    end_leader(&mut group, input_was_open, kill_at).await;
                    drop((permit, listed));
                    group.clear(false, kill_at).await;
                    drop(in_use);
                }
                Err(end) => {
                    let status = end_leader(&mut group, input_was_open, kill_at).await;
                    flow.exited.cancel();
                    drop((permit, listed));
                    let seen = seen(end, status);
                    group.clear(false, kill_at).await;
                    drop(in_use);
                    let _ = report.send(seen);
                }
            }
            drop(place);
            cleared.cancel();
        };

        let answering = async {
            let limit = limits.max_stdout as u64;
            tokio::join!(
                pipes::stdout(stdout, chunks, &flow, limit, limits.drain),
                pipes::stderr(stderr, &flow, limits.drain)
            );
            drained.cancel();
            let Ok(Seen {
                mut end,
                status,
                exit,
                stdout_bytes,
            }) = reported.await
            else {
                return;
            };
            // An exit can be seen before the last of the output is read, so the byte count decides, not what was seen first.
            if matches!(end, End::Exited | End::Lingered) && flow.over_limit.is_cancelled() {
                end = End::OutputLimit;
                cleared.cancelled().await;
            }
            let (stderr, stderr_bytes) = flow.stderr();
            let timings = Timings {
                queued,
                spawn,
                first_byte: flow.first_byte(),
                exit,
                settled: started.elapsed(),
            };
            let exit = Exit {
                run_id,
                pid,
                end,
                code: status.code,
                signal: status.signal_name(),
                stderr,
                stderr_bytes,
                stdout_bytes: flow.stdout_bytes(),
                stdout_bytes_at_end: stdout_bytes,
                timings,
            };
            // The owner may have dropped the run, which is then the reason for its end.
            let _ = answer.send(exit);
        };

        tokio::join!(answering, feeding, watching);
    }
}

/// Sends TERM, waits for the grace, sends KILL, and returns when the leader has exited, whatever was sent. There is a grace
/// only for a process that could be asked to end; without one, only KILL is sent.
async fn end_leader(group: &mut Group, input_was_open: bool, kill_at: Instant) -> Status {
    if kill_at > Instant::now() && group.ask(input_was_open).await {
        tokio::select! {
            biased;
            status = group.exited() => return status,
            () = sleep_until(kill_at) => {}
        }
    }
    group.force().await;
    timeout(KILL_PATIENCE, group.exited()).await.unwrap_or(Status::UNKNOWN)
}

async fn after(started: Instant, limit: Option<Duration>) {
    match limit.and_then(|limit| started.checked_add(limit)) {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// Resolves when the output has been complete for `grace`. Later output may make it incomplete again.
async fn lingering(mut completed: watch::Receiver<bool>, grace: Duration) {
    while becomes(&mut completed, true).await {
        tokio::select! {
            goes_on = becomes(&mut completed, false) => if !goes_on { break },
            () = sleep(grace) => return,
        }
    }
    pending().await
}

/// Resolves when `limit` does, where `limit` runs only while the output is not complete.
async fn while_incomplete<F: Future<Output = ()>>(mut completed: watch::Receiver<bool>, limit: impl Fn() -> F) {
    while becomes(&mut completed, false).await {
        tokio::select! {
            biased;
            goes_on = becomes(&mut completed, true) => if !goes_on { break },
            () = limit() => return,
        }
    }
    pending().await
}

/// Waits until the completeness is `value`. Returns `false` if the run's owner is gone, which ends the run.
async fn becomes(completed: &mut watch::Receiver<bool>, value: bool) -> bool {
    completed.wait_for(|complete| *complete == value).await.is_ok()
}

async fn idle(flow: &Flow, limit: Option<Duration>) {
    match limit {
        Some(limit) => flow.idle(limit).await,
        None => pending().await,
    }
}

// The status with which a process ended, as the operating system reports it.

/// An exit code or a signal; neither if it is no longer known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl Status {
    /// The status of a process that another part of the host reaped, or that does not die.
    pub const UNKNOWN: Status = Status {
        code: None,
        signal: None,
    };

    /// The signal's name: `SIGKILL` for 9, `SIG34` for one without a name.
    pub fn signal_name(self) -> Option<String> {
        self.signal.map(|number| match signal_name(number) {
            Some(name) => name.to_owned(),
            None => format!("SIG{number}"),
        })
    }
}

#[cfg(unix)]
fn signal_name(number: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    // The numbers differ between systems.
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::VTALARM, "SIGVTALRM"),
        (Signal::PROF, "SIGPROF"),
        (Signal::SYS, "SIGSYS"),
    ];
    names
        .iter()
        .find(|(signal, _)| signal.as_raw() == number)
        .map(|&(_, name)| name)
}

#[cfg(not(unix))]
fn signal_name(_number: i32) -> Option<&'static str> {
    None
}

// A look at whether a process is about to exit, before the system reports it. Linux only; elsewhere its exit is waited for.

/// Returns whether `pid` is gone, is exiting, or has a SIGKILL pending that it has not died of yet.
#[cfg(target_os = "linux")]
fn is_ending(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => is_dying(&status),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Always false: this system has no cheap way to tell.
#[cfg(not(target_os = "linux"))]
fn is_ending(_pid: u32) -> bool {
    false
}

/// Returns whether the text of `/proc/<pid>/status` shows a dying process.
#[cfg(target_os = "linux")]
fn is_dying(status: &str) -> bool {
    /// SIGKILL is signal 9.
    const KILLED: u64 = 1 << 8;
    status.lines().any(|line| match line.split_once(":\t") {
        Some(("State", state)) => state.starts_with(['Z', 'X']),
        Some(("SigPnd" | "ShdPnd", pending)) => {
            u64::from_str_radix(pending.trim(), 16).is_ok_and(|pending| pending & KILLED != 0)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use super::*;

    #[cfg(unix)]
    #[test]
    fn signals_have_names() {
        let named = |signal| Status { code: None, signal }.signal_name();
        assert_eq!(named(Some(9)).as_deref(), Some("SIGKILL"));
        assert_eq!(named(Some(15)).as_deref(), Some("SIGTERM"));
        assert_eq!(named(Some(11)).as_deref(), Some("SIGSEGV"));
        assert_eq!(named(Some(60)).as_deref(), Some("SIG60"));
        assert_eq!(named(None), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn sees_the_dead_the_dying_and_the_living() {
        assert!(!is_ending(std::process::id()));
        assert!(is_ending(u32::MAX));
        let status = |state: &str, pending: &str| {
            format!("Name:\tnode\nState:\t{state}\nSigPnd:\t0000000000000000\nShdPnd:\t{pending}\n")
        };
        assert!(!is_dying(&status("S (sleeping)", "0000000000000000")));
        assert!(!is_dying(&status("R (running)", "0000000000004000")));
        assert!(is_dying(&status("S (sleeping)", "0000000000000100")));
        assert!(is_dying(&status("Z (zombie)", "0000000000000000")));
    }
}
