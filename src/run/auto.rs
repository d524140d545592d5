//! What `engine: "auto"` comes to with the CLI that is installed: live where that is known to serve it, print otherwise.
//!
//! In: a binary, and the environment of its process. Out: a [`LiveSupport`], decided before anything is started
//! ([`super::live_support`]). A binary of which nothing is known is tried once: a process is started and asked for the handshake, for
//! [`TRIAL`] at most and before any prompt is sent to it, and takes the call if it answers.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::capabilities::{self, Binary};
use super::clock::{local_offset_min, now_ms};
use super::engine::Engine;
use super::live_support::{self, Basis, LiveSupport, Unserved};
use crate::classify::{self, classify};
use crate::command::CommandLine;
use crate::error::{Code, ProviderError};
use crate::exchange::Invocation;
use crate::exchange::claude_live::session::Session;
use crate::exchange::live::keep::Idle;
use crate::exchange::live::minding::NotReady;
use crate::exchange::live::process_turn::{self, ProcessSession};
use crate::exchange::live::setup::Setup;
use crate::process::{Exit, Limits, Vars};
use crate::provider::options::EngineKind;

/// How long a CLI of which nothing is known may take to answer the handshake: half a second on an idle machine.
const TRIAL: Duration = Duration::from_secs(2);

/// Exit codes above this are those of a shell whose program was killed by a signal.
const SIGNALLED: i32 = 128;

/// The engine of the next call, as far as that is known without starting anything: index.d.ts's `HealthReport.engine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineChoice {
    /// Which one.
    pub uses: EngineUse,
    /// Why that one.
    pub why: String,
}

/// An engine, or the news that a call has to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineUse {
    /// A process per call.
    Print,
    /// Conversations that a process knows.
    Live,
    /// A process for many calls, which remembers none of them.
    Warm,
    /// The first call tries the handshake.
    Untried,
}

/// What a trial came to.
pub(super) enum Trial {
    /// A process that has answered.
    Served(Box<Session>),
    /// It takes no sessions, for this reason.
    Unserved(String),
    /// It was killed, which says nothing of it.
    Crashed(Box<ProviderError>),
    /// The CLI refused a flag the run can do without.
    FlagRefused(String),
}

/// Ends a session whose trial nobody waits for any more.
struct EndOnDrop(Option<Session>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.end();
        }
    }
}

impl Engine {
    /// Whether `binary` serves live sessions in the environment `base`.
    pub(super) fn support(&self, binary: &Binary, base: &Arc<Vars>) -> LiveSupport {
        let Some(check) = &self.provider.checks.live else {
            return LiveSupport::unserved(Basis::Setting, "there is no live form of it");
        };
        match self.present(check.print_env, base).unwrap_or_default().first() {
            Some(name) => LiveSupport::unserved(Basis::Setting, format!("{name} is set in the environment")),
            None => capabilities::live_support(check, binary),
        }
    }

    /// Whether `binary` serves warm calls in the environment `base`. Nothing is started to find out: what is not known to serve them is
    /// asked in print form.
    pub(super) fn warm_support(&self, binary: &Binary, base: &Arc<Vars>) -> LiveSupport {
        let Some(check) = self.provider.checks.warm.filter(|_| self.provider.warm.is_some()) else {
            return LiveSupport::unserved(Basis::Setting, "there is no warm form of it");
        };
        match self.present(check.print_env, base).unwrap_or_default().first() {
            Some(name) => LiveSupport::unserved(Basis::Setting, format!("{name} is set in the environment")),
            None => match capabilities::warm_support(&check, binary) {
                LiveSupport::Unknown(why) => LiveSupport::unserved(Basis::Program, why),
                known => known,
            },
        }
    }

    /// Why `engine: "auto"` has no session with `binary` in the environment `base`; `None` where it has one, or tries.
    pub(super) fn unserved(&self, binary: &Binary, base: &Arc<Vars>) -> Option<Unserved> {
        match self.support(binary, base) {
            LiveSupport::Unserved(unserved) => Some(unserved),
            LiveSupport::Served(_) | LiveSupport::Unknown(_) => None,
        }
    }

    /// Whether a caller who has said nothing of engines is told that one is not what the installed CLI should have.
    pub(super) fn tells(&self, unserved: &Unserved) -> bool {
        match unserved.basis {
            Basis::Setting => false,
            Basis::Version | Basis::Trial => true,
            Basis::Program => self.provider.checks.live.is_some_and(|check| check.tells_others),
        }
    }

    /// The error of a process that was killed before it had answered anything: that says nothing of the CLI.
    pub(super) fn crash(&self, exit: &Exit) -> Option<Box<ProviderError>> {
        let found = classify(&classify::Evidence {
            provider: self.id(),
            exit_code: exit.code,
            signal: exit.signal.as_deref(),
            local_offset_min: local_offset_min(),
            now_ms: now_ms(),
            ..classify::Evidence::default()
        });
        let is_killed = exit.signal.is_some() || exit.code.is_some_and(|code| code > SIGNALLED);
        (is_killed && found.code == Code::Crashed).then(|| {
            let mut error = found.into_error(self.id());
            error.stderr_tail = Some(exit.stderr.clone()).filter(|text| !text.trim().is_empty());
            Box::new(error)
        })
    }

    /// The engine of the next call; `None` for a provider that has but one.
    ///
    /// # Errors
    /// As a request: the file can't be found, or can't be executed.
    pub fn engine_choice(&self, base: &Arc<Vars>) -> Result<Option<EngineChoice>, Box<ProviderError>> {
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
                let binary = Binary::new(self.resolved(base)?, self.login());
                let live = self.provider.live.map(|_| self.support(&binary, base));
                match live {
                    Some(LiveSupport::Served(why)) => EngineChoice {
                        uses: EngineUse::Live,
                        why,
                    },
                    Some(LiveSupport::Unknown(why)) => EngineChoice {
                        uses: EngineUse::Untried,
                        why,
                    },
                    live => {
                        let (uses, why) = match (self.warm_support(&binary, base), live) {
                            (LiveSupport::Served(why), _) => (EngineUse::Warm, why),
                            (_, Some(LiveSupport::Unserved(Unserved { why, .. })))
                            | (LiveSupport::Unserved(Unserved { why, .. }) | LiveSupport::Unknown(why), _) => {
                                (EngineUse::Print, why)
                            }
                        };
                        EngineChoice { uses, why }
                    }
                }
            }
        };
        Ok(Some(choice))
    }

    /// Tries `session`, a process of `binary` that was started as `line` says and is fresh, with `setup` if that is known.
    /// What comes of it is remembered.
    pub(super) async fn trial(
        &self,
        session: Session,
        (line, binary): (&CommandLine, &Binary),
        setup: Option<&Arc<Setup>>,
    ) -> Trial {
        let mut guarded = EndOnDrop(Some(session));
        let outcome = match &mut guarded.0 {
            Some(session) => {
                // Answered in this order, so the version is known when the handshake is.
                session.ask_version();
                if let Some(setup) = setup {
                    session.prime(setup);
                }
                timeout_at(Instant::now() + TRIAL, session.idle()).await
            }
            None => Ok(Idle::Ended),
        };
        let Some(session) = guarded.0.take() else {
            return Trial::Unserved("it has ended".to_owned());
        };
        let reason = match outcome {
            Ok(Idle::Ready { .. }) => match self.too_old(&session) {
                None => {
                    let why = "it has answered the handshake".to_owned();
                    capabilities::remember_live(binary, LiveSupport::Served(why));
                    return Trial::Served(Box::new(session));
                }
                Some(reason) => {
                    session.end();
                    reason
                }
            },
            Ok(Idle::Unsupported(reason)) => {
                session.end();
                reason
            }
            Ok(Idle::Ended) => {
                let not_ready = NotReady {
                    reason: None,
                    process: session.finished().await,
                };
                if let Some(error) = self.crash(&not_ready.process.exit) {
                    return Trial::Crashed(error);
                }
                let invocation = Invocation::of(self.id(), line);
                let (reason, ended) = process_turn::why_not_ready(invocation, &not_ready, &Limits::default());
                if let Some(flag) = ended.refused_flag {
                    capabilities::remember_refused(binary, &flag);
                    return Trial::FlagRefused(flag);
                }
                reason.unwrap_or_else(|| "it ended instead of answering the handshake".to_owned())
            }
            Err(_) => {
                // Not waited for: it may ignore the signal.
                session.end();
                format!("it did not answer the handshake within {} s", TRIAL.as_secs())
            }
        };
        capabilities::remember_no_live(binary, reason.clone());
        Trial::Unserved(reason)
    }

    /// Whether a server of `binary`, of which its file said nothing, is of a version that `engine: "auto"` takes; `version` is what it
    /// says itself. Remembered where it is.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn take_version(&self, binary: &Binary, version: Option<&str>) -> Result<(), String> {
        let Some(check) = self.provider.checks.live else {
            return Ok(());
        };
        let Some(version) = version else {
            return Err("it does not tell its version".to_owned());
        };
        live_support::by_version(&check, check.program, version, "the server itself").map(|why| {
            capabilities::settle_live(binary, why);
        })
    }

    fn too_old(&self, session: &Session) -> Option<String> {
        let (check, version) = (self.provider.checks.live?, session.version()?);
        live_support::is_too_old(&check, version).then(|| format!("it says that it is {} {version}", check.program))
    }
}
