//! Calls that wait until a used-up plan is available again.
//!
//! In: the errors of a provider's attempts. Out: the moment until which a call waits, and the wait itself ([`sleep_until`]).
//! `retry::quota` decides on the wait. This file keeps the facts that one call has found out for later ones, by login and by model,
//! since plans have limits of their own for some models.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dfp_model::error::ProviderError;
use dfp_model::retry::quota::reset_of;
use dfp_process::Vars;

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
