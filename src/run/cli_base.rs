//! The parts that the calls of one provider object share, whichever engine makes them: the CLI, its options, its runs, its
//! installed program. The processes that it keeps build on this ([`super::session`]); [`super::CliProvider`] is both together.

use std::borrow::Cow;
use std::ops::Deref;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::lifecycle::Lifecycle;
use super::programs::{NotFound, Program, Programs};
use super::record;
use super::retry_loop::UsedUp;
use dfp_exchange::installed::Binary;
use dfp_exchange::print::{NotStarted, Surroundings};
use dfp_model::error::{Code, Problem, ProviderError};
use dfp_process::limit::{self, Permit};
use dfp_process::{NotTaken, ProcessLimits, StartError, Tees, Vars};
use dfp_provider::classify;
use dfp_provider::command;
use dfp_provider::options::{self, Options, TOOL_FUNCTIONS, TOOL_NAMESPACE};
use dfp_provider::{Provider, custom};
use dfp_text::redact::{Redactor, Secret};

/// A provider object of a CLI without its kept processes: its data, its options, and its runs.
#[derive(Debug)]
pub struct CliBase {
    pub(super) provider: Cow<'static, Provider>,
    pub(super) options: Options,
    pub(super) owner: u64,
    pub(super) lifecycle: Lifecycle,
    /// The plans that are used up.
    pub(super) used_up: UsedUp,
    /// The known facts of the installed CLI.
    pub(super) programs: Programs,
}

impl Deref for CliBase {
    type Target = Lifecycle;

    fn deref(&self) -> &Lifecycle {
        &self.lifecycle
    }
}

impl CliBase {
    /// Creates the base of the provider `kind` with the options of `options_json`; its processes belong to `owner`.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
    pub fn new(kind: &str, options_json: &str, owner: u64) -> Result<CliBase, Box<ProviderError>> {
        let provider = dfp_provider::find(kind)
            .ok_or_else(|| ProviderError::new(kind, Code::InvalidOption, format!("there is no provider \"{kind}\"")))?;
        CliBase::with(
            Cow::Borrowed(dfp_provider::in_dialect(provider, options_json)),
            options_json,
            owner,
        )
    }

    /// Creates the base of the CLI that `config_json` describes.
    ///
    /// # Errors
    /// `INVALID_CONFIG` or `INVALID_OPTION`, naming the field or the option, what it holds and what is allowed.
    pub fn custom(config_json: &str, options_json: &str, owner: u64) -> Result<CliBase, Box<ProviderError>> {
        let provider = custom::provider(config_json)?;
        CliBase::with(Cow::Owned(provider), options_json, owner)
    }

    /// Creates the base of the agent that `config_json` describes.
    ///
    /// # Errors
    /// `INVALID_CONFIG` or `INVALID_OPTION`, naming the field or the option, what it holds and what is allowed.
    pub fn agent(config_json: &str, options_json: &str, owner: u64) -> Result<CliBase, Box<ProviderError>> {
        CliBase::with(Cow::Owned(custom::agent(config_json)?), options_json, owner)
    }

    /// The data of the CLI.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Returns whether the model alone answers, without tools of the CLI's own.
    pub fn is_pure(&self) -> bool {
        self.provider.capabilities.is_pure() && !self.options.built_in_tools
    }

    fn with(provider: Cow<'static, Provider>, options_json: &str, owner: u64) -> Result<CliBase, Box<ProviderError>> {
        let mut options = options::within_reach(&provider, Options::parse(&provider, options_json)?)?;
        // Behind a launcher it is a folder of the other side.
        if let Some(folder) = options.login.as_mut().filter(|_| options.launch.is_none()) {
            *folder = login_folder(folder)
                .map_err(|reason| Box::new(ProviderError::new(&provider.id, Code::InvalidOption, reason)))?;
        }
        Ok(CliBase::of(provider, options, owner))
    }

    /// The folder of its login, if the option `login` names one.
    pub fn login(&self) -> Option<&str> {
        self.options.login.as_deref()
    }

    /// Creates the base of `provider` with `options`; its processes belong to `owner`.
    pub fn of(provider: Cow<'static, Provider>, options: Options, owner: u64) -> CliBase {
        limit::global().allow(&provider.id, options.max_concurrency);
        CliBase {
            lifecycle: Lifecycle::new(provider.id.clone(), None).with_budget(options.budget.clone()),
            provider,
            options,
            owner,
            used_up: UsedUp::default(),
            programs: Programs::default(),
        }
    }

    /// The form in which the model is offered tools, for a CLI that has several.
    pub fn tool_form(&self) -> Option<&'static str> {
        self.provider.option("toolForm").filter(|_| self.keeps_sessions())?;
        Some(if self.options.tool_namespace {
            TOOL_NAMESPACE
        } else {
            TOOL_FUNCTIONS
        })
    }

    /// Returns whether calls may be turns of sessions.
    pub fn keeps_sessions(&self) -> bool {
        self.provider.live.is_some() && self.options.engine.may_be_live()
    }

    /// Returns whether `start_with_callbacks` can succeed with this provider.
    pub fn takes_callbacks(&self) -> bool {
        command::takes_callbacks(&self.provider, &self.options)
    }

    /// Makes the redactor that knows the secrets of the environment that this provider's processes get.
    pub(crate) fn redactor(&self, base_env: &Vars) -> Redactor {
        let own = self.options.env.iter();
        let own = own.filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?)));
        let key = self.options.own_api.as_ref().and_then(|own| own.api_key.as_ref());
        Redactor::new(record::readable(base_env).chain(own), key.map(Secret::reveal))
    }

    /// The error of a process that can't be started, with `reason` as its message. Behind a launcher, it is that which was not started.
    pub(super) fn start_error(&self, error: &StartError, reason: String) -> Box<ProviderError> {
        let id = self.id();
        let Some(launch) = &self.options.launch else {
            return start_error(id, error, reason);
        };
        let reason = format!("the launcher of the CLI can't be started: {error}");
        let hint = match error.code() {
            Code::CliNotFound => format!("install {}, or correct `launch.command`", launch.command),
            _ => "correct `launch`".to_owned(),
        };
        Box::new(ProviderError::new(id, error.code(), reason).with_hint(hint))
    }

    /// The program of calls with this environment, looked for now.
    ///
    /// # Errors
    /// [`NotFound`].
    pub(super) fn look(&self, env: &Arc<Vars>) -> Result<Arc<Program>, NotFound> {
        self.programs.look(&self.provider, &self.options, env)
    }

    /// The surroundings of a process of `binary` that serves many turns, with its place among those of the provider. Limits hold
    /// for its turns; the process itself ends only with the provider.
    pub(super) fn surroundings(&self, binary: &Binary, base_env: &Arc<Vars>, place: Option<Permit>) -> Surroundings {
        Surroundings {
            file: Some(binary.resolved().clone()),
            base_env: Arc::clone(base_env),
            limits: ProcessLimits {
                kill_grace: self.options.kill_grace,
                max_stdout: usize::MAX,
                ..ProcessLimits::default()
            },
            owner: self.owner,
            permit: place,
            tracker: self.lifecycle.runs.clone(),
            tees: Tees::default(),
        }
    }
}

/// The error of a call for which there is no program.
pub(super) fn not_found(cli: &CliBase, error: NotFound) -> Box<ProviderError> {
    match error {
        NotFound::Refused(error) => error,
        NotFound::Start(error) => not_started(cli, &NotStarted::Process(error)),
    }
}

/// Returns the login's folder as an absolute path, which is valid in any working folder; `Err` says what is wrong with it.
fn login_folder(folder: &str) -> Result<String, String> {
    let wrong = |why: &str| {
        format!("option \"login.configDir\" must be the folder of a login, which exists; given: {folder:?}, {why}")
    };
    let path = std::path::absolute(folder).map_err(|error| wrong(&format!("which is no path: {error}")))?;
    // The path is made as by Node's `resolve`, so that one login has one name.
    let path = path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::ParentDir => drop(path.pop()),
            component => path.push(component),
        }
        path
    });
    match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(wrong(&format!("and {} is no folder", path.display()))),
        Err(_) if folder.starts_with("~/") => return Err(wrong(&format!("and {}", classify::TILDE))),
        Err(error) => return Err(wrong(&format!("and {} can't be looked at: {error}", path.display()))),
    }
    let path = path.into_os_string().into_string();
    path.map_err(|_| wrong("whose whole path is not Unicode"))
}

/// Advice for a process of `provider` that can't be started.
fn start_hint(provider: &str, error: &StartError) -> Cow<'static, str> {
    let hint = match error {
        StartError::NotExecutable { file } => {
            return format!("run `chmod +x {}`, or set `cliPath`", file.display()).into();
        }
        StartError::InArchive { .. } => classify::IN_ARCHIVE,
        // What is there is another machine's, or not complete.
        StartError::BadFormat { .. } => return classify::reinstall(provider).into(),
        StartError::InterpreterNotFound { interpreter, .. } if Path::new(interpreter).is_absolute() => {
            return classify::reinstall(provider).into();
        }
        StartError::NotOnPath { skipped: Some(_), .. } => classify::SKIPPED_FOLDER,
        StartError::NotFound { file: path } | StartError::CwdNotFound { cwd: path }
            if path.components().any(|part| part.as_os_str() == "~") =>
        {
            classify::TILDE
        }
        error => classify::hint(provider, error.code()),
    };
    hint.into()
}

/// The error of a call whose process, private folder or port of tools could not be made.
pub(super) fn not_started(cli: &CliBase, error: &NotStarted) -> Box<ProviderError> {
    let id = cli.id();
    let (code, reason, hint) = match error {
        // A closed owner means that the environment ends, and this call with it.
        NotStarted::Process(error) => return cli.start_error(error, format!("the CLI can't be started: {error}")),
        NotStarted::OutOfReach(what) => {
            let launcher = cli.options.launch.as_ref().map_or("", |launch| &launch.command);
            let reason = format!(
                "this call hands the CLI {what}, which it can't reach behind `launch` ({launcher}): the option \"launch.files\" is \"none\""
            );
            (Code::UnsupportedOption, reason, classify::OUT_OF_REACH)
        }
        NotStarted::Scratch { folder, source } => {
            // The error of tempfile contains the name that it has tried, which is random.
            let why = source.to_string();
            let why = why.split(" at path ").next().unwrap_or_default();
            let reason = format!(
                "no private folder for the CLI can be made in {}, the folder for temporary files: {why}",
                folder.display()
            );
            (Code::SpawnFailed, reason, classify::NO_TEMPORARY_FOLDER)
        }
        NotStarted::Tools(error) => {
            let reason = format!("no port of 127.0.0.1 can be opened for the tools: {error}");
            (Code::SpawnFailed, reason, classify::hint(id, Code::SpawnFailed))
        }
        NotStarted::Unsupported(reason) | NotStarted::Refused(reason) => {
            let reason = format!("the CLI does not take calls: {reason}");
            (Code::LiveUnsupported, reason, classify::hint(id, Code::LiveUnsupported))
        }
        NotStarted::Ended(_) => {
            let reason = "the CLI ended before it was ready".to_owned();
            (Code::Crashed, reason, classify::hint(id, Code::Crashed))
        }
    };
    Box::new(ProviderError::new(id, code, reason).with_hint(hint))
}

/// The error of a process of `provider` that can't be started, with `reason` as its message.
pub(super) fn start_error(provider: &str, error: &StartError, reason: String) -> Box<ProviderError> {
    let refusal = ProviderError::new(provider, error.code(), reason).with_hint(start_hint(provider, error));
    Box::new(ProviderError {
        problems: searched(error),
        ..refusal
    })
}

/// The places in which a program was searched in vain, each with what is there.
fn searched(error: &StartError) -> Vec<Problem> {
    let StartError::NotOnPath { program, searched, .. } = error else {
        return Vec::new();
    };
    let not_taken = searched.not_taken.iter().map(|NotTaken { file, why }| Problem {
        field: file.display().to_string(),
        message: format!("it was not taken: {why}"),
    });
    let folders = searched.folders.iter().map(|folder| Problem {
        field: folder.display().to_string(),
        message: format!("{} is not there", program.display()),
    });
    not_taken.chain(folders).collect()
}
