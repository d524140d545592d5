//! What the model said, in an order of its own: to tell words that a caller has changed from words that it wrote down in its way.
//!
//! In: the texts of a model's messages. Out: whether they are those of another time, as an agent rebuilds them: some left out, one split
//! over several messages, one repeated beside each of its calls, white space as it likes. Any other word is a changed one.

use std::hash::Hash;

use super::fingerprint::{Fingerprint, print};
use crate::prompt::is_js_space;

/// The texts between two messages of somebody else's.
#[derive(Debug, Clone, Default)]
pub struct Prose {
    /// Each of them without white space: its bytes, and its fingerprint.
    texts: Vec<(usize, Fingerprint)>,
    /// All of them, without white space; empty once they are only remembered.
    joined: String,
}

impl Prose {
    /// One more text; a blank one is none.
    pub fn push(&mut self, text: &str) {
        let before = self.joined.len();
        self.joined.extend(text.chars().filter(|c| !is_js_space(*c)));
        let added = &self.joined[before..];
        if !added.is_empty() {
            self.texts.push((added.len(), print_of_text(added)));
        }
    }

    /// All of `more` behind it.
    pub fn append(&mut self, more: Prose) {
        self.texts.extend(more.texts);
        self.joined.push_str(&more.joined);
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The same with its texts' fingerprints alone: what is kept between calls is small, whatever a model writes.
    pub fn remembered(self) -> Prose {
        Prose {
            joined: String::new(),
            ..self
        }
    }

    /// Whether nothing is said here that was not said `then`, in that order.
    pub fn repeats(&self, then: &Prose) -> bool {
        if self.is_empty() || self.texts == then.texts {
            return true;
        }
        let here = self.joined.as_str();
        // How far this may be made of the texts so far.
        let mut is_end = vec![false; here.len() + 1];
        let mut ends = vec![0];
        for (len, print) in &then.texts {
            let mut at = 0;
            // Those that are added are looked at, too: a text may come again.
            while let Some(begin) = ends.get(at) {
                let end = begin + len;
                let is_next = |text: &str| print_of_text(text) == *print;
                if is_end.get(end) == Some(&false) && here.get(*begin..end).is_some_and(is_next) {
                    is_end[end] = true;
                    ends.push(end);
                }
                at += 1;
            }
        }
        is_end[here.len()]
    }
}

fn print_of_text(text: &str) -> Fingerprint {
    print(|state| text.hash(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(texts: &[&str]) -> Prose {
        let mut prose = Prose::default();
        texts.iter().for_each(|text| prose.push(text));
        prose
    }

    #[test]
    fn words_are_the_same_however_they_are_written_down() {
        let then = prose(&["Let me", " ", "Let me see.", "Ünd nöw?"]).remembered();
        for same in [
            &["Let me", "Let me see.", "Ünd nöw?"][..],
            &[],
            &["\n Let me\tsee. "],
            &["Let", "me see.", "Ünd", "nöw?"],
            &["Let me see.", "Let me see.", "Ünd nöw?"],
            &["Let me\n\nÜnd nöw?"],
        ] {
            assert!(prose(same).repeats(&then), "{same:?}");
        }
        for other in [
            &["Let me see!"][..],
            &["Let me see"],
            &["let me see."],
            &["Ünd nöw?", "Let me see."],
            &["Let me see.", "and more"],
            &["Und now?"],
        ] {
            assert!(!prose(other).repeats(&then), "{other:?}");
        }
        assert!(!prose(&["x"]).repeats(&Prose::default()));
    }
}
