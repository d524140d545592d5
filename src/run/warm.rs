//! Warm calls: the process, or one that is started, a session of it for this call, and what print would make of the answer.
//!
//! In: a call's prompt in print form. Out: the same events and the same verdict as of a print run.

use std::sync::Arc;

use serde_json::json;

use super::attempt::{Attempted, Opening, run_attempt};
use super::capabilities::{self, Binary};
use super::cli_attempt::{CliAttempt, CliCall};
use super::engine::{Engine, not_started};
use super::live_sessions::warning;
use super::live_support::{Basis, LiveSupport, Unserved};
use super::retry_loop::AttemptOutcome;
use super::servers::{NoPlace, ServerKey, Servers, Serving, Shared};
use super::warm_servers::{MOST, WarmServers};
use crate::command::{CommandLine, Mode};
use crate::error::{Code, ProviderError};
use crate::event::{EngineUsed, RunInfo};
use crate::exchange::Invocation;
use crate::exchange::acp_warm::server::AcpServer;
use crate::exchange::acp_warm::turn::{Unusable, WarmTurn};
use crate::exchange::host::NoHost;
use crate::exchange::print::{NotStarted, Surroundings};
use crate::fold::Fold;
use crate::process::{End, Exit, Limits, StartError, Tees, Vars};
use crate::provider::WarmForm;
use crate::provider::options::EngineKind;

impl CliAttempt<'_> {
    /// The call made by itself, without memory of others: in a warm process where there is one for it, by a process of its own otherwise.
    pub async fn without_session(&self, info: &mut RunInfo) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall {
            engine,
            request,
            base_env,
            sink,
            ..
        } = *self.call;
        let (Some(servers), Some(form)) = (&engine.warm, engine.provider.warm) else {
            return self.print(info).await;
        };
        // The CLI calls tools or works for itself.
        if request.tool_server.is_some() || request.watching {
            return self.print(info).await;
        }
        let auto = engine.options.engine == EngineKind::Auto;
        // The CLI holds the answer against the schema in print form only.
        if auto && request.asking_prompt.is_some() {
            return self.print(info).await;
        }
        if let Some(why) = self.wants_own_process() {
            if !auto {
                let message = format!("{why}, which a warm process does not take: asked in print form");
                sink.send(&mut vec![warning("ENGINE_FALLBACK", message)]).await;
            }
            return self.print(info).await;
        }
        let (line, binary) = engine.line(Mode::Warm, request.provider_options(engine), true, base_env)?;
        if let Some(reason) = engine.unproven(form, &binary, base_env) {
            if !auto {
                return Err(engine.no_warm_calls(&reason.why, None));
            }
            // A call that would have been warm, had the CLI not failed to be.
            if reason.basis == Basis::Trial {
                return self.not_warm(&reason.why, info).await;
            }
            return self.print(info).await;
        }
        self.warm(servers, form, (&line, &binary), info).await
    }

    /// Why this call can only be one of print's.
    fn wants_own_process(&self) -> Option<&'static str> {
        let prompt = self.call.request;
        if !prompt.prompt.media.is_empty() {
            return Some("the thread holds images or documents");
        }
        // The CLI would answer `/help` itself, also behind white space (gemini 0.61.0), and a lone message stays as it is.
        let begins_with_slash = self.warm_prompt().trim_start().starts_with('/');
        begins_with_slash.then_some("the prompt begins with \"/\"")
    }

    /// What is sent: a warm process can't be told a schema.
    fn warm_prompt(&self) -> &str {
        let request = self.call.request;
        let prompt = request.asking_prompt.as_ref().unwrap_or(&request.prompt);
        &prompt.text
    }

    async fn warm(
        &self,
        servers: &WarmServers,
        form: WarmForm,
        (line, binary): (&CommandLine, &Binary),
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall {
            engine,
            request,
            base_env,
            sink,
            ..
        } = *self.call;
        if let Some(refused) = &request.unprintable {
            return Err(refused.clone());
        }
        let Some(permit) = self.permit(binary.file(), info).await else {
            return Ok(AttemptOutcome::Cancelled);
        };
        info.engine = Some(EngineUsed::Warm);
        self.start_clock();
        let key = ServerKey {
            env: Arc::clone(base_env),
            binary: binary.clone(),
            choices: Some(request.provider_options(engine).choices.clone()),
        };
        let (reason, exit) = loop {
            let server = match self
                .host(EngineUsed::Warm, engine.warm_server(servers, &key, line, form))
                .await
            {
                Ok(server) => server,
                Err(NoPlace::Cancelled) => return Ok(AttemptOutcome::Cancelled),
                Err(NoPlace::Failed(error)) => return Err(error),
                Err(NoPlace::Unsupported(reason, exit)) => break (reason, exit),
            };
            let prompt = self.warm_prompt();
            let opening = Opening {
                message: "started",
                fields: json!({"attempt": self.number, "sessions": server.host().sessions(), "flags": line.flags}),
                notes: {
                    let uncallable = request.uncallable.then(super::print::not_callable);
                    let why = match request.asking_prompt {
                        Some(_) => Some("a warm process can't be told one"),
                        None => request.emulated_because,
                    };
                    let emulated = why.and_then(|why| engine.emulated(why));
                    let choices = request.notes(self.number);
                    choices.into_iter().chain(uncallable).chain(emulated).collect()
                },
            };
            let fold =
                Fold::new(request.call_ids.clone(), request.text_calls.clone()).with_listener(sink.has_listener());
            let invocation = Invocation::of(engine.id(), line);
            let limits = self.limits(EngineUsed::Warm);
            let turn = WarmTurn::begin(server, form, prompt.to_owned(), (invocation, limits));
            let attempt = self.attempt(EngineUsed::Warm, prompt, fold, opening);
            match run_attempt(attempt, turn, info).await? {
                Attempted::Outcome(outcome) => return Ok(outcome),
                // It got no prompt. The next one is new: those that are gone are not found again.
                Attempted::Unusable(Unusable::Vanished, _) => {}
                Attempted::Unusable(Unusable::Unsupported(reason), _) => break (reason, None),
            }
        };
        drop(permit);
        if engine.options.engine != EngineKind::Auto {
            return Err(engine.no_warm_calls(&reason, exit.as_deref()));
        }
        capabilities::remember_no_warm(binary, reason.clone());
        self.not_warm(&reason, info).await
    }

    /// In print form after all, for this reason.
    async fn not_warm(&self, reason: &str, info: &mut RunInfo) -> Result<AttemptOutcome, Box<ProviderError>> {
        let message = format!("the installed CLI takes no warm calls ({reason}): asked in print form");
        self.call
            .sink
            .send(&mut vec![warning("ENGINE_FALLBACK", message)])
            .await;
        self.print(info).await
    }
}

impl Engine {
    /// Why `binary` is not asked warm, where only measured versions are: with `engine: "auto"`, and by a form that says so.
    fn unproven(&self, form: WarmForm, binary: &Binary, env: &Arc<Vars>) -> Option<Unserved> {
        let wants_proof = self.options.engine == EngineKind::Auto || form.measured_only;
        match self.warm_support(binary, env) {
            LiveSupport::Unserved(unserved) if wants_proof => Some(unserved),
            _ => None,
        }
    }

    /// Starts the process of calls with the provider's own choices, if none runs, and waits until it has answered.
    pub(super) async fn prewarm_warm(
        self: &Arc<Self>,
        servers: &WarmServers,
        env: &Arc<Vars>,
    ) -> Result<(), Box<ProviderError>> {
        let Some(form) = self.provider.warm else {
            return Ok(());
        };
        let (line, binary) = self.line(Mode::Warm, &self.options, true, env)?;
        let auto = self.options.engine == EngineKind::Auto;
        if let Some(reason) = self.unproven(form, &binary, env) {
            return match auto {
                true => Ok(()),
                false => Err(self.no_warm_calls(&reason.why, None)),
            };
        }
        let key = ServerKey {
            env: Arc::clone(env),
            binary: binary.clone(),
            choices: Some(self.options.choices.clone()),
        };
        match self.warm_server(servers, &key, &line, form).await {
            Ok(_) | Err(NoPlace::Cancelled) => Ok(()),
            Err(NoPlace::Failed(error)) => Err(error),
            Err(NoPlace::Unsupported(reason, _)) if auto => {
                // A call will be asked in print form.
                capabilities::remember_no_warm(&binary, reason);
                Ok(())
            }
            Err(NoPlace::Unsupported(reason, exit)) => Err(self.no_warm_calls(&reason, exit.as_deref())),
        }
    }

    /// The process for calls of `key`: one that runs, or a new one.
    async fn warm_server(
        self: &Arc<Self>,
        servers: &WarmServers,
        key: &ServerKey,
        line: &CommandLine,
        form: WarmForm,
    ) -> Result<Arc<AcpServer>, NoPlace> {
        let mut all = servers.all.lock().await;
        if let Some(found) = all.find(|known| known.key == *key) {
            let server = Arc::clone(&found.service);
            // It serves until the next one is there.
            let is_worn = server.host().sessions() >= form.max_sessions || server.has_grown();
            if is_worn && !std::mem::replace(&mut found.is_being_replaced, true) {
                self.replace(servers, key.clone(), line.clone());
            }
            return Ok(server);
        }
        let server = self
            .start_warm(line, key)
            .await
            .map_err(|error| self.no_warm_place(error))?;
        Ok(self.add_warm(&servers.all, &mut all, key.clone(), server))
    }

    fn add_warm(
        &self,
        servers: &Shared<AcpServer>,
        all: &mut Servers<AcpServer>,
        key: ServerKey,
        server: AcpServer,
    ) -> Arc<AcpServer> {
        let most = self.options.max_concurrency.min(MOST);
        all.add((key, server), most, (servers, self.options.keep_alive, &self.lifecycle))
    }

    /// Starts another process in place of the one of `key`, which serves calls until it is there.
    fn replace(self: &Arc<Self>, servers: &WarmServers, key: ServerKey, line: CommandLine) {
        let (engine, servers) = (Arc::clone(self), Arc::clone(&servers.all));
        self.lifecycle.runs.spawn(async move {
            let started = engine.start_warm(&line, &key).await;
            let mut all = servers.lock().await;
            match started {
                Ok(server) => {
                    all.retire(|known| known.key == key);
                    drop(engine.add_warm(&servers, &mut all, key, server));
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

    async fn start_warm(&self, line: &CommandLine, key: &ServerKey) -> Result<AcpServer, NoHost> {
        let surroundings = Surroundings {
            file: Some(key.binary.resolved().clone()),
            base_env: Arc::clone(&key.env),
            limits: Limits {
                kill_grace: self.options.kill_grace,
                max_stdout: usize::MAX,
                ..Limits::default()
            },
            owner: self.owner,
            permit: None,
            tracker: self.lifecycle.runs.clone(),
            tees: Tees::default(),
        };
        AcpServer::start(line.clone(), surroundings, &self.lifecycle.closing).await
    }

    fn no_warm_place(&self, error: NoHost) -> NoPlace {
        match error {
            NoHost::NotStarted(NotStarted::Process(StartError::Cancelled)) => NoPlace::Cancelled,
            NoHost::NotStarted(error) => NoPlace::Failed(not_started(self, &error)),
            NoHost::Unsupported(reason) => NoPlace::Unsupported(reason, None),
            NoHost::Ended(Some(exit)) if matches!(exit.end, End::Cancelled | End::Closed) => NoPlace::Cancelled,
            NoHost::Ended(exit) => match exit.as_deref().and_then(|exit| self.crash(exit)) {
                Some(error) => NoPlace::Failed(error),
                None => NoPlace::Unsupported("it ended instead of answering the handshake".to_owned(), exit),
            },
        }
    }

    /// The error of a CLI that takes no warm calls.
    fn no_warm_calls(&self, reason: &str, exit: Option<&Exit>) -> Box<ProviderError> {
        let reason = format!("the installed CLI takes no warm calls: {reason}");
        let mut error = self.refuse(Code::LiveUnsupported, reason);
        if let Some(exit) = exit {
            error.exit_code = exit.code;
            error.stderr_tail = Some(exit.stderr.clone()).filter(|text| !text.trim().is_empty());
        }
        error
    }
}
