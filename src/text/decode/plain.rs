//! Output in which no event was seen: text, or JSON that is not an answer.
//!
//! A program in the place of a CLI may print its answer as text, whatever format it was asked for. JSON is never such a text:
//! it is an error's body, or the beginning of a stream or object whose end was lost.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Wire;
use super::failure::failure_of;
use dfp_model::event::Failure;

/// The kind of an output without an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plain {
    /// Text. In [`Wire::Text`] the output always is: an answer may be JSON there, and its end can't be told from a cut.
    Text,
    /// Whole JSON, with the failure in its `error`, if it has one.
    Json(Option<Box<Failure>>),
    /// The beginning of JSON whose end is missing.
    Cut,
}

/// An object with an `error`; its other fields don't matter.
#[derive(Deserialize)]
struct Erroneous {
    #[serde(rename = "error")]
    _error: IgnoredAny,
}

/// The kind of `text`, which was printed in place of `wire`'s format. `text` is
/// [`Decoder::plain_text`](super::Decoder::plain_text).
pub fn plain(wire: Wire, text: &str) -> Plain {
    if wire == Wire::Text {
        return Plain::Text;
    }
    let text = text.trim();
    match values(text) {
        PlainValues::Json => Plain::Json(failure_in(text)),
        PlainValues::Cut => Plain::Cut,
        PlainValues::Other => after_noise(text),
    }
}

/// The result of reading a text as a sequence of JSON objects and arrays.
enum PlainValues {
    /// All of the text is JSON.
    Json,
    /// The text is JSON whose end is missing.
    Cut,
    /// The text is something else, or blank.
    Other,
}

fn values(text: &str) -> PlainValues {
    let mut rest = text;
    while rest.starts_with(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => rest = rest.get(values.byte_offset()..).unwrap_or_default().trim_start(),
            Some(Err(error)) if error.is_eof() || ends_in_a_number(rest) => return PlainValues::Cut,
            _ => return PlainValues::Other,
        }
        if rest.is_empty() {
            return PlainValues::Json;
        }
    }
    PlainValues::Other
}

/// Returns whether the only flaw of `json` is that it ends in the middle of a number (`0.`), which serde_json does not report
/// as an end of input.
fn ends_in_a_number(json: &str) -> bool {
    let whole = || serde_json::from_str::<IgnoredAny>(&format!("{json}0"));
    json.ends_with(['.', 'e', 'E', '+', '-']) && whole().is_err_and(|error| error.is_eof())
}

/// Recognises JSON after lines of another kind. A cut object counts only if a name follows its brace, so that text which
/// quotes JSON is not taken for it; a whole one counts only if it is an error's.
fn after_noise(text: &str) -> Plain {
    for (at, _) in text.match_indices("\n{").take(super::json::MAX_FALSE_STARTS) {
        let rest = &text[at + 1..];
        let named = rest[1..].trim_start();
        match values(rest) {
            PlainValues::Cut if named.is_empty() || named.starts_with('"') => return Plain::Cut,
            PlainValues::Json => match failure_in(rest) {
                None => return Plain::Text,
                failure => return Plain::Json(failure),
            },
            _ => {}
        }
    }
    Plain::Text
}

/// The failure in the first JSON value, if it has an `error`.
fn failure_in(text: &str) -> Option<Box<Failure>> {
    let first = serde_json::Deserializer::from_str(text)
        .into_iter::<&serde_json::value::RawValue>()
        .next()?
        .ok()?;
    serde_json::from_str::<Erroneous>(first.get()).ok()?;
    Some(Box::new(failure_of(first.get())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Plain {
        plain(Wire::ClaudeStream, text)
    }

    fn json(message: &str) -> Plain {
        Plain::Json(Some(Box::new(Failure {
            message: message.to_owned(),
            ..Failure::default()
        })))
    }

    #[test]
    fn json_is_no_text_wherever_it_ends() {
        for text in [
            r#"{"error":"no"}"#,
            "{\"error\":\"no\"}\n{\"more\":1}\n",
            "[STARTUP] x\n{\"error\":\"no\"}",
        ] {
            assert_eq!(read(text), json("no"), "{text}");
        }
        for text in [r#"{"a":1}"#, "[1, 2]\n", "{}\n{}\n", "[]"] {
            assert_eq!(read(text), Plain::Json(None), "{text}");
        }
        for text in [
            "{",
            "[",
            "{\"",
            r#"{"type":"sys"#,
            "{\"a\":1}\n{\"b\"",
            "[{\"type\":\"system\"},",
            "Loaded credentials.\n{\n \"session_id\": \"s\",\n",
            "Loaded credentials.\n{",
            "{\"a\":\"\u{FFFD}",
            "{\"a\":0.",
            "[1e-",
            "[tru",
        ] {
            assert_eq!(read(text), Plain::Cut, "{text}");
        }
    }

    #[test]
    fn texts_stay_texts() {
        for text in [
            "Hello.",
            "42",
            "\"quoted\"",
            "[1] is where it says so",
            "{braces} in prose",
            "{name}, you are right",
            "Put this in:\n{\"a\": 1}\nand go on.",
            "Put this in:\n{\"a\": 1}",
            "{\"a\":1} is what it prints",
            "fn main() {\n}\n{\n  let x = 1;",
        ] {
            assert_eq!(read(text), Plain::Text, "{text}");
            assert_eq!(plain(Wire::Text, text), Plain::Text, "{text}");
        }
        assert_eq!(plain(Wire::Text, r#"{"error":"no"}"#), Plain::Text);
    }
}
