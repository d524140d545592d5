//! The thread of a run: what the model is sent, and what its caller gets of it.
//!
//! In: what was said, in order. Out: the JSON of the whole for the next [`crate::run::model::Question`], and a list of what
//! came to it in the run.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::event::Reply;
use crate::executor::ToolAnswer;
use crate::message::ToolCall;

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
        content: Box<RawValue>,
        status: &'static str,
    },
}

/// A thread that grows.
#[derive(Debug)]
pub(super) struct Thread {
    /// The messages before the run, as JSON.
    before: Vec<String>,
    /// What came to it.
    said: Vec<ThreadMessage>,
    /// The last message is the model's, and callbacks may still add calls to it.
    open: bool,
    /// What the model has said in this turn and is in no message yet.
    unsaid: Vec<String>,
}

impl Thread {
    /// The thread of `messages` (JSON each), behind `system`, if there is one.
    pub fn new(system: Option<&str>, messages: &[Box<RawValue>]) -> Thread {
        let system = system.map(|text| json!({"type": "system", "content": text}).to_string());
        let messages = messages.iter().map(|message| message.get().to_owned());
        Thread {
            before: system.into_iter().chain(messages).collect(),
            said: Vec::new(),
            open: false,
            unsaid: Vec::new(),
        }
    }

    /// A message of this turn, which may go on.
    pub fn add_answer(&mut self, text: &str) {
        self.unsaid.push(text.to_owned());
    }

    /// A call in the middle of a turn. Calls that come before any is answered belong to one message.
    pub fn called(&mut self, provider: &str, call: ToolCall) {
        if self.open
            && self.unsaid.is_empty()
            && let Some(ThreadMessage::Ai { reply, .. }) = self.said.last_mut()
        {
            return reply.tool_calls.push(call);
        }
        let reply = Reply {
            content: self.unsaid.join("\n\n"),
            tool_calls: vec![call],
            ..Reply::default()
        };
        self.unsaid.clear();
        self.push_ai(provider, reply);
        self.open = true;
    }

    /// The end of a turn.
    pub fn replied(&mut self, provider: &str, reply: Reply) {
        self.unsaid.clear();
        self.push_ai(provider, reply);
        self.open = false;
    }

    fn push_ai(&mut self, provider: &str, reply: Reply) {
        self.said.push(ThreadMessage::Ai {
            provider: provider.to_owned(),
            reply: Box::new(reply),
        });
    }

    /// The answer to a call. Answers stand in the order of their calls, whichever came first.
    pub fn answered(&mut self, call: &ToolCall, answer: &ToolAnswer) {
        self.open = false;
        let told = ThreadMessage::Tool {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            content: answer.content.clone(),
            status: if answer.is_error { "error" } else { "success" },
        };
        let at = self.place_of(&call.id).unwrap_or(self.said.len());
        self.said.insert(at, told);
    }

    /// Where the answer to call `id` belongs: behind the message that makes it and the answers to the calls before it.
    fn place_of(&self, id: &str) -> Option<usize> {
        let (at, before) = self.said.iter().enumerate().rev().find_map(|(at, said)| match said {
            ThreadMessage::Ai { reply, .. } => {
                let place = reply.tool_calls.iter().position(|call| call.id == id)?;
                Some((at, &reply.tool_calls[..place]))
            }
            _ => None,
        })?;
        let earlier = |said: &&ThreadMessage| match said {
            ThreadMessage::Tool { tool_call_id, .. } => before.iter().any(|call| call.id == *tool_call_id),
            _ => false,
        };
        Some(at + 1 + self.said[at + 1..].iter().take_while(earlier).count())
    }

    /// Something the model has to be told.
    pub fn noted(&mut self, note: String) {
        self.open = false;
        self.said.push(ThreadMessage::Human { content: note });
    }

    /// The whole thread as the JSON array a question takes.
    pub fn question(&self) -> String {
        let said = self.said.iter().map(ThreadMessage::to_message);
        let all: Vec<String> = self.before.iter().cloned().chain(said).collect();
        format!("[{}]", all.join(","))
    }

    /// What came to the thread.
    pub fn grown(self) -> Vec<ThreadMessage> {
        self.said
    }
}

impl ThreadMessage {
    /// As the façade would write the message it makes of this (`messages.cjs`).
    fn to_message(&self) -> String {
        match self {
            ThreadMessage::Human { content } => json!({"type": "human", "content": content}).to_string(),
            ThreadMessage::Ai { reply, .. } => {
                let content = json!(reply.content);
                let calls = serde_json::to_string(&reply.tool_calls).unwrap_or_else(|_| "[]".to_owned());
                format!(r#"{{"type":"ai","content":{content},"tool_calls":{calls}}}"#)
            }
            ThreadMessage::Tool {
                tool_call_id,
                content,
                status,
                ..
            } => {
                let (id, content, is_error) = (json!(tool_call_id), content.get(), *status == "error");
                format!(r#"{{"type":"tool","content":{content},"tool_call_id":{id},"is_error":{is_error}}}"#)
            }
        }
    }
}
