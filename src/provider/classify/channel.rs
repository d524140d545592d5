//! Reads an error channel: standard error, or the message of a failure.
//!
//! In: the text of the channel. Out: [`ErrorText`]: the text to match rules on, the sentence to show, and the fields of JSON bodies
//! in it (status, type, code). Warnings, stack frames, banners, usage texts and an echo of the prompt are noise: no rule may see
//! them.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use serde_json::Value;

use super::table::snake;
use crate::errors::Channel;
use dfp_text::redact::{one_line, plain};

/// A line of a stack trace.
const FRAMES: &str = r"(?ix) ^\s+at\s+\S.*$";

/// Whole lines that are noise, whichever CLI prints them. A provider adds its own ([`Channel::noise`]).
const NOISE: &[&str] = &[
    r"\(node:\d+\).*",
    r"\(use\s+`?node\s+--.*",
    r"(?:npm\s+)?(?:warn(?:ing)?|notice|debug|info|deprecat\w*)\b.*",
    r"\[(?:warn(?:ing)?|debug|info)\].*",
    // A line of the log of a program in Rust.
    r"[\d\-]{10}T[\d:.]+Z?\s+(?:error|warn|info|debug|trace)\s+\w+::.*",
    r"tip:.*",
    r"for\ more\ information,\ try.*",
    r"-{4,}",
    // The report of a crash by a JavaScript runtime, except for its reason: lines of code, their position, a mark below one, the
    // version.
    r"\d+\ \|.*",
    r"\S+\.[cm]?[jt]s:\d+|node:\S+:\d+",
    r"\^+",
    r"bun\ v\d[\d.]*\b.*",
    r"node\.js\ v\d[\d.]*",
];

/// A mark (`^`) below the line of code that it points at.
const CARETS: &str = r"^\s*\^+\s*$";

/// The beginning of a usage text, or of a quoted configuration with its keys (opencode 1.18.34). Nothing behind it is about the
/// failure.
const USAGE: &str = r"(?i)^\s*(?:usage:|options:|commands:|--- jsonc input ---)";

/// The word by which a CLI marks an error at the start of a line.
const MARK: &str = r"(?i)^\s*(?:fatal\s+)?error:\s*";

/// Brackets that some CLIs put around the API's text (qwen 0.15.10, gemini 0.61.0).
const BRACKETS: &str = r"(?s)^\[(API Error: .*?)\](?:\s+(.*))?$";

/// A web page, up to its end or to the end of the text: the answer of a portal, a proxy, or a wrong address.
const PAGE: &str = r"(?is)(?:<!doctype\s+html\b|<html\b).*?(?:</html\s*>|$)";

/// The text that replaces a page: words to the page's reader (`please log in`) are not the API's.
const A_PAGE: &str = "a web page";

/// The kind of a failure whose text has a page.
const PAGE_KIND: &str = "web_page";

/// The title of a page.
const TITLE: &str = r"(?is)<title[^>]*>\s*(.*?)\s*</title";

/// Lines of an object as a JavaScript console prints it. They are matched by rules, but not shown.
const DUMP: &str = r#"^(?:\s{2,}\S|\s+\w+: (?:".*"|-?\d+),$|\s*[\[\]{}]+[,;]?\s*$)"#;

/// The compiled patterns of this module, with those of all providers.
struct ChannelPatterns {
    noise: RegexSet,
    transcripts: Vec<&'static str>,
    usage: Regex,
    mark: Regex,
    preambles: Vec<Regex>,
    brackets: Regex,
    page: Regex,
    title: Regex,
    dump: Regex,
    carets: Regex,
}

/// Compiled when they are first needed. `None` if one doesn't compile, which a test excludes; texts are then taken as they are.
static PATTERNS: LazyLock<Option<ChannelPatterns>> = LazyLock::new(|| {
    Some(ChannelPatterns {
        noise: noise().ok()?,
        transcripts: channels().filter_map(|channel| channel.transcript).collect(),
        usage: Regex::new(USAGE).ok()?,
        mark: Regex::new(MARK).ok()?,
        preambles: channels()
            .filter_map(|channel| channel.preamble)
            .map(|preamble| Regex::new(&format!("(?s){preamble}")))
            .collect::<Result<_, _>>()
            .ok()?,
        brackets: Regex::new(BRACKETS).ok()?,
        page: Regex::new(PAGE).ok()?,
        title: Regex::new(TITLE).ok()?,
        dump: Regex::new(DUMP).ok()?,
        carets: Regex::new(CARETS).ok()?,
    })
});

fn channels() -> impl Iterator<Item = Channel> {
    crate::every().map(|provider| provider.errors.channel)
}

fn noise() -> Result<RegexSet, regex::Error> {
    let own = channels().flat_map(|channel| channel.noise);
    let lines = NOISE.iter().chain(own).map(|line| format!(r"(?ix) ^\s*(?:{line})$"));
    RegexSet::new(lines.chain([FRAMES.to_owned()]))
}

/// The most bytes of a text that are looked at: of a longer one, the head and the tail.
const LIMIT: usize = 64 * 1024;

/// The deepest nesting at which JSON bodies are looked for.
const DEPTH: usize = 4;

/// The contents of an error channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorText {
    /// The text for rules, without noise.
    pub text: String,
    /// The reason for people: one line, redacted.
    pub reason: String,
    /// The error types and codes in JSON bodies, in snake case.
    pub kinds: Vec<String>,
    /// The HTTP status in a JSON body.
    pub status: Option<u16>,
}

impl ErrorText {
    /// `true` if the channel has no text.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// Reads a channel that also carries noise: standard error.
pub fn stderr(text: &str) -> ErrorText {
    let text = plain(&bounded(text));
    let Some(patterns) = PATTERNS.as_ref() else {
        return error_text(text);
    };
    let is_transcript = text
        .lines()
        .any(|line| patterns.transcripts.iter().any(|first| line.starts_with(first)));
    let next = text.lines().skip(1).map(Some).chain([None]);
    let lines: Vec<&str> = text
        .lines()
        .zip(next)
        .filter(|(_, next)| !next.is_some_and(|next| patterns.carets.is_match(next)))
        .map(|(line, _)| line)
        .take_while(|line| !patterns.usage.is_match(line))
        .filter(|line| !line.trim().is_empty() && !patterns.noise.is_match(line))
        .filter(|line| !is_transcript || patterns.mark.is_match(line))
        .collect();
    error_text(lines.join("\n"))
}

/// Reads a channel that holds only the message of a failure.
pub fn message(text: &str) -> ErrorText {
    error_text(plain(&bounded(text)))
}

/// Reads `text`, with web pages in it replaced by their titles.
fn error_text(text: String) -> ErrorText {
    let Some((text, named)) = without_pages(&text) else {
        return error_text_of_page_free(text);
    };
    let mut found = error_text_of_page_free(text);
    found.kinds.push(PAGE_KIND.to_owned());
    found.reason = one_line(&found.reason.replace(A_PAGE, &named));
    found
}

/// Replaces each page in the text by [`A_PAGE`]. The second value describes the first page. `None` if there is no page.
fn without_pages(text: &str) -> Option<(String, String)> {
    let patterns = PATTERNS.as_ref()?;
    let page = patterns.page.find(text)?;
    let title = patterns.title.captures(page.as_str()).and_then(|found| found.get(1));
    let title = title.map(|title| title.as_str().split_whitespace().collect::<Vec<_>>().join(" "));
    let named = match title.filter(|title| !title.is_empty()) {
        Some(title) => format!("{A_PAGE}, \"{}\"", dfp_model::error::clip(&title, 120)),
        None => A_PAGE.to_owned(),
    };
    Some((patterns.page.replace_all(text, A_PAGE).into_owned(), named))
}

/// Reads `text`, which has no web page in it.
fn error_text_of_page_free(text: String) -> ErrorText {
    let body = body_in(&text, DEPTH);
    let shown = match &body {
        Some(ErrorBody {
            message: Some(message), ..
        }) => message.clone(),
        _ => shown(&text),
    };
    let (kinds, status) = body.map_or((Vec::new(), None), |b| (b.kinds, b.status));
    ErrorText {
        reason: one_line(&shown),
        text,
        kinds,
        status,
    }
}

/// The sentence of `text` for people: without marks, preambles, dumps and repetitions.
fn shown(text: &str) -> String {
    let Some(patterns) = PATTERNS.as_ref() else {
        return text.to_owned();
    };
    let mut text = text.to_owned();
    for preamble in &patterns.preambles {
        text = preamble.replace(&text, "").into_owned();
    }
    if let Some(c) = patterns.brackets.captures(text.trim()) {
        text = format!("{} {}", &c[1], c.get(2).map_or("", |m| m.as_str()));
    }
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|l| !patterns.dump.is_match(l)) {
        let line = patterns.mark.replace(line, "").trim().to_owned();
        // A line like `SomeError: why {` begins a dump.
        let line = line.strip_suffix(" {").unwrap_or(&line).to_owned();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() { text } else { lines.join(" ") }
}

/// The fields of a JSON error body.
#[derive(Debug, Default)]
struct ErrorBody {
    message: Option<String>,
    kinds: Vec<String>,
    status: Option<u16>,
}

impl ErrorBody {
    fn know(&mut self, word: &str) {
        let kind = snake(word);
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }
}

/// The last JSON error body in `text`.
fn body_in(text: &str, depth: usize) -> Option<ErrorBody> {
    let depth = depth.checked_sub(1)?;
    let mut rest = text;
    let mut found = None;
    let mut tries = 0;
    while let Some(start) = rest.find('{') {
        tries += 1;
        if tries > 64 {
            break;
        }
        let mut values = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<Value>();
        let used = match values.next() {
            Some(Ok(value)) => {
                found = body_of(&value, depth).or(found);
                values.byte_offset()
            }
            _ => 1,
        };
        rest = rest.get(start + used.max(1)..).unwrap_or("");
    }
    found
}

/// Reads `{error: {message, type, code, status, details[].reason}}`, `{error: "…"}`, `{name, data: {message, statusCode}}` or
/// `{message, …}`. If the message is itself a body, that is read instead.
fn body_of(value: &Value, depth: usize) -> Option<ErrorBody> {
    let object = value.as_object()?;
    let inner = object.get("error").or_else(|| object.get("data")).unwrap_or(value);
    if let Value::String(message) = inner {
        return Some(ErrorBody {
            message: Some(message.clone()),
            ..ErrorBody::default()
        });
    }
    let mut body = ErrorBody::default();
    let data = inner.get("data").unwrap_or(inner);
    for source in [value, inner, data] {
        body.status = body.status.or_else(|| status_of(source));
        for key in ["code", "type", "status", "name", "reason", "error_kind"] {
            if let Some(word) = source.get(key).and_then(Value::as_str) {
                body.know(word);
            }
        }
    }
    for detail in inner.get("details").and_then(Value::as_array).into_iter().flatten() {
        if let Some(word) = detail.get("reason").and_then(Value::as_str) {
            body.know(word);
        }
    }
    let message = data
        .get("message")
        .or_else(|| inner.get("message"))
        .and_then(Value::as_str)?;
    match body_in(message, depth) {
        Some(nested) => {
            body.message = nested.message;
            body.status = nested.status.or(body.status);
            body.kinds.splice(0..0, nested.kinds);
        }
        None => body.message = Some(message.to_owned()),
    }
    Some(body)
}

fn status_of(value: &Value) -> Option<u16> {
    ["code", "status", "statusCode", "status_code", "http_status"]
        .iter()
        .filter_map(|key| value.get(key)?.as_u64())
        .find(|n| (400..600).contains(n))
        .and_then(|n| u16::try_from(n).ok())
}

/// The head and tail of a text that is too long: the reason of a failure stands at one of the two ends.
fn bounded(text: &str) -> String {
    if text.len() <= LIMIT {
        return text.to_owned();
    }
    let half = LIMIT / 2;
    let head = (0..=half).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    let tail = (text.len() - half..=text.len())
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(text.len());
    format!("{}\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn noise_is_neither_matched_nor_shown() {
        let found = stderr(
            "(node:404) Warning: 429 rate limit\n\
             Warning: timeout option is deprecated\n\
             Ripgrep is not available. Falling back to GrepTool.\n\
             Ripgrep not available: spawn /opt/rg EACCES. Falling back to built-in grep.\n\
             [STARTUP] Phase 'x' 500\n\
             \x1b[91mError: \x1b[0mSession not found\n\
             \u{20}   at run (file:///opt/x.js:500:16)\n\
             Usage: x [options]\n  --timeout  401\n",
        );
        assert_eq!(found.text, "Error: Session not found");
        assert_eq!(found.reason, "Session not found");
    }

    /// The crash reports of claude 2.1.332 and of a script in Node.
    #[test]
    fn the_code_of_a_crash_is_no_reason() {
        let bun = stderr(
            "11 | ${t} fails with 401 rate limit\n12 | \n13 | import{De}from\"/$bunfs/root/chunk.js\";throw x;\n                ^\n\
             ENOENT: no such file or directory, uv_os_homedir\n syscall: \"uv_os_homedir\",\n   errno: -2,\n    code: \"ENOENT\"\n\n      \
             at /$bunfs/root/chunk.js:5:312\n\nBun v1.4.6 (Linux x64)\n",
        );
        assert_eq!(bun.reason, "ENOENT: no such file or directory, uv_os_homedir");
        let node = stderr(
            "node:internal/modules/run_main:107\n    triggerUncaughtException(err);\n    ^\n\nTypeError: x is not a function\n    at \
             run (file:///opt/x.js:500:16)\n\nNode.js v22.11.0\n",
        );
        assert_eq!(
            (node.reason.as_str(), node.text.as_str()),
            ("TypeError: x is not a function", "TypeError: x is not a function")
        );
        let named = stderr("/opt/cli/x.js:12\n  throw new Error(`429`)\n  ^\n\nError: no key\n");
        assert_eq!(named.reason, "no key");
    }

    #[test]
    fn the_echo_of_a_prompt_is_not_matched() {
        let found = stderr(
            "OpenAI Codex v0.169.0\n--------\nmodel: m\n--------\nuser\nwhy do I get 429 rate limit timeouts?\n\
             ERROR: Quota exceeded.\nERROR: Quota exceeded.\n",
        );
        assert_eq!(found.text, "ERROR: Quota exceeded.\nERROR: Quota exceeded.");
        assert_eq!(found.reason, "Quota exceeded.");
    }

    #[test]
    fn bodies_are_read() {
        let table = [
            (
                r#"{"error": {"message": "Bad param", "type": "invalid_request_error", "code": "bad", "param": null}}"#,
                ("Bad param", vec!["bad", "invalid_request_error"], None),
            ),
            (
                r#"x {"session_id":"s","error":{"type":"Error","message":"{\"error\":{\"code\":400,\"message\":\"API key not valid.\",\"status\":\"INVALID_ARGUMENT\",\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}","code":400}}"#,
                (
                    "API key not valid.",
                    vec!["invalid_argument", "api_key_invalid", "error"],
                    Some(400),
                ),
            ),
            (
                r#"{"name":"APIError","data":{"message":"boom","statusCode":500}}"#,
                ("boom", vec!["api_error"], Some(500)),
            ),
            (r#"{"error":"no such model"}"#, ("no such model", vec![], None)),
            ("nothing {here}", ("nothing {here}", vec![], None)),
            (
                "[API Error: You have exhausted your quota.]\nTry later",
                ("API Error: You have exhausted your quota. Try later", vec![], None),
            ),
        ];
        for (text, (reason, kinds, status)) in table {
            let found = message(text);
            assert_eq!(
                (found.reason.as_str(), found.kinds, found.status),
                (reason, kinds.into_iter().map(str::to_owned).collect(), status),
                "{text}"
            );
        }
    }

    #[test]
    fn a_huge_channel_keeps_its_ends() {
        let found = message(&format!("head {} tail", "é".repeat(200_000)));
        assert!(found.text.starts_with("head") && found.text.ends_with("tail") && found.text.len() <= LIMIT + 8);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in r#"(?s)(\PC|\{"error":|\{|\}|"|:|[0-9]{3}|\n|Error: |\[API Error: |\]){0,120}"#) {
            let (a, b) = (stderr(&text), message(&text));
            prop_assert!(!a.reason.chars().any(char::is_control));
            prop_assert!(!b.reason.chars().any(char::is_control));
        }
    }
}
