//! What must not get into a file, found and taken out.
//!
//! In: text, or JSON text, and the values of secret environment variables. Out: the same with `[REDACTED]` in place of each
//! secret. JSON is changed inside of its strings only, so what it holds beside secrets stays as it was, byte for byte.
//! Names of variables, schemes (`Bearer`) and hosts stay; a text that merely speaks of keys is none.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Stands in place of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// Values shorter than this are no secrets: `true`, `1`, `dev`.
const SHORTEST_VALUE: usize = 8;

/// How much of a known value must have come for it to be taken for that value's beginning.
const SHORTEST_BEGINNING: usize = 4;

/// A kind of secret, told by its shape. A group, if there is one, is what is secret of it.
struct Shape {
    whole: Regex,
    /// The whole or its beginning, at the end of a text.
    begun: Regex,
    /// Whether what the pattern found is one.
    holds: fn(&str) -> bool,
}

/// (what it looks like, what its beginning looks like, what else must hold).
type Row = (&'static str, &'static str, fn(&str) -> bool);

const SHAPES: &[Row] = &[
    // OpenAI, Anthropic, OpenRouter, Stripe.
    (
        r"\bsk-(?:(?:ant|proj|or|svcacct|admin|live|test)-[A-Za-z0-9_-]{4,}|[A-Za-z0-9_-]{16,})",
        r"\bsk-[A-Za-z0-9_-]*",
        always,
    ),
    (
        r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{8,}",
        r"\b[sr]k_[a-z]+_?[A-Za-z0-9]*",
        always,
    ),
    // GitHub, GitLab, npm, Hugging Face.
    (r"\bgh[pousr]_[A-Za-z0-9]{8,}", r"\bgh[pousr]_[A-Za-z0-9]*", always),
    (r"\bgithub_pat_[A-Za-z0-9_]{8,}", r"\bgithub_pat_[A-Za-z0-9_]*", always),
    (r"\bglpat-[A-Za-z0-9_-]{8,}", r"\bglpat-[A-Za-z0-9_-]*", always),
    (r"\bnpm_[A-Za-z0-9]{30,}", r"\bnpm_[A-Za-z0-9]*", always),
    (r"\bhf_[A-Za-z0-9]{20,}", r"\bhf_[A-Za-z0-9]*", always),
    // Amazon, Google, Slack, xAI.
    (r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}", r"\b(?:AKIA|ASIA)[A-Z0-9]*", always),
    (r"\bAIza[A-Za-z0-9_-]{30,}", r"\bAIza[A-Za-z0-9_-]*", always),
    (r"\bya29\.[A-Za-z0-9_-]{16,}", r"\bya29\.[A-Za-z0-9_-]*", always),
    (r"\bxox[a-z]-[A-Za-z0-9-]{8,}", r"\bxox[a-z]-[A-Za-z0-9-]*", always),
    (r"\bxai-[A-Za-z0-9]{16,}", r"\bxai-[A-Za-z0-9]*", always),
    // JSON web tokens.
    (
        r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*",
        r"\beyJ[A-Za-z0-9_.-]*",
        always,
    ),
    // Headers of HTTP.
    (
        r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{8,})",
        r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]*",
        is_no_word,
    ),
    (
        r#"(?i)\bauthorization["']?\s*[:=]\s*["']?basic\s+([A-Za-z0-9+/=]{8,})"#,
        r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?:basic\s+)?[A-Za-z0-9+/=]*"#,
        always,
    ),
    // Keys in PEM form, whole or cut short.
    (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-{1,5}(?:E(?:N(?:D[A-Z ]*)?)?)?-{0,4})?",
        always,
    ),
    // Passwords in addresses.
    (
        r"\b[a-z][a-z0-9+.-]*://[^\s:/@]*:([^\s/@]+)@",
        r"\b[a-z][a-z0-9+.-]*://[^\s:/@]*:[^\s/@]*",
        always,
    ),
    // What `env` prints and `.env` files hold.
    (
        r#"\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)["']?\s*[=:]\s*["']?([^\s"',;]{6,})"#,
        r#"\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)["']?\s*[=:]\s*["']?[^\s"',;]*"#,
        is_value,
    ),
];

static COMPILED: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let compile = |(whole, begun, holds): &Row| {
        Some(Shape {
            whole: Regex::new(whole).ok()?,
            begun: Regex::new(&format!(r"(?:{begun})\z")).ok()?,
            holds: *holds,
        })
    };
    SHAPES.iter().filter_map(compile).collect()
});

fn always(_: &str) -> bool {
    true
}

/// `Bearer of good news` is no token, nor is `bearer responsibilities.`.
fn is_no_word(token: &str) -> bool {
    let token = token.trim_end_matches(['.', '-', '=', '/']);
    token.len() >= 20 || token.bytes().any(|byte| !byte.is_ascii_lowercase())
}

/// `API_KEY=$KEY`, `TOKEN: <yours>` and `MAX_TOKEN=128000` say nothing.
fn is_value(value: &str) -> bool {
    !value.starts_with(['$', '<', '[', '{', '(', '*'])
        && !value.starts_with("process.env")
        && !value.starts_with("os.environ")
        && value.bytes().any(|byte| !byte.is_ascii_digit())
}

/// What is secret in one run: known shapes, and the values of its environment.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// Longest first, so that none hides in the rest of another.
    values: Vec<String>,
}

impl Secrets {
    /// Knows the values of those variables of `env` whose names look secret, and `others` (API keys of options).
    pub fn new<'a>(
        env: impl IntoIterator<Item = (&'a str, &'a str)>,
        others: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let of_env = env
            .into_iter()
            .filter(|(name, _)| is_secret_name(name))
            .map(|(_, value)| value);
        let all = of_env.chain(others).map(str::trim);
        let long =
            all.filter(|value| value.len() >= SHORTEST_VALUE && !value.bytes().all(|byte| byte.is_ascii_digit()));
        Secrets::of(long.map(str::to_owned).collect())
    }

    /// What either knows.
    #[must_use]
    pub fn and(self, other: Secrets) -> Self {
        Secrets::of(self.values.into_iter().chain(other.values).collect())
    }

    fn of(mut values: Vec<String>) -> Self {
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Secrets { values }
    }

    /// Where the secrets of `text` are: in order, apart from each other.
    pub fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for value in &self.values {
            found.extend(
                text.match_indices(value.as_str())
                    .map(|(at, value)| at..at + value.len()),
            );
        }
        for shape in COMPILED.iter() {
            for captures in shape.whole.captures_iter(text) {
                let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else {
                    continue;
                };
                if secret.as_str() != REDACTED && (shape.holds)(secret.as_str()) {
                    found.push(secret.range());
                }
            }
        }
        found.sort_by_key(|span| (span.start, span.end));
        let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for span in found {
            match apart.last_mut() {
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => apart.push(span),
            }
        }
        apart
    }

    /// Where at the end of `text` something begins that may turn out, or go on, to be a secret.
    pub fn begun(&self, text: &str) -> Option<usize> {
        let values = self.values.iter().filter_map(|value| {
            let longest = (SHORTEST_BEGINNING..=value.len()).rev();
            let mut beginnings = longest
                .filter(|end| value.is_char_boundary(*end))
                .map(|end| &value[..end]);
            beginnings
                .find(|beginning| text.ends_with(beginning))
                .map(|beginning| text.len() - beginning.len())
        });
        let shapes = COMPILED
            .iter()
            .filter_map(|shape| shape.begun.find(text))
            .map(|found| found.start());
        values.chain(shapes).min()
    }

    /// `text` without its secrets.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        let mut from = 0;
        for span in spans {
            clean.push_str(&text[from..span.start]);
            clean.push_str(REDACTED);
            from = span.end;
        }
        clean.push_str(&text[from..]);
        Cow::Owned(clean)
    }

    /// JSON text without the secrets in its strings.
    pub fn redact_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let mut clean = String::new();
        let mut from = 0;
        for literal in strings(json) {
            let Some(text) = unquoted(&json[literal.clone()]) else {
                continue;
            };
            let Cow::Owned(redacted) = self.redact(&text) else {
                continue;
            };
            clean.push_str(&json[from..literal.start]);
            clean.push_str(&serde_json::Value::from(redacted).to_string());
            from = literal.end;
        }
        if from == 0 {
            return Cow::Borrowed(json);
        }
        clean.push_str(&json[from..]);
        Cow::Owned(clean)
    }
}

/// Whether a variable of this name holds a secret: one of its words says so, and none that it is but a path or a number.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name.split(['_', '-', '.']).collect();
    let harmless = matches!(
        words.last(),
        Some(&("FILE" | "PATH" | "DIR" | "SOCK" | "HELPER" | "TTL" | "MS" | "NAME" | "ID"))
    );
    let secret = |word: &&str| {
        matches!(*word, "AUTH" | "PASS" | "PAT" | "COOKIE" | "CREDENTIAL" | "CREDENTIALS")
            || ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE"]
                .iter()
                .any(|end| word.ends_with(end))
    };
    (!harmless || name.ends_with("KEY_ID")) && words.iter().any(secret)
}

/// The string literals of JSON text, quotes included.
fn strings(json: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', bytes.get(at..)?)?;
        let mut end = start + 1;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        at = end + 1;
        Some(start..at)
    })
}

/// What a string literal says. One without escapes is its own text; lone surrogates are U+FFFD.
fn unquoted(literal: &str) -> Option<Cow<'_, str>> {
    let inside = literal.get(1..literal.len() - 1)?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str::<crate::message::Lossy>(literal)
        .ok()
        .map(|text| Cow::Owned(text.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(text: &str) -> String {
        Secrets::default().redact(text).into_owned()
    }

    #[test]
    fn every_shape_compiles() {
        assert_eq!(COMPILED.len(), SHAPES.len());
    }

    #[test]
    fn keys_of_known_shapes_go() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
        for secret in [
            "sk-ant-api03-AbC_d-9",
            "sk-proj-0123456789",
            "sk-0123456789abcdef0123",
            "sk_live_0123456789",
            "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
            "github_pat_11ABCDEFG0_abc",
            "glpat-abcdefghij_0123456789",
            "AKIAIOSFODNN7EXAMPLE",
            "AIzaSyA-1234567890abcdefghijklmnopqrst",
            "xoxb-1234567890-abc",
            jwt,
            "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----",
        ] {
            assert_eq!(
                redact(&format!("see ({secret}), and more")),
                "see ([REDACTED]), and more",
                "{secret}"
            );
            assert_eq!(redact(&format!("{secret}\n")), "[REDACTED]\n");
        }
    }

    #[test]
    fn what_stands_around_a_secret_stays() {
        for (text, expected) in [
            ("Authorization: Bearer abc.DEF-123", "Authorization: Bearer [REDACTED]"),
            ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [REDACTED]"),
            (
                "https://me:hunter2@example.com/x",
                "https://me:[REDACTED]@example.com/x",
            ),
            ("export API_KEY=\"abcdef\"", "export API_KEY=\"[REDACTED]\""),
            ("DB_PASSWORD: hunter22\nnext", "DB_PASSWORD: [REDACTED]\nnext"),
            ("{\"MY_TOKEN\": \"abcdef\"}", "{\"MY_TOKEN\": \"[REDACTED]\"}"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn words_about_keys_stay() {
        for text in [
            "a task-management-for-everyone-and-all",
            "Bearer responsibilities are many",
            "the bearer certificates.",
            "API_KEY=$OTHER TOKEN=<your-token> MAX_OUTPUT_TOKEN=128000",
            "API_KEY=[REDACTED]",
            "https://example.com:8080/a@b",
            "sk-",
            "eyJust a word",
            "tokens: 12345678",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn values_of_the_environment_go_wherever_they_stand() {
        let env = [
            ("ANTHROPIC_API_KEY", "not-a-real-key"),
            ("MY_PASSWORD", "pässwörter"),
            ("SHORT_TOKEN", "abc"),
            ("MAX_TOKEN", "100000000"),
            ("SSH_AUTH_SOCK", "/tmp/ssh-agent"),
            ("HOME", "/home/somebody"),
        ];
        let secrets = Secrets::new(env, ["key-of-an-option"]);
        let text = "not-a-real-keypässwörter abc 100000000 /tmp/ssh-agent /home/somebody key-of-an-option";
        let clean = "[REDACTED][REDACTED] abc 100000000 /tmp/ssh-agent /home/somebody [REDACTED]";
        assert_eq!(secrets.redact(text), clean);
        assert_eq!(secrets.begun("it is not-a-re"), Some(6));
        assert_eq!(secrets.begun("it is not"), None);
    }

    #[test]
    fn names_that_look_secret() {
        let secret = |name: &&&str| is_secret_name(name);
        let names = &[
            "OPENAI_API_KEY",
            "apiKey",
            "GITHUB_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "DB_PASS",
            "PGPASSWORD",
            "npm_config__auth",
            "PATH",
            "PWD",
            "GIT_AUTHOR_NAME",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
            "SSH_AUTH_SOCK",
            "KEYBOARD",
            "TOKEN_TTL",
            "SSL_KEY_FILE",
        ];
        let found: Vec<_> = names.iter().filter(secret).copied().collect();
        assert_eq!(found, names[..9]);
    }

    #[test]
    fn json_is_changed_in_its_strings_alone() {
        let secrets = Secrets::new([("A_KEY", "with \"quotes\" and\nlines")], []);
        let json =
            r#"{"z":1.0e21,"a":["x\nsk-ant-abcd1234","with \"quotes\" and\nlines","\ud800 ok"],"sk-ant-abcd1234":-0}"#;
        let clean = r#"{"z":1.0e21,"a":["x\n[REDACTED]","[REDACTED]","\ud800 ok"],"[REDACTED]":-0}"#;
        assert_eq!(secrets.redact_json(json), clean);
        assert!(matches!(secrets.redact_json(r#"{"a":"b\\","c":""}"#), Cow::Borrowed(_)));
    }

    proptest::proptest! {
        #[test]
        fn redacted_json_is_json_without_the_secret(text in "\\PC{0,20}", value in "[a-zA-Z\"\\\\]{8,12}") {
            let secrets = Secrets::new([("X_KEY", value.as_str())], []);
            let json = serde_json::json!({"a": [format!("{text}{value}{text}")], "n": 1}).to_string();
            let clean: serde_json::Value = serde_json::from_str(&secrets.redact_json(&json)).unwrap();
            proptest::prop_assert!(!clean["a"][0].as_str().unwrap().contains(&value) );
            proptest::prop_assert_eq!(&clean["n"], 1);
        }
    }
}
