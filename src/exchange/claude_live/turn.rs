//! One turn of a live session as an exchange.
//!
//! Whatever a turn comes to but a reply ends its session: the CLI keeps a failed turn in its history (CLI-FACTS 1.6), and no
//! thread shall hear of another.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep_until;

use super::readiness::Handshake;
use super::session::{Pulse, Session};
use super::setup::Setup;
use crate::classify;
use crate::event::{Event, Reply};
use crate::exchange::live::keep::HANDSHAKE;
use crate::exchange::live::minding::NotReady;
use crate::exchange::live::thread::Pending;
use crate::exchange::{Ended, Evidence, Exchange, Finish, Invocation, Progress, ProviderCallId, StopReason};
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
pub type Park = Box<dyn FnOnce(Option<(Session, Vec<Pending>)>, &Reply) + Send>;

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
pub struct LiveTurn {
    session: Session,
    invocation: Invocation,
    limits: Limits,
    origin: Origin,
    end: TurnEnd,
    park: Park,
}

impl LiveTurn {
    /// Begins a turn of `session`, a process that was started as `invocation` says, with the user line `user`.
    pub fn begin(
        mut session: Session,
        (user, setup): (&str, &Arc<Setup>),
        invocation: Invocation,
        origin: Origin,
        limits: Limits,
        park: Park,
    ) -> LiveTurn {
        session.begin(user, setup);
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

impl Exchange for LiveTurn {
    type Unusable = Unusable;

    fn pid(&self) -> Option<u32> {
        Some(self.session.process().pid())
    }

    fn has_begun(&self) -> bool {
        // Of a process that has waited nobody knows yet whether it is still there.
        self.origin == Origin::Fresh || self.session.turn_lines() > 0
    }

    fn elapsed(&self) -> Duration {
        self.session.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.session.turn_bytes() as u64
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
                    stdout_tail: session.turn_tail(),
                });
                Finish::Ended(Box::new(Ended {
                    on_verdict: Some(Box::new(move |verdict| match verdict {
                        Some((reply, calls)) => keep(session, calls, reply, park),
                        None => session.end(),
                    })),
                    ..Ended::new(evidence)
                }))
            }
            TurnEnd::ProcessGone if origin != Origin::Fresh && session.turn_lines() == 0 => {
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
fn keep(session: Session, calls: &[ProviderCallId], reply: &Reply, park: Park) {
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
