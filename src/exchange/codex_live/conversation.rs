//! One thread of a codex server, between its turns and in them.
//!
//! In: the server's events on the thread. Out: the calls that wait for results, and their answers. A resting thread is idle, or
//! has a turn whose calls are held open, for as long as it takes (CODEX-LIVE §2.3: 15 minutes were measured).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio::time::error::Elapsed;
use tokio_util::task::TaskTracker;

use super::inbound::ThreadEvent;
use super::recall::ToldItem;
use super::rollout::{LOOK, Rollout};
use super::service::CodexService;
use super::wire::ToolAnswer;
use crate::live::hosted::Incoming;
use crate::live::inbox::Inbox;
use crate::live::session::Pulse;

/// The time that an interrupted turn may take to confirm it: 1 to 11 ms were measured.
const INTERRUPT: Duration = Duration::from_secs(1);

/// A thread of a server.
#[derive(Debug)]
pub struct CodexThread {
    /// The server in which the thread lives.
    pub service: Arc<CodexService>,
    pub id: String,
    /// The model that answers.
    pub model: String,
    /// The server's events on the thread.
    pub inbox: Inbox<ThreadEvent>,
    /// The turn in progress, as soon as its id is known.
    pub turn: Option<String>,
    /// True if a turn was started of which nothing is known yet.
    pub is_starting: bool,
    /// The file of a thread that was resumed.
    pub rollout: Option<Rollout>,
    /// The items that it was told with its file.
    pub told: Vec<ToldItem>,
    /// The end of a turn, until what codex has written of it has been read.
    over: Option<ThreadEvent>,
    /// The server's requests for results, by the call.
    requests: HashMap<String, Box<RawValue>>,
    /// Results that the server has not asked for yet: before 0.169 it asks for one after the other.
    answers: HashMap<String, ToolAnswer>,
    tracker: TaskTracker,
}

impl CodexThread {
    /// Makes the thread `id` of `service`, which has no item yet.
    pub fn new(service: Arc<CodexService>, id: String, model: String, tracker: TaskTracker) -> CodexThread {
        CodexThread {
            inbox: service.server.inbox(&id),
            service,
            id,
            model,
            turn: None,
            is_starting: false,
            rollout: None,
            told: Vec::new(),
            over: None,
            requests: HashMap::new(),
            answers: HashMap::new(),
            tracker,
        }
    }

    /// Waits for the next event of a turn; `None` if nothing more will come. Behind a call, an event must come within `silence`.
    ///
    /// # Errors
    /// Nothing has come for so long.
    pub async fn next(
        &mut self,
        incoming: &mut Incoming<'_>,
        waits_behind_call: bool,
        silence: Duration,
    ) -> Result<Option<ThreadEvent>, Elapsed> {
        let Some(rollout) = &mut self.rollout else {
            let next = incoming.next(&mut self.inbox);
            return match waits_behind_call {
                false => Ok(next.await),
                true => tokio::time::timeout(silence, next).await,
            };
        };
        let since = Instant::now();
        loop {
            if let Some(event) = rollout.event().or_else(|| self.over.take()) {
                return Ok(Some(event));
            }
            let next = incoming.next(&mut self.inbox);
            // Nobody tells that a response has ended which has calls.
            let next = match waits_behind_call || !self.requests.is_empty() {
                false => next.await,
                true => match tokio::time::timeout(LOOK, next).await {
                    Ok(next) => next,
                    Err(_) if since.elapsed() < silence => continue,
                    Err(elapsed) => return Err(elapsed),
                },
            };
            match next {
                Some(ThreadEvent::ItemCompleted { item }) => rollout.is_told(item),
                Some(over @ ThreadEvent::TurnCompleted { .. }) => {
                    if let ThreadEvent::TurnCompleted { turn, error: None, .. } = &over {
                        rollout.is_over(turn).await;
                    }
                    self.over = Some(over);
                }
                next => return Ok(next),
            }
        }
    }

    /// Gives the result of the call `call`, which is sent as soon as the server asks for it.
    pub fn answer(&mut self, call: &str, answer: ToolAnswer) {
        match self.requests.remove(call) {
            Some(request) => self.service.server.answer_request(&request, &answer),
            None => {
                self.answers.insert(call.to_owned(), answer);
            }
        }
    }

    /// Takes the server's request for the result of `call`.
    pub fn asked(&mut self, call: String, request: Box<RawValue>) {
        match self.answers.remove(&call) {
            Some(answer) => self.service.server.answer_request(&request, &answer),
            None => {
                self.requests.insert(call, request);
            }
        }
    }
}

impl CodexThread {
    /// Interrupts the turn `turn`, and returns whether it has stopped in time.
    async fn interrupt(&mut self, turn: &str) -> bool {
        drop(self.service.interrupt(&self.id, turn));
        let over = async {
            while let Some(event) = self.inbox.next().await {
                if matches!(event, ThreadEvent::TurnCompleted { .. } | ThreadEvent::Closed) {
                    return;
                }
            }
        };
        tokio::time::timeout(INTERRUPT, over).await.is_ok()
    }

    /// Interrupts the turn that was started whenever it begins. Its server ends meanwhile if it has no other thread.
    fn interrupt_late(self) {
        let CodexThread {
            service,
            id,
            mut inbox,
            tracker,
            rollout,
            ..
        } = self;
        let service = Arc::downgrade(&service);
        tracker.spawn(async move {
            if let Some(turn) = begun(&mut inbox).await
                && let Some(service) = service.upgrade()
            {
                drop(service.interrupt(&id, &turn));
                forget(&service, &id, rollout.is_some());
            }
        });
    }
}

/// Waits for the next turn to begin, and returns its id.
async fn begun(inbox: &mut Inbox<ThreadEvent>) -> Option<String> {
    while let Some(event) = inbox.next().await {
        if let ThreadEvent::TurnStarted { turn } = event {
            return Some(turn);
        }
    }
    None
}

impl CodexThread {
    /// Stops the turn in progress, if there is one, and makes the server forget the thread. A server that takes too long gets no
    /// new calls, while those of others in it continue.
    pub async fn close(mut self) {
        self.service.server.protocol().closing(&self.id);
        if self.is_starting && self.turn.is_none() {
            // A thread that is forgotten now would ask the API all the same, unseen (CODEX-LIVE pitfall 18).
            match tokio::time::timeout(INTERRUPT, begun(&mut self.inbox)).await {
                Ok(turn) => self.turn = turn,
                Err(_) => {
                    self.service.host().retire();
                    return self.interrupt_late();
                }
            }
        }
        if let Some(turn) = self.turn.take()
            && !self.interrupt(&turn).await
        {
            self.service.host().retire();
        }
        forget(&self.service, &self.id, self.rollout.is_some());
    }
}

/// Makes the server forget the thread `id`, and what it has stored of one that was resumed.
fn forget(service: &CodexService, id: &str, was_resumed: bool) {
    match was_resumed {
        true => service.delete(id),
        false => service.unsubscribe(id),
    }
}

impl CodexThread {
    /// Takes the server's requests for results, until the thread can't continue. Cancel safe.
    pub async fn idle(&mut self) -> Pulse {
        loop {
            match self.inbox.next_at_rest(self.service.host()).await {
                Some(ThreadEvent::ToolCall { request, call }) => self.asked(call, request),
                // Nobody answers its calls any more, or its history has changed.
                None
                | Some(
                    ThreadEvent::TurnStarted { .. }
                    | ThreadEvent::TurnCompleted { .. }
                    | ThreadEvent::Compaction
                    | ThreadEvent::UnknownRequest { .. }
                    | ThreadEvent::Closed,
                ) => return Pulse::Ended,
                Some(_) => {}
            }
        }
    }
}
