//! What an attempt waits for, of a CLI or an API: a place in the queue, its budget, and a plan that is used up.
//!
//! In: an attempt before it is made ([`Waiting`], [`admit`]), and its usage or its failure afterwards. Out: its place, the count of
//! the attempt, or the error of a budget that is used up; and when a plan can be used again ([`Plan`]).

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::record::Level;
use super::sink::Sink;
use dfp_model::budget::Admitted;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::RunInfo;
use dfp_model::retry::reset_of;
use dfp_process::limit::{NestedPermit, Permit};
use dfp_process::{Vars, limit};
use dfp_provider::classify;

/// An attempt that may be made.
pub(super) struct Admission(Option<Admitted>);

/// Waits until the budget admits an attempt.
///
/// # Errors
/// `BUDGET_EXCEEDED`; `INVALID_OPTION` where the store of the budget can't be used; `OVERLOADED` where it can't be just now, and `TIMEOUT`
/// where that takes longer than `limit`.
pub(super) async fn admit(sink: &Sink, now_ms: u64, limit: Option<Duration>) -> Result<Admission, Box<ProviderError>> {
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
pub(super) struct Reset {
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
    pub fn known(&self, now_ms: u64) -> Option<Reset> {
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
pub(super) async fn sleep_until(until: u64, now_ms: impl Fn() -> u64) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_model::error::Code;

    fn refusal(at: u64) -> ProviderError {
        ProviderError {
            resets_at: Some(at),
            ..ProviderError::new("claude", Code::UsageLimit, "session limit")
        }
    }

    #[test]
    fn what_one_login_has_used_up_is_not_another_ones() {
        let used_up = UsedUp::default();
        let token = |token: &str| Arc::new(vec![("CLAUDE_CODE_OAUTH_TOKEN".into(), token.into())]);
        let (a, b) = (token("a"), token("b"));
        fn plan<'a>(used_up: &'a UsedUp, env: &'a Arc<Vars>, model: &'a str) -> Plan<'a> {
            let env = Some(env);
            Plan { used_up, env, model }
        }
        let until = |env: &Arc<Vars>, model: &str| plan(&used_up, env, model).known(20).map(|reset| reset.at);
        plan(&used_up, &a, "m").note(&refusal(100), 10);
        // The environment has the same content, but was read again.
        assert_eq!(until(&token("a"), "m"), Some(100));
        assert_eq!([until(&b, "m"), until(&a, "n")], [None, None]);
        plan(&used_up, &b, "m").clear();
        assert_eq!(until(&a, "m"), Some(100));
        plan(&used_up, &token("a"), "m").clear();
        assert_eq!(until(&a, "m"), None);
    }

    #[test]
    fn no_more_plans_are_known_than_are_looked_through_in_no_time() {
        let used_up = UsedUp::default();
        for number in 0..200 {
            let env = Arc::new(vec![("TOKEN".into(), number.to_string().into())]);
            let plan = Plan {
                used_up: &used_up,
                env: Some(&env),
                model: "m",
            };
            plan.note(&refusal(100), 10);
        }
        assert_eq!(used_up.locked().len(), MOST_PLANS);
        Plan {
            used_up: &used_up,
            env: None,
            model: "m",
        }
        .note(&refusal(300), 200);
        assert_eq!(used_up.locked().len(), 1);
    }
}
