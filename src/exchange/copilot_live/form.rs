//! copilot's headless server as a form.

use std::sync::Arc;

use super::conversation::CopilotConversation;
use super::history;
use super::service::CopilotService;
use super::setup::Setup;
use super::work::{CopilotCallResult, CopilotSessionWork, CopilotTurnInput};
use crate::form::{
    Caller, Form, ProcessOptions, Proof, Server, ServerForm, ServerStart, SessionCall, WhyAnew, WorkParts,
};
use crate::host::{Host, NoHost};
use crate::installed::Installed;
use crate::live::setup::{SYSTEM_PROMPT, SetupParts};
use crate::live::thread::KnownThread;
use dfp_model::message::{Content, Message};
use dfp_provider::choices::Choices;
use dfp_provider::options::SystemPrompt;

/// One copilot process for all conversations.
#[derive(Debug, Default)]
pub struct Copilot;

impl Server for CopilotService {
    fn host(&self) -> &Host {
        CopilotService::host(self)
    }
}

impl Form for Copilot {
    type Setup = Setup;
    type Session = CopilotConversation;
    type Input = Vec<CopilotCallResult>;

    /// The thread's system messages are its system prompt, after that of the options.
    fn setup(parts: &SetupParts<'_>) -> Setup {
        let SetupParts { options, output, .. } = *parts;
        let own = match &options.system_prompt {
            SystemPrompt::Custom(own) => Some(own.as_str()),
            SystemPrompt::Default | SystemPrompt::Cli => None,
        };
        let instruction = output.instruction();
        let texts: Vec<&str> = own.into_iter().chain(parts.system).collect();
        let ours = (options.system_prompt == SystemPrompt::Default && texts.is_empty()).then_some(SYSTEM_PROMPT);
        let texts = ours.into_iter().chain(texts).chain(instruction.as_deref());
        let texts: Vec<&str> = texts.collect();
        let own_instructions = options.system_prompt == SystemPrompt::Cli;
        let Choices { model, effort, .. } = options.choices.clone();
        Setup {
            model,
            effort,
            ..Setup::new(
                (!texts.is_empty()).then(|| texts.join("\n\n")),
                own_instructions,
                parts.tools,
            )
        }
    }

    /// The server serves all choices: they are sent with each session.
    fn options(_: Option<&Setup>, _: Option<&Choices>) -> ProcessOptions {
        ProcessOptions::default()
    }

    /// Only results, and only of text: a message of the user's would be a prompt of copilot's, and images would be one
    /// ([`history`]).
    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<Vec<CopilotCallResult>, WhyAnew> {
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
        Ok(results.collect())
    }
}

impl ServerForm for Copilot {
    /// About 3 MB each (1.0.102: 287 MB with 8, 262 MB with one).
    const MOST_RESTING: usize = 100;

    type Server = CopilotService;
    type TurnInput = CopilotTurnInput;
    type Work = CopilotSessionWork;

    fn serves(_: &CopilotService, _: &Installed, _: Option<&Setup>) -> bool {
        true
    }

    async fn start(&self, start: ServerStart<'_, Copilot>) -> Result<CopilotService, NoHost> {
        CopilotService::start(&start.installed.line, (start.surroundings)(), start.closing).await
    }

    fn proof(service: &CopilotService) -> Proof<'_> {
        let version = service.version.as_deref().unwrap_or("without a version");
        Proof::Probe(format!(
            "copilot {version} speaks the protocol {}",
            super::wire::PROTOCOL
        ))
    }

    fn open(&self, service: Arc<CopilotService>, call: &SessionCall<Setup>, _: &Caller<'_, Setup>) -> CopilotTurnInput {
        CopilotTurnInput::Fresh {
            service,
            thread: Arc::clone(&call.thread),
            note: call.note.clone(),
        }
    }

    fn resume(conversation: Box<CopilotConversation>, results: Vec<CopilotCallResult>) -> CopilotTurnInput {
        CopilotTurnInput::Continued { conversation, results }
    }

    fn server(conversation: &CopilotConversation) -> &Arc<CopilotService> {
        &conversation.service
    }

    fn work(input: CopilotTurnInput, parts: WorkParts<'_, Setup>) -> CopilotSessionWork {
        CopilotSessionWork::new(input, parts)
    }
}
