//! Values that are known to be secret, in the forms in which programs print them: unchanged, escaped in JSON or in an address,
//! in base64.
//!
//! Which variables of an environment have such values is told by their names and values, at the end of the file.

use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Anchored, Input, MatchKind};

/// Bytes; shorter values don't count: `EMPTY`, `none`.
const SHORTEST: usize = 6;

/// The bytes of a value that must be left at a cut for them to be redacted.
const SHORTEST_REST: usize = 6;

/// Bytes; a text that ends in this much of a value ends in a secret, cut or not.
const MOST: usize = 16;

/// Bytes; lines of a multi-line value count alone from this length on, since keys in PEM form are printed with other line
/// breaks.
const SHORTEST_LINE: usize = 24;

/// The secret values of one run.
#[derive(Clone, Default)]
pub(super) struct Values {
    plain: Vec<String>,
    /// All forms, each with the length of its value in bytes.
    forms: Vec<(String, usize)>,
    search: Option<AhoCorasick>,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} values", self.plain.len())
    }
}

impl Values {
    /// Collects `values` and their forms. Values shorter than `SHORTEST` are left out.
    pub fn new<'a>(values: impl Iterator<Item = &'a str>) -> Values {
        let mut plain: Vec<String> = values
            .map(str::trim)
            .filter(|value| value.len() >= SHORTEST)
            .map(str::to_owned)
            .collect();
        plain.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        plain.dedup();
        let mut forms: Vec<(String, usize)> = Vec::new();
        for value in &plain {
            let mut add = |form: String| {
                if form.len() >= SHORTEST && !forms.iter().any(|(known, _)| *known == form) {
                    forms.push((form, value.len()));
                }
            };
            add(value.clone());
            let lines = value
                .lines()
                .map(str::trim)
                .filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("---"));
            lines.for_each(|line| add(line.to_owned()));
            let escaped = json(value);
            add(json(&escaped));
            add(escaped);
            add(in_address(value, false));
            add(in_address(value, true));
            for behind in 0..3 {
                add(base64(value.as_bytes(), behind));
                add(base64(value.as_bytes(), behind).replace('+', "-").replace('/', "_"));
            }
        }
        // The crate would take a DFA for so few forms: it searches twice as fast (440 MB/s) and takes four times as long to build (270 µs for
        // 36 forms) and twenty times the memory, which pays for runs of more than 100 KB of text that is searched.
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(forms.iter().map(|(form, _)| form));
        Values {
            search: search.ok().filter(|_| !forms.is_empty()),
            plain,
            forms,
        }
    }

    pub fn plain(&self) -> &[String] {
        &self.plain
    }

    /// Returns whether no value has `shortest` bytes.
    pub fn is_empty(&self, shortest: usize) -> bool {
        self.plain.first().is_none_or(|longest| longest.len() < shortest)
    }

    fn forms(&self, shortest: usize) -> impl Iterator<Item = &str> {
        let long = self.forms.iter().filter(move |(_, length)| *length >= shortest);
        long.map(|(form, _)| form.as_str())
    }

    /// The ranges in `text`, behind `from`, of values of at least `shortest` bytes.
    pub fn spans(&self, text: &str, from: usize, shortest: usize) -> impl Iterator<Item = Range<usize>> {
        let input = Input::new(text.as_bytes()).range(from..).anchored(Anchored::No);
        let found = self
            .search
            .iter()
            .flat_map(move |search| search.find_overlapping_iter(input.clone()));
        found
            .filter(move |found| self.forms[found.pattern().as_usize()].1 >= shortest)
            .map(|found| found.range())
    }

    /// The offset, behind `from`, of a value at the end of `text` that is incomplete or may be a longer one; the text's length
    /// if there is none.
    pub fn begun(&self, text: &str, from: usize, shortest: usize) -> usize {
        let longest =
            |form: &str| beginning_at_end(&text[from..], form).map_or(text.len(), |length| text.len() - length);
        self.forms(shortest).map(longest).min().unwrap_or(text.len())
    }

    /// The range of the end of `text`, if that is most of a value.
    pub fn most_at_end(&self, text: &str, from: usize, shortest: usize) -> Option<Range<usize>> {
        let begun = self.begun(text, from, shortest.max(MOST));
        (text.len() - begun >= MOST).then_some(begun..text.len())
    }

    /// The ranges of what is left of values where `text` was cut: at its ends, and around the ellipses that stand for missing
    /// text.
    pub fn at_cuts(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if self.forms.is_empty() {
            return found;
        }
        let marks: Vec<usize> = text.match_indices('…').map(|(at, _)| at).collect();
        let ends = marks.iter().copied().chain([text.len()]);
        for end in ends {
            let end = text[..end].trim_end().len();
            let beginnings = self
                .forms
                .iter()
                .filter_map(|(form, _)| beginning_at_end(&text[..end], form));
            if let Some(length) = beginnings.max().filter(|length| *length >= SHORTEST_REST) {
                found.push(end - length..end);
            }
        }
        let starts = marks.iter().map(|at| at + '…'.len_utf8()).chain([0]);
        for start in starts {
            let start = text.len() - text[start..].trim_start().len();
            let ends = self
                .forms
                .iter()
                .filter_map(|(form, _)| end_at_start(&text[start..], form));
            if let Some(length) = ends.max().filter(|length| *length >= SHORTEST_REST) {
                found.push(start..start + length);
            }
        }
        found
    }
}

/// The length of the longest beginning of `form`, possibly all of it, that `text` ends with.
fn beginning_at_end(text: &str, form: &str) -> Option<usize> {
    let (text, form) = (text.as_bytes(), form.as_bytes());
    let window = &text[text.len() - form.len().min(text.len())..];
    let first = *form.first()?;
    memchr::memchr_iter(first, window)
        .map(|at| window.len() - at)
        .find(|length| form.starts_with(&window[window.len() - length..]))
}

/// The length of the longest end of `form` that `text` begins with.
fn end_at_start(text: &str, form: &str) -> Option<usize> {
    let (text, form) = (text.as_bytes(), form.as_bytes());
    let first = *text.first()?;
    memchr::memchr_iter(first, form)
        .map(|at| form.len() - at)
        .find(|length| text.starts_with(&form[form.len() - length..]))
}

/// The form of a value in a JSON string, without the quotes.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The form of a value in an address: everything but unreserved characters (RFC 3986, 2.3) as `%XX`.
fn in_address(text: &str, lower: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            byte if lower => encoded.push_str(&format!("%{byte:02x}")),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The part of a value's base64 (RFC 4648) that is the same whatever surrounds the value, when `behind` (0 to 2) bytes precede
/// it: characters that hold bits of other bytes are left out.
fn base64(bytes: &[u8], behind: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = 8 * bytes.len();
    let mut at = (6 - 8 * behind % 6) % 6;
    let mut encoded = String::new();
    while at + 6 <= bits {
        let pair = u16::from(bytes[at / 8]) << 8 | u16::from(bytes.get(at / 8 + 1).copied().unwrap_or_default());
        let sextet = pair >> (10 - at % 8) & 0x3F;
        encoded.push(char::from(ALPHABET[usize::from(sextet)]));
        at += 6;
    }
    encoded
}

/// Bytes; shorter values are not secrets: `true`, `1`, `dev`.
const SHORTEST_VALUE: usize = 8;

/// Harmless values of variables with secret names: modes and kinds of stores.
const HARMLESS: [&str; 16] = [
    "disabled",
    "required",
    "optional",
    "anonymous",
    "keychain",
    "keyring",
    "undefined",
    "inherited",
    "interactive",
    "password",
    "plaintext",
    "username",
    "subscription",
    "secret-service",
    "credentials",
    "api-token",
];

/// Returns whether a variable of this name holds a secret: one part of the name says so, and none says that it is only a path
/// or a number.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let parts: Vec<&str> = name.split(['_', '-', '.']).collect();
    let harmless = matches!(
        parts.last(),
        Some(&("FILE" | "PATH" | "DIR" | "SOCK" | "HELPER" | "TTL" | "MS" | "NAME" | "ID"))
    );
    let secret = |word: &&str| {
        matches!(*word, "AUTH" | "OAUTH" | "PASS" | "PAT" | "COOKIE" | "BEARER")
            || word.ends_with("KEY")
            || word.ends_with("KEYS")
            || ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"]
                .iter()
                .any(|part| word.contains(part))
    };
    (!harmless || name.ends_with("KEY_ID")) && parts.iter().any(secret)
}

/// Returns whether the value of such a variable may be a secret: it is long enough, and neither a number, a common word, a path
/// nor an address without a secret in it.
pub(super) fn is_secret_value(value: &str) -> bool {
    let value = value.trim();
    value.len() >= SHORTEST_VALUE
        && !value.bytes().all(|byte| byte.is_ascii_digit())
        && !HARMLESS.contains(&value.to_ascii_lowercase().as_str())
        && !is_path(value)
        && !is_bare_address(value)
}

/// Returns whether `value` is a path. A key may begin with a slash, too, but its parts are long, or it has characters rare in
/// paths.
fn is_path(value: &str) -> bool {
    let rooted = ["/", "./", "~/"].iter().any(|root| value.starts_with(root));
    let drive = value.as_bytes().get(1..3) == Some(br":\");
    drive || rooted && !value.contains(['+', '=']) && value.split('/').all(|part| part.len() < 20)
}

fn is_bare_address(value: &str) -> bool {
    (value.starts_with("http://") || value.starts_with("https://")) && !value.contains(['@', '?', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_in_all_three_places() {
        // "Zm9vYmFy" is "foobar"; "eGZvb2Jhcg==" is "xfoobar", "eHhmb29iYXI=" is "xxfoobar".
        assert_eq!(base64(b"foobar", 0), "Zm9vYmFy");
        assert_eq!(base64(b"foobar", 1), "Zvb2Jhc");
        assert_eq!(base64(b"foobar", 2), "mb29iYX");
    }

    #[test]
    fn names_that_look_secret() {
        let names = [
            "OPENAI_API_KEY",
            "apiKey",
            "GITHUB_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "DB_PASS",
            "PGPASSWORD",
            "npm_config__auth",
            "mySecretValue",
            "GOOGLE_CREDENTIALS_JSON",
            "PATH",
            "PWD",
            "GIT_AUTHOR_NAME",
            "SSH_AUTH_SOCK",
            "KEYBOARD",
            "TOKEN_TTL",
            "SSL_KEY_FILE",
            "GOOGLE_APPLICATION_CREDENTIALS_PATH",
        ];
        let found: Vec<_> = names.into_iter().filter(|name| is_secret_name(name)).collect();
        assert_eq!(found, names[..11]);
    }

    #[test]
    fn values_that_may_be_secret() {
        let values = [
            "correct horse battery",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "/aB3+abcdefghijklmnop=",
            "https://me:hunter2@host/x",
            "pässwörter",
            "abc",
            "128000000",
            "Disabled",
            "/home/user/.config/key.json",
            "~/.netrc-of-mine",
            r"C:\Users\me\key.pem",
            "https://login.example.com/auth",
        ];
        let found: Vec<_> = values.into_iter().filter(|value| is_secret_value(value)).collect();
        assert_eq!(found, values[..5]);
    }
}
