//! A call as a live session takes it: its setup, and its thread.

use std::sync::Arc;

use super::live_sessions::Live;
use crate::exchange::codex_live;
use crate::exchange::codex_live::tools::Form;
use crate::exchange::live::setup::{SYSTEM_PROMPT, Setup};
use crate::exchange::live::thread::{SystemMessages, Thread};
use crate::exchange::opencode_live;
use crate::message::{Message, ToolSpec};
use crate::prompt::{Encoding, output_instruction};
use crate::provider::choices::Choices;
use crate::provider::options::{Options, SystemPrompt};
use crate::schema::Schema;

/// What a session's answers are to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum SessionOutput<'a> {
    /// Text.
    Text,
    /// Of a schema that the CLI gets.
    Native(&'a Schema),
    /// Of a schema that the system prompt asks for.
    Asked(&'a Schema),
}

impl<'a> SessionOutput<'a> {
    fn native(self) -> Option<&'a Schema> {
        match self {
            SessionOutput::Native(schema) => Some(schema),
            SessionOutput::Text | SessionOutput::Asked(_) => None,
        }
    }

    /// What the system prompt says of it.
    fn instruction(self) -> Option<String> {
        match self {
            SessionOutput::Asked(schema) => Some(output_instruction(schema.text())),
            SessionOutput::Text | SessionOutput::Native(_) => None,
        }
    }
}

/// A call as the live form of its provider takes it.
pub(super) enum LiveCall {
    Claude(LiveRequest),
    Qwen(LiveRequest),
    Codex(CodexRequest),
    Opencode(OpencodeRequest),
}

impl LiveCall {
    /// The call of `messages` for `live`, with the options it is made with. `choices`: those that are its own.
    pub fn new(
        live: &Live,
        messages: Vec<Message>,
        tools: &[ToolSpec],
        encoding: Encoding,
        (options, choices): (&Options, Option<Choices>),
        output: SessionOutput,
    ) -> LiveCall {
        match live {
            Live::Claude(_) => {
                let request = LiveRequest::new(messages, tools, encoding, (options, choices), output);
                LiveCall::Claude(request)
            }
            Live::Qwen(_) => {
                let request = LiveRequest::new(messages, tools, encoding, (options, choices), output);
                LiveCall::Qwen(request)
            }
            Live::Codex(_) => LiveCall::Codex(CodexRequest::new(messages, tools, options, output)),
            Live::Opencode(_) => LiveCall::Opencode(OpencodeRequest::new(messages, tools, (options, choices), output)),
        }
    }
}

impl LiveCall {
    /// The same with `note` said behind the thread, which is no part of it. `callers`: the caller's own messages, where more stands
    /// behind them: its next call goes on with those and the reply.
    pub fn with_extras(self, note: Option<String>, callers: Option<Arc<Vec<Message>>>) -> LiveCall {
        let of = |callers: Arc<Vec<Message>>, system| Arc::new(Thread::with(callers.to_vec(), system));
        let with = |request: LiveRequest, note, callers: Option<Arc<Vec<Message>>>| {
            let callers = callers.map(|callers| of(callers, SystemMessages::All));
            LiveRequest {
                note,
                callers: callers.unwrap_or_else(|| Arc::clone(&request.thread)),
                ..request
            }
        };
        match self {
            LiveCall::Claude(request) => LiveCall::Claude(with(request, note, callers)),
            LiveCall::Qwen(request) => LiveCall::Qwen(with(request, note, callers)),
            LiveCall::Opencode(request) => {
                let callers = callers.map(|callers| of(callers, SystemMessages::All));
                LiveCall::Opencode(OpencodeRequest {
                    note,
                    callers: callers.unwrap_or_else(|| Arc::clone(&request.thread)),
                    ..request
                })
            }
            LiveCall::Codex(request) => {
                let callers = callers.map(|callers| of(callers, SystemMessages::Leading));
                LiveCall::Codex(CodexRequest {
                    note,
                    callers: callers.unwrap_or_else(|| Arc::clone(&request.thread)),
                    ..request
                })
            }
        }
    }
}

/// A call as a session of opencode's takes it.
pub(super) struct OpencodeRequest {
    pub thread: Arc<Thread>,
    /// What is said behind it, and is no part of it.
    pub note: Option<String>,
    /// The thread that its caller's next call goes on with.
    pub callers: Arc<Thread>,
    pub setup: Arc<opencode_live::setup::Setup>,
    /// What its server is started with, where that is the call's own.
    pub choices: Option<Choices>,
}

impl OpencodeRequest {
    /// All system messages are the system prompt, behind that of the options: opencode has no other place for them.
    pub fn new(
        messages: Vec<Message>,
        tools: &[ToolSpec],
        (options, choices): (&Options, Option<Choices>),
        output: SessionOutput,
    ) -> OpencodeRequest {
        let thread = Arc::new(Thread::new(messages));
        let own = match &options.system_prompt {
            SystemPrompt::Custom(own) => Some(own.as_str()),
            SystemPrompt::Default | SystemPrompt::Cli => None,
        };
        let mut texts: Vec<&str> = own.into_iter().chain(thread.system()).collect();
        if texts.is_empty() && options.system_prompt == SystemPrompt::Default {
            texts.push(SYSTEM_PROMPT);
        }
        let instruction = output.instruction();
        texts.extend(instruction.as_deref());
        let model = options.choices.model.as_deref();
        let setup = opencode_live::setup::Setup::new(texts.join("\n\n"), model, tools);
        OpencodeRequest {
            callers: Arc::clone(&thread),
            note: None,
            thread,
            setup: Arc::new(setup),
            choices,
        }
    }
}

/// A call as a thread of codex's takes it.
pub(super) struct CodexRequest {
    pub thread: Arc<Thread>,
    /// What is said behind it, and is no part of it.
    pub note: Option<String>,
    /// The thread that its caller's next call goes on with.
    pub callers: Arc<Thread>,
    pub setup: Arc<codex_live::setup::Setup>,
}

impl CodexRequest {
    /// The thread's first system messages are its system prompt, behind that of the options; later ones stay where they are.
    pub fn new(messages: Vec<Message>, tools: &[ToolSpec], options: &Options, output: SessionOutput) -> CodexRequest {
        let thread = Thread::with(messages, SystemMessages::Leading);
        let own = match &options.system_prompt {
            SystemPrompt::Custom(own) => Some(own.as_str()),
            SystemPrompt::Default | SystemPrompt::Cli => None,
        };
        let texts: Vec<&str> = own.into_iter().chain(thread.system()).collect();
        let system = match options.system_prompt {
            SystemPrompt::Default if texts.is_empty() => SYSTEM_PROMPT.to_owned(),
            _ => texts.join("\n\n"),
        };
        let system = match output.instruction() {
            Some(instruction) => format!("{system}\n\n{instruction}").trim_start().to_owned(),
            None => system,
        };
        let form = match options.tool_namespace {
            true => Form::Namespace,
            false => Form::Functions,
        };
        let own_instructions = options.system_prompt == SystemPrompt::Cli;
        let Choices { model, effort, .. } = options.choices.clone();
        let setup = codex_live::setup::Setup::new(system, own_instructions, model, tools);
        let thread = Arc::new(thread);
        CodexRequest {
            callers: Arc::clone(&thread),
            note: None,
            thread,
            setup: Arc::new(
                setup
                    .with_form(form)
                    .with_effort(effort)
                    .with_output(output.native().map(|schema| schema.value().clone())),
            ),
        }
    }
}

/// A call as a live session of claude takes it.
pub(super) struct LiveRequest {
    pub thread: Arc<Thread>,
    /// What is said behind it, and is no part of it.
    pub note: Option<String>,
    /// The thread that its caller's next call goes on with.
    pub callers: Arc<Thread>,
    pub setup: Arc<Setup>,
    pub encoding: Encoding,
}

impl LiveRequest {
    /// The thread's system messages are the session's system prompt, behind that of the options. `choices`: the call's own.
    pub fn new(
        messages: Vec<Message>,
        tools: &[ToolSpec],
        encoding: Encoding,
        (options, choices): (&Options, Option<Choices>),
        output: SessionOutput,
    ) -> LiveRequest {
        let thread = Arc::new(Thread::new(messages));
        let system = thread.system().map(str::to_owned);
        LiveRequest {
            callers: Arc::clone(&thread),
            note: None,
            setup: Arc::new(
                setup(options, system, tools, output.instruction())
                    .with_choices(choices)
                    .with_output(output.native().map(|schema| schema.text().to_owned())),
            ),
            thread,
            encoding,
        }
    }
}

/// The setup of a session for a thread whose system messages are `system`, with these tools bound, and an instruction behind them.
pub(super) fn setup(
    options: &Options,
    system: Option<String>,
    tools: &[ToolSpec],
    instruction: Option<String>,
) -> Setup {
    let (system, append) = match (&options.system_prompt, system) {
        (SystemPrompt::Custom(own), None) => (Some(own.clone()), None),
        (SystemPrompt::Custom(own), Some(system)) => (Some(format!("{own}\n\n{system}")), None),
        // The CLI's own tools need the CLI's own instructions.
        (SystemPrompt::Cli, system) => (None, system),
        (SystemPrompt::Default, system) if options.built_in_tools => (None, system),
        (SystemPrompt::Default, system) => (Some(system.unwrap_or_else(|| SYSTEM_PROMPT.to_owned())), None),
    };
    let (system, append) = match (instruction, system) {
        (None, system) => (system, append),
        (Some(instruction), Some(system)) => (Some(format!("{system}\n\n{instruction}")), append),
        (Some(instruction), None) => (
            None,
            Some(append.map_or(instruction.clone(), |own| format!("{own}\n\n{instruction}"))),
        ),
    };
    Setup::new(system, append, tools)
}
