//! Processes for many calls each, which remember none of them: one that runs, or one that is started, and a session of it for this call.
//!
//! In: a call's prompt in print form. Out: the same events and the same verdict as of a print run.

use std::sync::Arc;

use serde_json::json;

use super::drive::{Reading, Way, drive, invocation};
use super::hosts::{ServerKey, Servers, Shared, Starts, has_grown};
use super::source::{Begun, NotBegun, Source, TurnAsked};
use super::unready::not_begun;
use crate::error::ProviderError;
use crate::event::{EngineUsed, RunInfo};
use crate::exchange::acp_warm::server::AcpServer;
use crate::exchange::acp_warm::turn::WarmTurn;
use crate::exchange::form::{ProcessOptions, Server};
use crate::exchange::host::{Host, NoHost};
use crate::exchange::installed::Installed;
use crate::exchange::live::process_turn::Origin;
use crate::process::Vars;
use crate::provider::choices::Choices;
use crate::provider::options::{EngineKind, Options};
use crate::provider::{Provider, WarmForm};
use crate::run::base::Base;
use crate::run::cli_attempt::{CliAttempt, CliCall};
use crate::run::print::not_callable;
use crate::run::session::pools::warning;

/// How many there may be: each takes 230 MB.
const MOST: usize = 4;

/// The warm processes of one provider.
#[derive(Debug)]
pub(in crate::run) struct WarmServers {
    all: Shared<AcpServer>,
    starts: Starts,
    form: WarmForm,
}

/// A call as a warm process takes it.
#[derive(Debug)]
pub(in crate::run) struct WarmCall {
    /// What is sent.
    prompt: String,
    /// What it chooses; `None` for the provider's own choices.
    choices: Option<Choices>,
}

impl Server for AcpServer {
    fn host(&self) -> &Host {
        AcpServer::host(self)
    }
}

/// A call in a warm process, where there is one for it.
pub(in crate::run) async fn attempt(
    servers: &Arc<WarmServers>,
    attempt: &CliAttempt<'_>,
    info: &mut RunInfo,
) -> Result<Way, Box<ProviderError>> {
    let CliCall { engine, request, .. } = *attempt.call;
    // The CLI calls tools or works for itself.
    if request.tool_server.is_some() || request.watching {
        return Ok(Way::Next(None));
    }
    let is_auto = engine.options.engine == EngineKind::Auto;
    let printed = request.printed(engine);
    // The CLI holds the answer against the schema in print form only.
    if is_auto && printed.asking_prompt.is_some() {
        return Ok(Way::Next(None));
    }
    // A warm process can't be told a schema.
    let prompt = &printed.asking_prompt.as_ref().unwrap_or(&printed.prompt).text;
    let needs_own_process = if !printed.prompt.media.is_empty() {
        Some("the thread holds images or documents")
    } else if prompt.trim_start().starts_with('/') {
        // The CLI would answer `/help` itself, also behind white space (gemini 0.61.0), and a lone message stays as it is.
        Some("the prompt begins with \"/\"")
    } else {
        None
    };
    if let Some(why) = needs_own_process {
        let message = format!("{why}, which a warm process does not take: asked in print form");
        return Ok(Way::Next((!is_auto).then(|| warning("ENGINE_FALLBACK", message))));
    }
    let call = WarmCall {
        prompt: prompt.clone(),
        choices: request.chosen.options.as_ref().map(|options| options.choices.clone()),
    };
    let why_emulated = match printed.asking_prompt {
        Some(_) => Some("a warm process can't be told one"),
        None => request.emulated_because,
    };
    let reading = Reading {
        text_calls: printed.text_calls.clone(),
        notes: {
            let uncallable = request.uncallable.then(not_callable);
            let emulated = why_emulated.and_then(|why| engine.emulated(why));
            uncallable.into_iter().chain(emulated).collect()
        },
        unfit: printed.unprintable.as_deref(),
    };
    drive(servers, attempt, &call, reading, info).await
}

impl WarmServers {
    /// `None` where the options want none, or the provider has none.
    pub fn new(provider: &Provider, options: &Options) -> Option<WarmServers> {
        let form = provider.warm.filter(|_| options.engine.may_be_warm())?;
        Some(WarmServers {
            all: Shared::default(),
            starts: Starts::default(),
            form,
        })
    }

    /// The process for calls of `key`: one that runs, or a new one.
    pub async fn server(
        self: &Arc<Self>,
        engine: &Arc<Base>,
        installed: &Installed,
        (env, choices): (&Arc<Vars>, Option<&Choices>),
    ) -> Result<Arc<AcpServer>, NotBegun> {
        let key = ServerKey {
            env: Arc::clone(env),
            binary: installed.binary.clone(),
            choices: choices.cloned(),
        };
        if let Some(found) = self.find(engine, installed, &key).await {
            return Ok(found);
        }
        let starting = self.starts.of(&key);
        let _starting = starting.lock().await;
        // Another call may have started it meanwhile.
        if let Some(found) = self.find(engine, installed, &key).await {
            return Ok(found);
        }
        let started = start(engine, installed, env).await;
        let server = started.map_err(|error| not_begun(engine, installed, error))?;
        Ok(self.add(engine, &mut *self.all.lock().await, key, server))
    }

    /// The process for calls of `key` that runs. One that is worn serves until the next one is there.
    async fn find(
        self: &Arc<Self>,
        engine: &Arc<Base>,
        installed: &Installed,
        key: &ServerKey,
    ) -> Option<Arc<AcpServer>> {
        let mut all = self.all.lock().await;
        let found = all.find(|known| known.key == *key)?;
        let server = Arc::clone(&found.service);
        let is_worn = server.host().sessions() >= self.form.max_sessions || has_grown(&*server);
        if is_worn && !std::mem::replace(&mut found.is_being_replaced, true) {
            self.replace(engine, key.clone(), installed.clone());
        }
        Some(server)
    }

    fn add(&self, engine: &Base, all: &mut Servers<AcpServer>, key: ServerKey, server: AcpServer) -> Arc<AcpServer> {
        let most = engine.options.max_concurrency.min(MOST);
        let kept = (&self.all, engine.options.keep_alive, &engine.lifecycle);
        all.add((key, server), most, kept)
    }

    /// Starts another process in place of the one of `key`, which serves calls until it is there.
    fn replace(self: &Arc<Self>, engine: &Arc<Base>, key: ServerKey, installed: Installed) {
        let (servers, of_task) = (Arc::clone(self), Arc::clone(engine));
        engine.lifecycle.runs.spawn(async move {
            let started = start(&of_task, &installed, &key.env).await;
            let mut all = servers.all.lock().await;
            match started {
                Ok(server) => {
                    all.retire(|known| known.key == key);
                    drop(servers.add(&of_task, &mut all, key, server));
                }
                // The next call that finds the old one worn tries again.
                Err(_) => {
                    if let Some(found) = all.find(|known| known.key == key) {
                        found.is_being_replaced = false;
                    }
                }
            }
        });
    }
}

async fn start(engine: &Base, installed: &Installed, env: &Arc<Vars>) -> Result<AcpServer, NoHost> {
    let surroundings = engine.surroundings(&installed.binary, env, None);
    AcpServer::start(installed.line.clone(), surroundings, &engine.lifecycle.closing).await
}

impl Source for WarmServers {
    const ENGINE: EngineUsed = EngineUsed::Warm;

    type Call = WarmCall;
    type Turn = WarmTurn;

    /// It is looked at for each: its session is new.
    fn may_continue(_: &WarmCall) -> bool {
        false
    }

    fn options(call: &WarmCall) -> ProcessOptions {
        ProcessOptions {
            choices: call.choices.clone(),
            system_prompt: None,
        }
    }

    async fn begin(self: &Arc<Self>, asked: &TurnAsked<'_, WarmCall>) -> Result<Begun<WarmTurn>, NotBegun> {
        let TurnAsked { attempt, call, .. } = *asked;
        let installed = asked.looked_at()?;
        let CliCall { engine, base_env, .. } = *attempt.call;
        let server = self
            .server(engine, installed, (base_env, call.choices.as_ref()))
            .await?;
        let sessions = server.host().sessions();
        let sent = call.prompt.clone();
        let how = (invocation(attempt, installed), attempt.limits(EngineUsed::Warm));
        Ok(Begun {
            exchange: WarmTurn::begin(server, self.form, call.prompt.clone(), how),
            origin: Origin::Fresh,
            notes: Vec::new(),
            sent: Box::new(move || sent),
            figures: json!({"sessions": sessions}),
        })
    }
}
