//! The task that has a session while no call does: it answers the CLI, and ends the session where it must.
//!
//! In: a session, and orders. Out: the session, when it is asked for, and how far it is with what it was sent ahead
//! ([`StartState`]).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::keep::{HANDSHAKE, Idle, Keepable};
use crate::exchange::EndedProcess;

/// What the task is to do.
pub(super) enum IdleCommand<S: Keepable> {
    /// Give the session away.
    Hand(oneshot::Sender<Box<S>>),
    /// Tell it this ahead of its first turn.
    Prime(Arc<S::Setup>),
}

/// The way to the task; dropping it ends the session.
pub(super) type IdleHandle<S> = mpsc::UnboundedSender<IdleCommand<S>>;

/// How far a process is that was started ahead.
#[derive(Debug, Clone)]
pub enum StartState {
    /// It has not answered yet.
    Starting,
    /// It has answered what it was sent ahead.
    Ready {
        /// That was its setup. Whoever has just ordered that may still see how it was before.
        is_primed: bool,
    },
    Failed(Arc<NotReady>),
}

/// Why a process that was started ahead takes no turn.
#[derive(Debug)]
pub struct NotReady {
    /// What it does not do; `None` where it has ended by itself.
    pub reason: Option<String>,
    /// How it has ended.
    pub process: EndedProcess,
}

/// Why a session is minded no longer.
enum End {
    /// The line was dropped.
    Unwanted,
    /// It was unused for too long.
    Expired,
    /// The process does not do what a session needs.
    Unsupported(String),
    /// The process has ended.
    Gone,
}

/// Minds `session` until it is called for over the returned line, or must end, at the latest after `longest`. When it ends,
/// `forget` is called, with whether it was unused for too long. The task is tracked by `tracker`.
pub(super) fn watch<S: Keepable>(
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
                        // A caller that has gone leaves the session in a state nobody knows.
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
                    Idle::Ready { is_primed } => tell(StartState::Ready { is_primed }),
                    Idle::Unsupported(reason) => break End::Unsupported(reason),
                    Idle::Ended => break End::Gone,
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

/// The session of the task at the other end; `None` if its process has died meanwhile.
pub(super) async fn fetch<S: Keepable>(line: IdleHandle<S>) -> Option<Box<S>> {
    let (caller, session) = oneshot::channel();
    line.send(IdleCommand::Hand(caller)).ok()?;
    session.await.ok()
}
