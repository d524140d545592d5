//! One turn of a codex thread as an exchange.
//!
//! A task of its own ([`super::work`]) does it. Whatever a turn comes to but a reply ends its thread, for codex keeps failed turns in its
//! history (CODEX-LIVE pitfall 17): a new one costs 10 to 17 ms.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::conversation::Conversation;
use super::recall::Recalled;
use super::setup::Setup;
use super::work::{Opening, Work};
use crate::exchange::Invocation;
use crate::exchange::live::turn::{self, QUEUE, TaskTurn, TurnTask};
use crate::process::Limits;

/// A turn of a thread under way.
pub type CodexTurn = TaskTurn<Conversation, Recalled>;

/// Keeps what a turn with a reply leaves: the thread, if it can go on, and the items of the reply.
pub type Park = turn::Park<Conversation, Recalled>;

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
    let pid = service.host().pid();
    let work = Work::new(
        (service, setup),
        is_fresh,
        limits.idle_timeout,
        (sender, Arc::clone(&received)),
        tracker.clone(),
    );
    let task = TurnTask {
        events,
        task: tracker.spawn(work.run(opening, stop.clone())),
        stop,
        received,
    };
    TaskTurn::new(task, (pid, is_fresh), (invocation, limits), park)
}
