//! The print engine: one process, one prompt, one reply.
//!
//! In: a [`CommandLine`]. Out: the decoder's events, as they come, and at the end the evidence for the judge. The run's files (an
//! empty folder, private files) are gone when this returns.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::installed;
use super::scratch::{self, Scratch};
use super::{Ended, EndedProcess, Exchange, Invocation, StopReason, Unusable};
use dfp_model::event::{Event, Failure};
use dfp_process::activity::Label;
use dfp_process::limit::Permit;
use dfp_process::{
    End, EnvPlan, Exit, InUse, Output, ProcessLimits, Resolved, Running, Spec, StartError, StderrWatch, Stdin,
    StdinWriter, Tees, Vars, Waiting,
};
use dfp_provider::Provider;
use dfp_provider::command::{Arg, CommandLine, Cwd, EnvText};
use dfp_provider::options::LaunchEnv;
use dfp_text::decode::{Decoder, LineObserver, Wire, failure_of};

/// The length of the end of standard output that an error carries, bytes.
pub(super) const TAIL_BYTES: usize = 2_048;

/// The most output outside of the wire format that is kept, bytes: a run may print without limit.
const MAX_PLAIN: usize = 64 * 1024 * 1024;

/// A running process, and the decoder of its output.
#[derive(Debug)]
pub struct Print {
    running: Running,
    decoder: Decoder,
    tail: VecDeque<u8>,
    /// The number of decoded bytes of standard output.
    decoded_bytes: u64,
    /// The number of decoded bytes at which the output was complete.
    complete_at: Option<u64>,
    invocation: Invocation,
    limits: ProcessLimits,
    /// The kinds of failures after which the CLI would never end by itself.
    stop_on: &'static [&'static str],
    /// The tools that the CLI offers its model, until somebody asks for them.
    offered: Option<Vec<String>>,
    /// The CLI's own tool through which its answer comes.
    answer_tool: Option<&'static str>,
    /// The beginnings of lines of standard error after which the CLI would be silent for longer than anyone waits.
    long_pauses: &'static [&'static str],
    stderr: StderrWatch,
    /// The amount of text that may be printed before its end may be lost.
    whole_text: Option<u64>,
    /// True if a hopeless failure has come: the process was ended from here, so its end says nothing about the run.
    is_hopeless: bool,
    /// The caller's wish to end the process.
    cancel: CancellationToken,
    cancel_process: CancellationToken,
}

/// The value of the variable `name` for the process, unless it is a place in its private folder.
pub fn variable(line: &CommandLine, base: &Arc<Vars>, name: &str) -> Option<OsString> {
    // Behind a launcher, only the variables that go along are known.
    let base = match line
        .launch
        .as_ref()
        .is_some_and(|launch| launch.env != LaunchEnv::Inherit)
    {
        true => Arc::default(),
        false => Arc::clone(base),
    };
    environment(line, base, None).get(name)
}

/// Plans the environment of `line`. Without a `scratch`, variables that name a place in it are left out.
fn environment(line: &CommandLine, base: Arc<Vars>, scratch: Option<&Scratch>) -> EnvPlan {
    let place = |value: &EnvText| match value {
        EnvText::Text(text) => Some(text.into()),
        EnvText::Cwd if line.is_out_of_reach() => None,
        EnvText::Cwd => cwd(line, scratch)
            .or_else(|| std::env::current_dir().ok())
            .map(Into::into),
        EnvText::Folder(name) | EnvText::File(name) => Some(scratch?.file(name).into()),
    };
    EnvPlan {
        base: Some(base),
        drop: line.drop_env.iter().map(Into::into).collect(),
        set: line
            .set_env
            .iter()
            .filter_map(|(name, value)| Some((name.into(), place(value)?)))
            .collect(),
        user: line
            .user_env
            .iter()
            .map(|(name, value)| (name.into(), value.as_ref().map(Into::into)))
            .collect(),
    }
}

/// The folder that the process runs in; `None` for Node's own folder.
fn cwd(line: &CommandLine, scratch: Option<&Scratch>) -> Option<PathBuf> {
    match &line.cwd {
        Cwd::Inherit => None,
        Cwd::Path(path) => Some(PathBuf::from(path)),
        Cwd::Private => scratch.map(Scratch::folder),
    }
}

/// `key="path"` in TOML.
fn setting(key: &str, path: &Path) -> String {
    let path = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("{key}=\"{path}\"")
}

/// The things that a process needs beside its command line.
#[derive(Debug)]
pub struct Surroundings {
    /// The file to execute, if it was found before; otherwise it is searched on the process's PATH.
    pub file: Option<Resolved>,
    /// The host's environment, as it was when the call was made.
    pub base_env: Arc<Vars>,
    /// The limits at which the process is ended.
    pub limits: ProcessLimits,
    /// The owner of the process.
    pub owner: u64,
    /// The process's place among those that may run at once, held until it exits. `None` if each of its turns holds a place, and
    /// for a process that is over in a moment.
    pub permit: Option<Permit>,
    /// Tracks the process until nothing of it is left.
    pub tracker: TaskTracker,
    /// The receivers of copies of its output.
    pub tees: Tees,
}

/// The reason why there is no process that takes calls.
#[derive(Debug)]
pub enum NotStarted {
    /// The process module's reason.
    Process(StartError),
    /// The private folder could not be made in the folder for temporary files.
    Scratch { folder: PathBuf, source: io::Error },
    /// The program gets this as a file of this package, which it can't reach behind its launcher.
    OutOfReach(String),
    /// The system gives no port for the process's tools.
    Tools(io::Error),
    /// The program lacks something that is needed, for this reason.
    Unsupported(String),
    /// The process has refused to serve, in these words. The cause may be something other than the program.
    Refused(String),
    /// The process has ended before it was ready.
    Ended(Option<Arc<Exit>>),
}

/// Plans the process for `line` with `stdin`, and makes the private folder that it needs, which must outlive the process.
fn spec(
    mut line: CommandLine,
    stdin: Stdin,
    surroundings: Surroundings,
) -> Result<(Spec, Option<Scratch>), NotStarted> {
    if line.is_out_of_reach() {
        if let Some(what) = line.needs_file() {
            return Err(NotStarted::OutOfReach(what));
        }
        // What no argument names would be made in vain.
        line.files.clear();
    }
    scratch::prepare_home(&mut line, |line, name| variable(line, &surroundings.base_env, name));
    let scratch = Scratch::for_line(&line, surroundings.owner).map_err(|source| NotStarted::Scratch {
        folder: std::env::temp_dir(),
        source,
    })?;
    if let Some((session, scratch)) = line.session.as_ref().zip(scratch.as_ref()) {
        let cwd = cwd(&line, Some(scratch)).map_or_else(std::env::current_dir, Ok);
        cwd.and_then(|cwd| scratch::write_session(session, &scratch.path(), &cwd))
            .map_err(|source| NotStarted::Scratch {
                folder: std::env::temp_dir(),
                source,
            })?;
    }
    let env = environment(&line, surroundings.base_env, scratch.as_ref());
    let cwd = cwd(&line, scratch.as_ref());
    let launch = line.launch.take();
    let file = |name: &str| scratch.as_ref().map_or_else(PathBuf::new, |scratch| scratch.file(name));
    let args = line.args.into_iter().map(|arg| match arg {
        Arg::Text(text) => text.into(),
        Arg::File(name) => file(name).into(),
        Arg::FileSetting(key, name) => setting(key, &file(name)).into(),
        Arg::MediaFile(prefix, name) => {
            let mut arg = OsString::from(prefix);
            arg.push(file(&name));
            arg
        }
    });
    let mut spec = Spec {
        program: line.program.into(),
        resolved: surroundings.file,
        args: args.collect(),
        #[cfg(windows)]
        verbatim: None,
        env,
        run_id: None,
        cwd,
        stdin,
        limits: surroundings.limits,
        label: Some(Label {
            provider: line.provider,
            engine: line.engine.name(),
        }),
        owner: surroundings.owner,
        permit: surroundings.permit,
        waiting: Waiting::Auto,
        guarded: true,
        tracker: surroundings.tracker,
        tees: surroundings.tees,
        in_use: None,
    };
    if let Some(launch) = &launch {
        installed::put_before(launch, &mut spec).map_err(NotStarted::Process)?;
    }
    Ok((spec, scratch))
}

/// Holds the private folder until the process has exited.
fn in_use(scratch: Option<Scratch>) -> Option<InUse> {
    scratch.map(|scratch| Arc::new(scratch) as InUse)
}

/// Starts the process that `line` describes with `stdin`, in the private folder it needs.
pub(super) fn launch(
    line: CommandLine,
    stdin: Stdin,
    surroundings: Surroundings,
    cancel: &CancellationToken,
) -> Result<(Running, Option<Scratch>), NotStarted> {
    launch_with(line, stdin, surroundings, cancel, |_, _| Ok(()))
}

/// Starts a process whose input stays open, with its private folder. `prepare` first writes into that, and is told the folder that
/// the process runs in.
pub(super) fn launch_open(
    line: CommandLine,
    surroundings: Surroundings,
    cancel: &CancellationToken,
    prepare: impl FnOnce(&Scratch, &Path) -> io::Result<()>,
) -> Result<(Running, StdinWriter, Option<Scratch>), NotStarted> {
    let file = PathBuf::from(&line.program);
    let (mut running, scratch) = launch_with(line, Stdin::Open, surroundings, cancel, prepare)?;
    let stdin = running.stdin().ok_or_else(|| {
        let source = io::Error::from(io::ErrorKind::BrokenPipe);
        NotStarted::Process(StartError::Os { file, source })
    })?;
    Ok((running, stdin, scratch))
}

fn launch_with(
    line: CommandLine,
    stdin: Stdin,
    surroundings: Surroundings,
    cancel: &CancellationToken,
    prepare: impl FnOnce(&Scratch, &Path) -> io::Result<()>,
) -> Result<(Running, Option<Scratch>), NotStarted> {
    let (spec, scratch) = spec(line, stdin, surroundings)?;
    if let Some(scratch) = &scratch {
        let cwd = spec.cwd.clone().map_or_else(std::env::current_dir, Ok);
        cwd.and_then(|cwd| prepare(scratch, &cwd))
            .map_err(|source| NotStarted::Scratch {
                folder: std::env::temp_dir(),
                source,
            })?;
    }
    let running = dfp_process::start(spec, cancel.clone()).map_err(NotStarted::Process)?;
    Ok((running, scratch))
}

/// Runs `line` to its end, undecoded.
///
/// # Errors
/// [`NotStarted`].
pub async fn output(
    mut line: CommandLine,
    surroundings: Surroundings,
    cancel: &CancellationToken,
) -> Result<Output, NotStarted> {
    let stdin = Stdin::Bytes(std::mem::take(&mut line.stdin).into());
    let (mut spec, scratch) = spec(line, stdin, surroundings)?;
    spec.in_use = in_use(scratch);
    dfp_process::output(spec, cancel.clone())
        .await
        .map_err(NotStarted::Process)
}

impl Print {
    /// Starts the process that `line` describes, a command line of `provider`; `cancel` ends it.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub fn start(
        mut line: CommandLine,
        provider: &Provider,
        surroundings: Surroundings,
        cancel: &CancellationToken,
    ) -> Result<Print, NotStarted> {
        let invocation = Invocation::of(&provider.id, &line);
        let limits = surroundings.limits;
        let invocation_is_text = line.wire == Wire::Text;
        let answer_tool = provider.schema.tool().filter(|_| line.has_schema);
        let mut decoder = Decoder::new(line.wire).keeping(limits.max_stdout.min(MAX_PLAIN));
        if line.ends_at_limit {
            decoder = decoder.ending_at_limit();
        }
        let stdin = Stdin::Bytes(std::mem::take(&mut line.stdin).into());
        let (mut spec, scratch) = spec(line, stdin, surroundings)?;
        spec.in_use = in_use(scratch);
        let cancel_process = cancel.child_token();
        let running = dfp_process::start(spec, cancel_process.clone()).map_err(NotStarted::Process)?;
        Ok(Print {
            stderr: running.stderr_watch(),
            running,
            decoder,
            tail: VecDeque::new(),
            decoded_bytes: 0,
            complete_at: None,
            invocation,
            limits,
            stop_on: provider.stop_on,
            long_pauses: provider.errors.long_pauses,
            whole_text: provider.errors.whole_text.filter(|_| invocation_is_text),
            answer_tool,
            offered: None,
            is_hopeless: false,
            cancel: cancel.clone(),
            cancel_process,
        })
    }

    /// Sets an `observer` of every line that the process prints, as it is decoded. Must be set before the first line.
    pub fn set_observer(&mut self, observer: Arc<dyn LineObserver>) {
        self.decoder.set_observer(observer);
    }

    /// The running process.
    pub fn process(&self) -> &Running {
        &self.running
    }

    /// The tools that the CLI offers its model, by its own names, if it has just told them.
    pub fn take_offered(&mut self) -> Option<Vec<String>> {
        self.offered.take()
    }

    /// Ends a CLI that would never end by itself after one of `events`.
    fn end_if_hopeless(&mut self, events: &[Event]) {
        let is_hopeless = events.iter().any(|event| match event {
            Event::Failure(failure) => self.stop_on.contains(&failure.kind.as_deref().unwrap_or_default()),
            _ => false,
        });
        if is_hopeless {
            self.is_hopeless = true;
            // claude 2.1.332 would use a grace to ask its API for the rest of an answer.
            self.running.kill();
        }
    }

    /// Ends a CLI whose failure is known, so that its end says nothing more.
    pub fn give_up(&mut self) {
        self.is_hopeless = true;
        self.cancel_process.cancel();
    }
}

/// The kind of failure, in the error rules, of a CLI that does not offer bound tools when a turn begins.
const NOT_OFFERED: &str = "tools_not_offered";

/// The failure of a CLI that does not offer these tools to its model.
pub fn not_offered(tools: &[String]) -> Failure {
    let reason = format!("the CLI does not offer its model what is bound: {}", tools.join(", "));
    Failure::named(NOT_OFFERED, reason)
}

/// The warning that a CLI which was given a schema does not offer its model `answer_tool`, through which a fitting answer comes:
/// the CLI could not compile the schema, and says so nowhere (claude live, and 2.1.197 in print form).
pub(super) fn schema_left_out(answer_tool: Option<&str>, offered: &[String]) -> Option<Event> {
    let tool = answer_tool?;
    let is_offered = offered.iter().any(|name| name == tool);
    (!is_offered).then(|| Event::Warning {
        code: "OUTPUT_SCHEMA_EMULATED".to_owned(),
        message: "the CLI has left out `outputSchema`, which it can't compile: its model learns of it if its first answer does not fit"
            .to_owned(),
    })
}

/// Waits until standard error says that the process pauses for longer than anyone waits; the result is the failure that it names.
/// Cancel safe.
pub(super) async fn long_pause(stderr: &StderrWatch, long_pauses: &[&str]) -> Failure {
    if long_pauses.is_empty() {
        return pending().await;
    }
    loop {
        let grown = stderr.stderr_grew();
        if let Some(failure) = pause_in(&stderr.text(), long_pauses) {
            return failure;
        }
        grown.await;
    }
}

/// The failure that a line of `stderr` names before a long pause.
fn pause_in(stderr: &str, long_pauses: &[&str]) -> Option<Failure> {
    let mut lines = stderr.lines();
    lines.find_map(|line| {
        let rest = long_pauses.iter().find_map(|begin| line.strip_prefix(begin))?;
        let (_, reason) = rest.split_once("): ")?;
        // A line is complete only with its closing bracket.
        reason.ends_with(']').then(|| failure_of(reason))
    })
}

/// The process keeps its limits: when one passes, the received output decides whether it was too late, and silence does not count
/// while the CLI waits for the caller.
#[async_trait]
impl Exchange for Print {
    fn keeps_limits(&self) -> bool {
        true
    }

    fn pid(&self) -> Option<u32> {
        Some(self.running.pid())
    }

    fn elapsed(&self) -> Duration {
        self.running.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.decoded_bytes
    }

    /// Decodes the next piece of output. A long pause that standard error announces, and a failure after which the CLI would
    /// never end, end the process. A call of the CLI's answer tool becomes the answer.
    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        let bytes = tokio::select! {
            biased;
            bytes = self.running.next() => bytes,
            failure = long_pause(&self.stderr, self.long_pauses), if !self.is_hopeless => {
                events.push(Event::Failure(failure));
                self.give_up();
                return ControlFlow::Continue(());
            }
        };
        let Some(bytes) = bytes else {
            self.decoder.finish(events);
            return ControlFlow::Break(());
        };
        let before = events.len();
        self.decoder.push(&bytes, events);
        self.decoded_bytes += bytes.len() as u64;
        if let Some(offered) = self.decoder.take_offered() {
            events.extend(schema_left_out(self.answer_tool, &offered));
            self.offered = Some(offered);
        }
        // From then on the process is not waited for longer than its grace: some don't exit by themselves.
        self.complete_at = match self.decoder.is_complete() {
            true => self.complete_at.or(Some(self.decoded_bytes)),
            false => None,
        };
        self.running.set_complete(self.complete_at.is_some());
        self.tail.extend(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
        self.end_if_hopeless(&events[before..]);
        for event in &mut events[before..] {
            if let Event::ToolCall { tool_call } = event
                && Some(tool_call.name.as_str()) == self.answer_tool
            {
                let tool_call = tool_call.clone();
                *event = Event::Answer { tool_call };
            }
        }
        ControlFlow::Continue(())
    }

    fn stop(&mut self, _reason: StopReason) {
        self.cancel_process.cancel();
    }

    async fn finish(self: Box<Self>) -> Result<Box<Ended>, Unusable> {
        let tail: Vec<u8> = self.tail.into();
        let mut exit = self.running.exit().await;
        // A time limit that passed when all output had come already, only not been decoded yet, has cut nothing off.
        let whole = self.complete_at.is_some_and(|at| at <= exit.stdout_bytes_at_end);
        let is_complete = whole && matches!(exit.end, End::Timeout | End::IdleTimeout);
        let was_ended = matches!(exit.end, End::Cancelled | End::Closed);
        let hopeless = self.is_hopeless && was_ended && !self.cancel.is_cancelled();
        if is_complete || hopeless {
            exit = Exit {
                end: if hopeless { End::Exited } else { End::Lingered },
                code: None,
                signal: None,
                ..exit
            };
        }
        let process = EndedProcess {
            exit,
            plain: self.decoder.plain_text(),
            cut_short: self.decoder.cut_short() || self.whole_text.is_some_and(|most| self.decoded_bytes >= most),
            dropped_line: self.decoder.dropped_line(),
            diagnostics: self.decoder.diagnostics().to_vec(),
            stdout_tail: String::from_utf8_lossy(&tail).into_owned(),
        };
        Ok(Box::new(self.invocation.ended(process, &self.limits)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_pause_is_known_by_its_line() {
        let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/recordings/qwen-0.24.4");
        let pause =
            |text: &str| pause_in(text, &["Retrying in "]).map(|failure| (failure.http_status, failure.message));
        for (case, expected) in [
            (
                "err-429-stream-json",
                Some((Some(429), "429 Rate limit reached".to_owned())),
            ),
            ("err-429-json", Some((Some(429), "429 Rate limit reached".to_owned()))),
            (
                "err-503-fallback-model-stream-json",
                Some((Some(503), "503 busy".to_owned())),
            ),
            ("err-500-stream-json", None),
            ("empty-stream-json", None),
        ] {
            let stderr = std::fs::read_to_string(recordings.join(format!("{case}.stderr"))).unwrap();
            assert_eq!(pause(&stderr), expected, "{case}");
        }
        assert_eq!(
            pause("Retrying in 60s (attempt 1/10): [API Error: 42"),
            None,
            "not all of it has come"
        );
        assert_eq!(
            pause("the model: Retrying in 60s (attempt 1/10): [API Error: 429 x]"),
            None
        );
    }
}
