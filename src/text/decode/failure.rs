//! Unwraps an API's error from what CLIs put around it: the API's own message, code and status.
//!
//! Only structured errors are read here (a JSON body, the bracket that gemini and qwen put around it). Prose is left to
//! `classify`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ansi::strip_ansi;
use super::json::{Count, Fields, is_string, word};
use dfp_model::event::Failure;

/// The text with which gemini 0.61.0 and qwen 0.15.10 begin an API's error.
pub(super) const API_ERROR: &str = "[API Error: ";

/// An error as the APIs spell it: Google's `status` and numeric `code`, OpenAI's `type` and `code`.
#[derive(Debug, Deserialize)]
struct ErrorBody<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    code: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<&'a RawValue>,
    details: Option<&'a RawValue>,
}

/// One of Google's `details`, whose reason is more precise than the status (`API_KEY_INVALID`).
#[derive(Debug, Deserialize)]
struct Detail<'a> {
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
}

/// The failure that `text` describes: a JSON body, possibly in a bracket, or prose.
pub fn failure_of(text: &str) -> Failure {
    let text = strip_ansi(text);
    let (reason, rest) = unwrap_bracket(text.trim());
    let mut failure = read_body(reason).unwrap_or_else(|| Failure {
        message: reason.to_owned(),
        http_status: status(reason.split(' ').next().and_then(|first| first.parse().ok())),
        ..Failure::default()
    });
    if !rest.is_empty() {
        failure.message = format!("{}\n{rest}", failure.message);
    }
    failure
}

/// Splits `[API Error: reason]` from the text that follows on further lines.
fn unwrap_bracket(text: &str) -> (&str, &str) {
    let Some(inner) = text.strip_prefix(API_ERROR) else {
        return (text, "");
    };
    match inner.strip_suffix(']') {
        Some(reason) => (reason, ""),
        None => inner.split_once("]\n").unwrap_or((inner, "")),
    }
}

/// Reads an API's error body; `None` if `text` is not one.
fn read_body(text: &str) -> Option<Failure> {
    let body: ErrorBody = serde_json::from_str(text).ok()?;
    let body = match body.error {
        Some(error) if is_string(error) => {
            return Some(Failure {
                message: word(Some(error))?.into_owned(),
                ..Failure::default()
            });
        }
        Some(error) => serde_json::from_str(error.get()).ok()?,
        None => body,
    };
    let mut fields = Fields::default();
    let details: Vec<&RawValue> = fields.read("details", body.details).unwrap_or_default();
    let details = details
        .into_iter()
        .filter_map(|raw| serde_json::from_str::<Detail>(raw.get()).ok());
    let reasons: Vec<&RawValue> = details.filter_map(|detail| detail.reason).collect();
    let named = [body.code, body.status, body.kind];
    let named = named.into_iter().flatten().chain(reasons);
    let mut named = named.filter_map(|raw| word(Some(raw))).map(|kind| kind.into_owned());
    let numbers = [body.code, body.status].map(|field| fields.read::<Count>("status", field));
    Some(Failure {
        kind: named.next(),
        more_kinds: named.collect(),
        message: word(body.message)?.into_owned(),
        http_status: numbers
            .into_iter()
            .flatten()
            .find_map(|Count(number)| status(u16::try_from(number).ok())),
        ..Failure::default()
    })
}

/// Returns `number` if it is an HTTP status that means an error.
pub fn status(number: Option<u16>) -> Option<u16> {
    number.filter(|number| (400..600).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_brackets_and_prose() {
        let failure = |kinds: &[&str], message: &str, http_status| Failure {
            kind: kinds.first().map(|kind| (*kind).to_owned()),
            more_kinds: kinds.iter().skip(1).map(|kind| (*kind).to_owned()).collect(),
            message: message.to_owned(),
            http_status,
            ..Failure::default()
        };
        for (text, want) in [
            (
                r#"[API Error: {"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[]}}]"#,
                failure(&["INVALID_ARGUMENT"], "API key not valid.", Some(400)),
            ),
            (
                r#"{"error": {"message": "Bad param", "type": "invalid_request_error", "code": "bad", "param": null}}"#,
                failure(&["bad", "invalid_request_error"], "Bad param", None),
            ),
            (
                r#"{"error":{"code":400,"message":"No.","status":"INVALID_ARGUMENT","details":[7,{"x":1},{"reason":"API_KEY_INVALID"}]}}"#,
                failure(&["INVALID_ARGUMENT", "API_KEY_INVALID"], "No.", Some(400)),
            ),
            (r#"{"error":"nope"}"#, failure(&[], "nope", None)),
            (
                "[API Error: 401 Incorrect API key]",
                failure(&[], "401 Incorrect API key", Some(401)),
            ),
            (
                "[API Error: daily quota]\nTry later",
                failure(&[], "daily quota\nTry later", None),
            ),
            ("line 500 is wrong", failure(&[], "line 500 is wrong", None)),
            ("{\"error\":{}}", failure(&[], "{\"error\":{}}", None)),
        ] {
            assert_eq!(failure_of(text), want, "{text}");
        }
    }
}
