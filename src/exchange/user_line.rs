//! User lines: the lines that a claude which reads lines is sent, in a session or in print form, with the API's own content
//! blocks.
//!
//! In: messages. Out: one line of JSON. A line that the CLI can't read kills it (CLI-FACTS 1.6), so everything goes through
//! serde, and content that has no place in the API's vocabulary is sent as text.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use dfp_model::message::content::{self, Dialect, Kind, Media, Part, Source};
use dfp_model::message::{Content, Message, Role};
use dfp_provider::Guard;
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

#[cfg(test)]
mod tests {
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
}
