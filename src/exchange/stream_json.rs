//! The lines of claude's `stream-json` beside its events, which other CLIs speak as well: user lines and control lines.
//!
//! A user line is what a claude which reads lines is sent, in a session or in print form, with the API's own content blocks. In: messages.
//! Out: one line of JSON. A line that the CLI can't read kills it (CLI-FACTS 1.6), so everything goes through serde, and content that has
//! no place in the API's vocabulary is sent as text.
//!
//! Control lines are the lines that are not events: the requests of either side, and the answers to them. In: one line of the CLI's standard
//! output. Out: the request or answer in it ([`Inbound`]). In the other direction: our answers and requests as whole lines. Source: claude
//! 2.1.197 and 2.1.330, recordings `control-*` and `defer-*`; qwen 0.24.4.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use dfp_model::message::content::{self, Dialect, Kind, Media, Part, Source};
use dfp_model::message::{Content, Message, Role};
use dfp_provider::Guard;
use dfp_provider::declare::mcp::SERVER;
use dfp_text::prompt::{Piece, Rendered};

/// A content block.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        /// The text, never blank: the API refuses blank text.
        text: String,
    },
    /// The result of a call of the turn before.
    ToolResult {
        /// The API's id of the call.
        tool_use_id: String,
        content: Value,
        /// True if the tool failed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A block of another kind: `{type, source}`, and the other members that the API has for it.
    #[serde(untagged)]
    Other(Value),
}

impl Block {
    /// Makes a block of text.
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text { text: text.into() }
    }
}

/// The line with `blocks` as a message of the user.
pub fn user(blocks: &[Block]) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        r#type: &'static str,
        message: UserMessage<'a>,
    }
    #[derive(Serialize)]
    struct UserMessage<'a> {
        role: &'static str,
        content: &'a RawValue,
    }
    let content = to_raw_value(&content(blocks)).unwrap_or_else(|_| RawValue::NULL.to_owned());
    let message = UserMessage {
        role: "user",
        content: &content,
    };
    let line = Line {
        r#type: "user",
        message,
    };
    serde_json::to_string(&line).unwrap_or_default() + "\n"
}

/// `blocks` as the content of a message: a text alone is a string.
pub fn content(blocks: &[Block]) -> Value {
    match blocks {
        [Block::Text { text }] => Value::from(text.as_str()),
        blocks => serde_json::to_value(blocks).unwrap_or_default(),
    }
}

/// The user's blocks in `messages`; `None` if one of the messages is somebody else's, or all are empty.
pub fn of_humans<'a>(messages: impl Iterator<Item = &'a Message>, guard: Option<Guard>) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    for message in messages {
        if message.role != Role::Human {
            return None;
        }
        match &message.content {
            Content::Text(text) => blocks.push(Block::text(text)),
            Content::Blocks(raw) => blocks.extend(blocks_of(raw, &message.role)),
        }
    }
    blocks.retain(|block| !matches!(block, Block::Text { text } if text.trim().is_empty()));
    for block in &mut blocks {
        // The CLI looks at the last block of text only (CLI-FACTS 1.6), but which one that is, is its own business: all are
        // guarded.
        if let (Block::Text { text }, Some(guard)) = (block, guard)
            && text.starts_with(guard.first)
        {
            text.insert_str(0, guard.prefix);
        }
    }
    (!blocks.is_empty()).then_some(blocks)
}

/// Writes a thread as text, with `before` in front of it and its blocks at their places. No block of text but the first begins
/// with words of a message: the others begin with the end of a block's place, so the CLI takes none for a command.
pub fn of_rendered(before: &str, rendered: &Rendered) -> Vec<Block> {
    let mut before = Some(before);
    let pieces = rendered.pieces().into_iter();
    let blocks = pieces.filter_map(|piece| match piece {
        Piece::Text(text) => Some(Block::text(format!("{}{text}", before.take().unwrap_or_default()))),
        Piece::Media(media) => block(media),
    });
    blocks.collect()
}

/// The result of the call that the API named `tool_use_id`, in the form in which the CLI itself sends what a tool's server says:
/// blocks, but the text of a failure as a string. An empty text is a string, too, since the API refuses an empty block.
pub fn result(tool_use_id: &str, message: &Message) -> Block {
    let content = match &message.content {
        Content::Text(text) if message.is_error || text.trim().is_empty() => Value::from(text.as_str()),
        Content::Text(text) => serde_json::to_value([Block::text(text)]).unwrap_or_default(),
        Content::Blocks(raw) => match blocks_of(raw, &message.role).as_slice() {
            [Block::Text { text }] if message.is_error => Value::from(text.as_str()),
            blocks => serde_json::to_value(blocks).unwrap_or_default(),
        },
    };
    Block::ToolResult {
        tool_use_id: tool_use_id.to_owned(),
        content,
        is_error: message.is_error,
    }
}

/// A message's blocks in the API's vocabulary. Content that has no place there has been refused before (`run::content`).
fn blocks_of(raw: &RawValue, role: &Role) -> Vec<Block> {
    let parts = content::parts(raw, role).into_iter();
    let blocks = parts.filter_map(|part| match part {
        Part::Text(text) => Some(Block::text(text)),
        Part::Media(media) => block(&media),
        Part::Omitted | Part::Call(_) | Part::Unknown(_) => None,
    });
    blocks.collect()
}

/// An image, a document or a search result, in the API's shape.
fn block(media: &Media) -> Option<Block> {
    let kind = match media.kind {
        Kind::Image => "image",
        Kind::Document => "document",
        Kind::SearchResult => return Some(Block::Other(media.block.clone())),
        Kind::Audio | Kind::Video => return None,
    };
    let text = media.text().filter(|_| media.kind == Kind::Document);
    let source = match (media.dialect, media.block.get("source"), &media.source) {
        // The API takes base64 for PDFs only.
        (.., Source::Base64(_)) if let Some(text) = &text => {
            json!({"type": "text", "media_type": "text/plain", "data": text})
        }
        (Dialect::Anthropic, Some(source), _) => source.clone(),
        (.., Source::Base64(data)) => json!({"type": "base64", "media_type": media.mime.as_ref()?, "data": data}),
        (.., Source::Url(url)) => json!({"type": "url", "url": url}),
        (.., Source::Text(text)) => json!({"type": "text", "media_type": "text/plain", "data": text}),
        (.., Source::Own | Source::Unreadable) => return None,
    };
    let mut block = Map::new();
    block.insert("type".to_owned(), Value::from(kind));
    block.insert("source".to_owned(), source);
    for name in ["title", "context", "citations"] {
        if let Some(value) = media.block.get(name).filter(|_| kind == "document") {
            block.insert(name.to_owned(), value.clone());
        }
    }
    Some(Block::Other(Value::Object(block)))
}

/// A control line that the CLI has sent.
#[derive(Debug)]
pub enum Inbound {
    /// The CLI is about to call a tool, and asks the hook first.
    Hook {
        /// The id to be repeated in the answer.
        request_id: String,
        /// The API's id of the call.
        call: Option<String>,
    },
    /// A JSON-RPC message to the MCP server of the caller's tools.
    Mcp {
        /// The id to be repeated in the answer.
        request_id: String,
        /// The JSON-RPC message.
        message: Box<RawValue>,
    },
    /// The CLI asks whether a tool may be used. It asks only for built-in tools, and only if the user's `extraArgs` want that.
    Permission {
        /// The id to be repeated in the answer.
        request_id: String,
    },
    /// A request of a kind that this module does not know.
    Unknown {
        /// The id to be repeated in the answer.
        request_id: String,
        subtype: String,
    },
    /// The answer to a request of ours.
    Answer {
        request_id: String,
        /// The reason, if the request was refused.
        refused: Option<String>,
        /// The CLI's version, if the answer has one.
        version: Option<String>,
        /// The answer itself, as JSON.
        answer: Option<Box<RawValue>>,
    },
    /// A line that needs no answer: the CLI takes back one of its requests.
    Nothing,
}

#[derive(Deserialize)]
struct ControlLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ControlRequest<'a> {
    #[serde(borrow, default)]
    subtype: Cow<'a, str>,
    #[serde(borrow)]
    server_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ControlResponse<'a> {
    #[serde(borrow, default)]
    subtype: Cow<'a, str>,
    #[serde(borrow, default)]
    request_id: Cow<'a, str>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BinaryVersion {
    version: Option<String>,
}

/// Reads a control line; `None` if it is any other line.
pub fn read(line: &str) -> Option<Inbound> {
    // Most lines are pieces of an answer: they are spared the parsing.
    if !line.contains("\"control_") {
        return None;
    }
    let line: ControlLine = serde_json::from_str(line).ok()?;
    match line.kind.as_ref() {
        "control_request" => {
            let request_id = line.request_id?.into_owned();
            let request: ControlRequest = serde_json::from_str(line.request?.get()).ok()?;
            Some(match (request.subtype.as_ref(), request.message) {
                ("hook_callback", _) => Inbound::Hook {
                    request_id,
                    call: request.tool_use_id.map(Cow::into_owned),
                },
                ("mcp_message", Some(message)) if request.server_name.as_deref() == Some(SERVER) => Inbound::Mcp {
                    request_id,
                    message: message.to_owned(),
                },
                ("can_use_tool", _) => Inbound::Permission { request_id },
                (subtype, _) => Inbound::Unknown {
                    request_id,
                    subtype: subtype.to_owned(),
                },
            })
        }
        "control_response" => {
            let response: ControlResponse = serde_json::from_str(line.response?.get()).ok()?;
            Some(Inbound::Answer {
                request_id: response.request_id.into_owned(),
                refused: (response.subtype != "success")
                    .then(|| response.error.map_or_else(String::new, Cow::into_owned)),
                version: response
                    .response
                    .and_then(|answer| serde_json::from_str::<BinaryVersion>(answer.get()).ok())
                    .and_then(|answer| answer.version),
                answer: response.response.map(RawValue::to_owned),
            })
        }
        "control_cancel_request" => Some(Inbound::Nothing),
        _ => None,
    }
}

/// A control line of ours: the type, then `request` or `response`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Outbound<'a, T: Serialize> {
    ControlRequest { request_id: &'a str, request: T },
    ControlResponse { response: ControlReply<'a, T> },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum ControlReply<'a, T: Serialize> {
    Success { request_id: &'a str, response: T },
    Error { request_id: &'a str, error: &'a str },
}

fn line<T: Serialize>(outbound: &Outbound<T>) -> String {
    // Strings, raw JSON that was parsed, and no maps: there is nothing serde_json can't write.
    let mut line = serde_json::to_string(outbound).unwrap_or_default();
    line.push('\n');
    line
}

/// The answer to the CLI's request `request_id`.
pub fn success<T: Serialize>(request_id: &str, response: T) -> String {
    line(&Outbound::ControlResponse {
        response: ControlReply::Success { request_id, response },
    })
}

/// The request `request` of ours.
pub fn request<T: Serialize>(request_id: &str, request: T) -> String {
    line(&Outbound::ControlRequest { request_id, request })
}

/// The answer to a question of permission: denied, since nobody is there to be asked.
pub fn denied(request_id: &str) -> String {
    #[derive(Serialize)]
    struct Denied {
        behavior: &'static str,
        message: &'static str,
    }
    let denied = Denied {
        behavior: "deny",
        message: "This tool is not permitted here.",
    };
    success(request_id, denied)
}

/// The answer to a request of the kind `subtype`, which nobody knows here.
pub fn unknown(request_id: &str, subtype: &str) -> String {
    refused(request_id, &format!("deep-factor-providers knows no request {subtype}"))
}

/// The answer to a request that is not understood: `error` is the reason.
pub fn refused(request_id: &str, error: &str) -> String {
    let refusal: Outbound<()> = Outbound::ControlResponse {
        response: ControlReply::Error { request_id, error },
    };
    line(&refusal)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn blocks(json: &Value) -> Value {
        let raw = RawValue::from_string(json.to_string()).unwrap();
        serde_json::to_value(blocks_of(&raw, &Role::Human)).unwrap()
    }

    #[test]
    fn every_dialect_of_an_image_becomes_the_apis() {
        let base64 = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
        for image in [
            base64.clone(),
            json!({"type": "image", "source": base64["source"], "cache_control": {"type": "ephemeral"}}),
            json!({"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "AAAA"}),
            json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}),
            json!({"type": "image_url", "image_url": "data:image/png;base64,AAAA"}),
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
        ] {
            assert_eq!(blocks(&json!([image])), json!([base64]), "{image}");
        }
        assert_eq!(
            blocks(&json!([{"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}])),
            json!([{"type": "image", "source": {"type": "url", "url": "https://x.y/z.png"}}])
        );
    }

    #[test]
    fn texts_are_text_and_what_the_api_has_no_word_for_never_is() {
        assert_eq!(
            blocks(&json!([
                "a", {"type": "input_text", "text": "b"},
                {"type": "input_audio", "input_audio": {"data": "AAAA"}}, {"type": "image"}, {"type": "unheard_of"}
            ])),
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
        );
        assert_eq!(blocks(&json!({"a": 1})), json!([{"type": "text", "text": "{\"a\":1}"}]));
    }

    #[test]
    fn documents_keep_what_the_api_knows_of_them() {
        let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="});
        for document in [
            json!({"type": "document", "source": pdf, "title": "T"}),
            json!({"type": "file", "source_type": "base64", "mime_type": "application/pdf", "data": "JVBERi0=", "title": "T"}),
            json!({"type": "file", "mediaType": "application/pdf", "data": {"$bytes": "JVBERi0="}, "title": "T"}),
            json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}, "title": "T"}),
        ] {
            assert_eq!(
                blocks(&json!([document])),
                json!([{"type": "document", "source": pdf, "title": "T"}]),
                "{document}"
            );
        }
        let result = json!({"type": "search_result", "source": "s", "title": "t", "content": []});
        assert_eq!(blocks(&json!([result])), json!([result]));
    }

    #[test]
    fn a_line_is_one_line() {
        let line = user(&[Block::text("a\nb\u{2028}\"")]);
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(
            serde_json::from_str::<Value>(&line).unwrap(),
            json!({"type": "user", "message": {"role": "user", "content": "a\nb\u{2028}\""}})
        );
    }

    #[test]
    fn reads_the_recorded_lines() {
        let recording = {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/recordings");
            std::fs::read_to_string(folder.join("claude-2.1.330/defer-live-3-toolresult.stdout")).unwrap()
        };
        let kinds: Vec<&str> = recording
            .lines()
            .filter_map(read)
            .map(|inbound| match inbound {
                Inbound::Hook { .. } => "hook",
                Inbound::Mcp { .. } => "mcp",
                Inbound::Answer { refused: None, .. } => "answer",
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["mcp", "answer", "mcp", "mcp", "hook", "hook", "hook"]);
    }

    #[test]
    fn other_lines_are_not_ours() {
        for line in [
            r#"{"type":"assistant","message":{"content":"\"control_request\""}}"#,
            r#"{"type":"control_request"}"#,
            r#"{"type":"control_request","request_id":"r","request":"no object"}"#,
            "\"control_",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
        let unknown = r#"{"request":{"subtype":"dance","x":"\ud800"},"type":"control_request","request_id":"r"}"#;
        assert!(matches!(read(unknown), Some(Inbound::Unknown { subtype, .. }) if subtype == "dance"));
        let elsewhere = r#"{"type":"control_request","request_id":"r","request":{"subtype":"mcp_message","server_name":"x","message":{}}}"#;
        assert!(matches!(read(elsewhere), Some(Inbound::Unknown { .. })));
    }
}
