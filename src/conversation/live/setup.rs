//! What a session is told once, before its first turn: the system prompt and the tools.
//!
//! In: the thread's system messages and the bound tools. Out: a [`Setup`], by which sessions are told apart, and the tools'
//! names both ways: as the API allows them, and as the caller wrote them.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::wire::SERVER;
use crate::message::ToolSpec;

/// The system prompt of a thread that has none.
pub const SYSTEM_PROMPT: &str = "You are the model behind an agent. Reply with the assistant's next message, and call tools where \
you need them; you have no others than those of this request.";

/// The API takes `[a-zA-Z0-9_-]{1,64}` as a tool's name; the CLI adds this much to ours.
const MAX_NAME: usize = 64 - "mcp____".len() - SERVER.len();

/// What stands before the caller's names in the CLI's.
const PREFIX: &str = "mcp__df__";

/// One of the caller's tools, declared to the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name on the wire, without the CLI's prefix.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of its arguments, an object's, as raw text.
    pub schema: String,
}

/// The system prompt and the tools of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    system: Option<String>,
    append: Option<String>,
    tools: Vec<Declared>,
    /// From a name on the wire to the caller's.
    names: HashMap<String, String>,
}

impl Setup {
    /// `system` replaces the CLI's own system prompt, `append` is added to it.
    pub fn new(system: Option<String>, append: Option<String>, tools: &[ToolSpec]) -> Setup {
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
        Setup {
            system,
            append,
            tools,
            names,
        }
    }

    /// The tools, in the caller's order.
    pub fn tools(&self) -> &[Declared] {
        &self.tools
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
        self.names.get(bare).map_or(bare, String::as_str).to_owned()
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
