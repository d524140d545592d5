//! One turn of a live session that is a process of its own, as an exchange.
//!
//! Whatever a turn comes to but a reply ends its session: the CLI keeps a failed turn in its history (CLI-FACTS 1.6), and no
//! thread shall hear of another.

use std::future::pending;
use std::time::Duration;

use tokio::time::sleep_until;

use super::keep::{HANDSHAKE, Handshake, Keepable};
use super::minding::NotReady;
use super::streams::Figures;
use super::thread::Pending;
use crate::classify;
use crate::event::{Event, Reply};
use crate::exchange::{
    Ended, EndedProcess, Evidence, Exchange, Finish, Invocation, Progress, ProviderCallId, StopReason,
};
use crate::judge::{ProcessEnd, ProcessEvidence, TurnEvidence};
use crate::process::Limits;

/// How long a turn that is interrupted may take to say so before its process is asked to end: 1 ms on an idle machine.
const INTERRUPT: Duration = Duration::from_millis(500);

/// Where a turn's session comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Started for it.
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

/// Keeps a session that can go on for the thread's next call: with the calls whose results it waits for. None that can't.
pub type Park<S> = Box<dyn FnOnce(Option<(S, Vec<Pending>)>, &Reply) + Send>;

/// What [`ProcessSession::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Pulse {
    /// A line, and perhaps events.
    Alive,
    /// The turn's result is among the events.
    TurnOver,
    /// The CLI does not do what a session needs; the reason.
    Unsupported(String),
    /// Standard output has ended: the process is going or gone.
    Ended,
}

/// A session that is a process of its own and takes one turn after the other.
pub trait ProcessSession: Keepable {
    /// Waits for the next line of the turn; what it means goes to `events`. Cancel safe.
    fn next(&mut self, events: &mut Vec<Event>) -> impl Future<Output = Pulse> + Send;

    /// Asks the CLI to stop the turn, and waits for its result or its end, `patience` at most.
    fn interrupt(&mut self, patience: Duration) -> impl Future<Output = ()> + Send;

    /// Ends the process and waits until nothing of it is left.
    fn finish(self) -> impl Future<Output = EndedProcess> + Send;

    /// Waits for the exit of a process whose output has [ended](Pulse::Ended).
    fn finished(self) -> impl Future<Output = EndedProcess> + Send;

    /// How far the handshake is.
    fn handshake(&self) -> Handshake;

    /// The figures of the turn.
    fn figures(&self) -> &Figures;

    /// Lines of this turn that were no events.
    fn diagnostics(&self) -> &[String];

    /// The CLI's version, where it has reported it when it was [asked](Keepable::ask_version).
    fn version(&self) -> Option<&str> {
        None
    }

    /// Whether it can take no more turns, though nothing is wrong with it.
    fn is_worn_out(&self) -> bool {
        false
    }
}

/// Why [`LiveTurn::next`] is over.
#[derive(Debug)]
enum TurnEnd {
    /// The turn has its result.
    Result,
    /// The process is going or gone.
    ProcessGone,
    Unsupported(String),
    Stopped(StopReason),
}

/// A turn under way.
pub struct LiveTurn<S: ProcessSession> {
    session: S,
    invocation: Invocation,
    limits: Limits,
    origin: Origin,
    end: TurnEnd,
    park: Park<S>,
}

impl<S: ProcessSession> LiveTurn<S> {
    /// The turn that `session`, a process that was started as `invocation` says, has just begun.
    pub fn of(session: S, invocation: Invocation, origin: Origin, limits: Limits, park: Park<S>) -> LiveTurn<S> {
        LiveTurn {
            session,
            invocation,
            limits,
            origin,
            end: TurnEnd::ProcessGone,
            park,
        }
    }
}

impl<S: ProcessSession> Exchange for LiveTurn<S> {
    type Unusable = Unusable;

    fn pid(&self) -> Option<u32> {
        Some(self.session.pid())
    }

    fn has_begun(&self) -> bool {
        // Of a process that has waited nobody knows yet whether it is still there.
        self.origin == Origin::Fresh || self.session.figures().lines > 0
    }

    fn elapsed(&self) -> Duration {
        self.session.figures().began.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.session.figures().bytes as u64
    }

    /// Cancel safe.
    async fn next(&mut self, events: &mut Vec<Event>) -> Progress {
        let handshake = match self.session.handshake() {
            Handshake::Asked(asked) => Some(asked + HANDSHAKE),
            _ => None,
        };
        let handshake_late = async {
            match handshake {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        let pulse = tokio::select! {
            biased;
            () = handshake_late => {
                Pulse::Unsupported(format!("it did not answer the handshake within {} s", HANDSHAKE.as_secs()))
            }
            pulse = self.session.next(events) => pulse,
        };
        self.end = match pulse {
            Pulse::Alive => return Progress::More,
            Pulse::TurnOver => TurnEnd::Result,
            Pulse::Unsupported(reason) => TurnEnd::Unsupported(reason),
            Pulse::Ended => TurnEnd::ProcessGone,
        };
        Progress::Over
    }

    fn stop(&mut self, reason: StopReason) {
        self.end = TurnEnd::Stopped(reason);
    }

    async fn finish(self) -> Finish<Unusable> {
        let LiveTurn {
            mut session,
            invocation,
            limits,
            origin,
            end,
            park,
        } = self;
        match end {
            TurnEnd::Result => {
                let evidence = Evidence::Turn(TurnEvidence {
                    wire: invocation.wire,
                    flags: invocation.flags,
                    stopped: None,
                    diagnostics: session.diagnostics().to_vec(),
                    stdout_tail: session.figures().tail(),
                });
                Finish::Ended(Box::new(Ended {
                    on_verdict: Some(Box::new(move |verdict| match verdict {
                        Some((reply, calls)) => keep(session, calls, reply, park),
                        None => session.end(),
                    })),
                    ..Ended::new(evidence)
                }))
            }
            TurnEnd::ProcessGone if origin != Origin::Fresh && session.figures().lines == 0 => {
                session.end();
                Finish::Unusable(Unusable::Vanished, None)
            }
            TurnEnd::ProcessGone => {
                let is_handshaken = session.handshake() == Handshake::Done;
                let process = session.finished().await;
                let ended = invocation.clone().ended(process, &limits);
                match unsupported(&invocation, &ended).filter(|_| !is_handshaken) {
                    Some(reason) => {
                        let may_have_asked = false;
                        Finish::Unusable(Unusable::Unsupported { reason, may_have_asked }, Some(Box::new(ended)))
                    }
                    None => Finish::Ended(Box::new(ended)),
                }
            }
            TurnEnd::Unsupported(reason) => {
                let may_have_asked = session.handshake() == Handshake::Done;
                let ended = invocation.ended(session.finish().await, &limits);
                Finish::Unusable(Unusable::Unsupported { reason, may_have_asked }, Some(Box::new(ended)))
            }
            TurnEnd::Stopped(reason) => {
                session.interrupt(INTERRUPT.min(limits.kill_grace)).await;
                let mut ended = invocation.ended(session.finish().await, &limits);
                if let Evidence::Process(process) = &mut ended.evidence {
                    process.end = ProcessEnd::Stopped(reason);
                }
                // Its text when it was stopped is no refusal.
                ended.refused_flag = None;
                Finish::Ended(Box::new(ended))
            }
        }
    }
}

/// The session of a turn that has its reply goes on, if it can.
fn keep<S: ProcessSession>(session: S, calls: &[ProviderCallId], reply: &Reply, park: Park<S>) {
    let pending = |call: &ProviderCallId| Pending {
        api: call.provider.clone(),
        id: call.id.clone(),
    };
    if calls.len() == reply.tool_calls.len() {
        park(Some((session, calls.iter().map(pending).collect())), reply);
    } else {
        // A call that the session does not wait for: no result of it can be returned natively.
        session.end();
        park(None, reply);
    }
}

/// The end of a process that was started ahead as `invocation` says, and why it takes no sessions; `None` where the end says nothing
/// of that.
pub fn why_not_ready(invocation: Invocation, not_ready: &NotReady, limits: &Limits) -> (Option<String>, Ended) {
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
