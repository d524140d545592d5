//! User lines: what a live session is told, as the API's own content blocks.
//!
//! In: messages. Out: one line of JSON. A line that the CLI can't read kills it (CLI-FACTS 1.6), so all of it goes through
//! serde, and what has no place in the API's vocabulary goes over as text.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::message::{Content, Message, Role};
use crate::provider::Guard;

/// A content block.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// Never blank: the API refuses that.
        text: String,
    },
    /// The result of a call of the turn before.
    ToolResult {
        /// The API's id of the call.
        tool_use_id: String,
        /// Text, or blocks.
        content: Value,
        /// The tool failed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A block of another kind: `{type, source}` and what else the API has for it.
    #[serde(untagged)]
    Other(Value),
}

impl Block {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text { text: text.into() }
    }
}

/// The line that says `blocks`.
pub fn user(blocks: &[Block]) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        r#type: &'static str,
        message: Said<'a>,
    }
    #[derive(Serialize)]
    struct Said<'a> {
        role: &'static str,
        content: &'a RawValue,
    }
    let content = match blocks {
        [Block::Text { text }] => to_raw_value(text),
        blocks => to_raw_value(blocks),
    };
    let content = content.unwrap_or_else(|_| RawValue::NULL.to_owned());
    let message = Said {
        role: "user",
        content: &content,
    };
    let line = Line {
        r#type: "user",
        message,
    };
    serde_json::to_string(&line).unwrap_or_default() + "\n"
}

/// What the user says in `messages`; `None` if one of them is somebody else's, or nothing is said at all.
pub fn of_humans<'a>(messages: impl Iterator<Item = &'a Message>, guard: Option<Guard>) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    for message in messages {
        if message.role != Role::Human {
            return None;
        }
        match &message.content {
            Content::Text(text) => blocks.push(Block::text(text)),
            Content::Blocks(raw) => blocks.extend(blocks_of(raw)),
        }
    }
    blocks.retain(|block| !matches!(block, Block::Text { text } if text.trim().is_empty()));
    for block in &mut blocks {
        // The CLI looks at the last block of text only (CLI-FACTS 1.6); which one that is, is its business.
        if let (Block::Text { text }, Some(guard)) = (block, guard)
            && text.starts_with(guard.first)
        {
            text.insert_str(0, guard.prefix);
        }
    }
    (!blocks.is_empty()).then_some(blocks)
}

/// The result of the call that the API named `tool_use_id`.
pub fn result(tool_use_id: &str, message: &Message) -> Block {
    Block::ToolResult {
        tool_use_id: tool_use_id.to_owned(),
        content: match &message.content {
            Content::Text(text) => Value::from(text.as_str()),
            Content::Blocks(raw) => serde_json::to_value(blocks_of(raw)).unwrap_or_default(),
        },
        is_error: message.is_error,
    }
}

/// A message's blocks in the API's vocabulary. What is not an array of blocks is one text: its JSON.
fn blocks_of(raw: &RawValue) -> Vec<Block> {
    match serde_json::from_str::<Value>(raw.get()) {
        Ok(Value::Array(items)) => items.into_iter().map(block).collect(),
        _ => vec![Block::text(raw.get())],
    }
}

fn block(item: Value) -> Block {
    let read = match &item {
        Value::String(text) => Some(Block::text(text)),
        Value::Object(map) => match map.get("type").and_then(Value::as_str) {
            Some("text") => map.get("text").and_then(Value::as_str).map(Block::text),
            Some("image" | "document" | "file") => media(map),
            Some("image_url") => image_url(map),
            Some("search_result") => Some(Block::Other(item.clone())),
            _ => None,
        },
        _ => None,
    };
    read.unwrap_or_else(|| Block::text(item.to_string()))
}

/// An image or document: the API's own form, LangChain's two (`source_type` and `mime_type`; `mimeType`), or none of them.
fn media(map: &Map<String, Value>) -> Option<Block> {
    let text = |names: &[&str]| names.iter().find_map(|name| map.get(*name).and_then(Value::as_str));
    let kind = match text(&["type"])? {
        "image" => "image",
        _ => "document",
    };
    let source = match (map.get("source"), text(&["data"]), text(&["url"])) {
        (Some(source @ Value::Object(_)), ..) => source.clone(),
        (_, Some(data), _) => json!({"type": "base64", "media_type": text(&["mime_type", "mimeType"])?, "data": data}),
        (_, _, Some(url)) => url_source(url),
        _ => return None,
    };
    let mut block = Map::new();
    block.insert("type".to_owned(), Value::from(kind));
    block.insert("source".to_owned(), source);
    for name in ["title", "context", "citations"] {
        if let Some(value) = map.get(name).filter(|_| kind == "document") {
            block.insert(name.to_owned(), value.clone());
        }
    }
    Some(Block::Other(Value::Object(block)))
}

/// OpenAI's form: `image_url` is a URL or `{url}`.
fn image_url(map: &Map<String, Value>) -> Option<Block> {
    let url = match map.get("image_url")? {
        Value::String(url) => url,
        other => other.get("url")?.as_str()?,
    };
    Some(Block::Other(json!({"type": "image", "source": url_source(url)})))
}

fn url_source(url: &str) -> Value {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, data)) => json!({"type": "base64", "media_type": media_type, "data": data}),
        None => json!({"type": "url", "url": url}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(json: &Value) -> Value {
        let raw = RawValue::from_string(json.to_string()).unwrap();
        serde_json::to_value(blocks_of(&raw)).unwrap()
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
    fn what_the_api_has_no_word_for_is_text() {
        assert_eq!(
            blocks(&json!(["a", {"type": "text", "text": "b"}, {"type": "input_audio", "x": 1}, 7, {"type": "image"}])),
            json!([
                {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
                {"type": "text", "text": "{\"type\":\"input_audio\",\"x\":1}"}, {"type": "text", "text": "7"},
                {"type": "text", "text": "{\"type\":\"image\"}"},
            ])
        );
        assert_eq!(blocks(&json!({"a": 1})), json!([{"type": "text", "text": "{\"a\":1}"}]));
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
