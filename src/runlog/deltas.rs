//! Secrets that come in pieces.
//!
//! In: events as JSON, in order. Out: the same, redacted, in the same order and number. The pieces of a message
//! (`text_delta`, `thinking_delta`) may each be harmless and a key together: a piece that may be the beginning of a secret
//! waits for the next ones, as long as it may. Nothing else waits.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::secrets::{REDACTED, Secrets};
use super::{Stamp, event_line};
use crate::message::Lossy;

/// Pieces that wait hold no more than this together, in bytes: longer than any key.
const MOST_HELD: usize = 16 * 1024;

/// What went out before stays in mind so far, in bytes, for what it began.
const CONTEXT: usize = 64;

/// The lines of one run, with what waits.
#[derive(Debug)]
pub struct Lines {
    run: String,
    secrets: Secrets,
    /// The kind of the pieces that come.
    kind: String,
    held: Vec<Piece>,
    /// The end of what went out of the same kind.
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
    pub fn new(run: String, secrets: Secrets) -> Lines {
        Lines {
            run,
            secrets,
            kind: String::new(),
            held: Vec::new(),
            context: String::new(),
        }
    }

    /// What the run holds secret.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
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
            out.push(event_line(&self.run, stamp, &self.secrets.redact_json(&json)));
            return;
        };
        if kind != self.kind {
            self.flush(out);
            self.context.clear();
            self.kind = kind;
        }
        self.held.push(Piece { stamp, json, text });
        let joined = self.joined();
        if joined.len() > MOST_HELD || self.secrets.begun(&joined).is_none() {
            self.flush(out);
        }
    }

    /// Lets go what waits.
    pub fn flush(&mut self, out: &mut Vec<String>) {
        if self.held.is_empty() {
            return;
        }
        let joined = self.joined();
        let spans = self.secrets.spans(&joined);
        let mut start = self.context.len();
        for piece in self.held.drain(..) {
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
            let json = self.secrets.redact_json(&piece.json);
            let json = if text == piece.text {
                json
            } else {
                with_text(json, text)
            };
            out.push(event_line(&self.run, piece.stamp, &json));
            start = end;
        }
        let mut keep = joined.len().saturating_sub(CONTEXT);
        while !joined.is_char_boundary(keep) {
            keep += 1;
        }
        self.context = joined[keep..].to_owned();
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
    fn told(pieces: &[&str], secrets: Secrets) -> Vec<Vec<String>> {
        let mut lines = Lines::new("r".to_owned(), secrets);
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
        let steps = told(&["Hello", " is", " sk", " \n"], Secrets::default());
        assert_eq!(steps, [vec!["Hello"], vec![" is"], vec![" sk"], vec![" \n"], vec![]]);
    }

    #[test]
    fn a_key_in_pieces_goes() {
        let steps = told(&["use sk-a", "nt-api03-", "abcd", " now"], Secrets::default());
        assert_eq!(
            steps,
            [vec![], vec![], vec![], vec!["use [REDACTED]", "", "", " now"], vec![]]
        );
        // The cut is inside of what tells a key.
        let steps = told(&["use s", "k-ant-api03-", "abcd", "."], Secrets::default());
        assert_eq!(
            steps,
            [vec!["use s"], vec![], vec![], vec!["[REDACTED]", "", "."], vec![]]
        );
        let secrets = Secrets::new([("MY_KEY", "correct horse battery")], []);
        let steps = told(&["say corr", "ect horse bat", "tery, please"], secrets);
        assert_eq!(steps, [vec![], vec![], vec!["say [REDACTED]", "", ", please"], vec![]]);
    }

    #[test]
    fn what_only_looked_like_one_comes_as_it_was() {
        let steps = told(&["sk-", "i resort"], Secrets::default());
        assert_eq!(steps, [vec![], vec!["sk-", "i resort"], vec![]]);
        assert_eq!(told(&["eyJ"], Secrets::default()), [vec![], vec!["eyJ"]]);
    }

    #[test]
    fn any_other_event_ends_the_waiting() {
        let mut lines = Lines::new("r".to_owned(), Secrets::default());
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
            let steps = told(&pieces, Secrets::default());
            proptest::prop_assert_eq!(steps.iter().flatten().count(), pieces.len());
            let all: String = steps.concat().concat();
            proptest::prop_assert!(!all.contains("0123456789") && !all.contains("api03"), "{}", all);
            proptest::prop_assert!(all.ends_with("[REDACTED] and after"), "{}", all);
        }
    }
}
