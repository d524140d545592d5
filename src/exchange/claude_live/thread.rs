//! A thread as a session sees it: what it has heard, and what is new.
//!
//! In: the messages of a call. Out: a [`Thread`] (the system prompt, and its [`History`]), and the user line that says the whole
//! of it, or only what a session that [knows](Known) its beginning has not heard.
//!
//! Messages are compared by content, never by identity: a thread that went through JSON, another copy of LangChain or a
//! database is the same thread. What the model did is compared by its calls ([`super::history`]), for agents rebuild that part.

use super::history::{Fingerprint, History, print_of};
use super::line::{self, Block};
use crate::event::Reply;
use crate::message::{Content, Message, Role};
use crate::prompt::{self, Encoding, Style};
use crate::provider::Guard;

/// What stands before a thread that is sent whole.
const WHOLE_XML: &str = "This is the conversation so far as <thread> XML, with one <event> per message, tool call and tool \
result, in order. Reply with the assistant's next message only; write no XML.\n\n";
const WHOLE_TEXT: &str = "This is the conversation so far as labelled text. Reply with the assistant's next message only; \
write no label.\n\n";

/// The messages of one call.
#[derive(Debug)]
pub struct Thread {
    /// Its system messages, joined by a blank line.
    system: Option<String>,
    /// All the others.
    messages: Vec<Message>,
    prints: Vec<Fingerprint>,
    history: History,
}

/// A call the model has made and nobody has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The id the API gave it.
    pub api: String,
    /// The id the caller has seen: another one where the API's was taken.
    pub given: String,
}

/// What a session has heard and said.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Its messages as they were, to choose between sessions whose calls have the same ids.
    prints: Vec<Fingerprint>,
    history: History,
    pending: Vec<Pending>,
}

impl Thread {
    /// The thread of `messages`.
    pub fn new(messages: Vec<Message>) -> Thread {
        let (system, messages): (Vec<Message>, Vec<Message>) =
            messages.into_iter().partition(|message| message.role == Role::System);
        let texts: Vec<&str> = system
            .iter()
            .map(|message| message.content.as_text())
            .filter(|text| !text.trim().is_empty())
            .collect();
        let prints: Vec<Fingerprint> = messages.iter().map(print_of).collect();
        Thread {
            system: (!texts.is_empty()).then(|| texts.join("\n\n")),
            history: History::new(&messages.iter().collect::<Vec<_>>(), &prints),
            prints,
            messages,
        }
    }

    /// The system messages' text.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// The user line that tells all of it to a session that knows nothing.
    pub fn whole(&self, encoding: Encoding, guard: Option<Guard>) -> String {
        if let Some(blocks) = line::of_humans(self.messages.iter(), guard) {
            return line::user(&blocks);
        }
        let before = match encoding {
            Encoding::Xml => WHOLE_XML,
            Encoding::Text => WHOLE_TEXT,
        };
        let style = Style {
            encoding,
            ..Style::default()
        };
        let rendered = prompt::render(&self.messages, &[], style);
        line::user(&[Block::text(format!("{before}{rendered}"))])
    }

    /// The user line that tells what is new to a session that knows `known`: the results of all pending calls, in the order of
    /// the calls, and the user's messages behind them. `None` if this is not that session's thread, or can't go on there: a
    /// call without its result, a message that is neither a result nor the user's.
    pub fn addition(&self, known: &Known, guard: Option<Guard>) -> Option<String> {
        let beyond = self.history.beyond(&known.history)?;
        if beyond.results.len() != known.pending.len() {
            return None;
        }
        let mut blocks = Vec::with_capacity(beyond.results.len() + 1);
        for call in &known.pending {
            let answered = beyond.results.contains(&call.given);
            let result = answered.then(|| self.result_of(&call.given)).flatten()?;
            blocks.push(line::result(&call.api, result));
        }
        let rest = &self.messages[beyond.rest..];
        if !rest.is_empty() {
            blocks.extend(line::of_humans(rest.iter(), guard)?);
        }
        (!blocks.is_empty()).then(|| line::user(&blocks))
    }

    /// The last result of the call `id`: ids may have come twice in a thread's past, never in what a session waits for.
    fn result_of(&self, id: &str) -> Option<&Message> {
        let is_result = |message: &&Message| message.role == Role::Tool && message.tool_call_id == id;
        self.messages.iter().rfind(is_result)
    }

    /// Whether this is `known`'s thread, gone on.
    pub fn extends(&self, known: &Known) -> bool {
        let beyond = self.history.beyond(&known.history);
        beyond.is_some_and(|beyond| !beyond.results.is_empty() || beyond.rest < self.messages.len())
    }

    /// Whether it begins with `known`'s messages as they were, prose and all.
    pub fn repeats(&self, known: &Known) -> bool {
        self.prints.starts_with(&known.prints)
    }

    /// What a session knows that has heard all of this thread and given `reply`, whose calls are `pending`.
    pub fn known_with(&self, reply: &Reply, pending: Vec<Pending>) -> Known {
        let reply = Message {
            role: Role::Ai,
            content: Content::Text(reply.content.clone()),
            tool_calls: reply.tool_calls.clone(),
            tool_call_id: String::new(),
            is_error: false,
        };
        let mut prints = self.prints.clone();
        prints.push(print_of(&reply));
        let messages: Vec<&Message> = self.messages.iter().chain([&reply]).collect();
        Known {
            history: History::new(&messages, &prints),
            prints,
            pending,
        }
    }
}

impl Known {
    /// How much it has heard and said.
    pub fn len(&self) -> usize {
        self.history.len()
    }

    /// Whether it knows nothing.
    pub fn is_empty(&self) -> bool {
        self.history.is_empty()
    }
}

#[cfg(test)]
mod tests;
