//! qwen's stream-json input as a form.

use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::input::{self, FirstInput, QwenInput};
use super::session::{QwenSession, SessionStart};
use super::tools::Tools;
use crate::form::{Form, ProcessForm, ProcessOptions, ProcessStart, SessionCall, WhyAnew};
use crate::installed::Installed;
use crate::live::setup::{Setup, SetupParts};
use crate::live::thread::KnownThread;
use crate::print::{NotStarted, Surroundings};
use crate::random;
use dfp_provider::choices::Choices;
use dfp_provider::options::SystemPrompt;

/// One qwen process for each conversation, in which its calls wait.
#[derive(Debug)]
pub struct Qwen {
    /// The beginnings of lines on standard error with which the CLI announces a long pause.
    pub long_pauses: &'static [&'static str],
}

impl Form for Qwen {
    type Setup = Setup;
    type Session = QwenSession;
    type Input = FirstInput;

    fn setup(parts: &SetupParts<'_>) -> Setup {
        Setup::of(parts)
    }

    /// The process is started with its system prompt.
    fn options(setup: Option<&Setup>, _: Option<&Choices>) -> ProcessOptions {
        let system_prompt = |setup: &Setup| {
            let texts = [setup.system_prompt(), setup.append_system_prompt()];
            let texts: Vec<&str> = texts.into_iter().flatten().collect();
            match texts.is_empty() {
                true => SystemPrompt::Cli,
                false => SystemPrompt::Custom(texts.join("\n\n")),
            }
        };
        ProcessOptions {
            choices: setup.and_then(Setup::choices).cloned(),
            system_prompt: setup.map(system_prompt),
        }
    }

    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<FirstInput, WhyAnew> {
        let input = input::addition(&call.thread, known, call.note.as_deref())?;
        Ok(FirstInput { chat: None, input })
    }
}

impl ProcessForm for Qwen {
    const IS_TRIED_FIRST: bool = false;
    const STARTS_BARE: bool = false;

    fn whole(call: &SessionCall<Setup>) -> io::Result<FirstInput> {
        let declarations = call.setup.declarations();
        Ok(input::opening(
            &call.thread,
            declarations,
            call.encoding,
            call.note.as_deref(),
            random::bits()?,
        ))
    }

    fn text(opening: &FirstInput) -> String {
        match &opening.input {
            QwenInput::User(text) => text.clone(),
            QwenInput::Results(results) => results.iter().map(|(_, result)| result.content.as_text()).collect(),
            QwenInput::GoOn => String::new(),
        }
    }

    /// Only a process that is started with a chat file reads it.
    fn needs_own_process(opening: &FirstInput) -> bool {
        opening.chat.is_some()
    }

    fn start(
        &self,
        installed: &Installed,
        surroundings: Surroundings,
        cancel: &CancellationToken,
        ProcessStart { setup, input }: ProcessStart<'_, FirstInput>,
    ) -> Result<QwenSession, NotStarted> {
        let setup = setup.map_or_else(|| Arc::new(Setup::new(None, None, &[])), Arc::clone);
        let tools = Tools::serve(setup.declarations()).map_err(NotStarted::Tools)?;
        let start = SessionStart {
            tools,
            setup,
            chat: input.and_then(|opening| opening.chat.as_ref()),
            long_pauses: self.long_pauses,
        };
        QwenSession::start(installed.line.clone(), surroundings, cancel, start)
    }

    fn begin(session: &mut QwenSession, opening: FirstInput, _: &Arc<Setup>) {
        session.begin(opening.input);
    }
}
