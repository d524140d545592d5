//! Which of the blocks at the end of an answer are the model's own calls, by one of two rules: nothing in the thread has brought them
//! ([`Unquoted`]), or they have a mark that nobody else can know ([`Marked`]).
//!
//! A call of a tool that is not bound counts, just as a native call would: the agent answers that there is no such tool.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::object::Entry;
use super::quotation::{Written, are_quoted};
use super::tail::{Block, BlockVerdict, Rules, names_one_of};
use crate::prompt;
use dfp_model::message::content::{Part, Source, parts};
use dfp_model::message::{Content, InvalidToolCall, Message, Role};

// In: the blocks at the end of an answer, and the texts of the thread that the model has not written. Out: the blocks that count,
// those in which no call is a quotation (`quotation`).

const QUOTED: &str = "the same call stands in a text of the thread, so it may be a quotation; `textToolCalls: \"lenient\"` reads such \
                      blocks as calls";

/// The texts of a thread. They are collected only when an answer ends with calls.
type Texts = LazyLock<ForeignTexts, Box<dyn FnOnce() -> ForeignTexts + Send>>;

/// The rule by which only calls that are not quoted count in an answer.
pub struct Unquoted {
    thread: Texts,
    bound: HashSet<String>,
    any_name: bool,
    /// The last blocks that were compared, with the results: an answer may be read twice, and a thread is long.
    last: Mutex<Option<(String, Vec<bool>)>>,
}

impl fmt::Debug for Unquoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unquoted")
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl Unquoted {
    /// Accepts calls in the answer to a thread whose texts `thread` collects. An unreadable call counts if it names a tool that
    /// is `bound`, or always with `any_name`.
    pub fn new(
        thread: impl FnOnce() -> ForeignTexts + Send + 'static,
        bound: impl IntoIterator<Item = String>,
        any_name: bool,
    ) -> Unquoted {
        Unquoted {
            thread: LazyLock::new(Box::new(thread)),
            bound: bound.into_iter().collect(),
            any_name,
            last: Mutex::new(None),
        }
    }

    /// The judgement of `block`, apart from its being a quotation.
    fn verdict(&self, block: &Block) -> BlockVerdict {
        let counts =
            |entry: &Entry| matches!(entry, Entry::Call { .. }) || self.any_name || names_one_of(&self.bound, entry);
        match block.entries.iter().any(counts) {
            true => BlockVerdict::Counts,
            false => BlockVerdict::Text(None),
        }
    }

    /// Returns for each block whether the thread has brought any of it.
    fn quoted(&self, blocks: &[Block]) -> Vec<bool> {
        let key: String = blocks.iter().flat_map(|block| &block.objects).copied().collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, verdicts)) = last.as_ref().filter(|(of, _)| *of == key && !key.is_empty()) {
            return verdicts.clone();
        }
        let entries = blocks.iter().flat_map(|block| &block.entries);
        let calls: Vec<Written> = entries.map(written).collect();
        let mut brought = self.thread.bring(&calls).into_iter();
        let of_block = |block: &Block| {
            let brought: Vec<bool> = brought.by_ref().take(block.entries.len()).collect();
            brought.contains(&true)
        };
        let verdicts: Vec<bool> = blocks.iter().map(of_block).collect();
        *last = Some((key, verdicts.clone()));
        verdicts
    }
}

fn written(entry: &Entry) -> Written<'_> {
    match entry {
        Entry::Call { name, args, .. } => Written::Call { name, args: args.get() },
        Entry::Invalid(InvalidToolCall { args, .. }) => Written::Unreadable(args),
    }
}

impl Rules for Unquoted {
    fn verdicts(&self, blocks: &[Block]) -> Vec<BlockVerdict> {
        let verdicts: Vec<BlockVerdict> = blocks.iter().map(|block| self.verdict(block)).collect();
        // Only blocks that would otherwise count are worth a look at the thread.
        let count = verdicts
            .iter()
            .take_while(|verdict| **verdict == BlockVerdict::Counts)
            .count();
        let quoted = match count {
            0 => Vec::new(),
            count => self.quoted(&blocks[..count]),
        };
        let mut quoted = quoted.into_iter();
        let or_quoted = |verdict| match quoted.next() {
            Some(true) => BlockVerdict::Text(Some(QUOTED.to_owned())),
            _ => verdict,
        };
        verdicts.into_iter().map(or_quoted).collect()
    }

    fn accept(&self, entry: Entry) -> Entry {
        entry
    }
}

/// The texts of a thread that its model has not written, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignTexts(Vec<String>);

impl ForeignTexts {
    /// Collects the foreign texts of `messages`. With `documents`, a lone user message may be a thread document, which holds
    /// texts and calls of the model as well.
    pub fn of(messages: &[Message], documents: bool) -> ForeignTexts {
        if documents
            && let [message] = messages
            && message.role == Role::Human
            && let Content::Text(text) = &message.content
            && let Some(events) = prompt::events_of_document(text)
        {
            let own = |kind: &str| matches!(kind, "ai" | "tool_input");
            let foreign = events.into_iter().filter(|(kind, _)| !own(kind));
            return ForeignTexts(foreign.map(|(_, text)| text.to_owned()).collect());
        }
        let foreign = messages.iter().filter(|message| message.role != Role::Ai);
        ForeignTexts(foreign.flat_map(texts).collect())
    }

    /// Returns the texts with `text` before them.
    #[must_use]
    pub fn after(mut self, text: &str) -> ForeignTexts {
        self.0.insert(0, text.to_owned());
        self
    }

    /// Returns for each of `calls` whether the thread has brought it.
    fn bring(&self, calls: &[Written]) -> Vec<bool> {
        // A text that was cut goes on in the next one, so nothing is put between them.
        are_quoted(&self.0.concat(), calls)
    }
}

/// The texts in a message.
fn texts(message: &Message) -> Vec<String> {
    let Content::Blocks(raw) = &message.content else {
        return vec![message.content.as_text().to_owned()];
    };
    let text = |part| match part {
        Part::Text(text) => Some(text),
        Part::Media(media) => match media.source {
            Source::Base64(_) => media.text().map(Cow::into_owned),
            Source::Text(text) => Some(text),
            _ => Some(media.block.to_string()),
        },
        Part::Omitted | Part::Call(_) | Part::Unknown(_) => None,
    };
    parts(raw, &message.role).into_iter().filter_map(text).collect()
}

// The marked form, which the model was asked to write and nobody else can: every id begins with the call's [`Mark`]. The mark is
// random and stands in the prompt only.

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
