//! Did it succeed? What became of a request in, a [`Reply`] or a [`ProviderError`] out: `judge`'s counterpart for APIs.
//!
//! Success is: a 2xx status, and a body that is an answer and came to its end (`finish_reason` or `[DONE]`) without an error.

use std::time::Duration;

use super::PROVIDER;
use super::answer::Body;
use super::failure;
use crate::classify::{self, Evidence, RetryAfter, classify};
use crate::error::{Category, Code, Partial, ProviderError, clip};
use crate::event::{Failure, Reply};
use crate::fold::Folded;
use crate::redact::{Channel, Redactor};

/// Why a request is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The body of a 2xx answer ended so.
    Answered(Body),
    /// Another status.
    Refused {
        /// The status.
        status: u16,
        /// Its name.
        reason: String,
        /// The beginning of the body.
        body: String,
        /// When to come again, as a header says it (`retry-after: 7`).
        retry_after: Option<String>,
        /// Where a redirect leads, without the query.
        location: Option<String>,
    },
    /// No connection.
    Unreachable(Trouble),
    /// The connection broke before the answer was there, or within it: why.
    Lost(String),
    /// The wall-clock limit passed.
    TimedOut(Duration),
    /// Nothing came for this long.
    Idle(Duration),
    /// The answer has more than this many bytes.
    TooMuch(usize),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody listens there.
    Refused,
    /// The name of the host leads nowhere.
    NoSuchHost,
    /// The other side could not prove who it is, or does not speak TLS: why.
    Tls(String),
    /// It took longer than this.
    Slow(Duration),
    /// The proxy did not let the request through: why.
    Proxy(String),
    /// Something else.
    Other(String),
}

/// All that is known of a request that is over.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The provider's id.
    pub id: &'a str,
    /// Scheme, host and port of the API.
    pub origin: &'a str,
    /// Why it is over.
    pub ending: &'a Ending,
    /// What takes out what may not be told.
    pub redactor: &'a Redactor,
    /// What was odd about the answer.
    pub diagnostics: &'a [String],
    /// Now, ms since the epoch.
    pub now_ms: u64,
    /// Minutes by which local time is east of UTC, if known.
    pub local_offset_min: Option<i32>,
}

/// The verdict.
///
/// # Errors
/// Whatever made the request no success.
pub fn judge(facts: &Facts, folded: Folded) -> Result<Reply, Box<ProviderError>> {
    let Some(mut error) = failure(facts, &folded) else {
        let mut reply = folded.reply;
        reply.diagnostics = facts.diagnostics.to_vec();
        return Ok(reply);
    };
    facts.id.clone_into(&mut error.provider);
    // Whatever the words come from: the server, the system, a library.
    error.message = facts.redactor.redact_values(&error.message).into_owned();
    error.usage.clone_from(&folded.usage);
    error.partial = Some(Partial {
        text: folded.text().into_owned(),
        events: folded.events,
        usage: folded.usage,
    });
    Err(Box::new(error))
}

fn failure(facts: &Facts, folded: &Folded) -> Option<ProviderError> {
    let origin = facts.origin;
    let error = match facts.ending {
        Ending::Answered(Body::Complete) => match &folded.failure {
            Some(failure) => classified(facts, folded, failure),
            None => return unsaid(folded),
        },
        Ending::Answered(Body::Cut) => advised(
            Code::ConnectionLost,
            "the stream ended before its answer did: neither a finish_reason nor [DONE] came",
        ),
        Ending::Answered(Body::Empty) => advised(Code::EmptyResponse, "the server answered with an empty body"),
        Ending::Answered(Body::Foreign { text }) => foreign(facts, text),
        Ending::Refused {
            status,
            location: Some(to),
            ..
        } if (300..400).contains(status) => {
            let reason = format!(
                "{origin} answers with a redirect ({status}) to {}",
                facts.redactor.redact_values(to)
            );
            with_hint(
                Code::NotFound,
                reason,
                "set `baseURL` to where the API is: redirects are not followed, for the key's sake",
            )
        }
        Ending::Refused {
            status,
            reason,
            body,
            retry_after,
            ..
        } => {
            let failure = failure::refused(*status, reason, body, facts.redactor);
            let mut error = classified(facts, folded, &failure);
            error.http_status = Some(*status);
            error.stdout_tail = failure::shown(body, facts.redactor);
            wait(&mut error, retry_after.as_deref(), facts.now_ms);
            error
        }
        Ending::Unreachable(trouble) => unreachable(origin, trouble),
        Ending::Lost(why) => {
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
        Ending::TimedOut(limit) => limited(Code::Timeout, *limit, "no whole answer within"),
        Ending::Idle(limit) => limited(Code::IdleTimeout, *limit, "the server sent nothing for"),
        Ending::TooMuch(limit) => {
            let reason = format!("the answer has more than {limit} bytes, the limit of the option `maxBuffer`");
            advised(Code::OutputLimit, reason)
        }
    };
    Some(error)
}

/// An answer that says nothing, and does not even say why it ends.
fn unsaid(folded: &Folded) -> Option<ProviderError> {
    let reply = &folded.reply;
    let silent = reply.content.is_empty() && reply.tool_calls.is_empty() && reply.invalid_tool_calls.is_empty();
    let told = reply.stop_reason.is_some();
    (silent && !told).then(|| advised(Code::EmptyResponse, "the server's answer holds no message"))
}

fn classified(facts: &Facts, folded: &Folded, failure: &Failure) -> ProviderError {
    let found = classify(&Evidence {
        provider: PROVIDER,
        failure: Some(failure),
        resets_at: folded.limit_resets_at,
        now_ms: facts.now_ms,
        local_offset_min: facts.local_offset_min,
        ..Evidence::default()
    });
    found.into_error(PROVIDER)
}

fn foreign(facts: &Facts, text: &str) -> ProviderError {
    let what = match failure::title(text) {
        _ if text.trim().is_empty() => "an event stream without events".to_owned(),
        Some(title) => format!("a web page, \"{title}\""),
        None if text.starts_with('<') => "a web page".to_owned(),
        None => format!(
            "something else: {}",
            clip(&facts.redactor.redact(Channel::Error, &clip(text, 480)), 120)
        ),
    };
    let reason = format!("the server's answer is no chat completion but {what}");
    let mut error = advised(Code::MalformedResponse, facts.redactor.redact_values(&reason));
    error.stdout_tail = failure::shown(text, facts.redactor);
    error
}

fn unreachable(origin: &str, trouble: &Trouble) -> ProviderError {
    let (reason, hint) = match trouble {
        Trouble::Refused => (
            format!("{origin} refuses connections"),
            "check that the server runs, and `baseURL`",
        ),
        Trouble::NoSuchHost => (
            format!("the host of {origin} can't be found"),
            "check the name in `baseURL`, and the network",
        ),
        Trouble::Tls(why) => (
            format!("no trusted connection to {origin}: {why}"),
            "check the server's certificate and the system's clock; a private authority must be among the system's",
        ),
        Trouble::Slow(limit) => (
            format!("no connection to {origin} within {} ms", limit.as_millis()),
            "check `baseURL`, the network, proxy and firewall",
        ),
        Trouble::Proxy(why) => (
            format!("the proxy on the way to {origin} failed: {why}"),
            "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and the system's proxy",
        ),
        Trouble::Other(why) => (
            format!("no connection to {origin}: {why}"),
            "check `baseURL`, the network, proxy and firewall",
        ),
    };
    with_hint(Code::ConnectionFailed, reason, hint)
}

/// Waits as long as the server's header says, if waiting helps at all.
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
