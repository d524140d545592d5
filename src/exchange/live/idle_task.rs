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
    Failed(Arc<NotReady>),
}

/// The reason why a process that was started ahead takes no turn.
#[derive(Debug)]
pub struct NotReady {
    /// The feature that it lacks; `None` if it has ended by itself.
    pub reason: Option<String>,
    /// The end of the process.
    pub process: EndedProcess,
}

/// The reason why the task stops watching a session.
enum End {
    /// The channel was dropped.
    Unwanted,
    /// The session was unused for too long.
    Expired,
    /// The process lacks something that a session needs.
    Unsupported(String),
    /// The process has ended.
    Gone,
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
        let end = loop {
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
                    None => break End::Unwanted,
                },
                idle = session.idle() => match idle {
                    Pulse::Ready { is_primed } => tell(StartState::Ready { is_primed }),
                    Pulse::Unsupported(reason) => break End::Unsupported(reason),
                    Pulse::Alive => {}
                    Pulse::TurnOver | Pulse::Ended | Pulse::Lost => break End::Gone,
                },
                () = sleep_until(answers_by.unwrap_or(expires)), if answers_by.is_some() => {
                    let limit = HANDSHAKE.as_secs();
                    break End::Unsupported(format!("it did not answer the handshake within {limit} s"));
                }
                () = sleep_until(expires) => break End::Expired,
            }
        };
        forget(matches!(end, End::Expired));
        let (reason, has_ended) = match end {
            End::Unwanted | End::Expired => return session.end(),
            End::Unsupported(reason) => (Some(reason), false),
            End::Gone => (None, true),
        };
        if let Some(process) = session.ended(has_ended).await {
            tell(StartState::Failed(Arc::new(NotReady { reason, process })));
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
