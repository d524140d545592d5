//! Decides when to try again: how long to wait before the next attempt, whether a call waits for a plan that is used up, and whether a
//! provider that keeps failing is asked at all. Pure: nothing here sleeps or reads a clock.
//!
//! In: a [`Policy`] or a [`QuotaWait`], the error of an attempt, the time elapsed or now, and one random number. Out: a delay or a
//! moment, or none.
//!
//! In: the outcome of each call, for a circuit breaker ([`Breaker`]). Out: whether the next call may go, or until when the provider is
//! left alone.
//!
//! ```text
//!            failure_threshold failures in a row within window_ms, or quota
//!  closed ───────────────────────────────────────────────────────────▶ open
//!     ▲                                                              │   ▲
//!     └── success ── half-open ◀── reset_ms, or the quota's end ──────┘   │
//!                        └───────────────── failure ─────────────────────┘
//! ```

use std::collections::VecDeque;

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

// The circuit breaker.

/// The conditions under which a breaker opens, and how long it stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// The number of failures in a row that open the breaker.
    pub failure_threshold: u32,
    /// The age at which failures are forgotten, ms.
    pub window_ms: u64,
    /// The time for which the breaker stays open, ms.
    pub reset_ms: u64,
}

impl Default for BreakerSettings {
    /// 5 failures in a row within 10 minutes, which five runs that end at a `timeout` of 2 minutes still reach, and 30 s open.
    fn default() -> Self {
        BreakerSettings {
            failure_threshold: 5,
            window_ms: 600_000,
            reset_ms: 30_000,
        }
    }
}

/// The decision on whether a call may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The call may go. Its outcome must be reported with this ticket.
    Go(Ticket),
    /// The call may not go. Ask again at this time, ms since the epoch.
    Wait(u64),
}

/// The identity of a call, by which its outcome is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket with this number.
    pub fn from_number(number: u64) -> Ticket {
        Ticket(number)
    }

    /// The ticket's number, which a breaker gives only once.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// The outcome of a call, as far as it matters for the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    Success,
    /// The call failed in a way in which another provider might not have.
    Failure,
    /// A limit is used up, until this time (ms since the epoch) if it is known.
    Quota(Option<u64>),
    /// The call shows nothing about the provider: it was aborted, or refused for what it asked.
    Neither,
}

/// The state of a breaker.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Closed,
    /// No call goes.
    Open,
    /// One call goes as a probe.
    HalfOpen,
}

/// The circuit breaker of one provider.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: State,
    /// The number of the last ticket.
    tickets: u64,
    /// The last ticket before the state changed. Outcomes up to this one are outdated.
    stale: u64,
}

/// The state with its times, which are ms since the epoch.
#[derive(Debug)]
enum State {
    /// The times of the failures in a row, ms since the epoch.
    Closed(VecDeque<u64>),
    Open {
        since: u64,
        until: u64,
    },
    HalfOpen {
        probe: Option<Probe>,
    },
}

/// The call that a half-open breaker has let through, and when.
#[derive(Debug, Clone, Copy)]
struct Probe {
    ticket: Ticket,
    since: u64,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: BreakerSettings) -> Breaker {
        Breaker {
            settings,
            state: State::Closed(VecDeque::new()),
            tickets: 0,
            stale: 0,
        }
    }

    /// Decides whether a call may go now. A caller whose call may go must report its outcome.
    pub fn admit(&mut self, now: u64) -> Admission {
        if let State::Open { since, until } = self.state {
            // After a clock was set back, the breaker must not stay open for that much longer.
            if now < until && now >= since {
                return Admission::Wait(until);
            }
            self.enter(State::HalfOpen { probe: None });
        }
        if let State::HalfOpen { probe: Some(probe) } = self.state {
            // A probe without an outcome (its caller forgot it, or it hangs) must not hold up others for ever.
            let until = probe.since.saturating_add(self.settings.reset_ms);
            if now < until && now >= probe.since {
                return Admission::Wait(until);
            }
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        if let State::HalfOpen { probe } = &mut self.state {
            *probe = Some(Probe { ticket, since: now });
        }
        Admission::Go(ticket)
    }

    /// Reports the outcome of the call with `ticket`. Only the first report for a ticket of the current state counts, and in the
    /// half-open state only that of the current probe. A used-up quota always counts.
    pub fn report(&mut self, ticket: Ticket, outcome: CallOutcome, now: u64) {
        if let CallOutcome::Quota(resets_at) = outcome {
            let mut until = resets_at
                .filter(|at| *at > now)
                .unwrap_or_else(|| now.saturating_add(self.settings.reset_ms));
            if let State::Open { until: known, .. } = self.state {
                until = until.max(known);
            }
            return self.enter(State::Open { since: now, until });
        }
        if ticket.0 <= self.stale {
            return;
        }
        match &mut self.state {
            State::Closed(failures) => match outcome {
                CallOutcome::Success => failures.clear(),
                CallOutcome::Failure => {
                    let oldest = now.saturating_sub(self.settings.window_ms);
                    failures.retain(|at| *at >= oldest);
                    failures.push_back(now);
                    if failures.len() >= self.settings.failure_threshold as usize {
                        self.open(now);
                    }
                }
                CallOutcome::Quota(_) | CallOutcome::Neither => {}
            },
            State::HalfOpen { probe } if probe.is_some_and(|probe| probe.ticket == ticket) => match outcome {
                CallOutcome::Success => self.enter(State::Closed(VecDeque::new())),
                CallOutcome::Failure => self.open(now),
                CallOutcome::Quota(_) | CallOutcome::Neither => *probe = None,
            },
            State::HalfOpen { .. } | State::Open { .. } => {}
        }
    }

    /// The state at `now`.
    #[cfg(test)]
    pub fn phase(&self, now: u64) -> Phase {
        match self.state {
            State::Closed(_) => Phase::Closed,
            State::Open { since, until } if now < until && now >= since => Phase::Open,
            State::Open { .. } | State::HalfOpen { .. } => Phase::HalfOpen,
        }
    }

    fn open(&mut self, now: u64) {
        let until = now.saturating_add(self.settings.reset_ms);
        self.enter(State::Open { since: now, until });
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.stale = self.tickets;
    }
}

#[cfg(test)]
mod tests;
