//! The thread of a run: what the model is sent, and which messages the run has added.
//!
//! In: messages, in order. Out: all messages for the next [`dfp_run::request::Request`], and the list of the added ones.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use dfp_model::event::Reply;
use dfp_model::message::reasoning::Returned;
use dfp_model::message::{Content, Message, MessageFields, Role, ToolCall, ToolResult};

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
