//! Calls that wait until a plan is there again.
//!
//! In: the errors of a provider's attempts. Out: until when a call waits, and the wait itself ([`sleep_until`]). What is decided is
//! `retry::quota`'s; here is what one call has found out for those that come after it, model by model: plans have limits of their own for some.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::ProviderError;
use crate::retry::quota::reset_of;

/// The longest stretch that is slept in one go: the clock of a machine that was suspended stands still, and the wall's does not.
const STRETCH: Duration = Duration::from_secs(30);

/// The plans of one provider object that are known to be used up.
#[derive(Debug, Default)]
pub(super) struct UsedUp(Mutex<HashMap<String, Reset>>);

/// When a plan is there again, ms since the epoch, and what it was that it refused.
#[derive(Debug, Clone)]
pub(super) struct Reset {
    pub at: u64,
    pub error: Box<ProviderError>,
}

impl UsedUp {
    /// An attempt with `model` has failed with `error`.
    pub fn note(&self, model: &str, error: &ProviderError, now_ms: u64) {
        let Some(at) = reset_of(error, now_ms) else { return };
        // Of another call's run.
        let error = Box::new(ProviderError {
            run: None,
            ..error.clone()
        });
        self.locked().insert(model.to_owned(), Reset { at, error });
    }

    /// An attempt with `model` was answered.
    pub fn clear(&self, model: &str) {
        self.locked().remove(model);
    }

    /// What is known of the plan that `model` needs, if it is not there again by `now_ms`.
    pub fn of(&self, model: &str, now_ms: u64) -> Option<Reset> {
        let known = self.locked().get(model)?.clone();
        (known.at > now_ms).then_some(known)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Reset>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sleeps until the clock says `until`, ms since the epoch.
pub(super) async fn sleep_until(until: u64, now_ms: impl Fn() -> u64) {
    loop {
        let left = Duration::from_millis(until.saturating_sub(now_ms()));
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(STRETCH)).await;
    }
}
