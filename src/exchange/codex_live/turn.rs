//! One turn of a codex thread as an exchange.
//!
//! A task of its own ([`super::work`]) does it; [`CodexTurn`] hands on what that finds. Whatever a turn comes to but a reply ends its thread, for codex keeps failed turns in its history (CODEX-LIVE
//! pitfall 17): a new one costs 10 to 17 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::conversation::Conversation;
use super::recall::Recalled;
use super::setup::Setup;
use super::work::{Opening, TurnEnd, Work};
use crate::event::{Event, Reply};
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::thread::Pending;
use crate::exchange::{
    Ended, EndedProcess, Evidence, Exchange, Finish, Invocation, Progress, ProviderCallId, StopReason,
};
use crate::judge::TurnEvidence;
use crate::process::{Exit, Limits};

/// How many events may wait for who drives the turn.
const QUEUE: usize = 256;

/// Why a turn came to nothing that is no failure of the call's.
#[derive(Debug)]
pub enum Unusable {
    /// The thread or its process was gone before it got this turn.
    Vanished,
}

/// A thread that goes on: its calls, and what its reply is made of.
#[derive(Debug)]
pub struct Kept {
    /// The thread.
    pub conversation: Conversation,
    /// The calls whose results it waits for.
    pub pending: Vec<Pending>,
}

/// Keeps what a turn with a reply leaves: the thread, if it can go on, and the items of the reply.
pub type Park = Box<dyn FnOnce(Option<Kept>, &Reply, Recalled) + Send>;

/// A turn under way.
pub struct CodexTurn {
    events: mpsc::Receiver<Event>,
    task: JoinHandle<TurnEnd>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    reason: Option<StopReason>,
    began: Instant,
    received: Arc<AtomicU64>,
    pid: u32,
    is_fresh: bool,
    invocation: Invocation,
    limits: Limits,
    park: Park,
}

impl CodexTurn {
    /// Begins a turn by `setup`; its task is tracked by `tracker`.
    pub fn begin(
        setup: Arc<Setup>,
        opening: Opening,
        (invocation, limits): (Invocation, Limits),
        tracker: &TaskTracker,
        park: Park,
    ) -> CodexTurn {
        let (sender, events) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let received = Arc::new(AtomicU64::new(0));
        let (service, is_fresh) = match &opening {
            Opening::Fresh { service, .. } => (service, true),
            Opening::Continued { conversation, .. } => (&conversation.service, false),
        };
        let service = Arc::clone(service);
        let pid = service.server.pid();
        let work = Work::new(
            (service, setup),
            is_fresh,
            limits.idle_timeout,
            (sender, Arc::clone(&received)),
            tracker.clone(),
        );
        let task = tracker.spawn(work.run(opening, stop.clone()));
        CodexTurn {
            events,
            task,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            reason: None,
            began: Instant::now(),
            received,
            pid,
            is_fresh,
            invocation,
            limits,
            park,
        }
    }

    fn evidence(invocation: Invocation, stopped: Option<StopReason>) -> Evidence {
        Evidence::Turn(TurnEvidence {
            wire: invocation.wire,
            flags: invocation.flags,
            stopped,
            diagnostics: Vec::new(),
            // The lines of all threads are mixed there, and hold what the users say.
            stdout_tail: String::new(),
        })
    }
}

impl Exchange for CodexTurn {
    type Unusable = Unusable;

    fn pid(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn has_begun(&self) -> bool {
        // Of a thread that has rested nobody knows yet whether it is still there.
        self.is_fresh || self.received_bytes() > 0
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Cancel safe.
    async fn next(&mut self, events: &mut Vec<Event>) -> Progress {
        let Some(event) = self.events.recv().await else {
            return Progress::Over;
        };
        events.push(event);
        while let Ok(event) = self.events.try_recv() {
            events.push(event);
        }
        Progress::More
    }

    fn stop(&mut self, reason: StopReason) {
        self.reason = Some(reason);
        self.stop.cancel();
    }

    async fn finish(mut self) -> Finish<Unusable> {
        self.events.close();
        let CodexTurn {
            task,
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
                Ended::new(CodexTurn::evidence(invocation, Some(reason)))
            }
            (TurnEnd::Reply(conversation, recalled), None) => Ended {
                on_verdict: Some(Box::new(move |verdict| keep(*conversation, verdict, recalled, park))),
                ..Ended::new(CodexTurn::evidence(invocation, None))
            },
            (TurnEnd::Stopped | TurnEnd::Failed | TurnEnd::Vanished, Some(reason)) => {
                Ended::new(CodexTurn::evidence(invocation, Some(reason)))
            }
            (TurnEnd::Failed | TurnEnd::Stopped, None) => Ended::new(CodexTurn::evidence(invocation, None)),
            (TurnEnd::Vanished, None) => return Finish::Unusable(Unusable::Vanished, None),
            (TurnEnd::ProcessGone(Some(exit)), _) => invocation.ended(of_exit(&exit), &limits),
            (TurnEnd::ProcessGone(None), reason) => Ended::new(CodexTurn::evidence(invocation, reason)),
        };
        Finish::Ended(Box::new(ended))
    }
}

/// The end of the process as that of a run.
fn of_exit(exit: &Exit) -> EndedProcess {
    EndedProcess {
        exit: exit.clone(),
        plain: None,
        cut_short: true,
        diagnostics: Vec::new(),
        stdout_tail: String::new(),
    }
}

/// The thread of a turn that has its reply goes on, if it can.
fn keep(conversation: Conversation, verdict: Option<(&Reply, &[ProviderCallId])>, recalled: Recalled, park: Park) {
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
        park(Some(kept), reply, recalled);
    } else {
        conversation.end();
        park(None, reply, recalled);
    }
}
