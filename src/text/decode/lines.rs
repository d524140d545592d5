//! Splits bytes into lines, before UTF-8 decoding, keeps the ends of a line that is too long, and removes the control sequences of
//! terminals.
//!
//! In: a process's standard output, in the pieces that the pipe delivers. Out: [`Line`]s, one callback each, in order. A line
//! that lies whole inside one piece is borrowed, not copied. One that spans pieces is gathered once, and no byte is looked at
//! twice, so a line of 64 MiB in 8 KiB pieces costs as much as its bytes.
//!
//! `\n`, `\r\n` and a lone `\r` (progress bars) end a line: JSON has none of them inside a token. Blank lines are
//! skipped but counted; a byte order mark at the very start is dropped; invalid UTF-8 becomes U+FFFD.
//!
//! Of a JSON text that is too long to keep, [`Cut`] has the two ends. In: the pieces of the text ([`Cut::push`]). Out: members of its outer
//! objects ([`Cut::member`]). Text of a model can't be taken for such a member: it stands in a string, or deeper. From the end that is as
//! certain as from the beginning, since every quotation mark inside a string is escaped.
//!
//! What a terminal would have obeyed instead of shown is removed from a text ([`strip_ansi`]): control sequences (CSI), commands that run
//! to a terminator (OSC with its titles and hyperlinks, DCS, SOS, PM, APC), character set selection and the two-character escapes, in
//! their 7-bit (`ESC [`) and 8-bit (U+009B) forms (ECMA-48). Everything else stays, byte for byte. This covers more than
//! CLI-ADAPTER-PROTOCOL's pattern, which leaves the text of an OSC title standing. JSON writes an escape as `\u001b`: strip the decoded
//! strings, not the JSON.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;

use dfp_model::event::Event;

/// The length of the longest line that is kept, bytes: 64 MiB, four times the longest answer a model can give, base64 images
/// included.
pub const MAX_LINE: usize = 64 << 20;

/// A gathering buffer larger than this is freed once its line was delivered, bytes.
const KEPT_CAPACITY: usize = 1 << 20;

/// One line of the output, as [`Lines`] delivers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its end.
    Text {
        /// The line's number, from 1.
        number: u64,
        /// The text; never blank.
        text: Cow<'a, str>,
        /// `false` for the text after the last line end, which may be whole or cut short.
        terminated: bool,
    },
    /// A line longer than the limit. Its text was dropped while it came.
    TooLong {
        /// The line's number, from 1.
        number: u64,
        /// The kept beginning and end of the line.
        cut: Cut,
    },
}

/// A splitter. Feed it with [`push`](Lines::push), end it with [`finish`](Lines::finish).
#[derive(Debug)]
pub struct Lines {
    /// The start of a line whose end has not come yet.
    pending: Vec<u8>,
    /// The kept ends of the current line, if it is over the limit.
    cut: Option<Cut>,
    limit: usize,
    /// The number of lines ended so far.
    ended: u64,
    ends: LineEnds,
}

/// A splitter of pieces at the ends of lines, which are `\n`, `\r\n` and `\r`, also where a piece ends within `\r\n`.
#[derive(Debug, Default)]
pub struct LineEnds {
    /// True if the last byte was `\r`: a `\n` that follows belongs to it.
    after_cr: bool,
}

impl LineEnds {
    /// Takes the first line or part of a line off `bytes`; `true` stands with one that has ended here.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<(&'a [u8], bool)> {
        let first = *bytes.first()?;
        if std::mem::take(&mut self.after_cr) && first == b'\n' {
            *bytes = &bytes[1..];
        }
        if bytes.is_empty() {
            return None;
        }
        let Some(end) = memchr2(b'\n', b'\r', bytes) else {
            return Some((std::mem::take(bytes), false));
        };
        self.after_cr = bytes[end] == b'\r';
        let line = &bytes[..end];
        *bytes = &bytes[end + 1..];
        Some((line, true))
    }
}

impl Default for Lines {
    fn default() -> Self {
        Lines::with_limit(MAX_LINE)
    }
}

impl Lines {
    /// Makes a splitter that drops lines longer than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Lines {
            pending: Vec::new(),
            cut: None,
            limit,
            ended: 0,
            ends: LineEnds::default(),
        }
    }

    /// Takes the next piece of output and hands every line that is now complete to `each`.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some((line, has_ended)) = self.ends.next(&mut bytes) {
            match has_ended {
                true => self.end_line(line, true, &mut each),
                false => self.gather(line),
            }
        }
    }

    /// The number of bytes that have come of the unfinished line.
    pub fn unfinished(&self) -> u64 {
        self.pending.len() as u64 + self.cut.as_ref().map_or(0, Cut::bytes)
    }

    /// Delivers the text after the last line end, marked as not terminated.
    pub fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        if !self.pending.is_empty() || self.cut.is_some() {
            self.end_line(&[], false, &mut each);
        }
    }

    fn gather(&mut self, bytes: &[u8]) {
        if self.cut.is_none() && self.pending.len() + bytes.len() <= self.limit {
            self.pending.extend_from_slice(bytes);
        } else {
            let cut = self.cut.get_or_insert_default();
            cut.push(&std::mem::take(&mut self.pending));
            cut.push(bytes);
        }
    }

    fn end_line(&mut self, rest: &[u8], terminated: bool, each: &mut impl FnMut(Line<'_>)) {
        self.ended += 1;
        let number = self.ended;
        let whole = self.pending.is_empty() && self.cut.is_none() && rest.len() <= self.limit;
        if !whole {
            self.gather(rest);
        }
        if let Some(cut) = self.cut.take() {
            return each(Line::TooLong { number, cut });
        }
        let gathered = std::mem::take(&mut self.pending);
        deliver(if whole { rest } else { &gathered }, number, terminated, each);
        if gathered.capacity() <= KEPT_CAPACITY {
            self.pending = gathered;
            self.pending.clear();
        }
    }
}

fn deliver(bytes: &[u8], number: u64, terminated: bool, each: &mut impl FnMut(Line<'_>)) {
    let bytes = match number {
        1 => bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes),
        _ => bytes,
    };
    if !bytes.trim_ascii().is_empty() {
        each(Line::Text {
            number,
            // This is several times faster than the lossy conversion, which only invalid bytes need.
            text: match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => String::from_utf8_lossy(bytes),
            },
            terminated,
        });
    }
}

/// Shows the name alone: the addon need not hold the code that shows every implementor.
impl fmt::Debug for dyn LineObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineObserver")
    }
}

/// An observer of the lines of one output, beside its events (`Decoder::set_observer`): for readers that need what no event has (a
/// line's own time, the subagent that printed it) and must not decode the output a second time. It is called while the output is
/// decoded, so it must not wait.
pub trait LineObserver: Send + Sync {
    /// Takes the next line, and the events that came with it; some of them may be about earlier lines.
    fn line(&self, line: &Line<'_>, events: &[Event]);

    /// Takes the end of the output; `events` belong to no line. `plain_text` and `diagnostics` are the decoder's, about the
    /// whole output.
    fn end(&self, events: &[Event], plain_text: Option<String>, diagnostics: &[String]);
}

/// Bytes kept of the beginning, and of the end.
const KEPT: usize = 4 << 10;

/// Both ends of a text, and its length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    bytes: u64,
    head: Vec<u8>,
    /// The end of the text: up to twice as many bytes as are kept, since older ones are dropped only now and then.
    tail: Vec<u8>,
}

impl Cut {
    /// Adds the next part of the text.
    pub fn push(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        let missing = KEPT.saturating_sub(self.head.len());
        self.head.extend_from_slice(&part[..part.len().min(missing)]);
        self.tail.extend_from_slice(&part[part.len().saturating_sub(KEPT)..]);
        if self.tail.len() > 2 * KEPT {
            self.tail.drain(..self.tail.len() - KEPT);
        }
    }

    /// The length of the whole text, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The member `name`, a string or a number, of the object at `path`, as JSON.
    pub fn member(&self, path: &[&str], name: &str) -> Option<&str> {
        let (found, is_cut_inside) = from_start(&self.head, path, name);
        let found = found.or_else(|| is_cut_inside.then(|| from_end(&self.tail, path, name)).flatten());
        std::str::from_utf8(found?).ok()
    }

    /// The member `name` of the object at `path`, if it is a string, decoded.
    pub fn text(&self, path: &[&str], name: &str) -> Option<String> {
        serde_json::from_str(self.member(path, name)?).ok()
    }
}

/// Finds the member in the beginning of a text; also returns whether the beginning ends inside the object at `path`.
fn from_start<'a>(head: &'a [u8], path: &[&str], name: &str) -> (Option<&'a [u8]>, bool) {
    // For each open object or array: the name whose value comes next.
    let mut open: Vec<Option<String>> = Vec::new();
    let is_at = |open: &[Option<String>]| {
        let names = open.iter().zip(path).all(|(open, name)| open.as_deref() == Some(*name));
        names && open.len() > path.len()
    };
    let mut rest = head;
    while let Some(first) = rest.first() {
        let length = match first {
            b'"' => string_length(rest),
            byte if is_mark(*byte) => Some(1),
            _ => rest.iter().position(|byte| is_mark(*byte)),
        };
        // The text is cut off here.
        let Some(length) = length else { break };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        match first {
            b'{' | b'[' => open.push(None),
            b'}' | b']' => drop(open.pop()),
            b',' => {
                if let Some(last) = open.last_mut() {
                    *last = None;
                }
            }
            byte if is_mark(*byte) => {}
            _ => match open.last() {
                Some(Some(last)) if last == name && open.len() == path.len() + 1 && is_at(&open) => {
                    return (Some(token), true);
                }
                Some(None) => {
                    open.pop();
                    open.push(text(token));
                }
                _ => {}
            },
        }
    }
    (None, is_at(&open))
}

/// Finds the member in the end of a text whose cut is inside the object at `path`.
fn from_end<'a>(tail: &'a [u8], path: &[&str], name: &str) -> Option<&'a [u8]> {
    let mut depth = 0_usize;
    let mut found = None;
    // A value whose name has not come yet, and the depth of an object whose name has not come yet.
    let (mut value, mut object) = (None, None);
    let mut is_name = false;
    let mut rest = tail;
    while let Some(last) = rest.last() {
        let start = match last {
            b'"' => string_start(rest),
            byte if is_mark(*byte) => Some(rest.len() - 1),
            _ => rest.iter().rposition(|byte| is_mark(*byte)).map(|at| at + 1),
        };
        // The text is cut off here.
        let Some(start) = start else { break };
        let (before, token) = rest.split_at(start);
        rest = before;
        match last {
            b'}' | b']' => {
                depth += 1;
                (value, object, is_name) = (None, None, false);
            }
            b'{' | b'[' => {
                (value, object, is_name) = (None, Some(depth), false);
                // The beginning of the kept text is reached.
                depth = depth.checked_sub(1)?;
            }
            b',' => (value, object, is_name) = (None, None, false),
            b':' => is_name = true,
            byte if is_mark(*byte) => {}
            _ if !is_name => value = Some(token),
            _ => {
                is_name = false;
                let own = text(token)?;
                match object.take() {
                    // The member found stands in another object.
                    Some(level) if level >= 2 && level - 2 < path.len() && own != path[level - 2] => found = None,
                    Some(_) => {}
                    None if depth == path.len() + 1 && own == name => found = found.or(value),
                    None => {}
                }
                value = None;
            }
        }
    }
    found
}

fn is_mark(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':') || byte.is_ascii_whitespace()
}

/// The length of the string that `rest` begins with, its quotation marks included.
fn string_length(rest: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    let end = rest.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })?;
    Some(end + 2)
}

/// The start of the string that `rest` ends with: the quotation mark with an even number of backslashes before it; all others
/// have an odd number.
fn string_start(rest: &[u8]) -> Option<usize> {
    let mut end = rest.len() - 1;
    loop {
        let at = rest[..end].iter().rposition(|byte| *byte == b'"')?;
        let others = rest[..at].iter().rposition(|byte| *byte != b'\\');
        // If the backslashes are cut off, their number is unknown.
        let backslashes = match others {
            Some(other) => at - other - 1,
            None if at == 0 => 0,
            None => return None,
        };
        if backslashes % 2 == 0 {
            return Some(at);
        }
        end = at;
    }
}

fn text(token: &[u8]) -> Option<String> {
    serde_json::from_slice(token).ok()
}

// Control sequences of terminals.

const ESC: u8 = 0x1B;

/// Returns `text` without control sequences; borrowed when there are none. A sequence that the text ends in the middle of is
/// dropped.
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    Stripper::default().strip(text)
}

/// Does the same as [`strip_ansi`] for text that may be owned: it is returned unchanged when there is nothing to remove.
pub(super) fn strip_owned(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => strip_ansi(text),
        Cow::Owned(text) => match strip_ansi(&text) {
            Cow::Borrowed(plain) if plain.len() == text.len() => Cow::Owned(text),
            plain => Cow::Owned(plain.into_owned()),
        },
    }
}

/// A [`strip_ansi`] for text that comes in pieces: the stripped pieces, joined, equal the stripped whole.
#[derive(Debug, Clone, Default)]
pub struct Stripper {
    state: AnsiState,
}

/// The position within a control sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum AnsiState {
    /// Ordinary text.
    #[default]
    Text,
    /// After ESC, or after the intermediate bytes (`ESC (`) that may follow it.
    Escape,
    /// Within a control sequence (CSI), before its final byte.
    Csi,
    /// Within a command that BEL may end as well (OSC).
    Osc,
    /// Within a command that only ST ends: DCS, SOS, PM, APC.
    Command,
}

impl AnsiState {
    /// The state that the character with the 8-bit control code `code` leads to, if it begins a sequence.
    fn introduced_by(code: u8) -> Option<AnsiState> {
        match code {
            0x9B => Some(AnsiState::Csi),
            0x9D => Some(AnsiState::Osc),
            0x90 | 0x98 | 0x9E | 0x9F => Some(AnsiState::Command),
            _ => None,
        }
    }
}

impl Stripper {
    /// Returns the next piece without control sequences.
    pub fn strip<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let (plain, mut rest) = match self.state {
            AnsiState::Text => text.split_at(plain_len(text)),
            _ => ("", text),
        };
        if rest.is_empty() {
            return Cow::Borrowed(plain);
        }
        let mut kept = String::with_capacity(text.len());
        kept.push_str(plain);
        while !rest.is_empty() {
            if self.state == AnsiState::Text {
                let (plain, tail) = rest.split_at(plain_len(rest));
                kept.push_str(plain);
                rest = tail;
            }
            let mut chars = rest.chars();
            if let Some(next) = chars.next() {
                if self.step(next) {
                    kept.push(next);
                }
                rest = chars.as_str();
            }
        }
        Cow::Owned(kept)
    }

    /// Does the same as [`strip`](Self::strip) for an owned piece: it is returned unchanged when there is nothing to remove.
    pub fn strip_piece(&mut self, text: String) -> String {
        let plain = match self.strip(&text) {
            Cow::Borrowed(plain) if plain.len() == text.len() => None,
            plain => Some(plain.into_owned()),
        };
        plain.unwrap_or(text)
    }

    /// Advances over one character; returns `true` if it is text to keep.
    fn step(&mut self, next: char) -> bool {
        let in_command = matches!(self.state, AnsiState::Osc | AnsiState::Command);
        let introduced = u8::try_from(next).ok().and_then(AnsiState::introduced_by);
        if let Some(state) = introduced.filter(|_| !in_command) {
            self.state = state;
            return false;
        }
        let (state, keep) = match (self.state, next) {
            (_, '\x1B') => (AnsiState::Escape, false),
            // CAN and SUB abandon a sequence; in plain text they are characters like any other.
            (state, '\x18' | '\x1A') => (AnsiState::Text, state == AnsiState::Text),
            (AnsiState::Osc, '\x07' | '\u{9C}') | (AnsiState::Command, '\u{9C}') => (AnsiState::Text, false),
            (state @ (AnsiState::Osc | AnsiState::Command), _) => (state, false),
            (AnsiState::Text, _) => (AnsiState::Text, true),
            // A terminal obeys the controls inside a sequence (a line feed feeds a line) and then goes on with it.
            (state, '\0'..='\x1F') => (state, true),
            (state, '\x7F') => (state, false),
            (AnsiState::Escape, '[') => (AnsiState::Csi, false),
            (AnsiState::Escape, ']') => (AnsiState::Osc, false),
            (AnsiState::Escape, 'P' | 'X' | '^' | '_') => (AnsiState::Command, false),
            (state @ (AnsiState::Escape | AnsiState::Csi), ' '..='/') => (state, false),
            (state @ AnsiState::Csi, '0'..='?') => (state, false),
            (_, ' '..='~') => (AnsiState::Text, false),
            // No sequence contains characters beyond ASCII: this was never one, and its text is kept.
            _ => (AnsiState::Text, true),
        };
        self.state = state;
        keep
    }
}

/// The number of bytes at the start of `text` before the first introducer of a sequence.
fn plain_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut from = 0;
    // U+0080 to U+009F are C2 80 to C2 9F in UTF-8.
    while let Some(at) = memchr2(ESC, 0xC2, &bytes[from..]).map(|at| from + at) {
        let code = bytes.get(at + 1).copied().unwrap_or_default();
        if bytes[at] == ESC || AnsiState::introduced_by(code).is_some() {
            return at;
        }
        from = at + 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn split(pieces: &[&[u8]], limit: usize) -> Vec<Line<'static>> {
        let mut lines = Lines::with_limit(limit);
        let mut seen = Vec::new();
        let mut keep = |line: Line<'_>| {
            seen.push(match line {
                Line::Text {
                    number,
                    text,
                    terminated,
                } => text_line(number, &text, terminated),
                Line::TooLong { number, cut } => Line::TooLong { number, cut },
            })
        };
        for piece in pieces {
            lines.push(piece, &mut keep);
        }
        lines.finish(&mut keep);
        seen
    }

    fn text_line(number: u64, text: &str, terminated: bool) -> Line<'static> {
        Line::Text {
            number,
            text: Cow::Owned(text.to_owned()),
            terminated,
        }
    }

    fn too_long(number: u64, whole: &[u8]) -> Line<'static> {
        let mut cut = Cut::default();
        cut.push(whole);
        Line::TooLong { number, cut }
    }

    #[test]
    fn every_line_end_and_blank_lines() {
        assert_eq!(
            split(&[b"a\r\n\r\n \t\nb\rc\n\nd"], 99),
            [
                text_line(1, "a", true),
                text_line(4, "b", true),
                text_line(5, "c", true),
                text_line(7, "d", false)
            ]
        );
        assert_eq!(
            split(&[b"a\r", b"\nb\n", b"\r\n"], 99),
            [text_line(1, "a", true), text_line(2, "b", true)]
        );
        assert_eq!(split(&[b"", b"\n"], 99), []);
    }

    #[test]
    fn byte_order_mark_only_at_the_start() {
        assert_eq!(
            split(&[b"\xEF", b"\xBB\xBFa\n\xEF\xBB\xBFb\n"], 99),
            [text_line(1, "a", true), text_line(2, "\u{FEFF}b", true)]
        );
        assert_eq!(split(&[b"\xEF\xBB\xBF\n{}\n"], 99), [text_line(2, "{}", true)]);
    }

    #[test]
    fn split_and_invalid_utf8() {
        assert_eq!(
            split(&[b"\xF0\x9F", b"\xA6\x80\xFF\n\xF0\x9F\n"], 99),
            [text_line(1, "🦀\u{FFFD}", true), text_line(2, "\u{FFFD}", true)]
        );
    }

    #[test]
    fn a_line_inside_one_piece_is_lent() {
        let bytes = b"first\nsecond\nth".to_vec();
        let range = bytes.as_ptr_range();
        let mut borrowed = 0;
        Lines::default().push(&bytes, |line| match line {
            Line::Text {
                text: Cow::Borrowed(text),
                ..
            } if range.contains(&text.as_ptr()) => borrowed += 1,
            other => panic!("copied: {other:?}"),
        });
        assert_eq!(borrowed, 2);
    }

    #[test]
    fn a_line_over_the_limit_is_named_and_the_next_one_is_whole() {
        for pieces in [
            &[&b"12345\nok\n123456"[..]][..],
            &[b"12", b"34", b"5\nok", b"\n12345", b"6"],
        ] {
            assert_eq!(
                split(pieces, 4),
                [too_long(1, b"12345"), text_line(2, "ok", true), too_long(3, b"123456")]
            );
        }
        assert_eq!(split(&[b"1234\n"], 4), [text_line(1, "1234", true)]);
    }

    #[test]
    fn sixty_four_mebibytes_in_pipe_sized_pieces() {
        let piece = [b'x'; 8192];
        let mut lines = Lines::default();
        let mut lengths = Vec::new();
        let mut keep = |line: Line<'_>| match line {
            Line::Text { text, .. } => lengths.push(text.len()),
            Line::TooLong { .. } => lengths.push(0),
        };
        for _ in 0..MAX_LINE / piece.len() {
            lines.push(&piece, &mut keep);
        }
        lines.push(b"\nnext\n", &mut keep);
        assert!(lines.pending.capacity() <= KEPT_CAPACITY);
        assert_eq!(lengths, [MAX_LINE, 4]);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), Just(0xEF), any::<u8>()], 0..60),
            size in 1usize..7,
            limit in 1usize..20,
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(split(&pieces, limit), split(&[&bytes], limit));
        }
    }

    fn cut(head: &str, tail: &str) -> Cut {
        Cut {
            bytes: 1 << 30,
            head: head.into(),
            tail: tail.into(),
        }
    }

    /// Reads the number of an answer, and the method and the session of a message.
    fn read(cut: &Cut) -> (Option<&str>, Option<String>, Option<String>) {
        (
            cut.member(&[], "id"),
            cut.text(&[], "method"),
            cut.text(&["params"], "threadId"),
        )
    }

    fn of<'a>(id: &'a str, method: &str, session: &str) -> (Option<&'a str>, Option<String>, Option<String>) {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (Some(id).filter(|id| !id.is_empty()), text(method), text(session))
    }

    #[test]
    fn a_message_is_known_by_its_first_bytes() {
        for (line, expected) in [
            (
                r#"{"method":"rawResponseItem/completed","params":{"threadId":"t-1","turnId":"u","item":{"text":"aaa"#,
                of("", "rawResponseItem/completed", "t-1"),
            ),
            (r#"{"jsonrpc": "2.0", "id": 17, "result": {"a": ["#, of("17", "", "")),
            (
                r#"{"method":"item/tool/call","id":0,"params":{"threadId":"t","arguments":{"#,
                of("0", "item/tool/call", "t"),
            ),
            // Members that are cut off are unknown.
            (
                r#"{"method":"turn/completed","params":{"threadId":"t-"#,
                of("", "turn/completed", ""),
            ),
            (r#"{"id":1"#, of("", "", "")),
            ("", of("", "", "")),
        ] {
            assert_eq!(read(&cut(line, "")), expected, "{line}");
        }
    }

    /// codex 0.169.0 prints a tool's call, and an error, in this order: the long part comes first.
    #[test]
    fn what_stands_behind_it_is_known_by_the_last_bytes() {
        let head = r#"{"method":"item/started","params":{"item":{"type":"dynamicToolCall","arguments":{"a":"xx"#;
        for (tail, session) in [
            (
                r#"xx","b":"\\"},"status":"inProgress"},"threadId":"t","turnId":"u","startedAtMs":17},"emittedAtMs":17}"#,
                "t",
            ),
            (r#"\"x"}},"threadId":"t"}}"#, "t"),
            (r#"\\"}},"threadId" : "t\"\\" } } "#, "t\"\\"),
            (
                r#"x"}},"threadId":"t","more":{"threadId":"o"}},"of":{"threadId":"o"}}"#,
                "t",
            ),
            // These members belong to another object, or stand inside the long part.
            (r#"x"}},"turnId":"u"},"of":{"threadId":"o"}}"#, ""),
            (r#"x","threadId":"o"}},"turnId":"u"}}"#, ""),
            (r#"x,\"threadId\":\"o\""}},"turnId":"u"}}"#, ""),
            (r#"x"},"threadId":"o"},"turnId":"u"},"threadId":"o"}"#, ""),
            (r#"x"}},"threadId":["o"]}}"#, ""),
            // The text is cut off inside the name, inside the value, or before both.
            (r#"dId":"o"}}"#, ""),
            (r#""o"}}"#, ""),
            (r#"\"}}"#, ""),
            ("", ""),
        ] {
            assert_eq!(read(&cut(head, tail)), of("", "item/started", session), "{tail}");
        }
        // The owner of the last members is known if the beginning has not closed the object.
        let tail = r#"x"}},"threadId":"t"}}"#;
        for head in [
            r#"{"method":"x","other":{"a":"x"#,
            r#"{"method":"x","params":{},"other":{"#,
        ] {
            assert_eq!(read(&cut(head, tail)).2, None, "{head}");
        }
        let cut = cut(
            r#"{"payload":{"type":"x","properties":{"part":{"text":"x"#,
            r#"x"},"sessionID":"s"}}}"#,
        );
        assert_eq!(cut.text(&["payload", "properties"], "sessionID"), Some("s".to_owned()));
    }

    #[test]
    fn what_is_said_is_no_member() {
        for line in [
            r#"{"method":"x","params":{"delta":"\",\"threadId\":\"other\"","a":"#,
            r#"{"method":"x","params":{"item":{"threadId":"other"},"a":"#,
            r#"{"method":"x","params":["threadId","other",{"threadId":"other"}],"a":"#,
            r#"{"method":"x","other":{"threadId":"other"},"a":"#,
        ] {
            assert_eq!(read(&cut(line, "")), of("", "x", ""), "{line}");
        }
    }

    #[test]
    fn both_ends_are_kept() {
        let mut cut = Cut::default();
        for at in 0..100 {
            cut.push(&[at; 1000]);
        }
        assert_eq!((cut.bytes(), cut.head.len()), (100_000, KEPT));
        assert!((KEPT..=2 * KEPT).contains(&cut.tail.len()));
        assert_eq!((cut.head[0], cut.tail[cut.tail.len() - 1]), (0, 99));
    }

    proptest! {
        #[test]
        fn a_foreign_text_is_never_another_session(said in r#"[\\"a{}\[\],: ]{0,40}"#, at in 0_usize..60) {
            let item = json!({"text": said, "threadId": "other", "list": [said, {"threadId": "other"}]});
            let line = json!({"method": "x", "params": {"item": item, "threadId": "t", "turnId": "u"}, "at": 1}).to_string();
            let at = line.char_indices().map(|(at, _)| at).nth(at).unwrap_or(0);
            let found = cut(r#"{"method":"x","params":{"item":{"#, &line[at..]).text(&["params"], "threadId");
            prop_assert!(found.is_none() || found.as_deref() == Some("t"), "{found:?}");
        }
    }

    #[test]
    fn what_a_terminal_obeys_goes() {
        for (name, text, plain) in [
            ("colour", "\x1b[1;32mok\x1b[0m!", "ok!"),
            ("cursor and erase", "\x1b[2K\x1b[1Gdone", "done"),
            ("private modes", "\x1b[?25lx\x1b[?2004h", "x"),
            ("intermediate bytes", "\x1b[4 qx\x1b[!py", "xy"),
            ("8-bit CSI", "a\u{9b}31mb\u{9b}0mc", "abc"),
            ("title, BEL", "\x1b]0;a title\x07x", "x"),
            ("title, ST", "\x1b]0;a title\x1b\\x", "x"),
            ("title, 8-bit", "\u{9d}0;tïtle\u{9c}x", "x"),
            (
                "hyperlink",
                "see \x1b]8;id=1;https://a.b/c?d=e\x1b\\here\x1b]8;;\x1b\\.",
                "see here.",
            ),
            ("DCS keeps BEL inside", "\x1bPq\x07#0\x1b\\x", "x"),
            ("SOS, PM, APC", "\x1bXs\x1b\\a\x1b^p\x1b\\b\x1b_g\x1b\\c", "abc"),
            (
                "8-bit DCS, SOS, PM, APC",
                "\u{90}d\u{9c}\u{98}s\u{9c}\u{9e}p\u{9c}\u{9f}g\u{9c}x",
                "x",
            ),
            ("character set", "\x1b(Ba\x1b)0b\x1b%Gc", "abc"),
            ("two characters", "\x1b7a\x1b8b\x1bcc\x1b=d\x1bME", "abcdE"),
            ("ESC restarts", "\x1b[3\x1b[32mx\x1b]0;t\x1b[mx", "xx"),
            ("CAN and SUB abandon", "\x1b[31\x18m\x1b]0;t\x1ax", "mx"),
            ("controls inside a sequence are obeyed", "\x1b[3\n1mx", "\nx"),
            ("cut short", "x\x1b[38;5", "x"),
            ("cut short after ESC", "x\x1b", "x"),
            ("cut short in a title", "x\x1b]0;never ends", "x"),
            ("beyond ASCII ends it", "\x1b[31é\x1b中", "é中"),
        ] {
            assert_eq!(strip_ansi(text), plain, "{name}");
        }
    }

    #[test]
    fn ordinary_text_is_lent() {
        for text in [
            "",
            "a\tb\r\nc\x07\x08\x7f",
            "[31m ]0; (B",
            "naïve ©\u{a0}« 中文 🦀\u{85}\u{2028}\u{fffd}",
            "\x18\x1a\0",
        ] {
            assert!(
                matches!(strip_ansi(text), Cow::Borrowed(kept) if kept == text),
                "{text:?}"
            );
        }
    }

    fn tricky() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            Just("\x1b"),
            Just("["),
            Just("]"),
            Just("\\"),
            Just("\x07"),
            Just("\u{9b}"),
            Just("\u{9c}"),
            Just("\u{9d}"),
            Just("\u{90}"),
            Just("(B"),
            Just("31;1m"),
            Just("\n"),
            Just("é"),
            Just("\u{a0}"),
            Just("x"),
            Just("\x18"),
        ];
        prop::collection::vec(pieces, 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn idempotent_and_clean(text in tricky()) {
            let once = strip_ansi(&text).into_owned();
            prop_assert!(!once.contains(['\x1b', '\u{9b}', '\u{9d}', '\u{90}', '\u{98}', '\u{9e}', '\u{9f}']), "{:?}", once);
            prop_assert_eq!(strip_ansi(&once), once.as_str());
        }

        #[test]
        fn pieces_give_what_the_whole_gives(text in tricky(), at in any::<prop::sample::Index>()) {
            let cuts: Vec<usize> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
            let (a, b) = text.split_at(cuts[at.index(cuts.len())]);
            let mut stripper = Stripper::default();
            let joined = stripper.strip(a).into_owned() + &stripper.strip(b);
            prop_assert_eq!(joined, strip_ansi(&text));
        }

        #[test]
        fn text_without_introducers_is_untouched(text in "[^\u{1b}\u{90}\u{98}\u{9b}\u{9d}\u{9e}\u{9f}]*") {
            prop_assert!(matches!(strip_ansi(&text), Cow::Borrowed(kept) if kept == text));
        }
    }
}
