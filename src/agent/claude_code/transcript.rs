//! The transcript of a run: its messages, its tool calls and its end; and the reader that makes it while the output is decoded.
//!
//! In: lines and their events, as a [`LineObserver`] gets them, perhaps without the middle. Out: a [`Transcript`], of which `log` makes
//! the log.
//!
//! Only structured events count; a text is never taken apart. The events tell what happened, the lines when and by whom: those of
//! 2.1.330 have times, and messages and calls have the API's ids. The event of a message comes when it is complete; in the
//! transcript the message stands where it began. The decoder passes subagents' lines on undecoded, and each subagent gets a decoder
//! of its own.
//!
//! A run may go on for hours. So no more is kept than belongs to the captured output: its beginning and its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::result;
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::Usage;
use dfp_text::decode::lines::Line;
use dfp_text::decode::{Decoder, LineObserver, Wire};

/// The value for anything unknown.
pub const UNKNOWN: &str = "unknown";

/// The facts about a run that its output tells.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The tool calls, in order.
    pub calls: Vec<TranscriptCall>,
    /// The calls that were not permitted.
    pub denials: Vec<Denial>,
    pub version: Option<String>,
    /// The CLI's id of the session.
    pub session_id: Option<String>,
    /// The permission mode, by the CLI's name for it.
    pub permission_mode: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The tokens, as the CLI counts them.
    pub usage: Option<Usage>,
    /// The end of the run, as the CLI reports it.
    pub outcome: Option<Outcome>,
    /// The failure, as the CLI reports it.
    pub failure: Option<Failure>,
    /// The time when a rate limit ends, ms since the epoch.
    pub resets_at: Option<u64>,
    /// The whole output, if it has no event at all.
    pub plain: Option<String>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// Some of the output is missing.
    pub truncated: bool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `user`, `assistant` or `system`.
    pub role: &'static str,
    pub content: String,
    /// The time of the line, ISO 8601, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The call for which a subagent works; `None` in the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The offset in the output at which the message begins, bytes.
    #[serde(skip)]
    pub at: u64,
}

/// One tool call with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TranscriptCall {
    /// The API's id of the call.
    pub id: String,
    /// The tool's name; `unknown` if the call itself is in the missing middle of the output.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// The result as text (content blocks as JSON); `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The tool has failed, or was not permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The call was not permitted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// The time of the line, ISO 8601, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The call for which a subagent works; `None` in the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The offset in the output at which the call begins, bytes.
    #[serde(skip)]
    pub at: u64,
    /// The offset at which its result begins, bytes; without a result, that of the call.
    #[serde(skip)]
    pub result_at: u64,
}

/// A call that was not permitted (`permission_denials` of the result).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Denial {
    /// The tool's name.
    #[serde(default, rename(serialize = "toolName"), alias = "toolName")]
    pub tool_name: String,
    /// The API's id of the call.
    #[serde(default, rename(serialize = "toolUseId"), alias = "toolUseId")]
    pub tool_use_id: String,
    /// The arguments.
    #[serde(default, rename(serialize = "toolInput"), alias = "toolInput")]
    pub tool_input: Value,
}

/// The model of messages that the CLI writes itself.
const SYNTHETIC: &str = "<synthetic>";

/// The arguments of a call that is missing in the output.
const NO_ARGUMENTS: &str = "{}";

/// Reads `output`, which is complete.
pub fn read(output: &str) -> Transcript {
    let reader = Arc::new(TranscriptReader::new(usize::MAX));
    let mut decoder = Decoder::new(Wire::ClaudeStream);
    decoder.set_observer(reader.clone());
    let mut events = Vec::new();
    for line in result::kept_lines(output) {
        decoder.push(line.as_bytes(), &mut events);
        events.clear();
    }
    decoder.finish(&mut events);
    let mut read = reader.take();
    read.truncated = result::has_marker(output);
    read
}

/// Makes a [`Transcript`] from the output of one attempt, or of several in a row.
#[derive(Debug)]
pub struct TranscriptReader(Mutex<ReaderState>);

impl TranscriptReader {
    /// A reader that keeps the events of `limit` bytes of output, cut in the same way as by `OutputCapture`.
    pub fn new(limit: usize) -> TranscriptReader {
        TranscriptReader(Mutex::new(ReaderState::new(limit)))
    }

    /// Takes the transcript, and keeps nothing.
    pub fn take(&self) -> Transcript {
        std::mem::replace(&mut *self.lock(), ReaderState::new(0)).into_transcript()
    }

    fn lock(&self) -> MutexGuard<'_, ReaderState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineObserver for TranscriptReader {
    fn line(&self, line: &Line<'_>, events: &[Event]) {
        self.lock().line(line, events);
    }

    fn end(&self, events: &[Event], plain_text: Option<String>, diagnostics: &[String]) {
        let mut state = self.lock();
        state.end(events);
        state.read.plain = plain_text;
        state.read.diagnostics = diagnostics.to_vec();
    }
}

/// The fields of a line that are in none of its events.
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

impl Stamp {
    fn of(json: &str) -> Stamp {
        serde_json::from_str(json.trim()).unwrap_or_default()
    }

    fn timestamp(&self) -> Option<String> {
        self.timestamp.as_str().map(str::to_owned)
    }
}

/// A speaker: the main conversation, or a subagent.
#[derive(Debug, Default)]
struct Speaker {
    /// The call for which a subagent works.
    parent: Option<String>,
    /// The position and time at which a message or a call began, by its API id.
    begun: HashMap<String, Begun>,
}

/// The position and time at which a message or a call began.
#[derive(Debug, Clone)]
struct Begun {
    at: u64,
    timestamp: Option<String>,
}

/// A subagent under way. Its lines are decoded separately from those of the main conversation.
#[derive(Debug)]
struct Subagent {
    speaker: Speaker,
    decoder: Decoder,
}

/// The transcript so far, the speakers, and the position in the output.
#[derive(Debug)]
struct ReaderState {
    read: Transcript,
    main: Speaker,
    subagents: Vec<Subagent>,
    limit: usize,
    /// The offset in the output at which the current line begins, bytes.
    at: u64,
    end: u64,
    /// The end of the output when `prune` last ran, bytes.
    pruned_at: u64,
}

impl ReaderState {
    fn new(limit: usize) -> ReaderState {
        ReaderState {
            read: Transcript::default(),
            main: Speaker::default(),
            subagents: Vec::new(),
            limit,
            at: 0,
            end: 0,
            pruned_at: 0,
        }
    }

    /// Takes a line and the events that were decoded from it.
    fn line(&mut self, line: &Line<'_>, events: &[Event]) {
        self.at = self.end;
        let text = match line {
            Line::Text { text, .. } => text.as_ref(),
            Line::TooLong { .. } => "",
        };
        self.end += match line {
            Line::Text { .. } => text.len() as u64 + 1,
            Line::TooLong { cut, .. } => cut.bytes() + 1,
        };
        let stamp = Stamp::of(text);
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
        let mut main = std::mem::take(&mut self.main);
        main.note_begin(&stamp, self.at);
        self.events(&main, events);
        self.main = main;
        if self.end - self.pruned_at > self.limit as u64 / 10 {
            self.prune();
        }
    }

    fn events(&mut self, speaker: &Speaker, events: &[Event]) {
        for event in events {
            self.event(speaker, event);
        }
    }

    /// Adds an event of `speaker` to the transcript.
    fn event(&mut self, speaker: &Speaker, event: &Event) {
        match event {
            Event::Message { id, content } => {
                let begun = self.begun(speaker, id.as_deref().unwrap_or_default());
                self.message(speaker, "assistant", content.clone(), begun);
            }
            Event::ToolCall { tool_call: call } => {
                self.call(speaker, call.id.clone(), call.name.clone(), call.args.get().to_owned());
            }
            Event::InvalidToolCall {
                invalid_tool_call: call,
            } => {
                let name = call.name.clone().unwrap_or_else(|| UNKNOWN.to_owned());
                self.call(speaker, call.id.clone().unwrap_or_default(), name, call.args.clone());
            }
            Event::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => self.result(speaker, tool_call_id, content, *is_error),
            Event::Other { kind, raw } => self.other(speaker, kind, raw.get()),
            _ if speaker.parent.is_some() => {}
            Event::Session {
                session_id,
                permission_mode,
                version,
                ..
            } => {
                self.read.session_id.clone_from(session_id);
                self.read.permission_mode.clone_from(permission_mode);
                self.read.version.clone_from(version);
            }
            Event::Usage { usage, .. } => self.read.usage = Some(usage.clone()),
            Event::RateLimit { status, resets_at, .. } if status == "rejected" => self.read.resets_at = *resets_at,
            Event::Failure(failure) => self.read.failure = Some(failure.clone()),
            Event::Outcome(outcome) => self.read.outcome = Some((**outcome).clone()),
            _ => {}
        }
    }

    fn message(&mut self, speaker: &Speaker, role: &'static str, content: String, begun: Begun) {
        self.read.messages.push(Message {
            role,
            content,
            timestamp: begun.timestamp,
            parent_tool_use_id: speaker.parent.clone(),
            at: begun.at,
        });
    }

    /// Adds a call, which stands where it began.
    fn call(&mut self, speaker: &Speaker, id: String, name: String, arguments: String) {
        let Begun { at, timestamp } = self.begun(speaker, &id);
        self.read.calls.push(TranscriptCall {
            id,
            name,
            arguments,
            result: None,
            is_error: None,
            denied: false,
            timestamp,
            parent_tool_use_id: speaker.parent.clone(),
            at,
            result_at: at,
        });
    }

    fn begun(&self, speaker: &Speaker, id: &str) -> Begun {
        speaker.begun.get(id).cloned().unwrap_or(Begun {
            at: self.at,
            timestamp: None,
        })
    }

    /// Adds a result to its call. If the call is in the missing middle of the output, an unknown call is added for it.
    fn result(&mut self, speaker: &Speaker, id: &str, content: &str, is_error: bool) {
        // A subagent is finished when its call has the result.
        if let Some(agent) = self.take_subagent(id) {
            self.end_subagent(agent);
        }
        let open =
            |call: &TranscriptCall| call.id == id && call.parent_tool_use_id == speaker.parent && call.result.is_none();
        if !self.read.calls.iter().any(open) {
            self.call(speaker, id.to_owned(), UNKNOWN.to_owned(), NO_ARGUMENTS.to_owned());
        }
        if let Some(call) = self.read.calls.iter_mut().find(|call| open(call)) {
            call.result = Some(content.to_owned());
            call.is_error = Some(is_error);
            call.result_at = self.at;
        }
    }

    /// Takes the line of a subagent, or a line that is no part of the answer.
    fn other(&mut self, speaker: &Speaker, kind: &str, raw: &str) {
        let stamp = Stamp::of(raw);
        match &stamp.parent_tool_use_id {
            Value::String(parent) if speaker.parent.is_none() => self.subagent_line(parent, &stamp, raw),
            _ if kind == "user" => {
                let content = texts(stamp.message.get("content"));
                if !content.is_empty() {
                    let begun = Begun {
                        at: self.at,
                        timestamp: stamp.timestamp(),
                    };
                    self.message(speaker, "user", content, begun);
                }
            }
            _ => {}
        }
    }

    /// Decodes the line of a subagent, which is made if this is its first line.
    fn subagent_line(&mut self, parent: &str, stamp: &Stamp, raw: &str) {
        let mut agent = self.take_subagent(parent).unwrap_or_else(|| Subagent {
            speaker: Speaker {
                parent: Some(parent.to_owned()),
                begun: HashMap::new(),
            },
            decoder: Decoder::of_subagent(),
        });
        agent.speaker.note_begin(stamp, self.at);
        let mut events = Vec::new();
        agent.decoder.push(raw.as_bytes(), &mut events);
        agent.decoder.push(b"\n", &mut events);
        self.events(&agent.speaker, &events);
        self.subagents.push(agent);
    }

    fn take_subagent(&mut self, parent: &str) -> Option<Subagent> {
        let parent_of = |agent: &Subagent| agent.speaker.parent.as_deref() == Some(parent);
        let index = self.subagents.iter().position(parent_of)?;
        Some(self.subagents.swap_remove(index))
    }

    fn end_subagent(&mut self, mut agent: Subagent) {
        let mut events = Vec::new();
        agent.decoder.finish(&mut events);
        self.events(&agent.speaker, &events);
    }

    /// Ends the output; `events` are the last ones of the main conversation.
    fn end(&mut self, events: &[Event]) {
        for agent in std::mem::take(&mut self.subagents) {
            self.end_subagent(agent);
        }
        let main = std::mem::take(&mut self.main);
        self.events(&main, events);
    }

    /// Drops everything that happened in the part of the output that is left out by now.
    fn prune(&mut self) {
        self.pruned_at = self.end;
        let (end, limit) = (self.end, self.limit);
        let is_left_out = |at: u64| result::is_left_out(at, end, limit);
        self.read.messages.retain(|message| !is_left_out(message.at));
        self.read
            .calls
            .retain_mut(|call| match (is_left_out(call.at), is_left_out(call.result_at)) {
                (true, true) => false,
                (true, false) => {
                    call.name = UNKNOWN.to_owned();
                    call.arguments = NO_ARGUMENTS.to_owned();
                    (call.at, call.timestamp) = (call.result_at, None);
                    true
                }
                (false, true) => {
                    (call.result, call.is_error, call.result_at) = (None, None, call.at);
                    true
                }
                (false, false) => true,
            });
        let subagents = self.subagents.iter_mut().map(|agent| &mut agent.speaker);
        for speaker in subagents.chain([&mut self.main]) {
            speaker.begun.retain(|_, begun| !is_left_out(begun.at));
        }
    }

    /// Completes the transcript: the CLI's own totals and its final text are used where nothing better is there, and everything is
    /// put in order.
    fn into_transcript(mut self) -> Transcript {
        self.prune();
        let mut read = self.read;
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
                    at: self.at,
                });
            }
        }
        read.messages.sort_by_key(|message| message.at);
        read.calls.sort_by_key(|call| call.at);
        for call in &mut read.calls {
            call.denied = read.denials.iter().any(|denial| denial.tool_use_id == call.id);
        }
        read
    }
}

impl Speaker {
    /// Notes where a message and its calls begin. Only the first line of an id counts, since later ones repeat it.
    fn note_begin(&mut self, stamp: &Stamp, at: u64) {
        if stamp.kind != "assistant" {
            return;
        }
        let timestamp = stamp.timestamp();
        let blocks = stamp.message.get("content").and_then(Value::as_array);
        let things = blocks.into_iter().flatten().chain([&stamp.message]);
        for id in things.filter_map(|thing| thing.get("id").and_then(Value::as_str)) {
            self.begun.entry(id.to_owned()).or_insert_with(|| Begun {
                at,
                timestamp: timestamp.clone(),
            });
        }
    }
}

/// The texts of a message's content, one per line.
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

#[cfg(test)]
mod tests;
