//! The Claude Code adapter: claude at work in a workspace, for test suites that compare agents (CLAUDE-CODE-ADAPTER-DATA-MODEL); and
//! the normalised log of its runs.
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
mod result;
mod transcript;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use execute::Execution;

use context::Context;
use dfp_health::{Check, Checkable, Level};
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::Usage;
use dfp_process::Vars;
use dfp_provider::classify::{self, FailureFacts};
use dfp_provider::claude::CLAUDE;
use dfp_provider::options::{self, EngineKind, Kind, OptionSpec, Options};
use dfp_run::CliProvider;
use dfp_text::redact::{Channel, Redactor};
use result::{ErrorRecord, ExecutionResult, OUTPUT_TRUNCATED, SuiteStatus, document_code};
use transcript::{Denial, Message, Transcript, TranscriptCall, UNKNOWN};

/// The version of the log's form.
const LOG_VERSION: &str = "1.0.0";
/// The version of the adapter.
pub const ADAPTER_VERSION: &str = "1.0.0";
/// The adapter's name.
pub const NAME: &str = "claude-code";

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
        normalize(result, context, &self.node)
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
#[derive(Debug, Serialize)]
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

// The normalised log of a run, whose form doesn't depend on how the run went (the document's YouBenchaLog). In: a result and its
// context, as values or as JSON, and facts about the host. Out: a [`RunLog`]. Pure: it depends on nothing else.

/// The normalised log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunLog {
    version: &'static str,
    agent_info: AgentInfo,
    model_info: ModelInfo,
    execution: LoggedExecution,
    messages: Vec<Message>,
    tool_calls: Vec<TranscriptCall>,
    usage: Tokens,
    errors: Vec<ErrorRecord>,
    warnings: Vec<ErrorRecord>,
    environment: Environment,
}

/// The agent: the CLI and this adapter.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct AgentInfo {
    name: &'static str,
    version: String,
    adapter_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<String>,
}

/// The model that answered, and the one that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ModelInfo {
    name: String,
    provider: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<String>,
}

/// The time and the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct LoggedExecution {
    started_at: String,
    completed_at: String,
    duration_ms: u64,
    exit_code: i32,
    status: SuiteStatus,
    timed_out: bool,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_mode: Option<String>,
}

/// The tokens and cost of the run, as the CLI counts them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Tokens {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

/// The host on which the run was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Environment {
    os: &'static str,
    arch: &'static str,
    node_version: String,
    working_directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo_directory: Option<String>,
}

/// The fields of a result that the log is made of. A result that was stored, or made by another program, may lack the optional
/// ones.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredResult {
    exit_code: i32,
    status: SuiteStatus,
    output: String,
    started_at: String,
    completed_at: String,
    #[serde(default)]
    duration_ms: u64,
    #[serde(default)]
    timed_out: bool,
    #[serde(default)]
    errors: Vec<ErrorRecord>,
    #[serde(default)]
    warnings: Vec<ErrorRecord>,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    permission_denials: Vec<Denial>,
}

/// The parts of a context that the log repeats.
#[derive(Debug, Default)]
struct Asked {
    prompt: Option<String>,
    model: Option<String>,
    agent_name: Option<String>,
    workspace: Option<String>,
    repo: Option<String>,
}

impl From<&Map<String, Value>> for Asked {
    /// Reads the parts that are there.
    fn from(context: &Map<String, Value>) -> Asked {
        let config = context.get("config").and_then(Value::as_object);
        let configured = |name: &str| Some(config?.get(name)?.as_str()?.to_owned());
        let path = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
        Asked {
            prompt: configured("prompt"),
            model: configured("model"),
            agent_name: configured("agent_name"),
            workspace: path("workspaceDir"),
            repo: path("repoDir"),
        }
    }
}

/// The log of a run that has just ended; `read` is the transcript of its output.
fn log_of_run(result: &ExecutionResult, read: Transcript, context: &Context, node: &str) -> RunLog {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let asked = Asked {
        prompt: None,
        model: context.config.model.clone(),
        agent_name: context.config.agent_name.clone(),
        workspace: Some(path(&context.workspace)),
        repo: context.repo.as_deref().map(path),
    };
    let stored = StoredResult {
        exit_code: result.exit_code,
        status: result.status,
        output: String::new(),
        started_at: result.started_at.clone(),
        completed_at: result.completed_at.clone(),
        duration_ms: result.duration_ms,
        timed_out: result.timed_out,
        errors: result.errors.clone(),
        warnings: result.warnings.clone(),
        stderr: result.stderr.clone(),
        prompt: Some(result.prompt.clone()),
        permission_denials: result.permission_denials.clone(),
    };
    log(stored, read, asked, node)
}

/// The log of `result` in `context`, both as JSON. `node` is the host's version.
///
/// # Errors
/// `INVALID_OPTION`: `result` is not the JSON of a result, or `context` not that of an object.
fn normalize(result: &str, context: &str, node: &str) -> Result<RunLog, Box<ProviderError>> {
    let refuse = |what: &str, error: serde_json::Error| {
        let reason = format!("the {what} can't be read: {error}");
        Box::new(ProviderError::new("claude", Code::InvalidOption, reason))
    };
    let result: StoredResult = serde_json::from_str(result).map_err(|error| refuse("result", error))?;
    let context: Map<String, Value> = serde_json::from_str(context).map_err(|error| refuse("context", error))?;
    let stdout = result.output.strip_suffix(&result.stderr).unwrap_or(&result.output);
    let read = transcript::read(stdout);
    Ok(log(result, read, Asked::from(&context), node))
}

/// Makes the log of a result, the transcript of its output, and the parts of its context.
fn log(result: StoredResult, mut read: Transcript, asked: Asked, node: &str) -> RunLog {
    let tokens = tokens(
        read.usage.take(),
        read.outcome.as_ref().and_then(|outcome| outcome.cost_usd),
    );
    if let Some(plain) = read.plain.take() {
        from_text(&plain, result.status, &mut read);
    }
    let errors = errors(&result, &read);
    let warnings = warnings(&result, &read);
    let prompt = result.prompt.or(asked.prompt).filter(|prompt| !prompt.is_empty());
    let prompt = prompt.map(|content| Message {
        role: "user",
        content,
        timestamp: Some(result.started_at.clone()),
        parent_tool_use_id: None,
        at: 0,
    });
    let denied = |call: &TranscriptCall| {
        result
            .permission_denials
            .iter()
            .any(|denial| denial.tool_use_id == call.id)
    };
    read.calls.iter_mut().for_each(|call| call.denied |= denied(call));
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    RunLog {
        version: LOG_VERSION,
        agent_info: AgentInfo {
            name: NAME,
            version: or_unknown(read.version),
            adapter_version: ADAPTER_VERSION,
            agent_name: asked.agent_name,
        },
        model_info: ModelInfo {
            // A run that ended before it named a model counts for the configured one.
            name: or_unknown(read.model.or_else(|| asked.model.clone())),
            provider: "anthropic",
            requested: asked.model,
        },
        execution: LoggedExecution {
            started_at: result.started_at,
            completed_at: result.completed_at,
            duration_ms: result.duration_ms,
            exit_code: result.exit_code,
            status: result.status,
            timed_out: result.timed_out,
            truncated: read.truncated,
            session_id: read.session_id,
            num_turns: read.outcome.and_then(|outcome| outcome.num_turns),
            permission_mode: read.permission_mode,
        },
        messages: prompt.into_iter().chain(read.messages).collect(),
        tool_calls: read.calls,
        usage: tokens,
        errors,
        warnings,
        environment: Environment {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            node_version: node.to_owned(),
            working_directory: or_unknown(asked.workspace),
            repo_directory: asked.repo,
        },
    }
}

fn tokens(usage: Option<Usage>, cost_usd: Option<f64>) -> Tokens {
    let usage = usage.unwrap_or_default();
    Tokens {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        total_tokens: usage.input_tokens.saturating_add(usage.output_tokens),
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        cost_usd,
    }
}

/// Adds plain text to the transcript: as the answer of a successful run. For a failed run the text is the reason, which the errors
/// have.
fn from_text(plain: &str, status: SuiteStatus, read: &mut Transcript) {
    let answer = plain.trim_end();
    if status == SuiteStatus::Success && !answer.is_empty() {
        read.messages.push(Message {
            role: "assistant",
            content: answer.to_owned(),
            timestamp: None,
            parent_tool_use_id: None,
            at: 0,
        });
    }
    // The lines of plain text are no broken events.
    read.diagnostics.clear();
}

/// The result's own errors. For a failed result without any, the errors that its output reports.
fn errors(result: &StoredResult, read: &Transcript) -> Vec<ErrorRecord> {
    let mut errors = result.errors.clone();
    let record = |code: &str, message: String| ErrorRecord {
        message,
        timestamp: result.completed_at.clone(),
        code: Some(code.to_owned()),
        context: None,
    };
    if errors.is_empty() && result.status != SuiteStatus::Success {
        let found = classify::classify(&FailureFacts {
            provider: "claude",
            failure: read.failure.as_ref(),
            outcome: read.outcome.as_ref(),
            exit_code: Some(result.exit_code),
            stderr_text: Some(&result.stderr),
            resets_at: read.resets_at,
            ..FailureFacts::default()
        });
        errors.push(match result.status {
            SuiteStatus::Timeout => record("CLAUDE_TIMEOUT", "it took too long and was ended".to_owned()),
            _ => record(
                document_code(found.code),
                Redactor::default().redact(Channel::Error, &found.reason).into_owned(),
            ),
        });
    }
    let listed = errors
        .iter()
        .any(|error| error.code.as_deref() == Some(OUTPUT_TRUNCATED));
    if read.truncated && !listed {
        errors.push(record(OUTPUT_TRUNCATED, "some of the output is left out".to_owned()));
    }
    errors
}

/// The result's own warnings, and one for each line of output that was not understood.
fn warnings(result: &StoredResult, read: &Transcript) -> Vec<ErrorRecord> {
    let odd = read.diagnostics.iter().map(|message| ErrorRecord {
        message: message.clone(),
        timestamp: result.completed_at.clone(),
        code: Some("OUTPUT_NOT_UNDERSTOOD".to_owned()),
        context: None,
    });
    result.warnings.iter().cloned().chain(odd).collect()
}
