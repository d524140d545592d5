//! A run's calls that have no answer yet, and whoever is to answer them: the host, another agent.
//!
//! In: calls that begin to wait. Out: the executor's inputs once there is an answer, and answers to those who called in the middle
//! of a turn.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::host::Host;
use crate::bridge::ToolCallRequest;
use crate::executor::{Input, Spent};
use crate::message::{Message, ToolCall, ToolResult};
use crate::toolcall::{TakenIds, make_unique};

/// Calls that wait.
pub(super) struct PendingCalls {
    /// Call ids there have been.
    taken: TakenIds,
    /// Callbacks that wait, by their call.
    callbacks: HashMap<String, oneshot::Sender<ToolResult>>,
    /// Requests to the host that are open, by their call.
    requests: HashMap<String, u32>,
    /// The agents that a task was handed to.
    children: JoinSet<Input>,
    /// What ends a child, by its call.
    stops: HashMap<String, CancellationToken>,
    /// Where the host answers.
    inbox: mpsc::UnboundedSender<Input>,
    inputs: mpsc::UnboundedReceiver<Input>,
}

impl PendingCalls {
    /// None yet; no call may have an id of `thread`.
    pub fn new(thread: &[Message]) -> PendingCalls {
        let (inbox, inputs) = mpsc::unbounded_channel();
        let calls = thread.iter().flat_map(|message| &message.tool_calls);
        PendingCalls {
            taken: calls
                .map(|call| call.id.clone())
                .filter(|id| !id.is_empty())
                .collect::<HashSet<_>>()
                .into(),
            callbacks: HashMap::new(),
            requests: HashMap::new(),
            children: JoinSet::new(),
            stops: HashMap::new(),
            inbox,
            inputs,
        }
    }

    /// What happens to a call next: an answer, or nobody waits for it any more. Nothing is lost if it is dropped before it is ready.
    pub async fn next(&mut self) -> Input {
        loop {
            tokio::select! {
                biased;
                Some(input) = self.inputs.recv() => return input,
                id = taken_back(&mut self.callbacks) => {
                    self.callbacks.remove(&id);
                    return Input::TakenBack { id };
                }
                // One that panicked has no answer.
                Some(ended) = self.children.join_next() => if let Ok(input) = ended {
                    return input;
                },
            }
        }
    }

    /// Marks the ids of a turn's calls as taken.
    pub fn take_ids<'a>(&mut self, calls: impl IntoIterator<Item = &'a ToolCall>) {
        self.taken.extend(calls.into_iter().map(|call| call.id.clone()));
    }

    /// A call in the middle of a turn, with an id of its own.
    pub fn call_back(&mut self, ToolCallRequest { call, reply }: ToolCallRequest) -> ToolCall {
        let mut calls = [call];
        make_unique(&mut calls, &mut self.taken);
        let [call] = calls;
        self.callbacks.insert(call.id.clone(), reply);
        call
    }

    /// The number of a new request to `host` about call `id`.
    pub fn request(&mut self, host: &Host, id: &str) -> u32 {
        let request = host.ask(&self.inbox, id);
        self.requests.insert(id.to_owned(), request);
        request
    }

    /// What has come already; `None` where something is waited for.
    pub fn ready(&mut self) -> Option<Input> {
        self.inputs.try_recv().ok()
    }

    /// What is known without anybody being asked.
    pub fn known(&self, input: Input) {
        // A run that has ended takes no input.
        let _ = self.inbox.send(input);
    }

    /// Call `id` waits for `child`, another agent's run, which `stop` ends.
    pub fn wait_for(&mut self, id: &str, stop: CancellationToken, child: impl Future<Output = Input> + Send + 'static) {
        self.stops.insert(id.to_owned(), stop);
        self.children.spawn(child);
    }

    /// Answers the call `id`, which is to wait for another agent, without its run.
    pub fn refuse(&self, id: String, reason: &str) {
        let (answer, spent) = (ToolResult::error(reason), Spent::default());
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
    pub fn answered(&mut self, id: &str, answer: ToolResult) {
        self.requests.remove(id);
        self.stops.remove(id);
        if let Some(callback) = self.callbacks.remove(id) {
            // A callback that has hung up wants no answer.
            let _ = callback.send(answer);
        }
    }
}

/// The call of one of `callbacks` that has hung up; never ready where all of them wait.
async fn taken_back(callbacks: &mut HashMap<String, oneshot::Sender<ToolResult>>) -> String {
    poll_fn(|context| {
        let mut replies = callbacks.iter_mut();
        match replies.find_map(|(id, reply)| reply.poll_closed(context).is_ready().then(|| id.clone())) {
            Some(id) => Poll::Ready(id),
            None => Poll::Pending,
        }
    })
    .await
}
