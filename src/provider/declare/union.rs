//! Flattens a schema whose arguments are one of several objects, for an API that accepts a single object only.
//!
//! In: the schema of a tool. Out: the schema of one object that accepts at least the same values. OpenAI refuses a request with
//! `anyOf`, `oneOf`, `allOf`, `enum` or `not` at the top of a tool's schema; zod writes `z.discriminatedUnion` in that way.

use serde_json::{Map, Value, json};

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
pub fn flattened(schema: &Value) -> Option<Value> {
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
pub fn said(schema: &Value) -> Option<String> {
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
