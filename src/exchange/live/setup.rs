//! The setup of a session, sent before its first turn: the system prompt and the tools, and with them the choices that its
//! process is started with.
//!
//! In: the thread's system messages, the bound tools, the call's choices. Out: a [`Setup`]; sessions with equal setups are
//! interchangeable.

use serde_json::{Map, Value};

use dfp_model::message::ToolSpec;
use dfp_provider::choices::{Choices, ToolChoice};
use dfp_provider::declare::mcp::Declarations;
use dfp_provider::declare::{Declared, Tools};
use dfp_provider::options::{Options, SystemPrompt};
use dfp_text::prompt::output_instruction;
use dfp_text::schema::Schema;

/// The system prompt of a thread that has none.
pub const SYSTEM_PROMPT: &str = "You are the model behind an agent. Reply with the assistant's next message, and call tools where \
you need them; you have no others than those of this request.";

/// The kind of answers that a session gives.
#[derive(Debug, Clone, Copy)]
pub enum SessionOutput<'a> {
    Text,
    /// JSON that fits a schema, which the CLI is given.
    Native(&'a Schema),
    /// JSON that fits a schema, for which the system prompt asks.
    Asked(&'a Schema),
}

impl<'a> SessionOutput<'a> {
    /// The schema that the CLI is given.
    pub fn native(self) -> Option<&'a Schema> {
        match self {
            SessionOutput::Native(schema) => Some(schema),
            SessionOutput::Text | SessionOutput::Asked(_) => None,
        }
    }

    /// The part of the system prompt that asks for the schema.
    pub fn instruction(self) -> Option<String> {
        match self {
            SessionOutput::Asked(schema) => Some(output_instruction(schema.text())),
            SessionOutput::Text | SessionOutput::Native(_) => None,
        }
    }
}

/// The parts from which a session's setup is made.
#[derive(Debug, Clone, Copy)]
pub struct SetupParts<'a> {
    /// The text of the thread's system messages.
    pub system: Option<&'a str>,
    /// The tools that are bound.
    pub tools: &'a [ToolSpec],
    /// The options that the call is made with.
    pub options: &'a Options,
    /// The options among them that the call itself chose.
    pub choices: Option<&'a Choices>,
    /// The provider's own choices.
    pub own: &'a Choices,
    /// The wanted kind of answer.
    pub output: SessionOutput<'a>,
    /// The tools that the call is to call.
    pub tool_choice: Option<&'a ToolChoice>,
    /// The tools that are bound and not offered, since the call is to call none.
    pub forbidden: &'a [ToolSpec],
    /// The names of fields that the API has refused.
    pub refused: &'a [&'a str],
}

impl SetupParts<'_> {
    /// The system prompt where all of it is one text: that of the options, the thread's, and the instruction on the answer. `None`
    /// if there is none.
    pub fn system_prompt(&self) -> Option<String> {
        let own = match &self.options.system_prompt {
            SystemPrompt::Custom(own) => Some(own.as_str()),
            SystemPrompt::Default | SystemPrompt::Cli => None,
        };
        let mut texts: Vec<&str> = own.into_iter().chain(self.system).collect();
        if texts.is_empty() && self.options.system_prompt == SystemPrompt::Default {
            texts.push(SYSTEM_PROMPT);
        }
        let instruction = self.output.instruction();
        texts.extend(instruction.as_deref());
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}

/// The setup of a session in a server that is told everything when a session is opened. Sessions with different setups are not
/// exchangeable. `C` are the choices that the server takes beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSetup<C> {
    /// The system prompt; `None` if there is none of the caller's.
    pub system: Option<String>,
    /// True if the CLI's own instructions come before it.
    pub own_instructions: bool,
    /// The model, if one is chosen.
    pub model: Option<String>,
    /// The caller's tools.
    pub tools: Tools,
    pub choices: C,
}

impl<C> ServerSetup<C> {
    /// Makes the setup of `parts`, whose tools are declared as `tools`. All system messages are one system prompt, after that of the
    /// options.
    pub fn of(parts: &SetupParts<'_>, tools: Tools, choices: C) -> ServerSetup<C> {
        ServerSetup {
            system: parts.system_prompt(),
            own_instructions: parts.options.system_prompt == SystemPrompt::Cli,
            model: parts.options.choices.model.clone(),
            tools,
            choices,
        }
    }
}

/// The parts of the next call that its caller has told ahead.
#[derive(Debug, Clone, Copy)]
pub struct NextCall<'a> {
    /// The text of the thread's system messages; an empty text says that there are none.
    pub system: Option<&'a str>,
    pub tools: Option<&'a [ToolSpec]>,
    /// The options of its provider.
    pub options: &'a Options,
}

/// The choices of a call that a running process of some forms takes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changeable {
    /// `reasoning.effort`.
    pub effort: Option<String>,
    /// `reasoning: "off"`.
    pub reasoning_off: bool,
    /// `speed`: whether the model answers in its fast mode.
    pub fast: Option<bool>,
    /// `maxOutputTokens`.
    pub max_output_tokens: Option<u64>,
    /// Further fields of each request.
    pub fields: Map<String, Value>,
}

impl Changeable {
    /// Those of them that a model may lack.
    pub fn choices(&self) -> Choices {
        Choices {
            effort: self.effort.clone(),
            reasoning_off: self.reasoning_off,
            fast: self.fast,
            ..Choices::default()
        }
    }
}

/// The system prompt and the tools of a session, and the choices of its process.
#[derive(Debug, Clone)]
pub struct Setup {
    system: Option<String>,
    append: Option<String>,
    declarations: Declarations,
    /// The choices that the process is started with, if they are not the provider's own.
    choices: Option<Choices>,
    /// The schema of its answers, as JSON.
    output: Option<String>,
    /// True if the model is told the names of the tools alone, in the system prompt, and finds them by a tool of the CLI's own.
    searches_tools: bool,
    /// The choices of the call that a process takes on while it runs: they make no other setup.
    changeable: Changeable,
}

impl PartialEq for Setup {
    fn eq(&self, other: &Setup) -> bool {
        let Setup {
            system,
            append,
            declarations,
            choices,
            output,
            searches_tools,
            changeable: _,
        } = self;
        (system, append, declarations) == (&other.system, &other.append, &other.declarations)
            && (choices, output, searches_tools) == (&other.choices, &other.output, &other.searches_tools)
    }
}

impl Eq for Setup {}

impl Setup {
    /// Makes the setup of a process for one conversation. Its system prompt is that of the options, then the thread's system
    /// messages.
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
            // With its own tools on, the CLI has more to say of them, and does so itself.
            searches_tools: options.choices.searches_tools() && !options.built_in_tools,
            ..Setup::new(system, append, parts.tools)
        }
    }

    /// Makes a setup: `system` replaces the CLI's own system prompt, `append` is added to it.
    pub fn new(system: Option<String>, append: Option<String>, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            append,
            declarations: Declarations::new(tools),
            choices: None,
            output: None,
            searches_tools: false,
            changeable: Changeable::default(),
        }
    }

    /// The likely setup of the call `next` behind one with the setup `last`; `None` if its system prompt is not known.
    pub fn next(last: Option<&Setup>, next: &NextCall<'_>) -> Option<Setup> {
        let choices = last.and_then(Setup::choices);
        let of = |system: &str, tools: &[ToolSpec]| {
            Setup::of(&SetupParts {
                system: Some(system).filter(|text| !text.trim().is_empty()),
                tools,
                options: next.options,
                choices,
                own: &next.options.choices,
                output: SessionOutput::Text,
                tool_choice: None,
                forbidden: &[],
                refused: &[],
            })
        };
        Some(match (next.system, next.tools, last) {
            (Some(system), Some(tools), _) => of(system, tools),
            (Some(system), None, None) => of(system, &[]),
            (Some(system), None, Some(last)) => last.with_system_of(&of(system, &[])),
            (None, Some(tools), Some(last)) => last.with_tools(tools),
            // With a guessed system prompt, nobody could use the process.
            (None, _, last) => last?.clone(),
        })
    }

    /// This setup for processes that are started with the provider's `own` choices of what is `changeable`, and take on others while
    /// they run.
    #[must_use]
    pub fn changing(self, own: &Choices, changeable: Changeable) -> Setup {
        let fixed = self.choices.map(|choices| Choices {
            effort: own.effort.clone(),
            reasoning_off: own.reasoning_off,
            fast: own.fast,
            max_output_tokens: own.max_output_tokens,
            stop: own.stop.clone(),
            ..choices
        });
        Setup {
            choices: fixed.filter(|fixed| fixed != own),
            changeable,
            ..self
        }
    }

    /// The choices of the call that a process takes on while it runs.
    pub fn changeable(&self) -> &Changeable {
        &self.changeable
    }

    /// The choices that the process is started with; `None` for the provider's own.
    pub fn choices(&self) -> Option<&Choices> {
        self.choices.as_ref()
    }

    /// The schema of its answers.
    pub fn output(&self) -> Option<&str> {
        self.output.as_deref()
    }

    /// This setup with other tools.
    pub fn with_tools(&self, tools: &[ToolSpec]) -> Setup {
        Setup {
            declarations: Declarations::new(tools),
            ..self.clone()
        }
    }

    /// The tools and choices of this setup with the system prompts of `other`.
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

    /// The text that replaces the CLI's own system prompt.
    pub fn system_prompt(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Returns whether the model searches for the tools, of which it is told the names alone.
    pub fn searches_tools(&self) -> bool {
        self.searches_tools && !self.tools().is_empty()
    }

    /// The text that is added to the CLI's own system prompt.
    pub fn append_system_prompt(&self) -> Option<&str> {
        self.append.as_deref()
    }

    /// The caller's name of the tool that a CLI calls `name`; `None` for a tool that is not one of the caller's.
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
