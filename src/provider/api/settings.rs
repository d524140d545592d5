//! The options of an OpenAI-compatible API: their table, and their values.
//!
//! In: the JSON text of the options object. Out: [`Settings`], or one error that names the option, what it holds and what is
//! allowed. No key and no header's value is ever part of such an error.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, Scheme, Uri};
use serde_json::{Map, Value};

use super::PROVIDER;
use crate::capability;
use crate::capability::Feature;
use crate::choices::{self, CallChoices, Choices, EXTRA_BODY, OnUnsupported};
use crate::options::{self, Kind, OptionSpec};
use dfp_model::budget::Budget;
use dfp_model::error::{Code, ProviderError};
use dfp_model::retry::{Policy, QuotaWait};
use dfp_text::redact::{Redactor, Secret};

/// The default of `maxConcurrency`: a request costs no process, and an API itself refuses too many.
const MAX_CONCURRENCY: u64 = 64;

/// The address of requests without `baseURL`.
pub const OPENAI: &str = "https://api.openai.com/v1";
/// The variable that holds the key without `apiKey`, `apiKeyEnv` and `baseURL`.
pub const OPENAI_KEY: &str = "OPENAI_API_KEY";

const fn option(name: &'static str, kind: Kind) -> OptionSpec {
    OptionSpec { name, kind }
}

/// The option `model` without a rule for its first character, since it does not go into argv.
const MODEL: OptionSpec = option("model", Kind::Text);

/// The names that an API may have for the longest answer.
const MAX_TOKENS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

const SPECS: &[OptionSpec] = &[
    option("baseURL", Kind::Text),
    option("apiKey", Kind::Secret),
    option("apiKeyEnv", Kind::Text),
    MODEL,
    option("headers", Kind::Object),
    option("organization", Kind::Text),
    option("project", Kind::Text),
    option("stream", Kind::Flag),
    option("temperature", Kind::Between(0, 2)),
    option("topP", Kind::Between(0, 1)),
    option("maxTokens", Kind::Whole(1, 1 << 53)),
    option("maxTokensField", Kind::OneOf(&MAX_TOKENS)),
    option("stop", Kind::TextOrList),
    option("seed", Kind::Whole(0, 1 << 53)),
    option("reasoningEffort", Kind::Text),
    option("sendReasoning", Kind::OneOf(SEND_REASONING)),
    option("parallelToolCalls", Kind::Flag),
    option("toolChoice", Kind::AnyOf(&[Kind::OneOf(CHOICES), Kind::Object])),
    option("extraBody", Kind::Object),
    option("id", Kind::Text),
    choices::REASONING,
    choices::MAX_OUTPUT_TOKENS,
    choices::SERVICE_TIER,
    choices::SPEED,
    choices::WEB_SEARCH,
    choices::ON_UNSUPPORTED,
    options::TIMEOUT,
    options::IDLE_TIMEOUT,
    options::MAX_BUFFER,
    options::MAX_CONCURRENCY,
    options::RETRY,
    options::QUOTA,
    options::BUDGET,
];

/// The fields by which servers take a model's reasoning back.
const SEND_REASONING: &[&str] = &["reasoning_content", "reasoning", "reasoning_details"];

const CHOICES: &[&str] = &["auto", "none", "required"];

/// The value of `reasoning_effort` for no reasoning.
pub const OFF_EFFORT: &str = "none";

/// The members that `extraBody` can't have: without them, the request would no longer be the caller's thread, or its answer could
/// not be read.
const OURS: [&str; 3] = ["messages", "tools", "stream"];

/// Headers that belong to the connection.
const CONNECTION: [&str; 6] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
];

/// The options of one provider object, defaults filled in.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `id`: what the provider calls itself.
    pub id: String,
    /// The address of chat completions.
    pub chat: Uri,
    /// The address of the list of models.
    pub models: Uri,
    /// `model`.
    pub model: String,
    /// The source of the key.
    pub key: Key,
    /// `headers`, `organization`, `project`. Those that may hold secrets are marked as sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// `stream`.
    pub stream: bool,
    /// `parallelToolCalls`, for requests with tools.
    pub parallel_tool_calls: Option<bool>,
    /// `toolChoice`, for requests with tools.
    pub tool_choice: Option<ToolChoiceField>,
    /// The server's name of `maxTokens`.
    pub max_tokens_field: &'static str,
    /// `sendReasoning`: the field of a model's message in which the server takes back its reasoning.
    pub send_reasoning: Option<String>,
    /// Fields of every request, in order: the sampling options, then `extraBody`, where null removes a field.
    pub fields: Map<String, Value>,
    /// `timeout`: wall clock of one request. `None` for no limit.
    pub timeout: Option<Duration>,
    /// `idleTimeout`: silence of one request. `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// `maxBuffer`: bytes of one answer.
    pub max_buffer: usize,
    /// `maxConcurrency`: requests to one base URL at a time.
    pub max_concurrency: usize,
    /// `retry`.
    pub retry: Policy,
    /// `quota`: a call whose plan is used up waits for it.
    pub quota: Option<QuotaWait>,
    /// `budget`: how much may be used in a window of time.
    pub budget: Option<Budget>,
    /// `webSearch` and `speed`, which no call gets.
    pub unserved: Choices,
    /// `onUnsupported`, for calls that don't say.
    pub on_unsupported: Option<OnUnsupported>,
}

/// The source of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// `apiKey`.
    Value(Secret),
    /// The name of the variable that holds the key. Without the variable, no request is made.
    Env(String),
    Nobody,
}

/// The choice of tools that the model is to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoiceField {
    /// `auto`, `none` or `required`.
    Word(String),
    /// The tool of this name.
    Tool(String),
}

impl Settings {
    /// The fields of a request for `choices`, and those that they replace.
    pub fn fields_of(&self, choices: &Choices) -> (Map<String, Value>, &'static [&'static str]) {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Option<Value>| value.map(|value| fields.insert(name.to_owned(), value));
        set("model", choices.model.clone().map(Value::from));
        set("reasoning_effort", choices.effort.clone().map(Value::from));
        set(self.max_tokens_field, choices.max_output_tokens.map(Value::from));
        set("stop", choices.stop.clone().map(stop_field));
        set("service_tier", choices.service_tier.clone().map(Value::from));
        set("temperature", choices.temperature.clone().map(Value::Number));
        // A limit under the other name in `extraBody` would be a second one.
        let replaced: &[&str] = match choices.max_output_tokens {
            Some(_) => &MAX_TOKENS,
            None => &[],
        };
        (fields, replaced)
    }

    /// The choices of `call` that a reply shows, and where it makes none, those of this provider. Its `extraBody` beats both.
    pub fn with_own(&self, call: &CallChoices) -> Choices {
        let sent = |name: &str, chosen: &Option<String>| match (call.extra.get(name), chosen) {
            (Some(extra), _) => extra.as_str().map(str::to_owned),
            (None, Some(chosen)) => Some(chosen.clone()),
            (None, None) => Some(self.fields.get(name)?.as_str()?.to_owned()),
        };
        Choices {
            effort: sent("reasoning_effort", &call.choices.effort),
            service_tier: sent("service_tier", &call.choices.service_tier),
            ..call.choices.clone()
        }
    }

    /// Reads the options object `json`.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
    pub fn parse(json: &str) -> Result<Settings, Box<ProviderError>> {
        let map = options::checked(PROVIDER, SPECS, json)?;
        if let Some(feature) = unserved(&Choices::read(&map, Some(OFF_EFFORT))).next()
            && choices::on_unsupported(&map) != Some(OnUnsupported::Warn)
        {
            return Err(Box::new(refusal(feature, PROVIDER)));
        }
        read(&map).map_err(|reason| Box::new(ProviderError::new(PROVIDER, Code::InvalidOption, reason)))
    }

    /// Returns whether a call with these choices takes no tool calls.
    pub fn takes_no_calls(&self, call: &CallChoices) -> bool {
        match &call.tool_choice {
            Some(choice) => *choice == choices::ToolChoice::None,
            None => matches!(&self.tool_choice, Some(ToolChoiceField::Word(word)) if word == "none"),
        }
    }

    /// Checks that a call may have the `timeout` `ms`.
    ///
    /// # Errors
    /// The allowed values.
    pub fn check_timeout(ms: u64) -> Result<(), String> {
        options::check(&options::TIMEOUT, &Value::from(ms))
    }

    /// The choices `map` of a call.
    ///
    /// # Errors
    /// The choice that is wrong, and the reason, in words.
    pub fn choices(map: &Map<String, Value>) -> Result<CallChoices, String> {
        let choices = CallChoices::read(map, &[MODEL, EXTRA_BODY], Some(OFF_EFFORT))?;
        match choices.extra.keys().find(|name| OURS.contains(&name.as_str())) {
            Some(name) => Err(ours(name)),
            None => Ok(choices),
        }
    }

    /// The key by which the limit of concurrency counts, and the server's name in messages: scheme, host, port and path.
    pub fn place(&self) -> String {
        let path = self.chat.path();
        let base = path.strip_suffix("/chat/completions").unwrap_or(path);
        format!("{}{base}", origin(&self.chat))
    }

    /// Makes the redactor that knows all that no error and no record may hold: the key, and headers that may be one.
    pub fn redactor(&self, key: Option<&Secret>) -> Redactor {
        let sensitive = self.headers.iter().filter(|(_, value)| value.is_sensitive());
        let headers = sensitive.filter_map(|(_, value)| value.to_str().ok());
        // Of `Bearer abc`, the parts are secrets, too.
        let parts = headers.flat_map(|value| std::iter::once(value).chain(value.split_whitespace()));
        let query = self.chat.query().into_iter().flat_map(|query| query.split('&'));
        let values = query.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
        Redactor::new([], key.map(Secret::reveal).into_iter().chain(parts).chain(values))
    }
}

/// The features of `choices` that chat completions do not have: a tool for searching the web, a fast mode.
pub fn unserved(choices: &Choices) -> impl Iterator<Item = Feature> {
    let web = choices.searches_web().then_some(Feature::WebSearch);
    let fast = choices.is_fast().then_some(Feature::Speed);
    web.into_iter().chain(fast)
}

/// The error of a call of the API `id` that wants `feature`.
pub fn refusal(feature: Feature, id: &str) -> ProviderError {
    let reason = capability::refusal(feature, id, None);
    ProviderError::new(id, Code::UnsupportedOption, reason).with_hint(capability::HINT)
}

/// Scheme, host and port of `uri`.
pub fn origin(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or_default();
    format!("{scheme}://{}", uri.authority().map_or("", Authority::as_str))
}

fn read(map: &Map<String, Value>) -> Result<Settings, String> {
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let number = |name: &str, default: u64| options::number(map, name).unwrap_or(default);
    let limit = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
    let Some(model) = text("model") else {
        return Err("option \"model\" is missing: it must be a string, the model's name at the API".to_owned());
    };
    let id = text("id").unwrap_or(PROVIDER);
    let of_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.len() > 64 || !id.chars().all(of_id) {
        let allowed = "at most 64 letters, digits and \"-\", \"_\", \".\"";
        return Err(options::wrong("id", allowed, &map["id"]));
    }
    let (timeout, idle_timeout) = (number("timeout", 120_000), number("idleTimeout", 0));
    if map.contains_key("timeout") && timeout > 0 && idle_timeout > timeout {
        return Err(format!(
            "options \"idleTimeout\" and \"timeout\" contradict each other: silence of {idle_timeout} ms can't happen within \
             {timeout} ms"
        ));
    }
    let base = text("baseURL");
    Ok(Settings {
        id: id.to_owned(),
        chat: endpoint(base.unwrap_or(OPENAI), "chat/completions")?,
        models: endpoint(base.unwrap_or(OPENAI), "models")?,
        model: model.to_owned(),
        key: key(map)?,
        headers: headers(map)?,
        stream: map.get("stream") != Some(&Value::Bool(false)),
        parallel_tool_calls: map.get("parallelToolCalls").and_then(Value::as_bool),
        tool_choice: map.get("toolChoice").map(tool_choice).transpose()?,
        max_tokens_field: max_tokens_field(map),
        send_reasoning: text("sendReasoning").map(str::to_owned),
        fields: fields(map)?,
        timeout: limit(timeout),
        idle_timeout: limit(idle_timeout),
        max_buffer: usize::try_from(number("maxBuffer", 10 * 1024 * 1024)).unwrap_or(usize::MAX),
        max_concurrency: usize::try_from(number("maxConcurrency", MAX_CONCURRENCY)).unwrap_or(usize::MAX),
        retry: options::retry(map),
        quota: options::quota(map),
        budget: options::budget(map)?,
        unserved: {
            let Choices { web_search, fast, .. } = Choices::read(map, None);
            Choices {
                web_search,
                fast,
                ..Choices::default()
            }
        },
        on_unsupported: choices::on_unsupported(map),
    })
}

/// The value of `stop`; an empty list leaves the field out.
fn stop_field(stop: Vec<String>) -> Value {
    match stop.is_empty() {
        true => Value::Null,
        false => Value::from(stop),
    }
}

/// Returns `base` with `path` added to its own. A query (`?api-version=…`) stays.
fn endpoint(base: &str, path: &str) -> Result<Uri, String> {
    // The value is not repeated: it may hold a password.
    let refuse = |why: &str| {
        format!("option \"baseURL\" must be an http or https URL, like \"http://127.0.0.1:8080/v1\"; {why}")
    };
    let uri: Uri = base.parse().map_err(|_| refuse("given: a string that is none"))?;
    match uri.scheme().map(Scheme::as_str) {
        Some("http" | "https") => {}
        Some(other) => return Err(refuse(&format!("given: one that begins with \"{other}:\""))),
        None => return Err(refuse("given: one without http:// or https://")),
    }
    let authority = uri.authority().map_or("", Authority::as_str);
    if authority.contains('@') {
        return Err(refuse(
            "given: one with a user name or a password: use \"apiKey\" or \"headers\"",
        ));
    }
    if uri.host().is_none_or(str::is_empty) || (authority.ends_with(':') || uri.port().is_some_and(|p| p.as_u16() == 0))
    {
        return Err(refuse("given: one without a host, or with a port that is none"));
    }
    if base.contains('#') {
        return Err(refuse("given: one with a \"#\""));
    }
    let own = uri.path().trim_end_matches('/');
    if own.ends_with("/chat/completions") {
        return Err(refuse(
            "given: one that ends with /chat/completions, which is added here",
        ));
    }
    let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
    format!("{}{own}/{path}{query}", origin(&uri))
        .parse()
        .map_err(|_| refuse("given: a string that is none"))
}

fn key(map: &Map<String, Value>) -> Result<Key, String> {
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    match (text("apiKey"), text("apiKeyEnv")) {
        (Some(_), Some(_)) => {
            Err("options \"apiKey\" and \"apiKeyEnv\" contradict each other: give one of them".to_owned())
        }
        (Some(key), None) if HeaderValue::from_str(key).is_err() => Err(
            "option \"apiKey\" must be text that an HTTP header can hold; the value is not repeated here".to_owned(),
        ),
        (Some(key), None) => Ok(Key::Value(Secret::new(key))),
        (None, Some(name)) if name.contains('=') => Err(options::wrong(
            "apiKeyEnv",
            "the name of an environment variable",
            &map["apiKeyEnv"],
        )),
        (None, Some(name)) => Ok(Key::Env(name.to_owned())),
        (None, None) if map.contains_key("baseURL") => Ok(Key::Nobody),
        (None, None) => Ok(Key::Env(OPENAI_KEY.to_owned())),
    }
}

/// `headers`, `organization` and `project`. A name says whether the value may be a secret.
fn headers(map: &Map<String, Value>) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    for (option, name) in [("organization", "openai-organization"), ("project", "openai-project")] {
        if let Some(text) = map.get(option).and_then(Value::as_str) {
            let value = HeaderValue::from_str(text)
                .map_err(|_| format!("option \"{option}\" must be text that an HTTP header can hold"))?;
            headers.push((HeaderName::from_static(name), value));
        }
    }
    let configured = map.get("headers").and_then(Value::as_object);
    for (name, value) in configured.into_iter().flatten() {
        let at = format!("headers.{}", dfp_model::error::clip(name, 60));
        if name == "$notJson" {
            return Err(options::wrong(
                "headers",
                "an object of header names and values",
                &map["headers"],
            ));
        }
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("option \"{at}\" is not a name that an HTTP header can have"))?;
        if CONNECTION.contains(&parsed.as_str()) {
            return Err(format!(
                "option \"{at}\" can't be set: the connection decides about this header"
            ));
        }
        let text = value.as_str().filter(|text| !text.contains(char::is_control));
        let mut text = text
            .and_then(|text| HeaderValue::from_str(text).ok())
            .ok_or_else(|| format!("option \"{at}\" must be a string without line breaks, as an HTTP header can hold; the value is not repeated here"))?;
        let sensitive = ["auth", "key", "token", "secret", "cookie", "password"];
        text.set_sensitive(sensitive.iter().any(|part| parsed.as_str().contains(part)));
        headers.push((parsed, text));
    }
    Ok(headers)
}

fn tool_choice(value: &Value) -> Result<ToolChoiceField, String> {
    let allowed = "\"auto\", \"none\", \"required\" or { name: the tool's name }";
    let named = value.as_object().filter(|object| object.len() == 1);
    let name = named.and_then(|object| object.get("name")).and_then(Value::as_str);
    match (value, name) {
        (Value::String(word), _) => Ok(ToolChoiceField::Word(word.clone())),
        (_, Some(name)) => Ok(ToolChoiceField::Tool(name.to_owned())),
        _ => Err(options::wrong("toolChoice", allowed, value)),
    }
}

/// Returns whether the value contains a value that is no JSON: the façade marks those.
fn holds_no_json(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.contains_key("$notJson") || map.values().any(holds_no_json),
        Value::Array(items) => items.iter().any(holds_no_json),
        _ => false,
    }
}

fn max_tokens_field(map: &Map<String, Value>) -> &'static str {
    let wanted = map.get("maxTokensField").and_then(Value::as_str);
    let known = MAX_TOKENS.iter().find(|name| Some(**name) == wanted);
    known.copied().unwrap_or(MAX_TOKENS[0])
}

/// The reason for which a field of `extraBody` can't be `name`.
fn ours(name: &str) -> String {
    format!("option \"extraBody.{name}\" can't be set: it is what a call is about")
}

/// The sampling options under the API's names, then `extraBody`.
fn fields(map: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let max_tokens = max_tokens_field(map);
    let effort = Choices::read(map, Some(OFF_EFFORT)).effort;
    for (one, other, both) in [
        ("reasoningEffort", "reasoning.effort", effort.is_some()),
        ("maxTokens", "maxOutputTokens", map.contains_key("maxOutputTokens")),
    ] {
        if both && map.contains_key(one) {
            return Err(format!(
                "options \"{one}\" and \"{other}\" contradict each other: they are the same; give one of them"
            ));
        }
    }
    let named = [
        ("temperature", "temperature"),
        ("topP", "top_p"),
        ("maxTokens", max_tokens),
        ("maxOutputTokens", max_tokens),
        ("stop", "stop"),
        ("seed", "seed"),
        ("serviceTier", "service_tier"),
        ("reasoningEffort", "reasoning_effort"),
    ];
    let mut fields = Map::new();
    for (option, field) in named {
        if let Some(value) = map.get(option) {
            fields.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(effort) = effort {
        fields.insert("reasoning_effort".to_owned(), Value::from(effort));
    }
    let extra = map.get("extraBody").and_then(Value::as_object);
    for (name, value) in extra.into_iter().flatten() {
        if name == "$notJson" || holds_no_json(value) {
            return Err(options::wrong("extraBody", "an object of JSON", &map["extraBody"]));
        }
        if OURS.contains(&name.as_str()) {
            return Err(ours(name));
        }
        fields.insert(name.clone(), value.clone());
    }
    Ok(fields)
}
