//! Reading foreign JSON without trusting it.
//!
//! In: the text of one JSON object. Out: borrowed pieces of it. A decoder first takes an object apart into [`RawValue`]s,
//! which succeeds for every well-formed object however deep, and then reads each field it knows as the type it expects:
//! a field of another type is reported and counts as absent, and the rest of the line stays readable.
//!
//! At the end of the file are whole outputs: the JSON documents in one, where the last of them ends ([`DocumentEnd`]), and what an
//! output is in which no event was seen ([`plain()`]).

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::format::{Wire, failure_of};
use dfp_model::event::Failure;
use dfp_model::message::wtf8_to_string;

/// A JSON string as WTF-8: UTF-8 that may hold lone surrogates, as JavaScript's strings may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wtf8<'a>(pub Cow<'a, [u8]>);

impl<'a> Wtf8<'a> {
    /// Converts to text; lone surrogates become U+FFFD.
    pub fn into_text(self) -> Cow<'a, str> {
        match self.0 {
            Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => Cow::Owned(wtf8_to_string(bytes.to_vec())),
            },
            Cow::Owned(bytes) => Cow::Owned(wtf8_to_string(bytes)),
        }
    }
}

impl<'a> From<Cow<'a, str>> for Wtf8<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Wtf8(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Wtf8<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Wtf8<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Wtf8<'de>, E> {
                Ok(Wtf8(Cow::Borrowed(bytes)))
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Wtf8<'de>, E> {
                Ok(Wtf8(Cow::Owned(bytes.to_vec())))
            }
        }
        // serde_json accepts a string with lone surrogates only when asked for bytes.
        deserializer.deserialize_bytes(Bytes)
    }
}

/// A JSON string as text, with lone surrogates replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Wtf8::deserialize(deserializer).map(|text| Text(text.into_text()))
    }
}

impl Text<'_> {
    pub fn into_string(self) -> String {
        self.0.into_owned()
    }
}

/// A JSON number of any spelling, as a count: rounded, and 0 if it is negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count(pub u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Count, E> {
                Ok(Count(number))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Count, E> {
                Ok(Count(number.try_into().unwrap_or(0)))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Count, E> {
                // `as` saturates, and takes NaN for 0.
                Ok(Count(number.round() as u64))
            }
        }
        deserializer.deserialize_f64(Number)
    }
}

/// The members of a JSON object in order, with unparsed values.
#[derive(Debug, Default)]
pub struct Members<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(key), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The string in `raw`, if it is one; borrowed unless it holds escapes.
pub fn word(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let json = raw?.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<Text>(json).ok().map(|text| text.0)
}

/// Returns whether the field is exactly `true`.
pub(crate) fn is_true(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

/// Returns whether `raw` is an object.
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Returns whether `raw` is an array.
pub fn is_array(raw: &RawValue) -> bool {
    raw.get().starts_with('[')
}

/// Returns whether `raw` is a string.
pub fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// A reader for the fields of one line, which collects those of the wrong type.
#[derive(Debug, Default)]
pub struct Fields {
    complaints: Vec<String>,
}

impl Fields {
    /// Reads `raw` as a `T`. A field that is absent, `null` or ill-typed is `None`; the last is reported under `name`.
    pub fn read<'a, T: Deserialize<'a>>(&mut self, name: &str, raw: Option<&'a RawValue>) -> Option<T> {
        match serde_json::from_str(raw?.get()) {
            Ok(value) => Some(value),
            Err(error) => {
                // The position that serde_json adds is one within the field.
                let reason = error.to_string();
                let reason = reason.split(" at line ").next().unwrap_or_default();
                self.complaints.push(format!("{name}: {reason}"));
                None
            }
        }
    }

    /// Does the same as [`read`](Fields::read) for a string, as owned text.
    pub fn string(&mut self, name: &str, raw: Option<&RawValue>) -> Option<String> {
        self.read::<Text>(name, raw).map(Text::into_string)
    }

    /// Does the same as [`read`](Fields::read) for a number, as a count.
    pub fn count(&mut self, name: &str, raw: Option<&RawValue>) -> Option<u64> {
        self.read::<Count>(name, raw).map(|count| count.0)
    }

    /// Does the same as [`count`](Fields::count) for a number that can't be large (an attempt, a status); a larger one counts
    /// as absent.
    pub fn small<T: TryFrom<u64>>(&mut self, name: &str, raw: Option<&RawValue>) -> Option<T> {
        self.count(name, raw).and_then(|count| T::try_from(count).ok())
    }

    /// Reads the line itself as a `T`.
    pub fn read_line<'a, T: Deserialize<'a>>(&mut self, json: &'a str) -> Option<T> {
        serde_json::from_str(json)
            .map_err(|error| self.complain(&error.to_string()))
            .ok()
    }

    /// Reports a problem that [`read`](Fields::read) can't see.
    pub fn complain(&mut self, what: &str) {
        self.complaints.push(what.to_owned());
    }

    /// The text of all problems found, if there were any.
    pub fn complaint(self) -> Option<String> {
        (!self.complaints.is_empty()).then(|| self.complaints.join("; "))
    }
}

// Whole outputs.

/// The number of places tried at most that look like the start of a document and are not: each costs a scan.
const MAX_FALSE_STARTS: usize = 64;

/// Calls `each` for the JSON objects and arrays in `text` that begin a line, pretty printed or not, and for the lines between
/// them, with the number of the line each begins on.
pub(super) fn documents<'a>(text: &'a str, mut each: impl FnMut(u64, Result<&'a RawValue, &'a str>)) {
    let mut rest = text;
    let mut false_starts = 0;
    let mut number = 1;
    while !rest.is_empty() {
        let line = rest.split_inclusive(['\n', '\r']).next().unwrap_or(rest);
        let begun = line.trim_start();
        if begun.starts_with(['{', '[']) && false_starts < MAX_FALSE_STARTS {
            let from = &rest[line.len() - begun.len()..];
            let mut values = serde_json::Deserializer::from_str(from).into_iter::<&RawValue>();
            if let Some(Ok(value)) = values.next() {
                each(number, Ok(value));
                let (read, unread) = from.split_at(values.byte_offset());
                number += memchr::memchr_iter(b'\n', read.as_bytes()).count() as u64;
                rest = unread;
                continue;
            }
            false_starts += 1;
        }
        if !begun.is_empty() {
            each(number, Err(line.trim()));
        }
        number += u64::from(line.ends_with('\n'));
        rest = &rest[line.len()..];
    }
}

/// The number of times that a document's end is looked at more closely: each look reads all of the output.
const MAX_LOOKS: u32 = 8;

/// A finder for the end of a JSON document in output that comes in pieces; it looks at every byte once.
#[derive(Debug, Default)]
pub struct DocumentEnd {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// True if this line began with something that opens no document.
    noise: bool,
    /// True if no document has begun since the last one was closed.
    closed: bool,
    looks: u32,
}

impl DocumentEnd {
    /// Takes the next bytes. Returns `true` if a document may have ended, no other has begun, and decoding it is worth a try.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let mut closes = false;
        for &byte in bytes {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' if self.depth > 0 => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' if self.depth > 0 || !self.noise => {
                    self.depth += 1;
                    (closes, self.closed) = (false, false);
                }
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    closes = self.depth == 0;
                    self.closed = closes;
                }
                b'\n' | b'\r' => self.noise = false,
                _ if self.depth == 0 && !byte.is_ascii_whitespace() => self.noise = true,
                _ => {}
            }
        }
        if closes {
            self.looks += 1;
        }
        closes && self.looks <= MAX_LOOKS
    }

    /// Returns whether a document has ended and no other has begun.
    pub fn is_over(&self) -> bool {
        self.closed
    }

    /// Returns whether a further document has begun.
    pub fn goes_on(&self) -> bool {
        !self.closed
    }
}

// Output without events. A program in the place of a CLI may print its answer as text, whatever format it was asked for. JSON is
// never such a text: it is an error's body, or the beginning of a stream or object whose end was lost.

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
    for (at, _) in text.match_indices("\n{").take(MAX_FALSE_STARTS) {
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
        .into_iter::<&RawValue>()
        .next()?
        .ok()?;
    serde_json::from_str::<Erroneous>(first.get()).ok()?;
    Some(Box::new(failure_of(first.get())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_between_noise() {
        let text = "warning: x\n[not json]\n  {\n \"a\": [1,\n2]}{\"b\":1}\n[{\"c\":2}] tail\n{\"cut\": ";
        let mut seen = Vec::new();
        documents(text, |number, found| {
            seen.push(match found {
                Ok(value) => format!("{number} json {}", value.get()),
                Err(line) => format!("{number} noise {line}"),
            })
        });
        assert_eq!(
            seen,
            [
                "1 noise warning: x",
                "2 noise [not json]",
                "3 json {\n \"a\": [1,\n2]}",
                "5 json {\"b\":1}",
                "6 json [{\"c\":2}]",
                "6 noise tail",
                "7 noise {\"cut\":",
            ]
        );
    }

    #[test]
    fn fields_of_the_wrong_type_are_named_and_the_rest_is_read() {
        let Members(members) = serde_json::from_str(r#"{"a":"x\ud800","b":"1","c":2.6,"d":-3,"e":null}"#).unwrap();
        let mut fields = Fields::default();
        let raw = |i: usize| Some(members[i].1);
        assert_eq!(fields.string("a", raw(0)).as_deref(), Some("x\u{FFFD}"));
        assert_eq!(fields.count("b", raw(1)), None);
        assert_eq!(fields.count("c", raw(2)), Some(3));
        assert_eq!(fields.count("d", raw(3)), Some(0));
        assert_eq!(fields.string("c", raw(2)), None);
        assert_eq!(
            fields.complaint().as_deref(),
            Some(
                "b: invalid type: string \"1\", expected a number; c: invalid type: floating point `2.6`, expected a string"
            )
        );
    }

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
