//! Counts the usage of budgets, in this process or in a file that several processes share.
//!
//! In: requests that want to begin, and their usage. Out: whether they may begin ([`Ledger::admit`]). `budget` defines how usage
//! counts; this module keeps the count, and makes sure that nobody counts beside it.
//!
//! A request is counted before it begins, so that of several at the same time no more are admitted than the budget allows. A
//! process that is killed in between has used its request: only a request that is known not to have begun is given back.

mod file;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use dfp_model::budget::{Admitted, Budget, PlanWindow, PlanWindows, Used, UsedUp, Window};
use dfp_model::error::{Code, ProviderError};
use dfp_process::activity::{self, BudgetActivity};
use dfp_provider::classify;
use dfp_provider::options;
use file::{Look, Seen, Trouble, Unusable};

/// The number of the next ledger, by which `status` knows it.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The usage of the budget of one provider object, or of all that share its store.
#[derive(Debug)]
pub struct Ledger {
    number: u64,
    provider: String,
    budget: Budget,
    state: Mutex<LedgerState>,
    /// The windows of the plan, as answers have told them.
    plan: Mutex<PlanWindows>,
    /// The warning that costs are unknown was given.
    warned: AtomicBool,
}

/// The state of a ledger in this process.
#[derive(Debug, Default)]
struct LedgerState {
    /// The window. With a store, this is its state when the store was last read.
    window: Window,
    /// The store's file as it was then.
    seen: Option<Seen>,
    /// Usage that the store did not take. The next request tries again.
    unkept: Vec<Used>,
}

/// The reason why a request may not begin.
#[derive(Debug)]
pub enum Refused {
    UsedUp(UsedUp),
    /// The store can't be used, for this reason.
    Store(String),
    /// Another process has locked the store for too long.
    Busy(String),
    /// The store can't be used at the moment: the disk is full, too many files are open, or somebody has emptied it.
    Passing(String),
}

/// A flag that is set when this is dropped, because nobody waits any more.
struct LedgerWaiter(Arc<AtomicBool>);

impl Drop for LedgerWaiter {
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

/// A ledger for the budget in `options_json`, `{"budget": …}`. `name` stands for the provider.
///
/// # Errors
/// `INVALID_OPTION`, naming the option, its value and what is allowed; also if there is no budget.
pub fn of_options(name: &str, options_json: &str) -> Result<Ledger, Box<ProviderError>> {
    let refuse = |reason| Box::new(ProviderError::new(name, Code::InvalidOption, reason));
    let map = options::checked(name, &[options::BUDGET], options_json)?;
    match options::budget(&map).map_err(refuse)? {
        Some(Budget { plan: Some(_), .. }) => Err(refuse(
            "option \"budget.plan\" is a provider's: a key has no plan of its own".to_owned(),
        )),
        Some(budget) => Ok(Ledger::new(name, budget)),
        None => Err(refuse("option \"budget\" must be an object with limits".to_owned())),
    }
}

impl Ledger {
    /// A ledger of `budget`, whose usage `provider` makes. The store is not touched before the first request.
    pub fn new(provider: &str, mut budget: Budget) -> Ledger {
        // The path is made absolute, so that it stays valid when the process changes its folder. An invalid path is reported by the
        // first request.
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
            plan: Mutex::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// The id of the provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// `true`, once, if the budget limits costs: the caller then warns that an answer has no known cost.
    pub fn misses_cost(&self) -> bool {
        self.budget.cost_usd.is_some() && !self.warned.swap(true, Ordering::Relaxed)
    }

    /// Notes what an answer has told of a window of the plan.
    pub fn note_plan(&self, window: PlanWindow) {
        self.plan().note(window);
    }

    fn plan(&self) -> MutexGuard<'_, PlanWindows> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hides the ledger from `status`, because its provider is closed.
    pub fn hide(&self) {
        activity::forget_budget(self.number);
    }

    /// Admits a request and counts it, before it begins. If the future is dropped while it waits for the store, nothing is counted.
    ///
    /// # Errors
    /// [`Refused`]; nothing was counted.
    pub async fn admit(self: &Arc<Self>, now_ms: u64) -> Result<Admitted, Refused> {
        if let Some(share) = self.budget.plan {
            self.plan().check(share, now_ms).map_err(Refused::UsedUp)?;
        }
        let waiting = LedgerWaiter(Arc::default());
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

    /// Returns the count of a request that did not begin.
    ///
    /// # Errors
    /// The reason why the store did not take it. The request then stays counted.
    pub async fn give_back(self: &Arc<Self>, admitted: Admitted, now_ms: u64) -> Result<(), String> {
        let given = self.change(now_ms, Arc::default(), move |window, _, _| window.give_back(admitted));
        given.await.map_err(|unusable| unusable.why)
    }

    /// Counts the usage of a request.
    ///
    /// # Errors
    /// The reason why the store did not take it. The usage is counted with the next request, which is refused if that fails, too.
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

    /// Changes the window, and returns once the change is stored. `change` gets the time in ms since the epoch: `now_ms`, or with a
    /// store the time at which that was free.
    ///
    /// # Errors
    /// The store can't be used, or the change `is_abandoned`.
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
        // The disk may be slow, and another process may have the lock.
        let began = Instant::now();
        let work = tokio::task::spawn_blocking(move || {
            let budget = &ledger.budget;
            // The usage is taken only once the file is locked, so that waiting for the lock holds up no other call.
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

    fn locked(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the window for `status`. A budget of the plan alone has no window of its own: those of the plan are shown there already.
    fn tell(&self, window: &Window, now_ms: u64) {
        let budget = &self.budget;
        if (budget.requests, budget.tokens, budget.cost_usd) == (None, None, None) {
            return;
        }
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
                    plan: budget.plan,
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
