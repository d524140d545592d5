//! The setup of a codex thread, fixed when it begins: the system prompt, the tools, and the model; and the choices of a
//! turn, which are its level of reasoning and the schema of its answer.

use serde_json::Value;

use super::tools::{self, CodexForm};
use super::wire::DynamicTool;
use dfp_model::message::ToolSpec;
use dfp_provider::declare::Tools;
use dfp_provider::tool_form::OUR_NAMESPACE;

/// The setup of a thread. Threads with different setups are not exchangeable.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The system prompt; empty if there is none.
    pub system: String,
    /// True if codex's own instructions come before it.
    pub own_instructions: bool,
    /// The model, if one is chosen.
    pub model: Option<String>,
    /// The model's level of reasoning, if it is chosen. A thread takes on another one with a turn, so it makes no other setup.
    pub effort: Option<String>,
    pub tools: Tools,
    /// The way in which the tools are offered.
    pub form: CodexForm,
    /// True if the model may search the web.
    pub searches_web: bool,
    /// The schema of the answer, sent with every turn: it makes no other setup.
    pub output: Option<Value>,
}

impl PartialEq for Setup {
    fn eq(&self, other: &Setup) -> bool {
        let Setup {
            system,
            own_instructions,
            model,
            effort: _,
            tools,
            form,
            searches_web,
            output: _,
        } = self;
        (system, own_instructions, model) == (&other.system, &other.own_instructions, &other.model)
            && (tools, form, searches_web) == (&other.tools, &other.form, &other.searches_web)
    }
}

impl Eq for Setup {}

impl Setup {
    /// Makes a setup with functions for `tools`.
    pub fn new(system: String, own_instructions: bool, model: Option<String>, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            own_instructions,
            model,
            effort: None,
            tools: tools::declare(tools),
            form: CodexForm::Functions,
            searches_web: false,
            output: None,
        }
    }

    /// Returns whether a turn with this setup is one with `other` as well.
    pub fn has_choices_of(&self, other: &Setup) -> bool {
        (&self.effort, &self.output) == (&other.effort, &other.output)
    }

    /// This setup with answers that have to fit the JSON Schema `output`.
    #[must_use]
    pub fn with_output(self, output: Option<Value>) -> Setup {
        Setup { output, ..self }
    }

    /// This setup with the tools in another form.
    #[must_use]
    pub fn with_form(self, form: CodexForm) -> Setup {
        Setup { form, ..self }
    }

    /// This setup with, or without, searches of the web.
    #[must_use]
    pub fn with_web_search(self, searches_web: bool) -> Setup {
        Setup { searches_web, ..self }
    }

    /// This setup with the level of reasoning `effort`.
    #[must_use]
    pub fn with_effort(self, effort: Option<String>) -> Setup {
        Setup { effort, ..self }
    }

    /// The namespace of the tools, if they are in one.
    pub fn namespace(&self) -> Option<&'static str> {
        (self.form == CodexForm::Namespace).then_some(OUR_NAMESPACE)
    }

    /// The tools for `thread/start`.
    pub fn dynamic_tools(&self) -> Vec<DynamicTool> {
        tools::dynamic(&self.tools, self.form)
    }
}
