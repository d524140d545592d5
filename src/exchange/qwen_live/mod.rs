//! qwen's live form: one process for a conversation, over `--input-format stream-json` (0.24.4; OTHER-LIVE 2.3).
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread), as the input with which a [`QwenSession`] begins
//! ([`input`]). Out: the decoder's events of one turn after the other. The caller's tools are an MCP server of the session's own
//! (`bridge`), so the model makes native calls. The CLI can't leave a call to anybody: it waits for the server's answer. So a
//! turn ends with the model's message, with the calls held ([`calls`]), and the next turn begins with their results. A
//! thread that does not fit a session begins another one, which reads the thread from a chat file of the CLI's own
//! ([`input::Chat`]). A process can be started ahead of its first turn, for a setup that is known: it has answered the handshake then,
//! and got the tools.

pub mod calls;
pub mod input;
pub mod session;

use std::io;
use std::sync::Arc;

use self::calls::Tools;
use self::input::{FirstInput, QwenInput};
use self::session::{QwenSession, SessionStart};
use crate::form::{
    Caller, Form, OwnProcess, ProcessOptions, Processes, Retold, SentText, SessionCall, SessionHome, WhyAnew,
};
use crate::host::Host;
use crate::live::setup::{NextCall, Setup, SetupParts};
use crate::live::thread::KnownThread;
use crate::print::NotStarted;
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
    const PROCESSES: Processes = Processes::Own {
        is_tried_first: false,
        starts_bare: false,
    };

    type Session = QwenSession;
    type Server = Host;

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

    fn whole(&self, call: &SessionCall<Setup>, _: &Caller<'_, Qwen>) -> io::Result<FirstInput> {
        let declarations = call.setup.declarations();
        Ok(input::opening(
            &call.thread,
            declarations,
            call.encoding,
            call.note.as_deref(),
            random::bits()?,
        ))
    }

    /// A chat file holds the messages of the model's API.
    fn retold(opening: &FirstInput) -> Retold {
        match opening.chat {
            Some(_) => Retold::Natively,
            None => Retold::InWords(None),
        }
    }

    fn text(_: &SessionCall<Setup>, opening: &FirstInput) -> SentText {
        let text = match &opening.input {
            QwenInput::User(text) => text.clone(),
            QwenInput::Results(results) => results.iter().map(|(_, result)| result.content.as_text()).collect(),
            QwenInput::GoOn => String::new(),
        };
        Box::new(move || text)
    }

    fn session(&self, home: SessionHome<'_, Qwen>) -> Result<QwenSession, NotStarted> {
        let OwnProcess {
            installed,
            surroundings,
            closing,
            setup,
            input,
        } = home.own()?;
        let setup = setup.map_or_else(|| Arc::new(Setup::new(None, None, &[])), Arc::clone);
        let tools = Tools::serve(setup.declarations()).map_err(NotStarted::Tools)?;
        let start = SessionStart {
            tools,
            setup,
            chat: input.and_then(|opening| opening.chat.as_ref()),
            long_pauses: self.long_pauses,
        };
        QwenSession::start(installed.line.clone(), surroundings, closing, start)
    }

    /// Only a process that is started with a chat file reads it.
    fn needs_own_process(opening: &FirstInput) -> bool {
        opening.chat.is_some()
    }

    fn next_setup(last: Option<&Setup>, next: &NextCall<'_>) -> Option<Setup> {
        Setup::next(last, next)
    }
}
