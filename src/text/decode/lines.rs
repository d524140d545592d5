//! Splits bytes into lines, before UTF-8 decoding.
//!
//! In: a process's standard output, in the pieces that the pipe delivers. Out: [`Line`]s, one callback each, in order. A line
//! that lies whole inside one piece is borrowed, not copied. One that spans pieces is gathered once, and no byte is looked at
//! twice, so a line of 64 MiB in 8 KiB pieces costs as much as its bytes.
//!
//! `\n`, `\r\n` and a lone `\r` (progress bars) end a line: JSON has none of them inside a token. Blank lines are
//! skipped but counted; a byte order mark at the very start is dropped; invalid UTF-8 becomes U+FFFD.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;

use super::cut::Cut;
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

/// An observer of the lines of one output, beside its events (`Decoder::set_observer`): for readers that need what no event has (a
/// line's own time, the subagent that printed it) and must not decode the output a second time. It is called while the output is
/// decoded, so it must not wait.
pub trait LineObserver: fmt::Debug + Send + Sync {
    /// Takes the next line, and the events that came with it; some of them may be about earlier lines.
    fn line(&self, line: &Line<'_>, events: &[Event]);

    /// Takes the end of the output; `events` belong to no line. `plain_text` and `diagnostics` are the decoder's, about the
    /// whole output.
    fn end(&self, events: &[Event], plain_text: Option<String>, diagnostics: &[String]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
}
