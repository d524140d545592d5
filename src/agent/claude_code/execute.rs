//! Runs the CLI once in a workspace, from the context to the result.
//!
//! In: an [`Adapter`] and a context's JSON. Out: an [`ExecutionResult`], also for a run that failed. Problems of the context are
//! reported before anything is started. A run that was cancelled has no result.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::context::{self, Artifacts, Context, EVENTS, LOG, PreparedWorkspace, STDERR, STDOUT, problem};
use super::result::{
    self, ArtifactPaths, Captured, ErrorRecord, ExecutionResult, OUTPUT_TRUNCATED, OutputCapture, verdict,
};
use super::transcript::{Transcript, TranscriptReader};
use super::{Adapter, RunLog, log_of_run};
use dfp_model::error::{Code, Problem, ProviderError};
use dfp_model::event::{Event, Reply};
use dfp_model::retry::Policy;
use dfp_process::activity::now_ms;
use dfp_process::{Tees, Vars};
use dfp_provider::choices::Choices;
use dfp_provider::classify;
use dfp_provider::claude::CLAUDE;
use dfp_provider::options::{Options, SystemPrompt, Workspace};
use dfp_run::{CliProvider, Ended, Run};
use dfp_text::decode::lines::strip_ansi;

/// The most bytes of standard output in a result (the document's MAX_OUTPUT_SIZE).
pub const MAX_OUTPUT: usize = 10 * 1024 * 1024;
/// The most bytes of standard error in a result.
const MAX_STDERR: usize = 32 * 1024;
/// The most warnings that are kept of a run.
const MAX_WARNINGS: usize = 50;

/// The result of a run; `None` if it was cancelled.
type ExecutionOutcome = Result<Option<Box<ExecutionResult>>, Box<ProviderError>>;

/// A run under way. Dropping it ends the run.
#[derive(Debug)]
pub struct Execution {
    cancel: CancellationToken,
    task: AsyncMutex<Option<JoinHandle<ExecutionOutcome>>>,
}

impl Execution {
    /// Begins the run and returns at once. Must be called inside the runtime. `env` as for
    /// [`dfp_run::ProviderObject::start`].
    pub fn start(adapter: &Arc<Adapter>, context: String, env: Option<Vars>) -> Execution {
        let base: Vars = env.unwrap_or_else(|| std::env::vars_os().collect());
        let cancel = CancellationToken::new();
        let task = execute(Arc::clone(adapter), context, base, cancel.clone());
        Execution {
            cancel,
            task: AsyncMutex::new(Some(tokio::spawn(task))),
        }
    }

    /// Waits for the result, which can be taken once; `None` if the run was cancelled.
    ///
    /// # Errors
    /// `CLAUDE_INVALID_CONFIG`, with every problem by field.
    pub async fn result(&self) -> ExecutionOutcome {
        match self.task.lock().await.take() {
            Some(task) => task.await.unwrap_or_else(|panic| {
                let reason = format!("a bug in this package stopped the run: {panic}");
                Err(Box::new(ProviderError::new("claude", Code::Internal, reason)))
            }),
            None => Ok(None),
        }
    }

    /// Cancels the run.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Checks the context, runs the CLI, and makes the result, with the log if that is to be saved.
async fn execute(adapter: Arc<Adapter>, json: String, base: Vars, cancel: CancellationToken) -> ExecutionOutcome {
    let saves_log = adapter.saves_log;
    // The workspace may be on a slow disk.
    let prepared = tokio::task::spawn_blocking(move || prepare(&json, saves_log));
    let (context, place) = match prepared.await {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(problems)) => return Err(Box::new(refusal(problems))),
        Err(panic) => {
            return Err(Box::new(ProviderError::new(
                "claude",
                Code::Internal,
                panic.to_string(),
            )));
        }
    };
    if cancel.is_cancelled() {
        return Ok(None);
    }
    let options = options(&adapter.options, &context);
    let cli = Arc::new(CliProvider::of(Cow::Borrowed(&CLAUDE), options, adapter.owner));
    let Some(ran) = run(&cli, place, base, &cancel).await else {
        return Ok(None);
    };
    let (mut result, read) = ran.result(&context);
    if saves_log && let Some(folder) = &context.artifacts {
        let log = log_of_run(&result, read, &context, &adapter.node);
        save_log(&log, folder, &mut result);
    }
    Ok(Some(Box::new(result)))
}

/// Checks everything that can be checked before the start.
fn prepare(json: &str, saves_log: bool) -> Result<(Context, PreparedWorkspace), Vec<Problem>> {
    let mut problems = Vec::new();
    let context = context::read(json, &mut problems);
    let homeless = |context: &Context| saves_log && context.artifacts.is_none();
    if context.as_ref().is_some_and(homeless) {
        let message = "is missing: saveLog needs a folder to save to";
        problems.push(problem("artifactsDir", message.to_owned()));
    }
    let place = context
        .as_ref()
        .and_then(|context| context::prepare(context, &mut problems));
    match (context, place) {
        (Some(context), Some(place)) if problems.is_empty() => Ok((context, place)),
        _ => Err(problems),
    }
}

/// One error that names all of `problems`.
fn refusal(problems: Vec<Problem>) -> ProviderError {
    let code = Code::ClaudeInvalidConfig;
    let messages: Vec<String> = problems
        .iter()
        .map(|problem| format!("{} {}", problem.field, problem.message))
        .collect();
    let count = match problems.len() {
        1 => String::new(),
        count => format!("{count} problems: "),
    };
    let error = ProviderError::new("claude", code, format!("{count}{}", messages.join("; ")));
    let mut error = error.with_hint(classify::hint("claude", code));
    error.problems = problems;
    error
}

/// The adapter's options together with those of the context.
fn options(own: &Options, context: &Context) -> Options {
    let config = &context.config;
    Options {
        choices: Choices {
            model: config.model.clone(),
            max_output_tokens: config.max_tokens,
            ..Choices::default()
        },
        timeout: context.timeout,
        cwd: Some(context.workspace.to_string_lossy().into_owned()),
        env: own.env.iter().chain(&context.env).cloned().collect(),
        built_in_tools: true,
        partial_messages: Some(false),
        // The output is never too long for this run: a bounded part of it is kept, and the rest goes to a file.
        max_buffer: usize::MAX,
        // A failed run may have changed the workspace, so it must not be tried again.
        retry: Policy::NEVER,
        system_prompt: match &config.system_prompt {
            Some(text) => SystemPrompt::Custom(text.clone()),
            None => SystemPrompt::Cli,
        },
        permission_mode: config.permission_mode.map(|mode| mode.of_cli().to_owned()),
        workspace: Some(Workspace {
            agent: config.agent_name.clone(),
            append_system_prompt: config.append_system_prompt.clone(),
            allowed_tools: config.allowed_tools.clone(),
        }),
        ..own.clone()
    }
}

/// Everything that is known of a run when it has ended.
struct Ran {
    started_ms: u64,
    duration: Duration,
    ended: Result<Box<Reply>, Box<ProviderError>>,
    stdout: Captured,
    stderr: Captured,
    /// The events of the run, read from its output.
    read: Transcript,
    prompt: String,
    warnings: Vec<(String, String)>,
    /// The folder of the artifacts, and the reason why they are incomplete, if they are.
    artifacts: Option<(PathBuf, Option<io::Error>)>,
}

/// Runs the CLI; `None` if the run was cancelled. No process of it is left when this returns.
async fn run(
    cli: &Arc<CliProvider>,
    workspace: PreparedWorkspace,
    base: Vars,
    cancel: &CancellationToken,
) -> Option<Ran> {
    let PreparedWorkspace { prompt, artifacts } = workspace;
    let (folder, files) = match artifacts {
        Some(Artifacts {
            folder,
            stdout,
            stderr,
            events,
        }) => (Some(folder), (Some(stdout), Some(stderr), Some(events))),
        None => (None, (None, None, None)),
    };
    let stdout = Arc::new(OutputCapture::new(MAX_OUTPUT, files.0));
    let stderr = Arc::new(OutputCapture::new(MAX_STDERR, files.1));
    let tees = Tees {
        stdout: Some(stdout.clone()),
        stderr: Some(stderr.clone()),
    };
    let transcript = Arc::new(TranscriptReader::new(MAX_OUTPUT));
    let mut collector = EventCollector::new(files.2);
    let run = CliProvider::watch(cli, prompt.clone(), tees, transcript.clone(), Some(base));
    let ended = {
        let watching = collector.watch(&run);
        tokio::pin!(watching);
        tokio::select! {
            () = &mut watching => {}
            () = cancel.cancelled() => {
                run.cancel();
                watching.await;
            }
        }
        run.result().await
    };
    let duration = collector.began.elapsed();
    // Processes that the CLI left running would go on writing into the workspace.
    cli.close().await;
    let ended = match ended {
        Ended::Cancelled => return None,
        Ended::Replied(reply) => Ok(reply),
        Ended::Failed(error) => Err(error),
    };
    let (stdout, stderr) = (stdout.take(), stderr.take());
    let events_failed = collector
        .events
        .and_then(|mut events| events.flush().err())
        .or(collector.failed);
    let clone = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
    let failed = [stdout.failed.as_ref(), stderr.failed.as_ref(), events_failed.as_ref()];
    let failed = failed.into_iter().flatten().next().map(clone);
    let mut read = transcript.take();
    read.truncated = stdout.truncated;
    // Output without any event is plain text, and is cut like the output.
    if let Some(plain) = &mut read.plain
        && stdout.truncated
    {
        *plain = strip_ansi(&result::kept_lines(&stdout.text).collect::<String>()).into_owned();
    }
    Some(Ran {
        started_ms: collector.started_ms,
        duration,
        ended,
        stdout,
        stderr,
        read,
        prompt,
        warnings: collector.warnings,
        artifacts: folder.map(|folder| (folder, failed)),
    })
}

/// Observes the events of a run.
struct EventCollector {
    began: Instant,
    started_ms: u64,
    warnings: Vec<(String, String)>,
    events: Option<BufWriter<File>>,
    failed: Option<io::Error>,
}

impl EventCollector {
    fn new(events: Option<File>) -> EventCollector {
        EventCollector {
            began: Instant::now(),
            started_ms: now_ms(),
            warnings: Vec::new(),
            events: events.map(BufWriter::new),
            failed: None,
        }
    }

    /// Takes the events of the run until there are no more.
    async fn watch(&mut self, run: &Run) {
        while let Some(batch) = run.batch().await {
            for event in &batch {
                self.see(event);
            }
            // Written batch by batch, so that a reader of the file meanwhile sees whole lines.
            let flushed = self.events.as_mut().map_or(Ok(()), BufWriter::flush);
            self.note(flushed);
        }
    }

    /// Takes one event: warnings are kept, and every event is written to the artifact.
    fn see(&mut self, event: &Event) {
        match event {
            // The process has started: the time that it waited for a start doesn't count.
            Event::Start { .. } => (self.began, self.started_ms) = (Instant::now(), now_ms()),
            Event::Warning { code, message } if self.warnings.len() < MAX_WARNINGS => {
                self.warnings.push((code.clone(), message.clone()));
            }
            _ => {}
        }
        let written = self.events.as_mut().map_or(Ok(()), |events| {
            serde_json::to_writer(&mut *events, event).map_err(io::Error::from)?;
            events.write_all(b"\n")
        });
        self.note(written);
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.events = None;
            self.failed = Some(error);
        }
    }
}

impl Ran {
    /// Makes the result, and the transcript of the output.
    fn result(self, context: &Context) -> (ExecutionResult, Transcript) {
        let Ran {
            ended,
            stdout,
            stderr,
            read,
            ..
        } = self;
        let duration_ms = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX);
        let completed_ms = self.started_ms.saturating_add(duration_ms);
        let error = ended.as_ref().err();
        let found = verdict(error.map(AsRef::as_ref));
        let record = |code: &str, message: String| ErrorRecord::new(code, message, completed_ms);
        let mut errors: Vec<ErrorRecord> = error
            .map(|error| ErrorRecord::of(error, completed_ms))
            .into_iter()
            .collect();
        if stdout.truncated {
            let message = format!(
                "the output has {} bytes; its beginning and its end are kept",
                stdout.bytes
            );
            errors.push(record(OUTPUT_TRUNCATED, message));
        }
        if let Some((folder, Some(error))) = &self.artifacts {
            let message = format!("the files in {} are not complete: {error}", folder.display());
            errors.push(record("ARTIFACTS_INCOMPLETE", message));
        }
        let mut warnings: Vec<_> = self
            .warnings
            .into_iter()
            .map(|(code, message)| record(&code, message))
            .collect();
        if let Some(degree) = context.config.temperature {
            let message = format!("temperature {degree} is not applied: the CLI has no way to set it");
            warnings.push(record("TEMPERATURE_NOT_APPLIED", message));
        }
        let mut output = stdout.text;
        if !stderr.text.is_empty() && !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&stderr.text);
        let reply = ended.as_ref().ok();
        let usage = reply.map(|reply| reply.usage.clone()).filter(|usage| !usage.estimated);
        let outcome = read.outcome.as_ref();
        let result = ExecutionResult {
            exit_code: found.exit_code,
            status: found.status,
            errors,
            warnings,
            started_at: dfp_model::iso(self.started_ms),
            completed_at: dfp_model::iso(completed_ms),
            duration_ms,
            timed_out: found.timed_out,
            truncated: stdout.truncated,
            signal: error.and_then(|error| error.signal.clone()),
            prompt: self.prompt,
            answer: reply.map(|reply| reply.content.clone()).filter(|text| !text.is_empty()),
            model: reply
                .and_then(|reply| reply.model.clone())
                .or_else(|| read.model.clone()),
            cli_version: read.version.clone(),
            session_id: read.session_id.clone(),
            cost_usd: outcome.and_then(|outcome| outcome.cost_usd),
            num_turns: outcome.and_then(|outcome| outcome.num_turns),
            usage: usage.or_else(|| read.usage.clone()),
            permission_denials: read.denials.clone(),
            artifacts: self.artifacts.map(|(folder, _)| paths(&folder)),
            stderr: stderr.text,
            output,
        };
        (result, read)
    }
}

fn paths(folder: &Path) -> ArtifactPaths {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    ArtifactPaths {
        stdout: path(STDOUT),
        stderr: path(STDERR),
        events: path(EVENTS),
        log: None,
    }
}

/// Writes the log. A failure to do so becomes an error of the result.
fn save_log(log: &RunLog, folder: &Path, result: &mut ExecutionResult) {
    let path = folder.join(LOG);
    let written = serde_json::to_string_pretty(log)
        .map_err(io::Error::from)
        .and_then(|text| context::private(&path)?.write_all(text.as_bytes()));
    match written {
        Ok(()) => {
            if let Some(artifacts) = &mut result.artifacts {
                artifacts.log = Some(path.to_string_lossy().into_owned());
            }
        }
        Err(reason) => result.errors.push(ErrorRecord::new(
            "ARTIFACTS_INCOMPLETE",
            format!("the log can't be written to {}: {reason}", path.display()),
            now_ms(),
        )),
    }
}
