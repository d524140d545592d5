//! Messages as items of the Responses API, the form in which codex takes a history.
//!
//! In: messages. Out: the items of `thread/inject_items`, and the answers to calls that wait for their results. The model's
//! output of this process is sent as it came, with its reasoning ([`super::rollout`]); the rest is built from text and calls.
//! codex does not interpret the words of users or tools there: `$skill`, `/command` and the limit of 1,048,576 characters belong
//! to `turn/start` (CODEX-LIVE pitfall 9).

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value, json};

use super::rollout::{RecalledItems, ToldItem, name_told};
use super::settings::CodexSetup;
use super::wire::{ContentItem, ToolAnswer};
use crate::live::history::{HistoryCalls, NO_RESULT, ORPHAN, failed};
use crate::random;
use dfp_model::message::content::{self, Part};
use dfp_model::message::reasoning::{self, Origin, Returned};
use dfp_model::message::{Content, Message, Role};
use dfp_provider::declare::{MAX_NAME, Tools};

/// The fields of the API's items that are injected again; codex adds notes of its own.
const KEPT: [&str; 13] = [
    "type",
    "id",
    "status",
    "role",
    "phase",
    "content",
    "summary",
    "encrypted_content",
    "name",
    "namespace",
    "arguments",
    "call_id",
    "output",
];

/// The further field of a search of the web.
const OF_SEARCH: [&str; 1] = ["action"];

/// The items of `messages`, a whole history. `recalled` are the items of messages that came from codex itself, by their index;
/// other messages from the same `origin` bring their own reasoning.
pub fn of_history(
    messages: &[Message],
    setup: &CodexSetup,
    recalled: &HashMap<usize, RecalledItems>,
    origin: &Origin,
) -> Vec<Value> {
    written(messages, setup, recalled, origin).items
}

/// A thread of codex's that no process has, with what it is to be told now.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownCodexThread {
    pub id: String,
    /// All of its items, the instructions first.
    pub items: Vec<Value>,
    /// Those among them that are behind its last reply.
    pub told: Vec<ToldItem>,
}

/// `messages` as the items of the thread of codex's in which their last reply was given; `None` if that is not remembered.
pub fn of_thread(
    messages: &[Message],
    setup: &CodexSetup,
    recalled: &HashMap<usize, RecalledItems>,
    origin: &Origin,
) -> Option<KnownCodexThread> {
    let last = messages.iter().rposition(|message| message.role == Role::Ai)?;
    let (thread, _) = recalled.get(&last)?.thread()?;
    let history = written(messages, setup, recalled, origin);
    let instructions = instructions(setup);
    let before = usize::from(instructions.is_some());
    let mut items: Vec<Value> = instructions.into_iter().chain(history.items).collect();
    let (mut from, mut end) = (0, 0);
    for (its, at) in history.replies {
        let reply = recalled.get(&at)?;
        let begin = its.start + before;
        end = its.end + before;
        let (in_thread, told) = reply.thread().unwrap_or_default();
        if in_thread == thread {
            name_told(&mut items[from..begin], told);
            from = end;
        }
    }
    let new = items.get_mut(end..)?;
    for item in new.iter_mut() {
        // codex names what it is told, but not what stands in a thread's file.
        let kind = match item["type"] == "function_call_output" {
            true => "fco",
            false => "msg",
        };
        item["id"] = Value::from(format!("{kind}_{}", random::uuid()));
    }
    let told = new.iter().filter_map(ToldItem::of).collect();
    Some(KnownCodexThread {
        id: thread.to_owned(),
        items,
        told,
    })
}

/// The item of the instructions, if there are any.
pub fn instructions(setup: &CodexSetup) -> Option<Value> {
    let part = json!({"type": "input_text", "text": setup.instructions()});
    (!setup.instructions().is_empty()).then(|| json!({"type": "message", "role": "developer", "content": [part]}))
}

fn written<'a>(
    messages: &[Message],
    setup: &'a CodexSetup,
    recalled: &HashMap<usize, RecalledItems>,
    origin: &'a Origin,
) -> CodexHistory<'a> {
    let mut history = CodexHistory {
        tools: &setup.tools,
        namespace: setup.namespace(),
        origin,
        items: Vec::new(),
        calls: HistoryCalls::default(),
        replies: Vec::new(),
    };
    for (at, message) in messages.iter().enumerate() {
        if message.role != Role::Tool {
            history.close();
        }
        match (&message.role, recalled.get(&at)) {
            (Role::Ai, Some(recalled)) => {
                let begin = history.items.len();
                history.recall(message, recalled);
                history.replies.push((begin..history.items.len(), at));
            }
            (Role::Ai, None) => history.answer(message),
            (Role::Tool, _) => history.result(message),
            _ => history.items.extend(of_message(message)),
        }
    }
    history.close();
    history
}

/// The item of a message that is neither the model's nor a tool's; `None` for an empty message.
pub fn of_message(message: &Message) -> Option<Value> {
    // A "system" item vanishes without a word (CODEX-LIVE pitfall 11).
    let role = if message.role == Role::System {
        "developer"
    } else {
        "user"
    };
    let parts = parts(&message.content, &message.role);
    let parts: Vec<Value> = parts.into_iter().map(CodexPiece::into_item).collect();
    (!parts.is_empty()).then(|| json!({"type": "message", "role": role, "content": parts}))
}

/// The answer to a call. Only its text can tell that the tool failed.
pub fn answer(message: &Message) -> ToolAnswer {
    let pieces = result_pieces(message);
    ToolAnswer {
        content_items: pieces.into_iter().map(CodexPiece::into_content).collect(),
        success: true,
    }
}

/// The answer that consists of this text.
pub fn answer_of(text: &str) -> ToolAnswer {
    ToolAnswer {
        content_items: vec![ContentItem::InputText { text: text.to_owned() }],
        success: true,
    }
}

/// An item of the API without the fields that codex has added to it.
pub fn plain(item: &Value) -> Value {
    let fields = item.as_object().into_iter().flatten();
    let is_search = item.get("type").and_then(Value::as_str) == Some("web_search_call");
    let is_kept = |name: &str| KEPT.contains(&name) || (is_search && OF_SEARCH.contains(&name));
    let kept = fields.filter(|(name, value)| is_kept(name) && !value.is_null());
    Value::Object(
        kept.map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Map<_, _>>(),
    )
}

/// A piece of content.
enum CodexPiece {
    Text(String),
    Image(String),
}

impl CodexPiece {
    fn into_item(self) -> Value {
        match self {
            CodexPiece::Text(text) => json!({"type": "input_text", "text": text}),
            CodexPiece::Image(url) => json!({"type": "input_image", "image_url": url}),
        }
    }

    /// The piece in an output, as codex makes it of an answer to its call.
    fn into_output(self) -> Value {
        let mut item = self.into_item();
        if item["type"] == "input_image" {
            item["detail"] = Value::from("high");
        }
        item
    }

    fn into_content(self) -> ContentItem {
        match self {
            CodexPiece::Text(text) => ContentItem::InputText { text },
            CodexPiece::Image(image_url) => ContentItem::InputImage { image_url },
        }
    }
}

/// The pieces of a message. codex takes images only as data; other content has been refused before (`run::content`).
fn parts(content: &Content, role: &Role) -> Vec<CodexPiece> {
    let text = |text: String| (!text.trim().is_empty()).then_some(CodexPiece::Text(text));
    match content {
        Content::Text(whole) => text(whole.clone()).into_iter().collect(),
        Content::Blocks(raw) => content::parts(raw, role)
            .into_iter()
            .filter_map(|part| match part {
                Part::Text(more) => text(more),
                Part::Media(media) => media.data_url().map(CodexPiece::Image),
                _ => None,
            })
            .collect(),
    }
}

fn result_pieces(message: &Message) -> Vec<CodexPiece> {
    let mut pieces = parts(&message.content, &message.role);
    if message.is_error {
        match pieces.first_mut() {
            Some(CodexPiece::Text(text)) => *text = failed(std::mem::take(text)),
            _ => pieces.insert(0, CodexPiece::Text(failed(String::new()))),
        }
    }
    if pieces.is_empty() {
        // An empty result is refused: "dynamic tool response was invalid" (CODEX-LIVE pitfall 6).
        pieces.push(CodexPiece::Text(String::new()));
    }
    pieces
}

fn output(message: &Message) -> Value {
    let mut pieces = result_pieces(message);
    match (pieces.len(), pieces.pop()) {
        (1, Some(CodexPiece::Text(text))) => Value::String(text),
        (_, last) => pieces.into_iter().chain(last).map(CodexPiece::into_output).collect(),
    }
}

/// A history that is being written.
struct CodexHistory<'a> {
    tools: &'a Tools,
    /// The namespace of calls of our tools.
    namespace: Option<&'static str>,
    /// The origin whose sealed reasoning can be read.
    origin: &'a Origin,
    items: Vec<Value>,
    calls: HistoryCalls,
    /// The places of the replies that came from codex itself: among the items, and among the messages.
    replies: Vec<(Range<usize>, usize)>,
}

impl CodexHistory<'_> {
    /// Answers the calls that nobody has answered, before another message comes.
    fn close(&mut self) {
        for id in self.calls.take_unanswered() {
            let output = json!({"type": "function_call_output", "call_id": id, "output": NO_RESULT});
            self.items.push(output);
        }
    }

    /// Adds a message of the model, built from the known parts of it.
    fn answer(&mut self, message: &Message) {
        let texts = parts(&message.content, &message.role).into_iter();
        let texts: Vec<Value> = texts
            .filter_map(|piece| match piece {
                CodexPiece::Text(text) => Some(json!({"type": "output_text", "text": text})),
                CodexPiece::Image(_) => None,
            })
            .collect();
        // The API takes no reasoning that nothing follows. Of several, the last one led to the message.
        if !texts.is_empty() || !message.tool_calls.is_empty() {
            let details = Returned::to(self.origin, message).unwrap_or_default();
            self.items.extend(reasoning::items(&details).pop());
        }
        if !texts.is_empty() {
            let item = json!({"type": "message", "role": "assistant", "content": texts});
            self.items.push(item);
        }
        for call in &message.tool_calls {
            let id = self.calls.open(&call.id);
            let name = self.tools.wire_name(&call.name, MAX_NAME);
            let mut item = json!({"type": "function_call", "call_id": id, "name": name, "arguments": call.args.get()});
            if let Some(namespace) = self.namespace {
                item["namespace"] = Value::from(namespace);
            }
            self.items.push(item);
        }
    }

    /// Adds a message of the model as it came. Its calls have the ids that the caller knows.
    fn recall(&mut self, message: &Message, recalled: &RecalledItems) {
        let mut calls = message.tool_calls.iter();
        for item in recalled.items() {
            let mut item = item.clone();
            let asked = item.get("call_id").and_then(Value::as_str).map(str::to_owned);
            let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
            match (kind, asked) {
                ("function_call", Some(id)) if recalled.is_callers(&id) => {
                    let Some(call) = calls.next() else { continue };
                    let id = self.calls.open(&call.id);
                    item["call_id"] = Value::String(id);
                }
                ("function_call", Some(id)) => self.calls.note_used(id),
                _ => {}
            }
            self.items.push(item);
        }
    }

    /// Adds the result of a call. If there is no such call, the text of the result is added as a message.
    fn result(&mut self, message: &Message) {
        match self.calls.answered(message) {
            Some(id) => {
                let item = json!({"type": "function_call_output", "call_id": id, "output": output(message)});
                self.items.push(item);
            }
            None => {
                let mut content: Vec<Value> = result_pieces(message).into_iter().map(CodexPiece::into_item).collect();
                content.insert(0, json!({"type": "input_text", "text": ORPHAN}));
                self.items
                    .push(json!({"type": "message", "role": "user", "content": content}));
            }
        }
    }
}

#[cfg(test)]
mod tests;
