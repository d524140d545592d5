//! The failures of Claude Code (2.1.197 and 2.1.330; CLI-FACTS 1.3, 1.9, 1b §3). Codes and fields decide. Its wordings change with
//! every release, and count only if no field came: in text and json form, which have no `assistant.error`.

use super::super::errors::{COMMANDER, Channel, Condition::*, Errors, JSON_SCHEMA, Rule};
use dfp_model::error::Code;

/// The data of claude's failures.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[COMMANDER],
    refused_schema: Some(JSON_SCHEMA),
    channel: Channel {
        noise: &[
            r"\[claude-code:\w+\].*",
            r"claude\ code\ doesn.t\ recognize\ the\ model.*",
        ],
        // `claude -p` in text form: `API Error: …`, `Prompt is too long`, with exit code 1.
        fails_on_stdout: true,
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "run `claude` once and log in, or set ANTHROPIC_API_KEY",
    ),
    (
        Code::ModelNotFound,
        "set `model` to one that exists and that the account may use, such as `sonnet`",
    ),
    (Code::TokenExpired, "run `claude` and log in again with /login"),
    (Code::AuthenticationFailed, "run `claude` and log in again with /login"),
    (
        Code::InvalidApiKey,
        "correct or remove ANTHROPIC_API_KEY: it beats the login (`auth: \"subscription\"` ignores it)",
    ),
    (
        Code::CliNotFound,
        "install it with `npm install -g @anthropic-ai/claude-code`, or set `cliPath`",
    ),
    (
        Code::UnsupportedFlag,
        "update the CLI with `claude update`, or remove the flag from `extraArgs`",
    ),
];

const NO_PLAN: &str =
    "ask whoever administers your organization at Anthropic for a seat with Claude Code, or set ANTHROPIC_API_KEY";

const EXTRA_USAGE: &str = "an allowance beside the plan, used up or never granted: add to it at claude.ai/settings/usage; API keys are not concerned";

/// Advice for 2.1.332 if the machine's owner has servers of tools, which can't be left out.
const MANAGED_SERVERS: &str = "this machine's owner sets tool servers in `managed-mcp.json`: use an API, or another vendor's CLI, for a model alone";
const MANAGED_LOGIN: &str =
    "log in with your organization's account, and leave out API keys (`auth: \"subscription\"`)";
const NOT_OFFERED: &str = "look into `permissions.deny` of `~/.claude/settings.json` and your organization's settings, which `health()` names";

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    // bin/claude.exe of 2.1.197, called through a shell, as the package leaves it whose script did not run.
    Rule::new(&[Text("<claude native binary not installed")], Code::CliNotExecutable, "claude native binary not installed.").hint("run `npm install -g --include=optional --ignore-scripts=false @anthropic-ai/claude-code`"),
    // The words for the run's end.
    Rule::new(&[Subtype("error_max_turns")], Code::MaxTurns, "Reached maximum number of turns (1)"),
    Rule::new(&[Terminal("max_turns")], Code::MaxTurns, "Reached maximum number of turns (1)"),
    Rule::new(&[Subtype("error_max_budget_usd")], Code::BudgetExhausted, "Reached maximum budget ($0.01)"),
    Rule::new(&[Terminal("budget_exhausted")], Code::BudgetExhausted, "Reached maximum budget ($0.01)"),
    Rule::new(&[Subtype("error_max_structured_output_retries")], Code::OutputInvalid, "Failed to provide valid structured output"),
    Rule::new(&[Terminal("prompt_too_long")], Code::ContextLength, "Prompt is too long · the request is ~250000 tokens (limit 200000)"),
    Rule::new(&[Terminal("image_error")], Code::RequestTooLarge, "Request too large (max 32MB)"),
    Rule::new(&[Terminal("aborted_streaming")], Code::Crashed, "[ede_diagnostic] result_type=user").say("interrupted in the middle of the answer"),
    Rule::new(&[Terminal("aborted_tools")], Code::Crashed, "[ede_diagnostic] result_type=user").say("interrupted while a tool was to run"),
    Rule::new(&[Terminal("tool_deferred_unavailable")], Code::InvalidTool, "mcp__df__calculator isn't available, so its deferred call didn't run."),
    Rule::new(&[Kind("tools_not_offered")], Code::InvalidConfig, "the CLI does not offer its model what is bound: add").hint(NOT_OFFERED),
    Rule::new(&[Stop("model_context_window_exceeded")], Code::ContextLength, "the answer ends where the model's context does"),
    Rule::new(&[Stop("refusal")], Code::Refusal, "API Error: Claude Code is unable to respond to this request"),
    Rule::new(&[Stop("max_tokens")], Code::MaxTokens, "the answer ends at its limit of tokens"),
    Rule::new(&[Kind("max_output_tokens")], Code::MaxTokens, "Claude's response exceeded the 64000 output token maximum"),
    // The words of `assistant.error` and `api_error`.
    Rule::new(&[Kind("usage_limit_reached")], Code::UsageLimit, "You've hit your 5-hour limit · resets 12:15am (UTC)"),
    // An organisation without a plan has no limit that is used up, so waiting does not help.
    Rule::new(&[Kind("rate_limit"), NoPlan], Code::PermissionDenied, "This service is disabled for your org").hint(NO_PLAN),
    Rule::new(&[Status(429), NoPlan], Code::PermissionDenied, "This service is disabled for your org").hint(NO_PLAN),
    Rule::new(&[Text("<cannot use --strict-mcp-config when an enterprise mcp config is present")], Code::InvalidConfig, "You cannot use --strict-mcp-config when an enterprise MCP config is present").hint(MANAGED_SERVERS),
    Rule::new(&[Text("<managed settings require a first-party login")], Code::PermissionDenied, "This machine's managed settings require a first-party login: they pin Anthropic sign-ins to your organization (forceLoginOrgUUID), and this session is configured with an API key from ANTHROPIC_API_KEY").hint(MANAGED_LOGIN),
    Rule::new(&[Text("<this service is disabled for your org")], Code::PermissionDenied, "This service is disabled for your org").hint(NO_PLAN),
    // claude-agent-acp#365, claude-code#79500: with a kind of its own, with another's, or with none.
    Rule::new(&[Text("<disabled claude subscription access>")], Code::PermissionDenied, "Your organization has disabled Claude subscription access for Claude Code · Use an Anthropic API key instead, or ask your admin to enable access").hint(NO_PLAN),
    Rule::new(&[Kind("server_error"), Text("<disabled claude subscription access>")], Code::PermissionDenied, "Your organization has disabled Claude subscription access for Claude Code · Use an Anthropic API key instead, or ask your admin to enable access").hint(NO_PLAN),
    Rule::new(&[Kind("authentication_failed"), Text("<disabled claude subscription access>")], Code::PermissionDenied, "Your organization has disabled Claude subscription access for Claude Code · Use an Anthropic API key instead, or ask your admin to enable access").hint(NO_PLAN),
    Rule::new(&[Kind("invalid_request"), Text("<disabled claude subscription access>")], Code::PermissionDenied, "Your organization has disabled Claude subscription access for Claude Code · Use an Anthropic API key instead, or ask your admin to enable access").hint(NO_PLAN),
    Rule::new(&[Kind("rate_limit"), PlanLimit], Code::UsageLimit, "You're out of usage credits · resets 2:41pm (UTC)"),
    Rule::new(&[Status(429), PlanLimit], Code::UsageLimit, "You're out of usage credits · resets 2:41pm (UTC)"),
    Rule::new(&[Kind("rate_limit"), Text(PLAN)], Code::UsageLimit, "You've hit your session limit · resets 10:37pm (UTC)"),
    Rule::new(&[Kind("rate_limit")], Code::RateLimited, "API Error: Request rejected (429) · rate limit."),
    Rule::new(&[Kind("overloaded")], Code::Overloaded, "API Error: 529 Overloaded"),
    Rule::new(&[Kind("billing_error")], Code::CreditExhausted, "Credit balance is too low"),
    Rule::new(&[Kind("authentication_failed"), Text(NO_LOGIN)], Code::NotLoggedIn, "Not logged in · Please run /login"),
    Rule::new(&[Kind("authentication_failed"), Text("<revoked>|<expired>")], Code::TokenExpired, "Failed to authenticate: OAuth token revoked. Please log in again"),
    Rule::new(&[Kind("authentication_failed"), Text("<invalid api key>")], Code::InvalidApiKey, "Invalid API key · Fix external API key"),
    Rule::new(&[Kind("authentication_failed"), Status(403)], Code::PermissionDenied, "Failed to authenticate. API Error: 403 Request not allowed"),
    Rule::new(&[Kind("authentication_failed")], Code::AuthenticationFailed, "Failed to authenticate. API Error: 401 bad"),
    Rule::new(&[Kind("oauth_org_not_allowed")], Code::PermissionDenied, "Your organization is not allowed"),
    Rule::new(&[Kind("account_on_hold")], Code::PermissionDenied, "Your account is on hold"),
    Rule::new(&[Kind("verification_required")], Code::PermissionDenied, "Verify your account"),
    Rule::new(&[Kind("cloud_credential_error")], Code::AuthenticationFailed, "Could not load credentials from any providers"),
    Rule::new(&[Kind("model_not_found")], Code::ModelNotFound, "There's an issue with the selected model (claude-nope)."),
    Rule::new(&[Kind("invalid_request"), Text(REFUSED)], Code::Refusal, "API Error: Sonnet 5 can't help with this. Learn more: https://www.anthropic.com/legal/aup"),
    Rule::new(&[Kind("invalid_request"), Status(413)], Code::RequestTooLarge, "Request too large (max 32MB)"),
    Rule::new(&[Kind("invalid_request"), Text("<(?:prompt|input) is too long>")], Code::ContextLength, "Prompt is too long · the request is ~250000 tokens"),
    Rule::new(&[Kind("invalid_request"), Text("<third-party apps now draw from your extra usage>")], Code::CreditExhausted, "API Error: 400 Third-party apps now draw from your extra usage, not your plan limits. Add more at claude.ai/settings/usage and keep going.").hint(EXTRA_USAGE),
    Rule::new(&[Status(400), Text("<third-party apps now draw from your extra usage>")], Code::CreditExhausted, "API Error: 400 Third-party apps now draw from your extra usage, not your plan limits. Add more at claude.ai/settings/usage and keep going.").hint(EXTRA_USAGE),
    Rule::new(&[Kind("invalid_request"), Text("<credit balance>")], Code::CreditExhausted, "Credit balance is too low"),
    Rule::new(&[Kind("invalid_request")], Code::InvalidRequest, "API Error: 400 bad"),
    Rule::new(&[Kind("connection_failed"), Text(CUT)], Code::ConnectionLost, "API Error: Connection to the API was lost (ECONNRESET)"),
    Rule::new(&[Kind("connection_failed")], Code::ConnectionFailed, "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)"),
    Rule::new(&[Kind("server_error"), Status(529)], Code::Overloaded, "API Error: 529 Overloaded. This is a server-side issue"),
    Rule::new(&[Kind("server_error"), Statuses(500, 528)], Code::ServerError, "API Error: 500 boom"),
    // The status is null: only the text says what the CLI gave up on.
    Rule::new(&[Kind("server_error"), Text("<overloaded>")], Code::Overloaded, "API Error: Repeated 529 Overloaded errors. The API is at capacity"),
    Rule::new(&[Kind("server_error"), Text("<timed out>")], Code::RequestTimeout, "Request timed out"),
    Rule::new(&[Kind("server_error"), Text(CUT)], Code::ConnectionLost, "API Error: Connection to the API was lost (ECONNRESET). The response above is partial."),
    Rule::new(&[Kind("server_error"), Text(NO_CONNECTION)], Code::ConnectionFailed, "API Error: Unable to connect to API (ConnectionRefused)"),
    Rule::new(&[Kind("server_error")], Code::ServerError, "API Error: boom"),
    Rule::new(&[NoTurns, Subtype("success")], Code::PromptIntercepted, "Unknown command: /nonsense").say("the CLI took the prompt for a command of its own and asked no model"),
    // The texts of text form, and of results with missing fields.
    Rule::new(&[Text(PLAN)], Code::UsageLimit, "You've hit your session limit · resets 10:37pm (UTC)"),
    Rule::new(&[Text("<not your usage limit>|<request rejected \\(429\\)")], Code::RateLimited, "API Error: Server is temporarily limiting requests (not your usage limit) · rate limited"),
    Rule::new(&[Text(NO_LOGIN)], Code::NotLoggedIn, "Not logged in · Please run /login"),
    Rule::new(&[Text("<fix external api key>")], Code::InvalidApiKey, "Invalid API key · Fix external API key"),
    Rule::new(&[Text("<account does not have access to claude>")], Code::PermissionDenied, "Your account does not have access to Claude. Please login again or contact your administrator."),
    Rule::new(&[Text("<third-party apps now draw from your extra usage>")], Code::CreditExhausted, "API Error: 400 Third-party apps now draw from your extra usage, not your plan limits. Add more at claude.ai/settings/usage and keep going.").hint(EXTRA_USAGE),
    Rule::new(&[Text("<credit balance is too low>")], Code::CreditExhausted, "Credit balance is too low"),
    Rule::new(&[Text("<issue with the selected model>")], Code::ModelNotFound, "There's an issue with the selected model (claude-nope). It may not exist or you may not have access to it."),
    Rule::new(&[Text("^(?:api error: )?prompt is too long>")], Code::ContextLength, "Prompt is too long · the request is ~250000 tokens (limit 200000)"),
    Rule::new(&[Text("<request too large>")], Code::RequestTooLarge, "Request too large (max 32MB). Double press esc to go back and try with a smaller file."),
    Rule::new(&[Text("<output token maximum>")], Code::MaxTokens, "API Error: Claude's response exceeded the 64000 output token maximum."),
    Rule::new(&[Text(REFUSED)], Code::Refusal, "API Error: Claude Code is unable to respond to this request, which appears to violate our Usage Policy"),
    Rule::new(&[Text("<repeated 529 overloaded>")], Code::Overloaded, "API Error: Repeated 529 Overloaded errors. The API is at capacity"),
    Rule::new(&[Text("<empty or malformed response>")], Code::MalformedResponse, "API Error: API returned an empty or malformed response (HTTP 200)"),
    // The result of a web page with status 200, if the request without streaming is switched off (claude 2.1.197, 2.1.330).
    Rule::new(&[Text("<stream ended without receiving any events>")], Code::MalformedResponse, "API Error: Stream ended without receiving any events"),
    Rule::new(&[Text("^request timed out>")], Code::RequestTimeout, "Request timed out. If the API is slow to answer, set API_TIMEOUT_MS above 3000."),
    Rule::new(&[Text("<unable to connect to api>|<connection refused>")], Code::ConnectionFailed, "API Error: Unable to connect to API (ConnectionRefused)"),
    // Set-up errors, which come on standard error with an empty standard output.
    Rule::new(&[Text("<input must be provided|<contained only whitespace>|<no messages returned from query>")], Code::EmptyPrompt, "Error: Input must be provided either through stdin or as a prompt argument when using --print"),
    Rule::new(&[Text("<piped stdin input exceeds>")], Code::PromptTooLong, "Error: piped stdin input exceeds 10MB. Pass large content as a file path in your prompt instead.").hint("shorten the thread: claude takes at most 10 MB"),
    Rule::new(&[Text("<requires --verbose>")], Code::InvalidOption, "Error: When using --print, --output-format=stream-json requires --verbose").hint("leave `verbose` at its default"),
    Rule::new(&[Text("<json_schema is not valid json>")], Code::InvalidOption, "Error: --json-schema is not valid JSON: JSON Parse error: Expected '}'").hint("give a schema that is valid JSON"),
    Rule::new(&[Text("<json_schema is not a valid json schema>")], Code::InvalidOption, "Error: --json-schema is not a valid JSON Schema: strict mode: unknown keyword: \"x-a\"").hint("give a schema that the CLI takes, or give it as the call's option `outputSchema`"),
    Rule::new(&[Text("<cannot be used with root/sudo")], Code::InvalidOption, "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons").hint("run as an ordinary user, or choose another `permissionMode`"),
    Rule::new(&[Text("<cannot be launched inside another claude code session>")], Code::InvalidConfig, "Error: Claude Code cannot be launched inside another Claude Code session.").hint("remove CLAUDECODE from the environment (`env: { CLAUDECODE: undefined }`)"),
    // 2.1.197 quotes the line, and with it the prompt.
    Rule::new(&[Text("<error parsing streaming input line|<expected message role>")], Code::Internal, "Error parsing streaming input line (type=unknown, 16 chars): SyntaxError").say("the CLI can't read a line that was sent to it"),
    Rule::new(&[Text("^execution error$")], Code::Crashed, "Execution error").say("interrupted in the middle of the answer"),
    // The last resorts.
    Rule::new(&[Terminal("model_error")], Code::ServerError, "e.message.content.some is not a function.").weak(),
    Rule::new(&[Subtype("error_during_execution")], Code::ServerError, "something broke").weak(),
];

/// The sentences of claude about a used-up plan, as 2.1.330 lists them itself; `session`, `5-hour`, `Opus`, `org's monthly spend`
/// are the names that plans give their windows.
const PLAN: &str = "<(?:hit|reached) your (?:[\\w-]+(?:'s)? ){0,4}limit>|<limit reached\\|\\d|<usage limit reached>|<limit reached ∙ resets>\
|<out of (?:usage credits|extra usage)>|<org is out of usage>|<seat type doesn't include (?:extra )?usage>\
|<usage allocation has been disabled>|<usage limit is set to \\$0>|<requires usage credits>";
const NO_LOGIN: &str = "<not logged in>|<please run /login>";
const REFUSED: &str = "<unable to respond to this request>|<can't help with this>|<safeguards (?:flagged|stopped)>|<usage policy>|<legal/aup>";
const CUT: &str = "<connection to the api was lost>|<ECONNRESET>|<socket hang up>";
const NO_CONNECTION: &str = "<unable to connect>|<connection_?refused>|<ECONNREFUSED>|<ENOTFOUND>|<EAI_AGAIN>|<ETIMEDOUT>|<fetch failed>|<certificate>";
