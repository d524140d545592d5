//! Providers that their user describes as data: a CLI (CLI-ADAPTER-PROTOCOL, "Adding New Providers"), or an agent that speaks the Agent
//! Client Protocol.
//!
//! In: the JSON of a `CliProviderConfig`. Out: a [`Provider`] whose command line is `defaultArgs`, then `modelArgs`, then the
//! prompt, read by the document's formats; or one error that names the field, what it holds and what is allowed. What only such a CLI
//! has is in its [`CustomCli`].
//!
//! In: the JSON of an agent's config, which says how it is started. Out: a [`Provider`] whose process serves sessions that are kept, or
//! one for each call. The agent's instructions and its tools stay its own.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::capability::{ByEngine, Capabilities, NATIVE, UNSUPPORTED};
use super::errors::{UserRule, UserRuleError};
use super::models::ListedModel;
use super::options::{self, EngineKind, Kind, OptionSpec, OutputFormat, PromptStyle};
use super::{
    About, Announced, Checks, Defaults, EngineCheck, EnvValue, Flag, LiveForm, Provider, ToolNaming, Var, Versions,
    WarmForm, When, Word, flag, var,
};
use dfp_model::error::{Category, Code, ProviderError, clip};
use dfp_text::decode::Wire;

const fn field(name: &'static str, kind: Kind) -> OptionSpec {
    OptionSpec { name, kind }
}

/// The document's fields that must be there.
const REQUIRED: &[OptionSpec] = &[
    field("providerId", Kind::Text),
    field("command", Kind::Text),
    field("defaultArgs", Kind::TextList),
    field("outputFormat", Kind::OneOf(&["text", "json", "stream-json"])),
    field("promptStyle", Kind::OneOf(&["stdin", "arg"])),
    field("maxTokens", Kind::Whole(1, 1 << 53)),
    options::TIMEOUT,
];

/// The optional fields: the document's, and this package's additions.
const OPTIONAL: &[OptionSpec] = &[
    field("models", Kind::List),
    field("defaultModel", Kind::Model),
    options::ENV,
    field("errorRules", Kind::List),
    field("versionArgs", Kind::TextList),
    field("modelArgs", Kind::TextList),
];

/// The provider that `json` describes.
///
/// # Errors
/// `INVALID_CONFIG`, naming the field, what it holds and what is allowed.
pub fn provider(json: &str) -> Result<Provider, Box<ProviderError>> {
    let value: Value = serde_json::from_str(json).unwrap_or(Value::Null);
    let id = value.get("providerId").and_then(Value::as_str).unwrap_or_default();
    read(&value).map_err(|reason| {
        let error = ProviderError::new(id, Code::InvalidConfig, reason);
        Box::new(error.with_hint("correct the config"))
    })
}

fn read(value: &Value) -> Result<Provider, String> {
    // A value that JSON can't express stands there as `$notJson`, marked by the façade.
    let Some(map) = value.as_object().filter(|map| !map.contains_key("$notJson")) else {
        return Err(format!("config must be an object; given: {}", options::describe(value)));
    };
    check_fields(map)?;
    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default();
    let id = text("providerId");
    if !is_id(id) {
        return Err(wrong(
            "providerId",
            "at most 64 letters, digits and \"-\", \"_\", \".\"",
            &map["providerId"],
        ));
    }
    let models = models(map)?;
    let default_model = Some(text("defaultModel").to_owned()).filter(|model| !model.trim().is_empty());
    if !models.is_empty() && !default_model.as_ref().is_some_and(|model| models.contains(model)) {
        let allowed = format!(
            "the modelId of one of config.models ({})",
            clip(&models.join(", "), 120)
        );
        return Err(match map.get("defaultModel") {
            Some(model) => wrong("defaultModel", &allowed, model),
            None => format!("config.defaultModel is missing: it must be {allowed}"),
        });
    }
    let custom = CustomCli {
        default_args: options::texts(map, "defaultArgs"),
        model_args: options::texts(map, "modelArgs"),
        models,
        default_model,
        max_tokens: options::number(map, "maxTokens").unwrap_or_default(),
        env: options::environment(map, "env"),
        error_rules: error_rules(map)?,
        version_args: match map.contains_key("versionArgs") {
            true => options::texts(map, "versionArgs"),
            false => vec!["--version".to_owned()],
        },
        is_agent: false,
    };
    let mut capabilities = CAPABILITIES;
    if custom.model_args.is_empty() {
        capabilities.print.model = UNSUPPORTED;
    }
    let defaults = Defaults {
        prompt_style: match text("promptStyle") {
            "arg" => PromptStyle::Arg,
            _ => PromptStyle::Stdin,
        },
        output_format: match text("outputFormat") {
            "text" => OutputFormat::Text,
            "json" => OutputFormat::Json,
            _ => OutputFormat::StreamJson,
        },
        timeout_ms: options::number(map, "timeout").unwrap_or(Defaults::STANDARD.timeout_ms),
        ..Defaults::STANDARD
    };
    Ok(Provider {
        id: Cow::Owned(id.to_owned()),
        command: Cow::Owned(text("command").to_owned()),
        defaults,
        capabilities,
        custom: Some(Box::new(custom)),
        ..FORM.clone()
    })
}

fn check_fields(map: &Map<String, Value>) -> Result<(), String> {
    let known = || REQUIRED.iter().chain(OPTIONAL);
    for spec in known() {
        match map.get(spec.name) {
            Some(value) => options::check(spec, value).map_err(|allowed| wrong(spec.name, &allowed, value))?,
            None if REQUIRED.contains(spec) => {
                return Err(format!(
                    "config.{} is missing: it must be {}",
                    spec.name,
                    options::allowed(spec.kind)
                ));
            }
            None => {}
        }
    }
    match map.keys().find(|name| !known().any(|spec| spec.name == *name)) {
        Some(name) => {
            let names: Vec<&str> = known().map(|spec| spec.name).collect();
            Err(format!(
                "unknown field config.{}; allowed: {}",
                clip(name, 60),
                names.join(", ")
            ))
        }
        None => Ok(()),
    }
}

/// Returns whether a provider may have the id `id`.
fn is_id(id: &str) -> bool {
    let of_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    id.len() <= 64 && id.chars().all(of_id)
}

fn wrong(field: &str, allowed: &str, value: &Value) -> String {
    format!("config.{field} must be {allowed}; given: {}", options::describe(value))
}

/// Reads `[{modelId, name}]`, and returns the ids.
fn models(map: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut ids: Vec<String> = Vec::new();
    for (index, model) in list(map, "models").iter().enumerate() {
        let at = |name: &str| format!("models[{index}].{name}");
        let Value::Object(model) = model else {
            return Err(wrong(&format!("models[{index}]"), "an object { modelId, name }", model));
        };
        for (name, kind) in [("modelId", Kind::ArgText), ("name", Kind::Text)] {
            let value = model.get(name).unwrap_or(&Value::Null);
            options::check(&field(name, kind), value).map_err(|allowed| wrong(&at(name), &allowed, value))?;
        }
        let id = model["modelId"].as_str().unwrap_or_default();
        if ids.iter().any(|known| known == id) {
            return Err(wrong(&at("modelId"), "a modelId that is there once", &model["modelId"]));
        }
        ids.push(id.to_owned());
    }
    Ok(ids)
}

/// Reads `[{pattern, code | category, hint?}]`.
fn error_rules(map: &Map<String, Value>) -> Result<Vec<UserRule>, String> {
    let rules = list(map, "errorRules").iter().enumerate();
    rules.map(|(index, rule)| error_rule(index, rule)).collect()
}

fn error_rule(index: usize, rule: &Value) -> Result<UserRule, String> {
    let at = |name: &str| format!("errorRules[{index}].{name}");
    let Value::Object(fields) = rule else {
        let allowed = "an object { pattern, code or category, hint? }";
        return Err(wrong(&format!("errorRules[{index}]"), allowed, rule));
    };
    if let Some(name) = fields
        .keys()
        .find(|name| !["pattern", "code", "category", "hint"].contains(&name.as_str()))
    {
        return Err(format!(
            "unknown field config.{}; allowed: pattern, code, category, hint",
            clip(&at(name), 80)
        ));
    }
    let text = |name: &str| match fields.get(name) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.as_str())),
        Some(other) => Err(wrong(&at(name), "a string that is not empty", other)),
    };
    let Some(pattern) = text("pattern")? else {
        return Err(format!(
            "config.{} is missing: it must be a regular expression",
            at("pattern")
        ));
    };
    let code = match (text("code")?, text("category")?) {
        (Some(code), None) => code,
        (None, Some(category)) => code_of(category)
            .ok_or_else(|| {
                let allowed = Category::ALL.map(Category::as_str).join(", ");
                wrong(&at("category"), &format!("one of {allowed}"), &fields["category"])
            })?
            .as_str(),
        _ => {
            return Err(format!(
                "config.errorRules[{index}] must have either a code or a category"
            ));
        }
    };
    UserRule::new(pattern, code, text("hint")?.map(str::to_owned)).map_err(|error| match error {
        UserRuleError::Pattern { why, .. } => format!(
            "{}: {}",
            wrong(&at("pattern"), "a regular expression", &fields["pattern"]),
            clip(why.lines().last().unwrap_or_default().trim(), 120)
        ),
        UserRuleError::Code { .. } => {
            let allowed = "an error code (docs/reference/errors.md), like \"RATE_LIMITED\"";
            wrong(&at("code"), allowed, &fields["code"])
        }
    })
}

/// The code that means no more than its category.
fn code_of(category: &str) -> Option<Code> {
    let category = Category::ALL.into_iter().find(|known| known.as_str() == category)?;
    Some(match category {
        Category::Quota => Code::QuotaExceeded,
        Category::RateLimit => Code::RateLimited,
        Category::Authentication => Code::AuthenticationFailed,
        Category::Validation => Code::InvalidRequest,
        Category::Network => Code::ConnectionFailed,
        Category::Server => Code::ServerError,
        Category::Timeout => Code::RequestTimeout,
        Category::NotFound => Code::NotFound,
        Category::Configuration => Code::InvalidConfig,
        Category::Unknown => Code::Unknown,
    })
}

fn list<'a>(map: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    map.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The capabilities of a CLI of the user's own.
pub const CAPABILITIES: ByEngine = ByEngine::print_only(Capabilities {
    model: NATIVE.but("where the config has `modelArgs`"),
    ..Capabilities::LEAST
});

/// The data that all CLIs of users share.
static FORM: Provider = Provider {
    id: Cow::Borrowed("custom"),
    command: Cow::Borrowed(""),
    about: About {
        name: "",
        versions: &[],
        sent: "what the CLI adds by itself",
        not_isolated: "the CLI's own configuration and tools (it runs in an empty folder)",
        limits: "those of the CLI",
    },
    flags: &[
        flag(&[], &[Word::DefaultArgs]),
        flag(&[When::Model], &[Word::ModelArgs]),
        flag(&[When::PromptArg], &[Word::Prompt]),
    ],
    wires: &[
        (OutputFormat::StreamJson, Wire::GenericStream),
        (OutputFormat::Json, Wire::GenericJson),
        (OutputFormat::Text, Wire::Text),
    ],
    system_prompt: "",
    capabilities: CAPABILITIES,
    ..Provider::BASE
};

/// The data of a CLI of the user's own that others don't have.
#[derive(Debug, Clone, Default)]
pub struct CustomCli {
    /// `defaultArgs`: the arguments that it always gets.
    pub default_args: Vec<String>,
    /// `modelArgs`: the arguments that name the model; none where it is not named.
    model_args: Vec<String>,
    /// `models`: their ids; an empty list allows any.
    models: Vec<String>,
    /// `defaultModel`; without one no model is named to the CLI, unless the option `model` names it.
    pub default_model: Option<String>,
    /// `maxTokens`: the longest answer, for callers that choose between providers; it is not sent to any CLI.
    pub max_tokens: u64,
    /// `env`, in the caller's order; `None` removes.
    pub env: Vec<(String, Option<String>)>,
    /// `errorRules`.
    pub error_rules: Vec<UserRule>,
    /// `versionArgs`: the arguments with which it prints its version.
    pub version_args: Vec<String>,
    /// True if it speaks only the Agent Client Protocol, as an agent that answers.
    pub is_agent: bool,
}

impl CustomCli {
    /// Makes an agent that is started with `args`.
    pub fn agent(args: Vec<String>) -> CustomCli {
        CustomCli {
            default_args: args,
            is_agent: true,
            ..CustomCli::default()
        }
    }

    /// The arguments `modelArgs` for `model`: every `{model}` in them is replaced; without one, the model comes behind them.
    pub fn model_args(&self, model: &str) -> Vec<String> {
        let mut args: Vec<String> = self.model_args.iter().map(|arg| arg.replace(PLACE, model)).collect();
        if !args.is_empty() && args == self.model_args {
            args.push(model.to_owned());
        }
        args
    }

    /// The models of the config; none if it names none.
    pub fn listed(&self) -> Vec<ListedModel> {
        let listed = self.models.iter().map(|id| ListedModel {
            id: id.clone(),
            is_default: self.default_model.as_ref() == Some(id),
            ..ListedModel::default()
        });
        listed.collect()
    }

    /// Checks that `model` is one of `models`.
    ///
    /// # Errors
    /// The allowed values.
    pub fn check_model(&self, model: &str) -> Result<(), String> {
        if self.models.is_empty() || self.models.iter().any(|known| known == model) {
            return Ok(());
        }
        let allowed = self.models.join(", ");
        Err(format!(
            "option \"model\" must be one of the config's models ({}); given: \"{}\"",
            clip(&allowed, 120),
            clip(model, 60)
        ))
    }
}

/// The placeholder of the model in `modelArgs`.
const PLACE: &str = "{model}";

/// The fields with which a config says how the agent is started.
const AGENT_FIELDS: &[OptionSpec] = &[
    field("command", Kind::Text),
    field("args", Kind::TextList),
    field("name", Kind::Text),
];

/// The agent that `json` describes.
///
/// # Errors
/// `INVALID_CONFIG`, naming the field, what it holds and what is allowed.
pub fn agent(json: &str) -> Result<Provider, Box<ProviderError>> {
    let value: Value = serde_json::from_str(json).unwrap_or(Value::Null);
    read_agent(&value).map_err(|reason| {
        let error = ProviderError::new("acp", Code::InvalidConfig, reason);
        Box::new(error.with_hint("correct what starts the agent"))
    })
}

fn read_agent(value: &Value) -> Result<Provider, String> {
    let Some(map) = value.as_object().filter(|map| !map.contains_key("$notJson")) else {
        return Err(format!("config must be an object; given: {}", options::describe(value)));
    };
    if let Some(name) = map
        .keys()
        .find(|name| !AGENT_FIELDS.iter().any(|spec| spec.name == *name))
    {
        return Err(format!("unknown field config.{}", clip(name, 60)));
    }
    for spec in AGENT_FIELDS {
        if let Some(value) = map.get(spec.name) {
            options::check(spec, value).map_err(|allowed| wrong(spec.name, &allowed, value))?;
        }
    }
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let Some(command) = text("command") else {
        return Err("config.command is missing: it must be the program that is the agent".to_owned());
    };
    let id = text("name").unwrap_or("acp");
    if !is_id(id) {
        let allowed = "at most 64 letters, digits and \"-\", \"_\", \".\"";
        return Err(wrong("name", allowed, &Value::from(id)));
    }
    Ok(Provider {
        id: Cow::Owned(id.to_owned()),
        command: Cow::Owned(command.to_owned()),
        defaults: Defaults {
            engine: EngineKind::Auto,
            ..Defaults::STANDARD
        },
        flags: AGENT_FLAGS,
        env: AGENT_ENV,
        own_options: &[options::KEEP_ALIVE],
        live: Some(LiveForm {
            folder: "acp",
            takes_schema: false,
            may_have_tools: false,
            has_turns_in_print: false,
            always_gets: None,
        }),
        warm: Some(WarmForm::ANY),
        capabilities: AGENT_CAPABILITIES,
        checks: Checks {
            version: &[],
            live: Some(AGENT_CHECK),
            warm: Some(AGENT_CHECK),
            ..Checks::VERSION_ONLY
        },
        off_effort: Some(EFFORT_OFF),
        custom: Some(Box::new(CustomCli::agent(options::texts(map, "args")))),
        ..FORM.clone()
    })
}

/// The known facts of an agent, found by the name that it gives itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownAgent {
    /// The field of its messages by which a call's tool is recognised, if it does not name the tool.
    pub naming: ToolNaming,
    /// The part of a tool's result that its model gets, bytes; the rest stays in a file of the agent's own.
    pub most_of_result: Option<usize>,
}

impl KnownAgent {
    const fn naming(naming: ToolNaming) -> KnownAgent {
        KnownAgent {
            naming,
            most_of_result: None,
        }
    }
}

/// The agents whose facts were measured: gemini 0.61.0, opencode 1.18.34, kimi 2.1.0.
const KNOWN: &[(&str, KnownAgent)] = &[
    ("gemini-cli", KnownAgent::naming(ToolNaming::Id)),
    (
        "OpenCode",
        KnownAgent {
            naming: ToolNaming::FirstTitle,
            most_of_result: Some(50 * 1024),
        },
    ),
    ("Kimi Code CLI", KnownAgent::naming(ToolNaming::FirstTitle)),
];

/// The known facts of the agent that calls itself `agent`; the defaults for an unknown one.
pub fn known_agent(agent: &str) -> KnownAgent {
    let known = KNOWN.iter().find(|(name, _)| *name == agent);
    known.map(|(_, known)| *known).unwrap_or_default()
}

/// The level of reasoning of an agent's that means none (kimi 2.1.0); others call it [`EFFORT_NONE`].
pub const EFFORT_OFF: &str = "off";
/// See [`EFFORT_OFF`] (opencode 1.18.34).
pub const EFFORT_NONE: &str = "none";

/// The arguments with which its config says that it is started.
const AGENT_FLAGS: &[Flag] = &[flag(&[], &[Word::DefaultArgs])];

/// A private folder for temporary files, since some agents leave theirs (opencode 1.18.34).
const AGENT_ENV: &[Var] = &[var("TMPDIR", EnvValue::Folder("tmp"))];

/// The capabilities that every agent has.
pub const AGENT_CAPABILITIES: ByEngine = ByEngine {
    print: OF_EACH,
    live: Some(OF_EACH),
};

const OFFERED: &str = "where the agent offers it to its sessions";

const OF_EACH: Capabilities = Capabilities {
    model: NATIVE.but(OFFERED),
    reasoning_effort: NATIVE.but(OFFERED),
    reasoning_off: NATIVE.but("where the agent offers it to its sessions, as `off` or `none`"),
    reasoning_out: NATIVE.but("where the agent tells it"),
    ..Capabilities::LEAST
};

/// The check of an agent, which accepts any file: only the handshake tells what it serves.
const AGENT_CHECK: EngineCheck = EngineCheck {
    package: "",
    version_folders: &[],
    program: "",
    versions: Versions::Since([0, 0, 0]),
    print_flags: &[],
    print_env: &[],
    announces: Announced::Versions,
    measured_only: false,
};

#[cfg(test)]
mod tests;
