//! The messages that `codex app-server` is sent: the parameters of requests, and the results of calls.
//!
//! All of them are written by serde. Every shape is compared with the schema that the installed codex generates
//! (`__tests__/codex/live-schema.test.ts`). Source: codex 0.169.0 and 0.150.0, recordings `codex-app-server/*`.

use serde::Serialize;
use serde_json::Value;

/// The name with which the client introduces itself.
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

/// `thread/loaded/list`: asks for the threads in the server's memory.
#[derive(Debug, Serialize)]
pub struct ThreadList {}

/// `model/list`: asks for the models that a user may choose.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelList {
    /// True if those are told as well that codex shows to nobody, and takes by their names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_hidden: bool,
    /// The place where the page before has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// `thread/start`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStart<'a> {
    pub cwd: &'a str,
    /// The policy for approvals: nobody could be asked.
    pub approval_policy: &'static str,
    /// There is nothing to be sandboxed; it is the narrowest one all the same.
    pub sandbox: &'static str,
    /// Replaces codex's own instructions; `None` keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<&'static str>,
    pub developer_instructions: &'a str,
    /// True if the thread is kept out of files.
    pub ephemeral: bool,
    /// No environments: no project, and no AGENTS.md of one.
    pub environments: [(); 0],
    /// True if raw events are sent. Without them nothing marks the end of a response.
    pub experimental_raw_events: bool,
    /// The settings of this thread, by dotted names.
    pub config: &'a serde_json::Map<String, Value>,
    /// The model, if one is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// The model provider, if it is our entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<&'a str>,
    pub dynamic_tools: &'a [DynamicTool],
}

/// A tool, or tools under a common name.
#[derive(Debug, Clone, Serialize, PartialEq)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum DynamicTool {
    /// A tool.
    #[serde(rename_all = "camelCase")]
    Function {
        /// `[a-zA-Z0-9_-]{1,128}`.
        name: String,
        description: String,
        /// The JSON Schema of the arguments, as far as codex keeps it.
        input_schema: Value,
    },
    /// Tools that the model calls by a common name (CODEX-LIVE §3.3, second best).
    Namespace {
        name: &'static str,
        /// The description of all of them together.
        description: &'static str,
        tools: Vec<DynamicTool>,
    },
}

/// `thread/resume`, of a thread in the server's home. It has no parameter for tools, which are in the thread's file, nor for raw events.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResume<'a> {
    pub thread_id: &'a str,
    pub cwd: &'a str,
    pub approval_policy: &'static str,
    pub sandbox: &'static str,
    /// Replaces codex's own instructions; `None` keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<&'static str>,
    /// Null: the instructions are the thread's first item, and would be sent a second time.
    pub developer_instructions: (),
    /// True if the answer leaves out the thread's turns.
    pub exclude_turns: bool,
    /// The settings of this thread, by dotted names.
    pub config: &'a serde_json::Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<&'a str>,
}

/// `thread/delete`: unloads a resumed thread, and removes what codex has stored of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadDelete<'a> {
    pub thread_id: &'a str,
}

/// `thread/inject_items`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InjectItems<'a> {
    pub thread_id: &'a str,
    /// Items of the Responses API; never none.
    pub items: &'a [Value],
}

/// `turn/start` with no input but the injected items.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CodexTurnStart<'a> {
    pub thread_id: &'a str,
    /// No input: a text here would be searched for `$skill`, and is limited to 1,048,576 characters, so the prompt is injected
    /// instead.
    pub input: [(); 0],
    /// No environments, for a thread that was resumed: `thread/resume` has no such parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environments: Option<[(); 0]>,
    /// The model's level of reasoning, for this turn and later ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<&'a str>,
    /// The service tier, for this turn and later ones; null is the default one (0.150.0 knows no parameter for one turn).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<Option<&'a str>>,
    /// The schema of the answer, for all requests of this turn (CODEX-LIVE, 0.150.0 and 0.169.0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<&'a Value>,
}

/// `turn/interrupt`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt<'a> {
    pub thread_id: &'a str,
    /// The turn in progress.
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
    /// The pieces of the result, never empty.
    pub content_items: Vec<ContentItem>,
    /// True if the call succeeded, which the model does not see.
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
