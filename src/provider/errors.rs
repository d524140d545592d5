//! Error rules: the types of a provider's data about its failures (how they look, and what helps), and how a failed run is matched with
//! them. No code here knows a provider.
//!
//! In: nothing. Out: the types of the tables in the folders of the CLIs ([`Errors`]), which `classify` interprets; [`UserRule`], a rule
//! that a user adds for a CLI of their own, which comes before all tables; and [`RequestField`], a field of a request whose refusal
//! makes the call go another way.
//!
//! In: `Facts`, everything that is known of a failed run in comparable form. Out: the first [`Rule`] of a `Table` whose conditions
//! all hold.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use dfp_model::error::Code;

/// The data of one provider's failures.
#[derive(Debug, Clone, Copy)]
pub struct Errors {
    /// The rules that classify a failure by fields, exit codes and text. The first rule that holds decides.
    pub rules: &'static [Rule],
    /// Advice that is better than the code's general one.
    pub hints: &'static [(Code, &'static str)],
    /// The meaning of exit codes that no rule names.
    pub exit_codes: ExitCodes,
    /// The wordings with which it refuses a flag that it does not know; none if its option parser is unknown, or does not name the
    /// flag.
    pub refused_flags: &'static [RefusedFlag],
    /// The wording with which it refuses, before it does anything, a schema for its answer: a regular expression, case ignored. The
    /// match is the reason.
    pub refused_schema: Option<&'static str>,
    /// The beginnings of a line on standard error that announces a retry after a pause longer than any caller waits: the process is
    /// ended there. The text behind the line's first `): ` is the failure.
    pub long_pauses: &'static [&'static str],
    /// The length up to which an answer in text form is sure to be whole, bytes: of a longer one, the CLI loses the end as it
    /// exits, with exit code 0. `None` if it loses nothing.
    pub whole_text: Option<u64>,
    /// The other text of its error channel.
    pub channel: Channel,
}

/// The text of a CLI's error channel that is no failure. All CLIs' texts of this kind are recognised in any text, since a caller
/// who asks for the meaning of a text does not always say which CLI has written it.
#[derive(Debug, Clone, Copy)]
pub struct Channel {
    /// Whole lines that are no errors: regular expressions, case ignored, in which white space does not count.
    pub noise: &'static [&'static str],
    /// The beginning of a line at the top of a transcript, which includes an echo of the prompt. In a transcript, only marked lines
    /// (`ERROR: …`) are errors.
    pub transcript: Option<&'static str>,
    /// True if its failures in text form come on standard output, where others have their answer or half of it.
    pub fails_on_stdout: bool,
    /// The text before the reason that is about the CLI: a regular expression, in which `.` also matches a line's end.
    pub preamble: Option<&'static str>,
}

impl Channel {
    /// An error channel without such text.
    pub const PLAIN: Channel = Channel {
        noise: &[],
        transcript: None,
        fails_on_stdout: false,
        preamble: None,
    };
}

impl Errors {
    /// The data of a CLI whose failures are unknown: a CLI of the user's own.
    pub const NONE: Errors = Errors {
        rules: &[],
        hints: &[],
        exit_codes: ExitCodes::Failed,
        refused_flags: &[],
        refused_schema: None,
        long_pauses: &[],
        whole_text: None,
        channel: Channel::PLAIN,
    };

    /// The advice for `code`.
    pub fn hint(&self, code: Code) -> Option<&'static str> {
        self.hints.iter().find(|(of, _)| *of == code).map(|(_, hint)| *hint)
    }
}

/// The meaning of exit codes that no rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCodes {
    /// The code means only that the run failed.
    Failed,
    /// The code is an HTTP status modulo 256.
    HttpStatus,
}

/// The wording with which an option parser refuses a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedFlag {
    /// A regular expression, case ignored, whose first group is the flag. Only its first word: what follows may be a prompt.
    pub sentence: &'static str,
    /// The prefix that completes a bare word.
    pub prefix: &'static str,
}

/// The wording of commander (claude 2.1.197): `error: unknown option '--no-input'`.
pub const COMMANDER: RefusedFlag = refused_flag(r"unknown option '(--?\w[\w-]*)");
/// The wording of clap (codex-cli 0.169.0): `error: unexpected argument '--no-input' found`.
pub const CLAP: RefusedFlag = refused_flag(r"unexpected argument '(--?\w[\w-]*)");
/// The wording of yargs (gemini 0.61.0, qwen 0.15.10): `Unknown argument: input`; `Unknown arguments: core-tools, coreTools`.
pub const YARGS: RefusedFlag = refused_flag(r"unknown arguments?: (\w[\w-]*)");
/// The wording of argparse: `unrecognized arguments: --frob`.
pub const ARGPARSE: RefusedFlag = refused_flag(r"unrecognized arguments?:? '?(--?\w[\w-]*)");
/// The wording of Go's `flag`: `flag provided but not defined: -frob`.
pub const GO_FLAG: RefusedFlag = refused_flag(r"flag provided but not defined: (--?\w[\w-]*)");
/// The wording of pflag (Go): `unknown flag: --frob`.
pub const PFLAG: RefusedFlag = refused_flag(r"unknown flag:? '?(--?\w[\w-]*)");

/// The refusal of a schema by claude 2.1.332, qwen 0.15.10 and 0.24.4: `--json-schema is not a valid JSON Schema: strict mode:
/// unknown keyword: "x-a"`.
pub const JSON_SCHEMA: &str = r"--json-schema (?:root )?(?:is not|must) [^\n]*";

const fn refused_flag(sentence: &'static str) -> RefusedFlag {
    RefusedFlag { sentence, prefix: "--" }
}

/// A condition of a [`Rule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// A machine-readable word of the provider, in snake case (`snake`): `RateLimitError` is `rate_limit_error`.
    Kind(&'static str),
    /// The HTTP status of the API's answer.
    Status(u16),
    /// Any HTTP status from the first to the last, both included.
    Statuses(u16, u16),
    /// The provider's word for the reason of the run's end (claude: `terminal_reason`).
    Terminal(&'static str),
    /// The provider's word for the manner of the run's end (claude: `subtype`).
    Subtype(&'static str),
    /// The model's stop reason, in the provider's word.
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
    /// The account's organisation has no plan, as a field says (claude: `rate_limit_event` with `overageDisabledReason`
    /// `org_level_disabled` and no window of a plan).
    NoPlan,
    /// The provider asks for a wait of minutes at most, and does not mention a day's quota: Google names seconds there, too.
    Soon,
    /// All error channels are empty.
    Silent,
    /// The verdict of earlier tables, in a table that makes it finer.
    Is(Code),
    /// A pattern (`pattern`) found in an error channel.
    Text(&'static str),
}

/// Conditions, and the code that they mean. All conditions must hold; in a table the first rule that holds decides.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The conditions, all of which must hold.
    pub when: &'static [Condition],
    pub code: Code,
    /// A text the rule is for, as the CLI prints it. The tests read it back, so every rule has its own proof.
    #[cfg(test)]
    pub like: &'static str,
    /// Advice that is better than the code's general one.
    pub hint: Option<&'static str>,
    /// The reason in this package's wording, if the provider's own is missing or of no use to people.
    pub say: Option<&'static str>,
    /// True for a last resort, which counts only if neither text nor anything else says more.
    pub weak: bool,
}

impl Rule {
    /// A rule of `when`, with neither hint nor wording of its own.
    #[cfg_attr(
        not(test),
        expect(unused_variables, reason = "only the tests read what a rule is like")
    )]
    pub const fn new(when: &'static [Condition], code: Code, like: &'static str) -> Self {
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

    /// Returns this rule with a hint of its own.
    pub const fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Returns this rule with the reason in this package's wording.
    pub const fn say(mut self, say: &'static str) -> Self {
        self.say = Some(say);
        self
    }

    /// Returns this rule as a last resort.
    pub const fn weak(mut self) -> Self {
        self.weak = true;
        self
    }

    /// The pass in which the rule is tried.
    pub(crate) fn pass(&self) -> Pass {
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
pub(crate) enum Pass {
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
pub(crate) struct Facts {
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
pub(crate) struct Table {
    rules: &'static [Rule],
    patterns: OnceLock<Vec<Vec<Compiled>>>,
}

/// A pattern once it was needed. One that doesn't compile never holds; a test compiles them all.
pub(crate) type Compiled = OnceLock<Option<Regex>>;

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
pub(crate) fn pattern(source: &str) -> Result<Regex, regex::Error> {
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
pub(crate) fn spaced(text: &str) -> String {
    joined(text, ' ')
}

/// An identifier in snake case: `RESOURCE_EXHAUSTED`, `resource-exhausted` and `ResourceExhausted` become the same.
pub(crate) fn snake(word: &str) -> String {
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

/// A pattern whose match means a code.
#[derive(Debug, Clone)]
pub struct UserRule {
    pattern: Regex,
    code: Code,
    hint: Option<String>,
}

/// The error of a user's rule that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserRuleError {
    /// The pattern is not a regular expression.
    #[error("error rule {pattern:?} is not a regular expression: {why}")]
    Pattern {
        pattern: String,
        /// The message of the parser.
        why: String,
    },
    /// The code does not exist.
    #[error("error rule {pattern:?} names a code that does not exist: {code:?}")]
    Code { pattern: String, code: String },
}

impl UserRule {
    /// Makes the rule that text matching `pattern` (a regular expression, case ignored) means `code`, for example `RATE_LIMITED`.
    ///
    /// # Errors
    /// The pattern does not compile, or the code does not exist.
    pub fn new(pattern: &str, code: &str, hint: Option<String>) -> Result<Self, UserRuleError> {
        let known = Code::ALL.iter().find(|c| c.as_str() == code);
        Ok(UserRule {
            pattern: RegexBuilder::new(pattern)
                .case_insensitive(true)
                .size_limit(1 << 20)
                .build()
                .map_err(|e| UserRuleError::Pattern {
                    pattern: pattern.to_owned(),
                    why: e.to_string(),
                })?,
            code: *known.ok_or_else(|| UserRuleError::Code {
                pattern: pattern.to_owned(),
                code: code.to_owned(),
            })?,
            hint,
        })
    }
}

/// The code and hint of the first rule whose pattern matches.
pub fn first_user_rule(rules: &[UserRule], text: &str) -> Option<(Code, Option<String>)> {
    rules
        .iter()
        .find(|rule| rule.pattern.is_match(text))
        .map(|rule| (rule.code, rule.hint.clone()))
}

/// A field of an API's request.
#[derive(Debug)]
pub struct RequestField {
    /// The name at the top of the request.
    pub name: &'static str,
    /// Words, in lower case, by which a refusal names it.
    pub named_by: &'static [&'static str],
    /// Words, in lower case, of refusals that are about another member of the field than ours.
    pub not_by: &'static [&'static str],
    /// Words, in lower case, of refusals of one value alone.
    pub of_value_by: &'static [&'static str],
    /// True if it says what is otherwise said in words behind the thread.
    pub is_in_words_otherwise: bool,
    /// The other way, and the option that it serves, for a warning: "X is asked …".
    pub otherwise: &'static str,
    /// The code of that warning.
    pub warning: &'static str,
}

/// The extent of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The API does not take the field.
    Field,
    /// The API does not take this value of the field.
    Value,
}

impl RequestField {
    /// Returns what of the field an API refuses with `message`; `None` if the message does not name it.
    pub fn refused(&self, message: &str) -> Option<Refused> {
        let message = message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if !says(self.named_by) || says(self.not_by) {
            return None;
        }
        Some(match says(self.of_value_by) {
            true => Refused::Value,
            false => Refused::Field,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_decides() -> Result<(), UserRuleError> {
        let rules = [
            UserRule::new("flux capacitor", "OVERLOADED", Some("wait for lightning".to_owned()))?,
            UserRule::new("flux", "SERVER_ERROR", None)?,
        ];
        assert_eq!(
            first_user_rule(&rules, "The Flux Capacitor failed"),
            Some((Code::Overloaded, Some("wait for lightning".to_owned())))
        );
        assert_eq!(first_user_rule(&rules, "no flux"), Some((Code::ServerError, None)));
        assert_eq!(first_user_rule(&rules, "fine"), None);
        Ok(())
    }

    #[test]
    fn a_rule_that_is_none_says_why() {
        assert_eq!(
            UserRule::new("x", "NOPE", None)
                .map(|r| r.code)
                .map_err(|e| e.to_string()),
            Err("error rule \"x\" names a code that does not exist: \"NOPE\"".to_owned())
        );
        assert!(matches!(
            UserRule::new("(", "UNKNOWN", None),
            Err(UserRuleError::Pattern { .. })
        ));
    }

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
