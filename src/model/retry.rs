//! Decides when to try again, and how long to wait before. Pure: nothing here sleeps or reads a clock.
//!
//! In: a [`Policy`], the error of an attempt, the time elapsed and one random number. Out: a delay, or none.

pub mod quota;

use crate::error::{Code, ProviderError};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Category, Code};
    use proptest::prelude::*;

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
}
