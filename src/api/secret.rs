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

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
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
}
