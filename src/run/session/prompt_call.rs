//! Calls of processes without memory, which are sent the prompt of the print form.
//!
//! In: a call's prompt, or the session that carries it if the CLI would read a prompt as more than text. Out: the same events and
//! the same verdict as a print run's.

use std::sync::Arc;

use super::drive::{Reading, drive};
use super::sessions::{Sessions, warning};
use crate::attempt::AttemptOutcome;
use crate::cli_attempt::{CliAttempt, CliCall};
use crate::cli_request::emulated;
use crate::print::not_callable;
use dfp_exchange::form::{Form, SessionCall};
use dfp_exchange::random::uuid;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::RunInfo;
use dfp_provider::command;
use dfp_provider::options::EngineKind;
use dfp_provider::{SessionParts, WarmThread};

/// Makes an attempt in a process of `sessions`, if the call can be a prompt.
pub(super) async fn attempt<F: Form>(
    sessions: &Arc<Sessions<F>>,
    attempt: &CliAttempt<'_>,
    info: &mut RunInfo,
) -> Result<Option<AttemptOutcome>, Box<ProviderError>> {
    let CliCall { engine, request, .. } = *attempt.call;
    // The CLI calls tools or works for itself.
    if request.tool_server.is_some() || request.watching {
        return Ok(None);
    }
    let is_auto = engine.options.engine == EngineKind::Auto;
    let printed = request.printed(engine);
    // The CLI checks the answer against the schema in print form only.
    if is_auto && printed.asking_prompt.is_some() {
        return Ok(None);
    }
    // Such a process can't be told a schema.
    let prompt = &printed.asking_prompt.as_ref().unwrap_or(&printed.prompt).text;
    // A history is never read as a command.
    let is_history = matches!(
        engine.provider.warm.map(|warm| warm.thread),
        Some(WarmThread::History { .. })
    );
    let needs_own_process = if !printed.prompt.media.is_empty() {
        Some("the thread holds images or documents")
    } else if !is_history && prompt.trim_start().starts_with('/') {
        // The CLI would answer `/help` itself, also behind white space (gemini 0.61.0), and a lone message is sent unchanged.
        Some("the prompt begins with \"/\"")
    } else {
        None
    };
    if let Some(why) = needs_own_process {
        if !engine.provider.has_print() {
            let reason = format!("{why}, which an agent may take for a command of its own");
            let error = engine.refuse(Code::UnsupportedContent, reason);
            return Err(Box::new(
                error.with_hint("leave `inputEncoding` at \"xml\", or put something before it"),
            ));
        }
        let message = format!("{why}, which a warm process does not take: asked in print form");
        if !is_auto {
            attempt.warn(warning("ENGINE_FALLBACK", message)).await;
        }
        return Ok(None);
    }
    let choices = request.chosen.options.as_ref().map(|options| options.choices.clone());
    let options = request.provider_options(engine);
    let id = uuid();
    let parts = SessionParts { id: &id, prompt };
    let file = is_history.then(|| command::session(&engine.provider, options, parts));
    let call = SessionCall::of_prompt::<F>(prompt.clone(), file.flatten(), options, choices);
    let why_emulated = match printed.asking_prompt {
        Some(_) => Some("a warm process can't be told one"),
        None => request.emulated_because,
    };
    let reading = Reading {
        text_calls: printed.text_calls.clone(),
        notes: {
            let uncallable = request.uncallable.then(not_callable);
            let emulated = why_emulated.and_then(|why| emulated(engine, why));
            uncallable.into_iter().chain(emulated).collect()
        },
        unfit: printed.unprintable.as_deref(),
    };
    drive(sessions, attempt, &call, reading, info).await
}
