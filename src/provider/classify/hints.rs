//! The advice for a failure, in one sentence for people.
//!
//! In: the provider's id and the code. Out: the provider's advice for the code, or else the general one. A rule may have better
//! advice (`Rule::hint`).

use super::rules;
use crate::capability;
use dfp_model::error::Code;

/// The advice for `code` at `provider`. Every code has one.
pub fn hint(provider: &str, code: Code) -> &'static str {
    rules::of(provider)
        .and_then(|known| known.errors.hint(code))
        .unwrap_or_else(|| general(code))
}

/// The general advice for `code`.
pub fn general(code: Code) -> &'static str {
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
        for known in rules::ALL.iter() {
            for (code, advice) in known.errors.hints {
                assert_eq!(hint(known.id, *code), *advice, "{}: {code:?} is there twice", known.id);
                assert_ne!(
                    general(*code),
                    *advice,
                    "{}: {code:?} says nothing of its own",
                    known.id
                );
            }
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
