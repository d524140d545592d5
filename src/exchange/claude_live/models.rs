//! The models of a claude login, which a process tells when it is started.
//!
//! In: the answer to `initialize`, whose `models` are those of `list_models` (2.1.197, 2.1.332). Out: [`ListedModel`]s. Prices are
//! words of the description, and told only where a key pays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use crate::installed::Binary;
use dfp_model::listed_model::ListedModel;

/// The number of logins whose models are kept.
const MOST: usize = 16;

/// The models that processes have told, the latest last.
#[derive(Debug, Default)]
pub struct ReportedModels(Mutex<Vec<(Binary, Vec<ListedModel>)>>);

impl ReportedModels {
    fn lock(&self) -> MutexGuard<'_, Vec<(Binary, Vec<ListedModel>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the models in the `answer` of a process of `binary`.
    pub fn note(&self, binary: &Binary, answer: &str) {
        let Some(models) = read(answer) else {
            return;
        };
        let mut told = self.lock();
        told.retain(|(of, _)| of != binary);
        if told.len() >= MOST {
            told.remove(0);
        }
        told.push((binary.clone(), models));
    }

    /// The models that a process of `binary` has told last.
    pub fn of(&self, binary: &Binary) -> Option<Vec<ListedModel>> {
        let told = self.lock();
        let found = told.iter().find(|(of, _)| of == binary);
        found.map(|(_, models)| models.clone())
    }
}

#[derive(Deserialize)]
struct Initialised {
    models: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaudeModel {
    value: String,
    #[serde(default)]
    resolved_model: Option<String>,
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    supported_effort_levels: Option<Vec<String>>,
}

fn read(answer: &str) -> Option<Vec<ListedModel>> {
    let Initialised { models } = serde_json::from_str(answer).ok()?;
    let models = models.iter().filter_map(|model| ClaudeModel::deserialize(model).ok());
    let models: Vec<ListedModel> = models
        .map(|model| ListedModel {
            is_default: model.value == "default",
            resolves_to: model.resolved_model.filter(|full| *full != model.value),
            id: model.value,
            name: model.display_name,
            description: model.description,
            efforts: model.supported_effort_levels.filter(|levels| !levels.is_empty()),
            ..ListedModel::default()
        })
        .collect();
    (!models.is_empty()).then_some(models)
}
