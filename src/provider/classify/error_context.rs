//! Classifies errors of programs that another runner ran: the function `classifyError`.
//!
//! In: a text, and the context as JSON. Out: the error that the text means, or an error that names a wrong field of the context.

use super::{TextFacts, classify_text};
use crate::options::{self, Kind, OptionSpec};
use dfp_model::error::ProviderError;

/// The options of a context.
const CONTEXT: &[OptionSpec] = &[
    OptionSpec {
        name: "provider",
        kind: Kind::Text,
    },
    OptionSpec {
        name: "exitCode",
        kind: Kind::ExitCode,
    },
    OptionSpec {
        name: "signal",
        kind: Kind::Text,
    },
    OptionSpec {
        name: "httpStatus",
        kind: Kind::Whole(100, 599),
    },
];

/// The error that a provider would have thrown for `text`.
///
/// # Errors
/// `INVALID_OPTION`, naming the field of the context, its value and what is allowed.
pub fn classify_with_context(
    text: &str,
    context_json: &str,
    now_ms: u64,
    local_offset_min: Option<i32>,
) -> Result<ProviderError, Box<ProviderError>> {
    let fields = options::checked_within("", CONTEXT, context_json, "context.")?;
    let text_of = |name: &str| fields.get(name).and_then(|value| value.as_str());
    let context = TextFacts {
        provider: text_of("provider").unwrap_or_default(),
        exit_code: options::exit_code_of(&fields, "exitCode"),
        signal: text_of("signal"),
        http_status: options::number(&fields, "httpStatus").and_then(|status| u16::try_from(status).ok()),
        local_offset_min,
    };
    Ok(classify_text(text, &context, now_ms).into_error(context.provider))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_model::error::Code;

    #[test]
    fn the_context_has_a_say_and_is_checked() {
        let code = |text: &str, context: &str| classify_with_context(text, context, 0, None).unwrap().code;
        assert_eq!(code("slow down", r#"{"httpStatus":429}"#), Code::RateLimited);
        assert_eq!(code("", r#"{"provider":"gemini","exitCode":41}"#), Code::NotLoggedIn);
        assert_eq!(code("", r#"{"signal":"SIGTERM"}"#), Code::Timeout);
        assert_eq!(
            classify_with_context("x", r#"{"exitCode":3221225477}"#, 0, None)
                .unwrap()
                .exit_code,
            Some(-1_073_741_819)
        );
        for (context, expected) in [
            (
                r#"{"exitCode":"1"}"#,
                r#"option "context.exitCode" must be a whole number, as processes exit with; given: "1""#,
            ),
            (
                r#"{"httpStatus":42}"#,
                r#"option "context.httpStatus" must be a whole number from 100 to 599; given: 42"#,
            ),
            (
                r#"{"code":1}"#,
                r#"unknown option "context.code"; allowed: provider, exitCode, signal, httpStatus"#,
            ),
        ] {
            assert_eq!(
                classify_with_context("x", context, 0, None).unwrap_err().message,
                expected
            );
        }
    }
}
