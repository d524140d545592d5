//! The models of a claude login, which a process tells when it is started.
//!
//! In: the answer to `initialize`, whose `models` are those of `list_models` (2.1.197, 2.1.332). Out: [`ListedModel`]s. Prices are
//! words of the description, and told only where a key pays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use crate::installed::Binary;
use crate::live::setup::Changeable;
use dfp_model::error::{Code, clip};
use dfp_model::event::Event;
use dfp_model::listed_model::ListedModel;
use dfp_provider::choices::{FAST, STANDARD};

/// The number of logins whose models are kept.
const MOST: usize = 16;
/// The characters of a model's name that a warning shows.
const LONGEST_NAME: usize = 100;

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

/// The models in the answer of a process, with what each has.
#[derive(Debug)]
pub struct ToldModels(Vec<ClaudeModel>);

#[derive(Deserialize)]
struct Initialised {
    models: Vec<Value>,
}

#[derive(Debug, Deserialize)]
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

/// The choices that the model of a process does not have, and that the CLI silently leaves out of its requests (2.1.197, 2.1.332).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoices {
    /// The model's name for people.
    model: String,
    /// Its efforts; `None` if the CLI does not tell.
    efforts: Option<Vec<String>>,
    /// True if it thinks whatever it is told.
    always_thinks: bool,
    /// True if it has no fast mode.
    is_never_fast: bool,
}

impl ToldModels {
    /// The models in the `answer` of a process to `initialize`.
    pub fn read(answer: &str) -> Option<ToldModels> {
        let Initialised { models } = serde_json::from_str(answer).ok()?;
        let models = models.iter().filter_map(|one| ClaudeModel::deserialize(one).ok());
        Some(ToldModels(models.collect()))
    }

    /// The choices of the model `name`, an alias or the name in full; `None` if it is not among them. The entry `default` says nothing of
    /// the process's own model: `ANTHROPIC_MODEL` and the user's settings choose another one.
    pub fn choices(&self, name: &str) -> Option<ModelChoices> {
        let ToldModels(models) = self;
        let by_name = models.iter().find(|one| one.value == name);
        let found = by_name.or_else(|| models.iter().find(|one| one.resolved_model.as_deref() == Some(name)))?;
        // Of a model without efforts, the list says nothing of them.
        let tells_efforts = models.iter().any(|one| one.supports_effort == Some(true));
        let tells_fast = models.iter().any(|one| one.supports_fast_mode == Some(true));
        let levels = || found.supported_effort_levels.clone().unwrap_or_default();
        Some(ModelChoices {
            model: found.resolved_model.clone().unwrap_or_else(|| found.value.clone()),
            efforts: match found.supports_effort {
                Some(true) => found.supported_effort_levels.clone(),
                Some(false) | None => tells_efforts.then(levels),
            },
            always_thinks: found.supports_thinking_off == Some(false),
            is_never_fast: tells_fast && found.supports_fast_mode != Some(true),
        })
    }
}

impl ModelChoices {
    /// The warnings about those of `wanted` that have no effect.
    pub fn ignored(&self, wanted: &Changeable) -> Vec<Event> {
        let (model, efforts) = (clip(&self.model, LONGEST_NAME), &self.efforts);
        let off = (wanted.reasoning_off && self.always_thinks)
            .then(|| format!("`reasoning: \"off\"` has no effect: claude's model {model} always thinks"));
        let effort = match (&wanted.effort, efforts) {
            (Some(_), Some(efforts)) if efforts.is_empty() => Some(format!(
                "`reasoning.effort` has no effect: claude's model {model} has no efforts"
            )),
            (Some(effort), Some(efforts)) if !efforts.contains(effort) => Some(format!(
                "`reasoning.effort` has no effect: claude's model {model} has no effort \"{effort}\"; it has: {}",
                clip(&efforts.join(", "), 300)
            )),
            _ => None,
        };
        let fast = (wanted.fast == Some(true) && self.is_never_fast)
            .then(|| format!("`speed: \"fast\"` has no effect: claude's model {model} has no fast mode"));
        let warning = |message| Event::Warning {
            code: Code::UnsupportedOption.as_str().to_owned(),
            message,
        };
        off.into_iter().chain(effort).chain(fast).map(warning).collect()
    }
}

fn read(answer: &str) -> Option<Vec<ListedModel>> {
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
        .map(|model| ListedModel {
            is_default: model.value == "default",
            resolves_to: model.resolved_model.filter(|full| *full != model.value),
            id: model.value,
            name: model.display_name,
            description: model.description,
            efforts: model.supported_effort_levels.filter(|levels| !levels.is_empty()),
            reasoning_off: model.supports_thinking_off,
            speeds: tells_fast.then(|| speeds(model.supports_fast_mode == Some(true))),
            ..ListedModel::default()
        })
        .collect();
    (!models.is_empty()).then_some(models)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The answers of 2.1.332 and 2.1.197, shortened.
    fn warnings(model: &str, newest: bool, wanted: &Changeable) -> Vec<String> {
        let levels = ["low", "high"];
        let off = |is_off: bool| newest.then_some(is_off);
        let answer = json!({"models": [
            {"value": "default", "resolvedModel": "claude-opus-5-5", "supportsEffort": true, "supportedEffortLevels": levels,
             "supportsThinkingOff": off(false)},
            {"value": "claude-opus-4-8", "resolvedModel": "claude-opus-4-8", "supportsEffort": true, "supportedEffortLevels": levels,
             "supportsThinkingOff": off(true)},
            {"value": "haiku", "resolvedModel": "claude-haiku-4-5", "supportsThinkingOff": off(true)},
        ]});
        let choices = ToldModels::read(&answer.to_string()).unwrap().choices(model);
        let message = |event| match event {
            Event::Warning { message, .. } => message,
            other => format!("{other:?}"),
        };
        let events = choices.map(|choices| choices.ignored(wanted));
        events.into_iter().flatten().map(message).collect()
    }

    #[test]
    fn an_effort_that_the_model_has_not_is_told() {
        let effort = |word: &str| Changeable {
            effort: Some(word.to_owned()),
            ..Changeable::default()
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
            assert_eq!(warnings("somebody-elses", newest, &effort("high")), [""; 0]);
        }
    }

    #[test]
    fn a_model_without_a_fast_mode_is_told_and_listed() {
        let answer = json!({"models": [
            {"value": "opus", "resolvedModel": "claude-opus-5-5", "supportsFastMode": true, "supportsThinkingOff": false},
            {"value": "sonnet", "resolvedModel": "claude-sonnet-5-5"},
        ]});
        let fast = Changeable {
            fast: Some(true),
            ..Changeable::default()
        };
        let told = ToldModels::read(&answer.to_string()).unwrap();
        let ignored = |told: &ToldModels, model: &str| -> Vec<String> {
            let message = |event| match event {
                Event::Warning { message, .. } => message,
                other => format!("{other:?}"),
            };
            let events = told.choices(model).unwrap().ignored(&fast);
            events.into_iter().map(message).collect()
        };
        assert_eq!(ignored(&told, "opus"), [""; 0]);
        assert_eq!(
            ignored(&told, "claude-sonnet-5-5"),
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
        let untold = json!({"models": [{"value": "opus"}]}).to_string();
        assert_eq!(read(&untold).unwrap()[0].speeds, None);
        assert_eq!(ignored(&ToldModels::read(&untold).unwrap(), "opus"), [""; 0]);
    }

    #[test]
    fn a_model_that_always_thinks_is_told_where_the_cli_knows() {
        let off = Changeable {
            reasoning_off: true,
            ..Changeable::default()
        };
        let always = "`reasoning: \"off\"` has no effect: claude's model claude-opus-5-5 always thinks";
        for name in ["default", "claude-opus-5-5"] {
            assert_eq!(warnings(name, true, &off), [always]);
            assert_eq!(warnings(name, false, &off), [""; 0]);
        }
        assert_eq!(warnings("claude-opus-4-8", true, &off), [""; 0]);
    }
}
