//! The failures of Qwen (0.15.10 and 0.24.4; CLI-FACTS 4, OTHER-LIVE 2). In json and stream-json an API error is exit 0 (0.15.10),
//! `success` and a result that reads `[API Error: 401 …]`: the decoder makes a failure of it, and the common rules read the status.

use super::super::errors::{Condition::*, Errors, JSON_SCHEMA, Rule, YARGS};
use dfp_model::error::Code;

/// The data of qwen's failures.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[YARGS],
    refused_schema: Some(JSON_SCHEMA),
    // `Retrying in 60s (attempt 1/10): [API Error: 429 slow down]`: ten minutes at least (0.24.4).
    long_pauses: &["Retrying in "],
    // The pipe that a run gets holds so much on Linux (0.24.4: beyond that the end is lost; 0.15.10 loses nothing).
    whole_text: Some(if cfg!(target_os = "linux") {
        1024 * 1024
    } else {
        64 * 1024
    }),
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "name the login: the `authType` option (\"openai\", \"qwen-oauth\"), or OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL in the \
         environment; with its own tools off, qwen does not read which one its settings choose",
    ),
    (
        Code::AuthenticationFailed,
        "run `qwen` and log in again with /auth, or correct OPENAI_API_KEY",
    ),
    (Code::InvalidApiKey, "correct OPENAI_API_KEY"),
    (
        Code::CliNotFound,
        "install it with `npm install -g @qwen-code/qwen-code`, or set `cliPath`",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    Rule::new(&[NoTurns, Text("<command .* is not supported in this mode>")], Code::PromptIntercepted, "The command \"/help\" is not supported in this mode."),
    Rule::new(&[NoTurns, Subtype("success")], Code::PromptIntercepted, "").say("the CLI took the prompt for a command of its own and asked no model"),
    Rule::new(&[Kind("tools_not_offered")], Code::InvalidConfig, "the CLI does not offer its model what is bound: add").hint("look into `permissions.deny` and `tools` of `~/.qwen/settings.json`"),
    Rule::new(&[Subtype("error_max_turns")], Code::MaxTurns, "Reached max session turns"),
    Rule::new(&[Exit(41)], Code::NotLoggedIn, "No auth type is selected."),
    Rule::new(&[Exit(42), Text("<no input provided>")], Code::EmptyPrompt, "No input provided via stdin."),
    Rule::new(&[Exit(52), Text("<json_schema is not|<json_schema root must>")], Code::InvalidOption, "--json-schema is not a valid JSON Schema: strict mode: unknown keyword: \"x-a\"").hint("give a schema that the CLI takes, or give it as the call's option `outputSchema`"),
    Rule::new(&[Exit(52)], Code::InvalidConfig, "Invalid configuration in settings.json").hint("correct ~/.qwen/settings.json"),
    Rule::new(&[Exit(55)], Code::Timeout, "Run aborted: wall-clock budget of 4s exceeded (--max-wall-time)."),
    Rule::new(&[Exit(53)], Code::MaxTurns, "Reached max session turns for this session."),
    Rule::new(&[Text("<is not supported in this mode>")], Code::PromptIntercepted, "The command \"/help\" is not supported in this mode."),
    Rule::new(&[Text("<no input provided via stdin>")], Code::EmptyPrompt, "No input provided via stdin. Input can be provided by piping data into gemini or using the --prompt option."),
    Rule::new(&[Text("<structured_output tool as required>|<instead of calling the structured_output>")], Code::OutputInvalid, "Model produced plain text instead of calling the structured_output tool as required by --json-schema after 1 turn(s)."),
    Rule::new(&[Text("<no auth type is selected>|<set an auth method>|<missing api key>")], Code::NotLoggedIn, "No auth type is selected. Please configure an auth type (e.g. via settings or `--auth-type`)"),
    Rule::new(&[Text("^\\[?api error: connection error")], Code::ConnectionFailed, "[API Error: Connection error. (cause: fetch failed)]"),
    Rule::new(&[Text("<context is too large to send>")], Code::ContextLength, "Context is too large to send safely after automatic compression. Estimated prompt tokens: 2097351; hard limit: 177000; compression status: NOOP."),
    Rule::new(&[Text("<model stream ended with empty>")], Code::EmptyResponse, "[API Error: Model stream ended with empty response text.]"),
    Rule::new(&[Text("<response contained a malformed tool call>")], Code::MalformedResponse, "[API Error: Model response contained a malformed tool call.]"),
    Rule::new(&[Text("<model stream ended without>")], Code::MalformedResponse, "[API Error: Model stream ended without a finish reason.]"),
    Rule::new(&[Text("^\\[?(?:api error: )?terminated>")], Code::ConnectionLost, "[API Error: terminated (cause: other side closed)]"),
    Rule::new(&[Subtype("error_during_execution")], Code::ServerError, "something broke").weak(),
];
