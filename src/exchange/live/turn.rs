//! One turn of a session of a process that serves many, as an exchange.
//!
//! A task of the form's own does it; [`TaskTurn`] hands on what that finds. Whatever a turn comes to but a reply ends its session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::keep::Keepable;
use super::process_turn::Unusable;
use super::thread::Pending;
use crate::event::{Event, Reply};
use crate::exchange::host::of_exit;
use crate::exchange::{Ended, Evidence, Exchange, Finish, Invocation, Progress, ProviderCallId, StopReason};
use crate::judge::TurnEvidence;
use crate::process::{Exit, Limits};

/// How many events may wait for who drives the turn.
pub const QUEUE: usize = 256;

/// What the task of a turn comes to. `R`: what is known of the reply beside its events.
#[derive(Debug)]
pub enum TurnEnd<S, R> {
    /// The reply is there.
    Reply(Box<S>, R),
    /// It failed; why was an event. The session is being forgotten.
    Failed,
    /// The session was gone before it got anything.
    Vanished,
    /// The process is gone.
    ProcessGone(Option<Arc<Exit>>),
    /// It was interrupted, and has stopped.
    Stopped,
}

/// A session that goes on: its calls, and what its reply is made of.
#[derive(Debug)]
pub struct Kept<S> {
    /// The session.
    pub conversation: S,
    /// The calls whose results it waits for.
    pub pending: Vec<Pending>,
}

/// Keeps what a turn with a reply leaves: the session, if it can go on, and what is known of the reply.
pub type Park<S, R> = Box<dyn FnOnce(Option<Kept<S>>, &Reply, R) + Send>;

/// A session of a process that serves many.
pub trait Conversational: Keepable {
    /// Stops its turn, if one goes on, and has the process forget it.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The task of a turn, and what is to be heard of it.
#[derive(Debug)]
pub struct TurnTask<S, R> {
    /// What it finds.
    pub events: mpsc::Receiver<Event>,
    /// It.
    pub task: JoinHandle<TurnEnd<S, R>>,
    /// Has it stop.
    pub stop: CancellationToken,
    /// How many bytes have come for its session.
    pub received: Arc<AtomicU64>,
}

/// A turn under way.
pub struct TaskTurn<S, R> {
    task: TurnTask<S, R>,
    _stop_on_drop: DropGuard,
    reason: Option<StopReason>,
    began: Instant,
    pid: u32,
    is_fresh: bool,
    invocation: Invocation,
    limits: Limits,
    park: Park<S, R>,
}

impl<S, R> TaskTurn<S, R> {
    /// A turn that `task` does, in the process `pid`. `is_fresh`: its session was opened for it.
    pub fn new(
        task: TurnTask<S, R>,
        (pid, is_fresh): (u32, bool),
        (invocation, limits): (Invocation, Limits),
        park: Park<S, R>,
    ) -> TaskTurn<S, R> {
        TaskTurn {
            _stop_on_drop: task.stop.clone().drop_guard(),
            task,
            reason: None,
            began: Instant::now(),
            pid,
            is_fresh,
            invocation,
            limits,
            park,
        }
    }
}

fn evidence(invocation: Invocation, stopped: Option<StopReason>) -> Evidence {
    Evidence::Turn(TurnEvidence {
        wire: invocation.wire,
        flags: invocation.flags,
        stopped,
        diagnostics: Vec::new(),
        // What all sessions say is mixed there, and holds what the users say.
        stdout_tail: String::new(),
    })
}

impl<S: Conversational, R: Send + 'static> Exchange for TaskTurn<S, R> {
    type Unusable = Unusable;

    fn pid(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn has_begun(&self) -> bool {
        // Of a session that has rested nobody knows yet whether it is still there.
        self.is_fresh || self.received_bytes() > 0
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.task.received.load(Ordering::Relaxed)
    }

    /// Cancel safe.
    async fn next(&mut self, events: &mut Vec<Event>) -> Progress {
        let Some(event) = self.task.events.recv().await else {
            return Progress::Over;
        };
        events.push(event);
        while let Ok(event) = self.task.events.try_recv() {
            events.push(event);
        }
        Progress::More
    }

    fn stop(&mut self, reason: StopReason) {
        self.reason = Some(reason);
        self.task.stop.cancel();
    }

    async fn finish(mut self) -> Finish<Unusable> {
        self.task.events.close();
        let TaskTurn {
            task: TurnTask { task, .. },
            reason,
            invocation,
            limits,
            park,
            ..
        } = self;
        let end = task.await.unwrap_or(TurnEnd::ProcessGone(None));
        let ended = match (end, reason) {
            (TurnEnd::Reply(conversation, _), Some(reason)) => {
                conversation.close().await;
                Ended::new(evidence(invocation, Some(reason)))
            }
            (TurnEnd::Reply(conversation, known), None) => Ended {
                on_verdict: Some(Box::new(move |verdict| keep(*conversation, verdict, known, park))),
                ..Ended::new(evidence(invocation, None))
            },
            (TurnEnd::Stopped | TurnEnd::Failed | TurnEnd::Vanished, Some(reason)) => {
                Ended::new(evidence(invocation, Some(reason)))
            }
            (TurnEnd::Failed | TurnEnd::Stopped, None) => Ended::new(evidence(invocation, None)),
            (TurnEnd::Vanished, None) => return Finish::Unusable(Unusable::Vanished, None),
            (TurnEnd::ProcessGone(Some(exit)), _) => invocation.ended(of_exit(&exit), &limits),
            (TurnEnd::ProcessGone(None), reason) => Ended::new(evidence(invocation, reason)),
        };
        Finish::Ended(Box::new(ended))
    }
}

/// The session of a turn that has its reply goes on, if it can.
fn keep<S: Keepable, R>(conversation: S, verdict: Option<(&Reply, &[ProviderCallId])>, known: R, park: Park<S, R>) {
    let Some((reply, calls)) = verdict else {
        return conversation.end();
    };
    let pending = |call: &ProviderCallId| Pending {
        api: call.provider.clone(),
        id: call.id.clone(),
    };
    if calls.len() == reply.tool_calls.len() {
        let kept = Kept {
            conversation,
            pending: calls.iter().map(pending).collect(),
        };
        park(Some(kept), reply, known);
    } else {
        conversation.end();
        park(None, reply, known);
    }
}
