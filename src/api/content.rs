//! What a message holds, as the API takes it: text, or parts.
//!
//! In: a message's content in any of the ways LangChain, Anthropic and OpenAI write blocks. Out: text for the roles that take
//! only text, and parts (`text`, `image_url`, and whatever else is not known, as it is) for the user's.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::message::Content;

/// A user's content.
#[derive(Debug)]
pub enum Parts {
    /// Nothing but text.
    Text(String),
    /// An array of parts.
    Blocks(Vec<Box<RawValue>>),
}

/// Kinds of blocks that repeat a message's calls, or its reasoning, which no API takes back.
const LEFT_OUT: [&str; 6] = [
    "tool_use",
    "tool_call",
    "thinking",
    "redacted_thinking",
    "reasoning",
    "input_json_delta",
];

/// The content as text, blocks joined by `joint`. A block that is no text is its JSON; what repeats calls is left out.
pub fn text(content: &Content, joint: &str) -> String {
    let Content::Blocks(raw) = content else {
        return content.as_text().to_owned();
    };
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        return raw.get().to_owned();
    };
    let texts = blocks.iter().filter_map(|block| match read(block) {
        Block::Text(text) => Some(text),
        Block::LeftOut => None,
        Block::Image(_) | Block::Foreign => Some(block.get().to_owned()),
    });
    texts.collect::<Vec<_>>().join(joint)
}

/// The content as a user's: text where it is nothing else.
pub fn parts(content: &Content) -> Parts {
    let Content::Blocks(raw) = content else {
        return Parts::Text(content.as_text().to_owned());
    };
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        return Parts::Text(raw.get().to_owned());
    };
    let mut parts = Vec::new();
    let mut texts = Vec::new();
    for block in blocks {
        let part = match read(block) {
            Block::LeftOut => continue,
            Block::Text(text) => {
                let part = to_raw_value(&json!({"type": "text", "text": text}));
                texts.push(text);
                part
            }
            Block::Image(url) => to_raw_value(&json!({"type": "image_url", "image_url": {"url": url}})),
            Block::Foreign => Ok(block.to_owned()),
        };
        parts.extend(part);
    }
    // Servers that know no parts know text.
    match &texts[..] {
        [] if parts.is_empty() => Parts::Text(String::new()),
        [text] if parts.len() == 1 => Parts::Text(text.clone()),
        _ => Parts::Blocks(parts),
    }
}

enum Block {
    Text(String),
    /// A URL, `data:` included.
    Image(String),
    LeftOut,
    /// OpenAI's own parts, and what nobody knows.
    Foreign,
}

fn read(block: &RawValue) -> Block {
    let Ok(value) = serde_json::from_str::<Value>(block.get()) else {
        return Block::Foreign;
    };
    let kind = value.get("type").and_then(Value::as_str);
    let text = value.get("text").and_then(Value::as_str);
    match (&value, kind, text) {
        (Value::String(text), ..) => Block::Text(text.clone()),
        (_, Some("text" | "input_text" | "output_text"), Some(text)) | (_, None, Some(text)) => {
            Block::Text(text.to_owned())
        }
        (_, Some("image"), _) => image(&value).map_or(Block::Foreign, Block::Image),
        // LangChain also writes the URL where the API wants an object.
        (_, Some("image_url"), _) => match value.get("image_url") {
            Some(Value::String(url)) => Block::Image(url.clone()),
            _ => Block::Foreign,
        },
        (_, Some(kind), _) if LEFT_OUT.contains(&kind) => Block::LeftOut,
        _ => Block::Foreign,
    }
}

/// The image of LangChain's block (`url`, or `data` with `mimeType` or `mime_type`) or of Anthropic's (`source`).
fn image(block: &Value) -> Option<String> {
    let from = block.get("source").filter(|source| source.is_object()).unwrap_or(block);
    let text = |names: &[&str]| names.iter().find_map(|name| from.get(name)?.as_str());
    if let Some(url) = text(&["url"]) {
        return Some(url.to_owned());
    }
    let data = text(&["data"])?;
    let mime = text(&["media_type", "mimeType", "mime_type"]).unwrap_or("image/png");
    Some(format!("data:{mime};base64,{data}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(json: &str) -> Content {
        Content::Blocks(RawValue::from_string(json.to_owned()).unwrap())
    }

    fn shown(json: &str) -> String {
        match parts(&blocks(json)) {
            Parts::Text(text) => format!("text {text}"),
            Parts::Blocks(parts) => parts.iter().map(|part| part.get()).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn a_users_parts() {
        for (json, expected) in [
            (r#"[{"type":"text","text":"hi"}]"#, "text hi"),
            ("[]", "text "),
            (r#"{"a":1.0}"#, r#"text {"a":1.0}"#),
            (
                r#"[{"type":"text","text":"a"},"b"]"#,
                r#"{"type":"text","text":"a"} {"type":"text","text":"b"}"#,
            ),
            (
                r#"[{"type":"image_url","image_url":{"url":"http://x/y.png","detail":"low"}}]"#,
                r#"{"type":"image_url","image_url":{"url":"http://x/y.png","detail":"low"}}"#,
            ),
            (
                r#"[{"type":"image_url","image_url":"http://x/y.png"}]"#,
                r#"{"type":"image_url","image_url":{"url":"http://x/y.png"}}"#,
            ),
            (
                r#"[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"QQ=="}}]"#,
                r#"{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,QQ=="}}"#,
            ),
            (
                r#"[{"type":"image","source_type":"base64","mime_type":"image/gif","data":"QQ=="}]"#,
                r#"{"type":"image_url","image_url":{"url":"data:image/gif;base64,QQ=="}}"#,
            ),
            (
                r#"[{"type":"image","url":"http://x/z.png"},{"type":"input_audio","input_audio":{"n":1.0}}]"#,
                r#"{"type":"image_url","image_url":{"url":"http://x/z.png"}} {"type":"input_audio","input_audio":{"n":1.0}}"#,
            ),
        ] {
            assert_eq!(shown(json), expected, "{json}");
        }
    }

    #[test]
    fn text_where_only_text_is_taken() {
        let json = r#"[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"tool_use","id":"t"},{"type":"text","text":"b"},{"n":1}]"#;
        assert_eq!(text(&blocks(json), "|"), r#"a|b|{"n":1}"#);
        assert_eq!(text(&blocks("7"), "|"), "7");
        assert_eq!(text(&Content::Text("t".to_owned()), "|"), "t");
    }
}
