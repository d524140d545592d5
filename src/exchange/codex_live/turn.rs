//! One turn of a codex thread as an exchange.
//!
//! A task of its own ([`super::work`]) does it. Whatever a turn comes to but a reply ends its thread, for codex keeps failed turns in its
//! history (CODEX-LIVE pitfall 17): a new one costs 10 to 17 ms.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::conversation::Conversation;
use super::recall::Recalled;
use super::setup::Setup;
use super::work::{Opening, Work};
use crate::exchange::form::TurnStart;
use crate::exchange::live::turn::{QUEUE, TaskTurn, TurnTask};

/// A turn of a thread under way.
pub type CodexTurn = TaskTurn<Conversation, Recalled>;

/// Begins a turn with `opening`.
pub fn begin(opening: Opening, start: TurnStart<'_, Setup, Conversation, Recalled>) -> CodexTurn {
    let TurnStart {
        setup,
        invocation,
        limits,
        tracker,
        park,
    } = start;
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
