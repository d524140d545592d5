//! The model side of an agent's run: which provider answers, and one turn of it.
//!
//! In: a [`Request`]. Out: `TurnEvent`s: the provider's events, tool calls that wait for their results, and the end of the turn.
//!
//! A provider delivers tool calls in one of two ways: with the end of a turn (print, live, an API), or in the middle of it, by a callback that
//! waits for the result (`Turn::calls`). For the driver the only difference is where the results go.
//!
//! What the model is sent is the thread of the run ([`AgentThread`]).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

use dfp_exchange::bridge::ToolCallRequest;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{Event, Reply};
use dfp_model::message::reasoning::Returned;
use dfp_model::message::{Content, Message, MessageFields, Role, ToolCall, ToolResult};
use dfp_run::request::Request;
use dfp_run::{CallDelivery, Model};
use dfp_run::{Ended, LogRecord, Run};

/// The way in which a provider delivers an agent's tool calls: the option `toolCalls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolCalls {
    /// Whichever way suits the provider best.
    #[default]
    Auto,
    /// With the end of a turn.
    Turns,
    /// In the middle of a turn, by callbacks.
    Callbacks,
}

impl ToolCalls {
    pub(super) fn from_word(word: &str) -> ToolCalls {
        match word {
            "turns" => ToolCalls::Turns,
            "callbacks" => ToolCalls::Callbacks,
            _ => ToolCalls::Auto,
        }
    }
}

/// A provider as an agent talks to it.
#[derive(Debug)]
pub struct Conversation {
    pub(super) model: Arc<dyn Model>,
    /// Tool calls come in the middle of a turn, unless `is_auto` says otherwise.
    pub(super) calls_back: bool,
    /// The option is `auto`: at each turn the provider is asked for its best way, which depends on the installed CLI.
    is_auto: bool,
}

impl Conversation {
    /// Checks that `model` can deliver its calls in the wanted way. `path` is the name of the option `toolCalls` in errors.
    ///
    /// # Errors
    /// `INVALID_OPTION`: callbacks were asked for, and the model takes none.
    pub fn new(model: &Arc<dyn Model>, way: ToolCalls, path: &str) -> Result<Conversation, Box<ProviderError>> {
        let calls_back = match (way, model.calls()) {
            (ToolCalls::Callbacks, CallDelivery::Turns) => {
                let reason = format!(
                    "{path} can't be \"callbacks\": {} takes no tools in the middle of a turn with these options",
                    model.id()
                );
                return Err(Box::new(ProviderError::new(model.id(), Code::InvalidOption, reason)));
            }
            (ToolCalls::Callbacks, _) | (ToolCalls::Auto, CallDelivery::Callbacks) => true,
            (ToolCalls::Auto | ToolCalls::Turns, _) => false,
        };
        Ok(Conversation {
            model: Arc::clone(model),
            calls_back,
            is_auto: way == ToolCalls::Auto,
        })
    }

    /// Begins a turn. The model is sent the whole thread, whose beginning its session may know already.
    pub(super) fn begin(&self, request: Request) -> Turn {
        let model = Arc::clone(&self.model);
        // Without tools there is nothing to call, and a CLI need not ask for them.
        let calls_back = || match self.is_auto {
            true => model.calls_now(request.env.as_ref()) == CallDelivery::Callbacks,
            false => self.calls_back,
        };
        let (run, calls) = match !request.tools.is_empty() && calls_back() {
            true => model.begin_with_callbacks(request),
            false => (model.begin(request), None),
        };
        Turn {
            run: Arc::new(run),
            calls_back: calls.is_some(),
            calls,
            ending: None,
        }
    }
}

/// One thing that happens in a turn.
#[derive(Debug)]
pub(super) enum TurnEvent {
    Events(Vec<Event>),
    /// A tool call in the middle of the turn, whose result the provider waits for.
    Call(ToolCallRequest),
    Ended(Ended),
}

/// One turn under way. Dropping it ends the turn.
pub(super) struct Turn {
    run: Arc<Run>,
    /// The tool calls that come in the middle of the turn; `run` reports no events for them. `None`: calls come with the end.
    calls: Option<mpsc::Receiver<ToolCallRequest>>,
    calls_back: bool,
    /// Set once the last event has come and only the outcome is awaited.
    ending: Option<JoinHandle<Ended>>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Turn").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Turn {
    /// `true` if tool calls come in the middle of this turn.
    pub(super) fn calls_back(&self) -> bool {
        self.calls_back
    }

    /// Waits for the next event. It is cancel safe: nothing is lost if the future is dropped before it is ready. Must not be called again after
    /// `Ended`.
    pub(super) async fn next(&mut self) -> TurnEvent {
        loop {
            let step = match &mut self.ending {
                Some(ending) => tokio::select! {
                    biased;
                    call = next_call(&mut self.calls) => Arrival::Call(call),
                    ended = ending => return TurnEvent::Ended(joined(ended)),
                },
                None => tokio::select! {
                    biased;
                    events = self.run.batch() => Arrival::Events(events),
                    call = next_call(&mut self.calls) => Arrival::Call(call),
                },
            };
            match step {
                Arrival::Events(Some(events)) => return TurnEvent::Events(events),
                Arrival::Events(None) => {
                    let run = Arc::clone(&self.run);
                    self.ending = Some(tokio::spawn(async move { run.result().await }));
                }
                Arrival::Call(Some(call)) => return TurnEvent::Call(call),
                Arrival::Call(None) => self.calls = None,
            }
        }
    }

    /// The records that the run has collected for the user's logger since the last time.
    pub(super) fn take_log(&self) -> Vec<LogRecord> {
        self.run.take_log().map_or_else(Vec::new, |batch| batch.records)
    }

    /// Ends the turn and waits until nothing of it is left.
    pub(super) async fn stop(mut self) {
        self.run.cancel();
        match self.ending.take() {
            Some(ending) => drop(ending.await),
            None => drop(self.run.result().await),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.run.cancel();
    }
}

fn joined(ended: Result<Ended, JoinError>) -> Ended {
    ended.unwrap_or_else(|panic| {
        let reason = format!("a bug in this package stopped the run: {panic}");
        Ended::Failed(Box::new(ProviderError::new("", Code::Internal, reason)))
    })
}

/// The next thing that a turn's two sources deliver; `None` when a source has ended.
enum Arrival {
    Events(Option<Vec<Event>>),
    Call(Option<ToolCallRequest>),
}

/// The next callback; never ready where calls come with the end of the turn.
async fn next_call(calls: &mut Option<mpsc::Receiver<ToolCallRequest>>) -> Option<ToolCallRequest> {
    match calls {
        Some(calls) => calls.recv().await,
        None => std::future::pending().await,
    }
}

// The thread of a run: what the model is sent, and which messages the run has added.
//
// In: messages, in order. Out: all messages for the next [`Request`], and the list of the added ones.

/// A message that the run added, in the form from which the façade makes a message.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ThreadMessage {
    /// A note of the run, in the user's place.
    Human { content: String },
    /// A reply of the model.
    Ai { provider: String, reply: Box<Reply> },
    /// The result of a call.
    Tool {
        tool_call_id: String,
        name: String,
        content: Content,
        status: &'static str,
    },
}

/// A thread that grows during the run.
#[derive(Debug)]
pub(super) struct AgentThread {
    /// The messages before the run.
    before: Vec<Message>,
    /// The messages that the run has added.
    added: Vec<Added>,
    /// The position of each call: the index of its message in `added`, and its index among that message's calls.
    calls: HashMap<String, (usize, usize)>,
    /// The last message is the model's, and callbacks may still add calls to it.
    open: bool,
    /// Texts of the model in this turn that belong to no message yet.
    pending_texts: Vec<String>,
}

/// A message, and the results of its calls by the calls' index.
#[derive(Debug)]
struct Added {
    message: ThreadMessage,
    answers: BTreeMap<usize, ThreadMessage>,
}

impl AgentThread {
    /// A thread of `messages`, with `system` as its system prompt, if there is one.
    pub fn new(system: Option<&str>, messages: Vec<Message>) -> AgentThread {
        let system = system.map(|text| Message::new(Role::System, text));
        AgentThread {
            before: system.into_iter().chain(messages).collect(),
            added: Vec::new(),
            calls: HashMap::new(),
            open: false,
            pending_texts: Vec::new(),
        }
    }

    fn add(&mut self, message: ThreadMessage) {
        let answers = BTreeMap::new();
        self.added.push(Added { message, answers });
    }

    /// Adds a text of the model in this turn, which may go on.
    pub fn add_answer(&mut self, text: &str) {
        self.pending_texts.push(text.to_owned());
    }

    /// Drops the texts of this turn that belong to no message yet: the attempt that said them failed.
    pub fn forget_answers(&mut self) {
        self.pending_texts.clear();
    }

    /// Adds a call from the middle of a turn. Calls that come before any of them is answered belong to one message.
    pub fn called(&mut self, provider: &str, call: ToolCall) {
        let at = self.added.len().saturating_sub(1);
        if self.open
            && self.pending_texts.is_empty()
            && let Some(Added {
                message: ThreadMessage::Ai { reply, .. },
                ..
            }) = self.added.last_mut()
        {
            let place = reply.tool_calls.len();
            self.calls.insert(call.id.clone(), (at, place));
            return reply.tool_calls.push(call);
        }
        let reply = Reply {
            content: self.pending_texts.join("\n\n"),
            tool_calls: vec![call],
            ..Reply::default()
        };
        self.pending_texts.clear();
        self.push_ai(provider, reply);
        self.open = true;
    }

    /// Adds the reply that ended a turn.
    pub fn replied(&mut self, provider: &str, reply: Reply) {
        self.pending_texts.clear();
        self.push_ai(provider, reply);
        self.open = false;
    }

    /// Adds a reply of the model, and notes where its calls are.
    fn push_ai(&mut self, provider: &str, reply: Reply) {
        let at = self.added.len();
        // If two calls have the same id, the first one counts, so it is inserted last.
        for (place, call) in reply.tool_calls.iter().enumerate().rev() {
            self.calls.insert(call.id.clone(), (at, place));
        }
        self.add(ThreadMessage::Ai {
            provider: provider.to_owned(),
            reply: Box::new(reply),
        });
    }

    /// Adds the result of a call. Results stand in the order of their calls, whichever came first.
    pub fn answered(&mut self, call: &ToolCall, answer: &ToolResult) {
        self.open = false;
        let result = ThreadMessage::Tool {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            content: answer.content.clone(),
            status: if answer.is_error { "error" } else { "success" },
        };
        match self
            .calls
            .get(&call.id)
            .and_then(|(at, place)| Some((self.added.get_mut(*at)?, *place)))
        {
            Some((asked, place)) => {
                asked.answers.insert(place, result);
            }
            None => self.add(result),
        }
    }

    /// Adds a note for the model.
    pub fn noted(&mut self, note: String) {
        self.open = false;
        self.add(ThreadMessage::Human { content: note });
    }

    /// All messages of the thread.
    pub fn messages(&self) -> Vec<Message> {
        let added = (self.added.iter()).flat_map(|added| std::iter::once(&added.message).chain(added.answers.values()));
        self.before.iter().cloned().chain(added.map(Message::from)).collect()
    }

    /// The messages that the run has added.
    pub fn into_added(self) -> Vec<ThreadMessage> {
        let added = self.added.into_iter();
        added
            .flat_map(|added| std::iter::once(added.message).chain(added.answers.into_values()))
            .collect()
    }
}

impl From<&ThreadMessage> for Message {
    /// Makes the message that the façade would read back from the one it makes (`messages.cjs`).
    fn from(message: &ThreadMessage) -> Message {
        match message {
            ThreadMessage::Human { content } => Message::new(Role::Human, content),
            ThreadMessage::Ai { provider, reply } => Message::from(MessageFields {
                tool_calls: reply.tool_calls.clone(),
                reasoning: Returned::of(
                    provider,
                    reply.run.as_ref().and_then(|run| run.login.as_deref()),
                    reply.model.as_deref(),
                    &reply.reasoning,
                ),
                ..MessageFields::new(Role::Ai, &reply.content)
            }),
            ThreadMessage::Tool {
                tool_call_id,
                content,
                status,
                ..
            } => Message::from(MessageFields {
                content: content.clone(),
                tool_call_id: tool_call_id.clone(),
                is_error: *status == "error",
                ..MessageFields::new(Role::Tool, "")
            }),
        }
    }
}
