//! What a provider keeps between its calls, whichever form that is.
//!
//! Which form a provider's kept processes have is decided here once ([`of`]); nobody else asks.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::ahead::{self, NextCall};
use super::drive::{Reading, Way, drive};
use super::servers::ServerSessions;
use super::source::{NotBegun, Source};
use super::warm::WarmServers;
use crate::error::ProviderError;
use crate::event::{EngineUsed, RunInfo};
use crate::exchange::claude_live::form::Claude;
use crate::exchange::codex_live::form::Codex;
use crate::exchange::form::{CallParts, ProcessForm, ProcessOptions, Server, ServerForm, SessionCall};
use crate::exchange::live::setup::{SessionOutput, SetupParts};
use crate::exchange::opencode_live::form::Opencode;
use crate::exchange::qwen_live::form::Qwen;
use crate::process::Vars;
use crate::provider::options::{EngineKind, Options};
use crate::provider::{LiveForm, Provider};
use crate::run::auto;
use crate::run::base::{Base, not_found};
use crate::run::capabilities;
use crate::run::cli_attempt::CliAttempt;
use crate::run::live_support::LiveSupport;
use crate::run::session::pools::Processes;

/// What is to come of something, wherever it is awaited.
pub(in crate::run) type Coming<'a, T> = Pin<Box<dyn Future<Output = Result<T, Box<ProviderError>>> + Send + 'a>>;

/// The kept processes of a provider.
pub(in crate::run) trait Kept: Debug + Send + Sync {
    /// A call as they take it.
    fn call(&self, parts: CallParts<'_>) -> Box<dyn KeptCall>;

    /// Starts what the next call needs, and waits until it has answered.
    fn prewarm<'a>(&'a self, engine: &'a Arc<Base>, next: NextCall, env: &'a Arc<Vars>) -> Coming<'a, ()>;

    /// Gives back what is kept beside the sessions, which end by themselves: the provider is closed.
    fn forget(&self);
}

/// A call as kept processes take it.
pub(in crate::run) trait KeptCall: Send + Sync {
    /// An attempt of it.
    fn attempt<'a>(
        &'a self,
        attempt: &'a CliAttempt<'a>,
        reading: Reading<'a>,
        info: &'a mut RunInfo,
    ) -> Coming<'a, Way>;
}

/// The kept processes of `provider`; `None` where the options want no sessions, or the provider has none.
pub(in crate::run) fn of(provider: &Provider, options: &Options, runs: &TaskTracker) -> Option<Box<dyn Kept>> {
    let form = provider.live.filter(|_| options.engine.may_be_live())?;
    Some(match form {
        LiveForm::ClaudeControl => Box::new(Arc::new(Processes::new(Claude, options, runs))),
        LiveForm::QwenStream => {
            let long_pauses = provider.errors.long_pauses;
            Box::new(Arc::new(Processes::new(Qwen { long_pauses }, options, runs)))
        }
        LiveForm::CodexAppServer => Box::new(Arc::new(ServerSessions::new(Codex::default(), options, runs))),
        LiveForm::OpencodeServe => Box::new(Arc::new(ServerSessions::new(Opencode, options, runs))),
    })
}

/// A call, and where it is made.
struct Bound<S: Source> {
    source: Arc<S>,
    call: S::Call,
}

impl<S: Source> KeptCall for Bound<S> {
    fn attempt<'a>(
        &'a self,
        attempt: &'a CliAttempt<'a>,
        reading: Reading<'a>,
        info: &'a mut RunInfo,
    ) -> Coming<'a, Way> {
        Box::pin(drive(&self.source, attempt, &self.call, reading, info))
    }
}

impl<F: ProcessForm> Kept for Arc<Processes<F>> {
    fn call(&self, parts: CallParts<'_>) -> Box<dyn KeptCall> {
        Box::new(Bound {
            source: Arc::clone(self),
            call: SessionCall::new::<F>(parts),
        })
    }

    fn prewarm<'a>(&'a self, engine: &'a Arc<Base>, next: NextCall, env: &'a Arc<Vars>) -> Coming<'a, ()> {
        Box::pin(ahead::prewarm(self, engine, next, env))
    }

    fn forget(&self) {}
}

impl<F: ServerForm> Kept for Arc<ServerSessions<F>> {
    fn call(&self, parts: CallParts<'_>) -> Box<dyn KeptCall> {
        Box::new(Bound {
            source: Arc::clone(self),
            call: SessionCall::new::<F>(parts),
        })
    }

    fn prewarm<'a>(&'a self, engine: &'a Arc<Base>, next: NextCall, env: &'a Arc<Vars>) -> Coming<'a, ()> {
        Box::pin(prewarm_server(self, engine, next, env))
    }

    fn forget(&self) {
        self.form.forget();
    }
}

/// Starts the server, if none runs, and waits until it has loaded what a session needs. It serves any setup: sessions are opened by
/// the calls.
async fn prewarm_server<F: ServerForm>(
    sessions: &ServerSessions<F>,
    engine: &Arc<Base>,
    next: NextCall,
    env: &Arc<Vars>,
) -> Result<(), Box<ProviderError>> {
    let setup = F::setup(&SetupParts {
        system: next.system.as_deref(),
        tools: &next.tools.unwrap_or_default(),
        options: &engine.options,
        choices: None,
        output: SessionOutput::Text,
    });
    let program = engine.look(env).map_err(|error| not_found(engine, error))?;
    let process = F::options(Some(&setup), None);
    let installed = program.installed(&engine.provider, &engine.options, EngineUsed::Live, process, F::line)?;
    let is_auto = engine.options.engine == EngineKind::Auto;
    if let LiveSupport::Unserved(unserved) = program.support(&engine.provider, EngineUsed::Live) {
        if is_auto {
            return Ok(());
        }
        if engine.is_refused(EngineUsed::Live, unserved) {
            return Err(auto::refused(engine, EngineUsed::Live, &unserved.why, None));
        }
    }
    let started = sessions.server(engine, &installed, env, Some(&setup)).await;
    if let Some(server) = ready(engine, EngineUsed::Live, &installed.binary, started)? {
        let prepared = F::prepare(&server, &setup);
        if engine.lifecycle.closing.run_until_cancelled(prepared).await.is_some() {
            server.host().prewarmed();
        }
    }
    Ok(())
}

/// Starts the warm process of calls with the provider's own choices, if none runs, and waits until it has answered.
pub(in crate::run) async fn prewarm_warm(
    servers: &Arc<WarmServers>,
    engine: &Arc<Base>,
    env: &Arc<Vars>,
) -> Result<(), Box<ProviderError>> {
    let program = engine.look(env).map_err(|error| not_found(engine, error))?;
    let process = ProcessOptions::default();
    let installed = program.installed(
        &engine.provider,
        &engine.options,
        EngineUsed::Warm,
        process,
        |line, _| line,
    )?;
    if let LiveSupport::Unserved(unserved) = program.support(&engine.provider, EngineUsed::Warm) {
        if engine.options.engine == EngineKind::Auto {
            return Ok(());
        }
        if engine.is_refused(EngineUsed::Warm, unserved) {
            return Err(auto::refused(engine, EngineUsed::Warm, &unserved.why, None));
        }
    }
    let started = servers.server(engine, &installed, (env, None)).await;
    if let Some(server) = ready(engine, EngineUsed::Warm, &installed.binary, started)? {
        server.host().prewarmed();
    }
    Ok(())
}

/// A server that was started ahead; `None` where a call will be asked in print form, or is not to be.
fn ready<T>(
    engine: &Base,
    used: EngineUsed,
    binary: &crate::exchange::installed::Binary,
    started: Result<T, NotBegun>,
) -> Result<Option<T>, Box<ProviderError>> {
    match started {
        Ok(server) => Ok(Some(server)),
        Err(NotBegun::Cancelled | NotBegun::NotLookedAt) => Ok(None),
        Err(NotBegun::Failed(error)) => Err(error),
        // The call itself goes on without it.
        Err(NotBegun::FlagRefused(flag)) => {
            capabilities::remember_refused(binary, &flag);
            Ok(None)
        }
        Err(NotBegun::Unsupported(unsupported)) if engine.options.engine == EngineKind::Auto => {
            capabilities::remember_unserved(used, binary, unsupported.reason);
            Ok(None)
        }
        Err(NotBegun::Unserved(unserved)) => Err(auto::refused(engine, used, &unserved.why, None)),
        Err(NotBegun::Unsupported(unsupported)) => {
            let evidence = unsupported.evidence.as_deref();
            Err(auto::refused(engine, used, &unsupported.reason, evidence))
        }
    }
}
