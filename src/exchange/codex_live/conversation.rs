//! One thread of a codex server, between its turns and in them.
//!
//! In: what the server tells of the thread. Out: the calls that wait for results, and their answers. A thread that rests is idle, or has
//! a turn whose calls are held open, for as long as it takes (CODEX-LIVE §2.3: 15 minutes were measured).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio_util::task::TaskTracker;

use super::inbound::ThreadEvent;
use super::service::Service;
use super::setup::Setup;
use super::wire::{self, Interrupt, ToolAnswer, Unsubscribe};
use crate::exchange::live::inbox::Inbox;
use crate::exchange::live::keep::{Idle, Keepable};
use crate::exchange::live::turn::Conversational;

/// How long a turn that is interrupted may take to confirm it: 1 to 11 ms were measured.
const INTERRUPT: Duration = Duration::from_secs(1);

/// A thread of a server.
#[derive(Debug)]
pub struct Conversation {
    /// The server it lives in.
    pub service: Arc<Service>,
    /// Its id.
    pub id: String,
    /// The model that answers.
    pub model: String,
    /// What the server tells of it.
    pub inbox: Inbox<ThreadEvent>,
    /// The turn that goes on, as soon as its id is known.
    pub turn: Option<String>,
    /// A turn was asked for, of which nothing is known yet.
    pub is_starting: bool,
    /// The server's requests for results, by the call.
    requests: HashMap<String, Box<RawValue>>,
    /// Results that the server has not asked for yet: before 0.169 it asks for one after the other.
    answers: HashMap<String, ToolAnswer>,
    tracker: TaskTracker,
}

impl Conversation {
    /// The thread `id` of `service`, which has no item yet.
    pub fn new(service: Arc<Service>, id: String, model: String, tracker: TaskTracker) -> Conversation {
        Conversation {
            inbox: service.server.inbox(&id),
            service,
            id,
            model,
            turn: None,
            is_starting: false,
            requests: HashMap::new(),
            answers: HashMap::new(),
            tracker,
        }
    }

    /// The result of the call `call`: it goes over as soon as the server asks for it.
    pub fn answer(&mut self, call: &str, answer: ToolAnswer) {
        match self.requests.remove(call) {
            Some(request) => self.service.server.send(wire::answer(&request, &answer)),
            None => {
                self.answers.insert(call.to_owned(), answer);
            }
        }
    }

    /// The server asks for the result of `call`.
    pub fn asked(&mut self, call: String, request: Box<RawValue>) {
        match self.answers.remove(&call) {
            Some(answer) => self.service.server.send(wire::answer(&request, &answer)),
            None => {
                self.requests.insert(call, request);
            }
        }
    }
}

impl Conversational for Conversation {
    /// Stops the turn, if one goes on, and has the server forget the thread. A server that takes too long is ended: what it does
    /// in the meantime, nobody sees.
    async fn close(mut self) {
        if self.is_starting && self.turn.is_none() {
            // Forgotten now, it would ask the API all the same, unseen (CODEX-LIVE pitfall 18).
            let started = async {
                while let Some(event) = self.inbox.next().await {
                    if let ThreadEvent::TurnStarted { turn } = event {
                        return Some(turn);
                    }
                }
                None
            };
            self.turn = tokio::time::timeout(INTERRUPT, started).await.ok().flatten();
        }
        if let Some(turn) = self.turn.take() {
            let interrupt = Interrupt {
                thread_id: &self.id,
                turn_id: &turn,
            };
            drop(self.service.server.post("turn/interrupt", &interrupt));
            let over = async {
                while let Some(event) = self.inbox.next().await {
                    if matches!(event, ThreadEvent::TurnCompleted { .. } | ThreadEvent::Closed) {
                        return;
                    }
                }
            };
            if tokio::time::timeout(INTERRUPT, over).await.is_err() {
                self.service.server.close();
            }
        }
        let unsubscribe = Unsubscribe { thread_id: &self.id };
        drop(self.service.server.post("thread/unsubscribe", &unsubscribe));
    }
}

impl Keepable for Conversation {
    type Setup = Setup;

    fn pid(&self) -> u32 {
        self.service.server.pid()
    }

    async fn idle(&mut self) -> Idle {
        let retired = self.service.server.retired().clone();
        loop {
            let event = tokio::select! {
                biased;
                () = retired.cancelled() => return Idle::Ended,
                event = self.inbox.next() => event,
            };
            match event {
                Some(ThreadEvent::ToolCall { request, call }) => self.asked(call, request),
                // Its calls are answered by nobody any more, or its history is another one.
                None
                | Some(
                    ThreadEvent::TurnStarted { .. }
                    | ThreadEvent::TurnCompleted { .. }
                    | ThreadEvent::Compaction
                    | ThreadEvent::UnknownRequest { .. }
                    | ThreadEvent::Closed,
                ) => return Idle::Ended,
                Some(_) => {}
            }
        }
    }

    fn end(self) {
        let tracker = self.tracker.clone();
        tracker.spawn(self.close());
    }
}
