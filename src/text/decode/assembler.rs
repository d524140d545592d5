//! Assembles the message that is being received, with every character of it exactly once.
//!
//! In: the parts that the decoders read of a message, as pieces (deltas), as whole blocks (snapshots), or as both. Out: a
//! [`Event::TextDelta`] for every character as soon as it is known, then one [`Event::Message`] when the message is complete,
//! then its [`Event::ToolCall`]s. The deltas of a message, joined, are its content. A message that was begun but never
//! completed leads to an [`Event::Abandoned`].
//!
//! claude sends one `assistant` line per content block, all with the message's id, and with partial messages each of
//! them comes after its deltas and before `content_block_stop` (2.1.197, 2.1.330); qwen sends one line with all blocks
//! after the last `content_block_stop` (0.15.10). A snapshot of a block that was streamed therefore only confirms it.
//!
//! The pieces of one block are joined by `ChunkJoiner`.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use super::format::Out;
use super::json::{Count, Wtf8};
use super::lines::{Stripper, strip_owned};
use dfp_model::event::Event;
use dfp_model::message::reasoning::ReasoningDetail;
use dfp_model::message::wtf8_to_string;

/// An assembler for messages that come one after the other.
#[derive(Debug, Default)]
pub struct MessageAssembler {
    open: Option<Open>,
    /// The unconfirmed streamed blocks of the last closed message: a snapshot that repeats them is ignored.
    echo: Option<Echo>,
    /// The message id that the stream named last: its deltas carry none.
    stream_id: Option<String>,
    spoke: bool,
}

/// A message that is not complete yet.
#[derive(Debug, Default)]
struct Open {
    id: Option<String>,
    content: String,
    /// The offset in `content`, bytes, at which the current response begins: the text before it comes from earlier responses
    /// that this one continues.
    base: usize,
    /// Set when the message's response has ended but the message may continue.
    ended: Option<Ended>,
    /// The ranges of `content` that were streamed as text blocks and are not confirmed, oldest first.
    streamed: VecDeque<Range<usize>>,
    /// The text block that is being streamed: the last of `streamed`.
    text: Option<ChunkJoiner>,
    /// The reasoning block that is being streamed, and its index.
    thinking: Option<(Option<Count>, ChunkJoiner)>,
    /// The number of reasoning blocks that were streamed and are not confirmed.
    thoughts: usize,
    /// Calls, valid and invalid, which are delivered after the text.
    calls: Vec<Event>,
}

/// The reason why a message may continue in another response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The response was cut short: the message continues if the CLI says that it asks for the rest.
    Cut,
    /// The message continues in the response that comes next.
    GoesOn,
}

/// The unconfirmed streamed blocks of a closed message; see [`MessageAssembler::echo`].
#[derive(Debug)]
struct Echo {
    id: Option<String>,
    texts: VecDeque<String>,
    thoughts: usize,
}

impl MessageAssembler {
    /// Begins a response in the stream. The previous message is then complete, or continues with this response, or is abandoned
    /// if none of it was confirmed.
    pub fn begin(&mut self, id: Option<String>, out: &mut Out) {
        self.next(out);
        if let (Some(open), Some(id)) = (&mut self.open, &id) {
            open.id = Some(id.clone());
        }
        self.echo = None;
        self.stream_id = id;
    }

    /// Notes that the response ended because it reached the model's output limit. The next response continues the message,
    /// unless something comes between them.
    pub fn reached_limit(&mut self, out: &mut Out) {
        if let Some(open) = &mut self.open
            && open.calls.is_empty()
            && open.streamed.is_empty()
            && !open.content.is_empty()
        {
            open.end_text(out);
            open.ended = Some(Ended::GoesOn);
        }
    }

    /// Notes that the response `id` follows directly. Some CLIs show two responses in a row only if they are parts of one
    /// answer.
    pub fn followed_by(&mut self, id: Option<&str>, out: &mut Out) {
        let open = self.open.as_ref().and_then(|open| open.id.as_deref());
        if open.is_some() && id.is_some() && open != id {
            self.reached_limit(out);
        }
    }

    /// Notes that the CLI asks for the rest of the open message, which would otherwise be complete.
    pub fn goes_on(&mut self, out: &mut Out) {
        match &mut self.open {
            Some(open) if open.calls.is_empty() => {
                open.end_text(out);
                open.ended = Some(Ended::GoesOn);
            }
            _ => self.close(out),
        }
    }

    /// Ends the response, and with it the message, unless it continues.
    pub fn stop(&mut self, out: &mut Out) {
        if self.open.as_ref().is_none_or(|open| open.ended.is_none()) {
            self.close(out);
        }
    }

    /// Begins or ends a content block in the stream.
    pub fn block(&mut self, out: &mut Out) {
        if let Some(open) = &mut self.open {
            open.end_text(out);
            open.thinking = None;
        }
    }

    /// Continues the text block that was streamed last, although it has ended: the CLI repeats all of the text as one block.
    pub fn resume_text(&mut self) {
        if let Some(open) = &mut self.open
            && !open.streamed.is_empty()
        {
            open.text.get_or_insert_default();
        }
    }

    /// Adds a streamed piece of a text block.
    pub fn text_delta(&mut self, piece: Wtf8<'_>, out: &mut Out) {
        self.spoke = true;
        let open = self.stream();
        if open.text.is_none() {
            let at = open.content.len();
            open.streamed.push_back(at..at);
        }
        let piece = open.text.get_or_insert_default().join(piece);
        open.say(&piece, out);
        if let Some(block) = open.streamed.back_mut() {
            block.end = open.content.len();
        }
    }

    /// Adds a streamed piece of the reasoning block `index`.
    pub fn thinking_delta(&mut self, index: Option<Count>, piece: Wtf8<'_>, out: &mut Out) {
        let open = self.stream();
        if open.thinking.as_ref().is_none_or(|(current, _)| *current != index) {
            open.thinking = Some((index, ChunkJoiner::default()));
            open.thoughts += 1;
        }
        if let Some((_, joiner)) = &mut open.thinking {
            let piece = joiner.join(piece);
            out.thinking(&open.id, piece);
        }
    }

    /// Enters the message `id`, whose whole blocks follow. Another message that was open is complete.
    pub fn enter(&mut self, id: Option<&str>, out: &mut Out) {
        let same = self.open.as_ref().is_some_and(|open| match (&open.id, id) {
            (Some(open), Some(id)) => open == id,
            // Deltas or blocks without an id belong together only if one confirms the other.
            _ => open.is_unconfirmed(),
        });
        if !same {
            self.next(out);
            self.open.get_or_insert_default();
        }
        if let (Some(open), Some(id)) = (&mut self.open, id) {
            open.id = Some(id.to_owned());
        }
    }

    /// Adds a whole text block of the entered message.
    pub fn text(&mut self, text: Cow<'_, str>, out: &mut Out) {
        let plain = strip_owned(text);
        let take_it = |texts: &mut VecDeque<String>| {
            texts.front().is_some_and(|text| *text == plain) && texts.pop_front().is_some()
        };
        if self.echoed(|echo| take_it(&mut echo.texts)) {
            return;
        }
        self.spoke |= !plain.is_empty();
        let open = self.open.get_or_insert_default();
        let Some(block) = open.streamed.pop_front() else {
            return open.say_all(plain, out);
        };
        if open.streamed.is_empty() {
            open.text = None;
        }
        match plain.strip_prefix(&open.content[block.clone()]) {
            Some("") => {}
            Some(rest) if block.end == open.content.len() => open.say(rest, out),
            _ => {
                out.note("the whole message differs from its pieces; the whole one is taken");
                open.replace(block, &plain);
            }
        }
    }

    /// Adds a whole reasoning block of the entered message, with its signature.
    pub fn thinking(&mut self, text: Cow<'_, str>, signature: Option<&str>, out: &mut Out) {
        let text = strip_owned(text);
        let detail = ReasoningDetail::text(&text, signature);
        self.thought(text, out);
        out.reasoning(detail);
    }

    /// Reports the text of a reasoning block, unless its pieces were reported before.
    fn thought(&mut self, text: Cow<'_, str>, out: &mut Out) {
        let take_one = |thoughts: &mut usize| std::mem::replace(thoughts, thoughts.saturating_sub(1)) > 0;
        if self.echoed(|echo| take_one(&mut echo.thoughts)) {
            return;
        }
        let open = self.open.get_or_insert_default();
        if !take_one(&mut open.thoughts) {
            out.thinking(&open.id, text);
        }
    }

    /// Adds a call, valid or invalid, to the entered message.
    pub fn call(&mut self, call: Event) {
        self.open.get_or_insert_default().calls.push(call);
    }

    /// Adds text to a message that comes in pieces only, without ids and without snapshots.
    pub fn piece(&mut self, text: &str, out: &mut Out) {
        self.spoke |= !text.is_empty();
        let open = self.open.get_or_insert_default();
        let plain = open.text.get_or_insert_default().stripper.strip(text);
        open.say(&plain, out);
    }

    /// Reports a whole message.
    pub fn message(&mut self, id: Option<&str>, text: &str, out: &mut Out) {
        self.close(out);
        self.enter(id, out);
        self.text(Cow::Borrowed(text), out);
        self.close(out);
    }

    /// Completes the open message and reports it.
    pub fn close(&mut self, out: &mut Out) {
        let Some(mut open) = self.open.take() else { return };
        open.end_text(out);
        if !open.streamed.is_empty() || open.thoughts > 0 {
            self.echo = Some(Echo {
                id: open.id.clone(),
                texts: open
                    .streamed
                    .iter()
                    .map(|block| open.content[block.clone()].to_owned())
                    .collect(),
                thoughts: open.thoughts,
            });
        }
        if !open.content.is_empty() {
            out.event(Event::Message {
                id: open.id,
                content: open.content,
            });
        }
        open.calls.into_iter().for_each(|call| out.event(call));
    }

    /// The open message is complete as far as it goes; calls in it are none.
    pub fn close_without_calls(&mut self, out: &mut Out) {
        if let Some(open) = &mut self.open {
            open.calls.clear();
        }
        self.close(out);
    }

    /// Handles a response that was cut short: no snapshot will confirm the streamed parts. They belong to no message, for the
    /// CLI asks again or the run has failed, and a call written in them must not run.
    pub fn cut(&mut self, out: &mut Out) {
        self.drop_unconfirmed(out);
        if let Some(open) = &mut self.open {
            open.ended = open.ended.or(Some(Ended::Cut));
        }
    }

    /// Handles a line that follows a message's calls. Closes the message, unless its text is still being streamed: tools may
    /// run while the model goes on speaking.
    pub fn settle(&mut self, out: &mut Out) {
        match &mut self.open {
            Some(open) if open.text.is_some() && !open.streamed.is_empty() => {
                open.calls.drain(..).for_each(|call| out.event(call));
            }
            _ => self.close(out),
        }
    }

    /// Drops the open message, which turned out to be none.
    pub fn discard(&mut self, out: &mut Out) {
        if self.open.take().is_some() {
            out.event(Event::Abandoned);
        }
        self.spoke = false;
    }

    /// Returns whether the open message has streamed parts that are not confirmed.
    pub fn is_unconfirmed(&self) -> bool {
        self.open.as_ref().is_some_and(Open::is_unconfirmed)
    }

    /// Returns whether the open message has calls.
    pub fn has_calls(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.calls.is_empty())
    }

    /// Returns whether a message is open whose content is exactly `text`.
    pub fn is_open_with(&self, text: &str) -> bool {
        self.open.as_ref().is_some_and(|open| open.content == text)
    }

    /// Ends a turn and completes the open message. Returns whether the turn had any output of the model.
    pub fn end_turn(&mut self, out: &mut Out) -> bool {
        self.close(out);
        self.echo = None;
        self.stream_id = None;
        std::mem::take(&mut self.spoke)
    }

    /// The message that the stream's deltas belong to.
    fn stream(&mut self) -> &mut Open {
        self.open.get_or_insert_with(|| Open {
            id: self.stream_id.clone(),
            ..Open::default()
        })
    }

    /// Begins another response, and with it a message, unless the open one continues. Parts that were streamed and never
    /// confirmed were broken off, and the CLI asks for them again.
    fn next(&mut self, out: &mut Out) {
        if self.drop_unconfirmed(out) {
            out.note("a message was broken off and another one begun");
        }
        match &mut self.open {
            Some(open) if open.ended == Some(Ended::GoesOn) => {
                open.base = open.content.len();
                open.ended = None;
                open.thoughts = 0;
            }
            _ => self.close(out),
        }
    }

    /// Drops the unconfirmed streamed parts of the response, and its message if nothing else is in it. Returns whether there
    /// were any.
    fn drop_unconfirmed(&mut self, out: &mut Out) -> bool {
        let Some(open) = &mut self.open else { return false };
        let unconfirmed: usize = open.streamed.iter().map(Range::len).sum();
        if unconfirmed == 0 || !open.calls.is_empty() {
            return false;
        }
        open.text = None;
        open.thinking = None;
        open.thoughts = 0;
        while let Some(block) = open.streamed.pop_back() {
            open.content.replace_range(block, "");
        }
        if open.content.is_empty() {
            self.open = None;
            out.event(Event::Abandoned);
        } else if open.content.len() == open.base {
            open.ended = Some(Ended::GoesOn);
        }
        true
    }

    /// Returns whether the entered message is the closed one, and `taken` found the block among that one's streamed blocks.
    fn echoed(&mut self, taken: impl FnOnce(&mut Echo) -> bool) -> bool {
        let entered = self.open.as_ref().and_then(|open| open.id.as_deref());
        self.echo
            .as_mut()
            .is_some_and(|echo| (echo.id.is_none() || echo.id.as_deref() == entered) && taken(echo))
    }
}

impl Open {
    /// Returns whether there are streamed parts that are not confirmed.
    fn is_unconfirmed(&self) -> bool {
        !self.streamed.is_empty() || self.thoughts > 0
    }

    /// Adds to the content and reports the text.
    fn say(&mut self, text: &str, out: &mut Out) {
        if !text.is_empty() {
            self.content.push_str(text);
            out.event(Event::TextDelta {
                message_id: self.id.clone(),
                text: text.to_owned(),
            });
        }
    }

    /// Does the same as [`say`](Open::say) for text that may become the content without being copied.
    fn say_all(&mut self, text: Cow<'_, str>, out: &mut Out) {
        match text {
            Cow::Owned(text) if self.content.is_empty() && !text.is_empty() => {
                out.event(Event::TextDelta {
                    message_id: self.id.clone(),
                    text: text.clone(),
                });
                self.content = text;
            }
            text => self.say(&text, out),
        }
    }

    /// Ends the streamed text block. Half of a character whose other half never came is U+FFFD.
    fn end_text(&mut self, out: &mut Out) {
        if self.text.take().is_some_and(|joiner| joiner.waits()) {
            self.say("\u{FFFD}", out);
            if let Some(block) = self.streamed.back_mut() {
                block.end = self.content.len();
            }
        }
    }

    /// Replaces the range `block` with `text`; the ranges of later blocks are moved.
    fn replace(&mut self, block: Range<usize>, text: &str) {
        let (old, new) = (block.len(), text.len());
        self.content.replace_range(block, text);
        for later in &mut self.streamed {
            *later = later.start - old + new..later.end - old + new;
        }
    }
}

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
