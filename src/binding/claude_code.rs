//! The Claude Code adapter, as JavaScript holds it.

use std::sync::Arc;

use napi_derive::napi;

use super::{environment, outcome};
use crate::claude_code::{self, Adapter, Execution};
use crate::error::ProviderError;
use crate::health;

/// Checks the adapter's options: `{"ok": null}`, or `{"err": …}` that names the option.
#[napi]
pub fn check_claude_code_options(options_json: String) -> String {
    outcome(Adapter::new(&options_json, 0, String::new()).map(|_| ()))
}

/// `{"ok": {"config": schema, "log": schema, "name": …, "version": …}}`.
#[napi]
pub fn claude_code_facts() -> String {
    outcome(claude_code::facts())
}

/// One adapter.
#[napi]
pub struct NativeClaudeCode {
    adapter: Arc<Adapter>,
}

#[napi]
impl NativeClaudeCode {
    /// `options_json` has passed [`check_claude_code_options`]; `node` is the host's version.
    #[napi(constructor)]
    pub fn new(options_json: String, owner: u32, node: String) -> napi::Result<Self> {
        match Adapter::new(&options_json, u64::from(owner), node) {
            Ok(adapter) => Ok(NativeClaudeCode {
                adapter: Arc::new(adapter),
            }),
            Err(error) => Err(napi::Error::from_reason(error.message.clone())),
        }
    }

    /// Begins a run and returns at once. `env_json` as for `NativeProvider::start`.
    #[napi]
    pub fn execute(&self, context_json: String, env_json: Option<String>) -> napi::Result<NativeExecution> {
        let env = environment(env_json)?;
        let start = || Execution::start(&self.adapter, context_json, env);
        Ok(NativeExecution {
            execution: napi::bindgen_prelude::within_runtime_if_available(start),
        })
    }

    /// `{"ok": RunLog}`, or `{"err": …}` for what is no result.
    #[napi]
    pub fn normalize_log(&self, result_json: String, context_json: String) -> String {
        outcome(self.adapter.normalize(&result_json, &context_json))
    }

    /// Begins to look whether the CLI is there and says its version. `env_json` as for `NativeProvider::start`.
    #[napi]
    pub fn look(&self, env_json: Option<String>) -> napi::Result<NativeLook> {
        let env = environment(env_json)?;
        let look = || self.adapter.look(env);
        Ok(NativeLook {
            check: napi::bindgen_prelude::within_runtime_if_available(look),
        })
    }
}

/// One run.
#[napi]
pub struct NativeExecution {
    execution: Execution,
}

#[napi]
impl NativeExecution {
    /// `{"ok": AgentExecutionResult}`, `{"err": …}` for a context that is wrong, or `{"cancelled": true}`.
    #[napi]
    pub async fn result(&self) -> String {
        match self.execution.result().await {
            Ok(Some(result)) => outcome(Ok(result)),
            Ok(None) => r#"{"cancelled":true}"#.to_owned(),
            Err(error) => outcome::<()>(Err(error)),
        }
    }

    /// Ends the run; `result` then says so.
    #[napi]
    pub fn cancel(&self) {
        self.execution.cancel();
    }
}

/// A look at the CLI.
#[napi]
pub struct NativeLook {
    check: Result<health::Check, Box<ProviderError>>,
}

#[napi]
impl NativeLook {
    /// `{"ok": HealthReport}`.
    #[napi]
    pub async fn result(&self) -> String {
        match &self.check {
            Ok(check) => outcome(check.result().await),
            Err(error) => outcome::<()>(Err(error.clone())),
        }
    }
}
