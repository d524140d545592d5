//! The live engine of opencode: one `opencode serve` for all conversations of a provider, over HTTP on the loopback interface.
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread) and an [`OpencodeSetup`]. Out: the events of one turn after the
//! other. An MCP server of ours declares the caller's tools, and nobody may run them: opencode asks for permission, is answered
//! `reject`, and ends its turn with the calls unexecuted ([`reader`]). Their results are written over the rejected calls, and the next
//! message continues from there: nothing is held open, for however long. A history that no session knows is replayed natively
//! ([`history`]).
//!
//! MCP servers belong to a folder of the server's ([`ToolSet`], OTHER-LIVE 1.5), so conversations with other tools have another one. Ours
//! only declares: a call that got past the permission would be answered with an error, and nothing would run.
//!
//! An [`OpencodeService`] is a ready server; an [`OpencodeSession`] is one of its conversations, which takes one turn after
//! the other. All facts are those of OTHER-LIVE §1, measured with 1.18.34.
//!
//! The models are in the answer to `GET /provider`, which needs no network. Only those of connected model providers are listed: the
//! others are opencode's catalog, and not the user's (1.18.34).

pub mod history;
pub mod inbound;
pub mod reader;
pub mod server;
pub mod service;
pub mod turn;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use self::inbound::{optional, text};
use self::server::InputPart;
use self::service::OpencodeService;
use self::turn::{OpencodeInput, OpencodeSession, with_note};
use crate::bridge::Bridge;
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, ProcessOptions, Processes, Proof, ServerStart, SessionCall, SessionHome,
    WhyAnew,
};
use crate::host::Host;
use crate::installed::Installed;
use crate::live::setup::SetupParts;
use crate::live::thread::KnownThread;
use crate::print::NotStarted;
use dfp_model::message::ToolSpec;
use dfp_provider::choices::Choices;
use dfp_provider::declare::mcp::{Declarations, SERVER};
use dfp_provider::models::{ListedModel, ModelPrice};
use dfp_text::decode::json::Text;

/// One opencode process for all conversations.
#[derive(Debug)]
pub struct Opencode;

impl AsRef<Host> for OpencodeService {
    fn as_ref(&self) -> &Host {
        self.host()
    }
}

impl Form for Opencode {
    const PROCESSES: Processes = Processes::shared(100);

    const RETELLS: bool = true;

    const LISTS_MODELS: bool = true;

    type Session = OpencodeSession;
    type Server = OpencodeService;

    /// All system messages are the system prompt, after that of the options: opencode has no other place for them.
    fn setup(parts: &SetupParts<'_>) -> OpencodeSetup {
        let system = parts.system_prompt().unwrap_or_default();
        let chosen = &parts.options.choices;
        OpencodeSetup {
            variant: chosen.effort.clone(),
            schema: parts.output.native().map(|schema| schema.text().to_owned()),
            ..OpencodeSetup::new(system, chosen.model.as_deref(), parts.tools)
        }
    }

    fn options(_: Option<&OpencodeSetup>, choices: Option<&Choices>) -> ProcessOptions {
        ProcessOptions {
            choices: choices.cloned(),
            system_prompt: None,
        }
    }

    fn whole(&self, call: &SessionCall<OpencodeSetup>, _: &Caller<'_, Opencode>) -> io::Result<OpencodeInput> {
        Ok(OpencodeInput::Whole(Arc::clone(&call.thread), call.note.clone()))
    }

    /// Only results, and messages that are not the model's.
    fn addition(call: &SessionCall<OpencodeSetup>, known: &KnownThread) -> Result<OpencodeInput, WhyAnew> {
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
    fn serves(service: &OpencodeService, installed: &Installed, _: Option<&OpencodeSetup>) -> bool {
        service.line == installed.line
    }

    async fn serve(&self, start: ServerStart<'_, Opencode>) -> Result<OpencodeService, NotStarted> {
        let line = start.installed.line.clone();
        OpencodeService::start(line, (start.surroundings)(), start.closing).await
    }

    async fn models(service: &Arc<OpencodeService>, asked: ModelsAsked<'_>) -> ListedModels {
        list_models(service, asked.options.choices.model.is_some()).await
    }

    fn proof(service: &OpencodeService) -> Proof<'_> {
        let version = &service.version;
        Proof::Probe(format!("it is opencode {version}, which does what is needed"))
    }

    /// Makes the folder ahead. If it can't be loaded, the call itself will report that.
    async fn prepare(service: &OpencodeService, setup: &OpencodeSetup) {
        if let Ok(set) = service.tool_set(&setup.tools).await {
            let _ = service.warm(&set.directory).await;
        }
    }
}

/// The setup of a session. Sessions with different setups are not exchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpencodeSetup {
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

impl OpencodeSetup {
    /// Makes the setup of a session whose `model` is written `provider/model`.
    pub fn new(system: String, model: Option<&str>, tools: &[ToolSpec]) -> OpencodeSetup {
        OpencodeSetup {
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

/// The models that `service` lists.
///
/// # Errors
/// The reason why it does not tell.
async fn list_models(service: &OpencodeService, has_own_model: bool) -> ListedModels {
    let set = service.tool_set(&Declarations::new(&[])).await;
    let set = set.map_err(|failure| format!("it makes no folder ready: {failure}"))?;
    let directory = &set.directory;
    // The user's own choice; it is no fault if there is none.
    let default = match has_own_model {
        true => None,
        false => service.model(None, directory).await,
    };
    let path = server::of_directory("/provider", directory);
    let answer = service.server.ask(Method::GET, &path).await;
    let answer = answer.map_err(|failure| format!("it lists no models: GET /provider: {failure}"))?;
    read_models(&answer, default.as_ref()).ok_or_else(|| "its answer to GET /provider can't be read".to_owned())
}

/// The answer to `GET /provider`: a catalog of megabytes, of which the models that are wanted are read one by one.
#[derive(Deserialize)]
struct Catalog<'a> {
    #[serde(borrow)]
    all: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    connected: Vec<Text<'a>>,
}

#[derive(Deserialize)]
struct CatalogProvider<'a> {
    #[serde(deserialize_with = "text")]
    id: String,
    #[serde(borrow)]
    models: BTreeMap<String, &'a RawValue>,
}

impl<'a> Catalog<'a> {
    fn of(answer: &'a [u8]) -> Option<Catalog<'a>> {
        serde_json::from_slice(answer).ok()
    }

    /// The providers that can be read.
    fn providers(&self) -> impl Iterator<Item = CatalogProvider<'a>> {
        self.all.iter().filter_map(|one| serde_json::from_str(one.get()).ok())
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OpencodeModel {
    #[serde(deserialize_with = "optional")]
    name: Option<String>,
    capabilities: ModelModalities,
    cost: Cost,
    limit: Limit,
    variants: Option<Map<String, Value>>,
}

impl OpencodeModel {
    fn of(json: &RawValue) -> OpencodeModel {
        serde_json::from_str(json.get()).unwrap_or_default()
    }

    fn takes(&self, kind: &str) -> bool {
        self.capabilities.input.get(kind) == Some(&Value::Bool(true))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelModalities {
    input: Map<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Limit {
    context: Option<u64>,
    output: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cost {
    input: Option<f64>,
    output: Option<f64>,
    cache: CacheCost,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CacheCost {
    read: Option<f64>,
    write: Option<f64>,
}

/// The images and variants that a model takes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelFacts {
    pub takes_images: bool,
    /// The names of its variants, which are its efforts.
    pub variants: Vec<String>,
}

/// Reads the facts of `model` from the answer to `GET /provider`; `None` if the answer does not name it.
fn model_facts(answer: &[u8], model: &Model) -> Option<ModelFacts> {
    let catalog = Catalog::of(answer)?;
    let mut of_provider = catalog.providers().filter(|known| known.id == model.provider);
    let found = of_provider.find_map(|known| known.models.get(&model.id).copied())?;
    let found = OpencodeModel::of(found);
    Some(ModelFacts {
        takes_images: found.takes("image"),
        variants: found.variants.into_iter().flatten().map(|(name, _)| name).collect(),
    })
}

/// Reads the list; `None` if it can't be read.
fn read_models(answer: &[u8], default: Option<&Model>) -> Option<Vec<ListedModel>> {
    let catalog = Catalog::of(answer)?;
    let is_connected = |id: &str| catalog.connected.iter().any(|connected| connected.0 == id);
    let mine = catalog.providers().filter(|one| is_connected(&one.id));
    let models = mine.flat_map(|CatalogProvider { id: of, models }| {
        models.into_iter().map(move |(id, model)| {
            let is_default = default.is_some_and(|known| known.provider == of && known.id == id);
            listed(format!("{of}/{id}"), is_default, OpencodeModel::of(model))
        })
    });
    Some(models.collect())
}

fn listed(id: String, is_default: bool, model: OpencodeModel) -> ListedModel {
    let kinds = model.capabilities.input.keys().filter(|kind| model.takes(kind));
    let kinds: Vec<String> = kinds.cloned().collect();
    let efforts = model
        .variants
        .map(|variants| variants.into_iter().map(|(name, _)| name));
    let efforts = efforts.map(|efforts| efforts.collect::<Vec<_>>());
    // opencode writes 0 where nothing is known of a model.
    let told = |price: Option<f64>| price.filter(|price| *price > 0.0);
    let price = ModelPrice {
        input: told(model.cost.input),
        output: told(model.cost.output),
        cache_read: told(model.cost.cache.read),
        cache_write: told(model.cost.cache.write),
    };
    ListedModel {
        name: model.name.filter(|name| !name.is_empty()),
        is_default,
        efforts: efforts.filter(|efforts| !efforts.is_empty()),
        input_modalities: (!kinds.is_empty()).then_some(kinds),
        context_window: model.limit.context.filter(|limit| *limit > 0),
        max_output_tokens: model.limit.output.filter(|limit| *limit > 0),
        price: price.non_empty(),
        id,
        ..ListedModel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_model_that_says_so_takes_images() {
        let answer =
            br#"{"all":[7,{"id":"a","models":{"m":{"capabilities":{"input":{"text":true,"image":true}}},"blind":
            {"capabilities":{"input":{"image":false}}},"odd":{"capabilities":{"input":{"image":"yes"}}},"none":{}}},
            {"id":"b","models":{}}],"default":{}}"#;
        let takes = |of: &str, id: &str| {
            let model = Model {
                provider: of.to_owned(),
                id: id.to_owned(),
            };
            model_facts(answer, &model).map(|facts| facts.takes_images)
        };
        let found = [
            ("a", "m"),
            ("a", "blind"),
            ("a", "odd"),
            ("a", "none"),
            ("a", "x"),
            ("b", "m"),
            ("c", "m"),
        ];
        let found = found.map(|(of, id)| takes(of, id));
        assert_eq!(
            found,
            [Some(true), Some(false), Some(false), Some(false), None, None, None]
        );
        let model = Model {
            provider: "a".to_owned(),
            id: "m".to_owned(),
        };
        assert_eq!(model_facts(b"<html>", &model), None);
        let answer = br#"{"all":[{"id":"a","models":{"m":{"variants":{"low":{},"high":{}}}}}]}"#;
        assert_eq!(model_facts(answer, &model).unwrap().variants, ["low", "high"]);
    }
}
