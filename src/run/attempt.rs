//! An attempt, whatever engine makes it: it reports its beginning, keeps its limits, hands on its events, and has its result
//! judged.
//!
//! In: an [`Exchange`] that was started. Out: events on the way, and the attempt's outcome. No code here knows which kind of
//! exchange it is.

use std::collections::HashSet;
use std::future::pending;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::choices::ShownChoices;
use super::record::{Level, Sink};
use super::reply_check::{Checks, RejectedReply};
use super::retry_loop::{local_offset_min, millis as ms};
use dfp_exchange::{Ended, Evidence, Exchange, OnVerdict, StopReason, Unusable};
use dfp_model::budget::PlanWindow;
use dfp_model::budget::Used;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{EngineUsed, Event, Reply, RunInfo};
use dfp_model::message::Usage;
use dfp_process::activity::now_ms;
use dfp_process::activity::{self, RateLimitWindow};
use dfp_provider::judge::{CliRules, Context, HttpEnd, ProcessEnd, answer_in_plain_text, judge};
use dfp_provider::models::is_another;
use dfp_text::fold::Fold;

/// The parts of an attempt beside its exchange.
pub(super) struct Attempt<'a> {
    pub provider: &'a str,
    /// The rules by which a CLI's failure is classified; empty for an API.
    pub rules: CliRules<'a>,
    pub limits: CallLimits,
    /// The attempt's number, from 1.
    pub number: u32,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
    /// The whole text that was sent; called only if nobody reports usage.
    pub prompt: Box<dyn FnOnce() -> String + Send + 'a>,
    pub fold: Fold,
    /// The checks that the reply has to pass.
    pub checks: Checks,
    /// The model that is asked, if one is named.
    pub model: Option<&'a str>,
    /// The choices whose effect the reply shows.
    pub shown: ShownChoices,
    pub opening: Option<AttemptStart>,
}

/// The limits of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLimits {
    pub timeout: Option<Duration>,
    /// When the attempt's time began to run, if that was before the exchange: its process was started first.
    pub since: Option<Instant>,
    pub idle_timeout: Option<Duration>,
    /// The most output, bytes.
    pub max_output: usize,
}

/// The log record with which an exchange reports its beginning.
#[derive(Debug)]
pub(super) struct AttemptStart {
    pub message: &'static str,
    pub fields: Value,
    /// The events that go out behind the first event.
    pub notes: Vec<Event>,
}

/// The outcome of one attempt.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    Replied(Box<Reply>),
    Cancelled,
    /// The CLI refused a flag the run can do without.
    FlagRefused(String),
    /// The CLI refused the schema of the answer, for this reason: the schema is asked for in the prompt then.
    SchemaRefused(String),
    /// The reply does not fit the call.
    AskAgain(Box<RejectedReply>),
}

impl AttemptOutcome {
    /// The model's reply, whether or not it fits the call.
    fn reply(&self) -> Option<&Reply> {
        match self {
            AttemptOutcome::Replied(reply) => Some(reply),
            AttemptOutcome::AskAgain(rejected) => Some(&rejected.reply),
            _ => None,
        }
    }
}

/// The error of an exchange that no other can replace.
pub(super) fn failed(error: Unusable, provider: &str) -> Box<ProviderError> {
    let why = match error {
        Unusable::Failed(error) => return error,
        Unusable::Unsupported { reason, .. } => reason,
        Unusable::Left(reason) => reason.to_owned(),
        Unusable::FlagRefused(flag) => format!("it does not know {flag}"),
        Unusable::Cancelled | Unusable::Vanished | Unusable::NotLookedAt => {
            "the process was gone before it got the call".to_owned()
        }
    };
    Box::new(ProviderError::new(provider, Code::Internal, why))
}

/// Drives `exchange` to its end. `info` gets the facts of the run on the way, also if it fails.
pub(super) async fn run_attempt(
    attempt: Attempt<'_>,
    mut exchange: Box<dyn Exchange + '_>,
    info: &mut RunInfo,
) -> Result<AttemptOutcome, Unusable> {
    let sink = attempt.sink;
    let mut driven = OngoingAttempt {
        clocks: Clocks::start(attempt.limits, attempt.cancel),
        events: Vec::new(),
        info,
        attempt,
        turn: None,
    };
    sink.log.ends_at(driven.clocks.deadline);
    driven.exchange(&mut *exchange).await;
    let turn = exchange.elapsed();
    let ended = match exchange.finish().await {
        Ok(ended) => *ended,
        Err(why) => {
            if let Unusable::Unsupported { ended: Some(ended), .. } = &why {
                note_end(ended, driven.info, sink);
            }
            return Err(why);
        }
    };
    note_end(&ended, driven.info, sink);
    if ended.has_side_effects {
        sink.mark_side_effect();
    }
    if ended.evidence.stop_reason() == Some(StopReason::Cancelled) {
        let folded = driven.attempt.fold.finish(&mut Vec::new());
        sink.note_used(used(folded.usage.as_ref(), folded.reply.cost_usd, false));
        return Ok(AttemptOutcome::Cancelled);
    }
    if let Some(flag) = ended.refused_flag {
        return Ok(AttemptOutcome::FlagRefused(flag));
    }
    if let Some(reason) = ended.refused_schema {
        return Ok(AttemptOutcome::SchemaRefused(reason));
    }
    let is_turn = matches!(ended.evidence, Evidence::Turn(_));
    let (held, mut events) = driven.settle(ended.evidence, ended.on_verdict);
    if is_turn {
        let fields = json!({"turnMs": ms(turn), "failed": held.is_err()});
        sink.log.say(Level::Info, "turn over", fields);
    }
    sink.send(&mut events).await;
    held.map_err(Unusable::Failed)
}

/// An attempt while its exchange goes on.
struct OngoingAttempt<'a> {
    attempt: Attempt<'a>,
    clocks: Clocks<'a>,
    /// The events that are ready to go out.
    events: Vec<Event>,
    info: &'a mut RunInfo,
    /// The turn as `status` shows it, from its beginning.
    turn: Option<activity::Turn>,
}

impl OngoingAttempt<'_> {
    /// Hands on the events until the exchange is over.
    async fn exchange(&mut self, exchange: &mut dyn Exchange) {
        let sink = self.attempt.sink;
        let keeps_limits = exchange.keeps_limits();
        self.announce(exchange);
        // The beginning is reported at once, since an exchange may be silent for long.
        sink.send(&mut self.events).await;
        let mut decoded = Vec::new();
        // A slow consumer does not count as silence of the provider.
        let mut last_output = Instant::now();
        loop {
            let next = exchange.next(&mut decoded);
            let mut progress = match keeps_limits {
                true => Ok(next.await),
                false => self.clocks.limit(last_output, next).await,
            };
            self.announce(exchange);
            self.note_first_byte(exchange);
            let max_output = self.attempt.limits.max_output;
            if !keeps_limits
                && progress == Ok(ControlFlow::Continue(()))
                && exchange.received_bytes() > max_output as u64
            {
                progress = Err(StopReason::OutputLimit(max_output));
            }
            let progress = match progress {
                Ok(progress) => progress,
                Err(reason) => return exchange.stop(reason),
            };
            if !decoded.is_empty() {
                let elapsed = || ms(exchange.elapsed());
                self.info.first_event_ms.get_or_insert_with(elapsed);
            }
            for event in decoded.drain(..) {
                self.note(&event);
                self.attempt.fold.push(event, &mut self.events);
            }
            sink.send(&mut self.events).await;
            last_output = Instant::now();
            if progress == ControlFlow::Break(()) {
                return;
            }
        }
    }

    /// Notes the facts of `event` that `status` shows.
    fn note(&mut self, event: &Event) {
        self.attempt.shown.note(event);
        match event {
            Event::Session {
                session_id: Some(id), ..
            } => {
                if let Some(turn) = &self.turn {
                    turn.note_conversation(id);
                }
            }
            Event::RateLimit {
                status,
                resets_at,
                limit_type,
                utilization,
            } => {
                activity::note_window(RateLimitWindow {
                    provider: self.attempt.provider.to_owned(),
                    login: self.info.login.clone(),
                    limit_type: limit_type.clone(),
                    status: status.clone(),
                    resets_at: *resets_at,
                    utilization: *utilization,
                    at: 0,
                });
                if let (Some(ledger), Some(used), Some(resets_at)) =
                    (&self.attempt.sink.ledger, *utilization, *resets_at)
                {
                    let name = limit_type.clone();
                    ledger.note_plan(PlanWindow { name, used, resets_at });
                }
            }
            _ => {}
        }
    }

    /// Reports the beginning once, when it is certain that the exchange has begun.
    fn announce(&mut self, exchange: &dyn Exchange) {
        let Some(opening) = self.attempt.opening.take_if(|_| exchange.has_begun()) else {
            return;
        };
        let log = &self.attempt.sink.log;
        let queued_ms = self.info.queued_ms.unwrap_or_default();
        self.info.pid = exchange.pid();
        self.turn = Some(activity::turn(self.info.pid));
        log.about(self.info.pid);
        let mut fields = opening.fields;
        if queued_ms > 0
            && let Value::Object(fields) = &mut fields
        {
            fields.insert("queuedMs".to_owned(), queued_ms.into());
        }
        log.say(Level::Info, opening.message, fields);
        self.events.push(Event::Start {
            run_id: self.info.id.clone(),
            provider: self.attempt.provider.to_owned(),
            pid: self.info.pid,
            attempt: self.attempt.number,
            queued_ms,
            engine: self.info.engine,
            continued: self.info.continued,
            session: self.info.session,
        });
        for note in &opening.notes {
            self.attempt.shown.note(note);
        }
        self.events.extend(opening.notes);
    }

    fn note_first_byte(&mut self, exchange: &dyn Exchange) {
        // Only an exchange that was reported to have begun has a first byte.
        if self.attempt.opening.is_none() && self.info.first_byte_ms.is_none() && exchange.received_bytes() > 0 {
            let first = ms(exchange.elapsed());
            self.info.first_byte_ms = Some(first);
            let log = &self.attempt.sink.log;
            log.say(Level::Debug, "first byte", json!({"firstByteMs": first}));
        }
    }

    /// Judges the exchange, and returns the last events; the reply is among them only if somebody listens.
    fn settle(
        self,
        evidence: Evidence,
        on_verdict: Option<OnVerdict>,
    ) -> (Result<AttemptOutcome, Box<ProviderError>>, Vec<Event>) {
        let OngoingAttempt {
            attempt,
            mut events,
            info,
            turn,
            ..
        } = self;
        let mut fold = attempt.fold;
        if let Some(text) = answer_in_plain_text(&attempt.rules, &evidence) {
            let content = text.to_owned();
            fold.push(Event::Message { id: None, content }, &mut events);
        }
        let mut folded = fold.finish(&mut events);
        let is_usage_out = folded.usage_reported && !attempt.checks.asked_before();
        let measured = folded.usage.clone();
        folded.reply.usage = measured
            .clone()
            .unwrap_or_else(|| Usage::estimate(&(attempt.prompt)(), &folded.text()));
        let mut call_ids = std::mem::take(&mut folded.call_ids);
        let events_before = folded.events;
        let (estimated, cost) = (folded.reply.usage.clone(), folded.reply.cost_usd);
        let context = Context {
            provider: attempt.provider,
            rules: attempt.rules,
            now_ms: now_ms(),
            local_offset_min: local_offset_min(),
        };
        let judged = judge(&context, evidence, folded);
        // The estimate counts what was sent, and a failure does not show that any of it was read.
        let answered = judged.is_ok();
        let usage = measured.as_ref().or(answered.then_some(&estimated));
        events.extend(attempt.sink.note_used(used(usage, cost, answered)));
        let mut held = attempt.checks.hold(judged, events_before);
        if let Some(on_verdict) = on_verdict {
            // The calls of a reply that does not fit stay open as well: the next turn answers them.
            let reply = held.as_ref().ok().and_then(AttemptOutcome::reply);
            on_verdict(reply.map(|reply| {
                // Calls that the CLI has answered itself are not for the caller to answer.
                let known: HashSet<&str> = reply.tool_calls.iter().map(|call| call.id.as_str()).collect();
                call_ids.retain(|call| known.contains(call.id.as_str()));
                (reply, call_ids.as_slice())
            }));
        }
        if let (Some(turn), Some(usage), Some(reply)) =
            (&turn, &measured, held.as_ref().ok().and_then(AttemptOutcome::reply))
        {
            let of_session = turn.note_usage(reply.session_id.as_deref(), usage);
            info.session_usage = of_session.filter(|_| info.engine == Some(EngineUsed::Live));
        }
        if let Ok(AttemptOutcome::Replied(reply)) = &mut held {
            if reply.is_silent() {
                let message = "the model ended its turn behind a tool's result without a word: the answer is empty";
                reply.diagnostics.push(message.to_owned());
                events.push(Event::Warning {
                    code: Code::EmptyResponse.as_str().to_owned(),
                    message: message.to_owned(),
                });
            }
            reply.run = Some(info.clone());
            events.extend(of_another_model(attempt.model, reply.model.as_deref()));
            events.extend(attempt.shown.ignored(reply));
            if !is_usage_out {
                events.push(Event::Usage {
                    usage: reply.usage.clone(),
                    raw_stop_reason: reply.stop_reason.clone(),
                });
            }
            if attempt.sink.has_listener() {
                events.push(Event::Done { reply: reply.clone() });
            }
        }
        (held, events)
    }
}

/// The warning that another model has answered than was asked, if the reply names its model.
fn of_another_model(asked: Option<&str>, answered: Option<&str>) -> Option<Event> {
    let (asked, answered) = (asked?, answered?);
    is_another(asked, answered).then(|| Event::Warning {
        code: "OTHER_MODEL".to_owned(),
        message: format!("{answered} has answered, and {asked} was asked"),
    })
}

/// The usage that is counted for an attempt. A repeated attempt is counted with its own figures, without those of the one before.
fn used(usage: Option<&Usage>, cost_usd: Option<f64>, answered: bool) -> Used {
    Used {
        tokens: usage.map_or(0, |usage| usage.total_tokens),
        cost_usd,
        answered,
    }
}

/// Notes how the exchange ended, and logs it. The end of a turn whose process goes on is logged with its verdict.
fn note_end(ended: &Ended, info: &mut RunInfo, sink: &Sink) {
    info.spawn_ms = ended.spawn.map(ms).or(info.spawn_ms);
    info.first_byte_ms = ended.first_byte.map(ms).or(info.first_byte_ms);
    info.exit_ms = ended.exit.map(ms).or(info.exit_ms);
    let (level, why) = match (&ended.evidence, ended.evidence.stop_reason()) {
        (_, Some(StopReason::Cancelled)) => (Level::Info, "cancelled"),
        (_, Some(StopReason::Timeout(_))) => (Level::Warn, "timeout"),
        (_, Some(StopReason::IdleTimeout(_))) => (Level::Warn, "idleTimeout"),
        (_, Some(StopReason::OutputLimit(_))) => (Level::Warn, "maxBuffer"),
        (Evidence::Turn(_), None) => return,
        (Evidence::Process(process), None) => match process.end {
            ProcessEnd::Lingered => (Level::Info, "lingered"),
            ProcessEnd::Exited | ProcessEnd::Stopped(_) | ProcessEnd::Interrupted(_) => (Level::Info, "exited"),
        },
        (Evidence::Http(request), None) => match request.end {
            HttpEnd::Answered(_) | HttpEnd::Stopped(_) => (Level::Info, "answered"),
            HttpEnd::Refused { .. } => (Level::Warn, "refused"),
            HttpEnd::Unreachable(_) => (Level::Warn, "unreachable"),
            HttpEnd::Lost(_) => (Level::Warn, "lost"),
        },
    };
    let mut fields = json!({
        "why": why, "queuedMs": info.queued_ms, "spawnMs": info.spawn_ms, "firstByteMs": info.first_byte_ms,
        "firstEventMs": info.first_event_ms, "exitMs": info.exit_ms,
    });
    if let (Value::Object(fields), Value::Object(figures)) = (&mut fields, &ended.figures) {
        fields.extend(figures.clone());
    }
    sink.log.say(level, "ended", fields);
}

/// The clocks of an exchange that keeps no limits itself.
struct Clocks<'a> {
    limits: CallLimits,
    deadline: Option<Instant>,
    cancel: &'a CancellationToken,
}

impl<'a> Clocks<'a> {
    fn start(limits: CallLimits, cancel: &'a CancellationToken) -> Self {
        Clocks {
            limits,
            deadline: limits
                .timeout
                .map(|limit| limits.since.unwrap_or_else(Instant::now) + limit),
            cancel,
        }
    }

    /// Waits for `next`, and returns its result unless one of the limits is reached first.
    async fn limit(
        &self,
        last_output: Instant,
        next: impl Future<Output = ControlFlow<()>>,
    ) -> Result<ControlFlow<()>, StopReason> {
        let CallLimits {
            timeout, idle_timeout, ..
        } = self.limits;
        let silent = idle_timeout.map(|limit| last_output + limit);
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(StopReason::Cancelled),
            () = at(self.deadline) => Err(StopReason::Timeout(timeout.unwrap_or_default())),
            () = at(silent) => Err(StopReason::IdleTimeout(idle_timeout.unwrap_or_default())),
            progress = next => Ok(progress),
        }
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
