//! Tries a CLI of which nothing is known, once: a process is started and asked for the handshake, for [`TRIAL`] at most and before
//! any prompt is sent to it, and takes the call if it answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::servers::login_missing;
use super::sessions::{Sessions, TurnAsked};
use crate::base::Base;
use crate::capabilities;
use crate::live_support::{self, LiveSupport};
use dfp_exchange::form::{Form, SetupOf};
use dfp_exchange::installed::Installed;
use dfp_exchange::live::session::{Pulse, Session};
use dfp_exchange::live::turn;
use dfp_exchange::{Invocation, Unusable};
use dfp_model::event::EngineUsed;
use dfp_process::ProcessLimits;
use dfp_provider::options::EngineKind;

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
pub(super) async fn of_call<F: Form>(
    sessions: &Sessions<F>,
    asked: &TurnAsked<'_, F>,
) -> Result<Option<Box<F::Session>>, Unusable> {
    let call = asked.attempt.call;
    let engine = call.engine;
    if engine.options.engine != EngineKind::Auto || !matches!(asked.support, LiveSupport::Unknown(_)) {
        return Ok(None);
    }
    let installed = asked.looked_at()?;
    let binary = &installed.binary;
    let lock = capabilities::trial_of(binary);
    let Some(_trying) = call.cancel.run_until_cancelled(lock.lock()).await else {
        return Err(Unusable::Cancelled);
    };
    // Another call may have tried the CLI meanwhile.
    match engine
        .look(call.base_env)
        .map(|now| now.support_now(&engine.provider, EngineUsed::Live))
    {
        Ok(LiveSupport::Served(_)) => return Ok(None),
        Ok(LiveSupport::Unserved(unserved)) => return Err(Unusable::unsupported(unserved.why)),
        Ok(LiveSupport::Unknown(_)) | Err(_) => {}
    }
    let session = sessions.start(asked, None, None).await?;
    let trial = run::<F>(engine, session, installed, Some(&asked.call.setup));
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
pub(super) async fn run<F: Form>(
    engine: &Base,
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
        Ok(Pulse::Ready { .. }) => match too_old(engine, &session) {
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
            if let Some(error) = engine.crash(&process.exit) {
                return Err(Unusable::Failed(error));
            }
            let invocation = Invocation::of(engine.id(), &installed.line);
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
    if let Some(error) = login_missing(engine, &reason) {
        return Err(Unusable::Failed(error));
    }
    capabilities::remember_unserved(EngineUsed::Live, binary, reason.clone());
    Err(Unusable::unsupported(reason))
}

fn too_old(engine: &Base, session: &impl Session) -> Option<String> {
    let (check, version) = (engine.provider.checks.live?, session.version()?);
    live_support::is_too_old(&check, version).then(|| format!("it says that it is {} {version}", check.program))
}
