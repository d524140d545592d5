//! SPEC-01's `execFileAsync`: one program, without a shell, supervised like every other process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::record::redactor_of;
use dfp_model::error::{Code, ProviderError};
use dfp_process::{End, EnvPlan, Output, ProcessLimits, Spec, StartError, Vars};
use dfp_provider::classify::{self, FailureFacts};
use dfp_provider::options::{self, OptionSpec};
use dfp_text::redact::Redactor;

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
        Ok(output) => failed(&name, limits, &output),
        Err(error) => not_started(&name, &error),
    };
    error.attempts = 1;
    let own = own_env
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?)));
    redactor_of(&base).and(&Redactor::new(own, [])).clean_error(&mut error);
    Err(Box::new(error))
}

fn not_started(name: &str, error: &StartError) -> ProviderError {
    ProviderError::new(name, error.code(), format!("{name} can't be started: {error}"))
}

/// The error of a program that has ended in any other way than with exit code 0.
fn failed(name: &str, limits: ProcessLimits, output: &Output) -> ProviderError {
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
            local_offset_min: super::admission::local_offset_min(),
            ..FailureFacts::default()
        })
        .into_error(name),
    };
    error.exit_code = exit.code;
    error.signal.clone_from(&exit.signal);
    error.stderr_tail = (!exit.stderr.is_empty()).then(|| exit.stderr.clone());
    error
}
