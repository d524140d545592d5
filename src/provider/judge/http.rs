//! The reasons why a request is no success. [`super::judge`] defines success.

use std::time::Duration;

use super::{ConnectError, Context, HttpEnd, HttpEvidence, StopReason};
use crate::api::answer::Body;
use crate::api::{PROVIDER, other_answers};
use crate::classify::{self, FailureFacts, RetryAfter, classify};
use dfp_model::error::{Category, Code, ProviderError, clip};
use dfp_model::event::Failure;
use dfp_text::fold::Folded;
use dfp_text::redact::Channel;

/// Everything that is known of a request that has ended.
#[derive(Clone, Copy)]
struct HttpFacts<'a> {
    context: &'a Context<'a>,
    request: &'a HttpEvidence,
}

/// The reason why the request is no success; `None` if it is one.
pub(super) fn failure(context: &Context, request: &HttpEvidence, folded: &Folded) -> Option<ProviderError> {
    let facts = &HttpFacts { context, request };
    let mut error = reason(facts, folded)?;
    context.provider.clone_into(&mut error.provider);
    // The text is redacted wherever it comes from: the server, the system, or a library.
    error.message = request.redactor.redact_values(&error.message).into_owned();
    error.http_status = error.http_status.or(request.status.filter(|status| *status >= 300));
    Some(error)
}

/// The reason why the request is no success, before it is completed; `None` if it is one.
fn reason(facts: &HttpFacts, folded: &Folded) -> Option<ProviderError> {
    let origin = facts.request.origin.as_str();
    let error = match &facts.request.end {
        HttpEnd::Stopped(StopReason::Cancelled) => advised(Code::ConnectionLost, "the request was cancelled"),
        HttpEnd::Answered(Body::Complete) => match &folded.failure {
            Some(failure) => classified(facts, folded, failure),
            None => return unsaid(folded),
        },
        HttpEnd::Answered(Body::Cut) => advised(
            Code::ConnectionLost,
            "the stream ended before its answer did: neither a finish_reason nor [DONE] came",
        ),
        HttpEnd::Answered(Body::Empty) => advised(Code::EmptyResponse, "the server answered with an empty body"),
        HttpEnd::Answered(Body::Foreign { text }) => foreign(facts, text),
        HttpEnd::Refused {
            status,
            location: Some(to),
            ..
        } if (300..400).contains(status) => {
            let reason = format!(
                "{origin} answers with a redirect ({status}) to {}",
                facts.request.redactor.redact_values(to)
            );
            with_hint(
                Code::NotFound,
                reason,
                "set `baseURL` to where the API is: redirects are not followed, for the key's sake",
            )
        }
        HttpEnd::Refused {
            status,
            reason,
            body,
            retry_after,
            ..
        } => {
            let failure = other_answers::refused(*status, reason, body, &facts.request.redactor);
            let mut error = classified(facts, folded, &failure);
            error.http_status = Some(*status);
            error.stdout_tail = other_answers::shown(body, &facts.request.redactor);
            wait(&mut error, retry_after.as_deref(), facts.context.now_ms);
            error
        }
        HttpEnd::Unreachable(trouble) => unreachable(origin, trouble),
        HttpEnd::Lost(why) => {
            let when = if folded.events > 0 {
                "within its answer"
            } else {
                "before its answer"
            };
            advised(
                Code::ConnectionLost,
                format!("the connection to {origin} broke {when}: {why}"),
            )
        }
        HttpEnd::Stopped(StopReason::Timeout(limit)) => limited(Code::Timeout, *limit, "no whole answer within"),
        HttpEnd::Stopped(StopReason::IdleTimeout(limit)) => {
            limited(Code::IdleTimeout, *limit, "the server sent nothing for")
        }
        HttpEnd::Stopped(StopReason::OutputLimit(limit)) => {
            let reason = format!("the answer has more than {limit} bytes, the limit of the option `maxBuffer`");
            advised(Code::OutputLimit, reason)
        }
    };
    Some(error)
}

/// The error for a response that says nothing, and not even why it ends.
fn unsaid(folded: &Folded) -> Option<ProviderError> {
    let reply = &folded.reply;
    let silent = reply.content.is_empty() && reply.tool_calls.is_empty() && reply.invalid_tool_calls.is_empty();
    let ended = reply.stop_reason.is_some();
    (silent && !ended).then(|| advised(Code::EmptyResponse, "the server's answer holds no message"))
}

/// The classified error for a failure that the API has reported.
fn classified(facts: &HttpFacts, folded: &Folded, failure: &Failure) -> ProviderError {
    let found = classify(&FailureFacts {
        provider: PROVIDER,
        failure: Some(failure),
        resets_at: folded.limit_resets_at,
        now_ms: facts.context.now_ms,
        local_offset_min: facts.context.local_offset_min,
        ..FailureFacts::default()
    });
    found.into_error(PROVIDER)
}

/// The error for a response that is no answer of such an API, such as a web page.
fn foreign(facts: &HttpFacts, text: &str) -> ProviderError {
    let what = match other_answers::title(text) {
        _ if text.trim().is_empty() => "an event stream without events".to_owned(),
        Some(title) => format!("a web page, \"{title}\""),
        None if text.starts_with('<') => "a web page".to_owned(),
        None => format!(
            "something else: {}",
            clip(&facts.request.redactor.redact(Channel::Error, &clip(text, 480)), 120)
        ),
    };
    let reason = format!("the server's answer is not a chat completion but {what}");
    let mut error = advised(Code::MalformedResponse, facts.request.redactor.redact_values(&reason));
    error.stdout_tail = other_answers::shown(text, &facts.request.redactor);
    error
}

/// The error for a server that can't be reached, with advice for each cause.
fn unreachable(origin: &str, trouble: &ConnectError) -> ProviderError {
    let (reason, hint) = match trouble {
        ConnectError::Refused => (
            format!("{origin} refuses connections"),
            "check that the server runs, and `baseURL`",
        ),
        ConnectError::NoSuchHost => (
            format!("the host of {origin} can't be found"),
            "check the name in `baseURL`, and the network",
        ),
        ConnectError::Tls(why) => (
            format!("no trusted connection to {origin}: {why}"),
            "check the server's certificate and the system's clock; a private authority must be among the system's or in the file that NODE_EXTRA_CA_CERTS names",
        ),
        ConnectError::Slow(limit) => (
            format!("no connection to {origin} within {} ms", limit.as_millis()),
            "check `baseURL`, the network, proxy and firewall",
        ),
        ConnectError::Proxy(why) => (
            format!("the proxy on the way to {origin} failed: {why}"),
            "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and the system's proxy",
        ),
        ConnectError::Other(why) => (
            format!("no connection to {origin}: {why}"),
            "check `baseURL`, the network, proxy and firewall",
        ),
    };
    with_hint(Code::ConnectionFailed, reason, hint)
}

/// Takes the wait from the server's header, if waiting can help at all.
fn wait(error: &mut ProviderError, header: Option<&str>, now_ms: u64) {
    let limits = matches!(error.category, Category::Quota | Category::RateLimit);
    if !limits && !error.should_retry {
        return;
    }
    if let Some(RetryAfter { after_ms, resets_at }) = header.and_then(|header| classify::retry_after(header, now_ms)) {
        error.retry_after_ms = Some(after_ms);
        if limits {
            error.resets_at = resets_at.or(error.resets_at);
        }
    }
}

fn limited(code: Code, limit: Duration, what: &str) -> ProviderError {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let reason = format!("{what} {limit_ms} ms: the connection was closed");
    with_hint(code, reason, classify::time_limit_hint(code, limit_ms))
}

fn advised(code: Code, reason: impl Into<String>) -> ProviderError {
    with_hint(code, reason, classify::hint(PROVIDER, code))
}

fn with_hint(code: Code, reason: impl Into<String>, hint: impl Into<String>) -> ProviderError {
    ProviderError::new(PROVIDER, code, reason).with_hint(hint)
}
