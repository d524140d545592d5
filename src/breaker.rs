//! A circuit breaker: whether a provider that keeps failing is asked at all. Pure: the time now is passed in.
//!
//! In: what became of each call. Out: whether the next call may go, or until when the provider is left alone.
//!
//! ```text
//!            failure_threshold failures in a row within window_ms, or quota
//!  closed ───────────────────────────────────────────────────────────▶ open
//!     ▲                                                              │   ▲
//!     └── success ── half-open ◀── reset_ms, or the quota's end ──────┘   │
//!                        └───────────────── failure ─────────────────────┘
//! ```

use std::collections::VecDeque;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Failures in a row that open it.
    pub failure_threshold: u32,
    /// Failures older than this are forgotten, ms.
    pub window_ms: u64,
    /// How long it stays open, ms.
    pub reset_ms: u64,
}

impl Default for Settings {
    /// 5 failures in a row within 10 minutes (five runs that each end at a 2-minute `timeout` are enough), open for 30 s.
    fn default() -> Self {
        Settings {
            failure_threshold: 5,
            window_ms: 600_000,
            reset_ms: 30_000,
        }
    }
}

/// Whether a call may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may; its outcome is to be reported with this ticket.
    Go(Ticket),
    /// It may not: ask again at this time, ms since the epoch.
    Wait(u64),
}

/// Which call an outcome belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket of this number.
    pub fn from_number(number: u64) -> Ticket {
        Ticket(number)
    }

    /// Its number: distinct for the life of a breaker.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    Success,
    /// It failed as another provider might not have.
    Failure,
    /// A limit is used up, until this time, ms since the epoch, if it is known.
    Quota(Option<u64>),
    /// It says nothing about the provider: aborted, or refused for what was asked.
    Neither,
}

/// The three states.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Closed,
    /// No call goes.
    Open,
    /// One call goes, to see.
    HalfOpen,
}

/// The breaker of one provider.
#[derive(Debug)]
pub struct Breaker {
    settings: Settings,
    state: State,
    /// The last ticket's number.
    tickets: u64,
    /// Tickets up to this one were issued before the state last changed: how they ended is no news.
    stale: u64,
}

#[derive(Debug)]
enum State {
    /// When the failures in a row happened.
    Closed(VecDeque<u64>),
    Open {
        since: u64,
        until: u64,
    },
    HalfOpen {
        probe: Option<Probe>,
    },
}

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

    /// May a call go now? Whoever is let through reports its outcome.
    pub fn admit(&mut self, now: u64) -> Admission {
        if let State::Open { since, until } = self.state {
            // A clock that was set back must not keep it open for as long.
            if now < until && now >= since {
                return Admission::Wait(until);
            }
            self.enter(State::HalfOpen { probe: None });
        }
        if let State::HalfOpen { probe: Some(probe) } = self.state {
            // A probe that tells nothing (its caller forgot it, or it hangs) does not keep others back for ever.
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

    /// Says what became of the call with `ticket`. Only the first word on a ticket of the current state counts, and only
    /// that of the current probe; a used-up quota counts whenever it is found out.
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
