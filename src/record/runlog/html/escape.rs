//! Escapes foreign text for HTML. No foreign text gets into a page in any other way.

use std::fmt::{self, Display, Formatter};

use super::super::view::{one_line, visible};
use dfp_model::error::clip;

/// The most characters of a text that stands on one line.
const LONGEST_LINE: usize = 300;

/// Text that is escaped for elements, and for attributes in double quotes.
pub(super) struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (before, from) = rest.split_at(at);
            out.write_str(before)?;
            out.write_str(match from.as_bytes().first() {
                Some(b'&') => "&amp;",
                Some(b'<') => "&lt;",
                Some(b'>') => "&gt;",
                Some(b'"') => "&quot;",
                _ => "&#39;",
            })?;
            rest = from.get(1..).unwrap_or_default();
        }
        out.write_str(rest)
    }
}

/// A short foreign text as HTML: on one line, and cut if it is too long.
pub(super) fn shown(text: &str) -> String {
    brief(text, LONGEST_LINE)
}

/// Like [`shown`], with at most `chars` characters.
pub(super) fn brief(text: &str, chars: usize) -> String {
    // Only as much is looked at as can be shown: a name may be megabytes long.
    let head = head(text, chars.saturating_mul(8));
    let mut line = one_line(head);
    if head.len() < text.len() {
        line.push('…');
    }
    Escaped(&clip(&line, chars)).to_string()
}

/// A long foreign text as HTML, on any number of lines.
pub(super) fn block(text: &str) -> String {
    Escaped(&visible(text)).to_string()
}

/// The beginning of `text`, at most `bytes` long.
pub(super) fn head(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Quotes a file name for a POSIX shell.
pub(super) fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./~".contains(&byte);
    if !name.is_empty() && !name.starts_with(['-', '~']) && name.bytes().all(plain) {
        return name.to_owned();
    }
    let name = if name.starts_with('-') {
        format!("./{name}")
    } else {
        name.to_owned()
    };
    format!("'{}'", name.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_html_means_nothing() {
        assert_eq!(Escaped("a<b>&\"c'é").to_string(), "a&lt;b&gt;&amp;&quot;c&#39;é");
        assert_eq!(shown("a\n <b>"), "a &lt;b&gt;");
        assert_eq!(brief(&"é".repeat(10), 4), "ééé…");
        // Only a beginning of the text is looked at, and the cut is still marked.
        assert_eq!(brief(&format!("a{}b", " ".repeat(1_000)), 4), "a…");
        assert_eq!(head("aé", 2), "a");
    }

    #[test]
    fn names_lead_nowhere_else() {
        let quotes = ["run.jsonl", "a b", "-x", "a'; rm", ""].map(quoted);
        assert_eq!(quotes, ["run.jsonl", "'a b'", "'./-x'", "'a'\\''; rm'", "''"]);
    }
}
