//! The thread of a run: what the model is sent, and what its caller gets of it.
//!
//! In: messages, in order. Out: the messages of the whole for the next [`crate::run::request::Request`], and a list of what came to it in
//! the run.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::event::Reply;
use crate::message::reasoning::Returned;
use crate::message::{Content, Message, MessageFields, Role, ToolCall, ToolResult};

/// One message that came to the thread, as the façade makes a message of it.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ThreadMessage {
    /// By the run, in the user's place.
    Human { content: String },
    /// By the model.
    Ai { provider: String, reply: Box<Reply> },
    /// The answer to a call.
    Tool {
        tool_call_id: String,
        name: String,
        content: Content,
        status: &'static str,
    },
}

/// A thread that grows.
#[derive(Debug)]
pub(super) struct AgentThread {
    /// The messages before the run.
    before: Vec<Message>,
    /// What came to it.
    added: Vec<Added>,
    /// Where a call is: its message among those, and its place in it.
    calls: HashMap<String, (usize, usize)>,
    /// The last message is the model's, and callbacks may still add calls to it.
    open: bool,
    /// Texts of the model in this turn that are in no message yet.
    pending_texts: Vec<String>,
}

/// A message, and the answers to its calls by their places in it.
#[derive(Debug)]
struct Added {
    message: ThreadMessage,
    answers: BTreeMap<usize, ThreadMessage>,
}

impl AgentThread {
    /// The thread of `messages`, behind `system`, if there is one.
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

    /// A message of this turn, which may go on.
    pub fn add_answer(&mut self, text: &str) {
        self.pending_texts.push(text.to_owned());
    }

    /// The messages of this turn that are in none of the thread's yet are none.
    pub fn forget_answers(&mut self) {
        self.pending_texts.clear();
    }

    /// A call in the middle of a turn. Calls that come before any is answered belong to one message.
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

    /// The end of a turn.
    pub fn replied(&mut self, provider: &str, reply: Reply) {
        self.pending_texts.clear();
        self.push_ai(provider, reply);
        self.open = false;
    }

    fn push_ai(&mut self, provider: &str, reply: Reply) {
        let at = self.added.len();
        // The first of an id, if there are two.
        for (place, call) in reply.tool_calls.iter().enumerate().rev() {
            self.calls.insert(call.id.clone(), (at, place));
        }
        self.add(ThreadMessage::Ai {
            provider: provider.to_owned(),
            reply: Box::new(reply),
        });
    }

    /// The answer to a call. Answers stand in the order of their calls, whichever came first.
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

    /// A note for the model.
    pub fn noted(&mut self, note: String) {
        self.open = false;
        self.add(ThreadMessage::Human { content: note });
    }

    /// The whole thread.
    pub fn messages(&self) -> Vec<Message> {
        let added = (self.added.iter()).flat_map(|added| std::iter::once(&added.message).chain(added.answers.values()));
        self.before.iter().cloned().chain(added.map(Message::from)).collect()
    }

    /// What came to the thread.
    pub fn into_added(self) -> Vec<ThreadMessage> {
        let added = self.added.into_iter();
        added
            .flat_map(|added| std::iter::once(added.message).chain(added.answers.into_values()))
            .collect()
    }
}

impl From<&ThreadMessage> for Message {
    /// As the façade would read the message it makes of this (`messages.cjs`).
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
