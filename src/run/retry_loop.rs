//! The loop of a call, from its first attempt to its last, and once more for a reply that does not fit.
//!
//! In: a request that is ready ([`RetryableCall`]). Out: the call's end. Between two attempts the call holds neither a process nor a place in the
//! queue. `retry` decides which failures are tried again, and when.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::admission;
use super::admission::millis;
use super::admission::{Plan, Reset, sleep_until};
use super::attempt::AttemptOutcome;
use super::lifecycle::Ended;
use super::record::Level;
use super::reply_check::RejectedReply;
use super::sink::Sink;
use dfp_model::error::{AttemptFailure, ProviderError};
use dfp_model::event::{Event, RunInfo};
use dfp_model::message::Message;
use dfp_model::retry::{Policy, QuotaWait};
use dfp_process::activity::now_ms;

/// The number of times that a reply that does not fit is asked for again.
const FURTHER: u32 = 1;

/// A call that can be attempted any number of times.
pub(super) trait RetryableCall: Sync {
    /// The policy that says how often the call may be tried.
    fn retry(&self) -> &Policy;
    /// The wait for a used-up plan, if the call waits for one.
    fn quota(&self) -> Option<QuotaWait>;
    /// The time that an attempt may take. The loop waits no longer than this for the store of a budget.
    fn timeout(&self) -> Option<Duration>;
    /// The plan that the call uses up.
    fn plan(&self) -> Plan<'_>;
    /// The folder of its login, if that is not the default one.
    fn login(&self) -> Option<&str>;
    /// The current time, ms since the epoch.
    fn now_ms(&self) -> u64 {
        now_ms()
    }
    /// The error of a call whose provider was closed during it.
    fn closed(&self) -> Option<Box<ProviderError>>;
    /// Makes one attempt. `number` counts from 1; `began` is when the first attempt got its place. `info` gets the facts of the run
    /// on the way, also if it fails.
    fn attempt(
        &self,
        number: u32,
        began: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> impl Future<Output = Result<AttemptOutcome, Box<ProviderError>>> + Send;
    /// Puts `messages` behind the call's thread, because of `rejected`.
    ///
    /// # Errors
    /// The part of it that the provider can't take.
    fn extend(&mut self, messages: Vec<Message>, rejected: &RejectedReply) -> Result<(), Box<ProviderError>>;
}

/// The part of its limits that a call has used for earlier replies, which did not fit.
#[derive(Debug, Clone, Copy, Default)]
struct LimitsUsed {
    /// The number of attempts that were made.
    attempts: u32,
    /// The time spent waiting for plans, ms.
    waited_ms: u64,
}

/// Runs `call` to its end, with further attempts where those make sense, and asks once more if the reply does not fit: the call then
/// goes on with a longer thread and the rest of its limits.
pub(super) async fn answer(call: &mut (impl RetryableCall + Send), cancel: &CancellationToken, sink: &Sink) -> Ended {
    let (run_id, login) = (sink.log.run_id().to_owned(), call.login().map(str::to_owned));
    let mut before = LimitsUsed::default();
    let mut began = OnceLock::new();
    let mut reasons = Vec::new();
    let mut number = 1;
    let mut parked = Parked { ms: 0, times: 0 };
    let of_run = || RunInfo {
        id: run_id.clone(),
        login: login.clone(),
        ..RunInfo::default()
    };
    // The facts of the last attempt, if there was one.
    let mut info = of_run();
    loop {
        if cancel.is_cancelled() {
            return cancelled(call, number - 1, reasons, info);
        }
        // A used-up plan that another call has found out about needs no further attempt.
        if let Some(reset) = known_reset(call)
            && let Some(wait) = call.quota()
        {
            let Some(until) = wait.until_reset(reset.at, call.now_ms(), parked.ms, random()) else {
                return Ended::Failed(last(reset.error, number - 1, reasons, info));
            };
            if !parked.wait(call, cancel, sink, until, reset.error.message).await {
                return cancelled(call, number - 1, reasons, info);
            }
            continue;
        }
        // Another process may hold the store for seconds.
        let admission = admission::admit(sink, call.now_ms(), call.timeout());
        let Some(admission) = cancel.run_until_cancelled(admission).await else {
            return cancelled(call, number - 1, reasons, info);
        };
        let admission = match admission {
            Ok(admission) => Ok(admission),
            // A store that is busy is tried again, like a provider.
            Err(error) if error.should_retry => Err(error),
            Err(error) => {
                let waits = call.quota().filter(|_| !sink.is_committed());
                let Some(until) = waits.and_then(|wait| wait.until(&error, call.now_ms(), parked.ms, random())) else {
                    return Ended::Failed(last(error, number - 1, reasons, info));
                };
                if !parked.wait(call, cancel, sink, until, error.message).await {
                    return cancelled(call, number - 1, reasons, info);
                }
                continue;
            }
        };
        sink.log.ends_at(None);
        sink.log.about(None);
        info = of_run();
        let outcome = match admission {
            Ok(admission) => {
                let outcome = call.attempt(number, &began, &mut info).await;
                // An attempt that got no place in the queue has reached no provider, nor has one whose arguments were refused.
                let is_refused = matches!(
                    outcome,
                    Ok(AttemptOutcome::FlagRefused(_) | AttemptOutcome::SchemaRefused(_))
                );
                let has_asked = info.queued_ms.is_some() && !is_refused;
                admission.settle(sink, has_asked, call.now_ms()).await;
                outcome
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(AttemptOutcome::Replied(mut reply)) => {
                call.plan().clear();
                if !reply.diagnostics.is_empty() || reply.cache_miss.is_some() {
                    sink.redactor().clean_reply(&mut reply);
                }
                return Ended::Replied(reply);
            }
            Ok(AttemptOutcome::AskAgain(rejected)) => {
                call.plan().clear();
                // The checks know that the second time is the last.
                if before.attempts > 0 {
                    return Ended::Failed(rejected.error);
                }
                if let Err(error) = ask_again(call, *rejected, number, sink).await {
                    return Ended::Failed(error);
                }
                before = LimitsUsed {
                    attempts: number,
                    waited_ms: parked.ms,
                };
                parked.times = 0;
                (began, reasons, info) = (OnceLock::new(), Vec::new(), of_run());
                number += 1;
            }
            Ok(AttemptOutcome::Cancelled) => {
                // An attempt that still waits in the queue was not made.
                let made = number - u32::from(info.queued_ms.is_none());
                return cancelled(call, made, reasons, info);
            }
            Err(mut error) => {
                complete(&mut error, number, info.clone(), sink);
                reasons.push(AttemptFailure {
                    attempt: number,
                    code: error.code,
                    message: error.message.clone(),
                });
                call.plan().note(&error, call.now_ms());
                let waits = call.quota().filter(|_| !sink.is_committed());
                let until = waits.and_then(|wait| wait.until(&error, call.now_ms(), parked.ms, random()));
                if let Some(until) = until {
                    if !parked.wait(call, cancel, sink, until, error.message).await {
                        return cancelled(call, number, reasons, info);
                    }
                    parked.times += 1;
                    number += 1;
                    continue;
                }
                let elapsed = began.get().map_or(Duration::ZERO, |began| began.elapsed());
                let elapsed_ms = millis(elapsed).saturating_sub(parked.ms - before.waited_ms);
                let policy = call.retry();
                // The attempts before a wait for a plan do not count as failed ones.
                let delay = policy
                    .delay_after(number - before.attempts - parked.times, &error, elapsed_ms, random())
                    .filter(|_| !sink.is_committed());
                let Some(delay_ms) = delay else {
                    return Ended::Failed(last(error, number, reasons, info));
                };
                let retry = Event::Retry {
                    by: "provider",
                    attempt: number - before.attempts,
                    max_attempts: Some(policy.max_attempts.saturating_sub(1)),
                    delay_ms,
                    reason: error.message,
                    http_status: error.http_status,
                };
                sink.send(&mut vec![retry]).await;
                tokio::select! {
                    () = cancel.cancelled() => return cancelled(call, number, reasons, info),
                    () = tokio::time::sleep(Duration::from_millis(delay_ms)) => number += 1,
                }
            }
            // The next attempt says that the prompt asks for it, and why.
            Ok(AttemptOutcome::SchemaRefused(_)) => {}
            Ok(AttemptOutcome::FlagRefused(flag)) => {
                let message = format!("the installed CLI does not know {flag}: asked again without it");
                sink.send(&mut vec![Event::Warning {
                    code: "FLAG_DROPPED".to_owned(),
                    message,
                }])
                .await;
            }
        }
    }
}

/// Has the model asked once more: `rejected`, the reply of attempt number `attempt`, is sent back to it with the reasons. The events of
/// that reply are out already; an [`Event::Retry`] behind them says that they no longer count, as it does for any other attempt.
///
/// # Errors
/// The part of the longer thread that the provider can't take.
async fn ask_again(
    call: &mut impl RetryableCall,
    mut rejected: RejectedReply,
    attempt: u32,
    sink: &Sink,
) -> Result<(), Box<ProviderError>> {
    sink.redactor().clean_error(&mut rejected.error);
    sink.log.say(
        Level::Warn,
        "asked again",
        json!({"attempt": attempt, "code": rejected.error.code}),
    );
    let retry = Event::Retry {
        by: "provider",
        attempt: FURTHER,
        max_attempts: Some(FURTHER),
        delay_ms: 0,
        reason: rejected.error.message.clone(),
        http_status: None,
    };
    sink.send(&mut vec![retry]).await;
    let messages = std::mem::take(&mut rejected.messages);
    call.extend(messages, &rejected)
}

/// The time for which a call has waited for plans.
#[derive(Debug)]
struct Parked {
    ms: u64,
    /// The number of waits that came after an attempt of the call's own.
    times: u32,
}

impl Parked {
    /// Waits until this moment, for this reason; returns false if the call was cancelled first. No place is held meanwhile, and only
    /// `maxWaitMs` limits the wait.
    async fn wait(
        &mut self,
        call: &impl RetryableCall,
        cancel: &CancellationToken,
        sink: &Sink,
        until: u64,
        reason: String,
    ) -> bool {
        let began = call.now_ms();
        sink.send(&mut vec![Event::Waiting { until, reason }]).await;
        tokio::select! {
            biased;
            () = cancel.cancelled() => return false,
            () = sleep_until(until, || call.now_ms()) => {}
        }
        self.ms = self.ms.saturating_add(call.now_ms().saturating_sub(began));
        true
    }
}

/// The known reset of the plan, for a call that would wait for it.
fn known_reset(call: &impl RetryableCall) -> Option<Reset> {
    call.quota().and_then(|_| call.plan().known(call.now_ms()))
}

/// Completes `error` of attempt `number`: logs it, adds the run that it ended, and takes its secrets out.
fn complete(error: &mut ProviderError, number: u32, info: RunInfo, sink: &Sink) {
    let fields = json!({"attempt": number, "code": error.code, "category": error.category,
                        "exitCode": error.exit_code, "httpStatus": error.http_status});
    sink.log.say(Level::Error, "failed", fields);
    error.run = Some(Box::new(info));
    sink.redactor().clean_error(error);
}

/// The end of a call that was cancelled after so many attempts: `info` is of the last one.
fn cancelled(call: &impl RetryableCall, attempts: u32, reasons: Vec<AttemptFailure>, info: RunInfo) -> Ended {
    match call.closed() {
        Some(closed) => Ended::Failed(last(closed, attempts, reasons, info)),
        None => Ended::Cancelled,
    }
}

/// The error that the caller gets: the last attempt's, with those of the others.
fn last(
    mut error: Box<ProviderError>,
    attempts: u32,
    reasons: Vec<AttemptFailure>,
    info: RunInfo,
) -> Box<ProviderError> {
    error.attempts = attempts;
    error.reasons = reasons;
    error.run_id = Some(info.id.clone());
    error.run = Some(Box::new(info));
    error
}

/// A random number from 0 (included) to 1 (excluded). It only spreads callers over time, so a hasher's random keys are good enough.
fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    // 53 bits, as many as an f64 holds.
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
