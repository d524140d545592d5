//! The processes that a provider keeps between its calls, whichever form they have.
//!
//! The list of all forms, and the choice of those that a provider's kept processes have, stand here alone ([`of`]).

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::ahead::{self, NextCall};
use super::drive::{EngineResult, Reading, drive};
use super::prompt_call;
use super::servers::{ServerSessions, Wanted};
use super::source::{NotBegun, Source};
use crate::auto;
use crate::base::{Base, not_found};
use crate::capabilities;
use crate::cli_attempt::CliAttempt;
use crate::cli_request::CliRequest;
use crate::live_support::LiveSupport;
use crate::session::pools::Processes;
use dfp_exchange::acp::form::KeptAgent;
use dfp_exchange::acp::warm::WarmAgent;
use dfp_exchange::claude_live::form::Claude;
use dfp_exchange::codex_live::form::Codex;
use dfp_exchange::copilot_live::form::Copilot;
use dfp_exchange::form::{Form, ProcessForm, Server, ServerForm, SessionCall, Takes};
use dfp_exchange::installed::Binary;
use dfp_exchange::live::setup::{SessionOutput, SetupParts};
use dfp_exchange::opencode_live::form::Opencode;
use dfp_exchange::qwen_live::form::Qwen;
use dfp_model::error::ProviderError;
use dfp_model::event::{EngineUsed, RunInfo};
use dfp_process::Vars;
use dfp_provider::options::Options;
use dfp_provider::{Provider, WarmForm};

/// A boxed future that may fail with a provider's error.
pub(crate) type Coming<'a, T> = Pin<Box<dyn Future<Output = Result<T, Box<ProviderError>>> + Send + 'a>>;

/// The kept processes of a provider.
pub(crate) trait Kept: Debug + Send + Sync {
    /// The engine that their calls have.
    fn engine(&self) -> EngineUsed;

    /// The call of `request` for these processes; `None` if they can't take it.
    fn call(&self, engine: &Base, request: &mut CliRequest) -> Option<Box<dyn KeptCall>>;

    /// Starts what the next call needs, and waits until it has answered.
    fn prewarm<'a>(&'a self, engine: &'a Arc<Base>, next: NextCall, env: &'a Arc<Vars>) -> Coming<'a, ()>;

    /// Drops what is kept beside the sessions, since the provider is closed. The sessions end by themselves.
    fn forget(&self);
}

/// A call that kept processes take.
pub(crate) trait KeptCall: Send + Sync {
    /// Makes an attempt of the call.
    fn attempt<'a>(&'a self, attempt: &'a CliAttempt<'a>, info: &'a mut RunInfo) -> Coming<'a, EngineResult>;
}

/// Makes the kept processes of a provider.
type Make = fn(&Provider, &Options, &TaskTracker) -> Box<dyn Kept>;

/// The live forms, by their folders in `exchange/`.
const LIVE: &[(&str, Make)] = &[
    ("claude_live", |_, options, runs| processes(Claude, options, runs)),
    ("qwen_live", |provider, options, runs| {
        let long_pauses = provider.errors.long_pauses;
        processes(Qwen { long_pauses }, options, runs)
    }),
    ("codex_live", |_, options, runs| {
        servers(Codex::default(), options, runs)
    }),
    ("opencode_live", |_, options, runs| servers(Opencode, options, runs)),
    ("copilot_live", |_, options, runs| servers(Copilot, options, runs)),
    ("acp", |provider, options, runs| {
        let own = provider.warm.unwrap_or(WarmForm::ANY);
        servers(KeptAgent { own }, options, runs)
    }),
];

fn processes<F: ProcessForm>(form: F, options: &Options, runs: &TaskTracker) -> Box<dyn Kept> {
    Box::new(Arc::new(Processes::new(form, options, runs)))
}

fn servers<F: ServerForm>(form: F, options: &Options, runs: &TaskTracker) -> Box<dyn Kept> {
    Box::new(Arc::new(ServerSessions::new(form, options, runs)))
}

/// The kept processes of `provider` that its calls may use, the best first.
pub(crate) fn of(provider: &Provider, options: &Options, runs: &TaskTracker) -> Vec<Box<dyn Kept>> {
    let live = provider.live.filter(|_| options.engine.may_be_live());
    let live = live.and_then(|live| LIVE.iter().find(|(folder, _)| *folder == live.folder));
    let live = live.map(|(_, make)| make(provider, options, runs));
    let warm = provider.warm.filter(|_| options.engine.may_be_warm());
    let warm = warm.map(|own| servers(WarmAgent { own }, options, runs));
    live.into_iter().chain(warm).collect()
}

/// A call, and the source of its sessions.
struct Bound<S: Source> {
    source: Arc<S>,
    call: S::Call,
}

impl<S: Source> KeptCall for Bound<S> {
    fn attempt<'a>(&'a self, attempt: &'a CliAttempt<'a>, info: &'a mut RunInfo) -> Coming<'a, EngineResult> {
        let reading = Reading {
            text_calls: attempt.call.request.session_text_calls.clone(),
            notes: attempt.pending_note().into_iter().collect(),
            ..Reading::default()
        };
        Box::pin(drive(&self.source, attempt, &self.call, reading, info))
    }
}

/// A call that is sent as a prompt.
struct Prompted<F: ServerForm>(Arc<ServerSessions<F>>);

impl<F: ServerForm> KeptCall for Prompted<F> {
    fn attempt<'a>(&'a self, attempt: &'a CliAttempt<'a>, info: &'a mut RunInfo) -> Coming<'a, EngineResult> {
        Box::pin(prompt_call::attempt(&self.0, attempt, info))
    }
}

/// Prepares `request` for sessions.
fn in_session<F: Form, S>(source: &Arc<S>, engine: &Base, request: &mut CliRequest) -> Option<Box<dyn KeptCall>>
where
    S: Source<Call = SessionCall<F::Setup>>,
{
    let call = request.in_session(engine, SessionCall::new::<F>)?;
    Some(Box::new(Bound {
        source: Arc::clone(source),
        call,
    }))
}

impl<F: ProcessForm> Kept for Arc<Processes<F>> {
    fn engine(&self) -> EngineUsed {
        F::ENGINE
    }

    fn call(&self, engine: &Base, request: &mut CliRequest) -> Option<Box<dyn KeptCall>> {
        in_session::<F, _>(self, engine, request)
    }

    fn prewarm<'a>(&'a self, engine: &'a Arc<Base>, next: NextCall, env: &'a Arc<Vars>) -> Coming<'a, ()> {
        Box::pin(ahead::prewarm(self, engine, next, env))
    }

    fn forget(&self) {}
}

impl<F: ServerForm> Kept for Arc<ServerSessions<F>> {
    fn engine(&self) -> EngineUsed {
        F::ENGINE
    }

    fn call(&self, engine: &Base, request: &mut CliRequest) -> Option<Box<dyn KeptCall>> {
        match F::TAKES {
            Takes::Thread => in_session::<F, _>(self, engine, request),
            Takes::Prompt => Some(Box::new(Prompted(Arc::clone(self)))),
        }
    }

    fn prewarm<'a>(&'a self, engine: &'a Arc<Base>, next: NextCall, env: &'a Arc<Vars>) -> Coming<'a, ()> {
        Box::pin(prewarm_server(self, engine, next, env))
    }

    fn forget(&self) {
        self.form.forget();
    }
}

/// Starts the server, if none runs, and waits until it has loaded what a session needs. The server serves any setup, since the
/// calls open the sessions.
async fn prewarm_server<F: ServerForm>(
    sessions: &Arc<ServerSessions<F>>,
    engine: &Arc<Base>,
    next: NextCall,
    env: &Arc<Vars>,
) -> Result<(), Box<ProviderError>> {
    let setup = Arc::new(F::setup(&SetupParts {
        system: next.system.as_deref(),
        tools: &next.tools.unwrap_or_default(),
        options: &engine.options,
        choices: None,
        output: SessionOutput::Text,
    }));
    let program = engine.look(env).map_err(|error| not_found(engine, error))?;
    let process = F::options(Some(&setup), None);
    let installed = program.installed(&engine.provider, &engine.options, F::ENGINE, process, F::line)?;
    if let LiveSupport::Unserved(unserved) = program.support(&engine.provider, F::ENGINE) {
        if engine.has_another_form() {
            return Ok(());
        }
        if engine.is_refused(F::ENGINE, unserved) {
            return Err(auto::refused(engine, F::ENGINE, &unserved.why, None));
        }
    }
    let wanted = Wanted {
        installed: &installed,
        env,
        setup: Some(&setup),
    };
    let started = sessions.server(engine, wanted).await;
    if let Some(server) = ready(engine, F::ENGINE, &installed.binary, started)? {
        let prepared = F::prepare(&server, &setup);
        if engine.lifecycle.closing.run_until_cancelled(prepared).await.is_some() {
            server.host().prewarmed();
        }
    }
    Ok(())
}

/// A server that was started ahead; `None` if a call will use print form, or is refused.
fn ready<T>(
    engine: &Base,
    used: EngineUsed,
    binary: &Binary,
    started: Result<T, NotBegun>,
) -> Result<Option<T>, Box<ProviderError>> {
    match started {
        Ok(server) => Ok(Some(server)),
        Err(NotBegun::Cancelled | NotBegun::NotLookedAt | NotBegun::Left(_)) => Ok(None),
        Err(NotBegun::Failed(error)) => Err(error),
        // The call itself is made without the flag.
        Err(NotBegun::FlagRefused(flag)) => {
            capabilities::remember_refused(binary, &flag);
            Ok(None)
        }
        Err(NotBegun::Unsupported(unsupported)) if engine.has_another_form() => {
            capabilities::remember_not_begun(used, binary, unsupported.reason);
            Ok(None)
        }
        Err(NotBegun::Unserved(unserved)) => Err(auto::refused(engine, used, &unserved.why, None)),
        Err(NotBegun::Unsupported(unsupported)) => {
            let evidence = unsupported.evidence.as_deref();
            Err(auto::refused(engine, used, &unsupported.reason, evidence))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_provider::{ALL, acp};

    #[test]
    fn every_providers_form_is_here_and_every_form_is_a_providers() {
        let agent = acp::agent(r#"{"command":"a"}"#).unwrap();
        let named = ALL.iter().copied().chain([&agent]).filter_map(|provider| provider.live);
        let mut named: Vec<&str> = named.map(|live| live.folder).collect();
        let mut here: Vec<&str> = LIVE.iter().map(|(folder, _)| *folder).collect();
        named.sort_unstable();
        here.sort_unstable();
        assert_eq!(named, here);
        for folder in here {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../exchange");
            assert!(
                std::path::Path::new(path).join(folder).join("form.rs").is_file(),
                "{folder}"
            );
        }
    }
}
