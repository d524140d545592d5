//! opencode's server as a form, the setup of its sessions, and the caller's tools in it.
//!
//! The tools are declared by an MCP server of ours. MCP servers belong to a folder of the server's ([`ToolSet`], OTHER-LIVE 1.5), so
//! conversations with other tools have another one. Ours only declares: a call that got past the permission would be answered with an
//! error, and nothing would run.

use std::io;
use std::sync::Arc;

use super::service::OpencodeService;
use super::turn::{OpencodeInput, OpencodeSession, with_note};
use super::wire::InputPart;
use super::{history, models};
use crate::bridge::Bridge;
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, ProcessOptions, Processes, Proof, Retold, ServerStart, SessionCall,
    SessionHome, WhyAnew,
};
use crate::host::Host;
use crate::installed::Installed;
use crate::live::setup::SetupParts;
use crate::live::thread::KnownThread;
use crate::print::NotStarted;
use dfp_model::message::ToolSpec;
use dfp_provider::choices::Choices;
use dfp_provider::declare::mcp::{Declarations, SERVER};

/// One opencode process for all conversations.
#[derive(Debug)]
pub struct Opencode;

impl AsRef<Host> for OpencodeService {
    fn as_ref(&self) -> &Host {
        self.host()
    }
}

impl Form for Opencode {
    const PROCESSES: Processes = Processes::Shared {
        most_resting: 100,
        most_servers: usize::MAX,
        serves_when_grown: false,
    };

    const LISTS_MODELS: bool = true;

    type Session = OpencodeSession;
    type Server = OpencodeService;

    /// All system messages are the system prompt, after that of the options: opencode has no other place for them.
    fn setup(parts: &SetupParts<'_>) -> Setup {
        let system = parts.system_prompt().unwrap_or_default();
        let chosen = &parts.options.choices;
        Setup {
            variant: chosen.effort.clone(),
            schema: parts.output.native().map(|schema| schema.text().to_owned()),
            ..Setup::new(system, chosen.model.as_deref(), parts.tools)
        }
    }

    fn options(_: Option<&Setup>, choices: Option<&Choices>) -> ProcessOptions {
        ProcessOptions {
            choices: choices.cloned(),
            system_prompt: None,
        }
    }
    fn retold(_: &OpencodeInput) -> Retold {
        Retold::Natively
    }

    fn whole(&self, call: &SessionCall<Setup>, _: &Caller<'_, Opencode>) -> io::Result<OpencodeInput> {
        Ok(OpencodeInput::Whole(Arc::clone(&call.thread), call.note.clone()))
    }

    /// Only results, and messages that are not the model's.
    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<OpencodeInput, WhyAnew> {
        let new = call.thread.new_words(known)?;
        let messages = new.rest.iter().map(history::user_parts);
        let messages: Vec<Vec<InputPart>> = messages.filter(|parts| !parts.is_empty()).collect();
        if new.results.is_empty() && messages.is_empty() {
            return Err(WhyAnew::OtherThread);
        }
        let results = new.results.iter();
        let results = results.map(|(call, result)| (call.api.clone(), history::result(result)));
        Ok(OpencodeInput::New(
            results.collect(),
            with_note(messages, call.note.clone()),
        ))
    }

    fn session(&self, home: SessionHome<'_, Opencode>) -> Result<OpencodeSession, NotStarted> {
        Ok(OpencodeSession::new(home.shared()?))
    }

    /// The choices of its model are on its command line.
    fn serves(service: &OpencodeService, installed: &Installed, _: Option<&Setup>) -> bool {
        service.line == installed.line
    }

    async fn serve(&self, start: ServerStart<'_, Opencode>) -> Result<OpencodeService, NotStarted> {
        let line = start.installed.line.clone();
        OpencodeService::start(line, (start.surroundings)(), start.closing).await
    }

    async fn models(service: &Arc<OpencodeService>, asked: ModelsAsked<'_>) -> ListedModels {
        models::list(service, asked.options.choices.model.is_some()).await
    }

    fn proof(service: &OpencodeService) -> Proof<'_> {
        let version = &service.version;
        Proof::Probe(format!("it is opencode {version}, which does what is needed"))
    }

    /// Makes the folder ahead. If it can't be loaded, the call itself will report that.
    async fn prepare(service: &OpencodeService, setup: &Setup) {
        if let Ok(set) = service.tool_set(&setup.tools).await {
            let _ = service.warm(&set.directory).await;
        }
    }
}

/// The setup of a session. Sessions with different setups are not exchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The system prompt, sent with every message; empty if there is none.
    pub system: String,
    /// The model, if one is chosen.
    pub model: Option<Model>,
    /// The variant of the model: its effort.
    pub variant: Option<String>,
    /// The schema of the answer, as JSON.
    pub schema: Option<String>,
    pub tools: Declarations,
}

/// A model as opencode names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Model {
    /// The model's provider in opencode's configuration.
    #[serde(rename = "providerID")]
    pub provider: String,
    /// The model's name there.
    #[serde(rename = "modelID")]
    pub id: String,
}

impl Setup {
    /// Makes the setup of a session whose `model` is written `provider/model`.
    pub fn new(system: String, model: Option<&str>, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            model: model.and_then(Model::read),
            variant: None,
            schema: None,
            tools: Declarations::new(tools),
        }
    }
}

impl Model {
    /// Reads a name of the form `provider/model`.
    pub fn read(name: &str) -> Option<Model> {
        let (provider, id) = name.split_once('/')?;
        Some(Model {
            provider: provider.to_owned(),
            id: id.to_owned(),
        })
    }
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.id)
    }
}

/// The prefix that opencode puts before the names of our server's tools.
pub const PREFIX: &str = "df_";

/// Tools, and the folder in which they are declared.
#[derive(Debug)]
pub struct ToolSet {
    pub tools: Declarations,
    /// The folder of the sessions that have these tools.
    pub directory: String,
    /// The MCP server that declares them; `None` if there are none.
    pub bridge: Option<Bridge>,
}

/// The caller's name of the tool that opencode calls `name`; `None` for any other.
pub fn callers_name<'a>(tools: &'a Declarations, name: &str) -> Option<&'a str> {
    tools.known(name.strip_prefix(PREFIX)?)
}

/// The name that opencode gives the caller's tool `name`.
pub fn wire_name(tools: &Declarations, name: &str) -> String {
    format!("{SERVER}_{}", tools.wire_name(name))
}
