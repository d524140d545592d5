//! Texts that look like an error of a class, and are not.

use super::super::{Classification, FailureFacts, TextFacts, classify, classify_text};
use dfp_model::error::Code;
use dfp_model::event::{Failure, Outcome};
use proptest::prelude::*;

const NOW: u64 = 1_795_294_800_000;

#[test]
fn numbers_and_words_out_of_context() {
    for text in [
        "line 500",
        "(node:404) Warning: something is deprecated",
        "$400",
        "it costs $400 and 500 EUR",
        "404 files",
        "processed 500 items in 429 files",
        "took 429 ms",
        "error on line 401",
        "src/main.rs:503:17",
        "port 5000 of 127.0.0.1",
        "version 4.0.1 of 2.5.00",
        "frustrate limitless",
        "unquotable",
    ] {
        assert_eq!(
            classify_text(text, &TextFacts::default(), NOW).code,
            Code::Unknown,
            "{text}"
        );
    }
}

/// A model that writes about errors causes none: its answer is no error channel.
#[test]
fn an_answer_about_errors_is_none() {
    let answer = "HTTP 429 means rate limit; a timeout is ETIMEDOUT, 401 is unauthorized.";
    let outcome = Outcome {
        subtype: Some("success".to_owned()),
        text: Some(answer.to_owned()),
        num_turns: Some(1),
        ..Outcome::default()
    };
    let evidence = FailureFacts {
        provider: "claude",
        outcome: Some(&outcome),
        answer_text: Some(answer),
        exit_code: Some(1),
        now_ms: NOW,
        ..FailureFacts::default()
    };
    let found = classify(&evidence);
    let reason = "exited with code 1 after it printed an answer, and gave no reason";
    assert_eq!((found.code, found.reason.as_str()), (Code::Unknown, reason));
    let silent = classify(&FailureFacts {
        answer_text: None,
        ..evidence
    });
    assert_eq!(silent.reason, "exited with code 1 and said nothing");
}

/// Standard error carries warnings, logs and an echo of the prompt beside the reason.
#[test]
fn noise_on_standard_error_is_none() {
    let noisy = "(node:429) Warning: connection timeout 500\n\
                 Warning: rate limit of the logger reached\n\
                 [STARTUP] Phase 'x' took 401 ms\n\
                 Attempt 1 failed with status 503. Retrying with backoff...\n\
                 No input provided via stdin.\n";
    let evidence = FailureFacts {
        provider: "gemini",
        exit_code: Some(42),
        stderr_text: Some(noisy),
        now_ms: NOW,
        ..FailureFacts::default()
    };
    let found = classify(&evidence);
    assert_eq!(
        (found.code, found.reason.as_str()),
        (Code::EmptyPrompt, "No input provided via stdin.")
    );
}

/// A transient limit may speak of the plan, and a plan's limit of rates.
#[test]
fn quota_and_rate_limit_are_kept_apart() {
    let of = |text: &str| {
        classify_text(
            text,
            &TextFacts {
                provider: "claude",
                ..TextFacts::default()
            },
            NOW,
        )
        .code
    };
    assert_eq!(
        of("API Error: Server is temporarily limiting requests (not your usage limit) · rate limited"),
        Code::RateLimited
    );
    assert_eq!(
        of("API Error: Request rejected (429) · This request would exceed your account's rate limit."),
        Code::RateLimited
    );
    assert_eq!(
        of("This organization has exceeded your per-minute rate limit (429)"),
        Code::RateLimited
    );
    let gemini = r#"{"error":{"code":429,"message":"Quota exceeded for metric 'requests per minute'","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"34s"}]}}"#;
    let found = classify_text(
        gemini,
        &TextFacts {
            provider: "gemini",
            ..TextFacts::default()
        },
        NOW,
    );
    assert_eq!(
        (found.code, found.retry_after_ms, found.resets_at),
        (Code::RateLimited, Some(34_000), None)
    );
    assert_eq!(of("You've hit your Opus limit · resets 3pm (UTC)"), Code::UsageLimit);
    let failure = Failure {
        kind: Some("rate_limit".to_owned()),
        message: "You've hit your weekly limit · resets Nov 25, 3pm (UTC)".to_owned(),
        http_status: Some(429),
        ..Failure::default()
    };
    let evidence = FailureFacts {
        provider: "claude",
        failure: Some(&failure),
        exit_code: Some(1),
        now_ms: NOW,
        ..FailureFacts::default()
    };
    let resets_at = 1_795_618_800_000; // 2026-11-25T15:00:00Z
    assert_eq!(
        classify(&evidence),
        Classification {
            code: Code::UsageLimit,
            category: Code::UsageLimit.category(),
            reason: failure.message.clone(),
            hint: Some("wait until the limit resets, or use another provider".to_owned()),
            retry_after_ms: Some(resets_at - NOW),
            resets_at: Some(resets_at),
            http_status: Some(429),
            exit_code: Some(1),
            signal: None,
        }
    );
}

#[test]
fn secrets_do_not_reach_the_error() {
    let text = "unexpected status 401 Unauthorized: Incorrect API key provided: sk-live-abcdef123456";
    let error = classify_text(
        text,
        &TextFacts {
            provider: "codex",
            ..TextFacts::default()
        },
        NOW,
    )
    .into_error("codex");
    assert_eq!(
        error.message,
        "unexpected status 401 Unauthorized: Incorrect API key provided: [redacted]. Run `codex login`, or correct OPENAI_API_KEY"
    );
    assert_eq!((error.code, error.http_status), (Code::InvalidApiKey, Some(401)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_evidence_is_classified(
        provider in "(claude|codex|gemini|qwen|opencode|glm|)",
        text in r"(?s)(\PC|[45][0-9]{2}|rate limit|Error: |\n|\{|\}){0,60}",
        exit in proptest::option::of(any::<i32>()),
        status in proptest::option::of(any::<u16>()),
        resets in proptest::option::of(any::<u64>()),
        now in any::<u64>(),
    ) {
        let evidence = FailureFacts {
            provider: &provider,
            exit_code: exit,
            http_status: status,
            stderr_text: Some(&text),
            resets_at: resets,
            now_ms: now,
            ..FailureFacts::default()
        };
        let found = classify(&evidence);
        prop_assert_eq!(found.category, found.code.category());
        prop_assert!(!found.reason.is_empty());
        let error = found.into_error(&provider);
        prop_assert!(error.message.chars().count() <= dfp_model::error::ProviderError::MESSAGE_LIMIT);
    }
}

/// Words of a web page to its reader are not the API's.
#[test]
fn a_web_page_is_no_answer_and_no_login() {
    let page = "<!DOCTYPE html>\n<html><head><title>Sign in \n to Wi-Fi</title></head><body>Please log in. 401 429 quota exceeded</body></html>";
    for (text, code, reason) in [
        (
            page.to_owned(),
            Code::MalformedResponse,
            "a web page, \"Sign in to Wi-Fi\"",
        ),
        (
            format!("unexpected answer: {page}\nfrom http://127.0.0.1"),
            Code::MalformedResponse,
            "unexpected answer: a web page, \"Sign in to Wi-Fi\" from http://127.0.0.1",
        ),
        (
            "unexpected status 502 Bad Gateway: <html><body>please log in".to_owned(),
            Code::ServerError,
            "unexpected status 502 Bad Gateway: a web page",
        ),
    ] {
        for provider in ["", "claude", "codex", "gemini", "qwen", "opencode"] {
            let context = TextFacts {
                provider,
                ..TextFacts::default()
            };
            let found = classify_text(&text, &context, NOW);
            assert_eq!(
                (found.code, found.reason.as_str()),
                (code, reason),
                "{provider}: {text}"
            );
        }
    }
}

/// The first known identifier of an error's body decides, wherever it stands. qwen 0.24.4 prints such bodies on every run.
#[test]
fn any_word_of_a_body_may_decide() {
    let verdict = |provider: &str, failure: Option<&Failure>, stderr: &str| {
        classify(&FailureFacts {
            provider,
            failure,
            stderr_text: Some(stderr),
            exit_code: Some(1),
            now_ms: NOW,
            ..FailureFacts::default()
        })
        .code
    };
    let failure = |kinds: &[&str], status| Failure {
        kind: kinds.first().map(|kind| (*kind).to_owned()),
        more_kinds: kinds[1..].iter().map(|kind| (*kind).to_owned()).collect(),
        message: "No.".to_owned(),
        http_status: status,
        ..Failure::default()
    };
    let codex = failure(&["bad", "invalid_request_error"], None);
    assert_eq!(verdict("codex", Some(&codex), ""), Code::InvalidRequest);
    let gemini = failure(&["INVALID_ARGUMENT", "API_KEY_INVALID", "Error"], Some(400));
    assert_eq!(verdict("gemini", Some(&gemini), ""), Code::InvalidApiKey);
    let noise = "Ripgrep not available: spawn /usr/lib/rg EACCES. Falling back to built-in grep.\n";
    assert_eq!(verdict("qwen", None, noise), Code::Unknown);
    assert_eq!(
        verdict("qwen", None, &format!("{noise}[API Error: 401 Incorrect API key]")),
        Code::InvalidApiKey
    );
}

/// A text that is nothing but noise means nothing. A text about a value is no event, and a key that is not found is no missing
/// file.
#[test]
fn texts_that_sound_like_something_else() {
    for (text, code) in [
        ("Warning: rate limit 429 is near", Code::Unknown),
        ("(node:404) Warning: timeout of 500", Code::Unknown),
        (
            "Attempt 1 failed with status 429. Retrying with backoff...",
            Code::Unknown,
        ),
        (
            "Ripgrep not available: spawn /opt/rg EACCES. Falling back to built-in grep.",
            Code::Unknown,
        ),
        ("    at run (file:///opt/x.js:500:16)", Code::Unknown),
        ("API key was not found", Code::NotLoggedIn),
        ("The API key is not found in the environment", Code::NotLoggedIn),
        ("invalid timeout value", Code::InvalidOption),
        ("invalid value for request_timeout: -1", Code::InvalidOption),
        ("timeout must be a number", Code::InvalidOption),
        // The similar texts that do mean it.
        ("the request timed out", Code::RequestTimeout),
        ("connection timeout", Code::RequestTimeout),
        ("file was not found", Code::NotFound),
    ] {
        let found = classify_text(text, &TextFacts::default(), NOW);
        assert_eq!((found.code, found.reason.is_empty()), (code, false), "{text}");
    }
    let noise = classify_text("Warning: rate limit 429 is near", &TextFacts::default(), NOW);
    assert_eq!(noise.reason, "Warning: rate limit 429 is near");
}
