//! Every pattern of CLI-ADAPTER-PROTOCOL, "Error Patterns" and "Retry-After Extraction": as it stands there, in a sentence, and in
//! the spellings that CLIs use.

use super::super::{TextFacts, classify_text};
use dfp_model::error::Category::{self, *};

const NOW: u64 = 1_795_294_800_000;

fn category(text: &str) -> Category {
    classify_text(text, &TextFacts::default(), NOW).category
}

#[test]
fn every_pattern_of_the_document() {
    let table: [(Category, &[&str]); 9] = [
        (
            Quota,
            &[
                "insufficient_quota",
                "quota_exceeded",
                "billing_hard_limit",
                "RESOURCE_EXHAUSTED",
                "credit_limit",
                "usage_limit",
            ],
        ),
        (
            RateLimit,
            &[
                "rate_limit",
                "rate.limit",
                "RATE_LIMIT_EXCEEDED",
                "too_many_requests",
                "429",
                "throttl",
                "throttled",
                "throttling",
            ],
        ),
        (
            Authentication,
            &[
                "invalid_api_key",
                "unauthorized",
                "UNAUTHENTICATED",
                "PERMISSION_DENIED",
                "authentication_failed",
                "not_authenticated",
                "401",
                "403",
            ],
        ),
        (
            Validation,
            &[
                "invalid_request",
                "malformed",
                "bad_request",
                "validation_error",
                "invalid_parameter",
                "400",
            ],
        ),
        (
            Network,
            &[
                "ECONNRESET",
                "ETIMEDOUT",
                "ENOTFOUND",
                "ECONNREFUSED",
                "network_error",
                "connection_failed",
                "DEADLINE_EXCEEDED",
                "socket_hang_up",
            ],
        ),
        (
            Server,
            &[
                // The document counts this among the rate limits; the fields of the CLIs say that the server fails.
                "overloaded",
                "internal_server_error",
                "service_unavailable",
                "bad_gateway",
                "500",
                "502",
                "503",
                "504",
            ],
        ),
        (Timeout, &["timed_out", "timeout", "SIGTERM", "SIGKILL"]),
        (
            NotFound,
            &["command_not_found", "ENOENT", "not_found", "model_not_found", "404"],
        ),
        (
            Configuration,
            &[
                "not_configured",
                "missing_config",
                "invalid_config",
                "cli_not_installed",
            ],
        ),
    ];
    for (expected, patterns) in table {
        for pattern in patterns {
            let spaced = pattern.replace(['_', '.'], " ");
            for text in [
                pattern.to_string(),
                pattern.to_uppercase(),
                spaced.clone(),
                pattern.replace('_', "-"),
                format!("Error: {pattern}"),
                format!("[{spaced}] while talking to the API"),
                format!("{{\"error\":{{\"type\":\"{pattern}\",\"message\":\"{spaced}\"}}}}"),
            ] {
                let is_number_in_brackets = text.starts_with('[') && pattern.parse::<u16>().is_ok();
                let is_number_as_type = text.starts_with('{') && pattern.parse::<u16>().is_ok();
                if is_number_in_brackets || is_number_as_type {
                    continue;
                }
                assert_eq!(category(&text), expected, "{text}");
            }
        }
    }
}

#[test]
fn spellings_of_clis_and_apis() {
    let table = [
        ("rate limit", RateLimit),
        ("Rate-limit reached", RateLimit),
        ("RateLimitError: slow down", RateLimit),
        ("rateLimitExceeded", RateLimit),
        ("You are being rate limited.", RateLimit),
        ("ThrottlingException: Rate exceeded", RateLimit),
        ("HTTP 429 Too Many Requests", RateLimit),
        ("Request failed with status code 429", RateLimit),
        (
            "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
            Server,
        ),
        (
            "API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}",
            Server,
        ),
        (
            "429 You exceeded your current quota, please check your plan and billing details.",
            Quota,
        ),
        ("Claude AI usage limit reached|1795300660", Quota),
        ("You've hit your session limit · resets 10:37pm (UTC)", Quota),
        ("5-hour limit reached ∙ resets 3pm", Quota),
        ("Your credit balance is too low to access the Anthropic API.", Quota),
        ("Insufficient credits", Quota),
        ("Incorrect API key provided: sk-abc123", Authentication),
        ("Invalid API key · Please run /login", Authentication),
        ("Error: You are not logged in.", Authentication),
        ("OAuth token has expired. Please run /login", Authentication),
        ("HTTP 403 Forbidden", Authentication),
        ("AuthenticationError: no", Authentication),
        ("InvalidRequestError: bad", Validation),
        ("prompt is too long: 250000 tokens > 200000 maximum", Validation),
        ("This model's maximum context length is 8192 tokens.", Validation),
        ("socket hang up", Network),
        ("connect ECONNREFUSED 127.0.0.1:443", Network),
        ("getaddrinfo ENOTFOUND api.anthropic.com", Network),
        ("TypeError: fetch failed", Network),
        ("InternalServerError: boom", Server),
        ("502 Bad Gateway", Server),
        ("504 Gateway Timeout", Server),
        ("The operation timed out.", Timeout),
        ("TimeoutError", Timeout),
        ("process killed by SIGKILL", Timeout),
        ("bash: claude: command not found", NotFound),
        ("spawn claude ENOENT", NotFound),
        (
            "ModelNotFoundError: models/nope is not found for API version v1beta",
            NotFound,
        ),
        (
            "The model `gpt-9` does not exist or you do not have access to it.",
            NotFound,
        ),
        ("session expired, please log in", Authentication),
        ("XAI_API_KEY is not set", Authentication),
        ("access denied", Authentication),
        ("Your request was rejected by our safety system", Validation),
        (
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
            Validation,
        ),
        ("self signed certificate in certificate chain", Network),
        ("net::ERR_INTERNET_DISCONNECTED", Network),
        ("sh: 1: ax-glm: not found", NotFound),
        ("spawn ./claude EACCES", Configuration),
        (
            "EACCES: permission denied, open '/home/user/.claude.json'",
            Configuration,
        ),
        ("provider is not configured", Configuration),
        ("Invalid configuration: x", Configuration),
        ("configuration file not found", Configuration),
        ("the claude CLI is not installed", Configuration),
        ("something odd", Unknown),
        ("", Unknown),
    ];
    for (text, expected) in table {
        assert_eq!(category(text), expected, "{text}");
    }
}

#[test]
fn waits_of_the_document() {
    let wait = |text: &str| {
        let found = classify_text(text, &TextFacts::default(), NOW);
        (found.category, found.retry_after_ms)
    };
    assert_eq!(
        wait("rate limit exceeded, retry after 30 seconds"),
        (RateLimit, Some(30_000))
    );
    assert_eq!(wait("retry after 30 seconds"), (RateLimit, Some(30_000)));
    assert_eq!(wait("retry after 100ms"), (RateLimit, Some(100)));
    assert_eq!(wait("too many requests: wait 5 seconds"), (RateLimit, Some(5_000)));
    assert_eq!(wait("wait 5 seconds"), (RateLimit, Some(5_000)));
    assert_eq!(wait("rate limit"), (RateLimit, Some(1_000)));
    assert_eq!(wait("503 Service Unavailable, Retry-After: 7"), (Server, Some(7_000)));
    assert_eq!(wait("insufficient_quota"), (Quota, None));
    assert_eq!(wait("invalid api key, retry after 5 seconds"), (Authentication, None));
}

#[test]
fn context_beside_the_text() {
    let with = |text: &str, context: TextFacts| {
        let found = classify_text(text, &context, NOW);
        (found.code.as_str(), found.reason)
    };
    let status = |http_status| TextFacts {
        http_status: Some(http_status),
        ..TextFacts::default()
    };
    assert_eq!(with("boom", status(500)), ("SERVER_ERROR", "boom".to_owned()));
    assert_eq!(with("", status(429)), ("RATE_LIMITED", "HTTP status 429".to_owned()));
    assert_eq!(
        with("model m1 not found", status(404)),
        ("MODEL_NOT_FOUND", "model m1 not found".to_owned())
    );
    let signal = |signal| TextFacts {
        signal: Some(signal),
        ..TextFacts::default()
    };
    assert_eq!(with("", signal("SIGTERM")), ("TIMEOUT", "ended by SIGTERM".to_owned()));
    assert_eq!(
        with("rate limit", signal("SIGTERM")),
        ("RATE_LIMITED", "rate limit".to_owned())
    );
    assert_eq!(with("", signal("SIGSEGV")), ("CRASHED", "crashed (SIGSEGV)".to_owned()));
    let gemini = TextFacts {
        provider: "gemini",
        exit_code: Some(173),
        ..TextFacts::default()
    };
    assert_eq!(
        with("", gemini),
        ("RATE_LIMITED", "exited with code 173 and said nothing".to_owned())
    );
    assert_eq!(
        with(
            "",
            TextFacts {
                exit_code: Some(127),
                ..TextFacts::default()
            }
        ),
        ("CLI_NOT_FOUND", "exited with code 127 and said nothing".to_owned())
    );
}
