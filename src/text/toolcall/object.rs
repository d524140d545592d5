//! An object of tool calls: the scan that finds its end while it is still arriving ([`Scan`]), and the reading of the calls in it
//! once it is whole ([`Entry`]).

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::mark_line;
use crate::prompt::{compact, first_stop};
use dfp_model::message::{InvalidToolCall, Lossy, ToolCall};

// The scan. In: bytes, in pieces of any size. Out: "goes on", "has ended" or "is not JSON from here on". There is no recursion, and
// no byte is looked at twice. Escapes, numbers and literals are checked only roughly: serde_json reads a value afterwards if it
// ends well.

/// The top-level key that makes an object one of tool calls.
pub(super) const KEY: &str = "tool_calls";

/// The state of a scan after a piece of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanStep {
    /// The value goes on after this piece.
    More,
    /// The value ended; its last byte has been taken.
    End,
    /// The next byte is not allowed at its place; it has not been taken.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

/// The progress of the object towards looking like tool calls: the key, its colon, the list, an element of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    No,
    Key,
    Colon,
    List,
    Calls,
}

/// A scan of one JSON value.
#[derive(Debug)]
pub(super) struct Scan {
    /// The open brackets, outermost first.
    open: Vec<u8>,
    /// The number of open braces.
    braces: usize,
    expect: Expect,
    in_string: bool,
    escaped: bool,
    in_scalar: bool,
    /// The top-level string being read, as written; of a long one only the beginning.
    key: Vec<u8>,
    looks: Looks,
}

impl Scan {
    /// Makes a scan of any value, from its first byte.
    pub(super) fn value() -> Self {
        Scan {
            open: Vec::new(),
            braces: 0,
            expect: Expect::Value,
            in_string: false,
            escaped: false,
            in_scalar: false,
            key: Vec::new(),
            looks: Looks::No,
        }
    }

    /// Makes a scan of an object whose brace has already been taken.
    pub(super) fn object() -> Self {
        let mut scan = Scan::value();
        scan.push(b'{');
        scan
    }

    /// Returns whether the value so far is meant as tool calls: it has the key, with a list that has begun to be filled.
    pub(super) fn looks_like_calls(&self) -> bool {
        self.looks == Looks::Calls
    }

    /// Returns whether a value that was cut off is meant as tool calls: the key itself is enough.
    pub(super) fn looks_like_cut_calls(&self) -> bool {
        self.looks != Looks::No
    }

    pub(super) fn in_string(&self) -> bool {
        self.in_string
    }

    /// Scans bytes from `at` on as strict JSON. `blank` tells whether only blanks precede on the line, and is kept up to date.
    pub(super) fn strict(&mut self, bytes: &[u8], at: &mut usize, blank: &mut bool) -> ScanStep {
        while let Some(&byte) = bytes.get(*at) {
            if self.in_string {
                *blank = false;
                if byte < 0x20 {
                    return ScanStep::Broken;
                }
                let length = if self.escaped || matches!(byte, b'"' | b'\\') {
                    1
                } else {
                    plain_length(&bytes[*at..])
                };
                self.string_bytes(&bytes[*at..*at + length]);
                *at += length;
                continue;
            }
            if !self.fits(byte) {
                return ScanStep::Broken;
            }
            mark_line(byte, blank);
            *at += 1;
            self.look(byte);
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b'"' => self.begin_string(),
                b'{' | b'[' => self.push(byte),
                b'}' | b']' => {
                    self.pop();
                    if self.open.is_empty() {
                        return ScanStep::End;
                    }
                }
                b',' if self.open.last() == Some(&b'{') => self.expect = Expect::Key,
                b',' | b':' => self.expect = Expect::Value,
                _ => self.in_scalar = true,
            }
        }
        ScanStep::More
    }

    /// Returns whether `byte` may come next, outside of strings. Ends the number or literal before it.
    fn fits(&mut self, byte: u8) -> bool {
        if self.in_scalar {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') {
                return true;
            }
            self.in_scalar = false;
            self.expect = Expect::CommaOrEnd;
        }
        let value = matches!(self.expect, Expect::Value | Expect::ValueOrEnd);
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => true,
            b'"' => value || matches!(self.expect, Expect::Key | Expect::KeyOrEnd),
            b'{' | b'[' => value,
            b'}' => self.open.last() == Some(&b'{') && matches!(self.expect, Expect::KeyOrEnd | Expect::CommaOrEnd),
            b']' => self.open.last() == Some(&b'[') && matches!(self.expect, Expect::ValueOrEnd | Expect::CommaOrEnd),
            b',' => self.expect == Expect::CommaOrEnd,
            b':' => self.expect == Expect::Colon,
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => value,
            _ => false,
        }
    }

    /// Scans one byte of JSON that is damaged already: strings may hold line breaks, brackets close whatever they can.
    pub(super) fn lenient(&mut self, byte: u8) -> ScanStep {
        if self.in_string {
            self.string_bytes(&[byte]);
            return ScanStep::More;
        }
        self.look(byte);
        match byte {
            b'"' => {
                // After the damage, any string may be a key.
                self.expect = Expect::Key;
                self.begin_string();
            }
            b'{' | b'[' => self.push(byte),
            b'}' | b']' => {
                let opener = if byte == b'}' { b'{' } else { b'[' };
                let there = if byte == b'}' {
                    self.braces
                } else {
                    self.open.len() - self.braces
                };
                while there > 0 && self.pop() != Some(opener) {}
                if self.open.is_empty() {
                    return ScanStep::End;
                }
            }
            _ => {}
        }
        ScanStep::More
    }

    fn push(&mut self, bracket: u8) {
        self.open.push(bracket);
        self.braces += usize::from(bracket == b'{');
        self.expect = if bracket == b'{' {
            Expect::KeyOrEnd
        } else {
            Expect::ValueOrEnd
        };
    }

    fn pop(&mut self) -> Option<u8> {
        let bracket = self.open.pop()?;
        self.braces -= usize::from(bracket == b'{');
        self.expect = Expect::CommaOrEnd;
        Some(bracket)
    }

    fn begin_string(&mut self) {
        self.in_string = true;
        self.key.clear();
    }

    /// Scans bytes of a string: one that is significant, or any number that are not.
    fn string_bytes(&mut self, bytes: &[u8]) {
        if !self.escaped && bytes == b"\"" {
            self.in_string = false;
            let is_key = matches!(self.expect, Expect::Key | Expect::KeyOrEnd);
            self.expect = if is_key { Expect::Colon } else { Expect::CommaOrEnd };
            if is_key && self.open == b"{" && self.looks != Looks::Calls && is_the_key(&self.key) {
                self.looks = Looks::Key;
            }
            return;
        }
        self.escaped = !self.escaped && bytes == b"\\";
        // Each character of the key takes at most six bytes, as an escape.
        if self.open.len() == 1 && self.key.len() <= KEY.len() * 6 {
            self.key.extend_from_slice(bytes);
        }
    }

    /// Follows the key, its colon, its list and the list's first element, outside of strings.
    fn look(&mut self, byte: u8) {
        if matches!(self.looks, Looks::No | Looks::Calls) || byte.is_ascii_whitespace() {
            return;
        }
        self.looks = match (self.looks, byte) {
            (Looks::Key, b':') => Looks::Colon,
            (Looks::Colon, b'[') => Looks::List,
            // An empty list does not count, and a list that begins with dots (three, or the one character, 0xE2…) is a way of
            // talking about the format.
            (Looks::List, b']' | b'.' | 0xE2) => Looks::No,
            (Looks::List, _) => Looks::Calls,
            _ => Looks::No,
        };
    }
}

/// The number of bytes for which a string goes on without a significant one.
fn plain_length(bytes: &[u8]) -> usize {
    first_stop(bytes, |byte| (byte == b'"') | (byte == b'\\') | (byte < 0x20))
}

fn is_the_key(written: &[u8]) -> bool {
    if !written.contains(&b'\\') {
        return written == KEY.as_bytes();
    }
    let quoted = [b"\"", written, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|key| key == KEY)
}

// The reading. In: the text of one JSON object. Out: its entries in order, each read or with the reason why it can't be. Arguments
// are handed on as the raw text of an object: key order and number spelling survive, white space between tokens does not.

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
    let object = text.starts_with('{').then(|| compact(text))?;
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
