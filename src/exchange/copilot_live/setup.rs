//! The setup of a session, fixed when it begins: the system prompt, the tools, the model, how much that thinks.

use crate::declare::{MAX_NAME, Tools};
use crate::message::ToolSpec;

/// By this, sessions are distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The system prompt; none where copilot's own is all there is.
    pub system: Option<String>,
    /// Copilot's own instructions stand before it.
    pub own_instructions: bool,
    /// The model, where one is chosen.
    pub model: Option<String>,
    /// How much it thinks, where that is chosen.
    pub effort: Option<String>,
    /// The caller's tools.
    pub tools: Tools,
}

impl Setup {
    /// That of a session with `tools`, whose model is the server's to choose.
    pub fn new(system: Option<String>, own_instructions: bool, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            own_instructions,
            model: None,
            effort: None,
            tools: Tools::new(tools, MAX_NAME),
        }
    }
}
