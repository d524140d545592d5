//! The caller's tools as an MCP server declares them, and their names both ways.
//!
//! In: the bound tools. Out: [`Declarations`]: names that every API and CLI takes, schemas that every MCP client takes, and
//! the way back to the names the caller wrote. One map for both servers: the one spoken over a CLI's standard streams
//! (`conversation::live`) and the one on the loopback interface (`bridge`).

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::message::ToolSpec;

/// What the MCP server of the caller's tools is called in a CLI's configuration.
pub const SERVER: &str = "df";

/// The API takes `[a-zA-Z0-9_-]{1,64}` as a tool's name; claude, whose prefix is the longest, adds this much to ours.
const MAX_NAME: usize = 64 - "mcp____".len() - SERVER.len();

/// What CLIs put before our names: claude, codex and qwen; gemini; codex in its events.
const PREFIXES: [&str; 3] = ["mcp__df__", "mcp_df_", "df."];

/// More characters than this of a result, and claude shows the model a preview of 2 KB instead (CLI-FACTS 1b §6).
pub const MAX_RESULT_CHARS: u32 = 500_000;

/// The `_meta` key of a tool by which claude is told so.
pub const MAX_RESULT_KEY: &str = "anthropic/maxResultSizeChars";

/// One of the caller's tools, declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name on the wire, without the CLI's prefix.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of its arguments, an object's, as raw text.
    pub schema: String,
}

/// All of the caller's tools, declared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declarations {
    tools: Vec<Declared>,
    /// From a name on the wire to the caller's.
    names: HashMap<String, String>,
}

impl Declarations {
    /// Declares `tools`, in their order.
    pub fn new(tools: &[ToolSpec]) -> Declarations {
        let mut taken: HashSet<String> = HashSet::new();
        let mut names = HashMap::new();
        let tools = tools
            .iter()
            .map(|tool| {
                let name = wire_name(&tool.name, &mut taken);
                names.insert(name.clone(), tool.name.clone());
                Declared {
                    name,
                    description: tool.description.clone(),
                    schema: object_schema(&tool.schema),
                }
            })
            .collect();
        Declarations { tools, names }
    }

    /// The tools, in the caller's order.
    pub fn tools(&self) -> &[Declared] {
        &self.tools
    }

    /// The caller's name of the tool that is called `name` on the wire, without a prefix; `None` for a foreign one.
    pub fn known(&self, name: &str) -> Option<&str> {
        self.names.get(name).map(String::as_str)
    }

    /// The caller's name of the tool that a CLI calls `name`, with its prefix or without; `None` for one of its own.
    pub fn ours(&self, name: &str) -> Option<&str> {
        let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        self.known(bare.unwrap_or(name))
    }

    /// The caller's name of the tool that the model called `name`. A name that was never declared stays as it is, but for
    /// the prefix.
    pub fn callers_name(&self, name: &str) -> String {
        let bare = name.strip_prefix(PREFIXES[0]).unwrap_or(name);
        self.known(bare).unwrap_or(bare).to_owned()
    }
}

/// `name` as the API allows it: unchanged where it can be, otherwise with a hash of the original, so that a tool has the
/// same name in every session.
fn wire_name(name: &str, taken: &mut HashSet<String>) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fits = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(allowed);
    let mut wire = name.to_owned();
    let mut round = 0_u32;
    while (round == 0 && !fits) || taken.contains(&wire) {
        // Always with the same keys, unlike a HashMap's.
        let mut hasher = DefaultHasher::new();
        (name, round).hash(&mut hasher);
        let hash = format!("_{:08x}", hasher.finish() & 0xFFFF_FFFF);
        let kept = name.chars().take(MAX_NAME - hash.len());
        wire = kept.map(|c| if allowed(c) { c } else { '_' }).collect::<String>() + &hash;
        round += 1;
    }
    taken.insert(wire.clone());
    wire
}

/// The schema as MCP takes it: `type` must be `"object"`, or the CLI drops every tool of the server.
fn object_schema(schema: &RawValue) -> String {
    match serde_json::from_str::<Value>(schema.get()) {
        Ok(Value::Object(map)) if map.get("type").and_then(Value::as_str) == Some("object") => schema.get().to_owned(),
        Ok(Value::Object(map)) => {
            let mut object = Map::new();
            object.insert("type".to_owned(), Value::from("object"));
            object.extend(map.into_iter().filter(|(key, _)| key != "type"));
            Value::Object(object).to_string()
        }
        // Not JSON that can be read, or `true`: anything goes.
        _ => r#"{"type":"object"}"#.to_owned(),
    }
}

#[cfg(test)]
mod tests {
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
        let declared = declared(&names);
        let wire: HashSet<&str> = declared.tools().iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(wire.len(), names.len());
        for (tool, name) in declared.tools().iter().zip(names) {
            assert!(
                (1..=MAX_NAME).contains(&tool.name.len())
                    && tool
                        .name
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
                "{}",
                tool.name
            );
            assert_eq!(declared.callers_name(&format!("mcp__df__{}", tool.name)), name);
        }
        for kept in ["add", "get_weather", "a__b"] {
            assert!(wire.contains(kept), "{kept}");
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

    #[test]
    fn every_schema_is_an_objects() {
        let schema = |text: &str| object_schema(&RawValue::from_string(text.to_owned()).unwrap());
        let kept = r#"{ "type":"object","properties":{"b":{"const":1.0},"a":{}} }"#;
        assert_eq!(schema(kept), kept);
        assert_eq!(schema(r#"{"properties":{}}"#), r#"{"type":"object","properties":{}}"#);
        assert_eq!(schema(r#"{"type":"string","x":1}"#), r#"{"type":"object","x":1}"#);
        assert_eq!(schema("true"), r#"{"type":"object"}"#);
    }
}
