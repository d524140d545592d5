//! The positions of a thread's blocks that are not text.
//!
//! In: messages whose content may hold such blocks. Out: a [`Rendered`] thread: one text with a marker for each block, and the
//! blocks.
//!
//! The marker is an element with the block's number (`<image index="1"></image>`), or a label on its own line (`[Image 1]`);
//! the block belongs into the element, or behind the label. The index counts all blocks of the thread from 1, in order. Text
//! that looks like a marker is escaped like all other markup, and no block stands there.

use std::fmt::Write;

use dfp_model::message::content::{self, Media, Part};
use dfp_model::message::{Content, Message};

/// A block, and its position in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// The offset in the text, bytes, behind which the block belongs.
    pub at: usize,
    pub media: Media,
}

/// A thread as a prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    /// All text, with the markers of the blocks.
    pub text: String,
    /// The blocks, in order.
    pub media: Vec<Placed>,
}

/// A part of a [`Rendered`] thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Piece<'a> {
    /// Text, never blank.
    Text(&'a str),
    Media(&'a Media),
}

impl Rendered {
    /// Makes a rendered thread of text alone.
    pub fn of_text(text: String) -> Rendered {
        Rendered {
            text,
            media: Vec::new(),
        }
    }

    /// Divides the text at the positions of the blocks.
    pub fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = Vec::with_capacity(2 * self.media.len() + 1);
        let mut from = 0;
        let ends = self.media.iter().map(|placed| (placed.at, Some(&placed.media)));
        for (until, media) in ends.chain([(self.text.len(), None)]) {
            let text = self.text.get(from..until).unwrap_or_default();
            from = until;
            // The Messages API refuses text that is blank.
            let text = (!text.trim().is_empty()).then_some(Piece::Text(text));
            pieces.extend(text.into_iter().chain(media.map(Piece::Media)));
        }
        pieces
    }

    /// Puts `text` before the byte `at`.
    pub(super) fn insert(&mut self, at: usize, text: &str) {
        self.text.insert_str(at, text);
        let behind = self.media.iter_mut().filter(|placed| placed.at >= at);
        behind.for_each(|placed| placed.at += text.len());
    }

    /// Replaces each `character` from the byte `from` on by `with`, and moves the blocks accordingly.
    pub(super) fn replace_from(&mut self, from: usize, character: char, with: &str) {
        let mut media = self.media.iter_mut().peekable();
        let (mut text, mut copied) = (self.text[..from].to_owned(), from);
        let mut move_up_to = |end: usize, copied: usize, written: usize| {
            while let Some(placed) = media.next_if(|placed| placed.at <= end) {
                placed.at = written + placed.at.saturating_sub(copied);
            }
        };
        for (at, found) in self.text.match_indices(character) {
            if at < from {
                continue;
            }
            move_up_to(at, copied, text.len());
            text.push_str(&self.text[copied..at]);
            text.push_str(with);
            copied = at + found.len();
        }
        move_up_to(self.text.len(), copied, text.len());
        text.push_str(&self.text[copied..]);
        self.text = text;
    }

    /// The number of the next block, as in `[Image 1]` and `<image index="1">`.
    pub(super) fn next_index(&self) -> usize {
        self.media.len() + 1
    }

    /// Puts `media` at the end of the text so far.
    pub(super) fn place(&mut self, media: Media) {
        self.media.push(Placed {
            at: self.text.len(),
            media,
        });
    }

    /// Writes the element of `media`, with the block in it.
    pub(super) fn place_in_element(&mut self, media: Media) {
        let tag = media.kind.tag();
        // Writing to a String can't fail.
        let _ = write!(self.text, "<{tag} index=\"{}\">", self.next_index());
        self.place(media);
        let _ = write!(self.text, "</{tag}>");
    }
}

/// A part of a message that has blocks other than text.
pub(super) enum Chunk {
    /// All text up to the next block in one piece: no label must come about where two texts meet.
    Text(String),
    Media(Box<Media>),
}

/// Divides `message` into its parts, in order; `None` if it holds nothing but text, or JSON that is not a block at all.
pub(super) fn chunks(message: &Message) -> Option<Vec<Chunk>> {
    let Content::Blocks(raw) = &message.content else {
        return None;
    };
    let parts = content::parts(raw, &message.role);
    if !parts.iter().any(|part| matches!(part, Part::Media(_))) {
        return None;
    }
    let mut chunks: Vec<Chunk> = Vec::new();
    for part in parts {
        match (part, chunks.last_mut()) {
            (Part::Text(more), Some(Chunk::Text(text))) => text.push_str(&more),
            (Part::Text(text), _) => chunks.push(Chunk::Text(text)),
            (Part::Media(media), _) => chunks.push(Chunk::Media(media)),
            // Calls are stored in the message itself by now; the other parts are not content, or were refused
            // (`message::content`).
            (Part::Omitted | Part::Call(_) | Part::Unknown(_), _) => {}
        }
    }
    Some(chunks)
}
