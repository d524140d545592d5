//! The setup of a codex thread, and its settings: nothing of codex's own, and as little as possible of the user's beyond login, provider
//! and model.
//!
//! The [`CodexSetup`] is fixed when the thread begins: the system prompt, the tools, and the model; and the choices of a turn, which are its
//! level of reasoning and the schema of its answer.
//!
//! In: the server's answer on the user's configuration ([`UserConfig`]). Out: the settings of `thread/start`. Each one removes
//! something that CODEX-LIVE §3.1 has measured. Settings that act at a process's start are flags (`provider/codex`).

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tools::{self, CodexForm};
use super::wire::DynamicTool;
use crate::live::setup::ServerSetup;
#[cfg(test)]
use dfp_model::message::ToolSpec;
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
        tools::dynamic(&self.tools, self.choices.form)
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
            tools: tools::declare(tools),
            choices: CodexChoices::default(),
        }
    }

    /// This setup with other choices.
    pub fn choosing(self, choices: CodexChoices) -> CodexSetup {
        CodexSetup { choices, ..self }
    }
}

#[cfg(test)]
mod tests {
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
}
