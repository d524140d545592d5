//! The setup of a codex thread, fixed when it begins: the system prompt, the tools, the model, how much that thinks.

use serde_json::Value;

use super::tools::{self, Form};
use super::wire::DynamicTool;
use crate::declare::Tools;
use crate::message::ToolSpec;

/// By this, threads are distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The system prompt; empty where there is none.
    pub system: String,
    /// codex's own instructions stand before it.
    pub own_instructions: bool,
    /// The model, where one is chosen.
    pub model: Option<String>,
    /// How much it thinks, where that is chosen.
    pub effort: Option<String>,
    pub tools: Tools,
    /// How they are offered.
    pub form: Form,
    /// The schema of the answer, told with every turn.
    pub output: Option<Value>,
}

impl Setup {
    /// A setup with functions for `tools`.
    pub fn new(system: String, own_instructions: bool, model: Option<String>, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            own_instructions,
            model,
            effort: None,
            tools: tools::declare(tools),
            form: Form::Functions,
            output: None,
        }
    }

    /// The same whose answers have to fit the JSON Schema `output`.
    #[must_use]
    pub fn with_output(self, output: Option<Value>) -> Setup {
        Setup { output, ..self }
    }

    /// The same with the tools in this form.
    #[must_use]
    pub fn with_form(self, form: Form) -> Setup {
        Setup { form, ..self }
    }

    /// The same for a model that thinks as much as `effort` says.
    #[must_use]
    pub fn with_effort(self, effort: Option<String>) -> Setup {
        Setup { effort, ..self }
    }

    /// The namespace of the tools, where they are one.
    pub fn namespace(&self) -> Option<&'static str> {
        (self.form == Form::Namespace).then_some(tools::NAMESPACE)
    }

    /// The tools for `thread/start`.
    pub fn dynamic_tools(&self) -> Vec<DynamicTool> {
        tools::dynamic(&self.tools, self.form)
    }
}
