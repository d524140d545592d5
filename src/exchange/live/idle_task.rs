//! The task that holds a session while no call does: it answers the CLI, and ends the session when necessary.
//!
//! In: a session, and commands. Out: the session, when it is asked for, and the progress of its start ([`StartState`]).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::session::{HANDSHAKE, Pulse, Session};
use crate::EndedProcess;

/// A command to the task.
pub(super) enum IdleCommand<S: Session> {
    /// Hand over the session.
    Hand(oneshot::Sender<Box<S>>),
    /// Send this setup ahead of the first turn.
    Prime(Arc<S::Setup>),
}

/// The channel to the task; dropping it ends the session.
pub(super) type IdleHandle<S> = mpsc::UnboundedSender<IdleCommand<S>>;

/// The progress of a process that was started ahead.
#[derive(Debug, Clone)]
pub enum StartState {
    /// The process has not answered yet.
    Starting,
    /// The process has answered what it was sent ahead.
    Ready {
        /// True if that was its setup. Whoever has just ordered the setup may still see the state before.
        is_primed: bool,
    },
    /// The process takes no turn.
    Failed {
        /// The feature that it lacks; `None` if it has ended by itself.
        reason: Option<String>,
        /// The end of the process.
        process: Box<EndedProcess>,
    },
}

/// Watches `session` until it is fetched through the returned channel, or must end, at the latest after `longest`. When it ends,
/// `forget` is called with whether it was unused for too long. The task is tracked by `tracker`.
pub(super) fn watch<S: Session>(
    mut session: S,
    longest: Duration,
    start_state: Option<watch::Sender<StartState>>,
    tracker: &TaskTracker,
    forget: impl FnOnce(bool) + Send + 'static,
) -> IdleHandle<S> {
    let (line, mut orders) = mpsc::unbounded_channel();
    tracker.spawn(async move {
        let tell = |now| {
            if let Some(start_state) = &start_state {
                start_state.send_replace(now);
            }
        };
        let expires = Instant::now() + longest;
        let reason = loop {
            let answers_by = session.answers_by();
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(IdleCommand::Hand(caller)) => {
                        // A caller that is gone leaves the session in an unknown state.
                        if let Err(session) = caller.send(Box::new(session)) {
                            session.end();
                        }
                        return;
                    }
                    Some(IdleCommand::Prime(setup)) => {
                        tell(StartState::Starting);
                        session.prime(&setup);
                    }
                    None => {
                        forget(false);
                        return session.end();
                    }
                },
                idle = session.idle() => match idle {
                    Pulse::Ready { is_primed } => tell(StartState::Ready { is_primed }),
                    Pulse::Unsupported(reason) => break Some(reason),
                    Pulse::Alive => {}
                    Pulse::TurnOver | Pulse::Ended | Pulse::Lost => break None,
                },
                () = sleep_until(answers_by.unwrap_or(expires)), if answers_by.is_some() => {
                    let limit = HANDSHAKE.as_secs();
                    break Some(format!("it did not answer the handshake within {limit} s"));
                }
                () = sleep_until(expires) => {
                    forget(true);
                    return session.end();
                }
            }
        };
        forget(false);
        if let Some(process) = session.ended(reason.is_none()).await {
            let process = Box::new(process);
            tell(StartState::Failed { reason, process });
        }
    });
    line
}

/// Fetches the session from the task at the other end; `None` if its process has died meanwhile.
pub(super) async fn fetch<S: Session>(line: IdleHandle<S>) -> Option<Box<S>> {
    let (caller, session) = oneshot::channel();
    line.send(IdleCommand::Hand(caller)).ok()?;
    session.await.ok()
}
