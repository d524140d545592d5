//! Tests of classification as a whole: the document's patterns, the rules, texts that are no errors, recordings, and the reference
//! of errors.

mod documented;
mod limits;
mod negatives;
mod recordings;
mod reference;
mod rows;

use super::*;

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
