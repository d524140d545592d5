//! Finding tool calls that a model wrote into its text.
//!
//! In: an answer, whole ([`extract`]) or in pieces ([`Gate`]). Out: the calls, the calls that can't be read, and the text that
//! is left.
//!
//! [`TextCalls`] says which text is a call. `Lenient` takes every object with a non-empty `tool_calls` array at its top level
//! (SPEC-01), in a code block of any kind or none at all, however many there are. (SPEC-01's own search finds only the first
//! block, only if it says `json`, and breaks off at a fence within an argument.) The other modes take only the calls that an
//! answer ends with (`tail`): `Unquoted` those that nothing in the thread has brought, `Marked` those that
//! nobody but the model can have written. Both rules are in `own_calls`.
//!
//! The `scanner` reads the text as it arrives from an `Input`, and decides what of it is held back and what is taken out.

mod object;
mod own_calls;
mod scanner;
mod tail;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::prompt::{first_stop, is_js_space};
use dfp_model::message::{InvalidToolCall, ToolCall};
pub use own_calls::{ForeignTexts, Mark, Marked, Unquoted};
use scanner::Scanner;
use tail::{Hold, Rules};

/// The calls that a [`Gate`] has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calls {
    /// The calls, as in [`Extraction::tool_calls`].
    pub tool_calls: Vec<ToolCall>,
    /// The unreadable calls, as in [`Extraction::invalid`].
    pub invalid: Vec<InvalidToolCall>,
    /// The reason why text at the end of the answer that looks like calls is not taken for calls, if it may have been meant so.
    pub ignored: Option<String>,
}

impl Calls {
    /// Returns whether the answer is text only.
    pub fn is_empty(&self) -> bool {
        self.tool_calls.is_empty() && self.invalid.is_empty()
    }
}

/// The mode that decides which text of an answer is a call.
#[derive(Debug, Clone, Default)]
pub enum TextCalls {
    /// No text is: calls are native, no tools are bound, or the caller wants it so.
    #[default]
    Off,
    /// Blocks at the end of the answer that nothing in the thread has brought.
    Unquoted(Arc<Unquoted>),
    /// Blocks at the end of the answer in the form the prompt asked for, with its mark.
    Marked(Arc<Marked>),
    /// Everything that SPEC-01's `parseToolCalls` finds.
    Lenient,
}

impl TextCalls {
    /// Returns `text` without the calls in it and their code fences.
    pub fn remainder(&self, text: &str) -> String {
        let mut gate = Gate::new(self);
        let mut left = gate.push(text).unwrap_or_default();
        left.extend(gate.finish().0);
        left
    }
}

/// The calls of an answer, and the text without them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extraction {
    /// The calls in the order of the text. Those without an id are `call_0`, `call_1` … by their place in this list.
    pub tool_calls: Vec<ToolCall>,
    /// Calls that can't be read.
    pub invalid: Vec<InvalidToolCall>,
    /// The [`remainder`](Self::remainder), trimmed as SPEC-01 asks.
    pub content: String,
    /// The text without calls and their code fences. White space around what was taken out stays, unless the text begins or
    /// ends with it. Without calls it is the text, verbatim.
    pub remainder: String,
}

/// Takes the tool calls out of `text`, leniently. Linear in its length; nesting is not limited.
pub fn extract(text: &str) -> Extraction {
    let mut scanner = Scanner::new();
    scanner.push(text);
    let (
        Calls {
            mut tool_calls,
            invalid,
            ..
        },
        remainder,
    ) = finish(scanner);
    make_unique(&mut tool_calls, &mut TakenIds::default());
    Extraction {
        tool_calls,
        invalid,
        content: remainder.trim_matches(is_js_space).to_owned(),
        remainder,
    }
}

/// Returns the tool calls in `text`, as SPEC-01's `parseToolCalls` does.
pub fn parse_tool_calls(text: &str) -> Vec<ToolCall> {
    let mut scanner = Scanner::new();
    scanner.push(text);
    scanner.finish();
    let mut calls = scanner.found.tool_calls;
    make_unique(&mut calls, &mut TakenIds::default());
    calls
}

/// A filter that lets an arriving answer through as far as it is certainly not a tool call.
///
/// However the text is cut into deltas, the output, joined, is [`TextCalls::remainder`] of the whole.
#[derive(Debug)]
pub struct Gate(Way);

#[derive(Debug)]
enum Way {
    /// Everything passes as text.
    Open,
    End(Box<Hold>),
    Lenient(Box<Scanner>),
}

impl Way {
    fn end(rules: Arc<dyn Rules>) -> Way {
        Way::End(Box::new(Hold::new(rules)))
    }
}

impl Gate {
    /// Makes a gate for one answer.
    pub fn new(calls: &TextCalls) -> Self {
        Gate(match calls {
            TextCalls::Off => Way::Open,
            TextCalls::Unquoted(rules) => Way::end(Arc::clone(rules) as Arc<dyn Rules>),
            TextCalls::Marked(rules) => Way::end(Arc::clone(rules) as Arc<dyn Rules>),
            TextCalls::Lenient => Way::Lenient(Box::new(Scanner::new())),
        })
    }

    /// Takes the next piece of the answer and returns the text that may be shown, verbatim: text that is no part of a call, nor
    /// of white space that may turn out to precede one.
    pub fn push(&mut self, delta: &str) -> Option<String> {
        let text = match &mut self.0 {
            Way::Open => delta.to_owned(),
            Way::End(hold) => hold.push(delta),
            Way::Lenient(scanner) => {
                scanner.push(delta);
                scanner.input.show()
            }
        };
        (!text.is_empty()).then_some(text)
    }

    /// Does the same as [`push`](Gate::push) without returning the text; returns whether there was anything to show.
    pub fn pass(&mut self, delta: &str) -> bool {
        match &mut self.0 {
            Way::Open => !delta.is_empty(),
            Way::End(hold) => !hold.push(delta).is_empty(),
            Way::Lenient(scanner) => {
                scanner.push(delta);
                scanner.input.pass()
            }
        }
    }

    /// Completes the answer; returns the rest of the text to show, and all calls found. Text that was shown is not kept here,
    /// since that would be one more copy of an answer that may be long.
    pub fn finish(self) -> (Option<String>, Calls) {
        let (rest, calls) = match self.0 {
            Way::Open => (String::new(), Calls::default()),
            Way::End(hold) => hold.finish(),
            Way::Lenient(scanner) => {
                let (calls, rest) = finish(*scanner);
                (rest, calls)
            }
        };
        ((!rest.is_empty()).then_some(rest), calls)
    }
}

fn finish(mut scanner: Scanner) -> (Calls, String) {
    scanner.finish();
    let calls = Calls {
        tool_calls: scanner.found.tool_calls,
        invalid: scanner.found.invalid,
        ignored: None,
    };
    (calls, scanner.input.finish())
}

/// The ids that no new call may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenIds {
    ids: HashSet<String>,
    /// The number at which the search for a free suffix continues, per id: a model may give all of its calls the same id.
    next_suffix: HashMap<String, usize>,
}

impl TakenIds {
    /// Returns whether `id` is taken.
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

impl From<HashSet<String>> for TakenIds {
    fn from(ids: HashSet<String>) -> TakenIds {
        TakenIds {
            ids,
            next_suffix: HashMap::new(),
        }
    }
}

impl Extend<String> for TakenIds {
    fn extend<I: IntoIterator<Item = String>>(&mut self, ids: I) {
        self.ids.extend(ids);
    }
}

/// Makes the ids of `calls` unique, among themselves and against `taken`, and adds them to `taken`. The model's id is kept
/// unless it is a repetition; then it gets the first suffix that is free: `call_1` becomes `call_1_2`.
pub fn make_unique(calls: &mut [ToolCall], taken: &mut TakenIds) {
    let own: HashSet<String> = calls.iter().map(|call| call.id.clone()).collect();
    for call in calls {
        if taken.ids.contains(&call.id) {
            let suffix = taken.next_suffix.entry(call.id.clone()).or_insert(2);
            loop {
                let id = format!("{}_{suffix}", call.id);
                *suffix += 1;
                if !taken.ids.contains(&id) && !own.contains(&id) {
                    call.id = id;
                    break;
                }
            }
        }
        taken.ids.insert(call.id.clone());
    }
}

/// The text as it arrives, in three parts: looked at, held back, and left to show.
///
/// White space is shown only when text follows it. Next to a place where something was taken out, it is dropped if only such
/// places lie between it and the start or the end.
#[derive(Debug)]
struct Input {
    /// The text that was neither kept nor taken out yet.
    buffer: String,
    /// The offset of the next byte to look at.
    at: usize,
    /// The offset up to which the buffer was kept or taken out.
    done: usize,
    /// The offset from which the buffer is held back.
    mark: Option<usize>,
    /// True if only blanks precede the next byte on its line.
    blank: bool,
    /// The text that may be shown and was not fetched yet.
    text: String,
    /// True if there was anything to be shown before.
    shown: bool,
    /// The white space after `text`.
    space: String,
    /// True if something was taken out before, within or after `space`.
    touched: bool,
}

impl Input {
    fn new() -> Self {
        Input {
            buffer: String::new(),
            at: 0,
            done: 0,
            mark: None,
            blank: true,
            text: String::new(),
            shown: false,
            space: String::new(),
            touched: false,
        }
    }

    fn push(&mut self, piece: &str) {
        self.buffer.push_str(piece);
    }

    /// Keeps the text that was looked at and is not held back.
    fn settle(&mut self) {
        self.keep_up_to(self.mark.unwrap_or(self.at));
        self.buffer.drain(..self.done);
        self.at -= self.done;
        self.mark = self.mark.map(|mark| mark - self.done);
        self.done = 0;
    }

    /// Returns the text that may be shown and was not shown before.
    fn show(&mut self) -> String {
        self.shown |= !self.text.is_empty();
        std::mem::take(&mut self.text)
    }

    /// Does the same as [`show`](Input::show) without returning the text; returns whether there was any.
    fn pass(&mut self) -> bool {
        let any = !self.text.is_empty();
        self.shown |= any;
        self.text.clear();
        any
    }

    /// Ends the text; returns the rest that may be shown.
    fn finish(mut self) -> String {
        self.keep_up_to(self.buffer.len());
        if !self.touched {
            self.text.push_str(&self.space);
        }
        self.text
    }

    /// Returns the next byte.
    fn peek(&self) -> Option<u8> {
        self.buffer.as_bytes().get(self.at).copied()
    }

    /// Returns whether only blanks precede the next byte on its line.
    fn blank(&self) -> bool {
        self.blank
    }

    /// Advances past `byte`, which is the next.
    fn take(&mut self, byte: u8) {
        mark_line(byte, &mut self.blank);
        self.at += 1;
    }

    /// Advances to the next byte for which `stops` is true, and returns it. See [`first_stop`].
    fn skip_to(&mut self, stops: impl Fn(u8) -> bool) -> Option<u8> {
        let rest = &self.buffer.as_bytes()[self.at..];
        let length = first_stop(rest, stops);
        let decides = |byte: &&u8| !matches!(**byte, b' ' | b'\t' | b'\r');
        if let Some(byte) = rest[..length].iter().rev().find(decides) {
            self.blank = *byte == b'\n';
        }
        self.at += length;
        rest.get(length).copied()
    }

    /// The unread rest, for a reader that moves the position and updates `blank` itself.
    fn parts(&mut self) -> (&[u8], &mut usize, &mut bool) {
        (self.buffer.as_bytes(), &mut self.at, &mut self.blank)
    }

    /// Holds back the text from here on. Text that is held back already stays so.
    fn hold(&mut self) {
        self.mark.get_or_insert(self.at);
    }

    /// Keeps the held-back text as text.
    fn release(&mut self) {
        self.mark = None;
    }

    /// Takes the held-back text out.
    fn take_out(&mut self) {
        self.keep_up_to(self.mark.unwrap_or(self.at));
        self.done = self.at;
        self.mark = None;
        self.touched = true;
    }

    /// The distance of the next byte from the mark, bytes.
    fn offset(&self) -> usize {
        self.at - self.mark.unwrap_or(self.at)
    }

    /// The text looked at since `offset` from the mark.
    fn since(&self, offset: usize) -> &str {
        &self.buffer[self.mark.unwrap_or(self.at) + offset..self.at]
    }

    /// Goes `length` bytes back, to where `blank` had the given value. Only held-back text can be gone back over.
    fn back(&mut self, length: usize, blank: bool) {
        self.at -= length;
        self.blank = blank;
    }

    fn keep_up_to(&mut self, end: usize) {
        let piece = &self.buffer[self.done..end];
        let solid = piece.trim_end_matches(is_js_space);
        if !solid.is_empty() {
            // `text` is never white space only, unless the whole text so far was.
            if self.touched && self.text.is_empty() && !self.shown {
                self.text.push_str(solid.trim_start_matches(is_js_space));
            } else {
                self.text.push_str(&self.space);
                self.text.push_str(solid);
            }
            self.space.clear();
            self.touched = false;
        }
        self.space.push_str(&piece[solid.len()..]);
        self.done = end;
    }
}

/// Updates `blank`, whether only blanks precede on the line, for the advance past `byte`.
fn mark_line(byte: u8, blank: &mut bool) {
    match byte {
        b'\n' => *blank = true,
        b' ' | b'\t' | b'\r' => {}
        _ => *blank = false,
    }
}

#[cfg(test)]
mod tests;
