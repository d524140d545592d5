//! Reads the options object of a provider into values, with defaults filled in, and that of `createFallbackProvider`.
//!
//! In: JSON text, or an object whose fields were checked. Out: [`Options`], or the settings of breakers; or one error, which names the
//! option.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    Auth, CacheTtl, EngineKind, InputEncoding, Kind, MAX_MS, OWN_API, OWN_MODEL, OptionSpec, Options, OutputFormat,
    OwnApi, PROMPT_CACHE, PromptStyle, SESSIONS, SessionStore, SystemPrompt, TIMEOUT, TOOL_NAMESPACE, TextToolCalls,
    check, checked, environment, launch, number, texts,
};
use crate::capability::{self, Feature};
use crate::choices::{self, Choices, on_unsupported};
use crate::{Provider, Reading};
use dfp_model::budget::{Budget, Per};
use dfp_model::error::{Code, ProviderError};
use dfp_model::retry::{BreakerSettings, DEFAULT_MAX_WAIT_MS, Policy, QuotaWait};
use dfp_text::redact::Secret;

/// How long a stored reply that nobody uses is kept.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

impl Options {
    /// Reads the options object `json` for `provider`.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
    pub fn parse(provider: &Provider, json: &str) -> Result<Options, Box<ProviderError>> {
        if let Ok(Value::Object(map)) = serde_json::from_str(json)
            && let Some(error) = launch::refusal(provider, &map)
        {
            return Err(error);
        }
        Options::read(provider, &checked(&provider.id, &provider.options(), json)?)
    }

    /// Reads an object of which each field was checked.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming options that contradict each other; `UNSUPPORTED_OPTION` for an option that this provider does not have.
    pub fn read(provider: &Provider, map: &Map<String, Value>) -> Result<Options, Box<ProviderError>> {
        let refuse = |reason| Box::new(ProviderError::new(&provider.id, Code::InvalidOption, reason));
        check_together(provider, map).map_err(refuse)?;
        login_refusal(provider, map).map_or(Ok(()), Err)?;
        let options = read(provider, map);
        choices::check_effort(&options.choices, provider.efforts).map_err(refuse)?;
        // For a CLI that takes no model, it is a name of the CLI's config, and no choice.
        let own = Choices {
            model: None,
            ..options.choices.clone()
        };
        provider.settle(own, options.on_unsupported, options.engine, &options)?;
        Ok(options)
    }
}

/// Refuses options that contradict each other; the reason names both.
fn check_together(provider: &Provider, map: &Map<String, Value>) -> Result<(), String> {
    launch::check_engine(provider, map)?;
    check_login(provider, map)?;
    launch::check_launcher(map)?;
    budget(map)?;
    if provider.session.is_some() && map.contains_key("promptStyle") {
        let reason = "option \"promptStyle\" is for `dialect: \"ax\"`: this CLI gets the thread as a session";
        return Err(reason.to_owned());
    }
    if let Some(Value::Object(own)) = map.get(OWN_API.name)
        && !own.contains_key("baseUrl")
    {
        let reason = "option \"provider.baseUrl\" is missing: it must be the address of a model API, like \"http://127.0.0.1:11434/v1\"";
        return Err(reason.to_owned());
    }
    if let Some(Value::Object(sessions)) = map.get(SESSIONS.name)
        && !sessions.contains_key("store")
    {
        return Err("option \"sessions.store\" is missing: it must be the path of a folder".to_owned());
    }
    // Without a named model, the CLI would take one of the vendor's, and send the thread there.
    if provider.option(OWN_API.name) == Some(OWN_MODEL)
        && let Some(Value::Object(own)) = map.get(OWN_API.name)
        && !own.contains_key("model")
        && !map.contains_key("model")
    {
        let reason = "option \"provider.model\" is missing: it must be the name of a model of that API";
        return Err(reason.to_owned());
    }
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    if let (Some(own), Some(model)) = (&provider.custom, text("model").filter(|model| !model.trim().is_empty())) {
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

/// Checks that a call of `provider` may have the `timeout` `ms`, by the rule of its options.
///
/// # Errors
/// The allowed values.
pub fn check_timeout(provider: &Provider, ms: u64) -> Result<(), String> {
    match provider.option(TIMEOUT.name) {
        Some(spec) => check(&spec, &Value::from(ms)),
        None => Ok(()),
    }
}

/// The retry policy of a checked object.
pub fn retry(map: &Map<String, Value>) -> Policy {
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

/// Reads from a checked object whether a call waits for its used-up plan.
pub fn quota(map: &Map<String, Value>) -> Option<QuotaWait> {
    let fields = map.get("quota")?.as_object()?;
    (fields.get("wait") == Some(&Value::Bool(true))).then(|| QuotaWait {
        max_wait_ms: number(fields, "maxWaitMs").unwrap_or(DEFAULT_MAX_WAIT_MS),
    })
}

/// The budget of a checked object.
///
/// # Errors
/// The missing member, or the name that no file can have.
pub fn budget(map: &Map<String, Value>) -> Result<Option<Budget>, String> {
    let Some(Value::Object(fields)) = map.get("budget") else {
        return Ok(None);
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let plan = fields.get("plan").and_then(Value::as_f64);
    let counts = ["requests", "tokens", "costUsd", "store"];
    let is_of_plan_alone = plan.is_some() && counts.iter().all(|name| !fields.contains_key(*name));
    // A plan has its own windows.
    let per = text("per")
        .and_then(Per::named)
        .or(is_of_plan_alone.then_some(Per::Day));
    let per = per.ok_or_else(|| {
        let names = Per::NAMES.map(|name| format!("\"{name}\""));
        format!(
            "option \"budget.per\" is missing: it must be one of {}",
            names.join(", ")
        )
    })?;
    let budget = Budget {
        requests: number(fields, "requests"),
        tokens: number(fields, "tokens"),
        cost_usd: fields.get("costUsd").and_then(Value::as_f64),
        plan,
        per,
        store: text("store").map(str::to_owned),
    };
    match (budget.requests, budget.tokens, budget.cost_usd, budget.plan) {
        (None, None, None, None) => Err(
            "option \"budget\" limits nothing: it must have at least one of \"requests\", \"tokens\", \"costUsd\", \"plan\""
                .to_owned(),
        ),
        _ => Ok(Some(budget)),
    }
}

/// Returns whether the user's options let the model read texts that stand in no thread: by the CLI's own tools, by servers, or in a
/// session of the user's.
fn reads_by_itself(provider: &Provider, map: &Map<String, Value>) -> bool {
    let Reading {
        flags,
        settings,
        config,
    } = provider.checks.reading;
    let is_reading = |arg: &String| {
        let name = arg.split_once('=').map_or(arg.as_str(), |(name, _)| name);
        // `-c key=value`, `-ckey=value`, `--config=key=value`.
        let setting = arg.strip_prefix("--config=").or_else(|| arg.strip_prefix("-c"));
        let setting = setting.unwrap_or(arg);
        flags.contains(&name) || settings.iter().any(|begins| setting.starts_with(begins))
    };
    let is_off = |name: &str| map.get(name) == Some(&Value::Bool(false));
    let configured = map.get("config").and_then(Value::as_object);
    provider.is_agent()
        || is_off("disableBuiltInTools")
        || map.get(choices::WEB_SEARCH.name) == Some(&Value::Bool(true))
        || (provider.defaults.ignore_user_config && is_off("ignoreUserConfig"))
        || configured.is_some_and(|own| config.iter().any(|key| own.contains_key(*key)))
        || texts(map, "extraArgs").iter().any(is_reading)
}

/// The checked object as values, defaults filled in.
fn read(provider: &Provider, map: &Map<String, Value>) -> Options {
    let defaults = provider.defaults;
    let own_model = || provider.custom.as_ref().and_then(|own| own.default_model.clone());
    let choices = Choices::read(map, provider.off_effort);
    let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
    let flag = |name: &str| map.get(name).and_then(Value::as_bool);
    let own_api = map.get(OWN_API.name).and_then(Value::as_object);
    let of_api = |name: &str| {
        let word = own_api?.get(name)?.as_str()?;
        (!word.trim().is_empty()).then(|| word.to_owned())
    };
    let number = |name: &str, default: u64| number(map, name).unwrap_or(default);
    let limit = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
    let (engine, print_because) = launch::engine(provider, map);
    // The option of this name of another CLI (codex) has nothing to do with its wire format.
    let format = text("outputFormat").filter(|_| provider.option("outputFormat") == Some(super::OUTPUT_FORMAT));
    let output_format = match format.as_deref() {
        Some("text") => OutputFormat::Text,
        Some("json") => OutputFormat::Json,
        Some(_) => OutputFormat::StreamJson,
        None => defaults.output_format,
    };
    Options {
        choices: Choices {
            model: choices.model.or_else(own_model).or_else(|| of_api("model")),
            ..choices
        },
        on_unsupported: on_unsupported(map),
        cli_path: text("cliPath"),
        searches_everywhere: text("cliSearch").as_deref() != Some("path"),
        launch: launch::read(map),
        timeout: limit(number("timeout", defaults.timeout_ms)),
        idle_timeout: limit(number("idleTimeout", 0)),
        // A live session that is stuck would be stuck for every call to come.
        live_idle_timeout: limit(number(
            "idleTimeout",
            // A CLI that works with tools of its own may be silent for longer.
            if provider.is_agent() { 0 } else { 120_000 },
        )),
        kill_grace: Duration::from_millis(number("killGrace", 2_000)),
        max_buffer: usize::try_from(number("maxBuffer", 10 * 1024 * 1024)).unwrap_or(usize::MAX),
        max_concurrency: usize::try_from(number("maxConcurrency", 4)).unwrap_or(usize::MAX),
        max_retries: number("maxRetries", 0),
        retry: retry(map),
        quota: quota(map),
        budget: budget(map).ok().flatten(),
        login: map
            .get("login")
            .and_then(|login| login.get("configDir")?.as_str())
            .map(str::to_owned),
        input_encoding: match text("inputEncoding").as_deref() {
            Some("text") => InputEncoding::Text,
            _ => InputEncoding::Xml,
        },
        thread_documents: text("threadDocuments").as_deref() != Some("escape"),
        text_tool_calls: match text("textToolCalls").as_deref() {
            Some("lenient") => TextToolCalls::Lenient,
            Some("off") => TextToolCalls::Off,
            Some("marked") => TextToolCalls::Marked,
            Some(_) => TextToolCalls::Unquoted,
            // The texts that the model has read are unknown here, so a quotation of them can't be distinguished from a call.
            None if reads_by_itself(provider, map) => TextToolCalls::Marked,
            None => TextToolCalls::Unquoted,
        },
        prompt_style: match text("promptStyle").as_deref() {
            Some("arg") => PromptStyle::Arg,
            Some("flag") => PromptStyle::Flag,
            Some(_) => PromptStyle::Stdin,
            None => defaults.prompt_style,
        },
        output_format,
        no_input: flag("noInput").unwrap_or(false),
        // The bare `json` has only the last part of an answer in several parts.
        verbose: flag("verbose").unwrap_or(output_format == OutputFormat::Json),
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
        print_because,
        // By default no process waits.
        keep_alive: Duration::from_millis(number(
            "keepAlive",
            if engine == EngineKind::Auto { 60_000 } else { 300_000 },
        )),
        // At 200 MB each, these take a quarter of 16 GB, beside those that work.
        max_processes: usize::try_from(number("maxProcesses", 20)).unwrap_or(usize::MAX),
        spares: usize::try_from(number("spares", 0)).unwrap_or(usize::MAX),
        sessions: map.get(SESSIONS.name).and_then(Value::as_object).and_then(|fields| {
            Some(SessionStore {
                store: fields.get("store")?.as_str()?.to_owned(),
                max_age: fields
                    .get("maxAge")
                    .and_then(Value::as_u64)
                    .map_or(WEEK, Duration::from_millis),
            })
        }),
        cache_ttl: map
            .get(PROMPT_CACHE.name)
            .and_then(|cache| CacheTtl::read(cache.get("ttl")?.as_str()?)),
        tool_namespace: text("toolForm").as_deref() == Some(TOOL_NAMESPACE),
        sandbox: text("sandbox"),
        ignore_user_config: flag("ignoreUserConfig").unwrap_or(defaults.ignore_user_config),
        auth_type: text("authType"),
        own_api: own_api.map(|_| OwnApi {
            kind: of_api("type").unwrap_or_else(|| "openai".to_owned()),
            base_url: of_api("baseUrl").unwrap_or_default(),
            api_key: of_api("apiKey").map(Secret::new),
            wire_api: of_api("wireApi").unwrap_or_else(|| "completions".to_owned()),
        }),
        config: match map.get("config") {
            Some(Value::Object(config)) => config.clone(),
            _ => Map::new(),
        },
        callbacks: None,
        output_schema: None,
        workspace: None,
    }
}

/// The id of the fallback provider itself.
const FALLBACK: &str = "fallback";

const FALLBACK_OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "fallbackOnRateLimit",
        kind: Kind::Flag,
    },
    OptionSpec {
        name: "breaker",
        kind: Kind::FalseOr(&[
            OptionSpec {
                name: "failureThreshold",
                kind: Kind::Whole(1, 1_000),
            },
            OptionSpec {
                name: "windowMs",
                kind: Kind::Ms(1, MAX_MS),
            },
            OptionSpec {
                name: "resetMs",
                kind: Kind::Ms(1, MAX_MS),
            },
        ]),
    },
];

/// The settings of the breakers; `None` for no breakers.
///
/// # Errors
/// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
pub fn breaker_settings(options_json: &str) -> Result<Option<BreakerSettings>, Box<ProviderError>> {
    let fields = checked(FALLBACK, FALLBACK_OPTIONS, options_json)?;
    let default = BreakerSettings::default();
    Ok(match fields.get("breaker") {
        None => Some(default),
        Some(Value::Object(breaker)) => {
            let number = |name: &str, default: u64| super::number(breaker, name).unwrap_or(default);
            Some(BreakerSettings {
                failure_threshold: u32::try_from(number("failureThreshold", u64::from(default.failure_threshold)))
                    .unwrap_or(u32::MAX),
                window_ms: number("windowMs", default.window_ms),
                reset_ms: number("resetMs", default.reset_ms),
            })
        }
        Some(_) => None,
    })
}

/// The error of the option `login` for a CLI that has no such variable.
fn login_refusal(provider: &Provider, map: &Map<String, Value>) -> Option<Box<ProviderError>> {
    let is_refused = map.contains_key("login") && provider.login_dir.is_none();
    let hint = "leave it out, use a provider that can, or set the variable that the CLI itself has for it in `env`";
    let error = || {
        let reason = capability::refusal(Feature::Login, &provider.id, None);
        Box::new(ProviderError::new(&provider.id, Code::UnsupportedOption, reason).with_hint(hint))
    };
    is_refused.then(error)
}

/// Checks that the option `login` names a folder, that the CLI has a variable for it, and that `env` does not set that as well.
fn check_login(provider: &Provider, map: &Map<String, Value>) -> Result<(), String> {
    let Some(Value::Object(login)) = map.get("login") else {
        return Ok(());
    };
    let Some(folder) = login.get("configDir").and_then(Value::as_str) else {
        let reason = "option \"login.configDir\" is missing: it must be the folder in which the login's files are";
        return Err(reason.to_owned());
    };
    let Some(own) = provider.login_dir else { return Ok(()) };
    let same = |name: &str| match cfg!(windows) {
        true => name.eq_ignore_ascii_case(own.variable),
        false => name == own.variable,
    };
    match environment(map, "env")
        .iter()
        .any(|(name, value)| same(name) && value.is_some())
    {
        true => Err(format!(
            "options \"login\" and \"env\" contradict each other: both say what {} is; given: login.configDir: {folder:?}",
            own.variable
        )),
        false => Ok(()),
    }
}
