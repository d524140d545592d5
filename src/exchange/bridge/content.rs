//! Translates a tool's result to MCP content.
//!
//! In: text, or content blocks in any of these forms: MCP, LangChain (two), OpenAI, Anthropic. Out: MCP blocks. Content that MCP
//! can't hold is replaced by a note to the model.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use dfp_model::message::content::{self, Kind, Part, Source};
use dfp_model::message::{Content, Role};

/// The way in which a client reads content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ContentReader {
    /// The client takes blocks as they are.
    #[default]
    Plain,
    /// If the first text can be read as JSON, the client takes it for `structuredContent`, and then refuses anything but an object
    /// there, for example a plain number ([`dfp_provider::callbacks::McpClient::parsing`]).
    Parsing,
}

impl ContentReader {
    /// The reader for a client, by the name that it gives itself.
    pub fn of(client: Option<&str>) -> ContentReader {
        let parsing = |name: &&str| {
            let mut prefixes = dfp_provider::every().filter_map(|provider| provider.mcp.parsing);
            prefixes.any(|prefix| name.starts_with(prefix))
        };
        client
            .filter(parsing)
            .map_or(ContentReader::Plain, |_| ContentReader::Parsing)
    }
}

/// `content` as MCP blocks.
pub(super) fn blocks(content: &Content, reader: ContentReader) -> Vec<Value> {
    let mut blocks = match content {
        Content::Text(text) => vec![text_block(text)],
        Content::Blocks(raw) => of_raw(raw),
    };
    let misread = |block: &Value| {
        let text = block["text"].as_str();
        text.is_some_and(|text| serde_json::from_str::<Value>(text).is_ok_and(|value| !value.is_object()))
    };
    if reader == ContentReader::Parsing && blocks.first().is_some_and(misread) {
        // An empty text is no JSON.
        blocks.insert(0, text_block(""));
    }
    blocks
}

/// The MCP blocks for content blocks in JSON: an array of blocks, or a single one.
fn of_raw(raw: &RawValue) -> Vec<Value> {
    let items = match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
        Ok(items) if !items.is_empty() => items,
        _ => vec![raw],
    };
    // A block that only MCP has in this form.
    let own = |item: &&RawValue| serde_json::from_str::<Value>(item.get()).ok().filter(is_resource);
    if !items.iter().any(|item| own(item).is_some()) {
        return content::parts(raw, &Role::Tool).into_iter().map(block).collect();
    }
    let blocks = items.iter().flat_map(|item| match own(item) {
        Some(own) => vec![own],
        None => content::parts(item, &Role::Tool).into_iter().map(block).collect(),
    });
    blocks.collect()
}

/// Returns whether `block` is a resource, or a link to one, in MCP's own form.
fn is_resource(block: &Value) -> bool {
    let has = |object: &Value, name: &str| object[name].is_string();
    match block["type"].as_str() {
        Some("resource") => {
            let resource = &block["resource"];
            has(resource, "uri") && (has(resource, "text") || has(resource, "blob"))
        }
        Some("resource_link") => has(block, "uri") && has(block, "name"),
        _ => false,
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// One block for MCP. The call waits for its result, so content that MCP can't hold is named in a note. Binary data is never sent
/// as text.
fn block(part: Part) -> Value {
    let what = match part {
        Part::Text(text) => return text_block(&text),
        Part::Media(media) => match (media.kind, &media.source, &media.mime) {
            (Kind::Image, Source::Base64(data), Some(mime)) => {
                return json!({"type": "image", "data": data, "mimeType": mime});
            }
            (Kind::Audio, Source::Base64(data), Some(mime)) => {
                return json!({"type": "audio", "data": data, "mimeType": mime});
            }
            _ => media.name(),
        },
        Part::Unknown(what) => what,
        Part::Omitted | Part::Call(_) => return text_block(""),
    };
    text_block(&format!(
        "[The tool returned {what} here, which can't be handed on: results hold text, images and audio.]"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: Value) -> Value {
        let raw = serde_json::value::to_raw_value(&content).unwrap();
        serde_json::to_value(blocks(&Content::Blocks(raw), ContentReader::Plain)).unwrap()
    }

    #[test]
    fn every_vocabulary_comes_out_as_mcp() {
        let image = json!({"type": "image", "data": "QUJD", "mimeType": "image/png"});
        let resource =
            json!({"type": "resource", "resource": {"uri": "x://y", "mimeType": "text/plain", "text": "hi"}});
        let left_out = |what: &str| {
            let text = format!(
                "[The tool returned {what} here, which can't be handed on: results hold text, images and audio.]"
            );
            json!({"type": "text", "text": text})
        };
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
                {"type": "unheard_of", "data": "QUJD"},
                {"type": "file", "mime_type": "application/pdf", "data": "QUJD"},
                7,
            ])),
            json!([
                {"type": "text", "text": "plain"},
                {"type": "text", "text": ""},
                image,
                image,
                image,
                image,
                left_out("an image"),
                {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
                resource,
                left_out("a block of the unknown type \"unheard_of\""),
                left_out("a document (application/pdf)"),
                {"type": "text", "text": "7"},
            ])
        );
        assert_eq!(of(json!({"a": 1})), json!([{"type": "text", "text": r#"{"a":1}"#}]));
        assert_eq!(
            serde_json::to_value(blocks(&Content::Text("a\n".into()), ContentReader::Plain)).unwrap(),
            json!([{"type": "text", "text": "a\n"}])
        );
    }

    /// gemini's model once got "Invalid input: expected record, received number" for a tool that returned 3.
    #[test]
    fn a_number_is_not_read_as_a_structure() {
        let parsing = ContentReader::of(Some("gemini-cli-mcp-client"));
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
            assert_eq!(texts(misread, ContentReader::of(Some("claude-code"))), [misread]);
        }
        for fine in ["three", "", r#"{"a":1}"#] {
            assert_eq!(texts(fine, parsing), [fine]);
        }
    }
}
