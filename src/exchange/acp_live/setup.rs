//! What a kept session is set up with: what its first prompt says beside the thread, and the tools.

use crate::declare::mcp::Declarations;
use crate::exchange::acp_warm::choices::SessionChoices;
use crate::exchange::live::setup::SetupParts;

/// By this, sessions are distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The thread's system messages: an agent has its own instructions, and takes none but in a prompt.
    pub system: Option<String>,
    /// How its answers are to be.
    pub instruction: Option<String>,
    /// Its model, and how much that thinks.
    pub chosen: SessionChoices,
    /// The caller's tools.
    pub tools: Declarations,
}

impl Setup {
    /// That of a session for a call of `parts`.
    pub fn of(parts: &SetupParts<'_>) -> Setup {
        Setup {
            system: parts.system.map(str::to_owned),
            instruction: parts.output.instruction(),
            chosen: SessionChoices::of(parts.options),
            tools: Declarations::new(parts.tools),
        }
    }
}
