//! The setup of a codex thread, its settings and its tools: nothing of codex's own, and as little as possible of the user's beyond login,
//! provider and model.
//!
//! The [`CodexSetup`] is fixed when the thread begins: the system prompt, the tools, and the model; and the choices of a turn, which are its
//! level of reasoning and the schema of its answer.
//!
//! In: the server's answer on the user's configuration ([`UserConfig`]). Out: the settings of `thread/start`. Each one removes
//! something that CODEX-LIVE §3.1 has measured. Settings that act at a process's start are flags (`provider/codex`).
//!
//! The caller's tools are codex's [`DynamicTool`]s. codex rewrites schemas and drops much of them (CODEX-LIVE §2.3), so dropped
//! parts go into the description, and parts that it would refuse or change are written another way ([`dynamic`]). The caller still has to
//! validate the arguments.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::wire::DynamicTool;
use crate::live::setup::ServerSetup;
use dfp_model::message::ToolSpec;
use dfp_provider::declare::{Declared, MAX_NAME, Tools};
use dfp_provider::options::OUR_NAMESPACE;

/// Our entry for the vendor's API, for users without a provider of their own: retries of the built-in one can't be set
/// (CODEX-LIVE pitfall 12). codex itself chooses the address, by the login.
const PROVIDER: &str = "df";

/// The settings that are the same for every thread.
const THREAD: &[(&str, Fixed)] = &[
    ("developer_instructions", Fixed::Text("")),
    // A small limit of the user's would make each longer thread a summary, by another request.
    ("model_auto_compact_token_limit", Fixed::Unlimited),
    ("notify", Fixed::NoList),
    ("project_doc_max_bytes", Fixed::Zero),
    ("include_environment_context", Fixed::Off),
    ("include_permissions_instructions", Fixed::Off),
    ("include_apps_instructions", Fixed::Off),
    ("include_collaboration_mode_instructions", Fixed::Off),
    ("skills.include_instructions", Fixed::Off),
    ("tools.experimental_request_user_input.enabled", Fixed::Off),
    ("tools.update_plan.enabled", Fixed::Off),
    ("agents.enabled", Fixed::Off),
    ("orchestrator.skills.enabled", Fixed::Off),
    ("orchestrator.mcp.enabled", Fixed::Off),
    ("features.shell_tool", Fixed::Off),
    ("features.unified_exec", Fixed::Off),
    ("features.multi_agent", Fixed::Off),
    ("features.multi_agent_v2", Fixed::Off),
    ("features.goals", Fixed::Off),
    ("features.view_image", Fixed::Off),
    ("features.hooks", Fixed::Off),
    ("features.memories", Fixed::Off),
    ("features.image_generation", Fixed::Off),
    ("features.tool_suggest", Fixed::Off),
    ("features.sleep_tool", Fixed::Off),
    ("features.skill_search", Fixed::Off),
    ("features.browser_use", Fixed::Off),
    ("features.computer_use", Fixed::Off),
    ("features.code_mode_host", Fixed::Off),
    ("features.enable_request_compression", Fixed::Off),
    // Off by default; each adds a tool or a text if the user's `[features]` turn it on (0.169.0).
    ("features.code_mode_only", Fixed::Off),
    ("features.current_time_reminder", Fixed::Off),
    ("features.deferred_executor", Fixed::Off),
    ("features.executor_capability_discovery_v2", Fixed::Off),
    ("features.request_permissions_tool", Fixed::Off),
    ("features.rollout_budget", Fixed::Off),
    ("features.send_message_to_user_async", Fixed::Off),
    ("features.token_budget", Fixed::Off),
];

/// A value that is always the same.
#[derive(Debug, Clone, Copy)]
enum Fixed {
    Off,
    Zero,
    /// A number that no thread reaches.
    Unlimited,
    NoList,
    Text(&'static str),
}

impl Fixed {
    fn value(self) -> Value {
        match self {
            Fixed::Off => json!(false),
            Fixed::Zero => json!(0),
            Fixed::Unlimited => json!(9_007_199_254_740_991_u64),
            Fixed::NoList => json!([]),
            Fixed::Text(text) => json!(text),
        }
    }
}

/// The user's configuration, from the server's answer to `config/read`. The answer holds keys: it is neither kept whole nor
/// passed on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// The model, if one is set.
    pub model: Option<String>,
    /// The level of reasoning, if one is set.
    pub effort: Option<String>,
    /// The service tier, if one is set.
    pub service_tier: Option<String>,
    /// The model provider, if one is set.
    provider: Option<String>,
    /// The providers that the user has described.
    providers: Vec<String>,
    /// Another address of the vendor's API.
    base_url: Option<String>,
    /// The user's MCP servers.
    servers: Vec<String>,
    /// True if the login is where only the real home leads to: in a key ring.
    pub keyring: bool,
}

#[derive(Deserialize)]
struct ConfigAnswer {
    config: Config,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    model: Option<String>,
    model_reasoning_effort: Option<String>,
    service_tier: Option<String>,
    model_provider: Option<String>,
    model_providers: Option<Map<String, Value>>,
    openai_base_url: Option<String>,
    mcp_servers: Option<Map<String, Value>>,
    cli_auth_credentials_store: Option<String>,
}

impl UserConfig {
    /// Reads the answer to `config/read`; an answer that can't be read counts as empty.
    pub fn read(answer: &str) -> UserConfig {
        let config = serde_json::from_str::<ConfigAnswer>(answer).map(|answer| answer.config);
        let config = config.unwrap_or_default();
        let names = |map: Option<Map<String, Value>>| map.into_iter().flatten().map(|(name, _)| name).collect();
        UserConfig {
            model: config.model,
            effort: config.model_reasoning_effort,
            service_tier: config.service_tier,
            provider: config.model_provider,
            providers: names(config.model_providers),
            base_url: config.openai_base_url,
            servers: names(config.mcp_servers),
            keyring: matches!(config.cli_auth_credentials_store.as_deref(), Some("keyring" | "auto")),
        }
    }

    /// Returns whether the vendor's own API is asked.
    fn is_vendors(&self) -> bool {
        matches!(self.provider.as_deref(), None | Some("openai"))
    }

    /// The model provider of threads, if it is our entry.
    pub fn thread_provider(&self) -> Option<&'static str> {
        self.is_vendors().then_some(PROVIDER)
    }

    /// The name of the model provider of threads.
    pub fn provider_name(&self) -> &str {
        self.thread_provider().or(self.provider.as_deref()).unwrap_or_default()
    }

    /// The settings of a thread whose stream may be silent for `silence`. Tools are functions, or in a namespace that codex never
    /// hides; the model may search the web if the thread `searches_web`.
    pub fn thread_settings(
        &self,
        silence: Duration,
        namespace: Option<&str>,
        searches_web: bool,
    ) -> Map<String, Value> {
        let fixed = THREAD.iter().map(|(name, value)| ((*name).to_owned(), value.value()));
        let mut settings: Map<String, Value> = fixed.collect();
        let web_search = if searches_web { "live" } else { "disabled" };
        settings.insert("web_search".to_owned(), json!(web_search));
        for server in &self.servers {
            settings.insert(format!("mcp_servers.{}.enabled", key(server)), json!(false));
        }
        let own = self.provider.as_deref().unwrap_or_default();
        let silence = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX);
        if self.is_vendors() {
            settings.insert(format!("model_providers.{PROVIDER}"), self.vendors_entry(silence));
        } else if self.providers.iter().any(|known| known == own) {
            // Retries are made by the caller of this engine, in a new thread.
            let entry = format!("model_providers.{}", key(own));
            settings.insert(format!("{entry}.request_max_retries"), json!(0));
            settings.insert(format!("{entry}.stream_max_retries"), json!(0));
            settings.insert(format!("{entry}.stream_idle_timeout_ms"), json!(silence));
        }
        match namespace {
            Some(namespace) => settings.insert(
                "features.code_mode.direct_only_tool_namespaces".to_owned(),
                json!([namespace]),
            ),
            // Two more tools, which run code that the model writes.
            None => settings.insert("features.code_mode".to_owned(), json!(false)),
        };
        settings
    }

    /// The built-in provider's entry as codex has it, but with retries that can be set.
    fn vendors_entry(&self, silence: u64) -> Value {
        let mut entry = json!({
            "name": "OpenAI",
            "wire_api": "responses",
            "requires_openai_auth": true,
            "request_max_retries": 0,
            "stream_max_retries": 0,
            "stream_idle_timeout_ms": silence,
            "supports_websockets": false,
            "env_http_headers": {"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"},
        });
        if let Some(url) = &self.base_url {
            entry["base_url"] = json!(url);
        }
        entry
    }
}

/// A name within a dotted one, quoted if TOML needs it.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => json!(name).to_string(),
    }
}

/// The setting that `refusal` names, among those that were sent: `failed to load configuration: …\nin `agents.enabled``.
pub fn refused_setting(refusal: &str, settings: &Map<String, Value>) -> Option<String> {
    let named = refusal.split('`').skip(1).step_by(2).last()?;
    settings.contains_key(named).then(|| named.to_owned())
}

/// The setup of a thread.
pub type CodexSetup = ServerSetup<CodexChoices>;

/// The choices that a thread, or a turn of it, takes beside its model.
#[derive(Debug, Clone, Default)]
pub struct CodexChoices {
    /// The model's level of reasoning, if it is chosen. A thread takes on another one with a turn, so it makes no other setup.
    pub effort: Option<String>,
    /// The service tier, sent with every turn: it makes no other setup.
    pub service_tier: Option<String>,
    /// The way in which the tools are offered.
    pub form: CodexForm,
    /// True if the model may search the web.
    pub searches_web: bool,
    /// The schema of the answer, sent with every turn: it makes no other setup.
    pub output: Option<Value>,
}

impl PartialEq for CodexChoices {
    fn eq(&self, other: &CodexChoices) -> bool {
        (self.form, self.searches_web) == (other.form, other.searches_web)
    }
}

impl Eq for CodexChoices {}

impl CodexSetup {
    /// Returns whether a turn with this setup is one with `other` as well.
    pub fn has_choices_of(&self, other: &CodexSetup) -> bool {
        let (ours, others) = (&self.choices, &other.choices);
        (&ours.effort, &ours.service_tier, &ours.output) == (&others.effort, &others.service_tier, &others.output)
    }

    /// The system prompt; empty if there is none.
    pub fn instructions(&self) -> &str {
        self.system.as_deref().unwrap_or_default()
    }

    /// The namespace of the tools, if they are in one.
    pub fn namespace(&self) -> Option<&'static str> {
        (self.choices.form == CodexForm::Namespace).then_some(OUR_NAMESPACE)
    }

    /// The tools for `thread/start`.
    pub fn dynamic_tools(&self) -> Vec<DynamicTool> {
        dynamic(&self.tools, self.choices.form)
    }
}

#[cfg(test)]
impl CodexSetup {
    /// The setup of a thread with these instructions and functions for `tools`.
    pub fn with(instructions: &str, tools: &[ToolSpec]) -> CodexSetup {
        CodexSetup {
            system: Some(instructions.to_owned()).filter(|text| !text.is_empty()),
            own_instructions: false,
            model: None,
            tools: declare(tools),
            choices: CodexChoices::default(),
        }
    }

    /// This setup with other choices.
    pub fn choosing(self, choices: CodexChoices) -> CodexSetup {
        CodexSetup { choices, ..self }
    }
}

/// The keywords of a schema that codex drops and a model should know. (It drops `title`, `$schema`, `$id` and comments as well.)
const DROPPED: [&str; 18] = [
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "default",
    "examples",
    "not",
    "prefixItems",
    "patternProperties",
];

/// The depth beyond which a schema is not rewritten: a schema may be built to be endless.
const DEEPEST: usize = 64;

/// Returns whether codex takes a name for itself: it leaves out tools of these names without a word, and refuses those of MCP
/// servers (0.169.0). Such tools of ours get another name.
fn is_reserved(name: &str) -> bool {
    matches!(name, "exec_command" | "shell_command") || name.starts_with("mcp__")
}

/// Declares `tools` under names that codex takes.
pub fn declare(tools: &[ToolSpec]) -> Tools {
    Tools::avoiding(tools, MAX_NAME, is_reserved)
}

/// The form in which tools are offered to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CodexForm {
    /// Each tool is a function.
    #[default]
    Functions,
    /// All tools are under one name, which codex never hides behind its code mode.
    Namespace,
}

/// The declaration of `tools` for `thread/start`.
pub fn dynamic(tools: &Tools, form: CodexForm) -> Vec<DynamicTool> {
    let functions: Vec<DynamicTool> = tools.declared().iter().map(function).collect();
    match form {
        CodexForm::Namespace if !functions.is_empty() => vec![DynamicTool::Namespace {
            name: OUR_NAMESPACE,
            description: "The tools of this conversation.",
            tools: functions,
        }],
        _ => functions,
    }
}

fn function(tool: &Declared) -> DynamicTool {
    let mut schema = serde_json::from_str(&tool.schema).unwrap_or_else(|_| json!({"type": "object"}));
    let mut notes = Vec::new();
    rewrite(&mut schema, "", &mut notes, 0);
    let mut description = tool.description.clone().unwrap_or_default();
    if !notes.is_empty() {
        if !description.is_empty() {
            description.push_str("\n\n");
        }
        description.push_str("Constraints of the arguments:\n");
        description.push_str(&notes.join("\n"));
    }
    DynamicTool::Function {
        name: tool.name.clone(),
        description,
        input_schema: schema,
    }
}

/// Rewrites `schema`, which is at `path`, into a form that codex keeps. Dropped parts go to `notes`.
fn rewrite(schema: &mut Value, path: &str, notes: &mut Vec<String>, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    // A schema for any value, which codex would make a string of.
    if schema.as_bool() == Some(true) {
        *schema = json!({});
    }
    let Value::Object(map) = schema else { return };
    note_dropped(map, path, notes);
    rewrite_tuple(map);
    rewrite_values(map);
    let at = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    for (key, inner) in map.iter_mut() {
        match (key.as_str(), inner) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                for (name, inner) in named {
                    let place = if key == "properties" {
                        at(name)
                    } else {
                        format!("#/{key}/{name}")
                    };
                    rewrite(inner, &place, notes, depth + 1);
                }
            }
            ("items", inner) => rewrite(inner, &format!("{path}[]"), notes, depth + 1),
            ("additionalProperties", inner @ Value::Object(_)) => rewrite(inner, &at("*"), notes, depth + 1),
            ("anyOf" | "oneOf" | "allOf", Value::Array(forms)) => {
                for inner in forms {
                    rewrite(inner, path, notes, depth + 1);
                }
            }
            _ => {}
        }
    }
}

fn note_dropped(map: &Map<String, Value>, path: &str, notes: &mut Vec<String>) {
    let dropped = map.iter().filter(|(key, _)| DROPPED.contains(&key.as_str()));
    let mut constraints: Vec<String> = dropped.map(|(key, value)| format!("{key} {value}")).collect();
    if map.get("nullable") == Some(&Value::Bool(true)) {
        constraints.push("may be null".to_owned());
    }
    if let Some(Value::Array(places)) = map.get("items") {
        constraints.push(format!("items in this order {}", Value::from(places.clone())));
    }
    if !constraints.is_empty() {
        let place = if path.is_empty() { "all" } else { path };
        notes.push(format!("- {place}: {}", constraints.join(", ")));
    }
}

/// Rewrites a tuple, which codex refuses whole ("input schema is not supported"): an array of any of its items comes closest.
fn rewrite_tuple(map: &mut Map<String, Value>) {
    if let Some(Value::Array(places)) = map.get("items") {
        let any = json!({"anyOf": places});
        map.insert("items".to_owned(), any);
    }
}

/// Rewrites a constant, or values without a type, which would become a string.
fn rewrite_values(map: &mut Map<String, Value>) {
    if let Some(value) = map.remove("const") {
        map.insert("enum".to_owned(), Value::Array(vec![value]));
    }
    if map.contains_key("type") {
        return;
    }
    let Some(Value::Array(values)) = map.get("enum") else {
        return;
    };
    let mut types: Vec<&str> = values.iter().map(type_of).collect();
    types.dedup();
    let of_type = match types[..] {
        [] => return,
        [only] => json!(only),
        _ => json!(types),
    };
    map.insert("type".to_owned(), of_type);
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn config(config: Value) -> UserConfig {
        UserConfig::read(&json!({ "config": config }).to_string())
    }

    const SILENCE: Duration = Duration::from_secs(5);

    #[test]
    fn a_provider_of_the_users_own_keeps_its_entry_without_retries() {
        let mine = config(
            json!({"model": "m", "model_provider": "mine", "model_providers": {"mine": {"name": "mine"}},
                                 "mcp_servers": {"one": {}, "a b": {}}}),
        );
        let settings = mine.thread_settings(SILENCE, None, false);
        assert_eq!(mine.thread_provider(), None);
        assert_eq!(settings["model_providers.mine.request_max_retries"], json!(0));
        assert_eq!(settings["model_providers.mine.stream_idle_timeout_ms"], json!(5000));
        assert_eq!(settings["mcp_servers.one.enabled"], json!(false));
        assert_eq!(settings["mcp_servers.\"a b\".enabled"], json!(false));
        assert!(!settings.contains_key("model_providers.df"));
    }

    #[test]
    fn the_vendors_own_is_asked_through_an_entry_of_ours() {
        for provider in [Value::Null, json!("openai")] {
            let vendors = config(json!({"model_provider": provider, "openai_base_url": "http://127.0.0.1:1/v1"}));
            let settings = vendors.thread_settings(SILENCE, None, false);
            assert_eq!(vendors.thread_provider(), Some("df"));
            assert_eq!(settings["model_providers.df"]["requires_openai_auth"], json!(true));
            assert_eq!(
                settings["model_providers.df"]["base_url"],
                json!("http://127.0.0.1:1/v1")
            );
        }
        let settings = config(json!({})).thread_settings(SILENCE, Some("df"), false);
        assert_eq!(settings["model_providers.df"].get("base_url"), None);
        assert_eq!(
            settings["features.code_mode.direct_only_tool_namespaces"],
            json!(["df"])
        );
    }

    #[test]
    fn a_built_in_provider_that_is_not_the_vendors_is_left_alone() {
        let settings = config(json!({"model_provider": "ollama"})).thread_settings(SILENCE, None, false);
        assert!(!settings.keys().any(|name| name.starts_with("model_providers")));
    }

    #[test]
    fn key_rings_are_seen() {
        assert!(config(json!({"cli_auth_credentials_store": "keyring"})).keyring);
        assert!(!config(json!({"cli_auth_credentials_store": "file"})).keyring);
        assert_eq!(UserConfig::read("no JSON"), UserConfig::default());
    }

    /// From the recording `codex-app-server/thread-config-bad`.
    #[test]
    fn the_setting_that_a_version_refuses_is_found() {
        let settings = UserConfig::default().thread_settings(SILENCE, None, false);
        let refusal =
            "failed to load configuration: invalid type: string \"x\", expected a boolean\nin `agents.enabled`\n";
        assert_eq!(refused_setting(refusal, &settings).as_deref(), Some("agents.enabled"));
        let variants = "unknown variant `sometimes`, expected one of `disabled`, `live`\nin `web_search`\n";
        assert_eq!(refused_setting(variants, &settings).as_deref(), Some("web_search"));
        assert_eq!(
            refused_setting(
                "failed to load configuration: No such file or directory (os error 2)",
                &settings
            ),
            None
        );
    }

    fn tool(name: &str, schema: &Value) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: Some("Does it.".to_owned()),
            schema: RawValue::from_string(schema.to_string()).unwrap(),
        }
    }

    fn declared(schema: &Value) -> (String, Value) {
        match dynamic(&declare(&[tool("t", schema)]), CodexForm::Functions).remove(0) {
            DynamicTool::Function {
                description,
                input_schema,
                ..
            } => (description, input_schema),
            DynamicTool::Namespace { .. } => panic!("a namespace"),
        }
    }

    #[test]
    fn what_codex_would_drop_is_said_in_the_description() {
        let (description, schema) = declared(&json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "title": "T",
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 10},
                "when": {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}},
                "tags": {"type": "array", "items": {"type": "string", "pattern": "^a"}, "uniqueItems": true},
                "plain": {"type": "string", "description": "d"},
            },
            "required": ["n"],
        }));
        assert_eq!(
            description,
            "Does it.\n\nConstraints of the arguments:\n- n: minimum 1, maximum 10\n- when.day: format \"date\"\n- tags: \
             uniqueItems true\n- tags[]: pattern \"^a\""
        );
        assert_eq!(schema["required"], json!(["n"]));
    }

    #[test]
    fn a_schema_that_codex_keeps_stays_as_it_is() {
        let kept = json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "y"]}}, "additionalProperties": false});
        assert_eq!(declared(&kept), ("Does it.".to_owned(), kept));
    }

    #[test]
    fn tuples_constants_and_free_values_are_written_as_codex_takes_them() {
        let (description, schema) = declared(&json!({"type": "object", "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
            "five": {"const": 5},
            "mixed": {"enum": ["a", 1]},
            "free": true,
        }}));
        assert_eq!(
            schema["properties"],
            json!({
                "pair": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
                "five": {"enum": [5], "type": "integer"},
                "mixed": {"enum": ["a", 1], "type": ["string", "integer"]},
                "free": {},
            })
        );
        assert!(description.contains("- pair: items in this order [{\"type\":\"string\"},{\"type\":\"number\"}]"));
    }

    /// OpenAI refuses every request of a thread with a tool that has such a schema.
    #[test]
    fn a_union_at_the_top_is_one_object_and_told_in_the_description() {
        let branch = |kind: &str| json!({"type": "object", "properties": {"kind": {"const": kind}, kind: {"type": "string"}}, "required": ["kind", kind]});
        let union = json!([branch("a"), branch("b")]);
        let (description, schema) = declared(&json!({"oneOf": union}));
        assert_eq!(
            schema,
            json!({"type": "object",
                   "properties": {"kind": {"enum": ["a", "b"], "type": "string"}, "a": {"type": "string"}, "b": {"type": "string"}},
                   "required": ["kind"]})
        );
        assert_eq!(description, format!("Does it.\n\nThe arguments are any one of {union}"));
    }

    #[test]
    fn names_that_codex_keeps_to_itself_are_written_otherwise_and_lead_back() {
        let names = [
            "exec_command",
            "shell_command",
            "mcp__x__y",
            "apply_patch",
            "get.weather",
        ];
        let tools = declare(&names.map(|name| tool(name, &json!({"type": "object"}))));
        for (declared, name) in tools.declared().iter().zip(names) {
            assert!(!is_reserved(&declared.name), "{name}");
            assert_eq!(tools.callers_name(&declared.name), Some(name));
        }
        assert_eq!(tools.declared()[3].name, "apply_patch");
    }

    #[test]
    fn a_namespace_holds_them_all() {
        let tools = declare(&[tool("a", &json!({})), tool("b", &json!({}))]);
        let [DynamicTool::Namespace { name, tools, .. }] = &dynamic(&tools, CodexForm::Namespace)[..] else {
            panic!("no namespace");
        };
        assert_eq!((*name, tools.len()), ("df", 2));
        assert_eq!(dynamic(&declare(&[]), CodexForm::Namespace), []);
    }
}
