//! What a claude session is sent of a thread.
//!
//! In: a [`SessionThread`]. Out: the user line that says the whole of it, or only what a session that [knows](KnownThread) its beginning has
//! not got.

use crate::exchange::live::thread::{KnownThread, SessionThread};
use crate::exchange::user_line::{self as line, Block};
use crate::prompt::{self, Encoding, Style};
use crate::provider::Guard;

/// What stands before a thread that is sent whole.
const WHOLE_XML: &str = "This is the conversation so far as <thread> XML, with one <event> per message, tool call and tool \
result, in order. Reply with the assistant's next message only; write no XML.\n\n";
const WHOLE_TEXT: &str = "This is the conversation so far as labelled text. Reply with the assistant's next message only; \
write no label.\n\n";

impl SessionThread {
    /// The user line that tells all of it to a session that knows nothing, and `note` behind it, which is no part of it.
    pub fn whole(&self, encoding: Encoding, guard: Option<Guard>, note: Option<&str>) -> String {
        if let Some(mut blocks) = line::of_humans(self.messages().iter(), guard) {
            blocks.extend(note.map(Block::text));
            return line::user(&blocks);
        }
        let before = match encoding {
            Encoding::Xml => WHOLE_XML,
            Encoding::Text => WHOLE_TEXT,
        };
        let style = Style {
            encoding,
            ..Style::default()
        };
        let rendered = prompt::render(self.messages(), &[], style);
        let blocks = line::of_rendered(before, &rendered);
        line::user(&blocks.into_iter().chain(note.map(Block::text)).collect::<Vec<_>>())
    }

    /// The user line that tells what is new to a session that knows `known`: the results of all pending calls, in the order of
    /// the calls, and the user's messages behind them. `None` if this is not that session's thread, or can't go on there: a
    /// call without its result, a message that is neither a result nor the user's. `note` comes behind it, as in [`SessionThread::whole`].
    pub fn addition(&self, known: &KnownThread, guard: Option<Guard>, note: Option<&str>) -> Option<String> {
        let new = self.continuation(known)?;
        let results = new.results.iter().map(|(call, result)| line::result(&call.api, result));
        let mut blocks: Vec<Block> = results.collect();
        if !new.rest.is_empty() {
            blocks.extend(line::of_humans(new.rest.iter(), guard)?);
        }
        if blocks.is_empty() {
            return None;
        }
        blocks.extend(note.map(Block::text));
        Some(line::user(&blocks))
    }
}

#[cfg(test)]
mod tests;
