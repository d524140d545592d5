//! Sessions in processes for many conversations each: one that knows the thread's beginning, or a new one in a server that runs, or
//! is started.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio_util::task::TaskTracker;

use super::drive::invocation;
use super::hosts::{Keeping, KeptServer, ServerKey, Shared, Starts, has_grown};
use super::source::{Begun, NotBegun, Source, TurnAsked, Unsupported};
use super::unready::not_begun;
use crate::base::Base;
use crate::capabilities;
use crate::content::refuse_content;
use crate::session::pools::evicted_warning;
use dfp_exchange::form::{
    Caller, ProcessOptions, Proof, ReplyFactsOf, Server, ServerForm, ServerStart, SessionCall, TurnTarget, WorkParts,
};
use dfp_exchange::installed::Installed;
use dfp_exchange::live::keep::Keepable;
use dfp_exchange::live::pool::{Bounds, Pool, SessionKey};
use dfp_exchange::live::turn::{Kept, Origin, Park, Turn, TurnStart};
use dfp_model::event::EngineUsed;
use dfp_model::message::content::{self, Accepts};
use dfp_process::Vars;
use dfp_provider::command::CommandLine;
use dfp_provider::options::{EngineKind, Options};

/// The servers of one provider, and their sessions between calls.
#[derive(Debug)]
pub(crate) struct ServerSessions<F: ServerForm> {
    pub form: F,
    pool: Arc<Pool<F::Session>>,
    servers: Shared<F::Server>,
    starts: Starts,
}

impl<F: ServerForm> ServerSessions<F> {
    /// Creates the set, without sessions.
    pub fn new(form: F, options: &Options, runs: &TaskTracker) -> ServerSessions<F> {
        ServerSessions {
            form,
            pool: Arc::new(Pool::new(
                Bounds::of_sessions(F::MOST_RESTING),
                0,
                options.keep_alive,
                0,
                runs.clone(),
            )),
            servers: Shared::default(),
            starts: Starts::default(),
        }
    }

    /// Returns the server that is `wanted`: one that runs, or a new one.
    pub(super) async fn server(
        self: &Arc<Self>,
        engine: &Arc<Base>,
        wanted: Wanted<'_, F>,
    ) -> Result<Arc<F::Server>, NotBegun> {
        let key = ServerKey::new(wanted.env, &wanted.installed.binary);
        if let Some(found) = self.find(engine, &key, wanted).await {
            return Ok(found);
        }
        let starting = self.starts.of(&key);
        let _starting = starting.lock().await;
        // Another call may have started the server meanwhile.
        if let Some(found) = self.find(engine, &key, wanted).await {
            return Ok(found);
        }
        let others: Vec<Arc<F::Server>> = self.servers.lock().await.of(&key).map(Arc::clone).collect();
        let server = self.start(engine, wanted, &others).await?;
        let mut servers = self.servers.lock().await;
        Ok(servers.add(key, server, &self.keeping(engine)))
    }

    /// Returns the server that is `wanted`, if it runs. A server that has grown too large serves until the next one is there.
    async fn find(
        self: &Arc<Self>,
        engine: &Arc<Base>,
        key: &ServerKey,
        wanted: Wanted<'_, F>,
    ) -> Option<Arc<F::Server>> {
        let mut servers = self.servers.lock().await;
        if !F::SERVES_WHEN_GROWN {
            servers.retire(|known| has_grown(&*known.service));
        }
        let found = servers.find(|known| known.key == *key && wanted.is_served_by(&known.service))?;
        let server = Arc::clone(&found.service);
        let is_worn = self.form.is_worn(&server) || has_grown(&*server);
        if is_worn && !std::mem::replace(&mut found.is_being_replaced, true) {
            self.replace(engine, key.clone(), wanted);
        }
        Some(server)
    }

    fn keeping<'a>(&'a self, engine: &'a Base) -> Keeping<'a, F::Server> {
        Keeping {
            all: &self.servers,
            most: engine.options.max_concurrency.min(F::MOST_SERVERS),
            keep_alive: engine.options.keep_alive,
            lifecycle: &engine.lifecycle,
        }
    }

    /// Starts a server. `others` run with the same environment and file.
    async fn start(
        &self,
        engine: &Base,
        wanted: Wanted<'_, F>,
        others: &[Arc<F::Server>],
    ) -> Result<F::Server, NotBegun> {
        let Wanted { installed, env, setup } = wanted;
        let start = ServerStart {
            installed,
            options: &engine.options,
            setup: setup.map(|setup| &**setup),
            others,
            surroundings: &|| engine.surroundings(&installed.binary, env, None),
            closing: &engine.lifecycle.closing,
        };
        let started = self.form.start(start).await;
        let server = started.map_err(|error| not_begun(engine, installed, error))?;
        if engine.options.engine == EngineKind::Auto {
            let reason = match F::proof(&server) {
                Proof::Version(version) => engine.take_version(&installed.binary, version),
                Proof::Probe(why) => {
                    capabilities::settle(F::ENGINE, &installed.binary, why);
                    Ok(())
                }
            };
            reason.map_err(|reason| NotBegun::Unsupported(Unsupported::because(reason)))?;
        }
        Ok(server)
    }

    /// Starts another server in the place of the `wanted` one, which serves calls until then.
    fn replace(self: &Arc<Self>, engine: &Arc<Base>, key: ServerKey, wanted: Wanted<'_, F>) {
        let (sessions, of_task) = (Arc::clone(self), Arc::clone(engine));
        let (installed, setup) = (wanted.installed.clone(), wanted.setup.cloned());
        engine.lifecycle.runs.spawn(async move {
            let wanted: Wanted<'_, F> = Wanted {
                installed: &installed,
                env: &key.env,
                setup: setup.as_ref(),
            };
            let is_old = |known: &KeptServer<F::Server>| {
                known.key == key && known.is_being_replaced && wanted.is_served_by(&known.service)
            };
            // The new server loads whatever the old one has loaded.
            let others: Vec<Arc<F::Server>> = sessions.servers.lock().await.of(&key).map(Arc::clone).collect();
            let started = sessions.start(&of_task, wanted, &others).await;
            drop(others);
            let mut servers = sessions.servers.lock().await;
            match started {
                Ok(server) => {
                    servers.retire(is_old);
                    drop(servers.add(key.clone(), server, &sessions.keeping(&of_task)));
                }
                // The next call that finds the old server too large tries again.
                Err(_) => {
                    if let Some(found) = servers.find(is_old) {
                        found.is_being_replaced = false;
                    }
                }
            }
        });
    }
}

/// The server that calls need.
pub(super) struct Wanted<'a, F: ServerForm> {
    pub installed: &'a Installed,
    pub env: &'a Arc<Vars>,
    /// The setup of the session for which the server is needed.
    pub setup: Option<&'a Arc<F::Setup>>,
}

impl<F: ServerForm> Clone for Wanted<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: ServerForm> Copy for Wanted<'_, F> {}

impl<F: ServerForm> Wanted<'_, F> {
    fn is_served_by(self, server: &F::Server) -> bool {
        F::serves(server, self.installed, self.setup.map(|setup| &**setup))
    }
}

impl<F: ServerForm> Source for ServerSessions<F> {
    const ENGINE: EngineUsed = F::ENGINE;

    type Call = SessionCall<F::Setup>;
    type Turn = Turn<F::Session, ReplyFactsOf<F>>;

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
            Some((session, input)) => (TurnTarget::Session(session), Some(input)),
            None => {
                let wanted = Wanted {
                    installed: asked.looked_at()?,
                    env,
                    setup: Some(&call.setup),
                };
                let server = self.server(engine, wanted).await?;
                if let Some(what) = F::lacks(&server, &call.setup) {
                    return Err(NotBegun::Left(what));
                }
                (TurnTarget::Server(server), None)
            }
        };
        // Only a call that sends an image waits for the answer.
        if let Err(refused) = content::check(call.thread.messages(), &Accepts::TEXT)
            && let Some(who) = F::blind_model(&place, &call.setup).await
        {
            if let TurnTarget::Session(session) = place {
                session.end();
            }
            return Err(NotBegun::Failed(refuse_content(engine, &refused, &who, &Accepts::TEXT)));
        }
        let caller = Caller {
            key: &key,
            provider: engine.id(),
            login: engine.login(),
        };
        let (opening, server, origin) = match (place, input) {
            (TurnTarget::Session(session), Some(input)) => {
                let server = Arc::clone(F::server(&session));
                (F::resume(session, input), server, Origin::Continued)
            }
            (TurnTarget::Session(session), None) => {
                let server = Arc::clone(F::server(&session));
                session.end();
                (
                    self.form.open(Arc::clone(&server), call, &caller),
                    server,
                    Origin::Fresh,
                )
            }
            (TurnTarget::Server(server), _) => (
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
        let sessions = server.host().sessions();
        let (limits, tracker) = (attempt.limits(F::ENGINE), &engine.lifecycle.runs);
        let parts = WorkParts {
            setup: Arc::clone(&call.setup),
            limits: &limits,
            tracker,
        };
        let work = F::work(opening, parts);
        let start = TurnStart {
            invocation: invocation(attempt, asked.installed),
            limits,
            pid: server.host().pid(),
            has_begun: false,
            tracker,
            park: park(self, asked, key, server),
        };
        let (thread, prompt) = (Arc::clone(&call.thread), Arc::clone(&call.prompt));
        Ok(Begun {
            exchange: Turn::begin(work, start),
            origin,
            notes,
            sent: Box::new(move || F::sent(&thread, &prompt)),
            figures: json!({"spare": false, "sessions": sessions}),
        })
    }
}

/// The decision what becomes of the session when its turn has a reply.
fn park<F: ServerForm>(
    source: &Arc<ServerSessions<F>>,
    asked: &TurnAsked<'_, SessionCall<F::Setup>>,
    key: SessionKey<F::Setup>,
    server: Arc<F::Server>,
) -> Park<F::Session, ReplyFactsOf<F>> {
    let call = asked.attempt.call;
    if call.request.options.once {
        // The thread does not go on, so the server drops it, and a call that waits is interrupted.
        return Box::new(|kept, _, _| {
            if let Some(Kept { session, .. }) = kept {
                session.end();
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
        if let Some(Kept { session, pending }) = kept {
            let known = thread.known_with(reply, pending);
            source.pool.park(session, key, known);
        }
    })
}
