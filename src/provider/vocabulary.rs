//! The types of a provider's data, which describe a CLI, and the texts that several CLIs share.
//!
//! In: nothing. Out: [`Provider`] and its parts; flags are in [`super::flags`], the checks of an installed CLI in
//! [`super::installed`], failures in [`super::errors`]. If a CLI needs something that these types can't express, it is added here, as
//! a field or a variant.

use std::borrow::Cow;

use super::capability::{ByEngine, Capabilities};
use super::custom::CustomCli;
use super::declare::mcp::{self, McpClient};
use super::errors::Errors;
use super::flags::{Flag, When};
use super::installed::Place;
use super::installed::{Checks, EngineCheck};
use super::models::Models;
use super::options::{self, EngineKind, OptionSpec, Options, OutputFormat, PromptStyle};
use dfp_model::event::EngineUsed;
use dfp_model::message::content::Accepts;
use dfp_text::decode::Wire;
use dfp_text::prompt::Placed;
use dfp_text::schema::{Schema, enforced};

/// The description of one CLI.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The CLI's name in options, events and errors.
    pub id: Cow<'static, str>,
    /// The program that is looked up on PATH, unless `cliPath` names another.
    pub command: Cow<'static, str>,
    /// The places where its installers put it, searched if the PATH does not have it.
    pub places: &'static [&'static [Place]],
    /// The facts that a person should know; docs/reference/providers.md is made of them.
    pub about: About,
    /// The defaults of its options.
    pub defaults: Defaults,
    /// The command line, flag by flag, in order.
    pub flags: &'static [Flag],
    /// The variables of a run; the user's `env` wins over them.
    pub env: &'static [Var],
    /// The variables that no run inherits, beside `command::COMMON_DROP_ENV`: they would change what the CLI does.
    pub drop_env: &'static [&'static str],
    /// The further variables that are removed with `auth: "subscription"`: keys that silently beat the login and bill real money.
    pub key_env: &'static [&'static str],
    /// The private files of a run, which a flag or a variable names.
    pub files: &'static [FileSpec],
    /// The user's settings that it reads, and the file with which ours win over them.
    pub user_settings: Option<UserSettings>,
    /// A private home of a run, if the user's would affect it.
    pub home: Option<PrivateHome>,
    /// The CLI's own session that carries a thread, if it gets one this way (`promptStyle` [`PromptStyle::Session`]).
    pub session: Option<SessionSpec>,
    /// The wire format that it prints for each `outputFormat`.
    pub wires: &'static [(OutputFormat, Wire)],
    /// The options it takes beside [`options::COMMON`], and those of them that it takes with other limits.
    pub own_options: &'static [OptionSpec],
    /// The system prompt, unless `systemPrompt` replaces it.
    pub system_prompt: &'static str,
    /// The protection of a prompt whose first character the CLI would take for a command of its own.
    pub guard: Option<Guard>,
    /// True if the CLI itself reads an `@name` anywhere in a prompt, for example as a file of the folder it runs in. Then no prompt
    /// contains an `@`: XML and JSON write it by its number.
    pub reads_references: bool,
    /// The form in which one process serves a conversation, if the CLI has one.
    pub live: Option<LiveForm>,
    /// The form in which one process serves calls without memory, one after the other or at once, if the CLI has one.
    pub warm: Option<WarmForm>,
    /// The content beside text that it takes, and how it gets it.
    pub media: MediaSupport,
    /// The models behind it.
    pub models: Models,
    /// The way in which it gets the schema that an answer has to fit.
    pub schema: SchemaForm,
    /// The peculiarities of its MCP client.
    pub mcp: McpClient,
    /// Its capabilities by engine.
    pub capabilities: ByEngine,
    /// The name of the CLI's own tool for searching the web, in events ([`crate::capability::Feature::WebSearch`]).
    pub web_search: Option<&'static str>,
    /// The name of the CLI's own tool for finding tools of the caller's, in events ([`crate::capability::Feature::ToolSearch`]).
    pub tool_search: Option<&'static str>,
    /// The allowed words of `reasoning.effort`; an empty list allows any word and leaves the decision to the model.
    pub efforts: &'static [&'static str],
    /// True if the CLI silently leaves out a choice that its model does not have: an effort, no reasoning, a fast mode.
    pub drops_choices: bool,
    /// The effort that stands for no reasoning (`reasoning: "off"`), if there is one.
    pub off_effort: Option<&'static str>,
    /// The longest prompt it takes; it would cut a longer one, or refuse it late.
    pub prompt_limit: Option<PromptLimit>,
    /// The kinds of failure after which the CLI would go on for ever, or call its API again: its process is killed there.
    pub stop_on: &'static [&'static str],
    /// Texts on standard error with which a run has failed, whatever its exit code and its output are.
    pub fatal_stderr: &'static [&'static str],
    /// Texts that are all of standard output in text form when a run has failed, whatever its exit code is. An answer of just these
    /// words can't be distinguished from a failure.
    pub fatal_stdout: &'static [&'static str],
    /// The beginning of a message of the model that is in truth the reason of a failed run.
    pub error_message: Option<&'static str>,
    /// The data of its failures: how they look, and what helps.
    pub errors: Errors,
    /// The commands and signs that its health check uses.
    pub checks: Checks,
    /// The way to give it another login than the default one; `None` if no variable is known for that.
    pub login_dir: Option<LoginDir>,
    /// The further data of a CLI of the user's own.
    pub custom: Option<Box<CustomCli>>,
}

impl Provider {
    /// The base value of every provider's data: the standard system prompt over standard input, and nothing of its own. A provider
    /// names only what it has, and ends with `..Provider::BASE`, so a new field is a change here and in the providers that have it.
    pub const BASE: Provider = Provider {
        id: Cow::Borrowed(""),
        command: Cow::Borrowed(""),
        places: &[],
        about: About {
            name: "",
            versions: &[],
            sent: "",
            not_isolated: "",
            limits: "",
        },
        defaults: Defaults::STANDARD,
        flags: &[],
        env: &[],
        drop_env: &[],
        key_env: &[],
        files: &[],
        user_settings: None,
        home: None,
        session: None,
        wires: &[],
        own_options: &[],
        system_prompt: STANDARD_SYSTEM_PROMPT,
        guard: None,
        reads_references: false,
        live: None,
        warm: None,
        media: MediaSupport::NONE,
        models: Models::ANY,
        schema: SchemaForm::Asked,
        mcp: McpClient::PLAIN,
        capabilities: ByEngine::print_only(Capabilities::LEAST),
        web_search: None,
        tool_search: None,
        efforts: &[],
        drops_choices: false,
        off_effort: None,
        prompt_limit: None,
        stop_on: &[],
        fatal_stderr: &[],
        fatal_stdout: &[],
        error_message: None,
        errors: Errors::NONE,
        checks: Checks::VERSION_ONLY,
        login_dir: None,
        custom: None,
    };

    /// The options it takes: those of every CLI, with its own limits, then its own.
    pub fn options(&self) -> Vec<OptionSpec> {
        let is_common = |own: &&OptionSpec| options::COMMON.iter().any(|common| common.name == own.name);
        let common = options::COMMON.iter().filter_map(|common| self.option(common.name));
        let own = self.own_options.iter().filter(|own| !is_common(own)).copied();
        common.chain(own).collect()
    }

    /// The option called `name`, if the CLI takes it.
    pub fn option(&self, name: &str) -> Option<OptionSpec> {
        let mut all = self.own_options.iter().chain(options::COMMON);
        let spec = all.find(|spec| spec.name == name).copied();
        spec.map(|spec| match spec == options::ENGINE {
            true => OptionSpec {
                kind: options::Kind::OneOf(self.engines()),
                ..spec
            },
            false => spec,
        })
    }

    /// The values of the option `engine`: the engines it has, and `"auto"` if there is a choice.
    pub fn engines(&self) -> &'static [&'static str] {
        if !self.has_print() {
            return &["live", "warm", "auto"];
        }
        match (self.live.is_some(), self.warm.is_some()) {
            (false, false) => &["print"],
            (true, false) => &["print", "live", "auto"],
            (false, true) => &["print", "warm", "auto"],
            (true, true) => &["print", "live", "warm", "auto"],
        }
    }

    /// Returns whether it is an agent of the user's own, whose instructions and tools stay its own.
    pub fn is_agent(&self) -> bool {
        self.custom.as_ref().is_some_and(|own| own.is_agent)
    }

    /// Returns whether a call can have a process of its own.
    pub fn has_print(&self) -> bool {
        !self.is_agent()
    }

    /// The check whether an installed copy serves `engine`.
    pub fn check_of(&self, engine: EngineUsed) -> Option<EngineCheck> {
        match engine {
            EngineUsed::Print => None,
            EngineUsed::Live => self.checks.live.filter(|_| self.live.is_some()),
            EngineUsed::Warm => self.checks.warm.filter(|_| self.warm.is_some()),
        }
    }

    /// Returns whether it has another engine than print.
    pub fn has_engines(&self) -> bool {
        self.live.is_some() || self.warm.is_some()
    }

    /// The arguments with which the CLI prints its version; empty if it can't be asked.
    pub fn version_args(&self) -> Vec<&str> {
        match &self.custom {
            Some(own) => own.version_args.iter().map(String::as_str).collect(),
            None => self.checks.version.to_vec(),
        }
    }
}

/// The form in which a CLI serves conversations, and the abilities of its kept processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveForm {
    /// The form's folder in `exchange/`, with which `run::session::kept` finds it.
    pub folder: &'static str,
    /// True if a session can be told the schema of its answers.
    pub takes_schema: bool,
    /// True if the CLI's own tools may be on.
    pub may_have_tools: bool,
    /// True if an agent takes turns of it in print form as well, rather than one run that calls back.
    pub has_turns_in_print: bool,
    /// A file of this package that every process gets beside those of its command line, in words.
    pub always_gets: Option<&'static str>,
}

/// The form in which one process of a CLI serves calls without memory: over the Agent Client Protocol, JSON-RPC on standard input
/// and output, with a session for each call (`exchange::acp`). It is asked the prompt of the print form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmForm {
    /// The place of an answer's usage.
    pub usage: AcpUsage,
    /// The meaning of an error's code.
    pub errors: AcpErrors,
    /// The number of unclosed sessions that a process holds before another takes its place: its memory grows with each.
    pub max_sessions: u32,
    /// The way in which a session gets the thread of its call.
    pub thread: WarmThread,
    /// True if its sessions are told the choices; with other CLIs, the command line or the session's file has them.
    pub is_told_choices: bool,
    /// True if it has tools of its own that it runs by itself: a call that may have run one is not repeated.
    pub has_own_tools: bool,
    /// True if a prompt can be told the schema of its answer: grok takes one in `_meta.outputSchema` (1.0.41).
    pub takes_schema: bool,
}

/// The field of an agent of the Agent Client Protocol by which the tool of a call is known, if the agent does not name it
/// (`ToolCall.name`, `_meta`). The other fields don't serve: the id of a call is the API's as a rule, and its title the model's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolNaming {
    /// No other field: only the agent's own name for the tool counts.
    #[default]
    Name,
    /// The agent itself makes the id, of the tool's name and the API's id (`mcp_df_add__c1`, gemini 0.61.0).
    Id,
    /// The title that the call has first is the tool's name (opencode 1.18.34, kimi 2.1.0).
    FirstTitle,
}

/// The way in which a session of a warm process gets the thread of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmThread {
    /// The thread is the one prompt of a new session.
    Prompt,
    /// The thread is the history of a session that is written into the process's home ([`Provider::session`]), loaded, prompted
    /// with this, and closed: for a CLI that reads more into a prompt than there is in it.
    History {
        /// The prompt, a sentence of ours.
        prompt: &'static str,
    },
}

impl WarmForm {
    /// The form of an agent of which nothing is known.
    pub const ANY: WarmForm = WarmForm {
        usage: AcpUsage::Any,
        errors: AcpErrors::HttpStatus,
        max_sessions: 100,
        thread: WarmThread::Prompt,
        is_told_choices: true,
        has_own_tools: true,
        takes_schema: false,
    };
}

/// The place where an agent of the Agent Client Protocol reports the usage of a prompt; the protocol itself has no place for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcpUsage {
    /// `_meta.quota` of the answer to the prompt (gemini 0.61.0).
    Quota,
    /// `_meta.usage` of an update (qwen 0.24.4).
    Update,
    /// `_meta.usage` of the answer to the prompt. Every complete answer has it: one without has broken off (grok 1.0.41).
    Meta,
    /// Any of these, or `usage` of the answer (opencode 1.18.34; a draft of the protocol).
    Any,
}

/// The meaning of the code of a JSON-RPC error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcpErrors {
    /// The code is the API's HTTP status, if it is one (gemini 0.61.0).
    HttpStatus,
    /// The code means nothing; the reason is `data.details` (qwen 0.24.4).
    Details,
    /// The code means nothing; `data` is the reason as a text, or holds it with the status and the kind of the failure (grok
    /// 1.0.41).
    Data,
}

/// The way in which a CLI is told the schema of an answer: in print form by the flags of [`When::OutputSchema`], and in its live
/// form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaForm {
    /// The CLI has no way: the prompt asks for the schema.
    Asked,
    /// The model answers with a tool of the CLI's own, whose arguments are the answer. Only the schema of one object can be used
    /// so.
    Tool {
        name: &'static str,
        /// True if the CLI lets its model try once more, with the reasons, before it fails.
        asks_again: bool,
    },
    /// The CLI has its API's strict mode: every field required, every object closed.
    Strict,
}

impl SchemaForm {
    /// Returns whether the CLI can be told `schema`.
    pub fn takes(self, schema: &Schema) -> bool {
        match self {
            SchemaForm::Asked => false,
            SchemaForm::Tool { .. } => enforced::is_one_object(schema.value()),
            SchemaForm::Strict => enforced::is_strict(schema.value()),
        }
    }

    /// The tool that carries answers.
    pub fn tool(self) -> Option<&'static str> {
        match self {
            SchemaForm::Tool { name, .. } => Some(name),
            SchemaForm::Asked | SchemaForm::Strict => None,
        }
    }

    /// Returns whether the CLI itself asks once more for an answer that does not fit.
    pub fn asks_again(self) -> bool {
        matches!(self, SchemaForm::Tool { asks_again: true, .. })
    }
}

/// The name of the private file that holds the schema of an answer.
pub const OUTPUT_SCHEMA_FILE: &str = "output-schema.json";

/// The schema of an answer.
pub fn output_schema(_: &Provider, options: &Options) -> String {
    options.output_schema.clone().unwrap_or_default()
}

/// The way to give a CLI a login of its own: the folder that holds the login's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginDir {
    /// The variable that names the folder.
    pub variable: &'static str,
    /// The content of the folder; docs/reference/providers.md is made of this.
    pub holds: &'static str,
}

/// The facts that a person should know of a provider before using it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The CLI's name in JavaScript's names: `OpenCode` of `createOpenCodeCliProvider` and `OpenCodeCliProviderOptions`.
    pub name: &'static str,
    /// The versions of the CLI that everything here was measured with; none if only a document was at hand.
    pub versions: &'static [&'static str],
    /// The texts that go to the model beside the thread and our system prompt.
    pub sent: &'static str,
    /// The parts of the user's surroundings that still affect a run, or are written by it.
    pub not_isolated: &'static str,
    /// The things that it can't do, or does differently.
    pub limits: &'static str,
}

/// Defaults that differ between CLIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// `promptStyle`.
    pub prompt_style: PromptStyle,
    /// `outputFormat`.
    pub output_format: OutputFormat,
    /// `timeout`, ms; 0 for none.
    pub timeout_ms: u64,
    /// `ignoreUserConfig`.
    pub ignore_user_config: bool,
    /// `engine`, if the option exists.
    pub engine: EngineKind,
}

impl Defaults {
    /// The defaults of most CLIs.
    pub const STANDARD: Defaults = Defaults {
        prompt_style: PromptStyle::Stdin,
        output_format: OutputFormat::StreamJson,
        timeout_ms: 120_000,
        ignore_user_config: false,
        engine: EngineKind::Print,
    };
}

/// A limit on the prompt's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptLimit {
    /// UTF-8 bytes.
    Bytes(usize),
    /// Unicode characters.
    Chars(usize),
}

/// A variable a run gets.
#[derive(Debug, Clone, Copy)]
pub struct Var {
    /// The conditions, all of which must hold; an empty list means always.
    pub when: &'static [When],
    pub name: &'static str,
    pub value: EnvValue,
    /// True if this is a choice of the call's, which wins over the user's `env`.
    pub is_choice: bool,
}

/// A private file a run gets, of mode 0600 and gone afterwards.
#[derive(Debug, Clone, Copy)]
pub struct FileSpec {
    /// The conditions, all of which must hold; an empty list means always.
    pub when: &'static [When],
    /// The file's name, by which flags and variables refer to it.
    pub name: &'static str,
    pub content: Compose,
}

/// The settings that a CLI reads from files which are not ours, as far as they affect calls.
#[derive(Debug, Clone, Copy)]
pub struct UserSettings {
    /// Our private file of the same form as the first, which wins over the user's.
    pub ours: Option<OwnSettings>,
    /// The files, the user's own settings first.
    pub files: &'static [SettingsFile],
}

/// Our settings, in a private file.
#[derive(Debug, Clone, Copy)]
pub struct OwnSettings {
    /// The name of our file; a flag names it ([`When::Settings`]).
    pub file: &'static str,
    /// The flag for our file. JSON that the user adds behind it is merged into our file.
    pub flag: &'static str,
    /// The content of our file beside the variables that the provider sets or takes away (its member `env`).
    pub content: fn(&Provider, &Options) -> serde_json::Map<String, serde_json::Value>,
}

/// A file of settings that is not ours.
#[derive(Debug, Clone, Copy)]
pub struct SettingsFile {
    pub place: SettingsPlace,
    pub form: SettingsForm,
    /// The members of the file that count whatever ours say.
    pub unbeaten: &'static [Unbeaten],
    /// The members with which calls log in, beside the variables.
    pub logins: &'static [&'static str],
}

/// The place of a file of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsPlace {
    /// The user's file: the folder below the user's own, which the variable of [`Provider::login_dir`] may replace, and the file in
    /// it.
    User(&'static str, &'static str),
    /// The file belongs to the machine's owner and holds for all its users: it wins over ours.
    Machine {
        /// The folder on Linux, on macOS and on Windows.
        folders: [&'static str; 3],
        file: &'static str,
        /// A folder beside the file whose `*.json` are read as well.
        more: Option<&'static str>,
    },
}

/// The format of a file of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsForm {
    Json,
    /// JSON in which comments and commas at an end may stand.
    Jsonc,
    Toml,
    /// Lines `NAME=value`, with variables that the process does not have.
    Variables,
    /// Text for the model, of which only the existence matters.
    Text,
}

/// A member of such settings that changes calls whatever ours say.
#[derive(Debug, Clone, Copy)]
pub struct Unbeaten {
    /// The names that lead to it; an empty path means the file as a whole.
    pub path: &'static [&'static str],
    /// The effect on a call, worded to stand behind the member's name.
    pub effect: &'static str,
    /// The beginnings of those texts in a list that matter; an empty list means that all matter.
    pub begins: &'static [&'static str],
    /// Returns whether calls with these options and this engine are warned of it. A call that fails because of it says so itself.
    pub concerns: fn(&Options, EngineUsed) -> bool,
}

/// Makes such a member, whatever its value is.
pub(crate) const fn unbeaten(
    path: &'static [&'static str],
    effect: &'static str,
    concerns: fn(&Options, EngineUsed) -> bool,
) -> Unbeaten {
    Unbeaten {
        path,
        effect,
        begins: &[],
        concerns,
    }
}

/// Returns whether a call is of a model alone.
pub(crate) fn pure(options: &Options, _: EngineUsed) -> bool {
    !options.built_in_tools
}

/// Warns no call: those concerned learn of it otherwise.
pub(crate) fn nobody(_: &Options, _: EngineUsed) -> bool {
    false
}

impl Unbeaten {
    /// The member's name with dots, for example `permissions.deny`.
    pub fn name(&self) -> String {
        self.path.join(".")
    }
}

/// A private folder as a CLI's home, with links to the user's login and nothing else of theirs. All that the CLI writes there is
/// gone after the run, but for a renewed login, which it writes through the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateHome {
    /// The conditions: all of at least one of these lists must hold.
    pub when: &'static [&'static [When]],
    /// The variable that names the home.
    pub variable: &'static str,
    /// The folder's name in the private one.
    pub folder: &'static str,
    /// The home without that variable, in the user's folder.
    pub users: &'static str,
    /// True if the CLI asks Windows for the user's folder, whatever `USERPROFILE` says.
    pub by_system: bool,
    /// The files that hold a login; they may appear later.
    pub login: &'static [&'static str],
    /// Other files of the user's that are linked if they exist.
    pub rest: &'static [&'static str],
    /// A file with the login that is named by a variable instead of linked, and that variable. A CLI that renews a login by
    /// replacing the file would replace the link.
    pub named: Option<(&'static str, &'static str)>,
    /// True if the CLI runs in a private folder in print form with its own tools off, even if `cwd` names another: in a folder that
    /// the login's file calls trusted, it would run hooks and servers.
    pub hides_folder: bool,
}

/// A session of the CLI's own, written before it is needed: `<folder>/<the folder it runs in, percent-encoded>/<id>/<file>`.
#[derive(Debug, Clone, Copy)]
pub struct SessionSpec {
    /// The folder of its sessions, in the private folder.
    pub folder: &'static str,
    /// The id of the one session of a process for one call, which the command line names.
    pub id: &'static str,
    /// The session's files, made of the prompt.
    pub files: &'static [(&'static str, ComposeSession)],
}

/// The parts of a session beside the options.
#[derive(Debug, Clone, Copy)]
pub struct SessionParts<'a> {
    /// The session's id.
    pub id: &'a str,
    pub prompt: &'a str,
    /// The blocks of the prompt that are not text, at their positions in it ([`MediaForm::Session`]).
    pub media: &'a [Placed],
}

/// A text that is made of the options and the prompt.
pub type ComposeSession = fn(&Provider, &Options, SessionParts<'_>) -> String;

/// A text that is made of the options: JSON of a configuration, a system prompt.
pub type Compose = fn(&Provider, &Options) -> String;

/// The protection against a prompt whose first character would be read as a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    pub first: char,
    /// The text that is put before it.
    pub prefix: &'static str,
}

/// The value of a variable.
#[derive(Debug, Clone, Copy)]
pub enum EnvValue {
    Fixed(&'static str),
    /// No value: an inherited variable is taken away.
    Unset,
    /// The option `maxRetries`.
    MaxRetries,
    /// The option `maxOutputTokens`.
    MaxOutputTokens,
    /// The folder the CLI runs in.
    Cwd,
    /// The path of an empty private folder of this name.
    Folder(&'static str),
    /// The path of the private file of this name.
    File(&'static str),
    /// A text that is made of the options.
    Composed(Compose),
    /// The bearer token of the run's bridge.
    BridgeToken,
}

pub(super) const fn var(name: &'static str, value: EnvValue) -> Var {
    var_when(&[], name, value)
}

pub(super) const fn var_when(when: &'static [When], name: &'static str, value: EnvValue) -> Var {
    Var {
        when,
        name,
        value,
        is_choice: false,
    }
}

pub(super) const fn choice_var(when: &'static [When], name: &'static str, value: EnvValue) -> Var {
    Var {
        is_choice: true,
        ..var_when(when, name, value)
    }
}

/// The name of the private file that holds the system prompt.
pub const SYSTEM_PROMPT_FILE: &str = "system-prompt.txt";

/// The name of the private file with the text that is added to the CLI's own system prompt.
pub const APPENDED_PROMPT_FILE: &str = "appended-prompt.txt";

/// The system prompt of a run, for CLIs that take it from a file or a configuration.
pub fn system_prompt(provider: &Provider, options: &Options) -> String {
    match &options.system_prompt {
        options::SystemPrompt::Custom(text) => text.clone(),
        _ if options.callbacks.is_some() => mcp::SYSTEM_PROMPT.to_owned(),
        _ => provider.system_prompt.to_owned(),
    }
}

/// The text that is added to the CLI's own system prompt.
pub fn appended_prompt(_: &Provider, options: &Options) -> String {
    let workspace = options.workspace.as_ref();
    workspace
        .and_then(|workspace| workspace.append_system_prompt.clone())
        .unwrap_or_default()
}

/// The system prompt of providers that have no better one. It says what a thread is, and how to answer it.
pub const STANDARD_SYSTEM_PROMPT: &str = "You are the model behind an agent. Each request is a conversation: as <thread> \
XML with one <event> per message, tool call and tool result in order, or as labelled text. Reply with the assistant's next \
message only: plain text, not XML and no label. If the request lists available tools, follow its instructions to call them; \
you have no other tools.";

/// The content beside text that a CLI takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaSupport {
    /// The content that one process per call takes.
    pub print: Accepts,
    /// The way in which such a process gets it; `None` if it takes none.
    pub form: Option<MediaForm>,
    pub live: Accepts,
}

impl MediaSupport {
    /// The support of text alone.
    pub const NONE: MediaSupport = MediaSupport {
        print: Accepts::TEXT,
        form: None,
        live: Accepts::TEXT,
    };
}

/// The way in which one process per call gets a prompt with content beside text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaForm {
    /// The prompt is claude's user line on standard input: the text and the blocks in one message, each block at its place.
    UserLine,
    /// The blocks are private files that arguments name ([`super::Word::MediaFiles`]), in their order; the prompt is text.
    Files,
    /// The blocks stand at their places in the message of the session that holds the thread ([`SessionParts`]). The CLI puts
    /// words in the place of an image with fewer pixels.
    Session {
        /// The least number of pixels of each side.
        side: usize,
        /// The least number of pixels in all.
        pixels: usize,
    },
    /// The blocks are private files in the folder that the CLI runs in, which is private as well; the prompt begins with `@` and
    /// the name of each. The CLI sends them in the order of their names.
    NamedFiles,
}
