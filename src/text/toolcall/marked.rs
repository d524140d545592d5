//! Calls in the marked form, which the model was asked to write and nobody else can.
//!
//! In: the blocks at the end of an answer. Out: the blocks that count, in which every id begins with the call's [`Mark`]. The
//! mark is random and stands in the prompt only. A call of a tool that is not bound counts as well: the agent answers that
//! there is no such tool.

use std::collections::HashSet;

use super::read::Entry;
use super::tail::{Block, BlockVerdict, Rules, names_one_of};
use dfp_model::message::InvalidToolCall;

/// The letters of a mark: 32, none of which is easily mistaken for another.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// The number of letters in a mark: 50 bits.
const LENGTH: u32 = 10;

/// The random prefix of the ids in one model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// Makes the mark from `random`, which has to be unguessable.
    pub fn new(random: u64) -> Mark {
        let letter = |n: u32| char::from(LETTERS[(random >> (5 * n)) as usize % LETTERS.len()]);
        Mark(format!("call_{}", (0..LENGTH).map(letter).collect::<String>()))
    }

    /// The prefix: `call_` and the mark's letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Removes the mark from `id`, for the caller: `call_1` from `call_k7f3q9x2ab_1`. `None` if nothing is left.
    fn taken_off(&self, id: &str) -> Option<String> {
        let rest = id.strip_prefix(&self.0)?.trim_start_matches(['_', '-']);
        (!rest.is_empty()).then(|| format!("call_{rest}"))
    }
}

/// The rule by which only marked calls count in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    mark: Mark,
    bound: HashSet<String>,
}

impl Marked {
    /// Accepts calls with this `mark`. A call without it is noted as possibly meant if its tool is `bound`.
    pub fn new(mark: Mark, bound: impl IntoIterator<Item = String>) -> Marked {
        Marked {
            mark,
            bound: bound.into_iter().collect(),
        }
    }

    fn verdict(&self, entries: &[Entry]) -> BlockVerdict {
        let marked = |entry: &Entry| match entry {
            Entry::Call { id, .. } => id.as_ref().is_some_and(|id| id.starts_with(self.mark.as_str())),
            Entry::Invalid(InvalidToolCall { id: Some(id), .. }) => id.starts_with(self.mark.as_str()),
            Entry::Invalid(InvalidToolCall { args, .. }) => args.contains(self.mark.as_str()),
        };
        if !entries.iter().all(marked) {
            // A text may mention tools that are not bound as it likes.
            let bound = entries.iter().any(|entry| names_one_of(&self.bound, entry));
            return BlockVerdict::Text(bound.then(|| {
                "its ids lack this call's mark, so it may be a quotation; `textToolCalls: \"lenient\"` reads such blocks as calls"
                    .to_owned()
            }));
        }
        BlockVerdict::Counts
    }
}

impl Rules for Marked {
    fn verdicts(&self, blocks: &[Block]) -> Vec<BlockVerdict> {
        blocks.iter().map(|block| self.verdict(&block.entries)).collect()
    }

    /// Removes the mark from the entry's id.
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
