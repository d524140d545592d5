//! Writes a message's content as the API takes it: as text, or as parts.
//!
//! In: content that the API takes ([`ACCEPTS`]). Out: text for the roles that take only text, and parts for the user's: `text`,
//! `image_url`, `file`, and OpenAI's own parts, unchanged.

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use dfp_model::message::content::{self, Accepts, ContentLimits, Dialect, Kind, Media, Part, Source, Takes};
use dfp_model::message::{Content, Role};

/// Images and files in any notation, and all blocks in the API's own: whether the model sees, hears or reads it is the server's to
/// say. A `file` part has data, never an address.
const PARTS: Takes = Takes {
    kinds: &[Kind::Image, Kind::Document],
    types: &[],
    dialect: Some(Dialect::OpenAi),
    urls: &[Kind::Image],
    texts: false,
};

/// The content that an API takes beside text. Results of tools are text there. Each server has its own limits of size.
pub const ACCEPTS: Accepts = Accepts {
    users: PARTS,
    results: Takes::TEXT,
    others: PARTS,
    limits: ContentLimits::NONE,
};

/// A user's content.
#[derive(Debug)]
pub enum Parts {
    Text(String),
    /// An array of parts.
    Blocks(Vec<Box<RawValue>>),
}

/// The content as text.
pub fn text(content: &Content, role: &Role) -> String {
    let Content::Blocks(raw) = content else {
        return content.as_text().to_owned();
    };
    let parts = content::parts(raw, role).into_iter();
    let texts = parts.filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// The content as a user's: text if it holds nothing else.
pub fn parts(content: &Content, role: &Role) -> Parts {
    let Content::Blocks(raw) = content else {
        return Parts::Text(content.as_text().to_owned());
    };
    let read = content::parts(raw, role);
    // Servers that do not support parts support text.
    if !read.iter().any(|part| matches!(part, Part::Media(_))) {
        return Parts::Text(text(content, role));
    }
    let parts = read.into_iter().filter_map(|part| match part {
        Part::Text(text) => to_raw_value(&json!({"type": "text", "text": text})).ok(),
        Part::Media(media) => of_media(&media),
        Part::Omitted | Part::Call(_) | Part::Unknown(_) => None,
    });
    Parts::Blocks(parts.collect())
}

fn of_media(media: &Media) -> Option<Box<RawValue>> {
    let url = match (&media.source, media.dialect) {
        // LangChain also writes the URL itself where the API wants an object.
        (_, Dialect::OpenAi) if !media.block.get("image_url").is_some_and(serde_json::Value::is_string) => {
            return to_raw_value(&media.block).ok();
        }
        (Source::Base64(data), _) if media.kind == Kind::Document => {
            let mime = media.mime.as_deref().unwrap_or("application/octet-stream");
            let file = json!({"filename": file_name(media), "file_data": format!("data:{mime};base64,{data}")});
            return to_raw_value(&json!({"type": "file", "file": file})).ok();
        }
        (Source::Url(url), _) => url.clone(),
        _ => media.data_url()?,
    };
    to_raw_value(&json!({"type": "image_url", "image_url": {"url": url}})).ok()
}

/// The file name that the API requires beside data: the block's own, as LangChain, the AI SDK, OpenAI's Responses and Anthropic
/// write it.
fn file_name(media: &Media) -> &str {
    const NAMES: [&str; 4] = ["filename", "file_name", "name", "title"];
    let holders = [Some(&media.block), media.block.get("metadata")];
    let mut names = holders
        .into_iter()
        .flatten()
        .flat_map(|holder| NAMES.iter().filter_map(|name| holder.get(*name)?.as_str()));
    names.next().unwrap_or(match media.mime.as_deref() {
        Some("application/pdf") => "document.pdf",
        _ => "document",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(json: &str) -> Content {
        Content::Blocks(RawValue::from_string(json.to_owned()).unwrap())
    }

    fn shown(json: &str) -> String {
        match parts(&blocks(json), &Role::Human) {
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
            (r#"[{"type":"text","text":"a"},"b"]"#, "text ab"),
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
        let json = r#"[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"tool_use","id":"t"},{"type":"text","text":"b"}]"#;
        assert_eq!(text(&blocks(json), &Role::Ai), "ab");
        assert_eq!(text(&blocks("7"), &Role::Tool), "7");
        assert_eq!(text(&Content::Text("t".to_owned()), &Role::Ai), "t");
    }
}
