//! The vocabulary of a thread: messages, tool calls, tool results, tools and token usage.
//!
//! In: the JSON that the façade makes of the caller's messages (any LangChain version, or plain objects). Out: the types that
//! every other layer uses. Tool arguments stay raw JSON text, so key order and number spelling survive the whole way.

pub mod content;
pub mod reasoning;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::de::{self, Deserializer, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The speaker of a [`Message`], under LangChain's own type names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Instructions: `system` (and OpenAI's `developer`).
    System,
    Human,
    Ai,
    /// The result of one tool call.
    Tool,
    /// Any other type of message, kept unchanged (`generic`, `function`, …).
    Other(String),
}

impl Role {
    /// The name that SPEC-01 writes for the role.
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

/// The content of a message: text, or content blocks as the caller's JSON text.
#[derive(Debug, Clone)]
pub enum Content {
    /// Plain text. Lone surrogates of the JavaScript string have become U+FFFD.
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

/// One message of a thread. A clone shares it: a thread that grows keeps the messages it had, and so do its calls.
#[derive(Clone)]
pub struct Message(Arc<Stored>);

/// A message's fields, with values computed from them once.
struct Stored {
    fields: MessageFields,
    digest: OnceLock<(u64, u64)>,
}

/// The fields of a message, as the façade sends them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessageFields {
    /// The speaker.
    #[serde(rename = "type")]
    pub role: Role,
    /// The content.
    #[serde(default)]
    pub content: Content,
    /// Calls that the model made in this message (`ai` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Calls in this message that could not be read (`ai` only). An API is told of them together with the answers to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_tool_calls: Vec<InvalidToolCall>,
    /// The id of the call that this message answers (`tool` only).
    #[serde(default, deserialize_with = "lossy_string", skip_serializing_if = "String::is_empty")]
    pub tool_call_id: String,
    /// `true` for a tool message with status "error".
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The model's reasoning (`ai` only), as the façade wrote it; [`reasoning::Returned`] reads it. It is never part of a
    /// prompt, nor of a recorded thread.
    #[serde(default, skip_serializing)]
    pub reasoning: Option<Box<RawValue>>,
}

impl MessageFields {
    /// Makes the fields of a message that is only text.
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
    /// Makes a message that is only text.
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
    /// Returns the digest that `make` computes of the message, once for all clones. There must be only one `make` in this
    /// package: a second one would get the first one's result.
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

/// A tool call that the model asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id, unique within its thread. Empty in a message of a thread that has none.
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

/// The result of a tool: the answer to a [`ToolCall`], for the model.
#[derive(Debug, Clone, Default)]
pub struct ToolResult {
    /// Text, or content blocks, unchanged from the tool.
    pub content: Content,
    /// True if the tool failed or was not run; the content then says why.
    pub is_error: bool,
}

impl ToolResult {
    /// Makes a result that is text.
    pub fn text(text: impl Into<String>) -> ToolResult {
        ToolResult {
            content: Content::Text(text.into()),
            is_error: false,
        }
    }

    /// Makes a failure for the model to read.
    pub fn error(reason: impl Into<String>) -> ToolResult {
        ToolResult {
            content: Content::Text(reason.into()),
            is_error: true,
        }
    }
}

/// A text that looked like a tool call and could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// The call's id, if one could be read.
    pub id: Option<String>,
    /// The tool's name, if one could be read.
    pub name: Option<String>,
    /// The text as the model wrote it.
    pub args: String,
    /// The reason why it could not be read.
    pub error: String,
}

/// A tool the model may call.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolSpec {
    /// The name by which the model calls the tool.
    pub name: String,
    /// The tool's purpose, for the model.
    #[serde(default)]
    pub description: Option<String>,
    /// JSON Schema of the arguments, as raw text.
    pub schema: Box<RawValue>,
}

/// The token usage of one reply. `input_tokens` has LangChain's meaning: everything the model read, cache reads and writes
/// included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens read, including those from and into the cache.
    pub input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
    /// The sum of both.
    pub total_tokens: u64,
    /// The part of the input that was served from the prompt cache.
    pub cache_read_tokens: Option<u64>,
    /// The part of the input that was written into the prompt cache.
    pub cache_write_tokens: Option<u64>,
    /// The part of `cache_write_tokens` that is kept for five minutes; `None` if nothing was, or the provider does not tell.
    pub cache_write_5m_tokens: Option<u64>,
    /// The part of `cache_write_tokens` that is kept for an hour; `None` if nothing was, or the provider does not tell.
    pub cache_write_1h_tokens: Option<u64>,
    /// The part of the output that is reasoning ("thinking").
    pub reasoning_tokens: Option<u64>,
    /// `true` if the provider reported nothing and the figures are `ceil(length / 4)`.
    pub estimated: bool,
}

/// The share of the input that was read from the prompt cache, from 0 to 1 in steps of a thousandth; `None` if nobody has told how much
/// was, or there was no input. This is the one definition of the share: events, run logs, `status`, telemetry and the gateway show it.
pub fn cache_hit_share(input_tokens: u64, cache_read_tokens: Option<u64>) -> Option<f64> {
    let read = cache_read_tokens?.min(input_tokens);
    // A count of tokens is far below the 53 bits that a double holds exactly.
    (input_tokens > 0).then(|| (1000.0 * read as f64 / input_tokens as f64).round() / 1000.0)
}

/// The figures that are known, and the [share](Usage::cache_hit_share) that follows from them. Reading it back ignores the share.
impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // By name, so that the compiler asks for a field that is added.
        let Usage {
            input_tokens,
            output_tokens,
            total_tokens,
            cache_read_tokens,
            cache_write_tokens,
            cache_write_5m_tokens,
            cache_write_1h_tokens,
            reasoning_tokens,
            estimated,
        } = *self;
        let mut map = serializer.serialize_map(None)?;
        for (name, tokens) in [
            ("inputTokens", Some(input_tokens)),
            ("outputTokens", Some(output_tokens)),
            ("totalTokens", Some(total_tokens)),
            ("cacheReadTokens", cache_read_tokens),
            ("cacheWriteTokens", cache_write_tokens),
            ("cacheWrite5mTokens", cache_write_5m_tokens),
            ("cacheWrite1hTokens", cache_write_1h_tokens),
            ("reasoningTokens", reasoning_tokens),
        ] {
            if let Some(tokens) = tokens {
                map.serialize_entry(name, &tokens)?;
            }
        }
        if let Some(share) = self.cache_hit_share() {
            map.serialize_entry("cacheHitShare", &share)?;
        }
        if estimated {
            map.serialize_entry("estimated", &true)?;
        }
        map.end()
    }
}

impl Usage {
    /// The share of the input that was read from the prompt cache: [`cache_hit_share`].
    pub fn cache_hit_share(&self) -> Option<f64> {
        cache_hit_share(self.input_tokens, self.cache_read_tokens)
    }

    /// Adds `more`; a figure that only one of them has is kept.
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
        self.cache_write_5m_tokens = sum(self.cache_write_5m_tokens, more.cache_write_5m_tokens);
        self.cache_write_1h_tokens = sum(self.cache_write_1h_tokens, more.cache_write_1h_tokens);
        self.reasoning_tokens = sum(self.reasoning_tokens, more.reasoning_tokens);
        self.estimated |= more.estimated;
    }

    /// Estimates the usage as CLI-ADAPTER-PROTOCOL asks where a provider reports none: a quarter of the characters (UTF-16
    /// units, as JavaScript counts them), rounded up.
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

/// Tokens and dollars that were used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spent {
    /// The tokens.
    pub usage: Usage,
    /// US dollars, if they were reported.
    pub cost_usd: Option<f64>,
}

impl Spent {
    /// Adds `more`.
    pub fn add(&mut self, more: &Spent) {
        self.usage.add(&more.usage);
        self.cost_usd = match (self.cost_usd, more.cost_usd) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

/// A JSON string that may hold lone surrogates, as JavaScript strings can and UTF-8 can't: they become U+FFFD instead of an
/// error.
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
        // serde_json accepts a string with lone surrogates only when asked for bytes (as WTF-8).
        deserializer.deserialize_bytes(Text)
    }
}

/// Deserialises a [`Lossy`] for a field of type `String`; `null` is the empty string.
pub fn lossy_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<Lossy>::deserialize(deserializer)?.unwrap_or_default().0)
}

/// Converts WTF-8 (UTF-8 that may hold surrogates, three bytes each) to a string with U+FFFD for each surrogate.
pub fn wtf8_to_string(bytes: Vec<u8>) -> String {
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

/// Parses JSON of any origin. Lone surrogates, which a JavaScript string may hold, become U+FFFD; JSON that can't be parsed
/// becomes `null`.
pub fn json_value(text: &str) -> Value {
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&mended(text)))
        .unwrap_or_default()
}

/// Returns `json`, written by JavaScript, with U+FFFD for each lone surrogate. JavaScript writes no other character as a `\ud…`
/// escape, and no UTF-8 text holds a surrogate.
pub fn well_formed(json: String) -> String {
    match json.contains("\\ud") {
        true => mended(&json),
        false => json,
    }
}

/// Returns JSON text with U+FFFD for the escapes of lone surrogates.
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
            // This is an escape of two characters; JSON has no other.
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
