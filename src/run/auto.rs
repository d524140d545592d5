//! Decides which engine `engine: "auto"` is with the installed CLI: live where the CLI is known to serve it, print otherwise.
//!
//! In: a binary, and the environment of its process. Out: a [`LiveSupport`], decided before anything is started
//! ([`super::live_support`]). A binary of which nothing is known is tried ([`super::session::trial`]).

use std::sync::Arc;

use serde::Serialize;

use super::admission::local_offset_min;
use super::base::{Base, not_found};
use super::capabilities;
use super::live_support::{self, Basis, LiveSupport, Unserved};
use super::programs::Program;
use dfp_exchange::Evidence;
use dfp_exchange::installed::Binary;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::EngineUsed;
use dfp_process::activity::now_ms;
use dfp_process::{Exit, Vars};
use dfp_provider::Announced;
use dfp_provider::classify::{self, classify};
use dfp_provider::judge;
use dfp_provider::options::EngineKind;

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

impl Base {
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
        live_support::by_version(&check, check.program, version, "the server itself").map(|why| {
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
    engine: &Base,
    used: EngineUsed,
    reason: &str,
    evidence: Option<&Evidence>,
) -> Box<ProviderError> {
    let reason = format!("the installed CLI takes no {}: {reason}", takes(used));
    let mut error = match engine.provider.has_print() {
        true => engine.refuse(Code::LiveUnsupported, reason),
        // The general advice names an engine that an agent does not have.
        false => {
            let error = ProviderError::new(engine.id(), Code::LiveUnsupported, reason);
            Box::new(error.with_hint("update the agent, or use `engine: \"auto\"`"))
        }
    };
    if let Some(Evidence::Process(process)) = evidence {
        judge::with_process(&mut error, process);
    }
    error
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
        let base = Base::new(provider, &options, u64::MAX).unwrap();
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
