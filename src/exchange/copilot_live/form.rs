//! copilot's headless server as a form.

use std::io;
use std::sync::Arc;

use super::history;
use super::models;
use super::service::CopilotService;
use super::setup::Setup;
use super::turn::{CopilotCallResult, CopilotInput, CopilotSession};
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, ProcessOptions, Processes, Proof, Retold, ServerStart, SessionCall,
    SessionHome, WhyAnew,
};
use crate::host::Host;
use crate::live::setup::SetupParts;
use crate::live::thread::KnownThread;
use crate::print::NotStarted;
use dfp_model::message::{Content, Message};
use dfp_provider::choices::Choices;
use dfp_provider::options::SystemPrompt;

/// One copilot process for all conversations.
#[derive(Debug, Default)]
pub struct Copilot;

impl AsRef<Host> for CopilotService {
    fn as_ref(&self) -> &Host {
        self.host()
    }
}

impl Form for Copilot {
    const PROCESSES: Processes = Processes::Shared {
        // About 3 MB each (1.0.102: 287 MB with 8, 262 MB with one).
        most_resting: 100,
        most_servers: usize::MAX,
        serves_when_grown: false,
    };

    const LISTS_MODELS: bool = true;

    type Session = CopilotSession;
    type Server = CopilotService;

    /// The thread's system messages are its system prompt, after that of the options.
    fn setup(parts: &SetupParts<'_>) -> Setup {
        let options = parts.options;
        let own_instructions = options.system_prompt == SystemPrompt::Cli;
        let Choices { model, effort, .. } = options.choices.clone();
        Setup {
            model,
            effort,
            searches_tools: options.choices.searches_tools() && !parts.tools.is_empty(),
            ..Setup::new(parts.system_prompt(), own_instructions, parts.tools)
        }
    }

    /// The server serves all choices: they are sent with each session.
    fn options(_: Option<&Setup>, _: Option<&Choices>) -> ProcessOptions {
        ProcessOptions::default()
    }
    fn retold(_: &CopilotInput) -> Retold {
        Retold::Natively
    }

    fn whole(&self, call: &SessionCall<Setup>, _: &Caller<'_, Copilot>) -> io::Result<CopilotInput> {
        Ok(CopilotInput::Whole(Arc::clone(&call.thread), call.note.clone()))
    }

    /// Only results, and only of text: a message of the user's would be a prompt of copilot's, and images would be one
    /// ([`history`]).
    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<CopilotInput, WhyAnew> {
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
        models::list(service).await
    }

    fn proof(service: &CopilotService) -> Proof<'_> {
        let version = service.version.as_deref().unwrap_or("without a version");
        Proof::Probe(format!(
            "copilot {version} speaks the protocol {}",
            super::wire::PROTOCOL
        ))
    }
}
