//! A running process as its owner sees it, and the report of its end.
//!
//! In: what the supervisor sends. Out: chunks of stdout, then one [`Exit`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::drain::Flow;
use super::ending::is_ending;
use super::feed::StdinWriter;

/// Why a run is over. What was decided first stays: a process that exits with 0 after its timeout has timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The process ended by itself, with whatever status.
    Exited,
    /// Its output was complete ([`Running::set_complete`]), and it did not exit within [`super::ProcessLimits::kill_grace`]. It is
    /// ended in the background: how says nothing about the run, so [`Exit`] has neither code nor signal.
    Lingered,
    /// [`super::ProcessLimits::timeout`] passed.
    Timeout,
    /// [`super::ProcessLimits::idle_timeout`] passed without a byte.
    IdleTimeout,
    /// The run's cancellation token was cancelled.
    Cancelled,
    /// There were more than [`super::ProcessLimits::max_stdout`] bytes, also if the process has exited by itself: what was read of its
    /// output is cut.
    OutputLimit,
    /// [`Closer::close`], or [`Running`] was dropped.
    Closed,
}

/// When things happened, by a monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// Waiting for a permit, before the start.
    pub queued: Duration,
    /// What [`super::start`] took, the process's start in its middle.
    pub spawn: Duration,
    /// From the process's start to its first byte of stdout.
    pub first_byte: Option<Duration>,
    /// From the process's start to its exit.
    pub exit: Duration,
    /// From the process's start to this report: the exit, and what was left to read.
    pub settled: Duration,
}

/// Exit codes above this are those of a shell whose program was killed by a signal.
const SIGNALLED: i32 = 128;

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The run's id, unique on this machine.
    pub run_id: String,
    /// The process's id; it may be somebody else's by now.
    pub pid: u32,
    /// Why the run is over.
    pub end: End,
    /// The exit code. Neither code nor signal: the process has outlived SIGKILL for 5 s, or the host reaped it.
    pub code: Option<i32>,
    /// The signal that killed it, `SIGKILL`. (A shell's 137 is a code.)
    pub signal: Option<String>,
    /// The first 8 and the last 24 KiB of stderr, with a line that says how much is left out between.
    pub stderr: String,
    /// How much stderr there was.
    pub stderr_bytes: u64,
    /// How much stdout there was, also what was over the limit or not taken.
    pub stdout_bytes: u64,
    /// How much of it had been read when the end began: when the process exited, or when it was decided to end it.
    pub stdout_bytes_at_end: u64,
    pub timings: Timings,
}

impl Exit {
    /// Ended by itself with code 0.
    pub fn success(&self) -> bool {
        self.end == End::Exited && self.code == Some(0)
    }

    /// Killed by a signal that nobody here sent, also where a shell tells of it.
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

    /// Whether the process is gone or ending already, though the news of its [exit](Running::exited) may still come. A look at the system,
    /// which takes some 20 µs (Linux; `false` elsewhere).
    pub fn is_ending(&self) -> bool {
        is_ending(self.pid)
    }

    /// How long ago the process was started.
    pub fn elapsed(&self) -> Duration {
        self.flow.elapsed()
    }

    /// The open stdin, once, if [`super::Stdin::Open`] was asked for.
    pub fn stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// The first 8 and the last 24 KiB of stderr so far.
    pub fn stderr(&self) -> String {
        self.flow.stderr().0
    }

    /// Sees stderr as it comes.
    pub fn stderr_watch(&self) -> StderrWatch {
        StderrWatch(Arc::clone(&self.flow))
    }

    /// Until it is dropped, the run's silence does not count: it waits for its owner.
    pub fn hold(&self) -> Hold {
        self.flow.hold();
        Hold(Arc::clone(&self.flow))
    }

    /// Says whether stdout holds all that the owner waits for. While it does, no limit of time ends the run: the process has
    /// [`super::ProcessLimits::kill_grace`] to exit by itself, and is then ended ([`End::Lingered`]).
    pub fn set_complete(&self, complete: bool) {
        self.complete
            .send_if_modified(|was| std::mem::replace(was, complete) != complete);
    }

    /// A handle that can end the run from elsewhere.
    pub fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// Waits until the run is over: the process has exited and its output is read. What stdout still has to say is
    /// dropped, so take it with [`Running::next`] before. Dropping the future ends the process.
    pub async fn exit(mut self) -> Exit {
        self.chunks.close();
        while self.chunks.recv().await.is_some() {}
        match (&mut self.exit).await {
            Ok(exit) => exit,
            // The runtime is shutting down and took the supervisor along, which has killed the group.
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

/// Sees a process's stderr as it comes.
#[derive(Debug, Clone)]
pub struct StderrWatch(Arc<Flow>);

impl StderrWatch {
    /// The first 8 and the last 24 KiB so far.
    pub fn text(&self) -> String {
        self.0.stderr().0
    }

    /// Resolves when more has come than when it was called: look at [`StderrWatch::text`] behind the call.
    pub fn stderr_grew(&self) -> impl Future<Output = ()> + Send + '_ {
        self.0.stderr_grew()
    }
}

/// Keeps [`super::ProcessLimits::idle_timeout`] from passing as long as it is held.
#[derive(Debug)]
pub struct Hold(Arc<Flow>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Ends a run from elsewhere.
#[derive(Debug, Clone)]
pub struct Closer(pub(super) CancellationToken);

impl Closer {
    /// Begins to end the run ([`End::Closed`]): stdin is closed, SIGTERM, the grace, SIGKILL. Does nothing to a run
    /// that is over. Returns at once.
    pub fn close(&self) {
        self.0.cancel();
    }
}
