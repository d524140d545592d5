//! The error rules of all providers: those of the registry, those of the API provider, and those for every provider: HTTP statuses,
//! identifiers of the APIs, exit codes, and each pattern of CLI-ADAPTER-PROTOCOL, "Error Patterns". And the advice for a failure, in one
//! sentence for people.
//!
//! In: a provider's id. Out: its [`ProviderRules`], and its advice for a code, or else the general one ([`hint`]); a rule may have better
//! advice (`Rule::hint`). The rules of a CLI are in its folder, `provider/<id>/`.

use std::sync::LazyLock;

use crate::api;
use crate::capability;
use crate::errors::Condition::*;
use crate::errors::{Errors, ExitCodes, Rule, Table};
use dfp_model::error::Code;

/// The rules for one provider's failures.
pub struct ProviderRules {
    pub id: &'static str,
    pub errors: &'static Errors,
    /// The provider's rules, ready to be matched.
    pub table: Table,
}

impl ProviderRules {
    fn new(id: &'static str, errors: &'static Errors) -> Self {
        let table = Table::new(errors.rules);
        ProviderRules { id, errors, table }
    }
}

/// The rules of all providers, in the order in which they are tried if the provider is unknown.
pub static ALL: LazyLock<Vec<ProviderRules>> = LazyLock::new(|| {
    crate::every()
        .map(|provider| ProviderRules::new(&provider.id, &provider.errors))
        .chain([ProviderRules::new(api::PROVIDER, &api::ERRORS)])
        .collect()
});

/// The rules of one provider; `None` for a CLI of the user's own.
pub fn of(provider: &str) -> Option<&'static ProviderRules> {
    ALL.iter().find(|known| known.id == provider)
}

/// The HTTP status that an exit code stands for, if the CLI encodes one in it.
pub fn status_of_exit(provider: &str, exit: i32) -> Option<u16> {
    const STATUSES: [u16; 15] = [
        400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 499, 500, 502, 503, 504,
    ];
    match of(provider)?.errors.exit_codes {
        ExitCodes::Failed => None,
        ExitCodes::HttpStatus => STATUSES.into_iter().find(|status| i32::from(status % 256) == exit),
    }
}

/// The reason for a CLI in JavaScript that needs a newer Node than the installed one (qwen 0.24.4 on 18.20.8).
pub const OLD_NODE: &str = "the CLI needs a newer Node than the one that runs it";

/// The common rules, which are tried after the provider's own table.
pub static TABLE: Table = Table::new(RULES);

/// The wordings of servers for a thread that is longer than the model's context. They are tried before all other rules, even the
/// provider's own: many servers report it as a lost connection, a server error or a wrong parameter, and asking again never helps.
pub static FULL: Table = Table::new(FULL_CONTEXT);

/// Refinements of a verdict: a status says who failed, and the text beside it says why.
pub static FINER: Table = Table::new(REFINEMENTS);

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    // Identifiers of the APIs that say more than the status beside them.
    Rule::new(&[Kind("insufficient_quota")], Code::QuotaExceeded, "You exceeded your current quota"),
    Rule::new(&[Kind("quota_exceeded")], Code::QuotaExceeded, "quota"),
    Rule::new(&[Kind("billing_hard_limit_reached")], Code::CreditExhausted, "Billing hard limit has been reached"),
    Rule::new(&[Kind("billing_error")], Code::CreditExhausted, "Your credit balance is too low"),
    Rule::new(&[Kind("usage_limit_reached")], Code::UsageLimit, "The usage limit has been reached"),
    Rule::new(&[Kind("invalid_api_key")], Code::InvalidApiKey, "Incorrect API key provided"),
    Rule::new(&[Kind("api_key_invalid")], Code::InvalidApiKey, "API key not valid"),
    Rule::new(&[Kind("model_not_found")], Code::ModelNotFound, "The model m1 does not exist"),
    Rule::new(&[Kind("rate_limit_error")], Code::RateLimited, "slow down"),
    Rule::new(&[Kind("rate_limit_exceeded")], Code::RateLimited, "Rate limit reached"),
    Rule::new(&[Kind("overloaded_error")], Code::Overloaded, "Overloaded"),
    Rule::new(&[Kind("server_is_overloaded")], Code::Overloaded, "Overloaded"),
    Rule::new(&[Kind("content_filter")], Code::Refusal, "filtered"),
    Rule::new(&[Kind("content_policy_violation")], Code::Refusal, "rejected by the safety system"),
    // Identifiers for failures that the Agent Client Protocol defines (`exchange::acp`).
    Rule::new(&[Kind("auth_required")], Code::NotLoggedIn, "Authentication required"),
    Rule::new(&[Kind("not_offered")], Code::UnsupportedOption, "the agent offers no choice of its model"),
    Rule::new(&[Kind("process_gone")], Code::Crashed, "the CLI's process ended in the middle of the call"),
    Rule::new(&[Kind("refusal")], Code::Refusal, "the agent refused to go on"),
    Rule::new(&[Kind("line_too_long")], Code::OutputLimit, "codex answered with a line that is longer than can be taken"),
    Rule::new(&[Kind("max_tokens")], Code::MaxTokens, "the agent reached a limit before its answer was whole"),
    Rule::new(&[Kind("max_turn_requests")], Code::MaxTurns, "max turns reached"),
    Rule::new(&[Kind("request_too_large")], Code::RequestTooLarge, "Request exceeds the maximum size"),
    // HTTP statuses.
    Rule::new(&[Status(402)], Code::CreditExhausted, "Payment Required"),
    Rule::new(&[Status(401)], Code::AuthenticationFailed, "Unauthorized"),
    Rule::new(&[Status(403)], Code::PermissionDenied, "Forbidden"),
    Rule::new(&[Status(404)], Code::NotFound, "Not Found"),
    Rule::new(&[Status(408)], Code::RequestTimeout, "Request Timeout"),
    Rule::new(&[Status(413)], Code::RequestTooLarge, "Payload Too Large"),
    Rule::new(&[Status(429)], Code::RateLimited, "Too Many Requests"),
    Rule::new(&[Status(529)], Code::Overloaded, "Overloaded"),
    Rule::new(&[Statuses(400, 499)], Code::InvalidRequest, "Bad Request"),
    Rule::new(&[Statuses(500, 599)], Code::ServerError, "Bad Gateway"),
    // Identifiers of the APIs that say no more than a status.
    Rule::new(&[Kind("authentication_error")], Code::AuthenticationFailed, "invalid credentials"),
    Rule::new(&[Kind("unauthenticated")], Code::AuthenticationFailed, "invalid credentials"),
    Rule::new(&[Kind("permission_error")], Code::PermissionDenied, "no access"),
    Rule::new(&[Kind("permission_denied")], Code::PermissionDenied, "no access"),
    Rule::new(&[Kind("not_found_error")], Code::NotFound, "no such thing"),
    Rule::new(&[Kind("not_found")], Code::NotFound, "no such thing"),
    Rule::new(&[Kind("resource_exhausted")], Code::QuotaExceeded, "Resource has been exhausted"),
    Rule::new(&[Kind("timeout_error")], Code::RequestTimeout, "Request timed out"),
    Rule::new(&[Kind("deadline_exceeded")], Code::ConnectionFailed, "Deadline expired"),
    Rule::new(&[Kind("unavailable")], Code::ServerError, "unavailable"),
    Rule::new(&[Kind("internal")], Code::ServerError, "Internal error"),
    Rule::new(&[Kind("server_error")], Code::ServerError, "boom"),
    Rule::new(&[Kind("internal_server_error")], Code::ServerError, "boom"),
    Rule::new(&[Kind("invalid_argument")], Code::InvalidRequest, "Request contains an invalid argument"),
    Rule::new(&[Kind("invalid_request_error")], Code::InvalidRequest, "bad param"),
    // This package's own identifier for output that is no answer.
    Rule::new(&[Kind("malformed_response")], Code::MalformedResponse, "the output ends before its result: it was cut short"),
    // The answer was a web page. If it came with a failure's status, that rule comes first and says who failed.
    Rule::new(&[Kind("web_page")], Code::MalformedResponse, "the API answered with a web page"),
    // Exit codes of shells and operating systems.
    Rule::new(&[Exit(127), Text("env: .*no such file")], Code::InterpreterNotFound, "/usr/bin/env: 'node': No such file or directory"),
    Rule::new(&[Exit(127)], Code::CliNotFound, "sh: 1: ax-glm: not found"),
    Rule::new(&[Exit(126)], Code::CliNotExecutable, "sh: 1: ./claude: Permission denied"),
    Rule::new(&[Exit(9009)], Code::CliNotFound, "'claude' is not recognized as an internal or external command"),
    Rule::new(&[Signal("SIGKILL")], Code::Crashed, "").say("killed by SIGKILL, possibly out of memory").hint(MEMORY),
    Rule::new(&[Exit(137)], Code::Crashed, "").say("killed by SIGKILL (exit code 137), possibly out of memory").hint(MEMORY),
    Rule::new(&[Signal("SIGABRT")], Code::Crashed, "").say("aborted (SIGABRT)").hint(MEMORY),
    Rule::new(&[Exit(134)], Code::Crashed, "").say("aborted (SIGABRT, exit code 134)").hint(MEMORY),
    Rule::new(&[Signal("SIGILL")], Code::Crashed, "").say("died of an illegal instruction (SIGILL)").hint(CPU),
    Rule::new(&[Exit(132)], Code::Crashed, "").say("died of an illegal instruction (SIGILL, exit code 132)").hint(CPU),
    Rule::new(&[Signal("SIGTERM")], Code::Crashed, "").say("stopped by SIGTERM from outside").hint(OUTSIDE),
    Rule::new(&[Exit(143)], Code::Crashed, "").say("stopped by SIGTERM from outside (exit code 143)").hint(OUTSIDE),
    Rule::new(&[Signal("SIGINT")], Code::Crashed, "").say("interrupted by SIGINT from outside").hint(OUTSIDE),
    Rule::new(&[Exit(130)], Code::Crashed, "").say("interrupted by SIGINT from outside (exit code 130)").hint(OUTSIDE),
    Rule::new(&[Signal("SIGHUP")], Code::Crashed, "").say("stopped by SIGHUP: its terminal went away").hint(OUTSIDE),
    Rule::new(&[Exit(129)], Code::Crashed, "").say("stopped by SIGHUP (exit code 129): its terminal went away").hint(OUTSIDE),
    Rule::new(&[Signal("SIGSEGV")], Code::Crashed, "").say("crashed (SIGSEGV)"),
    Rule::new(&[Exit(139)], Code::Crashed, "").say("crashed (SIGSEGV, exit code 139)"),
    Rule::new(&[Exit(-1_073_741_819)], Code::Crashed, "").say("crashed (access violation)"),
    Rule::new(&[Exit(-1_073_741_510)], Code::Crashed, "").say("interrupted (Ctrl-C or a closing console)").hint(OUTSIDE),
    Rule::new(&[AnySignal], Code::Crashed, "").say("killed by a signal"),
    // Wordings of option parsers: commander, clap, yargs, argparse, Go.
    Rule::new(&[Text("<unknown (?:option|argument|flag)s?>")], Code::UnsupportedFlag, "error: unknown option '--no-input'"),
    Rule::new(&[Text("<(?:unexpected|unrecognized) (?:argument|option|flag)s?>")], Code::UnsupportedFlag, "error: unexpected argument '--no-input' found"),
    Rule::new(&[Text("<flag provided but not defined>")], Code::UnsupportedFlag, "flag provided but not defined: -frob"),
    Rule::new(&[Text("<(?:option|argument) .* argument .* is invalid|<invalid value .* for '-|<argument missing>|<not enough arguments>")], Code::InvalidOption, "error: option '--permission-mode <mode>' argument 'x' is invalid. Allowed choices are plan."),
    // Quota (document: insufficient_quota quota_exceeded billing_hard_limit RESOURCE_EXHAUSTED credit_limit usage_limit).
    Rule::new(&[Text("<insufficient_quota")], Code::QuotaExceeded, "insufficient_quota"),
    Rule::new(&[Text("<quota_(?:is_|was_|has_been_)?(?:exceeded|exhausted|reached)|<exceeded_your_(?:current_|daily_|monthly_)?quota|<(?:exhausted|used_up)_your_(?:\\w+_)?quota|<out of quota")], Code::QuotaExceeded, "quota_exceeded"),
    Rule::new(&[Text("<billing_hard_limit")], Code::CreditExhausted, "billing_hard_limit"),
    Rule::new(&[Text("<resource_(?:has_been_)?exhausted>")], Code::QuotaExceeded, "RESOURCE_EXHAUSTED"),
    Rule::new(&[Text("<credit_limit|<credit_balance_is_too_low|<insufficient_(?:credits?|balance|funds)|<(?:out of|no more|used up your) credits?>|<credits? (?:exhausted|depleted)")], Code::CreditExhausted, "credit_limit"),
    Rule::new(&[Text("<usage_limit|<(?:session|5.hour|five.hour|weekly|daily|monthly|plan|spending)_limit_(?:reached|hit|exceeded)|<(?:hit|reached|exceeded) your (?:[\\w-]+ ){0,2}(?:session|5.hour|five.hour|weekly|daily|monthly|plan|usage|spending) limit")], Code::UsageLimit, "usage_limit"),
    // Rate limit (document: rate_limit rate.limit RATE_LIMIT_EXCEEDED too_many_requests 429 overloaded throttl*).
    Rule::new(&[Text("<rate_limit")], Code::RateLimited, "rate.limit"),
    Rule::new(&[Text("<too_many_requests")], Code::RateLimited, "too_many_requests"),
    Rule::new(&[Text("<overloaded|<at capacity>|<no capacity>")], Code::Overloaded, "overloaded"),
    Rule::new(&[Text("<throttl|<(?:reduce|high) concurrency>")], Code::RateLimited, "throttled"),
    // Errors of the operating system, which have nothing to do with an account.
    Rule::new(&[Text("<spawn (?:\\S+ )?(?:EACCES|ENOEXEC|UNKNOWN)>|<exec format error>")], Code::CliNotExecutable, "spawn ./claude EACCES"),
    Rule::new(&[Text("<uv_os_(?:homedir|get_passwd)>")], Code::InvalidConfig, "ENOENT: no such file or directory, uv_os_homedir").hint("set HOME in the CLI's environment (`env`): the user that it runs as has no home folder"),
    Rule::new(&[Text("<EACCES>|<EPERM>|<EROFS>")], Code::InvalidConfig, "EACCES: permission denied, open '/home/user/.claude.json'").hint("let the CLI read and write the file that it names"),
    // Authentication (document: invalid_api_key unauthorized UNAUTHENTICATED PERMISSION_DENIED authentication_failed
    // not_authenticated 401 403).
    Rule::new(&[Text(API_KEY)], Code::InvalidApiKey, "invalid_api_key"),
    Rule::new(&[Text("<unauthori[sz]ed>")], Code::AuthenticationFailed, "unauthorized"),
    Rule::new(&[Text(EXPIRED)], Code::TokenExpired, "OAuth token has expired"),
    Rule::new(&[Text(LOGIN)], Code::NotLoggedIn, "not_authenticated"),
    Rule::new(&[Text("<unauthenticated>")], Code::AuthenticationFailed, "UNAUTHENTICATED"),
    Rule::new(&[Text("<permission_denied>|<(?:access|request) denied>|<insufficient permissions?>|<not authori[sz]ed>|<forbidden>")], Code::PermissionDenied, "PERMISSION_DENIED"),
    Rule::new(&[Text("<authentication_(?:has_)?fail|<failed to authenticate|<authentication_error|<invalid_(?:authentication|credentials?)")], Code::AuthenticationFailed, "authentication_failed"),
    // Validation (document: invalid_request malformed bad_request validation_error invalid_parameter 400).
    Rule::new(&[Text(CONTEXT)], Code::ContextLength, "context_length_exceeded"),
    Rule::new(&[Text("<safety system>|<content_(?:filter|policy)|<usage polic(?:y|ies)>|<flagged by>")], Code::Refusal, "Your request was rejected by our safety system"),
    Rule::new(&[Text("<invalid_request")], Code::InvalidRequest, "invalid_request"),
    Rule::new(&[Text("<malformed>")], Code::InvalidRequest, "malformed"),
    Rule::new(&[Text("<bad_request")], Code::InvalidRequest, "bad_request"),
    Rule::new(&[Text("<validation_(?:error|failed)")], Code::InvalidRequest, "validation_error"),
    Rule::new(&[Text("<(?:invalid|unsupported|missing|missing required|unknown)_(?:parameter|argument)")], Code::InvalidRequest, "invalid_parameter"),
    // Network (document: ECONNRESET ETIMEDOUT ENOTFOUND ECONNREFUSED network_error connection_failed DEADLINE_EXCEEDED
    // socket_hang_up).
    Rule::new(&[Text(LOST)], Code::ConnectionLost, "ECONNRESET"),
    Rule::new(&[Text("<ETIMEDOUT>|<ENOTFOUND>|<EAI_AGAIN>|<ECONNREFUSED>|<EHOSTUNREACH>|<ENETUNREACH>|<EPIPE>")], Code::ConnectionFailed, "ETIMEDOUT"),
    Rule::new(&[Text("<network_error|<network_(?:is_)?unreachable|<no_internet")], Code::ConnectionFailed, "network_error"),
    Rule::new(&[Text("<connection_(?:failed|refused|error)>|<fetch_failed>|<unable to connect|<(?:can't|cannot|could not) connect>|<failed to connect|<error sending request>|<failed to lookup address|<name or service not known|<getaddrinfo|<net::ERR>")], Code::ConnectionFailed, "connection_failed"),
    Rule::new(&[Text("<certificate (?:has expired|is not yet valid|chain|verify failed|signed by unknown)|<self.signed certificate|<unable to (?:get (?:local )?issuer|verify the first) certificate|<ssl routines>|<tls handshake|<CERT_HAS_EXPIRED>")], Code::ConnectionFailed, "self-signed certificate in certificate chain").hint("a proxy may be reading along: give Node its certificate with NODE_EXTRA_CA_CERTS"),
    Rule::new(&[Text("<deadline_exceeded>")], Code::ConnectionFailed, "DEADLINE_EXCEEDED"),
    // Server (document: internal_server_error service_unavailable bad_gateway 500 502 503 504).
    Rule::new(&[Text("<internal_server_error|<internal_error>")], Code::ServerError, "internal_server_error"),
    Rule::new(&[Text("<service_(?:is_)?(?:temporarily_|currently_)?unavailable")], Code::ServerError, "service_unavailable"),
    Rule::new(&[Text("<bad_gateway")], Code::ServerError, "bad_gateway"),
    // A `504 Gateway Timeout` is a failure of the server.
    Rule::new(&[Text("<gateway_time_?out")], Code::ServerError, "gateway timeout"),
    // A text about the value of a timeout does not say that time has run out.
    Rule::new(&[Text("<invalid (?:value (?:for|of) )?(?:\\w+_)?time_?out|<time_?out (?:value|option)|<time_?out must be")], Code::InvalidOption, "invalid timeout value"),
    Rule::new(&[Text("<timed_out>|<time_?outs?>|<timeout_error>")], Code::RequestTimeout, "timed_out"),
    Rule::new(&[Text("<SIGTERM>|<SIGKILL>")], Code::Timeout, "SIGTERM"),
    // Not found (document: command_not_found ENOENT not_found model_not_found 404).
    Rule::new(&[Text("<requested module '\\S*' does not provide an export named>|<no such built-in module>")], Code::CliNotExecutable, "SyntaxError: The requested module 'node:fs' does not provide an export named 'openAsBlob'").say(OLD_NODE).hint("update Node, or put a newer one first on the PATH that the CLI gets (`env`)"),
    Rule::new(&[Text("<cannot find (?:module|package)>|<err_module_not_found>")], Code::CliNotExecutable, "Error: Cannot find module '@anthropic-ai/claude-code/cli.js'").hint("install the CLI again: a file of it is missing"),
    Rule::new(&[Text("<command_not_found>|^(?:/\\S*/)?(?:ba|da|z)?sh: (?:(?:line )?\\d+: )?\\S+: not found$|<spawn \\S+ ENOENT>|<is not recognized as an internal or external command")], Code::CliNotFound, "command_not_found"),
    Rule::new(&[Text("<env: .*no such file")], Code::InterpreterNotFound, "env: node: No such file or directory"),
    Rule::new(&[Text(MODEL)], Code::ModelNotFound, "model_not_found"),
    Rule::new(&[Text("<ENOENT>|<no such file or directory>")], Code::NotFound, "ENOENT"),
    // Configuration (document: not_configured missing_config invalid_config cli_not_installed), before `not_found`: a missing
    // configuration is a matter of set-up.
    Rule::new(&[Text("<not_configured>")], Code::InvalidConfig, "not_configured"),
    Rule::new(&[Text("<missing_config|<config(?:uration)?_(?:file_)?(?:is_)?(?:missing|not_found)>")], Code::InvalidConfig, "missing_config"),
    Rule::new(&[Text("<invalid_config|<config(?:uration)?_(?:file_)?(?:is_)?(?:invalid|malformed)>")], Code::InvalidConfig, "invalid_config"),
    Rule::new(&[Text("<cli_(?:is_)?not_installed")], Code::CliNotExecutable, "cli_not_installed").hint("install the CLI, or set `cliPath` to where it is"),
    Rule::new(&[Text("<not_found>")], Code::NotFound, "not_found"),
    // A text that asks for a wait reports a limit, whatever it is called.
    Rule::new(&[Text("<retry_after_[\":=\\s]*\\d|<(?:try again|retry) in \\d|<wait (?:for )?\\d+(?:\\.\\d+)?_(?:ms|s|sec|m|min|h)")], Code::RateLimited, "retry after 30 seconds"),
    // Weak signs, better than nothing.
    Rule::new(&[Text("<heap out of memory>|<out of memory>|<ENOMEM>")], Code::Crashed, "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory").hint(MEMORY).weak(),
    Rule::new(&[Text("<too many open files>|<EMFILE>|<ENFILE>|<resource temporarily unavailable>")], Code::SpawnFailed, "EMFILE: too many open files").weak(),
    Rule::new(&[Text("<no space left on device>|<ENOSPC>")], Code::SpawnFailed, "ENOSPC: no space left on device, write").hint("free some disk space").weak(),
    Rule::new(&[Text("^killed$")], Code::Crashed, "Killed").hint(MEMORY).weak(),
    Rule::new(&[Text("<segmentation fault>|<core dumped>|<panicked at>|<bus error>|<illegal instruction>")], Code::Crashed, "thread 'main' panicked at src/main.rs:1:1").weak(),
];

#[rustfmt::skip] // One rule, one row.
const FULL_CONTEXT: &[Rule] = &[
    // Identifiers of OpenAI, llama.cpp, Copilot and GitHub Models.
    Rule::new(&[Kind("context_length_exceeded")], Code::ContextLength, "maximum context length is 8192 tokens"),
    Rule::new(&[Kind("exceed_context_size_error")], Code::ContextLength, "the request exceeds the available context size, try increasing it"),
    Rule::new(&[Kind("model_max_prompt_tokens_exceeded")], Code::ContextLength, "prompt token count of 150000 exceeds the limit of 128000"),
    Rule::new(&[Kind("tokens_limit_reached")], Code::ContextLength, "Request body too large for gpt-4o model. Max size: 8000 tokens."),
    // Sentences of xAI; OpenAI, vLLM, Mistral and OpenRouter; Anthropic; Google.
    Rule::new(&[Text("<maximum prompt length is \\d")], Code::ContextLength, "This model's maximum prompt length is 131072 but the request contains 509628 tokens."),
    Rule::new(&[Text("<maximum context length (?:is|of) \\d|<\\d+ maximum context length>")], Code::ContextLength, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."),
    Rule::new(&[Text("<(?:prompt|conversation) is too long: [~\\d]|<tokens > \\d+ maximum|<exceeds? (?:the )?context limit>")], Code::ContextLength, "prompt is too long: 250000 tokens > 200000 maximum"),
    Rule::new(&[Text("<input token count .{0,40}exceeds the maximum number of tokens>")], Code::ContextLength, "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."),
    // Sentences of Groq and Cerebras; llama.cpp; Copilot; Kimi; DashScope; Bedrock; Z.AI; MiniMax.
    Rule::new(&[Text("<reduce the length of (?:the|your) (?:messages?|prompt|input)>")], Code::ContextLength, "Please reduce the length of the messages or completion."),
    Rule::new(&[Text("<exceeds? the available context size>|<context size has been exceeded>|<exceeds? (?:the )?(?:model's )?(?:maximum )?context length>")], Code::ContextLength, "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it"),
    Rule::new(&[Text("<prompt token count of \\d+ exceeds the limit>")], Code::ContextLength, "prompt token count of 150000 exceeds the limit of 128000"),
    Rule::new(&[Text("<exceeded (?:the )?model token limit>")], Code::ContextLength, "Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)"),
    Rule::new(&[Text("<range of input length should be>")], Code::ContextLength, "InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"),
    Rule::new(&[Text("<input is too long for (?:the )?requested model>|<prompt exceeds max length>|<context window exceeds limit>")], Code::ContextLength, "Input is too long for requested model."),
    // The Responses API through codex, which reports it as a broken stream.
    Rule::new(&[Text("<(?:input|prompt|request|conversation) (?:is larger than|exceeds?) (?:the|this|your) (?:model's )?context window>")], Code::ContextLength, "stream disconnected before completion: Your input exceeds the context window of this model. Please adjust your input and try again."),
];

#[rustfmt::skip] // One rule, one row.
const REFINEMENTS: &[Rule] = &[
    Rule::new(&[Is(Code::RateLimited), Text(USAGE)], Code::UsageLimit, "You've hit your weekly limit · resets Nov 25, 3pm (UTC)"),
    Rule::new(&[Is(Code::RateLimited), Text(CREDIT)], Code::CreditExhausted, "Your credit balance is too low"),
    // A quota that is renewed within seconds is a rate limit, whatever it is called. Google calls each of its 429 a quota.
    Rule::new(&[Is(Code::RateLimited), Soon, Text(QUOTA)], Code::RateLimited, "You exceeded your current quota. Please retry in 34.07s."),
    Rule::new(&[Is(Code::RateLimited), Text(QUOTA)], Code::QuotaExceeded, "You exceeded your current quota, please check your plan and billing details"),
    Rule::new(&[Is(Code::RateLimited), Text("<overloaded|<at capacity>")], Code::Overloaded, "The engine is overloaded"),
    Rule::new(&[Is(Code::QuotaExceeded), Text(USAGE)], Code::UsageLimit, "Usage limit reached"),
    Rule::new(&[Is(Code::QuotaExceeded), Soon], Code::RateLimited, "Resource has been exhausted. Please retry in 34.07s."),
    Rule::new(&[Is(Code::ServerError), Text("<overloaded")], Code::Overloaded, "The model is overloaded. Please try again later."),
    Rule::new(&[Is(Code::InvalidRequest), Text(CREDIT)], Code::CreditExhausted, "Your credit balance is too low to access the API"),
    Rule::new(&[Is(Code::InvalidRequest), Text(CONTEXT)], Code::ContextLength, "prompt is too long: 250000 tokens > 200000 maximum"),
    Rule::new(&[Is(Code::InvalidRequest), Text(API_KEY)], Code::InvalidApiKey, "API key not valid. Please pass a valid API key."),
    Rule::new(&[Is(Code::InvalidRequest), Text(MODEL)], Code::ModelNotFound, "unknown model: m1"),
    Rule::new(&[Is(Code::AuthenticationFailed), Text(EXPIRED)], Code::TokenExpired, "Failed to authenticate: OAuth token revoked. Please log in again"),
    Rule::new(&[Is(Code::AuthenticationFailed), Text(LOGIN)], Code::NotLoggedIn, "Not logged in · Please run /login"),
    Rule::new(&[Is(Code::AuthenticationFailed), Text(API_KEY)], Code::InvalidApiKey, "Invalid API key · Fix external API key"),
    Rule::new(&[Is(Code::PermissionDenied), Text(EXPIRED)], Code::TokenExpired, "OAuth token has been revoked"),
    Rule::new(&[Is(Code::PermissionDenied), Text(API_KEY)], Code::InvalidApiKey, "Your API key was reported as leaked: invalid API key"),
    Rule::new(&[Is(Code::NotFound), Text(MODEL)], Code::ModelNotFound, "The model m1 does not exist"),
];

/// A plan's limit that is reached. The text `not your usage limit` (claude, a transient 429) lacks the verb, and so doesn't match.
const USAGE: &str = "<(?:hit|reached|exceeded) your (?:[\\w-]+ ){0,2}(?:session|5.hour|five.hour|weekly|daily|monthly|plan|usage|spending) limit|<(?:hit|reached) your limit .{0,3}resets>|<(?:session|5.hour|five.hour|weekly|plan|usage|spending)_limit_(?:is_|was_|has_been_)?(?:reached|hit|exceeded)|<limit reached\\|\\d";
const CREDIT: &str = "<credit_balance|<billing_hard_limit|<insufficient_(?:credits?|balance|funds)|<out of credits?>|<credits? (?:exhausted|depleted)";
const QUOTA: &str = "<insufficient_quota|<quota_(?:is_|was_|has_been_)?(?:exceeded|exhausted)|<(?:exceeded|exhausted)_your_(?:\\w+_)?quota|<check your plan and billing";
const API_KEY: &str =
    "<invalid_(?:x_)?api_key|<incorrect_api_key|<api_key_(?:is_|was_)?(?:not_valid|invalid|incorrect|expired|revoked)";
const EXPIRED: &str = "<(?:token|session|login|credentials?)_(?:has_|have_|is_|was_)?(?:been_)?(?:expired|revoked)>|<log out and sign in again>|<refresh token .*(?:expired|revoked|already used)";
const LOGIN: &str = "<not_(?:logged_in|authenticated|signed_in)>|<please (?:run )?/?(?:log_in|login)>|<no (?:api key|credentials|auth credentials) (?:found|provided|set)|<(?:missing|no) api key>|<didn't provide an api key|<api_key (?:.{0,40} )?(?:is|was) (?:missing|not (?:set|found))|<login required>";
const CONTEXT: &str = "<context_length|<context_window|<maximum_context|<(?:prompt|input|conversation|context)_(?:is_)?too_long|<too many (?:input )?tokens>|<maximum number of tokens|<exceeds? (?:the )?context|<tokens > \\d+ maximum";
const LOST: &str = "<ECONNRESET>|<ECONNABORTED>|<socket_hang_up>|<connection (?:was )?(?:lost|reset|closed|aborted|broken)|<connection to the API was lost|<stream disconnected|<premature close|<broken pipe";
const MODEL: &str = "<model_not_found|<(?:unknown|invalid|unsupported|no such)_model>|<models?[ /:][^ ]{0,80} (?:is |was |does |could )?not (?:found|exist|available|supported)|<model .{0,80}(?:does not exist|not found|is not supported|may not exist)|<issue with the selected model";

const MEMORY: &str = "give it more memory, or run fewer at once (`maxConcurrency`)";
const CPU: &str = "the CLI's binary wants a newer processor than this machine has: install a build for it";
const OUTSIDE: &str = "something outside this package ended it: look at supervisors, job control and container limits";

/// The advice for `code` at `provider`. Every code has one.
pub fn hint(provider: &str, code: Code) -> &'static str {
    of(provider)
        .and_then(|known| known.errors.hint(code))
        .unwrap_or_else(|| general_hint(code))
}

/// The general advice for `code`.
pub fn general_hint(code: Code) -> &'static str {
    match code {
        Code::CreditExhausted => "add credit to the account, or use another provider",
        Code::UsageLimit => "wait until the limit resets, or use another provider",
        Code::QuotaExceeded => "raise the quota or wait for its next period, or use another provider",
        Code::BudgetExceeded => "wait until then, raise the `budget` option, or use another provider",
        Code::RateLimited => "wait and try again, or lower `maxConcurrency`",
        Code::Overloaded => "try again in a moment, or use another model",
        Code::NotLoggedIn => "log in with the CLI, or set its API key",
        Code::TokenExpired => "log in again with the CLI",
        Code::InvalidApiKey => "correct the API key",
        Code::PermissionDenied => "use an account or a key that may do this",
        Code::AuthenticationFailed => "log in again, or correct the API key",
        Code::InvalidRequest => "change what is sent: the same request is refused again",
        Code::ContextLength => "shorten the thread, or use a model with a larger context",
        Code::RequestTooLarge => "send less, above all fewer or smaller images and tool results",
        Code::PromptTooLong => "shorten the prompt, or use `promptStyle: \"stdin\"`",
        Code::EmptyPrompt => "send a message with text in it",
        Code::PromptIntercepted => "do not begin the prompt with \"/\"",
        Code::InvalidMessages => "pass LangChain messages, or objects with `role` and `content`",
        Code::UnsupportedContent => {
            "send it, with its data and within the limits, to claude, gemini, codex (images) or an API that takes it; or send text"
        }
        Code::UnsupportedOption => capability::HINT,
        Code::ToolChoiceUnmet => "say in the prompt when to call it, or use a provider whose tool choice is native",
        Code::InvalidTool => "give each tool a unique name and a zod or JSON schema",
        Code::Refusal => "rephrase the request, or use another model",
        Code::MaxTokens => "ask for less at once, or raise the model's output limit",
        Code::MaxTurns => "raise the CLI's limit of turns",
        Code::BudgetExhausted => "raise the CLI's budget",
        Code::InvalidRunLog => "give the path of a file that the call option `record` has written",
        Code::RunLogIncomplete => "see what is there with `deep-factor-providers log show`",
        Code::ConnectionFailed => "check the network, proxy and firewall",
        Code::ConnectionLost => "try again; if it persists, check proxies between here and the API",
        Code::ServerError => "try again later, or use another provider",
        Code::MalformedResponse => "try again; if it persists, check the gateway or the CLI's version",
        Code::OutputInvalid => {
            "describe the fields in the schema, make it simpler, or use another model; `partial` has the reply"
        }
        Code::EmptyResponse => "try again, or rephrase the request",
        Code::Crashed => "try again; if it persists, update the CLI and look at `stderrTail`",
        Code::Timeout => "raise the `timeout` option",
        Code::IdleTimeout => "raise the `idleTimeout` option",
        Code::RequestTimeout => "try again, or raise the CLI's own request timeout",
        Code::CliNotFound => "install the CLI, or set `cliPath`",
        Code::ModelNotFound => "name a model that exists and that the account may use",
        Code::NotFound => "check the names and paths of the call",
        Code::AgentLimit => "raise the limit, or make the task smaller",
        Code::PlannerOutputMissing | Code::CompletionReportMissing => {
            "say in the prompt when to call the tool, or make it optional"
        }
        Code::RunLocked => "try again when the other one has ended: a lease that is not renewed runs out by itself",
        Code::CheckpointMismatch => {
            "go on with the options it was begun with, or begin another run under another `runId`"
        }
        Code::CheckpointInvalid => {
            "use the version of the package that wrote it, or begin another run under another `runId`"
        }
        Code::CheckpointFailed => {
            "mend the store and start the run again under its `runId`: it goes on after its last whole entry"
        }
        Code::CallbackFailed => "correct the function that threw: `cause` is what it threw",
        Code::InvalidOption => "correct the option",
        Code::CliNotExecutable => "make the CLI's file executable, or set `cliPath`",
        Code::InterpreterNotFound => "put the interpreter (often `node`) on PATH, or set `cliPath` to a native binary",
        Code::CwdNotFound => "create the folder, or correct `cwd`",
        Code::SpawnFailed => "check limits on processes, memory and open files",
        Code::UnsupportedFlag => "update the CLI, or remove the flag from `extraArgs`",
        Code::UntrustedWorkspace => "trust the folder in the CLI, or set `cwd` to one that is",
        Code::InvalidConfig => "correct the CLI's configuration",
        Code::ClaudeInvalidConfig => "correct these fields; nothing was started",
        Code::LiveUnsupported => "update the CLI, or use `engine: \"auto\"` or `engine: \"print\"`",
        Code::CallbacksUnavailable => "update the CLI, check that it may use MCP servers, or bind the tools instead",
        Code::OutputLimit => "raise `maxBuffer`",
        Code::Closed => "create a new provider",
        Code::Internal => "report it as a bug of deep-factor-providers, with this message",
        Code::Unknown => "look at `stderrTail` and `stdoutTail`, and run the CLI by hand",
    }
}

/// The advice if the folder for temporary files can't be written to.
pub const NO_TEMPORARY_FOLDER: &str = if cfg!(windows) {
    "set TEMP to a folder that exists and may be written to, and see that its disk is not full"
} else {
    "set TMPDIR to a folder that exists and may be written to, and see that its disk is not full"
};

/// The advice if a program is found only in a folder of the PATH that is not searched.
pub const SKIPPED_FOLDER: &str = "write that folder of the PATH as an absolute one, or set `cliPath` to the file";

/// The advice if the CLI can't reach a file of this package.
pub const OUT_OF_REACH: &str = "give the folder for temporary files (`TMPDIR`) the same path on the other side and set `launch.files` to \"shared\", or leave out what is handed over";

/// The advice if a program stands in the archive of an Electron app.
pub const IN_ARCHIVE: &str = "name it in `asarUnpack`, and set `cliPath` to its path below `app.asar.unpacked`";

/// The advice if the file of `provider` is another machine's, or was not installed completely.
pub fn reinstall(provider: &str) -> String {
    let install = hint(provider, Code::CliNotFound);
    format!("{install}; npm needs `--include=optional --ignore-scripts=false` for it")
}

/// The advice if a path begins with `~`, which the system takes for the name of a folder.
pub const TILDE: &str = "write the whole path: `~` is for shells to read; in JavaScript it is `os.homedir()`";

/// The advice for [`Code::Timeout`] and [`Code::IdleTimeout`], with the option's name and the limit that passed, in ms. For other
/// codes, the general advice.
pub fn time_limit_hint(code: Code, limit_ms: u64) -> String {
    match code {
        Code::Timeout | Code::IdleTimeout => format!("{} (now {limit_ms} ms)", general_hint(code)),
        _ => general_hint(code).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_beside_a_reason() {
        for code in Code::ALL {
            let advice = general_hint(*code);
            assert!((10..=120).contains(&advice.len()), "{code:?}: {advice}");
            assert!(!advice.ends_with('.'), "{code:?}: {advice}");
        }
    }

    #[test]
    fn a_provider_s_advice_is_unique_and_its_own() {
        for known in ALL.iter() {
            for (code, advice) in known.errors.hints {
                assert_eq!(hint(known.id, *code), *advice, "{}: {code:?} is there twice", known.id);
                assert_ne!(
                    general_hint(*code),
                    *advice,
                    "{}: {code:?} says nothing of its own",
                    known.id
                );
            }
        }
        assert_eq!(hint("nobody", Code::NotLoggedIn), general_hint(Code::NotLoggedIn));
    }

    #[test]
    fn a_time_limit_names_its_option_and_value() {
        assert_eq!(
            time_limit_hint(Code::Timeout, 120_000),
            "raise the `timeout` option (now 120000 ms)"
        );
        assert_eq!(
            time_limit_hint(Code::IdleTimeout, 5_000),
            "raise the `idleTimeout` option (now 5000 ms)"
        );
    }
}
