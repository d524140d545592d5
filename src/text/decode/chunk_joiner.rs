//! Joins the pieces of one block to text: a character's UTF-16 halves, or a control sequence, may be split over two pieces.

use std::borrow::Cow;

use super::ansi::Stripper;
use super::json::Wtf8;
use dfp_model::message::wtf8_to_string;

/// A joiner for the pieces of one block.
#[derive(Debug, Default)]
pub(super) struct ChunkJoiner {
    /// A high surrogate, as WTF-8, whose low one has not come yet.
    high: Option<[u8; 3]>,
    pub stripper: Stripper,
}

impl ChunkJoiner {
    /// Returns whether half of a character has come without its other half.
    pub fn waits(&self) -> bool {
        self.high.is_some()
    }

    /// Returns the next piece of a JSON text. Control sequences stay in it, since it is not text for a terminal.
    pub fn join_json<'t>(&mut self, piece: Wtf8<'t>) -> Cow<'t, str> {
        match piece.0 {
            bytes if bytes.is_empty() => Cow::Borrowed(""),
            Cow::Borrowed(bytes) if self.high.is_none() => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => Cow::Owned(self.join_bytes(bytes)),
            },
            bytes => Cow::Owned(self.join_bytes(&bytes)),
        }
    }

    /// Returns the next piece, without an incomplete end, which only a later piece can complete.
    pub fn join<'t>(&mut self, piece: Wtf8<'t>) -> Cow<'t, str> {
        match self.join_json(piece) {
            Cow::Borrowed(text) => self.stripper.strip(text),
            Cow::Owned(text) => match self.stripper.strip(&text) {
                Cow::Borrowed(plain) if plain.len() == text.len() => Cow::Owned(text),
                plain => Cow::Owned(plain.into_owned()),
            },
        }
    }

    /// Joins WTF-8 bytes: a waiting high surrogate with the low one at their beginning; a high one at their end waits.
    fn join_bytes(&mut self, mut bytes: &[u8]) -> String {
        let mut joined = Vec::with_capacity(bytes.len() + 3);
        match (self.high.take(), bytes) {
            (Some(high), [0xED, second @ 0xB0..=0xBF, third, rest @ ..]) => {
                let low = [0xED, *second, *third];
                let code = 0x1_0000 + ((surrogate(high) - 0xD800) << 10) + (surrogate(low) - 0xDC00);
                let whole = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                joined.extend_from_slice(whole.encode_utf8(&mut [0; 4]).as_bytes());
                bytes = rest;
            }
            (Some(_), _) => joined.extend_from_slice("\u{FFFD}".as_bytes()),
            (None, _) => {}
        }
        if let [rest @ .., 0xED, second @ 0xA0..=0xAF, third] = bytes {
            self.high = Some([0xED, *second, *third]);
            bytes = rest;
        }
        joined.extend_from_slice(bytes);
        wtf8_to_string(joined)
    }
}

/// The UTF-16 unit that WTF-8 writes as these three bytes.
fn surrogate([_, second, third]: [u8; 3]) -> u32 {
    0xD000 | u32::from(second & 0x3F) << 6 | u32::from(third & 0x3F)
}
