//! Reads the server's event stream, by session.
//!
//! In: the data of one event of `GET /global/event`. Out: the session and a [`ServerEvent`]; `None` for events that nobody here
//! needs, among them the stream's own repetition of everything (`sync`).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::parts::{OpencodeInfo, Part, text};
use super::wire::Id;
use dfp_text::decode::cut::Cut;

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
