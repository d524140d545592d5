//! opencode's server as a form.

use std::io;
use std::sync::Arc;

use super::history;
use super::models;
use super::service::OpencodeService;
use super::setup::Setup;
use super::turn::{OpencodeInput, OpencodeSession, with_note};
use super::wire::InputPart;
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, ProcessOptions, Processes, Proof, Retold, ServerStart, SessionCall,
    SessionHome, WhyAnew,
};
use crate::host::Host;
use crate::installed::Installed;
use crate::live::setup::SetupParts;
use crate::live::thread::KnownThread;
use crate::print::NotStarted;
use dfp_provider::choices::Choices;

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
