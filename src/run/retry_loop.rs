//! The loop of a call: what each attempt waits for, the attempt, and whether another one follows, also for a reply that does not fit.
//!
//! In: a request that is ready ([`RetryableCall`]). Out: the call's end. Between two attempts the call holds neither a process nor a place
//! in the queue. `retry` decides which failures are tried again, and when.
//!
//! An attempt is admitted first ([`admit`]), if its budget is not used up. Then it waits for a place in the queue ([`Waiting`]). A
//! used-up plan is waited for until it can be used again ([`Plan`]).

#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::attempt::AttemptOutcome;
use super::lifecycle::Ended;
use super::record::{Level, Sink};
use super::reply_check::RejectedReply;
use dfp_model::budget::Admitted;
use dfp_model::error::{AttemptFailure, Code, ProviderError};
use dfp_model::event::{Event, RunInfo};
use dfp_model::message::Message;
use dfp_model::retry::{Policy, QuotaWait, reset_of};
use dfp_process::Vars;
use dfp_process::activity::now_ms;
use dfp_process::limit::{self, NestedPermit, Permit};
use dfp_provider::classify;

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
        let admission = admit(sink, call.now_ms(), call.timeout());
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

/// An attempt that may be made.
struct Admission(Option<Admitted>);

/// Waits until the budget admits an attempt.
///
/// # Errors
/// `BUDGET_EXCEEDED`; `INVALID_OPTION` where the store of the budget can't be used; `OVERLOADED` where it can't be just now, and `TIMEOUT`
/// where that takes longer than `limit`.
async fn admit(sink: &Sink, now_ms: u64, limit: Option<Duration>) -> Result<Admission, Box<ProviderError>> {
    let Some(ledger) = &sink.ledger else {
        return Ok(Admission(None));
    };
    let admitted = match limit {
        Some(limit) => timeout(limit, ledger.admit(now_ms))
            .await
            .map_err(|_| late(ledger.provider(), limit)),
        None => Ok(ledger.admit(now_ms).await),
    };
    let mut error = match admitted {
        Ok(Ok(admitted)) => return Ok(Admission(Some(admitted))),
        Ok(Err(refused)) => refused.into_error(ledger.provider()),
        Err(error) => error,
    };
    sink.log.say(
        Level::Warn,
        "refused",
        json!({"code": error.code, "resetsAt": error.resets_at}),
    );
    sink.redactor().clean_error(&mut error);
    Err(error)
}

fn late(provider: &str, limit: Duration) -> Box<ProviderError> {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let reason =
        format!("no answer within {limit_ms} ms: another process kept the store of the budget, so nothing was asked");
    let error = ProviderError::new(provider, Code::Timeout, reason);
    Box::new(error.with_hint(classify::time_limit_hint(Code::Timeout, limit_ms)))
}

impl Admission {
    /// Ends the attempt; `has_asked` says whether a request reached the provider. The sink knows the attempt's usage.
    pub async fn settle(self, sink: &Sink, has_asked: bool, now_ms: u64) {
        let used = sink.take_used();
        let (Admission(Some(admitted)), Some(ledger)) = (self, &sink.ledger) else {
            return;
        };
        let kept = match (has_asked, used) {
            (false, _) => ledger.give_back(admitted, now_ms).await,
            (true, Some(used)) => ledger.settle(used, now_ms).await,
            (true, None) => Ok(()),
        };
        // The answer is there, so the next attempt is refused instead.
        if let Err(why) = kept {
            sink.log.say(Level::Error, "not counted", json!({"why": why}));
        }
    }
}

/// An attempt that needs a place.
pub(super) struct Waiting<'a> {
    /// The key by which places are counted: the program, or the API's address.
    pub at: &'a str,
    /// The number of places.
    pub places: usize,
    /// A place beside the queue, for a call within another call.
    pub nested: Option<&'a NestedPermit>,
    /// The attempt's number, from 1.
    pub number: u32,
    /// When the call's first attempt got its place.
    pub began: &'a OnceLock<Instant>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

impl Waiting<'_> {
    /// Waits for a place; `None` if the call was cancelled before there was one.
    pub async fn permit(&self, info: &mut RunInfo) -> Option<Permit> {
        let permit = limit::global().acquire_or(self.nested, self.at, self.places, self.cancel);
        let Ok(permit) = permit.await else {
            let fields = json!({"attempt": self.number});
            self.sink.log.say(Level::Info, "cancelled in the queue", fields);
            return None;
        };
        self.began.get_or_init(Instant::now);
        info.queued_ms = Some(millis(permit.queued()));
        Some(permit)
    }
}

/// The longest time that is slept in one go. The monotonic clock stands still while a machine is suspended, and the wall clock does
/// not, so the latter is read again.
const STRETCH: Duration = Duration::from_secs(30);

/// The number of used-up plans that one provider object remembers: a host may change its environment for each call.
const MOST_PLANS: usize = 64;

/// The plans of one provider object that are known to be used up, the longest known first.
#[derive(Debug, Default)]
pub(super) struct UsedUp(Mutex<Vec<Known>>);

#[derive(Debug)]
struct Known {
    env: Option<Arc<Vars>>,
    model: String,
    reset: Reset,
}

/// The moment at which a used-up plan is available again, ms since the epoch, and the error with which it refused.
#[derive(Debug, Clone)]
struct Reset {
    pub at: u64,
    pub error: Box<ProviderError>,
}

/// The plan that a call's attempts use up: that of a login, for a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'a> {
    /// The known used-up plans.
    pub used_up: &'a UsedUp,
    /// The environment of the call, which chooses the login (a key, a token, a home folder) if the options do not; `None` if they
    /// do.
    pub env: Option<&'a Arc<Vars>>,
    pub model: &'a str,
}

impl Plan<'_> {
    /// Notes that an attempt has failed with `error`.
    pub fn note(&self, error: &ProviderError, now_ms: u64) {
        let Some(at) = reset_of(error, now_ms) else { return };
        // The error is told to other calls, which are other runs.
        let error = Box::new(ProviderError {
            run: None,
            ..error.clone()
        });
        let mut known = self.used_up.locked();
        known.retain(|known| known.reset.at > now_ms && !self.is(known));
        if known.len() >= MOST_PLANS {
            known.remove(0);
        }
        known.push(Known {
            env: self.env.cloned(),
            model: self.model.to_owned(),
            reset: Reset { at, error },
        });
    }

    /// Notes that an attempt was answered.
    pub fn clear(&self) {
        self.used_up.locked().retain(|known| !self.is(known));
    }

    /// The known reset of this plan, if that lies after `now_ms`.
    fn known(&self, now_ms: u64) -> Option<Reset> {
        let all = self.used_up.locked();
        let found = all.iter().find(|known| self.is(known));
        found
            .filter(|known| known.reset.at > now_ms)
            .map(|known| known.reset.clone())
    }

    fn is(&self, known: &Known) -> bool {
        let is_same_env = match (self.env, &known.env) {
            (Some(env), Some(known)) => Arc::ptr_eq(env, known) || env == known,
            (None, None) => true,
            _ => false,
        };
        known.model == self.model && is_same_env
    }
}

impl UsedUp {
    fn locked(&self) -> MutexGuard<'_, Vec<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sleeps until the clock shows `until`, ms since the epoch.
async fn sleep_until(until: u64, now_ms: impl Fn() -> u64) {
    loop {
        let left = Duration::from_millis(until.saturating_sub(now_ms()));
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(STRETCH)).await;
    }
}

/// The offset of local time from UTC now, minutes; positive in the east.
pub(super) fn local_offset_min() -> Option<i32> {
    dfp_process::local_offset_min(dfp_process::activity::now_ms())
}

/// The duration in whole ms.
pub(super) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
