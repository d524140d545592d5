//! The models that an agent offers for its sessions.
//!
//! In: the answer to `session/new`, in a session that is opened for it, sent nothing, and closed. Out: [`ListedModel`]s, from
//! `models` (a draft of version 1) or `configOptions`. Sources: gemini 0.61.0, grok 1.0.41, opencode 1.18.34, qwen 0.24.4.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::choices::{AcpSession, Choice};
use super::server::{AcpServer, EndedSession};
use super::wire;
use crate::form::{ListedModels, ModelsAsked};
use crate::rpc::RequestError;
use dfp_model::listed_model::ListedModel;

/// The models that the agent of `server` offers.
///
/// # Errors
/// The reason why it does not tell.
pub(super) async fn list(server: &Arc<AcpServer>, asked: ModelsAsked<'_>) -> ListedModels {
    let gone = || "it takes no new sessions".to_owned();
    let opening = server.opening_permit().await.ok_or_else(gone)?;
    let permit = server.call_permit().await;
    let params = wire::session_new(server.host().folder(), &[]);
    let answer = server.rpc.request("session/new", &params).await;
    drop(opening);
    let answer = answer.map_err(|error| match error {
        RequestError::Refused(error) => format!("it opens no session: {}", error.reason()),
        _ => "it does not answer session/new".to_owned(),
    })?;
    let unread = || "its answer to session/new can't be read".to_owned();
    let session: AcpSession = serde_json::from_str(answer.get()).map_err(|_| unread())?;
    server.host().count_session();
    let ended = EndedSession {
        id: session.session_id.clone(),
        _files: None,
    };
    server.end_session(ended, Some(permit), asked.tracker);
    let answer: Value = serde_json::from_str(answer.get()).map_err(|_| unread())?;
    // The agent's own choice is not known where the provider has made one.
    let has_own_model = asked.options.choices.model.is_some();
    match read(&session, &answer, !has_own_model) {
        models if models.is_empty() => Err("the agent offers no choice of its model".to_owned()),
        models => Ok(models),
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Offered {
    model_id: String,
    name: Option<String>,
    description: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<ModelMeta>,
}

/// The fields that grok and qwen add.
#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
struct ModelMeta {
    total_context_tokens: Option<u64>,
    context_limit: Option<u64>,
    reasoning_effort: Option<String>,
    reasoning_efforts: Vec<Effort>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Effort {
    value: Option<String>,
    id: Option<String>,
}

/// Reads the models of `session`, which was opened with `answer`.
fn read(session: &AcpSession, answer: &Value, tells_default: bool) -> Vec<ListedModel> {
    let offered = answer["models"]["availableModels"].as_array().into_iter().flatten();
    let mut models: Vec<ListedModel> = offered
        .filter_map(|model| Offered::deserialize(model).ok())
        .filter(|model| !model.model_id.is_empty())
        .map(|model| {
            let ModelMeta {
                total_context_tokens,
                context_limit,
                reasoning_effort,
                reasoning_efforts,
            } = model.meta.unwrap_or_default();
            let efforts = reasoning_efforts
                .into_iter()
                .filter_map(|effort| effort.value.or(effort.id));
            let efforts: Vec<String> = efforts.collect();
            ListedModel {
                id: model.model_id,
                name: model.name.filter(|name| !name.is_empty()),
                description: model.description.filter(|words| !words.is_empty()),
                default_effort: reasoning_effort.filter(|_| !efforts.is_empty()),
                efforts: (!efforts.is_empty()).then_some(efforts),
                context_window: total_context_tokens.or(context_limit),
                ..ListedModel::default()
            }
        })
        .collect();
    let mut current = session.models.current_model_id.clone();
    if models.is_empty() {
        let (chosen, offered) = session.config_options.offered(Choice::Model);
        current = chosen;
        models = offered
            .into_iter()
            .map(|(id, name)| ListedModel {
                name: Some(name).filter(|name| !name.is_empty()),
                id,
                ..ListedModel::default()
            })
            .collect();
    }
    let (effort, efforts) = session.config_options.offered(Choice::Effort);
    for model in models.iter_mut().filter(|model| current.as_ref() == Some(&model.id)) {
        model.is_default = tells_default;
        // An agent's options are those of the model that it has just now.
        if model.efforts.is_none() && !efforts.is_empty() {
            model.efforts = Some(efforts.iter().map(|(id, _)| id.clone()).collect());
            model.default_effort.clone_from(&effort);
        }
        // The name that a call can be given, as in `Models::current`.
        if let Some(name) = model.name.clone().filter(|_| model.id.starts_with('$')) {
            model.id = name;
        }
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list(answer: &Value) -> Vec<ListedModel> {
        read(&serde_json::from_value(answer.clone()).unwrap(), answer, true)
    }

    #[test]
    fn the_drafts_models_are_read_with_what_grok_and_qwen_add() {
        let grok = json!({"sessionId": "s", "models": {"currentModelId": "mock", "availableModels": [
            {"modelId": "mock", "name": "Mock", "_meta": {"totalContextTokens": 500_000, "reasoningEffort": "low",
                "reasoningEfforts": [{"id": "low", "value": "low"}, {"id": "high", "value": "high"}]}},
            {"modelId": "other"},
        ]}});
        let mock = ListedModel {
            id: "mock".to_owned(),
            name: Some("Mock".to_owned()),
            is_default: true,
            efforts: Some(vec!["low".to_owned(), "high".to_owned()]),
            default_effort: Some("low".to_owned()),
            context_window: Some(500_000),
            ..ListedModel::default()
        };
        let other = ListedModel {
            id: "other".to_owned(),
            ..ListedModel::default()
        };
        assert_eq!(list(&grok), [mock, other]);
        let id = "$runtime|openai|m(openai)";
        let qwen = json!({"sessionId": "s", "models": {"currentModelId": id, "availableModels": [
            {"modelId": id, "name": "m", "description": null, "_meta": {"contextLimit": 200_000}},
        ]}});
        let model = &list(&qwen)[0];
        assert_eq!((&*model.id, model.context_window), ("m", Some(200_000)));
    }

    #[test]
    fn or_the_options_of_the_session() {
        let opencode = json!({"sessionId": "s", "configOptions": [
            {"id": "model", "category": "model", "currentValue": "a/m1", "options": [
                {"value": "a/m1", "name": "M1"}, {"group": "g", "options": [{"value": "a/m2", "name": ""}]}]},
            {"id": "effort", "category": "thought_level", "currentValue": "low", "options": [{"value": "low"}, {"value": "high"}]},
        ]});
        let first = ListedModel {
            id: "a/m1".to_owned(),
            name: Some("M1".to_owned()),
            is_default: true,
            efforts: Some(vec!["low".to_owned(), "high".to_owned()]),
            default_effort: Some("low".to_owned()),
            ..ListedModel::default()
        };
        let second = ListedModel {
            id: "a/m2".to_owned(),
            ..ListedModel::default()
        };
        assert_eq!(list(&opencode), [first, second]);
        assert_eq!(list(&json!({"sessionId": "s"})), []);
    }
}
