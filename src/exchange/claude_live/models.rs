//! The models of a claude login, which a process tells when it is started.
//!
//! In: the answer to `initialize`, whose `models` are those of `list_models` (2.1.197, 2.1.332). Out: [`ListedModel`]s. Prices are
//! words of the description, and told only where a key pays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use crate::installed::Binary;
use dfp_model::listed_model::ListedModel;
use dfp_provider::choices::{FAST, STANDARD};

/// The number of logins whose models are kept.
const MOST: usize = 16;

/// The models that processes have told, the latest last.
#[derive(Debug, Default)]
pub struct ReportedModels(Mutex<Vec<(Binary, Vec<ListedModel>)>>);

impl ReportedModels {
    fn lock(&self) -> MutexGuard<'_, Vec<(Binary, Vec<ListedModel>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the models that a process of `binary` has told.
    pub fn note(&self, binary: &Binary, models: Vec<ListedModel>) {
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
    supports_effort: Option<bool>,
    #[serde(default)]
    supported_effort_levels: Option<Vec<String>>,
    /// 2.1.332 tells it; 2.1.197 does not.
    #[serde(default)]
    supports_thinking_off: Option<bool>,
    /// Told of models that have one (2.1.197, 2.1.332).
    #[serde(default)]
    supports_fast_mode: Option<bool>,
}

/// The models in the `answer` of a process to `initialize`; `None` if it names none.
pub fn read(answer: &str) -> Option<Vec<ListedModel>> {
    let Initialised { models } = serde_json::from_str(answer).ok()?;
    let models = models.iter().filter_map(|model| ClaudeModel::deserialize(model).ok());
    let models: Vec<ClaudeModel> = models.collect();
    // Of a model without a fast mode, the list says nothing of it.
    let tells_fast = models.iter().any(|one| one.supports_fast_mode == Some(true));
    let speeds = |is_fast: bool| match is_fast {
        true => vec![FAST.to_owned(), STANDARD.to_owned()],
        false => vec![STANDARD.to_owned()],
    };
    let models: Vec<ListedModel> = models
        .into_iter()
        .map(|model| {
            let efforts = model.supported_effort_levels.filter(|levels| !levels.is_empty());
            ListedModel {
                is_default: model.value == "default",
                resolves_to: model.resolved_model.filter(|full| *full != model.value),
                id: model.value,
                name: model.display_name,
                description: model.description,
                has_unnamed_efforts: model.supports_effort == Some(true) && efforts.is_none(),
                efforts,
                reasoning_off: model.supports_thinking_off,
                speeds: tells_fast.then(|| speeds(model.supports_fast_mode == Some(true))),
                ..ListedModel::default()
            }
        })
        .collect();
    (!models.is_empty()).then_some(models)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_model::event::Event;
    use dfp_provider::choices::{Choices, lacking};
    use serde_json::json;

    /// The warnings about what `wanted` asks of `model`, by the answers of 2.1.332 (`newest`) and 2.1.197, shortened.
    fn warnings(model: &str, newest: bool, wanted: &Choices) -> Vec<String> {
        let levels = ["low", "high"];
        let off = |is_off: bool| newest.then_some(is_off);
        let answer = json!({"models": [
            {"value": "default", "resolvedModel": "claude-opus-5-5", "supportsEffort": true, "supportedEffortLevels": levels,
             "supportsThinkingOff": off(false)},
            {"value": "claude-opus-4-8", "resolvedModel": "claude-opus-4-8", "supportsEffort": true, "supportedEffortLevels": levels,
             "supportsThinkingOff": off(true)},
            {"value": "haiku", "resolvedModel": "claude-haiku-4-5", "supportsThinkingOff": off(true)},
            {"value": "unnamed", "supportsEffort": true},
        ]});
        warnings_of(&answer, model, wanted)
    }

    fn warnings_of(answer: &Value, model: &str, wanted: &Choices) -> Vec<String> {
        let message = |event| match event {
            Event::Warning { message, .. } => message,
            other => format!("{other:?}"),
        };
        let events = lacking("claude", &read(&answer.to_string()).unwrap(), model, wanted);
        events.into_iter().map(message).collect()
    }

    #[test]
    fn an_effort_that_the_model_has_not_is_told() {
        let effort = |word: &str| Choices {
            effort: Some(word.to_owned()),
            ..Choices::default()
        };
        for newest in [true, false] {
            assert_eq!(warnings("claude-opus-4-8", newest, &effort("high")), [""; 0]);
            assert_eq!(
                warnings("claude-opus-4-8", newest, &effort("max")),
                [
                    "`reasoning.effort` has no effect: claude's model claude-opus-4-8 has no effort \"max\"; it has: low, high"
                ]
            );
            for name in ["haiku", "claude-haiku-4-5"] {
                let none = ["`reasoning.effort` has no effect: claude's model claude-haiku-4-5 has no efforts"];
                assert_eq!(warnings(name, newest, &effort("high")), none);
            }
            for name in ["somebody-elses", "unnamed"] {
                assert_eq!(warnings(name, newest, &effort("high")), [""; 0]);
            }
        }
    }

    #[test]
    fn a_model_without_a_fast_mode_is_told_and_listed() {
        let answer = json!({"models": [
            {"value": "opus", "resolvedModel": "claude-opus-5-5", "supportsFastMode": true, "supportsThinkingOff": false},
            {"value": "sonnet", "resolvedModel": "claude-sonnet-5-5"},
        ]});
        let fast = Choices {
            fast: Some(true),
            ..Choices::default()
        };
        assert_eq!(warnings_of(&answer, "opus", &fast), [""; 0]);
        assert_eq!(
            warnings_of(&answer, "claude-sonnet-5-5", &fast),
            ["`speed: \"fast\"` has no effect: claude's model claude-sonnet-5-5 has no fast mode"]
        );
        let listed = read(&answer.to_string()).unwrap();
        let facts: Vec<_> = listed
            .iter()
            .map(|one| (one.speeds.clone().unwrap(), one.reasoning_off))
            .collect();
        let (both, usual) = (
            vec!["fast".to_owned(), "standard".to_owned()],
            vec!["standard".to_owned()],
        );
        assert_eq!(facts, [(both, Some(false)), (usual, None)]);
        let untold = json!({"models": [{"value": "opus"}]});
        assert_eq!(read(&untold.to_string()).unwrap()[0].speeds, None);
        assert_eq!(warnings_of(&untold, "opus", &fast), [""; 0]);
    }

    #[test]
    fn a_model_that_always_thinks_is_told_where_the_cli_knows() {
        let off = Choices {
            reasoning_off: true,
            ..Choices::default()
        };
        let always = "`reasoning: \"off\"` has no effect: claude's model claude-opus-5-5 always thinks";
        for name in ["default", "claude-opus-5-5"] {
            assert_eq!(warnings(name, true, &off), [always]);
            assert_eq!(warnings(name, false, &off), [""; 0]);
        }
        assert_eq!(warnings("claude-opus-4-8", true, &off), [""; 0]);
    }
}
