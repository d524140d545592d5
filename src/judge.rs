//! Did it succeed? What is left of an exchange in, a [`Reply`] or a [`ProviderError`] out. Nothing else in the crate decides this.
//!
//! Success of a CLI is: exit 0, no failure reported, nothing fatal on standard error, and an outcome (a wire format's last word) that is
//! no error. Of claude that is subtype "success", `is_error` false and at least one turn (CLI-FACTS 1.1); of codex
//! `turn.completed`; of gemini `result` with status "success"; of opencode a last `step_finish` with a reason that ends a run.
//! qwen tells an API's error with exit 0 and "success": its decoder makes a failure of it. Output that is no JSON at all,
//! with exit 0, is taken as text; JSON that is no answer never is, nor is the beginning of a stream or an object. In the format
//! `text` an answer's end can't be distinguished from a cut, so there the exit code decides alone.
//!
//! Success of an API is: a 2xx status, and a body that is an answer and came to its end (`finish_reason` or `[DONE]`) without an
//! error.

use crate::error::{Partial, ProviderError};
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
        Evidence::Http(request) => match http::failure(context, &request, &folded) {
            None => Ok(reply(folded, &request.diagnostics)),
            Some(error) => Err(with_partial(error, folded)),
        },
    }
}

fn of_process(context: &Context, process: &ProcessEvidence, folded: Folded) -> Result<Reply, Box<ProviderError>> {
    match cli::failure(context, process, &folded) {
        None => {
            let structured = cli::structured(process, &folded);
            let reply = reply(folded, &process.diagnostics);
            Ok(Reply { structured, ..reply })
        }
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
