//! The Claude Code adapter: claude at work in a workspace, for test suites that compare agents (CLAUDE-CODE-ADAPTER-DATA-MODEL).
//!
//! ```text
//! context ─context─▶ Options + prompt ─run─▶ events, copies of the output ─result─▶ ExecutionResult
//!                                                            └▶ lines, as they are decoded ─reader─▶ Transcript ─log─▶ RunLog
//! ```
//!
//! The CLI is started like every other run (`run`), but works as itself: with its own tools, in the user's folder, with the
//! project's settings, instructions and agents. The differences are data of the provider ([`options::Workspace`]).

mod context;
mod execute;
mod log;
mod result;
mod transcript;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

pub use execute::Execution;
pub use log::{ADAPTER_VERSION, NAME, RunLog};

use dfp_health::{Check, Checkable, Level};
use dfp_model::error::{Code, ProviderError};
use dfp_process::Vars;
use dfp_provider::claude::CLAUDE;
use dfp_provider::options::{self, EngineKind, Kind, OptionSpec, Options};
use dfp_run::CliProvider;

/// The JSON Schema of a config.
pub const CONFIG_SCHEMA: &str = include_str!("../../../docs/schemas/claude-code-config.schema.json");
/// The JSON Schema of a log.
pub const LOG_SCHEMA: &str = include_str!("../../../docs/schemas/run-log.schema.json");

/// The option `saveLog`: the log is written beside the artifacts.
const SAVE_LOG: OptionSpec = OptionSpec {
    name: "saveLog",
    kind: Kind::Flag,
};

/// The options of an adapter.
const OPTIONS: &[OptionSpec] = &[
    options::CLI_PATH,
    options::ENV,
    options::AUTH,
    options::KILL_GRACE,
    options::MAX_CONCURRENCY,
    options::MAX_RETRIES,
    SAVE_LOG,
];

/// One adapter: the options that all its runs share.
#[derive(Debug)]
pub struct Adapter {
    options: Options,
    saves_log: bool,
    owner: u64,
    /// The host's version, for the log.
    node: String,
    /// The provider that is used to look at the CLI. Each run has one of its own.
    cli: Arc<CliProvider>,
}

impl Adapter {
    /// An adapter with the options of `options_json`. Its processes belong to `owner`. `node` is the host's version.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, its value and what is allowed.
    pub fn new(options_json: &str, owner: u64, node: String) -> Result<Adapter, Box<ProviderError>> {
        let mut fields = options::checked("claude", OPTIONS, options_json)?;
        let saves_log = fields.remove(SAVE_LOG.name) == Some(Value::Bool(true));
        let options = Options {
            // The CLI works by itself, in one process for each task.
            engine: EngineKind::Print,
            ..Options::read(&CLAUDE, &fields)?
        };
        let cli = CliProvider::of(std::borrow::Cow::Borrowed(&CLAUDE), options.clone(), owner);
        Ok(Adapter {
            options,
            saves_log,
            owner,
            node,
            cli: Arc::new(cli),
        })
    }

    /// The normalised log of a result in its context, both as JSON.
    ///
    /// # Errors
    /// `INVALID_OPTION`: `result` is not the JSON of a result, or `context` not that of an object.
    pub fn normalize(&self, result: &str, context: &str) -> Result<RunLog, Box<ProviderError>> {
        log::normalize(result, context, &self.node)
    }

    /// Begins to check that the CLI is installed and tells its version. Must be called inside the runtime.
    ///
    /// # Errors
    /// `INTERNAL` only, for a bug: the adapter's provider is never closed.
    pub fn look(&self, env: Option<Vars>) -> Result<Check, Box<ProviderError>> {
        Arc::clone(&self.cli).check(Level::Version, env)
    }
}

/// Facts about the adapter that the façade has without making one.
#[derive(Debug, serde::Serialize)]
pub struct Facts {
    name: &'static str,
    version: &'static str,
    config: Value,
    log: Value,
}

/// The adapter's name and version, and both schemas.
///
/// # Errors
/// `INTERNAL`: a schema is not JSON, which a test excludes.
pub fn facts() -> Result<Facts, Box<ProviderError>> {
    let read = |text: &str| {
        serde_json::from_str(text)
            .map_err(|error| Box::new(ProviderError::new("claude", Code::Internal, error.to_string())))
    };
    Ok(Facts {
        name: NAME,
        version: ADAPTER_VERSION,
        config: read(CONFIG_SCHEMA)?,
        log: read(LOG_SCHEMA)?,
    })
}
