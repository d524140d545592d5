//! The failures of Gemini (0.61.0; CLI-FACTS 3). Its fatal exit codes have names; the others are HTTP statuses modulo 256
//! ([`ExitCodes::HttpStatus`]). Error bodies are JSON, on standard error or in the result.

use super::super::errors::{Channel, Condition::*, Errors, ExitCodes, Rule, YARGS};
use dfp_model::error::Code;

/// The data of gemini's failures.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    exit_codes: ExitCodes::HttpStatus,
    refused_flags: &[YARGS],
    channel: Channel {
        noise: &[
            r"ripgrep\ (?:is\ )?not\ available.*",
            r"attempt\ \d+\ failed.*",
            r"\[startup\].*",
            r"an\ unexpected\ critical\ error\ occurred:\[object\ object\]",
        ],
        // 0.61.0: the name of a file with the details.
        preamble: Some(r"^Error when talking to Gemini API\b.*?\.json\s+"),
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "set GEMINI_API_KEY, or log in to a company's account in `gemini`: logins of personal accounts ended on 2026-06-18",
    ),
    (
        Code::TokenExpired,
        "set GEMINI_API_KEY, or log in again to a company's account in `gemini`: logins of personal accounts ended on 2026-06-18",
    ),
    (
        Code::AuthenticationFailed,
        "correct GEMINI_API_KEY, or log in again to a company's account in `gemini`: logins of personal accounts ended on 2026-06-18",
    ),
    (Code::InvalidApiKey, "correct GEMINI_API_KEY"),
    (
        Code::CliNotFound,
        "install it with `npm install -g @google/gemini-cli`, or set `cliPath`",
    ),
    (
        Code::UntrustedWorkspace,
        "set GEMINI_CLI_TRUST_WORKSPACE=true, or trust the folder in `gemini`",
    ),
    (
        Code::CallbacksUnavailable,
        "leave out `cwd` and keep the built-in tools off: it reads of the tools in its own folder only",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    Rule::new(&[Kind("terminal_quota_error")], Code::QuotaExceeded, "You have exhausted your daily quota on this model."),
    Rule::new(&[Kind("retryable_quota_error")], Code::RateLimited, "Resource exhausted"),
    // The API calls every 429 RESOURCE_EXHAUSTED; a limit that is over soon names its end.
    Rule::new(&[Kind("resource_exhausted"), Soon], Code::RateLimited, r#"{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"34s"}]}"#),
    // The error as the CLI reports it in stream-json: `[API Error: {…}]`, whose status is 429.
    Rule::new(&[Status(429), Soon], Code::RateLimited, "Quota exceeded for metric: generate_content_requests. Please retry in 34.07s."),
    Rule::new(&[Kind("model_not_found_error")], Code::ModelNotFound, "models/nope is not found for API version v1beta"),
    Rule::new(&[Kind("fatal_authentication_error")], Code::NotLoggedIn, "Please set an Auth method"),
    // The refusal of a session by a warm process (the protocol's code -32000).
    Rule::new(&[Kind("auth_required")], Code::NotLoggedIn, "Authentication required"),
    Rule::new(&[Kind("process_gone")], Code::Crashed, "the CLI's process ended in the middle of the call"),
    Rule::new(&[Exit(41), Text("<invalid auth method")], Code::InvalidConfig, "Invalid auth method selected.").hint("set security.auth.selectedType in ~/.gemini/settings.json"),
    Rule::new(&[Exit(41)], Code::NotLoggedIn, "Please set an Auth method in your settings.json"),
    Rule::new(&[Exit(42), Text("<no input provided>")], Code::EmptyPrompt, "No input provided via stdin."),
    Rule::new(&[Exit(42)], Code::InvalidRequest, "bad input"),
    Rule::new(&[Exit(44)], Code::InvalidConfig, "no sandbox").hint("correct the CLI's sandbox setting"),
    Rule::new(&[Exit(52)], Code::InvalidConfig, "Invalid configuration in settings.json").hint("correct ~/.gemini/settings.json"),
    Rule::new(&[Exit(53)], Code::MaxTurns, "Reached max session turns for this session."),
    Rule::new(&[Exit(54)], Code::ServerError, "a tool of the CLI failed"),
    Rule::new(&[Exit(55)], Code::UntrustedWorkspace, "Gemini CLI is not running in a trusted directory."),
    Rule::new(&[Exit(130)], Code::Crashed, "").say("interrupted from outside (exit code 130)"),
    Rule::new(&[Text("<exhausted your (?:\\w+ )?quota>|<terminal quota error>")], Code::QuotaExceeded, "TerminalQuotaError: You have exhausted your daily quota on this model."),
    Rule::new(&[Text("<retryable quota error>|<suggested retry after>")], Code::RateLimited, "RetryableQuotaError: Resource exhausted"),
    Rule::new(&[Text("<resource_(?:has been )?exhausted>"), Soon], Code::RateLimited, "Resource exhausted. Please retry in 2s."),
    Rule::new(&[Text("<models/\\S+ is not found>|<model not found error>")], Code::ModelNotFound, "ModelNotFoundError: models/nope is not found for API version v1beta"),
    Rule::new(&[Text("<the model returned an empty response>")], Code::EmptyResponse, "The model returned an empty response with no text or thoughts. This may be a transient API issue; please try again."),
    Rule::new(&[Text("<incomplete json segment>|<model stream ended without>")], Code::MalformedResponse, "[API Error: Incomplete JSON segment at the end]"),
    Rule::new(&[Text("^\\[?(?:api error: )?terminated>")], Code::ConnectionLost, "terminated"),
    Rule::new(&[Text("<fetch failed>")], Code::ConnectionFailed, "exception TypeError: fetch failed sending request"),
    Rule::new(&[Text("<not running in a trusted directory>")], Code::UntrustedWorkspace, "Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust`"),
    Rule::new(&[Text("<set an auth method>")], Code::NotLoggedIn, "Please set an Auth method in your settings.json or specify one of the following environment variables"),
    Rule::new(&[Text("<no input provided via stdin>")], Code::EmptyPrompt, "No input provided via stdin. Input can be provided by piping data into gemini."),
];
