//! Processes of live sessions that are started ahead of the call that will need them.
//!
//! In: what is known of the next call ([`Known`]). Out: processes that have started and were set up with it, so that the call does not wait.

use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::watch;

use super::auto::Trial;
use super::capabilities::{self, Binary};
use super::engine::{Engine, not_started};
use super::live_request;
use super::live_sessions::{Live, LiveSessions};
use super::live_support::LiveSupport;
use crate::command::{CommandLine, Mode};
use crate::declare::mcp::Declarations;
use crate::error::{Code, ProviderError};
use crate::exchange::claude_live::session::Session;
use crate::exchange::live::minding::{NotReady, Warmth};
use crate::exchange::live::process_turn;
use crate::exchange::live::setup::Setup;
use crate::exchange::print::{NotStarted, Surroundings};
use crate::exchange::{Evidence, Invocation};
use crate::fold::Fold;
use crate::judge::{self, CliRules, Context};
use crate::message::ToolSpec;
use crate::process::limit::Permit;
use crate::process::{Limits, Tees, Vars};
use crate::provider::choices::Choices;
use crate::provider::options::EngineKind;
use crate::toolcall::TextCalls;

/// How often a process is started anew because the CLI has refused a flag that it can do without.
const ATTEMPTS: usize = 8;

/// What is known of the next call.
#[derive(Debug, Default, Deserialize)]
struct Known {
    /// The text of the thread's system messages; an empty one says that there are none.
    system: Option<String>,
    tools: Option<Vec<ToolSpec>>,
}

/// What one round of starting ahead came to.
enum Warmed {
    /// They are ready.
    Ready,
    /// The CLI refused a flag that it can do without: once more.
    FlagRefused,
}

impl Engine {
    /// Starts a process for the next call, or as many as `spares` says, and waits until they have answered. `known` is the JSON of what
    /// is known of that call: `{"system": text?, "tools": [spec…]?}`; what it does not say is what the last call had. `env` is what
    /// they inherit.
    ///
    /// Where calls are made in print form there is nothing to start. Where other calls leave no room within `maxConcurrency`, the next
    /// one takes the place of a session that rests, and has to wait for its process.
    ///
    /// # Errors
    /// `CLOSED`, `INVALID_TOOL`; as a call where the CLI can't be started, or ends instead of answering.
    pub async fn prewarm(engine: &Arc<Engine>, known: &str, env: Vars) -> Result<(), Box<ProviderError>> {
        // `close` waits for what holds a token: a process that is being started just now is not overlooked.
        let _starting = engine.lifecycle.runs.token();
        engine.refusal().map_or(Ok(()), Err)?;
        let known: Known = serde_json::from_str(known)
            .map_err(|error| engine.refuse(Code::InvalidTool, format!("tools can't be read: {error}")))?;
        let env = Arc::new(env);
        let live = match &engine.live {
            Some(Live::Claude(live)) => live,
            // Its server serves any setup: threads are opened by the calls.
            Some(Live::Codex(live)) => {
                let ready = engine.prewarm_codex(live, &env).await;
                return engine.closed().map_or(ready, Err);
            }
            // So does this one, but its folders are made ahead.
            Some(Live::Opencode(live)) => {
                let tools = Declarations::new(&known.tools.unwrap_or_default());
                let ready = engine.prewarm_opencode(live, &tools, &env).await;
                return engine.closed().map_or(ready, Err);
            }
            // A process that waits would have to know the call's system prompt.
            Some(Live::Qwen(_)) => return Ok(()),
            None => {
                let ready = match &engine.warm {
                    Some(servers) => engine.prewarm_warm(servers, &env).await,
                    None => Ok(()),
                };
                return engine.closed().map_or(ready, Err);
            }
        };
        let setup = engine.likely_setup(live, known);
        for _ in 0..ATTEMPTS {
            match engine.warm(live, setup.as_ref(), &env).await {
                Ok(Warmed::Ready) => break,
                Ok(Warmed::FlagRefused) => {}
                Err(error) => return Err(engine.closed().unwrap_or(error)),
            }
        }
        engine.closed().map_or(Ok(()), Err)
    }

    /// The next call's setup; `None` if that is not known.
    fn likely_setup(&self, live: &LiveSessions<Session>, known: Known) -> Option<Arc<Setup>> {
        let last = live.last_setup();
        let choices = last.as_ref().and_then(|last| last.choices().cloned());
        let of = |system: String, tools: &[ToolSpec]| {
            let system = Some(system).filter(|text| !text.trim().is_empty());
            live_request::setup(&self.options, system, tools, None).with_choices(choices.clone())
        };
        match (known.system, known.tools, last) {
            (Some(system), Some(tools), _) => Some(Arc::new(of(system, &tools))),
            (Some(system), None, None) => Some(Arc::new(of(system, &[]))),
            (Some(system), None, Some(last)) => Some(Arc::new(last.with_system_of(&of(system, &[])))),
            (None, Some(tools), Some(last)) => Some(Arc::new(last.with_tools(&tools))),
            // A guess at the system prompt would be a process that nobody can use.
            (None, _, last) => last,
        }
    }

    async fn warm(
        &self,
        live: &LiveSessions<Session>,
        setup: Option<&Arc<Setup>>,
        env: &Arc<Vars>,
    ) -> Result<Warmed, Box<ProviderError>> {
        let choices = setup.and_then(|setup| setup.choices());
        let (line, binary) = self.live_line(choices, env)?;
        if self.options.engine == EngineKind::Auto {
            let trial = capabilities::trial_of(&binary);
            let _trying = match self.support(&binary, env) {
                LiveSupport::Unknown(_) => Some(trial.lock().await),
                _ => None,
            };
            match self.support(&binary, env) {
                LiveSupport::Served(_) => {}
                LiveSupport::Unserved(_) => return Ok(Warmed::Ready),
                LiveSupport::Unknown(_) => return self.warm_untried(live, (&line, &binary), setup, env).await,
            }
        }
        let start = |place| self.session((&line, &binary), env, Some(Permit::taken(place)));
        let number = live.pool.spares().max(1);
        let warm = live.pool.prewarm((number, live.working()), (env, setup), start);
        for mut one in warm.map_err(|error| not_started(self, &error))? {
            let Some(not_ready) = failure(&mut one, setup.is_some()).await else {
                continue;
            };
            let invocation = Invocation::of(self.id(), &line);
            let (reason, ended) = process_turn::why_not_ready(invocation, &not_ready, &Limits::default());
            if let Some(flag) = &ended.refused_flag {
                capabilities::remember_refused(&binary, flag);
                return Ok(Warmed::FlagRefused);
            }
            return Err(self.not_ready(reason, ended.evidence));
        }
        Ok(Warmed::Ready)
    }

    async fn warm_untried(
        &self,
        live: &LiveSessions<Session>,
        (line, binary): (&CommandLine, &Binary),
        setup: Option<&Arc<Setup>>,
        env: &Arc<Vars>,
    ) -> Result<Warmed, Box<ProviderError>> {
        let Some(place) = live.pool.place_now(live.working()) else {
            return Ok(Warmed::Ready);
        };
        let session = self
            .session((line, binary), env, Some(Permit::taken(place)))
            .map_err(|error| not_started(self, &error))?;
        let trial = self
            .lifecycle
            .closing
            .run_until_cancelled(self.trial(session, (line, binary), setup));
        Ok(match trial.await {
            Some(Trial::Served(session)) => {
                live.pool.add_ready(*session, env, setup);
                Warmed::Ready
            }
            Some(Trial::FlagRefused(_)) => Warmed::FlagRefused,
            Some(Trial::Unserved(_)) | None => Warmed::Ready,
        })
    }

    /// The error of a process that was started ahead and takes no turn.
    fn not_ready(&self, reason: Option<String>, evidence: Evidence) -> Box<ProviderError> {
        if let Some(reason) = reason {
            return self.no_sessions(&reason, Some(&evidence));
        }
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

    /// Starts the spares there should be after a call. That they can't be started will be the next call's own error.
    pub(super) fn restock(&self, env: &Arc<Vars>) {
        if let Some(Live::Claude(live)) = &self.live {
            let setup = live.likely_setup();
            let choices = setup.as_ref().and_then(|setup| setup.choices());
            let Ok((line, binary)) = self.live_line(choices, env) else {
                return;
            };
            let start = |place| self.session((&line, &binary), env, Some(Permit::taken(place))).ok();
            live.pool.stock(live.working(), (env, setup.as_ref()), start);
        }
    }

    /// The command line of a process that is started with `choices`; `None` for the provider's own. Pieces of messages are always
    /// asked for: a session serves calls that want them and calls that don't.
    pub(super) fn live_line(
        &self,
        choices: Option<&Choices>,
        base_env: &Arc<Vars>,
    ) -> Result<(CommandLine, Binary), Box<ProviderError>> {
        let chosen = choices.map(|choices| self.options.with_choices(choices.clone()));
        self.line(Mode::Live, chosen.as_ref().unwrap_or(&self.options), true, base_env)
    }

    /// A fresh process of `binary`, and its place among those of the provider. Its turns have the limits; it has none but
    /// the provider's end.
    pub(super) fn session(
        &self,
        (line, binary): (&CommandLine, &Binary),
        base_env: &Arc<Vars>,
        place: Option<Permit>,
    ) -> Result<Session, NotStarted> {
        let surroundings = Surroundings {
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
        };
        Session::start(line.clone(), surroundings, &self.lifecycle.closing)
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
