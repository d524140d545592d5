//! Builds a command line of a provider's data, the options and a prompt: arguments, environment, standard input, private files and
//! folder.
//!
//! Pure: the folder for private files is chosen when the run starts, so a file's path is a placeholder here.

mod line;

use std::collections::BTreeSet;

use crate::declare::mcp::Callbacks;
use crate::options::{Auth, Kind, Options, OutputFormat, PromptStyle, SystemPrompt, Workspace};
use crate::{
    EnvValue, Flag, OUTPUT_SCHEMA_FILE, PromptLimit, Provider, SessionParts, Var, When, Word, same_flag, system_prompt,
};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::EngineUsed;
use dfp_text::decode::{MAX_OUTPUT_TOKENS, Wire};
use dfp_text::prompt::Placed;

use line::own_args;

pub use line::{Arg, CommandLine, Cwd, EnvText, MediaFile, PrivateFile, PrivateLink, PrivateSession, RUN_FOLDER};

/// The most bytes of one argument. Linux refuses one of 128 KiB with its final NUL (MAX_ARG_STRLEN, CLI-FACTS 1.2).
pub const MAX_ARG_BYTES: usize = 131_071;

/// Variables that every CLI gets, for a run without a terminal (CLI-ADAPTER-PROTOCOL, "Environment Variables").
pub const COMMON_ENV: [(&str, &str); 3] = [("TERM", "dumb"), ("NO_COLOR", "1"), ("CI", "true")];

/// Variables that no CLI inherits. They have Node debug or preload something, and would do so to a CLI in JavaScript.
pub const COMMON_DROP_ENV: [&str; 2] = ["NODE_OPTIONS", "VSCODE_INSPECTOR_OPTIONS"];

/// The variables that name the folder for temporary files.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TEMP", "TMP"];

/// The way in which the process of a command line is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode<'a> {
    /// One process for this prompt.
    Print(&'a str),
    /// One process for this prompt, which has content other than text.
    PrintMedia(&'a MediaPrompt),
    /// One process for a conversation. All messages are sent over standard input later.
    Live,
    /// One process for many calls. All messages are sent over standard input later.
    Warm,
}

/// A prompt with content other than text.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaPrompt {
    /// The part that goes where a prompt of text goes.
    pub text: String,
    /// The files that go beside it.
    pub files: Vec<MediaFile>,
    /// The blocks that the message of a session holds, at their positions in the text.
    pub placed: Vec<Placed>,
}

/// The facts about the installed CLI.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// The flags that it has refused.
    pub refused: BTreeSet<String>,
    /// Its version, as in its npm package.
    pub version: Option<[u64; 3]>,
}

/// Builds the command line of one run. `partial`: the CLI is to print messages piece by piece.
///
/// # Errors
/// `PROMPT_TOO_LONG`: the prompt or the system prompt doesn't fit the way in which it is handed to the CLI.
pub fn build(
    provider: &Provider,
    options: &Options,
    mode: Mode,
    partial: bool,
    installed: &Installed,
) -> Result<CommandLine, Box<ProviderError>> {
    #[cfg(any(test, feature = "test-support"))]
    counted::BUILT.set(counted::BUILT.get() + 1);
    let (prompt, media) = match mode {
        Mode::Print(prompt) => (guarded(provider, prompt), None),
        Mode::PrintMedia(prompt) => (guarded(provider, &prompt.text), Some(prompt)),
        Mode::Live | Mode::Warm => (String::new(), None),
    };
    check_length(provider, options, &prompt)?;
    let context = CommandContext {
        options,
        live: mode == Mode::Live,
        warm: mode == Mode::Warm,
        media: media.is_some(),
        partial,
        version: installed.version,
    };
    let placed: &[Placed] = media.map_or(&[], |prompt| &prompt.placed);
    let media: &[MediaFile] = media.map_or(&[], |prompt| &prompt.files);
    let mut args = Vec::new();
    let mut optional_flags = Vec::new();
    let mut flags = Vec::new();
    let mut has_schema = false;
    for flag in provider.flags.iter().filter(|flag| context.all_hold(flag.when)) {
        if flag.optional {
            let name = flag.name();
            if installed.refused.iter().any(|refused| same_flag(&name, refused)) {
                continue;
            }
            optional_flags.push(name);
        }
        has_schema |= flag
            .args
            .iter()
            .any(|word| matches!(word, Word::OutputSchema | Word::File(OUTPUT_SCHEMA_FILE)));
        flags.extend(flag.args.iter().filter_map(|word| match word {
            Word::Lit(name) if name.starts_with('-') => Some(*name),
            _ => None,
        }));
        args.extend(flag_words(flag, provider, options, &prompt, media));
    }
    args.extend(own_args(provider, options).into_iter().map(Arg::Text));
    let mut line = CommandLine {
        engine: match mode {
            Mode::Print(_) | Mode::PrintMedia(_) => EngineUsed::Print,
            Mode::Live => EngineUsed::Live,
            Mode::Warm => EngineUsed::Warm,
        },
        args,
        session: match mode {
            Mode::Print(_) | Mode::PrintMedia(_) => {
                let id = provider.session.map_or("", |spec| spec.id);
                let parts = SessionParts {
                    id,
                    prompt: &prompt,
                    media: placed,
                };
                session(provider, options, parts)
            }
            Mode::Live | Mode::Warm => None,
        },
        stdin: if options.prompt_style == PromptStyle::Stdin {
            prompt
        } else {
            String::new()
        },
        media: media.to_vec(),
        has_schema,
        optional_flags,
        flags,
        ..without_args(provider, &context)?
    };
    if let Some(own) = provider.user_settings.and_then(|own| own.ours) {
        line.tell_content(own.file);
    }
    Ok(line)
}

/// The session that the CLI resumes or loads, if it gets its prompt in that way.
pub fn session(provider: &Provider, options: &Options, parts: SessionParts<'_>) -> Option<PrivateSession> {
    let spec = provider
        .session
        .filter(|_| options.prompt_style == PromptStyle::Session)?;
    let files = spec.files.iter().map(|(name, compose)| PrivateFile {
        name,
        content: compose(provider, options, parts),
    });
    Some(PrivateSession {
        folder: spec.folder,
        id: parts.id.to_owned(),
        model: options.choices.model.clone(),
        effort: options.choices.effort.clone(),
        schema: None,
        files: files.collect(),
    })
}

/// The command line without any prompt, in the surroundings of a print call. A caller that asks the CLI something else adds the
/// arguments.
///
/// # Errors
/// `PROMPT_TOO_LONG`: the system prompt doesn't fit the way in which it is handed to the CLI.
pub fn bare(provider: &Provider, options: &Options) -> Result<CommandLine, Box<ProviderError>> {
    let context = CommandContext {
        options,
        live: false,
        warm: false,
        media: false,
        partial: false,
        version: None,
    };
    without_args(provider, &context)
}

/// The command line without arguments and input: program, environment, files and folder.
fn without_args(provider: &Provider, context: &CommandContext) -> Result<CommandLine, Box<ProviderError>> {
    let options = context.options;
    let mut wires = provider.wires.iter();
    let wire = wires.find(|(format, _)| *format == options.output_format);
    let files = provider.files.iter().filter(|file| context.all_hold(file.when));
    let files = files.map(|file| PrivateFile {
        name: file.name,
        content: (file.content)(provider, options),
    });
    let set_env = set(provider, context)?;
    let user_env = user_env(provider, context);
    let settings = line::settings_file(provider, context.holds(When::Settings), options, &set_env, &user_env);
    let home = provider
        .home
        .filter(|home| home.when.iter().any(|whens| context.all_hold(whens)));
    let is_hidden = context.all_hold(&[When::Print, When::ToolsOff]) && home.is_some_and(|home| home.hides_folder);
    Ok(CommandLine {
        provider: provider.id.to_string(),
        engine: EngineUsed::Print,
        program: options.cli_path.clone().unwrap_or_else(|| provider.command.to_string()),
        args: Vec::new(),
        drop_env: dropped(provider, context),
        set_env,
        user_env,
        stdin: String::new(),
        session: None,
        files: files.chain(settings).collect(),
        media: Vec::new(),
        links: Vec::new(),
        home,
        launch: options.launch.clone(),
        cwd: match options.cwd.as_ref().filter(|_| !is_hidden) {
            Some(path) => Cwd::Path(path.clone()),
            // The launcher says where the CLI runs.
            None if options.is_out_of_reach() => Cwd::Inherit,
            None if options.built_in_tools || options.spec_form() => Cwd::Inherit,
            None => Cwd::Private,
        },
        wire: wire.map_or(Wire::Text, |(_, wire)| *wire),
        ends_at_limit: context.holds(When::ToolsOff) && provider.stop_on.contains(&MAX_OUTPUT_TOKENS),
        has_schema: false,
        optional_flags: Vec::new(),
        flags: Vec::new(),
    })
}

/// `true` if the flags depend on the CLI's version.
pub fn depends_on_version(provider: &Provider) -> bool {
    let mut whens = provider.flags.iter().flat_map(|flag| flag.when);
    whens.any(|when| matches!(when, When::Since(_) | When::Before(_)))
}

/// `true` if a CLI with these options can be configured with a bridge: then its command line differs with and without one.
pub fn takes_callbacks(provider: &Provider, options: &Options) -> bool {
    // The bridge's address is this machine's own.
    if options.is_out_of_reach() {
        return false;
    }
    let bridge = Callbacks {
        url: String::new(),
        token: String::new(),
    };
    let context = CommandContext {
        options: &Options {
            callbacks: Some(bridge),
            ..options.clone()
        },
        live: false,
        warm: false,
        media: false,
        partial: false,
        version: None,
    };
    let flags = provider.flags.iter().map(|flag| flag.when);
    let vars = provider.env.iter().map(|var| var.when);
    let files = provider.files.iter().map(|file| file.when);
    flags
        .chain(vars)
        .chain(files)
        .any(|whens| whens.contains(&When::Callbacks) && context.all_hold(whens))
}

/// The prompt for the model, with a prefix if the CLI would take it for a command.
fn guarded(provider: &Provider, prompt: &str) -> String {
    match provider.guard {
        Some(guard) if prompt.starts_with(guard.first) => format!("{}{prompt}", guard.prefix),
        _ => prompt.to_owned(),
    }
}

/// Refuses a prompt that the CLI would cut, refuse too late, or never receive.
fn check_length(provider: &Provider, options: &Options, prompt: &str) -> Result<(), Box<ProviderError>> {
    let refuse = |length: String, limit: String, hint: &str| {
        let reason = format!("the prompt has {length} and {limit}");
        let error = ProviderError::new(&provider.id, Code::PromptTooLong, reason);
        Err(Box::new(error.with_hint(hint)))
    };
    if matches!(options.prompt_style, PromptStyle::Arg | PromptStyle::Flag) && prompt.len() > MAX_ARG_BYTES {
        let stdin = |kind: &Kind| matches!(kind, Kind::OneOf(styles) if styles.contains(&"stdin"));
        let can_choose = provider.option("promptStyle").is_some_and(|option| stdin(&option.kind));
        let hint = match can_choose {
            true => "use `promptStyle: \"stdin\"`, which has no such limit",
            false => "shorten the thread: this CLI takes its prompt as an argument",
        };
        let style = match options.prompt_style {
            PromptStyle::Flag => "flag",
            PromptStyle::Arg | PromptStyle::Stdin | PromptStyle::Session => "arg",
        };
        return refuse(
            format!("{} bytes", prompt.len()),
            format!("promptStyle {style:?} takes {MAX_ARG_BYTES}, the operating system's limit of one argument"),
            hint,
        );
    }
    match provider.prompt_limit {
        Some(PromptLimit::Bytes(limit)) if prompt.len() > limit => refuse(
            format!("{} bytes", prompt.len()),
            format!("{} takes {limit}", provider.id),
            "shorten the thread",
        ),
        // A character has at least one byte, so a short prompt need not be counted.
        Some(PromptLimit::Chars(limit)) if prompt.len() > limit && prompt.chars().count() > limit => refuse(
            format!("{} characters", prompt.chars().count()),
            format!("{} takes {limit}", provider.id),
            "shorten the thread",
        ),
        _ => Ok(()),
    }
}

/// The facts on which flags and variables depend.
struct CommandContext<'a> {
    options: &'a Options,
    live: bool,
    warm: bool,
    /// The prompt has content other than text.
    media: bool,
    partial: bool,
    /// The version of the installed CLI, if it is known.
    version: Option<[u64; 3]>,
}

impl CommandContext<'_> {
    fn all_hold(&self, whens: &[When]) -> bool {
        whens.iter().all(|when| self.holds(*when))
    }

    /// `true` if the condition of a flag or variable is met.
    fn holds(&self, when: When) -> bool {
        let options = self.options;
        match when {
            When::Isolated => !options.spec_form(),
            When::Print => !self.live && !self.warm,
            When::Warm => self.warm,
            When::Live => self.live,
            When::Media => self.media,
            When::IgnoreUserConfig => options.ignore_user_config,
            When::AuthType => options.auth_type.is_some(),
            When::OwnApi => options.own_api.is_some(),
            When::PromptArg => options.prompt_style == PromptStyle::Arg,
            When::PromptFlag => options.prompt_style == PromptStyle::Flag,
            When::Format(format) => options.output_format == format,
            When::Partial => options.partial_messages.unwrap_or(self.partial),
            When::Pieces => self.holds(When::Partial) || self.holds(When::ToolsOff),
            When::Verbose => options.verbose && options.output_format != OutputFormat::StreamJson,
            When::Model => options.choices.model.is_some(),
            When::ToolsOff => !options.built_in_tools,
            When::PrivateCwd => !options.built_in_tools && options.cwd.is_none(),
            // With its built-in tools on, the CLI needs its own instructions for them.
            When::DefaultSystemPrompt => options.system_prompt == SystemPrompt::Default && !options.built_in_tools,
            When::CustomSystemPrompt => matches!(options.system_prompt, SystemPrompt::Custom(_)),
            When::SystemPrompt => self.holds(When::DefaultSystemPrompt) || self.holds(When::CustomSystemPrompt),
            // Without tools there is nothing to permit, and as root the CLI would refuse to start (CLI-FACTS).
            When::PermissionMode => options
                .permission_mode
                .as_deref()
                .is_some_and(|mode| mode != "bypassPermissions" || options.built_in_tools),
            When::NoInput => options.no_input,
            When::Callbacks => options.callbacks.is_some(),
            When::NoCallbacks => options.callbacks.is_none(),
            When::NoWorkspace => options.workspace.is_none(),
            When::Agent => self.in_workspace(|workspace| workspace.agent.is_some()),
            When::AppendedSystemPrompt => self.in_workspace(|workspace| workspace.append_system_prompt.is_some()),
            When::AllowedTools => self.in_workspace(|workspace| !workspace.allowed_tools.is_empty()),
            When::OutputSchema => options.output_schema.is_some(),
            When::NoOutputSchema => options.output_schema.is_none(),
            When::Since(version) => self.version.is_some_and(|own| own >= version),
            When::Before(version) => self.version.is_none_or(|own| own < version),
            When::MaxOutputTokens => options.choices.max_output_tokens.is_some(),
            When::Effort => options.choices.effort.is_some(),
            When::ReasoningOff => options.choices.reasoning_off,
            When::ServiceTier => options.choices.service_tier.is_some(),
            When::Fast => options.choices.is_fast(),
            When::Stop => options.choices.stop().is_some(),
            When::WebSearch => options.choices.searches_web(),
            When::NoWebSearch => !options.choices.searches_web(),
            When::ToolSearch => self.live && options.choices.searches_tools(),
            When::NoToolSearch => !self.holds(When::ToolSearch),
            When::CacheTtl(ttl) => options.cache_ttl == Some(ttl),
            When::Settings => {
                let choices = [
                    When::MaxOutputTokens,
                    When::Effort,
                    When::ReasoningOff,
                    When::Fast,
                    When::Stop,
                ];
                !options.spec_form()
                    || !options.env.is_empty()
                    || options.auth == Auth::Subscription
                    || options.cache_ttl.is_some()
                    || choices.into_iter().any(|choice| self.holds(choice))
            }
        }
    }

    fn in_workspace(&self, holds: impl Fn(&Workspace) -> bool) -> bool {
        self.options.workspace.as_ref().is_some_and(holds)
    }
}

/// The arguments of one flag.
fn flag_words(flag: &Flag, provider: &Provider, options: &Options, prompt: &str, media: &[MediaFile]) -> Vec<Arg> {
    let text = |text: &str| vec![Arg::Text(text.to_owned())];
    let all = |texts: Vec<String>| texts.into_iter().map(Arg::Text).collect();
    let optional = |option: &Option<String>| text(option.as_deref().unwrap_or_default());
    let none = Workspace::default();
    let workspace = options.workspace.as_ref().unwrap_or(&none);
    flag.args
        .iter()
        .flat_map(|word| match word {
            Word::Lit(literal) => text(literal),
            Word::Prompt => text(prompt),
            Word::Model => optional(&options.choices.model),
            Word::Effort => optional(&options.choices.effort),
            Word::EffortSetting(key) => {
                let effort = options.choices.effort.as_deref().unwrap_or_default();
                text(&format!("{key}=\"{effort}\""))
            }
            Word::ServiceTierSetting(key) => {
                let tier = options.choices.service_tier.as_deref().unwrap_or_default();
                text(&format!("{key}=\"{tier}\""))
            }
            Word::SystemPrompt => text(&system_prompt(provider, options)),
            Word::BridgeUrlSetting(key) => {
                let url = options.callbacks.as_ref().map_or("", |callbacks| &callbacks.url);
                text(&format!("{key}=\"{url}\""))
            }
            Word::File(name) => vec![Arg::File(name)],
            Word::FileSetting(key, name) => vec![Arg::FileSetting(key, name)],
            Word::MediaFiles(prefix) => media
                .iter()
                .map(|file| Arg::MediaFile(prefix, file.name.clone()))
                .collect(),
            Word::PermissionMode => optional(&options.permission_mode),
            Word::Sandbox => text(match &options.sandbox {
                Some(sandbox) if options.built_in_tools => sandbox,
                _ => "read-only",
            }),
            Word::AuthType => optional(&options.auth_type),
            Word::OutputSchema => optional(&options.output_schema),
            Word::Agent => optional(&workspace.agent),
            Word::AllowedTools => all(workspace.allowed_tools.clone()),
            Word::DefaultArgs => all(provider
                .custom
                .iter()
                .flat_map(|own| own.default_args.clone())
                .collect()),
            Word::ModelArgs => all(provider
                .custom
                .iter()
                .flat_map(|own| own.model_args(options.choices.model.as_deref().unwrap_or_default()))
                .collect()),
        })
        .collect()
}

/// The names of all variables that the CLI doesn't inherit.
fn dropped(provider: &Provider, context: &CommandContext) -> Vec<&'static str> {
    let unset = |var: &&Var| matches!(var.value, EnvValue::Unset) && context.all_hold(var.when);
    let unset = provider.env.iter().filter(unset).map(|var| &var.name);
    let keys = if context.options.auth == Auth::Subscription {
        provider.key_env
    } else {
        &[]
    };
    COMMON_DROP_ENV
        .iter()
        .chain(provider.drop_env)
        .chain(unset)
        .chain(keys)
        .copied()
        .collect()
}

/// The variables that the provider sets, after those of every CLI.
fn set(provider: &Provider, context: &CommandContext) -> Result<Vec<(&'static str, EnvText)>, Box<ProviderError>> {
    let mut vars: Vec<_> = COMMON_ENV
        .iter()
        .map(|(name, value)| (*name, EnvText::Text((*value).to_owned())))
        .collect();
    for var in provider.env.iter().filter(|var| context.all_hold(var.when)) {
        let value = match var.value {
            EnvValue::Unset => continue,
            EnvValue::Fixed(value) => EnvText::Text(value.to_owned()),
            EnvValue::MaxRetries => EnvText::Text(context.options.max_retries.to_string()),
            EnvValue::MaxOutputTokens => {
                let limit = context.options.choices.max_output_tokens;
                EnvText::Text(limit.unwrap_or_default().to_string())
            }
            EnvValue::Cwd => EnvText::Cwd,
            // The other side has a folder of its own for them.
            EnvValue::Folder(_) if TEMPORARY.contains(&var.name) && context.options.is_out_of_reach() => continue,
            EnvValue::Folder(name) => EnvText::Folder(name),
            EnvValue::File(name) => EnvText::File(name),
            EnvValue::BridgeToken => {
                let callbacks = context.options.callbacks.as_ref();
                EnvText::Text(callbacks.map(|callbacks| callbacks.token.clone()).unwrap_or_default())
            }
            EnvValue::Composed(compose) => {
                EnvText::Text(fitting(var.name, compose(provider, context.options), provider)?)
            }
        };
        vars.push((var.name, value));
    }
    Ok(vars)
}

/// The value of a variable, if the operating system takes it: `NAME=value` is limited like an argument.
fn fitting(name: &str, value: String, provider: &Provider) -> Result<String, Box<ProviderError>> {
    let length = name.len() + 1 + value.len();
    if length <= MAX_ARG_BYTES {
        return Ok(value);
    }
    let reason = format!(
        "the variable {name}, which holds the system prompt and the configuration, has {length} bytes, and the operating \
         system takes {MAX_ARG_BYTES}"
    );
    let error = ProviderError::new(&provider.id, Code::PromptTooLong, reason);
    Err(Box::new(error.with_hint("shorten `systemPrompt` or `config`")))
}

/// The variables that the user sets, for a CLI of their own and for this provider object. They win over everything but a call's
/// choices. With `auth: "subscription"` keys are left out, because `env: { ...process.env }` would bring back those that are
/// dropped from the environment.
fn user_env(provider: &Provider, context: &CommandContext) -> Vec<(String, Option<String>)> {
    let options = context.options;
    let own = provider.custom.iter().flat_map(|own| own.env.iter());
    let same = |known: &str, name: &str| match cfg!(windows) {
        true => known.eq_ignore_ascii_case(name),
        false => known == name,
    };
    let is_key = |name: &str| provider.key_env.iter().any(|key| same(key, name));
    let is_chosen = |name: &str| {
        let chosen = |var: &&Var| var.is_choice && context.all_hold(var.when);
        provider.env.iter().filter(chosen).any(|var| same(var.name, name))
    };
    // The login's variable may be removed here, if another environment has it.
    let login = (provider.login_dir.as_ref().zip(options.login.as_ref()))
        .map(|(own, folder)| (own.variable.to_owned(), Some(folder.clone())));
    own.chain(&options.env)
        .filter(|(name, _)| !is_chosen(name))
        .filter(|(name, value)| value.is_none() || options.auth == Auth::Inherit || !is_key(name))
        .filter(|(name, _)| login.as_ref().is_none_or(|(of_login, _)| name != of_login))
        .cloned()
        .chain(login.clone())
        .collect()
}

/// Counters for tests of whole calls.
#[cfg(any(test, feature = "test-support"))]
pub mod counted {
    use std::cell::Cell;

    thread_local! {
        /// The number of argument lists that were built.
        pub static BUILT: Cell<usize> = const { Cell::new(0) };
    }
}

#[cfg(test)]
mod tests;
