//! A provider is data: which program, which flags when, which environment, which wire format, which options.
//!
//! In: nothing. Out: `const` tables that `command` turns into a command line and `decode` into events. What a CLI needs
//! that these words can't say is added here as a word, never as `if id == "claude"` elsewhere.

pub mod claude;
pub mod options;

use crate::decode::Wire;
use options::{OptionSpec, OutputFormat};

/// One CLI, described.
#[derive(Debug)]
pub struct Provider {
    /// What it is called in options, events and errors.
    pub id: &'static str,
    /// The program looked up on PATH unless `cliPath` says otherwise.
    pub command: &'static str,
    /// The command line, flag by flag, in order.
    pub flags: &'static [Flag],
    /// Variables every run gets (the user's `env` wins over them).
    pub env: &'static [(&'static str, EnvValue)],
    /// Variables no run inherits: they would change what the CLI does.
    pub drop_env: &'static [&'static str],
    /// Further variables dropped with `auth: "subscription"`: keys that silently beat the login and bill real money.
    pub key_env: &'static [&'static str],
    /// What it prints for each `outputFormat`.
    pub wires: &'static [(OutputFormat, Wire)],
    /// Options it takes.
    pub options: &'static [OptionSpec],
    /// The system prompt unless `systemPrompt` replaces it.
    pub system_prompt: &'static str,
    /// Put before a prompt that begins with this character, which the CLI would take for a command of its own.
    pub guard: Option<Guard>,
}

/// Keeps the first character of a prompt from being read as a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// The character.
    pub first: char,
    /// What is put before it.
    pub prefix: &'static str,
}

/// The value of a variable every run gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvValue {
    /// Always this.
    Fixed(&'static str),
    /// The `maxRetries` option.
    MaxRetries,
    /// Only with the built-in tools off: this.
    ToolsOff(&'static str),
}

/// Words of a command line that belong together: present or absent as one.
#[derive(Debug)]
pub struct Flag {
    /// All must hold; none means always.
    pub when: &'static [When],
    /// The words.
    pub words: &'static [Word],
    /// The run still means the same without it: a CLI that refuses it is asked again without.
    pub optional: bool,
}

/// When a [`Flag`] is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Not in SPEC-01's own form (`promptStyle: "arg"`, `outputFormat: "text"`, `noInput: true`), which has no other flags.
    Isolated,
    /// One process per call (`conversation::print`).
    Print,
    /// One process per conversation (`conversation::live`).
    Live,
    /// The prompt goes to argv.
    PromptArg,
    /// This output format.
    Format(OutputFormat),
    /// Text is wanted piece by piece, or `includePartialMessages` says so.
    Partial,
    /// `verbose` is asked for where the format does not need it anyway.
    Verbose,
    /// A model is chosen.
    Model,
    /// The CLI's own tools are off.
    ToolsOff,
    /// The CLI's own tools are on.
    ToolsOn,
    /// The provider's constant system prompt is used.
    DefaultSystemPrompt,
    /// The user gave a system prompt: it goes through a private file, never argv.
    CustomSystemPrompt,
    /// A permission mode is to be passed on.
    PermissionMode,
    /// `noInput` is asked for.
    NoInput,
}

/// One word of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// As it is.
    Lit(&'static str),
    /// The prompt.
    Prompt,
    /// The model's name.
    Model,
    /// The provider's constant system prompt.
    SystemPrompt,
    /// The path of the private file that holds the user's system prompt.
    SystemPromptFile,
    /// The permission mode.
    PermissionMode,
}

/// Every provider there is.
pub const ALL: &[&Provider] = &[&claude::CLAUDE];

/// The provider called `id`.
pub fn find(id: &str) -> Option<&'static Provider> {
    ALL.iter().find(|provider| provider.id == id).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_is_sound() {
        for provider in ALL {
            assert!(
                !provider.command.is_empty() && !provider.wires.is_empty(),
                "{}",
                provider.id
            );
            assert!(
                std::ptr::eq(find(provider.id).unwrap(), *provider),
                "{} is there once",
                provider.id
            );
            for flag in provider.flags {
                assert!(!flag.words.is_empty(), "{}: an empty flag", provider.id);
                assert!(
                    !flag.optional || matches!(flag.words[0], Word::Lit(name) if name.starts_with("--")),
                    "{}: an optional flag is known by its name: {flag:?}",
                    provider.id
                );
            }
            let mut names: Vec<_> = provider.options.iter().map(|o| o.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), provider.options.len(), "{}: an option twice", provider.id);
        }
    }
}
