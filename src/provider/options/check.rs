//! Checks an object of options against its table, and reads the values of a checked one.
//!
//! In: JSON text and the table. Out: the object, with every field known and of its type, or a message about the first fault.

use serde_json::{Map, Value};

use super::{Kind, OptionSpec};
use dfp_model::error::{Code, ProviderError, clip};

/// Reads the options object `json` of `who`, and checks that every field is known and of its type.
///
/// # Errors
/// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
pub fn checked(who: &str, specs: &[OptionSpec], json: &str) -> Result<Map<String, Value>, Box<ProviderError>> {
    checked_within(who, specs, json, "")
}

/// Checks an object like [`checked`], but names its fields behind `path`, which ends with a dot.
///
/// # Errors
/// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
pub fn checked_within(
    who: &str,
    specs: &[OptionSpec],
    json: &str,
    path: &str,
) -> Result<Map<String, Value>, Box<ProviderError>> {
    let refuse = |reason: String| Box::new(ProviderError::new(who, Code::InvalidOption, reason));
    let map = match serde_json::from_str::<Value>(json) {
        Ok(Value::Object(map)) => map,
        Ok(other) => {
            return Err(refuse(format!(
                "options must be an object; given: {}",
                describe(&other)
            )));
        }
        Err(error) => return Err(refuse(format!("options can't be read as JSON: {error}"))),
    };
    check_fields(specs, &map, path).map_err(refuse)?;
    Ok(map)
}

/// Checks every field of `map`; `path` is the object's own name with a dot. `Err` says what is wrong.
pub(crate) fn check_fields(specs: &[OptionSpec], map: &Map<String, Value>, path: &str) -> Result<(), String> {
    for (name, value) in map {
        let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
            return Err(unknown_option(specs, path, name));
        };
        check(spec, value).map_err(|allowed| match spec.kind {
            Kind::Secret => format!("option \"{path}{name}\" must be {allowed}; the value is not repeated here"),
            _ => wrong(&format!("{path}{name}"), &allowed, value),
        })?;
        if let (Kind::FalseOr(fields) | Kind::WordOr(_, fields) | Kind::Fields(fields), Value::Object(map)) =
            (spec.kind, value)
        {
            check_fields(fields, map, &format!("{path}{name}."))?;
        }
    }
    Ok(())
}

/// The message about a wrong value of the option `name`.
pub fn wrong(name: &str, allowed: &str, value: &Value) -> String {
    format!("option \"{name}\" must be {allowed}; given: {}", describe(value))
}

fn unknown_option(specs: &[OptionSpec], path: &str, name: &str) -> String {
    let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    let near = nearest(&names, name);
    let name = clip(name, 60);
    match near {
        Some(near) => format!("unknown option \"{path}{name}\": did you mean \"{path}{near}\"?"),
        None => format!("unknown option \"{path}{name}\"; allowed: {}", names.join(", ")),
    }
}

/// The one of `names` that `typed` is probably a misspelling of, if any.
pub fn nearest<'a>(names: &[&'a str], typed: &str) -> Option<&'a str> {
    let fold = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let typed = fold(typed);
    let distance = |known: &&str| strsim::damerau_levenshtein(&fold(known), &typed);
    // Up to two wrong letters, or half of a short word, count as a misspelling; with more it is another word.
    let near = names.iter().copied().min_by_key(distance);
    near.filter(|known| distance(known) <= 2.min(typed.chars().count() / 2))
}

/// Checks that `value` is one that `spec` allows.
///
/// # Errors
/// The allowed values.
pub fn check(spec: &OptionSpec, value: &Value) -> Result<(), String> {
    let no_nul = |text: &str| !text.contains('\0');
    let ok = match (spec.kind, value) {
        (Kind::Text, Value::String(text)) => !text.is_empty() && no_nul(text),
        (Kind::ArgText, Value::String(text)) => !text.trim().is_empty() && !text.starts_with('-') && no_nul(text),
        (Kind::Model | Kind::ProviderModel, Value::String(text)) if text.trim().is_empty() => true,
        (Kind::Model, Value::String(text)) => !text.starts_with('-') && no_nul(text),
        (Kind::ProviderModel, Value::String(text)) => {
            let parts = text.split_once('/');
            !text.starts_with('-') && no_nul(text) && parts.is_some_and(|(of, name)| !of.is_empty() && !name.is_empty())
        }
        (Kind::NullableText, Value::String(_) | Value::Null)
        | (Kind::Flag, Value::Bool(_))
        | (Kind::Null, Value::Null)
        | (Kind::List, Value::Array(_))
        | (Kind::Object, Value::Object(_)) => true,
        (Kind::Whole(least, most) | Kind::Ms(least, most), Value::Number(number)) => {
            whole(number).is_some_and(|n| (least..=most).contains(&n))
        }
        (Kind::OneOf(choices), Value::String(text)) => choices.contains(&text.as_str()),
        (Kind::TextList, Value::Array(items)) => items.iter().all(|item| item.as_str().is_some_and(no_nul)),
        (Kind::Env, Value::Object(pairs)) => pairs.iter().all(|(name, value)| {
            let name_ok = !name.is_empty() && !name.contains(['=', '\0']);
            name_ok && (value.is_null() || value.as_str().is_some_and(no_nul))
        }),
        (Kind::Secret, Value::String(text)) => !text.trim().is_empty() && !text.contains(char::is_control),
        (Kind::Between(least, most), Value::Number(number)) => number
            .as_f64()
            .is_some_and(|number| (f64::from(least)..=f64::from(most)).contains(&number)),
        (Kind::AnyOf(kinds), _) => {
            let of_kind = |kind: &Kind| check(&OptionSpec { kind: *kind, ..*spec }, value).is_ok();
            kinds.iter().any(of_kind)
        }
        (Kind::TextOrList, Value::String(text)) => !text.is_empty(),
        (Kind::TextOrList, Value::Array(items)) => !items.is_empty() && items.iter().all(Value::is_string),
        (Kind::Share, Value::Number(number)) => number.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)),
        (Kind::Share, Value::Bool(_)) | (Kind::FalseOr(_), Value::Bool(false)) => true,
        (Kind::Part, Value::Number(number)) => number.as_f64().is_some_and(|number| number > 0.0 && number <= 1.0),
        (Kind::Positive, Value::Number(number)) => number.as_f64().is_some_and(|number| number > 0.0),
        (Kind::FlagOr(_), Value::Bool(_)) => true,
        (Kind::FlagOr(word), Value::String(text)) => text == word,
        (Kind::ExitCode, Value::Number(number)) => exit_code(number).is_some(),
        // A value that the façade marks as no JSON is no object.
        (Kind::WordOr(word, _), Value::String(text)) => text == word,
        (Kind::FalseOr(_) | Kind::WordOr(..) | Kind::Fields(_), Value::Object(map)) => !map.contains_key("$notJson"),
        (Kind::Word, Value::String(text)) => {
            let of_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            (1..=64).contains(&text.len()) && !text.starts_with('-') && text.chars().all(of_word)
        }
        (Kind::NonEmptyTexts, Value::Array(items)) => {
            let is_text = |item: &Value| item.as_str().is_some_and(|text| !text.is_empty() && no_nul(text));
            items.iter().all(is_text)
        }
        (Kind::NamedTool, Value::Object(map)) => {
            let name = map.get("name").and_then(Value::as_str);
            map.len() == 1 && name.is_some_and(|name| !name.is_empty())
        }
        _ => false,
    };
    if ok { Ok(()) } else { Err(allowed(spec.kind)) }
}

/// Reads a whole number, also if JavaScript wrote it with a fraction or an exponent (`1e3`).
pub(super) fn whole(number: &serde_json::Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        // 2^53: above it a JavaScript number is not exact.
        (float >= 0.0 && float.fract() == 0.0 && float <= 9_007_199_254_740_992.0).then_some(float as u64)
    })
}

fn exit_code(number: &serde_json::Number) -> Option<i32> {
    let code = number.as_i64()?;
    // The bits are kept: 3221225477 is 0xC0000005, which Windows' own programs call -1073741819.
    i32::try_from(code)
        .ok()
        .or_else(|| u32::try_from(code).ok().map(u32::cast_signed))
}

/// The allowed values of `kind`, worded to stand behind "must be".
pub(crate) fn allowed(kind: Kind) -> String {
    match kind {
        Kind::Text => "a string that is not empty".to_owned(),
        Kind::ArgText => "a string that is not empty and does not begin with \"-\"".to_owned(),
        Kind::Model => "a string that does not begin with \"-\"".to_owned(),
        Kind::NullableText => "a string, or null for the CLI's own".to_owned(),
        Kind::Null => "null, for the CLI's own".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Whole(least, most) => format!("a whole number from {least} to {most}"),
        Kind::Ms(least, most) => format!("a whole number of ms from {least} to {most}"),
        Kind::OneOf(choices) => {
            format!(
                "one of {}",
                choices
                    .iter()
                    .map(|word| format!("\"{word}\""))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        Kind::ProviderModel => "a string like \"provider/model\"".to_owned(),
        Kind::Object => "an object".to_owned(),
        Kind::List => "an array".to_owned(),
        Kind::TextList => "an array of strings".to_owned(),
        Kind::Env => "an object of strings (undefined removes a variable; no \"=\" in names)".to_owned(),
        Kind::Part => "a number above 0, up to 1".to_owned(),
        Kind::Positive => "a number above 0".to_owned(),
        Kind::FlagOr(word) => format!("true, false or \"{word}\""),
        Kind::ExitCode => "a whole number, as processes exit with".to_owned(),
        Kind::Secret => "a string that is not empty, without line breaks".to_owned(),
        Kind::Between(least, most) => format!("a number from {least} to {most}"),
        Kind::AnyOf(kinds) => kinds
            .iter()
            .map(|kind| allowed(*kind))
            .collect::<Vec<_>>()
            .join(", or "),
        Kind::TextOrList => "a string, or an array of strings".to_owned(),
        Kind::Share => "a number from 0 to 1, true or false".to_owned(),
        Kind::Word => "a word of letters, digits, \"-\" and \"_\"".to_owned(),
        Kind::NonEmptyTexts => "an array of strings that are not empty".to_owned(),
        Kind::NamedTool => "an object { name } of a bound tool".to_owned(),
        Kind::Fields(fields) => {
            let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
            format!("an object of {}", names.join(", "))
        }
        Kind::FalseOr(fields) => format!("false, or {}", allowed(Kind::Fields(fields))),
        Kind::WordOr(word, fields) => format!("\"{word}\", or {}", allowed(Kind::Fields(fields))),
    }
}

/// The value for an error message. Values of `env` may be secrets, so only types are named inside objects.
pub fn describe(value: &Value) -> String {
    let kind_of = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    match value {
        // The façade marks values that JSON can't express (NaN, functions, BigInt) with their description.
        Value::Object(map) => match map.get("$notJson").and_then(Value::as_str) {
            Some(description) if map.len() == 1 => description.to_owned(),
            _ => {
                let fields = map
                    .iter()
                    .take(8)
                    .map(|(name, value)| format!("{}: {}", clip(name, 40), kind_of(value)));
                format!("an object {{ {} }}", fields.collect::<Vec<_>>().join(", "))
            }
        },
        Value::Array(items) => {
            format!(
                "an array [{}]",
                items.iter().take(8).map(kind_of).collect::<Vec<_>>().join(", ")
            )
        }
        other => clip(&other.to_string(), 80),
    }
}

/// A whole number of a checked object.
pub fn number(map: &Map<String, Value>, name: &str) -> Option<u64> {
    match map.get(name) {
        Some(Value::Number(number)) => whole(number),
        _ => None,
    }
}

/// An array of strings of a checked object.
pub fn texts(map: &Map<String, Value>, name: &str) -> Vec<String> {
    match map.get(name) {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// An exit code of a checked object.
pub fn exit_code_of(map: &Map<String, Value>, name: &str) -> Option<i32> {
    match map.get(name) {
        Some(Value::Number(number)) => exit_code(number),
        _ => None,
    }
}

/// An environment of a checked object: names with values, or `None` to remove them.
pub fn environment(map: &Map<String, Value>, name: &str) -> Vec<(String, Option<String>)> {
    match map.get(name) {
        Some(Value::Object(pairs)) => pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)))
            .collect(),
        _ => Vec::new(),
    }
}
