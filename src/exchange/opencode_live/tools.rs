//! The caller's tools in opencode: a folder of the server's in which an MCP server of ours declares them.
//!
//! In: the tools. Out: a [`ToolSet`]. MCP servers belong to a folder (OTHER-LIVE 1.5), so conversations with other tools have
//! another one. Ours only declares: a call that got past the permission would be answered with an error, and nothing would run.

use crate::bridge::Bridge;
use dfp_provider::declare::mcp::{Declarations, SERVER};

/// The prefix that opencode puts before the names of our server's tools.
pub const PREFIX: &str = "df_";

/// Tools, and the folder in which they are declared.
#[derive(Debug)]
pub struct ToolSet {
    pub tools: Declarations,
    /// The folder of the sessions that have these tools.
    pub directory: String,
    /// The MCP server that declares them; `None` if there are none.
    pub bridge: Option<Bridge>,
}

/// The caller's name of the tool that opencode calls `name`; `None` for any other.
pub fn callers_name<'a>(tools: &'a Declarations, name: &str) -> Option<&'a str> {
    tools.known(name.strip_prefix(PREFIX)?)
}

/// The name that opencode gives the caller's tool `name`.
pub fn wire_name(tools: &Declarations, name: &str) -> String {
    format!("{SERVER}_{}", tools.wire_name(name))
}
