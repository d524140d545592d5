//! A tool's result as MCP content.
//!
//! In: text, or content blocks in anybody's vocabulary: MCP's own, LangChain's two, OpenAI's, Anthropic's. Out: MCP blocks;
//! what has no place there goes over as the JSON text it is.

use rmcp::model::ContentBlock;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::message::Content;

/// What a client makes of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Reader {
    /// It takes blocks for what they are.
    #[default]
    Plain,
    /// It takes a first text that can be read as JSON for `structuredContent`, and then refuses what is no object there, such
    /// as a plain number (gemini 0.61.0, `McpComplianceTransport`).
    Parsing,
}

impl Reader {
    /// By the name a client gives itself.
    pub fn of(client: Option<&str>) -> Reader {
        match client {
            Some(name) if name.starts_with("gemini-cli") => Reader::Parsing,
            _ => Reader::Plain,
        }
    }
}

/// `content` as MCP has it.
pub(super) fn blocks(content: &Content, reader: Reader) -> Vec<ContentBlock> {
    let mut blocks = match content {
        Content::Text(text) => vec![ContentBlock::text(text)],
        Content::Blocks(raw) => of_raw(raw),
    };
    let misread = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => serde_json::from_str::<Value>(&text.text).is_ok_and(|value| !value.is_object()),
        _ => false,
    };
    if reader == Reader::Parsing && blocks.first().is_some_and(misread) {
        // Nothing is no JSON.
        blocks.insert(0, ContentBlock::text(""));
    }
    blocks
}

fn of_raw(raw: &RawValue) -> Vec<ContentBlock> {
    match serde_json::from_str::<Value>(raw.get()) {
        Ok(Value::Array(items)) => items.into_iter().map(block).collect(),
        _ => vec![ContentBlock::text(raw.get())],
    }
}

fn block(item: Value) -> ContentBlock {
    let read = match &item {
        Value::String(text) => Some(ContentBlock::text(text)),
        Value::Object(map) => match map.get("type").and_then(Value::as_str) {
            Some("text") => map.get("text").and_then(Value::as_str).map(ContentBlock::text),
            Some("image") => media(map).map(|(data, mime)| ContentBlock::image(data, mime)),
            Some("audio") => media(map).map(|(data, mime)| ContentBlock::audio(data, mime)),
            Some("image_url") => image_url(map),
            Some("resource" | "resource_link") => serde_json::from_value(item.clone()).ok(),
            _ => None,
        },
        _ => None,
    };
    read.unwrap_or_else(|| ContentBlock::text(item.to_string()))
}

/// The data of a block and their type: in the block itself (MCP, LangChain), or in its `source` (Anthropic).
fn media(map: &Map<String, Value>) -> Option<(&str, &str)> {
    let holder = map.get("source").and_then(Value::as_object).unwrap_or(map);
    let text = |names: &[&str]| names.iter().find_map(|name| holder.get(*name).and_then(Value::as_str));
    Some((text(&["data"])?, text(&["mimeType", "mime_type", "media_type"])?))
}

/// OpenAI's form, with the data in the URL.
fn image_url(map: &Map<String, Value>) -> Option<ContentBlock> {
    let url = match map.get("image_url")? {
        Value::Object(inner) => inner.get("url")?,
        plain => plain,
    };
    let (mime, data) = url.as_str()?.strip_prefix("data:")?.split_once(";base64,")?;
    Some(ContentBlock::image(data, mime))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(content: Value) -> Value {
        let raw = serde_json::value::to_raw_value(&content).unwrap();
        serde_json::to_value(blocks(&Content::Blocks(raw), Reader::Plain)).unwrap()
    }

    #[test]
    fn every_vocabulary_comes_out_as_mcp() {
        let image = json!({"type": "image", "data": "QUJD", "mimeType": "image/png"});
        let resource =
            json!({"type": "resource", "resource": {"uri": "x://y", "mimeType": "text/plain", "text": "hi"}});
        let odd = json!({"type": "thinking", "b": 1.0, "a": [null]});
        assert_eq!(
            of(json!([
                "plain",
                {"type": "text", "text": "", "cache_control": {}},
                image,
                {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "QUJD"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                {"type": "image_url", "image_url": "https://example.test/a.png"},
                {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
                resource,
                odd,
                7,
            ])),
            json!([
                {"type": "text", "text": "plain"},
                {"type": "text", "text": ""},
                image,
                image,
                image,
                image,
                {"type": "text", "text": r#"{"type":"image_url","image_url":"https://example.test/a.png"}"#},
                {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
                resource,
                {"type": "text", "text": odd.to_string()},
                {"type": "text", "text": "7"},
            ])
        );
        assert_eq!(of(json!({"a": 1})), json!([{"type": "text", "text": r#"{"a":1}"#}]));
        assert_eq!(
            serde_json::to_value(blocks(&Content::Text("a\n".into()), Reader::Plain)).unwrap(),
            json!([{"type": "text", "text": "a\n"}])
        );
    }

    /// "Invalid input: expected record, received number" was what gemini's model got of a tool that said 3.
    #[test]
    fn a_number_is_not_read_as_a_structure() {
        let parsing = Reader::of(Some("gemini-cli-mcp-client"));
        let texts = |text: &str, reader| {
            let value = serde_json::to_value(blocks(&Content::Text(text.to_owned()), reader)).unwrap();
            value
                .as_array()
                .unwrap()
                .iter()
                .map(|block| block["text"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        for misread in ["3", "[1]", "true", " null "] {
            assert_eq!(texts(misread, parsing), ["", misread]);
            assert_eq!(texts(misread, Reader::of(Some("claude-code"))), [misread]);
        }
        for fine in ["three", "", r#"{"a":1}"#] {
            assert_eq!(texts(fine, parsing), [fine]);
        }
    }
}
