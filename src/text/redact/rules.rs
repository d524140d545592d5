//! The table of rules: the shapes of secrets.
//!
//! A rule is a pattern, the place where it applies, and example texts. The pattern for a match's beginning (`begun`) needs no
//! table of its own: it is derived from the pattern ([`beginning`]).
//!
//! A pattern matches its last run of characters to the end, so that later text changes nothing about a finished match; only
//! [`Ends::AtOnce`] may stop before. Word boundaries are ASCII's, since Unicode's make the search slow.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use regex::{Regex, RegexSet};
use regex_syntax::hir::{Capture, Hir, HirKind, Repetition};

use super::{Channel, REDACTED};

/// The texts to which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Everywhere,
    /// Messages about failures only: in other texts the rule would redact too much.
    InErrors,
}

/// The point at which a match is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// The match ends before the first character that does not belong to it.
    WithRun,
    /// The match ends with its own last character.
    AtOnce,
}

/// A kind of secret. If the pattern has a group, only the group is the secret.
pub(super) struct Rule {
    pub pattern: &'static str,
    pub holds: Holds,
    pub ends: Ends,
    /// Decides whether a match is really a secret.
    pub is_secret: fn(&str) -> bool,
    /// Example texts, each with its redacted form.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "what a rule is made for stands beside it; tests read it")
    )]
    pub examples: &'static [(&'static str, &'static str)],
}

const fn rule(pattern: &'static str, examples: &'static [(&'static str, &'static str)]) -> Rule {
    Rule {
        pattern,
        holds: Holds::Everywhere,
        ends: Ends::WithRun,
        is_secret: always,
        examples,
    }
}

const fn in_errors(pattern: &'static str, examples: &'static [(&'static str, &'static str)]) -> Rule {
    Rule {
        holds: Holds::InErrors,
        ..rule(pattern, examples)
    }
}

impl Rule {
    const fn only(self, is_secret: fn(&str) -> bool) -> Rule {
        Rule { is_secret, ..self }
    }
}

/// The table of rules.
pub(super) const RULES: &[Rule] = &[
    // OpenAI, Anthropic, OpenRouter, z.ai; Stripe.
    rule(
        r"(?-u:\b)sk-(?:(?:ant|proj|or|svcacct|admin|live|test)-[A-Za-z0-9_-]{4,}|[A-Za-z0-9_-]{16,})",
        &[
            ("(sk-ant-api03-AbC_d-9), and", "([redacted]), and"),
            ("sk-0123456789abcdef0123\n", "[redacted]\n"),
            ("sk- and a task-management-for-everyone", "sk- and a task-management-for-everyone"),
        ],
    ),
    in_errors(
        r"(?-u:\b)sk-[A-Za-z0-9_\-*.]{4,}",
        &[
            ("Incorrect API key provided: sk-fake.", "Incorrect API key provided: [redacted]"),
            ("key sk-ab***yz refused", "key [redacted] refused"),
        ],
    ),
    rule(
        r"(?-u:\b)[sr]k_(?:live|test)_[A-Za-z0-9]{8,}",
        &[("(sk_live_0123456789)", "([redacted])")],
    ),
    in_errors(
        r"(?-u:\b)sess-[A-Za-z0-9]{8,}",
        &[("session sess-0123456789 is over", "session [redacted] is over")],
    ),
    // GitHub, GitLab, npm, Hugging Face.
    rule(
        r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{8,}",
        &[("(ghp_0123456789abcdefghij)", "([redacted])")],
    ),
    rule(
        r"(?-u:\b)github_pat_[A-Za-z0-9_]{8,}",
        &[("(github_pat_11ABCDEFG0_abc)", "([redacted])")],
    ),
    rule(
        r"(?-u:\b)glpat-[A-Za-z0-9_-]{8,}",
        &[("(glpat-abcdefghij_0123456789)", "([redacted])")],
    ),
    rule(
        r"(?-u:\b)npm_[A-Za-z0-9]{30,}",
        &[
            ("(npm_0123456789abcdefghij0123456789abcdef)", "([redacted])"),
            ("npm_config_registry and npm_lifecycle", "npm_config_registry and npm_lifecycle"),
        ],
    ),
    rule(
        r"(?-u:\b)hf_[A-Za-z0-9]{20,}",
        &[("(hf_0123456789abcdefghijkl)", "([redacted])")],
    ),
    // Amazon, Google, Slack, xAI.
    rule(
        r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{12,}",
        &[("(AKIAIOSFODNN7EXAMPLE)", "([redacted])")],
    ),
    rule(
        r"(?-u:\b)AIza[A-Za-z0-9_-]{30,}",
        &[("(AIzaSyA-1234567890abcdefghijklmnopqrst)", "([redacted])")],
    ),
    in_errors(
        r"(?-u:\b)AIza[A-Za-z0-9_-]{8,}",
        &[("key AIzaSyA1234567890abcdef refused", "key [redacted] refused")],
    ),
    rule(
        r"(?-u:\b)ya29\.[A-Za-z0-9_-]{16,}",
        &[("(ya29.a0AfH6SMB0123456789)", "([redacted])")],
    ),
    in_errors(
        r"(?-u:\b)ya29\.[A-Za-z0-9_-]{8,}",
        &[("(ya29.a0AfH6SM)", "([redacted])")],
    ),
    rule(
        r"(?-u:\b)xox[a-z]-[A-Za-z0-9-]{8,}",
        &[("(xoxb-1234567890-abc)", "([redacted])")],
    ),
    rule(
        r"(?-u:\b)xai-[A-Za-z0-9]{16,}",
        &[("(xai-0123456789abcdef01)", "([redacted])")],
    ),
    in_errors(
        r"(?-u:\b)xai-[A-Za-z0-9_-]{4,}",
        &[("xai-abcdef0123 refused", "[redacted] refused")],
    ),
    // JSON web tokens.
    rule(
        r"(?-u:\b)eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*",
        &[
            ("(eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl)", "([redacted])"),
            ("eyJust a word", "eyJust a word"),
        ],
    ),
    in_errors(
        r"(?-u:\b)eyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]+)*",
        &[("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0 expired", "[redacted] expired")],
    ),
    // Headers of HTTP.
    rule(
        r"(?i)(?-u:\b)bearer[ \t]+([A-Za-z0-9._~+/=-]{8,})",
        &[
            ("Authorization: Bearer abc.DEF-123", "Authorization: Bearer [redacted]"),
            ("Bearer responsibilities are many", "Bearer responsibilities are many"),
            ("the bearer certificates.", "the bearer certificates."),
        ],
    )
    .only(is_no_word),
    rule(
        r#"(?i)(?-u:\b)authorization["']?[ \t]*[:=][ \t]*["']?basic[ \t]+([A-Za-z0-9+/=]{8,})"#,
        &[("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]")],
    ),
    in_errors(
        r#"(?i)(?-u:\b)(?:bearer|basic)[ \t]+([^\s"',;&<>\[\]]{6,})"#,
        &[("Bearer zzzz9$ refused", "Bearer [redacted] refused")],
    )
    .only(is_no_plain_word),
    in_errors(
        r#"(?ix)
        (?-u:\b)(?:api[_-]?key|x-api-key|access[_-]?token|refresh[_-]?token|auth[_-]?token|client[_-]?secret|password|secret
            |authorization)
        ["']?\ *[:=]\ *["']?(?:bearer\ +|basic\ +)?
        ([^\s"',;&<>\[\]]{6,})"#,
        &[
            (
                "header Authorization: Bearer abc.def-123456",
                "header Authorization: Bearer [redacted]",
            ),
            ("x-api-key=qwerty123, next", "x-api-key=[redacted], next"),
            (r#"{"api_key":"hunter2hunter2"}"#, r#"{"api_key":"[redacted]"}"#),
            ("api_key: invalid", "api_key: invalid"),
        ],
    )
    .only(is_no_plain_word),
    // Keys in PEM form, whole or cut short.
    Rule {
        ends: Ends::AtOnce,
        ..rule(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
            &[
                (
                    "a -----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY----- b",
                    "a [redacted] b",
                ),
                ("a -----BEGIN PRIVATE KEY-----\nabc", "a [redacted]"),
            ],
        )
    },
    // Passwords in addresses.
    Rule {
        ends: Ends::AtOnce,
        ..rule(
            r"://[^\s:/@]*:([^\s/@]+)@",
            &[
                ("https://me:hunter2@example.com/x", "https://me:[redacted]@example.com/x"),
                ("https://example.com:8080/a@b", "https://example.com:8080/a@b"),
            ],
        )
    },
    Rule {
        ends: Ends::AtOnce,
        ..in_errors(
            r"://([^\s:/@]+:[^\s/@]+)@",
            &[("https://me:pa55@host/v1", "https://[redacted]@host/v1")],
        )
    },
    // Lines that `env` prints and `.env` files hold.
    rule(
        r#"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)["']?[ \t]*[=:][ \t]*["']?([^\s"',;]{6,})"#,
        &[
            ("export API_KEY=\"abcdef\"", "export API_KEY=\"[redacted]\""),
            ("DB_PASSWORD: hunter22\nnext", "DB_PASSWORD: [redacted]\nnext"),
            (r#"{"MY_TOKEN": "abcdef"}"#, r#"{"MY_TOKEN": "[redacted]"}"#),
            (
                "API_KEY=$OTHER TOKEN=<your-token> MAX_OUTPUT_TOKEN=128000 API_KEY=[redacted]",
                "API_KEY=$OTHER TOKEN=<your-token> MAX_OUTPUT_TOKEN=128000 API_KEY=[redacted]",
            ),
        ],
    )
    .only(is_value),
    // Any other long run of letters and digits.
    in_errors(
        r"[A-Za-z0-9_+=-]{32,}",
        &[
            (
                "token 0123456789abcdef0123456789abcdef01234567 bad",
                "token [redacted] bad",
            ),
            (
                "session a67338ec-86e1-4722-a738-d9c669df5219",
                "session a67338ec-86e1-4722-a738-d9c669df5219",
            ),
            (
                "Request ID: req_011CSHoEeqs5C35K2UUqR7FyAbCdEf",
                "Request ID: req_011CSHoEeqs5C35K2UUqR7FyAbCdEf",
            ),
            (
                "model claude-opus-4-8-20260101-preview-of-all",
                "model claude-opus-4-8-20260101-preview-of-all",
            ),
        ],
    )
    .only(is_token),
];

/// Prefixes of ids that a vendor's support asks for: they are not secrets, though they are long. The last two are those of our
/// runs.
const IDS: [&str; 9] = [
    "req_", "msg_", "ses_", "toolu_", "err_", "call_", "resp_", "run-", "agent-",
];

/// A rule, with its patterns once they were needed: most texts match no rule, and what is no stream has no pieces. A pattern that doesn't
/// compile finds nothing, which a test excludes.
struct Compiled {
    rule: &'static Rule,
    whole: OnceLock<Option<Regex>>,
    begun: OnceLock<Option<Regex>>,
}

impl Compiled {
    fn of(rule: &'static Rule) -> Compiled {
        Compiled {
            rule,
            whole: OnceLock::new(),
            begun: OnceLock::new(),
        }
    }

    /// The rule's own pattern.
    fn whole(&self) -> Option<&Regex> {
        let compile = || Regex::new(self.rule.pattern).ok();
        self.whole.get_or_init(compile).as_ref()
    }

    /// A pattern for a match or its beginning, at the end of a text.
    fn begun(&self) -> Option<&Regex> {
        let compile = || Regex::new(&format!(r"(?:{})\z", beginning(self.rule.pattern)?)).ok();
        self.begun.get_or_init(compile).as_ref()
    }
}

/// The rules of a channel.
struct Table {
    /// All patterns in one; `None` if one doesn't compile, and each rule is then tried.
    any: Option<RegexSet>,
    rules: Vec<Compiled>,
}

impl Table {
    fn of(holds: impl Fn(Holds) -> bool) -> Table {
        let rules = RULES.iter().filter(|rule| holds(rule.holds));
        Table {
            any: RegexSet::new(rules.clone().map(|rule| rule.pattern)).ok(),
            rules: rules.map(Compiled::of).collect(),
        }
    }

    fn for_channel(channel: Channel) -> Option<&'static Table> {
        static RECORDS: LazyLock<Table> = LazyLock::new(|| Table::of(|holds| holds == Holds::Everywhere));
        static ERRORS: LazyLock<Table> = LazyLock::new(|| Table::of(|_| true));
        match channel {
            Channel::Error => Some(&ERRORS),
            Channel::Record => Some(&RECORDS),
            Channel::Answer => None,
        }
    }
}

/// The number of the channel's rules that compile.
#[cfg(test)]
pub(super) fn compiled(channel: Channel) -> usize {
    let compiles = |rule: &&Compiled| rule.whole().is_some() && rule.begun().is_some();
    Table::for_channel(channel).map_or(0, |table| table.rules.iter().filter(compiles).count())
}

/// Calls `found` with the range of each match in `text` that begins at `from` or behind, and with the range of the secret in
/// it, if it has one. The text before `from` only tells whether a word begins there. One pass finds the rules that match at
/// all; most texts match none.
pub(super) fn matches(
    channel: Channel,
    text: &str,
    from: usize,
    mut found: impl FnMut(Range<usize>, Option<Range<usize>>),
) {
    let Some(table) = Table::for_channel(channel) else {
        return;
    };
    let matching: Vec<usize> = match &table.any {
        Some(any) => any.matches_at(text, from).into_iter().collect(),
        None => (0..table.rules.len()).collect(),
    };
    for compiled in matching.into_iter().filter_map(|at| table.rules.get(at)) {
        let (rule, Some(whole)) = (compiled.rule, compiled.whole()) else {
            continue;
        };
        let mut at = from;
        // No rule matches an empty text, so each match moves on.
        while let Some(captures) = whole.captures_at(text, at) {
            let Some(all) = captures.get(0).filter(|all| all.end() > at) else {
                break;
            };
            let secret = captures.get(1).unwrap_or(all);
            let is_secret = secret.as_str() != REDACTED && (rule.is_secret)(secret.as_str());
            found(all.range(), is_secret.then(|| secret.range()));
            at = all.end();
        }
    }
}

/// The offset, not before `from`, of a possible secret at the end of `text` that may still be incomplete; the text's length if
/// there is none.
pub(super) fn begun(channel: Channel, text: &str, from: usize) -> usize {
    let Some(table) = Table::for_channel(channel) else {
        return text.len();
    };
    let begins = |compiled: &Compiled| {
        // Matches that are finished by themselves lie before this offset.
        let mut over = from;
        if compiled.rule.ends == Ends::AtOnce {
            // One that ends with the text may have ended because of that: a key in PEM form does.
            let finished = |from| {
                compiled
                    .whole()?
                    .find_at(text, from)
                    .filter(|found| found.end() < text.len())
            };
            while let Some(found) = finished(over) {
                over = found.end();
            }
        }
        let found = compiled.begun().and_then(|begun| begun.find_at(text, over));
        found.map_or(text.len(), |found| found.start())
    };
    table.rules.iter().map(begins).min().unwrap_or(text.len())
}

fn always(_: &str) -> bool {
    true
}

/// Rejects plain words behind a scheme: `Bearer of good news` has no token, nor has `bearer responsibilities.`.
fn is_no_word(token: &str) -> bool {
    let token = token.trim_end_matches(['.', '-', '=', '/']);
    token.len() >= 20 || token.bytes().any(|byte| !byte.is_ascii_lowercase())
}

/// Rejects plain words behind a name: `API key: invalid` has no key.
fn is_no_plain_word(value: &str) -> bool {
    !value.chars().all(|c| c.is_ascii_lowercase() || c == '.')
}

/// Rejects placeholders and numbers: `API_KEY=$KEY`, `TOKEN: <yours>` and `MAX_TOKEN=128000` hold no secret.
fn is_value(value: &str) -> bool {
    !value.starts_with(['$', '<', '[', '{', '(', '*'])
        && !value.starts_with("process.env")
        && !value.starts_with("os.environ")
        && value.bytes().any(|byte| !byte.is_ascii_digit())
}

/// Returns whether a long run is a token: a part of it between joints is long, and has both letters and digits.
/// `claude-opus-4-8-20260101` and a UUID have short parts.
fn is_token(run: &str) -> bool {
    let is_id = IDS.iter().any(|prefix| run.starts_with(prefix));
    !is_id
        && run.split(['-', '_']).any(|piece| {
            piece.len() >= 24
                && piece.bytes().any(|b| b.is_ascii_digit())
                && piece.bytes().any(|b| b.is_ascii_alphabetic())
        })
}

// Derives from a pattern another one that matches every text which could grow into a match.
//
// That makes redaction in pieces safe by construction: if the end of a piece is no such beginning, it never becomes part of a
// match, whatever follows.

/// A pattern that matches all beginnings of the matches of `pattern`, whole ones included. `None` if `pattern` is invalid.
pub(super) fn beginning(pattern: &str) -> Option<String> {
    let parsed = regex_syntax::Parser::new().parse(pattern).ok()?;
    // The longest comes first, although a search for the leftmost finds it in any order.
    Some(beginnings_of(&parsed).to_string())
}

/// The beginnings of the matches of a parsed pattern, the whole matches included.
fn beginnings_of(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => in_order(text.chars().map(|c| Hir::literal(c.to_string().into_bytes())).collect()),
            // Patterns are of text; a byte that is not text can only begin as itself.
            Err(_) => maybe(hir.clone()),
        },
        HirKind::Class(_) => maybe(hir.clone()),
        HirKind::Repetition(repeated) => {
            let before = Repetition {
                min: 0,
                max: repeated.max.map(|max| max.saturating_sub(1)),
                greedy: repeated.greedy,
                sub: repeated.sub.clone(),
            };
            Hir::concat(vec![Hir::repetition(before), beginnings_of(&repeated.sub)])
        }
        HirKind::Capture(Capture { sub, .. }) => beginnings_of(sub),
        HirKind::Concat(parts) => in_order(parts.clone()),
        HirKind::Alternation(either) => Hir::alternation(either.iter().map(beginnings_of).collect()),
    }
}

/// The beginnings of a sequence of parts: a beginning of the first, or the whole first and a beginning of the others.
fn in_order(mut parts: Vec<Hir>) -> Hir {
    let mut beginning = Hir::empty();
    while let Some(part) = parts.pop() {
        // A part of one character can't be divided further.
        let alone = match part.kind() {
            HirKind::Literal(literal)
                if std::str::from_utf8(&literal.0).is_ok_and(|text| text.chars().count() == 1) =>
            {
                maybe(part.clone())
            }
            _ => beginnings_of(&part),
        };
        beginning = Hir::alternation(vec![Hir::concat(vec![part, beginning]), alone]);
    }
    beginning
}

fn maybe(hir: Hir) -> Hir {
    Hir::repetition(Repetition {
        min: 0,
        max: Some(1),
        greedy: true,
        sub: Box::new(hir),
    })
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn every_beginning_of_a_match_is_one_and_nothing_else() {
        for (pattern, matched, no_beginnings) in [
            (r"(?-u:\b)sk-[a-z]{3,5}", "sk-abcd", vec!["sk-A", "xsk-a", "sa"]),
            (
                r"(?i)bearer +([a-z0-9]{2,})",
                "BeaReR  a1b2",
                vec!["bearerx", "bearer  ."],
            ),
            (r"(?:KEY|TOKENS?)=[^ ]+", "TOKENS=é中", vec!["TOKEN ", "KE=", "KEY= "]),
            (r"é{2}(?:ab){2}", "ééabab", vec!["éa", "ééabb"]),
        ] {
            let begun = Regex::new(&format!(r"(?:{})\z", beginning(pattern).unwrap())).unwrap();
            for (end, _) in matched.char_indices().skip(1).chain([(matched.len(), ' ')]) {
                let text = format!("x {}", &matched[..end]);
                let found = begun.find(&text).map(|found| found.start());
                assert_eq!(found, Some(2), "{pattern}: {text}");
            }
            for text in no_beginnings {
                let whole = begun.find_iter(text).any(|found| found.start() == 0);
                assert!(!whole, "{pattern}: {text}");
            }
        }
    }
}
