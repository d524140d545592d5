//! Reads blocks one by one, by their shape.
//!
//! In: the JSON of a message's content. Out: [`Part`]s. All notations of blocks are known here, and nowhere else.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::{Dialect, Kind, Media, Part, Source};
use crate::message::{Role, ToolCall, json_value};

/// Reads the blocks of content that is not a string, in a message of `role`.
pub fn parts(raw: &RawValue, role: &Role) -> Vec<Part> {
    match json_value(raw.get()) {
        // A tool's result may be a list of anything. Only blocks have a type.
        Value::Array(items) if !items.is_empty() && !items.iter().any(is_block) && !items.iter().any(holds_bytes) => {
            vec![Part::Text(raw.get().to_owned())]
        }
        Value::Array(items) => items.into_iter().map(|item| part(item, role)).collect(),
        block if is_block(&block) || holds_bytes(&block) => vec![part(block, role)],
        _ => vec![Part::Text(raw.get().to_owned())],
    }
}

/// The key that the façade writes for JavaScript's bytes, for which JSON has no notation.
const BYTES: &str = "$bytes";
/// The key that the façade writes for bytes that could not be read at once.
const BLOB: &str = "$blob";
/// Google's names for a part's data.
const GOOGLE: [&str; 4] = ["inlineData", "inline_data", "fileData", "file_data"];

fn is_block(value: &Value) -> bool {
    match value {
        Value::String(_) => true,
        Value::Object(map) => {
            let has = |name: &str| map.get(name).is_some_and(Value::is_string);
            has("type") || has("text") || GOOGLE.iter().any(|name| map.contains_key(*name))
        }
        _ => false,
    }
}

fn holds_bytes(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(holds_bytes),
        Value::Object(map) => [BYTES, BLOB].iter().any(|name| map.contains_key(*name)) || map.values().any(holds_bytes),
        _ => false,
    }
}

/// The types of blocks that are text, each with the field that holds the text.
const TEXTS: [(&str, &str); 5] = [
    ("text", "text"),
    ("input_text", "text"),
    ("output_text", "text"),
    ("text-plain", "text"),
    ("refusal", "refusal"),
];

/// The types of blocks in a model's message that are its calls.
const CALLS: [&str; 4] = ["tool_use", "tool_call", "tool-call", "function_call"];

/// The types of blocks in a model's message that are not content: its reasoning, pieces of calls, and records of its own
/// server. No other model accepts them.
const OMITTED: [&str; 16] = [
    "thinking",
    "redacted_thinking",
    "reasoning",
    "reasoning_content",
    "input_json_delta",
    "tool_call_chunk",
    "invalid_tool_call",
    "server_tool_use",
    "server_tool_call",
    "server_tool_call_chunk",
    "server_tool_result",
    "mcp_tool_use",
    "executable_code",
    "code_execution_result",
    "non_standard",
    "compaction",
];

/// Reads one block, by its type or, without one, by its fields.
fn part(item: Value, role: &Role) -> Part {
    let map = match item {
        Value::String(text) => return Part::Text(text),
        Value::Object(map) => map,
        Value::Array(_) => return Part::Unknown("an array, which is not a content block".to_owned()),
        scalar => return Part::Text(scalar.to_string()),
    };
    let kind = string(&map, &["type"]).unwrap_or_default().to_owned();
    if let Some((_, field)) = TEXTS.iter().find(|(name, _)| *name == kind)
        && let Some(text) = string(&map, &[field])
    {
        return Part::Text(text.to_owned());
    }
    if *role == Role::Ai {
        if CALLS.contains(&kind.as_str()) {
            return Part::Call(call(&map));
        }
        if OMITTED.contains(&kind.as_str()) || kind.ends_with("_tool_result") {
            return Part::Omitted;
        }
    }
    if matches!(kind.as_str(), "cachePoint" | "cache_point") {
        return Part::Omitted;
    }
    if let Some(media) = media(&kind, &map) {
        return media;
    }
    match (kind.as_str(), string(&map, &["text"])) {
        ("", Some(text)) => Part::Text(text.to_owned()),
        ("", _) if map.contains_key(BYTES) || map.contains_key(BLOB) => {
            Part::Unknown("bytes without a block".to_owned())
        }
        ("", _) => Part::Unknown("a block without a type".to_owned()),
        (kind, _) => Part::Unknown(format!("a block of the unknown type \"{}\"", shortened(kind))),
    }
}

/// Shortens a foreign name for use in an error message.
fn shortened(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// Reads a call in the content: Anthropic's `{id, name, input}`, LangChain's `{id, name, args}`, the AI SDK's `{toolCallId,
/// toolName, input}`, OpenAI's `{call_id, name, arguments}`. `None` if it can't be read as one.
fn call(map: &Map<String, Value>) -> Option<ToolCall> {
    let args = ["input", "args", "arguments"].iter().find_map(|name| map.get(*name));
    let args = match args {
        Some(Value::String(text)) => serde_json::from_str::<Map<String, Value>>(text)
            .ok()
            .map(Value::Object)?,
        Some(args) => args.clone(),
        None => Value::Object(Map::new()),
    };
    Some(ToolCall {
        id: string(map, &["call_id", "toolCallId", "id"])
            .unwrap_or_default()
            .to_owned(),
        name: string(map, &["name", "toolName"])?.to_owned(),
        args: args.is_object().then(|| to_raw_value(&args).ok()).flatten()?,
    })
}

const MIME: [&str; 4] = ["mime_type", "mimeType", "media_type", "mediaType"];
/// The fields in which a block holds its data.
const DATA: [&str; 4] = ["data", "file_data", "blob", "fileData"];
/// The fields in which a block gives the address of its data.
const URLS: [&str; 4] = ["url", "file_url", "fileUri", "file_uri"];
/// The fields in which a block names an uploaded file.
const IDS: [&str; 4] = ["id", "file_id", "fileId", "file"];

/// Reads a block that is not text, by its type.
fn media(kind: &str, map: &Map<String, Value>) -> Option<Part> {
    let object = |name: &str| map.get(name).and_then(Value::as_object);
    // The object that holds the data, the kind of the block, and the API whose notation it uses.
    let (holder, known, dialect) = match kind {
        "image" | "document" if object("source").is_some() => {
            let known = if kind == "image" { Kind::Image } else { Kind::Document };
            (object("source")?, Some(known), Dialect::Anthropic)
        }
        "search_result" => (map, Some(Kind::SearchResult), Dialect::Anthropic),
        "image" | "input_image" | "image-data" | "image-url" => (map, Some(Kind::Image), Dialect::Other),
        "image_url" | "video_url" | "audio_url" => {
            let known = match kind {
                "image_url" => Kind::Image,
                "video_url" => Kind::Video,
                _ => Kind::Audio,
            };
            return Some(of_url(known, kind, map));
        }
        "input_audio" => (object("input_audio").unwrap_or(map), Some(Kind::Audio), Dialect::OpenAi),
        "audio" => (map, Some(Kind::Audio), Dialect::Other),
        "video" => (map, Some(Kind::Video), Dialect::Other),
        "file" if object("file").is_some() => (object("file")?, None, Dialect::OpenAi),
        "resource" => (object("resource")?, None, Dialect::Other),
        // LangChain's text as a file is included; if it holds its text, it has been read as text already.
        "file" | "document" | "input_file" | "media" | "file-data" | "file-url" | "text-plain" => {
            (map, None, Dialect::Other)
        }
        // This is the AI SDK's tool result that names an uploaded file.
        "file-id" => (map, None, Dialect::Other),
        "image-file-id" => (map, Some(Kind::Image), Dialect::Other),
        "" => {
            let name = GOOGLE.iter().find(|name| map.contains_key(**name))?;
            (object(name)?, None, Dialect::Other)
        }
        _ => return None,
    };
    if kind == "resource"
        && let Some(text) = string(holder, &["text"])
    {
        return Some(Part::Text(text.to_owned()));
    }
    let format = string(holder, &["format"]).filter(|_| kind == "input_audio");
    let mime = string(holder, &MIME)
        .or_else(|| string(map, &MIME))
        .map(str::to_lowercase);
    let mime = mime.or_else(|| format.map(|format| format!("audio/{format}")));
    // The AI SDK has an image's data, or their address, in `image`.
    let payload = [&DATA[..], &URLS[..], &["image", "image_url"][..]].concat();
    let payload = payload.iter().find_map(|name| holder.get(*name));
    let (source, shown) = match payload {
        Some(payload) if dialect == Dialect::Anthropic && string(holder, &["type"]) == Some("text") => {
            let text = payload.as_str().map(|text| Source::Text(text.to_owned()));
            (text.unwrap_or(Source::Unreadable), None)
        }
        Some(payload) => read_payload(payload),
        None => match string(holder, &["text"]) {
            Some(text) => (Source::Text(text.to_owned()), Some("text/plain".to_owned())),
            None if dialect != Dialect::Other || IDS.iter().any(|name| holder.contains_key(*name)) => {
                (Source::Own, None)
            }
            None => (Source::Unreadable, None),
        },
    };
    // RIFF also begins audio files.
    let shown = shown.filter(|mime| mime != "image/webp" || known == Some(Kind::Image));
    let mime = mime.filter(|mime| !mime.ends_with("/*")).or(shown);
    Some(found(known, mime, source, dialect, map))
}

/// Makes the part of a block. One that holds bytes of JavaScript's can't be passed on unchanged, whichever notation it uses.
fn found(
    known: Option<Kind>,
    mime: Option<String>,
    source: Source,
    dialect: Dialect,
    map: &Map<String, Value>,
) -> Part {
    let block = Value::Object(map.clone());
    Part::Media(Box::new(Media {
        kind: known.unwrap_or_else(|| Kind::of_mime(mime.as_deref())),
        mime,
        source,
        dialect: if holds_bytes(&block) { Dialect::Other } else { dialect },
        block,
    }))
}

/// Reads `{type: "image_url", image_url: URL | {url}}` and the similar blocks of servers.
fn of_url(known: Kind, kind: &str, map: &Map<String, Value>) -> Part {
    let url = match map.get(kind) {
        Some(Value::Object(inner)) if !inner.contains_key(BYTES) => inner.get("url"),
        url => url.or_else(|| map.get("url")),
    };
    let (source, mime) = url.map_or((Source::Unreadable, None), read_payload);
    found(Some(known), mime, source, Dialect::OpenAi, map)
}

/// Reads bytes, base64, a URL with the data in it, or another URL; also returns the type that the data show.
fn read_payload(payload: &Value) -> (Source, Option<String>) {
    let text = match payload {
        Value::String(text) => text.as_str(),
        Value::Object(map) => match map.get(BYTES) {
            Some(Value::String(bytes)) => bytes.as_str(),
            _ => return (Source::Unreadable, None),
        },
        _ => return (Source::Unreadable, None),
    };
    if let Some(rest) = text.strip_prefix("data:") {
        return match rest.split_once(";base64,") {
            Some((mime, data)) if is_base64(data) => {
                let mime = mime.split(';').next().unwrap_or_default().to_lowercase();
                (
                    Source::Base64(data.to_owned()),
                    Some(mime).filter(|mime| !mime.is_empty()),
                )
            }
            _ => (Source::Unreadable, None),
        };
    }
    let is_url = text.find("://").is_some_and(|at| at > 0 && at <= 12);
    match is_url {
        true => (Source::Url(text.to_owned()), None),
        // A path is usually not base64 either: no file is read here.
        false if !is_base64(text) => (Source::Unreadable, None),
        false => (Source::Base64(text.to_owned()), shown(text).map(str::to_owned)),
    }
}

/// Returns whether `text` consists of base64's characters, of either alphabet.
fn is_base64(text: &str) -> bool {
    let known =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=' | b'\r' | b'\n');
    !text.is_empty() && text.as_bytes().iter().all(known)
}

/// The type that the beginning of the base64 shows.
fn shown(base64: &str) -> Option<&'static str> {
    const BEGINNINGS: [(&str, &str); 5] = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
        ("JVBERi", "application/pdf"),
    ];
    let found = BEGINNINGS.iter().find(|(beginning, _)| base64.starts_with(beginning));
    found.map(|(_, mime)| *mime)
}

fn string<'a>(map: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| map.get(*name)?.as_str())
}
