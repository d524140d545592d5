//! A call as a live session takes it.

use std::sync::Arc;

use crate::error::ProviderError;
use crate::exchange::claude_live::setup::{SYSTEM_PROMPT, Setup};
use crate::exchange::live::thread::Thread;
use crate::message::{Message, ToolSpec};
use crate::prompt::Encoding;
use crate::provider::options::{Options, SystemPrompt};

/// A call as a live session takes it.
pub(super) struct LiveRequest {
    pub thread: Arc<Thread>,
    pub setup: Arc<Setup>,
    pub encoding: Encoding,
    /// Why the whole of it can't be told to a session that knows nothing of it.
    pub untellable: Option<Box<ProviderError>>,
}

impl LiveRequest {
    /// The thread's system messages are the session's system prompt, behind that of the options.
    pub fn new(messages: Vec<Message>, tools: &[ToolSpec], encoding: Encoding, options: &Options) -> LiveRequest {
        let thread = Thread::new(messages);
        let system = thread.system().map(str::to_owned);
        LiveRequest {
            setup: Arc::new(setup(options, system, tools)),
            thread: Arc::new(thread),
            encoding,
            untellable: None,
        }
    }

    /// The same, of which the whole can't be told for this reason.
    pub fn or_refused(self, untellable: Option<Box<ProviderError>>) -> LiveRequest {
        LiveRequest { untellable, ..self }
    }
}

/// What the session of a thread is told whose system messages are `system`, with these tools bound.
pub(super) fn setup(options: &Options, system: Option<String>, tools: &[ToolSpec]) -> Setup {
    let (system, append) = match (&options.system_prompt, system) {
        (SystemPrompt::Custom(own), None) => (Some(own.clone()), None),
        (SystemPrompt::Custom(own), Some(system)) => (Some(format!("{own}\n\n{system}")), None),
        // The CLI's own tools need the CLI's own instructions.
        (SystemPrompt::Cli, system) => (None, system),
        (SystemPrompt::Default, system) if options.built_in_tools => (None, system),
        (SystemPrompt::Default, system) => (Some(system.unwrap_or_else(|| SYSTEM_PROMPT.to_owned())), None),
    };
    Setup::new(system, append, tools)
}
