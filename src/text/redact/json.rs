//! Changes the strings of JSON text, and nothing else.

use std::borrow::Cow;
use std::ops::Range;

/// Applies `redact` to each string of `json`.
pub(super) fn redacted<'a>(json: &'a str, redact: impl Fn(&str) -> Cow<'_, str>) -> Cow<'a, str> {
    let mut clean = String::new();
    let mut from = 0;
    for literal in strings(json) {
        let Some(text) = unquoted(&json[literal.clone()]) else {
            continue;
        };
        let Cow::Owned(redacted) = redact(&text) else {
            continue;
        };
        clean.push_str(&json[from..literal.start]);
        clean.push_str(&serde_json::Value::from(redacted).to_string());
        from = literal.end;
    }
    if from == 0 {
        return Cow::Borrowed(json);
    }
    clean.push_str(&json[from..]);
    Cow::Owned(clean)
}

/// The string literals of JSON text, quotes included.
fn strings(json: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', bytes.get(at..)?)?;
        let mut end = start + 1;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        at = end + 1;
        Some(start..at)
    })
}

/// The text of a string literal. One without escapes is borrowed; lone surrogates become U+FFFD.
fn unquoted(literal: &str) -> Option<Cow<'_, str>> {
    let inside = literal.get(1..literal.len() - 1)?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str::<dfp_model::message::Lossy>(literal)
        .ok()
        .map(|text| Cow::Owned(text.0))
}
