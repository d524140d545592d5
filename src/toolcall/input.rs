//! The text as it arrives: what was looked at, what is held back, what is left of it.
//!
//! In: pieces of text, and the scanner's word on what to hold back (`mark`) and what to take out. Out: bytes to look at, one
//! after the other, and the text that may be shown ([`Input::show`]).
//!
//! White space is not shown until text follows it; next to a place where something was taken out, and with nothing but such
//! places between it and the start or the end, it is dropped.

use crate::prompt::{is_js_space, scan};

#[derive(Debug)]
pub(super) struct Input {
    /// The text that was neither kept nor taken out yet.
    buffer: String,
    /// The next byte to look at.
    at: usize,
    /// Up to here the buffer was kept or taken out.
    done: usize,
    /// From here on it is held back.
    mark: Option<usize>,
    /// Whether only blanks precede the next byte on its line.
    blank: bool,
    /// What may be shown and was not asked for yet.
    text: String,
    /// Whether there was anything to be shown before.
    shown: bool,
    /// White space after it.
    space: String,
    /// Whether something was taken out before, within or after `space`.
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

    /// All there is was looked at: lets go of what is not held back.
    pub(super) fn settle(&mut self) {
        self.keep_up_to(self.mark.unwrap_or(self.at));
        self.buffer.drain(..self.done);
        self.at -= self.done;
        self.mark = self.mark.map(|mark| mark - self.done);
        self.done = 0;
    }

    /// What may be shown that was not shown before.
    pub(super) fn show(&mut self) -> String {
        self.shown |= !self.text.is_empty();
        std::mem::take(&mut self.text)
    }

    /// [`show`](Input::show) for who does not want to see it; whether there was anything.
    pub(super) fn pass(&mut self) -> bool {
        let any = !self.text.is_empty();
        self.shown |= any;
        self.text.clear();
        any
    }

    /// What may still be shown, now that nothing follows.
    pub(super) fn finish(mut self) -> String {
        self.keep_up_to(self.buffer.len());
        if !self.touched {
            self.text.push_str(&self.space);
        }
        self.text
    }

    /// The next byte.
    pub(super) fn peek(&self) -> Option<u8> {
        self.buffer.as_bytes().get(self.at).copied()
    }

    /// Whether only blanks precede it on its line.
    pub(super) fn blank(&self) -> bool {
        self.blank
    }

    /// Goes past `byte`, which is the next.
    pub(super) fn take(&mut self, byte: u8) {
        mark_line(byte, &mut self.blank);
        self.at += 1;
    }

    /// Goes to the next byte that `stops` says yes to, and gives it. See [`scan::first`].
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

    /// What is left to look at, for a reader that moves the position and keeps up `blank` itself.
    pub(super) fn parts(&mut self) -> (&[u8], &mut usize, &mut bool) {
        (self.buffer.as_bytes(), &mut self.at, &mut self.blank)
    }

    /// Holds back what follows. What is held back already stays so.
    pub(super) fn hold(&mut self) {
        self.mark.get_or_insert(self.at);
    }

    /// What was held back is text.
    pub(super) fn release(&mut self) {
        self.mark = None;
    }

    /// What was held back is none.
    pub(super) fn take_out(&mut self) {
        self.keep_up_to(self.mark.unwrap_or(self.at));
        self.done = self.at;
        self.mark = None;
        self.touched = true;
    }

    /// How far the next byte is from the mark.
    pub(super) fn offset(&self) -> usize {
        self.at - self.mark.unwrap_or(self.at)
    }

    /// What was looked at since `offset` from the mark.
    pub(super) fn since(&self, offset: usize) -> &str {
        &self.buffer[self.mark.unwrap_or(self.at) + offset..self.at]
    }

    /// Goes `length` bytes back, to where `blank` was as it came. Only what is held back can be gone back over.
    pub(super) fn back(&mut self, length: usize, blank: bool) {
        self.at -= length;
        self.blank = blank;
    }

    fn keep_up_to(&mut self, end: usize) {
        let piece = &self.buffer[self.done..end];
        let solid = piece.trim_end_matches(is_js_space);
        if !solid.is_empty() {
            // `text` is never white space only, unless the whole text was so far.
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

/// Keeps up whether only blanks precede on the line, past `byte`.
pub(super) fn mark_line(byte: u8, blank: &mut bool) {
    match byte {
        b'\n' => *blank = true,
        b' ' | b'\t' | b'\r' => {}
        _ => *blank = false,
    }
}
