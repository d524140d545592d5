//! The calls of a run that have no result yet, and who will give it: the host, or another agent.
//!
//! In: calls that begin to wait. Out: inputs for the executor once a result is there, and results for providers that called in the
//! middle of a turn. What is asked of the host ([`HostRequests`]) is answered by JavaScript.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::executor::Input;
use dfp_exchange::bridge::ToolCallRequest;
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::{Content, Message, Spent, ToolCall, ToolResult};
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

// Requests that JavaScript answers: tools to run, decisions to make, entries to store.
//
// In: a call of some run, and later the answer under the request's number. Out: the executor's input, sent to the run that asked. An answer
// that comes twice or too late is ignored.

/// Receives the store's answer to one entry.
type Stored = oneshot::Sender<Result<(), Box<ProviderError>>>;

/// The requests that JavaScript has not answered yet.
#[derive(Debug, Default)]
pub(super) struct HostRequests {
    asked: Mutex<OpenRequests>,
}

/// The open requests by number. `last` is the latest number; `open` has the channel of the run and the call's id.
#[derive(Debug, Default)]
struct OpenRequests {
    last: u32,
    open: HashMap<u32, (UnboundedSender<Input>, String)>,
    /// Entries that the store has not confirmed yet.
    stores: HashMap<u32, Stored>,
}

/// The answer to the request to run a tool.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completed {
    content: Content,
    #[serde(default)]
    is_error: bool,
}

/// The reason why a store did not take an entry.
#[derive(Deserialize)]
struct Refused {
    /// Another process has taken over the run.
    locked: bool,
    message: String,
}

/// The answer to the request to decide about a call.
#[derive(Deserialize)]
struct Decided {
    allow: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    args: Option<Box<RawValue>>,
}

impl HostRequests {
    /// Opens a request about call `id`, whose answer is sent to `inbox`. Returns its number.
    pub fn ask(&self, inbox: &UnboundedSender<Input>, id: &str) -> u32 {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.last = asked.last.wrapping_add(1);
        let number = asked.last;
        asked.open.insert(number, (inbox.clone(), id.to_owned()));
        number
    }

    /// Drops a request: its answer is no longer needed.
    pub fn forget(&self, request: u32) {
        self.take(request);
    }

    /// Opens a request to store an entry. Returns its number, and the future answer.
    pub fn store(&self) -> (u32, oneshot::Receiver<Result<(), Box<ProviderError>>>) {
        let (sender, receiver) = oneshot::channel();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.last = asked.last.wrapping_add(1);
        let number = asked.last;
        asked.stores.insert(number, sender);
        (number, receiver)
    }

    /// Takes the store's answer: `null`, or `{"locked": boolean, "message": string}`.
    pub fn stored(&self, request: u32, answer: &str) -> Result<(), serde_json::Error> {
        let refused: Option<Refused> = serde_json::from_str(answer)?;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waits) = asked.stores.remove(&request) {
            let stored = refused.map_or(Ok(()), |Refused { locked, message }| {
                let code = if locked {
                    Code::RunLocked
                } else {
                    Code::CheckpointFailed
                };
                Err(Box::new(ProviderError::new("", code, message)))
            });
            // A run that has ended doesn't receive any more.
            let _ = waits.send(stored);
        }
        Ok(())
    }

    pub fn complete(&self, request: u32, answer: &str) -> Result<(), serde_json::Error> {
        let Completed { content, is_error } = serde_json::from_str(answer)?;
        self.send(request, |id| Input::Executed {
            id,
            answer: ToolResult { content, is_error },
        });
        Ok(())
    }

    pub fn decide(&self, request: u32, decision: &str) -> Result<(), serde_json::Error> {
        let Decided { allow, reason, args } = serde_json::from_str(decision)?;
        self.send(request, |id| Input::Decided {
            id,
            allow,
            reason,
            args,
        });
        Ok(())
    }

    fn take(&self, request: u32) -> Option<(UnboundedSender<Input>, String)> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.open.remove(&request)
    }

    fn send(&self, request: u32, input: impl FnOnce(String) -> Input) {
        if let Some((inbox, id)) = self.take(request) {
            // A run that has ended doesn't receive any more.
            let _ = inbox.send(input(id));
        }
    }
}
