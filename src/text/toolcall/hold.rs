//! Holds back the part of an arriving answer that may be calls, where only the calls at its end count.
//!
//! In: pieces of text. Out: the text up to the place where an object of calls may begin, or its opening fence and the white
//! space before that. Once one has begun, the rest is held back to the end: only there is it known whether anything follows it.
//! A JSON object that begins with another key is held back until it has ended without the key of calls.

use std::sync::Arc;

use super::Calls;
use super::object::{Scan, ScanStep};
use super::tail::{self, KEY, MAX_INFO, Rules};
use crate::prompt::{is_js_space, scan};

/// The progress of the text towards the beginning of an object of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing has begun.
    Text,
    /// In a run of this many fence characters.
    Fence(char, usize),
    /// Behind an opening fence, on its line; this many more bytes are allowed.
    Info(usize),
    /// Between the fence's line and a brace.
    Lead,
    /// Behind a brace.
    Brace,
    /// In the key, of which this many bytes were seen.
    Key(usize),
    Begun,
}

/// A filter that holds back text which may be calls.
#[derive(Debug)]
pub(super) struct Hold {
    rules: Arc<dyn Rules>,
    /// The text that was not let through.
    pending: String,
    /// The bytes of `pending` that were looked at.
    seen: usize,
    at: At,
    /// The offset in `pending` at which the possible calls begin.
    start: usize,
    /// The offset of the white space behind the last other character.
    space: usize,
    /// The object that is being scanned.
    object: Option<HeldObject>,
}

/// A JSON object that may turn out to be one of calls.
#[derive(Debug)]
struct HeldObject {
    /// The offset in `pending` at which it begins, with its opening fence and the white space before that.
    start: usize,
    /// The bytes of `pending` that were looked at.
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

    /// Takes the next piece and returns the text that may be shown, possibly none.
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

    /// Ends the answer; returns the rest of the text, and the calls.
    pub(super) fn finish(mut self) -> (String, Calls) {
        if self.at != At::Begun {
            return (self.pending, Calls::default());
        }
        let (kept, calls) = tail::read(&*self.rules, &self.pending);
        self.pending.truncate(kept);
        (self.pending, calls)
    }

    /// Looks at the new text. Once an object of calls has begun, all text from there on is held back.
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
            // A beginning inside another object may belong to that object.
            self.start = self
                .object
                .take()
                .map_or(self.start, |object| object.start.min(self.start));
            // Only the end of the answer tells more.
            self.seen = self.pending.len();
        }
    }

    /// Begins an object at the next quote, unless that stands in an object that is still open.
    fn begin_object(&mut self) {
        self.look_through(self.seen);
        if self.object.is_none() {
            self.object = Some(HeldObject {
                start: self.start,
                seen: self.seen,
                scan: Scan::object(),
            });
        }
    }

    /// Scans the current object up to `end`.
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

    /// Moves to the next character that may begin something.
    fn skip(&mut self) {
        let rest = &self.pending[self.seen..];
        let length = scan::first(rest.as_bytes(), |byte| (byte == b'`') | (byte == b'~') | (byte == b'{'));
        let solid = rest[..length].trim_end_matches(is_js_space).len();
        if solid > 0 {
            self.space = self.seen + solid;
        }
        self.seen += length;
    }

    /// The state after the character `c`.
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
