//! The setup of a kept session: the parts of its first prompt beside the thread, and the tools.

use crate::acp::choices::SessionChoices;
use crate::live::setup::SetupParts;
use dfp_provider::declare::mcp::Declarations;

/// The setup of a session. Sessions with different setups are not exchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpSetup {
    /// The thread's system messages: an agent has its own instructions, and takes further ones only in a prompt.
    pub system: Option<String>,
    /// The instruction on the form of its answers.
    pub instruction: Option<String>,
    /// Its model, and the model's level of reasoning.
    pub chosen: SessionChoices,
    /// The caller's tools.
    pub tools: Declarations,
}

impl AcpSetup {
    /// The setup of a session for a call of `parts`.
    pub fn of(parts: &SetupParts<'_>) -> AcpSetup {
        AcpSetup {
            system: parts.system.map(str::to_owned),
            instruction: parts.output.instruction(),
            chosen: SessionChoices::of(parts.options),
            tools: Declarations::new(parts.tools),
        }
    }
}
