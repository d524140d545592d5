//! What was used of budgets: in this process, or in a file in which all processes count together.
//!
//! In: requests that want to begin, and what they have used. Out: whether they may ([`Ledger::admit`]). What counts how is `budget`'s to
//! say; here is where the count is kept, and that nobody counts beside it.
//!
//! A request is counted before it begins, so of those that come at the same time no more get in than may. Whoever is killed in between
//! has used it: nothing is given back that nobody has said was not used.

mod file;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::{Admitted, Budget, Used, UsedUp, Window};
use crate::process::activity::{self, BudgetActivity};

/// Numbers of ledgers, for whoever looks at what goes on.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// What was used of the budget of one provider object, or of all that name its store.
#[derive(Debug)]
pub struct Ledger {
    number: u64,
    provider: String,
    budget: Budget,
    state: Mutex<State>,
    /// That costs are unknown was said.
    warned: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Where there is a store: as it was last seen there.
    window: Window,
    /// What the store did not take: with the next request it is asked again.
    unkept: Vec<Used>,
}

/// Why a request may not begin.
#[derive(Debug)]
pub enum Refused {
    UsedUp(UsedUp),
    /// The store can't be used, for this reason.
    Store(String),
}

impl Ledger {
    /// That of `budget`, of which the provider `provider` uses. Nothing is looked at before the first request.
    pub fn new(provider: &str, budget: Budget) -> Ledger {
        Ledger {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            provider: provider.to_owned(),
            budget,
            state: Mutex::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// The id of the provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Whether it has to be said, now, that an answer has no cost that is known. True once.
    pub fn misses_cost(&self) -> bool {
        self.budget.cost_usd.is_some() && !self.warned.swap(true, Ordering::Relaxed)
    }

    /// Its provider is closed: `status` shows it no more.
    pub fn hide(&self) {
        activity::forget_budget(self.number);
    }

    /// Lets a request in and counts it, before it begins.
    ///
    /// # Errors
    /// [`Refused`]: nothing was counted.
    pub async fn admit(self: &Arc<Self>, now_ms: u64) -> Result<Admitted, Refused> {
        let counted = self.change(now_ms, move |window, budget| window.admit(budget, now_ms));
        counted.await.map_err(Refused::Store)?.map_err(Refused::UsedUp)
    }

    /// The request did not begin.
    ///
    /// # Errors
    /// Why the store has not taken it: the request stays counted.
    pub async fn give_back(self: &Arc<Self>, admitted: Admitted, now_ms: u64) -> Result<(), String> {
        self.change(now_ms, move |window, _| window.give_back(admitted)).await
    }

    /// Counts what a request has used.
    ///
    /// # Errors
    /// Why the store has not taken it. It is counted with the next request, which is refused if it can't be.
    pub async fn settle(self: &Arc<Self>, used: Used, now_ms: u64) -> Result<(), String> {
        let kept = self.change(now_ms, move |window, budget| window.add(used, budget.per, now_ms));
        let kept = kept.await;
        if kept.is_err() {
            self.locked().unkept.push(used);
        }
        kept
    }

    /// What `change` makes of the window, kept before this returns. `Err`: the store can't be used.
    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        now_ms: u64,
        change: impl FnOnce(&mut Window, &Budget) -> T + Send + 'static,
    ) -> Result<T, String> {
        let Some(store) = &self.budget.store else {
            let mut state = self.locked();
            let changed = change(&mut state.window, &self.budget);
            self.tell(&state.window, now_ms);
            return Ok(changed);
        };
        let (ledger, path) = (Arc::clone(self), PathBuf::from(store));
        // A disk may be slow, and another process may be at it.
        let work = tokio::task::spawn_blocking(move || {
            let mut state = ledger.locked();
            let unkept = std::mem::take(&mut state.unkept);
            let budget = &ledger.budget;
            let done = file::update(Path::new(&path), budget.per, |window| {
                for used in &unkept {
                    window.add(*used, budget.per, now_ms);
                }
                let changed = change(window, budget);
                (changed, *window)
            });
            match done {
                Ok((changed, window)) => {
                    state.window = window;
                    ledger.tell(&window, now_ms);
                    Ok(changed)
                }
                Err(why) => {
                    state.unkept = unkept;
                    Err(why)
                }
            }
        });
        work.await.unwrap_or_else(|ended| Err(ended.to_string()))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For whoever looks at what goes on.
    fn tell(&self, window: &Window, now_ms: u64) {
        let budget = &self.budget;
        activity::note_budget(
            self.number,
            BudgetActivity {
                provider: self.provider.clone(),
                per: budget.per,
                store: budget.store.clone(),
                limits: activity::BudgetLimits {
                    requests: budget.requests,
                    tokens: budget.tokens,
                    cost_usd: budget.cost_usd,
                },
                requests: window.requests,
                tokens: window.tokens,
                cost_usd: window.cost_usd,
                calls_without_cost: window.without_cost,
                resets_at: window.ends_at(budget.per, now_ms),
                at: now_ms,
            },
        );
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.hide();
    }
}

#[cfg(test)]
mod tests;
