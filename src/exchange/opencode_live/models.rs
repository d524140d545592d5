//! The models of opencode's logins.
//!
//! In: the answer to `GET /provider`, which needs no network. Out: [`ListedModel`]s of the model providers that are connected: the
//! others are opencode's catalog, and not the user's (1.18.34).

use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::service::OpencodeService;
use super::setup::Model;
use super::wire;
use crate::form::ListedModels;
use dfp_model::listed_model::{ListedModel, ModelPrice};
use dfp_provider::declare::mcp::Declarations;

/// The models that `service` lists.
///
/// # Errors
/// The reason why it does not tell.
pub(super) async fn list(service: &OpencodeService, has_own_model: bool) -> ListedModels {
    let set = service.tool_set(&Declarations::new(&[])).await;
    let set = set.map_err(|failure| format!("it makes no folder ready: {failure}"))?;
    let directory = &set.directory;
    // The user's own choice; it is no fault if there is none.
    let default = match has_own_model {
        true => None,
        false => service.model(None, directory).await,
    };
    let path = wire::of_directory("/provider", directory);
    let answer = service.server.ask(Method::GET, &path).await;
    let answer = answer.map_err(|failure| format!("it lists no models: GET /provider: {failure}"))?;
    read(&answer, default.as_ref()).ok_or_else(|| "its answer to GET /provider can't be read".to_owned())
}

#[derive(Deserialize)]
struct ListedProviders {
    all: Vec<Value>,
    #[serde(default)]
    connected: Vec<String>,
}

#[derive(Deserialize)]
struct ListedProvider {
    id: String,
    models: Map<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OpencodeModel {
    name: Option<String>,
    capabilities: ModelModalities,
    cost: Cost,
    limit: Limit,
    variants: Option<Map<String, Value>>,
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

/// Reads the list; `None` if it can't be read.
fn read(answer: &[u8], default: Option<&Model>) -> Option<Vec<ListedModel>> {
    let ListedProviders { all, connected } = serde_json::from_slice(answer).ok()?;
    let all = all.iter().filter_map(|one| ListedProvider::deserialize(one).ok());
    let mine = all.filter(|one| connected.contains(&one.id));
    let models = mine.flat_map(|provider| {
        let ListedProvider { id: of, models } = provider;
        models.into_iter().map(move |(id, model)| {
            let is_default = default.is_some_and(|known| known.provider == of && known.id == id);
            one(format!("{of}/{id}"), is_default, &model)
        })
    });
    Some(models.collect())
}

fn one(id: String, is_default: bool, model: &Value) -> ListedModel {
    let model = OpencodeModel::deserialize(model).unwrap_or_default();
    let kinds = model.capabilities.input.iter();
    let kinds: Vec<String> = kinds
        .filter(|(_, takes)| **takes == Value::Bool(true))
        .map(|(kind, _)| kind.clone())
        .collect();
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
        price: price.told(),
        id,
        ..ListedModel::default()
    }
}
