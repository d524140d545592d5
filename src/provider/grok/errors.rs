//! The failures of Grok (1.0.41). An API's error is a line `error` whose text holds grok's words around the API's, with exit code
//! 1; the decoder takes kind, status and message out of it (`decode::grok`).

use super::super::errors::{CLAP, Condition::*, Errors, Rule};
use dfp_model::error::Code;

/// The data of grok's failures.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[CLAP],
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (Code::NotLoggedIn, "run `grok login`, or set XAI_API_KEY"),
    (Code::TokenExpired, "run `grok login` again, or set XAI_API_KEY"),
    (
        Code::AuthenticationFailed,
        "run `grok login` again, or correct XAI_API_KEY",
    ),
    (Code::InvalidApiKey, "correct XAI_API_KEY"),
    (
        Code::ModelNotFound,
        "name a model that `grok models` lists, or describe yours in the option `provider`",
    ),
    (
        Code::CliNotFound,
        "install it with `npm install -g @xai-official/grok`, or set `cliPath`; ax-grok is `dialect: \"ax\"`",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    Rule::new(&[Kind("max_tokens_truncation")], Code::MaxTokens, "response truncated by max_tokens"),
    Rule::new(&[Kind("no_usage")], Code::ConnectionLost, "the agent ended its answer without saying what it cost: the answer has broken off").hint("try again; with a model API that tells no usage, set `engine: \"print\"`"),
    Rule::new(&[Kind("no_visible_content")], Code::EmptyResponse, "empty response from model (no_visible_content)"),
    Rule::new(&[Kind("reasoning_only")], Code::EmptyResponse, "empty response from model (reasoning_only)"),
    Rule::new(&[Kind("insufficient_quota")], Code::QuotaExceeded, "You exceeded your current quota, please check your plan and billing details."),
    Rule::new(&[Text("^not signed in>")], Code::NotLoggedIn, "Not signed in. To authenticate without a browser, run:"),
    Rule::new(&[Text("<prompt is empty>")], Code::EmptyPrompt, "'/home/user/prompt.txt': prompt is empty"),
    Rule::new(&[Text("<unknown model id>")], Code::ModelNotFound, "Couldn't set model 'x': Invalid params: \"unknown model id\". Run 'grok models' to see available models."),
    Rule::new(&[Text("^serialization error>")], Code::MalformedResponse, "serialization error: missing field `created_at`"),
    Rule::new(&[Text("<transport error>|<error decoding response body>")], Code::ConnectionLost, "reqwest error stream: Transport error: error decoding response body"),
    Rule::new(&[Text("<error sending request for url>")], Code::ConnectionFailed, "reqwest error stream: error sending request for url (https://api.x.ai/v1/responses)"),
    // Grok does not find our session in the place where we have put it.
    Rule::new(&[Text("<not found locally>|<failed to authenticate for session restore>")], Code::UnsupportedFlag, "Session \"00000000-0000-4000-8000-000000000001\" not found locally, restoring conversation from remote...").say("grok did not find the session that holds the thread: it looks for sessions in another place than the version that was measured"),
];
