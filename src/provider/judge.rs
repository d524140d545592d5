//! Decides whether an exchange was a success. In: its events, folded, and what is known of its end. Out: a [`Reply`] or a
//! [`ProviderError`]. Nothing else in the crate decides this.
//!
//! A CLI has succeeded if it exited with 0, reported no failure, wrote nothing fatal to standard error, and its outcome (the last
//! event of the wire format) is no error. For claude that is subtype "success", `is_error` false and at least one turn (CLI-FACTS
//! 1.1); for codex `turn.completed`; for gemini `result` with status "success"; for opencode a last `step_finish` with a reason
//! that ends a run. qwen reports an API's error with exit 0 and "success", and its decoder makes a failure of it. Output that is
//! not JSON at all, with exit 0, is taken as text. JSON without an answer never is, nor is the beginning of a stream or an object.
//! In the format `text` the end of an answer can't be distinguished from a cut, so the exit code decides alone.
//!
//! An answer without a word (white space and reasoning don't count) and without a call is EMPTY_RESPONSE for every provider. Behind
//! a tool's result, however, models do end like this: there it is a success with the content `""`.
//!
//! An API has succeeded if it answered with a 2xx status and a body that is an answer and came to its end (`finish_reason` or
//! `[DONE]`) without an error.
//!
//! The evidence ([`Evidence`], [`Context`]) is the end of an exchange, and facts about its provider. The reasons why a request is no
//! success stand here, those of a CLI's run or turn in `cli`.

mod cli;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use cli::text_answer;

use crate::Provider;
use crate::api::answer::Body;
use crate::api::{self, PROVIDER};
use crate::classify::{self, FailureFacts, RetryAfter, UserRule, classify};
use dfp_model::error::{Category, Code, Partial, ProviderError, clip};
use dfp_model::event::{Failure, Reply};
use dfp_text::decode::Wire;
use dfp_text::fold::Folded;
use dfp_text::redact::{Channel, Redactor};

/// The verdict on an exchange.
///
/// # Errors
/// The reason why the exchange was no success, with everything that is known of it.
pub fn judge(context: &Context, evidence: Evidence, folded: Folded) -> Result<Reply, Box<ProviderError>> {
    match evidence {
        Evidence::Process(process) => of_process(context, &process, folded),
        Evidence::Turn(turn) => of_process(context, &turn.into(), folded),
        Evidence::Http(request) => {
            let failure = failure_of_request(context, &request, &folded);
            match failure.or_else(|| silence(context, &folded, &folded.reply)) {
                None => Ok(reply(folded, &request.diagnostics)),
                Some(error) => Err(with_partial(error, folded)),
            }
        }
    }
}

/// The verdict on a process or a turn. An error gets everything that is known of the process, and the part of the answer that had
/// come.
fn of_process(context: &Context, process: &ProcessEvidence, mut folded: Folded) -> Result<Reply, Box<ProviderError>> {
    folded.reply.structured = cli::structured(process, &folded);
    let failure = cli::failure(context, process, &folded).filter(|error| !is_end_behind_result(error, &folded));
    match failure.or_else(|| silence(context, &folded, &folded.reply)) {
        None => Ok(reply(folded, &process.diagnostics)),
        Some(mut error) => {
            with_process(&mut error, process);
            let mut error = with_partial(error, folded);
            if let (Some(partial), Some(text)) = (&mut error.partial, cli::half_answer(context, process))
                && partial.text.is_empty()
            {
                text.clone_into(&mut partial.text);
            }
            Err(error)
        }
    }
}

/// The stop reasons of APIs for an answer that reached the limit of its length.
const LIMIT_REASONS: [&str; 4] = ["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"];

/// The error for an answer that ended well but says nothing; `None` if it says something, or may be silent.
fn silence(context: &Context, folded: &Folded, reply: &Reply) -> Option<ProviderError> {
    if !reply.is_silent() {
        return None;
    }
    let is_cut = reply
        .stop_reason
        .as_deref()
        .is_some_and(|reason| LIMIT_REASONS.contains(&reason));
    let (code, reason) = match reply.thinking.trim().is_empty() {
        _ if is_cut => (
            Code::MaxTokens,
            "the answer reached the limit of output tokens before its first word",
        ),
        _ if folded.is_behind_result && !folded.breaks_off => return None,
        true => (
            Code::EmptyResponse,
            "the turn ended well, without a word and without a call",
        ),
        false => (
            Code::EmptyResponse,
            "the turn ended well, without a word and without a call: all that came is reasoning",
        ),
    };
    let hint = classify::hint(context.provider, code);
    Some(ProviderError::new(context.provider, code, reason).with_hint(hint))
}

/// `true` if `error` is how a CLI reports an answer without a word, which is no failure behind a tool's result (gemini). The CLI
/// must have counted tokens: grok counts none, and reports an answer that no model gave in the same way.
fn is_end_behind_result(error: &ProviderError, folded: &Folded) -> bool {
    let has_asked = folded.usage.as_ref().is_some_and(|usage| usage.total_tokens > 0);
    error.code == Code::EmptyResponse
        && has_asked
        && folded.reply.is_silent()
        && folded.is_behind_result
        && !folded.breaks_off
}

/// The answer in the plain text of a process that ended well although it was to print another format; `None` if the text is no
/// answer.
pub fn answer_in_plain_text<'a>(rules: &CliRules, evidence: &'a Evidence) -> Option<&'a str> {
    match evidence {
        Evidence::Process(process) if process.end == ProcessEnd::Exited && process.exit_code == Some(0) => {
            cli::text_answer(process.wire, rules.fatal_stdout, process.plain.as_deref()?)
        }
        _ => None,
    }
}

/// Adds to `error` how the process ended.
pub fn with_process(error: &mut ProviderError, process: &ProcessEvidence) {
    let some = |text: &str| (!text.trim().is_empty()).then(|| text.to_owned());
    error.exit_code = process.exit_code;
    error.signal.clone_from(&process.signal);
    error.stderr_tail = some(&process.stderr);
    error.stdout_tail = some(&process.stdout_tail);
}

fn reply(folded: Folded, diagnostics: &[String]) -> Reply {
    let mut reply = folded.reply;
    reply.diagnostics.extend_from_slice(diagnostics);
    reply
}

fn with_partial(mut error: ProviderError, folded: Folded) -> Box<ProviderError> {
    error.usage.clone_from(&folded.usage);
    error.partial = Some(Partial {
        text: folded.text().into_owned(),
        events: folded.events,
        usage: folded.usage,
    });
    Box::new(error)
}

/// The reason why this package ended an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The caller cancelled it, or its provider was closed.
    Cancelled,
    /// The time limit passed.
    Timeout(Duration),
    /// Nothing arrived for this long.
    IdleTimeout(Duration),
    /// The output was longer than this, bytes.
    OutputLimit(usize),
}

/// The end of an exchange.
#[derive(Debug)]
pub enum Evidence {
    /// The end of an exchange whose process has ended, or was to end.
    Process(ProcessEvidence),
    /// The end of a turn whose process goes on.
    Turn(TurnEvidence),
    Http(HttpEvidence),
}

impl Evidence {
    /// The reason why this package ended the exchange; `None` if it ended by itself.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self {
            Evidence::Process(ProcessEvidence {
                end: ProcessEnd::Stopped(reason) | ProcessEnd::Interrupted(reason),
                ..
            })
            | Evidence::Http(HttpEvidence {
                end: HttpEnd::Stopped(reason),
                ..
            }) => Some(*reason),
            Evidence::Turn(turn) => turn.stopped,
            _ => None,
        }
    }
}

/// The end of a process.
#[derive(Debug)]
pub struct ProcessEvidence {
    /// The format that it was to print.
    pub wire: Wire,
    /// The flags it was started with.
    pub flags: Vec<String>,
    /// The launcher and the name of the CLI behind it.
    pub launched: Option<(String, String)>,
    pub end: ProcessEnd,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// The head and tail of standard error.
    pub stderr: String,
    /// Standard output, if it had no event at all.
    pub plain: Option<String>,
    /// Standard output ends in the middle of a line.
    pub cut_short: bool,
    /// The bytes of the longest line that was too long to be read, so that its event is missing.
    pub dropped_line: Option<u64>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// The last bytes of standard output.
    pub stdout_tail: String,
    /// The CLI was to call tools over a bridge, and has never asked for them.
    pub unreached: bool,
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// The process exited by itself.
    Exited,
    /// The process did not exit after its last event, or takes another turn. There is no exit code then.
    Lingered,
    /// This package ended the process.
    Stopped(StopReason),
    /// This package interrupted its turn; the process goes on.
    Interrupted(StopReason),
}

/// The end of a turn whose process takes the next one.
#[derive(Debug)]
pub struct TurnEvidence {
    pub wire: Wire,
    /// The flags the process was started with.
    pub flags: Vec<String>,
    /// The reason why this package stopped the turn; `None` if it ended by itself.
    pub stopped: Option<StopReason>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// The last bytes of the turn's standard output.
    pub stdout_tail: String,
}

impl From<TurnEvidence> for ProcessEvidence {
    fn from(turn: TurnEvidence) -> Self {
        ProcessEvidence {
            wire: turn.wire,
            flags: turn.flags,
            launched: None,
            end: turn.stopped.map_or(ProcessEnd::Lingered, ProcessEnd::Interrupted),
            exit_code: None,
            signal: None,
            stderr: String::new(),
            plain: None,
            cut_short: false,
            dropped_line: None,
            diagnostics: turn.diagnostics,
            stdout_tail: turn.stdout_tail,
            unreached: false,
        }
    }
}

/// The end of a request.
#[derive(Debug)]
pub struct HttpEvidence {
    /// The scheme, host and port of the API.
    pub origin: String,
    /// The way in which the request ended.
    pub end: HttpEnd,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// Oddities of the response.
    pub diagnostics: Vec<String>,
    /// The redactor of secrets.
    pub redactor: Redactor,
}

/// The way in which a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpEnd {
    /// A 2xx response was read; its body ended in this way.
    Answered(Body),
    Refused {
        status: u16,
        reason: String,
        /// The beginning of the body.
        body: String,
        /// The header that tells when to try again (`retry-after: 7`).
        retry_after: Option<String>,
        /// The target of a redirect, without the query.
        location: Option<String>,
    },
    /// There was no connection.
    Unreachable(ConnectError),
    /// The connection broke before the response, or within it; the text is the reason.
    Lost(String),
    /// This package ended the request.
    Stopped(StopReason),
}

/// The reason why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// Nobody listens at the port.
    Refused,
    /// The name of the host can't be resolved.
    NoSuchHost,
    /// The other side could not prove its identity, or doesn't speak TLS; the text is the reason.
    Tls(String),
    /// Connecting took longer than this.
    Slow(Duration),
    /// The proxy did not let the request through; the text is the reason.
    Proxy(String),
    Other(String),
}

/// The facts on which a verdict depends besides the evidence.
#[derive(Debug)]
pub struct Context<'a> {
    pub provider: &'a str,
    /// The rules for the CLI.
    pub rules: CliRules<'a>,
    /// The current time, ms since the epoch.
    pub now_ms: u64,
    /// Minutes by which local time is east of UTC, if known: CLIs name the end of a limit in local time.
    pub local_offset_min: Option<i32>,
}

/// The rules by which a CLI's end is judged; empty for an API.
#[derive(Debug, Clone, Copy, Default)]
pub struct CliRules<'a> {
    /// The versions of the CLI with which this package was measured.
    pub versions: &'a [&'a str],
    /// Texts on standard error that make a run a failure, whatever else it printed.
    pub fatal_stderr: &'a [&'a str],
    /// Texts that make a run in text form a failure if they are all of standard output.
    pub fatal_stdout: &'a [&'a str],
    /// In text form, failures are reported on standard output.
    pub fails_on_stdout: bool,
    /// The beginning of a message that is the reason of a failed run.
    pub error_message: Option<&'a str>,
    /// The user's own error rules.
    pub user_rules: &'a [UserRule],
    /// The reply is checked by its schema after the verdict, so a reply without a value is no failure yet.
    pub output_is_checked: bool,
}

impl<'a> From<&'a Provider> for CliRules<'a> {
    fn from(provider: &'a Provider) -> Self {
        CliRules {
            versions: provider.about.versions,
            fatal_stderr: provider.fatal_stderr,
            fatal_stdout: provider.fatal_stdout,
            fails_on_stdout: provider.errors.channel.fails_on_stdout,
            error_message: provider.error_message,
            user_rules: provider.custom.as_ref().map_or(&[], |own| &own.error_rules),
            output_is_checked: false,
        }
    }
}

/// Everything that is known of a request that has ended.
#[derive(Clone, Copy)]
struct HttpFacts<'a> {
    context: &'a Context<'a>,
    request: &'a HttpEvidence,
}

/// The reason why the request is no success; `None` if it is one.
fn failure_of_request(context: &Context, request: &HttpEvidence, folded: &Folded) -> Option<ProviderError> {
    let facts = &HttpFacts { context, request };
    let mut error = reason_of_request(facts, folded)?;
    context.provider.clone_into(&mut error.provider);
    // The text is redacted wherever it comes from: the server, the system, or a library.
    error.message = request.redactor.redact_values(&error.message).into_owned();
    error.http_status = error.http_status.or(request.status.filter(|status| *status >= 300));
    Some(error)
}

/// The reason why the request is no success, before it is completed; `None` if it is one.
fn reason_of_request(facts: &HttpFacts, folded: &Folded) -> Option<ProviderError> {
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
            let failure = api::refused(*status, reason, body, &facts.request.redactor);
            let mut error = classified(facts, folded, &failure);
            error.http_status = Some(*status);
            error.stdout_tail = api::shown(body, &facts.request.redactor);
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
    let what = match api::title(text) {
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
    error.stdout_tail = api::shown(text, &facts.request.redactor);
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
