//! Finds calls in JSON, whatever stands in its strings.
//!
//! In: a text that may hold JSON, whose strings may hold JSON again, with or without entities. Out: each object in it that has
//! a name. In plain text a string's braces can't be told from an object's, and a call's arguments may stand far from its name;
//! here JSON itself tells. Python's and JavaScript's spelling of objects is read as well.
//!
//! Each layer is read once, from its beginning to its end. Where the text is not JSON, everything that was open is dropped.

use std::borrow::Cow;

use memchr::memchr2;

use super::plain::{entities, one_level, plain};

/// The keys under which arguments stand, in plain text.
pub(super) const ARGS: [&str; 4] = ["args:", "arguments:", "parameters:", "input:"];
/// The number of layers of JSON in JSON strings. Each doubles the backslashes of the one within, so that more can't be told
/// from a flood.
const MAX_LAYERS: usize = 16;
/// The depth to which objects and lists are read.
const MAX_DEPTH: usize = 10_000;

/// An object that has a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// The name; like the other texts here it is plain.
    pub name: String,
    /// The values that may be a call's arguments.
    pub args: Vec<String>,
    /// True if it has a description: it may be the definition of a tool.
    pub is_described: bool,
    /// True if it stands in a list of calls.
    pub in_calls: bool,
}

/// Calls `each` for each object in `text` whose name `wanted` accepts, until `each` says that it has enough.
pub(super) fn each_object(text: &str, wanted: &dyn Fn(&str) -> bool, each: &mut dyn FnMut(&Object) -> bool) {
    let mut reader = ObjectReader {
        enough: false,
        wanted,
        each,
    };
    reader.layers(text, 0);
    // This may be the text of a string without its quotes.
    if text.contains("{\\\"") {
        let inner = one_level(text);
        inner.iter().for_each(|inner| reader.layers(inner, 1));
    }
}

struct ObjectReader<'a> {
    enough: bool,
    wanted: &'a dyn Fn(&str) -> bool,
    each: &'a mut dyn FnMut(&Object) -> bool,
}

impl ObjectReader<'_> {
    /// Reads `text` as it is, and again with its entities decoded.
    fn layers(&mut self, text: &str, layer: usize) {
        if layer > MAX_LAYERS {
            return;
        }
        self.read(text, layer);
        if let Cow::Owned(text) = entities(text) {
            self.read(&text, layer);
        }
    }

    fn read(&mut self, text: &str, layer: usize) {
        let mut scan = Scan::new(text);
        while !self.enough {
            match scan.next() {
                None => return,
                Some(Found::String(content)) => {
                    if content.contains(['{', '&']) || content.contains("\\u") {
                        let inner = one_level(content).map_or(Cow::Borrowed(content), Cow::Owned);
                        self.layers(&inner, layer + 1);
                    }
                }
                Some(Found::Object(frame)) => self.object(text, &frame, scan.in_calls()),
            }
        }
    }

    fn object(&mut self, text: &str, frame: &Frame, in_calls: bool) {
        let Some((from, to)) = frame.name else { return };
        let name = plain(&text[from..to]);
        if !(self.wanted)(&name) {
            return;
        }
        let args = frame.args.iter().map(|(from, to)| plain(&text[*from..*to]));
        self.enough = (self.each)(&Object {
            name,
            args: args.collect(),
            is_described: frame.is_described,
            in_calls,
        });
    }
}

/// The start and end of a value.
type Span = (usize, usize);

/// An object or a list that has begun.
#[derive(Debug)]
struct Frame {
    is_object: bool,
    at: usize,
    wants: Wants,
    /// The member whose value comes next.
    key: Key,
    /// True if it is a list of calls.
    is_calls: bool,
    name: Option<Span>,
    args: Vec<Span>,
    is_described: bool,
}

/// The tokens that may come next in an object or list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// A key, an item of a list, or the end.
    Item,
    Colon,
    Value,
    /// A comma, or the end.
    Comma,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Name,
    Args,
    Description,
    Calls,
    Other,
}

impl Key {
    fn of(raw: &str) -> Key {
        let is_simple = raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let key = if is_simple {
            Cow::Borrowed(raw)
        } else {
            plain(raw).into()
        };
        match key.as_ref() {
            "name" => Key::Name,
            "description" => Key::Description,
            "tool_calls" => Key::Calls,
            key if ARGS.iter().any(|name| name.strip_suffix(':') == Some(key)) => Key::Args,
            _ => Key::Other,
        }
    }
}

enum Found<'a> {
    /// The text between a string's quotes.
    String(&'a str),
    /// An object that has ended.
    Object(Frame),
}

/// An iterator over the objects and strings of a text, an object after its contents.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    open: Vec<Frame>,
    /// The last string, with its quotes.
    string: Span,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Scan<'a> {
        Scan {
            text,
            at: 0,
            open: Vec::new(),
            string: (0, 0),
        }
    }

    /// Returns whether the object that has just ended stands in a list of calls.
    fn in_calls(&self) -> bool {
        self.open.last().is_some_and(|list| list.is_calls)
    }

    /// The next string, or the next object that has ended; `None` at the end of the text.
    fn next(&mut self) -> Option<Found<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            if self.open.is_empty() {
                self.at += memchr2(b'{', b'[', bytes.get(self.at..)?)?;
                self.open(bytes[self.at] == b'{');
                continue;
            }
            let byte = *bytes.get(self.at)?;
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b'{' | b'[' => self.open(byte == b'{'),
                b'}' | b']' => {
                    if let Some(frame) = self.close(byte == b'}') {
                        return Some(Found::Object(frame));
                    }
                }
                b':' | b',' => self.separator(byte),
                b'"' | b'\'' => {
                    let Some(end) = end_of_string(bytes, self.at) else {
                        self.fail();
                        continue;
                    };
                    let span = (self.at, end);
                    self.at = end;
                    if self.value(span) {
                        self.string = span;
                    }
                    return Some(Found::String(&self.text[span.0 + 1..span.1 - 1]));
                }
                _ => {
                    let length = bytes[self.at..].iter().position(|byte| ends_word(*byte));
                    let end = length.map_or(bytes.len(), |length| self.at + length);
                    let span = (self.at, end);
                    self.at = end;
                    self.value(span);
                }
            }
        }
    }

    /// Opens an object or a list, if one may stand here and is not too deep.
    fn open(&mut self, is_object: bool) {
        let can = match self.open.last() {
            None => true,
            Some(Frame {
                is_object: true, wants, ..
            }) => *wants == Wants::Value,
            Some(list) => list.wants == Wants::Item,
        };
        if !can || self.open.len() == MAX_DEPTH {
            return self.fail();
        }
        let holder = self.open.last();
        self.open.push(Frame {
            is_calls: !is_object && holder.is_some_and(|holder| holder.is_object && holder.key == Key::Calls),
            is_object,
            at: self.at,
            wants: Wants::Item,
            key: Key::Other,
            name: None,
            args: Vec::new(),
            is_described: false,
        });
        self.at += 1;
    }

    /// Closes the object that ends here and returns it.
    fn close(&mut self, is_object: bool) -> Option<Frame> {
        let can = |frame: &mut Frame| frame.is_object == is_object && matches!(frame.wants, Wants::Item | Wants::Comma);
        let Some(frame) = self.open.pop_if(can) else {
            self.fail();
            return None;
        };
        self.at += 1;
        if !self.open.is_empty() {
            self.value((frame.at, self.at));
        }
        is_object.then_some(frame)
    }

    fn separator(&mut self, byte: u8) {
        let wanted = if byte == b':' { Wants::Colon } else { Wants::Comma };
        match self.open.last_mut().filter(|frame| frame.wants == wanted) {
            Some(frame) => {
                frame.wants = if byte == b':' { Wants::Value } else { Wants::Item };
                self.at += 1;
            }
            None => self.fail(),
        }
    }

    /// Takes a key, a member's value or an item; returns whether one may stand here.
    fn value(&mut self, span: Span) -> bool {
        let Some(frame) = self.open.last_mut() else {
            return false;
        };
        match (frame.is_object, frame.wants) {
            (true, Wants::Item) => {
                let raw = &self.text[span.0..span.1];
                frame.key = Key::of(raw.trim_matches(['"', '\'']));
                frame.wants = Wants::Colon;
            }
            (true, Wants::Value) => {
                match frame.key {
                    Key::Name => frame.name = Some(span),
                    Key::Args => frame.args.push(span),
                    Key::Description => frame.is_described = true,
                    Key::Calls | Key::Other => {}
                }
                frame.wants = Wants::Comma;
            }
            (false, Wants::Item) => frame.wants = Wants::Comma,
            _ => {
                self.fail();
                return false;
            }
        }
        true
    }

    /// Drops everything that is open, since it is not JSON. The last string may in truth have been the text between two
    /// strings, with an object's beginning at its end: `{"text {"name": …`.
    fn fail(&mut self) {
        self.open.clear();
        let (from, to) = std::mem::take(&mut self.string);
        let before = self.text.get(from..to.saturating_sub(1)).unwrap_or_default().trim_end();
        if before.len() > 1 && before.ends_with('{') {
            self.at = from + before.len() - 1;
            self.open(true);
            return;
        }
        // An opening bracket is looked at again.
        let is_open = matches!(self.text.as_bytes().get(self.at), Some(b'{' | b'['));
        self.at += usize::from(!is_open && self.at < self.text.len());
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
    }
}

/// The offset behind the string that begins at `at`, with a quote.
fn end_of_string(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = *bytes.get(at)?;
    let mut from = at + 1;
    loop {
        let found = from + memchr2(quote, b'\\', bytes.get(from..)?)?;
        if bytes[found] == quote {
            return Some(found + 1);
        }
        from = found + 2;
    }
}

fn ends_word(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'\n' | b'\r' | b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"' | b'\''
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// Lists each object once, in alphabetical order.
    fn objects(text: &str) -> Vec<String> {
        let mut found = BTreeSet::new();
        each_object(text, &|_| true, &mut |object| {
            let calls = if object.in_calls { "!" } else { "" };
            let shown = format!("{}{calls} {}", object.name, object.args.join(" "));
            found.insert(shown.trim_end().to_owned());
            false
        });
        found.into_iter().collect()
    }

    #[test]
    fn objects_are_found_in_prose_in_strings_and_behind_entities() {
        let inner =
            json!({"name": 1, "of": [{"name": 2, "args": {"a": "}"}}], "tool_calls": [{"name": 3}]}).to_string();
        let all = ["1", "2 {a:}}", "3!"];
        assert_eq!(objects(&inner), all);
        assert_eq!(objects(&json!({ "text": format!("see {inner} {{") }).to_string()), all);
        assert_eq!(objects(&json!({ "text": json!([inner]).to_string() }).to_string()), all);
        assert_eq!(objects(&json!([json!([inner]).to_string()]).to_string()), all);
        assert_eq!(objects(&format!("see {}", inner.replace('"', "\\\""))), all);
        // Read as it stands, this ends in objects as well, but not in a list of calls.
        let escaped = ["1", "2 {a:}}", "3", "3!"];
        assert_eq!(objects(&inner.replace('"', "&quot;")), escaped);
        assert_eq!(
            objects(&json!({ "page": inner.replace('"', "&quot;") }).to_string()),
            escaped
        );
        for (text, expected) in [
            ("{a} {\"cut\": [{\"name\": 4}, {\"name\": 5", vec!["4"]),
            ("{\"she said {\"name\": \"x\", \"input\": []} and", vec!["x []"]),
            ("{\"name\" \"x\"} {{\"name\": \"y\"}", vec!["y"]),
            (
                "{'name': 'it\\'s', 'args': {'a': True}}, {name: z, args: {n: 1,},}",
                vec!["its {a:True}", "z {n:1,}"],
            ),
            (
                "{\"n\\u0061me\": \"e\\u0061\", \"parameters\": \"{\\\"a\\\": 1}\"}",
                vec!["ea {a:1}"],
            ),
            ("{\"name\": \"é\" é {\"name\": \"unended", vec![]),
        ] {
            assert_eq!(objects(text), expected, "{text}");
        }
    }

    #[test]
    fn no_more_is_read_than_is_wanted() {
        let text = "{\"name\":\"a\"} {\"name\":\"b\"} {\"name\":\"b\"}";
        let mut seen = 0;
        each_object(text, &|name| name == "b", &mut |_| {
            seen += 1;
            true
        });
        assert_eq!(seen, 1);
    }
}
