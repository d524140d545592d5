//! Did it succeed? What is left of an exchange in, a [`Reply`] or a [`ProviderError`] out. Nothing else in the crate decides this.
//!
//! Success of a CLI is: exit 0, no failure reported, nothing fatal on standard error, and an outcome (a wire format's last word) that is
//! no error. Of claude that is subtype "success", `is_error` false and at least one turn (CLI-FACTS 1.1); of codex
//! `turn.completed`; of gemini `result` with status "success"; of opencode a last `step_finish` with a reason that ends a run.
//! qwen tells an API's error with exit 0 and "success": its decoder makes a failure of it. Output that is no JSON at all,
//! with exit 0, is taken as text; JSON that is no answer never is, nor is the beginning of a stream or an object. In the format
//! `text` an answer's end can't be distinguished from a cut, so there the exit code decides alone.
//!
//! An answer without a word (white space and reasoning are none) and without a call is EMPTY_RESPONSE, whichever provider gave it.
//! Behind a tool's result models do end so: there it is a success, and its content is `""`.
//!
//! Success of an API is: a 2xx status, and a body that is an answer and came to its end (`finish_reason` or `[DONE]`) without an
//! error.

use crate::classify;
use crate::error::{Code, Partial, ProviderError};
use crate::event::Reply;
use crate::fold::Folded;

mod cli;
mod evidence;
mod http;

pub use cli::text_answer;
pub use evidence::{
    CliRules, ConnectError, Context, Evidence, HttpEnd, HttpEvidence, ProcessEnd, ProcessEvidence, StopReason,
    TurnEvidence,
};

/// The verdict.
///
/// # Errors
/// Whatever made the exchange no success, with all that is known of it.
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

/// What the stop reasons of APIs are where the answer reached the limit of its length.
const LIMIT_REASONS: [&str; 4] = ["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"];

/// Why an answer that ended well is none all the same; `None` if it is one.
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

/// Whether `error` is a CLI's word for an answer without a word, which is no failure behind a tool's result (gemini). Only with
/// tokens that the CLI has counted: grok, which tells none, says the same of an answer that is none of a model's.
fn is_end_behind_result(error: &ProviderError, folded: &Folded) -> bool {
    let has_asked = folded.usage.as_ref().is_some_and(|usage| usage.total_tokens > 0);
    error.code == Code::EmptyResponse
        && has_asked
        && folded.reply.is_silent()
        && folded.is_behind_result
        && !folded.breaks_off
}

/// The answer in what a process printed that ended well, where it was to print something else; `None` where that is none.
pub fn answer_in_plain_text<'a>(rules: &CliRules, evidence: &'a Evidence) -> Option<&'a str> {
    match evidence {
        Evidence::Process(process) if process.end == ProcessEnd::Exited && process.exit_code == Some(0) => {
            cli::text_answer(process.wire, rules.fatal_stdout, process.plain.as_deref()?)
        }
        _ => None,
    }
}

/// `error` says how the process ended.
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
