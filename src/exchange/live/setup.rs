//! The setup of a session, sent before its first turn: the system prompt and the tools; with them, what its process is started with.
//!
//! In: the thread's system messages, the bound tools, the call's choices. Out: a [`Setup`], by which sessions are distinguished.

use crate::declare::Declared;
use crate::declare::mcp::Declarations;
use crate::message::ToolSpec;
use crate::provider::choices::Choices;

/// The system prompt of a thread that has none.
pub const SYSTEM_PROMPT: &str = "You are the model behind an agent. Reply with the assistant's next message, and call tools where \
you need them; you have no others than those of this request.";

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

    /// The same for a process that is started with these choices instead of the provider's.
    #[must_use]
    pub fn with_choices(self, choices: Option<Choices>) -> Setup {
        Setup { choices, ..self }
    }

    /// What its process is started with; `None` for the provider's own.
    pub fn choices(&self) -> Option<&Choices> {
        self.choices.as_ref()
    }

    /// The same whose answers have to fit the JSON Schema `output`.
    #[must_use]
    pub fn with_output(self, output: Option<String>) -> Setup {
        Setup { output, ..self }
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
