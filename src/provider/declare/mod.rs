//! Declares the caller's tools in the form that an API accepts.
//!
//! In: the bound tools, and the longest name. Out: [`Tools`]: each with a name that the API accepts and the schema of one object, and the
//! mapping of names both ways.
//!
//! A schema whose arguments are one of several objects becomes that of one object, which accepts at least the same values
//! (`flattened`): OpenAI refuses a request with `anyOf`, `oneOf`, `allOf`, `enum` or `not` at the top of a tool's schema, and zod
//! writes `z.discriminatedUnion` in that way.

pub mod mcp;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

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
    let flat = whole.as_ref().and_then(flattened);
    match (flat, whole) {
        (Some(flat), Some(whole)) => (flat.to_string(), said(&whole)),
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

/// Keywords that combine several schemas.
const BRANCHES: [&str; 3] = ["anyOf", "oneOf", "allOf"];
/// Further keywords that must not stand at the top.
const REFUSED: [&str; 8] = ["$ref", "not", "enum", "const", "if", "then", "else", "dependentSchemas"];
/// The depth to which unions and references are followed.
const DEEPEST: usize = 16;
/// The most properties of the flattened object: a schema may be written so that it multiplies itself.
const MOST: usize = 2_000;

/// The longest union that is repeated in a description, bytes.
const LONGEST_SAID: usize = 8 * 1024;

/// The schema of one object in place of `schema`; `None` if that is no union, and no reference to one, at its top. The object has
/// the properties of all branches, and requires those that every branch requires.
fn flattened(schema: &Value) -> Option<Value> {
    let fields = schema.as_object()?;
    let is_flat = BRANCHES
        .iter()
        .chain(&REFUSED)
        .all(|keyword| !fields.contains_key(*keyword));
    if is_flat {
        return None;
    }
    let mut object = Object::default();
    object.take(schema, schema, 0);
    let mut flat: Map<String, Value> = fields
        .iter()
        .filter(|(keyword, _)| !BRANCHES.contains(&keyword.as_str()) && !REFUSED.contains(&keyword.as_str()))
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect();
    flat.insert("type".to_owned(), json!("object"));
    flat.insert("properties".to_owned(), Value::Object(object.properties));
    match object.required.is_empty() {
        true => flat.shift_remove("required"),
        false => flat.insert("required".to_owned(), json!(object.required)),
    };
    match object.is_closed {
        true => flat.insert("additionalProperties".to_owned(), json!(false)),
        false => flat.shift_remove("additionalProperties"),
    };
    Some(Value::Object(flat))
}

/// The union that was lost by flattening, as text for the tool's description; `None` if there is none, or it is too long.
fn said(schema: &Value) -> Option<String> {
    let unions = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword));
    let text = unions.map(Value::to_string).collect::<Vec<_>>().join(" and ");
    (!text.is_empty() && text.len() <= LONGEST_SAID).then(|| format!("any one of {text}"))
}

/// The facts about the objects that fit a schema.
#[derive(Debug, Default)]
struct Object {
    properties: Map<String, Value>,
    required: Vec<String>,
    /// No other properties are allowed.
    is_closed: bool,
}

impl Object {
    /// Adds the facts of `schema`, a part of `root`, which must hold as well.
    fn take(&mut self, root: &Value, schema: &Value, depth: usize) {
        let Some(fields) = schema.as_object().filter(|_| depth < DEEPEST) else {
            return;
        };
        if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            if let Some(target) = target {
                self.take(root, target, depth + 1);
            }
        }
        for (name, property) in fields
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            self.add(name, property);
        }
        let names = fields.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in names.filter_map(Value::as_str) {
            self.require(name);
        }
        self.is_closed |= fields.get("additionalProperties") == Some(&Value::Bool(false));
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.take(root, part, depth + 1);
        }
        for keyword in ["anyOf", "oneOf"] {
            let branches = fields.get(keyword).and_then(Value::as_array);
            let branches = branches.into_iter().flatten().map(|branch| {
                let mut object = Object::default();
                object.take(root, branch, depth + 1);
                object
            });
            if let Some(any) = branches.reduce(Object::or) {
                for (name, property) in &any.properties {
                    self.add(name, property);
                }
                any.required.iter().for_each(|name| self.require(name));
                self.is_closed |= any.is_closed;
            }
        }
    }

    fn require(&mut self, name: &str) {
        if !self.required.iter().any(|known| known == name) {
            self.required.push(name.to_owned());
        }
    }

    fn add(&mut self, name: &str, property: &Value) {
        if self.properties.len() < MOST || self.properties.contains_key(name) {
            let before = self.properties.get(name);
            let either = before.map_or_else(|| property.clone(), |before| either(before, property));
            self.properties.insert(name.to_owned(), either);
        }
    }

    /// The facts about objects that fit this schema or `other`.
    fn or(mut self, other: Object) -> Object {
        for (name, property) in &other.properties {
            self.add(name, property);
        }
        self.required.retain(|name| other.required.contains(name));
        self.is_closed &= other.is_closed;
        self
    }
}

/// A schema that accepts the values of `one` and of `other`. Constants are joined in one list.
fn either(one: &Value, other: &Value) -> Value {
    if one == other {
        return one.clone();
    }
    if let (Some(mut values), Some(more)) = (constants(one), constants(other)) {
        let more = more
            .into_iter()
            .filter(|value| !values.contains(value))
            .collect::<Vec<_>>();
        values.extend(more);
        let mut merged = one.as_object().cloned().unwrap_or_default();
        merged.shift_remove("const");
        if one.get("type") != other.get("type") {
            merged.shift_remove("type");
        }
        merged.insert("enum".to_owned(), Value::Array(values));
        return Value::Object(merged);
    }
    let alternatives = |schema: &Value| match schema.as_object() {
        Some(fields) if fields.len() == 1 => fields.get("anyOf").and_then(Value::as_array).cloned(),
        _ => None,
    };
    let mut all = alternatives(one).unwrap_or_else(|| vec![one.clone()]);
    let more = alternatives(other).unwrap_or_else(|| vec![other.clone()]);
    for schema in more {
        if !all.contains(&schema) {
            all.push(schema);
        }
    }
    json!({ "anyOf": all })
}

/// The values of a schema that lists them all; `None` for any other.
fn constants(schema: &Value) -> Option<Vec<Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
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

    #[test]
    fn a_union_becomes_one_object_that_takes_what_each_of_its_branches_takes() {
        let circle = json!({"type": "object", "properties": {"kind": {"type": "string", "const": "circle"}, "size": {"type": "number"}},
                            "required": ["kind", "size"], "additionalProperties": false});
        let text = json!({"type": "object", "properties": {"kind": {"type": "string", "const": "text"}, "size": {"type": "string"}, "bold": {"type": "boolean"}},
                          "required": ["kind", "size"], "additionalProperties": false});
        let flat = json!({
            "type": "object",
            "properties": {"kind": {"type": "string", "enum": ["circle", "text"]},
                           "size": {"anyOf": [{"type": "number"}, {"type": "string"}]}, "bold": {"type": "boolean"}},
            "required": ["kind", "size"],
            "additionalProperties": false,
        });
        for keyword in ["anyOf", "oneOf"] {
            assert_eq!(
                flattened(&json!({"type": "object", keyword: [circle, text]})),
                Some(flat.clone())
            );
        }
        // The same union by references, and within another union.
        let mut referred = flat.clone();
        referred["$defs"] = json!({"c": circle, "t": {"oneOf": [text]}});
        let schema = json!({"$defs": {"c": circle, "t": {"oneOf": [text]}}, "type": "object", "anyOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/t"}]});
        assert_eq!(flattened(&schema), Some(referred));
    }

    #[test]
    fn what_the_top_says_besides_holds_with_each_branch() {
        let schema = json!({
            "type": "object", "description": "d", "properties": {"id": {"type": "integer"}}, "required": ["id"],
            "anyOf": [{"required": ["a"], "properties": {"a": {}}}, {"required": ["b"], "properties": {"b": {}}}],
            "allOf": [{"properties": {"c": {"type": "string"}}, "required": ["c"]}],
        });
        assert_eq!(
            flattened(&schema),
            Some(json!({"type": "object", "description": "d", "required": ["id", "c"],
                        "properties": {"id": {"type": "integer"}, "c": {"type": "string"}, "a": {}, "b": {}}}))
        );
        assert_eq!(
            flattened(&json!({"type": "object", "properties": {"a": {"anyOf": [{}, {}]}}})),
            None
        );
        // A reference to itself ends at the greatest depth.
        let endless = json!({"type": "object", "anyOf": [{"$ref": "#"}, {"properties": {"x": {}}}]});
        assert_eq!(
            flattened(&endless).map(|flat| flat["properties"].clone()),
            Some(json!({"x": {}}))
        );
    }
}
