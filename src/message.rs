//! The vocabulary of a thread: messages, tool calls, tool results, tools and token usage.
//!
//! In: the JSON the façade makes of the caller's messages (any LangChain version, or plain objects). Out: the types every
//! other layer speaks. Tool arguments stay raw JSON text, so key order and number spelling survive the whole way.

pub mod content;
pub mod reasoning;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Who speaks in a [`Message`]. LangChain's own type names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Instructions: `system` (and OpenAI's `developer`).
    System,
    Human,
    Ai,
    /// The result of one tool call.
    Tool,
    /// Any other type a message may say, kept as it is (`generic`, `function`, …).
    Other(String),
}

impl Role {
    /// The name SPEC-01 writes for it.
    pub fn as_str(&self) -> &str {
        match self {
            Role::System => "system",
            Role::Human => "human",
            Role::Ai => "ai",
            Role::Tool => "tool",
            Role::Other(name) => name,
        }
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match lossy_string(deserializer)?.as_str() {
            "system" => Role::System,
            "human" => Role::Human,
            "ai" => Role::Ai,
            "tool" => Role::Tool,
            other => Role::Other(other.to_owned()),
        })
    }
}

/// What a message holds: text, or content blocks as the JSON text the caller had.
#[derive(Debug, Clone)]
pub enum Content {
    /// Plain text. Lone surrogates of the JavaScript string are U+FFFD here.
    Text(String),
    /// An array of content blocks (or any other JSON value), exactly as `JSON.stringify` wrote it.
    Blocks(Box<RawValue>),
}

impl Content {
    /// The text, or the JSON text of the blocks: what SPEC-01 puts into a prompt.
    pub fn as_text(&self) -> &str {
        match self {
            Content::Text(text) => text,
            Content::Blocks(raw) => raw.get(),
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Content::Text(String::new())
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if !raw.get().starts_with('"') {
            return Ok(Content::Blocks(raw));
        }
        lossy_string(&mut serde_json::Deserializer::from_str(raw.get()))
            .map(Content::Text)
            .map_err(de::Error::custom)
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Content::Text(text) => text.serialize(serializer),
            Content::Blocks(raw) => raw.serialize(serializer),
        }
    }
}

/// One message of a thread. To clone it is to share it: a thread that grows has the messages it had, and so have its calls.
#[derive(Clone)]
pub struct Message(Arc<Stored>);

/// What a message is, and what was found out about it.
struct Stored {
    fields: MessageFields,
    digest: OnceLock<(u64, u64)>,
}

/// What a message says, as the façade sends it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessageFields {
    /// Who speaks.
    #[serde(rename = "type")]
    pub role: Role,
    /// The content.
    #[serde(default)]
    pub content: Content,
    /// Calls the model made in this message (`ai` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Calls in this message that could not be read (`ai` only). Told to an API beside what came of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_tool_calls: Vec<InvalidToolCall>,
    /// Which call this message answers (`tool` only).
    #[serde(default, deserialize_with = "lossy_string", skip_serializing_if = "String::is_empty")]
    pub tool_call_id: String,
    /// `true` for a tool message with status "error".
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The model's reasoning (`ai` only): what [`reasoning::Returned`] reads, as the façade wrote it. Never part of a prompt, nor of a
    /// recorded thread.
    #[serde(default, skip_serializing)]
    pub reasoning: Option<Box<RawValue>>,
}

impl MessageFields {
    /// What `role` says, text and no more.
    pub fn new(role: Role, text: impl Into<String>) -> MessageFields {
        MessageFields {
            role,
            content: Content::Text(text.into()),
            tool_calls: Vec::new(),
            invalid_tool_calls: Vec::new(),
            tool_call_id: String::new(),
            is_error: false,
            reasoning: None,
        }
    }
}

impl Message {
    /// What `role` says, text and no more.
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        MessageFields::new(role, text).into()
    }
}

impl From<MessageFields> for Message {
    fn from(fields: MessageFields) -> Message {
        Message(Arc::new(Stored {
            fields,
            digest: OnceLock::new(),
        }))
    }
}

impl Message {
    /// What `make` makes of it, made once for all who share the message. There is one `make` in this package: a second would be given the
    /// first one's.
    pub fn digest(&self, make: impl FnOnce(&MessageFields) -> (u64, u64)) -> (u64, u64) {
        *self.0.digest.get_or_init(|| make(self))
    }
}

impl Deref for Message {
    type Target = MessageFields;

    fn deref(&self) -> &MessageFields {
        &self.0.fields
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fields.fmt(f)
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        MessageFields::deserialize(deserializer).map(Message::from)
    }
}

/// A call of a tool: what the model asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within its thread. Empty in a thread's message that has none.
    #[serde(default, deserialize_with = "lossy_string")]
    pub id: String,
    /// The tool's name as the caller bound it.
    #[serde(deserialize_with = "lossy_string")]
    pub name: String,
    /// The arguments: one JSON object, as raw text.
    pub args: Box<RawValue>,
}

impl PartialEq for ToolCall {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.name == other.name && self.args.get() == other.args.get()
    }
}

/// What a tool came to: the answer to a [`ToolCall`], for the model.
#[derive(Debug, Clone, Default)]
pub struct ToolResult {
    /// Text, or content blocks, as the tool gave them.
    pub content: Content,
    /// The tool failed or was not run, and the content says why.
    pub is_error: bool,
}

impl ToolResult {
    /// A result that is text.
    pub fn text(text: impl Into<String>) -> ToolResult {
        ToolResult {
            content: Content::Text(text.into()),
            is_error: false,
        }
    }

    /// A failure, for the model to read.
    pub fn error(reason: impl Into<String>) -> ToolResult {
        ToolResult {
            content: Content::Text(reason.into()),
            is_error: true,
        }
    }
}

/// Something that looked like a tool call and could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// The call's id, if one could be read.
    pub id: Option<String>,
    /// The tool's name, if one could be read.
    pub name: Option<String>,
    /// The text as the model wrote it.
    pub args: String,
    /// Why it could not be read.
    pub error: String,
}

/// A tool the model may call.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolSpec {
    /// The name the model calls it by.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: Option<String>,
    /// JSON Schema of the arguments, as raw text.
    pub schema: Box<RawValue>,
}

/// Tokens of one reply. `input_tokens` has LangChain's meaning: everything the model read, cache reads and writes included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens read, those from and into the cache included.
    pub input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
    /// The sum of both.
    pub total_tokens: u64,
    /// Of the input: served from the prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Of the input: written into the prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Of the output: reasoning ("thinking").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// `true` where the provider reported nothing and the figures are `ceil(length / 4)`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// Adds `more`; what only one of them knows is kept.
    pub fn add(&mut self, more: &Usage) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(more.total_tokens);
        self.cache_read_tokens = sum(self.cache_read_tokens, more.cache_read_tokens);
        self.cache_write_tokens = sum(self.cache_write_tokens, more.cache_write_tokens);
        self.reasoning_tokens = sum(self.reasoning_tokens, more.reasoning_tokens);
        self.estimated |= more.estimated;
    }

    /// What CLI-ADAPTER-PROTOCOL asks for where a provider reports nothing: a quarter of the characters (UTF-16 units, as
    /// JavaScript counts them), rounded up.
    pub fn estimate(prompt: &str, completion: &str) -> Usage {
        let quarter = |text: &str| (text.encode_utf16().count() as u64).div_ceil(4);
        let (input_tokens, output_tokens) = (quarter(prompt), quarter(completion));
        Usage {
            input_tokens,
            output_tokens,
            total_tokens: input_tokens + output_tokens,
            estimated: true,
            ..Usage::default()
        }
    }
}

/// A JSON string that may hold lone surrogates, which JavaScript strings can and UTF-8 can't: they become U+FFFD instead
/// of an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lossy(pub String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Lossy;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Lossy, E> {
                Ok(Lossy(text.to_owned()))
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Lossy, E> {
                Ok(Lossy(wtf8_to_string(bytes.to_vec())))
            }
        }
        // serde_json hands out a string with lone surrogates only when asked for bytes (as WTF-8).
        deserializer.deserialize_bytes(Text)
    }
}

/// [`Lossy`] for a field of type `String`; `null` is the empty string.
pub fn lossy_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<Lossy>::deserialize(deserializer)?.unwrap_or_default().0)
}

/// WTF-8 (UTF-8 that may hold surrogates, three bytes each) to a string with U+FFFD for each of them.
pub(crate) fn wtf8_to_string(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let mut bytes = error.into_bytes();
            for i in 0..bytes.len().saturating_sub(2) {
                if bytes[i] == 0xED && bytes[i + 1] >= 0xA0 {
                    bytes[i..i + 3].copy_from_slice("\u{FFFD}".as_bytes());
                }
            }
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }
}

/// JSON of any origin. Lone surrogates, which a JavaScript string may hold, are U+FFFD; what can't be read is `null`.
pub(crate) fn json_value(text: &str) -> Value {
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&mended(text)))
        .unwrap_or_default()
}

/// `json` as JavaScript writes it, with U+FFFD for each lone surrogate: it writes no other as an escape, and no text of UTF-8 holds one.
pub fn well_formed(json: String) -> String {
    match json.contains("\\ud") {
        true => mended(&json),
        false => json,
    }
}

/// JSON text with U+FFFD for the escapes of lone surrogates.
fn mended(json: &str) -> String {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut whole = String::with_capacity(json.len());
    let mut at = 0;
    while let Some(next) = json[at..].find('\\').map(|found| at + found) {
        whole.push_str(&json[at..next]);
        at = next;
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
            (Some(0xD800..0xE000), _) => {
                whole.push('\u{FFFD}');
                at += 6;
                continue;
            }
            (Some(_), _) => 6,
            // An escape of two characters; JSON has no other.
            (None, _) => 2,
        };
        let end = (at + length).min(json.len());
        let Some(escape) = json.get(at..end) else { break };
        whole.push_str(escape);
        at = end;
    }
    whole.push_str(json.get(at..).unwrap_or_default());
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_text_blocks_and_lone_surrogates() {
        let messages: Vec<Message> = serde_json::from_str(
            r#"[{"type":"human","content":"a\ud83e b\ud83e\udd80"},{"type":"critic","content":[{"b":1.0,"a":2}]},
                {"type":"ai","content":"","tool_calls":[{"id":null,"name":"t","args":{"z":1e21,"a":"\ud800"}}]}]"#,
        )
        .unwrap();
        assert_eq!(messages[0].content.as_text(), "a\u{FFFD} b🦀");
        assert_eq!(messages[1].role, Role::Other("critic".into()));
        assert_eq!(messages[1].content.as_text(), r#"[{"b":1.0,"a":2}]"#);
        assert_eq!(messages[2].tool_calls[0].args.get(), r#"{"z":1e21,"a":"\ud800"}"#);
        assert_eq!(messages[2].tool_calls[0].id, "");
    }

    #[test]
    fn estimates_in_utf16_units_rounded_up() {
        let usage = Usage::estimate("🦀🦀x", "");
        assert_eq!(
            (
                usage.input_tokens,
                usage.output_tokens,
                usage.total_tokens,
                usage.estimated
            ),
            (2, 0, 2, true)
        );
    }
}
