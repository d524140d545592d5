//! Matches the facts of a failed run with tables of rules.
//!
//! In: [`Facts`], everything that is known of a failed run in comparable form. Out: the first [`Rule`] of a table whose conditions
//! all hold. Rules are data (`provider/<id>/errors.rs`, `rules.rs`); this module knows no provider.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use crate::errors::{Condition, Rule};
use dfp_model::error::Code;

impl Rule {
    /// The pass in which the rule is tried.
    pub(super) fn pass(&self) -> Pass {
        if self.weak {
            Pass::Last
        } else if self
            .when
            .iter()
            .all(|w| matches!(w, Condition::Text(_) | Condition::Soon))
        {
            Pass::Text
        } else if self
            .when
            .iter()
            .any(|w| matches!(w, Condition::Exit(_) | Condition::Signal(_) | Condition::AnySignal))
        {
            Pass::Exit
        } else {
            Pass::Structure
        }
    }
}

/// The passes in which rules are tried, in the order in which evidence is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Rules on the provider's fields.
    Structure,
    /// Rules on exit codes and signals that have a meaning.
    Exit,
    /// Rules on the text of error channels.
    Text,
    /// Weak rules, tried when no other holds.
    Last,
}

/// The facts of a failed run, in the form that rules ask for.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Identifiers of the provider, in snake case.
    pub kinds: Vec<String>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The reason why the run ended (claude: `terminal_reason`).
    pub terminal: Option<String>,
    /// The way the run ended (claude: `subtype`).
    pub subtype: Option<String>,
    /// The reason why the model stopped.
    pub stop: Option<String>,
    /// The model was never asked.
    pub no_turns: bool,
    /// The exit code.
    pub exit: Option<i32>,
    /// The signal.
    pub signal: Option<String>,
    /// A limit of the plan refused the request.
    pub plan_limit: bool,
    pub no_plan: bool,
    /// A wait of minutes at most is asked for, and no daily quota is named.
    pub soon: bool,
    /// The code found so far, for refinements.
    pub is: Option<Code>,
    /// The text of the error channels, after [`spaced`].
    pub text: String,
}

/// A list of rules. A pattern is compiled when it is first needed: most failures are recognised by a field, and need none.
pub struct Table {
    rules: &'static [Rule],
    patterns: OnceLock<Vec<Vec<Compiled>>>,
}

/// A pattern once it was needed. One that doesn't compile never holds; a test compiles them all.
type Compiled = OnceLock<Option<Regex>>;

impl Table {
    /// The table of `rules`.
    pub const fn new(rules: &'static [Rule]) -> Self {
        Table {
            rules,
            patterns: OnceLock::new(),
        }
    }

    /// The table's rules.
    #[cfg(test)]
    pub fn rules(&self) -> &'static [Rule] {
        self.rules
    }

    /// `true` if the rule is in this table.
    pub fn owns(&self, rule: &'static Rule) -> bool {
        self.rules.as_ptr_range().contains(&std::ptr::from_ref(rule))
    }

    /// The first rule of `pass` that holds.
    pub fn first(&self, pass: Pass, facts: &Facts) -> Option<&'static Rule> {
        let patterns = self.patterns.get_or_init(|| {
            let none_yet = |rule: &Rule| rule.when.iter().map(|_| Compiled::new()).collect();
            self.rules.iter().map(none_yet).collect()
        });
        let holds_all = |rule: &Rule, patterns: &[Compiled]| {
            let mut conditions = rule.when.iter().zip(patterns);
            conditions.all(|(condition, pattern)| holds(condition, pattern, facts))
        };
        self.rules
            .iter()
            .zip(patterns)
            .find(|(rule, patterns)| rule.pass() == pass && holds_all(rule, patterns))
            .map(|(rule, _)| rule)
    }
}

/// `true` if the facts meet the condition.
fn holds(condition: &Condition, compiled: &Compiled, facts: &Facts) -> bool {
    match condition {
        Condition::Kind(kind) => facts.kinds.iter().any(|k| k == kind),
        Condition::Status(status) => facts.status == Some(*status),
        Condition::Statuses(first, last) => facts.status.is_some_and(|s| (*first..=*last).contains(&s)),
        Condition::Terminal(word) => facts.terminal.as_deref() == Some(*word),
        Condition::Subtype(word) => facts.subtype.as_deref() == Some(*word),
        Condition::Stop(word) => facts.stop.as_deref() == Some(*word),
        Condition::NoTurns => facts.no_turns,
        Condition::Exit(code) => facts.exit == Some(*code),
        Condition::Signal(signal) => facts.signal.as_deref() == Some(*signal),
        Condition::AnySignal => facts.signal.is_some(),
        Condition::PlanLimit => facts.plan_limit,
        Condition::NoPlan => facts.no_plan,
        Condition::Soon => facts.soon,
        Condition::Silent => facts.text.trim().is_empty(),
        Condition::Is(code) => facts.is == Some(*code),
        Condition::Text(source) => compiled
            .get_or_init(|| pattern(source).ok())
            .as_ref()
            .is_some_and(|pattern| pattern.is_match(&facts.text)),
    }
}

/// Compiles a pattern. It is a regular expression without regard to case, in which `_` is any joint of two words (space, `_`, `-`,
/// `.` or none), `<` and `>` are the edges of a word, and `'` is any apostrophe. `<rate_limit` finds `rate limit`,
/// `RATE_LIMIT_EXCEEDED` and `Rate-limited`, but not `frustrate limits`.
///
/// # Errors
/// The message of the regular expression's parser.
pub fn pattern(source: &str) -> Result<Regex, regex::Error> {
    let mut expanded = String::with_capacity(source.len() + 64);
    for c in source.chars() {
        match c {
            '_' => expanded.push_str(r"[\s_.\-]?"),
            '<' => expanded.push_str("(?:^|[^a-z0-9])"),
            '>' => expanded.push_str("(?:$|[^a-z0-9])"),
            '\'' => expanded.push_str("['’]"),
            other => expanded.push(other),
        }
    }
    RegexBuilder::new(&expanded).case_insensitive(true).build()
}

/// Separates camel case into words, so that one pattern finds `RateLimitError` and `rate limit error`.
pub fn spaced(text: &str) -> String {
    joined(text, ' ')
}

/// An identifier in snake case: `RESOURCE_EXHAUSTED`, `resource-exhausted` and `ResourceExhausted` become the same.
pub fn snake(word: &str) -> String {
    joined(word.trim(), '_')
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect()
}

/// Puts `joint` before each word inside camel case: `RateLimitError` becomes `Rate Limit Error`, `HTTPError` becomes `HTTP Error`.
fn joined(text: &str, joint: char) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut chars = text.chars().peekable();
    let (mut before, mut last) = (' ', ' ');
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let word_begins = c.is_ascii_uppercase()
            && (last.is_ascii_lowercase()
                || (last.is_ascii_uppercase() && before.is_ascii_uppercase() && next.is_ascii_lowercase()));
        if word_begins {
            out.push(joint);
        }
        out.push(c);
        (before, last) = (last, c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_comes_apart() {
        assert_eq!(
            spaced("TerminalQuotaError: APIError, ECONNRESET, iPhone"),
            "Terminal Quota Error: API Error, ECONNRESET, i Phone"
        );
        assert_eq!(snake("APIError"), "api_error");
        assert_eq!(snake("RESOURCE_EXHAUSTED"), "resource_exhausted");
        assert_eq!(snake("ContextOverflowError"), "context_overflow_error");
    }

    #[test]
    fn a_pattern_has_joints_and_edges() {
        let found = pattern("<rate_limit").map(|p| {
            [
                "rate limit",
                "RATE_LIMIT_EXCEEDED",
                "a Rate-limited call",
                "ratelimit",
                "frustrate limits",
                "rate  limit",
            ]
            .map(|text| p.is_match(text))
        });
        assert_eq!(found, Ok([true, true, true, true, false, false]));
    }
}
