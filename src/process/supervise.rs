//! The one task that watches over a run from its start until nothing of it is left.
//!
//! In: a started [`Group`], its pipes, the limits. Out: chunks, one [`Exit`], and later an empty process group.
//!
//! ```text
//! watch    exited │ cancelled │ closed │ over limit │ timeout │ idle
//!            │    └─ close stdin ─ TERM ─ grace ─ KILL ─┐
//! answer   leader exited ─ output read, or patience over ─ (if it was ended: cleared) ─ Exit
//! clear    leader exited ─ output read, or patience over ─ TERM what is left ─ grace ─ KILL ─ reap
//!
//! A process that exits by itself is answered for at once, and cleared up after in the background. One that was ended is
//! cleared up after first: who ends a run finds nothing of it when told that it is over.
//! ```

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::drain::{self, Flow};
use super::feed::Feed;
use super::limit::Permit;
use super::running::{End, Exit, Timings};
use super::status::Status;
use super::sys::Group;
use super::{LONGEST_GRACE, Limits};

/// How long after SIGKILL the answer waits for the exit. A process that survives it sleeps in the kernel, on a dead
/// network drive for example.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Everything the task owns.
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
    pub limits: Limits,
    pub thorough: bool,
    pub cancel: CancellationToken,
    pub closed: CancellationToken,
    pub permit: Option<Permit>,
    pub started: Instant,
    pub queued: Duration,
    pub spawn: Duration,
}

/// What the watch has seen, for the answer.
struct Seen {
    end: End,
    status: Status,
    exit: Duration,
}

impl Supervisor {
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
            thorough,
            ..
        } = self;
        let Supervisor {
            cancel,
            closed,
            permit,
            started,
            queued,
            spawn,
            ..
        } = self;
        let grace = limits.kill_grace.min(LONGEST_GRACE);
        let no_input = CancellationToken::new();
        let drained = CancellationToken::new();
        let (report, reported) = oneshot::channel();

        let feeding = async {
            tokio::select! {
                biased;
                () = no_input.cancelled() => {}
                () = feed.run() => {}
            }
        };

        let watching = async {
            let reason = tokio::select! {
                biased;
                status = group.exited() => Ok(status),
                () = cancel.cancelled() => Err(End::Cancelled),
                () = closed.cancelled() => Err(End::Closed),
                () = flow.over_limit.cancelled() => Err(End::OutputLimit),
                () = after(started, limits.timeout) => Err(End::Timeout),
                () = idle(&flow, limits.idle_timeout) => Err(End::IdleTimeout),
            };
            no_input.cancel();
            let kill_at = Instant::now() + grace;
            let (end, status) = match reason {
                Ok(status) => (End::Exited, status),
                Err(end) => (end, end_leader(&mut group, kill_at).await),
            };
            flow.exited.cancel();
            drop(permit);
            let exit = started.elapsed();
            let seen = Seen { end, status, exit };
            // Nobody listens if the answer was given up, which only the end of the runtime does.
            if end == End::Exited {
                let _ = report.send(seen);
                // Others in the group may be writing the last of the answer. That they are late changes nothing here.
                let _ = timeout(limits.drain, drained.cancelled()).await;
                group.clear(thorough, Instant::now() + grace).await;
            } else {
                group.clear(true, kill_at).await;
                let _ = report.send(seen);
            }
        };

        let answering = async {
            let limit = limits.max_stdout as u64;
            tokio::join!(
                drain::stdout(stdout, chunks, &flow, limit, limits.drain),
                drain::stderr(stderr, &flow, limits.drain)
            );
            drained.cancel();
            let Ok(Seen { end, status, exit }) = reported.await else {
                return;
            };
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
                timings,
            };
            // The owner may have dropped the run, which is what ended it then.
            let _ = answer.send(exit);
        };

        tokio::join!(answering, feeding, watching);
    }
}

/// TERM, grace, KILL; returns when the leader has exited, whatever was sent to it.
async fn end_leader(group: &mut Group, kill_at: Instant) -> Status {
    group.ask().await;
    tokio::select! {
        biased;
        status = group.exited() => return status,
        () = sleep_until(kill_at) => {}
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

async fn idle(flow: &Flow, limit: Option<Duration>) {
    match limit {
        Some(limit) => flow.idle(limit).await,
        None => pending().await,
    }
}
