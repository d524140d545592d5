//! Removes line prefixes and markup from quoted text: mails, diffs, comments, listings, logs, highlighted code.
//!
//! In: a text with a quotation. Out: the text without prefixes and tags.

use std::borrow::Cow;

use memchr::memchr_iter;

/// The kind of line prefix by which a quotation is set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    /// The `> ` of mails, one of possibly several; mails wrap their lines, too.
    Mail,
    /// Marks: `+ `, `- `, `| `, `// `, ` * `.
    Marks,
    /// Any text before a piece of JSON: a number, a time, a level, a place.
    Anything,
}

impl Prefix {
    pub(super) const ALL: [Prefix; 3] = [Prefix::Mail, Prefix::Marks, Prefix::Anything];

    /// Returns `text` without the prefixes of its lines.
    pub(super) fn taken_off(self, text: &str) -> Cow<'_, str> {
        let mut out: Option<String> = None;
        let mut from = 0;
        for end in memchr_iter(b'\n', text.as_bytes()).chain([text.len()]) {
            let line = &text[from..end];
            let stripped = self.of_line(line);
            if stripped.len() < line.len() && out.is_none() {
                out = Some(String::with_capacity(text.len()));
                out.iter_mut().for_each(|out| out.push_str(&text[..from]));
            }
            if let Some(out) = &mut out {
                out.push_str(stripped);
                out.push('\n');
            }
            from = end + 1;
        }
        out.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    fn of_line(self, line: &str) -> &str {
        match self {
            Prefix::Mail => line.trim_start().strip_prefix('>').unwrap_or(line),
            Prefix::Marks => without_marks(line),
            Prefix::Anything => json_of(line),
        }
    }
}

fn is_mark(c: char) -> bool {
    matches!(
        c,
        '>' | '+' | '-' | '|' | '#' | '*' | '/' | '!' | ';' | '%' | '<' | '=' | '~' | '│' | '┃'
    )
}

/// Returns `line` without the marks at its beginning. Blanks alone are not a prefix: they never count.
fn without_marks(line: &str) -> &str {
    let inner = line.trim_start();
    let behind = inner.trim_start_matches(|c: char| is_mark(c) || c.is_whitespace());
    let cell = without_column(behind);
    match cell.len() == inner.len() {
        true => line,
        false => cell,
    }
}

/// Returns `text` without the border at the end of a table's column.
fn without_column(text: &str) -> &str {
    text.trim_end().strip_suffix(['|', '│', '┃']).unwrap_or(text)
}

/// Returns `line` from where JSON may begin; its last word if none does.
fn json_of(line: &str) -> &str {
    let mut from = 0;
    loop {
        let Some(at) = line[from..].find(['{', '}', '[', ']', '"']).map(|at| from + at) else {
            let cell = without_column(line).trim_end();
            return cell
                .rfind(char::is_whitespace)
                .map_or(cell, |at| cell[at..].trim_start());
        };
        // A prefix like `[INFO] `: brackets around a few words, and text behind them.
        let group = line[at..].strip_prefix('[').and_then(|inner| inner.split_once(']'));
        match group {
            Some((inner, behind)) if !inner.contains(['"', '{', '}', '[', '\\']) && goes_on(behind) => {
                from = line.len() - behind.len();
            }
            _ => {
                let escaped = line[..at].trim_end_matches('\\').len();
                return without_column(&line[escaped..]);
            }
        }
    }
}

/// Returns whether text follows the closing bracket that is not the rest of a list's line.
fn goes_on(behind: &str) -> bool {
    let next = behind.chars().next();
    next.is_some_and(|c| !matches!(c, ',' | ']' | '}')) && !behind.trim().is_empty()
}

/// The length of the longest tag, bytes.
const MAX_TAG: usize = 2_048;

/// Returns `text` without the HTML and XML tags in it.
pub(super) fn without_tags(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let mut from = 0;
    for at in memchr_iter(b'<', bytes) {
        let begins = bytes
            .get(at + 1)
            .is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'!'));
        if at < from || !begins {
            continue;
        }
        let tag = bytes[at + 1..]
            .iter()
            .take(MAX_TAG)
            .position(|byte| matches!(byte, b'<' | b'>'));
        if let Some(end) = tag.map(|length| at + 1 + length).filter(|end| bytes[*end] == b'>') {
            let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
            out.push_str(&text[from..at]);
            from = end + 1;
        }
    }
    match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(&text[from..]);
            Cow::Owned(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_what_sets_them_off() {
        let marks = |text| Prefix::Marks.taken_off(text).into_owned();
        assert_eq!(marks("a\n> > {\n+  \"b\": -1,\n | } | \n"), "a\n{\n\"b\": -1,\n} \n\n");
        assert!(matches!(Prefix::Marks.taken_off("a\n  b -\n{"), Cow::Borrowed(_)));
        let anything = |line| Prefix::Anything.taken_off(line).trim_end().to_owned();
        for (line, json) in [
            ("12\t  \"a\": 1,", "\"a\": 1,"),
            ("2026-11-24T00:00:00Z INFO [main] [7] {", "{"),
            ("[12:00] \\\"a\\\":", "\\\"a\\\":"),
            ("a.json:3:  [1, 2],", "[1, 2],"),
            ("17  []", "[]"),
            ("[main] [7]   ]", "]"),
            ("| 3 |   1, |", "1,"),
            ("3 | 1,", "1,"),
            ("one", "one"),
        ] {
            assert_eq!(anything(line), json, "{line}");
        }
    }

    #[test]
    fn tags_are_gone_and_other_angles_stay() {
        assert_eq!(
            without_tags("<td class=\"n\"></td><b>{</b> a < b <!-- x -->&lt;i> 1<2 </"),
            "{ a < b &lt;i> 1<2 </"
        );
        assert!(matches!(without_tags("a < b"), Cow::Borrowed(_)));
    }
}
