//! What a rule is, and how a table of them is asked.
//!
//! In: [`Facts`], everything known of a failed run in comparable form. Out: the first [`Rule`] of a table whose
//! conditions all hold. Rules are data (`rules/`); nothing in here knows a provider.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use crate::error::Code;

/// One condition of a [`Rule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A machine-readable word of the provider, in snake case ([`snake`]): `RateLimitError` is `rate_limit_error`.
    Kind(&'static str),
    /// The HTTP status of the API's answer.
    Status(u16),
    /// Any HTTP status from the first to the last, both included.
    Statuses(u16, u16),
    /// The provider's word for why the run ended (claude: `terminal_reason`).
    Terminal(&'static str),
    /// The provider's word for how the run ended (claude: `subtype`).
    Subtype(&'static str),
    /// Why the model stopped, in the provider's word.
    Stop(&'static str),
    /// The run ended without asking the model anything.
    NoTurns,
    /// The exit code.
    Exit(i32),
    /// The signal, `SIGKILL`.
    Signal(&'static str),
    /// Any signal.
    AnySignal,
    /// A limit of the account's plan refused the request, as a field says which (claude: `rate_limit_event` with status
    /// `rejected` and a `rateLimitType`; a passing limit has no type).
    PlanLimit,
    /// No error channel said a word.
    Silent,
    /// What earlier tables said: for the table that makes a verdict finer.
    Is(Code),
    /// A [`pattern`] found in an error channel.
    Text(&'static str),
}

/// Conditions, and the code they come to. All conditions must hold; in a table the first rule that holds decides.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// All of them must hold.
    pub when: &'static [When],
    /// What it is.
    pub code: Code,
    /// A text the rule is for, as the CLI prints it. The tests feed it back, so every rule has its own proof.
    #[cfg(test)]
    pub like: &'static str,
    /// What to do, where the code's general advice (`hints`) is not the best one.
    pub hint: Option<&'static str>,
    /// The reason in our words, where the provider's own are absent or of no use to people.
    pub say: Option<&'static str>,
    /// Asked only when neither text nor anything else says more.
    pub weak: bool,
}

impl Rule {
    /// A rule of `when`, with neither hint nor wording of its own.
    #[cfg_attr(
        not(test),
        expect(unused_variables, reason = "only the tests read what a rule is like")
    )]
    pub const fn new(when: &'static [When], code: Code, like: &'static str) -> Self {
        Rule {
            when,
            code,
            #[cfg(test)]
            like,
            hint: None,
            say: None,
            weak: false,
        }
    }

    /// The same with a hint of its own.
    pub const fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// The same with the reason in our words.
    pub const fn say(mut self, say: &'static str) -> Self {
        self.say = Some(say);
        self
    }

    /// The same as a last resort.
    pub const fn weak(mut self) -> Self {
        self.weak = true;
        self
    }

    /// Which pass asks it.
    pub fn pass(&self) -> Pass {
        if self.weak {
            Pass::Last
        } else if self.when.iter().all(|w| matches!(w, When::Text(_))) {
            Pass::Text
        } else if self
            .when
            .iter()
            .any(|w| matches!(w, When::Exit(_) | When::Signal(_) | When::AnySignal))
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
    /// Words in error channels.
    Text,
    /// What is better than nothing.
    Last,
}

/// Everything known of a failed run in the form rules ask for.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Words of the provider, in snake case.
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
            conditions.all(|(when, pattern)| holds(when, pattern, facts))
        };
        self.rules
            .iter()
            .zip(patterns)
            .find(|(rule, patterns)| rule.pass() == pass && holds_all(rule, patterns))
            .map(|(rule, _)| rule)
    }
}

fn holds(when: &When, compiled: &Compiled, facts: &Facts) -> bool {
    match when {
        When::Kind(kind) => facts.kinds.iter().any(|k| k == kind),
        When::Status(status) => facts.status == Some(*status),
        When::Statuses(first, last) => facts.status.is_some_and(|s| (*first..=*last).contains(&s)),
        When::Terminal(word) => facts.terminal.as_deref() == Some(*word),
        When::Subtype(word) => facts.subtype.as_deref() == Some(*word),
        When::Stop(word) => facts.stop.as_deref() == Some(*word),
        When::NoTurns => facts.no_turns,
        When::Exit(code) => facts.exit == Some(*code),
        When::Signal(signal) => facts.signal.as_deref() == Some(*signal),
        When::AnySignal => facts.signal.is_some(),
        When::PlanLimit => facts.plan_limit,
        When::Silent => facts.text.trim().is_empty(),
        When::Is(code) => facts.is == Some(*code),
        When::Text(source) => compiled
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
