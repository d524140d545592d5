//! An agent's run, as JavaScript holds it; and what a suite of tasks that compares agents needs: the Claude Code adapter, a lock on the
//! suite's folder, and the commands that judge its tasks.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::{PromiseRaw, within_runtime_if_available};
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use super::record::blocking;
use super::{Made, from_json, outcome, promise, variables};
use dfp_agent::claude_code::{self, Adapter, Execution};
use dfp_agent::{Agent, AgentRun, Conversation};
use dfp_health::Check;
use dfp_model::error::ProviderError;
use dfp_model::message::well_formed;
use dfp_process::{ShellCommand, Vars, run_shell};
use dfp_record::checkpoint;
use dfp_run::Model;

/// A model that an agent can talk to. A provider makes its own by `model()`.
#[napi]
pub struct NativeModel {
    pub(super) model: Arc<dyn Model>,
}

/// A run that is read and not begun.
#[napi]
pub struct NativeAgent {
    agent: Mutex<Result<Option<Agent>, Box<ProviderError>>>,
    models: Mutex<Vec<Conversation>>,
}

#[napi]
impl NativeAgent {
    /// Reads and checks the specification of a run; `check` reports what is wrong with it.
    #[napi(constructor, catch_unwind)]
    pub fn new(spec_json: String) -> Self {
        NativeAgent {
            agent: Mutex::new(Agent::new(&well_formed(spec_json)).map(Some)),
            models: Mutex::default(),
        }
    }

    /// `{"ok": null}`, or `{"err": …}` that names the field.
    #[napi(catch_unwind)]
    pub fn check(&self) -> String {
        let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        outcome(agent.as_ref().map(|_| ()).map_err(Clone::clone))
    }

    /// Adds the model of the spec's next agent: `{"ok": null}`, or `{"err": …}` if it can't deliver calls as the agent wants them.
    #[napi(catch_unwind)]
    pub fn add_model(&self, model: &NativeModel) -> String {
        let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let agent = agent.as_ref().ok().and_then(Option::as_ref);
        let (way, path) = agent
            .and_then(|agent| agent.tool_calls(models.len()))
            .unwrap_or_default();
        outcome(Conversation::new(&model.model, way, &path).map(|model| models.push(model)))
    }

    /// Has the run go on after the entries of earlier attempts, a JSON array of texts, and stores entries from then on: `{"ok":
    /// null}` or `{"err": …}`. To be called after the models were added.
    #[napi(catch_unwind)]
    pub fn resume(&self, entries_json: String) -> String {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        outcome(match agent.as_mut() {
            Ok(Some(agent)) => agent.resume(&entries_json, &models),
            Ok(None) => Ok(()),
            Err(error) => Err(error.clone()),
        })
    }

    /// Begins the run and returns at once; can be called once. `env_json` as for `NativeProvider.start`. A run that is already
    /// `cancelled` asks no model.
    #[napi(catch_unwind)]
    pub fn start(&self, env_json: Option<String>, cancelled: bool) -> napi::Result<NativeAgentRun> {
        let env = variables(env_json)?;
        let models = std::mem::take(&mut *self.models.lock().unwrap_or_else(PoisonError::into_inner));
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(Some(agent)) = agent.as_mut().map(Option::take) else {
            return Err(napi::Error::from_reason("it can't be run, or was run before"));
        };
        let run = within_runtime_if_available(|| agent.start(models, env, cancelled));
        match run {
            Ok(run) => Ok(NativeAgentRun { run: Arc::new(run) }),
            Err(error) => Err(napi::Error::from_reason(error.message.clone())),
        }
    }
}

/// One run under way.
#[napi]
pub struct NativeAgentRun {
    run: Arc<AgentRun>,
}

#[napi]
impl NativeAgentRun {
    /// The next batch of events and requests as a JSON array; `null` when no more will come.
    #[napi(catch_unwind)]
    pub fn next<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Option<String>>> {
        let run = Arc::clone(&self.run);
        promise(env, async move { run.next().await })
    }

    /// `{"ok": result}` or `{"err": …}`, once everything the run has started has ended.
    #[napi(catch_unwind)]
    pub fn result<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let run = Arc::clone(&self.run);
        promise(env, async move { outcome(run.result().await) })
    }

    /// Answers the request `execute` with this number.
    #[napi(catch_unwind)]
    pub fn complete(&self, request: u32, answer_json: String) -> napi::Result<()> {
        let done = self.run.complete(request, &well_formed(answer_json));
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Answers the request `ask` with this number.
    #[napi(catch_unwind)]
    pub fn decide(&self, request: u32, decision_json: String) -> napi::Result<()> {
        let done = self.run.decide(request, &well_formed(decision_json));
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Answers the request `append` with this number: `null`, or `{"locked", "message"}`.
    #[napi(catch_unwind)]
    pub fn stored(&self, request: u32, answer_json: String) -> napi::Result<()> {
        let done = self.run.stored(request, &answer_json);
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Cancels the run; `result` then reports that.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.run.cancel();
    }
}

// A suite: the Claude Code adapter, and the system's part.

/// The adapter's facts: `{"ok": {"config": schema, "log": schema, "name": …, "version": …}}`.
#[napi(catch_unwind)]
pub fn claude_code_facts() -> String {
    outcome(claude_code::facts())
}

/// One adapter.
#[napi]
pub struct NativeClaudeCode {
    adapter: Made<Adapter>,
}

#[napi]
impl NativeClaudeCode {
    /// Makes an adapter; [`NativeClaudeCode::check`] reports what is wrong with the options. `node` is the host's version.
    #[napi(constructor, catch_unwind)]
    pub fn new(options_json: String, owner: u32, node: String) -> Self {
        NativeClaudeCode {
            adapter: Made(Adapter::new(&well_formed(options_json), u64::from(owner), node).map(Arc::new)),
        }
    }

    /// `{"ok": null}`, or `{"err": …}` that names the option.
    #[napi(catch_unwind)]
    pub fn check(&self) -> String {
        self.adapter.check()
    }

    /// Begins a run and returns at once. `env_json` as for `NativeProvider::start`.
    #[napi(catch_unwind)]
    pub fn execute(&self, context_json: String, env_json: Option<String>) -> napi::Result<NativeExecution> {
        let env = variables(env_json)?;
        let adapter = self.adapter.get()?;
        let start = || Execution::start(adapter, well_formed(context_json), env);
        Ok(NativeExecution {
            execution: Arc::new(within_runtime_if_available(start)),
        })
    }

    /// `{"ok": RunLog}`, or `{"err": …}` if `result_json` is no result.
    #[napi(catch_unwind)]
    pub fn normalize_log(&self, result_json: String, context_json: String) -> napi::Result<String> {
        Ok(outcome(self.adapter.get()?.normalize(&result_json, &context_json)))
    }

    /// Begins to check that the CLI is installed and tells its version. `env_json` as for `NativeProvider::start`.
    #[napi(catch_unwind)]
    pub fn look(&self, env_json: Option<String>) -> napi::Result<NativeLook> {
        let env = variables(env_json)?;
        let adapter = self.adapter.get()?;
        let look = || adapter.look(env);
        Ok(NativeLook {
            check: Arc::new(within_runtime_if_available(look)),
        })
    }
}

/// One run of the adapter.
#[napi]
pub struct NativeExecution {
    execution: Arc<Execution>,
}

#[napi]
impl NativeExecution {
    /// `{"ok": AgentExecutionResult}`, `{"err": …}` for a context that is wrong, or `{"cancelled": true}`.
    #[napi(catch_unwind)]
    pub fn result<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let execution = Arc::clone(&self.execution);
        promise(env, async move {
            match execution.result().await {
                Ok(Some(result)) => outcome(Ok(result)),
                Ok(None) => r#"{"cancelled":true}"#.to_owned(),
                Err(error) => outcome::<()>(Err(error)),
            }
        })
    }

    /// Cancels the run; `result` then reports that.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.execution.cancel();
    }
}

/// A check of the CLI.
#[napi]
pub struct NativeLook {
    check: Arc<Result<Check, Box<ProviderError>>>,
}

#[napi]
impl NativeLook {
    /// The report of the check: `{"ok": HealthReport}`.
    #[napi(catch_unwind)]
    pub fn result<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let check = Arc::clone(&self.check);
        promise(env, async move {
            match check.as_ref() {
                Ok(check) => outcome(check.result().await),
                Err(error) => outcome::<()>(Err(error.clone())),
            }
        })
    }
}

/// A file that one process at a time can lock, until it releases the lock or ends in any way.
#[napi]
pub struct NativeLock {
    path: PathBuf,
    held: Arc<Mutex<Option<File>>>,
}

#[napi]
impl NativeLock {
    /// A lock on the file at `path`. Nothing is made yet.
    #[napi(constructor, catch_unwind)]
    pub fn new(path: String) -> Self {
        NativeLock {
            path: PathBuf::from(path),
            held: Arc::default(),
        }
    }

    /// Takes the lock on the file, which is made if it doesn't exist: `{"ok": true}`, `{"ok": false}` if another process has the
    /// lock, or `{"err": …}`.
    #[napi(catch_unwind)]
    pub fn take<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let (path, held) = (self.path.clone(), Arc::clone(&self.held));
        blocking(env, move || {
            let Some(file) = checkpoint::lock(&path)? else {
                return Ok(false);
            };
            *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
            Ok(true)
        })
    }

    /// Releases the lock. The file stays.
    #[napi(catch_unwind)]
    pub fn release(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A command line for the system's shell.
#[napi]
pub struct NativeShell {
    command: ShellCommand,
    base: Arc<Vars>,
    owner: u64,
    cancel: CancellationToken,
}

#[napi]
impl NativeShell {
    /// `command_json`: `{command, cwd, timeout}`; `env_json` as for `NativeProvider::start`. Nothing is started yet.
    #[napi(constructor, catch_unwind)]
    pub fn new(command_json: String, owner: u32, env_json: Option<String>) -> napi::Result<Self> {
        Ok(NativeShell {
            command: from_json(&command_json)?,
            base: Arc::new(variables(env_json)?.unwrap_or_else(|| std::env::vars_os().collect())),
            owner: u64::from(owner),
            cancel: CancellationToken::new(),
        })
    }

    /// Runs the command: `{"ok": {exitCode, timedOut, output}}` or `{"err": …}`, once all of its processes have ended.
    #[napi(catch_unwind)]
    pub fn run<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let (command, base) = (self.command.clone(), Arc::clone(&self.base));
        let run = run_shell(command, base, self.owner, self.cancel.clone());
        promise(env, async move {
            outcome(run.await.map_err(|error| {
                let reason = format!("the shell can't be started: {error}");
                Box::new(ProviderError::new("shell", error.code(), reason))
            }))
        })
    }

    /// Cancels the command. Does nothing after its end.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}
