//! Three things are kept apart: a plan that is used up, a passing rate limit, and a service without capacity.

use super::super::{FailureFacts, TextFacts, classify, classify_text};
use dfp_model::error::{Category, Code};
use dfp_model::event::Failure;

/// 2026-11-22T12:41:00Z.
const NOW: u64 = 1_795_351_260_000;

/// The beginnings of messages about a used-up plan, as claude 2.1.330 lists them itself, with the reset in fields.
#[test]
fn a_used_up_plan_is_quota_in_every_form() {
    for text in [
        "You're out of usage credits · resets 2:41pm (UTC)",
        "You've hit your limit · resets 8pm (Africa/Cairo)",
        "You’ve hit your org's monthly spend limit · contact your admin",
        "You've hit your channel's monthly usage limit",
        "You've hit your monthly spend limit · /usage-credits to raise it",
        "You've reached your Fable 5 limit",
        "You're out of extra usage · resets 2:41pm (UTC)",
        "Your org is out of usage · add funds to continue",
        "Your seat type doesn't include usage credits",
        "Your seat type doesn't include extra usage",
        "Your usage allocation has been disabled by your admin",
        "Your group's usage limit is set to $0",
        "Opus 4.8 requires usage credits. Run /usage-credits to continue",
    ] {
        let failure = Failure {
            kind: Some("rate_limit".to_owned()),
            message: text.to_owned(),
            http_status: Some(429),
            ..Failure::default()
        };
        let fields = FailureFacts {
            provider: "claude",
            exit_code: Some(1),
            now_ms: NOW,
            ..FailureFacts::default()
        };
        let as_text = FailureFacts {
            stdout_text: Some(text),
            ..fields
        };
        let as_json = FailureFacts {
            failure: Some(&failure),
            ..fields
        };
        for evidence in [as_text, as_json] {
            let found = classify(&evidence);
            assert_eq!(
                (found.code, found.category),
                (Code::UsageLimit, Category::Quota),
                "{text}"
            );
        }
        let found = classify_text(text, &TextFacts::default(), NOW);
        assert_eq!(found.category, Category::Quota, "{text}");
    }
}

/// In November, Cairo is two hours east of UTC.
#[test]
fn a_reset_in_a_named_zone_is_known() {
    let text = "You've hit your limit · resets 8pm (Africa/Cairo)";
    let found = classify(&FailureFacts {
        provider: "claude",
        stdout_text: Some(text),
        exit_code: Some(1),
        now_ms: NOW,
        ..FailureFacts::default()
    });
    // 18:00 UTC.
    let in_ms = (5 * 60 + 19) * 60_000;
    assert_eq!((found.code, found.resets_at), (Code::UsageLimit, Some(NOW + in_ms)));
}

#[test]
fn a_limit_with_a_type_is_the_plans_whatever_its_text() {
    let failure = |limit_type: Option<&str>| Failure {
        kind: Some("rate_limit".to_owned()),
        message: "API Error: Server is temporarily limiting requests (not your usage limit) · rate limited".to_owned(),
        http_status: Some(429),
        resets_at: limit_type.map(|_| NOW + 7_200_000),
        limit_type: limit_type.map(str::to_owned),
        ..Failure::default()
    };
    let verdict = |failure: &Failure| {
        let found = classify(&FailureFacts {
            provider: "claude",
            failure: Some(failure),
            exit_code: Some(1),
            now_ms: NOW,
            ..FailureFacts::default()
        });
        (found.code, found.resets_at, found.retry_after_ms)
    };
    assert_eq!(
        verdict(&failure(Some("overage"))),
        (Code::UsageLimit, Some(NOW + 7_200_000), Some(7_200_000))
    );
    assert_eq!(verdict(&failure(None)), (Code::RateLimited, None, Some(1000)));
}

#[test]
fn an_organisation_without_a_plan_has_none_that_is_used_up() {
    let verdict = |failure: &Failure| {
        let found = classify(&FailureFacts {
            provider: "claude",
            failure: Some(failure),
            exit_code: Some(1),
            now_ms: NOW,
            ..FailureFacts::default()
        });
        (found.code, found.category, found.resets_at)
    };
    let failure = Failure {
        kind: Some("rate_limit".to_owned()),
        message: "API Error: Request rejected (429)".to_owned(),
        http_status: Some(429),
        limit_type: Some("overage".to_owned()),
        no_plan: true,
        ..Failure::default()
    };
    let denied = (Code::PermissionDenied, Category::Authentication, None);
    assert_eq!(verdict(&failure), denied);
    let nameless = Failure {
        kind: None,
        limit_type: None,
        ..failure.clone()
    };
    assert_eq!(verdict(&nameless), denied);
    let text = Failure {
        message: "This service is disabled for your org".to_owned(),
        ..Failure::default()
    };
    assert_eq!(verdict(&text), denied);
    let with_plan = Failure {
        no_plan: false,
        ..failure
    };
    assert_eq!(verdict(&with_plan).0, Code::UsageLimit);
}

/// The time is 2026-11-22T12:41:00Z, and local time is two hours east of UTC.
#[test]
fn a_local_time_is_resolved_and_one_just_past_is_now() {
    let minutes = 60_000;
    let verdict = |text: &str, resets_at: Option<u64>, local_offset_min: Option<i32>| {
        let failure = Failure {
            message: text.to_owned(),
            resets_at,
            ..Failure::default()
        };
        let found = classify(&FailureFacts {
            provider: "codex",
            failure: Some(&failure),
            exit_code: Some(1),
            local_offset_min,
            now_ms: NOW,
            ..FailureFacts::default()
        });
        assert_eq!(found.code, Code::UsageLimit);
        (found.resets_at, found.retry_after_ms)
    };
    let codex = |at: &str| format!("You've hit your usage limit. Upgrade to Pro or try again at {at}.");
    let two_hours = Some(120);
    assert_eq!(
        verdict(&codex("3:50 PM"), None, two_hours),
        (Some(NOW + 69 * minutes), Some(69 * minutes))
    );
    assert_eq!(verdict(&codex("3:50 PM"), None, None), (None, None));
    // At this time, 14:40 is a minute ago.
    assert_eq!(
        verdict(&codex("2:40 PM"), None, two_hours),
        (Some(NOW - minutes), Some(0))
    );
    // A field counts more than the text, even if it is half a minute past and the text alone would mean tomorrow.
    assert_eq!(
        verdict(&codex("2:30 PM"), Some(NOW - 30_000), two_hours),
        (Some(NOW - 30_000), Some(0))
    );
    // A field that is long past is ignored.
    assert_eq!(
        verdict(&codex("2:30 PM"), Some(NOW - 60 * minutes), two_hours),
        (Some(NOW + (24 * 60 - 11) * minutes), Some((24 * 60 - 11) * minutes))
    );
}

/// The wordings of servers, with the kind or status that they come with.
#[test]
fn a_full_context_is_one_whatever_it_is_reported_as() {
    let table: &[(&str, Option<&str>, Option<u16>, &str)] = &[
        (
            "openai",
            Some("Client specified an invalid argument"),
            Some(400),
            "This model's maximum prompt length is 131072 but the request contains 509628 tokens.",
        ),
        (
            "openai",
            Some("context_length_exceeded"),
            Some(400),
            "Please reduce the length of the messages or completion.",
        ),
        (
            "openai",
            Some("invalid_request_error"),
            Some(413),
            "Please reduce the length of the messages or completion. Current length is 30123 while limit is 8192",
        ),
        (
            "openai",
            Some("exceed_context_size_error"),
            Some(400),
            "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        ),
        (
            "openai",
            Some("server_error"),
            Some(500),
            "Context size has been exceeded.",
        ),
        (
            "openai",
            Some("model_max_prompt_tokens_exceeded"),
            Some(400),
            "prompt token count of 150000 exceeds the limit of 128000",
        ),
        (
            "copilot",
            Some("query"),
            Some(400),
            "400 prompt token count of 150000 exceeds the limit of 128000",
        ),
        (
            "copilot",
            None,
            None,
            "{\"error\":{\"message\":\"no\",\"code\":\"model_max_prompt_tokens_exceeded\"}}",
        ),
        (
            "openai",
            Some("invalid_request_error"),
            Some(400),
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)",
        ),
        (
            "kimi",
            None,
            None,
            "LLM provider error: Error code: 400 - Your request exceeded model token limit: 262144",
        ),
        (
            "openai",
            Some("InternalError.Algo.InvalidParameter"),
            Some(500),
            "<500> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
        ),
        (
            "qwen",
            None,
            None,
            "[API Error: 429 InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]]",
        ),
        (
            "codex",
            Some("response_stream_disconnected"),
            None,
            "stream disconnected before completion: Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        (
            "codex",
            None,
            None,
            "stream disconnected before completion: Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
    ];
    for (provider, kind, http_status, message) in table {
        let failure = Failure {
            kind: kind.map(str::to_owned),
            message: (*message).to_owned(),
            http_status: *http_status,
            ..Failure::default()
        };
        let fields = FailureFacts {
            provider,
            exit_code: Some(1),
            now_ms: NOW,
            ..FailureFacts::default()
        };
        let as_field = classify(&FailureFacts {
            failure: Some(&failure),
            ..fields
        });
        let as_text = classify(&FailureFacts {
            stderr_text: Some(message),
            ..fields
        });
        for found in [as_field, as_text] {
            assert_eq!(
                (found.code, found.retry_after_ms),
                (Code::ContextLength, None),
                "{message}"
            );
        }
        assert!(!Code::ContextLength.category().should_retry());
    }
}

/// Google calls every limit a quota, and names the wait.
#[test]
fn a_quota_of_seconds_is_a_rate_limit_and_a_days_is_used_up() {
    let of = |quota: &str, wait: &str| {
        let failure = Failure {
            kind: Some("RESOURCE_EXHAUSTED".to_owned()),
            more_kinds: vec![quota.to_owned()],
            message: "You exceeded your current quota, please check your plan and billing details.".to_owned(),
            http_status: Some(429),
            retry_after_ms: super::super::retry_after(wait, NOW).map(|wait| wait.after_ms),
            ..Failure::default()
        };
        let found = classify(&FailureFacts {
            provider: "openai",
            failure: Some(&failure),
            now_ms: NOW,
            ..FailureFacts::default()
        });
        (found.code, found.retry_after_ms)
    };
    let minute = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";
    let day = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
    assert_eq!(of(minute, "34.074824224s"), (Code::RateLimited, Some(34_075)));
    assert_eq!(of(day, "34s"), (Code::QuotaExceeded, Some(34_000)));
    assert_eq!(of(minute, "7200s"), (Code::QuotaExceeded, Some(7_200_000)));
    assert_eq!(of(minute, ""), (Code::QuotaExceeded, None));
    // The text of the same error, as printed by each CLI that can have such an API behind it.
    for provider in ["gemini", "qwen", "opencode", "copilot", ""] {
        let body = |quota: &str| {
            format!(
                r#"{{"error":{{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{{"violations":[{{"quotaId":"{quota}"}}]}},{{"retryDelay":"34s"}}]}}}}"#
            )
        };
        let context = TextFacts {
            provider,
            ..TextFacts::default()
        };
        let found = [minute, day].map(|quota| classify_text(&body(quota), &context, NOW).code);
        assert_eq!(found, [Code::RateLimited, Code::QuotaExceeded], "{provider}");
    }
}
