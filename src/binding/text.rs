//! Pure functions for JavaScript: text in, text out, on the caller's thread.

use napi_derive::napi;

use std::time::{SystemTime, UNIX_EPOCH};

use super::from_json;
use crate::message::Message;
use crate::provider::options::OutputFormat;
use crate::{output, prompt, toolcall};

/// The thread as `<thread>` XML (SPEC-01).
#[napi(catch_unwind)]
pub fn messages_to_xml(messages_json: String) -> napi::Result<String> {
    Ok(prompt::messages_to_xml(&from_json::<Vec<Message>>(&messages_json)?))
}

/// The thread as labelled text (SPEC-01).
#[napi(catch_unwind)]
pub fn messages_to_prompt(messages_json: String) -> napi::Result<String> {
    Ok(prompt::messages_to_prompt(&from_json::<Vec<Message>>(&messages_json)?))
}

/// Tool calls written in `text`, as a JSON array of `{id, name, args}`.
#[napi(catch_unwind)]
pub fn parse_tool_calls(text: String) -> napi::Result<String> {
    serde_json::to_string(&toolcall::parse_tool_calls(&text))
        .map_err(|error| napi::Error::from_reason(error.to_string()))
}

/// `text` with XML's five characters escaped and what XML 1.0 forbids replaced.
#[napi(catch_unwind)]
pub fn escape_xml(text: String) -> String {
    prompt::escape_xml(&text)
}

/// `text` without the sequences only a terminal understands.
#[napi(catch_unwind)]
pub fn strip_ansi(text: String) -> String {
    crate::decode::ansi::strip_ansi(&text).into_owned()
}

/// `stdout` understood (`output::Parsed` as JSON); `format` is `text`, `json` or anything else for `stream-json`.
#[napi(catch_unwind)]
pub fn parse_cli_output(stdout: String, format: String, provider: Option<String>) -> napi::Result<String> {
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
        &stdout,
        format,
        provider.as_deref(),
        u64::try_from(now).unwrap_or_default(),
    );
    serde_json::to_string(&parsed).map_err(|error| napi::Error::from_reason(error.to_string()))
}
