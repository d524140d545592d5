//! Decodes an API's response into events.
//!
//! In: the body of a successful answer in any pieces. It is a stream of chunks, or one object; the first character distinguishes
//! them, since servers that can't stream answer with an object whatever was asked, and not all of them label it. Out: the events
//! that every decoder makes, and the end of the body ([`Body`]).
//!
//! Text and reasoning go out as they come. The message, its calls, the token counts and the stop reason follow at the end of the
//! body: only then is it known that the message is whole.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure_of;
use super::stream::{AnswerCalls, DeltaSink, Events};
use crate::declare::Tools;
use dfp_model::error::clip;
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::Usage;
use dfp_model::message::reasoning::ReasoningDetail;
use dfp_text::decode::assembler::MessageAssembler;
use dfp_text::decode::format::{Notes, Out, read_usage};
use dfp_text::decode::json::{Fields, Wtf8, is_array, is_string, word};
use dfp_text::redact::{Channel, Redactor, StreamRedactor};

/// The JSON of a chunk, or of a whole answer.
#[derive(Debug, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    object: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    service_tier: Option<&'a RawValue>,
    choices: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    delta: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    finish_reason: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    reasoning_content: Option<&'a RawValue>,
    reasoning: Option<&'a RawValue>,
    /// OpenRouter's field: the reasoning in blocks, encrypted ones included.
    reasoning_details: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
    tool_calls: Option<&'a RawValue>,
}

/// A part of content that is an array.
#[derive(Debug, Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
}

/// The end of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The body ended as an answer does, or with an error: the events say which.
    Complete,
    /// The stream broke off before its end.
    Cut,
    /// The body is no answer of this API.
    Foreign {
        text: String,
    },
    Empty,
}

/// The byte order mark that some servers begin with.
const BOM: &[u8] = b"\xEF\xBB\xBF";

#[derive(Debug)]
enum Form {
    /// Only white space has come: these bytes.
    Unknown(Vec<u8>),
    Stream(Events),
    /// The body is one JSON object, or none at all.
    Whole(Vec<u8>),
}

/// Decodes one answer. Feed it with [`push`](Answer::push) while it is not [over](Answer::is_over), end it with
/// [`finish`](Answer::finish).
#[derive(Debug)]
pub struct Answer {
    form: Form,
    reader: AnswerReader,
}

#[derive(Debug)]
struct AnswerReader {
    tools: Tools,
    redactor: Redactor,
    notes: Notes,
    voice: Voice,
    calls: AnswerCalls,
    /// True if the caller takes calls: some servers send calls although `tool_choice` is `none`.
    takes_calls: bool,
    /// True if calls that come in pieces are reported in pieces.
    calls_in_pieces: bool,
    /// True if a chunk, or a whole answer, was read.
    read: bool,
    model_reported: bool,
    model: Option<String>,
    /// The tier that the server names.
    service_tier: Option<String>,
    usage: Option<Usage>,
    stop: Option<String>,
    failure: Option<Failure>,
    /// True if `[DONE]` has come.
    done: bool,
}

/// The model's text and reasoning, and the parts that were taken out of them.
#[derive(Debug, Default)]
struct Voice {
    assembler: MessageAssembler,
    /// True if there was some output, be it reasoning.
    spoke: bool,
    text: StreamRedactor,
    thinking: StreamRedactor,
    details: Vec<ReasoningDetail>,
    refusal: String,
}

impl Answer {
    /// Creates a decoder of the answer to a request with these tools. The secrets that `redactor` knows are taken out of the
    /// events.
    pub fn new(tools: Tools, redactor: Redactor) -> Answer {
        Answer {
            form: Form::Unknown(Vec::new()),
            reader: AnswerReader {
                tools,
                voice: Voice {
                    text: StreamRedactor::new(redactor.clone(), Channel::Answer),
                    thinking: StreamRedactor::new(redactor.clone(), Channel::Answer),
                    ..Voice::default()
                },
                redactor,
                notes: Notes::default(),
                calls: AnswerCalls::default(),
                takes_calls: true,
                calls_in_pieces: false,
                read: false,
                model_reported: false,
                model: None,
                service_tier: None,
                usage: None,
                stop: None,
                failure: None,
                done: false,
            },
        }
    }

    /// Returns this answer for a call that takes no tool calls.
    #[must_use]
    pub fn without_calls(mut self) -> Answer {
        self.reader.takes_calls = false;
        self
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        let mut begun = Vec::new();
        let bytes = match &mut self.form {
            Form::Unknown(seen) => {
                seen.extend_from_slice(bytes);
                let bare = seen.strip_prefix(BOM).unwrap_or(seen).trim_ascii_start();
                let form = match bare.first() {
                    // A byte order mark may still become whole.
                    None => return,
                    Some(_) if bare.len() < BOM.len() && BOM.starts_with(bare) => return,
                    Some(b'{' | b'[' | b'<') => Form::Whole(Vec::new()),
                    Some(_) => Form::Stream(Events::default()),
                };
                begun.append(seen);
                self.form = form;
                &begun[..]
            }
            _ => bytes,
        };
        match &mut self.form {
            Form::Stream(stream) => stream.push(bytes, |data| self.reader.data(data, events)),
            Form::Whole(whole) => whole.extend_from_slice(bytes),
            Form::Unknown(_) => {}
        }
    }

    /// Returns whether the rest of the response can't change the answer.
    pub fn is_over(&self) -> bool {
        self.reader.done || self.reader.failure.is_some()
    }

    /// The oddities of the response.
    pub fn diagnostics(&self) -> &[String] {
        self.reader.notes.texts()
    }

    /// Ends the body. `whole` says that it ended by itself, and not because the connection broke.
    pub fn finish(&mut self, whole: bool, events: &mut Vec<Event>) -> Body {
        let reader = &mut self.reader;
        match std::mem::replace(&mut self.form, Form::Unknown(Vec::new())) {
            Form::Unknown(_) => return if whole { Body::Empty } else { Body::Cut },
            Form::Stream(mut stream) => {
                stream.finish(|data| reader.data(data, events));
                if reader.failure.is_none() && !reader.done && reader.stop.is_none() {
                    reader.end_early(events);
                    let foreign = whole && !reader.read;
                    return if foreign { reader.foreign() } else { Body::Cut };
                }
            }
            Form::Whole(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let text = text.trim_start_matches('\u{FEFF}').trim();
                let text = reader.redactor.redact(Channel::Answer, text).into_owned();
                if !reader.chunk(&text, events) || (!reader.read && reader.failure.is_none()) {
                    let text = reader.redactor.redact_values(&text).into_owned();
                    return if whole { Body::Foreign { text } } else { Body::Cut };
                }
            }
        }
        reader.end(events);
        Body::Complete
    }
}

impl AnswerReader {
    /// Reads the data of one event.
    fn data(&mut self, data: &str, events: &mut Vec<Event>) {
        let data = data.trim();
        if self.done || self.failure.is_some() || data.is_empty() {
            return;
        }
        if data == "[DONE]" {
            self.done = true;
            return;
        }
        let data = self.redactor.redact(Channel::Answer, data).into_owned();
        if !self.chunk(&data, events) {
            self.notes.add(None, "no JSON object", &data);
        }
    }

    /// Reads a chunk; `false` if it is no object.
    fn chunk(&mut self, json: &str, events: &mut Vec<Event>) -> bool {
        let Ok(chunk) = serde_json::from_str::<Chunk>(json) else {
            return false;
        };
        let mut out = Out::new(events, &mut self.notes, None);
        let says_error = [chunk.object, chunk.kind]
            .into_iter()
            .any(|raw| word(raw).as_deref() == Some("error"));
        if chunk.error.is_some() || says_error {
            self.failure = Some(failure_of(json, None, &self.redactor));
            return true;
        }
        let mut fields = Fields::default();
        let usage = read_usage(&mut fields, chunk.usage);
        if chunk.choices.is_none() && usage.is_none() {
            let kind = word(chunk.object).or_else(|| word(chunk.kind)).unwrap_or_default();
            out.other(kind, json);
            return true;
        }
        self.usage = usage.or(self.usage.take());
        self.read |= chunk.choices.is_some();
        if let Some(tier) = fields.string("service_tier", chunk.service_tier) {
            self.service_tier = Some(tier);
        }
        if self.model.is_none() {
            self.model = fields.string("model", chunk.model).filter(|model| !model.is_empty());
        }
        if let (Some(model), false) = (&self.model, self.model_reported) {
            self.model_reported = true;
            self.voice.assembler.begin(fields.string("id", chunk.id), &mut out);
            out.event(Event::Session {
                session_id: None,
                model: Some(model.clone()),
                permission_mode: None,
                version: None,
            });
        }
        let choices: Vec<Choice> = fields.read("choices", chunk.choices).unwrap_or_default();
        for choice in choices {
            // `n` is 1 unless `extraBody` says otherwise; then the first answer is the answer.
            if fields.count("index", choice.index).unwrap_or_default() > 0 {
                continue;
            }
            // Some streams end with the whole message once more.
            let again = choice.delta.is_none() && (self.voice.spoke || !self.calls.is_empty());
            let is_piece = choice.delta.is_some();
            let delta = choice.delta.or(choice.message).filter(|_| !again);
            if let Some(delta) = fields.read::<Delta>("message", delta) {
                self.voice.take(&delta, &mut fields, &mut out);
                let mut told = DeltaSink {
                    tools: &self.tools,
                    redactor: &self.redactor,
                    events: Vec::new(),
                };
                if self.takes_calls {
                    self.calls.take(&mut fields, delta.tool_calls, &mut told);
                }
                // The calls of a whole message are reported only as calls.
                if is_piece {
                    self.calls_in_pieces = true;
                    told.events.into_iter().for_each(|piece| out.event(piece));
                }
            }
            if let Some(stop) = fields
                .string("finish_reason", choice.finish_reason)
                .filter(|stop| !stop.is_empty())
            {
                self.stop = Some(stop);
            }
        }
        if let Some(complaint) = fields.complaint() {
            self.notes.add(None, &complaint, json);
        }
        true
    }

    /// Ends a complete answer.
    fn end(&mut self, events: &mut Vec<Event>) {
        let failure = self
            .failure
            .take()
            .or_else(|| stopped(self.stop.as_deref(), &self.voice.refusal));
        let mut out = Out::new(events, &mut self.notes, None);
        if failure.is_none() && self.calls_in_pieces {
            let mut told = DeltaSink {
                tools: &self.tools,
                redactor: &self.redactor,
                events: Vec::new(),
            };
            self.calls.tell_rest(&mut told);
            told.events.into_iter().for_each(|piece| out.event(piece));
        }
        self.voice.end(&self.redactor, &mut out);
        self.voice.assembler.end_turn(&mut out);
        if failure.is_none() {
            let calls = std::mem::take(&mut self.calls);
            calls
                .finish(&self.tools, &self.redactor)
                .into_iter()
                .for_each(|call| out.event(call));
        }
        self.tell_usage(events);
        let is_error = failure.is_some();
        events.extend(failure.map(Event::Failure));
        events.push(Event::Outcome(Box::new(Outcome {
            is_error,
            stop_reason: self.stop.take(),
            usage: self.usage.take(),
            model: self.model.take(),
            service_tier: self.service_tier.take(),
            ..Outcome::default()
        })));
    }

    /// Ends an answer that breaks off; its usage so far counts.
    fn end_early(&mut self, events: &mut Vec<Event>) {
        let mut out = Out::new(events, &mut self.notes, None);
        self.voice.end(&self.redactor, &mut out);
        self.tell_usage(events);
    }

    fn tell_usage(&self, events: &mut Vec<Event>) {
        events.extend(self.usage.clone().map(|usage| Event::Usage {
            usage,
            raw_stop_reason: self.stop.clone(),
        }));
    }

    fn foreign(&self) -> Body {
        let text = self.notes.texts().join("\n");
        Body::Foreign {
            text: self.redactor.redact_values(&text).into_owned(),
        }
    }
}

impl Voice {
    /// Hands on the model's text, reasoning and calls.
    fn take(&mut self, delta: &Delta, fields: &mut Fields, out: &mut Out) {
        // Servers that send both fields send the same text twice.
        let reasoning = [delta.reasoning_content, delta.reasoning].into_iter().flatten();
        let piece = reasoning.filter(|raw| is_string(raw)).find(|raw| raw.get() != "\"\"");
        let shown = self.add_details(delta.reasoning_details, fields);
        if piece.is_none() && !shown.is_empty() {
            self.spoke = true;
            let piece = Wtf8(self.thinking.push_wtf8(shown.into_bytes().into()));
            self.assembler.thinking_delta(None, piece, out);
        }
        if let Some(piece) = fields.read::<Wtf8>("reasoning", piece) {
            self.spoke = true;
            let piece = Wtf8(self.thinking.push_wtf8(piece.0));
            self.assembler.thinking_delta(None, piece, out);
        }
        match delta.content {
            Some(parts) if is_array(parts) => {
                let parts: Vec<Part> = fields.read("content", Some(parts)).unwrap_or_default();
                for part in parts {
                    self.say(part.text, fields, out);
                    self.refuse(part.refusal, fields);
                }
            }
            content => self.say(content, fields, out),
        }
        self.refuse(delta.refusal, fields);
    }

    /// Keeps details of the reasoning, and returns their readable text.
    fn add_details(&mut self, raw: Option<&RawValue>, fields: &mut Fields) -> String {
        let raw = raw.filter(|raw| is_array(raw));
        let details: Vec<Value> = fields.read("reasoning_details", raw).unwrap_or_default();
        let mut shown = String::new();
        for detail in details
            .iter()
            .filter(|detail| detail.is_object())
            .map(ReasoningDetail::of)
        {
            shown.push_str(detail.shown());
            if !self.details.last_mut().is_some_and(|last| last.join(&detail)) {
                self.details.push(detail);
            }
        }
        shown
    }

    fn say(&mut self, raw: Option<&RawValue>, fields: &mut Fields, out: &mut Out) {
        if let Some(piece) = fields.read::<Wtf8>("content", raw).filter(|piece| !piece.0.is_empty()) {
            self.spoke = true;
            let piece = Wtf8(self.text.push_wtf8(piece.0));
            self.assembler.text_delta(piece, out);
        }
    }

    fn refuse(&mut self, raw: Option<&RawValue>, fields: &mut Fields) {
        self.refusal
            .push_str(&fields.string("refusal", raw).unwrap_or_default());
    }

    /// Ends the text: the output that was held back goes out.
    fn end(&mut self, redactor: &Redactor, out: &mut Out) {
        let (thinking, text) = (self.thinking.finish(), self.text.finish());
        if !thinking.is_empty() {
            self.assembler
                .thinking_delta(None, Wtf8(thinking.into_bytes().into()), out);
        }
        out.reasoning(cleaned(std::mem::take(&mut self.details), redactor));
        if !text.is_empty() {
            self.assembler.text_delta(Wtf8(text.into_bytes().into()), out);
        }
    }
}

/// Returns `details` without the secrets that `redactor` knows.
fn cleaned(details: Vec<ReasoningDetail>, redactor: &Redactor) -> Vec<ReasoningDetail> {
    let Ok(json) = serde_json::to_string(&details) else {
        return Vec::new();
    };
    match redactor.redact_json(Channel::Answer, &json) {
        Cow::Borrowed(_) => details,
        Cow::Owned(clean) => serde_json::from_str(&clean).unwrap_or_default(),
    }
}

/// The `finish_reason`s of a whole answer, in lower case: OpenAI's, and those that other servers use instead.
const WHOLE: [&str; 13] = [
    "",
    "stop",
    "tool_calls",
    "function_call",
    "tool_call",
    "tool_use",
    "end_turn",
    "stop_sequence",
    "eos",
    "eos_token",
    "end",
    "complete",
    "completed",
];

/// The failure that this `finish_reason` means, if it is not that of a whole answer.
fn stopped(stop: Option<&str>, refusal: &str) -> Option<Failure> {
    let told = stop.unwrap_or_default().to_ascii_lowercase();
    let unknown;
    let (kind, message) = match told.as_str() {
        _ if !refusal.trim().is_empty() => ("refusal", refusal),
        whole if WHOLE.contains(&whole) => return None,
        "length" | "max_tokens" | "max_length" => {
            ("length", "the answer hit the limit of output tokens and is cut short")
        }
        "content_filter" | "safety" | "sensitive" | "recitation" => {
            ("content_filter", "the server's content filter cut the answer")
        }
        "error" => ("server_error", "the server says that it failed, and gives no reason"),
        _ => {
            unknown = format!(
                "the server ended the answer with the finish_reason {:?}, which is none of a whole one",
                clip(stop.unwrap_or_default(), 60)
            );
            ("server_error", unknown.as_str())
        }
    };
    Some(Failure {
        kind: Some(kind.to_owned()),
        message: message.to_owned(),
        ..Failure::default()
    })
}
