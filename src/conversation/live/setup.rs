//! What a session is told once, before its first turn: the system prompt and the tools.
//!
//! In: the thread's system messages and the bound tools. Out: a [`Setup`], by which sessions are told apart, and the tools'
//! names both ways: as the API allows them, and as the caller wrote them.

use super::wire::SERVER;
use crate::declare::{self, Declared, Tools};
use crate::message::ToolSpec;

/// The system prompt of a thread that has none.
pub const SYSTEM_PROMPT: &str = "You are the model behind an agent. Reply with the assistant's next message, and call tools where \
you need them; you have no others than those of this request.";

/// What is left of a name when the CLI has added its part.
const MAX_NAME: usize = declare::MAX_NAME - "mcp____".len() - SERVER.len();

/// What stands before the caller's names in the CLI's.
const PREFIX: &str = "mcp__df__";

/// The system prompt and the tools of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    system: Option<String>,
    append: Option<String>,
    /// Named without the CLI's prefix.
    tools: Tools,
}

impl Setup {
    /// `system` replaces the CLI's own system prompt, `append` is added to it.
    pub fn new(system: Option<String>, append: Option<String>, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            append,
            tools: Tools::new(tools, MAX_NAME),
        }
    }

    /// The tools, in the caller's order.
    pub fn tools(&self) -> &[Declared] {
        self.tools.declared()
    }

    /// What replaces the CLI's own system prompt.
    pub fn system_prompt(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// What is added to it.
    pub fn append_system_prompt(&self) -> Option<&str> {
        self.append.as_deref()
    }

    /// The caller's name of the tool that the model called `name`. A name that was never declared stays as it is.
    pub fn callers_name(&self, name: &str) -> String {
        let bare = name.strip_prefix(PREFIX).unwrap_or(name);
        self.tools.callers_name(bare).unwrap_or(bare).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::value::RawValue;

    use super::*;

    fn setup(names: &[&str]) -> Setup {
        let tools: Vec<ToolSpec> = names
            .iter()
            .map(|name| ToolSpec {
                name: (*name).to_owned(),
                description: None,
                schema: RawValue::from_string("{}".to_owned()).unwrap(),
            })
            .collect();
        Setup::new(None, None, &tools)
    }

    #[test]
    fn names_come_back_as_the_caller_wrote_them() {
        let long = "x".repeat(200);
        let other = format!("{long}y");
        let names = [
            "add",
            "get.weather",
            "get weather",
            "get_weather",
            "a__b",
            "日本",
            "",
            &long,
            &other,
        ];
        let setup = setup(&names);
        let wire: HashSet<&str> = setup.tools().iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(wire.len(), names.len());
        for (tool, name) in setup.tools().iter().zip(names) {
            assert!(
                (1..=MAX_NAME).contains(&tool.name.len())
                    && tool
                        .name
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
                "{}",
                tool.name
            );
            assert_eq!(setup.callers_name(&format!("mcp__df__{}", tool.name)), name);
        }
        for kept in ["add", "get_weather", "a__b"] {
            assert!(wire.contains(kept), "{kept}");
        }
        assert_eq!(setup.callers_name("mcp__df__unheard_of"), "unheard_of");
        assert_eq!(setup.callers_name("Bash"), "Bash");
    }

    #[test]
    fn the_same_tools_make_the_same_setup() {
        assert_eq!(setup(&["a.b", "a b"]), setup(&["a.b", "a b"]));
        assert_ne!(setup(&["a.b"]), setup(&["a b"]));
    }
}
