//! The options a user gives a provider: a table of names, types and limits, and the values read by it.
//!
//! In: the JSON text of the options object. Out: [`Options`], or one error that names the option, what was given and what
//! is allowed. Nothing is started before this has passed.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Provider;
use crate::error::{Code, ProviderError, clip};
use crate::retry::Policy;

/// How messages become a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEncoding {
    /// `<thread>` XML.
    Xml,
    /// Labelled text.
    Text,
}

/// How the prompt reaches the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptStyle {
    /// Over standard input: any length, nothing in `ps`.
    Stdin,
    /// As an argument.
    Arg,
}

/// What the CLI is asked to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// The answer alone.
    Text,
    /// One JSON value at the end.
    Json,
    /// A JSON line per event.
    StreamJson,
}

/// Whose login pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// As in the user's terminal.
    Inherit,
    /// API keys of the environment are dropped, so that the subscription's login is used.
    Subscription,
}

/// How claude is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// One process per call.
    Print,
    /// One process per conversation; an error where the CLI can't.
    Live,
    /// Live, or print where the CLI can't.
    Auto,
}

/// An option's type and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string of at least one character; no NUL.
    Text,
    /// A word that goes to argv behind a flag: a string that does not begin with "-".
    ArgText,
    /// Any string, or null.
    NullableText,
    /// Only null.
    Null,
    /// `true` or `false`.
    Flag,
    /// A whole number in a range, both ends included.
    Whole(u64, u64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An array of strings.
    TextList,
    /// An array.
    List,
    /// A model behind its provider's name, `openai/gpt-5`.
    ProviderModel,
    /// An object of any JSON.
    Object,
    /// An object whose values are strings, or undefined (null here) to remove a variable.
    Env,
    /// A number from 0 to 1, or a boolean: `true` for the default, `false` for 0.
    Share,
    /// `false`, or an object of these options.
    FalseOr(&'static [OptionSpec]),
    /// What a process may exit with: signed 32 bits, or unsigned ones as Node reports Windows' codes.
    ExitCode,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name in TypeScript.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
}

/// Milliseconds a timer can take: 2^31-1, as in Node.
pub(super) const MAX_MS: u64 = 2_147_483_647;

const fn option(name: &'static str, kind: Kind) -> OptionSpec {
    OptionSpec { name, kind }
}

/// `model`.
pub const MODEL: OptionSpec = option("model", Kind::ArgText);
/// `cliPath`.
pub const CLI_PATH: OptionSpec = option("cliPath", Kind::Text);
/// `timeout`, ms; 0 for none.
pub const TIMEOUT: OptionSpec = option("timeout", Kind::Whole(0, MAX_MS));
/// `timeout` of a CLI that may wait for ever: no 0.
pub const TIMEOUT_ALWAYS: OptionSpec = option("timeout", Kind::Whole(1, MAX_MS));
/// `model`, with its provider (opencode: `-m m1` alone is an error without a reason, CLI-FACTS 5).
pub const PROVIDER_MODEL: OptionSpec = option("model", Kind::ProviderModel);
/// `sandbox` (codex 0.169.0).
pub const SANDBOX: OptionSpec = option(
    "sandbox",
    Kind::OneOf(&["read-only", "workspace-write", "danger-full-access"]),
);
/// `ignoreUserConfig`.
pub const IGNORE_USER_CONFIG: OptionSpec = option("ignoreUserConfig", Kind::Flag);
/// `authType` (qwen 0.15.10).
pub const AUTH_TYPE: OptionSpec = option("authType", Kind::ArgText);
/// `config` (opencode 1.18.34).
pub const CONFIG: OptionSpec = option("config", Kind::Object);
/// `maxBuffer`, bytes.
pub const MAX_BUFFER: OptionSpec = option("maxBuffer", Kind::Whole(1, 1 << 40));
/// `inputEncoding`.
pub const INPUT_ENCODING: OptionSpec = option("inputEncoding", Kind::OneOf(&["xml", "text"]));
/// `promptStyle`.
pub const PROMPT_STYLE: OptionSpec = option("promptStyle", Kind::OneOf(&["stdin", "arg"]));
/// `outputFormat`.
pub const OUTPUT_FORMAT: OptionSpec = option("outputFormat", Kind::OneOf(&["stream-json", "json", "text"]));
/// `noInput`.
pub const NO_INPUT: OptionSpec = option("noInput", Kind::Flag);
/// `cwd`.
pub const CWD: OptionSpec = option("cwd", Kind::Text);
/// `env`.
pub const ENV: OptionSpec = option("env", Kind::Env);
/// `auth`.
pub const AUTH: OptionSpec = option("auth", Kind::OneOf(&["inherit", "subscription"]));
/// `extraArgs`.
pub const EXTRA_ARGS: OptionSpec = option("extraArgs", Kind::TextList);
/// `systemPrompt`.
pub const SYSTEM_PROMPT: OptionSpec = option("systemPrompt", Kind::NullableText);
/// `systemPrompt` of a CLI that takes one only as an argument: a text of the user's would be visible to others.
pub const CLI_SYSTEM_PROMPT: OptionSpec = option("systemPrompt", Kind::Null);
/// `permissionMode` (claude 2.1.330; `default` is listed there as `manual` and still accepted).
pub const PERMISSION_MODE: OptionSpec = option(
    "permissionMode",
    Kind::OneOf(&[
        "default",
        "plan",
        "acceptEdits",
        "bypassPermissions",
        "auto",
        "dontAsk",
        "manual",
    ]),
);
/// `disableBuiltInTools`.
pub const DISABLE_BUILT_IN_TOOLS: OptionSpec = option("disableBuiltInTools", Kind::Flag);
/// `verbose`.
pub const VERBOSE: OptionSpec = option("verbose", Kind::Flag);
/// `includePartialMessages`.
pub const INCLUDE_PARTIAL_MESSAGES: OptionSpec = option("includePartialMessages", Kind::Flag);
/// `idleTimeout`, ms; 0 for none.
pub const IDLE_TIMEOUT: OptionSpec = option("idleTimeout", Kind::Whole(0, MAX_MS));
/// `killGrace`, ms.
pub const KILL_GRACE: OptionSpec = option("killGrace", Kind::Whole(0, 600_000));
/// `maxConcurrency`.
pub const MAX_CONCURRENCY: OptionSpec = option("maxConcurrency", Kind::Whole(1, 1024));
/// `maxRetries` of the CLI itself (claude clamps it at 15, CLI-FACTS 1.3).
pub const MAX_RETRIES: OptionSpec = option("maxRetries", Kind::Whole(0, 15));
/// `engine`.
pub const ENGINE: OptionSpec = option("engine", Kind::OneOf(&["print", "live", "auto"]));
/// `keepAlive`, ms an unused session is kept; 0 ends it with its turn.
pub const KEEP_ALIVE: OptionSpec = option("keepAlive", Kind::Whole(0, MAX_MS));
/// `spares`: processes started ahead.
pub const SPARES: OptionSpec = option("spares", Kind::Whole(0, 64));

/// `retry`: how often a call that failed is made again, or `false` for never. Read as a [`Policy`].
pub const RETRY: OptionSpec = option(
    "retry",
    Kind::FalseOr(&[
        option("maxAttempts", Kind::Whole(1, 100)),
        option("baseDelayMs", Kind::Whole(0, MAX_MS)),
        option("maxDelayMs", Kind::Whole(0, MAX_MS)),
        option("jitter", Kind::Share),
        option("maxElapsedMs", Kind::Whole(0, MAX_MS)),
    ]),
);

/// The options of one provider object, defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `model`.
    pub model: Option<String>,
    /// `cliPath`; the provider's command if not given.
    pub cli_path: Option<String>,
    /// `timeout`: wall clock of one process. `None` for no limit.
    pub timeout: Option<Duration>,
    /// `idleTimeout`: silence of one process. `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// `killGrace`: between TERM and KILL.
    pub kill_grace: Duration,
    /// `maxBuffer`: bytes of standard output of one process.
    pub max_buffer: usize,
    /// `maxConcurrency`: processes of one binary at a time.
    pub max_concurrency: usize,
    /// `maxRetries` of the CLI itself.
    pub max_retries: u64,
    /// `retry`.
    pub retry: Policy,
    /// `inputEncoding`.
    pub input_encoding: InputEncoding,
    /// `promptStyle`.
    pub prompt_style: PromptStyle,
    /// `outputFormat`.
    pub output_format: OutputFormat,
    /// `noInput`.
    pub no_input: bool,
    /// `verbose`.
    pub verbose: bool,
    /// `includePartialMessages`; `None` lets the call decide (`stream` wants them).
    pub partial_messages: Option<bool>,
    /// `cwd`.
    pub cwd: Option<String>,
    /// `env`, in the order given; `None` removes.
    pub env: Vec<(String, Option<String>)>,
    /// `auth`.
    pub auth: Auth,
    /// `extraArgs`.
    pub extra_args: Vec<String>,
    /// `systemPrompt`: not given, null (the CLI's own), or a text.
    pub system_prompt: SystemPrompt,
    /// `permissionMode`.
    pub permission_mode: Option<String>,
    /// `disableBuiltInTools`.
    pub built_in_tools: bool,
    /// `engine`.
    pub engine: EngineKind,
    /// `keepAlive`: how long an unused session is kept.
    pub keep_alive: Duration,
    /// `spares`: processes started ahead.
    pub spares: usize,
    /// `sandbox`.
    pub sandbox: Option<String>,
    /// `ignoreUserConfig`.
    pub ignore_user_config: bool,
    /// `authType`.
    pub auth_type: Option<String>,
    /// `config`.
    pub config: Map<String, Value>,
}

/// Which system prompt the model gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemPrompt {
    /// The provider's constant one.
    Default,
    /// The CLI's own.
    Cli,
    /// The user's.
    Custom(String),
}

impl Options {
    /// Reads the options object `json` for `provider`.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what was given and what is allowed.
    pub fn parse(provider: &Provider, json: &str) -> Result<Options, Box<ProviderError>> {
        let map = checked(&provider.id, provider.options, json)?;
        check_together(provider, &map)
            .map_err(|reason| Box::new(ProviderError::new(&provider.id, Code::InvalidOption, reason)))?;
        Ok(read(provider, &map))
    }

    /// SPEC-01's own command form, which has no flags but its own.
    pub fn spec_form(&self) -> bool {
        self.no_input && self.prompt_style == PromptStyle::Arg && self.output_format == OutputFormat::Text
    }
}

/// The options object `json` of `who`, every field known and of its type.
///
/// # Errors
/// `INVALID_OPTION`, naming the option, what was given and what is allowed.
pub fn checked(who: &str, specs: &[OptionSpec], json: &str) -> Result<Map<String, Value>, Box<ProviderError>> {
    checked_within(who, specs, json, "")
}

/// As [`checked`], for an object that is itself called `path` (which ends with a dot).
///
/// # Errors
/// `INVALID_OPTION`, naming the option, what was given and what is allowed.
pub fn checked_within(
    who: &str,
    specs: &[OptionSpec],
    json: &str,
    path: &str,
) -> Result<Map<String, Value>, Box<ProviderError>> {
    let refuse = |reason: String| Box::new(ProviderError::new(who, Code::InvalidOption, reason));
    let map = match serde_json::from_str::<Value>(json) {
        Ok(Value::Object(map)) => map,
        Ok(other) => {
            return Err(refuse(format!(
                "options must be an object; given: {}",
                describe(&other)
            )));
        }
        Err(error) => return Err(refuse(format!("options can't be read as JSON: {error}"))),
    };
    check_fields(specs, &map, path).map_err(refuse)?;
    Ok(map)
}

/// Every field of `map`, whose own name with a dot is `path`. `Err` says what is wrong.
fn check_fields(specs: &[OptionSpec], map: &Map<String, Value>, path: &str) -> Result<(), String> {
    for (name, value) in map {
        let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
            return Err(unknown_option(specs, path, name));
        };
        check(spec, value)
            .map_err(|allowed| format!("option \"{path}{name}\" must be {allowed}; given: {}", describe(value)))?;
        if let (Kind::FalseOr(fields), Value::Object(map)) = (spec.kind, value) {
            check_fields(fields, map, &format!("{path}{name}."))?;
        }
    }
    Ok(())
}

fn unknown_option(specs: &[OptionSpec], path: &str, name: &str) -> String {
    let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    let fold = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let given = fold(name);
    let distance = |known: &&&str| strsim::damerau_levenshtein(&fold(known), &given);
    // Two slips of the finger, or half of a short word, is a typo; more is another word.
    let near = names
        .iter()
        .min_by_key(distance)
        .filter(|known| distance(known) <= 2.min(given.chars().count() / 2));
    let name = clip(name, 60);
    match near {
        Some(near) => format!("unknown option \"{path}{name}\": did you mean \"{path}{near}\"?"),
        None => format!("unknown option \"{path}{name}\"; allowed: {}", names.join(", ")),
    }
}

/// `Err` says what is allowed.
pub(super) fn check(spec: &OptionSpec, value: &Value) -> Result<(), String> {
    let no_nul = |text: &str| !text.contains('\0');
    let ok = match (spec.kind, value) {
        (Kind::Text, Value::String(text)) => !text.is_empty() && no_nul(text),
        (Kind::ArgText, Value::String(text)) => !text.trim().is_empty() && !text.starts_with('-') && no_nul(text),
        (Kind::ProviderModel, Value::String(text)) => {
            let parts = text.split_once('/');
            !text.starts_with('-') && no_nul(text) && parts.is_some_and(|(of, name)| !of.is_empty() && !name.is_empty())
        }
        (Kind::NullableText, Value::String(_) | Value::Null)
        | (Kind::Flag, Value::Bool(_))
        | (Kind::Null, Value::Null)
        | (Kind::List, Value::Array(_))
        | (Kind::Object, Value::Object(_)) => true,
        (Kind::Whole(least, most), Value::Number(number)) => whole(number).is_some_and(|n| (least..=most).contains(&n)),
        (Kind::OneOf(words), Value::String(text)) => words.contains(&text.as_str()),
        (Kind::TextList, Value::Array(items)) => items.iter().all(|item| item.as_str().is_some_and(no_nul)),
        (Kind::Env, Value::Object(pairs)) => pairs.iter().all(|(name, value)| {
            let name_ok = !name.is_empty() && !name.contains(['=', '\0']);
            name_ok && (value.is_null() || value.as_str().is_some_and(no_nul))
        }),
        (Kind::Share, Value::Number(number)) => number.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)),
        (Kind::Share, Value::Bool(_)) | (Kind::FalseOr(_), Value::Bool(false)) => true,
        (Kind::ExitCode, Value::Number(number)) => exit_code(number).is_some(),
        // What the façade marks as no JSON is no object.
        (Kind::FalseOr(_), Value::Object(map)) => !map.contains_key("$given"),
        _ => false,
    };
    if ok { Ok(()) } else { Err(allowed(spec.kind)) }
}

/// A whole number, also when JavaScript spelled it with a fraction or exponent (`1e3`).
fn whole(number: &serde_json::Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        // 2^53: above it a JavaScript number is not exact.
        (float >= 0.0 && float.fract() == 0.0 && float <= 9_007_199_254_740_992.0).then_some(float as u64)
    })
}

fn exit_code(number: &serde_json::Number) -> Option<i32> {
    let code = number.as_i64()?;
    // Bit for bit: 3221225477 is 0xC0000005, which Windows' own programs call -1073741819.
    i32::try_from(code)
        .ok()
        .or_else(|| u32::try_from(code).ok().map(u32::cast_signed))
}

pub(super) fn allowed(kind: Kind) -> String {
    match kind {
        Kind::Text => "a string that is not empty".to_owned(),
        Kind::ArgText => "a string that is not empty and does not begin with \"-\"".to_owned(),
        Kind::NullableText => "a string, or null for the CLI's own".to_owned(),
        Kind::Null => "null, for the CLI's own".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Whole(least, most) => format!("a whole number from {least} to {most}"),
        Kind::OneOf(words) => {
            format!(
                "one of {}",
                words
                    .iter()
                    .map(|word| format!("\"{word}\""))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        Kind::ProviderModel => "a string like \"provider/model\"".to_owned(),
        Kind::Object => "an object".to_owned(),
        Kind::List => "an array".to_owned(),
        Kind::TextList => "an array of strings".to_owned(),
        Kind::Env => "an object of strings (undefined removes a variable; no \"=\" in names)".to_owned(),
        Kind::ExitCode => "a whole number, as processes exit with".to_owned(),
        Kind::Share => "a number from 0 to 1, true or false".to_owned(),
        Kind::FalseOr(fields) => {
            let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
            format!("false, or an object of {}", names.join(", "))
        }
    }
}

/// What was given, for an error message. Values of `env` may be secrets: only types are told inside objects.
pub(super) fn describe(value: &Value) -> String {
    let kind_of = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    match value {
        // The façade marks what JSON can't say (NaN, functions, BigInt) with its description.
        Value::Object(map) => match map.get("$given").and_then(Value::as_str) {
            Some(given) if map.len() == 1 => given.to_owned(),
            _ => {
                let fields = map
                    .iter()
                    .take(8)
                    .map(|(name, value)| format!("{}: {}", clip(name, 40), kind_of(value)));
                format!("an object {{ {} }}", fields.collect::<Vec<_>>().join(", "))
            }
        },
        Value::Array(items) => {
            format!(
                "an array [{}]",
                items.iter().take(8).map(kind_of).collect::<Vec<_>>().join(", ")
            )
        }
        other => clip(&other.to_string(), 80),
    }
}

/// Options that make no sense together: the reason names both.
fn check_together(provider: &Provider, map: &Map<String, Value>) -> Result<(), String> {
    check_engine(map)?;
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    if let (Some(own), Some(model)) = (&provider.described, text("model")) {
        own.check_model(model)?;
    }
    let yes = |name: &str| map.get(name) == Some(&Value::Bool(true));
    let format = text("outputFormat").unwrap_or("stream-json");
    if yes("includePartialMessages") && format != "stream-json" {
        return Err(format!(
            "options \"includePartialMessages\" and \"outputFormat\" contradict each other: pieces of a message exist only \
             in \"stream-json\"; given: includePartialMessages: true, outputFormat: \"{format}\""
        ));
    }
    if map.get("verbose") == Some(&Value::Bool(false)) && format == "stream-json" {
        return Err(
            "options \"verbose\" and \"outputFormat\" contradict each other: the CLI prints \"stream-json\" only \
                    when verbose; given: verbose: false"
                .to_owned(),
        );
    }
    if text("auth") == Some("subscription") {
        let key = map.get("env").and_then(Value::as_object).and_then(|env| {
            provider
                .key_env
                .iter()
                .find(|name| env.get(**name).is_some_and(|value| !value.is_null()))
        });
        if let Some(key) = key {
            return Err(format!(
                "options \"auth\" and \"env\" contradict each other: auth \"subscription\" is for runs without an API key, \
                 and env sets {key}"
            ));
        }
    }
    let (idle, timeout) = (
        map.get("idleTimeout").and_then(Value::as_u64),
        map.get("timeout").and_then(Value::as_u64),
    );
    if let (Some(idle), Some(timeout)) = (idle, timeout)
        && timeout > 0
        && idle > timeout
    {
        return Err(format!(
            "options \"idleTimeout\" and \"timeout\" contradict each other: silence of {idle} ms can't happen within \
             {timeout} ms"
        ));
    }
    Ok(())
}

/// A live session speaks one protocol and takes everything over standard input; the others have no session.
fn check_engine(map: &Map<String, Value>) -> Result<(), String> {
    let engine = map.get("engine").and_then(Value::as_str).unwrap_or("print");
    let (names, why) = if engine == "print" {
        let some = |value: &&Value| value.as_u64() != Some(0);
        let named = ["keepAlive", "spares"];
        let named = named.into_iter().find(|name| map.get(*name).filter(some).is_some());
        (named, "only a live session outlives its call")
    } else {
        let unlike = |name: &str, only: Value| map.get(name).is_some_and(|value| *value != only);
        let named = [
            ("promptStyle", Value::from("stdin")),
            ("outputFormat", Value::from("stream-json")),
            ("noInput", Value::from(false)),
        ];
        let named = named.into_iter().find(|(name, only)| unlike(name, only.clone()));
        (
            named.map(|(name, _)| name),
            "a live session speaks \"stream-json\" over standard input",
        )
    };
    names.map_or(Ok(()), |name| {
        let given = map.get(name).map(describe).unwrap_or_default();
        Err(format!(
            "options \"{name}\" and \"engine\" contradict each other: {why}; given: {name}: {given}, engine: \"{engine}\""
        ))
    })
}

/// Why `timeout` may not be `ms` in a call of `provider`, as it may not in its options.
///
/// # Errors
/// What is allowed.
pub fn check_timeout(provider: &Provider, ms: u64) -> Result<(), String> {
    match provider.options.iter().find(|spec| spec.name == TIMEOUT.name) {
        Some(spec) => check(spec, &Value::from(ms)),
        None => Ok(()),
    }
}

/// A whole number of a checked object.
pub fn number(map: &Map<String, Value>, name: &str) -> Option<u64> {
    match map.get(name) {
        Some(Value::Number(number)) => whole(number),
        _ => None,
    }
}

/// An array of strings of a checked object.
pub(super) fn texts(map: &Map<String, Value>, name: &str) -> Vec<String> {
    match map.get(name) {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// An exit code of a checked object.
pub fn exit_code_of(map: &Map<String, Value>, name: &str) -> Option<i32> {
    match map.get(name) {
        Some(Value::Number(number)) => exit_code(number),
        _ => None,
    }
}

/// An environment of a checked object: names with values, or nothing to remove them.
pub fn environment(map: &Map<String, Value>, name: &str) -> Vec<(String, Option<String>)> {
    match map.get(name) {
        Some(Value::Object(pairs)) => pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)))
            .collect(),
        _ => Vec::new(),
    }
}

/// The retry policy of a checked object.
fn retry(map: &Map<String, Value>) -> Policy {
    let default = Policy::default();
    let fields = match map.get("retry") {
        None => return default,
        Some(Value::Object(fields)) => fields,
        Some(_) => return Policy::NEVER,
    };
    let number = |name: &str, default: u64| number(fields, name).unwrap_or(default);
    Policy {
        max_attempts: u32::try_from(number("maxAttempts", u64::from(default.max_attempts))).unwrap_or(u32::MAX),
        base_delay_ms: number("baseDelayMs", default.base_delay_ms),
        max_delay_ms: number("maxDelayMs", default.max_delay_ms),
        jitter: match fields.get("jitter") {
            Some(Value::Bool(false)) => 0.0,
            Some(share) => share.as_f64().unwrap_or(default.jitter),
            None => default.jitter,
        },
        max_elapsed_ms: match number("maxElapsedMs", default.max_elapsed_ms) {
            0 => u64::MAX,
            limit => limit,
        },
        own_limits: true,
    }
}

/// The checked object as values, defaults filled in.
fn read(provider: &Provider, map: &Map<String, Value>) -> Options {
    let defaults = provider.defaults;
    let own_model = || provider.described.as_ref().map(|own| own.default_model.clone());
    let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
    let flag = |name: &str| map.get(name).and_then(Value::as_bool);
    let number = |name: &str, default: u64| number(map, name).unwrap_or(default);
    let limit = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
    let engine = match text("engine").as_deref() {
        Some("live") => EngineKind::Live,
        Some("auto") => EngineKind::Auto,
        _ => EngineKind::Print,
    };
    Options {
        model: text("model").or_else(own_model),
        cli_path: text("cliPath"),
        timeout: limit(number("timeout", defaults.timeout_ms)),
        // A live session that is stuck would be stuck for every call to come.
        idle_timeout: limit(number(
            "idleTimeout",
            if engine == EngineKind::Print { 0 } else { 120_000 },
        )),
        kill_grace: Duration::from_millis(number("killGrace", 2_000)),
        max_buffer: usize::try_from(number("maxBuffer", 10 * 1024 * 1024)).unwrap_or(usize::MAX),
        max_concurrency: usize::try_from(number("maxConcurrency", 4)).unwrap_or(usize::MAX),
        max_retries: number("maxRetries", 0),
        retry: retry(map),
        input_encoding: match text("inputEncoding").as_deref() {
            Some("text") => InputEncoding::Text,
            _ => InputEncoding::Xml,
        },
        prompt_style: match text("promptStyle").as_deref() {
            Some("arg") => PromptStyle::Arg,
            Some(_) => PromptStyle::Stdin,
            None => defaults.prompt_style,
        },
        output_format: match text("outputFormat").as_deref() {
            Some("text") => OutputFormat::Text,
            Some("json") => OutputFormat::Json,
            Some(_) => OutputFormat::StreamJson,
            None => defaults.output_format,
        },
        no_input: flag("noInput").unwrap_or(false),
        verbose: flag("verbose").unwrap_or(false),
        partial_messages: flag("includePartialMessages"),
        cwd: text("cwd"),
        env: environment(map, "env"),
        auth: match text("auth").as_deref() {
            Some("subscription") => Auth::Subscription,
            _ => Auth::Inherit,
        },
        extra_args: texts(map, "extraArgs"),
        system_prompt: match map.get("systemPrompt") {
            Some(Value::String(text)) => SystemPrompt::Custom(text.clone()),
            Some(_) => SystemPrompt::Cli,
            None => SystemPrompt::Default,
        },
        permission_mode: text("permissionMode"),
        built_in_tools: flag("disableBuiltInTools") == Some(false),
        engine,
        keep_alive: Duration::from_millis(number("keepAlive", 300_000)),
        spares: usize::try_from(number("spares", 0)).unwrap_or(usize::MAX),
        sandbox: text("sandbox"),
        ignore_user_config: flag("ignoreUserConfig").unwrap_or(defaults.ignore_user_config),
        auth_type: text("authType"),
        config: match map.get("config") {
            Some(Value::Object(config)) => config.clone(),
            _ => Map::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::claude::CLAUDE;

    fn refusal(json: &str) -> String {
        let error = Options::parse(&CLAUDE, json).unwrap_err();
        assert_eq!(error.code, Code::InvalidOption);
        error.message
    }

    #[test]
    fn defaults_are_the_documents() {
        let options = Options::parse(&CLAUDE, "{}").unwrap();
        assert_eq!(options.timeout, Some(Duration::from_millis(120_000)));
        assert_eq!(options.max_buffer, 10 * 1024 * 1024);
        assert_eq!(options.input_encoding, InputEncoding::Xml);
        assert_eq!(options.prompt_style, PromptStyle::Stdin);
        assert_eq!(options.output_format, OutputFormat::StreamJson);
        assert_eq!(options.system_prompt, SystemPrompt::Default);
        assert!(!options.built_in_tools && !options.no_input && options.idle_timeout.is_none());
    }

    #[test]
    fn an_option_is_named_with_what_was_given_and_what_is_allowed() {
        for (json, expected) in [
            (
                r#"{"timeout":"5"}"#,
                r#"option "timeout" must be a whole number from 0 to 2147483647; given: "5""#,
            ),
            (
                r#"{"timeout":1.5}"#,
                r#"option "timeout" must be a whole number from 0 to 2147483647; given: 1.5"#,
            ),
            (
                r#"{"timeout":{"$given":"NaN"}}"#,
                r#"option "timeout" must be a whole number from 0 to 2147483647; given: NaN"#,
            ),
            (
                r#"{"inputEncoding":"yaml"}"#,
                r#"option "inputEncoding" must be one of "xml", "text"; given: "yaml""#,
            ),
            (
                r#"{"model":"--x"}"#,
                r#"option "model" must be a string that is not empty and does not begin with "-"; given: "--x""#,
            ),
            (
                r#"{"time_out":1}"#,
                r#"unknown option "time_out": did you mean "timeout"?"#,
            ),
            (
                r#"{"env":{"A":1}}"#,
                "option \"env\" must be an object of strings (undefined removes a variable; no \"=\" in names); given: an \
                 object { A: a number }",
            ),
            (r#"[]"#, "options must be an object; given: an array []"),
        ] {
            assert_eq!(refusal(json), expected);
        }
        assert!(
            refusal(r#"{"temperature":1}"#).starts_with(r#"unknown option "temperature"; allowed: model, cliPath, "#)
        );
    }

    #[test]
    fn retry_is_a_policy_whose_fields_are_named() {
        let retry = |json: &str| Options::parse(&CLAUDE, json).unwrap().retry;
        assert_eq!(retry("{}"), Policy::default());
        assert_eq!(retry(r#"{"retry":false}"#), Policy::NEVER);
        let given = Policy {
            own_limits: true,
            ..Policy::default()
        };
        assert_eq!(retry(r#"{"retry":{"jitter":true}}"#), given);
        assert_eq!(
            retry(r#"{"retry":{"maxAttempts":5,"baseDelayMs":1,"maxDelayMs":2,"jitter":false,"maxElapsedMs":0}}"#),
            Policy {
                max_attempts: 5,
                base_delay_ms: 1,
                max_delay_ms: 2,
                jitter: 0.0,
                max_elapsed_ms: u64::MAX,
                own_limits: true,
            }
        );
        for (json, expected) in [
            (
                r#"{"retry":{"maxAttempts":0}}"#,
                r#"option "retry.maxAttempts" must be a whole number from 1 to 100; given: 0"#,
            ),
            (
                r#"{"retry":{"jitter":1.5}}"#,
                r#"option "retry.jitter" must be a number from 0 to 1, true or false; given: 1.5"#,
            ),
            (
                r#"{"retry":{"maxattempts":2}}"#,
                r#"unknown option "retry.maxattempts": did you mean "retry.maxAttempts"?"#,
            ),
            (
                r#"{"retry":true}"#,
                "option \"retry\" must be false, or an object of maxAttempts, baseDelayMs, maxDelayMs, jitter, \
                 maxElapsedMs; given: true",
            ),
        ] {
            assert_eq!(refusal(json), expected);
        }
    }

    #[test]
    fn contradictions_name_both_options() {
        for (json, first, second) in [
            (
                r#"{"includePartialMessages":true,"outputFormat":"json"}"#,
                "includePartialMessages",
                "outputFormat",
            ),
            (r#"{"verbose":false}"#, "verbose", "outputFormat"),
            (
                r#"{"auth":"subscription","env":{"ANTHROPIC_API_KEY":"k"}}"#,
                "auth",
                "env",
            ),
            (r#"{"idleTimeout":2000,"timeout":1000}"#, "idleTimeout", "timeout"),
            (r#"{"engine":"live","promptStyle":"arg"}"#, "promptStyle", "engine"),
            (r#"{"engine":"auto","outputFormat":"text"}"#, "outputFormat", "engine"),
            (r#"{"engine":"live","outputFormat":"json"}"#, "outputFormat", "engine"),
            (r#"{"engine":"live","noInput":true}"#, "noInput", "engine"),
            (r#"{"engine":"print","keepAlive":1}"#, "keepAlive", "engine"),
            (r#"{"spares":1}"#, "spares", "engine"),
        ] {
            let message = refusal(json);
            assert!(
                message.contains(&format!("{first:?}")) && message.contains(&format!("{second:?}")),
                "{message}"
            );
            assert!(!message.contains("\"k\""), "a secret leaked: {message}");
        }
        assert!(Options::parse(&CLAUDE, r#"{"auth":"subscription","env":{"ANTHROPIC_API_KEY":null}}"#).is_ok());
    }

    #[test]
    fn a_live_session_has_limits_of_its_own() {
        let options = Options::parse(
            &CLAUDE,
            r#"{"engine":"live","outputFormat":"stream-json","noInput":false,"spares":2}"#,
        )
        .unwrap();
        assert_eq!(
            (options.engine, options.spares, options.keep_alive, options.idle_timeout),
            (
                EngineKind::Live,
                2,
                Duration::from_secs(300),
                Some(Duration::from_secs(120))
            )
        );
        assert!(Options::parse(&CLAUDE, r#"{"spares":0,"keepAlive":0}"#).is_ok());
    }

    #[test]
    fn env_null_removes_and_order_is_kept() {
        let options = Options::parse(&CLAUDE, r#"{"env":{"B":"1","A":null},"timeout":0,"systemPrompt":null}"#).unwrap();
        assert_eq!(
            options.env,
            [("B".to_owned(), Some("1".to_owned())), ("A".to_owned(), None)]
        );
        assert_eq!((options.timeout, options.system_prompt), (None, SystemPrompt::Cli));
    }
}
