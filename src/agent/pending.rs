//! The calls of a run that have no result yet, and who will give it: the host, or another agent.
//!
//! In: calls that begin to wait. Out: inputs for the executor once a result is there, and results for providers that called in the middle of a
//! turn.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::host::HostRequests;
use crate::executor::Input;
use dfp_exchange::bridge::ToolCallRequest;
use dfp_model::message::Spent;
use dfp_model::message::{Message, ToolCall, ToolResult};
use dfp_text::toolcall::{TakenIds, make_unique};

/// The calls of one run that wait for a result.
pub(super) struct PendingCalls {
    /// All call ids so far, in the thread and in the run: a new call must not get one of them.
    taken: TakenIds,
    /// Callbacks that wait for a result, by call id.
    callbacks: HashMap<String, oneshot::Sender<ToolResult>>,
    /// Open requests to the host, by call id.
    requests: HashMap<String, u32>,
    /// The runs of agents that got a task.
    children: JoinSet<Input>,
    /// Tokens that cancel a child run, by call id.
    stops: HashMap<String, CancellationToken>,
    /// The channel by which the host's answers come.
    inbox: mpsc::UnboundedSender<Input>,
    inputs: mpsc::UnboundedReceiver<Input>,
}

impl PendingCalls {
    /// No calls yet. The call ids of `thread` are taken.
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

    /// Waits for the next result of a call, or for a provider to withdraw one. It is cancel safe: nothing is lost if the future is dropped
    /// before it is ready.
    pub async fn next(&mut self) -> Input {
        loop {
            tokio::select! {
                biased;
                Some(input) = self.inputs.recv() => return input,
                id = taken_back(&mut self.callbacks) => {
                    self.callbacks.remove(&id);
                    return Input::TakenBack { id };
                }
                // A child that panicked has no result.
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

    /// Registers a call from the middle of a turn. Its id is made unique.
    pub fn call_back(&mut self, ToolCallRequest { call, reply }: ToolCallRequest) -> ToolCall {
        let mut calls = [call];
        make_unique(&mut calls, &mut self.taken);
        let [call] = calls;
        self.callbacks.insert(call.id.clone(), reply);
        call
    }

    /// Opens a request to `host` about call `id`. Returns the request's number.
    pub fn request(&mut self, host: &HostRequests, id: &str) -> u32 {
        let request = host.ask(&self.inbox, id);
        self.requests.insert(id.to_owned(), request);
        request
    }

    /// An input that has arrived already, without waiting; `None` if there is none.
    pub fn ready(&mut self) -> Option<Input> {
        self.inputs.try_recv().ok()
    }

    /// Queues an input for which nobody has to be asked, as the journal knows it.
    pub fn known(&self, input: Input) {
        // A run that has ended takes no input.
        let _ = self.inbox.send(input);
    }

    /// Has call `id` wait for `child`, the run of another agent, which `stop` cancels.
    pub fn wait_for(&mut self, id: &str, stop: CancellationToken, child: impl Future<Output = Input> + Send + 'static) {
        self.stops.insert(id.to_owned(), stop);
        self.children.spawn(child);
    }

    /// Answers call `id` with an error, because no agent can take its task.
    pub fn refuse(&self, id: String, reason: &str) {
        let (answer, spent) = (ToolResult::error(reason), Spent::default());
        // A run that has ended takes no input.
        let _ = self.inbox.send(Input::ChildEnded { id, answer, spent });
    }

    /// Waits until a child run has ended; `None` if no child is running.
    pub async fn child_ended(&mut self) -> Option<Input> {
        while let Some(ended) = self.children.join_next().await {
            if let Ok(input) = ended {
                return Some(input);
            }
        }
        None
    }

    /// Gives up call `id`, whose result is no longer needed. Returns the number of its request to the host, if there is an open one.
    pub fn abandon(&mut self, host: &HostRequests, id: &str) -> Option<u32> {
        if let Some(stop) = self.stops.remove(id) {
            stop.cancel();
        }
        let request = self.requests.remove(id)?;
        host.forget(request);
        Some(request)
    }

    /// Passes the result of call `id` on to the provider, if that waits for it, and forgets the call.
    pub fn answered(&mut self, id: &str, answer: ToolResult) {
        self.requests.remove(id);
        self.stops.remove(id);
        if let Some(callback) = self.callbacks.remove(id) {
            // A provider that has hung up wants no result.
            let _ = callback.send(answer);
        }
    }
}

/// Waits until a provider has hung up on one of `callbacks`, and returns its call id.
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
