//! Finds the end of a JSON value, and whether it looks like tool calls, while it is still arriving.
//!
//! In: bytes, in pieces of any size. Out: "goes on", "has ended" or "is not JSON from here on". There is no recursion, and no
//! byte is looked at twice. Escapes, numbers and literals are checked only roughly: serde_json reads a value afterwards if it
//! ends well.

use super::input::mark_line;
use crate::prompt::scan;

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
    scan::first(bytes, |byte| (byte == b'"') | (byte == b'\\') | (byte < 0x20))
}

fn is_the_key(written: &[u8]) -> bool {
    if !written.contains(&b'\\') {
        return written == KEY.as_bytes();
    }
    let quoted = [b"\"", written, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|key| key == KEY)
}
