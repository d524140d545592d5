//! The data that only a user's own CLI has, beside the data of every provider.

use crate::user_rule::UserRule;
use dfp_model::error::clip;
use dfp_model::listed_model::ListedModel;

/// The data of a CLI of the user's own that others don't have.
#[derive(Debug, Clone, Default)]
pub struct CustomCli {
    /// `defaultArgs`: the arguments that it always gets.
    pub default_args: Vec<String>,
    /// `modelArgs`: the arguments that name the model; none where it is not named.
    pub(super) model_args: Vec<String>,
    /// `models`: their ids; an empty list allows any.
    pub(super) models: Vec<String>,
    /// `defaultModel`; without one no model is named to the CLI, unless the option `model` names it.
    pub default_model: Option<String>,
    /// `maxTokens`: the longest answer, for callers that choose between providers; it is not sent to any CLI.
    pub max_tokens: u64,
    /// `env`, in the caller's order; `None` removes.
    pub env: Vec<(String, Option<String>)>,
    /// `errorRules`.
    pub error_rules: Vec<UserRule>,
    /// `versionArgs`: the arguments with which it prints its version.
    pub version_args: Vec<String>,
    /// True if it speaks only the Agent Client Protocol, as an agent that answers.
    pub is_agent: bool,
}

impl CustomCli {
    /// Makes an agent that is started with `args`.
    pub fn agent(args: Vec<String>) -> CustomCli {
        CustomCli {
            default_args: args,
            is_agent: true,
            ..CustomCli::default()
        }
    }

    /// The arguments `modelArgs` for `model`: every `{model}` in them is replaced; without one, the model comes behind them.
    pub fn model_args(&self, model: &str) -> Vec<String> {
        let mut args: Vec<String> = self.model_args.iter().map(|arg| arg.replace(PLACE, model)).collect();
        if !args.is_empty() && args == self.model_args {
            args.push(model.to_owned());
        }
        args
    }

    /// The models of the config; none if it names none.
    pub fn listed(&self) -> Vec<ListedModel> {
        let listed = self.models.iter().map(|id| ListedModel {
            id: id.clone(),
            is_default: self.default_model.as_ref() == Some(id),
            ..ListedModel::default()
        });
        listed.collect()
    }

    /// Checks that `model` is one of `models`.
    ///
    /// # Errors
    /// The allowed values.
    pub fn check_model(&self, model: &str) -> Result<(), String> {
        if self.models.is_empty() || self.models.iter().any(|known| known == model) {
            return Ok(());
        }
        let allowed = self.models.join(", ");
        Err(format!(
            "option \"model\" must be one of the config's models ({}); given: \"{}\"",
            clip(&allowed, 120),
            clip(model, 60)
        ))
    }
}

/// The placeholder of the model in `modelArgs`.
const PLACE: &str = "{model}";
