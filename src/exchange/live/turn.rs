//! One turn of a session as an exchange, for every form.
//!
//! In: a [`Work`], the form's own code, from the input to the reply. Out: the [`Exchange`] that the driver polls. There is no
//! task in between: the work goes on while [`Exchange::next`] is awaited, and stands still until its [reports](Report::tell) are
//! taken. A turn that ends without a reply ends its session: CLIs keep a failed turn in their history, and a thread must not see
//! another's messages.

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
use crate::host::of_exit;
use crate::{Ended, EndedProcess, Evidence, Exchange, Finish, Invocation, Progress, ProviderCallId, StopReason};
use dfp_model::event::{Event, Failure, Outcome, Reply};
use dfp_process::{Exit, ProcessLimits};
use dfp_provider::classify;
use dfp_provider::judge::{ProcessEnd, ProcessEvidence, TurnEvidence};

/// The origin of a turn's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Fresh,
    /// A fresh session in a process that was started ahead.
    Spare,
    /// A session that knows the thread's beginning.
    Continued,
}

/// The reason why a turn came to nothing that is no failure of the call.
#[derive(Debug)]
pub enum Unusable {
    /// The process that waited for a turn died before it got this one.
    Vanished,
    /// The CLI lacks a feature.
    Unsupported {
        /// The missing feature.
        reason: String,
        /// True if the CLI had answered the handshake, so that the model may have been asked already.
        may_have_asked: bool,
    },
}

/// A session that continues, with its open calls.
#[derive(Debug)]
pub struct Kept<S> {
    pub session: S,
    /// The calls for whose results it waits.
    pub pending: Vec<Pending>,
}

/// Stores what a turn with a reply leaves: the session, if it can continue, and the facts known of the reply.
pub type Park<S, R> = Box<dyn FnOnce(Option<Kept<S>>, &Reply, R) + Send>;

/// The awaited end of a process.
pub type Exiting = Pin<Box<dyn Future<Output = EndedProcess> + Send>>;

/// The result of a turn. `R`: the facts known of the reply beside its events.
pub enum TurnEnd<S, R> {
    /// The reply has come.
    Reply {
        /// The session, if it may continue.
        session: Option<Box<S>>,
        /// The facts known of the reply beside its events.
        known: R,
        /// The lines that were no events.
        diagnostics: Vec<String>,
        /// The last bytes of the output, if it is this session's alone.
        stdout_tail: String,
    },
    /// The turn failed; an event has told why.
    Failed,
    /// The session was gone before it got anything of the turn.
    Vanished,
    /// The CLI lacks something that a session needs.
    Unsupported {
        /// The missing feature.
        reason: String,
        /// True if the model may have been asked already.
        may_have_asked: bool,
        /// The end of the process, if it serves this session alone.
        process: Option<Exiting>,
    },
    /// The process is going or gone.
    ProcessGone {
        process: Exiting,
        /// True if it had answered the handshake: then its end says nothing about the CLI's abilities.
        is_handshaken: bool,
    },
    /// The turn was stopped. The value is the end of the process, if it serves this session alone.
    Stopped(Option<Box<EndedProcess>>),
}

/// The work of one turn of a form: it speaks with the process, and interprets its output.
pub trait Work: Send + Sized + 'static {
    /// The session that is kept between calls.
    type Session: Keepable;
    /// The facts known of a reply beside its events.
    type ReplyFacts: Send + 'static;

    /// Does the turn; dropped if the turn is given up.
    fn turn(&mut self, report: &Report) -> impl Future<Output = TurnEnd<Self::Session, Self::ReplyFacts>> + Send;

    /// Stops the turn, and ends the session. The result is the end of the process, if it serves this session alone.
    fn stop(self) -> impl Future<Output = Option<EndedProcess>> + Send;

    /// Ends the rest of the session in the background: the turn came to nothing, or its reply left nothing to keep.
    fn end(self) {}
}

/// The parts with which a turn is begun.
pub struct TurnStart<'a, S, R> {
    /// The facts of the process's start.
    pub invocation: Invocation,
    /// The limits of the turn.
    pub limits: ProcessLimits,
    pub pid: u32,
    /// True if it is certain that there is a turn, before any output of it.
    pub has_begun: bool,
    /// Tracks the rest of a turn that nobody awaits any more.
    pub tracker: &'a TaskTracker,
    /// Stores the session, if it may continue.
    pub park: Park<S, R>,
}

#[derive(Debug, Default)]
struct Reported {
    events: Vec<Event>,
    /// True if something has come that the driver has not seen yet.
    is_news: bool,
    has_begun: bool,
    has_acted: bool,
    received: u64,
}

/// The reports of a turn in progress.
#[derive(Debug, Clone, Default)]
pub struct Report(Arc<Mutex<Reported>>);

impl Report {
    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it is certain that there is a turn.
    pub fn begun(&self) {
        self.reported().has_begun = true;
    }

    /// Notes that the CLI has done something that must not be done again: it may have run a tool of its own.
    pub fn acted(&self) {
        self.reported().has_acted = true;
    }

    /// Notes the number of bytes that have come.
    pub fn received(&self, bytes: u64) {
        let mut reported = self.reported();
        reported.is_news |= reported.received != bytes;
        reported.received = bytes;
    }

    /// Adds `events` to the next ones that go out.
    pub fn push(&self, events: impl IntoIterator<Item = Event>) {
        self.reported().events.extend(events);
    }

    /// Reports that something has come, with the `events` in it, and waits until the driver has taken them.
    pub async fn tell(&self, events: &mut Vec<Event>) {
        {
            let mut reported = self.reported();
            reported.events.append(events);
            reported.is_news = true;
        }
        // No waker is needed: this is polled when the driver asks for more.
        poll_fn(|_| match self.reported().is_news {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Fails the turn, for a reason that becomes an event.
    pub fn fail<S, R>(&self, failure: Failure) -> TurnEnd<S, R> {
        self.fail_with(failure, Outcome::default())
    }

    /// Fails the turn like [`Report::fail`], with the facts known of it.
    pub fn fail_with<S, R>(&self, failure: Failure, known: Outcome) -> TurnEnd<S, R> {
        let outcome = Outcome {
            is_error: true,
            ..known
        };
        self.push([Event::Failure(failure), Event::Outcome(Box::new(outcome))]);
        TurnEnd::Failed
    }

    /// Ends a turn whose host is gone, with its `exit` if that is known; `failure` tells the reason if the system does not.
    pub fn host_gone<S, R>(&self, exit: Option<&Exit>, failure: Failure) -> TurnEnd<S, R> {
        // A signal tells the reason itself; an exit code, and the log on standard error, do not.
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

    /// Moves the reported events to `events`, and returns whether there was any news.
    fn take(&self, events: &mut Vec<Event>) -> bool {
        let mut reported = self.reported();
        events.append(&mut reported.events);
        std::mem::take(&mut reported.is_news)
    }
}

type Working<S, R> = Pin<Box<dyn Future<Output = TurnEnd<S, R>> + Send>>;

/// Does `work` until it is over, or `stop` tells that it was given up.
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

/// The work of a turn. If it is dropped before it is over, it is stopped in the background.
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
    /// Begins the turn that `work` does, which starts when it is asked for its [next](Exchange::next) event.
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
                    // A turn that came to nothing is not reported: another turn takes its place.
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

    /// Waits for the end of the work, and makes of it what is judged. A stop is judged as a stop, even if the reply came in the
    /// meantime; its session is not kept.
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

/// The end of a turn without any output of a process. The output of all sessions of a host is mixed, and contains the users'
/// words: none of it is told.
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
    // Its text at the moment of the stop is no refusal.
    ended.refused_flag = None;
    ended.refused_schema = None;
    ended
}

/// Keeps the session of a turn that has its reply, if it can continue.
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
        // The session does not wait for one of the calls, or can't tell it from another, so that its result can't be returned
        // natively.
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

/// The end of a process that was started ahead as `invocation` tells, and the reason why it takes no sessions; `None` if the end
/// tells none.
pub fn why_not_ready(invocation: Invocation, not_ready: &NotReady, limits: &ProcessLimits) -> (Option<String>, Ended) {
    let ended = invocation.clone().ended(not_ready.process.clone(), limits);
    let reason = not_ready.reason.clone().or_else(|| unsupported(&invocation, &ended));
    (reason, ended)
}

/// The reason why a process that ended without having answered the handshake takes no sessions; `None` if the end tells none.
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
