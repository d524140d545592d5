//! Checks a model's JSON against a JSON Schema, and words the mistakes.
//!
//! In: a schema's JSON text. Out: a [`Schema`], compiled once, bounded, and without any reference that leads out of it; nothing
//! is ever fetched. [`enforced`] decides whether an API can enforce a schema, or makes it one that the API can, and [`value_of`] finds
//! the JSON in a model's text.
//!
//! A schema is hostile input, and so is the value to check. Sizes are limited in advance where they can be counted (`work`:
//! bytes, depth, references, the ways through them), patterns are limited in size (`pattern`), and a check counts its own work
//! (`work`). Compiling may still take up to a second: a flag can end it, and the `run` room compiles on a separate thread.

pub mod enforced;
mod pattern;
mod work;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use dfp_model::error::clip;
use work::{Exhausted, REFERENCES};

/// The length of the longest schema, bytes of JSON text.
pub const MAX_BYTES: usize = 256 * 1024;
/// The depth to which its values may be nested.
pub const MAX_DEPTH: usize = 64;

/// The number of patterns that a schema may have: each may take a tenth of a second to compile.
const MAX_PATTERNS: usize = 200;

/// The work that a check may take: `WORK`, and `WORK_FOR_EACH` for each part of the value, but never more than `MAX_WORK`.
/// Looking at a schema object costs one unit or a few. (Measured: a unit takes a quarter of a microsecond, so the limit is a
/// second.)
const WORK: u64 = 2_000_000;
const WORK_FOR_EACH: u64 = 256;
const MAX_WORK: u64 = 4_000_000;
/// The work that may be spent on wording the mistakes.
const WORK_OF_MISTAKES: u64 = 50_000;

/// The number of mistakes of one value that are reported.
const MISTAKES: usize = 5;
/// The length of a mistake, characters: it may quote the wrong value.
const MISTAKE: usize = 400;

/// A compiled schema.
pub struct Schema {
    value: Value,
    text: String,
    validator: Validator,
    /// The number of times that the patterns for field names look at each byte of a name.
    name_looks: u64,
}

impl Schema {
    /// Compiles the schema `text`, however long that takes.
    ///
    /// # Errors
    /// The problem with the schema.
    pub fn new(text: &str) -> Result<Schema, String> {
        Schema::compile(text, &Arc::default())
    }

    /// Checks everything about the schema `text` that can be checked without compiling it, in a time bounded by its length.
    ///
    /// # Errors
    /// The problem with the schema.
    pub fn look(text: &str) -> Result<Value, String> {
        if text.len() > MAX_BYTES {
            return Err(format!(
                "it has {} bytes, and at most {MAX_BYTES} are taken",
                text.len()
            ));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| match error.is_syntax() {
            // serde_json itself parses to a depth of 128.
            true if error.to_string().starts_with("recursion limit") => too_deep(),
            _ => format!("it can't be read: {error}"),
        })?;
        if !value.is_object() && !value.is_boolean() {
            return Err("it is neither an object nor a boolean".to_owned());
        }
        check_places(&value)?;
        Ok(value)
    }

    /// Compiles the schema `text`, unless `stop` is set meanwhile.
    ///
    /// # Errors
    /// The problem with the schema.
    pub fn compile(text: &str, stop: &Arc<AtomicBool>) -> Result<Schema, String> {
        let mut value = Schema::look(text)?;
        let mut built = build(&value, stop, pattern::sized);
        // Finding the pattern that can't be compiled takes compiling all of them once more: no schema without such a pattern
        // pays for that.
        if built.is_err() && has_patterns(&value) && !stop.load(Ordering::Relaxed) {
            built = build(&value, stop, pattern::compilable);
        }
        let validator = built?;
        // The draft's name means nothing to a model, and claude refuses the one that zod 4 writes (2.1.330).
        if let Value::Object(fields) = &mut value {
            fields.shift_remove("$schema");
        }
        Ok(Schema {
            text: value.to_string(),
            name_looks: name_looks(&value),
            value,
            validator,
        })
    }

    /// The schema's value, without the name of its draft.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The schema's JSON text, without the name of its draft.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks whether `value` fits the schema.
    ///
    /// # Errors
    /// At most five mistakes. They name places and fields, and quote no other part of the value.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.check_with(value, place_and_rule)
    }

    /// Checks whether `value` fits the schema, with mistakes that quote the wrong parts: for the model that wrote them.
    ///
    /// # Errors
    /// At most five mistakes, with the wrong parts.
    pub fn check_quoting(&self, value: &Value) -> Result<(), String> {
        self.check_with(value, place_and_mistake)
    }

    /// Checks `value` within the limits of work, and words each mistake by `describe`.
    fn check_with(&self, value: &Value, describe: fn(&ValidationError) -> String) -> Result<(), String> {
        let given_up = |why: Exhausted| {
            let why = match why {
                Exhausted::Work => "takes too much work: the schema has too many branches for it",
                Exhausted::Patterns => "takes too much work: a text is too long for the schema's patterns",
                Exhausted::Stack => "leads too deep: the schema refers to itself without end",
            };
            format!("to check it {why}")
        };
        let budget = WORK_FOR_EACH
            .saturating_mul(work::nodes(value))
            .saturating_add(WORK)
            .min(MAX_WORK);
        let names = self.name_looks.saturating_mul(name_bytes(value));
        if names > work::PATTERN_WORK {
            return Err(given_up(Exhausted::Patterns));
        }
        // The validator keeps the mistakes of all branches until they are reported, and most values have none: so validity is
        // checked first.
        if work::within(budget, || self.validator.is_valid(value)).map_err(given_up)? {
            return Ok(());
        }
        let told = work::within(WORK_OF_MISTAKES, || {
            let mistakes = self.validator.iter_errors(value).take(MISTAKES);
            mistakes.map(|error| describe(&error)).collect::<Vec<String>>()
        });
        Err(match told {
            Ok(mistakes) => mistakes.join("; "),
            Err(Exhausted::Patterns) => given_up(Exhausted::Patterns),
            Err(_) => "it fits none of the schema's branches, which are too many to say why".to_owned(),
        })
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.text).finish()
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Schema) -> bool {
        self.text == other.text
    }
}

impl Eq for Schema {}

/// Builds the validator of `schema`, whose patterns are replaced by the results of `read`.
fn build(schema: &Value, stop: &Arc<AtomicBool>, read: fn(&str) -> Option<String>) -> Result<Validator, String> {
    let mut marked = schema.clone();
    work::mark(&mut marked, &mut |pattern| match stop.load(Ordering::Relaxed) {
        true => None,
        false => read(pattern),
    })?;
    let compiled = work::within(u64::MAX, || {
        jsonschema::options()
            .with_pattern_options(pattern::options())
            // The validator's own format would compile patterns that the model writes.
            .with_format("regex", |_: &str| true)
            .with_keyword("pattern", work::pattern)
            .with_keyword(work::KEYWORD, work::factory(Arc::clone(stop)))
            .build(&marked)
            .map_err(|error| match stop.load(Ordering::Relaxed) {
                true => "it takes too long to compile".to_owned(),
                false => place_and_mistake(&error),
            })
    });
    compiled.map_err(|_| "its references lead too deep".to_owned())?
}

/// The number of times that all patterns for names in `schema` look at each byte of a name.
fn name_looks(schema: &Value) -> u64 {
    let sum = |parts: &mut dyn Iterator<Item = u64>| parts.fold(0, u64::saturating_add);
    match schema {
        Value::Object(fields) => {
            let patterns = fields.get("patternProperties").and_then(Value::as_object);
            let own = sum(&mut patterns
                .into_iter()
                .flat_map(Map::keys)
                .map(|name| pattern::costs(name)));
            own.saturating_add(sum(&mut fields.values().map(name_looks)))
        }
        Value::Array(items) => sum(&mut items.iter().map(name_looks)),
        _ => 0,
    }
}

/// The bytes of the names of all fields in `value`.
fn name_bytes(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() as u64 + name_bytes(value))
            .sum(),
        Value::Array(items) => items.iter().map(name_bytes).sum(),
        _ => 0,
    }
}

/// Returns whether there is any pattern in `schema`.
fn has_patterns(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let named = |keyword: &str| fields.contains_key(keyword);
            named("pattern") || named("patternProperties") || fields.values().any(has_patterns)
        }
        Value::Array(items) => items.iter().any(has_patterns),
        _ => false,
    }
}

/// Words a mistake with its place, if it has one; it quotes the wrong value.
pub fn place_and_mistake(error: &ValidationError) -> String {
    describe(error, error)
}

/// Words a mistake with its place, without the wrong value.
fn place_and_rule(error: &ValidationError) -> String {
    describe(error, &error.masked_with("the value"))
}

fn describe(error: &ValidationError, mistake: &dyn fmt::Display) -> String {
    let at = error.instance_path().to_string();
    let place = if at.is_empty() {
        String::new()
    } else {
        format!("{at}: ")
    };
    // Names of fields are the model's, so they must not begin a line.
    let line = without_keyword(format!("{place}{mistake}")).replace(|character: char| character.is_control(), " ");
    clip(&line, MISTAKE)
}

/// Removes our keyword from a mistake that quotes a schema, since the schema's author has not written it.
fn without_keyword(mut mistake: String) -> String {
    let begin = format!("\"{}\":[", work::KEYWORD);
    while let Some(at) = mistake.find(&begin) {
        let Some(length) = mistake[at..].find(']') else { break };
        let end = at + length + 1;
        let comma = usize::from(mistake[end..].starts_with(','));
        mistake.replace_range(at..end + comma, "");
    }
    mistake
}

/// Checks the depth and the references of everything in `schema`.
fn check_places(schema: &Value) -> Result<(), String> {
    let mut waiting = vec![(schema, 1)];
    let mut patterns = 0;
    while let Some((value, depth)) = waiting.pop() {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match value {
            Value::Object(fields) => {
                for keyword in REFERENCES {
                    if let Some(Value::String(target)) = fields.get(keyword)
                        && !target.starts_with('#')
                    {
                        let target = clip(target, 80);
                        return Err(format!(
                            "its \"{keyword}\" leads to {target:?}: nothing is fetched, so only references into the schema \
                             itself (\"#/…\") can be followed"
                        ));
                    }
                }
                patterns += usize::from(fields.get("pattern").is_some_and(Value::is_string));
                patterns += (fields.get("patternProperties"))
                    .and_then(Value::as_object)
                    .map_or(0, Map::len);
                if patterns > MAX_PATTERNS {
                    return Err(format!("it has more than {MAX_PATTERNS} patterns"));
                }
                waiting.extend(fields.values().map(|value| (value, depth + 1)));
            }
            Value::Array(items) => waiting.extend(items.iter().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

fn too_deep() -> String {
    format!("it is more than {MAX_DEPTH} levels deep")
}

/// Parses `text` as a JSON value: bare, or in one fenced block that is all of it.
///
/// # Errors
/// The reason why it is not one.
pub fn value_of(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the reply is empty".to_owned());
    }
    serde_json::from_str(fenced(text).unwrap_or(text))
        .map_err(|error| format!("the reply is not JSON: {}", clip(&error.to_string(), 120)))
}

/// The content of the fence that is all of `text`.
fn fenced(text: &str) -> Option<&str> {
    let (opening, rest) = text.split_once('\n')?;
    let mark = ["```", "~~~"].into_iter().find(|mark| opening.starts_with(mark))?;
    let length = opening
        .bytes()
        .take_while(|byte| mark.as_bytes().contains(byte))
        .count();
    let (fence, info) = opening.split_at(length);
    let (block, closing) = rest.rsplit_once('\n')?;
    let ends = closing.trim() == fence;
    // Another fence inside would be another block.
    let is_one = !block.lines().any(|line| line.trim_start().starts_with(fence));
    (ends && is_one && info.trim().bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(block)
}

#[cfg(test)]
mod tests;
