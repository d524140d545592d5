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

use crate::classify;
use dfp_model::error::{Code, Partial, ProviderError};
use dfp_model::event::Reply;
use dfp_text::fold::Folded;

mod cli;
mod evidence;
mod http;

pub use cli::text_answer;
pub use evidence::{
    CliRules, ConnectError, Context, Evidence, HttpEnd, HttpEvidence, ProcessEnd, ProcessEvidence, StopReason,
    TurnEvidence,
};

/// The verdict on an exchange.
///
/// # Errors
/// The reason why the exchange was no success, with everything that is known of it.
pub fn judge(context: &Context, evidence: Evidence, folded: Folded) -> Result<Reply, Box<ProviderError>> {
    match evidence {
        Evidence::Process(process) => of_process(context, &process, folded),
        Evidence::Turn(turn) => of_process(context, &turn.into(), folded),
        Evidence::Http(request) => {
            let failure = http::failure(context, &request, &folded);
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

#[cfg(test)]
mod tests;
