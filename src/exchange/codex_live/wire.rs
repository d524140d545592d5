//! What `codex app-server` is sent: the parameters of requests, and the results of calls.
//!
//! All of it is written by serde. Every shape is compared with the schema that the installed codex generates (`__tests__/codex/live-schema.test.ts`). Source: codex 0.169.0 and
//! 0.150.0, recordings `codex-app-server/*`.

use serde::Serialize;
use serde_json::Value;

/// How the client introduces itself.
pub const CLIENT: &str = "deep_factor_providers";

/// `initialize`: raw events and dynamic tools are experimental.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialize {
    client_info: ClientInfo,
    capabilities: Capabilities,
}

#[derive(Debug, Serialize)]
struct ClientInfo {
    name: &'static str,
    title: &'static str,
    version: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    experimental_api: bool,
    request_attestation: bool,
}

impl Default for Initialize {
    fn default() -> Self {
        Initialize {
            client_info: ClientInfo {
                name: CLIENT,
                title: CLIENT,
                version: env!("CARGO_PKG_VERSION"),
            },
            capabilities: Capabilities {
                experimental_api: true,
                request_attestation: false,
            },
        }
    }
}

/// `config/read`.
#[derive(Debug, Serialize)]
pub struct ConfigRead<'a> {
    /// The folder whose project settings count, too.
    pub cwd: &'a str,
}

/// `thread/loaded/list`: the threads that are in its memory.
#[derive(Debug, Serialize)]
pub struct ThreadList {}

/// `thread/start`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStart<'a> {
    pub cwd: &'a str,
    /// Nobody could be asked.
    pub approval_policy: &'static str,
    /// There is nothing to be sandboxed; the least all the same.
    pub sandbox: &'static str,
    /// Replaces codex's own instructions; `None` keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<&'static str>,
    pub developer_instructions: &'a str,
    /// Nothing of it is written to a file.
    pub ephemeral: bool,
    /// None: no project, no AGENTS.md of one.
    pub environments: [(); 0],
    /// Without them nothing marks where a response ends.
    pub experimental_raw_events: bool,
    /// The settings of this thread, by dotted names.
    pub config: &'a serde_json::Map<String, Value>,
    /// The model, if one is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// The model provider, where it is one of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<&'a str>,
    pub dynamic_tools: &'a [DynamicTool],
}

/// A tool, or tools under a name.
#[derive(Debug, Clone, Serialize, PartialEq)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum DynamicTool {
    /// A tool.
    #[serde(rename_all = "camelCase")]
    Function {
        /// `[a-zA-Z0-9_-]{1,128}`.
        name: String,
        description: String,
        /// JSON Schema, as far as codex keeps it.
        input_schema: Value,
    },
    /// Tools that the model calls by a common name (CODEX-LIVE §3.3, second best).
    Namespace {
        name: &'static str,
        /// What they have in common.
        description: &'static str,
        tools: Vec<DynamicTool>,
    },
}

/// `thread/inject_items`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InjectItems<'a> {
    pub thread_id: &'a str,
    /// Items of the Responses API; never none.
    pub items: &'a [Value],
}

/// `turn/start` with nothing but what was injected.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStart<'a> {
    pub thread_id: &'a str,
    /// A text here would be searched for `$skill`, and may have 1,048,576 characters: the prompt is injected instead.
    pub input: [(); 0],
    /// How much the model thinks, for this turn and those behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<&'a str>,
    /// The schema of the answer: of this turn, all its requests (CODEX-LIVE, 0.150.0 and 0.169.0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<&'a Value>,
}

/// `turn/interrupt`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt<'a> {
    pub thread_id: &'a str,
    /// The turn that goes on.
    pub turn_id: &'a str,
}

/// `thread/unsubscribe`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unsubscribe<'a> {
    pub thread_id: &'a str,
}

/// The answer to `item/tool/call`. The model sees the content only (CODEX-LIVE pitfall 6).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnswer {
    /// Never empty.
    pub content_items: Vec<ContentItem>,
    /// Not seen by the model.
    pub success: bool,
}

/// A piece of a tool's result.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ContentItem {
    InputText {
        text: String,
    },
    InputImage {
        /// A data URL: no others are taken.
        image_url: String,
    },
}

#[cfg(test)]
mod tests;
