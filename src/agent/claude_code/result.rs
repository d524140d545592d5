//! The end of a run in the document's terms.
//!
//! In: the provider's result or error, and times by two clocks. Out: exit code, status and errors, which always agree. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::transcript::Denial;
use dfp_model::error::{Category, Code, ProviderError};
use dfp_model::message::Usage;
use dfp_model::time::iso;

/// An error or a warning (the document's ErrorRecord).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// The text for people; never empty.
    pub message: String,
    /// The time when it was noticed, ISO 8601.
    pub timestamp: String,
    /// The code in upper case: one of the document's, or one of `ProviderErrorCode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Further facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
}

impl ErrorRecord {
    /// A record without further facts.
    pub fn new(code: &str, message: impl Into<String>, at_ms: u64) -> ErrorRecord {
        ErrorRecord {
            message: message.into(),
            timestamp: iso(at_ms),
            code: Some(code.to_owned()),
            context: None,
        }
    }

    /// The record of a provider's error.
    pub fn of(error: &ProviderError, at_ms: u64) -> ErrorRecord {
        let all = json!({
            "code": error.code,
            "category": error.category,
            "http_status": error.http_status,
            "retry_after_ms": error.retry_after_ms,
            "resets_at": error.resets_at.map(iso),
            "exit_code": error.exit_code,
            "signal": error.signal,
            "should_retry": error.should_retry,
        });
        let mut context = match all {
            Value::Object(context) => context,
            _ => Map::new(),
        };
        context.retain(|_, value| !value.is_null());
        ErrorRecord {
            context: Some(context),
            ..ErrorRecord::new(document_code(error.code), error.message.clone(), at_ms)
        }
    }
}

/// The document's code for output that was cut.
pub const OUTPUT_TRUNCATED: &str = "CLAUDE_OUTPUT_TRUNCATED";

/// The document's code for an error if there is one (ERROR_CODES), else the package's own code.
pub fn document_code(code: Code) -> &'static str {
    match (code, code.category()) {
        (Code::CliNotFound | Code::CliNotExecutable | Code::InterpreterNotFound, _) => "CLAUDE_CLI_NOT_FOUND",
        (Code::Timeout | Code::IdleTimeout, _) => "CLAUDE_TIMEOUT",
        (_, Category::Authentication) => "CLAUDE_AUTH_FAILED",
        (Code::Overloaded, _) | (_, Category::RateLimit | Category::Quota) => "CLAUDE_RATE_LIMIT",
        _ => code.as_str(),
    }
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SuiteStatus {
    /// The CLI reports success.
    Success,
    Failed,
    /// The run took too long and was ended.
    Timeout,
}

/// Exit code and status of a run, which must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// 0 for a success, and only for that.
    pub exit_code: i32,
    /// The status, which agrees with `exit_code`.
    pub status: SuiteStatus,
    /// A time limit ended the run.
    pub timed_out: bool,
}

/// Exit code and status of a run that ended with this error; `None`: it ended with a reply.
pub fn verdict(error: Option<&ProviderError>) -> Verdict {
    let Some(error) = error else {
        return Verdict {
            exit_code: 0,
            status: SuiteStatus::Success,
            timed_out: false,
        };
    };
    let timed_out = matches!(error.code, Code::Timeout | Code::IdleTimeout);
    let own = error.exit_code.filter(|code| *code != 0);
    let exit_code = own.or_else(|| signal_code(error)).unwrap_or(match error.code {
        // The exit codes that shells and timeout(1) use.
        Code::CliNotFound => 127,
        Code::CliNotExecutable | Code::InterpreterNotFound => 126,
        Code::Timeout | Code::IdleTimeout => 124,
        // This includes a CLI that failed with exit code 0 (claude and SIGINT, CLI-FACTS 1.9).
        _ => 1,
    });
    Verdict {
        exit_code,
        status: if timed_out {
            SuiteStatus::Timeout
        } else {
            SuiteStatus::Failed
        },
        timed_out,
    }
}

/// The exit code of a process that a signal ended, as shells report it: 128 and the signal's number.
fn signal_code(error: &ProviderError) -> Option<i32> {
    let number = match error.signal.as_deref()? {
        "SIGHUP" => 1,
        "SIGINT" => 2,
        "SIGQUIT" => 3,
        "SIGILL" => 4,
        "SIGABRT" => 6,
        "SIGKILL" => 9,
        "SIGSEGV" => 11,
        "SIGPIPE" => 13,
        "SIGTERM" => 15,
        _ => return None,
    };
    Some(128 + number)
}

/// The files with copies of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactPaths {
    /// The path of the file with all of standard output.
    pub stdout: String,
    /// The path of the file with all of standard error.
    pub stderr: String,
    /// The path of the file with the events, one per line.
    pub events: String,
    /// The path of the log, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// The result of `execute`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionResult {
    /// 0 for a success, and only for that.
    pub exit_code: i32,
    /// The status, which agrees with `exit_code`.
    pub status: SuiteStatus,
    /// Standard output followed by standard error; at most 10 MiB of the first and 32 KiB of the second.
    pub output: String,
    pub errors: Vec<ErrorRecord>,
    /// Things to know that are no errors.
    pub warnings: Vec<ErrorRecord>,
    /// The time when the process was started, ISO 8601.
    pub started_at: String,
    /// The time when it had ended, ISO 8601.
    pub completed_at: String,
    /// The duration in ms, by a clock that never jumps.
    pub duration_ms: u64,
    /// A time limit ended the run.
    pub timed_out: bool,
    /// Some of the output is left out of `output`.
    pub truncated: bool,
    pub stderr: String,
    /// The signal that ended the CLI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The prompt that was sent.
    pub prompt: String,
    /// The last message of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The CLI's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// The CLI's id of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The tokens, as the CLI counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The cost in US dollars, as the CLI estimates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The number of turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_turns: Option<u32>,
    /// The calls that were not permitted.
    pub permission_denials: Vec<Denial>,
    /// The files with copies of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<ArtifactPaths>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_error() -> impl Strategy<Value = Option<ProviderError>> {
        let signals = prop::sample::select(vec![None, Some("SIGKILL"), Some("SIGTERM"), Some("SIG34")]);
        let error = (prop::sample::select(Code::ALL), prop::option::of(any::<i32>()), signals).prop_map(
            |(code, exit_code, signal)| ProviderError {
                exit_code,
                signal: signal.map(str::to_owned),
                ..ProviderError::new("claude", code, "reason")
            },
        );
        prop::option::weighted(0.8, error)
    }

    proptest! {
        /// The rules of ExecutionMetadata in CLAUDE-CODE-ADAPTER-DATA-MODEL.
        #[test]
        fn the_facts_agree(error in any_error()) {
            let found = verdict(error.as_ref());
            prop_assert_eq!(found.status == SuiteStatus::Timeout, found.timed_out);
            prop_assert_eq!(found.status == SuiteStatus::Success, found.exit_code == 0);
            prop_assert_eq!(found.status == SuiteStatus::Success, error.is_none());
        }

        #[test]
        fn codes_are_upper_snake_case(code in prop::sample::select(Code::ALL)) {
            let name = document_code(code);
            prop_assert!(name.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{}", name);
        }
    }

    #[test]
    fn exit_codes_are_as_shells_have_them() {
        let code = |code, exit_code, signal: Option<&str>| {
            let error = ProviderError {
                exit_code,
                signal: signal.map(str::to_owned),
                ..ProviderError::new("claude", code, "reason")
            };
            verdict(Some(&error)).exit_code
        };
        assert_eq!(code(Code::CliNotFound, None, None), 127);
        assert_eq!(code(Code::CliNotExecutable, None, None), 126);
        assert_eq!(code(Code::Timeout, Some(0), None), 124);
        assert_eq!(code(Code::Timeout, Some(143), None), 143);
        assert_eq!(code(Code::Crashed, None, Some("SIGKILL")), 137);
        assert_eq!(code(Code::Unknown, Some(0), None), 1);
        assert_eq!(code(Code::Unknown, Some(3), None), 3);
    }

    #[test]
    fn the_documents_codes() {
        for (ours, theirs) in [
            (Code::CliNotFound, "CLAUDE_CLI_NOT_FOUND"),
            (Code::NotLoggedIn, "CLAUDE_AUTH_FAILED"),
            (Code::InvalidApiKey, "CLAUDE_AUTH_FAILED"),
            (Code::Timeout, "CLAUDE_TIMEOUT"),
            (Code::RateLimited, "CLAUDE_RATE_LIMIT"),
            (Code::UsageLimit, "CLAUDE_RATE_LIMIT"),
            (Code::ClaudeInvalidConfig, "CLAUDE_INVALID_CONFIG"),
            (Code::ServerError, "SERVER_ERROR"),
        ] {
            assert_eq!(document_code(ours), theirs);
        }
    }
}
