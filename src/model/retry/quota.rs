//! Decides whether a call waits for a plan that is used up. Pure: the time now and a random number are passed in.
//!
//! In: a [`QuotaWait`], the error of an attempt, now. Out: a moment, or none. A call waits only for a moment that the provider
//! has named: otherwise it is unknown how long the wait would be.

use crate::error::{Category, ProviderError};

/// The option to wait when a plan is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaWait {
    /// The longest wait in all, ms.
    pub max_wait_ms: u64,
}

/// Six hours, in ms: the longest of the short plans, claude's and codex's five hours, with an hour to spare.
pub const DEFAULT_MAX_WAIT_MS: u64 = 6 * 60 * 60 * 1000;

/// The shortest wait, ms: a provider that names a past moment is not asked again at once.
const LEAST_MS: u64 = 1_000;

/// The random delay after the moment: at most this many ms, and at most this share of the wait. Calls that waited together do
/// not come back together.
const MOST_LATE_MS: f64 = 5_000.0;
const SHARE_LATE: f64 = 0.1;

impl QuotaWait {
    /// The time until which a call that has failed with `error` waits, ms since the epoch; `None` if it fails for good.
    /// `waited_ms` is the time it has waited before, `random` a number from 0 (included) to 1 (excluded).
    pub fn until(&self, error: &ProviderError, now_ms: u64, waited_ms: u64, random: f64) -> Option<u64> {
        self.until_reset(reset_of(error, now_ms)?, now_ms, waited_ms, random)
    }

    /// The time until which a call waits for a plan that is known to be used up until `resets_at`; see [`QuotaWait::until`].
    pub fn until_reset(&self, resets_at: u64, now_ms: u64, waited_ms: u64, random: f64) -> Option<u64> {
        let wait = resets_at.saturating_sub(now_ms).max(LEAST_MS);
        if waited_ms.saturating_add(wait) > self.max_wait_ms {
            return None;
        }
        let late = (wait as f64 * SHARE_LATE).min(MOST_LATE_MS) * random.clamp(0.0, 1.0);
        Some(now_ms.saturating_add(wait).saturating_add(late as u64))
    }
}

/// The moment when the plan behind `error` is available again, ms since the epoch; `None` if no plan is behind it, or the
/// provider has named no moment.
pub fn reset_of(error: &ProviderError, now_ms: u64) -> Option<u64> {
    let moment = error
        .resets_at
        .or_else(|| Some(now_ms.saturating_add(error.retry_after_ms?)));
    moment.filter(|_| error.category == Category::Quota)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    const HOUR: u64 = 3_600_000;

    fn used_up(resets_at: Option<u64>) -> ProviderError {
        ProviderError {
            resets_at,
            ..ProviderError::new("claude", Code::UsageLimit, "x")
        }
    }

    #[test]
    fn waits_for_the_moment_and_a_little_longer() {
        let wait = QuotaWait { max_wait_ms: 2 * HOUR };
        let error = used_up(Some(HOUR));
        assert_eq!(wait.until(&error, 0, 0, 0.0), Some(HOUR));
        assert_eq!(wait.until(&error, 0, 0, 0.5), Some(HOUR + 2_500));
        assert_eq!(wait.until(&error, HOUR - 2_000, 0, 0.5), Some(HOUR + 100));
        let said_how_long = ProviderError {
            retry_after_ms: Some(HOUR),
            ..used_up(None)
        };
        assert_eq!(wait.until(&said_how_long, 5, 0, 0.0), Some(HOUR + 5));
        // This moment has passed.
        assert_eq!(wait.until(&error, 3 * HOUR, 0, 0.0), Some(3 * HOUR + LEAST_MS));
    }

    #[test]
    fn fails_where_it_would_be_too_long_or_for_ever() {
        let wait = QuotaWait { max_wait_ms: HOUR };
        assert_eq!(wait.until(&used_up(Some(HOUR)), 0, 0, 0.9), Some(HOUR + 4_500));
        assert_eq!(wait.until(&used_up(Some(HOUR + 1)), 0, 0, 0.0), None);
        assert_eq!(wait.until(&used_up(Some(HOUR)), 0, 1, 0.0), None);
        assert_eq!(wait.until(&used_up(None), 0, 0, 0.0), None);
        // The moment has passed each time: every wait counts.
        assert_eq!(wait.until(&used_up(Some(0)), 1, HOUR, 0.0), None);
    }

    #[test]
    fn nothing_but_a_used_up_plan_is_waited_for() {
        for code in Code::ALL {
            let error = ProviderError {
                resets_at: Some(2_000),
                ..ProviderError::new("claude", *code, "x")
            };
            let waits = QuotaWait { max_wait_ms: HOUR }.until(&error, 0, 0, 0.0).is_some();
            assert_eq!(waits, code.category() == Category::Quota, "{}", code.as_str());
        }
    }
}
