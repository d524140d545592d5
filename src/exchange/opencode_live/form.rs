//! opencode's server as a form.

use std::sync::Arc;

use super::history;
use super::service::OpencodeService;
use super::session::OpencodeSession;
use super::setup::Setup;
use super::wire::{InputPart, OpencodeCallResult};
use super::work::{OpencodeSessionWork, OpencodeTurnInput, with_note};
use crate::form::{
    Caller, Form, ProcessOptions, Proof, Server, ServerForm, ServerStart, SessionCall, TurnTarget, WhyAnew, WorkParts,
};
use crate::host::{Host, NoHost};
use crate::installed::Installed;
use crate::live::setup::{SYSTEM_PROMPT, SetupParts};
use crate::live::thread::KnownThread;
use dfp_model::message::{Message, Role};
use dfp_provider::choices::Choices;
use dfp_provider::options::SystemPrompt;

/// One opencode process for all conversations.
#[derive(Debug)]
pub struct Opencode;

/// The new part of a thread for a session.
#[derive(Debug)]
pub struct OpencodeNew {
    /// The results of its calls, by the API's ids.
    results: Vec<(String, OpencodeCallResult)>,
    /// The messages after the results.
    messages: Vec<Vec<InputPart>>,
}

impl Server for OpencodeService {
    fn host(&self) -> &Host {
        OpencodeService::host(self)
    }
}

impl Form for Opencode {
    type Setup = Setup;
    type Session = OpencodeSession;
    type Input = OpencodeNew;

    /// All system messages are the system prompt, after that of the options: opencode has no other place for them.
    fn setup(parts: &SetupParts<'_>) -> Setup {
        let options = parts.options;
        let own = match &options.system_prompt {
            SystemPrompt::Custom(own) => Some(own.as_str()),
            SystemPrompt::Default | SystemPrompt::Cli => None,
        };
        let mut texts: Vec<&str> = own.into_iter().chain(parts.system).collect();
        if texts.is_empty() && options.system_prompt == SystemPrompt::Default {
            texts.push(SYSTEM_PROMPT);
        }
        let instruction = parts.output.instruction();
        texts.extend(instruction.as_deref());
        Setup::new(texts.join("\n\n"), options.choices.model.as_deref(), parts.tools)
    }

    fn options(_: Option<&Setup>, choices: Option<&Choices>) -> ProcessOptions {
        ProcessOptions {
            choices: choices.cloned(),
            system_prompt: None,
        }
    }

    /// Only results, and messages that are not the model's.
    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<OpencodeNew, WhyAnew> {
        let new = call.thread.continuation(known).ok_or(WhyAnew::OtherThread)?;
        let can_be_sent = |message: &Message| !matches!(message.role, Role::Ai | Role::Tool);
        let messages = new.rest.iter().map(history::user_parts);
        let messages: Vec<Vec<InputPart>> = messages.filter(|parts| !parts.is_empty()).collect();
        let says_something = !new.results.is_empty() || !messages.is_empty();
        if !says_something || !new.rest.iter().all(can_be_sent) {
            return Err(WhyAnew::OtherThread);
        }
        let results = new.results.iter();
        Ok(OpencodeNew {
            results: results
                .map(|(call, result)| (call.api.clone(), history::result(result)))
                .collect(),
            messages: with_note(messages, call.note.clone()),
        })
    }
}

impl ServerForm for Opencode {
    const MOST_RESTING: usize = 100;

    type Server = OpencodeService;
    type TurnInput = OpencodeTurnInput;
    type Work = OpencodeSessionWork;

    /// The choices of its model are on its command line.
    fn serves(service: &OpencodeService, installed: &Installed, _: Option<&Setup>) -> bool {
        service.line == installed.line
    }

    async fn start(&self, start: ServerStart<'_, Opencode>) -> Result<OpencodeService, NoHost> {
        let line = start.installed.line.clone();
        OpencodeService::start(line, (start.surroundings)(), start.closing).await
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

    async fn blind_model(place: &TurnTarget<OpencodeSession, OpencodeService>, setup: &Setup) -> Option<String> {
        let (service, model, set) = match place {
            TurnTarget::Session(session) => (&session.service, session.model.clone()?, Arc::clone(&session.set)),
            TurnTarget::Server(service) => {
                let set = service.tool_set(&setup.tools).await.ok()?;
                let model = service.model(setup.model.as_ref(), &set.directory).await?;
                (service, model, set)
            }
        };
        // If the server can't be asked, the turn itself will report that.
        let takes = service.takes_images(&model, &set.directory).await.ok()?;
        (!takes).then(|| format!("opencode's model {model} (by its `modalities.input`)"))
    }

    fn open(
        &self,
        service: Arc<OpencodeService>,
        call: &SessionCall<Setup>,
        _: &Caller<'_, Setup>,
    ) -> OpencodeTurnInput {
        OpencodeTurnInput::Fresh {
            service,
            thread: Arc::clone(&call.thread),
            note: call.note.clone(),
        }
    }

    fn resume(session: Box<OpencodeSession>, OpencodeNew { results, messages }: OpencodeNew) -> OpencodeTurnInput {
        OpencodeTurnInput::Continued {
            session,
            results,
            messages,
        }
    }

    fn server(session: &OpencodeSession) -> &Arc<OpencodeService> {
        &session.service
    }

    fn work(opening: OpencodeTurnInput, parts: WorkParts<'_, Setup>) -> OpencodeSessionWork {
        OpencodeSessionWork::new(opening, parts)
    }
}
