//! One process for one call: build, queue, spawn, decode, fold, judge.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;

use super::Engine;
use super::learnt::{self, Binary};
use super::request::Request;
use super::sink::Sink;
use crate::classify;
use crate::command::{self, CommandLine};
use crate::conversation::print::{self, Finished, NotStarted, Print, Surroundings};
use crate::decode::Wire;
use crate::error::{Code, ProviderError};
use crate::event::{Event, Reply};
use crate::fold::Fold;
use crate::judge::{Ending, Facts, judge};
use crate::message::Usage;
use crate::process::limit::{self, Permit, Rules};
use crate::process::{End, Exit, Limits, StartError, Vars};

/// What one attempt came to.
pub(super) enum Tried {
    Replied(Box<Reply>),
    Failed(Box<ProviderError>),
    Cancelled,
    /// The CLI refused a flag the run can do without.
    FlagRefused(String),
}

/// One process for one call.
pub(super) struct Attempt<'a> {
    pub engine: &'a Engine,
    pub request: &'a Request,
    pub base_env: &'a Arc<Vars>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
    pub run_id: &'a str,
    /// From 1.
    pub number: u32,
    /// When the call's first attempt got its place.
    pub began: &'a OnceLock<Instant>,
}

impl Attempt<'_> {
    pub async fn run(&self) -> Tried {
        match self.attempt().await {
            Ok(tried) => tried,
            Err(error) => Tried::Failed(error),
        }
    }

    async fn attempt(&self) -> Result<Tried, Box<ProviderError>> {
        let (line, binary) = self.line()?;
        let (wire, optional_flags) = (line.wire, line.optional_flags.clone());
        let Some(permit) = self.permit(binary.file()).await else {
            return Ok(Tried::Cancelled);
        };
        self.began.get_or_init(Instant::now);
        let queued = permit.queued();
        let limits = self.limits();
        let owner = self.engine.owner;
        let surroundings = Surroundings {
            base_env: Arc::clone(self.base_env),
            limits,
            owner,
            permit,
        };
        let mut print = match Print::start(line, surroundings, self.cancel) {
            Ok(print) => print,
            Err(NotStarted::Process(StartError::Cancelled)) => return Ok(Tried::Cancelled),
            Err(error) => return Err(not_started(self.engine, &error)),
        };

        let mut events = vec![Event::Start {
            run_id: self.run_id.to_owned(),
            provider: self.engine.provider.id.to_owned(),
            pid: Some(print.process().pid()),
            attempt: self.number,
            queued_ms: ms(queued),
        }];
        // At once: a CLI may be silent for long.
        self.sink.send(&mut events).await;
        let mut fold = Fold::new(self.request.call_ids.clone());
        let mut decoded = Vec::new();
        let mut more = true;
        while more {
            more = print.next(&mut decoded).await;
            for event in decoded.drain(..) {
                fold.push(event, &mut events);
            }
            self.sink.send(&mut events).await;
        }
        let finished = print.finish().await;
        if matches!(finished.exit.end, End::Cancelled | End::Closed) {
            return Ok(Tried::Cancelled);
        }
        if let Some(flag) = refused_flag(self.engine.provider.id, &finished.exit, &optional_flags) {
            learnt::remember(&binary, &flag);
            return Ok(Tried::FlagRefused(flag));
        }
        let reply = self.settle(wire, limits, fold, finished, &mut events);
        self.sink.send(&mut events).await;
        Ok(Tried::Replied(reply?))
    }

    /// The command line, without what the binary is known to refuse.
    fn line(&self) -> Result<(CommandLine, Binary), Box<ProviderError>> {
        let Engine { provider, options, .. } = self.engine;
        let build = |without: &BTreeSet<String>| {
            command::build(
                provider,
                options,
                &self.request.prompt,
                self.request.call.partial,
                without,
            )
        };
        let line = build(&BTreeSet::new())?;
        let file = print::binary(&line, self.base_env)
            .map_err(|error| not_started(self.engine, &NotStarted::Process(error)))?;
        let binary = Binary::at(file);
        let refused = learnt::refused_by(&binary);
        Ok((if refused.is_empty() { line } else { build(&refused)? }, binary))
    }

    async fn permit(&self, binary: &Path) -> Option<Permit> {
        let rules = Rules {
            concurrency: self.engine.options.max_concurrency,
            ..Rules::default()
        };
        limit::global()
            .acquire(&binary.to_string_lossy(), rules, self.cancel)
            .await
            .ok()
    }

    /// The reply, or why there is none. What the end adds to the events is in `events`.
    fn settle(
        &self,
        wire: Wire,
        limits: Limits,
        mut fold: Fold,
        finished: Finished,
        events: &mut Vec<Event>,
    ) -> Result<Box<Reply>, Box<ProviderError>> {
        let Finished {
            exit,
            plain,
            diagnostics,
            stdout_tail,
        } = finished;
        if exit.success()
            && let Some(text) = plain.as_deref().map(str::trim_end).filter(|text| !text.is_empty())
        {
            fold.push(
                Event::Message {
                    id: None,
                    content: text.to_owned(),
                },
                events,
            );
        }
        let mut folded = fold.finish(events);
        let told = folded.usage_told;
        let measured = folded.usage.clone();
        folded.reply.usage = measured.unwrap_or_else(|| Usage::estimate(&self.request.prompt, &folded.text));
        let facts = Facts {
            provider: self.engine.provider.id,
            wire,
            ending: ending(exit.end, limits),
            exit_code: exit.code,
            signal: exit.signal.as_deref(),
            stderr: &exit.stderr,
            plain: plain.as_deref(),
            diagnostics: &diagnostics,
            stdout_tail: &stdout_tail,
            now_ms: now_ms(),
        };
        let reply = judge(&facts, folded)?;
        if !told {
            events.push(Event::Usage {
                usage: reply.usage.clone(),
                raw_stop_reason: reply.stop_reason.clone(),
            });
        }
        let reply = Box::new(reply);
        events.push(Event::Done { reply: reply.clone() });
        Ok(reply)
    }

    fn limits(&self) -> Limits {
        let options = &self.engine.options;
        let limit = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
        Limits {
            timeout: self.request.call.timeout.map_or(options.timeout, limit),
            idle_timeout: options.idle_timeout,
            kill_grace: options.kill_grace,
            max_stdout: options.max_buffer,
            ..Limits::default()
        }
    }
}

fn ending(end: End, limits: Limits) -> Ending {
    match end {
        End::Timeout => Ending::TimedOut(limits.timeout.unwrap_or_default()),
        End::IdleTimeout => Ending::Idle(limits.idle_timeout.unwrap_or_default()),
        End::OutputLimit => Ending::TooMuch(limits.max_stdout),
        End::Exited | End::Cancelled | End::Closed => Ending::Exited,
    }
}

/// The flag of ours that a CLI too old for it has refused before it did anything.
fn refused_flag(provider: &str, exit: &Exit, optional: &[&str]) -> Option<String> {
    if exit.code == Some(0) || exit.stdout_bytes > 0 {
        return None;
    }
    classify::unsupported_flag(provider, &exit.stderr).filter(|flag| optional.contains(&flag.as_str()))
}

fn not_started(engine: &Engine, error: &NotStarted) -> Box<ProviderError> {
    let id = engine.provider.id;
    let (code, reason) = match error {
        // A closed owner means that the environment ends, and this call with it.
        NotStarted::Process(error) => (error.code(), format!("the CLI can't be started: {error}")),
        NotStarted::Scratch(error) => (
            Code::SpawnFailed,
            format!("no private folder can be made for the CLI: {error}"),
        ),
    };
    Box::new(ProviderError::new(id, code, reason).with_hint(classify::hint(id, code)))
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, ms)
}
