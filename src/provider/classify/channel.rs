//! Reads an error channel: standard error, or the message of a failure.
//!
//! In: the text of the channel. Out: [`ErrorText`]: the text to match rules on, the sentence to show, and the fields of JSON bodies
//! in it (status, type, code). Warnings, stack frames, banners, usage texts and an echo of the prompt are noise: no rule may see
//! them.
//!
//! [`status_in`] finds an HTTP status in prose. A number counts only if the words around it say that it is one: `HTTP 429`, `status:
//! 503`, `(429)`, `429 Too Many Requests`, `API Error: 529`, `"code": 404` and a line with nothing but the number are statuses; `line
//! 500`, `(node:404)`, `$400`, `404 files` and `took 429 ms` are not.
//!
//! [`unsupported_flag`] and [`refused_schema`] recognise what the installed CLI refuses, so that the caller can leave it out and ask again:
//! a flag that it doesn't know, or a schema that it can't read. Each option parser words a refusal in its own way (`provider::errors`);
//! the provider's data names the parser.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use regex::{Regex, RegexSet};
use serde_json::Value;

use super::rules;
use crate::errors::{ARGPARSE, Channel, Compiled, GO_FLAG, PFLAG, RefusedFlag, snake};
use dfp_model::error::clip;
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

/// The compiled patterns of an error channel's text, with those of all providers.
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

/// Three digits of an error status that are not part of a longer number, name, version or address.
const NUMBER: &str = r"(?:^|[^A-Za-z0-9_.$€£#@+/-])([45]\d\d)(?:$|[^A-Za-z0-9_%$€£°])";

/// Words that make the number behind them a status.
const BEFORE: &str = r#"(?ix)
    (?: \bhttp(?:\s*/\s*\d(?:\.\d)?)? (?:\s+(?:status|error|code|response))* (?:\s+code)?
      | \bstatus (?:[\s_-]*(?:code|line))?
      | \b(?:api|server|http|request|response|client|upstream|gateway)?[\s_-]*error (?:[\s_-]*(?:code|status))?
      | \bcode
      | \b(?:returned|responded(?:\s+with)?|replied(?:\s+with)?|answered(?:\s+with)?|received|got|failed\s+with|rejected\s+with)
        (?:\s+an?)? (?:\s+(?:http|status))?
      | \bresponse
    ) ["']? \s* (?:\bis\b|\bwas\b|\bof\b)? \s* [:=]? \s* [\[("']? \s* $"#;

/// Words that look the same but mean something else, like `exit code 400`.
const NOT_BEFORE: &str = r"(?i)\b(?:exit(?:ed)?(?:\s+with)?(?:\s+status)?|zip|postal|country|area|char|key|qr)[\s_-]*(?:code|status)?\s*[:=]?\s*$";

/// The names of statuses, behind the number.
const NAMES: &str = r"(?ix)^ [)\]]? [\s:,.\-]* (?:
      bad[\s_-]?request | unauthori[sz]ed | payment[\s_-]?required | forbidden | not[\s_-]?found | method[\s_-]?not[\s_-]?allowed
    | request[\s_-]?time-?[\s_-]?out | conflict\b | gone\b | (?:payload|content|request(?:[\s_-]?entity)?)[\s_-]?too[\s_-]?large
    | unprocessable | too[\s_-]?many[\s_-]?requests | internal[\s_-]?(?:server[\s_-]?)?error | not[\s_-]?implemented
    | bad[\s_-]?gateway | service[\s_-]?unavailable | gateway[\s_-]?time-?[\s_-]?out | overloaded | rate[\s_-]?limit )";

/// The beginning of the sentence or body that an API's client prints behind a status at the start of a line (`429 You exceeded …`,
/// `400 {"type": …`).
const BODY: &str = r#"^ (?:[A-Z]|\{|")"#;

/// Units and things that are counted: `error 500 files`, `got 429 ms`.
const UNITS: &str = r"(?ix)^ \s* (?: m?s | milliseconds? | secs? | seconds? | mins? | minutes? | hours? | days? | files? | lines? | bytes? | [kmgt]i?b
    | tokens? | chars? | characters? | items? | tests? | warnings? | errors? | times | rows? | px | users? | requests | percent ) (?: $ | [^:A-Za-z0-9] )
    | ^ [.,]\d | ^ \s* [–-] \s* \d | ^ : \d";

/// The compiled patterns of a status in prose.
struct StatusPatterns {
    number: Regex,
    before: Regex,
    not_before: Regex,
    names: Regex,
    body: Regex,
    units: Regex,
}

static STATUS_PATTERNS: LazyLock<Option<StatusPatterns>> = LazyLock::new(|| {
    Some(StatusPatterns {
        number: Regex::new(NUMBER).ok()?,
        before: Regex::new(BEFORE).ok()?,
        not_before: Regex::new(NOT_BEFORE).ok()?,
        names: Regex::new(NAMES).ok()?,
        body: Regex::new(BODY).ok()?,
        units: Regex::new(UNITS).ok()?,
    })
});

/// The number of bytes before a number that are looked at.
const LOOK_BEHIND: usize = 64;

/// The first HTTP status (400 to 599) in `text` that its surroundings show to be one.
pub fn status_in(text: &str) -> Option<u16> {
    let patterns = STATUS_PATTERNS.as_ref()?;
    text.lines().find_map(|line| status_in_line(patterns, line))
}

/// The first HTTP status in a line.
fn status_in_line(patterns: &StatusPatterns, line: &str) -> Option<u16> {
    let alone = line.trim().trim_matches(['"', '\'', '.', ';', ',', '`']);
    if alone.len() == 3
        && let Some(status) = failure(alone)
    {
        return Some(status);
    }
    let mut from = 0;
    while let Some(found) = patterns.number.captures_at(line, from).and_then(|c| c.get(1)) {
        let (before, after) = (&line[..found.start()], &line[found.end()..]);
        if tells_status(patterns, tail(before), after) {
            return failure(found.as_str());
        }
        from = found.end();
    }
    None
}

/// `true` if the words before or after a number make it a status.
fn tells_status(patterns: &StatusPatterns, before: &str, after: &str) -> bool {
    if patterns.units.is_match(after) {
        return false;
    }
    let in_brackets = after.starts_with(')')
        && before
            .strip_suffix('(')
            .is_some_and(|b| b.is_empty() || b.ends_with(char::is_whitespace));
    let begins = before.trim().is_empty() && patterns.body.is_match(after);
    in_brackets
        || begins
        || patterns.names.is_match(after)
        || (patterns.before.is_match(before) && !patterns.not_before.is_match(before))
}

fn failure(digits: &str) -> Option<u16> {
    digits.parse().ok().filter(|status| (400..600).contains(status))
}

fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(LOOK_BEHIND);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The option parsers that a CLI of the user's own may use, besides those of the known CLIs.
const OTHERS: [RefusedFlag; 3] = [ARGPARSE, GO_FLAG, PFLAG];

/// The wordings of all parsers, each once. A provider's failures need those of its own parser alone.
static REFUSALS: LazyLock<Vec<(RefusedFlag, Compiled)>> = LazyLock::new(|| {
    let mut all: Vec<(RefusedFlag, Compiled)> = Vec::new();
    let of_providers = rules::ALL.iter().flat_map(|known| known.errors.refused_flags);
    for refusal in of_providers.chain(&OTHERS) {
        if all.iter().all(|(known, _)| known != refusal) {
            all.push((*refusal, OnceLock::new()));
        }
    }
    all
});

/// The pattern of a parser's wording; `None` if it doesn't compile, which a test excludes.
fn wording<'a>(refusal: &RefusedFlag, compiled: &'a Compiled) -> Option<&'a Regex> {
    let compile = || Regex::new(&format!("(?i){}", refusal.sentence)).ok();
    compiled.get_or_init(compile).as_ref()
}

/// The flag that the CLI refused, with its dashes; `None` if no flag was refused, or the CLI doesn't say which (`opencode` prints
/// its help text only).
///
/// yargs names a flag without dashes, and takes a leading `no-` for a negation: `--no-input` is refused as `--input`, so compare
/// with both spellings. If the provider's parser is unknown, all wordings are tried.
pub fn unsupported_flag(provider: &str, stderr: &str) -> Option<String> {
    let text = plain(stderr);
    let own = rules::of(provider).map_or(&[][..], |known| known.errors.refused_flags);
    REFUSALS
        .iter()
        .filter(|(refusal, _)| own.is_empty() || own.contains(refusal))
        .find_map(|(refusal, compiled)| {
            let found = wording(refusal, compiled)?.captures(&text)?;
            Some((refusal.prefix, found.get(1)?.as_str()))
        })
        .map(|(prefix, name)| match name {
            flag if flag.starts_with('-') => flag.to_owned(),
            letter if letter.len() == 1 => format!("-{letter}"),
            word => format!("{prefix}{word}"),
        })
}

/// The wordings by which providers refuse a schema, by id.
static SCHEMA_REFUSALS: LazyLock<HashMap<&str, Regex>> = LazyLock::new(|| {
    let sentences = rules::ALL
        .iter()
        .filter_map(|known| Some((known.id, known.errors.refused_schema?)));
    let compiled = sentences.filter_map(|(id, sentence)| Some((id, Regex::new(&format!("(?i){sentence}")).ok()?)));
    compiled.collect()
});

/// The reason why the CLI refused the schema for its answer; `None` if it did not.
pub fn refused_schema(provider: &str, stderr: &str) -> Option<String> {
    let text = plain(stderr);
    let found = SCHEMA_REFUSALS.get(provider)?.find(&text)?;
    Some(clip(found.as_str().trim_end(), 200))
}
