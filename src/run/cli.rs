//! One attempt of a CLI: which kind of exchange it is, and what that needs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, CallLimits, Opening, run_attempt};
use super::capabilities::{self, Binary};
use super::log::Level;
use super::request::Request;
use super::retry_loop::{AttemptOutcome, RetryableCall};
use super::sink::Sink;
use super::{Engine, callbacks, millis as ms};
use crate::classify;
use crate::command::{self, CommandLine, Mode};
use crate::error::{Code, ProviderError};
use crate::event::{Event, RunInfo};
use crate::exchange::print::{self, NotStarted, Print, Surroundings};
use crate::fold::Fold;
use crate::judge::CliRules;
use crate::process::limit::{self, Permit};
use crate::process::{Limits, StartError, Vars};
use crate::provider::options::Options;
use crate::retry::Policy;

/// One call of a CLI.
pub(super) struct CliCall<'a> {
    pub engine: &'a Arc<Engine>,
    pub request: &'a Request,
    pub base_env: &'a Arc<Vars>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

impl RetryableCall for CliCall<'_> {
    fn retry(&self) -> &Policy {
        &self.engine.options.retry
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.engine.closed()
    }

    async fn attempt(
        &self,
        number: u32,
        began: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let attempt = CliAttempt {
            call: self,
            number,
            began,
        };
        match (&self.engine.live, &self.request.live) {
            (Some(live), Some(request)) => attempt.live(live, request, info).await,
            _ => attempt.print(info).await,
        }
    }
}

/// One attempt of a call.
pub(super) struct CliAttempt<'a> {
    pub call: &'a CliCall<'a>,
    /// From 1.
    pub number: u32,
    /// When the call's first attempt got its place.
    pub began: &'a OnceLock<Instant>,
}

impl CliAttempt<'_> {
    /// One process for this call alone.
    pub async fn print(&self, info: &mut RunInfo) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall {
            engine,
            request,
            base_env,
            cancel,
            sink,
        } = *self.call;
        if let Some(refused) = &request.unprintable {
            return Err(refused.clone());
        }
        let bridge = match &request.tool_server {
            None => None,
            Some(server) => Some(server.open().await.map_err(|error| no_bridge(engine, &error))?),
        };
        let bridged_options = bridge.as_ref().map(|bridge| bridge.with_bridge(&engine.options));
        let (line, binary) = engine.line(
            Mode::Print(&request.prompt),
            bridged_options.as_ref().unwrap_or(&engine.options),
            request.wants_pieces(),
            base_env,
        )?;
        let Some(permit) = self.permit(binary.file(), info).await else {
            return Ok(AttemptOutcome::Cancelled);
        };
        let opening = Opening {
            message: "started",
            fields: json!({"attempt": self.number, "file": binary.file().to_string_lossy(), "flags": line.flags}),
            notes: request.uncallable.then(not_callable).into_iter().collect(),
        };
        let surroundings = Surroundings {
            base_env: Arc::clone(base_env),
            limits: self.limits(),
            owner: engine.owner,
            permit: Some(permit),
            tracker: engine.runs.clone(),
            tees: request.tees.clone(),
        };
        let print = match Print::start(line, &engine.provider, surroundings, cancel) {
            Ok(print) => print,
            Err(NotStarted::Process(StartError::Cancelled)) => return Ok(AttemptOutcome::Cancelled),
            Err(error) => return Err(not_started(engine, &error)),
        };
        let fold = match request.watching {
            true => Fold::watching(),
            false => Fold::new(request.call_ids.clone(), request.text_calls.clone()).with_listener(sink.has_listener()),
        };
        let attempt = self.attempt(&request.prompt, fold, opening);
        let outcome = match bridge {
            None => run_attempt(attempt, print, info).await?,
            Some(bridge) => run_attempt(attempt, callbacks::BridgedPrint { print, bridge }, info).await?,
        };
        let outcome = outcome.outcome();
        if let AttemptOutcome::FlagRefused(flag) = &outcome {
            capabilities::remember_refused(&binary, flag);
        }
        Ok(outcome)
    }

    /// What an exchange is driven with.
    pub fn attempt<'a>(&'a self, prompt: &'a str, fold: Fold, opening: Opening) -> Attempt<'a> {
        let limits = self.limits();
        Attempt {
            provider: self.call.engine.id(),
            rules: CliRules::from(&*self.call.engine.provider),
            limits: CallLimits {
                timeout: limits.timeout,
                idle_timeout: limits.idle_timeout,
                max_output: limits.max_stdout,
            },
            number: self.number,
            cancel: self.call.cancel,
            sink: self.call.sink,
            prompt: Cow::Borrowed(prompt),
            fold,
            opening: Some(opening),
        }
    }

    /// A place among the processes of the program `binary`; `None` where the call was cancelled before there was one.
    pub async fn permit(&self, binary: &Path, info: &mut RunInfo) -> Option<Permit> {
        let CliCall {
            engine,
            request,
            cancel,
            sink,
            ..
        } = *self.call;
        let permit = limit::global()
            .acquire_or(
                request.lent.as_ref(),
                &binary.to_string_lossy(),
                engine.options.max_concurrency,
                cancel,
            )
            .await;
        let Ok(permit) = permit else {
            sink.log
                .say(Level::Info, "cancelled in the queue", json!({"attempt": self.number}));
            return None;
        };
        self.began.get_or_init(Instant::now);
        info.queued_ms = Some(ms(permit.queued()));
        Some(permit)
    }

    pub fn limits(&self) -> Limits {
        let options = &self.call.engine.options;
        let limit = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
        Limits {
            timeout: self.call.request.call.timeout.map_or(options.timeout, limit),
            idle_timeout: options.idle_timeout,
            kill_grace: options.kill_grace,
            max_stdout: options.max_buffer,
            ..Limits::default()
        }
    }
}

impl Engine {
    /// The command line, without what the binary is known to refuse.
    pub(super) fn line(
        &self,
        mode: Mode,
        options: &Options,
        partial: bool,
        base_env: &Arc<Vars>,
    ) -> Result<(CommandLine, Binary), Box<ProviderError>> {
        let build = |without: &BTreeSet<String>| command::build(&self.provider, options, mode, partial, without);
        let line = build(&BTreeSet::new())?;
        let file = print::binary(&line, base_env).map_err(|error| not_started(self, &NotStarted::Process(error)))?;
        let binary = Binary::at(file);
        let refused = capabilities::refused_by(&binary);
        Ok((if refused.is_empty() { line } else { build(&refused)? }, binary))
    }
}

fn not_callable() -> Event {
    Event::Warning {
        code: "TOOLS_NOT_CALLABLE".to_owned(),
        message: "tools are bound, but with `textToolCalls: \"off\"` the model is not told of them in print form"
            .to_owned(),
    }
}

fn no_bridge(engine: &Engine, error: &std::io::Error) -> Box<ProviderError> {
    let reason = format!("no port of 127.0.0.1 can be opened for the tools: {error}");
    engine.refuse(Code::SpawnFailed, reason)
}

pub(super) fn not_started(engine: &Engine, error: &NotStarted) -> Box<ProviderError> {
    let id = engine.id();
    let (code, reason, hint) = match error {
        // A closed owner means that the environment ends, and this call with it.
        NotStarted::Process(error) => {
            let reason = format!("the CLI can't be started: {error}");
            (error.code(), reason, classify::hint(id, error.code()))
        }
        NotStarted::Scratch { folder, source } => {
            // tempfile adds the name it has tried, which is made up.
            let why = source.to_string();
            let why = why.split(" at path ").next().unwrap_or_default();
            let reason = format!(
                "no private folder for the CLI can be made in {}, the folder for temporary files: {why}",
                folder.display()
            );
            (Code::SpawnFailed, reason, classify::NO_TEMPORARY_FOLDER)
        }
    };
    Box::new(ProviderError::new(id, code, reason).with_hint(hint))
}
