//! Makes foreign text fit to show: without escape sequences, control characters and invisible characters.

use super::{Channel, Redactor};
use crate::decode::ansi::strip_ansi;
use dfp_model::error::{ProviderError, clip};

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
