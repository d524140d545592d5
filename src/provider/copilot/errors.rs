//! The failures of GitHub Copilot CLI (1.0.102; NEW-CLIS 1.5). A failed request has its API's own error, which the common rules
//! read. A refusal by a plan or an organisation has a word of copilot's (`errorType`, `errorCode`), as its schema of events says.

use super::super::errors::{CLAP, Channel, Condition::*, Errors, Rule};
use dfp_model::error::Code;

/// The data of copilot's failures.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[CLAP],
    channel: Channel {
        preamble: Some(
            r"^Failed to get response from the AI model; retried \d+ times? \(total retry wait time: [\d.]+ seconds\)\s+Last error:\s+",
        ),
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "run `copilot login`, set COPILOT_GITHUB_TOKEN, or name a model API of your own in `provider`",
    ),
    (
        Code::AuthenticationFailed,
        "run `copilot login`, or correct the token or the key",
    ),
    (Code::TokenExpired, "run `copilot login`"),
    (
        Code::InvalidApiKey,
        "correct the key in `provider`, or COPILOT_PROVIDER_API_KEY",
    ),
    (
        Code::ModelNotFound,
        "name a model that your plan and your organisation allow; the command `/model` of `copilot` lists them",
    ),
    (
        Code::CliNotFound,
        "install it with `npm install -g @github/copilot`, or set `cliPath`",
    ),
];

const SEAT: &str = "ask who manages Copilot in your organisation for a seat, or log in with an account that has a plan";
const POLICY: &str = "ask who manages Copilot in your organisation: a policy of theirs does not allow it";
const BUDGET: &str = "wait until the plan is reset, buy more, or name a model API of your own in `provider`; see https://github.com/settings/copilot";

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    Rule::new(&[Kind("length")], Code::MaxTokens, "the answer reached the limit of the model's output"),
    // Refusals of a seat, a policy or a plan: by copilot's own words (`session.error`), and by the texts of its program.
    Rule::new(&[Text("<not licensed to use copilot>")], Code::PermissionDenied, "You are not licensed to use Copilot.").hint(SEAT),
    Rule::new(&[Text("<copilot pro trials? (?:have|has) been temporarily paused>|<copilot pro trial paused>")], Code::PermissionDenied, "Copilot Pro trials have been temporarily paused. Please upgrade your account or revert to Copilot Free.").hint(SEAT),
    Rule::new(&[Kind("policy")], Code::PermissionDenied, "Access denied by policy settings").hint(POLICY),
    Rule::new(&[Text("<access denied by policy settings>|<requires an enterprise or organization policy>")], Code::PermissionDenied, "You are not authorized to use this Copilot feature, it requires an enterprise or organization policy to be enabled.").hint(POLICY),
    Rule::new(&[Text("<does not have copilot requests>")], Code::PermissionDenied, "The provided personal access token (PAT) does not have Copilot Requests permission.").hint("make a fine-grained token with the permission \"Copilot Requests\""),
    Rule::new(&[Kind("billing_not_configured")], Code::CreditExhausted, "Billing is not configured").hint(BUDGET),
    Rule::new(&[Kind("session_quota_exceeded")], Code::BudgetExhausted, "You've reached the spending limit for this session."),
    Rule::new(&[Kind("overage_limit_reached")], Code::UsageLimit, "You've reached your additional budget").hint(BUDGET),
    Rule::new(&[Kind("free_quota_exceeded")], Code::UsageLimit, "You've reached your monthly quota").hint(BUDGET),
    Rule::new(&[Kind("quota")], Code::UsageLimit, "No remaining quota for premium requests").hint(BUDGET),
    Rule::new(&[Text("<no remaining quota for premium requests>|<run out of your included ai credits>")], Code::UsageLimit, "You've run out of your included AI credits for the month. Manage budget: https://github.com/settings/copilot/features").hint(BUDGET),
    Rule::new(&[Kind("user_weekly_rate_limited")], Code::UsageLimit, "You've hit your weekly rate limit").hint(BUDGET),
    Rule::new(&[Kind("rate_limit")], Code::RateLimited, "429 slow down"),
    Rule::new(&[Kind("context_limit")], Code::ContextLength, "the prompt is too long"),
    Rule::new(&[Kind("authorization")], Code::PermissionDenied, "403 no access"),
    // The failures that the live engine has a word for (`exchange::copilot_live`).
    Rule::new(&[Kind("no_answer")], Code::EmptyResponse, "the turn ended well, without a word and without a call"),
    Rule::new(&[Kind("context_compaction")], Code::ContextLength, "copilot shortens the history by itself").hint("shorten the thread: its model takes no more"),
    Rule::new(&[Kind("tool_ran")], Code::LiveUnsupported, "copilot ran the call call_1 by itself"),
    Rule::new(&[Kind("server_gone")], Code::Crashed, "copilot --headless ended in the middle of a turn"),
    Rule::new(&[Kind("session_closed")], Code::Crashed, "copilot has closed the session in the middle of its turn"),
    // Errors of login and set-up, which are text on standard error.
    Rule::new(&[Text("<no authentication information found>|<not authenticated>|<no git_hub o_auth token>")], Code::NotLoggedIn, "Error: No authentication information found."),
    Rule::new(&[Text("<authentication token validation failed>|<classic pat detected>")], Code::AuthenticationFailed, "Error: Authentication token validation failed: bad token"),
    Rule::new(&[Text("<providers require an explicit model>")], Code::InvalidOption, "BYOK providers require an explicit model. Run `copilot help providers` for configuration details.").hint("set `model`: a model API of your own has no default"),
    Rule::new(&[Text("<offline mode requires a local model provider>")], Code::InvalidConfig, "Offline mode requires a local model provider").hint("unset COPILOT_OFFLINE, or name a model API in `provider`"),
    Rule::new(&[Text("<no prompt provided>")], Code::EmptyPrompt, "No prompt provided. Run in an interactive terminal or provide a prompt with -p or via standard in."),
    // Errors of a request.
    Rule::new(&[Text("<no response was returned>")], Code::EmptyResponse, "No response was returned. Send your message again to retry."),
    Rule::new(&[Text("<exceeds the model's prompt budget>|<rejected the prompt as too long>")], Code::ContextLength, "The provider rejected the prompt as too long for the model."),
    Rule::new(&[Text("<could not connect to local model provider>")], Code::ConnectionFailed, "Could not connect to local model provider at http://127.0.0.1:9/v1"),
    Rule::new(&[Text("<connection closed before message completed>|<error reading a body from connection>|<unexpected eof>")], Code::ConnectionLost, "Failed native model HTTP request: error sending request for url (http://127.0.0.1:9/v1): client error (SendRequest): connection closed before message completed"),
    Rule::new(&[Text("<request ended without sending any chunks>")], Code::MalformedResponse, "Failed to finalize chat-completions stream: request ended without sending any chunks"),
    Rule::new(&[Text("<failed to finalize \\S+ stream>")], Code::ConnectionLost, "Failed to finalize chat-completions stream: missing finish_reason for choice 0"),
];
