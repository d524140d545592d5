//! Calls in the marked form: what the model was asked to write, and nobody else can.
//!
//! In: the blocks at the end of an answer. Out: those that count: every id in them begins with the call's [`Mark`], which is
//! random and stands in the prompt only. A call of a tool that is not bound is one as well: the agent answers that there is none.

use std::collections::HashSet;

use super::read::Entry;
use super::tail::{Block, Rules, Verdict, names_one_of};
use crate::message::InvalidToolCall;

/// The letters of a mark: 32, none of which is easily taken for another.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// How many of them a mark has: 50 bits.
const LENGTH: u32 = 10;

/// What the ids of one call of the model begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// The mark made of `random`, which has to be unguessable.
    pub fn new(random: u64) -> Mark {
        let letter = |n: u32| char::from(LETTERS[(random >> (5 * n)) as usize % LETTERS.len()]);
        Mark(format!("call_{}", (0..LENGTH).map(letter).collect::<String>()))
    }

    /// `call_` and the mark's letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `id` without the mark, as the caller gets it: `call_1` of `call_k7f3q9x2ab_1`. `None` if that leaves nothing.
    fn taken_off(&self, id: &str) -> Option<String> {
        let rest = id.strip_prefix(&self.0)?.trim_start_matches(['_', '-']);
        (!rest.is_empty()).then(|| format!("call_{rest}"))
    }
}

/// Which calls count in the answer to one call of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    mark: Mark,
    bound: HashSet<String>,
}

impl Marked {
    /// Calls with this `mark`. One without it may have been meant as a call where it is of a tool that is `bound`.
    pub fn new(mark: Mark, bound: impl IntoIterator<Item = String>) -> Marked {
        Marked {
            mark,
            bound: bound.into_iter().collect(),
        }
    }

    fn verdict(&self, entries: &[Entry]) -> Verdict {
        let marked = |entry: &Entry| match entry {
            Entry::Call { id, .. } => id.as_ref().is_some_and(|id| id.starts_with(self.mark.as_str())),
            Entry::Invalid(InvalidToolCall { id: Some(id), .. }) => id.starts_with(self.mark.as_str()),
            Entry::Invalid(InvalidToolCall { args, .. }) => args.contains(self.mark.as_str()),
        };
        if !entries.iter().all(marked) {
            // Of tools that are not bound a text may say what it likes.
            let bound = entries.iter().any(|entry| names_one_of(&self.bound, entry));
            return Verdict::Text(bound.then(|| {
                "its ids lack this call's mark, so it may be a quotation; `textToolCalls: \"lenient\"` reads such blocks as calls"
                    .to_owned()
            }));
        }
        Verdict::Counts
    }
}

impl Rules for Marked {
    fn verdicts(&self, blocks: &[Block]) -> Vec<Verdict> {
        blocks.iter().map(|block| self.verdict(&block.entries)).collect()
    }

    /// Without the mark.
    fn accept(&self, entry: Entry) -> Entry {
        let without_mark = |id: Option<String>| id.and_then(|id| self.mark.taken_off(&id));
        match entry {
            Entry::Call { id, name, args } => Entry::Call {
                id: without_mark(id),
                name,
                args,
            },
            Entry::Invalid(invalid) => Entry::Invalid(InvalidToolCall {
                id: without_mark(invalid.id),
                ..invalid
            }),
        }
    }
}
