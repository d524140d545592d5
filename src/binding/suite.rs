//! The system's part in a suite of tasks: a lock on its folder, and the commands that judge its tasks.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use super::checkpoint::blocking;
use super::environment::{promise, variables};
use super::{from_json, outcome};
use dfp_model::error::ProviderError;
use dfp_process::{ShellCommand, Vars, run_shell};
use dfp_record::checkpoint;

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
