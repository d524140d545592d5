//! Finds secrets in texts that leave this process, and replaces them. There is one table of rules (`rules`), and the secret
//! values of one run (`values`).
//!
//! In: text of an error, of a record or of an answer ([`Channel`]), whole or in pieces ([`StreamRedactor`]). Out: the same with
//! [`REDACTED`] in place of each secret. JSON is changed only inside of its strings; the rest stays as it was, byte for byte.
//! Names of variables, schemes (`Bearer`) and hosts stay, and a text that merely speaks of keys is unchanged.

mod beginnings;
mod error;
mod json;
mod names;
mod plain;
mod rules;
mod stream;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use names::is_secret_name;
pub use plain::{is_invisible, one_line, plain};
pub use stream::StreamRedactor;

use values::Values;

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
            .filter(|(name, value)| is_secret_name(name) && names::is_secret_value(value))
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
        json::redacted(json, |text| self.redact(channel, text))
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

#[cfg(test)]
mod tests;
