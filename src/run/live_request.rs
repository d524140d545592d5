//! A call as a live session takes it.

use std::sync::Arc;

use crate::error::ProviderError;
use crate::exchange::claude_live::setup::{SYSTEM_PROMPT, Setup};
use crate::exchange::claude_live::thread::Thread;
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
        let told = thread.system().map(str::to_owned);
        let (system, append) = match (&options.system_prompt, told) {
            (SystemPrompt::Custom(own), None) => (Some(own.clone()), None),
            (SystemPrompt::Custom(own), Some(told)) => (Some(format!("{own}\n\n{told}")), None),
            // The CLI's own tools need the CLI's own instructions.
            (SystemPrompt::Cli, told) => (None, told),
            (SystemPrompt::Default, told) if options.built_in_tools => (None, told),
            (SystemPrompt::Default, told) => (Some(told.unwrap_or_else(|| SYSTEM_PROMPT.to_owned())), None),
        };
        LiveRequest {
            setup: Arc::new(Setup::new(system, append, tools)),
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
