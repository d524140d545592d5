//! The thread of a run: what the model is sent, and what its caller gets of it.
//!
//! In: messages, in order. Out: the messages of the whole for the next [`crate::run::request::Request`], and a list of what came to it in
//! the run.

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
pub(super) struct Thread {
    /// The messages before the run.
    before: Vec<Message>,
    /// What came to it.
    added: Vec<ThreadMessage>,
    /// The last message is the model's, and callbacks may still add calls to it.
    open: bool,
    /// Texts of the model in this turn that are in no message yet.
    pending_texts: Vec<String>,
}

impl Thread {
    /// The thread of `messages`, behind `system`, if there is one.
    pub fn new(system: Option<&str>, messages: Vec<Message>) -> Thread {
        let system = system.map(|text| Message::new(Role::System, text));
        Thread {
            before: system.into_iter().chain(messages).collect(),
            added: Vec::new(),
            open: false,
            pending_texts: Vec::new(),
        }
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
        if self.open
            && self.pending_texts.is_empty()
            && let Some(ThreadMessage::Ai { reply, .. }) = self.added.last_mut()
        {
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
        self.added.push(ThreadMessage::Ai {
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
        let at = self.place_of(&call.id).unwrap_or(self.added.len());
        self.added.insert(at, result);
    }

    /// Where the answer to call `id` belongs: behind the message that makes it and the answers to the calls before it.
    fn place_of(&self, id: &str) -> Option<usize> {
        let (at, before) = self
            .added
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, message)| match message {
                ThreadMessage::Ai { reply, .. } => {
                    let place = reply.tool_calls.iter().position(|call| call.id == id)?;
                    Some((at, &reply.tool_calls[..place]))
                }
                _ => None,
            })?;
        let earlier = |message: &&ThreadMessage| match message {
            ThreadMessage::Tool { tool_call_id, .. } => before.iter().any(|call| call.id == *tool_call_id),
            _ => false,
        };
        Some(at + 1 + self.added[at + 1..].iter().take_while(earlier).count())
    }

    /// A note for the model.
    pub fn noted(&mut self, note: String) {
        self.open = false;
        self.added.push(ThreadMessage::Human { content: note });
    }

    /// The whole thread.
    pub fn messages(&self) -> Vec<Message> {
        let added = self.added.iter().map(Message::from);
        self.before.iter().cloned().chain(added).collect()
    }

    /// What came to the thread.
    pub fn grown(self) -> Vec<ThreadMessage> {
        self.added
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
