//! Processes for many conversations each: a session that knows the thread's beginning, or a new one in a server that runs, or in
//! one that is started.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio_util::task::TaskTracker;

use super::drive::invocation;
use super::hosts::{ServerKey, Shared, Starts};
use super::source::{Begun, NotBegun, Source, TurnAsked, Unsupported};
use super::unready::not_begun;
use crate::command::CommandLine;
use crate::event::EngineUsed;
use crate::exchange::form::{Caller, Place, ProcessOptions, Proof, ServerForm, ServerStart, SessionCall, TurnStart};
use crate::exchange::installed::Installed;
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::pool::{Pool, SessionKey};
use crate::exchange::live::process_turn::Origin;
use crate::exchange::live::turn::{Kept, Park, TaskTurn};
use crate::message::content::{self, Accepts};
use crate::process::Vars;
use crate::provider::options::{EngineKind, Options};
use crate::run::base::Base;
use crate::run::capabilities;
use crate::run::session::pools::evicted_warning;

/// The servers of one provider, and their sessions between calls.
#[derive(Debug)]
pub(in crate::run) struct ServerSessions<F: ServerForm> {
    pub form: F,
    pool: Arc<Pool<F::Session>>,
    servers: Shared<F::Server>,
    starts: Starts,
}

impl<F: ServerForm> ServerSessions<F> {
    /// None yet.
    pub fn new(form: F, options: &Options, runs: &TaskTracker) -> ServerSessions<F> {
        ServerSessions {
            form,
            pool: Arc::new(Pool::new(F::MOST_RESTING, options.keep_alive, 0, runs.clone())),
            servers: Shared::default(),
            starts: Starts::default(),
        }
    }

    /// The server for sessions with this setup: one that runs, or a new one.
    pub async fn server(
        &self,
        engine: &Base,
        installed: &Installed,
        env: &Arc<Vars>,
        setup: Option<&F::Setup>,
    ) -> Result<Arc<F::Server>, NotBegun> {
        let key = ServerKey::new(env, &installed.binary);
        let find = async || {
            let mut servers = self.servers.lock().await;
            servers.retire_grown();
            let found = servers.find(|known| known.key == key && F::serves(&known.service, installed, setup));
            found.map(|known| Arc::clone(&known.service))
        };
        if let Some(found) = find().await {
            return Ok(found);
        }
        let start = self.starts.of(&key);
        let _starting = start.lock().await;
        // Another call may have started it meanwhile.
        if let Some(found) = find().await {
            return Ok(found);
        }
        let others: Vec<Arc<F::Server>> = self.servers.lock().await.of(&key).map(Arc::clone).collect();
        let start = ServerStart {
            installed,
            options: &engine.options,
            setup,
            others: &others,
            surroundings: &|| engine.surroundings(&installed.binary, env, None),
            closing: &engine.lifecycle.closing,
        };
        let started = self.form.start(start).await;
        let server = started.map_err(|error| not_begun(engine, installed, error))?;
        if engine.options.engine == EngineKind::Auto {
            let reason = match F::proof(&server) {
                Proof::Version(version) => engine.take_version(&installed.binary, version),
                Proof::Probe(why) => {
                    capabilities::settle(EngineUsed::Live, &installed.binary, why);
                    Ok(())
                }
            };
            reason.map_err(|reason| NotBegun::Unsupported(Unsupported::because(reason)))?;
        }
        // Each takes 130 MB (codex) to 400 (opencode).
        let most = engine.options.max_concurrency;
        let kept = (&self.servers, engine.options.keep_alive, &engine.lifecycle);
        Ok(self.servers.lock().await.add((key, server), most, kept))
    }
}

impl<F: ServerForm> Source for ServerSessions<F> {
    const ENGINE: EngineUsed = EngineUsed::Live;

    type Call = SessionCall<F::Setup>;
    type Turn = TaskTurn<F::Session, F::Known>;

    fn may_continue(call: &SessionCall<F::Setup>) -> bool {
        call.may_continue()
    }

    fn options(call: &SessionCall<F::Setup>) -> ProcessOptions {
        F::options(Some(&call.setup), call.choices.as_ref())
    }

    fn line(line: CommandLine, file: &Path) -> CommandLine {
        F::line(line, file)
    }

    async fn begin(self: &Arc<Self>, asked: &TurnAsked<'_, Self::Call>) -> Result<Begun<Self::Turn>, NotBegun> {
        let TurnAsked { attempt, call, .. } = *asked;
        let (engine, env) = (attempt.call.engine, attempt.call.base_env);
        let key = SessionKey {
            setup: Arc::clone(&call.setup),
            env: Arc::clone(env),
        };
        let claimed = match asked.takes_waiting {
            true => {
                let next = |known: &_| F::addition(call, known).ok();
                self.pool.claim(&key, &call.thread, next).await
            }
            false => None,
        };
        let (place, input) = match claimed {
            Some((session, input)) => (Place::Session(session), Some(input)),
            None => {
                let server = self.server(engine, asked.looked_at()?, env, Some(&call.setup)).await?;
                (Place::Server(server), None)
            }
        };
        // Only who sends an image waits for the answer.
        if let Err(refused) = content::check(call.thread.messages(), &Accepts::TEXT)
            && let Some(who) = F::blind_model(&place, &call.setup).await
        {
            if let Place::Session(session) = place {
                session.end();
            }
            return Err(NotBegun::Failed(engine.refuse_content(&refused, &who, &Accepts::TEXT)));
        }
        let caller = Caller {
            key: &key,
            provider: engine.id(),
            login: engine.login(),
        };
        let (opening, server, origin) = match (place, input) {
            (Place::Session(session), Some(input)) => {
                let server = Arc::clone(F::server(&session));
                (F::resume(session, input), server, Origin::Continued)
            }
            (Place::Session(session), None) => {
                let server = Arc::clone(F::server(&session));
                session.end();
                (
                    self.form.open(Arc::clone(&server), call, &caller),
                    server,
                    Origin::Fresh,
                )
            }
            (Place::Server(server), _) => (
                self.form.open(Arc::clone(&server), call, &caller),
                server,
                Origin::Fresh,
            ),
        };
        let notes = match origin {
            Origin::Continued => Vec::new(),
            Origin::Fresh | Origin::Spare => {
                let places = format!("at most {} conversations rest", F::MOST_RESTING);
                let evicted = self.pool.eviction(&key, &call.thread);
                let evicted = evicted.map(|why| evicted_warning(why, &engine.options, &places));
                evicted.into_iter().collect()
            }
        };
        let start = TurnStart {
            setup: Arc::clone(&call.setup),
            invocation: invocation(attempt, asked.installed),
            limits: attempt.limits(EngineUsed::Live),
            tracker: &engine.lifecycle.runs,
            park: park(self, asked, key, server),
        };
        let thread = Arc::clone(&call.thread);
        Ok(Begun {
            exchange: F::begin(opening, start),
            origin,
            notes,
            sent: Box::new(move || thread.text()),
            figures: json!({"spare": false}),
        })
    }
}

/// What becomes of the session when its turn has a reply.
fn park<F: ServerForm>(
    source: &Arc<ServerSessions<F>>,
    asked: &TurnAsked<'_, SessionCall<F::Setup>>,
    key: SessionKey<F::Setup>,
    server: Arc<F::Server>,
) -> Park<F::Session, F::Known> {
    let call = asked.attempt.call;
    if call.request.options.once {
        // The thread does not go on: the server drops it, and a call that waits is interrupted.
        return Box::new(|kept, _, _| {
            if let Some(Kept { conversation, .. }) = kept {
                conversation.end();
            }
        });
    }
    let (provider, login) = (call.engine.id().to_owned(), call.engine.login().map(str::to_owned));
    let (source, thread) = (Arc::clone(source), Arc::clone(&asked.call.callers));
    Box::new(move |kept, reply, known| {
        let caller = Caller {
            key: &key,
            provider: &provider,
            login: login.as_deref(),
        };
        source.form.remember(known, reply, &thread, &server, &caller);
        if let Some(Kept { conversation, pending }) = kept {
            let known = thread.known_with(reply, pending);
            source.pool.park(conversation, key, known, 0);
        }
    })
}
