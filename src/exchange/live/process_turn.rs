//! A turn in a session with a process of its own: the part that is the same for every form.
//!
//! In: a [`Session`] whose turn has just begun. Out: its events, until the turn's result has come, or the process is gone.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::session::{HANDSHAKE, Handshake, Origin, Pulse, Session};
use super::turn::{Report, TurnEnd};
use crate::EndedProcess;
use dfp_model::event::{Event, Failure, Outcome};

/// The time that an interrupted turn may take to say so before its process is asked to end: 1 ms on an idle machine.
const INTERRUPT: Duration = Duration::from_millis(500);

/// The time that a process that has waited for a turn may take to print something of it: claude and qwen print a line of their
/// own before they ask their API, in milliseconds on an idle machine. A process that prints nothing is stopped or hangs, and the
/// model has seen nothing of the turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// The events of a turn that fails for a reason that the CLI does not report as one.
pub fn failed_turn(failure: Failure) -> [Event; 2] {
    let outcome = Outcome {
        is_error: true,
        ..Outcome::default()
    };
    [Event::Failure(failure), Event::Outcome(Box::new(outcome))]
}

/// Reports the events of the turn that `session` has begun, until its end. A process that had waited and prints nothing for
/// `PATIENCE`, or ends without having printed anything, has vanished: another one can take the turn. `known` gets the facts known of
/// a reply.
pub async fn read<S: Session>(
    session: &mut S,
    origin: Origin,
    report: &Report,
    known: impl FnOnce(&mut S) -> S::ReplyFacts,
) -> TurnEnd<S::ReplyFacts> {
    let mut events = Vec::new();
    let overdue = Instant::now() + PATIENCE;
    let pulse = loop {
        let has_waited = origin != Origin::Fresh && session.handshake() == Handshake::Done;
        let is_silent = has_waited && lines(session) == 0;
        let pulse = tokio::select! {
            biased;
            pulse = pulse(session, &mut events) => pulse,
            () = sleep_until(overdue), if is_silent => return TurnEnd::Vanished,
        };
        report.received(session.figures().map_or(0, |figures| figures.bytes as u64));
        // Until a process that has waited prints something, nobody knows whether it is still there.
        if lines(session) > 0 {
            report.begun();
        }
        match pulse {
            Pulse::Alive | Pulse::Ready { .. } => report.tell(&mut events).await,
            pulse => break pulse,
        }
    };
    report.push(events);
    let is_handshaken = session.handshake() == Handshake::Done;
    match pulse {
        Pulse::Alive | Pulse::Ready { .. } | Pulse::TurnOver => TurnEnd::Reply {
            goes_on: true,
            known: known(session),
            diagnostics: session.diagnostics().to_vec(),
            stdout_tail: session.figures().map(|figures| figures.tail()).unwrap_or_default(),
        },
        Pulse::Unsupported(reason) => TurnEnd::Unsupported {
            reason,
            may_have_asked: is_handshaken,
        },
        Pulse::Lost => TurnEnd::Vanished,
        Pulse::Ended if origin != Origin::Fresh && lines(session) == 0 => TurnEnd::Vanished,
        Pulse::Ended => TurnEnd::ProcessGone {
            process: None,
            is_handshaken,
        },
    }
}

/// The number of lines of the turn.
fn lines(session: &impl Session) -> u64 {
    session.figures().map_or(0, |figures| figures.lines)
}

/// Waits for the next line in the turn of `session`; a CLI that is asked for the handshake has to answer it in time.
async fn pulse<S: Session>(session: &mut S, events: &mut Vec<Event>) -> Pulse {
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

/// Asks the CLI to stop the turn, waits a moment for its result or its end, and ends the process.
pub async fn stop<S: Session>(mut session: S, kill_grace: Duration) -> Option<EndedProcess> {
    session.say_interrupt();
    let mut unheard = Vec::new();
    let over = async {
        while session.next(&mut unheard).await == Pulse::Alive {
            unheard.clear();
        }
    };
    let _ = tokio::time::timeout(INTERRUPT.min(kill_grace), over).await;
    session.ended(false).await
}
