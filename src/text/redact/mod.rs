//! Finds secrets in texts that leave this process, and replaces them. There is one table of rules (`rules`), and the secret
//! values of one run (`values`).
//!
//! In: text of an error, of a record or of an answer ([`Channel`]), whole or in pieces ([`StreamRedactor`]). Out: the same with
//! [`REDACTED`] in place of each secret. JSON is changed only inside of its strings; the rest stays as it was, byte for byte.
//! Names of variables, schemes (`Bearer`) and hosts stay, and a text that merely speaks of keys is unchanged.

mod rules;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::value::RawValue;
use values::Values;

use crate::decode::lines::strip_ansi;
use dfp_model::error::{ProviderError, clip};
use dfp_model::event::{Event, Reply};

pub use values::is_secret_name;

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// The source of a text, which decides what is redacted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// A failure message of a CLI, a server or the system: here too much is redacted rather than too little.
    Error,
    /// Any other text that is written into a file: the model's text may look like a key, so only certain shapes count.
    Record,
    /// A model's answer: only long values of the request itself are redacted, which no ordinary text contains.
    Answer,
}

impl Channel {
    /// The length of the shortest value that is redacted, bytes. Servers without keys are sent `EMPTY` or `none`, and a model
    /// may well say `lm-studio` or `not-needed`.
    fn shortest_value(self) -> usize {
        match self {
            Channel::Error => 6,
            Channel::Record => 8,
            Channel::Answer => 16,
        }
    }
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Returns the text. Use it only for the header of a request.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// The secrets of one run: known shapes, and known values. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    values: Arc<Values>,
}

impl Redactor {
    /// Makes a redactor that knows the values of those variables of `env` whose names look secret, and `others` (API keys of
    /// options) that have 6 bytes or more.
    pub fn new<'a>(
        env: impl IntoIterator<Item = (&'a str, &'a str)>,
        others: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let of_env = env
            .into_iter()
            .filter(|(name, value)| is_secret_name(name) && values::is_secret_value(value))
            .map(|(_, value)| value);
        Redactor {
            values: Arc::new(Values::new(of_env.chain(others))),
        }
    }

    /// Makes a redactor that knows the values of both.
    #[must_use]
    pub fn and(&self, other: &Redactor) -> Self {
        let all = self.values.plain().iter().chain(other.values.plain());
        Redactor {
            values: Arc::new(Values::new(all.map(String::as_str))),
        }
    }

    /// Returns the `text` of `channel` without secrets.
    pub fn redact<'t>(&self, channel: Channel, text: &'t str) -> Cow<'t, str> {
        replaced(text, &self.spans(channel, text))
    }

    /// Redacts text of an error channel that may be cut at its ends and at an ellipsis: a known value is redacted there even if
    /// only part of it is left.
    pub fn redact_error<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut found = self.spans(Channel::Error, text);
        found.extend(self.values.at_cuts(text));
        replaced(text, &apart(found))
    }

    /// Redacts only the known values of 6 bytes and more, and leaves the rest unchanged: for text that is still to be parsed.
    pub fn redact_values<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let spans = self.values.spans(text, 0, Channel::Error.shortest_value()).collect();
        replaced(text, &apart(spans))
    }

    /// Returns the JSON text without the secrets in its strings.
    pub fn redact_json<'a>(&self, channel: Channel, json: &'a str) -> Cow<'a, str> {
        with_strings_redacted(json, |text| self.redact(channel, text))
    }

    /// The ranges of the secrets in `text`, in order and without overlaps.
    pub fn spans(&self, channel: Channel, text: &str) -> Vec<Range<usize>> {
        self.spans_from(channel, text, 0)
    }

    /// The ranges of the secrets behind `from`; the text before is known already.
    pub fn spans_from(&self, channel: Channel, text: &str, from: usize) -> Vec<Range<usize>> {
        let shortest = channel.shortest_value();
        let mut found: Vec<_> = self.values.spans(text, from, shortest).collect();
        found.extend(self.values.most_at_end(text, from, shortest));
        rules::matches(channel, text, from, |_, secret| found.extend(secret));
        apart(found)
    }

    /// The state of `text` behind `from`, to which more may be added.
    pub fn so_far(&self, channel: Channel, text: &str, from: usize) -> SoFar {
        let shortest = channel.shortest_value();
        let mut spans: Vec<_> = self.values.spans(text, from, shortest).collect();
        let mut matches = spans.clone();
        rules::matches(channel, text, from, |whole, secret| {
            matches.push(whole);
            spans.extend(secret);
        });
        let matches = apart(matches);
        let begun = self
            .values
            .begun(text, from, shortest)
            .min(rules::begun(channel, text, from));
        SoFar {
            spans: apart(spans),
            settled: outside(begun, &matches),
            matches,
        }
    }

    /// Returns whether nothing can be redacted in `channel`'s texts.
    fn is_idle(&self, channel: Channel) -> bool {
        channel == Channel::Answer && self.values.is_empty(channel.shortest_value())
    }
}

/// The state of a text to which more may be added.
#[derive(Debug)]
pub struct SoFar {
    /// The ranges of its secrets, in order and without overlaps.
    pub spans: Vec<Range<usize>>,
    /// The ranges that rules have matched, secret or not.
    matches: Vec<Range<usize>>,
    /// The offset before which later additions change nothing.
    settled: usize,
}

impl SoFar {
    /// Returns whether the text may be divided at `at`: later additions don't change the text before, and no rule needs the
    /// text before to judge the text behind.
    pub fn parts_at(&self, at: usize) -> bool {
        at <= self.settled && outside(at, &self.matches) == at
    }
}

/// Returns `at`, or the beginning of the span that `at` lies within.
fn outside(at: usize, spans: &[Range<usize>]) -> usize {
    let inside = spans.iter().find(|span| span.start < at && at < span.end);
    inside.map_or(at, |span| span.start)
}

/// Sorts `found` and merges the ranges that overlap.
fn apart(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|span| (span.start, span.end));
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for span in found {
        match apart.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => apart.push(span),
        }
    }
    apart
}

fn replaced<'t>(text: &'t str, spans: &[Range<usize>]) -> Cow<'t, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        clean.push_str(&text[from..span.start]);
        clean.push_str(REDACTED);
        from = span.end;
    }
    clean.push_str(&text[from..]);
    Cow::Owned(clean)
}

// JSON: its strings are changed, and nothing else.

/// Applies `redact` to each string of `json`.
fn with_strings_redacted<'a>(json: &'a str, redact: impl Fn(&str) -> Cow<'_, str>) -> Cow<'a, str> {
    let mut clean = String::new();
    let mut from = 0;
    for literal in strings(json) {
        let Some(text) = unquoted(&json[literal.clone()]) else {
            continue;
        };
        let Cow::Owned(redacted) = redact(&text) else {
            continue;
        };
        clean.push_str(&json[from..literal.start]);
        clean.push_str(&serde_json::Value::from(redacted).to_string());
        from = literal.end;
    }
    if from == 0 {
        return Cow::Borrowed(json);
    }
    clean.push_str(&json[from..]);
    Cow::Owned(clean)
}

/// The string literals of JSON text, quotes included.
fn strings(json: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', bytes.get(at..)?)?;
        let mut end = start + 1;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        at = end + 1;
        Some(start..at)
    })
}

/// The text of a string literal. One without escapes is borrowed; lone surrogates become U+FFFD.
fn unquoted(literal: &str) -> Option<Cow<'_, str>> {
    let inside = literal.get(1..literal.len() - 1)?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str::<dfp_model::message::Lossy>(literal)
        .ok()
        .map(|text| Cow::Owned(text.0))
}

// Text that comes in pieces.

/// Bytes; from this length on the held-back text is looked at again only when it has grown by a quarter. Otherwise a long run
/// of small pieces would take time by the square of its length.
const LONG: usize = 4096;

/// A redactor for a text that comes in pieces: text that may be, or become, part of a secret is held back until that is
/// decided. The outputs, joined, equal the result of [`Redactor::redact`] for the whole text.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    channel: Channel,
    /// The end of the text that went out, one character at most, and the text that is held back.
    held: String,
    /// The bytes of `held` that went out.
    out: usize,
    /// The length of `held` when it was last looked at.
    looked: usize,
}

impl Default for StreamRedactor {
    /// Makes a redactor without known values, for an answer: it redacts nothing.
    fn default() -> StreamRedactor {
        StreamRedactor::new(Redactor::default(), Channel::Answer)
    }
}

impl StreamRedactor {
    /// Makes a redactor for one text of `channel`.
    pub fn new(redactor: Redactor, channel: Channel) -> StreamRedactor {
        StreamRedactor {
            redactor,
            channel,
            held: String::new(),
            out: 0,
            looked: 0,
        }
    }

    /// Takes the next piece; returns the text that may be shown.
    pub fn push<'t>(&mut self, piece: &'t str) -> Cow<'t, str> {
        if self.redactor.is_idle(self.channel) {
            return Cow::Borrowed(piece);
        }
        self.held.push_str(piece);
        if self.held.len() > LONG && self.held.len() < self.looked + self.looked / 4 {
            return Cow::Borrowed("");
        }
        let so_far = self.redactor.so_far(self.channel, &self.held, self.out);
        let settled = so_far.settled.max(self.out);
        let spans: Vec<_> = so_far.spans.into_iter().filter(|span| span.end <= settled).collect();
        let shown = replaced(&self.held[..settled], &spans)[self.out..].to_owned();
        let context = self.held[..settled].chars().next_back().map_or(0, char::len_utf8);
        self.held.drain(..settled - context);
        self.out = context;
        self.looked = self.held.len();
        Cow::Owned(shown)
    }

    /// Does the same as [`StreamRedactor::push`] for text that may hold lone surrogates, which WTF-8 encodes as if they were
    /// characters: no secret contains one or goes on behind one.
    pub fn push_wtf8<'t>(&mut self, piece: Cow<'t, [u8]>) -> Cow<'t, [u8]> {
        if self.redactor.is_idle(self.channel) {
            return piece;
        }
        let mut shown = Vec::with_capacity(piece.len());
        for chunk in piece.utf8_chunks() {
            shown.extend_from_slice(self.push(chunk.valid()).as_bytes());
            if !chunk.invalid().is_empty() {
                shown.extend_from_slice(self.finish().as_bytes());
                shown.extend_from_slice(chunk.invalid());
            }
        }
        Cow::Owned(shown)
    }

    /// Ends the text; returns the part that was held back, without secrets.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let out = std::mem::take(&mut self.out);
        self.looked = 0;
        let spans = self.redactor.spans_from(self.channel, &held, out);
        replaced(&held, &spans)[out..].to_owned()
    }
}

// Errors, events and replies before they leave. The model's own text and calls stay unchanged: they are the answer.

impl Redactor {
    /// Redacts everything in an error except the model's part of it (`partial`).
    pub fn clean_error(&self, error: &mut ProviderError) {
        self.clean_message(&mut error.message);
        for reason in &mut error.reasons {
            self.clean_message(&mut reason.message);
        }
        for problem in &mut error.problems {
            self.clean_message(&mut problem.message);
        }
        if let Some(hint) = &mut error.hint {
            self.clean_message(hint);
        }
        for tail in [&mut error.stdout_tail, &mut error.stderr_tail].into_iter().flatten() {
            replace(tail, |tail| self.redact_error(tail));
        }
    }

    /// Redacts an event that is about the run, not one with the model's text.
    pub fn clean_event(&self, event: &mut Event) {
        match event {
            Event::Warning { message, .. } => replace(message, |text| self.redact_error(text)),
            Event::Retry { reason, .. } | Event::Waiting { reason, .. } => self.clean_message(reason),
            Event::RateLimit { status, limit_type, .. } => {
                replace(status, |text| self.redact_error(text));
                if let Some(limit_type) = limit_type {
                    replace(limit_type, |text| self.redact_error(text));
                }
            }
            Event::Other { raw, .. } => {
                if let Cow::Owned(clean) = self.redact_json(Channel::Record, raw.get())
                    && let Ok(clean) = RawValue::from_string(clean)
                {
                    *raw = clean;
                }
            }
            Event::Done { reply } => self.clean_reply(reply),
            _ => {}
        }
    }

    /// Returns whether [`Redactor::clean_event`] looks at events like this one.
    pub fn concerns(event: &Event) -> bool {
        match event {
            Event::Done { reply } => !reply.diagnostics.is_empty() || reply.cache_miss.is_some(),
            Event::Warning { .. }
            | Event::Retry { .. }
            | Event::Waiting { .. }
            | Event::RateLimit { .. }
            | Event::Other { .. } => true,
            _ => false,
        }
    }

    /// Redacts what a reply has of the CLI's words that are no part of the answer: its diagnostics, and what it says of the cache.
    pub fn clean_reply(&self, reply: &mut Reply) {
        for line in reply.diagnostics.iter_mut().chain(&mut reply.cache_miss) {
            replace(line, |line| self.redact_error(line));
        }
    }

    /// Redacts an error's message. A message is our own or has been through [`one_line`]: the shapes that only foreign
    /// text needs would redact words of our own. It may have been cut since.
    fn clean_message(&self, message: &mut String) {
        let mut found = self.spans(Channel::Record, message);
        found.extend(self.values.spans(message, 0, Channel::Error.shortest_value()));
        found.extend(self.values.at_cuts(message));
        replace(message, |text| replaced(text, &apart(found)));
        if message.chars().count() > ProviderError::MESSAGE_LIMIT {
            *message = clip(message, ProviderError::MESSAGE_LIMIT);
        }
    }
}

fn replace(text: &mut String, redact: impl FnOnce(&str) -> Cow<'_, str>) {
    if let Cow::Owned(clean) = redact(text) {
        *text = clean;
    }
}

// Foreign text that is fit to show: without escape sequences, control characters and invisible characters.

/// Returns the text without escape sequences, control characters and invisible characters; line breaks stay.
pub fn plain(text: &str) -> String {
    strip_ansi(text)
        .chars()
        .filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c)))
        .collect()
}

/// Returns one line for people: plain, with white space collapsed and secrets of known shapes redacted, at most
/// [`ProviderError::MESSAGE_LIMIT`] characters.
pub fn one_line(text: &str) -> String {
    let line = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let line = Redactor::default().redact(Channel::Error, &line).into_owned();
    clip(&line, ProviderError::MESSAGE_LIMIT)
}

/// Returns whether a character takes no room or changes the direction of the text behind it: it hides in a text and changes how
/// that reads.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests;
