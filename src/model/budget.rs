//! Budgets: limits on the use of a provider in a window of time. Pure: the time now is passed in.
//!
//! In: a [`Budget`], and the requests and usage of its calls. Out: a [`Window`] that has counted them, or [`UsedUp`].
//!
//! A window begins with its first request and is as long as the budget says; the first request after its end begins the next
//! one. So there is one moment at which the whole budget is available again, for which a caller can wait, as with a plan's own
//! window. A sliding window would give back request by request. The price is that around the end of a window, twice as much may
//! be used in a short time.
//!
//! A clock that goes backwards takes the window with it: used requests stay used, and no window is longer than its length. A
//! clock that goes forwards ends the window, since that can't be told from time that has passed.

use serde::{Deserialize, Serialize};

use crate::iso;

/// Tolerance for the order of clock readings, ms: calls that come to a window one after the other may have read the clock in
/// another order.
const SKEW_MS: u64 = 5_000;

/// The length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    Minute,
    Hour,
    /// 24 hours, not a day of the calendar.
    Day,
}

impl Per {
    /// The names of the lengths, as options have them.
    pub const NAMES: [&'static str; 3] = ["minute", "hour", "day"];

    /// The length with this name, if there is one.
    pub fn named(name: &str) -> Option<Per> {
        [Per::Minute, Per::Hour, Per::Day]
            .into_iter()
            .find(|per| per.as_str() == name)
    }

    /// The name of the length.
    pub fn as_str(self) -> &'static str {
        match self {
            Per::Minute => "minute",
            Per::Hour => "hour",
            Per::Day => "day",
        }
    }

    fn ms(self) -> u64 {
        match self {
            Per::Minute => 60_000,
            Per::Hour => 3_600_000,
            Per::Day => 86_400_000,
        }
    }
}

/// A provider's last word about one window of its plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanWindow {
    /// The window's name (`five_hour`), if the provider names it.
    pub name: Option<String>,
    /// The share used, 0 to 1.
    pub used: f64,
    /// When the window ends, ms since the epoch.
    pub resets_at: u64,
}

/// The windows of a plan that a provider has reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanWindows(Vec<PlanWindow>);

/// The greatest number of windows that are kept: a plan has two or three.
const MOST_WINDOWS: usize = 16;

impl PlanWindows {
    /// Notes a report: it replaces the one before about the same window.
    pub fn note(&mut self, window: PlanWindow) {
        self.0.retain(|known| known.name != window.name);
        if self.0.len() >= MOST_WINDOWS {
            self.0.remove(0);
        }
        self.0.push(window);
    }

    /// Checks that no window of which more than `share` is used goes on at `now_ms`.
    ///
    /// # Errors
    /// The window that ends last of those.
    pub fn check(&self, share: f64, now_ms: u64) -> Result<(), UsedUp> {
        let full = self
            .0
            .iter()
            .filter(|known| known.resets_at > now_ms && known.used >= share);
        let Some(window) = full.max_by_key(|known| known.resets_at) else {
            return Ok(());
        };
        let name = window.name.as_deref().map_or(String::new(), |name| format!(" {name}"));
        let percent = |share: f64| (share * 1000.0).round() / 10.0;
        let what = format!(
            "{} % of the plan's{name} window, of which it allows {} %; it begins anew at {}",
            percent(window.used),
            percent(share),
            iso(window.resets_at)
        );
        Err(UsedUp {
            limit: "plan",
            what,
            resets_at: window.resets_at,
        })
    }
}

/// The limits of use in a window. At least one limit is set.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// The number of attempts at an answer.
    pub requests: Option<u64>,
    /// The number of input and output tokens together, cached ones included.
    pub tokens: Option<u64>,
    /// US dollars, as the provider reports them.
    pub cost_usd: Option<f64>,
    /// The share of a window of the login's plan, 0 to 1, by the word of the provider.
    pub plan: Option<f64>,
    pub per: Per,
    /// The file in which all processes count together; with `None`, each provider object counts for itself.
    pub store: Option<String>,
}

/// The usage of one request, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    pub tokens: u64,
    /// US dollars; `None` if the provider has reported no cost.
    pub cost_usd: Option<f64>,
    /// True if the request was answered: without a known cost, it counts among the answers whose cost is missing in the sum.
    pub answered: bool,
}

/// The usage counted since a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// The window's number, one more than that of the window before. 0 means that none has begun.
    pub number: u64,
    /// When the window began, ms since the epoch.
    pub from: u64,
    pub requests: u64,
    pub tokens: u64,
    pub cost_usd: f64,
    /// The number of answers whose cost is unknown.
    pub without_cost: u64,
}

/// An admitted request, with the number of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted(pub u64);

/// The error of a request when a limit is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsedUp {
    /// The limit's name in the options: `requests`, `tokens`, `costUsd` or `plan`.
    pub limit: &'static str,
    /// The used-up limit in words.
    pub what: String,
    /// When the window ends, ms since the epoch.
    pub resets_at: u64,
}

impl Window {
    /// When the window ends, ms since the epoch; `None` if it has ended, or none has begun.
    pub fn ends_at(&self, per: Per, now_ms: u64) -> Option<u64> {
        let end = self.from.saturating_add(per.ms());
        (self.number > 0 && now_ms < end).then_some(end)
    }

    /// The window at `now_ms`: this one, or the next.
    fn at(self, per: Per, now_ms: u64) -> Window {
        // The clock went backwards.
        let from = match self.from > now_ms.saturating_add(SKEW_MS) {
            true => now_ms,
            false => self.from,
        };
        let window = Window { from, ..self };
        match window.ends_at(per, now_ms) {
            Some(_) => window,
            None => Window {
                number: self.number.saturating_add(1),
                from: now_ms,
                ..Window::default()
            },
        }
    }

    /// Admits a request, and counts it.
    ///
    /// # Errors
    /// A limit of `budget` is reached; nothing was counted.
    pub fn admit(&mut self, budget: &Budget, now_ms: u64) -> Result<Admitted, UsedUp> {
        let mut window = self.at(budget.per, now_ms);
        let reached = budget.reached(&window);
        if let Some((limit, used)) = reached {
            *self = window;
            let resets_at = window.from.saturating_add(budget.per.ms());
            let per = budget.per.as_str();
            let what = format!("{used} per {per}; it begins anew at {}", iso(resets_at));
            return Err(UsedUp { limit, what, resets_at });
        }
        window.requests = window.requests.saturating_add(1);
        *self = window;
        Ok(Admitted(window.number))
    }

    /// Takes back the count of a request that was not made after all.
    pub fn give_back(&mut self, Admitted(number): Admitted) {
        if self.number == number {
            self.requests = self.requests.saturating_sub(1);
        }
    }

    /// Counts the usage of a request, in the window in which it became known.
    pub fn add(&mut self, used: Used, per: Per, now_ms: u64) {
        let mut window = self.at(per, now_ms);
        window.tokens = window.tokens.saturating_add(used.tokens);
        match used.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0) {
            Some(cost) => window.cost_usd = (window.cost_usd + cost).min(f64::MAX),
            None => window.without_cost = window.without_cost.saturating_add(u64::from(used.answered)),
        }
        *self = window;
    }
}

impl Budget {
    /// The limit that `window` has reached, by its name and in words.
    fn reached(&self, window: &Window) -> Option<(&'static str, String)> {
        let is_full = |limit: Option<u64>, used: u64| limit.filter(|limit| used >= *limit);
        if let Some(limit) = is_full(self.requests, window.requests) {
            return Some(("requests", format!("{} of {limit} requests", window.requests)));
        }
        if let Some(limit) = is_full(self.tokens, window.tokens) {
            return Some(("tokens", format!("{} of {limit} tokens", window.tokens)));
        }
        let limit = self.cost_usd.filter(|limit| window.cost_usd >= *limit)?;
        Some(("costUsd", format!("{:.4} of {limit} US dollars", window.cost_usd)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn of(requests: Option<u64>, tokens: Option<u64>, cost_usd: Option<f64>) -> Budget {
        Budget {
            requests,
            tokens,
            cost_usd,
            plan: None,
            per: Per::Minute,
            store: None,
        }
    }

    #[test]
    fn a_window_of_the_plan_is_full_at_its_share_until_it_ends() {
        let mut plan = PlanWindows::default();
        let window = |name: &str, used, resets_at| PlanWindow {
            name: Some(name.to_owned()),
            used,
            resets_at,
        };
        assert_eq!(plan.check(0.8, NOW), Ok(()));
        plan.note(window("seven_day", 0.805, NOW + 9_000));
        plan.note(window("five_hour", 0.9, NOW + 1_000));
        let refused = plan.check(0.8, NOW).unwrap_err();
        let what = "80.5 % of the plan's seven_day window, of which it allows 80 %; it begins anew at 2027-01-15T08:00:09.000Z";
        assert_eq!(
            (refused.limit, &*refused.what, refused.resets_at),
            ("plan", what, NOW + 9_000)
        );
        plan.note(window("seven_day", 0.1, NOW + 9_000));
        assert_eq!(plan.check(0.8, NOW).map_err(|full| full.resets_at), Err(NOW + 1_000));
        assert_eq!(plan.check(0.8, NOW + 1_000), Ok(()));
        assert_eq!(plan.check(0.95, NOW), Ok(()));
    }

    fn used(tokens: u64, cost_usd: Option<f64>) -> Used {
        Used {
            tokens,
            cost_usd,
            answered: true,
        }
    }

    #[test]
    fn each_limit_is_reached_by_itself_and_says_when_it_is_there_again() {
        for (budget, limit, what) in [
            (of(Some(1), None, None), "requests", "1 of 1 requests"),
            (of(Some(9), Some(30), None), "tokens", "31 of 30 tokens"),
            (of(None, None, Some(0.5)), "costUsd", "0.5000 of 0.5 US dollars"),
        ] {
            let mut window = Window::default();
            window.admit(&budget, NOW).unwrap();
            window.add(used(31, Some(0.5)), Per::Minute, NOW + 1_000);
            let counted = window;
            let refused = window.admit(&budget, NOW + 59_999).unwrap_err();
            let expected = UsedUp {
                limit,
                what: format!("{what} per minute; it begins anew at 2027-01-15T08:01:00.000Z"),
                resets_at: NOW + 60_000,
            };
            assert_eq!((refused, window), (expected, counted));
            window.admit(&budget, NOW + 60_000).unwrap();
            let next = Window {
                number: 2,
                from: NOW + 60_000,
                requests: 1,
                ..Window::default()
            };
            assert_eq!(window, next);
        }
    }

    #[test]
    fn what_becomes_known_later_counts_where_it_does() {
        let budget = of(Some(2), None, None);
        let mut window = Window::default();
        let first = window.admit(&budget, NOW).unwrap();
        window.add(used(5, None), Per::Minute, NOW + 70_000);
        let expected = Window {
            number: 2,
            from: NOW + 70_000,
            tokens: 5,
            without_cost: 1,
            ..Window::default()
        };
        assert_eq!(window, expected);
        // Nothing can be given back to a window that is over.
        window.admit(&budget, NOW + 70_001).unwrap();
        window.give_back(first);
        assert_eq!(window.requests, 1);
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing_back_and_makes_no_window_longer() {
        let budget = of(Some(1), None, None);
        let mut window = Window::default();
        window.admit(&budget, NOW).unwrap();
        let long_ago = NOW - 900_000;
        assert_eq!(
            window.admit(&budget, long_ago).unwrap_err().resets_at,
            long_ago + 60_000
        );
        assert_eq!(
            window.admit(&budget, long_ago + 1).unwrap_err().resets_at,
            long_ago + 60_000
        );
        assert!(window.admit(&budget, long_ago + 60_000).is_ok());
        // Two calls that have read the clock in another order do not count as a clock that went back.
        let from = window.from;
        assert_eq!(window.admit(&budget, from - 10).unwrap_err().resets_at, from + 60_000);
    }

    #[test]
    fn costs_that_are_no_numbers_are_unknown() {
        let mut window = Window::default();
        for cost in [f64::NAN, f64::INFINITY, -1.0] {
            window.add(used(0, Some(cost)), Per::Minute, NOW);
        }
        assert_eq!((window.cost_usd, window.without_cost), (0.0, 3));
    }

    /// An event in a budget's life.
    #[derive(Debug, Clone)]
    enum Act {
        Admit,
        GiveBack(usize),
        Add(usize, u64),
        Pass(u64),
        Back(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => Just(Act::Admit),
            2 => any::<usize>().prop_map(Act::GiveBack),
            2 => (any::<usize>(), 0_u64..50).prop_map(|(which, tokens)| Act::Add(which, tokens)),
            2 => (0_u64..70_000).prop_map(Act::Pass),
            1 => (0_u64..200_000).prop_map(Act::Back),
        ]
    }

    proptest! {
        /// However calls begin, end and fail, and whatever the clock does, no window has more requests than allowed.
        #[test]
        fn no_interleaving_passes_a_limit_of_requests(limit in 1_u64..5, acts in prop::collection::vec(act(), 0..80)) {
            let budget = of(Some(limit), Some(100), None);
            let (mut window, mut now) = (Window::default(), NOW);
            // The model: the requests under way, and the number that each window has admitted and not taken back.
            let mut open: Vec<Admitted> = Vec::new();
            let mut model: std::collections::HashMap<u64, (u64, u64)> = std::collections::HashMap::new();
            for act in acts {
                match act {
                    Act::Admit => match window.admit(&budget, now) {
                        Ok(admitted) => {
                            open.push(admitted);
                            let counted = model.entry(admitted.0).or_default();
                            prop_assert!(counted.1 < 100);
                            counted.0 += 1;
                            prop_assert!(counted.0 <= limit, "{} in window {}", counted.0, admitted.0);
                        }
                        Err(refused) => {
                            let (requests, tokens) = model.get(&window.number).copied().unwrap_or_default();
                            prop_assert!(requests == limit || tokens >= 100);
                            prop_assert!(refused.resets_at <= now + SKEW_MS + 60_000);
                        }
                    },
                    Act::GiveBack(which) if !open.is_empty() => {
                        let admitted = open.swap_remove(which % open.len());
                        window.give_back(admitted);
                        if admitted.0 == window.number {
                            model.entry(admitted.0).or_default().0 -= 1;
                        }
                    }
                    Act::Add(which, tokens) if !open.is_empty() => {
                        open.swap_remove(which % open.len());
                        window.add(used(tokens, None), Per::Minute, now);
                        model.entry(window.number).or_default().1 += tokens;
                    }
                    Act::Pass(ms) => now += ms,
                    Act::Back(ms) => now -= ms,
                    Act::GiveBack(_) | Act::Add(..) => {}
                }
                let (requests, tokens) = model.get(&window.number).copied().unwrap_or_default();
                prop_assert_eq!((window.requests, window.tokens), (requests, tokens));
            }
        }
    }
}
