//! The models of a codex login.
//!
//! In: the answer to `model/list`. Out: [`ListedModel`]s. codex answers from its catalog, without a network (0.169.0, 2 ms).

use serde::Deserialize;
use serde_json::Value;

use super::service::CodexService;
use super::wire::ModelList;
use crate::form::ListedModels;
use crate::rpc::RequestError;
use dfp_model::listed_model::ListedModel;

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
    #[serde(default)]
    is_default: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodexEffort {
    reasoning_effort: String,
}

/// The models that `service` lists.
///
/// # Errors
/// The reason why it does not tell.
pub(super) async fn list(service: &CodexService) -> ListedModels {
    let mut models = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let answer = service.server.request("model/list", &ModelList { cursor }).await;
        let answer = answer.map_err(|error| match error {
            RequestError::Refused(refused) => format!("it refuses model/list: {}", refused.message),
            _ => "it does not answer model/list".to_owned(),
        })?;
        let page: Page =
            serde_json::from_str(answer.get()).map_err(|_| "its answer to model/list can't be read".to_owned())?;
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
    Some(ListedModel {
        resolves_to: model.model.filter(|full| *full != model.id),
        id: model.id,
        name: model.display_name,
        description: model.description.filter(|words| !words.is_empty()),
        is_default: model.is_default,
        default_effort: model.default_reasoning_effort.filter(|_| efforts.is_some()),
        efforts,
        input_modalities: model.input_modalities,
        ..ListedModel::default()
    })
}
