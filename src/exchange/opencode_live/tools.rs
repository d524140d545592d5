//! The caller's tools in opencode: a folder of the server's in which they are declared, and by whom.
//!
//! In: the tools. Out: a [`ToolSet`]. MCP servers belong to a folder (OTHER-LIVE 1.5), so conversations with other tools have another
//! one. The server only declares: whoever got past the permission would be answered with an error, and nothing would run.

use crate::bridge::Bridge;
use crate::declare::mcp::{Declarations, SERVER};

/// What opencode puts before the names of the server's tools.
pub const PREFIX: &str = "df_";

/// Tools, and the folder in which they are declared.
#[derive(Debug)]
pub struct ToolSet {
    pub tools: Declarations,
    /// The folder of sessions that have them.
    pub directory: String,
    /// Who declares them; `None` where there are none.
    pub bridge: Option<Bridge>,
}

/// The caller's name of the tool that opencode calls `name`; `None` for any other.
pub fn callers_name<'a>(tools: &'a Declarations, name: &str) -> Option<&'a str> {
    tools.known(name.strip_prefix(PREFIX)?)
}

/// What opencode calls the caller's tool `name`.
pub fn wire_name(tools: &Declarations, name: &str) -> String {
    format!("{SERVER}_{}", tools.wire_name(name))
}
