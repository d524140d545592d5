//! Secrets that come in pieces.
//!
//! In: events as JSON, in order. Out: the same, redacted, in the same order and number. The pieces of a message
//! (`text_delta`, `thinking_delta`) may each be harmless and a key together: a piece that may be the beginning of a secret
//! waits for the next ones, as long as it may. Nothing else waits.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;

use super::{Stamp, event_line};
use crate::message::Lossy;
use crate::redact::{Channel, REDACTED, Redactor};

/// Pieces that wait hold no more than this together, in bytes: longer than any key.
const MOST_HELD: usize = 16 * 1024;

/// The lines of one run, with what waits.
#[derive(Debug)]
pub struct Lines {
    run: String,
    redactor: Redactor,
    /// The kind of the pieces that come.
    kind: String,
    held: Vec<Piece>,
    /// The last character that went out of the same kind: a key begins where a word begins.
    context: String,
}

#[derive(Debug)]
struct Piece {
    stamp: Stamp,
    json: String,
    text: String,
}

/// What is looked at of an event. Borrowed pieces of JSON, so that nothing in it can be wrong.
#[derive(Deserialize)]
struct Seen<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    text: Option<&'a serde_json::value::RawValue>,
}

impl Lines {
    /// Of the run `run`.
    pub fn new(run: String, redactor: Redactor) -> Lines {
        Lines {
            run,
            redactor,
            kind: String::new(),
            held: Vec::new(),
            context: String::new(),
        }
    }

    /// What takes the run's secrets out.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Takes an event; the lines that are ready go to `out`.
    pub fn push(&mut self, stamp: Stamp, json: String, out: &mut Vec<String>) {
        let Some((kind, text)) = delta(&json) else {
            self.flush(out);
            self.context.clear();
            out.push(event_line(
                &self.run,
                stamp,
                &self.redactor.redact_json(Channel::Record, &json),
            ));
            return;
        };
        if kind != self.kind {
            self.flush(out);
            self.context.clear();
            self.kind = kind;
        }
        self.held.push(Piece { stamp, json, text });
        let joined = self.joined();
        if joined.len() > MOST_HELD {
            return self.flush(out);
        }
        // Whole pieces only, and none that a secret goes on behind.
        let so_far = self.redactor.so_far(Channel::Record, &joined, self.context.len());
        let mut ends = Vec::with_capacity(self.held.len());
        let mut end = self.context.len();
        for piece in &self.held {
            end += piece.text.len();
            ends.push(end);
        }
        let ready = ends.iter().rposition(|end| so_far.parts_at(*end));
        if let Some(last) = ready {
            self.release(last + 1, &joined, &so_far.spans, out);
        }
    }

    /// Lets go what waits.
    pub fn flush(&mut self, out: &mut Vec<String>) {
        if self.held.is_empty() {
            return;
        }
        let joined = self.joined();
        let spans = self.redactor.spans_from(Channel::Record, &joined, self.context.len());
        self.release(self.held.len(), &joined, &spans, out);
    }

    /// Lets the first `count` pieces go, of which `joined` is the text with what is in mind, and `spans` its secrets.
    fn release(&mut self, count: usize, joined: &str, spans: &[Range<usize>], out: &mut Vec<String>) {
        let mut start = self.context.len();
        for piece in self.held.drain(..count) {
            let end = start + piece.text.len();
            let mut text = String::new();
            let mut from = start;
            // A secret stands where it begins; what other pieces have of it goes.
            for span in spans.iter().filter(|span| span.end > start && span.start < end) {
                text.push_str(&joined[from..span.start.max(from)]);
                if span.start >= start || start == self.context.len() {
                    text.push_str(REDACTED);
                }
                from = span.end.min(end);
            }
            text.push_str(&joined[from..end]);
            let json = self.redactor.redact_json(Channel::Record, &piece.json);
            let json = if text == piece.text {
                json
            } else {
                with_text(json, text)
            };
            out.push(event_line(&self.run, piece.stamp, &json));
            start = end;
        }
        self.context = joined[..start].chars().next_back().into_iter().collect();
    }

    fn joined(&self) -> String {
        let pieces = self.held.iter().map(|piece| piece.text.as_str());
        std::iter::once(self.context.as_str()).chain(pieces).collect()
    }
}

/// Which kind of piece an event is, and its text.
fn delta(json: &str) -> Option<(String, String)> {
    let seen: Seen = serde_json::from_str(json).ok()?;
    let read = |raw: &serde_json::value::RawValue| serde_json::from_str::<Lossy>(raw.get()).ok().map(|text| text.0);
    let kind = read(seen.kind?)?;
    let text = kind.ends_with("_delta").then_some(seen.text?)?;
    Some((kind, read(text)?))
}

fn with_text(json: Cow<'_, str>, text: String) -> Cow<'_, str> {
    match serde_json::from_str::<Value>(&json) {
        Ok(Value::Object(mut event)) => {
            event.insert("text".to_owned(), Value::from(text));
            Cow::Owned(Value::Object(event).to_string())
        }
        _ => json,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What becomes of `pieces`: after each of them the texts that went out, then those at the end.
    fn written(pieces: &[&str], redactor: Redactor) -> Vec<Vec<String>> {
        let mut lines = Lines::new("r".to_owned(), redactor);
        let text = |line: String| {
            serde_json::from_str::<Value>(&line).unwrap()["event"]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let mut steps = Vec::new();
        for (t, piece) in pieces.iter().enumerate() {
            let mut out = Vec::new();
            let stamp = Stamp { at: 1, t: t as u64 };
            lines.push(
                stamp,
                json!({"type": "text_delta", "text": piece}).to_string(),
                &mut out,
            );
            steps.push(out.into_iter().map(text).collect());
        }
        let mut out = Vec::new();
        lines.flush(&mut out);
        steps.push(out.into_iter().map(text).collect());
        steps
    }

    #[test]
    fn pieces_that_begin_nothing_go_at_once() {
        let steps = written(&["Hello", " is", " sk", " \n"], Redactor::default());
        assert_eq!(steps, [vec!["Hello"], vec![" is"], vec![], vec![" sk", " \n"], vec![]]);
    }

    #[test]
    fn a_key_in_pieces_goes() {
        let steps = written(&["use sk-a", "nt-api03-", "abcd", " now"], Redactor::default());
        assert_eq!(
            steps,
            [vec![], vec![], vec![], vec!["use [redacted]", "", "", " now"], vec![]]
        );
        // The cut is inside of what tells a key.
        let steps = written(&["use s", "k-ant-api03-", "abcd", "."], Redactor::default());
        assert_eq!(
            steps,
            [vec![], vec![], vec![], vec!["use [redacted]", "", "", "."], vec![]]
        );
        let redactor = Redactor::new([("MY_KEY", "correct horse battery")], []);
        let steps = written(&["say corr", "ect horse bat", "tery, please"], redactor);
        assert_eq!(steps, [vec![], vec![], vec!["say [redacted]", "", ", please"], vec![]]);
    }

    #[test]
    fn what_only_looked_like_one_comes_as_it_was() {
        let steps = written(&["sk-", "i resort"], Redactor::default());
        assert_eq!(steps, [vec![], vec!["sk-", "i resort"], vec![]]);
        assert_eq!(written(&["eyJ"], Redactor::default()), [vec![], vec!["eyJ"]]);
    }

    #[test]
    fn any_other_event_ends_the_waiting() {
        let mut lines = Lines::new("r".to_owned(), Redactor::default());
        let mut out = Vec::new();
        let stamp = Stamp { at: 7, t: 3 };
        lines.push(stamp, r#"{"type":"text_delta","text":"sk-ant-"}"#.to_owned(), &mut out);
        assert!(out.is_empty());
        lines.push(
            stamp,
            r#"{"type":"tool_call","toolCall":{"args":{"n":1.0}}}"#.to_owned(),
            &mut out,
        );
        assert_eq!(
            out,
            [
                r#"{"at":7,"t":3,"run":"r","event":{"type":"text_delta","text":"sk-ant-"}}"#,
                r#"{"at":7,"t":3,"run":"r","event":{"type":"tool_call","toolCall":{"args":{"n":1.0}}}}"#,
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn however_it_is_cut_no_key_gets_through(cuts in proptest::collection::vec(1usize..9, 1..20), before in "[a-z .]{0,12}") {
            let key = "sk-ant-api03-0123456789";
            let text = format!("{before} {key} and after");
            let mut pieces = Vec::new();
            let mut rest = text.as_str();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            let steps = written(&pieces, Redactor::default());
            proptest::prop_assert_eq!(steps.iter().flatten().count(), pieces.len());
            let all: String = steps.concat().concat();
            proptest::prop_assert!(!all.contains("0123456789") && !all.contains("api03"), "{}", all);
            proptest::prop_assert!(all.ends_with("[redacted] and after"), "{}", all);
        }
    }
}
