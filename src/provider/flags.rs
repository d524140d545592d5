//! The types that declare a command line: its flags, their words, and the conditions under which they are there.
//!
//! In: nothing. Out: the types of a provider's `flags`, which `command` interprets.

use super::options::{CacheTtl, OutputFormat};

/// Arguments that belong together: present or absent as one.
#[derive(Debug)]
pub struct Flag {
    /// The conditions, all of which must hold; an empty list means always.
    pub when: &'static [When],
    pub args: &'static [Word],
    /// True if the run means the same without it: a CLI that refuses it is called again without.
    pub optional: bool,
}

/// Makes a flag that the run needs.
pub(super) const fn flag(when: &'static [When], args: &'static [Word]) -> Flag {
    Flag {
        when,
        args,
        optional: false,
    }
}

/// Makes a flag that the run can do without.
pub(super) const fn optional(when: &'static [When], args: &'static [Word]) -> Flag {
    Flag {
        when,
        args,
        optional: true,
    }
}

impl Flag {
    /// The flag's literal arguments, for example `--disable goals`: an optional flag is recognised by them.
    pub fn name(&self) -> String {
        let literals = self.args.iter().map_while(|word| match word {
            Word::Lit(literal) => Some(*literal),
            _ => None,
        });
        literals.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }
}

/// Returns whether the optional flag `name` is the one that a CLI refuses as `refused`: by its own name, its first word, or the
/// form in which yargs names a leading `no-` (`--no-input` is refused as `--input`, recording gemini/bad-flag).
pub fn same_flag(name: &str, refused: &str) -> bool {
    let first = name.split(' ').next().unwrap_or_default();
    let plain = refused.trim_start_matches('-');
    name == refused || first == refused || first.strip_prefix("--no-") == Some(plain)
}

/// The condition under which a [`Flag`] is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The options are not SPEC-01's own form (`promptStyle: "arg"`, `outputFormat: "text"`, `noInput: true`), which has no other
    /// flags.
    Isolated,
    /// The engine has one process per call (`exchange::print`).
    Print,
    /// The engine has one process per conversation (`exchange::claude_live`).
    Live,
    /// The engine has one process for many calls, which remembers none of them (`exchange::acp`).
    Warm,
    /// The prompt of a print run has content beside text.
    Media,
    /// The prompt goes to argv.
    PromptArg,
    /// The prompt goes to argv behind a flag.
    PromptFlag,
    /// The user's configuration of the CLI is to be left out.
    IgnoreUserConfig,
    /// An `authType` is chosen.
    AuthType,
    /// A model API of the user's own is named (`provider`).
    OwnApi,
    Format(OutputFormat),
    /// Text is wanted piece by piece, or `includePartialMessages` says so.
    Partial,
    /// Text is wanted piece by piece, or has to come so that the end of an answer is seen at once: the CLI's own tools are off.
    Pieces,
    /// `verbose`, set or by default, where the format does not need it anyway.
    Verbose,
    /// A model is chosen.
    Model,
    /// The CLI's own tools are off.
    ToolsOff,
    /// The CLI's own tools are off, and it runs in a folder of its own: no `cwd` is set.
    PrivateCwd,
    /// The provider's constant system prompt is used.
    DefaultSystemPrompt,
    /// The user gave a system prompt: it never goes through argv.
    CustomSystemPrompt,
    /// Either of the two system prompts is used.
    SystemPrompt,
    /// A permission mode is to be passed on.
    PermissionMode,
    /// `noInput` is asked for.
    NoInput,
    /// The CLI calls the caller's tools over a bridge.
    Callbacks,
    NoCallbacks,
    /// The CLI is a model behind an agent; in a workspace it does the work itself ([`super::options::Workspace`]).
    NoWorkspace,
    /// One of the CLI's agents is chosen.
    Agent,
    /// Something is added to its system prompt.
    AppendedSystemPrompt,
    /// Some tools need no permission.
    AllowedTools,
    /// The length of answers is limited.
    MaxOutputTokens,
    /// The reasoning effort is chosen.
    Effort,
    /// The model is not to reason.
    ReasoningOff,
    /// A service tier is chosen.
    ServiceTier,
    /// The model is to answer in its fast mode.
    Fast,
    /// Settings of ours are to win over the user's: always but in SPEC-01's own form, where only a choice of the caller's needs them.
    Settings,
    /// Texts end the answer.
    Stop,
    /// The model may search the web with the CLI's own tool.
    WebSearch,
    NoWebSearch,
    /// The model of a live session is told the names of the caller's tools alone, and searches for the rest.
    ToolSearch,
    NoToolSearch,
    /// The API is to keep the beginning of a thread for this long.
    CacheTtl(CacheTtl),
    /// The answer has to fit a schema that the CLI can be told ([`super::SchemaForm`]).
    OutputSchema,
    /// The CLI is told no schema.
    NoOutputSchema,
    /// The installed CLI is known to be of this version or a later one, by its npm package.
    Since([u64; 3]),
    /// The installed version is older than this one, or unknown.
    Before([u64; 3]),
}

/// A word of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Lit(&'static str),
    Prompt,
    Model,
    /// The reasoning effort.
    Effort,
    /// `key="effort"`: a setting in TOML whose value is the reasoning effort.
    EffortSetting(&'static str),
    /// `key="tier"`: a setting in TOML whose value is the service tier.
    ServiceTierSetting(&'static str),
    /// The provider's constant system prompt, or that of runs with callbacks.
    SystemPrompt,
    /// `key="url"`: a setting in TOML whose value is the address of the run's bridge.
    BridgeUrlSetting(&'static str),
    /// The path of the private file of this name.
    File(&'static str),
    /// `key="path"`: a setting in TOML whose value is the path of a private file.
    FileSetting(&'static str, &'static str),
    /// This text and the path of a private file, as one argument for each of the prompt's blocks
    /// ([`super::MediaForm::Files`]).
    MediaFiles(&'static str),
    PermissionMode,
    /// The sandbox, read-only unless the built-in tools are on and the user wants another.
    Sandbox,
    /// `authType`.
    AuthType,
    Agent,
    /// The schema of the answer, JSON.
    OutputSchema,
    /// The tools that need no permission, a word each.
    AllowedTools,
    /// The arguments a CLI of the user's own always gets.
    DefaultArgs,
    /// The arguments with which a CLI of the user's own gets the model.
    ModelArgs,
}
