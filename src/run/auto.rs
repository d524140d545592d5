//! Decides which engine `engine: "auto"` is with the installed CLI: live where the CLI is known to serve it, print otherwise.
//!
//! In: a binary, and the environment of its process. Out: a [`LiveSupport`], decided before anything is started
//! ([`super::capabilities`]).
//!
//! A binary of which nothing is known is tried once ([`try_for_call`]): a process is started and asked for the handshake, for [`TRIAL`] at
//! most and before any prompt is sent to it, and takes the call if it answers.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::capabilities::{self, Basis, LiveSupport, Unserved};
use super::cli_base::{CliBase, not_found};
use super::programs::Program;
use super::retry_loop::local_offset_min;
use super::session::servers::login_missing;
use super::session::sessions::{Sessions, TurnAsked};
use dfp_exchange::form::{Form, SetupOf};
use dfp_exchange::installed::{Binary, Installed};
use dfp_exchange::live::session::{Pulse, Session};
use dfp_exchange::live::turn;
use dfp_exchange::{Evidence, Invocation, Unusable};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::EngineUsed;
use dfp_process::activity::now_ms;
use dfp_process::{Exit, ProcessLimits, Vars};
use dfp_provider::classify::{self, classify};
use dfp_provider::options::EngineKind;
use dfp_provider::{Announced, judge};

/// The engine of the next call, as far as that is known without starting anything: index.d.ts's `HealthReport.engine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineChoice {
    pub uses: EngineUse,
    pub why: String,
}

/// The engine, or that only a call can find it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineUse {
    /// A process per call.
    Print,
    /// Conversations that a process knows.
    Live,
    /// A process for many calls, which remembers none of them.
    Warm,
    /// The engine is unknown until the first call tries the handshake.
    Untried,
}

impl CliBase {
    /// Returns whether a caller who has not chosen an engine is warned that `engine` is not served by the installed CLI, which
    /// should serve it.
    pub(super) fn tells(&self, engine: EngineUsed, unserved: &Unserved, program: &Program) -> bool {
        match unserved.basis {
            Basis::Setting => false,
            Basis::Trial => true,
            // A caller is warned once if the CLI would have both engines, and not at all if it has the other.
            Basis::Version if engine == EngineUsed::Warm => self.provider.live.is_none(),
            Basis::Version => !matches!(
                program.support(&self.provider, EngineUsed::Warm),
                LiveSupport::Served(_)
            ),
            Basis::Program => {
                let announced = self.provider.check_of(engine).map(|check| check.announces);
                announced == Some(Announced::All)
            }
        }
    }

    /// Returns whether a CLI that does not serve one engine is called by another. An agent has no second one: both of its engines
    /// use the same protocol.
    pub(super) fn has_another_form(&self) -> bool {
        self.options.engine == EngineKind::Auto && self.provider.has_print()
    }

    /// Returns whether a caller who wants `engine` and no other is refused at once. Nothing is started to find out what is known
    /// already.
    pub(super) fn is_refused(&self, engine: EngineUsed, unserved: &Unserved) -> bool {
        let check = self.provider.check_of(engine);
        unserved.basis == Basis::Trial || check.is_none_or(|check| check.measured_only)
    }

    /// The error of a process that was killed before it had answered anything, which says nothing about the CLI.
    pub(super) fn crash(&self, exit: &Exit) -> Option<Box<ProviderError>> {
        let found = classify(&classify::FailureFacts {
            provider: self.id(),
            exit_code: exit.code,
            signal: exit.signal.as_deref(),
            local_offset_min: local_offset_min(),
            now_ms: now_ms(),
            ..classify::FailureFacts::default()
        });
        (exit.was_killed() && found.code == Code::Crashed).then(|| {
            let mut error = found.into_error(self.id());
            error.stderr_tail = Some(exit.stderr.clone()).filter(|text| !text.trim().is_empty());
            Box::new(error)
        })
    }

    /// The engine of the next call; `None` for a provider that has only one.
    ///
    /// # Errors
    /// The errors of a call: the file can't be found, or can't be executed.
    pub fn engine_choice(&self, base: &Arc<Vars>) -> Result<Option<EngineChoice>, Box<ProviderError>> {
        self.engine_choice_by(|| self.look(base).map_err(|error| not_found(self, error)))
    }

    /// Chooses the engine by the known facts of the program, and looks at the program only if none are known.
    pub(super) fn known_engine_choice(&self, base: &Arc<Vars>) -> Result<Option<EngineChoice>, Box<ProviderError>> {
        self.engine_choice_by(|| match self.programs.known(base) {
            Some(known) => Ok(known),
            None => self.look(base).map_err(|error| not_found(self, error)),
        })
    }

    /// Chooses the engine, with the reason, by the options alone or by the file of `program`, which is called only with `"auto"`.
    fn engine_choice_by(
        &self,
        program: impl FnOnce() -> Result<Arc<Program>, Box<ProviderError>>,
    ) -> Result<Option<EngineChoice>, Box<ProviderError>> {
        if !self.provider.has_engines() {
            return Ok(None);
        }
        let by_option = |uses, why: &str| EngineChoice {
            uses,
            why: why.to_owned(),
        };
        let choice = match (self.options.engine, &self.options.print_because) {
            (EngineKind::Live, _) => by_option(EngineUse::Live, "the option `engine` is \"live\""),
            (EngineKind::Warm, _) => by_option(EngineUse::Warm, "the option `engine` is \"warm\""),
            (EngineKind::Print, Some(why)) => by_option(EngineUse::Print, why),
            (EngineKind::Print, None) if self.provider.defaults.engine == EngineKind::Print => {
                by_option(EngineUse::Print, "the option `engine` is \"print\", the default")
            }
            (EngineKind::Print, None) => by_option(EngineUse::Print, "the option `engine` is \"print\""),
            (EngineKind::Auto, _) => {
                let program = program()?;
                let support = |engine| program.support(&self.provider, engine);
                match self.provider.live.map(|_| support(EngineUsed::Live)) {
                    Some(LiveSupport::Served(why)) => by_option(EngineUse::Live, why),
                    Some(LiveSupport::Unknown(why)) => by_option(EngineUse::Untried, why),
                    live => match (support(EngineUsed::Warm), live) {
                        (LiveSupport::Served(why), _) => by_option(EngineUse::Warm, why),
                        _ if !self.provider.has_print() => {
                            by_option(EngineUse::Untried, "the agent is asked what it serves")
                        }
                        (_, Some(LiveSupport::Unserved(Unserved { why, .. })))
                        | (LiveSupport::Unserved(Unserved { why, .. }) | LiveSupport::Unknown(why), _) => {
                            by_option(EngineUse::Print, why)
                        }
                    },
                }
            }
        };
        Ok(Some(choice))
    }

    /// Checks whether the version of a server of `binary` is one that `engine: "auto"` takes, where its file does not tell;
    /// `version` is the server's own report. A version that it takes is remembered.
    ///
    /// # Errors
    /// The reason for which the version is not taken.
    pub(super) fn take_version(&self, binary: &Binary, version: Option<&str>) -> Result<(), String> {
        let Some(check) = self.provider.checks.live else {
            return Ok(());
        };
        let Some(version) = version else {
            return Err("it does not tell its version".to_owned());
        };
        capabilities::by_version(&check, check.program, version, "the server itself").map(|why| {
            capabilities::settle(EngineUsed::Live, binary, why);
        })
    }
}

/// The feature that a CLI has if it serves `engine`, in words.
pub(super) fn takes(engine: EngineUsed) -> &'static str {
    match engine {
        EngineUsed::Warm => "warm calls",
        EngineUsed::Live | EngineUsed::Print => "live sessions",
    }
}

/// The error of a CLI that does not serve `engine`, for this reason. `evidence` says how its process has ended.
pub(super) fn refused(
    cli: &CliBase,
    used: EngineUsed,
    reason: &str,
    evidence: Option<&Evidence>,
) -> Box<ProviderError> {
    let reason = format!("the installed CLI takes no {}: {reason}", takes(used));
    let mut error = match cli.provider.has_print() {
        true => cli.refuse(Code::LiveUnsupported, reason),
        // The general advice names an engine that an agent does not have.
        false => {
            let error = ProviderError::new(cli.id(), Code::LiveUnsupported, reason);
            Box::new(error.with_hint("update the agent, or use `engine: \"auto\"`"))
        }
    };
    if let Some(Evidence::Process(process)) = evidence {
        judge::with_process(&mut error, process);
    }
    error
}

/// The time in which a CLI of which nothing is known has to answer the handshake: it takes half a second on an idle
/// machine, and was seen to take 4 s beside compilers (claude 2.1.332).
const TRIAL: Duration = Duration::from_secs(5);

/// The time that it has behind a launcher, which may have a connection to make.
const LAUNCHED_TRIAL: Duration = Duration::from_secs(20);

/// A session that is ended if its trial is dropped.
struct EndOnDrop<S: Session>(Option<S>);

impl<S: Session> Drop for EndOnDrop<S> {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.end();
        }
    }
}

/// The process that has answered, if `asked` has to try the CLI. The CLI is tried once for all calls, and nothing of the thread is
/// sent to it.
pub(super) async fn try_for_call<F: Form>(
    sessions: &Sessions<F>,
    asked: &TurnAsked<'_, F>,
) -> Result<Option<Box<F::Session>>, Unusable> {
    let call = asked.attempt.call;
    let cli = call.cli;
    if cli.options.engine != EngineKind::Auto || !matches!(asked.support, LiveSupport::Unknown(_)) {
        return Ok(None);
    }
    let installed = asked.looked_at()?;
    let binary = &installed.binary;
    let lock = capabilities::trial_of(binary);
    let Some(_trying) = call.cancel.run_until_cancelled(lock.lock()).await else {
        return Err(Unusable::Cancelled);
    };
    // Another call may have tried the CLI meanwhile.
    match cli
        .look(call.base_env)
        .map(|now| now.support_now(&cli.provider, EngineUsed::Live))
    {
        Ok(LiveSupport::Served(_)) => return Ok(None),
        Ok(LiveSupport::Unserved(unserved)) => return Err(Unusable::unsupported(unserved.why)),
        Ok(LiveSupport::Unknown(_)) | Err(_) => {}
    }
    let session = sessions.start(asked, None, None).await?;
    let trial = try_session::<F>(cli, session, installed, Some(&asked.call.setup));
    match call.cancel.run_until_cancelled(trial).await {
        None => Err(Unusable::Cancelled),
        Some(tried) => tried.map(Some),
    }
}

/// Tries `session`, a fresh process of `installed`, with `setup` if that is known: returns it if it has answered. The finding is
/// remembered.
///
/// # Errors
/// The reason why the CLI takes no sessions, or why nobody knows.
pub(super) async fn try_session<F: Form>(
    cli: &CliBase,
    session: F::Session,
    installed: &Installed,
    setup: Option<&Arc<SetupOf<F>>>,
) -> Result<Box<F::Session>, Unusable> {
    let binary = &installed.binary;
    let limit = match binary.launcher() {
        Some(_) => LAUNCHED_TRIAL,
        None => TRIAL,
    };
    let mut guarded = EndOnDrop(Some(session));
    let outcome = match &mut guarded.0 {
        Some(session) => {
            // The CLI answers in this order, so the version is known with the handshake.
            session.ask_version();
            if let Some(setup) = setup {
                session.prime(setup);
            }
            timeout_at(Instant::now() + limit, session.idle()).await
        }
        None => Ok(Pulse::Ended),
    };
    let Some(session) = guarded.0.take() else {
        return Err(Unusable::unsupported("it has ended"));
    };
    let reason = match outcome {
        Ok(Pulse::Ready { .. }) => match too_old(cli, &session) {
            None => {
                if let Some(version) = session.version() {
                    capabilities::remember_version(binary, version);
                }
                let why = "it has answered the handshake".to_owned();
                capabilities::remember(EngineUsed::Live, binary, LiveSupport::Served(why));
                return Ok(Box::new(session));
            }
            Some(reason) => {
                session.end();
                reason
            }
        },
        Ok(Pulse::Unsupported(reason)) => {
            session.end();
            reason
        }
        Ok(Pulse::Alive | Pulse::TurnOver | Pulse::Ended | Pulse::Lost) => {
            let Some(process) = session.ended(true).await else {
                return Err(Unusable::unsupported("it has ended"));
            };
            if let Some(error) = cli.crash(&process.exit) {
                return Err(Unusable::Failed(error));
            }
            let invocation = Invocation::of(cli.id(), &installed.line);
            let (reason, ended) = turn::why_not_ready(invocation, None, process, &ProcessLimits::default());
            if let Some(flag) = ended.refused_flag {
                capabilities::remember_refused(binary, &flag);
                return Err(Unusable::FlagRefused(flag));
            }
            reason.unwrap_or_else(|| "it ended instead of answering the handshake".to_owned())
        }
        Err(_) => {
            // The end of the process is not awaited, since it may ignore the signal.
            session.end();
            format!("it did not answer the handshake within {} s", limit.as_secs())
        }
    };
    if let Some(error) = login_missing(cli, &reason) {
        return Err(Unusable::Failed(error));
    }
    capabilities::remember_unserved(EngineUsed::Live, binary, reason.clone());
    Err(Unusable::unsupported(reason))
}

fn too_old(cli: &CliBase, session: &impl Session) -> Option<String> {
    let (check, version) = (cli.provider.checks.live?, session.version()?);
    capabilities::is_too_old(&check, version).then(|| format!("it says that it is {} {version}", check.program))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the engines for which a caller is warned that `package` in this version is called in print form.
    fn announced(provider: &str, package: &str, version: &str) -> Vec<EngineUsed> {
        let root = tempfile::TempDir::new().unwrap();
        let manifest = format!(r#"{{"name":"{package}","version":"{version}"}}"#);
        std::fs::write(root.path().join("package.json"), manifest).unwrap();
        // Windows looks for a program's name, and would take a script for Node's.
        let file = root.path().join(if cfg!(windows) { "cli.exe" } else { "cli.js" });
        std::fs::write(&file, "").unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let options = serde_json::json!({ "cliPath": file }).to_string();
        let base = CliBase::new(provider, &options, u64::MAX).unwrap();
        let program = base.look(&Arc::default()).unwrap();
        let is_told = |engine: &EngineUsed| match program.support(&base.provider, *engine) {
            LiveSupport::Unserved(unserved) => base.tells(*engine, unserved, &program),
            LiveSupport::Served(_) | LiveSupport::Unknown(_) => false,
        };
        [EngineUsed::Live, EngineUsed::Warm]
            .into_iter()
            .filter(is_told)
            .collect()
    }

    #[test]
    fn a_version_that_is_asked_in_print_form_is_told_of_once() {
        let (live, warm) = (vec![EngineUsed::Live], vec![EngineUsed::Warm]);
        for (provider, package, version, expected) in [
            ("claude", "@anthropic-ai/claude-code", "2.1.196", &live),
            ("codex", "@openai/codex", "0.140.0", &live),
            ("gemini", "@google/gemini-cli", "0.62.0", &warm),
            ("qwen", "@qwen-code/qwen-code", "0.24.5", &live),
            // A caller is not warned if one engine replaces the other, nor with the right version.
            ("qwen", "@qwen-code/qwen-code", "0.15.10", &vec![]),
            ("qwen", "@qwen-code/qwen-code", "0.24.4", &vec![]),
            ("gemini", "@google/gemini-cli", "0.61.0", &vec![]),
        ] {
            assert_eq!(&announced(provider, package, version), expected, "{package} {version}");
        }
    }
}
