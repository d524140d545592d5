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
use std::time::Instant;

use crate::budget::{Admitted, Budget, Used, UsedUp, Window};
use crate::classify;
use crate::error::{Code, ProviderError};
use crate::process::activity::{self, BudgetActivity};
use crate::provider::options;
use file::{Look, Seen, Trouble, Unusable};

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
    /// The store's file as it was then.
    seen: Option<Seen>,
    /// What the store did not take: with the next request it is asked again.
    unkept: Vec<Used>,
}

/// Why a request may not begin.
#[derive(Debug)]
pub enum Refused {
    UsedUp(UsedUp),
    /// The store can't be used, for this reason.
    Store(String),
    /// Another process has the store for too long.
    Busy(String),
    /// The store can't be used just now: the disk is full, too many files are open, somebody has emptied it.
    Passing(String),
}

/// Says when it is dropped that nobody waits any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Refused {
    /// The error of `provider`'s call.
    pub fn into_error(self, provider: &str) -> Box<ProviderError> {
        let error = match self {
            Refused::UsedUp(used_up) => {
                let reason = format!("the budget is used up: {}", used_up.what);
                let hint = classify::hint(provider, Code::BudgetExceeded);
                let error = ProviderError::new(provider, Code::BudgetExceeded, reason).with_hint(hint);
                ProviderError {
                    resets_at: Some(used_up.resets_at),
                    ..error
                }
            }
            Refused::Store(why) => {
                let reason = format!("option \"budget.store\" names a file that can't be used: {why}");
                let hint = "name another file, or remove this one: then nothing has been used";
                ProviderError::new(provider, Code::InvalidOption, reason).with_hint(hint)
            }
            Refused::Busy(why) => {
                let reason = format!("the store of the budget can't be had: {why}");
                let hint = "try again, or look which process has it: none keeps it for longer than a moment";
                ProviderError::new(provider, Code::Overloaded, reason).with_hint(hint)
            }
            Refused::Passing(why) => {
                let reason = format!("the store of the budget can't be used just now: {why}");
                let hint = "make room on the disk, let more files be open, or restore the file: each try looks again";
                ProviderError::new(provider, Code::Overloaded, reason).with_hint(hint)
            }
        };
        Box::new(error)
    }
}

/// That of the budget in `options_json`, `{"budget": …}`, by the name `name`.
///
/// # Errors
/// `INVALID_OPTION`, naming the option, what it holds and what is allowed; also where there is no budget.
pub fn of_options(name: &str, options_json: &str) -> Result<Ledger, Box<ProviderError>> {
    let refuse = |reason| Box::new(ProviderError::new(name, Code::InvalidOption, reason));
    let map = options::checked(name, &[options::BUDGET], options_json)?;
    match options::budget(&map).map_err(refuse)? {
        Some(budget) => Ok(Ledger::new(name, budget)),
        None => Err(refuse("option \"budget\" must be an object with limits".to_owned())),
    }
}

impl Ledger {
    /// That of `budget`, of which the provider `provider` uses. Nothing is looked at before the first request.
    pub fn new(provider: &str, mut budget: Budget) -> Ledger {
        // Good wherever the process goes later. What is no path the first request says.
        if let Some(store) = &mut budget.store
            && let Ok(path) = std::path::absolute(&store)
            && let Ok(path) = path.into_os_string().into_string()
        {
            *store = path;
        }
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

    /// Lets a request in and counts it, before it begins. Dropped while it waits for the store, it counts nothing.
    ///
    /// # Errors
    /// [`Refused`]: nothing was counted.
    pub async fn admit(self: &Arc<Self>, now_ms: u64) -> Result<Admitted, Refused> {
        let waiting = Waiting(Arc::default());
        let counted = self.change(now_ms, Arc::clone(&waiting.0), move |window, budget, now_ms| {
            window.admit(budget, now_ms)
        });
        let counted = counted.await.map_err(|Unusable { why, kind }| match kind {
            Trouble::Busy => Refused::Busy(why),
            Trouble::Passing => Refused::Passing(why),
            Trouble::Unfit => Refused::Store(why),
        })?;
        counted.map_err(Refused::UsedUp)
    }

    /// The request did not begin.
    ///
    /// # Errors
    /// Why the store has not taken it: the request stays counted.
    pub async fn give_back(self: &Arc<Self>, admitted: Admitted, now_ms: u64) -> Result<(), String> {
        let given = self.change(now_ms, Arc::default(), move |window, _, _| window.give_back(admitted));
        given.await.map_err(|unusable| unusable.why)
    }

    /// Counts what a request has used.
    ///
    /// # Errors
    /// Why the store has not taken it. It is counted with the next request, which is refused if it can't be.
    pub async fn settle(self: &Arc<Self>, used: Used, now_ms: u64) -> Result<(), String> {
        let kept = self.change(now_ms, Arc::default(), move |window, budget, now_ms| {
            window.add(used, budget.per, now_ms)
        });
        let kept = kept.await;
        if kept.is_err() {
            self.locked().unkept.push(used);
        }
        kept.map_err(|unusable| unusable.why)
    }

    /// What `change` makes of the window at a time, ms since the epoch, kept before this returns: now, or when the store was to be had.
    /// `Err`: it can't be used, or the change `is_abandoned`.
    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        now_ms: u64,
        is_abandoned: Arc<AtomicBool>,
        change: impl FnOnce(&mut Window, &Budget, u64) -> T + Send + 'static,
    ) -> Result<T, Unusable> {
        let Some(store) = &self.budget.store else {
            let mut state = self.locked();
            let changed = change(&mut state.window, &self.budget, now_ms);
            self.tell(&state.window, now_ms);
            return Ok(changed);
        };
        let (ledger, path) = (Arc::clone(self), PathBuf::from(store));
        // A disk may be slow, and another process may be at it.
        let began = Instant::now();
        let work = tokio::task::spawn_blocking(move || {
            let budget = &ledger.budget;
            // Of this call alone until the file has it: whoever waits for the file holds up nobody else.
            let mut taken = Vec::new();
            let look = Look {
                seen: ledger.locked().seen,
                is_abandoned: &is_abandoned,
            };
            let done = file::update(Path::new(&path), budget.per, look, |window| {
                let now_ms = now_ms.saturating_add(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
                taken = std::mem::take(&mut ledger.locked().unkept);
                for used in &taken {
                    window.add(*used, budget.per, now_ms);
                }
                (change(window, budget, now_ms), *window, now_ms)
            });
            match done {
                Ok(((changed, window, now_ms), seen)) => {
                    let mut state = ledger.locked();
                    (state.window, state.seen) = (window, Some(seen));
                    drop(state);
                    ledger.tell(&window, now_ms);
                    Ok(changed)
                }
                Err(unusable) => {
                    ledger.locked().unkept.append(&mut taken);
                    Err(unusable)
                }
            }
        });
        let unended = |error: tokio::task::JoinError| Unusable {
            why: error.to_string(),
            kind: Trouble::Unfit,
        };
        work.await.unwrap_or_else(|error| Err(unended(error)))
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
