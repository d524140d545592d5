//! The one error of this package: ten categories with guidance, stable codes beneath them, and the known facts of the run.
//!
//! In: facts gathered by the other layers. Out: [`ProviderError`], which crosses to JavaScript as JSON and is thrown there.

use std::fmt;

use serde::Serialize;

use crate::event::RunInfo;
use crate::message::Usage;

/// The ten categories of CLI-ADAPTER-PROTOCOL, with exactly its guidance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// A session, weekly or credit limit is used up.
    Quota,
    /// There are too many requests just now.
    RateLimit,
    /// There is no login, or the login is refused.
    Authentication,
    /// The request itself is refused.
    Validation,
    /// There is no connection.
    Network,
    /// The provider's side failed.
    Server,
    /// The run took too long.
    Timeout,
    /// The CLI or the model does not exist.
    NotFound,
    /// The setup is wrong.
    Configuration,
    Unknown,
}

impl Category {
    /// All categories, in the document's order.
    pub const ALL: [Category; 10] = [
        Category::Quota,
        Category::RateLimit,
        Category::Authentication,
        Category::Validation,
        Category::Network,
        Category::Server,
        Category::Timeout,
        Category::NotFound,
        Category::Configuration,
        Category::Unknown,
    ];

    /// The document's name of the category.
    pub fn as_str(self) -> &'static str {
        match self {
            Category::Quota => "quota",
            Category::RateLimit => "rate_limit",
            Category::Authentication => "authentication",
            Category::Validation => "validation",
            Category::Network => "network",
            Category::Server => "server",
            Category::Timeout => "timeout",
            Category::NotFound => "not_found",
            Category::Configuration => "configuration",
            Category::Unknown => "unknown",
        }
    }

    /// The category's meaning in one sentence.
    pub fn description(self) -> &'static str {
        match self {
            Category::Quota => "A session, weekly, plan or credit limit is used up.",
            Category::RateLimit => "Too many requests just now.",
            Category::Authentication => "There is no login or key, or it is refused.",
            Category::Validation => "What was asked is refused, or can't be asked so.",
            Category::Network => "There is no connection, or it broke.",
            Category::Server => "The provider's side, or the CLI itself, failed.",
            Category::Timeout => "It took too long.",
            Category::NotFound => "The CLI, the model, or something named does not exist.",
            Category::Configuration => "Something is set up wrongly.",
            Category::Unknown => "Nothing known fits.",
        }
    }

    /// Returns whether the same provider may be called again (CLI-ADAPTER-PROTOCOL, "Error Categories").
    pub fn should_retry(self) -> bool {
        matches!(
            self,
            Category::RateLimit | Category::Network | Category::Server | Category::Timeout
        )
    }

    /// Returns whether another provider may succeed (CLI-ADAPTER-PROTOCOL, "Error Categories").
    pub fn should_fallback(self) -> bool {
        matches!(
            self,
            Category::Quota
                | Category::Network
                | Category::Server
                | Category::Timeout
                | Category::NotFound
                | Category::Unknown
        )
    }
}

macro_rules! codes {
    ($($variant:ident = $name:literal, $category:ident, $doc:literal;)*) => {
        /// The stable code, finer than the category: programs may match on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        pub enum Code {
            $(#[doc = $doc] #[serde(rename = $name)] $variant,)*
        }

        impl Code {
            /// All codes; index.d.ts's `ProviderErrorCode` is checked against this list.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The name that programs see.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// The category that the code belongs to.
            pub fn category(self) -> Category {
                match self { $(Code::$variant => Category::$category,)* }
            }

            /// The code's meaning in one sentence.
            pub fn description(self) -> &'static str {
                match self { $(Code::$variant => $doc,)* }
            }
        }
    };
}

impl Code {
    /// Returns whether another provider may succeed: as the code's category says, or if only this provider can't take the
    /// request, or its model did not do as asked.
    pub fn should_fallback(self) -> bool {
        let is_providers_own = matches!(
            self,
            Code::UnsupportedContent | Code::UnsupportedOption | Code::ToolChoiceUnmet | Code::OutputInvalid
        );
        is_providers_own || self.category().should_fallback()
    }
}

codes! {
    CreditExhausted = "CREDIT_EXHAUSTED", Quota, "The account's credit is used up.";
    UsageLimit = "USAGE_LIMIT", Quota, "A session, weekly or plan limit is reached; it resets at a known time.";
    QuotaExceeded = "QUOTA_EXCEEDED", Quota, "The API says that a quota is exceeded.";
    BudgetExceeded = "BUDGET_EXCEEDED", Quota, "The provider's option `budget` is used up until `resetsAt`; nothing was started.";
    RateLimited = "RATE_LIMITED", RateLimit, "Too many requests just now.";
    Overloaded = "OVERLOADED", Server, "The service has no capacity just now.";
    NotLoggedIn = "NOT_LOGGED_IN", Authentication, "The CLI has no login and no key.";
    TokenExpired = "TOKEN_EXPIRED", Authentication, "The login is expired or revoked.";
    InvalidApiKey = "INVALID_API_KEY", Authentication, "The API key is refused.";
    PermissionDenied = "PERMISSION_DENIED", Authentication, "The account may not do this.";
    AuthenticationFailed = "AUTHENTICATION_FAILED", Authentication, "The credentials are refused.";
    InvalidRequest = "INVALID_REQUEST", Validation, "The API refuses the request.";
    ContextLength = "CONTEXT_LENGTH", Validation, "The thread is longer than the model's context.";
    RequestTooLarge = "REQUEST_TOO_LARGE", Validation, "The request has more bytes than are accepted.";
    PromptTooLong = "PROMPT_TOO_LONG", Validation, "The prompt does not fit the way it is handed to the CLI.";
    EmptyPrompt = "EMPTY_PROMPT", Validation, "There is nothing to send.";
    PromptIntercepted = "PROMPT_INTERCEPTED", Validation, "The CLI took the prompt for a command of its own.";
    InvalidMessages = "INVALID_MESSAGES", Validation, "The messages can't be read.";
    UnsupportedContent = "UNSUPPORTED_CONTENT", Validation, "A message holds an image, a file or another block that the provider can't take; nothing was started.";
    UnsupportedOption = "UNSUPPORTED_OPTION", Validation, "An option asks for what the provider can't do; nothing was started.";
    ToolChoiceUnmet = "TOOL_CHOICE_UNMET", Validation, "The model did not make the call that `toolChoice` asks for.";
    InvalidTool = "INVALID_TOOL", Validation, "A tool can't be bound.";
    Refusal = "REFUSAL", Validation, "The model's safeguards refused.";
    MaxTokens = "MAX_TOKENS", Validation, "The answer hit the output limit.";
    MaxTurns = "MAX_TURNS", Validation, "The CLI's own limit of turns is reached.";
    BudgetExhausted = "BUDGET_EXHAUSTED", Validation, "The CLI's own limit of cost is reached.";
    InvalidRunLog = "INVALID_RUN_LOG", Validation, "The file is not a run log, or of a newer version.";
    RunLogIncomplete = "RUN_LOG_INCOMPLETE", Validation, "The run log has no reply: it ends before the run did.";
    ConnectionFailed = "CONNECTION_FAILED", Network, "The API can't be reached.";
    ConnectionLost = "CONNECTION_LOST", Network, "The connection broke in the middle.";
    ServerError = "SERVER_ERROR", Server, "The provider's side failed.";
    MalformedResponse = "MALFORMED_RESPONSE", Server, "What came back is not what the protocol says.";
    OutputInvalid = "OUTPUT_INVALID", Validation, "The reply does not fit the schema that was asked for, also when asked once more.";
    EmptyResponse = "EMPTY_RESPONSE", Server, "The CLI ended well and said nothing.";
    Crashed = "CRASHED", Server, "The CLI died, by a signal or with output cut short.";
    Timeout = "TIMEOUT", Timeout, "The wall-clock limit passed.";
    IdleTimeout = "IDLE_TIMEOUT", Timeout, "Nothing came for too long.";
    RequestTimeout = "REQUEST_TIMEOUT", Timeout, "The CLI gave up waiting for the API.";
    CliNotFound = "CLI_NOT_FOUND", NotFound, "The CLI is not installed, or not where it was said to be.";
    ModelNotFound = "MODEL_NOT_FOUND", NotFound, "The model does not exist or is not yours to use.";
    NotFound = "NOT_FOUND", NotFound, "Something that was asked for does not exist.";
    AgentLimit = "AGENT_LIMIT", Validation, "A limit of the agent's run is reached.";
    PlannerOutputMissing = "PLANNER_OUTPUT_MISSING", Validation, "The model gave no plan, though one was required.";
    CompletionReportMissing = "COMPLETION_REPORT_MISSING", Validation, "The model gave no report, though one was required.";
    RunLocked = "RUN_LOCKED", Configuration, "Another process is at work on the run of that id.";
    CheckpointMismatch = "CHECKPOINT_MISMATCH", Validation, "The checkpoint is of a run with other options.";
    CheckpointInvalid = "CHECKPOINT_INVALID", Validation, "The checkpoint can't be read, or is of a newer version.";
    CheckpointFailed = "CHECKPOINT_FAILED", Configuration, "The checkpoint's store failed: the run does not go on unrecorded.";
    CallbackFailed = "CALLBACK_FAILED", Configuration, "A function of the caller's threw.";
    InvalidOption = "INVALID_OPTION", Configuration, "An option is unknown, ill-typed or contradicts another.";
    CliNotExecutable = "CLI_NOT_EXECUTABLE", Configuration, "The CLI's file can't be executed.";
    InterpreterNotFound = "INTERPRETER_NOT_FOUND", Configuration, "The program that the CLI's first line names is missing.";
    CwdNotFound = "CWD_NOT_FOUND", Configuration, "The working folder does not exist.";
    SpawnFailed = "SPAWN_FAILED", Configuration, "The operating system refused to start the CLI.";
    UnsupportedFlag = "UNSUPPORTED_FLAG", Configuration, "The installed CLI does not know a flag that is needed.";
    UntrustedWorkspace = "UNTRUSTED_WORKSPACE", Configuration, "The CLI does not trust the working folder.";
    InvalidConfig = "INVALID_CONFIG", Configuration, "The CLI's own configuration is wrong.";
    ClaudeInvalidConfig = "CLAUDE_INVALID_CONFIG", Configuration, "What the Claude Code adapter was called with is wrong; `problems` lists it by field.";
    LiveUnsupported = "LIVE_UNSUPPORTED", Configuration, "The installed CLI takes no live sessions.";
    CallbacksUnavailable = "CALLBACKS_UNAVAILABLE", Configuration, "The CLI did not come for the tools it was to call.";
    OutputLimit = "OUTPUT_LIMIT", Configuration, "The CLI printed more than maxBuffer bytes.";
    Closed = "CLOSED", Configuration, "The provider was closed.";
    Internal = "INTERNAL", Unknown, "A bug of this package.";
    Unknown = "UNKNOWN", Unknown, "The CLI failed and gave no reason that is known.";
}

/// The output that had arrived when a run failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Partial {
    /// The answer's text so far.
    pub text: String,
    /// The number of events that had come.
    pub events: u64,
    /// Token usage, if the provider had reported any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The reason why one attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptFailure {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    pub code: Code,
    pub message: String,
}

/// A mistake in one field of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The field: `prompt_file`, `allowed_tools[1]`.
    pub field: String,
    /// The allowed values, and the value found.
    pub message: String,
}

/// The one error type. The message begins with the provider's own reason; `hint` says how to fix the problem.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderError {
    /// The category, which decides about trying again.
    pub category: Category,
    /// The stable code.
    pub code: Code,
    /// The message for people: the reason, then the remedy; at most [`ProviderError::MESSAGE_LIMIT`] characters.
    pub message: String,
    pub provider: String,
    /// True if the same provider may be called again.
    pub should_retry: bool,
    /// True if another provider may succeed.
    pub should_fallback: bool,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The time to wait before trying again, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// When a limit ends, ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<u64>,
    /// The CLI's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The name of the signal that ended the CLI, such as `SIGKILL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The HTTP status of the API's answer, as the CLI reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// The end of the CLI's standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_tail: Option<String>,
    /// Head and tail of the CLI's standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// The output that had arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// The tokens that were used all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The number of attempts made; 0 if the call was refused before any.
    pub attempts: u32,
    /// The reason of each attempt's failure.
    pub reasons: Vec<AttemptFailure>,
    /// All mistakes, for inputs with several fields that may be wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// The run's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The run that failed, with the timings of its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<RunInfo>>,
}

impl ProviderError {
    /// Characters; the agent shows `name: message` cut at 500 characters, and our messages never need that cut.
    pub const MESSAGE_LIMIT: usize = 480;

    /// Makes an error of `code` for `provider` whose message is `reason`, unchanged.
    pub fn new(provider: &str, code: Code, reason: impl Into<String>) -> Self {
        let category = code.category();
        ProviderError {
            category,
            code,
            message: clip(&reason.into(), Self::MESSAGE_LIMIT),
            provider: provider.to_owned(),
            should_retry: category.should_retry(),
            should_fallback: code.should_fallback(),
            hint: None,
            retry_after_ms: None,
            resets_at: None,
            exit_code: None,
            signal: None,
            http_status: None,
            stdout_tail: None,
            stderr_tail: None,
            partial: None,
            usage: None,
            attempts: 0,
            reasons: Vec::new(),
            problems: Vec::new(),
            run_id: None,
            run: None,
        }
    }

    /// Adds the remedy as a sentence after the reason. If both are too long together, the reason is shortened.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        let room = Self::MESSAGE_LIMIT.saturating_sub(hint.chars().count() + 2);
        let reason = clip(self.message.trim_end_matches(['.', ' ']), room);
        let mut rest = hint.chars();
        let first = rest.next().map(|first| first.to_ascii_uppercase());
        self.message = format!(
            "{reason}. {}{}",
            first.map(String::from).unwrap_or_default(),
            rest.as_str()
        );
        self.hint = Some(hint);
        self
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProviderError {}

/// The first `limit` characters of `text`, with an ellipsis if there were more.
pub fn clip(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let mut cut: String = text.chars().take(limit.saturating_sub(1)).collect();
            cut.push('…');
            cut
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-ADAPTER-PROTOCOL, "Error Categories": (category, shouldRetry, shouldFallback).
    #[test]
    fn guidance_is_the_documents() {
        let table: Vec<(&str, bool, bool)> = Category::ALL
            .iter()
            .map(|c| (c.as_str(), c.should_retry(), c.should_fallback()))
            .collect();
        assert_eq!(
            table,
            [
                ("quota", false, true),
                ("rate_limit", true, false),
                ("authentication", false, false),
                ("validation", false, false),
                ("network", true, true),
                ("server", true, true),
                ("timeout", true, true),
                ("not_found", false, true),
                ("configuration", false, false),
                ("unknown", false, true),
            ]
        );
    }

    #[test]
    fn hint_survives_a_long_reason() {
        let error = ProviderError::new("claude", Code::NotLoggedIn, "x".repeat(900))
            .with_hint("run \"claude\" once and log in");
        assert_eq!(error.message.chars().count(), ProviderError::MESSAGE_LIMIT);
        assert!(
            error.message.ends_with("…. Run \"claude\" once and log in"),
            "{}",
            error.message
        );
    }

    #[test]
    fn codes_are_distinct_and_upper_snake() {
        let mut names: Vec<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert!(
            names
                .iter()
                .all(|n| n.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
