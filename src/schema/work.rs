//! The work that a schema may cause: it is estimated before a validator is built, and counted while a check runs.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError, Validator};
use serde_json::{Map, Value};

use super::pattern;

// The estimate. In: a schema's value. Out: the same with [`KEYWORD`] in every schema object that is compiled, or the reason why it
// is refused. Through references, a schema of a kilobyte can ask for a million ways to look at one value.

/// The largest number of ways through a schema's references, with the branches on them (`anyOf`, `oneOf`, `allOf`, …), for one
/// value. Ways that end at a member of the value are counted anew there.
const MAX_WAYS: u64 = 10_000;
/// The largest number of schemas nested in each other on a way through references.
const MAX_CHAIN: usize = 256;

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
type ReadPattern<'a> = dyn FnMut(&str) -> Option<String> + 'a;

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

// The limit of a check: the validator can't be stopped from outside, so it is made to stop itself.
//
// In: a budget, and a check that has to keep it. Out: the check's result, or [`Exhausted`]. Every schema object that references
// can lead to carries a keyword of ours, which takes its cost out of the budget of the checking thread. When nothing is left, the
// check is ended by unwinding: reporting a mistake would only make the validator try the next branch.

/// The name of the keyword. Its value is the cost of the schema by itself.
pub(super) const KEYWORD: &str = "x-deep-factor-work";

/// The stack that a check or a compilation may use, bytes. Threads of the runtime have 2 MiB.
const MAX_STACK: usize = 1024 * 1024;

/// This many bytes of a string cost as much as one schema.
const STRING_UNIT: usize = 256;
/// This many entries of an object or array cost as much as one schema, if it has nothing to do for each of them.
const ENTRY_UNIT: usize = 8;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static PATTERNS: Cell<u64> = const { Cell::new(u64::MAX) };
    static STACK: Cell<usize> = const { Cell::new(0) };
}

/// The number of looks of patterns at a byte that a check may take (measured: a look takes at most ten nanoseconds, so the
/// limit is half a second).
pub(super) const PATTERN_WORK: u64 = 50_000_000;

/// The reason why a check was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exhausted {
    Work,
    /// The texts were too long for the patterns that they have to match.
    Patterns,
    /// The schemas were nested too deeply.
    Stack,
}

/// Runs `check` as long as it costs no more than `budget`.
pub(super) fn within<T>(budget: u64, check: impl FnOnce() -> T) -> Result<T, Exhausted> {
    let before = (
        LEFT.replace(budget),
        PATTERNS.replace(PATTERN_WORK),
        STACK.replace(here()),
    );
    let found = catch_unwind(AssertUnwindSafe(check));
    LEFT.set(before.0);
    PATTERNS.set(before.1);
    STACK.set(before.2);
    found.map_err(|reason| match reason.downcast::<Exhausted>() {
        Ok(exhausted) => *exhausted,
        // This is a bug, and is reported as one further up.
        Err(panic) => resume_unwind(panic),
    })
}

/// The current address of the stack.
fn here() -> usize {
    let place = 0_u8;
    std::ptr::from_ref(&place).addr()
}

fn stack_used() -> usize {
    STACK.get().abs_diff(here())
}

/// The cost of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Costs {
    pub own: u64,
}

impl Costs {
    /// The cost as the keyword's value.
    pub fn to_value(self) -> Value {
        Value::from(vec![self.own])
    }

    fn of(value: &Value) -> Costs {
        Costs {
            own: value.get(0).and_then(Value::as_u64).unwrap_or(1),
        }
    }

    fn spend(self, instance: &Value) {
        let entries = match instance {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        let size = match instance {
            Value::String(text) => text.len() / STRING_UNIT,
            _ => entries / ENTRY_UNIT,
        };
        let costs = (size as u64).saturating_add(1).saturating_mul(self.own.max(1));
        match LEFT.get().checked_sub(costs) {
            Some(left) if stack_used() <= MAX_STACK => LEFT.set(left),
            Some(_) => resume_unwind(Box::new(Exhausted::Stack)),
            None => resume_unwind(Box::new(Exhausted::Work)),
        }
    }
}

impl<'i> Keyword<'i> for Costs {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        self.spend(instance);
        Ok(())
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.spend(instance);
        true
    }
}

/// A pattern that counts its work before it runs: the validator evaluates [`Costs`] after all other keywords.
struct Pattern {
    validator: Validator,
    /// The number of times it looks at each byte of a text, at most.
    costs: u64,
}

impl Pattern {
    fn spend(&self, instance: &Value) {
        let bytes = instance.as_str().map_or(0, str::len) as u64;
        match PATTERNS.get().checked_sub(self.costs.saturating_mul(bytes)) {
            Some(left) => PATTERNS.set(left),
            None => resume_unwind(Box::new(Exhausted::Patterns)),
        }
    }
}

impl<'i> Keyword<'i> for Pattern {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        self.spend(instance);
        self.validator.validate(instance)
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.spend(instance);
        self.validator.is_valid(instance)
    }
}

/// Makes the keyword `pattern` of one schema.
pub(super) fn pattern<'a>(_: &'a Map<String, Value>, value: &'a Value, _: Location) -> Made<'a> {
    match pattern::validator(value) {
        Ok(validator) => Ok(Box::new(Pattern {
            validator,
            costs: pattern::costs(value.as_str().unwrap_or_default()),
        })),
        Err(reason) => Err(ValidationError::custom(reason)),
    }
}

/// The keyword of one schema, or the reason why it is not compiled.
type Made<'a> = Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>>;

/// Returns the function that makes the keyword while a schema is compiled. It fails, and so ends the compilation, when `stop`
/// is set or the schema lies too deep.
pub(super) fn factory(
    stop: Arc<AtomicBool>,
) -> impl for<'a> Fn(&'a Map<String, Value>, &'a Value, Location) -> Made<'a> + Send + Sync + 'static {
    move |_, value, _| {
        if stop.load(Ordering::Relaxed) {
            return Err(ValidationError::custom("it takes too long to compile"));
        }
        if stack_used() > MAX_STACK {
            return Err(ValidationError::custom("its references lead too deep"));
        }
        Ok(Box::new(Costs::of(value)))
    }
}
