//! A thread as copilot's own history: the file of events from which a session is resumed (NEW-CLIS 1.4).
//!
//! In: messages. Out: the lines of `events.jsonl`. copilot does not interpret the words in them: they go to the API as they are,
//! in the order of the thread.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::live::history::{HistoryCalls, NO_RESULT, ORPHAN, failed};
use dfp_model::message::content::{self, Part};
use dfp_model::message::{Content, Message, Role};
use dfp_provider::declare::{MAX_NAME, Tools};

/// The text before the images of results.
const SHOWN: &str = "The images of the tool results:";
/// The time stamp of all events.
const TIME: &str = "2026-01-01T00:00:00.000Z";

/// The session for which a history is written.
#[derive(Debug)]
pub struct Of<'a> {
    /// The session's id.
    pub session: &'a str,
    /// The model that will answer, if it is known.
    pub model: &'a str,
    /// The server's version.
    pub version: &'a str,
    /// The session's folder.
    pub folder: &'a str,
    /// The session's tools.
    pub tools: &'a Tools,
    /// True if the model is told the names of the tools alone, and finds them by copilot's own search.
    pub searches_tools: bool,
}

/// Writes the history of `messages`, and of the note after them.
pub fn write(messages: &[Message], note: Option<&str>, of: &Of<'_>) -> String {
    let mut history = HistoryText {
        of,
        text: String::new(),
        events: 0,
        calls: HistoryCalls::default(),
        images: 0,
        unshown: Vec::new(),
        found: HashSet::new(),
    };
    history.event(
        "session.start",
        &Start {
            session_id: of.session,
            version: 1,
            producer: "copilot-agent",
            copilot_version: of.version,
            start_time: TIME,
            selected_model: of.model,
            context: Context { cwd: of.folder },
        },
    );
    for message in messages {
        match message.role {
            Role::Ai => {
                history.close();
                history.found(message);
                history.answer(message);
            }
            Role::Tool => history.result(message),
            _ => {
                history.close();
                let (text, images) = history.said(message);
                history.user(&text, &images);
            }
        }
    }
    history.close();
    if let Some(note) = note {
        history.user(note, &[]);
    }
    history.text
}

/// The text of a message.
fn text_of(message: &Message) -> String {
    match &message.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(raw) => {
            let parts = content::parts(raw, &message.role).into_iter();
            let texts = parts.filter_map(|part| match part {
                Part::Text(text) => Some(text),
                _ => None,
            });
            texts.collect()
        }
    }
}

/// The text of a call's result.
pub fn result_of(message: &Message) -> String {
    match message.is_error {
        true => failed(text_of(message)),
        false => text_of(message),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CopilotLine<'a, D: Serialize> {
    #[serde(rename = "type")]
    kind: &'static str,
    data: &'a D,
    id: String,
    timestamp: &'static str,
    parent_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    session_id: &'a str,
    version: u32,
    producer: &'static str,
    copilot_version: &'a str,
    start_time: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    selected_model: &'a str,
    context: Context<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    strategy: &'static str,
    tool_names: Vec<String>,
}

#[derive(Serialize)]
struct Context<'a> {
    cwd: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct User<'a> {
    content: &'a str,
    transformed_content: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    attachments: &'a [Attachment],
}

/// An image, which the API gets after the message's text and after a text of its own, its name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    #[serde(rename = "type")]
    kind: &'static str,
    display_name: String,
    mime_type: String,
    data: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CopilotAnswer<'a> {
    message_id: String,
    model: &'a str,
    content: String,
    tool_requests: Vec<CopilotCall<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CopilotCall<'a> {
    tool_call_id: String,
    name: String,
    arguments: &'a RawValue,
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Done<'a> {
    tool_call_id: &'a str,
    success: bool,
    result: CopilotOutput<'a>,
}

#[derive(Serialize)]
struct CopilotOutput<'a> {
    content: &'a str,
}

/// A history that is being written.
struct HistoryText<'a> {
    of: &'a Of<'a>,
    text: String,
    events: u64,
    calls: HistoryCalls,
    /// The number of images so far.
    images: usize,
    /// The images of results. A result can't hold one, so they become a user's message, which comes after all the results. (For a
    /// model that is said to see, copilot would put them after the results by itself, but no more than 50, and made smaller from
    /// 2000 pixels a side on.)
    unshown: Vec<Attachment>,
    /// The names of tools that the model has found so far.
    found: HashSet<String>,
}

/// The id of the event of this number.
fn id(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

impl<'a> HistoryText<'a> {
    fn event(&mut self, kind: &'static str, data: &impl Serialize) {
        let line = CopilotLine {
            kind,
            data,
            id: id(self.events),
            timestamp: TIME,
            parent_id: self.events.checked_sub(1).map(id),
        };
        self.events += 1;
        // Strings, numbers and raw JSON that was parsed: there is nothing serde_json can't write.
        self.text.push_str(&serde_json::to_string(&line).unwrap_or_default());
        self.text.push('\n');
    }

    /// The text of a message, and its images; each image's number is at its place in the text.
    fn said(&mut self, message: &Message) -> (String, Vec<Attachment>) {
        let raw = match &message.content {
            Content::Text(text) => return (text.clone(), Vec::new()),
            Content::Blocks(raw) => raw,
        };
        let (mut text, mut images) = (String::new(), Vec::new());
        for part in content::parts(raw, &message.role) {
            match part {
                Part::Text(more) => text.push_str(&more),
                Part::Media(media) => {
                    // Media that are not images have been refused before (`run::content`).
                    let Some((mime, data)) = media.inline() else { continue };
                    self.images += 1;
                    let name = format!("image {}", self.images);
                    text.push_str(&format!("[{name}]"));
                    images.push(Attachment {
                        kind: "blob",
                        display_name: name,
                        mime_type: mime.to_owned(),
                        data: data.to_owned(),
                    });
                }
                _ => {}
            }
        }
        (text, images)
    }

    fn user(&mut self, text: &str, attachments: &[Attachment]) {
        if text.trim().is_empty() {
            return;
        }
        let user = User {
            content: text,
            transformed_content: text,
            attachments,
        };
        self.event("user.message", &user);
    }

    /// Writes that the tools were found that `message` calls: copilot declares to its API those alone.
    fn found(&mut self, message: &Message) {
        if !self.of.searches_tools {
            return;
        }
        let tools = self.of.tools;
        let called = message
            .tool_calls
            .iter()
            .map(|call| tools.wire_name(&call.name, MAX_NAME));
        let declared = called.filter(|name| tools.callers_name(name).is_some());
        let tool_names: Vec<String> = declared.filter(|name| self.found.insert(name.clone())).collect();
        if !tool_names.is_empty() {
            let found = Found {
                strategy: "generic-client",
                tool_names,
            };
            self.event("tool_search.activated", &found);
        }
    }

    fn answer(&mut self, message: &'a Message) {
        let content = text_of(message);
        if content.trim().is_empty() && message.tool_calls.is_empty() {
            return;
        }
        let mut tool_requests = Vec::new();
        for call in &message.tool_calls {
            tool_requests.push(CopilotCall {
                tool_call_id: self.calls.open(&call.id),
                name: self.of.tools.wire_name(&call.name, MAX_NAME),
                arguments: &call.args,
                kind: "function",
            });
        }
        let answer = CopilotAnswer {
            message_id: id(self.events),
            model: self.of.model,
            content,
            tool_requests,
        };
        self.event("assistant.message", &answer);
    }

    /// Adds the result of a call. If there is no such call, the text of the result is added as a message.
    fn result(&mut self, message: &Message) {
        let call = self.calls.answered(message);
        let (text, images) = self.said(message);
        let text = if message.is_error { failed(text) } else { text };
        match call {
            Some(id) => {
                self.done(&id, &text);
                self.unshown.extend(images);
            }
            None => self.user(&format!("{ORPHAN}\n{text}"), &images),
        }
    }

    fn done(&mut self, call: &str, text: &str) {
        let done = Done {
            tool_call_id: call,
            success: true,
            result: CopilotOutput { content: text },
        };
        self.event("tool.execution_complete", &done);
    }

    /// Answers the calls that nobody has answered, and shows the images of results, before another message comes.
    fn close(&mut self) {
        for id in self.calls.take_unanswered() {
            self.done(&id, NO_RESULT);
        }
        let images = std::mem::take(&mut self.unshown);
        if !images.is_empty() {
            self.user(SHOWN, &images);
        }
    }
}
