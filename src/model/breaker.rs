//! A circuit breaker, which decides whether a provider that keeps failing is asked at all. Pure: the time is passed in.
//!
//! In: the outcome of each call. Out: whether the next call may go, or until when the provider is left alone.
//!
//! ```text
//!            failure_threshold failures in a row within window_ms, or quota
//!  closed ───────────────────────────────────────────────────────────▶ open
//!     ▲                                                              │   ▲
//!     └── success ── half-open ◀── reset_ms, or the quota's end ──────┘   │
//!                        └───────────────── failure ─────────────────────┘
//! ```

use std::collections::VecDeque;

/// The conditions under which a breaker opens, and how long it stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The number of failures in a row that open the breaker.
    pub failure_threshold: u32,
    /// The age at which failures are forgotten, ms.
    pub window_ms: u64,
    /// The time for which the breaker stays open, ms.
    pub reset_ms: u64,
}

impl Default for Settings {
    /// 5 failures in a row within 10 minutes, which five runs that end at a `timeout` of 2 minutes still reach, and 30 s open.
    fn default() -> Self {
        Settings {
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
    settings: Settings,
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
    pub fn new(settings: Settings) -> Breaker {
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
