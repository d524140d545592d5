//! The live engine of copilot: one `copilot --headless --stdio` for all conversations of a provider, over its JSON-RPC on
//! standard streams.
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread) and a [`CopilotSetup`]. Out: the events of one turn after the
//! other. A thread becomes the history of a session ([`history`]), a file in a tree that this process serves over the same pipe
//! ([`files`]): nothing is on the disk, and nothing of it is a prompt, before which copilot would put a date. The caller's tools
//! are the session's only ones: the server asks for their results and waits, which ends a reply here with its calls pending and
//! nothing run. The results answer those requests. A session whose answer has no calls is over: the next call replays its thread,
//! which takes a tenth of a second.
//!
//! A [`CopilotService`] is a ready server: it speaks the protocol that is understood here, and has its sessions' files here. A
//! [`CopilotSession`] is one of its sessions, which takes one turn after the other while its calls wait; a
//! [`reader::CopilotTurnReader`] makes the events of a reply from the server's events ([`wire`]). All facts are those of NEW-CLIS 1,
//! measured with 1.0.102.
//!
//! The models of a login are read from the answer to `models.list`. The shape is that of copilot's own SDK (1.0.102, `ModelInfo`); a login
//! was not at hand. Without one copilot refuses, and a model API of the user's own has no list.

pub mod files;
pub mod history;
pub mod reader;
pub mod turn;
pub mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::turn::{CopilotCallResult, CopilotInput, CopilotSession};
use self::wire::{Api, CopilotProtocol, PROTOCOL};
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, Processes, Proof, ServerStart, SessionCall, SessionHome, WhyAnew,
};
use crate::host::{Heartbeat, Host, Patience};
use crate::live::setup::{ServerSetup, SetupParts};
use crate::live::thread::KnownThread;
use crate::print::{self, NotStarted, Surroundings};
use crate::rpc::RpcHost;
use dfp_model::message::{Content, Message};
use dfp_provider::command::{CommandLine, EnvText};
use dfp_provider::declare::{MAX_NAME, Tools};
use dfp_provider::models::ListedModel;
use dfp_text::redact::Secret;

/// One copilot process for all conversations.
#[derive(Debug, Default)]
pub struct Copilot;

impl AsRef<Host> for CopilotService {
    fn as_ref(&self) -> &Host {
        self.host()
    }
}

impl Form for Copilot {
    // About 3 MB each (1.0.102: 287 MB with 8, 262 MB with one).
    const PROCESSES: Processes = Processes::shared(100);

    const RETELLS: bool = true;

    const LISTS_MODELS: bool = true;

    type Session = CopilotSession;
    type Server = CopilotService;

    /// The thread's system messages are its system prompt, after that of the options.
    fn setup(parts: &SetupParts<'_>) -> CopilotSetup {
        let chosen = &parts.options.choices;
        let choices = CopilotChoices {
            effort: chosen.effort.clone(),
            searches_tools: chosen.searches_tools() && !parts.tools.is_empty(),
        };
        CopilotSetup::of(parts, Tools::new(parts.tools, MAX_NAME), choices)
    }

    fn whole(&self, call: &SessionCall<CopilotSetup>, _: &Caller<'_, Copilot>) -> io::Result<CopilotInput> {
        Ok(CopilotInput::Whole(Arc::clone(&call.thread), call.note.clone()))
    }

    /// Only results, and only of text: a message of the user's would be a prompt of copilot's, and images would be one
    /// ([`history`]).
    fn addition(call: &SessionCall<CopilotSetup>, known: &KnownThread) -> Result<CopilotInput, WhyAnew> {
        let new = call.thread.continuation(known).ok_or(WhyAnew::OtherThread)?;
        let is_text = |(_, result): &(_, &Message)| matches!(result.content, Content::Text(_));
        if new.results.is_empty() || !new.results.iter().all(is_text) || !new.rest.is_empty() || call.note.is_some() {
            return Err(WhyAnew::OtherThread);
        }
        let results = new.results.iter().map(|(call, result)| CopilotCallResult {
            call: call.api.clone(),
            text: history::result_of(result),
            is_error: result.is_error,
        });
        Ok(CopilotInput::Results(results.collect()))
    }

    fn session(&self, home: SessionHome<'_, Copilot>) -> Result<CopilotSession, NotStarted> {
        Ok(CopilotSession::new(home.shared()?))
    }

    async fn serve(&self, start: ServerStart<'_, Copilot>) -> Result<CopilotService, NotStarted> {
        CopilotService::start(&start.installed.line, (start.surroundings)(), start.closing).await
    }

    async fn models(service: &Arc<CopilotService>, _: ModelsAsked<'_>) -> ListedModels {
        list(service).await
    }

    fn proof(service: &CopilotService) -> Proof<'_> {
        let version = service.version.as_deref().unwrap_or("without a version");
        Proof::Probe(format!("copilot {version} speaks the protocol {}", PROTOCOL))
    }
}

/// The words that copilot puts before the reason of a refusal.
const REFUSAL: &str = "Request models.list failed with message: ";

#[derive(Deserialize)]
struct Listed {
    models: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopilotModel {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    capabilities: ModelCapabilities,
    #[serde(default)]
    supported_reasoning_efforts: Option<Vec<String>>,
    #[serde(default)]
    default_reasoning_effort: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelCapabilities {
    supports: Supports,
    limits: Limits,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Supports {
    vision: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Limits {
    max_context_window_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
}

/// The models that `service` lists.
///
/// # Errors
/// The reason why it does not tell.
async fn list(service: &CopilotService) -> ListedModels {
    if service.api.is_some() {
        return Err(
            "copilot lists the models of a GitHub login, and its environment names another model API".to_owned(),
        );
    }
    let refused = |reason: String| reason.strip_prefix(REFUSAL).unwrap_or(&reason).to_owned();
    service
        .server
        .listed("models.list", &json!({}), refused)
        .await
        .map(read)
}

fn read(Listed { models }: Listed) -> Vec<ListedModel> {
    let models = models.iter().filter_map(|model| CopilotModel::deserialize(model).ok());
    let models = models.map(|model| {
        let CopilotModel {
            id,
            name,
            capabilities: ModelCapabilities { supports, limits },
            ..
        } = model;
        let kinds = supports.vision.map(|sees| match sees {
            true => vec!["text".to_owned(), "image".to_owned()],
            false => vec!["text".to_owned()],
        });
        ListedModel {
            id,
            name,
            efforts: model.supported_reasoning_efforts.filter(|efforts| !efforts.is_empty()),
            default_effort: model.default_reasoning_effort,
            input_modalities: kinds,
            context_window: limits.max_context_window_tokens,
            max_output_tokens: limits.max_output_tokens,
            ..ListedModel::default()
        }
    });
    models.collect()
}

/// The setup of a session.
pub type CopilotSetup = ServerSetup<CopilotChoices>;

/// The choices that a session of copilot takes beside its model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopilotChoices {
    /// The model's level of reasoning, if it is chosen.
    pub effort: Option<String>,
    /// True if the model is told the names of the tools alone, and finds them by copilot's own search.
    pub searches_tools: bool,
}

/// The time that a server may take to answer: half a second on an idle machine, and 6 s if it unpacks itself first.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// The time for which a server that has served may leave a request unanswered that needs neither network nor model:
/// `session.resume` takes 40 to 210 ms.
const PATIENCE: Patience = Patience {
    first: HANDSHAKE,
    later: Duration::from_secs(15),
};
/// The variables of a model API, which sessions are told instead. Offline, a process without one does not start.
const TOLD_BY_SESSION: &[&str] = &[
    "COPILOT_OFFLINE",
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_WIRE_API",
    "COPILOT_PROVIDER_TRANSPORT",
    "COPILOT_PROVIDER_AZURE_API_VERSION",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_API_KEY_COMMAND",
    "COPILOT_PROVIDER_BEARER_TOKEN",
    "COPILOT_PROVIDER_HEADERS",
    "COPILOT_PROVIDER_MODEL_ID",
    "COPILOT_PROVIDER_WIRE_MODEL",
    "COPILOT_PROVIDER_MAX_PROMPT_TOKENS",
];

/// A server that is ready.
#[derive(Debug)]
pub struct CopilotService {
    /// The process.
    pub server: Arc<RpcHost<CopilotProtocol>>,
    /// copilot's version, if it tells one.
    pub version: Option<String>,
    /// The empty folder of its sessions.
    pub folder: String,
    /// The model API of its sessions, if that is the user's own.
    pub api: Option<Api>,
    /// The model that its environment names.
    pub model: Option<String>,
}

impl CopilotService {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn start(
        line: &CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
    ) -> Result<CopilotService, NotStarted> {
        let variable = |name: &str| {
            let value = print::variable(line, &surroundings.base_env, name)?;
            Some(value.to_string_lossy().into_owned()).filter(|value| !value.trim().is_empty())
        };
        let api = variable("COPILOT_PROVIDER_BASE_URL").map(|base_url| Api {
            base_url,
            kind: variable("COPILOT_PROVIDER_TYPE"),
            wire_api: variable("COPILOT_PROVIDER_WIRE_API"),
            transport: variable("COPILOT_PROVIDER_TRANSPORT"),
            azure_version: variable("COPILOT_PROVIDER_AZURE_API_VERSION"),
            key: variable("COPILOT_PROVIDER_API_KEY").map(Secret::new),
            key_command: variable("COPILOT_PROVIDER_API_KEY_COMMAND").map(Secret::new),
            bearer: variable("COPILOT_PROVIDER_BEARER_TOKEN").map(Secret::new),
            headers: variable("COPILOT_PROVIDER_HEADERS").map(Secret::new),
        });
        let model = variable("COPILOT_MODEL");
        let mut line = line.clone();
        if api.is_some() {
            told_by_session(&mut line);
        }
        let (server, version) = RpcHost::ready(line, surroundings, PATIENCE, cancel, handshake).await?;
        Ok(CopilotService {
            folder: server.folder(),
            server: Arc::new(server),
            version,
            api,
            model,
        })
    }

    /// The host of the process.
    pub fn host(&self) -> &Host {
        self.server.host()
    }

    /// Checks that the server answers.
    pub fn heartbeat(&self) -> Heartbeat {
        self.server.heartbeat("ping", &json!({}))
    }

    /// Stops the turn in progress in the session `id`.
    pub fn abort(&self, id: &str) {
        drop(self.server.post("session.abort", &wire::of_session(id)));
    }

    /// Makes the server forget the session `id`, and then removes its files.
    pub async fn forget(&self, id: &str) {
        let forgotten = self.server.request("session.destroy", &wire::of_session(id)).await;
        drop(forgotten);
        self.server.protocol().files.close(id);
    }
}

/// Removes a model API from the environment of `line`: it would be that of the process, which then needs a model before it
/// starts. The sessions are told it instead.
fn told_by_session(line: &mut CommandLine) {
    let is_told = |name: &str| TOLD_BY_SESSION.contains(&name);
    line.user_env.retain(|(name, _)| !is_told(name));
    line.set_env.retain(|(name, _)| !is_told(name));
    // An empty variable counts as not set.
    let unset = TOLD_BY_SESSION.iter().map(|name| (*name, EnvText::Text(String::new())));
    line.set_env.extend(unset);
}

/// Makes the handshake with `server`, and returns it with its version, if it tells one.
async fn handshake(server: RpcHost<CopilotProtocol>) -> Result<(RpcHost<CopilotProtocol>, Option<String>), NotStarted> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Connected {
        protocol_version: Option<Value>,
        version: Option<String>,
    }
    let refused = |reason| NotStarted::Unsupported(format!("it refuses: {reason}"));
    let answer = server.shake("connect", &json!({}), refused).await?;
    let connected: Option<Connected> = serde_json::from_str(answer.get()).ok();
    let spoken = connected.as_ref().and_then(|answer| answer.protocol_version.as_ref());
    if spoken.and_then(Value::as_u64) != Some(PROTOCOL) {
        let spoken = spoken.map_or_else(|| "none that it names".to_owned(), Value::to_string);
        let reason = format!("it speaks another protocol than {PROTOCOL}: {spoken}");
        return Err(NotStarted::Unsupported(reason));
    }
    let files = wire::set_files(&server.folder());
    server.shake("sessionFs.setProvider", &files, refused).await?;
    Ok((server, connected.and_then(|answer| answer.version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_the_shape_of_the_vendors_sdk() {
        let answer = json!({"models": [
            {"id": "claude-sonnet-5-5", "name": "Claude Sonnet 5.5", "billing": {"multiplier": 1},
             "capabilities": {"supports": {"vision": true, "reasoningEffort": true},
                              "limits": {"max_context_window_tokens": 200_000, "max_prompt_tokens": 128_000}},
             "supportedReasoningEfforts": ["low", "high"], "defaultReasoningEffort": "low"},
            {"id": 7},
            {"id": "plain"},
        ]});
        let sonnet = ListedModel {
            id: "claude-sonnet-5-5".to_owned(),
            name: Some("Claude Sonnet 5.5".to_owned()),
            efforts: Some(vec!["low".to_owned(), "high".to_owned()]),
            default_effort: Some("low".to_owned()),
            input_modalities: Some(vec!["text".to_owned(), "image".to_owned()]),
            context_window: Some(200_000),
            ..ListedModel::default()
        };
        let plain = ListedModel {
            id: "plain".to_owned(),
            ..ListedModel::default()
        };
        assert_eq!(read(serde_json::from_value(answer).unwrap()), [sonnet, plain]);
        assert!(serde_json::from_str::<Listed>("[]").is_err());
    }
}
