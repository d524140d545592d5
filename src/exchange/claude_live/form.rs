//! claude's control protocol as a form.

use std::io;

use super::session::ClaudeSession;
use crate::form::{Caller, Form, OwnProcess, ProcessOptions, Processes, SentText, SessionCall, SessionHome, WhyAnew};
use crate::host::Host;
use crate::live::setup::{NextCall, Setup, SetupParts};
use crate::live::thread::KnownThread;
use crate::print::NotStarted;
use dfp_provider::choices::Choices;

/// One claude process for each conversation.
#[derive(Debug)]
pub struct Claude;

impl Form for Claude {
    const PROCESSES: Processes = Processes::Own {
        is_tried_first: true,
        starts_bare: true,
    };

    type Session = ClaudeSession;
    type Server = Host;

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

    fn whole(&self, call: &SessionCall<Setup>, _: &Caller<'_, Claude>) -> io::Result<String> {
        Ok(call.thread.whole(call.encoding, call.guard, call.note.as_deref()))
    }

    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<String, WhyAnew> {
        let addition = call.thread.addition(known, call.guard, call.note.as_deref());
        addition.ok_or(WhyAnew::OtherThread)
    }

    fn text(_: &SessionCall<Setup>, input: &String) -> SentText {
        let text = input.clone();
        Box::new(move || text)
    }

    fn session(&self, home: SessionHome<'_, Claude>) -> Result<ClaudeSession, NotStarted> {
        let OwnProcess {
            installed,
            surroundings,
            closing,
            ..
        } = home.own()?;
        ClaudeSession::start(installed.line.clone(), surroundings, closing)
    }

    fn next_setup(last: Option<&Setup>, next: &NextCall<'_>) -> Option<Setup> {
        Setup::next(last, next)
    }
}
