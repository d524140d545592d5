//! The work of a turn in a session that is a process of its own.
//!
//! In: a [`ProcessSession`] whose turn has just begun. Out: its events, until the turn's result has come, or the process is gone.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::keep::{HANDSHAKE, Handshake, Keepable};
use super::streams::Figures;
use super::turn::{Origin, Report, TurnEnd, Work};
use crate::EndedProcess;
use dfp_model::event::{Event, Failure, Outcome};

/// The time that an interrupted turn may take to say so before its process is asked to end: 1 ms on an idle machine.
const INTERRUPT: Duration = Duration::from_millis(500);

/// The time that a process that has waited for a turn may take to print something of it: claude and qwen print a line of their
/// own before they ask their API, in milliseconds on an idle machine. A process that prints nothing is stopped or hangs, and the
/// model has seen nothing of the turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of [`ProcessSession::next`].
#[derive(Debug, PartialEq, Eq)]
pub enum Pulse {
    /// A line came, and perhaps events.
    Alive,
    /// The turn's result is among the events.
    TurnOver,
    /// The CLI lacks something that a session needs; the reason.
    Unsupported(String),
    /// Standard output has ended: the process is going or gone.
    Ended,
}

/// The events of a turn that fails for a reason that the CLI does not report as one.
pub fn failed_turn(failure: Failure) -> [Event; 2] {
    let outcome = Outcome {
        is_error: true,
        ..Outcome::default()
    };
    [Event::Failure(failure), Event::Outcome(Box::new(outcome))]
}

/// A session that is a process of its own and takes one turn after the other.
pub trait ProcessSession: Keepable {
    /// Waits for the next line of the turn, and adds its meaning to `events`. Cancel safe.
    fn next(&mut self, events: &mut Vec<Event>) -> impl Future<Output = Pulse> + Send;

    /// Queues the request to stop the turn.
    fn say_interrupt(&mut self);

    /// Asks the CLI to stop the turn, and waits for its result or its end, `patience` at most.
    fn interrupt(&mut self, patience: Duration) -> impl Future<Output = ()> + Send {
        async move {
            self.say_interrupt();
            let mut unheard = Vec::new();
            let over = async {
                while self.next(&mut unheard).await == Pulse::Alive {
                    unheard.clear();
                }
            };
            let _ = tokio::time::timeout(patience, over).await;
        }
    }

    /// Ends the process and waits until nothing of it is left.
    fn finish(self) -> impl Future<Output = EndedProcess> + Send;

    /// Waits for the exit of a process whose output has [ended](Pulse::Ended).
    fn finished(self) -> impl Future<Output = EndedProcess> + Send;

    /// The progress of the handshake.
    fn handshake(&self) -> Handshake;

    /// The figures of the turn.
    fn figures(&self) -> &Figures;

    /// The lines of this turn that were no events.
    fn diagnostics(&self) -> &[String];

    /// The CLI's version, if the CLI has reported it when it was [asked](Keepable::ask_version).
    fn version(&self) -> Option<&str> {
        None
    }

    /// Returns whether the session can take no more turns, though nothing is wrong with it.
    fn is_worn_out(&self) -> bool {
        false
    }
}

/// A turn that has just begun in a process.
pub struct ProcessWork<S: ProcessSession> {
    /// The session, until its turn is over.
    session: Option<S>,
    origin: Origin,
    kill_grace: Duration,
}

impl<S: ProcessSession> ProcessWork<S> {
    /// The work of the turn that `session` has just begun. If the turn is given up, the process is killed `kill_grace` after it
    /// was asked to end.
    pub fn new(session: S, origin: Origin, kill_grace: Duration) -> ProcessWork<S> {
        ProcessWork {
            session: Some(session),
            origin,
            kill_grace,
        }
    }
}

/// Waits for the next line in the turn of `session`; a CLI that is asked for the handshake has to answer it in time.
async fn pulse<S: ProcessSession>(session: &mut S, events: &mut Vec<Event>) -> Pulse {
    let handshake = match session.handshake() {
        Handshake::Asked(asked) => Some(asked + HANDSHAKE),
        _ => None,
    };
    let handshake_late = async {
        match handshake {
            Some(deadline) => sleep_until(deadline).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        () = handshake_late => {
            Pulse::Unsupported(format!("it did not answer the handshake within {} s", HANDSHAKE.as_secs()))
        }
        pulse = session.next(events) => pulse,
    }
}

impl<S: ProcessSession> Work for ProcessWork<S> {
    type Session = S;
    type ReplyFacts = ();

    /// Reports the turn's events until its end. A process that had waited and prints nothing for `PATIENCE`, or ends without
    /// having printed anything, has vanished: another one can take the turn.
    async fn turn(&mut self, report: &Report) -> TurnEnd<S, ()> {
        let mut events = Vec::new();
        let overdue = Instant::now() + PATIENCE;
        let pulse = loop {
            let Some(session) = &mut self.session else {
                return TurnEnd::Vanished;
            };
            let has_waited = self.origin != Origin::Fresh && session.handshake() == Handshake::Done;
            let is_silent = has_waited && session.figures().lines == 0;
            let pulse = tokio::select! {
                biased;
                pulse = pulse(session, &mut events) => pulse,
                () = sleep_until(overdue), if is_silent => {
                    if let Some(session) = self.session.take() {
                        session.end();
                    }
                    return TurnEnd::Vanished;
                }
            };
            report.received(session.figures().bytes as u64);
            // Until a process that has waited prints something, nobody knows whether it is still there.
            if session.figures().lines > 0 {
                report.begun();
            }
            match pulse {
                Pulse::Alive => report.tell(&mut events).await,
                pulse => break pulse,
            }
        };
        report.push(events);
        let Some(session) = self.session.take() else {
            return TurnEnd::Vanished;
        };
        let is_handshaken = session.handshake() == Handshake::Done;
        match pulse {
            Pulse::Alive | Pulse::TurnOver => TurnEnd::Reply {
                known: (),
                diagnostics: session.diagnostics().to_vec(),
                stdout_tail: session.figures().tail(),
                session: Some(Box::new(session)),
            },
            Pulse::Unsupported(reason) => TurnEnd::Unsupported {
                reason,
                may_have_asked: is_handshaken,
                process: Some(Box::pin(session.finish())),
            },
            Pulse::Ended if self.origin != Origin::Fresh && session.figures().lines == 0 => {
                session.end();
                TurnEnd::Vanished
            }
            Pulse::Ended => TurnEnd::ProcessGone {
                process: Box::pin(session.finished()),
                is_handshaken,
            },
        }
    }

    async fn stop(self) -> Option<EndedProcess> {
        let mut session = self.session?;
        session.interrupt(INTERRUPT.min(self.kill_grace)).await;
        Some(session.finish().await)
    }

    fn end(self) {
        if let Some(session) = self.session {
            session.end();
        }
    }
}
