//! The live engine of codex: one `codex app-server` for all conversations of a provider, over its JSON-RPC on standard streams.
//!
//! In: a [`SessionThread`] and a [`CodexSetup`]. Out: the events of one turn after the other. The caller's tools are codex's dynamic
//! tools ([`settings`]): codex asks for their results ([`wire`]) and waits, which ends a reply here with its calls pending and nothing
//! run. The results answer those requests. A history that no thread knows is injected as the API's own items ([`items`]), with the
//! model's reasoning if it is known; one whose last reply is known is resumed under its id ([`rollout`]).
//!
//! A [`CodexService`] is a ready server: in a home of links, started without npm's script in between, with a model catalog that leaves
//! tools and history alone. A [`CodexSession`] has one of its [threads](conversation), and takes one turn after the other; a
//! [`reader::CodexTurnReader`] makes events from the server's messages. All facts are those of CODEX-LIVE, measured with 0.150.0 and
//! 0.169.0.
//!
//! The models of a login are read from the answer to `model/list`, which codex gives from its catalog, without a network (0.169.0, 2 ms).

pub mod conversation;
pub mod inbound;
pub mod items;
pub mod reader;
pub mod rollout;
pub mod service;
pub mod settings;
pub mod turn;
pub mod wire;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;

use self::rollout::{Recall, RecallScope};
use self::service::{CodexService, Keep, Plan, vendors_catalog};
use self::settings::{CodexChoices, CodexForm, CodexSetup};
use self::turn::{CodexInput, CodexReplyFacts, CodexSession, asked_model};
use self::wire::ModelList;
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, Processes, Proof, ServerStart, SessionCall, SessionHome, WhyAnew,
};
use crate::host::Host;
use crate::installed::{Binary, Installed};
use crate::live::kept::{KeptReplies, StoreRefused, blocking};
use crate::live::setup::SetupParts;
use crate::live::thread::{KnownThread, SessionThread, SystemMessages};
use crate::print::{NotStarted, Surroundings};
use dfp_model::event::Reply;
use dfp_model::message::reasoning::Origin;
use dfp_model::message::{Message, MessageFields, Role};
use dfp_process::ProcessLimits;
use dfp_provider::command::CommandLine;
use dfp_provider::models::ListedModel;
use dfp_provider::options::SystemPrompt;

/// The limits of the request for the model catalog: the time, and the bytes of its output. The catalog has 745 KB (0.169.0).
const CATALOG_LIMITS: (Duration, usize) = (Duration::from_secs(20), 32 * 1024 * 1024);

/// One codex process for all conversations.
#[derive(Debug, Default)]
pub struct Codex {
    /// The vendor's model catalog, and the binary that printed it.
    vendor: AsyncMutex<Option<(Binary, Arc<Value>)>>,
    recall: Arc<Recall>,
}

impl AsRef<Host> for CodexService {
    fn as_ref(&self) -> &Host {
        self.host()
    }
}

impl Codex {
    /// The form of a provider that keeps `replies`.
    pub fn keeping(replies: KeptReplies) -> Codex {
        Codex {
            recall: Arc::new(Recall(replies)),
            ..Codex::default()
        }
    }

    fn scope<'a>(&self, caller: &Caller<'a, Codex>, model: &'a str) -> RecallScope<'a> {
        RecallScope {
            key: caller.key,
            login: caller.login,
            model,
            owner: self.recall.0.owner(),
        }
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
    let is_direct = start.installed.line.launch.is_none() && Path::new(&start.installed.line.program).is_absolute();
    let around = (start.surroundings)();
    Surroundings {
        file: around.file.filter(|_| !is_direct),
        ..around
    }
}

/// The model that answers `call`, as far as that is known.
fn model_of(call: &SessionCall<CodexSetup>, caller: &Caller<'_, Codex>) -> String {
    let service = caller.server.map(|service| asked_model(service, &call.setup));
    service.unwrap_or_default()
}

/// The item for text that is said after a thread and is no part of it.
fn of_note(note: &str) -> Option<Value> {
    items::of_message(&Message::new(Role::System, note))
}

impl Form for Codex {
    const SYSTEM_MESSAGES: SystemMessages = SystemMessages::Leading;

    // About 1 MB each (0.169.0: 228 MB with 100, 130 MB without).
    const PROCESSES: Processes = Processes::shared(100);

    const RETELLS: bool = true;

    const LISTS_MODELS: bool = true;

    type Session = CodexSession;
    type Server = CodexService;

    /// The thread's first system messages are its system prompt, after that of the options; later ones stay where they are.
    fn setup(parts: &SetupParts<'_>) -> CodexSetup {
        let options = parts.options;
        let chosen = &options.choices;
        let choices = CodexChoices {
            effort: chosen.effort.clone(),
            service_tier: chosen.service_tier.clone(),
            form: match options.tool_namespace {
                true => CodexForm::Namespace,
                false => CodexForm::Functions,
            },
            searches_web: chosen.searches_web(),
            output: parts.output.native().map(|schema| schema.value().clone()),
        };
        let setup = CodexSetup::of(parts, settings::declare(parts.tools), choices);
        CodexSetup {
            system: setup.system.filter(|text| !text.is_empty()),
            ..setup
        }
    }

    fn line(line: CommandLine, file: &Path) -> CommandLine {
        service::direct_program(line, file)
    }

    fn whole(&self, call: &SessionCall<CodexSetup>, caller: &Caller<'_, Codex>) -> io::Result<CodexInput> {
        let model = model_of(call, caller);
        let scope = self.scope(caller, &model);
        let messages = call.thread.messages();
        let recalled = self.recall.look_up(&scope, messages);
        let origin = Origin {
            provider: caller.provider.to_owned(),
            login: caller.login.map(str::to_owned),
            model,
        };
        let note = call.note.as_deref().and_then(of_note);
        let resumes = caller.server.is_some_and(|service| service.resumes().is_some());
        let known = match resumes {
            true => items::of_thread(messages, &call.setup, &recalled, &origin),
            false => None,
        };
        let items = match known {
            Some(_) => Vec::new(),
            None => items::of_history(messages, &call.setup, &recalled, &origin),
        };
        Ok(CodexInput {
            results: Vec::new(),
            items: items.into_iter().chain(note).collect(),
            known,
        })
    }

    /// Only results, and messages that are not the model's.
    fn addition(call: &SessionCall<CodexSetup>, known: &KnownThread) -> Result<CodexInput, WhyAnew> {
        let new = call.thread.new_words(known)?;
        let items: Vec<Value> = new.rest.iter().filter_map(items::of_message).collect();
        if new.results.is_empty() && items.is_empty() {
            return Err(WhyAnew::OtherThread);
        }
        let results = new.results.iter();
        Ok(CodexInput {
            results: results
                .map(|(call, result)| (call.api.clone(), items::answer(result)))
                .collect(),
            items: items
                .into_iter()
                .chain(call.note.as_deref().and_then(of_note))
                .collect(),
            known: None,
        })
    }

    fn session(&self, home: SessionHome<'_, Codex>) -> Result<CodexSession, NotStarted> {
        Ok(CodexSession::new(home.shared()?))
    }

    fn serves(service: &CodexService, _: &Installed, setup: Option<&CodexSetup>) -> bool {
        service.serves(setup.and_then(|setup| setup.model.as_deref()))
    }

    async fn serve(&self, start: ServerStart<'_, Codex>) -> Result<CodexService, NotStarted> {
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

    async fn models(server: &Arc<CodexService>, _: ModelsAsked<'_>) -> ListedModels {
        list(server, false).await
    }

    fn proof(service: &CodexService) -> Proof<'_> {
        Proof::Version(service.version.as_deref())
    }

    fn remember(&self, known: CodexReplyFacts, reply: &Reply, thread: &SessionThread, caller: &Caller<'_, Codex>) {
        let CodexReplyFacts { recalled, model } = known;
        let answer = Message::from(MessageFields {
            tool_calls: reply.tool_calls.clone(),
            ..MessageFields::new(Role::Ai, &reply.content)
        });
        let whole: Vec<&Message> = thread.messages().iter().chain([&answer]).collect();
        let scope = self.scope(caller, &model);
        self.recall.keep(&scope, &whole, &recalled);
    }

    async fn recollect(&self, call: &SessionCall<CodexSetup>, caller: &Caller<'_, Codex>) -> Result<(), StoreRefused> {
        if self.recall.0.store().is_none() {
            return Ok(());
        }
        let chain = self.scope(caller, &model_of(call, caller)).chain();
        let (recall, thread) = (Arc::clone(&self.recall), Arc::clone(&call.thread));
        blocking(move || {
            recall.0.open()?;
            recall.fetch(chain, thread.messages());
            Ok(())
        })
        .await
    }

    fn kept(&self) -> Option<&KeptReplies> {
        Some(&self.recall.0)
    }

    fn forget(&self) {
        self.recall.0.close();
    }
}

/// The number of pages that are read: 0.169.0 has one.
const MOST_PAGES: usize = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    data: Vec<Value>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodexModel {
    id: String,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    supported_reasoning_efforts: Option<Vec<CodexEffort>>,
    #[serde(default)]
    default_reasoning_effort: Option<String>,
    #[serde(default)]
    input_modalities: Option<Vec<String>>,
    /// The tiers that codex hands to the API, beside the usual one.
    #[serde(default)]
    service_tiers: Option<Vec<CodexTier>>,
    #[serde(default)]
    is_default: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodexEffort {
    reasoning_effort: String,
}

#[derive(Deserialize)]
struct CodexTier {
    id: String,
}

/// The models that `service` lists; `with_hidden`: those as well that codex shows to nobody.
///
/// # Errors
/// The reason why it does not tell.
async fn list(service: &CodexService, with_hidden: bool) -> ListedModels {
    let mut models = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let asked = ModelList {
            include_hidden: with_hidden,
            cursor,
        };
        let refused = |reason| format!("it refuses model/list: {reason}");
        let page: Page = service.server.listed("model/list", &asked, refused).await?;
        models.extend(page.data.iter().filter_map(read));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(models)
}

/// Reads one model of the list.
fn read(model: &Value) -> Option<ListedModel> {
    let model = CodexModel::deserialize(model).ok()?;
    let efforts = model.supported_reasoning_efforts.map(|efforts| {
        let efforts = efforts.into_iter().map(|effort| effort.reasoning_effort);
        efforts.collect::<Vec<_>>()
    });
    let efforts = efforts.filter(|efforts| !efforts.is_empty());
    let tiers = model.service_tiers;
    Some(ListedModel {
        resolves_to: model.model.filter(|full| *full != model.id),
        id: model.id,
        name: model.display_name,
        description: model.description.filter(|words| !words.is_empty()),
        is_default: model.is_default,
        default_effort: model.default_reasoning_effort.filter(|_| efforts.is_some()),
        efforts,
        service_tiers: tiers.map(|tiers| tiers.into_iter().map(|tier| tier.id).collect()),
        input_modalities: model.input_modalities,
        ..ListedModel::default()
    })
}
