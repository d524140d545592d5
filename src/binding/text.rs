//! Pure functions for JavaScript: text in, text out, on the caller's thread.

use std::time::{SystemTime, UNIX_EPOCH};

use napi::bindgen_prelude::{Uint32Array, Utf16String};
use napi_derive::napi;

use super::{Text, text};
use dfp_model::message::Message;
use dfp_model::thread::{Shelf, utf8};
use dfp_provider::options::OutputFormat;
use dfp_provider::output;
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
    text(dfp_text::decode::ansi::strip_ansi(&utf8(&printed)).into_owned())
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
