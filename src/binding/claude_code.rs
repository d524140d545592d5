//! The Claude Code adapter, as JavaScript holds it.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;

use super::environment::{promise, variables};
use super::{Made, outcome};
use dfp_agent::claude_code::{self, Adapter, Execution};
use dfp_model::error::ProviderError;
use dfp_model::message::well_formed;

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
            execution: Arc::new(napi::bindgen_prelude::within_runtime_if_available(start)),
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
            check: Arc::new(napi::bindgen_prelude::within_runtime_if_available(look)),
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
    check: Arc<Result<dfp_health::Check, Box<ProviderError>>>,
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
