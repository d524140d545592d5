//! Finds an HTTP status in prose. A number counts only if the words around it say that it is one.
//!
//! In: the text of an error channel. Out: the status. `HTTP 429`, `status: 503`, `(429)`, `429 Too Many Requests`, `API Error:
//! 529`, `"code": 404` and a line with nothing but the number are statuses; `line 500`, `(node:404)`, `$400`, `404 files` and `took
//! 429 ms` are not.

use std::sync::LazyLock;

use regex::Regex;

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

/// The compiled patterns of this module.
struct StatusPatterns {
    number: Regex,
    before: Regex,
    not_before: Regex,
    names: Regex,
    body: Regex,
    units: Regex,
}

static PATTERNS: LazyLock<Option<StatusPatterns>> = LazyLock::new(|| {
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
    let patterns = PATTERNS.as_ref()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_in_context_is_a_status() {
        let table = [
            ("429", 429),
            ("  503 \n", 503),
            ("\"404\"", 404),
            ("HTTP 429", 429),
            ("HTTP/1.1 502 Bad Gateway", 502),
            ("HTTP error 500", 500),
            ("status 429", 429),
            ("status: 503", 503),
            ("status=429", 429),
            ("status code 404", 404),
            ("statusCode: 401", 401),
            ("last status: 429 Too Many Requests", 429),
            ("unexpected status 401 Unauthorized: Incorrect API key", 401),
            ("Request rejected (429) · rate limit.", 429),
            ("429 Too Many Requests", 429),
            ("504 Gateway Timeout", 504),
            ("API Error: 529 Overloaded", 529),
            ("API Error: 400 messages: text content blocks must be non-empty", 400),
            ("[API Error: 401 Incorrect API key provided]", 401),
            ("Error: 503", 503),
            ("error 404", 404),
            ("error code 403", 403),
            (r#"{"code": 404}"#, 404),
            (r#"{"code":429,"x":1}"#, 429),
            ("  status: 500\n}", 500),
            ("the server returned 503", 503),
            ("responded with a 502", 502),
            ("upstream responded with status 504", 504),
            ("failed\n429\n", 429),
            ("429 You exceeded your current quota", 429),
            (r#"400 {"type":"error"}"#, 400),
        ];
        for (text, expected) in table {
            assert_eq!(status_in(text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn a_number_out_of_context_is_none() {
        let table = [
            "line 500",
            "error on line 401",
            "(node:404) Warning: something",
            "$400",
            "costs 400$ a month",
            "404 files",
            "404 Files",
            "I read 404 Rows",
            "Error: 404 files missing",
            "took 429 ms",
            "got 500 tokens",
            "received 503 bytes",
            "retry after 500ms",
            "port 5000",
            "127.0.0.1:500",
            "main.rs:404:12",
            "foo.c(404): wrong",
            "v4.0.3",
            "version 4.500",
            "HTTP 200",
            "exit code 401",
            "exited with code 500",
            "error 500.5",
            "500,000 errors",
            "sk-401",
            "#404",
            "id 401f",
            "error 400-500",
            "at 429%",
        ];
        for text in table {
            assert_eq!(status_in(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in r"(?s)(\PC|[45][0-9]{2}|status |error: |\(|\)|\n){0,80}") {
            if let Some(status) = status_in(&text) {
                prop_assert!((400..600).contains(&status));
                prop_assert!(text.contains(&status.to_string()));
            }
        }
    }
}
