//! A call that is searched for in plain text.
//!
//! In: a call's name and arguments, and a place in a plain text. Out: whether the text has the same name with the same
//! arguments there. Keys may stand in any order and numbers may be spelled otherwise; the id and other members of an object of
//! calls don't count.

use serde_json::Value;

use super::objects::{ARGS, Object};
use super::plain::plain;
use crate::prompt::scan::from_char;

/// The depth and width up to which arguments are compared value by value; larger ones are compared as written.
const MAX_DEPTH: usize = 64;
const MAX_WIDTH: usize = 512;

/// The spellings of `null`, in JSON and in Python.
const NULLS: [&str; 2] = ["null", "None"];

/// A value in plain text.
#[derive(Debug)]
enum Node {
    Text(String),
    Number(String, f64),
    Bool(&'static str),
    Null,
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn of(value: &Value) -> Node {
        match value {
            Value::String(text) => Node::Text(plain(text)),
            Value::Number(number) => Node::Number(number.to_string(), number.as_f64().unwrap_or(f64::NAN)),
            Value::Bool(true) => Node::Bool("true"),
            Value::Bool(false) => Node::Bool("false"),
            Value::Null => Node::Null,
            Value::Array(items) => Node::List(items.iter().map(Node::of).collect()),
            Value::Object(members) => {
                let members = members.iter().map(|(key, value)| (plain(key), Node::of(value)));
                Node::Object(members.collect())
            }
        }
    }

    /// The end of this value in `text` if the value stands at `at`.
    fn end(&self, text: &str, at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        let after = |word: &str| rest.starts_with(word).then(|| at + word.len());
        match self {
            Node::Text(word) => after(word),
            Node::Number(written, number) => {
                let length = rest.bytes().take_while(|byte| is_of_number(*byte)).count();
                let same = rest[..length] == *written || rest[..length].parse() == Ok(*number);
                same.then_some(at + length)
            }
            Node::Bool(word) => {
                let there = rest.get(..word.len())?;
                there.eq_ignore_ascii_case(word).then(|| at + word.len())
            }
            Node::Null => NULLS.iter().find_map(|word| after(word)),
            Node::List(items) => {
                let mut at = after("[")?;
                for (index, item) in items.iter().enumerate() {
                    at = if index > 0 { behind(text, at, b',')? } else { at };
                    at = item.end(text, at)?;
                }
                behind(text, at, b']')
            }
            Node::Object(members) => Node::end_of_object(members, text, after("{")?),
        }
    }

    /// The end of an object in `text` that has exactly these members, in any order, with the first at `at`.
    fn end_of_object(members: &[(String, Node)], text: &str, mut at: usize) -> Option<usize> {
        let mut left: Vec<&(String, Node)> = members.iter().collect();
        // The members usually stand in the same order, so the next one is tried first.
        left.reverse();
        while !left.is_empty() {
            let found = left.iter().enumerate().rev().find_map(|(index, (key, value))| {
                let colon = text.get(at..)?.starts_with(key.as_str()).then(|| at + key.len())?;
                let end = value.end(text, behind(text, colon, b':')?)?;
                matches!(text.as_bytes().get(end), Some(b',' | b'}')).then_some((index, end))
            });
            let (index, end) = found?;
            left.remove(index);
            at = match left.is_empty() {
                true => end,
                false => behind(text, end, b',')?,
            };
        }
        behind(text, at, b'}')
    }
}

/// The offset behind `byte`, if that stands at `at`.
fn behind(text: &str, at: usize, byte: u8) -> Option<usize> {
    (text.as_bytes().get(at) == Some(&byte)).then_some(at + 1)
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')
}

/// A call to search for.
#[derive(Debug)]
pub(super) struct Needle {
    pub(super) name: String,
    args: Node,
    /// The length of the plain arguments as they were written, bytes.
    length: usize,
    /// The plain text of the call as written, and the offset of the name in it.
    written: Option<(String, usize)>,
}

impl Needle {
    /// Makes a needle; `args` is the JSON text of an object, `written` that of the whole call.
    pub(super) fn new(name: &str, args: &str, written: &str) -> Needle {
        let (name, flat, written) = (plain(name), plain(args), plain(written));
        let value = serde_json::from_str(args)
            .ok()
            .filter(|value| is_comparable(value, MAX_DEPTH));
        let member = format!("{NAME}{name}");
        let at = written.find(&member).map(|at| at + NAME.len());
        Needle {
            name,
            length: flat.len(),
            args: value.map_or_else(|| Node::Text(flat), |value| Node::of(&value)),
            written: at.map(|at| (written, at)),
        }
    }

    /// Returns whether `text` has the call at `site`.
    pub(super) fn stands_at(&self, text: &str, site: &Site) -> bool {
        self.stands_as_written(text, site)
            || if self.has_no_args() {
                site.has_no_args(text)
            } else {
                let behind = |start: &usize| self.args.end(text, *start).is_some_and(|end| ends_member(text, end));
                let before = |end: &usize| {
                    let start = end.checked_sub(self.length);
                    start.is_some_and(|start| {
                        let value = start > 0 && text.as_bytes()[start - 1] == b':';
                        value && self.args.end(text, start) == Some(*end)
                    })
                };
                site.objects_behind.iter().any(behind) || site.objects_before.iter().any(before)
            }
    }

    /// Returns whether `object`, which has the same name, is this call.
    pub(super) fn is_in(&self, object: &Object) -> bool {
        if !self.has_no_args() {
            return object
                .args
                .iter()
                .any(|args| self.args.end(args, 0) == Some(args.len()));
        }
        let is_none = |args: &String| matches!(args.as_str(), "" | "{}" | "null" | "None");
        // The definition of a tool is not a call.
        !object.is_described && object.args.first().map_or(object.in_calls, is_none)
    }

    fn stands_as_written(&self, text: &str, site: &Site) -> bool {
        self.written.as_ref().is_some_and(|(written, name)| {
            let start = site.name.checked_sub(*name);
            let rest = start.and_then(|start| text.get(start..));
            rest.is_some_and(|rest| rest.starts_with(written.as_str()))
        })
    }

    fn has_no_args(&self) -> bool {
        matches!(&self.args, Node::Object(members) if members.is_empty())
    }
}

fn ends_member(text: &str, at: usize) -> bool {
    matches!(text.as_bytes().get(at), Some(b',' | b'}'))
}

/// Returns whether `value` is no deeper than `depth`, and no object in it too wide.
fn is_comparable(value: &Value, depth: usize) -> bool {
    depth > 0
        && match value {
            Value::Array(items) => items.iter().all(|item| is_comparable(item, depth - 1)),
            Value::Object(members) => {
                members.len() <= MAX_WIDTH && members.values().all(|value| is_comparable(value, depth - 1))
            }
            _ => true,
        }
}

/// The beginning of a name's member in plain text.
pub(super) const NAME: &str = "name:";
/// Bytes within which a call's arguments may begin or end, counted from its name, with the id and other members between.
const REACH: usize = 2_048;
/// A name in plain text, and the values around it in the same object.
#[derive(Debug)]
pub(super) struct Site {
    /// The offset at which the name begins.
    name: usize,
    /// The offsets at which object values behind the name begin.
    objects_behind: Vec<usize>,
    /// The offsets at which object values before the name end.
    objects_before: Vec<usize>,
    /// The range of the object, as far as the reach allows.
    from: usize,
    to: usize,
}

/// Returns whether the brace or bracket at `at` belongs to a string: nothing closes right behind a colon, and no comma follows
/// an opening one. JSON is also read as JSON, independently of this (`objects`).
fn is_of_string(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'}' | b']' => at > 0 && bytes[at - 1] == b':',
        b'{' | b'[' => bytes.get(at + 1) == Some(&b','),
        _ => false,
    }
}

impl Site {
    /// Makes the site of the name that begins at `name` and ends before `end`.
    pub(super) fn new(text: &str, name: usize, end: usize) -> Site {
        let mut site = Site {
            name,
            objects_behind: Vec::new(),
            objects_before: Vec::new(),
            from: 0,
            to: 0,
        };
        site.look_behind(text.as_bytes(), end);
        site.look_before(text.as_bytes());
        // The end of the reach may lie within a character.
        while !text.is_char_boundary(site.from) {
            site.from += 1;
        }
        while !text.is_char_boundary(site.to) {
            site.to -= 1;
        }
        site
    }

    /// The number of bytes looked at.
    pub(super) fn reach(&self) -> usize {
        self.to - self.from
    }

    /// Looks behind the name, to the end of its object or of the reach, for values that are objects.
    fn look_behind(&mut self, bytes: &[u8], end: usize) {
        let (mut depth, mut at) = (0_usize, end);
        while at < bytes.len().min(end + REACH) {
            match bytes[at] {
                _ if is_of_string(bytes, at) => {}
                b'{' | b'[' => {
                    if depth == 0 && bytes[at] == b'{' && bytes[at - 1] == b':' {
                        self.objects_behind.push(at);
                    }
                    depth += 1;
                }
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        self.to = at;
    }

    /// Looks before the name, to the beginning of its object or of the reach, for values that are objects.
    fn look_before(&mut self, bytes: &[u8]) {
        let (mut depth, mut at) = (0_usize, self.name);
        while at > self.name.saturating_sub(REACH) {
            match bytes[at - 1] {
                _ if is_of_string(bytes, at - 1) => {}
                b'}' | b']' => {
                    if depth == 0 && bytes[at - 1] == b'}' && bytes[at] == b',' {
                        self.objects_before.push(at);
                    }
                    depth += 1;
                }
                b'{' | b'[' if depth == 0 => break,
                b'{' | b'[' => depth -= 1,
                _ => {}
            }
            at -= 1;
        }
        self.from = at;
    }

    /// Returns whether the object here is a call without arguments. The definition of a tool is not one.
    fn has_no_args(&self, text: &str) -> bool {
        let object = &text[self.from..self.to];
        if object.contains("description:") {
            return false;
        }
        let mut values = ARGS
            .iter()
            .flat_map(|key| object.match_indices(key).map(|(at, key)| at + key.len()));
        match values.next() {
            Some(at) => {
                let value = &object[at..];
                value.is_empty() || ["{}", ",", "null", "None"].iter().any(|none| value.starts_with(none))
            }
            // Without such a member it counts only in a list of calls.
            None => {
                let list = from_char(&text[..self.from], self.from.saturating_sub(REACH));
                list.ends_with("tool_calls:[{") || (list.ends_with("},{") && list.contains("tool_calls:["))
            }
        }
    }
}
