//! The text output of old CLIs, which began with a few lines about themselves (the document's "Output parsing patterns").
//!
//! In: output that holds no event at all. Out: what its first lines tell, and the answer below them. The patterns count for
//! whole lines, each once (calls as often as they come), and only until the first line that is none of theirs: an answer may
//! speak of models and versions as it likes.

use std::sync::LazyLock;

use regex::Regex;

/// What the first lines tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// `Claude Code v1.2.3`.
    pub version: Option<&'a str>,
    /// `Model: claude-…`.
    pub model: Option<&'a str>,
    /// `Input tokens: 12`.
    pub input_tokens: Option<u64>,
    /// `Output tokens: 3`.
    pub output_tokens: Option<u64>,
    /// `[TOOL: Bash] ls`: names and arguments.
    pub calls: Vec<(&'a str, &'a str)>,
    /// What is below.
    pub answer: &'a str,
}

struct Patterns {
    version: Regex,
    model: Regex,
    tokens: Regex,
    call: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    Some(Patterns {
        version: Regex::new(r"(?i)^Claude Code (?:CLI )?v?(\d[\d.]*)\s*$").ok()?,
        model: Regex::new(r"(?i)^Model:\s+([\w.\-\[\]]+)\s*$").ok()?,
        tokens: Regex::new(r"(?i)^(Input|Output) tokens:\s+(\d+)\s*$").ok()?,
        call: Regex::new(r"(?i)^\[TOOL:\s+(\w+)\]\s*(.*)$").ok()?,
    })
});

/// Reads `text`, which has no escape sequences any more.
pub fn read(text: &str) -> Header<'_> {
    let mut header = Header {
        answer: text,
        ..Header::default()
    };
    let Some(patterns) = PATTERNS.as_ref() else {
        return header;
    };
    let mut rest = text;
    while !rest.is_empty() {
        let (line, below) = rest.split_once('\n').unwrap_or((rest, ""));
        if !header.takes(line.trim_end_matches('\r'), patterns) {
            break;
        }
        rest = below;
    }
    header.answer = rest.trim_end();
    header
}

impl<'a> Header<'a> {
    /// Whether `line` is one of the header's.
    fn takes(&mut self, line: &'a str, patterns: &Patterns) -> bool {
        let first = |found: regex::Captures<'a>| found.get(1).map(|group| group.as_str());
        if line.trim().is_empty() {
            return true;
        }
        if let Some(found) = patterns.version.captures(line) {
            return once(&mut self.version, first(found));
        }
        if let Some(found) = patterns.model.captures(line) {
            return once(&mut self.model, first(found));
        }
        if let Some(found) = patterns.tokens.captures(line) {
            let count = found[2].parse().ok();
            return match found[1].eq_ignore_ascii_case("input") {
                true => once(&mut self.input_tokens, count),
                false => once(&mut self.output_tokens, count),
            };
        }
        if let Some(found) = patterns.call.captures(line) {
            let group = |index| found.get(index).map_or("", |group| group.as_str());
            self.calls.push((group(1), group(2)));
            return true;
        }
        false
    }
}

/// Whether this was the first of its kind, and could be read.
fn once<T>(field: &mut Option<T>, found: Option<T>) -> bool {
    let first = field.is_none() && found.is_some();
    if first {
        *field = found;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_and_what_is_below() {
        let text = "Claude Code CLI v1.0.44\r\nModel: claude-x\n\nInput tokens: 12\nOutput tokens: 3\n[TOOL: Bash] ls -l\n\
                    Done.\nModel: other\n";
        let expected = Header {
            version: Some("1.0.44"),
            model: Some("claude-x"),
            input_tokens: Some(12),
            output_tokens: Some(3),
            calls: vec![("Bash", "ls -l")],
            answer: "Done.\nModel: other",
        };
        assert_eq!(read(text), expected);
    }

    #[test]
    fn prose_changes_nothing() {
        for text in [
            "I installed version 4.17.21.\nModel: T-800",
            "The Model: claude-x is good",
            "See [TOOL: Bash] ls",
            "Claude Code v2 is a program",
            "Input tokens: 12 of 100",
        ] {
            let expected = Header {
                answer: text,
                ..Header::default()
            };
            assert_eq!(read(text), expected);
        }
    }
}
