//! The schemas that a model's API can enforce. If it can't, the prompt asks for the schema instead; the reply is checked against the
//! caller's schema in either case.
//!
//! In: a schema. Out: whether OpenAI's API can hold its model to it ([`is_strict`]).
//!
//! In: a schema. Out: one that Anthropic's Messages API can enforce, in `output_config.format` ([`enforceable`]): in the keywords that the
//! API takes, it allows what a model is expected to write; or nothing, if its objects or lists hold parts of any kind, or it leads into
//! itself. A limit for which the API has no keyword is told in a description instead, as the vendor's own SDKs do; an object that is not
//! closed is closed. Source: platform.claude.com/docs/en/build-with-claude/structured-outputs, "JSON Schema limitations".

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// The formats of strings that the API enforces.
const FORMATS: [&str; 10] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "uri",
    "ipv4",
    "ipv6",
    "uuid",
];

/// Keywords that the API does not take, and that a model can heed.
const LIMITS: [&str; 22] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
];

/// Keywords without which a schema would say something else than it does.
const UNTELLABLE: [&str; 7] = [
    "allOf",
    "patternProperties",
    "prefixItems",
    "dependentRequired",
    "dependentSchemas",
    "$dynamicRef",
    "$anchor",
];

/// The keywords that hold a schema's definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The greatest whole number of JavaScript, which zod 4 writes as the limit of every whole number.
const SAFE: i64 = (1 << 53) - 1;

/// The schema as the API enforces it; `None` if it can't.
pub fn enforceable(schema: &Value) -> Option<Value> {
    let fields = schema.as_object().filter(|_| is_one_object(schema))?;
    if leads_into_itself(fields) {
        return None;
    }
    let mut whole = part(schema, fields)?;
    for keyword in DEFINITIONS {
        if let Some(definitions) = fields.get(keyword).and_then(Value::as_object) {
            whole.insert(keyword.to_owned(), Value::Object(parts(definitions, fields)?));
        }
    }
    Some(Value::Object(whole))
}

/// Each of `all` as the API enforces it.
fn parts(all: &Map<String, Value>, root: &Map<String, Value>) -> Option<Map<String, Value>> {
    all.iter()
        .map(|(name, inner)| Some((name.clone(), Value::Object(part(inner, root)?))))
        .collect()
}

/// One part of the schema `root` as the API enforces it, without definitions.
fn part(schema: &Value, root: &Map<String, Value>) -> Option<Map<String, Value>> {
    let fields = schema.as_object()?;
    if UNTELLABLE.iter().any(|keyword| fields.contains_key(*keyword)) {
        return None;
    }
    let mut kept = Map::new();
    if let Some(reference) = fields.get("$ref") {
        definition(reference.as_str()?, root)?;
        kept.insert("$ref".to_owned(), reference.clone());
        return Some(kept);
    }
    for keyword in ["title", "description", "default"] {
        if let Some(value) = fields.get(keyword) {
            kept.insert(keyword.to_owned(), value.clone());
        }
    }
    let alternatives: Vec<&Value> = ["anyOf", "oneOf"]
        .iter()
        .filter_map(|keyword| fields.get(*keyword))
        .collect();
    match alternatives.as_slice() {
        [] => {}
        // Both sides of such a schema would have to be one.
        [Value::Array(several)]
            if !["properties", "items", "enum", "const"]
                .iter()
                .any(|keyword| fields.contains_key(*keyword)) =>
        {
            let several: Option<Vec<Value>> = several.iter().map(|one| part(one, root).map(Value::Object)).collect();
            kept.insert("anyOf".to_owned(), Value::Array(several?));
            tell(&mut kept, fields);
            return Some(kept);
        }
        _ => return None,
    }
    let types = types(fields)?;
    let says_values = copy_values(fields, &mut kept)?;
    if types.is_empty() && !says_values {
        // It could be anything.
        return None;
    }
    if let Some(types) = fields.get("type") {
        kept.insert("type".to_owned(), types.clone());
    }
    if !says_values && types.contains("object") {
        copy_object(fields, root, &mut kept)?;
    }
    if !says_values && types.contains("array") {
        kept.insert("items".to_owned(), Value::Object(part(fields.get("items")?, root)?));
    }
    if let Some(format) = fields.get("format").filter(|format| is_format(format)) {
        kept.insert("format".to_owned(), format.clone());
    }
    if let Some(least) = fields.get("minItems").filter(|least| is_small(least)) {
        kept.insert("minItems".to_owned(), least.clone());
    }
    tell(&mut kept, fields);
    Some(kept)
}

/// The types that a part allows; empty if it says none, and `None` if it says that wrongly.
fn types(fields: &Map<String, Value>) -> Option<HashSet<&str>> {
    match fields.get("type") {
        None => Some(HashSet::new()),
        Some(Value::String(one)) => Some(HashSet::from([one.as_str()])),
        Some(Value::Array(several)) => several.iter().map(Value::as_str).collect(),
        Some(_) => None,
    }
}

/// Copies the values that a part lists, and returns whether it lists any; `None` if the API does not take them.
fn copy_values(fields: &Map<String, Value>, kept: &mut Map<String, Value>) -> Option<bool> {
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    let mut says_values = false;
    for keyword in ["enum", "const"] {
        let fits = match fields.get(keyword) {
            None => continue,
            Some(Value::Array(values)) if keyword == "enum" => !values.is_empty() && values.iter().all(is_plain),
            Some(value) => keyword == "const" && is_plain(value),
        };
        if !fits {
            return None;
        }
        kept.insert(keyword.to_owned(), fields[keyword].clone());
        says_values = true;
    }
    Some(says_values)
}

/// Copies the fields of an object, which is closed; `None` if it may have any others.
fn copy_object(fields: &Map<String, Value>, root: &Map<String, Value>, kept: &mut Map<String, Value>) -> Option<()> {
    let none = Map::new();
    let properties = match fields.get("properties") {
        None => &none,
        Some(properties) => properties.as_object()?,
    };
    match fields.get("additionalProperties") {
        Some(Value::Bool(false)) => {}
        // Hardly anybody who names fields means that there may be others.
        None if !properties.is_empty() => {}
        _ => return None,
    }
    let required = match fields.get("required") {
        None => &Vec::new(),
        Some(required) => required.as_array()?,
    };
    let is_there = |name: &Value| name.as_str().is_some_and(|name| properties.contains_key(name));
    if !required.iter().all(is_there) {
        return None;
    }
    kept.insert("properties".to_owned(), Value::Object(parts(properties, root)?));
    kept.insert("required".to_owned(), Value::Array(required.clone()));
    kept.insert("additionalProperties".to_owned(), Value::Bool(false));
    Some(())
}

/// Tells the limits of a part in its description.
fn tell(kept: &mut Map<String, Value>, fields: &Map<String, Value>) {
    let mut told = Map::new();
    for keyword in LIMITS {
        let Some(limit) = fields.get(keyword).filter(|_| !kept.contains_key(keyword)) else {
            continue;
        };
        let says_nothing = match keyword {
            "minimum" => *limit == json!(-SAFE),
            "maximum" => *limit == json!(SAFE),
            // zod writes the pattern of a format beside it.
            "pattern" => kept.contains_key("format"),
            _ => false,
        };
        if !says_nothing {
            told.insert(keyword.to_owned(), limit.clone());
        }
    }
    if told.is_empty() {
        return;
    }
    let told = format!("It has to fit {}", Value::Object(told));
    let text = match kept.get("description").and_then(Value::as_str) {
        Some(own) => format!("{own}\n{told}"),
        None => told,
    };
    kept.insert("description".to_owned(), text.into());
}

fn is_format(format: &Value) -> bool {
    format.as_str().is_some_and(|format| FORMATS.contains(&format))
}

fn is_small(least: &Value) -> bool {
    least.as_u64().is_some_and(|least| least <= 1)
}

/// The definition of the schema `root` that `reference` leads to; `None` if it leads elsewhere.
fn definition<'a>(reference: &str, root: &'a Map<String, Value>) -> Option<&'a Value> {
    let (keyword, name) = reference.strip_prefix("#/")?.split_once('/')?;
    // An escaped name is rare, and another way is there for it.
    if !DEFINITIONS.contains(&keyword) || name.contains(['/', '~', '%']) {
        return None;
    }
    root.get(keyword)?.get(name)
}

/// Returns whether a definition of the schema `root` leads to itself: it is followed until no further one is known to end.
fn leads_into_itself(root: &Map<String, Value>) -> bool {
    let mut open: Vec<(String, Vec<String>)> = Vec::new();
    for keyword in DEFINITIONS {
        for (name, definition) in root.get(keyword).and_then(Value::as_object).into_iter().flatten() {
            let mut found = Vec::new();
            references(definition, &mut found);
            open.push((format!("#/{keyword}/{name}"), found));
        }
    }
    loop {
        let names: HashSet<String> = open.iter().map(|(name, _)| name.clone()).collect();
        let before = open.len();
        open.retain(|(_, found)| found.iter().any(|reference| names.contains(reference)));
        if open.len() == before {
            return before > 0;
        }
    }
}

/// Adds all references in `schema` to `found`.
fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                found.push(reference.clone());
            }
            fields.values().for_each(|inner| references(inner, found));
        }
        Value::Array(all) => all.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

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

    fn object(properties: Value, required: Value) -> Value {
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    #[test]
    fn what_the_api_enforces_stays_as_it_is() {
        for schema in [
            object(json!({}), json!([])),
            object(json!({"a": {"type": "string", "format": "date"}}), json!([])),
            object(
                json!({"a": {"type": ["string", "null"], "description": "D"}, "b": {"type": "array", "items": {"enum": ["x", 1]}, "minItems": 1}}),
                json!(["a"]),
            ),
            object(
                json!({"a": {"anyOf": [{"type": "null"}, object(json!({"b": {"const": 1}}), json!(["b"]))]}}),
                json!(["a"]),
            ),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"], "additionalProperties": false,
                   "$defs": {"n": {"type": "number"}}}),
        ] {
            assert_eq!(enforceable(&schema).as_ref(), Some(&schema));
        }
    }

    #[test]
    fn an_object_is_closed_and_a_limit_told() {
        let schema = json!({
            "type": "object", "x-order": ["a"], "required": ["a", "c"],
            "properties": {
                "a": {"type": "integer", "minimum": -SAFE, "maximum": SAFE},
                "b": {"type": "number", "minimum": 1, "description": "How many."},
                "c": {"oneOf": [{"type": "string", "pattern": "^x"}, {"type": "array", "items": {"type": "string"}, "minItems": 2}]},
                "d": {"type": "string", "format": "email", "pattern": "^.+@.+$"},
                "e": {"type": "string", "format": "regex"},
            },
        });
        let told = |limit: &str| format!("It has to fit {limit}");
        let enforced = object(
            json!({
                "a": {"type": "integer"},
                "b": {"description": format!("How many.\n{}", told(r#"{"minimum":1}"#)), "type": "number"},
                "c": {"anyOf": [
                    {"type": "string", "description": told(r#"{"pattern":"^x"}"#)},
                    {"type": "array", "items": {"type": "string"}, "description": told(r#"{"minItems":2}"#)},
                ]},
                "d": {"type": "string", "format": "email"},
                "e": {"type": "string", "description": told(r#"{"format":"regex"}"#)},
            }),
            json!(["a", "c"]),
        );
        assert_eq!(enforceable(&schema), Some(enforced));
    }

    #[test]
    fn what_may_be_anything_and_what_has_no_end_is_not_enforced() {
        let of = |part: Value| object(json!({"a": part}), json!(["a"]));
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "anyOf": [object(json!({}), json!([]))]}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            of(json!({})),
            of(json!(true)),
            of(json!({"type": "object"})),
            of(json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {}})),
            of(json!({"type": "array"})),
            of(json!({"type": "array", "prefixItems": [{"type": "string"}]})),
            of(json!({"type": "array", "items": [{"type": "string"}]})),
            of(json!({"enum": [{"b": 1}]})),
            of(json!({"allOf": [{"type": "string"}]})),
            of(json!({"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]})),
            of(json!({"$ref": "#"})),
            of(json!({"$ref": "#/$defs/none"})),
            object(json!({}), json!(["a"])),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "additionalProperties": false,
                   "$defs": {"n": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/m"}]}, "m": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}),
        ] {
            assert_eq!(enforceable(&schema), None, "{schema}");
        }
    }

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
