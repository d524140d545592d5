//! The options that a user gives a provider: a table of names, types and limits, and their values.
//!
//! In: the JSON text of the options object. Out: [`Options`], or one error that names the option, its value and the allowed ones.
//! No process starts before the options are checked.

mod check;
mod launch;
mod read;
mod spec;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

pub(crate) use check::{allowed, check_fields};
pub use check::{check, checked, checked_within, describe, environment, exit_code_of, nearest, number, texts, wrong};
pub use launch::{
    ENV_PLACE, Launch, LaunchEnv, NAME as LAUNCH_NAME, VALUE as LAUNCH_VALUE, on_command_line, within_reach,
};
pub use read::{breaker_settings, budget, check_timeout, quota, retry};
pub use spec::*;

use super::choices::{Choices, OnUnsupported};
use super::declare::mcp::Callbacks;
use dfp_model::budget::Budget;
use dfp_model::retry::{Policy, QuotaWait};
use dfp_text::redact::Secret;

/// The way in which messages become a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEncoding {
    /// `<thread>` XML.
    Xml,
    Text,
}

/// The rule for which text of an answer is a tool call, for calls that are written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextToolCalls {
    /// A block at the end of the answer that does not quote anything in the thread.
    Unquoted,
    /// A block at the end of the answer, in the form the prompt asked for and with its mark.
    Marked,
    /// All that SPEC-01's `parseToolCalls` finds.
    Lenient,
    Off,
}

/// The way in which the prompt reaches the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptStyle {
    /// The prompt goes over standard input: of any length, and invisible in `ps`.
    Stdin,
    /// The prompt is an argument.
    Arg,
    /// The prompt is the value of a flag.
    Flag,
    /// The prompt is a session of the CLI's own, which it resumes ([`crate::SessionSpec`]): of any length, and invisible
    /// in `ps`.
    Session,
}

/// The output that the CLI is asked to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    Text,
    /// One JSON value at the end.
    Json,
    /// A JSON line per event.
    StreamJson,
}

/// The login that pays for the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// The login of the user's terminal.
    Inherit,
    /// API keys of the environment are removed, so that the subscription's login is used.
    Subscription,
}

/// The way in which a CLI is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// One process per call.
    Print,
    /// Conversations that a process knows; an error if the CLI has no such form.
    Live,
    /// One process for many calls, which remembers none of them; an error if the CLI has no such form.
    Warm,
    /// The best engine that the installed CLI is known to serve: live, warm, print.
    Auto,
}

impl EngineKind {
    /// Returns whether a call may use the live engine of a provider that has one.
    pub fn may_be_live(self) -> bool {
        matches!(self, EngineKind::Live | EngineKind::Auto)
    }

    /// Returns whether a call may use the warm engine of a provider that has one.
    pub fn may_be_warm(self) -> bool {
        matches!(self, EngineKind::Warm | EngineKind::Auto)
    }

    /// Returns whether a call may use print.
    pub fn may_be_print(self) -> bool {
        matches!(self, EngineKind::Print | EngineKind::Auto)
    }
}

/// The options of one provider object, defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `model`, `reasoning`, `maxOutputTokens`, `stop`, `temperature`, for calls that choose nothing else.
    pub choices: Choices,
    /// `onUnsupported`, for calls that don't say.
    pub on_unsupported: Option<OnUnsupported>,
    /// `cliPath`; the provider's command if not set.
    pub cli_path: Option<String>,
    /// `cliSearch`: true if places outside of the PATH are searched as well.
    pub searches_everywhere: bool,
    /// `launch`: the command before the CLI's own.
    pub launch: Option<Launch>,
    /// `timeout`: wall clock of one process. `None` for no limit.
    pub timeout: Option<Duration>,
    /// `idleTimeout`: silence of one process. `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// `idleTimeout` of a call in a live session.
    pub live_idle_timeout: Option<Duration>,
    /// `killGrace`: between TERM and KILL.
    pub kill_grace: Duration,
    /// `maxBuffer`: bytes of standard output of one process.
    pub max_buffer: usize,
    /// `maxConcurrency`: processes of one binary at a time.
    pub max_concurrency: usize,
    /// `maxRetries` of the CLI itself.
    pub max_retries: u64,
    /// `retry`.
    pub retry: Policy,
    /// `quota`: a call whose plan is used up waits for it.
    pub quota: Option<QuotaWait>,
    /// `budget`: how much may be used in a window of time.
    pub budget: Option<Budget>,
    /// `login`: the folder of the login. An engine makes it absolute.
    pub login: Option<String>,
    /// `inputEncoding`.
    pub input_encoding: InputEncoding,
    /// `threadDocuments`: a lone user message that is one whole thread document stays as it is.
    pub thread_documents: bool,
    /// `textToolCalls`.
    pub text_tool_calls: TextToolCalls,
    /// `promptStyle`.
    pub prompt_style: PromptStyle,
    /// `outputFormat`.
    pub output_format: OutputFormat,
    /// `noInput`.
    pub no_input: bool,
    /// `verbose`.
    pub verbose: bool,
    /// `includePartialMessages`; `None` lets the call decide (`stream` wants them).
    pub partial_messages: Option<bool>,
    /// `cwd`.
    pub cwd: Option<String>,
    /// `env`, in the caller's order; `None` removes.
    pub env: Vec<(String, Option<String>)>,
    /// `auth`.
    pub auth: Auth,
    /// `extraArgs`.
    pub extra_args: Vec<String>,
    /// `systemPrompt`: not set, null (the CLI's own), or a text.
    pub system_prompt: SystemPrompt,
    /// `permissionMode`.
    pub permission_mode: Option<String>,
    /// `disableBuiltInTools`.
    pub built_in_tools: bool,
    /// `engine`; print if `"auto"` finds that no other engine serves the options.
    pub engine: EngineKind,
    /// The reason for print although `engine` is `"auto"`.
    pub print_because: Option<String>,
    /// `keepAlive`: how long an unused session is kept.
    pub keep_alive: Duration,
    /// `maxProcesses`: the number of processes for one conversation each that may rest.
    pub max_processes: usize,
    /// `spares`: the number of processes that are started ahead.
    pub spares: usize,
    /// `sessions`: the folder that keeps replies for the next process.
    pub sessions: Option<SessionStore>,
    /// `promptCache`: how long the API keeps the beginning of a thread; `None` for the CLI's own choice.
    pub cache_ttl: Option<CacheTtl>,
    /// `toolForm`: true if tools are offered in one namespace, which codex never hides behind its code mode.
    pub tool_namespace: bool,
    /// `sandbox`.
    pub sandbox: Option<String>,
    /// `ignoreUserConfig`.
    pub ignore_user_config: bool,
    /// `authType`.
    pub auth_type: Option<String>,
    /// `config`.
    pub config: Map<String, Value>,
    /// `provider`.
    pub own_api: Option<OwnApi>,
    /// The bridge that serves the caller's tools. This is no public option: an engine sets it for a run with callbacks.
    pub callbacks: Option<Callbacks>,
    /// The schema that the answer has to fit, as JSON. This is no public option: an engine sets it for a run whose CLI gets it.
    pub output_schema: Option<String>,
    /// The workspace of the Claude Code adapter, which is no public option. `None` for a model behind an agent.
    pub workspace: Option<Workspace>,
}

/// A folder of replies, as the caller names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStore {
    /// `store`.
    pub store: String,
    /// `maxAge`: how long a reply that nobody uses is kept.
    pub max_age: Duration,
}

/// The time for which an API keeps the beginning of a thread, so that the next call is cheaper and faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheTtl {
    FiveMinutes,
    OneHour,
}

impl CacheTtl {
    /// The word for [`CacheTtl::FiveMinutes`].
    pub const FIVE_MINUTES: &str = "5m";
    /// The word for [`CacheTtl::OneHour`].
    pub const ONE_HOUR: &str = "1h";

    /// The time that `word` stands for.
    pub(super) fn read(word: &str) -> Option<CacheTtl> {
        match word {
            CacheTtl::FIVE_MINUTES => Some(CacheTtl::FiveMinutes),
            CacheTtl::ONE_HOUR => Some(CacheTtl::OneHour),
            _ => None,
        }
    }
}

/// A CLI that is to do the work itself, with its own set-up and in the user's folder (`claude_code`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspace {
    /// The agent that it takes the part of, one of those it knows.
    pub agent: Option<String>,
    /// The text that is added to the CLI's own system prompt.
    pub append_system_prompt: Option<String>,
    /// Tools it may use without asking, in its own syntax: `Bash(git *)`.
    pub allowed_tools: Vec<String>,
}

/// A model API of the user's own instead of the CLI's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnApi {
    /// `type`: the protocol of the API, in the CLI's word.
    pub kind: String,
    /// `baseUrl`.
    pub base_url: String,
    /// `apiKey`.
    pub api_key: Option<Secret>,
    /// `wireApi`: the one of OpenAI's protocols that it uses, in the CLI's word.
    pub wire_api: String,
}

/// The system prompt that the model gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemPrompt {
    /// The provider's constant system prompt.
    Default,
    Cli,
    Custom(String),
}

impl Options {
    /// Returns whether the CLI runs behind a launcher, where it can't reach files of this package.
    pub fn is_out_of_reach(&self) -> bool {
        self.launch.as_ref().is_some_and(|launch| !launch.shares_files)
    }

    /// Returns the options of a call that makes these choices.
    #[must_use]
    pub fn with_choices(&self, choices: Choices) -> Options {
        // As with a provider whose model always searches (`read`): what it finds stands in no thread, and may be quoted.
        let text_tool_calls = match self.text_tool_calls {
            TextToolCalls::Unquoted if choices.searches_web() && !self.choices.searches_web() => TextToolCalls::Marked,
            form => form,
        };
        Options {
            choices,
            text_tool_calls,
            ..self.clone()
        }
    }

    /// Returns the options of a call that makes these choices, if it makes any.
    pub fn chosen(&self, choices: Option<&Choices>) -> Cow<'_, Options> {
        match choices {
            Some(choices) => Cow::Owned(self.with_choices(choices.clone())),
            None => Cow::Borrowed(self),
        }
    }

    /// Returns whether these are the options of SPEC-01's own command form, which has only its own flags.
    pub fn spec_form(&self) -> bool {
        self.no_input && self.prompt_style == PromptStyle::Arg && self.output_format == OutputFormat::Text
    }
}
