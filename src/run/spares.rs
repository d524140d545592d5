//! Processes that are started ahead: whether they have become ready, and the error of one that has not.
//!
//! In: the sessions of a provider, a setup, and how a process of theirs is started. Out: processes that wait in the pool.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, watch};

use super::capabilities::{self, Binary};
use super::engine::{Engine, not_started};
use super::live_sessions::LiveSessions;
use crate::command::CommandLine;
use crate::error::{Code, ProviderError};
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::minding::{NotReady, Warmth};
use crate::exchange::live::process_turn;
use crate::exchange::live::setup::Setup;
use crate::exchange::print::{NotStarted, Surroundings};
use crate::exchange::{Evidence, Invocation};
use crate::fold::Fold;
use crate::judge::{self, CliRules, Context};
use crate::process::limit::Permit;
use crate::process::{Limits, Tees, Vars};
use crate::toolcall::TextCalls;

/// How often a process is started anew because the CLI has refused a flag that it can do without.
pub(super) const ATTEMPTS: usize = 8;

/// What one round of starting ahead came to.
pub(super) enum Warmed {
    /// They are ready.
    Ready,
    /// The CLI refused a flag that it can do without: once more.
    FlagRefused,
    /// The CLI takes no sessions, for this reason.
    Unsupported(String, Box<Evidence>),
}

impl Engine {
    /// As many processes as `spares` says, one at least, started by `start` as `line` says and waited for until each is ready, with
    /// `setup` if that is known.
    ///
    /// # Errors
    /// As a call where the CLI can't be started, or ends instead of answering.
    pub(super) async fn warmed<S: Keepable<Setup = Setup>>(
        &self,
        live: &LiveSessions<S>,
        (line, binary): (&CommandLine, &Binary),
        (env, setup): (&Arc<Vars>, Option<&Arc<Setup>>),
        start: impl FnMut(OwnedSemaphorePermit) -> Result<S, NotStarted>,
    ) -> Result<Warmed, Box<ProviderError>> {
        let number = live.pool.spares().max(1);
        let warm = live.pool.prewarm((number, live.working()), (env, setup), start);
        for mut one in warm.map_err(|error| not_started(self, &error))? {
            let Some(not_ready) = failure(&mut one, setup.is_some()).await else {
                continue;
            };
            let invocation = Invocation::of(self.id(), line);
            let (reason, ended) = process_turn::why_not_ready(invocation, &not_ready, &Limits::default());
            if let Some(flag) = &ended.refused_flag {
                capabilities::remember_refused(binary, flag);
                return Ok(Warmed::FlagRefused);
            }
            return match reason {
                Some(reason) => Ok(Warmed::Unsupported(reason, Box::new(ended.evidence))),
                None => Err(self.not_ready(ended.evidence)),
            };
        }
        Ok(Warmed::Ready)
    }

    /// The error of a process that was started ahead and has ended.
    fn not_ready(&self, evidence: Evidence) -> Box<ProviderError> {
        let context = Context {
            provider: self.id(),
            rules: CliRules::from(&*self.provider),
            now_ms: super::clock::now_ms(),
            local_offset_min: super::clock::local_offset_min(),
        };
        let folded = Fold::new(Default::default(), TextCalls::Off).finish(&mut Vec::new());
        match judge::judge(&context, evidence, folded) {
            Err(error) => error,
            Ok(_) => self.no_sessions("it ended instead of answering the handshake", None),
        }
    }

    /// The error of a CLI that takes no live sessions.
    pub(super) fn no_sessions(&self, reason: &str, evidence: Option<&Evidence>) -> Box<ProviderError> {
        let reason = format!("the installed CLI takes no live sessions: {reason}");
        let mut error = self.refuse(Code::LiveUnsupported, reason);
        if let Some(Evidence::Process(process)) = evidence {
            judge::with_process(&mut error, process);
        }
        error
    }

    /// What a session's process has around it, and its place among those of the provider. Its turns have the limits; it has none but
    /// the provider's end.
    pub(super) fn session_surroundings(
        &self,
        binary: &Binary,
        base_env: &Arc<Vars>,
        place: Option<Permit>,
    ) -> Surroundings {
        Surroundings {
            file: Some(binary.resolved().clone()),
            base_env: Arc::clone(base_env),
            limits: Limits {
                kill_grace: self.options.kill_grace,
                max_stdout: usize::MAX,
                ..Limits::default()
            },
            owner: self.owner,
            permit: place,
            tracker: self.lifecycle.runs.clone(),
            tees: Tees::default(),
        }
    }
}

/// Waits until a process that was started ahead is ready, with its setup if it `has_setup`, or a call has taken it. Why it is not, if it
/// has failed.
async fn failure(warmth: &mut watch::Receiver<Warmth>, has_setup: bool) -> Option<Arc<NotReady>> {
    let is_settled = |now: &Warmth| match now {
        Warmth::Coming => false,
        Warmth::Ready { is_primed } => *is_primed || !has_setup,
        Warmth::Failed(_) => true,
    };
    let settled = warmth.wait_for(is_settled).await;
    match settled.as_deref() {
        Ok(Warmth::Failed(not_ready)) => Some(Arc::clone(not_ready)),
        _ => None,
    }
}
