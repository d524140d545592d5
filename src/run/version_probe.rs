//! Asks an installed CLI about itself, for example for its version: with other arguments than a request's, in a request's own
//! surroundings.
//!
//! In: an engine, its environment, arguments. Out: the file that a request would execute, or the CLI's output and end. Such
//! commands are over in a moment, so they don't wait in the queue of requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::base::{Base, not_found, not_started};
use super::programs::NotFound;
use dfp_exchange::print::{self, Surroundings};
use dfp_model::error::ProviderError;
use dfp_process::{Output, ProcessLimits, Tees, Vars};
use dfp_provider::classify::OLD_NODE;
use dfp_provider::command::{self, Arg, CommandLine};

/// The most that a command may print, bytes: a version or the state of a login.
const MAX_STDOUT: usize = 256 * 1024;

/// The time that an interpreter may take to print its version: it needs 40 ms on an idle machine.
const INTERPRETER: Duration = Duration::from_secs(5);

/// Returns the file that a request would execute.
///
/// # Errors
/// The errors of a call: the file can't be found, or can't be executed.
pub fn file(engine: &Base, base: &Arc<Vars>) -> Result<PathBuf, Box<ProviderError>> {
    let program = engine.look(base).map_err(|error| match error {
        NotFound::Refused(error) => error,
        NotFound::Start(error) => engine.start_error(&error, error.to_string()),
    })?;
    Ok(program.binary().file().to_owned())
}

/// Returns those of `names` that are set in the environment of a request and not empty.
///
/// # Errors
/// Those of [`file()`].
pub fn present<'a>(engine: &Base, names: &[&'a str], base: &Arc<Vars>) -> Result<Vec<&'a str>, Box<ProviderError>> {
    let line = probe(engine, &[], &[])?;
    let is_set = |name: &&&str| print::variable(&line, base, name).is_some_and(|value| !value.is_empty());
    Ok(names.iter().filter(is_set).copied().collect())
}

/// Returns the value of `name` in the environment of a request, if it is text and not empty.
///
/// # Errors
/// Those of [`file()`].
pub fn variable(engine: &Base, name: &str, base: &Arc<Vars>) -> Result<Option<String>, Box<ProviderError>> {
    let value = print::variable(&probe(engine, &[], &[])?, base, name);
    let text = value.and_then(|value| value.to_str().map(str::to_owned));
    Ok(text.filter(|text| !text.is_empty()))
}

/// Returns whether the provider sets the variable `name` for its calls, or takes it away, whatever the user's settings say.
pub fn holds(engine: &Base, name: &str) -> bool {
    let held = ours(engine).and_then(|mut settings| settings.remove("env"));
    held.is_some_and(|env| env.get(name).is_some())
}

/// Returns whether the provider's settings have the member `name`; it wins over the user's.
pub fn settles(engine: &Base, name: &str) -> bool {
    ours(engine).is_some_and(|settings| settings.contains_key(name))
}

/// Returns whether the provider has settings that win over the user's.
pub fn has_settings(engine: &Base) -> bool {
    engine.provider.user_settings.is_some_and(|own| own.ours.is_some())
}

/// The settings that win over the user's.
fn ours(engine: &Base) -> Option<Map<String, Value>> {
    let own = engine.provider.user_settings?.ours?;
    let line = probe(engine, &[], &[]).ok()?;
    let file = line.files.iter().find(|file| file.name == own.file)?;
    serde_json::from_str(&file.content).ok()
}

/// Runs the CLI with `args`, without the variables `without`, for at most `limit`. The output says how it ended.
///
/// # Errors
/// The reason for which the CLI can't be started.
pub async fn ask(
    engine: &Base,
    args: &[&str],
    without: &[&str],
    base: &Arc<Vars>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Output, Box<ProviderError>> {
    output(engine, probe(engine, args, without)?, base, limit, cancel).await
}

/// Asks the CLI with the settings with which calls win over the user's, so that its answer holds for calls.
///
/// # Errors
/// Those of [`ask`].
pub async fn ask_as_in_calls(
    engine: &Base,
    args: &[&str],
    without: &[&str],
    base: &Arc<Vars>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Output, Box<ProviderError>> {
    let mut line = probe(engine, args, without)?;
    if let Some(own) = engine.provider.user_settings.and_then(|own| own.ours)
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
    output(engine, line, base, limit, cancel).await
}

/// Returns the version that `file`, the interpreter of the CLI, prints; `None` if it prints none.
async fn interpreter_version(
    engine: &Base,
    file: &Path,
    base: &Arc<Vars>,
    cancel: &CancellationToken,
) -> Option<String> {
    let mut line = probe(engine, &["--version"], &[]).ok()?;
    line.program = file.to_str()?.to_owned();
    let output = output(engine, line, base, INTERPRETER, cancel).await.ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let version = said.trim().trim_start_matches('v');
    version
        .starts_with(|first: char| first.is_ascii_digit())
        .then(|| version.to_owned())
}

/// Returns `error`. If an old Node is its cause, the error names Node's version and path, which the CLI does not report.
pub(super) async fn with_node(
    engine: &Base,
    mut error: Box<ProviderError>,
    base: &Arc<Vars>,
    cancel: &CancellationToken,
) -> Box<ProviderError> {
    if !error.message.starts_with(OLD_NODE) {
        return error;
    }
    let program = engine.look(base).ok();
    let Some(node) = program.and_then(|program| program.binary().resolved().interpreter.clone()) else {
        return error;
    };
    if let Some(version) = interpreter_version(engine, &node, base, cancel).await {
        let named = format!("{OLD_NODE}, Node {version} ({})", node.display());
        error.message = error.message.replacen(OLD_NODE, &named, 1);
    }
    error
}

/// Runs the command line outside of the queue, for at most `limit`, and returns its output.
async fn output(
    engine: &Base,
    line: CommandLine,
    base: &Arc<Vars>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Output, Box<ProviderError>> {
    // A program with a path of its own is no CLI: the interpreter of one.
    let is_cli = line.program == command::bare(&engine.provider, &engine.options)?.program;
    let program = match is_cli {
        true => Some(engine.look(base).map_err(|error| not_found(engine, error))?),
        false => None,
    };
    let surroundings = Surroundings {
        file: program.map(|program| program.binary().resolved().clone()),
        base_env: Arc::clone(base),
        limits: ProcessLimits {
            timeout: Some(limit),
            kill_grace: engine.options.kill_grace,
            max_stdout: MAX_STDOUT,
            ..ProcessLimits::default()
        },
        owner: engine.owner,
        permit: None,
        tracker: engine.lifecycle.runs.clone(),
        tees: Tees::default(),
    };
    let output = print::output(line, surroundings, cancel).await;
    output.map_err(|error| not_started(engine, &error))
}

/// The command line for a question with `args`.
pub(super) fn probe(engine: &Base, args: &[&str], without: &[&str]) -> Result<CommandLine, Box<ProviderError>> {
    let mut line = command::bare(&engine.provider, &engine.options)?;
    if line.is_out_of_reach() {
        line.leave_out_files();
    }
    line.args = args.iter().map(|arg| Arg::Text((*arg).to_owned())).collect();
    line.user_env
        .extend(without.iter().map(|name| ((*name).to_owned(), None)));
    Ok(line)
}
