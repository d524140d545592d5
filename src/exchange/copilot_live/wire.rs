//! The messages that the server is sent: the parameters of requests, and the results of calls.
//!
//! The server refuses an unknown field by its name. Source: copilot 1.0.102, recordings `sdk-recipe-whole` and
//! `sdk-sessionfs-history`; NEW-CLIS 1.2 and 1.6 tell what each field removes.

use serde_json::{Value, json};

use super::files::STATE;
use super::form::CopilotSetup;
use dfp_provider::copilot::TOOL_SEARCH;
use dfp_text::redact::Secret;

/// The protocol that is understood here.
pub const PROTOCOL: u64 = 3;

/// The token limits that are declared for any model: for a model that it does not know, copilot would refuse a request of more
/// than 128,000 tokens, unsent.
const ANY: u64 = 10_000_000;

/// A model API of the user's own, as the environment of the server names it (`COPILOT_PROVIDER_*`).
#[derive(Debug, Clone, Default)]
pub struct Api {
    /// `BASE_URL`.
    pub base_url: String,
    /// `TYPE`.
    pub kind: Option<String>,
    /// `WIRE_API`.
    pub wire_api: Option<String>,
    /// `TRANSPORT`.
    pub transport: Option<String>,
    /// `AZURE_API_VERSION`.
    pub azure_version: Option<String>,
    /// `API_KEY`.
    pub key: Option<Secret>,
    /// `API_KEY_COMMAND`.
    pub key_command: Option<Secret>,
    /// `HEADERS`: one per line.
    pub headers: Option<Secret>,
    /// `BEARER_TOKEN`.
    pub bearer: Option<Secret>,
}

impl Api {
    fn fields(&self) -> Value {
        let mut fields = json!({
            "type": self.kind.as_deref().unwrap_or("openai"),
            "wireApi": self.wire_api.as_deref().unwrap_or("completions"),
            "baseUrl": self.base_url,
        });
        for (name, secret) in [
            ("apiKey", &self.key),
            ("apiKeyCommand", &self.key_command),
            ("bearerToken", &self.bearer),
        ] {
            if let Some(secret) = secret {
                fields[name] = json!(secret.reveal());
            }
        }
        if let Some(transport) = &self.transport {
            fields["transport"] = json!(transport);
        }
        if let Some(version) = &self.azure_version {
            fields["azure"] = json!({"apiVersion": version});
        }
        if let Some(headers) = &self.headers {
            let headers = headers.reveal().replace("\\n", "\n");
            let headers = headers.lines().filter_map(|line| line.split_once(':'));
            let headers = headers.map(|(name, value)| (name.trim().to_owned(), json!(value.trim())));
            fields["headers"] = Value::Object(headers.collect());
        }
        fields
    }
}

/// `sessionFs.setProvider`: sessions have their files here.
pub fn set_files(folder: &str) -> Value {
    json!({"initialCwd": folder, "sessionStatePath": STATE, "conventions": "posix"})
}

/// `session.resume`: nothing of copilot's own, and nothing of the user's but login and model.
pub fn resume(session: &str, setup: &CopilotSetup, model: Option<&str>, api: Option<&Api>, folder: &str) -> Value {
    let tools = setup.tools.declared().iter().map(|tool| {
        let schema: Value = serde_json::from_str(&tool.schema).unwrap_or_else(|_| json!({"type": "object"}));
        json!({
            "name": tool.name,
            "description": tool.description.as_deref().unwrap_or_default(),
            "parameters": schema,
            // A tool of copilot's own with this name is not meant.
            "overridesBuiltInTool": true,
            "skipPermission": true,
            "defer": if setup.choices.searches_tools { "auto" } else { "never" },
        })
    });
    let names: Vec<&str> = match setup.tools.declared() {
        // An empty list would mean all of copilot's own.
        [] => vec!["none"],
        tools => {
            let own = setup.choices.searches_tools.then_some(TOOL_SEARCH);
            tools.iter().map(|tool| tool.name.as_str()).chain(own).collect()
        }
    };
    let mut params = json!({
        "sessionId": session,
        "availableTools": names,
        "tools": tools.collect::<Vec<_>>(),
        "streaming": true,
        "workingDirectory": folder,
        "envValueMode": "direct",
        "requestPermission": false,
        "enableConfigDiscovery": false,
        "infiniteSessions": {"enabled": false},
        "largeOutput": {"enabled": false},
        "enableSessionTelemetry": false,
        "skipEmbeddingRetrieval": true,
        "embeddingCacheStorage": "in-memory",
        "mcpOAuthTokenStorage": "in-memory",
        "enableOnDemandInstructionDiscovery": false,
        "enableFileHooks": false,
        "enableHostGitOperations": false,
        "enableSessionStore": false,
        "enableSkills": false,
        "memory": {"enabled": false},
        "customAgentsLocalOnly": true,
        "includeSubAgentStreamingEvents": false,
        "isExperimentalMode": false,
    });
    if setup.choices.searches_tools {
        // However few there are: copilot itself begins with 30.
        params["toolSearch"] = json!({"enabled": true, "deferThreshold": 0});
    }
    if let Some(system) = &setup.system {
        let mode = if setup.own_instructions { "append" } else { "replace" };
        params["systemMessage"] = json!({"mode": mode, "content": system});
    }
    if let Some(model) = model {
        params["model"] = json!(model);
    }
    if let Some(effort) = &setup.choices.effort {
        params["reasoningEffort"] = json!(effort);
    }
    if let Some(api) = api {
        params["provider"] = api.fields();
        params["modelCapabilities"] = json!({
            // Images of a history go to any model. For a model that is declared to take images, copilot makes them smaller, and leaves out
            // all but 50.
            "supports": {"vision": false},
            "limits": {"max_prompt_tokens": ANY, "max_context_window_tokens": ANY},
        });
    }
    params
}

/// `session.options.update`: the things that only this request turns off.
pub fn options(session: &str) -> Value {
    json!({
        "sessionId": session,
        "skipCustomInstructions": true,
        "customAgentsLocalOnly": true,
        "coauthorEnabled": false,
        "manageScheduleEnabled": false,
        "installedPlugins": [],
        "includedBuiltinSkills": [],
    })
}

/// `session.sendMessages`: continues the session without a new message.
pub fn go_on(session: &str) -> Value {
    json!({"sessionId": session, "messages": []})
}

/// The parameters of `session.abort` and `session.destroy`.
pub fn of_session(session: &str) -> Value {
    json!({"sessionId": session})
}

/// `session.tools.handlePendingToolCall`: the result of a call.
pub fn result(session: &str, request: &str, text: &str, is_error: bool) -> Value {
    let kind = if is_error { "failure" } else { "success" };
    json!({
        "sessionId": session,
        "requestId": request,
        "result": {"textResultForLlm": text, "resultType": kind},
    })
}
