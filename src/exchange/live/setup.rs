//! The setup of a session, sent before its first turn: the system prompt and the tools; with them, what its process is started with.
//!
//! In: the thread's system messages, the bound tools, the call's choices. Out: a [`Setup`], by which sessions are distinguished.

use crate::declare::Declared;
use crate::declare::mcp::Declarations;
use crate::message::ToolSpec;
use crate::prompt::output_instruction;
use crate::provider::choices::Choices;
use crate::provider::options::{Options, SystemPrompt};
use crate::schema::Schema;

/// The system prompt of a thread that has none.
pub const SYSTEM_PROMPT: &str = "You are the model behind an agent. Reply with the assistant's next message, and call tools where \
you need them; you have no others than those of this request.";

/// What a session's answers are to be.
#[derive(Debug, Clone, Copy)]
pub enum SessionOutput<'a> {
    Text,
    /// Of a schema that the CLI gets.
    Native(&'a Schema),
    /// Of a schema that the system prompt asks for.
    Asked(&'a Schema),
}

impl<'a> SessionOutput<'a> {
    /// The schema that the CLI gets.
    pub fn native(self) -> Option<&'a Schema> {
        match self {
            SessionOutput::Native(schema) => Some(schema),
            SessionOutput::Text | SessionOutput::Asked(_) => None,
        }
    }

    /// What the system prompt says of it.
    pub fn instruction(self) -> Option<String> {
        match self {
            SessionOutput::Asked(schema) => Some(output_instruction(schema.text())),
            SessionOutput::Text | SessionOutput::Native(_) => None,
        }
    }
}

/// What the setup of a session is made of.
#[derive(Debug, Clone, Copy)]
pub struct SetupParts<'a> {
    /// The text of the thread's system messages.
    pub system: Option<&'a str>,
    /// The tools that are bound.
    pub tools: &'a [ToolSpec],
    /// The options that the call is made with.
    pub options: &'a Options,
    /// What of them is the call's own choice.
    pub choices: Option<&'a Choices>,
    /// What the answer is to be.
    pub output: SessionOutput<'a>,
}

/// The system prompt and the tools of a session, and the choices of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    system: Option<String>,
    append: Option<String>,
    declarations: Declarations,
    /// What its process is started with that is not the provider's own.
    choices: Option<Choices>,
    /// The schema of its answers, JSON.
    output: Option<String>,
}

impl Setup {
    /// That of a process for one conversation. The thread's system messages are its system prompt, behind that of the options.
    pub fn of(parts: &SetupParts<'_>) -> Setup {
        let SetupParts { options, output, .. } = *parts;
        let system = parts.system.map(str::to_owned);
        let (system, append) = match (&options.system_prompt, system) {
            (SystemPrompt::Custom(own), None) => (Some(own.clone()), None),
            (SystemPrompt::Custom(own), Some(system)) => (Some(format!("{own}\n\n{system}")), None),
            // The CLI's own tools need the CLI's own instructions.
            (SystemPrompt::Cli, system) => (None, system),
            (SystemPrompt::Default, system) if options.built_in_tools => (None, system),
            (SystemPrompt::Default, system) => (Some(system.unwrap_or_else(|| SYSTEM_PROMPT.to_owned())), None),
        };
        let (system, append) = match (output.instruction(), system) {
            (None, system) => (system, append),
            (Some(instruction), Some(system)) => (Some(format!("{system}\n\n{instruction}")), append),
            (Some(instruction), None) => {
                let both = append.map_or(instruction.clone(), |own| format!("{own}\n\n{instruction}"));
                (None, Some(both))
            }
        };
        Setup {
            choices: parts.choices.cloned(),
            output: output.native().map(|schema| schema.text().to_owned()),
            ..Setup::new(system, append, parts.tools)
        }
    }

    /// `system` replaces the CLI's own system prompt, `append` is added to it.
    pub fn new(system: Option<String>, append: Option<String>, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            append,
            declarations: Declarations::new(tools),
            choices: None,
            output: None,
        }
    }

    /// What its process is started with; `None` for the provider's own.
    pub fn choices(&self) -> Option<&Choices> {
        self.choices.as_ref()
    }

    /// The schema of its answers.
    pub fn output(&self) -> Option<&str> {
        self.output.as_deref()
    }

    /// The same with other tools.
    pub fn with_tools(&self, tools: &[ToolSpec]) -> Setup {
        Setup {
            declarations: Declarations::new(tools),
            ..self.clone()
        }
    }

    /// The same with other system prompts, those of `other`.
    pub fn with_system_of(&self, other: &Setup) -> Setup {
        Setup {
            declarations: self.declarations.clone(),
            choices: self.choices.clone(),
            ..other.clone()
        }
    }

    /// The tools, in the caller's order.
    pub fn tools(&self) -> &[Declared] {
        self.declarations.tools()
    }

    /// What replaces the CLI's own system prompt.
    pub fn system_prompt(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// What is added to it.
    pub fn append_system_prompt(&self) -> Option<&str> {
        self.append.as_deref()
    }

    /// The caller's name of the tool that a CLI calls `name`; `None` for what is none of them.
    pub fn ours(&self, name: &str) -> Option<&str> {
        self.declarations.ours(name)
    }

    /// The tools, and their names both ways.
    pub fn declarations(&self) -> &Declarations {
        &self.declarations
    }

    /// The caller's name of the tool that the model called `name`. A name that was never declared stays as it is.
    pub fn callers_name(&self, name: &str) -> String {
        self.declarations.callers_name(name)
    }
}
