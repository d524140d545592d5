//! The caller's tools as an MCP server declares them, and their names both ways.
//!
//! In: the bound tools. Out: [`Declarations`]: names that every API and CLI takes, schemas that every MCP client takes, and
//! the way back to the names the caller wrote. One map for both servers: the one spoken over a CLI's standard streams
//! (`exchange::claude_live`) and the one on the loopback interface (`bridge`).

use super::{Declared, Tools};
use crate::message::ToolSpec;

/// What the MCP server of the caller's tools is called in a CLI's configuration.
pub const SERVER: &str = "df";

/// How long a name may be with what a CLI puts before it, `mcp__df__` being the longest. The API takes `[a-zA-Z0-9_-]{1,64}`; qwen (0.24.4)
/// and gemini (0.61.0) shorten names of more than 63 characters, under which nobody would know the tool again.
const MAX_NAME: usize = super::MAX_NAME - 1 - "mcp____".len() - SERVER.len();

/// What CLIs put before our names: claude, codex and qwen; gemini; codex in its events.
const PREFIXES: [&str; 3] = ["mcp__df__", "mcp_df_", "df."];

/// More characters than this of a result, and claude shows the model a preview of 2 KB instead (CLI-FACTS 1b §6).
pub const MAX_RESULT_CHARS: u32 = 500_000;

/// The `_meta` key of a tool by which claude learns that.
pub const MAX_RESULT_KEY: &str = "anthropic/maxResultSizeChars";

/// What every JavaScript object has. A client that keeps the tools of a server in one takes such a tool for one that it has already, and
/// leaves out all tools of the server (qwen 0.24.4).
const OF_EVERY_OBJECT: [&str; 12] = [
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// All of the caller's tools, declared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declarations {
    tools: Tools,
}

impl Declarations {
    /// Declares `tools`, in their order.
    pub fn new(tools: &[ToolSpec]) -> Declarations {
        Declarations {
            tools: Tools::avoiding(tools, MAX_NAME, |name| OF_EVERY_OBJECT.contains(&name)),
        }
    }

    /// The tools, in the caller's order.
    pub fn tools(&self) -> &[Declared] {
        self.tools.declared()
    }

    /// The caller's name of the tool that is called `name` on the wire, without a prefix; `None` for a foreign one.
    pub fn known(&self, name: &str) -> Option<&str> {
        self.tools.callers_name(name)
    }

    /// The caller's name of the tool that a CLI calls `name`, with its prefix or without; `None` for one of its own.
    pub fn ours(&self, name: &str) -> Option<&str> {
        let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        self.known(bare.unwrap_or(name))
    }

    /// The name on the wire of the caller's tool `name`, without a prefix; of one that was not declared (an earlier call in the
    /// thread), a name that it might have had.
    pub fn wire_name(&self, name: &str) -> String {
        self.tools.wire_name(name, MAX_NAME)
    }

    /// The caller's name of the tool that the model called `name`. A name that was never declared stays as it is, but for
    /// the prefix.
    pub fn callers_name(&self, name: &str) -> String {
        let bare = name.strip_prefix(PREFIXES[0]).unwrap_or(name);
        self.known(bare).unwrap_or(bare).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn declared(names: &[&str]) -> Declarations {
        let tools: Vec<ToolSpec> = names
            .iter()
            .map(|name| ToolSpec {
                name: (*name).to_owned(),
                description: None,
                schema: RawValue::from_string("{}".to_owned()).unwrap(),
            })
            .collect();
        Declarations::new(&tools)
    }

    #[test]
    fn names_come_back_as_the_caller_wrote_them() {
        let (fits, long) = ("n".repeat(54), "n".repeat(55));
        let names = [
            "add",
            "get.weather",
            "a__b",
            "日本",
            &fits,
            &long,
            "constructor",
            "__proto__",
        ];
        let declared = declared(&names);
        assert!(
            declared
                .tools()
                .iter()
                .all(|tool| !OF_EVERY_OBJECT.contains(&tool.name.as_str()))
        );
        for (tool, name) in declared.tools().iter().zip(names) {
            assert!(format!("mcp__{SERVER}__{}", tool.name).len() <= 63);
            assert_eq!(declared.callers_name(&format!("mcp__df__{}", tool.name)), name);
        }
        assert_eq!(declared.callers_name("mcp__df__unheard_of"), "unheard_of");
        assert_eq!(declared.callers_name("Bash"), "Bash");
    }

    #[test]
    fn every_clis_prefix_is_known_and_its_own_tools_are_not_ours() {
        let declared = declared(&["get.weather", "add"]);
        let wire = &declared.tools()[0].name;
        for prefix in PREFIXES.iter().chain(&[""]) {
            assert_eq!(declared.ours(&format!("{prefix}{wire}")), Some("get.weather"));
        }
        for foreign in ["Bash", "mcp__other__add", "df_rm", "get.weather", ""] {
            assert_eq!(declared.ours(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_same_tools_are_declared_alike() {
        assert_eq!(declared(&["a.b", "a b"]), declared(&["a.b", "a b"]));
        assert_ne!(declared(&["a.b"]), declared(&["a b"]));
    }
}
