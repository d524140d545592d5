//! Codex (codex-cli 0.169.0; CLI-FACTS 2). Its failures are prose without a field; `unexpected status 401 …` is read as a
//! status by the common rules.

use super::super::errors::{CLAP, Condition::*, Errors, RefusedFlag, Rule};
use crate::error::Code;

/// What is known of its failures.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[CLAP, FEATURE],
    ..Errors::NONE
};

/// A feature that it does not know; unknown ones are fatal (CLI-FACTS 2). The wording is not measured.
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
    // An interrupt, and nothing else that was measured, ends a turn so (recording codex/signal-SIGINT).
    Rule::new(&[Exit(1), Silent], Code::Crashed, "").say("ended in the middle of a turn without a word, as an interrupt makes it"),
    // clap: a wrong command line.
    Rule::new(&[Exit(2)], Code::InvalidOption, "error: something about arguments").weak(),
];
