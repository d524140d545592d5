//! Declares the caller's tools for an MCP server, and maps their names both ways.
//!
//! In: the bound tools. Out: [`Declarations`]: names that every API and CLI accepts, schemas that every MCP client accepts, and the
//! way back to the caller's names. Both MCP servers use it: the one over a CLI's standard streams (`exchange::claude_live`), and
//! the one on the loopback interface (`bridge`).

use super::{Declared, Tools};
use dfp_model::message::ToolSpec;

/// The name of the MCP server with the caller's tools in a CLI's configuration.
pub const SERVER: &str = "df";

/// The longest name that still fits behind a CLI's prefix, of which `mcp__df__` is the longest. The API takes
/// `[a-zA-Z0-9_-]{1,64}`. qwen (0.24.4) and gemini (0.61.0) shorten names of more than 63 characters, and a shortened name could
/// not be mapped back.
const MAX_NAME: usize = super::MAX_NAME - 1 - "mcp____".len() - SERVER.len();

/// The prefixes that CLIs put before these names: claude, codex and qwen; gemini; codex in its events.
const PREFIXES: [&str; 3] = ["mcp__df__", "mcp_df_", "df."];

/// The most characters of a result. Of a longer one claude would show the model a preview of 2 KB only (CLI-FACTS 1b §6).
pub const MAX_RESULT_CHARS: u32 = 500_000;

/// The names of properties that every JavaScript object has. A client that keeps a server's tools in an object takes a tool of such
/// a name for a duplicate, and drops all tools of the server (qwen 0.24.4).
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

/// The declarations of all of the caller's tools.
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

    /// The declared tools, in the caller's order.
    pub fn tools(&self) -> &[Declared] {
        self.tools.declared()
    }

    /// The caller's name of the tool with the wire name `name`, without a prefix; `None` for a foreign tool.
    pub fn known(&self, name: &str) -> Option<&str> {
        self.tools.callers_name(name)
    }

    /// The caller's name of the tool that a CLI calls `name`, with or without its prefix; `None` for a tool of the CLI's own.
    pub fn ours(&self, name: &str) -> Option<&str> {
        let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        self.known(bare.unwrap_or(name))
    }

    /// The caller's names of the tools that are not among those that a CLI says it offers its model.
    pub fn missing(&self, offered: &[String]) -> Vec<String> {
        let listed: Vec<_> = offered.iter().filter_map(|name| self.ours(name)).collect();
        let bound = self.tools().iter().map(|tool| self.callers_name(&tool.name));
        bound.filter(|name| !listed.contains(&name.as_str())).collect()
    }

    /// The wire name of the caller's tool `name`, without a prefix. A tool that was not declared (of an earlier call in the thread)
    /// gets the name that it might have had.
    pub fn wire_name(&self, name: &str) -> String {
        self.tools.wire_name(name, MAX_NAME)
    }

    /// The caller's name of the tool that the model called `name`. A name that was never declared is returned without its prefix.
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
