//! The text as it arrives, in three parts: looked at, held back, and left to show.
//!
//! In: pieces of text, and the scanner's decisions on what to hold back (`mark`) and what to take out. Out: bytes to look at,
//! one after the other, and the text that may be shown ([`Input::show`]).
//!
//! White space is shown only when text follows it. Next to a place where something was taken out, it is dropped if only such
//! places lie between it and the start or the end.

use crate::prompt::{is_js_space, scan};

#[derive(Debug)]
pub(super) struct Input {
    /// The text that was neither kept nor taken out yet.
    buffer: String,
    /// The offset of the next byte to look at.
    at: usize,
    /// The offset up to which the buffer was kept or taken out.
    done: usize,
    /// The offset from which the buffer is held back.
    mark: Option<usize>,
    /// True if only blanks precede the next byte on its line.
    blank: bool,
    /// The text that may be shown and was not fetched yet.
    text: String,
    /// True if there was anything to be shown before.
    shown: bool,
    /// The white space after `text`.
    space: String,
    /// True if something was taken out before, within or after `space`.
    touched: bool,
}

impl Input {
    pub(super) fn new() -> Self {
        Input {
            buffer: String::new(),
            at: 0,
            done: 0,
            mark: None,
            blank: true,
            text: String::new(),
            shown: false,
            space: String::new(),
            touched: false,
        }
    }

    pub(super) fn push(&mut self, piece: &str) {
        self.buffer.push_str(piece);
    }

    /// Keeps the text that was looked at and is not held back.
    pub(super) fn settle(&mut self) {
        self.keep_up_to(self.mark.unwrap_or(self.at));
        self.buffer.drain(..self.done);
        self.at -= self.done;
        self.mark = self.mark.map(|mark| mark - self.done);
        self.done = 0;
    }

    /// Returns the text that may be shown and was not shown before.
    pub(super) fn show(&mut self) -> String {
        self.shown |= !self.text.is_empty();
        std::mem::take(&mut self.text)
    }

    /// Does the same as [`show`](Input::show) without returning the text; returns whether there was any.
    pub(super) fn pass(&mut self) -> bool {
        let any = !self.text.is_empty();
        self.shown |= any;
        self.text.clear();
        any
    }

    /// Ends the text; returns the rest that may be shown.
    pub(super) fn finish(mut self) -> String {
        self.keep_up_to(self.buffer.len());
        if !self.touched {
            self.text.push_str(&self.space);
        }
        self.text
    }

    /// Returns the next byte.
    pub(super) fn peek(&self) -> Option<u8> {
        self.buffer.as_bytes().get(self.at).copied()
    }

    /// Returns whether only blanks precede the next byte on its line.
    pub(super) fn blank(&self) -> bool {
        self.blank
    }

    /// Advances past `byte`, which is the next.
    pub(super) fn take(&mut self, byte: u8) {
        mark_line(byte, &mut self.blank);
        self.at += 1;
    }

    /// Advances to the next byte for which `stops` is true, and returns it. See [`scan::first`].
    pub(super) fn skip_to(&mut self, stops: impl Fn(u8) -> bool) -> Option<u8> {
        let rest = &self.buffer.as_bytes()[self.at..];
        let length = scan::first(rest, stops);
        let decides = |byte: &&u8| !matches!(**byte, b' ' | b'\t' | b'\r');
        if let Some(byte) = rest[..length].iter().rev().find(decides) {
            self.blank = *byte == b'\n';
        }
        self.at += length;
        rest.get(length).copied()
    }

    /// The unread rest, for a reader that moves the position and updates `blank` itself.
    pub(super) fn parts(&mut self) -> (&[u8], &mut usize, &mut bool) {
        (self.buffer.as_bytes(), &mut self.at, &mut self.blank)
    }

    /// Holds back the text from here on. Text that is held back already stays so.
    pub(super) fn hold(&mut self) {
        self.mark.get_or_insert(self.at);
    }

    /// Keeps the held-back text as text.
    pub(super) fn release(&mut self) {
        self.mark = None;
    }

    /// Takes the held-back text out.
    pub(super) fn take_out(&mut self) {
        self.keep_up_to(self.mark.unwrap_or(self.at));
        self.done = self.at;
        self.mark = None;
        self.touched = true;
    }

    /// The distance of the next byte from the mark, bytes.
    pub(super) fn offset(&self) -> usize {
        self.at - self.mark.unwrap_or(self.at)
    }

    /// The text looked at since `offset` from the mark.
    pub(super) fn since(&self, offset: usize) -> &str {
        &self.buffer[self.mark.unwrap_or(self.at) + offset..self.at]
    }

    /// Goes `length` bytes back, to where `blank` had the given value. Only held-back text can be gone back over.
    pub(super) fn back(&mut self, length: usize, blank: bool) {
        self.at -= length;
        self.blank = blank;
    }

    fn keep_up_to(&mut self, end: usize) {
        let piece = &self.buffer[self.done..end];
        let solid = piece.trim_end_matches(is_js_space);
        if !solid.is_empty() {
            // `text` is never white space only, unless the whole text so far was.
            if self.touched && self.text.is_empty() && !self.shown {
                self.text.push_str(solid.trim_start_matches(is_js_space));
            } else {
                self.text.push_str(&self.space);
                self.text.push_str(solid);
            }
            self.space.clear();
            self.touched = false;
        }
        self.space.push_str(&piece[solid.len()..]);
        self.done = end;
    }
}

/// Updates `blank`, whether only blanks precede on the line, for the advance past `byte`.
pub(super) fn mark_line(byte: u8, blank: &mut bool) {
    match byte {
        b'\n' => *blank = true,
        b' ' | b'\t' | b'\r' => {}
        _ => *blank = false,
    }
}
