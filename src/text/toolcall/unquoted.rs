//! Calls that the model has written on its own: those at the end of its answer that nothing in the thread has brought.
//!
//! In: the blocks at the end of an answer, and the texts of the thread that the model has not written. Out: the blocks that
//! count, those in which no call is a quotation ([`quotation`](super::quotation)). A call of a tool that is not bound counts,
//! just as a native call would: the agent answers that there is no such tool.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::quotation::{Written, are_quoted};
use super::read::Entry;
use super::tail::{Block, BlockVerdict, Rules, names_one_of};
use crate::prompt;
use dfp_model::message::InvalidToolCall;
use dfp_model::message::content::{Part, Source, parts};
use dfp_model::message::{Content, Message, Role};

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
