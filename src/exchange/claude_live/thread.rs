//! The user lines that send a thread to a claude session.
//!
//! In: a [`SessionThread`]. Out: the user line with the whole thread, or only with the part that is new to a session which
//! [knows](KnownThread) its beginning.

use crate::live::thread::{KnownThread, SessionThread};
use crate::user_line::{self as line, Block};
use dfp_provider::Guard;
use dfp_text::prompt::{self, Encoding, Style};

/// The text before a thread that is sent whole.
const WHOLE_XML: &str = "This is the conversation so far as <thread> XML, with one <event> per message, tool call and tool \
result, in order. Reply with the assistant's next message only; write no XML.\n\n";
const WHOLE_TEXT: &str = "This is the conversation so far as labelled text. Reply with the assistant's next message only; \
write no label.\n\n";

impl SessionThread {
    /// The user line that sends the whole thread to a session that knows nothing, with `note` after it, which is no part of the
    /// thread.
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

    /// The user line that sends the new part to a session which knows `known`: the results of all pending calls, in the order of
    /// the calls, and then the user's messages. `None` if this is not that session's thread, or can't continue there: a call
    /// without its result, a message that is neither a result nor the user's. `note` comes last, as in [`SessionThread::whole`].
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
