//! Decides when to try again, and how long to wait before; and whether a call waits for a plan that is used up. Pure: nothing here
//! sleeps or reads a clock.
//!
//! In: a [`Policy`] or a [`QuotaWait`], the error of an attempt, the time elapsed or now, and one random number. Out: a delay or a
//! moment, or none.

use crate::error::{Category, Code, ProviderError};

/// The policy of further attempts with one provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// The number of attempts in all, the first included.
    pub max_attempts: u32,
    /// The wait before the second attempt, ms; doubled before each further one.
    pub base_delay_ms: u64,
    /// The longest wait of the policy's own, ms. A wait that the provider asks for (`retryAfterMs`) may be longer.
    pub max_delay_ms: u64,
    /// The share of the wait that is random, 0 to 1, so that callers that failed together do not come back together.
    pub jitter: f64,
    /// The time after the first attempt, ms, after which no attempt begins.
    pub max_elapsed_ms: u64,
    /// True if a run that this package itself ended at `timeout` or `idleTimeout` is tried again. It is off by default:
    /// `timeout: 5000` is a promise to the caller, which three attempts of 5 s would break.
    pub own_limits: bool,
}

impl Default for Policy {
    /// Two further attempts, the package's default.
    fn default() -> Self {
        Policy {
            max_attempts: 3,
            base_delay_ms: 500,
            max_delay_ms: 30_000,
            jitter: 0.25,
            max_elapsed_ms: 120_000,
            own_limits: false,
        }
    }
}

impl Policy {
    /// One attempt and no more.
    pub const NEVER: Policy = Policy {
        max_attempts: 1,
        base_delay_ms: 0,
        max_delay_ms: 0,
        jitter: 0.0,
        max_elapsed_ms: 0,
        own_limits: false,
    };

    /// The wait before attempt `attempt + 1`, ms, after attempt `attempt` (from 1) failed with `error`; `None` to give up.
    /// `elapsed_ms` counts from the beginning of the first attempt; `random` is from 0 (included) to 1 (excluded).
    pub fn delay_after(&self, attempt: u32, error: &ProviderError, elapsed_ms: u64, random: f64) -> Option<u64> {
        let ours = matches!(error.code, Code::Timeout | Code::IdleTimeout);
        if attempt >= self.max_attempts || !error.should_retry || (ours && !self.own_limits) {
            return None;
        }
        let doubled = self
            .base_delay_ms
            .saturating_mul(1u64.checked_shl(attempt - 1).unwrap_or(u64::MAX));
        let whole = doubled.min(self.max_delay_ms);
        // The random part only shortens the wait: the documented delay is the upper bound.
        let own = (whole as f64 * (1.0 - self.jitter.clamp(0.0, 1.0) * random)) as u64;
        // The wait that the provider asks for is a minimum and never shortened.
        let delay = own.max(error.retry_after_ms.unwrap_or(0));
        (elapsed_ms.saturating_add(delay) <= self.max_elapsed_ms).then_some(delay)
    }
}

// The wait for a plan. A call waits only for a moment that the provider has named: otherwise it is unknown how long the wait would
// be.

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
    use proptest::prelude::*;

    use super::*;
    use crate::error::{Category, Code};

    fn error(code: Code) -> ProviderError {
        ProviderError::new("claude", code, "x")
    }

    #[test]
    fn doubles_up_to_its_limit_and_ends() {
        let policy = Policy {
            max_attempts: 6,
            base_delay_ms: 100,
            max_delay_ms: 500,
            jitter: 0.0,
            max_elapsed_ms: 10_000,
            own_limits: false,
        };
        let delays: Vec<_> = (1..=6)
            .map(|attempt| policy.delay_after(attempt, &error(Code::ServerError), 0, 0.9))
            .collect();
        assert_eq!(delays, [Some(100), Some(200), Some(400), Some(500), Some(500), None]);
    }

    #[test]
    fn the_providers_word_is_a_minimum_and_the_time_limit_holds() {
        let policy = Policy {
            max_delay_ms: 1_000,
            max_elapsed_ms: 60_000,
            ..Policy::default()
        };
        let mut limited = error(Code::RateLimited);
        limited.retry_after_ms = Some(34_000);
        assert_eq!(policy.delay_after(1, &limited, 0, 0.5), Some(34_000));
        assert_eq!(policy.delay_after(1, &limited, 30_000, 0.5), None);
    }

    #[test]
    fn only_categories_that_may_be_retried_are() {
        let asked_for = Policy {
            own_limits: true,
            ..Policy::default()
        };
        for code in Code::ALL {
            let retried = asked_for.delay_after(1, &error(*code), 0, 0.0).is_some();
            let expected = matches!(
                code.category(),
                Category::RateLimit | Category::Network | Category::Server | Category::Timeout
            );
            assert_eq!(retried, expected, "{}", code.as_str());
        }
        assert_eq!(Policy::NEVER.delay_after(1, &error(Code::ServerError), 0, 0.0), None);
    }

    #[test]
    fn limits_of_our_own_are_no_reason_to_try_again_by_default() {
        for (code, expected) in [
            (Code::Timeout, None),
            (Code::IdleTimeout, None),
            (Code::RequestTimeout, Some(500)),
        ] {
            assert_eq!(
                Policy::default().delay_after(1, &error(code), 0, 0.0),
                expected,
                "{}",
                code.as_str()
            );
        }
    }

    proptest! {
        #[test]
        fn never_more_than_the_documented_delay(
            attempt in 1u32..200, base in 0u64..u64::MAX, most in 0u64..u64::MAX, jitter in -1.0..2.0f64, random in 0.0..1.0f64,
        ) {
            let policy = Policy { max_attempts: 300, base_delay_ms: base, max_delay_ms: most, jitter, max_elapsed_ms: u64::MAX, own_limits: false };
            let delay = policy.delay_after(attempt, &error(Code::ServerError), 0, random);
            // An f64 holds 53 bits, so a delay beyond them may round up by one part in 2^52.
            prop_assert!(delay.is_some_and(|delay| delay as f64 <= most as f64));
        }
    }

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
