//! What of an arriving answer is held back where only the calls at its end count.
//!
//! In: pieces of text. Out: the text up to where an object of calls may begin, its opening fence and the white space before
//! it included. Once one has begun, the rest is held back to the end: only there is it known whether anything follows it. An
//! object of JSON that begins with another key is held back until it has ended without the one of calls.

use std::sync::Arc;

use super::calls::Calls;
use super::object::{Scan, ScanStep};
use super::tail::{self, KEY, MAX_INFO, Rules};
use crate::prompt::{is_js_space, scan};

/// How far a text has got in beginning an object of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Not at all.
    Text,
    /// In a run of this many fence characters.
    Fence(char, usize),
    /// Behind an opening fence, on its line; so many further bytes may be.
    Info(usize),
    /// Between that line and a brace.
    Lead,
    /// Behind a brace.
    Brace,
    /// In the key, so many bytes of which were seen.
    Key(usize),
    Begun,
}

/// Holds back what may be calls.
#[derive(Debug)]
pub(super) struct Hold {
    rules: Arc<dyn Rules>,
    /// What was not let through.
    pending: String,
    /// How much of it was looked at.
    seen: usize,
    at: At,
    /// Where in `pending` that which may be calls begins.
    start: usize,
    /// Where the white space behind the last other character begins.
    space: usize,
    /// The object that is looked through.
    object: Option<Object>,
}

/// An object of JSON that may turn out to be one of calls.
#[derive(Debug)]
struct Object {
    /// Where in `pending` it begins, with its opening fence and the white space before that.
    start: usize,
    /// How much of `pending` was looked at.
    seen: usize,
    scan: Scan,
}

impl Hold {
    pub(super) fn new(rules: Arc<dyn Rules>) -> Hold {
        Hold {
            rules,
            pending: String::new(),
            seen: 0,
            at: At::Text,
            start: 0,
            space: 0,
            object: None,
        }
    }

    /// Takes the next piece and gives what may be shown; possibly nothing.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        self.look();
        let held = match self.at {
            At::Text => self.space,
            _ => self.start,
        };
        let held = self.object.as_ref().map_or(held, |object| held.min(object.start));
        if held == 0 {
            return String::new();
        }
        let shown = self.pending[..held].to_owned();
        self.pending.drain(..held);
        self.seen -= held;
        self.space = self.space.saturating_sub(held);
        self.start = self.start.saturating_sub(held);
        if let Some(object) = &mut self.object {
            object.start -= held;
            object.seen -= held;
        }
        shown
    }

    /// Nothing follows: the rest of the text, and the calls.
    pub(super) fn finish(mut self) -> (String, Calls) {
        if self.at != At::Begun {
            return (self.pending, Calls::default());
        }
        let (kept, calls) = tail::read(&*self.rules, &self.pending);
        self.pending.truncate(kept);
        (self.pending, calls)
    }

    fn look(&mut self) {
        while self.at != At::Begun {
            if self.at == At::Text {
                self.skip();
            }
            let Some(c) = self.pending[self.seen..].chars().next() else {
                break;
            };
            if self.at == At::Brace && c == '"' {
                self.begin_object();
                if self.at == At::Begun {
                    break;
                }
            }
            self.at = self.next(c);
            self.seen += c.len_utf8();
            if !is_js_space(c) {
                self.space = self.seen;
            }
        }
        self.look_through(self.seen);
        if self.at == At::Begun {
            // What has begun in another object may be that one's.
            self.start = self
                .object
                .take()
                .map_or(self.start, |object| object.start.min(self.start));
            // Only the end of the answer says more.
            self.seen = self.pending.len();
        }
    }

    /// An object begins with the quote that comes next, unless that stands in one that goes on.
    fn begin_object(&mut self) {
        self.look_through(self.seen);
        if self.object.is_none() {
            self.object = Some(Object {
                start: self.start,
                seen: self.seen,
                scan: Scan::object(),
            });
        }
    }

    /// Looks through the object that has begun, up to `end`.
    fn look_through(&mut self, end: usize) {
        let Some(object) = &mut self.object else { return };
        let step = object
            .scan
            .strict(&self.pending.as_bytes()[..end], &mut object.seen, &mut false);
        if object.scan.looks_like_cut_calls() {
            self.at = At::Begun;
        } else if step != ScanStep::More {
            self.object = None;
        }
    }

    /// Goes to the next character that may begin something.
    fn skip(&mut self) {
        let rest = &self.pending[self.seen..];
        let length = scan::first(rest.as_bytes(), |byte| (byte == b'`') | (byte == b'~') | (byte == b'{'));
        let solid = rest[..length].trim_end_matches(is_js_space).len();
        if solid > 0 {
            self.space = self.seen + solid;
        }
        self.seen += length;
    }

    fn next(&mut self, c: char) -> At {
        let fence = matches!(c, '`' | '~');
        match self.at {
            At::Fence(char, length) if c == char => At::Fence(char, length + 1),
            At::Fence(_, length) if length >= 3 && !fence => match c {
                '{' => At::Brace,
                '\n' => At::Lead,
                _ => At::Info(MAX_INFO),
            },
            At::Info(_) | At::Lead if c == '{' => At::Brace,
            At::Info(_) if c == '\n' => At::Lead,
            At::Info(left) if !fence && left >= c.len_utf8() => At::Info(left - c.len_utf8()),
            At::Lead if is_js_space(c) => At::Lead,
            At::Brace if matches!(c, ' ' | '\t' | '\r' | '\n') => At::Brace,
            At::Brace if c == '"' => At::Key(1),
            At::Key(seen) if KEY[seen..].starts_with(c) => match seen + 1 {
                seen if seen == KEY.len() => At::Begun,
                seen => At::Key(seen),
            },
            _ if fence || c == '{' => {
                self.start = self.space;
                if fence { At::Fence(c, 1) } else { At::Brace }
            }
            _ => At::Text,
        }
    }
}
