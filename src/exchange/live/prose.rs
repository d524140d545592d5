//! The model's words in comparable form, to tell words that a caller has changed from words that an agent wrote down in its own
//! way.
//!
//! In: the texts of a model's messages. Out: whether they are the texts of an earlier time, as an agent rebuilds them: some left
//! out, one split over several messages, one repeated beside each of its calls, white space as the agent likes. Any other word is
//! a changed one.

use std::hash::Hash;

use super::fingerprint::{Fingerprint, print};
use dfp_text::prompt::is_js_space;

/// The model's texts between two messages of somebody else's.
#[derive(Debug, Clone, Default)]
pub struct Prose {
    /// The texts without white space, each as its length in bytes and its fingerprint.
    texts: Vec<(usize, Fingerprint)>,
    /// All texts joined, without white space; empty once they are only remembered.
    joined: String,
}

impl Prose {
    /// Adds a text; a blank one does not count.
    pub fn push(&mut self, text: &str) {
        let before = self.joined.len();
        self.joined.extend(text.chars().filter(|c| !is_js_space(*c)));
        let added = &self.joined[before..];
        if !added.is_empty() {
            self.texts.push((added.len(), print_of_text(added)));
        }
    }

    /// Adds all texts of `more`.
    pub fn append(&mut self, more: Prose) {
        self.texts.extend(more.texts);
        self.joined.push_str(&more.joined);
    }

    /// Returns whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The fingerprints of the texts alone: the part that is kept between calls is small, whatever a model writes.
    pub fn remembered(self) -> Prose {
        Prose {
            joined: String::new(),
            ..self
        }
    }

    /// Returns whether nothing is said here that was not said `then`, in the same order.
    pub fn repeats(&self, then: &Prose) -> bool {
        if self.is_empty() || self.texts == then.texts {
            return true;
        }
        let here = self.joined.as_str();
        // Marks each position up to which this may be composed of the texts so far.
        let mut is_end = vec![false; here.len() + 1];
        let mut ends = vec![0];
        for (len, print) in &then.texts {
            let mut at = 0;
            // The positions that are added are visited, too: a text may be repeated.
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
