//! A running process as its owner sees it, and its end: the system's status, and the report for the owner.
//!
//! In: what the supervisor sends. Out: chunks of stdout, then one [`Exit`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::pipes::{Flow, StdinWriter};

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
pub fn is_ending(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => is_dying(&status),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Always false: this system has no cheap way to tell.
#[cfg(not(target_os = "linux"))]
pub fn is_ending(_pid: u32) -> bool {
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
