//! What nobody may read: keys, held so that they can't be printed, and taken out of what a server sends back.

use std::borrow::Cow;
use std::fmt;

/// What stands in a secret's place.
const REDACTED: &str = "[redacted]";

/// In an error, a text of this many bytes is taken for a secret: shorter ones (`EMPTY`, `none`) are what servers without keys
/// are given.
const IN_ERRORS: usize = 6;

/// In an answer, only what no ordinary text holds: `lm-studio` and `not-needed` are words that a model may say.
const IN_ANSWERS: usize = 16;

/// A text that `Debug` doesn't show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Holds `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text: for the request's header alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// All secrets of one request.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Those of `texts` that are long enough to be secrets.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Secrets {
        let mut texts: Vec<String> = texts
            .filter(|text| text.len() >= IN_ERRORS)
            .map(str::to_owned)
            .collect();
        // The longest first: one may be part of another.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Secrets(texts)
    }

    /// The secrets themselves: for those who take them out of something else.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// `text` of an error without any secret.
    pub fn out_of_error<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.out_of(text, IN_ERRORS)
    }

    /// `text` of an answer without any secret.
    pub fn out_of_answer<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.out_of(text, IN_ANSWERS)
    }

    fn out_of<'t>(&self, text: &'t str, least: usize) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for secret in self.0.iter().filter(|secret| secret.len() >= least) {
            if text.contains(secret.as_str()) {
                text = Cow::Owned(text.replace(secret.as_str(), REDACTED));
            }
        }
        text
    }
}

/// Takes secrets out of a text that comes in pieces: what may be the beginning of one is held back until it is known.
#[derive(Debug, Default)]
pub struct Veil {
    secrets: Secrets,
    /// WTF-8, as the pieces are; a secret is ASCII.
    held: Vec<u8>,
}

impl Veil {
    /// A veil over these secrets, as far as they are taken out of answers.
    pub fn new(secrets: &Secrets) -> Veil {
        let long = secrets.0.iter().filter(|secret| secret.len() >= IN_ANSWERS);
        Veil {
            secrets: Secrets(long.cloned().collect()),
            held: Vec::new(),
        }
    }

    /// Takes the next piece; gives what may be shown.
    pub fn push<'t>(&mut self, piece: Cow<'t, [u8]>) -> Cow<'t, [u8]> {
        if self.secrets.0.is_empty() {
            return piece;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&piece);
        for secret in &self.secrets.0 {
            while let Some(at) = memchr::memmem::find(&text, secret.as_bytes()) {
                text.splice(at..at + secret.len(), REDACTED.bytes());
            }
        }
        let begins = |held: &usize| {
            let end = &text[text.len() - held..];
            self.secrets.0.iter().any(|secret| secret.as_bytes().starts_with(end))
        };
        let longest = self.secrets.0.first().map_or(0, String::len).min(text.len());
        let held = (1..=longest).rev().find(begins).unwrap_or(0);
        self.held = text.split_off(text.len() - held);
        Cow::Owned(text)
    }

    /// Nothing follows: what was held back. Most of a secret is one.
    pub fn finish(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.held) {
            held if held.len() >= IN_ANSWERS => REDACTED.as_bytes().to_vec(),
            held => held,
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_are_taken_out_and_never_shown() {
        let secrets = Secrets::new(["EMPTY", "lm-studio", "abcdef0123456789", "abcdef0123456789-and-more"].into_iter());
        let text = "EMPTY lm-studio abcdef0123456789-and-more abcdef0123456789";
        assert_eq!(secrets.out_of_error(text), "EMPTY [redacted] [redacted] [redacted]");
        assert_eq!(secrets.out_of_answer(text), "EMPTY lm-studio [redacted] [redacted]");
        assert_eq!(
            format!("{secrets:?} {:?}", Secret::new("abcdef0123456789")),
            "3 secrets [redacted]"
        );
    }

    proptest! {
        #[test]
        fn a_secret_in_pieces_is_taken_out_and_nothing_else(
            words in prop::collection::vec(prop::sample::select(vec![
                "0123456789abcdef", "0123456789abcdefXYZ", "0123456789", "01", "hi ", "é", "f",
            ]), 0..12),
            size in 1usize..9,
        ) {
            let text = words.concat();
            let secrets = Secrets::new(["0123456789abcdef", "0123456789abcdefXYZ", "lm-studio"].into_iter());
            let mut veil = Veil::new(&secrets);
            let mut shown = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                shown.extend_from_slice(&veil.push(Cow::Borrowed(piece)));
            }
            shown.extend_from_slice(&veil.finish());
            let shown = String::from_utf8(shown).unwrap();
            prop_assert!(!shown.contains("0123456789abcdef"), "{}", shown);
            if !text.contains("0123456789abcdef") {
                prop_assert_eq!(shown, text);
            }
        }
    }
}
