//! One process for one call: build, queue, spawn, decode, fold, judge.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::again::{Call, Tried};
use super::learnt::{self, Binary};
use super::log::Level;
use super::request::Request;
use super::sink::Sink;
use super::{Engine, local_offset_min, millis as ms, now_ms};
use crate::classify;
use crate::command::{self, CommandLine, Mode};
use crate::conversation::print::{self, Finished, NotStarted, Print, Surroundings};
use crate::decode::Wire;
use crate::error::{Code, ProviderError};
use crate::event::{Event, Reply, RunInfo};
use crate::fold::Fold;
use crate::judge::{Ending, Facts, judge, text_answer};
use crate::message::Usage;
use crate::process::limit::{self, Permit, Rules};
use crate::process::{End, Exit, Limits, StartError, Vars};
use crate::provider::options::Options;
use crate::provider::same_flag;
use crate::retry::Policy;

/// One call of a CLI.
pub(super) struct CliCall<'a> {
    pub engine: &'a Arc<Engine>,
    pub request: &'a Request,
    pub base_env: &'a Arc<Vars>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

impl Call for CliCall<'_> {
    fn retry(&self) -> &Policy {
        &self.engine.options.retry
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.engine.closed()
    }

    async fn attempt(&self, number: u32, began: &OnceLock<Instant>) -> Tried {
        let attempt = Attempt {
            engine: self.engine,
            request: self.request,
            base_env: self.base_env,
            cancel: self.cancel,
            sink: self.sink,
            run_id: self.sink.log.run_id(),
            number,
            began,
        };
        attempt.run().await
    }
}

/// One process for one call.
pub(super) struct Attempt<'a> {
    pub engine: &'a Arc<Engine>,
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
        self.sink.log.about(None);
        let mut info = RunInfo {
            id: self.run_id.to_owned(),
            ..RunInfo::default()
        };
        let tried = match (&self.engine.live, &self.request.live) {
            (Some(live), Some(asked)) => self.live(live, asked, &mut info).await,
            _ => self.print(&mut info).await,
        };
        match tried {
            Ok(tried) => tried,
            Err(mut error) => {
                let fields = json!({"attempt": self.number, "code": error.code, "category": error.category,
                                    "exitCode": error.exit_code, "httpStatus": error.http_status});
                self.log(Level::Error, "failed", fields);
                error.run = Some(Box::new(info));
                Tried::Failed(error)
            }
        }
    }

    /// What becomes known of the run on the way is in `info`, also if it fails.
    pub(super) async fn print(&self, info: &mut RunInfo) -> Result<Tried, Box<ProviderError>> {
        if let Some(refused) = &self.request.unprintable {
            return Err(refused.clone());
        }
        let mut open = match &self.request.served {
            None => None,
            Some(served) => Some(served.open().await.map_err(|error| no_bridge(self.engine, &error))?),
        };
        let told = open.as_ref().map(|open| open.told(&self.engine.options));
        let (line, binary) = self.engine.line(
            Mode::Print(&self.request.prompt),
            told.as_ref().unwrap_or(&self.engine.options),
            self.request.wants_pieces(),
            self.base_env,
        )?;
        let (wire, given, optional_flags) = (line.wire, line.all_flags(), line.optional_flags.clone());
        let started = json!({"attempt": self.number, "file": binary.file().to_string_lossy(), "flags": line.flags});
        let Some(permit) = self.permit(binary.file()).await else {
            self.log(Level::Info, "cancelled in the queue", json!({"attempt": self.number}));
            return Ok(Tried::Cancelled);
        };
        self.began.get_or_init(Instant::now);
        let queued = permit.queued();
        info.queued_ms = Some(ms(queued));
        let limits = self.limits();
        let owner = self.engine.owner;
        let surroundings = Surroundings {
            base_env: Arc::clone(self.base_env),
            limits,
            owner,
            permit: Some(permit),
            tracker: self.engine.runs.clone(),
            tees: self.request.tees.clone(),
        };
        let stop = self.cancel.child_token();
        let deadline = limits.timeout.map(|limit| tokio::time::Instant::now() + limit);
        self.sink.log.ends_at(deadline);
        let mut print = match Print::start(line, surroundings, &stop) {
            Ok(print) => print,
            Err(NotStarted::Process(StartError::Cancelled)) => return Ok(Tried::Cancelled),
            Err(error) => return Err(not_started(self.engine, &error)),
        };

        let pid = print.process().pid();
        info.pid = Some(pid);
        self.sink.log.about(Some(pid));
        self.log(Level::Info, "started", started);
        let mut events = vec![Event::Start {
            run_id: self.run_id.to_owned(),
            provider: self.engine.id().to_owned(),
            pid: Some(pid),
            attempt: self.number,
            queued_ms: ms(queued),
        }];
        if self.request.uncallable {
            let message =
                "tools are bound, but with `textToolCalls: \"off\"` the model is not told of them in print form"
                    .to_owned();
            let code = "TOOLS_NOT_CALLABLE".to_owned();
            events.push(Event::Warning { code, message });
        }
        // At once: a CLI may be silent for long.
        self.sink.send(&mut events).await;
        let mut fold = match self.request.watching {
            true => Fold::watching(),
            false => Fold::new(self.request.call_ids.clone(), self.request.text_calls.clone()).heard(self.sink.heard()),
        };
        let mut decoded = Vec::new();
        let mut more = true;
        while more {
            more = match &mut open {
                None => print.next(&mut decoded).await,
                Some(open) => open.next(&mut print, &mut decoded).await,
            };
            if more && info.first_byte_ms.is_none() {
                let first = ms(print.process().elapsed());
                info.first_byte_ms = Some(first);
                self.log(Level::Debug, "first byte", json!({"firstByteMs": first}));
            }
            if info.first_event_ms.is_none() && !decoded.is_empty() {
                info.first_event_ms = Some(ms(print.process().elapsed()));
            }
            for event in decoded.drain(..) {
                if self.goes_on_for_ever(&event) {
                    stop.cancel();
                }
                let told = match &mut open {
                    None => Some(event),
                    Some(open) => open.pass(event),
                };
                if let Some(event) = told {
                    fold.push(event, &mut events);
                }
            }
            self.sink.send(&mut events).await;
            if let Some(open) = &mut open {
                open.let_go_on().await;
            }
        }
        let mut finished = print.finish().await;
        let unreached = open.as_ref().is_some_and(|open| !open.reached());
        if let Some(open) = open {
            if open.used() {
                self.sink.acted();
            }
            open.close().await;
        }
        self.ended(&finished.exit, info);
        if self.cancel.is_cancelled() && finished.exit.end == End::Cancelled || finished.exit.end == End::Closed {
            return Ok(Tried::Cancelled);
        }
        if finished.exit.end == End::Cancelled {
            // Ended from here, so the end says nothing about the run.
            (finished.exit.code, finished.exit.signal) = (None, None);
        }
        if let Some(flag) = refused_flag(self.engine.id(), &finished.exit, &optional_flags) {
            learnt::remember(&binary, &flag);
            return Ok(Tried::FlagRefused(flag));
        }
        let wire = (wire, given.as_slice(), unreached);
        let reply = self.settle(wire, limits, fold, finished, info, &mut events);
        self.sink.send(&mut events).await;
        Ok(Tried::Replied(reply?))
    }

    /// Whether the CLI will never end by itself after `event`.
    fn goes_on_for_ever(&self, event: &Event) -> bool {
        match event {
            Event::Failure(failure) => {
                let kind = failure.kind.as_deref().unwrap_or_default();
                self.engine.provider.stop_on.contains(&kind)
            }
            _ => false,
        }
    }

    pub(super) async fn permit(&self, binary: &Path) -> Option<Permit> {
        let rules = Rules {
            concurrency: self.engine.options.max_concurrency,
            ..Rules::default()
        };
        limit::global()
            .acquire_or(
                self.request.lent.as_ref(),
                &binary.to_string_lossy(),
                rules,
                self.cancel,
            )
            .await
            .ok()
    }

    /// The reply, or why there is none. What the end adds to the events is in `events`.
    fn settle(
        &self,
        (wire, flags, unreached): (Wire, &[String], bool),
        limits: Limits,
        mut fold: Fold,
        finished: Finished,
        info: &RunInfo,
        events: &mut Vec<Event>,
    ) -> Result<Box<Reply>, Box<ProviderError>> {
        let Finished {
            exit,
            plain,
            cut_short,
            diagnostics,
            stdout_tail,
        } = finished;
        let provider = &self.engine.provider;
        if exit.success()
            && let Some(text) = plain
                .as_deref()
                .and_then(|text| text_answer(wire, provider.fatal_stdout, text))
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
        folded.reply.usage = measured.unwrap_or_else(|| Usage::estimate(&self.request.prompt, &folded.text()));
        let facts = Facts {
            provider: self.engine.id(),
            versions: provider.about.versions,
            flags,
            fatal_stderr: provider.fatal_stderr,
            fatal_stdout: provider.fatal_stdout,
            error_message: provider.error_message,
            user_rules: provider.described.as_ref().map_or(&[], |own| &own.error_rules),
            unreached,
            wire,
            ending: ending(exit.end, limits),
            exit_code: exit.code,
            signal: exit.signal.as_deref(),
            stderr: &exit.stderr,
            plain: plain.as_deref(),
            cut_short,
            diagnostics: &diagnostics,
            stdout_tail: &stdout_tail,
            now_ms: now_ms(),
            local_offset_min: local_offset_min(),
        };
        let mut reply = judge(&facts, folded)?;
        reply.run = Some(info.clone());
        if !told {
            events.push(Event::Usage {
                usage: reply.usage.clone(),
                raw_stop_reason: reply.stop_reason.clone(),
            });
        }
        let reply = Box::new(reply);
        if self.sink.heard() {
            events.push(Event::Done { reply: reply.clone() });
        }
        Ok(reply)
    }

    /// Notes and tells how the process ended.
    pub(super) fn ended(&self, exit: &Exit, info: &mut RunInfo) {
        info.spawn_ms = Some(ms(exit.timings.spawn));
        info.first_byte_ms = exit.timings.first_byte.map(ms);
        info.exit_ms = Some(ms(exit.timings.exit));
        let (level, why) = match exit.end {
            End::Exited => (Level::Info, "exited"),
            End::Lingered => (Level::Info, "lingered"),
            End::Cancelled | End::Closed => (Level::Info, "cancelled"),
            End::Timeout => (Level::Warn, "timeout"),
            End::IdleTimeout => (Level::Warn, "idleTimeout"),
            End::OutputLimit => (Level::Warn, "maxBuffer"),
        };
        let fields = json!({
            "why": why, "exitCode": exit.code, "signal": exit.signal, "queuedMs": info.queued_ms, "spawnMs": info.spawn_ms,
            "firstByteMs": info.first_byte_ms, "firstEventMs": info.first_event_ms, "exitMs": info.exit_ms,
            "stdoutBytes": exit.stdout_bytes, "stderrBytes": exit.stderr_bytes,
        });
        self.log(level, "ended", fields);
    }

    pub(super) fn log(&self, level: Level, message: &'static str, fields: serde_json::Value) {
        self.sink.log.say(level, message, fields);
    }

    pub(super) fn limits(&self) -> Limits {
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
        let refused = learnt::refused_by(&binary);
        Ok((if refused.is_empty() { line } else { build(&refused)? }, binary))
    }
}

pub(super) fn ending(end: End, limits: Limits) -> Ending {
    match end {
        End::Timeout => Ending::TimedOut(limits.timeout.unwrap_or_default()),
        End::IdleTimeout => Ending::Idle(limits.idle_timeout.unwrap_or_default()),
        End::OutputLimit => Ending::TooMuch(limits.max_stdout),
        End::Exited | End::Cancelled | End::Closed => Ending::Exited,
        End::Lingered => Ending::TurnOver,
    }
}

/// The flag of ours that a CLI too old for it has refused before it did anything.
pub(super) fn refused_flag(provider: &str, exit: &Exit, optional: &[String]) -> Option<String> {
    if exit.code == Some(0) || exit.stdout_bytes > 0 {
        return None;
    }
    let refused = classify::unsupported_flag(provider, &exit.stderr)?;
    let ours = optional.iter().find(|name| same_flag(name, &refused))?;
    // A word that begins several flags is refused for all of them.
    Some(if ours.starts_with(&refused) {
        refused
    } else {
        ours.clone()
    })
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
