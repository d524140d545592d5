//! Foreign text made fit to show: no escape sequences, no control characters, no secrets.
//!
//! In: what a CLI or an API printed. Out: one line for a message ([`reason`]), or the text for matching ([`plain`]).

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::error::{ProviderError, clip};

/// What stands in a secret's place.
pub const REDACTED: &str = "[redacted]";

/// CSI, OSC (with either end) and two-byte escape sequences.
const ESCAPES: &str = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])";

/// Keys and tokens by the prefixes their issuers give them.
const KEYS: &str = r"(?x)
    \b(?: sk-[A-Za-z0-9_\-*.]{4,}            # Anthropic, OpenAI, OpenRouter, z.ai
        | xai-[A-Za-z0-9_\-]{4,}             # xAI
        | AIza[A-Za-z0-9_\-]{8,}             # Google API key
        | ya29\.[A-Za-z0-9_\-]{8,}           # Google OAuth
        | eyJ[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]+)*   # JSON web token
        | gh[pousr]_[A-Za-z0-9]{8,} | github_pat_[A-Za-z0-9_]{8,}
        | AKIA[A-Z0-9]{12,}
        | sess-[A-Za-z0-9]{8,} )";

/// A name that says that a secret follows: the name stays, the value goes.
const NAMED: &str = r#"(?ix)
    ( \b(?:bearer|basic)\s+
    | (?:api[_\-]?key|x-api-key|access[_\-]?token|refresh[_\-]?token|auth[_\-]?token|client[_\-]?secret|password|secret|authorization)
      ["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+)? )
    ([^\s"',;&<>\[\]]{6,})"#;

/// Names that carry no secret though they are long: ids that a vendor's support asks for.
const IDS: [&str; 7] = ["req_", "msg_", "ses_", "toolu_", "err_", "call_", "resp_"];

/// The patterns above, compiled. (A pattern that does not compile leaves the text as it is; the tests would see that.)
struct Patterns {
    escapes: Option<Regex>,
    userinfo: Option<Regex>,
    keys: Option<Regex>,
    named: Option<Regex>,
    long: Option<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns {
    escapes: Regex::new(ESCAPES).ok(),
    userinfo: Regex::new(r"(://)[^/\s:@]+:[^/\s@]+@").ok(),
    keys: Regex::new(KEYS).ok(),
    named: Regex::new(NAMED).ok(),
    long: Regex::new(r"[A-Za-z0-9_+=\-]{32,}").ok(),
});

/// The text without escape sequences and control characters; lines stay lines.
pub fn plain(text: &str) -> String {
    replace(&PATTERNS.escapes, text, |_| String::new())
        .chars()
        .filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c)))
        .collect()
}

/// One line for people: plain, white space collapsed, secrets redacted, at most [`ProviderError::MESSAGE_LIMIT`] characters.
pub fn reason(text: &str) -> String {
    let line = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    clip(&redact(&line), ProviderError::MESSAGE_LIMIT)
}

/// The text with every secret replaced by `REDACTED`: known key prefixes, `Bearer …`, `api_key=…`, a URL's password,
/// and any run of 32 letters and digits that no ordinary name has.
pub fn redact(text: &str) -> String {
    let text = replace(&PATTERNS.userinfo, text, |c| format!("{}{REDACTED}@", &c[1]));
    let text = replace(&PATTERNS.named, &text, |c| {
        // `API key: invalid` names no key.
        if c[2].chars().all(|c| c.is_ascii_lowercase() || c == '.') {
            c[0].to_owned()
        } else {
            format!("{}{REDACTED}", &c[1])
        }
    });
    let text = replace(&PATTERNS.keys, &text, |_| REDACTED.to_owned());
    replace(&PATTERNS.long, &text, |c| {
        if is_token(&c[0]) {
            REDACTED.to_owned()
        } else {
            c[0].to_owned()
        }
    })
}

fn replace(pattern: &Option<Regex>, text: &str, with: impl Fn(&Captures) -> String) -> String {
    match pattern {
        Some(pattern) => pattern.replace_all(text, |c: &Captures| with(c)).into_owned(),
        None => text.to_owned(),
    }
}

/// A long run is a token if a piece of it between joints is long, and has both letters and digits: `claude-opus-4-8-20260101`
/// and a UUID have short pieces.
fn is_token(run: &str) -> bool {
    let is_id = IDS.iter().any(|prefix| run.starts_with(prefix));
    !is_id
        && run.split(['-', '_']).any(|piece| {
            piece.len() >= 24
                && piece.bytes().any(|b| b.is_ascii_digit())
                && piece.bytes().any(|b| b.is_ascii_alphabetic())
        })
}

/// Zero-width and direction marks: they hide in a message and change how it reads.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_and_controls_go() {
        assert_eq!(
            reason(
                "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mYou must\r\n provide\u{7}\ta  message \u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}"
            ),
            "Error: You must provide a message link"
        );
    }

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let table = [
            (
                "Incorrect API key provided: sk-fake.",
                "Incorrect API key provided: [redacted]",
            ),
            ("bad key sk-ant-api03-AbC_d-9", "bad key [redacted]"),
            (
                "header Authorization: Bearer abc.def-123456",
                "header Authorization: Bearer [redacted]",
            ),
            ("Bearer zzzzzz99 refused", "Bearer [redacted] refused"),
            ("x-api-key=qwerty123, next", "x-api-key=[redacted], next"),
            (r#"{"api_key":"hunter2hunter2"}"#, r#"{"api_key":"[redacted]"}"#),
            ("key AIzaSyA1234567890abcdef refused", "key [redacted] refused"),
            ("xai-abcdef0123 refused", "[redacted] refused"),
            ("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0 expired", "[redacted] expired"),
            ("https://me:pa55@host/v1", "https://[redacted]@host/v1"),
            (
                "token 0123456789abcdef0123456789abcdef01234567 bad",
                "token [redacted] bad",
            ),
            ("Invalid API key: invalid", "Invalid API key: invalid"),
            (
                "session a67338ec-86e1-4722-a738-d9c669df5219",
                "session a67338ec-86e1-4722-a738-d9c669df5219",
            ),
            (
                "Request ID: req_011CSHoEeqs5C35K2UUqR7FyAbCdEf",
                "Request ID: req_011CSHoEeqs5C35K2UUqR7FyAbCdEf",
            ),
            (
                "model claude-opus-4-8-20260101-preview-of-all",
                "model claude-opus-4-8-20260101-preview-of-all",
            ),
            (
                "a task-force of risk-averse people",
                "a task-force of risk-averse people",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(reason(text), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_short_clean_line(text in r"(?s)(\PC|\x1b\[[0-9;]{0,4}m|\n|sk-[a-z0-9]{8}){0,300}") {
            let line = reason(&text);
            prop_assert!(line.chars().count() <= ProviderError::MESSAGE_LIMIT);
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            prop_assert_eq!(reason(&line), line);
        }
    }
}
