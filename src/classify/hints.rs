//! What to do about a failure, in one sentence for people.
//!
//! In: the provider's id and the code. Out: the advice for that provider, or the code's general one. The rules may know
//! better (`Rule::hint`).

use crate::error::Code;

/// Advice of one provider; the general one follows in [`general`].
pub(super) const OF_PROVIDER: &[(&str, Code, &str)] = &[
    (
        "claude",
        Code::NotLoggedIn,
        "run `claude` once and log in, or set ANTHROPIC_API_KEY",
    ),
    (
        "claude",
        Code::ModelNotFound,
        "set `model` to one that exists and that the account may use, such as `sonnet`",
    ),
    (
        "claude",
        Code::TokenExpired,
        "run `claude` and log in again with /login",
    ),
    (
        "claude",
        Code::AuthenticationFailed,
        "run `claude` and log in again with /login",
    ),
    (
        "claude",
        Code::InvalidApiKey,
        "correct or remove ANTHROPIC_API_KEY: it beats the login (`auth: \"subscription\"` ignores it)",
    ),
    (
        "claude",
        Code::CliNotFound,
        "install it with `npm install -g @anthropic-ai/claude-code`, or set `cliPath`",
    ),
    (
        "claude",
        Code::UnsupportedFlag,
        "update the CLI with `claude update`, or remove the flag from `extraArgs`",
    ),
    ("codex", Code::NotLoggedIn, "run `codex login`"),
    ("codex", Code::TokenExpired, "run `codex logout`, then `codex login`"),
    ("codex", Code::AuthenticationFailed, "run `codex login`"),
    (
        "codex",
        Code::InvalidApiKey,
        "run `codex login`, or correct OPENAI_API_KEY",
    ),
    (
        "codex",
        Code::CliNotFound,
        "install it with `npm install -g @openai/codex`, or set `cliPath`",
    ),
    (
        "gemini",
        Code::NotLoggedIn,
        "run `gemini` once and choose how to log in, or set GEMINI_API_KEY",
    ),
    ("gemini", Code::TokenExpired, "run `gemini` and log in again with /auth"),
    (
        "gemini",
        Code::AuthenticationFailed,
        "run `gemini` and log in again with /auth, or correct GEMINI_API_KEY",
    ),
    ("gemini", Code::InvalidApiKey, "correct GEMINI_API_KEY"),
    (
        "gemini",
        Code::CliNotFound,
        "install it with `npm install -g @google/gemini-cli`, or set `cliPath`",
    ),
    (
        "gemini",
        Code::UntrustedWorkspace,
        "set GEMINI_CLI_TRUST_WORKSPACE=true, or trust the folder in `gemini`",
    ),
    (
        "qwen",
        Code::NotLoggedIn,
        "run `qwen` once and log in, or set OPENAI_API_KEY and OPENAI_BASE_URL",
    ),
    (
        "qwen",
        Code::AuthenticationFailed,
        "run `qwen` and log in again with /auth, or correct OPENAI_API_KEY",
    ),
    ("qwen", Code::InvalidApiKey, "correct OPENAI_API_KEY"),
    (
        "qwen",
        Code::CliNotFound,
        "install it with `npm install -g @qwen-code/qwen-code`, or set `cliPath`",
    ),
    ("opencode", Code::NotLoggedIn, "run `opencode auth login`"),
    ("opencode", Code::AuthenticationFailed, "run `opencode auth login`"),
    (
        "opencode",
        Code::InvalidApiKey,
        "run `opencode auth login` and give a valid key",
    ),
    (
        "opencode",
        Code::ModelNotFound,
        "name a model that `opencode models` lists",
    ),
    ("opencode", Code::InvalidConfig, "correct opencode.json"),
    (
        "opencode",
        Code::CliNotFound,
        "install it with `npm install -g opencode-ai`, or set `cliPath`",
    ),
    (
        "openai",
        Code::NotLoggedIn,
        "set `apiKey`, or the environment variable that `apiKeyEnv` names",
    ),
    ("openai", Code::AuthenticationFailed, "correct `apiKey`"),
    ("openai", Code::InvalidApiKey, "correct `apiKey`"),
    ("openai", Code::TokenExpired, "renew the key and set `apiKey`"),
    (
        "openai",
        Code::NotFound,
        "correct `baseURL`: it is what /chat/completions is added to, and often ends with /v1",
    ),
    (
        "openai",
        Code::ModelNotFound,
        "name a model that the server has and the key may use",
    ),
    ("openai", Code::MaxTokens, "raise `maxTokens`, or ask for less at once"),
    (
        "openai",
        Code::MalformedResponse,
        "check `baseURL`, and proxies and gateways on the way",
    ),
    ("openai", Code::RequestTimeout, "try again, or raise the server's limit"),
    ("openai", Code::Unknown, "look at `stdoutTail`, and at the server's log"),
    (
        "gemini",
        Code::CallbacksUnavailable,
        "leave out `cwd` and keep the built-in tools off: it reads of the tools in its own folder only",
    ),
    ("glm", Code::NotLoggedIn, "set ZAI_API_KEY"),
    ("glm", Code::AuthenticationFailed, "correct ZAI_API_KEY"),
    ("glm", Code::InvalidApiKey, "correct ZAI_API_KEY"),
    ("glm", Code::CliNotFound, "install `ax-glm`, or set `cliPath`"),
    ("grok", Code::NotLoggedIn, "set XAI_API_KEY"),
    ("grok", Code::AuthenticationFailed, "correct XAI_API_KEY"),
    ("grok", Code::InvalidApiKey, "correct XAI_API_KEY"),
    ("grok", Code::CliNotFound, "install `ax-grok`, or set `cliPath`"),
];

/// What to do about `code` at `provider`. Every code has advice.
pub fn hint(provider: &str, code: Code) -> &'static str {
    OF_PROVIDER
        .iter()
        .find(|(id, of, _)| *id == provider && *of == code)
        .map_or_else(|| general(code), |(.., hint)| hint)
}

/// What to do about `code`, whichever provider it is.
pub fn general(code: Code) -> &'static str {
    match code {
        Code::CreditExhausted => "add credit to the account, or use another provider",
        Code::UsageLimit => "wait until the limit resets, or use another provider",
        Code::QuotaExceeded => "raise the quota or wait for its next period, or use another provider",
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
            "send it to claude with `engine: \"live\"`, or to an API that takes it; or send text"
        }
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
        Code::EmptyResponse => "try again, or rephrase the request",
        Code::Crashed => "try again; if it persists, update the CLI and look at `stderrTail`",
        Code::Timeout => "raise the `timeout` option",
        Code::IdleTimeout => "raise the `idleTimeout` option",
        Code::RequestTimeout => "try again, or raise the CLI's own request timeout",
        Code::CliNotFound => "install the CLI, or set `cliPath`",
        Code::ModelNotFound => "name a model that exists and that the account may use",
        Code::NotFound => "check the names and paths that were given",
        Code::AgentLimit => "raise the limit, or make the task smaller",
        Code::PlannerOutputMissing | Code::CompletionReportMissing => {
            "say in the prompt when to call the tool, or make it optional"
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

/// The advice where nothing can be written to the folder for temporary files.
pub const NO_TEMPORARY_FOLDER: &str = if cfg!(windows) {
    "set TEMP to a folder that exists and may be written to, and see that its disk is not full"
} else {
    "set TMPDIR to a folder that exists and may be written to, and see that its disk is not full"
};

/// The advice for [`Code::Timeout`] and [`Code::IdleTimeout`] with the option's name and the limit that passed, in ms. For
/// other codes, the general advice.
pub fn time_limit(code: Code, limit_ms: u64) -> String {
    match code {
        Code::Timeout | Code::IdleTimeout => format!("{} (now {limit_ms} ms)", general(code)),
        _ => general(code).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_beside_a_reason() {
        for code in Code::ALL {
            let advice = general(*code);
            assert!((10..=120).contains(&advice.len()), "{code:?}: {advice}");
            assert!(!advice.ends_with('.'), "{code:?}: {advice}");
        }
    }

    #[test]
    fn a_provider_s_advice_is_unique_and_its_own() {
        for (i, (id, code, advice)) in OF_PROVIDER.iter().enumerate() {
            assert_eq!(hint(id, *code), *advice, "row {i} is shadowed");
            assert_ne!(general(*code), *advice, "row {i} says nothing of its own");
        }
        assert_eq!(hint("nobody", Code::NotLoggedIn), general(Code::NotLoggedIn));
    }

    #[test]
    fn a_time_limit_names_its_option_and_value() {
        assert_eq!(
            time_limit(Code::Timeout, 120_000),
            "raise the `timeout` option (now 120000 ms)"
        );
        assert_eq!(
            time_limit(Code::IdleTimeout, 5_000),
            "raise the `idleTimeout` option (now 5000 ms)"
        );
    }
}
