//! The models of opencode's logins.
//!
//! In: the answer to `GET /provider`, which needs no network. Out: [`ListedModel`]s of the model providers that are connected: the
//! others are opencode's catalog, and not the user's (1.18.34).

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::form::Model;
use super::inbound::{optional, text};
use super::service::OpencodeService;
use super::wire;
use crate::form::ListedModels;
use dfp_model::listed_model::{ListedModel, ModelPrice};
use dfp_provider::declare::mcp::Declarations;
use dfp_text::decode::json::Text;

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
pub(super) struct ModelFacts {
    pub takes_images: bool,
    /// The names of its variants, which are its efforts.
    pub variants: Vec<String>,
}

/// Reads the facts of `model` from the answer to `GET /provider`; `None` if the answer does not name it.
pub(super) fn facts(answer: &[u8], model: &Model) -> Option<ModelFacts> {
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
fn read(answer: &[u8], default: Option<&Model>) -> Option<Vec<ListedModel>> {
    let catalog = Catalog::of(answer)?;
    let is_connected = |id: &str| catalog.connected.iter().any(|connected| connected.0 == id);
    let mine = catalog.providers().filter(|one| is_connected(&one.id));
    let models = mine.flat_map(|CatalogProvider { id: of, models }| {
        models.into_iter().map(move |(id, model)| {
            let is_default = default.is_some_and(|known| known.provider == of && known.id == id);
            one(format!("{of}/{id}"), is_default, OpencodeModel::of(model))
        })
    });
    Some(models.collect())
}

fn one(id: String, is_default: bool, model: OpencodeModel) -> ListedModel {
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
            facts(answer, &model).map(|facts| facts.takes_images)
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
        assert_eq!(facts(b"<html>", &model), None);
        let answer = br#"{"all":[{"id":"a","models":{"m":{"variants":{"low":{},"high":{}}}}}]}"#;
        assert_eq!(facts(answer, &model).unwrap().variants, ["low", "high"]);
    }
}
