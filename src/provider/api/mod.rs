//! OpenAI-compatible APIs: their capabilities, their calls by chat completions, their errors, and their lists of models.
//!
//! In: options ([`settings`]), a thread and tools. Out: the request's body ([`request`]), and the events of the response
//! ([`answer`], over [`stream`]), which `judge` judges. `exchange::http` makes the connection. No code here knows a vendor: servers
//! are distinguished by their answers, or by an option. Identifiers of errors that other APIs use as well (`insufficient_quota`,
//! `context_length_exceeded`, …) are among the common rules.
//!
//! In: the text of a failure's body, or of an event within a stream. Out: a [`Failure`] without any secret. `classify` reads its
//! identifiers (`code`, `type`, `message`), since it knows how APIs write them.
//!
//! In: the answer to `GET /models`. Out: [`ListedModel`]s. OpenAI's own has ids alone; the other fields are those of OpenRouter, vLLM and
//! their like.

pub mod answer;
pub mod request;
pub mod settings;
pub mod stream;

#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;

use crate::capability::{Capabilities, EMULATED, NATIVE, SOME_ASKED, UNSUPPORTED};
use crate::classify::retry_after;
use crate::errors::Condition::*;
use crate::errors::{Errors, Rule};
use crate::models::{ListedModel, ModelPrice};
use dfp_model::error::{Code, clip};
use dfp_model::event::Failure;
use dfp_text::redact::Redactor;

/// The provider's id if the options give none, and the name of its rules and hints.
pub const PROVIDER: &str = "openai";

/// The capabilities of chat completions by their documents. A server may support less, and says so itself.
pub const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    structured_output: NATIVE.but(SOME_ASKED),
    images: NATIVE,
    documents: NATIVE.but("with their data, as `file` parts"),
    result_images: UNSUPPORTED,
    reasoning_out: NATIVE,
    reasoning_effort: NATIVE.but("as `reasoning_effort`"),
    reasoning_off: NATIVE.but("as `reasoning_effort: \"none\"`, which not every model has"),
    model: NATIVE,
    tool_choice: NATIVE,
    max_output_tokens: NATIVE.but("as `max_tokens`, or what `maxTokensField` says"),
    stop: NATIVE,
    temperature: NATIVE,
    service_tier: NATIVE.but("as `service_tier`"),
    speed: UNSUPPORTED,
    web_search: UNSUPPORTED,
    tool_search: UNSUPPORTED,
    quota_wait: EMULATED,
    login: UNSUPPORTED.but("a provider for each `apiKey` is the same"),
};

/// The rules and hints for these APIs.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    ..Errors::NONE
};

/// Advice that differs from the general one.
const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "set `apiKey`, or the environment variable that `apiKeyEnv` names",
    ),
    (Code::AuthenticationFailed, "correct `apiKey`"),
    (Code::InvalidApiKey, "correct `apiKey`"),
    (Code::TokenExpired, "renew the key and set `apiKey`"),
    (
        Code::NotFound,
        "correct `baseURL`: it is what /chat/completions is added to, and often ends with /v1",
    ),
    (
        Code::ModelNotFound,
        "name a model that the server has and the key may use",
    ),
    (Code::MaxTokens, "raise `maxTokens`, or ask for less at once"),
    (
        Code::MalformedResponse,
        "check `baseURL`, and proxies and gateways on the way",
    ),
    (Code::RequestTimeout, "try again, or raise the server's limit"),
    (Code::Unknown, "look at `stdoutTail`, and at the server's log"),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    // Values of `finish_reason` and `refusal` in a response.
    Rule::new(&[Kind("length")], Code::MaxTokens, "the answer hit the limit of output tokens and is cut short"),
    Rule::new(&[Kind("refusal")], Code::Refusal, "I'm sorry, I can't help with that."),
    // Values of `code` or `type` in an error.
    Rule::new(&[Kind("billing_not_active")], Code::CreditExhausted, "Your account is not active, please check your billing details on our website."),
    Rule::new(&[Kind("insufficient_balance")], Code::CreditExhausted, "Insufficient Balance"),
    Rule::new(&[Kind("account_deactivated")], Code::PermissionDenied, "The account associated with this API key has been deactivated"),
    Rule::new(&[Kind("incorrect_api_key_provided")], Code::InvalidApiKey, "Incorrect API key provided"),
    Rule::new(&[Kind("string_above_max_length")], Code::ContextLength, "Invalid 'messages[0].content': string too long."),
    Rule::new(&[Kind("deployment_not_found")], Code::ModelNotFound, "The API deployment for this resource does not exist."),
    Rule::new(&[Kind("engine_overloaded_error")], Code::Overloaded, "The engine is currently overloaded, please try again later"),
    // A status without a known identifier, and a sentence that says more.
    Rule::new(&[Status(404), Text("<model .{0,80}not found")], Code::ModelNotFound, "model 'm1' not found, try pulling it first"),
    Rule::new(&[Status(503), Text("<loading model|<model is (?:currently )?loading")], Code::Overloaded, "Loading model"),
];

/// The part of a body that is read, and kept for people, characters.
const SHOWN: usize = 4096;
/// The depth to which a body is searched for a limit's details.
const DEPTH: usize = 12;
/// The number of quotas that are named.
const QUOTAS: usize = 16;

/// A failure reported as JSON by an answer with this status; `None` for one that came within a stream.
fn failure_of(json: &str, status: Option<u16>, redactor: &Redactor) -> Failure {
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
pub(crate) fn refused(status: u16, reason: &str, body: &str, redactor: &Redactor) -> Failure {
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
pub(crate) fn title(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let from = lower.find("<title>")? + "<title>".len();
    let to = from + lower[from..].find("</title>")?;
    let title = page[from..to].split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then(|| clip(&title, 120))
}

/// The part of a body that a person may see: the beginning, since a server says least at the end.
pub(crate) fn shown(body: &str, redactor: &Redactor) -> Option<String> {
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
