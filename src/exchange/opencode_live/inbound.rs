//! Reads the server's event stream, by session, and the messages and parts in it.
//!
//! In: the data of one event of `GET /global/event`. Out: the session and a [`ServerEvent`]; `None` for events that nobody here
//! needs, among them the stream's own repetition of everything (`sync`). Of foreign JSON, the fields that can be read are read; a field of
//! another type makes the piece around it unreadable, and that counts as absent.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::server::Id;
use dfp_model::event::Failure;
use dfp_model::message::Usage;
use dfp_text::decode::json::{Count, Text};
use dfp_text::decode::lines::Cut;

/// An event of a session.
#[derive(Debug)]
pub enum ServerEvent {
    /// A message is new, or has changed.
    Message(OpencodeInfo),
    /// A part is new, or has changed.
    Part(Box<Part>),
    /// More of a part's text.
    Delta {
        message: Id,
        part: Id,
        text: String,
    },
    /// A tool may run only if the request of this id is permitted.
    PermissionAsked(Id),
    /// A request failed, and opencode would make it again.
    Retry {
        reason: String,
    },
    Idle,
    /// The session is gone, or its history has changed.
    Gone,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    payload: Payload<'a>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(rename = "type", deserialize_with = "text")]
    kind: String,
    #[serde(borrow)]
    properties: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OfSession {
    #[serde(rename = "sessionID", deserialize_with = "text")]
    session: String,
}

/// The session of an event that is too long to be read.
pub fn session_of(event: &Cut) -> Option<String> {
    event.text(&["payload", "properties"], "sessionID")
}

/// Returns whether such an event is a repetition, which nobody here reads.
pub fn is_told_twice(event: &Cut) -> bool {
    event.text(&["payload"], "type").as_deref() == Some("sync")
}

/// Reads the data of one event.
pub fn read(data: &str) -> Option<(String, ServerEvent)> {
    let Envelope { payload } = serde_json::from_str(data).ok()?;
    let properties = payload.properties?.get();
    let OfSession { session } = serde_json::from_str(properties).ok()?;
    let event = match payload.kind.as_str() {
        "message.updated" => {
            #[derive(Deserialize)]
            struct MessageUpdated {
                info: OpencodeInfo,
            }
            ServerEvent::Message(serde_json::from_str::<MessageUpdated>(properties).ok()?.info)
        }
        "message.part.updated" => {
            #[derive(Deserialize)]
            struct PartUpdated {
                part: Part,
            }
            ServerEvent::Part(Box::new(serde_json::from_str::<PartUpdated>(properties).ok()?.part))
        }
        "message.part.delta" => {
            #[derive(Deserialize)]
            struct Delta {
                #[serde(rename = "messageID")]
                message: Id,
                #[serde(rename = "partID")]
                part: Id,
                #[serde(deserialize_with = "text")]
                field: String,
                #[serde(deserialize_with = "text")]
                delta: String,
            }
            let Delta {
                message,
                part,
                field,
                delta,
            } = serde_json::from_str(properties).ok()?;
            if field != "text" {
                return None;
            }
            ServerEvent::Delta {
                message,
                part,
                text: delta,
            }
        }
        "permission.asked" => {
            #[derive(Deserialize)]
            struct PermissionRequest {
                id: Id,
            }
            ServerEvent::PermissionAsked(serde_json::from_str::<PermissionRequest>(properties).ok()?.id)
        }
        "session.status" => {
            #[derive(Deserialize)]
            struct StatusEvent {
                status: SessionStatus,
            }
            #[derive(Deserialize)]
            struct SessionStatus {
                #[serde(rename = "type", deserialize_with = "text")]
                kind: String,
                #[serde(default, deserialize_with = "text")]
                message: String,
            }
            let SessionStatus { kind, message } = serde_json::from_str::<StatusEvent>(properties).ok()?.status;
            match kind.as_str() {
                "retry" => ServerEvent::Retry { reason: message },
                "idle" => ServerEvent::Idle,
                _ => return None,
            }
        }
        "session.idle" => ServerEvent::Idle,
        "session.deleted" | "session.compacted" => ServerEvent::Gone,
        _ => return None,
    };
    Some((session, event))
}

/// A message, without its parts.
#[derive(Debug, Deserialize)]
pub struct OpencodeInfo {
    pub id: Id,
    /// The role of the speaker.
    #[serde(deserialize_with = "text")]
    pub role: String,
    /// The reason why the model stopped.
    #[serde(default, deserialize_with = "optional")]
    pub finish: Option<String>,
    /// The error by which the message came to nothing.
    #[serde(default)]
    pub error: Option<ErrorInfo>,
    /// The answer by a schema.
    #[serde(default)]
    pub structured: Option<Value>,
    /// The provider of the model that answered.
    #[serde(default, rename = "providerID", deserialize_with = "optional")]
    pub provider: Option<String>,
    /// The id of the model that answered.
    #[serde(default, rename = "modelID", deserialize_with = "optional")]
    pub model: Option<String>,
}

/// The reason why a message came to nothing.
#[derive(Debug, Deserialize)]
pub struct ErrorInfo {
    #[serde(default, deserialize_with = "optional")]
    name: Option<String>,
    #[serde(default)]
    data: Option<ErrorData>,
}

#[derive(Debug, Deserialize)]
struct ErrorData {
    #[serde(default, deserialize_with = "optional")]
    message: Option<String>,
    #[serde(default, rename = "statusCode")]
    status_code: Option<u16>,
}

impl ErrorInfo {
    /// Makes a failure of the error.
    pub fn into_failure(self) -> Failure {
        let ErrorData { message, status_code } = self.data.unwrap_or(ErrorData {
            message: None,
            status_code: None,
        });
        Failure {
            message: message.or_else(|| self.name.clone()).unwrap_or_default(),
            kind: self.name,
            http_status: status_code.filter(|status| (100..600).contains(status)),
            ..Failure::default()
        }
    }
}

/// A piece of a message.
#[derive(Debug, Deserialize)]
pub struct Part {
    pub id: Id,
    /// The id of the part's message.
    #[serde(rename = "messageID")]
    pub message: Id,
    /// The kind of the part.
    #[serde(rename = "type", deserialize_with = "text")]
    pub kind: String,
    /// The text so far of a `text` or `reasoning` part.
    #[serde(default, deserialize_with = "text")]
    pub text: String,
    /// The tool of a call; empty for other parts.
    #[serde(default, deserialize_with = "text")]
    pub tool: String,
    /// The API's id of a call; empty for other parts.
    #[serde(default, rename = "callID", deserialize_with = "text")]
    pub call_id: String,
    /// The progress of a call; `None` for other parts.
    #[serde(default)]
    pub state: Option<CallState>,
    /// The reason why the model stopped, in a `step-finish`.
    #[serde(default, deserialize_with = "optional")]
    pub reason: Option<String>,
    /// The usage of a step, in its `step-finish`.
    #[serde(default)]
    pub tokens: Option<OpencodeTokens>,
    /// The cost of a step in US dollars, in its `step-finish`.
    #[serde(default)]
    pub cost: Option<f64>,
    /// When the part began and ended.
    #[serde(default)]
    pub time: Option<Time>,
}

/// The progress of a call.
#[derive(Debug, Clone, Deserialize)]
pub struct CallState {
    /// `pending`, `running`, `completed`, `error`.
    #[serde(deserialize_with = "text")]
    pub status: String,
    /// The arguments of the call.
    #[serde(default)]
    pub input: Option<Box<RawValue>>,
}

/// The times of a part, of which only the end is read.
#[derive(Debug, Deserialize)]
pub struct Time {
    /// When the part ended; `None` while it is still growing.
    #[serde(default)]
    pub end: Option<f64>,
}

/// The usage of a step: `input` leaves out cached tokens, `output` reasoning.
#[derive(Debug, Default, Deserialize)]
pub struct OpencodeTokens {
    #[serde(default)]
    input: Option<Count>,
    #[serde(default)]
    output: Option<Count>,
    #[serde(default)]
    reasoning: Option<Count>,
    #[serde(default)]
    cache: Option<Cache>,
}

#[derive(Debug, Default, Deserialize)]
struct Cache {
    #[serde(default)]
    read: Option<Count>,
    #[serde(default)]
    write: Option<Count>,
}

impl OpencodeTokens {
    /// Converts the figures to the usage that is reported.
    pub fn usage(&self) -> Usage {
        let count = |count: &Option<Count>| count.as_ref().map_or(0, |count| count.0);
        let none = Cache::default();
        let cache = self.cache.as_ref().unwrap_or(&none);
        let (read, write, reasoning) = (count(&cache.read), count(&cache.write), count(&self.reasoning));
        let input = count(&self.input).saturating_add(read).saturating_add(write);
        let output = count(&self.output).saturating_add(reasoning);
        Usage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input.saturating_add(output),
            cache_read_tokens: Some(read),
            cache_write_tokens: Some(write),
            reasoning_tokens: Some(reasoning),
            ..Usage::default()
        }
    }
}

/// The answer to a message.
#[derive(Debug)]
pub struct OpencodeAnswer {
    /// The last message of the model.
    pub info: OpencodeInfo,
    /// The message's parts, as far as they can be read.
    pub parts: Vec<Part>,
}

impl OpencodeAnswer {
    /// Reads the body of an answer.
    pub fn read(body: &[u8]) -> Option<OpencodeAnswer> {
        #[derive(Deserialize)]
        struct Whole<'a> {
            info: OpencodeInfo,
            #[serde(borrow, default)]
            parts: Vec<&'a RawValue>,
        }
        let Whole { info, parts } = serde_json::from_slice(body).ok()?;
        let parts = parts
            .into_iter()
            .filter_map(|part| serde_json::from_str(part.get()).ok());
        Some(OpencodeAnswer {
            info,
            parts: parts.collect(),
        })
    }
}

/// Reads a string; lone surrogates are replaced.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Text::deserialize(deserializer).map(Text::into_string)
}

/// Reads a string, or none; lone surrogates are replaced.
pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::<Text>::deserialize(deserializer).map(|found| found.map(Text::into_string))
}
