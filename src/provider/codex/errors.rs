//! The failures of Codex (codex-cli 0.169.0; CLI-FACTS 2). They are prose without a field; the common rules read the status of
//! `unexpected status 401 …`.

use super::super::errors::{CLAP, Channel, Condition::*, Errors, RefusedFlag, Rule};
use dfp_model::error::Code;

/// The data of codex's failures.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[CLAP, FEATURE],
    channel: Channel {
        noise: &[r"reading\ additional\ input\ from\ stdin.*"],
        // Banner and echo of the prompt (0.169.0).
        transcript: Some("OpenAI Codex v"),
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

/// The refusal of a feature that it does not know; that is fatal (CLI-FACTS 2). The wording was not measured.
const FEATURE: RefusedFlag = RefusedFlag {
    sentence: r"unknown feature flag: (\w[\w-]*)",
    prefix: "--disable ",
};

const HINTS: &[(Code, &str)] = &[
    (Code::NotLoggedIn, "run `codex login`"),
    (Code::TokenExpired, "run `codex logout`, then `codex login`"),
    (Code::AuthenticationFailed, "run `codex login`"),
    (Code::InvalidApiKey, "run `codex login`, or correct OPENAI_API_KEY"),
    (
        Code::CliNotFound,
        "install it with `npm install -g @openai/codex`, or set `cliPath`",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    // The failures that a live turn (`codexErrorInfo`; CODEX-LIVE §5) or the live engine has a word for.
    Rule::new(&[Kind("usage_limit_exceeded"), Text("<quota exceeded>")], Code::QuotaExceeded, "Quota exceeded. Check your plan and billing details."),
    Rule::new(&[Kind("usage_limit_exceeded")], Code::UsageLimit, "To use Codex with your ChatGPT plan, upgrade to Plus."),
    Rule::new(&[Kind("context_window_exceeded")], Code::ContextLength, "Codex ran out of room in the model's context window."),
    Rule::new(&[Kind("model_not_found")], Code::ModelNotFound, "The requested model 'm' does not exist."),
    Rule::new(&[Kind("server_overloaded")], Code::Overloaded, "Selected model is at capacity. Please try a different model."),
    Rule::new(&[Kind("internal_server_error")], Code::ServerError, "We’re currently experiencing high demand"),
    Rule::new(&[Kind("response_too_many_failed_attempts"), Status(429)], Code::RateLimited, "exceeded retry limit, last status: 429 Too Many Requests"),
    Rule::new(&[Kind("rate_limit_exceeded")], Code::RateLimited, "rate limit exceeded: try again in 11.054s"),
    Rule::new(&[Kind("cyber_policy")], Code::Refusal, "This request was refused by policy."),
    Rule::new(&[Kind("refused_answer")], Code::Refusal, "the model began an answer and gave none: it refused"),
    Rule::new(&[Kind("silent_stream")], Code::ConnectionLost, "stream disconnected before completion: nothing came behind a tool call"),
    Rule::new(&[Kind("context_compaction")], Code::ContextLength, "codex replaces the history by a summary of its own").hint("shorten the thread: its model takes no more"),
    Rule::new(&[Kind("server_gone")], Code::Crashed, "codex app-server ended in the middle of a turn"),
    Rule::new(&[Kind("unknown_server_request")], Code::MalformedResponse, "codex asks for item/tool/requestUserInput, which is not understood here"),
    Rule::new(&[Kind("http_connection_failed"), Text("<error sending request>")], Code::ConnectionFailed, "Connection failed: error sending request"),
    Rule::new(&[Text("<incomplete response returned, reason: max_output_tokens>")], Code::MaxTokens, "Incomplete response returned, reason: max_output_tokens"),
    Rule::new(&[Text("<incomplete response returned, reason: content_filter>")], Code::Refusal, "stream disconnected before completion: Incomplete response returned, reason: content_filter"),
    Rule::new(&[Text("<thread not found>")], Code::ConnectionLost, "thread not found: 01a2"),
    Rule::new(&[Text("<failed to load configuration>")], Code::InvalidConfig, "failed to load configuration: No such file or directory (os error 2)").hint("correct ~/.codex/config.toml"),
    // bin/codex.js of 0.169.0 without its package for the platform.
    Rule::new(&[Text("<missing optional dependency @openai/codex")], Code::CliNotExecutable, "Missing optional dependency @openai/codex-linux-x64. Reinstall Codex: npm install -g @openai/codex@latest").hint("run `npm install -g --include=optional @openai/codex@latest`"),
    Rule::new(&[Text("<you've hit your usage limit|<hit your usage limit")], Code::UsageLimit, "You’ve hit your usage limit. Upgrade to Pro or try again at 10:50 PM."),
    Rule::new(&[Text("<quota exceeded\\. check your plan")], Code::QuotaExceeded, "Quota exceeded. Check your plan and billing details."),
    Rule::new(&[Text("<selected model is at capacity>")], Code::Overloaded, "Selected model is at capacity. Please try a different model."),
    Rule::new(&[Text("<experiencing high demand>")], Code::ServerError, "We’re currently experiencing high demand, which may cause temporary errors."),
    Rule::new(&[Text("<ran out of room in the model's context")], Code::ContextLength, "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."),
    Rule::new(&[Text("<input exceeds the maximum length>|<input_too_large>")], Code::PromptTooLong, "Error: turn/start: turn/start failed: Input exceeds the maximum length of 1048576 characters.").hint("shorten the thread: codex takes at most 1048576 characters"),
    Rule::new(&[Text("<missing environment variable>")], Code::NotLoggedIn, "Missing environment variable: `OPENAI_API_KEY`.").hint("set the environment variable that it names"),
    Rule::new(&[Text("<not logged in>")], Code::NotLoggedIn, "Not logged in"),
    Rule::new(&[Text("<(?:access|refresh) token (?:could not be refreshed|was already used|has expired)|<sign in again>")], Code::TokenExpired, "Your access token could not be refreshed. Please log out and sign in again."),
    Rule::new(&[Text("<is not supported when using codex with a chat_gpt account>")], Code::ModelNotFound, "The 'gpt-4' model is not supported when using Codex with a ChatGPT account."),
    Rule::new(&[Text("<waiting for network>|<failed to lookup address>")], Code::ConnectionFailed, "Reconnecting... waiting for network (Connection failed: error sending request)"),
    Rule::new(&[Text("<stream disconnected before completion>")], Code::ConnectionLost, "stream disconnected before completion: stream closed before response.completed"),
    Rule::new(&[Text("<no prompt provided>")], Code::EmptyPrompt, "No prompt provided via stdin."),
    Rule::new(&[Text("<not inside a trusted directory>")], Code::UntrustedWorkspace, "Not inside a trusted directory and --skip-git-repo-check was not specified.").hint("set `cwd` to a git repository, or pass --skip-git-repo-check"),
    Rule::new(&[Text("<unknown feature (?:flag|name)")], Code::UnsupportedFlag, "Unknown feature flag: goals"),
    Rule::new(&[Text("<error loading config(?:uration|\\.toml)?")], Code::InvalidConfig, "Error loading configuration: config.toml:1:1: invalid TOML").hint("correct ~/.codex/config.toml"),
    // A setting of the wrong type ends the process at its start (0.150.0 and 0.169.0, CODEX-LIVE pitfall 15).
    Rule::new(&[Text("<invalid type: [^\n]+, expected [^\n]+\n?in `")], Code::InvalidConfig, "Error: invalid type: string \"perhaps\", expected a boolean\nin `analytics.enabled`").hint("correct the setting it names, in `extraArgs` or ~/.codex/config.toml"),
    // Of all that was measured, only an interrupt ends a turn this way (recording codex/signal-SIGINT).
    Rule::new(&[Exit(1), Silent], Code::Crashed, "").say("ended in the middle of a turn without a word, as an interrupt makes it"),
    // The refusal of a wrong command line by clap.
    Rule::new(&[Exit(2)], Code::InvalidOption, "error: something about arguments").weak(),
];
