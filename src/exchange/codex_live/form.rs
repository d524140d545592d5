//! codex's app-server as a form.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;

use super::catalog::Keep;
use super::conversation::CodexConversation;
use super::recall::{Recall, Recalled, Scope};
use super::service::{CodexService, Plan, vendors_catalog};
use super::setup::Setup;
use super::tools;
use super::wire::ToolAnswer;
use super::work::{CodexTurnInput, ThreadWork};
use super::{items, native};
use crate::form::{
    Caller, Form, ProcessOptions, Proof, Server, ServerForm, ServerStart, SessionCall, WhyAnew, WorkParts,
};
use crate::host::{Host, NoHost};
use crate::installed::{Binary, Installed};
use crate::live::setup::{SYSTEM_PROMPT, SetupParts};
use crate::live::thread::{KnownThread, SessionThread, SystemMessages};
use crate::print::Surroundings;
use dfp_model::event::Reply;
use dfp_model::message::reasoning::Origin;
use dfp_model::message::{Message, MessageFields, Role};
use dfp_process::ProcessLimits;
use dfp_provider::choices::Choices;
use dfp_provider::command::CommandLine;
use dfp_provider::options::SystemPrompt;

/// The limits of the request for the model catalog: the time, and the bytes of its output. The catalog has 745 KB (0.169.0).
const CATALOG_LIMITS: (Duration, usize) = (Duration::from_secs(20), 32 * 1024 * 1024);

/// One codex process for all conversations.
#[derive(Debug, Default)]
pub struct Codex {
    /// The vendor's model catalog, and the binary that printed it.
    vendor: AsyncMutex<Option<(Binary, Arc<Value>)>>,
    recall: Mutex<Recall>,
}

/// The new part of a thread.
#[derive(Debug)]
pub struct CodexNew {
    /// The results of its calls, by the API's ids.
    results: Vec<(String, ToolAnswer)>,
    items: Vec<Value>,
}

impl Server for CodexService {
    fn host(&self) -> &Host {
        CodexService::host(self)
    }
}

impl Codex {
    /// The replies that are remembered.
    fn recall(&self) -> MutexGuard<'_, Recall> {
        self.recall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The vendor's model catalog, which is asked for once.
    async fn vendors_models(&self, start: &ServerStart<'_, Codex>) -> Arc<Value> {
        let Installed { line, binary } = start.installed;
        let mut known = self.vendor.lock().await;
        if let Some((_, vendor)) = known.as_ref().filter(|(of, _)| of == binary) {
            return Arc::clone(vendor);
        }
        let (timeout, max_stdout) = CATALOG_LIMITS;
        let around = surroundings(start);
        let around = Surroundings {
            limits: ProcessLimits {
                timeout: Some(timeout),
                max_stdout,
                ..around.limits
            },
            ..around
        };
        let vendor = Arc::new(vendors_catalog(line, around, start.closing).await);
        if !vendor.is_null() {
            *known = Some((binary.clone(), Arc::clone(&vendor)));
        }
        vendor
    }
}

/// The surroundings of a process. The program behind npm's script is another file, which needs no search.
fn surroundings(start: &ServerStart<'_, Codex>) -> Surroundings {
    let is_direct = Path::new(&start.installed.line.program).is_absolute();
    let around = (start.surroundings)();
    Surroundings {
        file: around.file.filter(|_| !is_direct),
        ..around
    }
}

/// The item for text that is said after a thread and is no part of it.
fn of_note(note: &str) -> Option<Value> {
    items::of_message(&Message::new(Role::System, note))
}

/// The model that answers, as far as it is known before its answer.
fn model_of(service: &CodexService, setup: &Setup) -> String {
    let model = setup.model.as_ref().or(service.config.model.as_ref());
    model.cloned().unwrap_or_default()
}

impl Form for Codex {
    const SYSTEM_MESSAGES: SystemMessages = SystemMessages::Leading;

    type Setup = Setup;
    type Session = CodexConversation;
    type Input = CodexNew;

    /// The thread's first system messages are its system prompt, after that of the options; later ones stay where they are.
    fn setup(parts: &SetupParts<'_>) -> Setup {
        let SetupParts { options, output, .. } = *parts;
        let own = match &options.system_prompt {
            SystemPrompt::Custom(own) => Some(own.as_str()),
            SystemPrompt::Default | SystemPrompt::Cli => None,
        };
        let texts: Vec<&str> = own.into_iter().chain(parts.system).collect();
        let system = match options.system_prompt {
            SystemPrompt::Default if texts.is_empty() => SYSTEM_PROMPT.to_owned(),
            _ => texts.join("\n\n"),
        };
        let system = match output.instruction() {
            Some(instruction) => format!("{system}\n\n{instruction}").trim_start().to_owned(),
            None => system,
        };
        let form = match options.tool_namespace {
            true => tools::CodexForm::Namespace,
            false => tools::CodexForm::Functions,
        };
        let own_instructions = options.system_prompt == SystemPrompt::Cli;
        let Choices { model, effort, .. } = options.choices.clone();
        Setup::new(system, own_instructions, model, parts.tools)
            .with_form(form)
            .with_effort(effort)
            .with_output(output.native().map(|schema| schema.value().clone()))
    }

    /// The server serves all choices: they are sent with each thread.
    fn options(_: Option<&Setup>, _: Option<&Choices>) -> ProcessOptions {
        ProcessOptions::default()
    }

    fn line(line: CommandLine, file: &Path) -> CommandLine {
        native::direct(line, file)
    }

    /// Only results, and messages that are not the model's.
    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<CodexNew, WhyAnew> {
        let new = call.thread.continuation(known).ok_or(WhyAnew::OtherThread)?;
        let can_be_sent = |message: &Message| !matches!(message.role, Role::Ai | Role::Tool);
        let items: Vec<Value> = new.rest.iter().filter_map(items::of_message).collect();
        let says_something = !new.results.is_empty() || !items.is_empty();
        if !says_something || !new.rest.iter().all(can_be_sent) {
            return Err(WhyAnew::OtherThread);
        }
        let results = new.results.iter();
        Ok(CodexNew {
            results: results
                .map(|(call, result)| (call.api.clone(), items::answer(result)))
                .collect(),
            items: items
                .into_iter()
                .chain(call.note.as_deref().and_then(of_note))
                .collect(),
        })
    }
}

impl ServerForm for Codex {
    /// About 1 MB each (0.169.0: 228 MB with 100, 130 MB without).
    const MOST_RESTING: usize = 100;

    type Server = CodexService;
    type TurnInput = CodexTurnInput;
    type Work = ThreadWork;

    fn serves(service: &CodexService, _: &Installed, setup: Option<&Setup>) -> bool {
        service.serves(setup.and_then(|setup| setup.model.as_deref()))
    }

    async fn start(&self, start: ServerStart<'_, Codex>) -> Result<CodexService, NoHost> {
        // With the models of the running servers, this one serves everything that they serve.
        let own = start.options.choices.model.as_deref();
        let chosen = start.setup.and_then(|setup| setup.model.as_deref());
        let known = start.others.iter().flat_map(|service| service.models());
        let models: Vec<&str> = own.into_iter().chain(chosen).chain(known).collect();
        let vendor = self.vendors_models(&start).await;
        let plan = Plan {
            line: &start.installed.line,
            vendor: &vendor,
            models,
            asks_config: own.is_none(),
            keep: Keep {
                instructions: start.options.system_prompt == SystemPrompt::Cli,
                tool_mode: start.options.tool_namespace,
            },
            with_config: !start.options.ignore_user_config,
        };
        CodexService::start(&plan, || surroundings(&start), start.closing).await
    }

    fn proof(service: &CodexService) -> Proof<'_> {
        Proof::Version(service.version.as_deref())
    }

    fn open(
        &self,
        service: Arc<CodexService>,
        call: &SessionCall<Setup>,
        caller: &Caller<'_, Setup>,
    ) -> CodexTurnInput {
        let model = model_of(&service, &call.setup);
        let scope = Scope {
            key: caller.key,
            login: caller.login,
            model: &model,
        };
        let messages = call.thread.messages();
        let recalled = self.recall().look_up(&scope, messages);
        let origin = Origin {
            provider: caller.provider.to_owned(),
            login: caller.login.map(str::to_owned),
            model,
        };
        let mut items = items::of_history(messages, &call.setup, &recalled, &origin);
        items.extend(call.note.as_deref().and_then(of_note));
        CodexTurnInput::Fresh { service, items }
    }

    fn resume(conversation: Box<CodexConversation>, CodexNew { results, items }: CodexNew) -> CodexTurnInput {
        CodexTurnInput::Continued {
            conversation,
            results,
            items,
        }
    }

    fn server(conversation: &CodexConversation) -> &Arc<CodexService> {
        &conversation.service
    }

    fn work(opening: CodexTurnInput, parts: WorkParts<'_, Setup>) -> ThreadWork {
        ThreadWork::new(opening, parts)
    }

    fn remember(
        &self,
        recalled: Recalled,
        reply: &Reply,
        thread: &SessionThread,
        service: &CodexService,
        caller: &Caller<'_, Setup>,
    ) {
        let answer = Message::from(MessageFields {
            tool_calls: reply.tool_calls.clone(),
            ..MessageFields::new(Role::Ai, &reply.content)
        });
        let whole: Vec<&Message> = thread.messages().iter().chain([&answer]).collect();
        let scope = Scope {
            key: caller.key,
            login: caller.login,
            model: &model_of(service, &caller.key.setup),
        };
        self.recall().keep(&scope, &whole, &recalled);
    }

    fn forget(&self) {
        self.recall().close();
    }
}
