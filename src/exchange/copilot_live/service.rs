//! A ready copilot server: it speaks the protocol that is understood here, and has its sessions' files here.
//!
//! In: a command line of `copilot --headless --stdio`. Out: a [`CopilotService`], or the reason why there is none.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::inbound::CopilotProtocol;
use super::wire::{self, Api, PROTOCOL};
use crate::host::{Heartbeat, Host, Patience};
use crate::print::{self, NotStarted, Surroundings};
use crate::rpc::RpcHost;
use dfp_provider::command::{CommandLine, EnvText};
use dfp_text::redact::Secret;

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
