//! Error rules that a user adds for a CLI of their own.
//!
//! In: a pattern and the code that it means. Out: [`UserRule`], applied before all tables to the text of error channels.

use regex::{Regex, RegexBuilder};

use dfp_model::error::Code;

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
pub fn first(rules: &[UserRule], text: &str) -> Option<(Code, Option<String>)> {
    rules
        .iter()
        .find(|rule| rule.pattern.is_match(text))
        .map(|rule| (rule.code, rule.hint.clone()))
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
            first(&rules, "The Flux Capacitor failed"),
            Some((Code::Overloaded, Some("wait for lightning".to_owned())))
        );
        assert_eq!(first(&rules, "no flux"), Some((Code::ServerError, None)));
        assert_eq!(first(&rules, "fine"), None);
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
}
