//! Text for JavaScript, on the caller's thread: pure functions, text in and text out; and a redactor for text that leaves the process
//! through JavaScript (telemetry with `content: "redacted"`).

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use napi::bindgen_prelude::{Uint32Array, Utf16String};
use napi_derive::napi;
use serde::Deserialize;

use super::{Text, text};
use dfp_model::message::Message;
use dfp_model::thread::{Shelf, utf8};
use dfp_provider::options::OutputFormat;
use dfp_provider::output;
use dfp_text::redact::{Channel, Redactor};
use dfp_text::{prompt, toolcall};

/// Reads a thread in the three parts that [`Shelf::thread`] takes.
fn read(messages: Utf16String, texts: Utf16String, plan: &[u32]) -> napi::Result<Vec<Message>> {
    let thread = Shelf::default().thread(messages, texts, plan);
    let read = thread
        .map_err(|unfit| format!("{unfit:?}"))
        .and_then(|thread| thread.read());
    read.map_err(napi::Error::from_reason)
}

/// The thread as `<thread>` XML (SPEC-01).
#[napi(catch_unwind)]
pub fn messages_to_xml(messages_json: Utf16String, texts: Utf16String, plan: Uint32Array) -> napi::Result<Text> {
    Ok(text(prompt::messages_to_xml(&read(messages_json, texts, &plan)?)))
}

/// The thread as labelled text (SPEC-01).
#[napi(catch_unwind)]
pub fn messages_to_prompt(messages_json: Utf16String, texts: Utf16String, plan: Uint32Array) -> napi::Result<Text> {
    Ok(text(prompt::messages_to_prompt(&read(messages_json, texts, &plan)?)))
}

/// The tool calls that are written in `answer`, as a JSON array of `{id, name, args}`.
#[napi(catch_unwind)]
pub fn parse_tool_calls(answer: Utf16String) -> napi::Result<Text> {
    serde_json::to_string(&toolcall::parse_tool_calls(&utf8(&answer)))
        .map(text)
        .map_err(|error| napi::Error::from_reason(error.to_string()))
}

/// `plain` with the five special characters of XML escaped, and characters that XML 1.0 forbids replaced.
#[napi(catch_unwind)]
pub fn escape_xml(plain: Utf16String) -> Text {
    text(prompt::escape_xml(&utf8(&plain)))
}

/// `printed` without terminal sequences.
#[napi(catch_unwind)]
pub fn strip_ansi(printed: Utf16String) -> Text {
    text(dfp_text::decode::lines::strip_ansi(&utf8(&printed)).into_owned())
}

/// Reads a CLI's `stdout` (`output::Parsed` as JSON); `format` is `text`, `json`, or anything else for `stream-json`.
#[napi(catch_unwind)]
pub fn parse_cli_output(stdout: Utf16String, format: String, provider: Option<String>) -> napi::Result<Text> {
    let format = match format.as_str() {
        "text" => OutputFormat::Text,
        "json" => OutputFormat::Json,
        _ => OutputFormat::StreamJson,
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let parsed = output::parse(
        &utf8(&stdout),
        format,
        provider.as_deref(),
        u64::try_from(now).unwrap_or_default(),
    );
    serde_json::to_string(&parsed)
        .map(text)
        .map_err(|error| napi::Error::from_reason(error.to_string()))
}

/// The secrets that the façade knows.
#[derive(Deserialize)]
struct KnownSecrets {
    env: BTreeMap<String, String>,
    secrets: Vec<String>,
}

/// A redactor of the known shapes of secrets, and of the variables in an environment whose name says that they are secret.
#[napi]
pub struct NativeRedactor {
    redactor: Redactor,
}

#[napi]
impl NativeRedactor {
    /// Makes a redactor. `known_json`: `{"env": {name: value}, "secrets": [value]}`; `secrets` are secret without regard to a name,
    /// such as an API key.
    #[napi(constructor, catch_unwind)]
    pub fn new(known_json: String) -> napi::Result<Self> {
        let known: KnownSecrets =
            serde_json::from_str(&known_json).map_err(|error| napi::Error::from_reason(error.to_string()))?;
        let pairs = known.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(NativeRedactor {
            redactor: Redactor::new(pairs, known.secrets.iter().map(String::as_str)),
        })
    }

    /// `plain` without its secrets, redacted as for a run log.
    #[napi(catch_unwind)]
    pub fn redact(&self, plain: Utf16String) -> Text {
        text(self.redactor.redact(Channel::Record, &utf8(&plain)).into_owned())
    }

    /// JSON text without the secrets in its strings.
    #[napi(catch_unwind)]
    pub fn redact_json(&self, json: Utf16String) -> Text {
        text(self.redactor.redact_json(Channel::Record, &utf8(&json)).into_owned())
    }
}
