//! What a schema would have a validator do, before there is one.
//!
//! In: a schema's value. Out: the same with the keyword of [`super::work`] in every schema object that is compiled, or why it is not taken:
//! through references a schema of a kilobyte can ask for a million ways to look at one value.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::work::{Costs, KEYWORD};

/// How many ways through its references, with the branches on them (`anyOf`, `oneOf`, `allOf`, …), a schema may have for one and the same
/// value. Those that end at a member of the value begin anew there.
pub(super) const MAX_WAYS: u64 = 10_000;
/// How many schemas may lie in each other on the way through references.
pub(super) const MAX_CHAIN: usize = 256;

/// Keywords whose value leads to another schema.
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords whose schemas look at the same value.
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
/// Keywords whose schemas look at a part of it.
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
/// Those among both that hold schemas by name.
const BY_NAME: [&str; 6] = [
    "dependentSchemas",
    "properties",
    "patternProperties",
    "dependencies",
    "$defs",
    "definitions",
];
/// Keywords that mean what no pattern has taken: without one of the patterns, they would refuse what it allows.
const WHAT_IS_LEFT: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// What is compiled in a pattern's place; `None` where it is not checked.
pub(super) type ReadPattern<'a> = dyn FnMut(&str) -> Option<String> + 'a;

/// Looks at `schema`, puts the keyword into it, and replaces its patterns by what `read` makes of them.
///
/// # Errors
/// Why it is not taken.
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

/// The keyword in every schema object of `found`. Those inside of one come first: with a further field, the others have other places.
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

/// The patterns of one schema object, as they are compiled.
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

/// What a schema object costs without those in it.
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

/// How many values there are in `value`, itself included.
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

/// A walk through all that a validator would compile, each schema once.
struct Walk<'a> {
    /// What `#` may mean: the schema, and the schemas in it that have an id of their own.
    roots: Vec<&'a Value>,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    /// By address; 0 while it is being looked at.
    ways: HashMap<usize, u64>,
}

impl<'a> Walk<'a> {
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

    /// In how many ways a validator looks at one value by `schema`.
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
            // One that leads to itself is the check's to end: it depends on the value how far it goes.
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

    /// Where a reference leads to, as far as that is in the schema.
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

/// The schemas that `keyword` holds.
fn schemas<'a>(keyword: &str, value: &'a Value) -> Vec<&'a Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) if BY_NAME.contains(&keyword) => fields.values().collect(),
        value => vec![value],
    }
}

/// A fragment without its percent signs.
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
