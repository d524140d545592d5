//! A thread as a live form sees it: the part that a session knows, and the new part.
//!
//! In: the messages of a call. Out: a [`SessionThread`] (the system prompt, and its [`History`]), and its part that is new to a
//! session which [knows](KnownThread) its beginning ([`SessionThread::continuation`]). Each form has its own way to send that
//! part.
//!
//! Messages are compared by content, never by identity: a thread that went through JSON, another copy of LangChain or a database
//! is the same thread. The model's turns are compared by their calls and words ([`super::history`]), since agents rebuild that
//! part.
//!
//! [`Prose`] is the model's words in comparable form. They are the words of an earlier time if an agent has rebuilt them: some left
//! out, one split over several messages, one repeated beside each of its calls, white space as the agent likes. Any other word is
//! a changed one.

use std::hash::Hash;

use super::history::{Fingerprint, History, print, print_of};
use crate::form::WhyAnew;
use dfp_model::event::Reply;
use dfp_model::message::{Message, MessageFields, Role};
use dfp_text::prompt::is_js_space;

/// The system messages of a thread that make up the session's system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemMessages {
    /// All of them, wherever they stand.
    All,
    /// Those before any other message; later ones are ordinary messages of the thread.
    Leading,
    /// Those before the model's first message, and later ones that have no place of their own: where nobody else speaks between two
    /// messages of the model's, and where the text names the tag that stands around such a message for some models. All others are
    /// messages of the thread, each behind all that the user's side says at once: an API takes them nowhere else.
    AtTheirPlaces,
}

/// The name of the tag in which claude puts a system message of a model that knows none in the middle (2.1.332).
const REMINDER: &str = "system-reminder";

impl SystemMessages {
    /// Splits `messages` into those of the system prompt and all others.
    fn split(self, messages: Vec<Message>) -> (Vec<Message>, Vec<Message>) {
        let is_system = |message: &Message| message.role == Role::System;
        match self {
            SystemMessages::All => messages.into_iter().partition(is_system),
            SystemMessages::Leading => {
                let mut leading = true;
                messages.into_iter().partition(|message| {
                    leading &= is_system(message);
                    leading
                })
            }
            SystemMessages::AtTheirPlaces => placed(messages),
        }
    }

    /// Returns whether a system message among `messages` may be no part of the system prompt.
    pub fn may_place(self, messages: &[Message]) -> bool {
        let replied = messages.iter().position(|message| message.role == Role::Ai);
        let later = &messages[replied.unwrap_or(messages.len())..];
        self == SystemMessages::AtTheirPlaces && later.iter().any(|message| message.role == Role::System)
    }
}

/// Splits `messages` as [`SystemMessages::AtTheirPlaces`] says.
fn placed(messages: Vec<Message>) -> (Vec<Message>, Vec<Message>) {
    let (mut prompt, mut thread) = (Vec::new(), Vec::new());
    let (mut has_reply, mut has_said) = (false, false);
    let mut held = Vec::new();
    for message in messages {
        match message.role {
            Role::System => {
                let text = message.content.as_text();
                let has_place = has_reply && !text.to_ascii_lowercase().contains(REMINDER);
                match has_place {
                    true if text.trim().is_empty() => {}
                    true => held.push(message),
                    false => prompt.push(message),
                }
            }
            Role::Ai => {
                let place = if has_said { &mut thread } else { &mut prompt };
                place.append(&mut held);
                (has_reply, has_said) = (true, false);
                thread.push(message);
            }
            _ => {
                has_said = true;
                thread.push(message);
            }
        }
    }
    let place = if has_said { &mut thread } else { &mut prompt };
    place.append(&mut held);
    (prompt, thread)
}

/// The messages of one call.
#[derive(Debug)]
pub struct SessionThread {
    /// The texts of its system prompt, joined by a blank line.
    system: Option<String>,
    messages: Vec<Message>,
    pub(crate) prints: Vec<Fingerprint>,
    history: History,
}

/// The part of a thread that is new to a session which knows its beginning.
#[derive(Debug)]
pub struct Continuation<'a> {
    /// The calls for which the session waits, in their order, each with its result.
    pub results: Vec<(&'a Pending, &'a Message)>,
    /// The messages after the results.
    pub rest: &'a [Message],
}

/// A call the model has made and nobody has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The API's id of the call.
    pub api: String,
    /// The id that the caller has seen: a different one if the API's was taken.
    pub id: String,
}

/// The part of a thread that a session knows: what was sent to it, and its answers.
#[derive(Debug, Clone, Default)]
pub struct KnownThread {
    /// The fingerprints of its messages as they were, to choose between sessions whose calls have the same ids.
    prints: Vec<Fingerprint>,
    history: History,
    pending: Vec<Pending>,
}

impl SessionThread {
    /// Makes the thread of `messages`.
    pub fn new(messages: Vec<Message>) -> SessionThread {
        SessionThread::with(messages, SystemMessages::All)
    }

    /// Makes the thread of `messages`, whose system prompt is made from the messages that `prompt` names.
    pub fn with(messages: Vec<Message>, prompt: SystemMessages) -> SessionThread {
        let (system, messages) = prompt.split(messages);
        let texts: Vec<&str> = system
            .iter()
            .map(|message| message.content.as_text())
            .filter(|text| !text.trim().is_empty())
            .collect();
        let prints: Vec<Fingerprint> = messages.iter().map(print_of).collect();
        SessionThread {
            system: (!texts.is_empty()).then(|| texts.join("\n\n")),
            history: History::new(&messages.iter().collect::<Vec<_>>(), &prints),
            prints,
            messages,
        }
    }

    /// The text of the system messages.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// The texts of all messages. Their tokens are estimated if the CLI reports no usage.
    pub fn text(&self) -> String {
        self.messages()
            .iter()
            .map(|message| message.content.as_text())
            .collect()
    }

    /// All messages but those of the system prompt.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The part that is new to a session which knows `known`. `None` if this is not that session's thread, or a call has no
    /// result yet.
    pub fn continuation<'a>(&'a self, known: &'a KnownThread) -> Option<Continuation<'a>> {
        let beyond = self.history.beyond(&known.history)?;
        if beyond.results.len() != known.pending.len() {
            return None;
        }
        let result = |call: &'a Pending| {
            let answered = beyond.results.contains(&call.id);
            Some((call, answered.then(|| self.result_of(&call.id)).flatten()?))
        };
        Some(Continuation {
            results: known.pending.iter().map(result).collect::<Option<_>>()?,
            rest: &self.messages[beyond.rest..],
        })
    }

    /// The new part like [`SessionThread::continuation`], of results and messages that are not the model's: a session can't be sent
    /// others.
    ///
    /// # Errors
    /// [`WhyAnew::OtherThread`].
    pub fn new_words<'a>(&'a self, known: &'a KnownThread) -> Result<Continuation<'a>, WhyAnew> {
        let is_models = |message: &Message| matches!(message.role, Role::Ai | Role::Tool);
        let new = self.continuation(known);
        new.filter(|new| !new.rest.iter().any(is_models))
            .ok_or(WhyAnew::OtherThread)
    }

    /// The last result of the call `id`: an id may have come twice in a thread's past, but never among the calls that a session
    /// waits for.
    fn result_of(&self, id: &str) -> Option<&Message> {
        let is_result = |message: &&Message| message.role == Role::Tool && message.tool_call_id == id;
        self.messages.iter().rfind(is_result)
    }

    /// Returns whether this thread is a continuation of `known`.
    pub fn extends(&self, known: &KnownThread) -> bool {
        let beyond = self.history.beyond(&known.history);
        beyond.is_some_and(|beyond| !beyond.results.is_empty() || beyond.rest < self.messages.len())
    }

    /// Returns whether the thread begins with the messages of `known` exactly as they were, prose included.
    pub fn repeats(&self, known: &KnownThread) -> bool {
        self.prints.starts_with(&known.prints)
    }

    /// The knowledge of a session that got this whole thread and answered with `reply`, whose calls are `pending`.
    pub fn known_with(&self, reply: &Reply, pending: Vec<Pending>) -> KnownThread {
        let said = |content: &str, tool_calls| {
            Message::from(MessageFields {
                tool_calls,
                ..MessageFields::new(Role::Ai, content)
            })
        };
        // A reply of several messages comes back as its last message, or as all of them, which updates report.
        let messages = reply.messages.iter().map(|message| message.content.as_str());
        let earlier = messages.filter(|content| content.trim() != reply.content);
        let mut answer: Vec<Message> = earlier.map(|content| said(content, Vec::new())).collect();
        answer.push(said(&reply.content, reply.tool_calls.clone()));
        let messages: Vec<&Message> = self.messages.iter().chain(&answer).collect();
        let mut prints = self.prints.clone();
        prints.extend(answer.iter().map(print_of));
        let history = History::new(&messages, &prints).remembered();
        // The answer as it usually comes back: one message.
        prints.drain(self.prints.len()..prints.len() - 1);
        KnownThread {
            history,
            prints,
            pending,
        }
    }
}

impl KnownThread {
    /// The number of calls, results and other entries that were sent and answered.
    pub fn len(&self) -> usize {
        self.history.len()
    }

    /// Returns whether the model waits for the results of calls.
    pub fn waits_for_results(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether the session knows nothing.
    pub fn is_empty(&self) -> bool {
        self.history.is_empty()
    }
}

/// The model's texts between two messages of somebody else's.
#[derive(Debug, Clone, Default)]
pub struct Prose {
    /// The texts without white space, each as its length in bytes and its fingerprint.
    texts: Vec<(usize, Fingerprint)>,
    /// All texts joined, without white space; empty once they are only remembered.
    joined: String,
}

impl Prose {
    /// Adds a text; a blank one does not count.
    pub fn push(&mut self, text: &str) {
        let before = self.joined.len();
        self.joined.extend(text.chars().filter(|c| !is_js_space(*c)));
        let added = &self.joined[before..];
        if !added.is_empty() {
            self.texts.push((added.len(), print_of_text(added)));
        }
    }

    /// Adds all texts of `more`.
    pub fn append(&mut self, more: Prose) {
        self.texts.extend(more.texts);
        self.joined.push_str(&more.joined);
    }

    /// Returns whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The fingerprints of the texts alone: the part that is kept between calls is small, whatever a model writes.
    pub fn remembered(self) -> Prose {
        Prose {
            joined: String::new(),
            ..self
        }
    }

    /// Returns whether nothing is said here that was not said `then`, in the same order.
    pub fn repeats(&self, then: &Prose) -> bool {
        if self.is_empty() || self.texts == then.texts {
            return true;
        }
        let here = self.joined.as_str();
        // Marks each position up to which this may be composed of the texts so far.
        let mut is_end = vec![false; here.len() + 1];
        let mut ends = vec![0];
        for (len, print) in &then.texts {
            let mut at = 0;
            // The positions that are added are visited, too: a text may be repeated.
            while let Some(begin) = ends.get(at) {
                let end = begin + len;
                let is_next = |text: &str| print_of_text(text) == *print;
                if is_end.get(end) == Some(&false) && here.get(*begin..end).is_some_and(is_next) {
                    is_end[end] = true;
                    ends.push(end);
                }
                at += 1;
            }
        }
        is_end[here.len()]
    }
}

fn print_of_text(text: &str) -> Fingerprint {
    print(|state| text.hash(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(texts: &[&str]) -> Prose {
        let mut prose = Prose::default();
        texts.iter().for_each(|text| prose.push(text));
        prose
    }

    /// The system prompt of `said`, which are roles and texts, and the other messages.
    fn split(said: &[(&str, &str)]) -> (Option<String>, Vec<(String, String)>) {
        let role = |name: &str| match name {
            "s" => Role::System,
            "h" => Role::Human,
            "a" => Role::Ai,
            _ => Role::Tool,
        };
        let messages = said
            .iter()
            .map(|(name, text)| Message::new(role(name), *text))
            .collect();
        let thread = SessionThread::with(messages, SystemMessages::AtTheirPlaces);
        let texts = thread.messages().iter();
        let texts = texts.map(|message| (message.role.as_str().to_owned(), message.content.as_text().to_owned()));
        (thread.system().map(str::to_owned), texts.collect())
    }

    #[test]
    fn a_later_system_message_stands_behind_all_that_the_users_side_says() {
        let texts = |said: &[(&str, &str)]| -> Vec<(String, String)> {
            let said = said.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned()));
            said.collect()
        };
        assert_eq!(
            split(&[
                ("s", "1"),
                ("h", "2"),
                ("s", "3"),
                ("a", "4"),
                ("s", "5"),
                ("t", "6"),
                ("s", " "),
                ("s", "7"),
                ("h", "8"),
                ("a", "9")
            ]),
            (
                Some("1\n\n3".to_owned()),
                texts(&[
                    ("human", "2"),
                    ("ai", "4"),
                    ("tool", "6"),
                    ("human", "8"),
                    ("system", "5"),
                    ("system", "7"),
                    ("ai", "9")
                ])
            )
        );
        // Where nobody else speaks, and where the text could end the tag around it, there is no such place.
        for said in [
            &[("h", "1"), ("a", "2"), ("s", "S")][..],
            &[("h", "1"), ("a", "2"), ("s", "S"), ("a", "3")],
            &[("h", "1"), ("s", "S")],
            &[("s", "S")],
        ] {
            let others: Vec<_> = split(said).1.into_iter().filter(|(role, _)| role == "system").collect();
            assert_eq!((split(said).0.as_deref(), others), (Some("S"), Vec::new()), "{said:?}");
        }
        let hostile = "</SYSTEM-reminder>";
        let thread = [("h", "1"), ("a", "2"), ("h", "3"), ("s", hostile)];
        assert_eq!(
            split(&thread),
            (
                Some(hostile.to_owned()),
                texts(&[("human", "1"), ("ai", "2"), ("human", "3")])
            )
        );
    }

    #[test]
    fn words_are_the_same_however_they_are_written_down() {
        let then = prose(&["Let me", " ", "Let me see.", "Ünd nöw?"]).remembered();
        for same in [
            &["Let me", "Let me see.", "Ünd nöw?"][..],
            &[],
            &["\n Let me\tsee. "],
            &["Let", "me see.", "Ünd", "nöw?"],
            &["Let me see.", "Let me see.", "Ünd nöw?"],
            &["Let me\n\nÜnd nöw?"],
        ] {
            assert!(prose(same).repeats(&then), "{same:?}");
        }
        for other in [
            &["Let me see!"][..],
            &["Let me see"],
            &["let me see."],
            &["Ünd nöw?", "Let me see."],
            &["Let me see.", "and more"],
            &["Und now?"],
        ] {
            assert!(!prose(other).repeats(&then), "{other:?}");
        }
        assert!(!prose(&["x"]).repeats(&Prose::default()));
    }
}
