//! claude's control protocol as a form.

use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::session::ClaudeSession;
use crate::form::{Form, ProcessForm, ProcessOptions, ProcessStart, SessionCall, WhyAnew};
use crate::installed::Installed;
use crate::live::setup::{Setup, SetupParts};
use crate::live::thread::KnownThread;
use crate::print::{NotStarted, Surroundings};
use dfp_provider::choices::Choices;

/// One claude process for each conversation.
#[derive(Debug)]
pub struct Claude;

impl Form for Claude {
    type Setup = Setup;
    type Session = ClaudeSession;
    /// A user line.
    type Input = String;

    fn setup(parts: &SetupParts<'_>) -> Setup {
        Setup::of(parts)
    }

    /// The system prompt and the tools are sent to the running process, so they are not among its options.
    fn options(setup: Option<&Setup>, _: Option<&Choices>) -> ProcessOptions {
        ProcessOptions {
            choices: setup.and_then(Setup::choices).cloned(),
            system_prompt: None,
        }
    }

    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<String, WhyAnew> {
        let addition = call.thread.addition(known, call.guard, call.note.as_deref());
        addition.ok_or(WhyAnew::OtherThread)
    }
}

impl ProcessForm for Claude {
    const IS_TRIED_FIRST: bool = true;
    const STARTS_BARE: bool = true;

    fn whole(call: &SessionCall<Setup>) -> io::Result<String> {
        Ok(call.thread.whole(call.encoding, call.guard, call.note.as_deref()))
    }

    fn text(input: &String) -> String {
        input.clone()
    }

    fn start(
        &self,
        installed: &Installed,
        surroundings: Surroundings,
        cancel: &CancellationToken,
        _: ProcessStart<'_, String>,
    ) -> Result<ClaudeSession, NotStarted> {
        ClaudeSession::start(installed.line.clone(), surroundings, cancel)
    }

    fn begin(session: &mut ClaudeSession, input: String, setup: &Arc<Setup>) {
        session.begin(&input, setup);
    }
}
