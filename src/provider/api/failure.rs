//! Reads a server's failure from a body of its own or within a stream.
//!
//! In: the body's text. Out: a [`Failure`] without any secret. `classify` reads its identifiers (`code`, `type`, `message`), since
//! it knows how APIs write them.

use serde_json::Value;

use crate::classify::retry_after;
use dfp_model::error::clip;
use dfp_model::event::Failure;
use dfp_text::redact::Redactor;

/// The part of a body that is read, and kept for people, characters.
const SHOWN: usize = 4096;
/// The depth to which a body is searched for a limit's details.
const DEPTH: usize = 12;
/// The number of quotas that are named.
const QUOTAS: usize = 16;

/// A failure reported as JSON by an answer with this status; `None` for one that came within a stream.
pub fn failure_of(json: &str, status: Option<u16>, redactor: &Redactor) -> Failure {
    let json = redactor.redact_values(json);
    let value: Option<Value> = serde_json::from_str(&json).ok();
    let body = value.as_ref().map_or(Value::Null, one_object);
    let error = body.get("error").unwrap_or(&body);
    let text = |value: &Value, names: &[&str]| {
        names
            .iter()
            .find_map(|name| Some(value.get(name)?.as_str()?.to_owned()))
    };
    let message = match error {
        Value::String(message) => Some(message.clone()),
        error => text(error, &["message", "detail", "msg"]).or_else(|| text(&body, &["message", "detail"])),
    };
    // `code` is finer than `type`, if both are identifiers.
    let kinds = [error, &body]
        .into_iter()
        .flat_map(|value| ["code", "type", "status"].map(|name| value.get(name)));
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let kinds = kinds.chain(details.map(|detail| detail.get("reason")));
    let mut limit = Limit::default();
    limit.read(&body, DEPTH);
    let mut kinds = kinds.flatten().filter_map(Value::as_str).map(str::to_owned);
    let kind = kinds.next();
    let more_kinds = kinds.filter(|other| Some(other) != kind.as_ref());
    let more_kinds: Vec<String> = more_kinds.chain(limit.quotas).collect();
    let number = |name: &str| error.get(name).or_else(|| body.get(name)).and_then(Value::as_u64);
    let status_field = ["code", "status"].into_iter().find_map(number);
    let status_field = status_field.filter(|status| (400..600).contains(status));
    Failure {
        http_status: status.or_else(|| u16::try_from(status_field?).ok()),
        message: match (message, &kind) {
            (Some(message), _) if !message.trim().is_empty() => message,
            (_, Some(kind)) => kind.clone(),
            _ => clip(&json, SHOWN),
        },
        kind,
        more_kinds,
        retry_after_ms: limit.retry_after_ms,
        ..Failure::default()
    }
}

/// The facts of a limit in Google's `details`, wherever in a body they stand: gateways quote them, as objects or as JSON in a text.
#[derive(Default)]
struct Limit {
    /// `RetryInfo.retryDelay`, ms.
    retry_after_ms: Option<u64>,
    /// The names of the quotas that are used up (`QuotaFailure.violations[].quotaId`).
    quotas: Vec<String>,
}

impl Limit {
    /// Searches `value` for the facts of a limit, at most `depth` levels deep, also in JSON that is quoted as text.
    fn read(&mut self, value: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::Object(fields) => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str);
                if let Some(wait) = text("retryDelay").and_then(|delay| retry_after(delay, 0)) {
                    self.retry_after_ms.get_or_insert(wait.after_ms);
                }
                if let Some(quota) = text("quotaId").filter(|_| self.quotas.len() < QUOTAS) {
                    self.quotas.push(quota.to_owned());
                }
                for value in fields.values() {
                    self.read(value, depth);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.read(item, depth)),
            Value::String(text) if text.contains("retryDelay") => {
                if let Ok(quoted) = serde_json::from_str(text.trim()) {
                    self.read(&quoted, depth);
                }
            }
            _ => {}
        }
    }
}

/// The first of an array's objects (some servers wrap their errors so), or the object.
fn one_object(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.first().cloned().unwrap_or_default(),
        value => value.clone(),
    }
}

/// A failure reported by an answer with an error's status.
pub fn refused(status: u16, reason: &str, body: &str, redactor: &Redactor) -> Failure {
    let body = body.trim_start_matches('\u{FEFF}').trim();
    if body.starts_with(['{', '[']) && serde_json::from_str::<Value>(body).is_ok() {
        return failure_of(body, Some(status), redactor);
    }
    let named = match reason {
        "" => format!("HTTP status {status}"),
        reason => format!("HTTP status {status} {reason}"),
    };
    let message = match body {
        "" => named,
        page if page.starts_with('<') => match title(page) {
            Some(title) => format!("{named}: a web page, \"{title}\""),
            None => format!("{named}: a web page"),
        },
        text => format!("{named}: {}", clip(text, SHOWN)),
    };
    Failure {
        message: redactor.redact_values(&message).into_owned(),
        http_status: Some(status),
        ..Failure::default()
    }
}

/// The title of a web page.
pub fn title(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let from = lower.find("<title>")? + "<title>".len();
    let to = from + lower[from..].find("</title>")?;
    let title = page[from..to].split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then(|| clip(&title, 120))
}

/// The part of a body that a person may see: the beginning, since a server says least at the end.
pub fn shown(body: &str, redactor: &Redactor) -> Option<String> {
    let body = body.trim();
    (!body.is_empty()).then(|| clip(&redactor.redact_error(&clip(body, 2 * SHOWN)), SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> (String, Option<String>, Option<u16>) {
        let redactor = Redactor::new([], ["very-secret-word"]);
        let failure = refused(400, "Bad Request", body, &redactor);
        (failure.message, failure.kind, failure.http_status)
    }

    #[test]
    fn every_way_to_say_it() {
        for (body, message, kind) in [
            (
                r#"{"error":{"message":"No very-secret-word.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
                "No [redacted].",
                Some("invalid_api_key"),
            ),
            (
                r#"{"error":{"message":"bad","type":"invalid_request_error","code":null}}"#,
                "bad",
                Some("invalid_request_error"),
            ),
            (r#"{"error":"model 'x' not found"}"#, "model 'x' not found", None),
            (
                r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#,
                "too long",
                Some("BadRequestError"),
            ),
            (r#"{"detail":"Not Found"}"#, "Not Found", None),
            (
                r#"[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]"#,
                "API key not valid",
                Some("INVALID_ARGUMENT"),
            ),
            (r#"{"error":{"code":"overloaded"}}"#, "overloaded", Some("overloaded")),
            (r#"{"x":1}"#, r#"{"x":1}"#, None),
            ("", "HTTP status 400 Bad Request", None),
            ("upstream\ngone", "HTTP status 400 Bad Request: upstream\ngone", None),
            (
                "<html><TITLE>\n502  Bad Gateway</TITLE></html>",
                "HTTP status 400 Bad Request: a web page, \"502 Bad Gateway\"",
                None,
            ),
            ("<p>", "HTTP status 400 Bad Request: a web page", None),
            (r#"{"cut": "#, "HTTP status 400 Bad Request: {\"cut\":", None),
        ] {
            assert_eq!(
                read(body),
                (message.to_owned(), kind.map(str::to_owned), Some(400)),
                "{body}"
            );
        }
    }

    #[test]
    fn every_word_of_a_body_is_kept() {
        let body = r#"{"error":{"code":400,"message":"No.","status":"INVALID_ARGUMENT","type":"t","details":[{"reason":"API_KEY_INVALID"}]}}"#;
        let failure = refused(400, "Bad Request", body, &Redactor::default());
        assert_eq!(failure.kind.as_deref(), Some("t"));
        assert_eq!(failure.more_kinds, ["INVALID_ARGUMENT", "API_KEY_INVALID"]);
    }

    #[test]
    fn the_wait_of_a_limit_is_read_wherever_its_details_stand() {
        let details = r#"[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"RequestsPerMinute"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]"#;
        let google =
            format!(r#"{{"error":{{"code":429,"message":"No.","status":"RESOURCE_EXHAUSTED","details":{details}}}}}"#);
        let quoted = serde_json::to_string(&google).unwrap();
        for body in [
            google.clone(),
            format!("[{google}]"),
            format!(r#"{{"error":{{"message":"Provider returned error","code":429,"metadata":{{"raw":{quoted}}}}}}}"#),
        ] {
            let failure = refused(429, "", &body, &Redactor::default());
            assert_eq!(failure.retry_after_ms, Some(34_075), "{body}");
            assert_eq!(
                failure.more_kinds.last().map(String::as_str),
                Some("RequestsPerMinute"),
                "{body}"
            );
        }
        let none = r#"{"error":{"message":"No.","details":[{"retryDelay":"soon"}]}}"#;
        assert_eq!(refused(429, "", none, &Redactor::default()).retry_after_ms, None);
    }

    #[test]
    fn a_status_is_read_within_a_stream() {
        let failure = failure_of(r#"{"error":{"message":"x","code":502}}"#, None, &Redactor::default());
        assert_eq!((failure.http_status, failure.message.as_str()), (Some(502), "x"));
    }
}
