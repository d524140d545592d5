//! One turn of a session as an exchange, whatever form the session has.
//!
//! In: a [`Work`], the form's own code, from what is sent to the reply. Out: the [`Exchange`] that the driver polls. There is no task in
//! between: the work goes on while [`Exchange::next`] is awaited, and stands still while nobody takes what it has [reported](Report::tell).
//! Whatever a turn comes to but a reply ends its session: CLIs keep a failed turn in their history, and no thread shall hear of another.

use std::collections::HashSet;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::idle_task::NotReady;
use super::keep::Keepable;
use super::thread::Pending;
use crate::classify;
use crate::event::{Event, Failure, Outcome, Reply};
use crate::exchange::host::of_exit;
use crate::exchange::{
    Ended, EndedProcess, Evidence, Exchange, Finish, Invocation, Progress, ProviderCallId, StopReason,
};
use crate::judge::{ProcessEnd, ProcessEvidence, TurnEvidence};
use crate::process::{Exit, ProcessLimits};

/// Where a turn's session comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Fresh,
    /// Started ahead, and fresh.
    Spare,
    /// It knows the thread's beginning.
    Continued,
}

/// Why a turn came to nothing that is no failure of the call's.
#[derive(Debug)]
pub enum Unusable {
    /// The process that waited for a turn has died before it got this one.
    Vanished,
    /// The CLI can't do this.
    Unsupported {
        /// What it is that it can't.
        reason: String,
        /// It had answered the handshake, so the model may have been asked already.
        may_have_asked: bool,
    },
}

/// A session that goes on: its calls, and what its reply is made of.
#[derive(Debug)]
pub struct Kept<S> {
    pub session: S,
    /// The calls whose results it waits for.
    pub pending: Vec<Pending>,
}

/// Keeps what a turn with a reply leaves: the session, if it can go on, and what is known of the reply.
pub type Park<S, R> = Box<dyn FnOnce(Option<Kept<S>>, &Reply, R) + Send>;

/// The end of a process that is awaited.
pub type Exiting = Pin<Box<dyn Future<Output = EndedProcess> + Send>>;

/// What a turn comes to. `R`: what is known of the reply beside its events.
pub enum TurnEnd<S, R> {
    /// The reply is there.
    Reply {
        /// The session, where it may go on.
        session: Option<Box<S>>,
        /// What is known of the reply beside its events.
        known: R,
        /// Lines that were no events.
        diagnostics: Vec<String>,
        /// The last bytes of an output that is this session's alone.
        stdout_tail: String,
    },
    /// It failed; why was an event.
    Failed,
    /// The session was gone before it got anything of the turn.
    Vanished,
    /// The CLI does not do what a session needs.
    Unsupported {
        /// What it does not do.
        reason: String,
        /// The model may have been asked already.
        may_have_asked: bool,
        /// The end of its process, where that is one for this session alone.
        process: Option<Exiting>,
    },
    /// The process is going or gone.
    ProcessGone {
        process: Exiting,
        /// It had answered the handshake: its end says nothing of what the CLI can do.
        is_handshaken: bool,
    },
    /// It was stopped. The end of its process, where that is one for this session alone.
    Stopped(Option<Box<EndedProcess>>),
}

/// One turn of a form: what it says to its process, and what it makes of what comes.
pub trait Work: Send + Sized + 'static {
    /// What goes on from call to call.
    type Session: Keepable;
    /// What is known of a reply beside its events.
    type ReplyFacts: Send + 'static;

    /// Does the turn; dropped where it is given up.
    fn turn(&mut self, report: &Report) -> impl Future<Output = TurnEnd<Self::Session, Self::ReplyFacts>> + Send;

    /// Stops what goes on, and ends the session. The end of its process, where that is one for this session alone.
    fn stop(self) -> impl Future<Output = Option<EndedProcess>> + Send;

    /// Has what is left of the session end in the background: the turn came to nothing, or to a reply and left nothing.
    fn end(self) {}
}

/// How a turn is begun.
pub struct TurnStart<'a, S, R> {
    /// As what its process was started.
    pub invocation: Invocation,
    /// The limits it has.
    pub limits: ProcessLimits,
    pub pid: u32,
    /// It is certain that there is a turn, before anything was heard of it.
    pub has_begun: bool,
    /// Tracks what is left of a turn that nobody awaits any more.
    pub tracker: &'a TaskTracker,
    /// What becomes of the session.
    pub park: Park<S, R>,
}

#[derive(Debug, Default)]
struct Reported {
    events: Vec<Event>,
    /// Something has come that the driver has not seen yet.
    is_news: bool,
    has_begun: bool,
    has_acted: bool,
    received: u64,
}

/// What a turn reports while it goes on.
#[derive(Debug, Clone, Default)]
pub struct Report(Arc<Mutex<Reported>>);

impl Report {
    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is certain that there is a turn.
    pub fn begun(&self) {
        self.reported().has_begun = true;
    }

    /// The CLI has done something that must not be done again: it may have run a tool of its own.
    pub fn acted(&self) {
        self.reported().has_acted = true;
    }

    /// So many bytes have come.
    pub fn received(&self, bytes: u64) {
        let mut reported = self.reported();
        reported.is_news |= reported.received != bytes;
        reported.received = bytes;
    }

    /// Adds `events` to what goes out next.
    pub fn push(&self, events: impl IntoIterator<Item = Event>) {
        self.reported().events.extend(events);
    }

    /// Hands over that something has come, and `events`, which it means; waits until the driver has taken it.
    pub async fn tell(&self, events: &mut Vec<Event>) {
        {
            let mut reported = self.reported();
            reported.events.append(events);
            reported.is_news = true;
        }
        // Nobody wakes this: it is polled when the driver asks for more.
        poll_fn(|_| match self.reported().is_news {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// The turn fails, for a reason that is an event.
    pub fn fail<S, R>(&self, failure: Failure) -> TurnEnd<S, R> {
        self.fail_with(failure, Outcome::default())
    }

    /// The same, with what is known of the turn.
    pub fn fail_with<S, R>(&self, failure: Failure, known: Outcome) -> TurnEnd<S, R> {
        let outcome = Outcome {
            is_error: true,
            ..known
        };
        self.push([Event::Failure(failure), Event::Outcome(Box::new(outcome))]);
        TurnEnd::Failed
    }

    /// The host in which the turn was is no more, as `exit` says if that is known; `failure` says so where the system does not.
    pub fn host_gone<S, R>(&self, exit: Option<&Exit>, failure: Failure) -> TurnEnd<S, R> {
        // A signal says so itself; an exit code, and the log on standard error, do not.
        if exit.is_none_or(|exit| exit.signal.is_none()) {
            self.push([Event::Failure(failure)]);
        }
        match exit {
            Some(exit) => TurnEnd::ProcessGone {
                process: Box::pin(ready(of_exit(exit))),
                is_handshaken: true,
            },
            None => TurnEnd::Failed,
        }
    }

    /// Moves what was told to `events`; whether anything was.
    fn take(&self, events: &mut Vec<Event>) -> bool {
        let mut reported = self.reported();
        events.append(&mut reported.events);
        std::mem::take(&mut reported.is_news)
    }
}

type Working<S, R> = Pin<Box<dyn Future<Output = TurnEnd<S, R>> + Send>>;

/// Does `work` until it is over, or `stop` says that it was given up.
async fn done<W: Work>(mut work: W, report: Report, stop: CancellationToken) -> TurnEnd<W::Session, W::ReplyFacts> {
    let end = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        end = work.turn(&report) => Some(end),
    };
    match end {
        Some(end) => {
            work.end();
            end
        }
        None => TurnEnd::Stopped(work.stop().await.map(Box::new)),
    }
}

/// The work of a turn. Dropped before it is over, it is stopped in the background.
struct Going<S: Send + 'static, R: Send + 'static> {
    working: Option<Working<S, R>>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl<S: Send, R: Send> Going<S, R> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<TurnEnd<S, R>>> {
        let Some(working) = &mut self.working else {
            return Poll::Ready(None);
        };
        let end = std::task::ready!(working.as_mut().poll(context));
        self.working = None;
        Poll::Ready(Some(end))
    }
}

impl<S: Send, R: Send> Drop for Going<S, R> {
    fn drop(&mut self) {
        if let Some(working) = self.working.take() {
            self.stop.cancel();
            self.tracker.spawn(working);
        }
    }
}

/// A turn under way.
pub struct Turn<S: Keepable, R: Send + 'static> {
    going: Going<S, R>,
    report: Report,
    end: Option<TurnEnd<S, R>>,
    reason: Option<StopReason>,
    began: Instant,
    pid: u32,
    invocation: Invocation,
    limits: ProcessLimits,
    park: Park<S, R>,
}

impl<S: Keepable, R: Send + 'static> Turn<S, R> {
    /// The turn that `work` does, as soon as it is asked what [comes](Exchange::next).
    pub fn begin<W: Work<Session = S, ReplyFacts = R>>(work: W, start: TurnStart<'_, S, R>) -> Turn<S, R> {
        let report = Report::default();
        if start.has_begun {
            report.begun();
        }
        let stop = CancellationToken::new();
        Turn {
            going: Going {
                working: Some(Box::pin(done(work, report.clone(), stop.clone()))),
                stop,
                tracker: start.tracker.clone(),
            },
            report,
            end: None,
            reason: None,
            began: Instant::now(),
            pid: start.pid,
            invocation: start.invocation,
            limits: start.limits,
            park: start.park,
        }
    }
}

impl<S: Keepable, R: Send + 'static> Exchange for Turn<S, R> {
    type Unusable = Unusable;

    fn pid(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn has_begun(&self) -> bool {
        self.report.reported().has_begun
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.report.reported().received
    }

    /// Cancel safe.
    async fn next(&mut self, events: &mut Vec<Event>) -> Progress {
        poll_fn(|context| {
            let end = self.going.poll(context);
            let is_news = self.report.take(events);
            match end {
                Poll::Ready(Some(end)) => {
                    // Of what came to nothing another turn tells.
                    if !matches!(end, TurnEnd::Vanished | TurnEnd::Unsupported { .. }) {
                        self.report.begun();
                    }
                    self.end = Some(end);
                    Poll::Ready(Progress::Over)
                }
                Poll::Ready(None) => Poll::Ready(Progress::Over),
                Poll::Pending if is_news => Poll::Ready(Progress::More),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn stop(&mut self, reason: StopReason) {
        self.reason = Some(reason);
        self.going.stop.cancel();
    }

    async fn finish(mut self) -> Finish<Unusable> {
        if let Some(end) = poll_fn(|context| self.going.poll(context)).await {
            self.end = Some(end);
        }
        let Turn {
            end,
            reason,
            report,
            invocation,
            limits,
            park,
            ..
        } = self;
        let mut ended = match (end.unwrap_or(TurnEnd::Failed), reason) {
            (TurnEnd::Stopped(Some(process)), Some(reason)) => stopped(invocation.ended(*process, &limits), reason),
            (TurnEnd::Reply { session, .. }, Some(reason)) => {
                if let Some(session) = session {
                    session.end();
                }
                of_turn(invocation, Some(reason))
            }
            (_, Some(reason)) => of_turn(invocation, Some(reason)),
            (
                TurnEnd::Reply {
                    session,
                    known,
                    diagnostics,
                    stdout_tail,
                },
                None,
            ) => Ended {
                on_verdict: Some(Box::new(move |verdict| keep(session, verdict, known, park))),
                ..Ended::new(Evidence::Turn(TurnEvidence {
                    wire: invocation.wire,
                    flags: invocation.flags,
                    stopped: None,
                    diagnostics,
                    stdout_tail,
                }))
            },
            (TurnEnd::Failed | TurnEnd::Stopped(_), None) => of_turn(invocation, None),
            (TurnEnd::Vanished, None) => return Finish::Unusable(Unusable::Vanished, None),
            (
                TurnEnd::Unsupported {
                    reason,
                    may_have_asked,
                    process,
                },
                None,
            ) => {
                let ended = match process {
                    Some(process) => Some(Box::new(invocation.ended(process.await, &limits))),
                    None => None,
                };
                return Finish::Unusable(Unusable::Unsupported { reason, may_have_asked }, ended);
            }
            (TurnEnd::ProcessGone { process, is_handshaken }, None) => {
                let ended = invocation.clone().ended(process.await, &limits);
                if let Some(reason) = unsupported(&invocation, &ended).filter(|_| !is_handshaken) {
                    let may_have_asked = false;
                    let unusable = Unusable::Unsupported { reason, may_have_asked };
                    return Finish::Unusable(unusable, Some(Box::new(ended)));
                }
                ended
            }
        };
        ended.has_side_effects = report.reported().has_acted;
        Finish::Ended(Box::new(ended))
    }
}

/// A turn of which no process tells. What all sessions of a host say is mixed, and holds what the users say: none of it is told.
fn of_turn(invocation: Invocation, stopped: Option<StopReason>) -> Ended {
    Ended::new(Evidence::Turn(TurnEvidence {
        wire: invocation.wire,
        flags: invocation.flags,
        stopped,
        diagnostics: Vec::new(),
        stdout_tail: String::new(),
    }))
}

/// The end of a process whose turn was stopped.
fn stopped(mut ended: Ended, reason: StopReason) -> Ended {
    if let Evidence::Process(process) = &mut ended.evidence {
        process.end = ProcessEnd::Stopped(reason);
    }
    // Its text when it was stopped is no refusal.
    ended.refused_flag = None;
    ended.refused_schema = None;
    ended
}

/// The session of a turn that has its reply goes on, if it can.
fn keep<S: Keepable, R>(
    session: Option<Box<S>>,
    verdict: Option<(&Reply, &[ProviderCallId])>,
    known: R,
    park: Park<S, R>,
) {
    let end = |session: Option<Box<S>>| {
        if let Some(session) = session {
            session.end();
        }
    };
    let Some((reply, calls)) = verdict else {
        return end(session);
    };
    let ids: HashSet<&str> = calls.iter().map(|call| call.provider.as_str()).collect();
    let is_renamed = |call: &ProviderCallId| call.provider != call.id;
    let is_repeated = ids.len() < calls.len() || (S::LOSES_REPEATED_IDS && calls.iter().any(is_renamed));
    if calls.len() != reply.tool_calls.len() || is_repeated {
        // A call that the session does not wait for, or can't tell from another: no result of it can be returned natively.
        end(session);
        return park(None, reply, known);
    }
    let pending = |call: &ProviderCallId| Pending {
        api: call.provider.clone(),
        id: call.id.clone(),
    };
    let kept = session.map(|session| Kept {
        session: *session,
        pending: calls.iter().map(pending).collect(),
    });
    park(kept, reply, known);
}

/// The end of a process that was started ahead as `invocation` says, and why it takes no sessions; `None` where the end says nothing
/// of that.
pub fn why_not_ready(invocation: Invocation, not_ready: &NotReady, limits: &ProcessLimits) -> (Option<String>, Ended) {
    let ended = invocation.clone().ended(not_ready.process.clone(), limits);
    let reason = not_ready.reason.clone().or_else(|| unsupported(&invocation, &ended));
    (reason, ended)
}

/// Why a process that ended without having answered the handshake takes no sessions; `None` where the end says nothing of that.
fn unsupported(invocation: &Invocation, ended: &Ended) -> Option<String> {
    let Evidence::Process(ProcessEvidence {
        end: ProcessEnd::Exited | ProcessEnd::Lingered,
        exit_code,
        stderr,
        ..
    }) = &ended.evidence
    else {
        return None;
    };
    if ended.refused_flag.is_some() {
        return None;
    }
    match classify::unsupported_flag(&invocation.provider, stderr) {
        Some(flag) => Some(format!("it does not know {flag}")),
        None if *exit_code == Some(0) => {
            Some("it ended with exit code 0 instead of answering the handshake".to_owned())
        }
        None => None,
    }
}

#[cfg(test)]
mod tests;
