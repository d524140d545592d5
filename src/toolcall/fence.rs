//! Code fences: what the scanner remembers of one.
//!
//! In: runs of backticks or tildes, met in the text. Out: plain data, no decisions but the one on a fence's word.

use super::read::Entry;

/// The fewest fence characters of a code block; fewer backticks are inline code.
pub(super) const FENCE: usize = 3;

/// What becomes of the fences around an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    /// Not decided: the opening fence is held back.
    Held,
    Kept,
    /// They go with the call.
    TakenOut,
}

/// A code block (or inline code) that was opened.
#[derive(Debug)]
pub(super) struct Fence {
    /// Backtick or tilde.
    pub(super) char: u8,
    pub(super) length: usize,
    /// Whether only blanks precede it on its line.
    pub(super) line_start: bool,
    /// Whether its line has ended.
    pub(super) line_ended: bool,
    pub(super) opener: Opener,
    /// The code block it stands in.
    pub(super) outer: Option<Box<Fence>>,
    /// What was found in it if it stands in another one. It counts if nothing follows.
    pub(super) nested: Vec<Entry>,
}

/// A run of fence characters.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) place: FenceContext,
    pub(super) char: u8,
    pub(super) length: usize,
    /// Whether only blanks precede it on its line.
    pub(super) line_start: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FenceContext {
    Text,
    Code,
    AfterObject,
}

/// Whether the word behind a fence says that calls follow, so plainly that a block before it was left unclosed.
pub(super) fn names_calls(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.starts_with("json") || word.starts_with("tool")
}
