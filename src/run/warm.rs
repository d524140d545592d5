//! Warm calls: the process, or one that is started, a session of it for this call, and what print would make of the answer.
//!
//! In: a call's prompt in print form. Out: the same events and the same verdict as of a print run.

use std::sync::Arc;

use serde_json::json;
use tokio::time::sleep;

use super::attempt::{Attempted, Opening, run_attempt};
use super::capabilities::{self, Binary};
use super::cli_attempt::{CliAttempt, CliCall};
use super::engine::{Engine, not_started};
use super::live_sessions::warning;
use super::live_support::LiveSupport;
use super::retry_loop::AttemptOutcome;
use super::warm_servers::{ServerKey, WarmServers, end_unused};
use crate::command::{CommandLine, Mode};
use crate::error::{Code, ProviderError};
use crate::event::{EngineUsed, RunInfo};
use crate::exchange::Invocation;
use crate::exchange::acp_warm::server::{AcpServer, NoServer};
use crate::exchange::acp_warm::turn::{Unusable, WarmTurn};
use crate::exchange::print::{NotStarted, Surroundings};
use crate::fold::Fold;
use crate::process::{End, Exit, Limits, StartError, Tees, Vars};
use crate::provider::WarmForm;
use crate::provider::options::EngineKind;

/// Why no process takes the call.
enum NoPlace {
    Cancelled,
    /// The installed CLI can't.
    Unsupported(String, Option<Arc<Exit>>),
    Failed(Box<ProviderError>),
}

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
        if (auto || form.measured_only)
            && let LiveSupport::Unserved(reason) | LiveSupport::Unknown(reason) = engine.warm_support(&binary, base_env)
        {
            return match auto {
                true => self.print(info).await,
                false => Err(engine.no_warm_calls(&reason, None)),
            };
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
        let key = ServerKey {
            env: Arc::clone(base_env),
            binary: binary.clone(),
            choices: request.provider_options(engine).choices.clone(),
        };
        let (reason, exit) = loop {
            let server = match self.server(servers, &key, line, form).await {
                Ok(server) => server,
                Err(NoPlace::Cancelled) => return Ok(AttemptOutcome::Cancelled),
                Err(NoPlace::Failed(error)) => return Err(error),
                Err(NoPlace::Unsupported(reason, exit)) => break (reason, exit),
            };
            let prompt = self.warm_prompt();
            let opening = Opening {
                message: "started",
                fields: json!({"attempt": self.number, "sessions": server.sessions(), "flags": line.flags}),
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
        let message = format!("the installed CLI takes no warm calls ({reason}): asked in print form");
        sink.send(&mut vec![warning("ENGINE_FALLBACK", message)]).await;
        self.print(info).await
    }

    /// A process for this call, waited for as long as the call may take.
    async fn server(
        &self,
        servers: &WarmServers,
        key: &ServerKey,
        line: &CommandLine,
        form: WarmForm,
    ) -> Result<Arc<AcpServer>, NoPlace> {
        let CliCall { engine, cancel, .. } = *self.call;
        let limit = self.limits(EngineUsed::Warm).timeout;
        let late = async {
            match limit {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(NoPlace::Cancelled),
            server = engine.warm_server(servers, key, line, form) => server,
            () = late => {
                let limit = limit.unwrap_or_default().as_millis();
                let reason = format!("no answer within {limit} ms: the CLI did not become ready");
                Err(NoPlace::Failed(engine.refuse(Code::Timeout, reason)))
            }
        }
    }
}

impl Engine {
    /// The warm processes, where `engine: "auto"` comes to them because the installed CLI serves no sessions.
    ///
    /// # Errors
    /// As a call: the file can't be found, or can't be executed.
    pub(super) fn warm_in_place_of_live(&self, env: &Arc<Vars>) -> Result<Option<&WarmServers>, Box<ProviderError>> {
        let binary = Binary::new(self.resolved(env)?, self.login());
        let is_unserved = matches!(self.support(&binary, env), LiveSupport::Unserved(_));
        let auto = self.options.engine == EngineKind::Auto;
        Ok(self.warm.as_ref().filter(|_| auto && is_unserved))
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
        if (auto || form.measured_only)
            && let LiveSupport::Unserved(reason) | LiveSupport::Unknown(reason) = self.warm_support(&binary, env)
        {
            return match auto {
                true => Ok(()),
                false => Err(self.no_warm_calls(&reason, None)),
            };
        }
        let key = ServerKey {
            env: Arc::clone(env),
            binary: binary.clone(),
            choices: self.options.choices.clone(),
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
        if let Some(found) = all.find(key) {
            let is_worn = found.is_worn(form.max_sessions);
            let server = Arc::clone(&found.server);
            if is_worn && !std::mem::replace(&mut found.is_being_replaced, true) {
                self.replace(servers, key.clone(), line.clone());
            }
            return Ok(server);
        }
        let server = self
            .start_warm(line, key)
            .await
            .map_err(|error| self.no_warm_place(error))?;
        let is_first = all.is_empty();
        let server = all.add(key.clone(), server, self.options.max_concurrency);
        if is_first {
            let unused = end_unused(Arc::clone(&servers.all), self.options.keep_alive);
            let closing = self.lifecycle.closing.clone();
            self.lifecycle.runs.spawn(async move {
                closing.run_until_cancelled(unused).await;
            });
        }
        Ok(server)
    }

    /// Starts another process in place of the one of `key`, which serves calls until it is there.
    fn replace(self: &Arc<Self>, servers: &WarmServers, key: ServerKey, line: CommandLine) {
        let (engine, all) = (Arc::clone(self), Arc::clone(&servers.all));
        self.lifecycle.runs.spawn(async move {
            let started = engine.start_warm(&line, &key).await;
            let mut all = all.lock().await;
            match started {
                Ok(server) => drop(all.add(key, server, engine.options.max_concurrency)),
                // The next call that finds the old one worn tries again.
                Err(_) => {
                    if let Some(found) = all.find(&key) {
                        found.is_being_replaced = false;
                    }
                }
            }
        });
    }

    async fn start_warm(&self, line: &CommandLine, key: &ServerKey) -> Result<AcpServer, NoServer> {
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

    fn no_warm_place(&self, error: NoServer) -> NoPlace {
        match error {
            NoServer::NotStarted(NotStarted::Process(StartError::Cancelled)) => NoPlace::Cancelled,
            NoServer::NotStarted(error) => NoPlace::Failed(not_started(self, &error)),
            NoServer::Unsupported(reason) => NoPlace::Unsupported(reason, None),
            NoServer::Ended(Some(exit)) if matches!(exit.end, End::Cancelled | End::Closed) => NoPlace::Cancelled,
            NoServer::Ended(exit) => {
                NoPlace::Unsupported("it ended instead of answering the handshake".to_owned(), exit)
            }
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
