//! What a table of rules makes of a failed run.
//!
//! In: [`Facts`], everything known of a failed run in comparable form. Out: the first [`Rule`] of a table whose
//! conditions all hold. Rules are data (`provider/<id>/errors.rs`, `rules/`); nothing in here knows a provider.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use crate::error::Code;
use crate::provider::errors::{Condition, Rule};

impl Rule {
    /// Which pass asks it.
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

/// The order in which evidence is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// What the provider says in fields.
    Structure,
    /// Exit codes and signals that mean something.
    Exit,
    /// Text in error channels.
    Text,
    /// What is better than nothing.
    Last,
}

/// Everything known of a failed run in the form rules ask for.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Identifiers of the provider, in snake case.
    pub kinds: Vec<String>,
    /// HTTP status.
    pub status: Option<u16>,
    /// Why the run ended.
    pub terminal: Option<String>,
    /// How the run ended.
    pub subtype: Option<String>,
    /// Why the model stopped.
    pub stop: Option<String>,
    /// The model was never asked.
    pub no_turns: bool,
    /// Exit code.
    pub exit: Option<i32>,
    /// Signal.
    pub signal: Option<String>,
    /// A limit of the plan refused the request.
    pub plan_limit: bool,
    pub no_plan: bool,
    /// A wait of minutes at most is asked for, and no day's quota is named.
    pub soon: bool,
    /// What has been found so far.
    pub is: Option<Code>,
    /// The error channels, [`spaced`].
    pub text: String,
}

/// A list of rules. A pattern is compiled when it is first asked: most failures are known by a field, and never ask one.
pub struct Table {
    rules: &'static [Rule],
    patterns: OnceLock<Vec<Vec<Compiled>>>,
}

/// A pattern, once it was asked. (One that does not compile never holds; a test compiles them all.)
type Compiled = OnceLock<Option<Regex>>;

impl Table {
    /// The table of `rules`.
    pub const fn new(rules: &'static [Rule]) -> Self {
        Table {
            rules,
            patterns: OnceLock::new(),
        }
    }

    /// Its rules.
    #[cfg(test)]
    pub fn rules(&self) -> &'static [Rule] {
        self.rules
    }

    /// Whether the rule is one of this table.
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

/// Compiles a pattern: a regular expression, case ignored, in which `_` is any joint of two words (space, `_`, `-`, `.`
/// or none), `<` and `>` are a word's edges, and `'` is any apostrophe. `<rate_limit` finds `rate limit`,
/// `RATE_LIMIT_EXCEEDED` and `Rate-limited`, and not `frustrate limits`.
///
/// # Errors
/// What the regular expression's parser says.
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

/// Pulls camel case apart, so that one pattern finds `RateLimitError` and `rate limit error`.
pub fn spaced(text: &str) -> String {
    joined(text, ' ')
}

/// A machine-readable word in one spelling: `RESOURCE_EXHAUSTED`, `resource-exhausted` and `ResourceExhausted` are the same.
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
