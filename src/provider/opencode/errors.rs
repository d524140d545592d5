//! The failures of OpenCode (1.18.34; CLI-FACTS 5): one `error` line with a name and, for API errors, a status; set-up errors are
//! text on standard error.

use super::super::errors::{Channel, Condition::*, Errors, Rule};
use dfp_model::error::Code;

/// The data of opencode's failures.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    channel: Channel {
        // The CLI's banner.
        noise: &[r">\s\S+\s·\s.*"],
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (Code::NotLoggedIn, "run `opencode auth login`"),
    (Code::AuthenticationFailed, "run `opencode auth login`"),
    (Code::InvalidApiKey, "run `opencode auth login` and give a valid key"),
    (Code::ModelNotFound, "name a model that `opencode models` lists"),
    (Code::InvalidConfig, "correct opencode.json"),
    (
        Code::CliNotFound,
        "install it with `npm install -g opencode-ai`, or set `cliPath`",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    // npm's package without its program, by `--ignore-scripts` or `--omit=optional` (opencode-ai 1.18.33).
    Rule::new(&[Text("<opencode-ai's postinstall script was not run")], Code::CliNotExecutable, "Error: opencode-ai's postinstall script was not run.").hint("run `npm install -g --include=optional --ignore-scripts=false opencode-ai`"),
    Rule::new(&[Kind("context_overflow_error")], Code::ContextLength, "This model's maximum context length is 8192 tokens."),
    Rule::new(&[Kind("provider_auth_error")], Code::NotLoggedIn, "OpenAI API key is missing."),
    Rule::new(&[Kind("content_filter_error")], Code::Refusal, "The response was filtered"),
    Rule::new(&[Kind("structured_output_error")], Code::OutputInvalid, "Model did not produce structured output"),
    Rule::new(&[Kind("message_output_length_error")], Code::MaxTokens, "output length"),
    Rule::new(&[Kind("message_aborted_error")], Code::Crashed, "Aborted").say("interrupted in the middle of the answer"),
    Rule::new(&[Kind("provider_model_not_found_error")], Code::ModelNotFound, "Model not found: mock/nope"),
    Rule::new(&[Kind("provider_init_error")], Code::InvalidConfig, "Failed to initialise the provider"),
    // The decoder reports this, since opencode would ask again for ever (recording opencode/loop-html-200-10s).
    Rule::new(&[Kind("unknown")], Code::MalformedResponse, "the answer ended without a reason that opencode knows; it would ask again for ever").hint("try again; if it persists, check the API: it sends no finish reason that opencode knows"),
    Rule::new(&[Kind("unknown_error"), Text("<timed out>")], Code::RequestTimeout, "The operation timed out."),
    Rule::new(&[Text("<cannot connect to api>|<unable to connect>")], Code::ConnectionFailed, "Cannot connect to API: Unable to connect. Is the computer able to access the url?"),
    Rule::new(&[Text("<agent \\S+ not found\\. falling back>")], Code::InvalidConfig, "! agent \"nope\" not found. Falling back to default agent").hint("the agent that the package configures was lost: do not override OPENCODE_CONFIG_CONTENT"),
    Rule::new(&[Text("<config file at .* is not valid|<config_invalid_error>|<config_json_error>")], Code::InvalidConfig, "Config file at OPENCODE_CONFIG_CONTENT is not valid JSON(C):"),
    Rule::new(&[Text("<must provide a message or a command>")], Code::EmptyPrompt, "You must provide a message or a command"),
    Rule::new(&[Text("<database is locked>|<failed query: create table")], Code::ServerError, "database is locked").hint("first runs on a fresh home folder collide: run once alone, or lower `maxConcurrency`"),
    Rule::new(&[Text("<session not found>")], Code::NotFound, "Session not found"),
    // An unknown flag is answered with the help text and nothing else.
    Rule::new(&[Text("^opencode run \\[message\\.\\.\\]")], Code::UnsupportedFlag, "opencode run [message..]").say("opencode answered with its help text: it does not know one of the flags"),
    // The failures that the live engine has a word for (`exchange::opencode_live`).
    Rule::new(&[Kind("no_finish")], Code::MalformedResponse, "opencode ended the turn without saying how"),
    Rule::new(&[Kind("tool_ran")], Code::LiveUnsupported, "opencode ran a call of the tool \"add\" that nobody permitted"),
    Rule::new(&[Kind("server_gone")], Code::Crashed, "opencode serve ended in the middle of a turn"),
    Rule::new(&[Kind("session_gone")], Code::Crashed, "opencode took the session away in the middle of its turn"),
    Rule::new(&[Kind("answer_too_long")], Code::OutputLimit, "the answer has more than 1000 bytes, the limit of the option `maxBuffer`"),
    Rule::new(&[Kind("refused_message")], Code::ModelNotFound, "opencode refused the message with status 500").hint("opencode names no cause; mostly the model or its provider is not configured: compare with `opencode models`, see its log file"),
    // The CLI reports that it would try again and why, without a status.
    Rule::new(&[Kind("retried_request")], Code::ServerError, "boom").weak(),
    Rule::new(&[Kind("no_session")], Code::ServerError, "the tools can't be declared").weak(),
    // Only the CLI's log names the cause. In each measured case, the model or its provider was not found.
    Rule::new(&[Text("<unexpected server error\\. check server logs")], Code::ModelNotFound, "Unexpected server error. Check server logs for details.").hint("opencode names no cause; mostly the model or its provider is not configured: compare with `opencode models`, see its log file"),
];
