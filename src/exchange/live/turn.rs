//! One turn of a session as an exchange, for every form.
//!
//! In: a [`Session`], and the input of its turn. Out: the [`Exchange`] that the driver polls. There is no task in between: the
//! session works while [`Exchange::next`] is awaited, and stands still until its [reports](Report::tell) are taken. A turn that ends without
//! a reply ends its session: CLIs keep a failed turn in their history, and a thread must not see another's messages.
//!
//! A session in a process that serves many reads its turn message by message: [`TurnFacts`] is what the turn's outcome will tell.

use std::collections::HashSet;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::session::{Origin, Session, TurnInput, TurnStep, push_outcome};
use super::thread::Pending;
use crate::host::of_exit;
use crate::{Ended, EndedProcess, Evidence, Exchange, Invocation, ProviderCallId, StopReason, Unusable};
use dfp_model::event::{Event, Failure, Outcome, Reply};
use dfp_model::message::Usage;
use dfp_process::{Exit, ProcessLimits};
use dfp_provider::classify;
use dfp_provider::judge::{ProcessEnd, ProcessEvidence, TurnEvidence};

/// A session that continues, with its open calls.
#[derive(Debug)]
pub struct Kept<S> {
    pub session: S,
    /// The calls for whose results it waits.
    pub pending: Vec<Pending>,
}

/// Stores what a turn with a reply leaves: the session, if it can continue, and the facts known of the reply.
pub type Park<S> = Box<dyn FnOnce(Option<Kept<S>>, &Reply, <S as Session>::ReplyFacts) + Send>;

/// The way in which a turn has ended. `R`: the facts known of the reply beside its events.
#[derive(Debug)]
pub enum TurnEnd<R> {
    /// The reply has come.
    Reply {
        /// True if the session may take the thread's next turn; otherwise it ends.
        goes_on: bool,
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
    },
    /// The process is going or gone.
    ProcessGone {
        /// Its end, if that is known already; otherwise the session waits for it.
        process: Option<Box<EndedProcess>>,
        /// True if it had answered the handshake: then its end says nothing about the CLI's abilities.
        is_handshaken: bool,
    },
    /// The turn was stopped. The value is the end of the process, if it serves this session alone.
    Stopped(Option<Box<EndedProcess>>),
}

impl<R> TurnEnd<R> {
    /// Makes the end of a turn with a reply whose events have told everything.
    pub fn reply(goes_on: bool, known: R) -> TurnEnd<R> {
        TurnEnd::Reply {
            goes_on,
            known,
            diagnostics: Vec::new(),
            stdout_tail: String::new(),
        }
    }

    /// Returns whether the session is still needed when the turn is judged: to be kept, or to tell how its process has ended.
    fn needs_session(&self) -> bool {
        match self {
            TurnEnd::Reply { goes_on, .. } => *goes_on,
            TurnEnd::Unsupported { .. } => true,
            TurnEnd::ProcessGone { process, .. } => process.is_none(),
            TurnEnd::Failed | TurnEnd::Vanished | TurnEnd::Stopped(_) => false,
        }
    }
}

/// The parts with which a turn is begun.
pub struct TurnStart<'a, S: Session> {
    /// The facts of the process's start.
    pub invocation: Invocation,
    /// The limits of the turn.
    pub limits: ProcessLimits,
    /// Tracks the rest of a turn that nobody awaits any more.
    pub tracker: &'a TaskTracker,
    /// Stores the session, if it may continue.
    pub park: Park<S>,
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
    pub fn fail<R>(&self, failure: Failure) -> TurnEnd<R> {
        self.fail_with(failure, Outcome::default())
    }

    /// Fails the turn like [`Report::fail`], with the facts known of it.
    pub fn fail_with<R>(&self, failure: Failure, known: Outcome) -> TurnEnd<R> {
        let outcome = Outcome {
            is_error: true,
            ..known
        };
        self.push([Event::Failure(failure), Event::Outcome(Box::new(outcome))]);
        TurnEnd::Failed
    }

    /// Ends a turn whose host is gone, with its `exit` if that is known; `failure` tells the reason if the system does not.
    pub fn host_gone<R>(&self, exit: Option<&Exit>, failure: Failure) -> TurnEnd<R> {
        // A signal tells the reason itself; an exit code, and the log on standard error, do not.
        if exit.is_none_or(|exit| exit.signal.is_none()) {
            self.push([Event::Failure(failure)]);
        }
        match exit {
            Some(exit) => TurnEnd::ProcessGone {
                process: Some(Box::new(of_exit(exit))),
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

/// The end of a turn, and its session if that is still needed.
type EndedTurn<S> = (TurnEnd<<S as Session>::ReplyFacts>, Option<Box<S>>);

type Working<S> = Pin<Box<dyn Future<Output = EndedTurn<S>> + Send>>;

/// Makes the turn `turn` of `session` to its end, or until `stop` tells that it was given up.
async fn work<S: Session>(
    mut session: Box<S>,
    turn: TurnInput<S>,
    report: Report,
    stop: CancellationToken,
    kill_grace: Duration,
) -> EndedTurn<S> {
    let end = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        end = session.turn(turn, &report) => Some(end),
    };
    match end {
        Some(end) if end.needs_session() => (end, Some(session)),
        Some(end) => {
            session.end();
            (end, None)
        }
        None => (TurnEnd::Stopped(session.stop(kill_grace).await.map(Box::new)), None),
    }
}

/// The work of a turn. If it is dropped before it is over, it is stopped in the background.
struct Going<S: Session> {
    working: Option<Working<S>>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl<S: Session> Going<S> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<EndedTurn<S>>> {
        let Some(working) = &mut self.working else {
            return Poll::Ready(None);
        };
        let over = std::task::ready!(working.as_mut().poll(context));
        self.working = None;
        Poll::Ready(Some(over))
    }
}

impl<S: Session> Drop for Going<S> {
    fn drop(&mut self) {
        if let Some(working) = self.working.take() {
            self.stop.cancel();
            self.tracker.spawn(working);
        }
    }
}

/// A turn under way.
pub struct Turn<S: Session> {
    going: Going<S>,
    report: Report,
    over: Option<EndedTurn<S>>,
    reason: Option<StopReason>,
    began: Instant,
    pid: u32,
    invocation: Invocation,
    limits: ProcessLimits,
    park: Park<S>,
}

impl<S: Session> Turn<S> {
    /// Begins the turn `turn` of `session`, which starts when it is asked for its [next](Exchange::next) event.
    pub fn begin(session: Box<S>, turn: TurnInput<S>, start: TurnStart<'_, S>) -> Turn<S> {
        let report = Report::default();
        // A process that has waited may be gone, and so may a host: their turns have not begun before they answer.
        if turn.origin == Origin::Fresh && session.host().is_none() {
            report.begun();
        }
        let (stop, kill_grace) = (CancellationToken::new(), start.limits.kill_grace);
        Turn {
            pid: session.pid(),
            going: Going {
                working: Some(Box::pin(work(session, turn, report.clone(), stop.clone(), kill_grace))),
                stop,
                tracker: start.tracker.clone(),
            },
            report,
            over: None,
            reason: None,
            began: Instant::now(),
            invocation: start.invocation,
            limits: start.limits,
            park: start.park,
        }
    }
}

#[async_trait]
impl<S: Session> Exchange for Turn<S> {
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
    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        poll_fn(|context| {
            let over = self.going.poll(context);
            let is_news = self.report.take(events);
            match over {
                Poll::Ready(Some(over)) => {
                    // A turn that came to nothing is not reported: another turn takes its place.
                    if !matches!(over.0, TurnEnd::Vanished | TurnEnd::Unsupported { .. }) {
                        self.report.begun();
                    }
                    self.over = Some(over);
                    Poll::Ready(ControlFlow::Break(()))
                }
                Poll::Ready(None) => Poll::Ready(ControlFlow::Break(())),
                Poll::Pending if is_news => Poll::Ready(ControlFlow::Continue(())),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn stop(&mut self, reason: StopReason) {
        self.reason = Some(reason);
        self.going.stop.cancel();
    }

    /// Waits for the end of the turn, and makes of it what is judged. A stop is judged as a stop, even if the reply came in the
    /// meantime; its session is not kept.
    async fn finish(mut self: Box<Self>) -> Result<Box<Ended>, Unusable> {
        if let Some(over) = poll_fn(|context| self.going.poll(context)).await {
            self.over = Some(over);
        }
        let Turn {
            over,
            reason,
            report,
            invocation,
            limits,
            park,
            ..
        } = *self;
        let (end, session) = over.unwrap_or((TurnEnd::Failed, None));
        if let Some(reason) = reason {
            if let Some(session) = session {
                session.end();
            }
            return Ok(Box::new(Ended {
                has_side_effects: report.reported().has_acted,
                ..match end {
                    TurnEnd::Stopped(Some(process)) => stopped(invocation.ended(*process, &limits), reason),
                    _ => of_turn(invocation, Some(reason)),
                }
            }));
        }
        let mut ended = match end {
            TurnEnd::Reply {
                known,
                diagnostics,
                stdout_tail,
                ..
            } => Ended {
                on_verdict: Some(Box::new(move |verdict| keep(session, verdict, known, park))),
                ..Ended::new(Evidence::Turn(TurnEvidence {
                    wire: invocation.wire,
                    flags: invocation.flags,
                    stopped: None,
                    diagnostics,
                    stdout_tail,
                }))
            },
            TurnEnd::Failed | TurnEnd::Stopped(_) => of_turn(invocation, None),
            TurnEnd::Vanished => return Err(Unusable::Vanished),
            TurnEnd::Unsupported { reason, may_have_asked } => {
                let process = match session {
                    Some(session) => session.ended(false).await,
                    None => None,
                };
                let ended = process.map(|process| Box::new(invocation.ended(process, &limits)));
                return Err(Unusable::Unsupported {
                    reason,
                    may_have_asked,
                    ended,
                });
            }
            TurnEnd::ProcessGone { process, is_handshaken } => {
                let process = match (process, session) {
                    (Some(process), _) => Some(*process),
                    (None, Some(session)) => session.ended(true).await,
                    (None, None) => None,
                };
                let Some(process) = process else {
                    return Ok(Box::new(of_turn(invocation, None)));
                };
                let ended = invocation.clone().ended(process, &limits);
                if let Some(reason) = unsupported(&invocation, &ended).filter(|_| !is_handshaken) {
                    return Err(Unusable::Unsupported {
                        reason,
                        may_have_asked: false,
                        ended: Some(Box::new(ended)),
                    });
                }
                ended
            }
        };
        ended.has_side_effects = report.reported().has_acted;
        Ok(Box::new(ended))
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
fn keep<S: Session>(
    session: Option<Box<S>>,
    verdict: Option<(&Reply, &[ProviderCallId])>,
    known: S::ReplyFacts,
    park: Park<S>,
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
/// tells none. `reason` is the one that is known beside its end.
pub fn why_not_ready(
    invocation: Invocation,
    reason: Option<String>,
    process: EndedProcess,
    limits: &ProcessLimits,
) -> (Option<String>, Ended) {
    let ended = invocation.clone().ended(process, limits);
    (reason.or_else(|| unsupported(&invocation, &ended)), ended)
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

/// The facts of a turn that is being read.
#[derive(Debug)]
pub struct TurnFacts {
    pub session: String,
    /// The model that answers; empty as long as it is not known.
    pub model: String,
    /// The usage of all requests of the turn, as far as the API tells it.
    pub usage: Option<Usage>,
    /// The reason why the last answer ended, if the API tells it.
    pub stop_reason: Option<String>,
}

impl TurnFacts {
    /// The facts at the beginning of a turn in `session`.
    pub fn new(session: &str, model: &str) -> TurnFacts {
        TurnFacts {
            session: session.to_owned(),
            model: model.to_owned(),
            usage: None,
            stop_reason: None,
        }
    }

    /// Adds the usage of a further request.
    pub fn add_usage(&mut self, usage: Option<Usage>) {
        match (&mut self.usage, usage) {
            (Some(sum), Some(usage)) => sum.add(&usage),
            (sum, usage) => *sum = sum.take().or(usage),
        }
    }

    /// Ends the turn with `failure`.
    pub fn failed(&self, failure: Failure, events: &mut Vec<Event>) -> TurnStep {
        events.push(Event::Failure(failure));
        self.push(true, events);
        TurnStep::Failed
    }

    /// Ends the turn with its reply.
    pub fn replied(&self, events: &mut Vec<Event>) -> TurnStep {
        self.push(false, events);
        TurnStep::Reply
    }

    fn push(&self, is_error: bool, events: &mut Vec<Event>) {
        let outcome = Outcome {
            is_error,
            usage: self.usage.clone(),
            stop_reason: self.stop_reason.clone(),
            session_id: Some(self.session.clone()),
            model: Some(self.model.clone()).filter(|model| !model.is_empty()),
            ..Outcome::default()
        };
        push_outcome(outcome, events);
    }
}

#[cfg(test)]
mod tests;
