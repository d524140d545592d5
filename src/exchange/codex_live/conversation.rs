//! One thread of a codex server, between its turns and in them.
//!
//! In: the server's events on the thread. Out: the calls that wait for results, and their answers. A resting thread is idle, or
//! has a turn whose calls are held open, for as long as it takes (CODEX-LIVE §2.3: 15 minutes were measured).

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio::time::error::Elapsed;
use tokio_util::task::TaskTracker;

use super::inbound::ThreadEvent;
use super::rollout::{LATE, LOOK, Rollout, ToldItem};
use super::service::CodexService;
use super::wire::ToolAnswer;
use crate::host::Inbox;
use crate::live::session::{Incoming, Pulse};

/// The time that an interrupted turn may take to confirm it (1 to 11 ms were measured), and a thread to be deleted.
const INTERRUPT: Duration = Duration::from_secs(1);

/// The file of a thread that is resumed, and its id. They go in this order.
#[derive(Debug)]
pub struct ResumedThread {
    pub rollout: Rollout,
    pub taken: TakenId,
}

/// The id of a thread that is resumed. Nobody else can have it until this is dropped, and the server has forgotten the thread.
#[derive(Debug)]
pub struct TakenId {
    service: Weak<CodexService>,
    pub id: String,
}

impl TakenId {
    /// Takes the id `id`, unless somebody has that thread.
    pub async fn take(service: &Arc<CodexService>, id: &str) -> Option<TakenId> {
        let is_taken = service.server.protocol().take(id).await;
        let taken = is_taken.then(|| TakenId {
            service: Arc::downgrade(service),
            id: id.to_owned(),
        });
        // Of a thread that the server has closed by itself, the session may not have heard yet.
        taken.filter(|_| !service.server.has_inbox(id))
    }
}

impl Drop for TakenId {
    fn drop(&mut self) {
        if let Some(service) = self.service.upgrade() {
            service.server.protocol().left(&self.id);
        }
    }
}

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
    pub resumed: Option<ResumedThread>,
    /// The items that it was told with its file.
    pub told: Vec<ToldItem>,
    /// The end of a turn, until what codex has written of it has been read, and the time at which it came.
    over: Option<(ThreadEvent, Instant)>,
    /// The time since when the turn in progress has calls whose response has not ended, as far as that is known.
    pub unended: Option<Instant>,
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
            resumed: None,
            told: Vec::new(),
            over: None,
            unended: None,
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
        let Some(ResumedThread { rollout, .. }) = &mut self.resumed else {
            let next = incoming.next(&mut self.inbox);
            return match waits_behind_call {
                false => Ok(next.await),
                true => tokio::time::timeout(silence, next).await,
            };
        };
        let mut since = Instant::now();
        loop {
            // Until the turn has begun, nobody knows what is of it.
            if self.turn.is_some() {
                if let Some(event) = rollout.event() {
                    if matches!(event, ThreadEvent::ResponseCompleted { .. }) {
                        self.unended = None;
                    }
                    return Ok(Some(event));
                }
                if rollout.has_lost() {
                    return Ok(None);
                }
            }
            if let Some((over, at)) = &self.over {
                let whole = match over {
                    ThreadEvent::TurnCompleted { turn, error: None, .. } => Some(turn),
                    _ => None,
                };
                let is_missing = whole.is_some_and(|turn| !rollout.has_ended(turn));
                if is_missing && at.elapsed() < LATE {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                if let Some(turn) = whole.filter(|_| is_missing) {
                    self.service.resumes_no_more();
                    rollout.take_unwritten(turn);
                    if let Some(event) = rollout.event() {
                        return Ok(Some(event));
                    }
                }
                return Ok(self.over.take().map(|(over, _)| over));
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
            since = Instant::now();
            match next {
                Some(ThreadEvent::ItemCompleted { item, text }) => rollout.is_told(item, text),
                Some(over @ ThreadEvent::TurnCompleted { .. }) => {
                    rollout.is_over();
                    self.over = Some((over, since));
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
            resumed,
            ..
        } = self;
        let service = Arc::downgrade(&service);
        tracker.spawn(async move {
            if let Some(turn) = begun(&mut inbox).await
                && let Some(service) = service.upgrade()
            {
                drop(service.interrupt(&id, &turn));
                forget(&service, &id, resumed).await;
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
        if self.resumed.is_some() && self.unended.is_some_and(|since| since.elapsed() > LATE) {
            self.service.resumes_no_more();
        }
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
        // A turn whose end has come already confirms nothing more.
        if let Some(turn) = self.turn.take().filter(|_| self.over.is_none())
            && !self.interrupt(&turn).await
        {
            self.service.host().retire();
        }
        forget(&self.service, &self.id, self.resumed).await;
    }
}

/// Makes the server forget the thread `id`, and what it has stored of one that was `resumed`, whose file goes then.
pub async fn forget(service: &CodexService, id: &str, resumed: Option<ResumedThread>) {
    let is_deleted = match &resumed {
        Some(_) => {
            let deleted = tokio::time::timeout(INTERRUPT, service.delete(id)).await;
            matches!(deleted, Ok(Ok(Ok(_))))
        }
        None => false,
    };
    if !is_deleted {
        service.unsubscribe(id);
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
