//! A run's calls that have no answer yet, and whoever is to answer them: the host, another agent.
//!
//! In: calls that begin to wait. Out: the executor's inputs once there is an answer, and answers on their way back to those who
//! called in the middle of a turn.

use std::collections::{HashMap, HashSet};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::host::Host;
use crate::bridge::ToolCallRequest;
use crate::executor::{Input, Spent, ToolAnswer};
use crate::message::{Content, ToolCall, ToolResult};
use crate::toolcall::make_unique;

/// Calls that wait.
pub(super) struct PendingCalls {
    /// Call ids there have been.
    taken: HashSet<String>,
    /// Callbacks that wait, by their call.
    callbacks: HashMap<String, oneshot::Sender<ToolAnswer>>,
    /// Requests to the host that are open, by their call.
    requests: HashMap<String, u32>,
    /// The agents that a task was handed to.
    children: JoinSet<Input>,
    /// What ends a child, by its call.
    stops: HashMap<String, CancellationToken>,
    inbox: mpsc::UnboundedSender<Input>,
}

impl PendingCalls {
    /// None yet; no call may have an id that is `taken`. Inputs come out of the receiver and of [`PendingCalls::child_ended`].
    pub fn new(taken: HashSet<String>) -> (PendingCalls, mpsc::UnboundedReceiver<Input>) {
        let (inbox, inputs) = mpsc::unbounded_channel();
        let pending = PendingCalls {
            taken,
            callbacks: HashMap::new(),
            requests: HashMap::new(),
            children: JoinSet::new(),
            stops: HashMap::new(),
            inbox,
        };
        (pending, inputs)
    }

    /// Marks the ids of a turn's calls as taken.
    pub fn take_ids<'a>(&mut self, calls: impl IntoIterator<Item = &'a ToolCall>) {
        self.taken.extend(calls.into_iter().map(|call| call.id.clone()));
    }

    /// A call in the middle of a turn, with an id of its own. A task of its own carries the answer back, so a fast result never
    /// waits for a slow one.
    pub fn call_back(&mut self, request: ToolCallRequest) -> ToolCall {
        let ToolCallRequest {
            id,
            name,
            args,
            mut reply,
        } = request;
        let mut calls = [ToolCall { id, name, args }];
        make_unique(&mut calls, &mut self.taken);
        let [call] = calls;
        let (sender, answer) = oneshot::channel();
        self.callbacks.insert(call.id.clone(), sender);
        let (inbox, id) = (self.inbox.clone(), call.id.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                // Dropped unanswered, the bridge answers it.
                answer = answer => drop(answer.map(|answer| reply.send(to_result(answer)))),
                // A run that has ended takes no input.
                () = reply.closed() => drop(inbox.send(Input::TakenBack { id })),
            }
        });
        call
    }

    /// The number of a new request to `host` about call `id`.
    pub fn request(&mut self, host: &Host, id: &str) -> u32 {
        let request = host.ask(&self.inbox, id);
        self.requests.insert(id.to_owned(), request);
        request
    }

    /// Hands call `id` to another agent, whose run is what `start` makes of the token that ends it.
    pub fn hand_over<F>(&mut self, id: &str, stop: CancellationToken, start: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Input> + Send + 'static,
    {
        self.stops.insert(id.to_owned(), stop.clone());
        self.children.spawn(start(stop));
    }

    /// Answers the handed over call `id` without another agent's run.
    pub fn refuse(&self, id: String, reason: &str) {
        let (answer, spent) = (ToolAnswer::error(reason), Spent::default());
        // A run that has ended takes no input.
        let _ = self.inbox.send(Input::ChildEnded { id, answer, spent });
    }

    /// The end of another agent's run; `None` when no further one is under way.
    pub async fn child_ended(&mut self) -> Option<Input> {
        while let Some(ended) = self.children.join_next().await {
            if let Ok(input) = ended {
                return Some(input);
            }
        }
        None
    }

    /// Nobody waits for call `id` any more. What comes back is the host's request that is void.
    pub fn abandon(&mut self, host: &Host, id: &str) -> Option<u32> {
        if let Some(stop) = self.stops.remove(id) {
            stop.cancel();
        }
        let request = self.requests.remove(id)?;
        host.forget(request);
        Some(request)
    }

    /// Call `id` is answered.
    pub fn answered(&mut self, id: &str, answer: ToolAnswer) {
        self.requests.remove(id);
        self.stops.remove(id);
        if let Some(callback) = self.callbacks.remove(id) {
            // A callback that has hung up wants no answer.
            let _ = callback.send(answer);
        }
    }
}

fn to_result(ToolAnswer { content, is_error }: ToolAnswer) -> ToolResult {
    let content = serde_json::from_str(content.get()).unwrap_or(Content::Blocks(content));
    ToolResult { content, is_error }
}
