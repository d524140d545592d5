//! The models of a GitHub login.
//!
//! In: the answer to `models.list`. Out: [`ListedModel`]s. The shape is that of copilot's own SDK (1.0.102, `ModelInfo`); a login
//! was not at hand. Without one copilot refuses, and a model API of the user's own has no list.

use serde::Deserialize;
use serde_json::{Value, json};

use super::service::CopilotService;
use crate::form::ListedModels;
use crate::rpc::RequestError;
use dfp_model::listed_model::ListedModel;

/// The words that copilot puts before the reason of a refusal.
const REFUSAL: &str = "Request models.list failed with message: ";

#[derive(Deserialize)]
struct Listed {
    models: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopilotModel {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    capabilities: ModelCapabilities,
    #[serde(default)]
    supported_reasoning_efforts: Option<Vec<String>>,
    #[serde(default)]
    default_reasoning_effort: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelCapabilities {
    supports: Supports,
    limits: Limits,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Supports {
    vision: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Limits {
    max_context_window_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
}

/// The models that `service` lists.
///
/// # Errors
/// The reason why it does not tell.
pub(super) async fn list(service: &CopilotService) -> ListedModels {
    if service.api.is_some() {
        return Err(
            "copilot lists the models of a GitHub login, and its environment names another model API".to_owned(),
        );
    }
    let answer = service.server.request("models.list", &json!({})).await;
    let answer = answer.map_err(|error| match error {
        RequestError::Refused(refused) => {
            let message = refused.message;
            message.strip_prefix(REFUSAL).unwrap_or(&message).to_owned()
        }
        _ => "it does not answer models.list".to_owned(),
    })?;
    read(answer.get()).ok_or_else(|| "its answer to models.list can't be read".to_owned())
}

fn read(answer: &str) -> Option<Vec<ListedModel>> {
    let Listed { models } = serde_json::from_str(answer).ok()?;
    let models = models.iter().filter_map(|model| CopilotModel::deserialize(model).ok());
    let models = models.map(|model| {
        let CopilotModel {
            id,
            name,
            capabilities: ModelCapabilities { supports, limits },
            ..
        } = model;
        let kinds = supports.vision.map(|sees| match sees {
            true => vec!["text".to_owned(), "image".to_owned()],
            false => vec!["text".to_owned()],
        });
        ListedModel {
            id,
            name,
            efforts: model.supported_reasoning_efforts.filter(|efforts| !efforts.is_empty()),
            default_effort: model.default_reasoning_effort,
            input_modalities: kinds,
            context_window: limits.max_context_window_tokens,
            max_output_tokens: limits.max_output_tokens,
            ..ListedModel::default()
        }
    });
    Some(models.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_the_shape_of_the_vendors_sdk() {
        let answer = json!({"models": [
            {"id": "claude-sonnet-5-5", "name": "Claude Sonnet 5.5", "billing": {"multiplier": 1},
             "capabilities": {"supports": {"vision": true, "reasoningEffort": true},
                              "limits": {"max_context_window_tokens": 200_000, "max_prompt_tokens": 128_000}},
             "supportedReasoningEfforts": ["low", "high"], "defaultReasoningEffort": "low"},
            {"id": 7},
            {"id": "plain"},
        ]});
        let sonnet = ListedModel {
            id: "claude-sonnet-5-5".to_owned(),
            name: Some("Claude Sonnet 5.5".to_owned()),
            efforts: Some(vec!["low".to_owned(), "high".to_owned()]),
            default_effort: Some("low".to_owned()),
            input_modalities: Some(vec!["text".to_owned(), "image".to_owned()]),
            context_window: Some(200_000),
            ..ListedModel::default()
        };
        let plain = ListedModel {
            id: "plain".to_owned(),
            ..ListedModel::default()
        };
        assert_eq!(read(&answer.to_string()), Some(vec![sonnet, plain]));
        assert_eq!(read("[]"), None);
    }
}
