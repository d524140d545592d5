//! Commands that are over in a moment, beside the calls: an installed CLI that is asked about itself, for example for its version, and
//! SPEC-01's `execFileAsync`, which runs one program without a shell.
//!
//! In: a provider object, its environment, arguments; or a program. Out: the file that a request would execute, or the output and the end. They
//! are supervised like every other process, and don't wait in the queue of requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::cli_base::{CliBase, not_found, not_started};
use super::programs::NotFound;
use super::record::redactor_of;
use dfp_exchange::print::{self, Surroundings};
use dfp_model::error::{Code, ProviderError};
use dfp_process::{End, EnvPlan, Output, ProcessLimits, Spec, StartError, Tees, Vars};
use dfp_provider::classify::{self, FailureFacts, OLD_NODE};
use dfp_provider::command::{self, Arg, CommandLine};
use dfp_provider::options::{self, OptionSpec};
use dfp_text::redact::Redactor;

/// The most that a command may print, bytes: a version or the state of a login.
const MAX_STDOUT: usize = 256 * 1024;

/// The time that an interpreter may take to print its version: it needs 40 ms on an idle machine.
const INTERPRETER: Duration = Duration::from_secs(5);

/// Returns the file that a request would execute.
///
/// # Errors
/// The errors of a call: the file can't be found, or can't be executed.
pub fn file(cli: &CliBase, base: &Arc<Vars>) -> Result<PathBuf, Box<ProviderError>> {
    let program = cli.look(base).map_err(|error| match error {
        NotFound::Refused(error) => error,
        NotFound::Start(error) => cli.start_error(&error, error.to_string()),
    })?;
    Ok(program.binary().file().to_owned())
}

/// Returns those of `names` that are set in the environment of a request and not empty.
///
/// # Errors
/// Those of [`file()`].
pub fn present<'a>(cli: &CliBase, names: &[&'a str], base: &Arc<Vars>) -> Result<Vec<&'a str>, Box<ProviderError>> {
    let line = probe(cli, &[], &[])?;
    let is_set = |name: &&&str| print::variable(&line, base, name).is_some_and(|value| !value.is_empty());
    Ok(names.iter().filter(is_set).copied().collect())
}

/// Returns the value of `name` in the environment of a request, if it is text and not empty.
///
/// # Errors
/// Those of [`file()`].
pub fn variable(cli: &CliBase, name: &str, base: &Arc<Vars>) -> Result<Option<String>, Box<ProviderError>> {
    let value = print::variable(&probe(cli, &[], &[])?, base, name);
    let text = value.and_then(|value| value.to_str().map(str::to_owned));
    Ok(text.filter(|text| !text.is_empty()))
}

/// Returns whether the provider sets the variable `name` for its calls, or takes it away, whatever the user's settings say.
pub fn holds(cli: &CliBase, name: &str) -> bool {
    let held = ours(cli).and_then(|mut settings| settings.remove("env"));
    held.is_some_and(|env| env.get(name).is_some())
}

/// Returns whether the provider's settings have the member `name`; it wins over the user's.
pub fn settles(cli: &CliBase, name: &str) -> bool {
    ours(cli).is_some_and(|settings| settings.contains_key(name))
}

/// Returns whether the provider has settings that win over the user's.
pub fn has_settings(cli: &CliBase) -> bool {
    cli.provider.user_settings.is_some_and(|own| own.ours.is_some())
}

/// The settings that win over the user's.
fn ours(cli: &CliBase) -> Option<Map<String, Value>> {
    let own = cli.provider.user_settings?.ours?;
    let line = probe(cli, &[], &[]).ok()?;
    let file = line.files.iter().find(|file| file.name == own.file)?;
    serde_json::from_str(&file.content).ok()
}

/// Runs the CLI with `args`, without the variables `without`, for at most `limit`. The output says how it ended.
///
/// # Errors
/// The reason for which the CLI can't be started.
pub async fn ask(
    cli: &CliBase,
    args: &[&str],
    without: &[&str],
    base: &Arc<Vars>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Output, Box<ProviderError>> {
    output(cli, probe(cli, args, without)?, base, limit, cancel).await
}

/// Asks the CLI with the settings with which calls win over the user's, so that its answer holds for calls.
///
/// # Errors
/// Those of [`ask`].
pub async fn ask_as_in_calls(
    cli: &CliBase,
    args: &[&str],
    without: &[&str],
    base: &Arc<Vars>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Output, Box<ProviderError>> {
    let mut line = probe(cli, args, without)?;
    if let Some(own) = cli.provider.user_settings.and_then(|own| own.ours)
        && let Some(file) = line.files.iter_mut().find(|file| file.name == own.file)
    {
        if let Ok(mut settings) = serde_json::from_str::<Value>(&file.content) {
            for name in without {
                settings["env"][*name] = "".into();
            }
            file.content = settings.to_string();
        }
        line.args
            .splice(..0, [Arg::Text(own.flag.to_owned()), Arg::File(own.file)]);
        line.tell_content(own.file);
    }
    output(cli, line, base, limit, cancel).await
}

/// Returns the version that `file`, the interpreter of the CLI, prints; `None` if it prints none.
async fn interpreter_version(
    cli: &CliBase,
    file: &Path,
    base: &Arc<Vars>,
    cancel: &CancellationToken,
) -> Option<String> {
    let mut line = probe(cli, &["--version"], &[]).ok()?;
    line.program = file.to_str()?.to_owned();
    let output = output(cli, line, base, INTERPRETER, cancel).await.ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let version = said.trim().trim_start_matches('v');
    version
        .starts_with(|first: char| first.is_ascii_digit())
        .then(|| version.to_owned())
}

/// Returns `error`. If an old Node is its cause, the error names Node's version and path, which the CLI does not report.
pub(super) async fn with_node(
    cli: &CliBase,
    mut error: Box<ProviderError>,
    base: &Arc<Vars>,
    cancel: &CancellationToken,
) -> Box<ProviderError> {
    if !error.message.starts_with(OLD_NODE) {
        return error;
    }
    let program = cli.look(base).ok();
    let Some(node) = program.and_then(|program| program.binary().resolved().interpreter.clone()) else {
        return error;
    };
    if let Some(version) = interpreter_version(cli, &node, base, cancel).await {
        let named = format!("{OLD_NODE}, Node {version} ({})", node.display());
        error.message = error.message.replacen(OLD_NODE, &named, 1);
    }
    error
}

/// Runs the command line outside of the queue, for at most `limit`, and returns its output.
async fn output(
    cli: &CliBase,
    line: CommandLine,
    base: &Arc<Vars>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Output, Box<ProviderError>> {
    // A program with a path of its own is no CLI: the interpreter of one.
    let is_cli = line.program == command::bare(&cli.provider, &cli.options)?.program;
    let program = match is_cli {
        true => Some(cli.look(base).map_err(|error| not_found(cli, error))?),
        false => None,
    };
    let surroundings = Surroundings {
        file: program.map(|program| program.binary().resolved().clone()),
        base_env: Arc::clone(base),
        limits: ProcessLimits {
            timeout: Some(limit),
            kill_grace: cli.options.kill_grace,
            max_stdout: MAX_STDOUT,
            ..ProcessLimits::default()
        },
        owner: cli.owner,
        permit: None,
        tracker: cli.lifecycle.runs.clone(),
        tees: Tees::default(),
    };
    let output = print::output(line, surroundings, cancel).await;
    output.map_err(|error| not_started(cli, &error))
}

/// The command line for a question with `args`.
pub(super) fn probe(cli: &CliBase, args: &[&str], without: &[&str]) -> Result<CommandLine, Box<ProviderError>> {
    let mut line = command::bare(&cli.provider, &cli.options)?;
    if line.is_out_of_reach() {
        line.leave_out_files();
    }
    line.args = args.iter().map(|arg| Arg::Text((*arg).to_owned())).collect();
    line.user_env
        .extend(without.iter().map(|name| ((*name).to_owned(), None)));
    Ok(line)
}

/// The options of `execFileAsync`: `timeout` (ms, 0 or nothing for no limit), `maxBuffer` (bytes of standard output,
/// default 1 MiB as in Node), `cwd` and `env`.
const OPTIONS: &[OptionSpec] = &[options::TIMEOUT, options::MAX_BUFFER, options::CWD, options::ENV];

/// The default of `maxBuffer` in Node's `execFile`.
const DEFAULT_MAX_BUFFER: u64 = 1024 * 1024;

/// Runs `file` with `args` and the environment `base`, with standard input closed; returns its standard output.
///
/// # Errors
/// The program can't be started, exits with anything but 0, takes too long or prints too much.
pub async fn execute_file(
    file: &str,
    args: Vec<String>,
    options_json: &str,
    base: Arc<Vars>,
    owner: u64,
) -> Result<String, Box<ProviderError>> {
    let name = Path::new(file)
        .file_name()
        .map_or_else(|| file.to_owned(), |name| name.to_string_lossy().into_owned());
    let fields = options::checked("execFileAsync", OPTIONS, options_json)?;
    let limits = ProcessLimits {
        timeout: options::number(&fields, "timeout")
            .filter(|ms| *ms > 0)
            .map(Duration::from_millis),
        max_stdout: usize::try_from(options::number(&fields, "maxBuffer").unwrap_or(DEFAULT_MAX_BUFFER))
            .unwrap_or(usize::MAX),
        ..ProcessLimits::default()
    };
    let own_env = options::environment(&fields, "env");
    let spec = Spec {
        args: args.into_iter().map(Into::into).collect(),
        env: EnvPlan {
            base: Some(Arc::clone(&base)),
            user: own_env
                .iter()
                .map(|(name, value)| (name.into(), value.as_ref().map(Into::into)))
                .collect(),
            ..EnvPlan::default()
        },
        cwd: fields.get("cwd").and_then(|cwd| cwd.as_str()).map(Into::into),
        limits,
        owner,
        guarded: true,
        ..Spec::new(file)
    };
    let mut error = match dfp_process::output(spec, CancellationToken::new()).await {
        Ok(output) if output.exit.success() => return Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => program_failed(&name, limits, &output),
        Err(error) => program_not_started(&name, &error),
    };
    error.attempts = 1;
    let own = own_env
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?)));
    redactor_of(&base).and(&Redactor::new(own, [])).clean_error(&mut error);
    Err(Box::new(error))
}

fn program_not_started(name: &str, error: &StartError) -> ProviderError {
    ProviderError::new(name, error.code(), format!("{name} can't be started: {error}"))
}

/// The error of a program that has ended in any other way than with exit code 0.
fn program_failed(name: &str, limits: ProcessLimits, output: &Output) -> ProviderError {
    let exit = &output.exit;
    let mut error = match exit.end {
        End::Timeout => {
            let ms = limits.timeout.unwrap_or_default().as_millis();
            ProviderError::new(
                name,
                Code::Timeout,
                format!("{name} took longer than {ms} ms and was ended"),
            )
        }
        End::OutputLimit => {
            let reason = format!(
                "{name} printed more than {} bytes, the limit of `maxBuffer`",
                limits.max_stdout
            );
            ProviderError::new(name, Code::OutputLimit, reason)
        }
        _ => classify::classify(&FailureFacts {
            provider: name,
            exit_code: exit.code,
            signal: exit.signal.as_deref(),
            stderr_text: Some(&exit.stderr),
            now_ms: dfp_process::activity::now_ms(),
            local_offset_min: crate::retry_loop::local_offset_min(),
            ..FailureFacts::default()
        })
        .into_error(name),
    };
    error.exit_code = exit.code;
    error.signal.clone_from(&exit.signal);
    error.stderr_tail = (!exit.stderr.is_empty()).then(|| exit.stderr.clone());
    error
}
