//! The one task that watches over a run from its start until nothing of it is left.
//!
//! In: a started [`Group`], its pipes, the limits. Out: chunks, one [`Exit`], and later an empty process group.
//!
//! ```text
//! watch    exited │ cancelled │ closed │ over limit │ timeout │ idle │ complete and still there after the grace
//!            │    └─ close stdin ─ TERM ─ grace ─ KILL ─┐
//! answer   leader exited ─ output read, or patience over ─ (if it was ended: cleared) ─ Exit
//! clear    leader exited ─ output read, or patience over ─ TERM what is left ─ grace ─ KILL ─ reap
//!
//! A process that exits by itself is answered for at once, and cleared up after in the background (who needs to know waits for
//! [`Running::cleared`](super::Running::cleared)). One that was ended is
//! cleared up after first: who ends a run finds nothing of it when it is reported over. One whose output is complete and
//! that does not exit is answered for when its grace is over, and ended in the background.
//! ```

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::activity::Listed;
use super::limit::Permit;
use super::pipes::{self, Feed, Flow};
use super::running::{End, Exit, Status, Timings};
use super::start::{InUse, LONGEST_GRACE, ProcessLimits};
use super::sys::Group;

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
