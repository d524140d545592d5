//! The setup of a session, fixed when it begins: the system prompt, the tools, the model, and its level of reasoning.

use dfp_model::message::ToolSpec;
use dfp_provider::declare::{MAX_NAME, Tools};

/// The setup of a session. Sessions with different setups are not exchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The system prompt; `None` if only copilot's own is used.
    pub system: Option<String>,
    /// True if copilot's own instructions come before it.
    pub own_instructions: bool,
    /// The model, if one is chosen.
    pub model: Option<String>,
    /// The model's level of reasoning, if it is chosen.
    pub effort: Option<String>,
    /// The caller's tools.
    pub tools: Tools,
    /// True if the model is told the names of the tools alone, and finds them by copilot's own search.
    pub searches_tools: bool,
}

impl Setup {
    /// Makes the setup of a session with `tools`, whose model the server chooses.
    pub fn new(system: Option<String>, own_instructions: bool, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            own_instructions,
            model: None,
            effort: None,
            tools: Tools::new(tools, MAX_NAME),
            searches_tools: false,
        }
    }
}
