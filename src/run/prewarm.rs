//! Processes of live sessions that are started ahead of the call that will need them.
//!
//! In: what is known of the next call ([`Known`]). Out: processes that have started and were set up with it, so that the call does not wait.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::sleep;

use super::auto::{EngineUse, Trial};
use super::capabilities::{self, Binary};
use super::engine::{Engine, not_started};
use super::live_request;
use super::live_sessions::{Live, LiveSessions};
use super::live_support::LiveSupport;
use super::spares::{ATTEMPTS, Warmed};
use crate::command::{CommandLine, Mode};
use crate::declare::mcp::Declarations;
use crate::error::{Code, ProviderError};
use crate::event::Reply;
use crate::exchange::claude_live::session::Session;
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::setup::Setup;
use crate::exchange::print::NotStarted;
use crate::message::ToolSpec;
use crate::process::Vars;
use crate::process::limit::Permit;
use crate::provider::choices::Choices;
use crate::provider::options::EngineKind;

/// How long after a turn that ended with tool calls a spare is started. The thread's next turn comes as soon as the tools are
/// done, and the half second of processor time that a CLI's start takes is better spent when it has begun.
const LOOP_PAUSE: Duration = Duration::from_secs(1);

/// What is known of the next call.
#[derive(Debug, Default, Deserialize)]
struct Known {
    /// The text of the thread's system messages; an empty one says that there are none.
    system: Option<String>,
    tools: Option<Vec<ToolSpec>>,
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
            Some(Live::Qwen(live)) => {
                let is_warm = engine
                    .engine_choice(&env)?
                    .is_some_and(|choice| choice.uses == EngineUse::Warm);
                let ready = match engine.warm.as_ref().filter(|_| is_warm) {
                    Some(servers) => engine.prewarm_warm(servers, &env).await,
                    None => {
                        let setup = engine.likely_setup(live, known);
                        engine.prewarm_qwen(live, setup.as_ref(), &env).await
                    }
                };
                return engine.closed().map_or(ready, Err);
            }
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
                Ok(Warmed::Unsupported(reason, evidence)) => {
                    let error = engine.no_sessions(&reason, Some(&evidence));
                    return Err(engine.closed().unwrap_or(error));
                }
                Err(error) => return Err(engine.closed().unwrap_or(error)),
            }
        }
        engine.closed().map_or(Ok(()), Err)
    }

    /// The next call's setup; `None` if that is not known.
    fn likely_setup<S: Keepable<Setup = Setup>>(&self, live: &LiveSessions<S>, known: Known) -> Option<Arc<Setup>> {
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
        self.warmed(live, (&line, &binary), (env, setup), start).await
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
            Some(Trial::Crashed(error)) => return Err(error),
            Some(Trial::Unserved(_)) | None => Warmed::Ready,
        })
    }

    /// Starts the spares there should be after a call. That they can't be started will be the next call's own error.
    pub(super) fn restock(&self, env: &Arc<Vars>) {
        match &self.live {
            Some(Live::Claude(live)) => self.restock_claude(live, env),
            Some(Live::Qwen(live)) => self.restock_qwen(live, env),
            Some(Live::Codex(_) | Live::Opencode(_)) | None => {}
        }
    }

    /// The same behind a turn that has come to `reply`: at once, or when the thread's next turn has had time to come.
    pub(super) fn restock_behind(self: &Arc<Self>, reply: &Reply, env: &Arc<Vars>) {
        if reply.tool_calls.is_empty() {
            return self.restock(env);
        }
        let (engine, env) = (Arc::clone(self), Arc::clone(env));
        self.lifecycle.runs.spawn(async move {
            let pause = engine.lifecycle.closing.run_until_cancelled(sleep(LOOP_PAUSE)).await;
            if pause.is_some() {
                engine.restock(&env);
            }
        });
    }

    fn restock_claude(&self, live: &LiveSessions<Session>, env: &Arc<Vars>) {
        let setup = live.likely_setup();
        let choices = setup.as_ref().and_then(|setup| setup.choices());
        let Ok((line, binary)) = self.live_line(choices, env) else {
            return;
        };
        let start = |place| self.session((&line, &binary), env, Some(Permit::taken(place))).ok();
        live.pool.stock(live.working(), (env, setup.as_ref()), start);
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

    /// A fresh process of `binary`, and its place among those of the provider.
    pub(super) fn session(
        &self,
        (line, binary): (&CommandLine, &Binary),
        base_env: &Arc<Vars>,
        place: Option<Permit>,
    ) -> Result<Session, NotStarted> {
        let surroundings = self.session_surroundings(binary, base_env, place);
        Session::start(line.clone(), surroundings, &self.lifecycle.closing)
    }
}
