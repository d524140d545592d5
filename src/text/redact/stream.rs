//! Redacts text that comes in pieces.

use std::borrow::Cow;

use super::{Channel, Redactor, replaced};

/// Bytes; from this length on the held-back text is looked at again only when it has grown by a quarter. Otherwise a long run
/// of small pieces would take time by the square of its length.
const LONG: usize = 4096;

/// A redactor for a text that comes in pieces: text that may be, or become, part of a secret is held back until that is
/// decided. The outputs, joined, equal the result of [`Redactor::redact`] for the whole text.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    channel: Channel,
    /// The end of the text that went out, one character at most, and the text that is held back.
    held: String,
    /// The bytes of `held` that went out.
    out: usize,
    /// The length of `held` when it was last looked at.
    looked: usize,
}

impl Default for StreamRedactor {
    /// Makes a redactor without known values, for an answer: it redacts nothing.
    fn default() -> StreamRedactor {
        StreamRedactor::new(Redactor::default(), Channel::Answer)
    }
}

impl StreamRedactor {
    /// Makes a redactor for one text of `channel`.
    pub fn new(redactor: Redactor, channel: Channel) -> StreamRedactor {
        StreamRedactor {
            redactor,
            channel,
            held: String::new(),
            out: 0,
            looked: 0,
        }
    }

    /// Takes the next piece; returns the text that may be shown.
    pub fn push<'t>(&mut self, piece: &'t str) -> Cow<'t, str> {
        if self.redactor.is_idle(self.channel) {
            return Cow::Borrowed(piece);
        }
        self.held.push_str(piece);
        if self.held.len() > LONG && self.held.len() < self.looked + self.looked / 4 {
            return Cow::Borrowed("");
        }
        let so_far = self.redactor.so_far(self.channel, &self.held, self.out);
        let settled = so_far.settled.max(self.out);
        let spans: Vec<_> = so_far.spans.into_iter().filter(|span| span.end <= settled).collect();
        let shown = replaced(&self.held[..settled], &spans)[self.out..].to_owned();
        let context = self.held[..settled].chars().next_back().map_or(0, char::len_utf8);
        self.held.drain(..settled - context);
        self.out = context;
        self.looked = self.held.len();
        Cow::Owned(shown)
    }

    /// Does the same as [`StreamRedactor::push`] for text that may hold lone surrogates, which WTF-8 encodes as if they were
    /// characters: no secret contains one or goes on behind one.
    pub fn push_wtf8<'t>(&mut self, piece: Cow<'t, [u8]>) -> Cow<'t, [u8]> {
        if self.redactor.is_idle(self.channel) {
            return piece;
        }
        let mut shown = Vec::with_capacity(piece.len());
        for chunk in piece.utf8_chunks() {
            shown.extend_from_slice(self.push(chunk.valid()).as_bytes());
            if !chunk.invalid().is_empty() {
                shown.extend_from_slice(self.finish().as_bytes());
                shown.extend_from_slice(chunk.invalid());
            }
        }
        Cow::Owned(shown)
    }

    /// Ends the text; returns the part that was held back, without secrets.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let out = std::mem::take(&mut self.out);
        self.looked = 0;
        let spans = self.redactor.spans_from(self.channel, &held, out);
        replaced(&held, &spans)[out..].to_owned()
    }
}
