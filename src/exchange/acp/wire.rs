//! The methods of the Agent Client Protocol: those that we call, and those that the agent calls.
//!
//! In: the parameters of a request; the agent's messages. Out: the request as JSON; the meaning of the message ([`Update`], the
//! answers). Sources: agentclientprotocol.com, version 1; gemini 0.61.0 and qwen 0.24.4 as measured.
//!
//! `SessionCalls` tells whether a call is for a tool that is run here for the caller, or for one of the agent's own, by the agent's updates
//! on its calls and its requests for permission. Only the agent itself is believed: the id of a call comes from whoever answers as its
//! API, and a title may be the model's words.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use super::choices::{ConfigOptions, Models};
use crate::rpc::message::{self, Request, Version};
use crate::rpc::{Asked, Protocol};
use dfp_model::message::Usage;
use dfp_provider::ToolNaming;
use dfp_provider::custom::{KnownAgent, known_agent};

/// The version of the protocol.
const VERSION: u32 = 1;

/// The notification about a session.
const UPDATE: &str = "session/update";

/// The request for permission to run a tool.
const PERMISSION: &str = "session/request_permission";

/// The protocol of `--acp`.
#[derive(Debug, Default)]
pub struct Acp {
    /// The facts that are known of the agent by its name.
    known: OnceLock<KnownAgent>,
    sessions: Mutex<HashMap<String, SessionCalls>>,
}

impl Acp {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, SessionCalls>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn naming(&self) -> ToolNaming {
        self.known().naming
    }

    /// The facts that are known of the agent.
    pub fn known(&self) -> KnownAgent {
        self.known.get().copied().unwrap_or_default()
    }

    /// Notes that the agent calls itself `name`.
    pub fn is_agent(&self, name: &str) {
        // An agent tells its name once.
        let _ = self.known.set(known_agent(name));
    }

    /// Lets the agent call the tools of these names in `session`.
    pub fn permit(&self, session: &str, tools: Vec<String>) {
        let calls = SessionCalls::new(tools);
        self.sessions().insert(session.to_owned(), calls);
    }

    /// The number of calls of the caller's tools that the agent has told of in `session`. What it had to say before them has come by then.
    pub fn announced_calls(&self, session: &str) -> usize {
        self.sessions().get(session).map_or(0, SessionCalls::announced)
    }

    /// Lets the agent call no tool in `session` any more.
    pub fn permit_none(&self, session: &str) {
        self.sessions().remove(session);
    }
}

impl Protocol for Acp {
    type Event = Update;

    const VERSION: Version = Some("2.0");

    const SESSION: &'static str = "sessionId";

    fn matters(method: &str) -> bool {
        method == UPDATE
    }

    fn notification(&self, method: &str, params: &str) -> Option<(String, Update)> {
        if method != UPDATE {
            return None;
        }
        let params: UpdateParams = serde_json::from_str(params).ok()?;
        let acts = params.update.call().is_some_and(|call| {
            let mut sessions = self.sessions();
            let calls = sessions.get_mut(&params.session_id);
            !calls.is_some_and(|calls| calls.note(&call, self.naming()))
        });
        let update = Update {
            acts,
            ..params.update.read()
        };
        Some((params.session_id, update))
    }

    /// Permits a call of the caller's tools: they are run for the caller alone, so the agent may call them.
    fn asked(&self, request: &Request<'_>) -> Asked<Update> {
        let permission = (request.method == PERMISSION)
            .then(|| serde_json::from_str::<Permission>(request.params).ok())
            .flatten();
        let option = permission.and_then(|asked| {
            let mut sessions = self.sessions();
            let calls = sessions.get_mut(&asked.session_id)?;
            let once = asked.options.into_iter().find(|option| option.kind == "allow_once")?;
            calls.may(&asked.tool_call, self.naming()).then_some(once.option_id)
        });
        match option {
            Some(id) => Asked::Answered(json!({"outcome": {"outcome": "selected", "optionId": id}})),
            None => Asked::Refused(None),
        }
    }

    /// The refusal: the agent's own tools may not run, and there is neither a file nor a terminal for it.
    fn refusal(request: &Request<'_>) -> String {
        match &*request.method {
            PERMISSION => {
                let cancelled = json!({"outcome": {"outcome": "cancelled"}});
                message::answer(Acp::VERSION, request.id, &cancelled)
            }
            method => message::refusal(Acp::VERSION, request.id, method),
        }
    }
}

/// `session/request_permission`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Permission {
    session_id: String,
    tool_call: AcpCall,
    options: Vec<PermissionOption>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption {
    option_id: String,
    #[serde(default)]
    kind: String,
}

/// An update of the agent about a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update {
    /// A piece of the answer.
    pub text: Option<String>,
    /// A piece of the reasoning.
    pub thought: Option<String>,
    /// The usage of the prompt so far, if an update tells it.
    pub usage: Option<Usage>,
    /// True if the update is about a call of a tool of the agent's own.
    pub acts: bool,
}

/// The agent's description of itself: the answer to `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InitializeResponse {
    /// The version of the protocol.
    pub protocol_version: u32,
    agent_info: AgentInfo,
    #[serde(rename = "_meta")]
    meta: AgentMeta,
    agent_capabilities: Value,
}

impl InitializeResponse {
    /// Returns whether the agent speaks this version of the protocol.
    pub fn is_understood(&self) -> bool {
        self.protocol_version == VERSION
    }

    /// The agent's name for itself.
    pub fn name(&self) -> &str {
        self.agent_info.name.as_deref().unwrap_or_default()
    }

    /// The agent's own version, if it tells one.
    pub fn version(self) -> Option<String> {
        self.agent_info.version.or(self.meta.agent_version)
    }

    /// Returns whether a session can be told of an MCP server over HTTP.
    pub fn takes_servers(&self) -> bool {
        self.agent_capabilities.pointer("/mcpCapabilities/http") == Some(&Value::Bool(true))
    }

    /// Returns whether a session can be closed (opencode 1.18.34; a draft of the protocol).
    pub fn closes(&self) -> bool {
        let close = self.agent_capabilities.pointer("/sessionCapabilities/close");
        close.is_some_and(Value::is_object)
    }
}

/// The name and version of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct AgentInfo {
    name: Option<String>,
    version: Option<String>,
}

/// The version of the agent where grok puts it (1.0.41).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AgentMeta {
    agent_version: Option<String>,
}

/// A session that existed before: the answer to `session/load`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Loaded {
    /// The models of the session.
    pub models: Models,
    /// The other options of the session. The answer to `session/set_config_option` has them as well.
    pub config_options: ConfigOptions,
}

/// The answer to `session/prompt`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answered {
    /// `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`.
    pub stop_reason: Option<String>,
    /// The data for which no version of the protocol has a place.
    #[serde(rename = "_meta")]
    pub meta: AnswerMeta,
    /// The usage of the prompt, if the agent follows that draft (opencode 1.18.34).
    usage: Value,
}

impl Answered {
    /// The usage of the prompt, if the answer itself tells it.
    pub fn usage(&self) -> Option<Usage> {
        usage_of_update(&self.usage)
    }
}

/// The data that gemini (0.61.0) and grok (1.0.41) add to their answers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AnswerMeta {
    /// The figures of gemini.
    quota: Option<Quota>,
    /// The figures of grok.
    usage: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Quota {
    token_count: Option<TokenCount>,
    model_usage: Vec<ModelUsage>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
struct TokenCount {
    input_tokens: u64,
    output_tokens: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ModelUsage {
    model: String,
    token_count: TokenCount,
}

impl AnswerMeta {
    /// The usage of the prompt. Neither cached input nor reasoning is part of it (gemini 0.61.0).
    pub fn usage(&self) -> Option<Usage> {
        let TokenCount {
            input_tokens,
            output_tokens,
        } = self.quota.as_ref()?.token_count?;
        Some(Usage {
            input_tokens,
            output_tokens,
            total_tokens: input_tokens.saturating_add(output_tokens),
            ..Usage::default()
        })
    }

    /// The usage of the prompt by grok's figures: its input includes cached tokens.
    pub fn counted(&self) -> Option<Usage> {
        usage_of_update(&self.usage)
    }

    /// The number of times that the model was asked.
    pub fn turns(&self) -> Option<u32> {
        let turns = self.usage.get("numTurns")?.as_u64()?;
        u32::try_from(turns).ok()
    }

    /// The model that wrote most: a router may have been asked, too.
    pub fn model(&self) -> Option<String> {
        let models = &self.quota.as_ref()?.model_usage;
        let busiest = models.iter().max_by_key(|usage| usage.token_count.output_tokens)?;
        Some(busiest.model.clone()).filter(|model| !model.is_empty())
    }
}

/// `initialize`: the parameters of a client that has nothing to offer.
pub fn initialize() -> Value {
    let nothing = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
    json!({"protocolVersion": VERSION, "clientCapabilities": nothing})
}

/// `session/new`: a session in `folder`, with these MCP servers.
pub fn session_new(folder: &Path, servers: &[Value]) -> Value {
    json!({"cwd": folder.to_string_lossy(), "mcpServers": servers})
}

/// The description of an MCP server over HTTP.
pub fn http_server(name: &str, url: &str, token: &str) -> Value {
    let header = json!({"name": "Authorization", "value": format!("Bearer {token}")});
    json!({"type": "http", "name": name, "url": url, "headers": [header]})
}

/// `session/load`: loads the session of this id from the home of an agent that runs in `folder`.
pub fn session_load(session: &str, folder: &Path) -> Value {
    json!({"sessionId": session, "cwd": folder.to_string_lossy(), "mcpServers": []})
}

/// `session/prompt`: sends a prompt to a session.
pub fn session_prompt(session: &str, prompt: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": prompt}]})
}

/// `session/prompt` for a session that holds the thread: grok puts nothing around the prompt, and has its API enforce the JSON Schema
/// `schema` for the answer (1.0.41).
pub fn verbatim_prompt(session: &str, prompt: &str, schema: Option<&str>) -> Value {
    let mut params = session_prompt(session, prompt);
    params["_meta"] = json!({"verbatim": true});
    if let Some(schema) = schema.and_then(|schema| serde_json::from_str::<Value>(schema).ok()) {
        params["_meta"]["outputSchema"] = schema;
    }
    params
}

/// `session/close`: ends a session that is sent nothing more.
pub fn session_close(session: &str) -> Value {
    json!({"sessionId": session})
}

/// `session/cancel`: ends the prompt of `session`.
pub fn session_cancel(session: &str) -> Value {
    json!({"sessionId": session})
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams {
    session_id: String,
    update: RawUpdate,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawUpdate {
    session_update: String,
    content: Value,
    tool_call_id: Value,
    name: Value,
    title: Value,
    kind: Value,
    status: Value,
    #[serde(rename = "_meta")]
    meta: Value,
}

impl RawUpdate {
    /// The call that the update is about.
    fn call(&self) -> Option<AcpCall> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        matches!(&*self.session_update, "tool_call" | "tool_call_update").then(|| AcpCall {
            tool_call_id: text(&self.tool_call_id).unwrap_or_default(),
            name: text(&self.name),
            title: text(&self.title),
            kind: text(&self.kind),
            status: text(&self.status),
            meta: self.meta.clone(),
        })
    }

    fn read(self) -> Update {
        let text = self.content.get("text").and_then(Value::as_str);
        let text = text.filter(|text| !text.is_empty()).map(str::to_owned);
        let (text, thought) = match self.session_update.as_str() {
            "agent_message_chunk" => (text, None),
            "agent_thought_chunk" => (None, text),
            _ => (None, None),
        };
        Update {
            text,
            thought,
            acts: false,
            usage: self.meta.get("usage").and_then(usage_of_update),
        }
    }
}

/// Reads the figures of qwen (0.24.4) and grok (1.0.41), in which reasoning counts as output.
fn usage_of_update(usage: &Value) -> Option<Usage> {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let (input, output) = (count("inputTokens")?, count("outputTokens")?);
    Some(Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: count("totalTokens").unwrap_or(input.saturating_add(output)),
        cache_read_tokens: count("cachedReadTokens"),
        cache_write_tokens: count("cacheCreationTokens"),
        reasoning_tokens: count("thoughtTokens").or(count("reasoningTokens")),
        ..Usage::default()
    })
}

/// The kinds that an agent never gives a tool of the caller's: such tools are run here, and it knows nothing of what they do.
const OWN_KINDS: [&str; 5] = ["execute", "edit", "delete", "move", "fetch"];

/// The places for the tool's name in agents that have no `name` for it: qwen (0.15.10), grok (1.0.41).
const NAMES_IN_META: [&str; 2] = ["/toolName", "/x.ai~1tool/name"];

/// The number of open calls that are remembered of a session.
const MOST_CALLS: usize = 1_000;

/// The longest name of a tool that is compared, in bytes: none of ours is longer.
const LONGEST_NAME: usize = 256;

/// A call, as an update or a request for permission describes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AcpCall {
    pub tool_call_id: String,
    /// The tool's name (version 1 of the protocol, since schema 1.22).
    pub name: Option<String>,
    pub title: Option<String>,
    pub kind: Option<String>,
    pub status: Option<String>,
    #[serde(rename = "_meta")]
    pub meta: Value,
}

impl AcpCall {
    /// The tool's name, if the agent tells it.
    fn named(&self) -> Option<&str> {
        let in_meta = || {
            let names = NAMES_IN_META.iter();
            names.filter_map(|place| self.meta.pointer(place)?.as_str()).next()
        };
        self.name.as_deref().or_else(in_meta)
    }
}

/// The facts that the agent has told of a call so far.
#[derive(Debug, Default)]
struct KnownCall {
    name: Option<String>,
    /// The first title of the call.
    title: Option<String>,
    /// The last kind of the call.
    kind: Option<String>,
    /// True if it was of a kind that no tool of the caller's has.
    is_own: bool,
    /// True if it was counted as one of the caller's tools.
    is_counted: bool,
}

impl KnownCall {
    fn learn(&mut self, call: &AcpCall) {
        let short = |text: &str| (text.len() <= LONGEST_NAME).then(|| text.to_owned());
        if let Some(name) = call.named() {
            // A call with two names belongs to nobody.
            self.is_own |= self.name.as_deref().is_some_and(|known| known != name);
            self.name = Some(short(name).unwrap_or_default());
        }
        if self.title.is_none() {
            self.title = call.title.as_deref().map(|title| short(title).unwrap_or_default());
        }
        if let Some(kind) = &call.kind {
            self.is_own |= OWN_KINDS.contains(&&**kind);
            self.kind = short(kind);
        }
    }

    /// Returns whether it is a call of one of `tools`.
    fn is_of(&self, id: &str, tools: &[String], naming: ToolNaming) -> bool {
        if self.is_own {
            return false;
        }
        match (&self.name, naming) {
            (Some(name), _) => tools.contains(name),
            (None, ToolNaming::Name) => false,
            (None, ToolNaming::Id) => tools.iter().any(|name| {
                let rest = id.strip_prefix(name.as_str());
                rest.is_some_and(|rest| rest.starts_with("__") || rest.starts_with('-'))
            }),
            (None, ToolNaming::FirstTitle) => {
                let is_other = self.kind.as_deref() == Some("other");
                is_other && self.title.as_ref().is_some_and(|title| tools.contains(title))
            }
        }
    }
}

/// The calls of a session, and the tools that it may call.
#[derive(Debug)]
struct SessionCalls {
    /// The names under which the agent knows the tools that are run here.
    tools: Vec<String>,
    known: HashMap<String, KnownCall>,
    /// The number of calls that the agent has told of, as far as they may be of the caller's tools.
    announced: usize,
}

impl SessionCalls {
    fn new(tools: Vec<String>) -> SessionCalls {
        SessionCalls {
            tools,
            known: HashMap::new(),
            announced: 0,
        }
    }

    /// Keeps the facts that an update tells of `call`, and returns whether the call is one of the caller's.
    fn note(&mut self, call: &AcpCall, naming: ToolNaming) -> bool {
        let id = &call.tool_call_id;
        let is_kept = self.known.contains_key(id) || self.known.len() < MOST_CALLS;
        let mut unkept = KnownCall::default();
        let known = match is_kept {
            true => self.known.entry(id.clone()).or_default(),
            false => &mut unkept,
        };
        known.learn(call);
        let is_ours = known.is_of(id, &self.tools, naming);
        // Of an agent that tells no names, nobody knows which calls are the caller's.
        let may_be_ours = is_ours || (naming == ToolNaming::Name && known.name.is_none());
        if may_be_ours && !std::mem::replace(&mut known.is_counted, true) {
            self.announced += 1;
        }
        if matches!(call.status.as_deref(), Some("completed" | "failed")) {
            self.known.remove(id);
        }
        is_ours
    }

    /// The number of calls that the agent has told of, as far as they may be of the caller's tools.
    fn announced(&self) -> usize {
        self.announced
    }

    /// Returns whether the agent may make `call`: by all known facts, it must be one of the caller's.
    fn may(&mut self, call: &AcpCall, naming: ToolNaming) -> bool {
        let status = None;
        self.note(&AcpCall { status, ..call.clone() }, naming)
    }
}
