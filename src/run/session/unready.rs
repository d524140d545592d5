//! Judges a server that did not become ready.

use super::source::{NotBegun, Unsupported};
use crate::base::{Base, not_started};
use crate::clock::{local_offset_min, now_ms};
use dfp_exchange::Invocation;
use dfp_exchange::host::{NoHost, of_exit};
use dfp_exchange::installed::Installed;
use dfp_exchange::print::NotStarted;
use dfp_model::error::{Category, Code, ProviderError};
use dfp_process::{End, Exit, ProcessLimits, StartError};
use dfp_provider::classify::{self, classify};

/// The reason for which there is no server of `installed`.
pub(super) fn not_begun(engine: &Base, installed: &Installed, error: NoHost) -> NotBegun {
    match error {
        NoHost::NotStarted(NotStarted::Process(StartError::Cancelled)) => NotBegun::Cancelled,
        NoHost::NotStarted(error) => NotBegun::Failed(not_started(engine, &error)),
        NoHost::Unsupported(reason) => match login_missing(engine, &reason) {
            Some(error) => NotBegun::Failed(error),
            None => NotBegun::Unsupported(Unsupported::because(reason)),
        },
        NoHost::Refused(message) => refused(engine, &message),
        NoHost::Ended(None) => NotBegun::Unsupported(Unsupported::because("it ended before it was ready")),
        NoHost::Ended(Some(exit)) if matches!(exit.end, End::Cancelled | End::Closed) => NotBegun::Cancelled,
        NoHost::Ended(Some(exit)) => ended_early(engine, installed, &exit),
    }
}

/// The error of a call that fails because a login is missing or refused. That says nothing about the program, which serves the next
/// call with another login.
pub(super) fn login_missing(engine: &Base, reason: &str) -> Option<Box<ProviderError>> {
    let context = classify::TextFacts {
        provider: engine.id(),
        local_offset_min: local_offset_min(),
        ..classify::TextFacts::default()
    };
    let found = classify::classify_text(reason, &context, now_ms());
    (found.category == Category::Authentication).then(|| Box::new(found.into_error(engine.id())))
}

/// Judges a server that has refused to serve: its configuration is wrong, which is this call's failure, or it does not know such
/// requests.
fn refused(engine: &Base, message: &str) -> NotBegun {
    let found = classify(&classify::FailureFacts {
        provider: engine.id(),
        stderr_text: Some(message),
        local_offset_min: local_offset_min(),
        now_ms: now_ms(),
        ..classify::FailureFacts::default()
    });
    match found.code {
        Code::Unknown | Code::EmptyResponse | Code::Crashed | Code::UnsupportedFlag | Code::InvalidOption => {
            NotBegun::Unsupported(Unsupported::because(format!("it refuses: {message}")))
        }
        _ => NotBegun::Failed(Box::new(found.into_error(engine.id()))),
    }
}

/// Judges a server that has ended before it was ready: its configuration is wrong, or the CLI has no servers.
fn ended_early(engine: &Base, installed: &Installed, exit: &Exit) -> NotBegun {
    if let Some(error) = engine.crash(exit) {
        return NotBegun::Failed(error);
    }
    let ended = Invocation::of(engine.id(), &installed.line).ended(of_exit(exit), &ProcessLimits::default());
    if let Some(flag) = ended.refused_flag {
        return NotBegun::FlagRefused(flag);
    }
    let found = classify(&classify::FailureFacts {
        provider: engine.id(),
        exit_code: exit.code,
        signal: exit.signal.as_deref(),
        stderr_text: Some(&exit.stderr),
        local_offset_min: local_offset_min(),
        now_ms: now_ms(),
        ..classify::FailureFacts::default()
    });
    match found.code {
        Code::Unknown | Code::EmptyResponse | Code::Crashed | Code::UnsupportedFlag | Code::InvalidOption => {
            let reason = match classify::unsupported_flag(engine.id(), &exit.stderr) {
                Some(flag) => format!("it does not know {flag}"),
                None => format!("it ended instead of becoming ready: {}", found.reason),
            };
            NotBegun::Unsupported(Unsupported {
                evidence: Some(Box::new(ended.evidence)),
                ..Unsupported::because(reason)
            })
        }
        _ => NotBegun::Failed(Box::new(found.into_error(engine.id()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_exchange::installed::Binary;
    use dfp_process::{Resolved, Timings};
    use dfp_provider::command::Mode;

    /// The judgement of a codex server that ends with this code and stderr, whose command line has `--some-flag` as an optional
    /// flag.
    fn of_end(code: i32, stderr: &str) -> NotBegun {
        let base = Base::new("codex", r#"{"engine": "live"}"#, u64::MAX).unwrap();
        let known = dfp_provider::command::Installed::default();
        let mut line = dfp_provider::command::build(base.provider(), &base.options, Mode::Live, true, &known).unwrap();
        line.optional_flags = vec!["--some-flag".to_owned()];
        let file = std::env::current_exe().unwrap();
        let resolved = Resolved {
            file,
            prefix: Vec::new(),
            interpreter: None,
            called_with: None,
            also_on_path: None,
        };
        let installed = Installed {
            line,
            binary: Binary::new(resolved, None),
        };
        let exit = Exit {
            run_id: String::new(),
            pid: 1,
            end: End::Exited,
            code: Some(code),
            signal: None,
            stderr: stderr.to_owned(),
            stderr_bytes: stderr.len() as u64,
            stdout_bytes: 0,
            stdout_bytes_at_end: 0,
            timings: Timings::default(),
        };
        not_begun(&base, &installed, NoHost::Ended(Some(exit.into())))
    }

    #[test]
    fn a_server_without_a_flag_it_can_do_without_is_started_once_more() {
        let end = of_end(2, "error: unexpected argument '--some-flag' found\n");
        let NotBegun::FlagRefused(flag) = end else {
            panic!("not a refused flag")
        };
        assert_eq!(flag, "--some-flag");
    }

    #[test]
    fn a_server_without_a_flag_it_needs_does_not_serve() {
        let end = of_end(2, "error: unexpected argument '--listen' found\n");
        let NotBegun::Unsupported(unsupported) = end else {
            panic!("not unsupported")
        };
        assert_eq!(unsupported.reason, "it does not know --listen");
        assert!(!unsupported.may_have_asked);
        assert!(unsupported.evidence.is_some());
    }

    #[test]
    fn a_missing_login_is_the_calls_failure_and_says_nothing_of_the_program() {
        for (provider, reason, code) in [
            (
                "grok",
                "it opens no session: Not signed in. To authenticate without a browser, run:",
                Code::NotLoggedIn,
            ),
            (
                "copilot",
                "it refuses: No GitHub OAuth token or Copilot HMAC key provided",
                Code::NotLoggedIn,
            ),
            (
                "codex",
                "it ended instead of becoming ready: Not logged in",
                Code::NotLoggedIn,
            ),
        ] {
            let base = Base::new(provider, "{}", u64::MAX).unwrap();
            let error = login_missing(&base, reason).unwrap();
            assert_eq!((error.code, &*error.provider), (code, provider), "{reason}");
        }
        let base = Base::new("codex", "{}", u64::MAX).unwrap();
        for reason in [
            "it does not know --listen",
            "it did not answer the handshake within 60 s",
        ] {
            assert!(login_missing(&base, reason).is_none(), "{reason}");
        }
    }

    #[test]
    fn a_refusal_for_a_broken_configuration_is_the_calls_failure_alone() {
        let base = Base::new("codex", "{}", u64::MAX).unwrap();
        let NotBegun::Failed(error) = refused(&base, "failed to load configuration: config.toml:1:1: invalid TOML")
        else {
            panic!("not a failure of the call's")
        };
        assert_eq!(error.code, Code::InvalidConfig);
        let NotBegun::Unsupported(unsupported) = refused(&base, "unknown variant `initialize`") else {
            panic!("not unsupported")
        };
        assert_eq!(unsupported.reason, "it refuses: unknown variant `initialize`");
    }

    #[test]
    fn a_killed_server_says_nothing_of_its_program() {
        let NotBegun::Failed(error) = of_end(137, "") else {
            panic!("not a failure of the call's")
        };
        assert_eq!(error.code, Code::Crashed);
    }
}
