//! Messages as opencode's own history, which is replayed into a session without a turn.
//!
//! In: messages. Out: the events of `POST /sync/replay` ([`replay`]), and the parts of a user's message ([`user_parts`]).
//! opencode does not interpret the words in them: parts are data.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::Model;
use super::server::{AGENT, Id, InputPart, OpencodeCallResult};
use crate::live::history::{NO_RESULT, ORPHAN, failed};
use crate::random;
use dfp_model::message::content::{self, Media, Part};
use dfp_model::message::{Content, Message, Role};
use dfp_provider::declare::mcp::Declarations;

/// The beginning of the ids that are made here, after their prefix. opencode's own ids have the time there: these sort before the
/// present for ever.
const OLD: &str = "000000000000";

/// Makes ids for replayed items: unique in a process, in the order in which they are made.
#[derive(Debug, Default)]
pub struct Ids(AtomicU64);

impl Ids {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

fn id(kind: &str, number: u64) -> String {
    format!("{kind}_{OLD}{number:014x}")
}

/// Returns whether a message was replayed, and is not the model's in this process.
pub fn is_replayed(message: &Id) -> bool {
    let number = message.as_str().split_once('_').map_or("", |(_, number)| number);
    number.starts_with(OLD)
}

/// The session into which a history is replayed.
#[derive(Debug)]
pub struct ReplayTarget<'a> {
    /// The folder of the session.
    pub directory: &'a str,
    pub version: &'a str,
    /// The model that will answer.
    pub model: &'a Model,
    pub tools: &'a Declarations,
    /// The source of the ids.
    pub ids: &'a Ids,
}

/// Makes `file` a part of the message `message` of `session`.
pub fn attachment(file: &InputPart, session: &str, message: &str, ids: &Ids) -> Value {
    let mut part = json!(file);
    part["id"] = json!(id("prt", ids.next()));
    part["sessionID"] = json!(session);
    part["messageID"] = json!(message);
    part
}

/// The body of the replay of `messages`, a whole history, and the id of the new session.
pub fn replay(messages: &[Message], place: &ReplayTarget) -> (Value, String) {
    // It is sent to the API, which must not take conversations of two processes for one.
    let session = format!("ses_{OLD}{:014x}", random::id_bits() >> (128 - 4 * 14));
    let mut replay = Replay {
        place,
        messages,
        session: session.clone(),
        events: Vec::new(),
        user: None,
        used: Vec::new(),
    };
    replay.begin();
    let results = Results::of(messages);
    for (at, message) in messages.iter().enumerate() {
        match message.role {
            Role::Ai => replay.answer(at, message, &results),
            Role::Tool if results.is_taken(at) => {}
            Role::Tool => replay.user(&orphan(message)),
            _ => replay.user(&user_parts(message)),
        }
    }
    let body = json!({"directory": place.directory, "events": replay.events});
    (body, session)
}

/// The parts of a message that is not the model's; empty for an empty message.
pub fn user_parts(message: &Message) -> Vec<InputPart> {
    pieces(&message.content, &message.role)
}

/// The result of a call.
pub fn result(message: &Message) -> OpencodeCallResult {
    let (mut text, mut files) = (String::new(), Vec::new());
    for piece in pieces(&message.content, &message.role) {
        match piece {
            InputPart::Text { text: more } if text.is_empty() => text = more,
            InputPart::Text { text: more } => {
                text.push('\n');
                text.push_str(&more);
            }
            file @ InputPart::File { .. } => files.push(file),
        }
    }
    if message.is_error {
        // The API has another place for the failure, but not if there are files.
        text = failed(text);
    }
    OpencodeCallResult {
        text,
        // A failed call has no place for files.
        is_error: message.is_error && files.is_empty(),
        files,
    }
}

/// The content of a result whose call does not exist.
fn orphan(message: &Message) -> Vec<InputPart> {
    let OpencodeCallResult { text, files, .. } = result(message);
    let text = InputPart::Text {
        text: format!("{ORPHAN}\n{text}"),
    };
    std::iter::once(text).chain(files).collect()
}

fn pieces(content: &Content, role: &Role) -> Vec<InputPart> {
    let text = |text: String| (!text.trim().is_empty()).then_some(InputPart::Text { text });
    match content {
        Content::Text(whole) => text(whole.clone()).into_iter().collect(),
        Content::Blocks(raw) => content::parts(raw, role)
            .into_iter()
            .filter_map(|part| match part {
                Part::Text(more) => text(more),
                Part::Media(media) => file(&media),
                _ => None,
            })
            .collect(),
    }
}

/// An image as a data URL. Other media have been refused before (`run::content`).
fn file(media: &Media) -> Option<InputPart> {
    let (mime, _) = media.inline()?;
    Some(InputPart::File {
        mime: mime.to_owned(),
        url: media.data_url()?,
    })
}

/// The assignment of results to calls.
struct Results {
    /// The index of the result, by the index of the message and that of the call in it.
    of: HashMap<(usize, usize), usize>,
    taken: Vec<bool>,
}

impl Results {
    /// A result answers the last call before it that has its id and no result; without an id, the first that waits.
    fn of(messages: &[Message]) -> Results {
        let mut open: Vec<(&str, (usize, usize))> = Vec::new();
        let mut results = Results {
            of: HashMap::new(),
            taken: vec![false; messages.len()],
        };
        for (at, message) in messages.iter().enumerate() {
            if message.role == Role::Tool {
                let found = match message.tool_call_id.as_str() {
                    "" => (!open.is_empty()).then_some(0),
                    id => open.iter().rposition(|(known, _)| *known == id),
                };
                if let Some(found) = found {
                    results.of.insert(open.remove(found).1, at);
                    results.taken[at] = true;
                }
            }
            let calls = message.tool_calls.iter().enumerate();
            open.extend(calls.map(|(number, call)| (call.id.as_str(), (at, number))));
        }
        results
    }

    fn is_taken(&self, at: usize) -> bool {
        self.taken.get(at).copied().unwrap_or_default()
    }
}

/// A history that is being written.
struct Replay<'a> {
    place: &'a ReplayTarget<'a>,
    messages: &'a [Message],
    session: String,
    events: Vec<Value>,
    /// The id of the user's last message.
    user: Option<String>,
    /// The ids of the calls so far: each may be there once.
    used: Vec<String>,
}

impl Replay<'_> {
    fn push(&mut self, kind: &str, data: Value) {
        let (id, seq) = (id("evt", self.place.ids.next()), self.events.len());
        let session = &self.session;
        self.events
            .push(json!({"id": id, "aggregateID": session, "seq": seq, "type": kind, "data": data}));
    }

    fn begin(&mut self) {
        let ReplayTarget { directory, version, .. } = *self.place;
        let path = directory.trim_start_matches('/');
        let info = json!({
            "id": self.session, "slug": "x", "projectID": "global", "directory": directory, "path": path, "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "title": "x", "version": version, "time": {"created": 1, "updated": 1},
        });
        self.push("session.created.1", json!({"sessionID": self.session, "info": info}));
    }

    /// Adds a message, and returns its id. `make` gets the id and the time.
    fn message(&mut self, make: impl FnOnce(&str, u64) -> Value) -> String {
        let number = self.place.ids.next();
        let id = id("msg", number);
        let mut info = make(&id, number + 1);
        info["id"] = json!(id);
        info["sessionID"] = json!(self.session);
        self.push("message.updated.1", json!({"sessionID": self.session, "info": info}));
        id
    }

    fn part(&mut self, message: &str, mut part: Value) {
        let number = self.place.ids.next();
        part["id"] = json!(id("prt", number));
        part["sessionID"] = json!(self.session);
        part["messageID"] = json!(message);
        let data = json!({"sessionID": self.session, "part": part, "time": number + 1});
        self.push("message.part.updated.1", data);
    }

    fn user(&mut self, parts: &[InputPart]) {
        if parts.is_empty() {
            return;
        }
        let model = json!(self.place.model);
        let message =
            self.message(|_, time| json!({"role": "user", "time": {"created": time}, "agent": AGENT, "model": model}));
        for part in parts {
            self.part(&message, json!(part));
        }
        self.user = Some(message);
    }

    /// Adds a message of the model, with its calls and their results. A call whose id is missing or already used gets a new one.
    fn answer(&mut self, at: usize, message: &Message, results: &Results) {
        let texts = pieces(&message.content, &message.role).into_iter();
        let texts: Vec<String> = texts
            .filter_map(|piece| match piece {
                InputPart::Text { text } => Some(text),
                InputPart::File { .. } => None,
            })
            .collect();
        if texts.is_empty() && message.tool_calls.is_empty() {
            return;
        }
        let ReplayTarget { model, directory, .. } = *self.place;
        let parent = self.user.clone();
        let finish = if message.tool_calls.is_empty() {
            "stop"
        } else {
            "tool-calls"
        };
        let answer = self.message(|own, time| {
            json!({
                "role": "assistant", "time": {"created": time, "completed": time},
                // The message that it answers, if there is one before it.
                "parentID": parent.as_deref().unwrap_or(own),
                "modelID": model.id, "providerID": model.provider, "mode": AGENT, "agent": AGENT,
                "path": {"cwd": directory, "root": "/"}, "cost": 0,
                "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
                "finish": finish,
            })
        });
        for text in texts {
            self.part(
                &answer,
                json!({"type": "text", "text": text, "time": {"start": 1, "end": 1}}),
            );
        }
        for (number, call) in message.tool_calls.iter().enumerate() {
            let mut call_id = call.id.clone();
            while call_id.is_empty() || self.used.contains(&call_id) {
                call_id = format!("call_df_{}", self.place.ids.next());
            }
            self.used.push(call_id.clone());
            let result = match results
                .of
                .get(&(at, number))
                .and_then(|found| self.messages.get(*found))
            {
                Some(message) => result(message),
                None => OpencodeCallResult {
                    text: NO_RESULT.to_owned(),
                    is_error: true,
                    files: Vec::new(),
                },
            };
            let tool = super::wire_name(self.place.tools, &call.name);
            let attached = |file: &InputPart| attachment(file, &self.session, &answer, self.place.ids);
            let state = result.state(&call.args, attached);
            let part = json!({"type": "tool", "tool": tool, "callID": call_id, "state": state});
            self.part(&answer, part);
        }
    }
}

#[cfg(test)]
mod tests;
