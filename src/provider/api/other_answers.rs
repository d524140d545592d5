//! Reads an API's answers beside a chat completion: a failure, and its list of models.
//!
//! In: the text of a failure's body, or of an event within a stream. Out: a [`Failure`] without any secret. `classify` reads its
//! identifiers (`code`, `type`, `message`), since it knows how APIs write them.
//!
//! In: the answer to `GET /models`. Out: [`ListedModel`]s. OpenAI's own has ids alone; the other fields are those of OpenRouter, vLLM and
//! their like.

use serde::Deserialize;
use serde_json::Value;

use crate::classify::retry_after;
use dfp_model::error::clip;
use dfp_model::event::Failure;
use dfp_model::listed_model::{ListedModel, ModelPrice};
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

/// Reads the list in `answer`; `None` if it is none.
pub fn read_models(answer: &[u8]) -> Option<Vec<ListedModel>> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let models = answer.get("data").unwrap_or(&answer).as_array()?;
    Some(models.iter().filter_map(one).collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Architecture {
    input_modalities: Option<Vec<String>>,
}

fn one(model: &Value) -> Option<ListedModel> {
    let text = |name: &str| {
        model
            .get(name)?
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let number = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| model.get(*name)?.as_u64());
        found.find(|number| *number > 0)
    };
    // Prices are texts, in dollars for one token.
    let price = |name: &str| {
        let told = model.get("pricing")?.get(name)?;
        let one: f64 = match told.as_str() {
            Some(text) => text.parse().ok()?,
            None => told.as_f64()?,
        };
        (one >= 0.0).then(|| (one * 1e12).round() / 1e6)
    };
    let price = ModelPrice {
        input: price("prompt"),
        output: price("completion"),
        cache_read: price("input_cache_read"),
        cache_write: price("input_cache_write"),
    };
    let of_top = model
        .get("top_provider")
        .and_then(|top| top.get("max_completion_tokens")?.as_u64());
    let kinds = model.get("architecture").map(Architecture::deserialize);
    Some(ListedModel {
        id: text("id")?,
        name: text("name").or_else(|| text("display_name")),
        description: text("description"),
        input_modalities: kinds.and_then(Result::ok).unwrap_or_default().input_modalities,
        context_window: number(&["context_length", "context_window", "max_model_len", "max_input_tokens"]),
        max_output_tokens: number(&["max_output_tokens", "max_tokens"]).or(of_top),
        price: price.non_empty(),
        ..ListedModel::default()
    })
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

    #[test]
    fn lists_are_read_with_what_they_tell() {
        let router = br#"{"data":[{"id":"a/b","name":"B","context_length":200000,"description":"",
            "architecture":{"input_modalities":["text","image"]},"top_provider":{"max_completion_tokens":64000},
            "pricing":{"prompt":"0.000003","completion":"0.000015","input_cache_read":"0.0000003"}},{"id":""},7]}"#;
        let model = ListedModel {
            id: "a/b".to_owned(),
            name: Some("B".to_owned()),
            input_modalities: Some(vec!["text".to_owned(), "image".to_owned()]),
            context_window: Some(200_000),
            max_output_tokens: Some(64_000),
            price: Some(ModelPrice {
                input: Some(3.0),
                output: Some(15.0),
                cache_read: Some(0.3),
                cache_write: None,
            }),
            ..ListedModel::default()
        };
        assert_eq!(read_models(router), Some(vec![model]));
        let bare = read_models(br#"[{"id":"m","object":"model","owned_by":"me","architecture":7}]"#);
        assert_eq!(bare.map(|models| models[0].id.clone()), Some("m".to_owned()));
        assert_eq!((read_models(br#"{"models":{}}"#), read_models(b"<html>")), (None, None));
    }
}
