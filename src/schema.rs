//! JSON Schema: what a model's JSON is held against, and what is wrong with it, in words.
//!
//! In: a schema's JSON text. Out: a [`Schema`], compiled once, bounded, and without any reference that leads out of it; nothing is
//! ever fetched. [`strict`] says what the APIs that enforce a schema take of one, [`reply`] finds the JSON in a model's text.

pub mod reply;
pub mod strict;

use std::fmt;

use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use crate::error::clip;

/// The longest schema, bytes of JSON text.
pub const MAX_BYTES: usize = 256 * 1024;
/// How deep its values may lie in each other.
pub const MAX_DEPTH: usize = 64;

/// How many mistakes of one value are reported.
const MISTAKES: usize = 5;
/// How long one of them may be, characters: it may quote what is wrong.
const MISTAKE: usize = 400;

/// Keywords whose value leads to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// A compiled schema.
pub struct Schema {
    value: Value,
    text: String,
    validator: Validator,
}

impl Schema {
    /// Compiles the schema `text`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Schema, String> {
        if text.len() > MAX_BYTES {
            return Err(format!(
                "it has {} bytes, and at most {MAX_BYTES} are taken",
                text.len()
            ));
        }
        let mut value: Value = serde_json::from_str(text).map_err(|error| match error.is_syntax() {
            // serde_json itself goes 128 deep.
            true if error.to_string().starts_with("recursion limit") => too_deep(),
            _ => format!("it can't be read: {error}"),
        })?;
        check_places(&value)?;
        let validator = jsonschema::validator_for(&value).map_err(|error| place_and_mistake(&error))?;
        // The draft's name says nothing to a model, and claude refuses the one that zod 4 writes (2.1.330).
        if let Value::Object(fields) = &mut value {
            fields.shift_remove("$schema");
        }
        Ok(Schema {
            text: value.to_string(),
            value,
            validator,
        })
    }

    /// The schema without the name of its draft.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The same as JSON text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether `value` is what the schema asks for.
    ///
    /// # Errors
    /// What is wrong with it, at most five mistakes. They name places and fields, and quote no other part of the value.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let mistakes: Vec<String> = self
            .validator
            .iter_errors(value)
            .take(MISTAKES)
            .map(|error| place_and_rule(&error))
            .collect();
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(mistakes.join("; ")),
        }
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

/// A mistake with its place, if it has one; it quotes what is wrong.
pub fn place_and_mistake(error: &ValidationError) -> String {
    describe(error, error)
}

/// The same without the value that is wrong.
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
    // Names of fields are the model's: they begin no line.
    let line = format!("{place}{mistake}").replace(|character: char| character.is_control(), " ");
    clip(&line, MISTAKE)
}

/// Depth and references of all that `schema` holds.
fn check_places(schema: &Value) -> Result<(), String> {
    let mut waiting = vec![(schema, 1)];
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

#[cfg(test)]
mod tests;
