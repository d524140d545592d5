//! Declares the caller's tools in the form that an API accepts.
//!
//! In: the bound tools, and the longest name. Out: [`Tools`]: each with a name that the API accepts and the schema of an object,
//! and the mapping of names both ways.

pub mod mcp;
pub mod union;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use dfp_model::message::ToolSpec;

/// The longest name of a tool that APIs take: `[a-zA-Z0-9_-]{1,64}`.
pub const MAX_NAME: usize = 64;

/// The declaration of one of the caller's tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Declared {
    /// The wire name: the name under which the API knows the tool.
    pub name: String,
    pub description: Option<String>,
    /// The JSON Schema of its arguments, always of an object, as raw text.
    pub schema: String,
}

/// The declared tools of a request or a session, in the caller's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    declared: Vec<Declared>,
    /// The caller's name by wire name.
    callers: HashMap<String, String>,
}

impl Tools {
    /// Declares `tools` under names of at most `max_name` bytes.
    pub fn new(tools: &[ToolSpec], max_name: usize) -> Tools {
        Tools::avoiding(tools, max_name, |_| false)
    }

    /// Declares `tools` like [`Tools::new`], under none of the names that are `reserved`. A name that begins with `t_` must not be
    /// reserved by its beginning, since it is the way out.
    pub fn avoiding(tools: &[ToolSpec], max_name: usize, reserved: impl Fn(&str) -> bool) -> Tools {
        let mut taken: HashSet<String> = HashSet::new();
        let mut callers = HashMap::new();
        let declare = |tool: &ToolSpec| {
            let name = wire_name(&tool.name, max_name, |name| taken.contains(name) || reserved(name));
            taken.insert(name.clone());
            callers.insert(name.clone(), tool.name.clone());
            let (schema, union) = one_object(object_schema(&tool.schema));
            let said = union.map(|union| format!("The arguments are {union}"));
            let description: Vec<&str> = tool.description.as_deref().into_iter().chain(said.as_deref()).collect();
            Declared {
                name,
                description: (!description.is_empty()).then(|| description.join("\n\n")),
                schema,
            }
        };
        Tools {
            declared: tools.iter().map(declare).collect(),
            callers,
        }
    }

    /// The declared tools, in the caller's order.
    pub fn declared(&self) -> &[Declared] {
        &self.declared
    }

    /// The caller's name of the tool with the wire name `name`, if it was declared.
    pub fn callers_name(&self, name: &str) -> Option<&str> {
        self.callers.get(name).map(String::as_str)
    }

    /// The wire name of the caller's tool `name`. A tool that was not declared (of an earlier call in the thread) gets the name
    /// that it might have had.
    pub fn wire_name(&self, name: &str, max_name: usize) -> String {
        let known = self.callers.iter().find(|(_, callers)| *callers == name);
        known.map_or_else(|| wire_name(name, max_name, |_| false), |(wire, _)| wire.clone())
    }
}

/// The wire name for `name`: unchanged if possible, else with a hash of the original, so that a tool has the same name in every
/// session.
fn wire_name(name: &str, max_name: usize, is_taken: impl Fn(&str) -> bool) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fits = !name.is_empty() && name.len() <= max_name && name.chars().all(allowed);
    let mut wire = name.to_owned();
    let mut round = 0_u32;
    while (round == 0 && !fits) || is_taken(&wire) {
        // This hasher always has the same keys, unlike that of a HashMap.
        let mut hasher = DefaultHasher::new();
        (name, round).hash(&mut hasher);
        let hash = format!("_{:08x}", hasher.finish() & 0xFFFF_FFFF);
        // If the beginning of the name is reserved, it gets another one.
        let before = if round > 0 { "t_" } else { "" };
        let kept = name.chars().take(max_name - hash.len() - before.len());
        let kept: String = kept.map(|c| if allowed(c) { c } else { '_' }).collect();
        wire = format!("{before}{kept}{hash}");
        round += 1;
    }
    wire
}

/// `schema` without a union at its top, for which OpenAI refuses the whole request, whichever CLI sends it; and that union, in words.
fn one_object(schema: String) -> (String, Option<String>) {
    let whole: Option<Value> = serde_json::from_str(&schema).ok();
    let flat = whole.as_ref().and_then(union::flattened);
    match (flat, whole) {
        (Some(flat), Some(whole)) => (flat.to_string(), union::said(&whole)),
        _ => (schema, None),
    }
}

/// The schema in the form that MCP and the APIs accept: `type` must be `"object"`, or claude drops every tool of the server.
fn object_schema(schema: &RawValue) -> String {
    match serde_json::from_str::<Value>(schema.get()) {
        Ok(Value::Object(map)) if map.get("type").and_then(Value::as_str) == Some("object") => schema.get().to_owned(),
        Ok(Value::Object(map)) => {
            let mut object = Map::new();
            object.insert("type".to_owned(), Value::from("object"));
            object.extend(map.into_iter().filter(|(key, _)| key != "type"));
            Value::Object(object).to_string()
        }
        // The schema is unreadable, or `true`: any arguments are accepted.
        _ => r#"{"type":"object"}"#.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(names: &[&str], max_name: usize) -> Tools {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: None,
            schema: RawValue::from_string("{}".to_owned()).unwrap(),
        };
        Tools::new(&names.iter().map(spec).collect::<Vec<_>>(), max_name)
    }

    #[test]
    fn a_union_at_the_top_is_one_objects_and_told_in_words() {
        let union =
            r#"[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"object","properties":{"b":{}}}]"#;
        let spec = ToolSpec {
            name: "t".to_owned(),
            description: Some("Does it.".to_owned()),
            schema: RawValue::from_string(format!(r#"{{"anyOf":{union}}}"#)).unwrap(),
        };
        let declared = Declared {
            name: "t".to_owned(),
            description: Some(format!("Does it.\n\nThe arguments are any one of {union}")),
            schema: r#"{"type":"object","properties":{"a":{},"b":{}}}"#.to_owned(),
        };
        assert_eq!(Tools::new(&[spec], 64).declared(), [declared]);
    }

    #[test]
    fn names_are_allowed_and_lead_back() {
        let long = "x".repeat(200);
        let other = format!("{long}y");
        let names = [
            "add",
            "get.weather",
            "get weather",
            "get_weather",
            "日本",
            "",
            &long,
            &other,
        ];
        for max_name in [MAX_NAME, 40] {
            let tools = tools(&names, max_name);
            let wire: HashSet<&str> = tools.declared().iter().map(|tool| tool.name.as_str()).collect();
            assert_eq!(wire.len(), names.len());
            for (tool, name) in tools.declared().iter().zip(names) {
                let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
                assert!((1..=max_name).contains(&tool.name.len()) && tool.name.bytes().all(allowed));
                assert_eq!(tools.callers_name(&tool.name), Some(name));
                assert_eq!(tools.wire_name(name, max_name), tool.name);
            }
            assert!(wire.contains("add") && wire.contains("get_weather"));
        }
        let none = tools(&[], MAX_NAME);
        assert_eq!(
            (none.callers_name("add"), none.wire_name("a.b", MAX_NAME).len()),
            (None, 12)
        );
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
