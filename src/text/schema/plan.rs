//! Estimates the work that a schema would cause, before a validator is built.
//!
//! In: a schema's value. Out: the same with the keyword of [`super::work`] in every schema object that is compiled, or the
//! reason why it is refused. Through references, a schema of a kilobyte can ask for a million ways to look at one value.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::work::{Costs, KEYWORD};

/// The largest number of ways through a schema's references, with the branches on them (`anyOf`, `oneOf`, `allOf`, …), for one
/// value. Ways that end at a member of the value are counted anew there.
pub(super) const MAX_WAYS: u64 = 10_000;
/// The largest number of schemas nested in each other on a way through references.
pub(super) const MAX_CHAIN: usize = 256;

/// Keywords whose value leads to another schema.
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords whose schemas apply to the same value.
const SAME_VALUE: [&str; 8] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
];
/// Keywords whose schemas apply to a part of the value.
const PARTS: [&str; 14] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "contentSchema",
    "dependencies",
    "$defs",
    "definitions",
];
/// Keywords of both kinds that hold schemas by name.
const BY_NAME: [&str; 6] = [
    "dependentSchemas",
    "properties",
    "patternProperties",
    "dependencies",
    "$defs",
    "definitions",
];
/// Keywords about the fields that no pattern has matched: if one of the patterns is dropped, they would refuse fields that it
/// allows.
const WHAT_IS_LEFT: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// The function that gives the pattern to compile for one of the schema; `None` if it is not checked.
pub(super) type ReadPattern<'a> = dyn FnMut(&str) -> Option<String> + 'a;

/// Checks `schema`, puts the keyword into it, and replaces its patterns by the results of `read`.
///
/// # Errors
/// The reason why the schema is refused.
pub(super) fn mark(schema: &mut Value, read: &mut ReadPattern) -> Result<(), String> {
    let found = {
        let mut walk = Walk::new(schema);
        walk.ways(schema, 0)?;
        walk.ways.into_keys().collect::<HashSet<usize>>()
    };
    insert(schema, &found, read);
    Ok(())
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

/// Inserts the keyword into every schema object of `found`. Inner ones come first: adding a field moves the others in memory.
fn insert(value: &mut Value, found: &HashSet<usize>, read: &mut ReadPattern) {
    let is_schema = found.contains(&address(value));
    match value {
        Value::Object(fields) => {
            let costs = is_schema.then(|| costs(fields));
            for field in fields.values_mut() {
                insert(field, found, read);
            }
            if let Some(costs) = costs {
                replace_patterns(fields, read);
                fields.shift_insert(0, KEYWORD.to_owned(), costs.to_value());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| insert(item, found, read)),
        _ => {}
    }
}

/// Replaces the patterns of one schema object by those that are compiled.
fn replace_patterns(fields: &mut Map<String, Value>, read: &mut ReadPattern) {
    if let Some(Value::String(pattern)) = fields.get_mut("pattern") {
        match read(pattern) {
            Some(compiled) => *pattern = compiled,
            None => {
                fields.shift_remove("pattern");
            }
        }
    }
    if let Some(Value::Object(patterns)) = fields.get_mut("patternProperties") {
        let count = patterns.len();
        let compiled = std::mem::take(patterns).into_iter();
        *patterns = compiled
            .filter_map(|(pattern, schema)| Some((read(&pattern)?, schema)))
            .collect();
        if patterns.len() < count {
            for keyword in WHAT_IS_LEFT {
                fields.shift_remove(keyword);
            }
        }
    }
}

/// The cost of a schema object without the schemas in it.
fn costs(fields: &Map<String, Value>) -> Costs {
    let mut costs = Costs { own: 1 };
    for (keyword, value) in fields {
        let count = match (keyword.as_str(), value) {
            ("enum" | "const", value) => nodes(value),
            (_, Value::Array(items)) => items.len() as u64,
            (_, Value::Object(fields)) => fields.len() as u64,
            _ => 0,
        };
        costs.own += count.div_ceil(8);
    }
    costs
}

/// The number of values in `value`, itself included.
pub(super) fn nodes(value: &Value) -> u64 {
    let mut count = 0;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        count += 1;
        match value {
            Value::Object(fields) => waiting.extend(fields.values()),
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    count
}

/// A walk over all schemas that a validator would compile, each once.
struct Walk<'a> {
    /// The possible targets of `#`: the schema, and the schemas in it that have an id of their own.
    roots: Vec<&'a Value>,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    /// The number of ways by the schema's address; 0 while it is being computed.
    ways: HashMap<usize, u64>,
}

impl<'a> Walk<'a> {
    /// Collects the schemas that references may name: by an id, or by an anchor.
    fn new(schema: &'a Value) -> Walk<'a> {
        let mut walk = Walk {
            roots: vec![schema],
            anchors: HashMap::new(),
            ways: HashMap::new(),
        };
        let mut waiting = vec![schema];
        while let Some(value) = waiting.pop() {
            match value {
                Value::Object(fields) => {
                    for keyword in ["$id", "id", "$anchor", "$dynamicAnchor"] {
                        match fields.get(keyword).and_then(Value::as_str) {
                            Some(name) if keyword.ends_with("nchor") => {
                                walk.anchors.entry(name).or_default().push(value);
                            }
                            Some(id) => match id.split_once('#') {
                                Some((_, anchor)) if !anchor.is_empty() => {
                                    walk.anchors.entry(anchor).or_default().push(value);
                                }
                                _ => walk.roots.push(value),
                            },
                            None => {}
                        }
                    }
                    waiting.extend(fields.values());
                }
                Value::Array(items) => waiting.extend(items),
                _ => {}
            }
        }
        walk
    }

    /// The number of ways in which a validator looks at one value by `schema`.
    fn ways(&mut self, schema: &'a Value, chain: usize) -> Result<u64, String> {
        let Value::Object(fields) = schema else {
            return Ok(1);
        };
        if chain > MAX_CHAIN {
            return Err(format!(
                "on the way through its references more than {MAX_CHAIN} schemas lie in each other"
            ));
        }
        if let Some(known) = self.ways.get(&address(schema)) {
            // A schema that leads to itself is stopped by the check: how far it goes depends on the value.
            return Ok((*known).max(1));
        }
        self.ways.insert(address(schema), 0);
        let mut ways = 1_u64;
        for (keyword, value) in fields {
            let keyword = keyword.as_str();
            if REFERENCES.contains(&keyword) {
                let mut most = 1;
                for target in self.targets(value.as_str().unwrap_or_default()) {
                    most = self.ways(target, chain + 1)?.max(most);
                }
                ways = ways.saturating_add(most);
                continue;
            }
            let same_value = SAME_VALUE.contains(&keyword);
            if !same_value && (!PARTS.contains(&keyword) || keyword == "$defs" || keyword == "definitions") {
                continue;
            }
            for schema in schemas(keyword, value) {
                let inner = self.ways(schema, chain + 1)?;
                if same_value || keyword == "dependencies" {
                    ways = ways.saturating_add(inner);
                }
            }
        }
        if ways > MAX_WAYS {
            return Err(format!(
                "its references and branches (\"$ref\", \"anyOf\", \"oneOf\", \"allOf\", …) make more than {MAX_WAYS} ways to look at one \
                 value. Write what the branches share once, outside of them"
            ));
        }
        self.ways.insert(address(schema), ways);
        Ok(ways)
    }

    /// The schemas that a reference may lead to, as far as they are in this schema.
    fn targets(&self, reference: &str) -> Vec<&'a Value> {
        let Some((_, fragment)) = reference.split_once('#') else {
            return Vec::new();
        };
        let fragment = unescaped(fragment);
        if fragment.is_empty() || fragment.starts_with('/') {
            let roots = self.roots.iter();
            return roots.filter_map(|root| root.pointer(&fragment)).collect();
        }
        self.anchors.get(fragment.as_str()).cloned().unwrap_or_default()
    }
}

/// The schemas under `keyword`.
fn schemas<'a>(keyword: &str, value: &'a Value) -> Vec<&'a Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) if BY_NAME.contains(&keyword) => fields.values().collect(),
        value => vec![value],
    }
}

/// A fragment with its percent escapes decoded.
fn unescaped(fragment: &str) -> String {
    if !fragment.contains('%') {
        return fragment.to_owned();
    }
    let bytes = fragment.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| fragment.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        plain.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}
