//! Redacts secrets that come in pieces.
//!
//! In: events as JSON, in order. Out: the same events, redacted, in the same order and number. The pieces of a message
//! (`text_delta`, `thinking_delta`) may be harmless one by one and a key together. So a piece that may be the beginning of a secret
//! waits for the next ones, up to a limit. No other event waits.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;

use super::{Stamp, event_line};
use dfp_model::message::Lossy;
use dfp_text::redact::{Channel, REDACTED, Redactor};

/// The most bytes of all pieces that wait: more than any key has.
const MOST_HELD: usize = 16 * 1024;

/// Makes the log lines of one run, and holds back the pieces that wait.
#[derive(Debug)]
pub struct Lines {
    run: String,
    redactor: Redactor,
    /// The type of the pieces that wait.
    kind: String,
    held: Vec<DeltaPiece>,
    /// The last character of this type that was let go: a key can only begin where a word begins.
    context: String,
}

/// A piece of a message that waits: when it came, its event's JSON, and its text.
#[derive(Debug)]
struct DeltaPiece {
    stamp: Stamp,
    json: String,
    text: String,
}

/// The two fields of an event that matter here. They are borrowed as raw JSON, so that no other field can fail the reading.
#[derive(Deserialize)]
struct Seen<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    text: Option<&'a serde_json::value::RawValue>,
}

impl Lines {
    /// Starts the lines of the run `run`.
    pub fn new(run: String, redactor: Redactor) -> Lines {
        Lines {
            run,
            redactor,
            kind: String::new(),
            held: Vec::new(),
            context: String::new(),
        }
    }

    /// The redactor of the run's secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Takes an event. Lines that are ready are appended to `out`.
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
        self.held.push(DeltaPiece { stamp, json, text });
        let joined = self.joined();
        if joined.len() > MOST_HELD {
            return self.flush(out);
        }
        // Only whole pieces go, and none whose end may be the beginning of a secret.
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

    /// Appends the lines of all pieces that wait to `out`.
    pub fn flush(&mut self, out: &mut Vec<String>) {
        if self.held.is_empty() {
            return;
        }
        let joined = self.joined();
        let spans = self.redactor.spans_from(Channel::Record, &joined, self.context.len());
        self.release(self.held.len(), &joined, &spans, out);
    }

    /// Lets the first `count` pieces go. `joined` is the text of `context` and all pieces together, `spans` are the secrets in it.
    fn release(&mut self, count: usize, joined: &str, spans: &[Range<usize>], out: &mut Vec<String>) {
        let mut start = self.context.len();
        for piece in self.held.drain(..count) {
            let end = start + piece.text.len();
            let mut text = String::new();
            let mut from = start;
            // The replacement stands in the piece where the secret begins; the parts in other pieces are left out.
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

/// The type and text of an event that is a piece of a message; `None` for any other.
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

    /// The texts that were let go behind each of `pieces`, then those at the end.
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
        // The cut is inside the prefix by which a key is known.
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
