//! Decides whether a vendor can enforce a schema.
//!
//! In: a schema. Out: whether the model's API can hold the model to it. If it can't, the prompt asks for the schema instead;
//! the reply is checked against the schema in either case.

use serde_json::{Map, Value};

/// Keywords at the top that make an object's schema several: neither Anthropic's tools nor OpenAI's formats accept them there.
const SEVERAL: [&str; 9] = [
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "enum",
    "const",
    "dependentSchemas",
];

/// Keywords that OpenAI's strict mode refuses anywhere (platform.openai.com/docs/guides/structured-outputs, "Supported
/// schemas").
const NOT_STRICT: [&str; 14] = [
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "prefixItems",
    "contains",
    "uniqueItems",
    "unevaluatedProperties",
];

/// The depth to which objects may be nested in strict mode, and the number of their properties altogether.
const STRICT_DEPTH: usize = 10;
const STRICT_PROPERTIES: usize = 5000;

/// Returns whether the schema is that of one object: it has `type: "object"`, and no keyword at its top makes several of it.
pub fn is_one_object(schema: &Value) -> bool {
    schema
        .as_object()
        .is_some_and(|fields| is_object(fields) && !SEVERAL.iter().any(|keyword| fields.contains_key(*keyword)))
}

/// Returns whether OpenAI's strict mode accepts the schema: every object is closed and has no optional field, and only keywords
/// known to it are used. codex sends every schema in strict mode.
pub fn is_strict(schema: &Value) -> bool {
    let mut count = 0;
    is_one_object(schema) && part_is_strict(schema, 1, &mut count) && count <= STRICT_PROPERTIES
}

fn is_object(fields: &Map<String, Value>) -> bool {
    fields.get("type").and_then(Value::as_str) == Some("object")
}

/// Returns whether one part of the schema, at `depth`, fits strict mode; adds its properties to `count`.
fn part_is_strict(schema: &Value, depth: usize, count: &mut usize) -> bool {
    let Some(fields) = schema.as_object() else { return false };
    if NOT_STRICT.iter().any(|keyword| fields.contains_key(*keyword)) || depth > STRICT_DEPTH {
        return false;
    }
    let none = Map::new();
    let map = |keyword: &str| fields.get(keyword).and_then(Value::as_object).unwrap_or(&none).clone();
    let properties = map("properties");
    *count += properties.len();
    if mentions_object(fields) || !properties.is_empty() {
        let required = fields.get("required").and_then(Value::as_array);
        let is_required =
            |name: &String| required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)));
        if fields.get("additionalProperties") != Some(&Value::Bool(false)) || !properties.keys().all(is_required) {
            return false;
        }
    }
    let anys = fields
        .get("anyOf")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let mut inner = properties
        .values()
        .cloned()
        .map(|part| (part, depth + 1))
        .collect::<Vec<_>>();
    inner.extend(fields.get("items").cloned().map(|part| (part, depth)));
    inner.extend(anys.into_iter().map(|part| (part, depth)));
    inner.extend(
        map("$defs")
            .into_iter()
            .chain(map("definitions"))
            .map(|(_, part)| (part, 1)),
    );
    // A part without a type could be anything.
    let says_something = ["type", "$ref", "anyOf", "enum", "const"]
        .iter()
        .any(|keyword| fields.contains_key(*keyword));
    says_something && inner.iter().all(|(part, depth)| part_is_strict(part, *depth, count))
}

/// Returns whether a value of the schema may be an object.
fn mentions_object(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(one) => one == "object",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_object_is_no_union_and_no_reference() {
        assert!(is_one_object(&json!({"type": "object"})));
        for schema in [
            json!({"type": "array", "items": {}}),
            json!({"type": ["object", "null"]}),
            json!({"properties": {}}),
            json!({"anyOf": [{"type": "object"}]}),
            json!({"type": "object", "oneOf": [{}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
            json!(true),
        ] {
            assert!(!is_one_object(&schema), "{schema}");
        }
    }

    #[test]
    fn strict_is_what_leaves_nothing_open() {
        let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        for schema in [
            closed(json!({}), json!([])),
            closed(json!({"a": {"type": "string", "format": "date"}}), json!(["a"])),
            closed(
                json!({"a": {"type": ["string", "null"]}, "b": {"type": "array", "items": {"enum": ["x", 1]}}}),
                json!(["a", "b"]),
            ),
            closed(
                json!({"a": {"anyOf": [{"type": "null"}, closed(json!({}), json!([]))]}}),
                json!(["a"]),
            ),
            json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["next"], "additionalProperties": false,
                   "$defs": {"n": {"anyOf": [{"type": "null"}, {"type": "number"}]}}}),
        ] {
            assert!(is_strict(&schema), "{schema}");
        }
        let mut deep = json!({"type": "string"});
        for _ in 0..STRICT_DEPTH {
            deep = closed(json!({"a": deep}), json!(["a"]));
        }
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            closed(json!({"a": {"type": "string"}}), json!([])),
            closed(json!({"a": {}}), json!(["a"])),
            closed(json!({"a": {"type": "object"}}), json!(["a"])),
            closed(json!({"a": {"oneOf": [{"type": "string"}]}}), json!(["a"])),
            closed(
                json!({"a": {"type": "array", "items": {"type": "object"}}}),
                json!(["a"]),
            ),
            closed(
                json!({"a": {"type": "array", "prefixItems": [{"type": "string"}]}}),
                json!(["a"]),
            ),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            deep,
        ] {
            assert!(!is_strict(&schema), "{schema}");
        }
    }
}
