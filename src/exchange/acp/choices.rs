//! The choices for a session of an agent: its model, and the model's level of reasoning.
//!
//! In: the wanted values, and the agent's offer (`models`, which version 1 of the protocol had as a draft, or `configOptions`).
//! Out: the request that makes the choice, or the reason why there is none.

use serde::Deserialize;
use serde_json::{Value, json};

use dfp_model::error::clip;
use dfp_provider::custom::{EFFORT_NONE, EFFORT_OFF};
use dfp_provider::options::Options;

/// The number of an agent's values that an error names.
const MOST_NAMED: usize = 300;

/// A session: the answer to `session/new`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcpSession {
    pub session_id: String,
    /// The models of the session.
    #[serde(default)]
    pub models: Models,
    /// The other options of the session.
    #[serde(default)]
    pub config_options: ConfigOptions,
}

/// The models of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Models {
    /// The model that answers.
    pub current_model_id: Option<String>,
    /// The models to choose from.
    pub available_models: Vec<ModelInfo>,
}

/// A model of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelInfo {
    /// The model's id in the protocol.
    pub model_id: String,
    pub name: String,
}

impl Models {
    /// The model that answers, by its name for the API: qwen makes an id of its own of it (`$runtime|openai|m(openai)`, 0.24.4).
    pub fn current(&self) -> Option<&str> {
        let id = self.current_model_id.as_deref()?;
        let named = self.available_models.iter().find(|model| model.model_id == id);
        match named {
            Some(model) if id.starts_with('$') && !model.name.is_empty() => Some(&model.name),
            _ => Some(id),
        }
    }
}

/// The choices for a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionChoices {
    /// The session's model.
    pub model: Option<String>,
    /// The model's level of reasoning.
    pub effort: Option<String>,
}

impl SessionChoices {
    /// The choices in `options`.
    pub fn of(options: &Options) -> SessionChoices {
        SessionChoices {
            model: options.choices.model.clone(),
            effort: options.choices.effort.clone(),
        }
    }
}

/// A setting that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    Model,
    Effort,
}

impl Choice {
    /// The category of the setting's option in the protocol.
    fn category(self) -> &'static str {
        match self {
            Choice::Model => "model",
            Choice::Effort => "thought_level",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Choice::Model => "model",
            Choice::Effort => "level of reasoning",
        }
    }

    /// The kind of the failure if the agent does not offer the wanted value.
    fn kind(self, is_offered: bool) -> &'static str {
        match self {
            Choice::Model if is_offered => "model_not_found",
            Choice::Model | Choice::Effort => "not_offered",
        }
    }
}

/// The way in which a value is chosen.
#[derive(Debug, PartialEq)]
pub enum Way {
    /// The session has the value already.
    Nothing,
    /// The request of this name, with these parameters.
    Request(&'static str, Value),
    /// There is no way: the kind of the failure, and the reason.
    None(&'static str, String),
}

/// The way to choose `wanted` in `session`.
pub fn way(session: &AcpSession, choice: Choice, wanted: &str) -> Way {
    let id = &session.session_id;
    if choice == Choice::Model && session.models.current_model_id.is_some() {
        return match session.models.current() == Some(wanted) {
            true => Way::Nothing,
            false => Way::Request("session/set_model", json!({"sessionId": id, "modelId": wanted})),
        };
    }
    let Some(option) = session.config_options.of(choice) else {
        let reason = format!("the agent offers no choice of its {}", choice.name());
        return Way::None(choice.kind(false), reason);
    };
    let is_off = choice == Choice::Effort && wanted == EFFORT_OFF;
    let value = option
        .value(wanted)
        .or_else(|| option.value(EFFORT_NONE).filter(|_| is_off));
    match value {
        Some(value) if option.current_value == value => Way::Nothing,
        Some(value) => {
            let params = json!({"sessionId": id, "configId": option.id, "value": value});
            Way::Request("session/set_config_option", params)
        }
        None => {
            let offered = option.values().map(|value| value.value).collect::<Vec<_>>().join(", ");
            let reason = format!(
                "the agent offers no {} \"{}\"; it offers: {}",
                choice.name(),
                clip(wanted, 60),
                clip(&offered, MOST_NAMED)
            );
            Way::None(choice.kind(true), reason)
        }
    }
}

/// The options that an agent offers for a session, as far as they can be read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct ConfigOptions(Value);

impl ConfigOptions {
    /// The value that is chosen, and all values with their names; nothing if the agent does not offer the choice.
    pub fn offered(&self, choice: Choice) -> (Option<String>, Vec<(String, String)>) {
        let Some(option) = self.of(choice) else {
            return (None, Vec::new());
        };
        let values = option.values().map(|one| (one.value.to_owned(), one.name.to_owned()));
        (option.current_value.as_str().map(str::to_owned), values.collect())
    }

    fn of(&self, choice: Choice) -> Option<ConfigOption> {
        let all = self.0.as_array()?.iter();
        let mut options = all.filter_map(|option| ConfigOption::deserialize(option).ok());
        options.find(|option| option.category == choice.category())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigOption {
    id: String,
    category: String,
    #[serde(default)]
    current_value: Value,
    /// Values, or groups of values.
    #[serde(default)]
    options: Vec<Value>,
}

/// A value of an option.
struct OptionValue<'a> {
    value: &'a str,
    name: &'a str,
}

impl ConfigOption {
    fn values(&self) -> impl Iterator<Item = OptionValue<'_>> {
        let of_group = |entry: &Value| entry.get("options").and_then(Value::as_array).is_some();
        let groups = self.options.iter().filter(move |entry| of_group(entry));
        let grouped = groups.flat_map(|group| group["options"].as_array().into_iter().flatten());
        let single = self.options.iter().filter(move |entry| !of_group(entry));
        single.chain(grouped).filter_map(|entry| {
            Some(OptionValue {
                value: entry.get("value")?.as_str()?,
                name: entry.get("name").and_then(Value::as_str).unwrap_or_default(),
            })
        })
    }

    /// The value that is `wanted`, or has this name (kimi 2.1.0: `__kimi_env_model__`).
    fn value(&self, wanted: &str) -> Option<&str> {
        let by_value = self.values().find(|value| value.value == wanted);
        let found = by_value.or_else(|| self.values().find(|value| value.name == wanted));
        found.map(|value| value.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(json: Value) -> AcpSession {
        let mut answer = json!({"sessionId": "s"});
        answer
            .as_object_mut()
            .unwrap()
            .extend(json.as_object().unwrap().clone());
        serde_json::from_value(answer).unwrap()
    }

    fn set(config: &str, value: &str) -> Way {
        let params = json!({"sessionId": "s", "configId": config, "value": value});
        Way::Request("session/set_config_option", params)
    }

    #[test]
    fn a_model_is_chosen_by_what_the_agent_offers() {
        // The offers of opencode 1.18.34 and kimi 2.1.0.
        let by_option = session(json!({"configOptions": [
            {"id": "mode", "category": "mode", "type": "select", "currentValue": "build", "options": []},
            {"id": "x", "category": 7},
            {"id": "llm", "category": "model", "type": "select", "currentValue": "a/m1", "options": [
                {"value": "a/m1", "name": "M1"},
                {"group": "g", "name": "G", "options": [{"value": "a/m2", "name": "M2"}]},
            ]},
            {"id": "thinking", "category": "thought_level", "type": "select", "currentValue": "on", "options": [
                {"value": "off", "name": "Thinking Off"}, {"value": "on", "name": "Thinking On"},
            ]},
        ]}));
        let model = |wanted| way(&by_option, Choice::Model, wanted);
        assert_eq!([model("a/m1"), model("M1")], [Way::Nothing, Way::Nothing]);
        assert_eq!([model("a/m2"), model("M2")], [set("llm", "a/m2"), set("llm", "a/m2")]);
        let reason = "the agent offers no model \"m3\"; it offers: a/m1, a/m2";
        assert_eq!(model("m3"), Way::None("model_not_found", reason.to_owned()));
        assert_eq!(way(&by_option, Choice::Effort, "off"), set("thinking", "off"));
        let reason = "the agent offers no level of reasoning \"high\"; it offers: off, on";
        assert_eq!(
            way(&by_option, Choice::Effort, "high"),
            Way::None("not_offered", reason.to_owned())
        );
    }

    #[test]
    fn or_by_the_drafts_method_where_it_has_that() {
        let models = json!({"currentModelId": "m1", "availableModels": [{"modelId": "m1"}]});
        let by_method = session(json!({"models": models, "configOptions": [
            {"id": "model", "category": "model", "currentValue": "m1", "options": [{"value": "m1"}]},
        ]}));
        assert_eq!(way(&by_method, Choice::Model, "m1"), Way::Nothing);
        let params = json!({"sessionId": "s", "modelId": "m2"});
        assert_eq!(
            way(&by_method, Choice::Model, "m2"),
            Way::Request("session/set_model", params)
        );
        for none in [json!({}), json!({"configOptions": null}), json!({"configOptions": 7})] {
            let reason = "the agent offers no choice of its model";
            assert_eq!(
                way(&session(none), Choice::Model, "m1"),
                Way::None("not_offered", reason.to_owned())
            );
        }
    }
}
