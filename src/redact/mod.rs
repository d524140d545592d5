//! What no text that leaves may hold, found and taken out. One table of rules (`rules`), and the values that one run must
//! keep to itself (`values`).
//!
//! In: text of an error, of a record or of an answer ([`Channel`]), whole or in pieces ([`StreamRedactor`]). Out: the same with
//! [`REDACTED`] in place of each secret. JSON is changed inside of its strings only, so what it holds beside secrets stays as
//! it was, byte for byte. Names of variables, schemes (`Bearer`) and hosts stay; a text that merely speaks of keys is none.

mod beginnings;
mod channel;
mod error;
mod json;
mod names;
mod plain;
mod rules;
mod secret;
mod stream;
mod values;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

pub use channel::{Channel, REDACTED};
pub use names::is_secret_name;
pub use plain::{is_invisible, one_line, plain};
pub use secret::Secret;
pub use stream::StreamRedactor;

use values::Values;

/// What is secret in one run: known shapes, and values that are known themselves. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    values: Arc<Values>,
}

impl Redactor {
    /// Knows the values of those variables of `env` whose names look secret, and `others` (API keys of options) that have 6
    /// bytes or more.
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

    /// What either knows.
    #[must_use]
    pub fn and(&self, other: &Redactor) -> Self {
        let all = self.values.plain().iter().chain(other.values.plain());
        Redactor {
            values: Arc::new(Values::new(all.map(String::as_str))),
        }
    }

    /// `text` of `channel` without secrets.
    pub fn redact<'t>(&self, channel: Channel, text: &'t str) -> Cow<'t, str> {
        replaced(text, &self.spans(channel, text))
    }

    /// Text of an error channel whose ends, and what stands before an ellipsis, may be cut: what is left there of a known
    /// value goes, too.
    pub fn redact_error<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut found = self.spans(Channel::Error, text);
        found.extend(self.values.at_cuts(text));
        replaced(text, &apart(found))
    }

    /// `text` without the known values of 6 bytes and more, and otherwise as it is: for what is still to be understood.
    pub fn redact_values<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let spans = self.values.spans(text, 0, Channel::Error.shortest_value()).collect();
        replaced(text, &apart(spans))
    }

    /// JSON text without the secrets in its strings.
    pub fn redact_json<'a>(&self, channel: Channel, json: &'a str) -> Cow<'a, str> {
        json::redacted(json, |text| self.redact(channel, text))
    }

    /// Where the secrets of `text` are: in order, apart from each other.
    pub fn spans(&self, channel: Channel, text: &str) -> Vec<Range<usize>> {
        self.spans_from(channel, text, 0)
    }

    /// [`Redactor::spans`] of what stands behind `from`; what is before is known, and over.
    pub fn spans_from(&self, channel: Channel, text: &str, from: usize) -> Vec<Range<usize>> {
        let shortest = channel.shortest_value();
        let mut found: Vec<_> = self.values.spans(text, from, shortest).collect();
        found.extend(self.values.most_at_end(text, from, shortest));
        rules::matches(channel, text, from, |_, secret| found.extend(secret));
        apart(found)
    }

    /// What is known of `text` behind `from`, to which more may be added.
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

    /// Whether anything could be taken out of `channel`'s texts at all.
    fn is_idle(&self, channel: Channel) -> bool {
        channel == Channel::Answer && self.values.is_empty(channel.shortest_value())
    }
}

/// What is known of a text to which more may be added.
#[derive(Debug)]
pub struct SoFar {
    /// Where its secrets are: in order, apart from each other.
    pub spans: Vec<Range<usize>>,
    /// What the rules have matched, secret or not.
    matches: Vec<Range<usize>>,
    /// Whatever is added, nothing changes about the text before this.
    settled: usize,
}

impl SoFar {
    /// Whether the text may be taken apart at `at`: nothing that is added changes what is before, and no rule needs what is
    /// before to understand what is behind.
    pub fn parts_at(&self, at: usize) -> bool {
        at <= self.settled && outside(at, &self.matches) == at
    }
}

/// `at`, or the beginning of the span that it stands in.
fn outside(at: usize, spans: &[Range<usize>]) -> usize {
    let inside = spans.iter().find(|span| span.start < at && at < span.end);
    inside.map_or(at, |span| span.start)
}

/// `found`, in order, with those that overlap made one.
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
