//! What happened in a run, read from its output.
//!
//! In: the CLI's output, its middle missing maybe. Out: a [`Transcript`]. Only structured events count: what a text says is a
//! text. Subagents' lines, which the decoder passes on as they are, are read by a decoder of their own each.
//!
//! The decoder tells what, this adds when: the lines of 2.1.330 have times, and messages and calls are known by the API's
//! ids of them. The decoder tells a message when it is whole; here it stands where it began.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decode::lines::{Line, Lines};
use crate::decode::{Decoder, Wire};
use crate::event::{Event, Failure, Outcome};
use crate::message::Usage;

use super::output_capture::TRUNCATED;

/// The model of messages the CLI writes itself.
const SYNTHETIC: &str = "<synthetic>";

/// A run, read.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// Which tools were used, in order of the calls.
    pub calls: Vec<TranscriptCall>,
    /// Calls that were not permitted.
    pub denials: Vec<Denial>,
    /// The CLI's version.
    pub version: Option<String>,
    /// The CLI's id of the session.
    pub session_id: Option<String>,
    /// The CLI's own word for its permission mode.
    pub permission_mode: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// Tokens, as the CLI counts them.
    pub usage: Option<Usage>,
    /// The CLI's last word.
    pub outcome: Option<Outcome>,
    /// What it says of its failure.
    pub failure: Option<Failure>,
    /// When a limit ends, ms since the epoch.
    pub resets_at: Option<u64>,
    /// Output that holds no event at all.
    pub plain: Option<String>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// Whether some of the output is missing.
    pub truncated: bool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `user`, `assistant` or `system`.
    pub role: &'static str,
    /// Its text.
    pub content: String,
    /// When, ISO 8601, where the CLI tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The call a subagent works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The line it began in.
    #[serde(skip)]
    pub line: usize,
}

/// One call of a tool, with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TranscriptCall {
    /// The API's id of it.
    pub id: String,
    /// The tool; `unknown` where the call itself is in the missing middle.
    pub name: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
    /// What came back, as text (content blocks as JSON); nothing if nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether the tool failed, or was not permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Whether it was not permitted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// When, ISO 8601, where the CLI tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The call a subagent works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The line it began in.
    #[serde(skip)]
    pub line: usize,
}

/// A call that was not permitted (`permission_denials` of the result).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Denial {
    /// The tool.
    #[serde(default, rename(serialize = "toolName"), alias = "toolName")]
    pub tool_name: String,
    /// The API's id of the call.
    #[serde(default, rename(serialize = "toolUseId"), alias = "toolUseId")]
    pub tool_use_id: String,
    /// Its arguments.
    #[serde(default, rename(serialize = "toolInput"), alias = "toolInput")]
    pub tool_input: Value,
}

/// What a line tells beside its events.
#[derive(Debug, Default, Deserialize)]
struct Stamp {
    #[serde(default, rename = "type")]
    kind: Value,
    #[serde(default)]
    timestamp: Value,
    #[serde(default)]
    parent_tool_use_id: Value,
    #[serde(default)]
    message: Value,
    #[serde(default)]
    permission_denials: Value,
}

/// Reads `output`.
pub fn read(output: &str) -> Transcript {
    let mut reader = Reader::default();
    let mut main = Voice::new(None);
    let mut lines = Lines::default();
    let mut line = |line: Line| {
        if let Line::Text { text, .. } = line {
            reader.line(&mut main, &text);
        }
    };
    lines.push(output.as_bytes(), &mut line);
    lines.finish(&mut line);
    reader.finish(main)
}

/// One speaker: the main conversation, or a subagent.
struct Voice {
    decoder: Decoder,
    parent: Option<String>,
    /// Where and when a message or a call began, by the API's id of it.
    begun: HashMap<String, Begun>,
}

#[derive(Debug, Clone)]
struct Begun {
    line: usize,
    timestamp: Option<String>,
}

impl Voice {
    fn new(parent: Option<String>) -> Voice {
        Voice {
            decoder: Decoder::new(Wire::ClaudeStream),
            parent,
            begun: HashMap::new(),
        }
    }
}

#[derive(Default)]
struct Reader {
    read: Transcript,
    subagents: Vec<Voice>,
    /// The number of the line at hand.
    line: usize,
}

impl Reader {
    fn line(&mut self, main: &mut Voice, text: &str) {
        self.line += 1;
        if text.starts_with(TRUNCATED) {
            self.read.truncated = true;
            return;
        }
        let stamp: Stamp = serde_json::from_str(text.trim()).unwrap_or_default();
        if stamp.parent_tool_use_id.is_null() {
            if let Value::Array(denials) = &stamp.permission_denials {
                let denials = denials.iter().filter_map(|denial| Denial::deserialize(denial).ok());
                self.read.denials = denials.collect();
            }
            if stamp.kind == "assistant"
                && let Some(model) = stamp.message.get("model").and_then(Value::as_str)
                && model != SYNTHETIC
            {
                self.read.model = Some(model.to_owned());
            }
        }
        note_begin(main, &stamp, self.line);
        let mut events = Vec::new();
        main.decoder.push(format!("{text}\n").as_bytes(), &mut events);
        self.events(main, events);
    }

    fn events(&mut self, voice: &Voice, events: Vec<Event>) {
        for event in events {
            self.event(voice, event);
        }
    }

    fn event(&mut self, voice: &Voice, event: Event) {
        let parent_tool_use_id = voice.parent.clone();
        match event {
            Event::Message { id, content } => {
                let Begun { line, timestamp } = self.begun(voice, &id.unwrap_or_default());
                self.read.messages.push(Message {
                    role: "assistant",
                    content,
                    timestamp,
                    parent_tool_use_id,
                    line,
                });
            }
            Event::ToolCall { tool_call } => {
                self.call(voice, tool_call.id, tool_call.name, tool_call.args.get().to_owned());
            }
            Event::InvalidToolCall {
                invalid_tool_call: call,
            } => {
                let name = call.name.unwrap_or_else(|| UNKNOWN.to_owned());
                self.call(voice, call.id.unwrap_or_default(), name, call.args);
            }
            Event::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => self.result(voice, tool_call_id, content, is_error),
            Event::Other { kind, raw } => self.other(voice, &kind, raw.get()),
            _ if voice.parent.is_some() => {}
            Event::Session {
                session_id,
                permission_mode,
                version,
                ..
            } => {
                self.read.session_id = session_id;
                self.read.permission_mode = permission_mode;
                self.read.version = version;
            }
            Event::Usage { usage, .. } => self.read.usage = Some(usage),
            Event::RateLimit { status, resets_at, .. } if status == "rejected" => self.read.resets_at = resets_at,
            Event::Failure(failure) => self.read.failure = Some(failure),
            Event::Outcome(outcome) => self.read.outcome = Some(*outcome),
            _ => {}
        }
    }

    fn call(&mut self, voice: &Voice, id: String, name: String, arguments: String) {
        let Begun { line, timestamp } = self.begun(voice, &id);
        self.read.calls.push(TranscriptCall {
            id,
            name,
            arguments,
            result: None,
            is_error: None,
            denied: false,
            timestamp,
            parent_tool_use_id: voice.parent.clone(),
            line,
        });
    }

    fn begun(&self, voice: &Voice, id: &str) -> Begun {
        voice.begun.get(id).cloned().unwrap_or(Begun {
            line: self.line,
            timestamp: None,
        })
    }

    fn result(&mut self, voice: &Voice, id: String, content: String, is_error: bool) {
        // A subagent has no more to say when its call is answered.
        if let Some(at) = self
            .subagents
            .iter()
            .position(|agent| agent.parent.as_deref() == Some(&id))
        {
            let agent = self.subagents.swap_remove(at);
            self.end(agent);
        }
        let open =
            |call: &TranscriptCall| call.id == id && call.parent_tool_use_id == voice.parent && call.result.is_none();
        if !self.read.calls.iter().any(open) {
            self.call(voice, id.clone(), UNKNOWN.to_owned(), "{}".to_owned());
        }
        let call = self.read.calls.iter_mut().find(|call| open(call));
        if let Some(call) = call {
            call.result = Some(content);
            call.is_error = Some(is_error);
        }
    }

    /// A subagent's line, or one that is no part of the answer.
    fn other(&mut self, voice: &Voice, kind: &str, raw: &str) {
        let Ok(mut line) = serde_json::from_str::<Map<String, Value>>(raw) else {
            return;
        };
        match line.remove("parent_tool_use_id") {
            Some(Value::String(parent)) if voice.parent.is_none() => self.subagent(parent, &Value::Object(line)),
            _ if kind == "user" => {
                let content = texts(line.get("message").and_then(|message| message.get("content")));
                if !content.is_empty() {
                    self.read.messages.push(Message {
                        role: "user",
                        content,
                        timestamp: line.get("timestamp").and_then(Value::as_str).map(str::to_owned),
                        parent_tool_use_id: voice.parent.clone(),
                        line: self.line,
                    });
                }
            }
            _ => {}
        }
    }

    fn subagent(&mut self, parent: String, line: &Value) {
        let known = self
            .subagents
            .iter()
            .position(|agent| agent.parent.as_ref() == Some(&parent));
        let mut agent = match known {
            Some(at) => self.subagents.swap_remove(at),
            None => Voice::new(Some(parent)),
        };
        let stamp = Stamp::deserialize(line).unwrap_or_default();
        note_begin(&mut agent, &stamp, self.line);
        let mut events = Vec::new();
        agent.decoder.push(format!("{line}\n").as_bytes(), &mut events);
        self.events(&agent, events);
        self.subagents.push(agent);
    }

    fn end(&mut self, mut agent: Voice) {
        let mut events = Vec::new();
        agent.decoder.finish(&mut events);
        self.events(&agent, events);
    }

    fn finish(mut self, mut main: Voice) -> Transcript {
        for agent in std::mem::take(&mut self.subagents) {
            self.end(agent);
        }
        let mut events = Vec::new();
        main.decoder.finish(&mut events);
        self.events(&main, events);
        let mut read = self.read;
        read.plain = main.decoder.plain_text();
        read.diagnostics = main.decoder.diagnostics().to_vec();
        let usage = |outcome: &Outcome| outcome.usage.clone();
        read.usage = read.usage.or_else(|| read.outcome.as_ref().and_then(usage));
        if let Some(outcome) = &read.outcome {
            read.model = outcome.model.clone().or(read.model);
            read.session_id = read.session_id.or_else(|| outcome.session_id.clone());
            let silent = !read.messages.iter().any(|message| message.role == "assistant");
            if let Some(text) = outcome
                .text
                .as_deref()
                .filter(|text| silent && !outcome.is_error && !text.is_empty())
            {
                read.messages.push(Message {
                    role: "assistant",
                    content: text.to_owned(),
                    timestamp: None,
                    parent_tool_use_id: None,
                    line: self.line,
                });
            }
        }
        read.messages.sort_by_key(|message| message.line);
        read.calls.sort_by_key(|call| call.line);
        for call in &mut read.calls {
            call.denied = read.denials.iter().any(|denial| denial.tool_use_id == call.id);
        }
        read
    }
}

/// The summary where nothing is known.
pub const UNKNOWN: &str = "unknown";

fn note_begin(voice: &mut Voice, stamp: &Stamp, line: usize) {
    if stamp.kind != "assistant" {
        return;
    }
    let timestamp = stamp.timestamp.as_str().map(str::to_owned);
    let blocks = stamp.message.get("content").and_then(Value::as_array);
    let things = blocks.into_iter().flatten().chain([&stamp.message]);
    for id in things.filter_map(|thing| thing.get("id").and_then(Value::as_str)) {
        voice.begun.entry(id.to_owned()).or_insert_with(|| Begun {
            line,
            timestamp: timestamp.clone(),
        });
    }
}

/// The texts of a message's content, a line each.
fn texts(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks
                .iter()
                .filter_map(|block| block.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
