//! Reads the calls in an object of tool calls.
//!
//! In: the text of one JSON object. Out: its entries in order, each read or with the reason why it can't be. Arguments are
//! handed on as the raw text of an object: key order and number spelling survive, white space between tokens does not.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::object::KEY;
use crate::prompt::json;
use dfp_model::message::{InvalidToolCall, Lossy, ToolCall};

/// One entry of `tool_calls`.
#[derive(Debug)]
pub(super) enum Entry {
    /// A call; `id` is the one that the model gave it, if any.
    Call {
        id: Option<String>,
        name: String,
        args: Box<RawValue>,
    },
    /// An entry that can't be read as a call.
    Invalid(InvalidToolCall),
}

/// The calls found so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) invalid: Vec<InvalidToolCall>,
}

impl Found {
    /// Adds `entries`. A call without an id is named by its position among the calls.
    pub(super) fn add(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            match entry {
                Entry::Invalid(invalid) => self.invalid.push(invalid),
                Entry::Call { id, name, args } => {
                    let id = id.unwrap_or_else(|| format!("call_{}", self.tool_calls.len()));
                    self.tool_calls.push(ToolCall { id, name, args });
                }
            }
        }
    }
}

/// Reads the entries of the object `text`; none if it is an object of another kind.
///
/// # Errors
/// If `text` isn't JSON.
pub(super) fn entries(text: &str) -> Result<Vec<Entry>, serde_json::Error> {
    Ok(list(text)?.into_iter().map(entry).collect())
}

/// Lists the entries of the object `text` as they are written.
///
/// # Errors
/// If `text` isn't JSON.
pub(super) fn list(text: &str) -> Result<Vec<&str>, serde_json::Error> {
    let object: CallFields = serde_json::from_str(text)?;
    let Some(list) = object.get(KEY).filter(|list| list.starts_with('[')) else {
        return Ok(Vec::new());
    };
    let list: Vec<&RawValue> = serde_json::from_str(list)?;
    Ok(list
        .into_iter()
        .map(RawValue::get)
        .filter(|text| *text != "null")
        .collect())
}

/// The one entry for `text`, which was meant as an object of tool calls but isn't JSON.
pub(super) fn unreadable(text: &str) -> Vec<Entry> {
    let text = text.trim_end();
    let error = match serde_json::from_str::<IgnoredAny>(text) {
        Err(error) if error.is_eof() => format!("the JSON is cut off: {error}"),
        Err(error) => format!("the JSON is malformed: {error}"),
        Ok(_) => "the JSON is malformed".to_owned(),
    };
    vec![invalid(None, None, text, &error)]
}

fn invalid(id: Option<String>, name: Option<String>, args: &str, error: &str) -> Entry {
    Entry::Invalid(InvalidToolCall {
        id,
        name,
        args: args.to_owned(),
        error: error.to_owned(),
    })
}

/// Reads one entry of the list: a call, or the reason why it is not one.
fn entry(text: &str) -> Entry {
    let fields = match serde_json::from_str::<CallFields>(text) {
        Ok(fields) if text.starts_with('{') => fields,
        _ => return invalid(None, None, text, "the call is not an object"),
    };
    // OpenAI's form: {"id", "type": "function", "function": {"name", "arguments"}}.
    let function = fields.get("function").filter(|function| function.starts_with('{'));
    let function = function
        .and_then(|function| serde_json::from_str::<CallFields>(function).ok())
        .unwrap_or_default();
    let field = |names: &[&str]| first_present(&fields, names).or_else(|| first_present(&function, names));
    let id = field(&["id"]).and_then(identifier);
    let name = field(&["name"]).and_then(string).filter(|name| !name.is_empty());
    let args = field(&["args", "arguments", "parameters", "input"]).unwrap_or("{}");
    let Some(name) = name else {
        return invalid(id, None, text, "the call has no name");
    };
    match object(args) {
        Some(args) => Entry::Call { id, name, args },
        None => invalid(id, Some(name), args, "the arguments are not an object"),
    }
}

/// The value of the first of `names` that is present and not null.
fn first_present<'a>(fields: &CallFields<'a>, names: &[&str]) -> Option<&'a str> {
    names
        .iter()
        .find_map(|name| fields.get(name).filter(|raw| *raw != "null"))
}

/// The arguments as an object: as they are, or decoded from the string that holds them. A blank string counts as an empty
/// object.
fn object(raw: &str) -> Option<Box<RawValue>> {
    let held = raw.starts_with('"').then(|| string(raw));
    let text = match &held {
        None => raw,
        Some(held) => match held.as_deref()?.trim() {
            "" => "{}",
            // JSON is checked before white space is removed: `{"a": 1 2}` must not become an object.
            held => serde_json::from_str::<&RawValue>(held).ok()?.get(),
        },
    };
    let object = text.starts_with('{').then(|| json::compact(text))?;
    RawValue::from_string(object).ok()
}

fn string(raw: &str) -> Option<String> {
    serde_json::from_str::<Lossy>(raw).ok().map(|text| text.0)
}

/// The id, which may come as a number; `None` for an empty one.
fn identifier(raw: &str) -> Option<String> {
    let number = raw.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if number {
        Some(raw.to_owned())
    } else {
        string(raw).filter(|id| !id.is_empty())
    }
}

/// The members of an object, with values as raw text.
#[derive(Debug, Default)]
struct CallFields<'a>(Vec<(String, &'a str)>);

impl<'a> CallFields<'a> {
    /// The value of `key`; if there are several, the last, as in `JSON.parse`.
    fn get(&self, key: &str) -> Option<&'a str> {
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| *value)
    }
}

impl<'de> Deserialize<'de> for CallFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CallMembers;
        impl<'de> Visitor<'de> for CallMembers {
            type Value = CallFields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CallFields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(Lossy(name)) = map.next_key()? {
                    fields.push((name, map.next_value::<&RawValue>()?.get()));
                }
                Ok(CallFields(fields))
            }
        }
        deserializer.deserialize_map(CallMembers)
    }
}
