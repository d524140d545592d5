//! The scanner's record of a code fence.
//!
//! In: runs of backticks or tildes in the text. Out: plain data; the only decision here is about a fence's word.

use super::read::Entry;

/// The fewest fence characters of a code block; fewer backticks are inline code.
pub(super) const FENCE: usize = 3;

/// The decision about the fences around an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    /// The opening fence is held back until it is decided.
    Held,
    Kept,
    /// The fences are taken out together with the call.
    TakenOut,
}

/// A code block (or inline code) that was opened.
#[derive(Debug)]
pub(super) struct Fence {
    /// The fence character: backtick or tilde.
    pub(super) char: u8,
    pub(super) length: usize,
    /// True if only blanks precede it on its line.
    pub(super) line_start: bool,
    /// True if the line of the opening fence has ended.
    pub(super) line_ended: bool,
    pub(super) opener: Opener,
    /// The code block around this one.
    pub(super) outer: Option<Box<Fence>>,
    /// The calls found in this block if it stands in another one. They count if nothing follows.
    pub(super) nested: Vec<Entry>,
}

/// A run of fence characters.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) place: FenceContext,
    pub(super) char: u8,
    pub(super) length: usize,
    /// True if only blanks precede it on its line.
    pub(super) line_start: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FenceContext {
    Text,
    Code,
    AfterObject,
}

/// Returns whether the word behind a fence announces calls, so plainly that a block before it was left unclosed.
pub(super) fn names_calls(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.starts_with("json") || word.starts_with("tool")
}
