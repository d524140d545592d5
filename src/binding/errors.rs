//! What decides for JavaScript whether a request is made at all, or once more: the list of error codes, the classification of a text, a
//! provider's circuit breaker, and a budget that belongs to no provider, which is the limit of a gateway's key.

use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;
use serde_json::json;

use super::{Made, from_json, outcome, promise};
use dfp_model::budget::{Admitted, Used};
use dfp_model::error::{Category, Code};
use dfp_model::message::well_formed;
use dfp_model::retry::{Admission, Breaker, CallOutcome, Ticket};
use dfp_process::activity::now_ms;
use dfp_process::local_offset_min;
use dfp_provider::{classify, options};
use dfp_run::ledger::{self, Ledger, Refused};

/// Every category with its guidance, and every code with its category and whether it falls back, as JSON. A test holds index.d.ts
/// against it.
#[napi(catch_unwind)]
pub fn error_codes() -> String {
    let categories = Category::ALL.map(|category| {
        json!({
            "category": category.as_str(),
            "shouldRetry": category.should_retry(),
            "shouldFallback": category.should_fallback(),
        })
    });
    let codes = Code::ALL.iter().map(|code| {
        json!({
            "code": code.as_str(),
            "category": code.category().as_str(),
            "shouldFallback": code.should_fallback(),
        })
    });
    json!({"categories": categories, "codes": codes.collect::<Vec<_>>()}).to_string()
}

/// Classifies an error text: `{"ok": error}` at the time `now_ms`, or `{"err": …}` that says what is wrong with `context_json`.
#[napi(catch_unwind)]
pub fn classify_error(text: String, context_json: String, now_ms: f64) -> String {
    let now_ms = now_ms as u64;
    let offset = local_offset_min(now_ms);
    outcome(classify::classify_with_context(
        &text,
        &well_formed(context_json),
        now_ms,
        offset,
    ))
}

/// Checks the options of `createFallbackProvider`: `{"ok": boolean}`, `true` if there are circuit breakers, or `{"err": …}`.
#[napi(catch_unwind)]
pub fn check_fallback_options(options_json: String) -> String {
    let settings = options::breaker_settings(&options_json);
    outcome(settings.map(|settings| settings.is_some()))
}

/// The circuit breaker of one provider. Times are ms since the epoch, by the caller's clock.
#[napi]
pub struct NativeBreaker {
    breaker: Mutex<Breaker>,
}

#[napi]
impl NativeBreaker {
    /// Makes a breaker of options that have passed [`check_fallback_options`].
    #[napi(constructor, catch_unwind)]
    pub fn new(options_json: String) -> napi::Result<Self> {
        let settings = options::breaker_settings(&options_json)
            .map_err(|error| napi::Error::from_reason(error.message.clone()))?
            .unwrap_or_default();
        Ok(NativeBreaker {
            breaker: Mutex::new(Breaker::new(settings)),
        })
    }

    /// Asks for permission to call: `{"ticket": number}`, or `{"wait": until}`.
    #[napi(catch_unwind)]
    pub fn admit(&self, now_ms: f64) -> String {
        match self.lock().admit(now_ms as u64) {
            Admission::Go(ticket) => json!({"ticket": ticket.number()}).to_string(),
            Admission::Wait(until) => json!({"wait": until}).to_string(),
        }
    }

    /// Reports that the call of `ticket` was answered.
    #[napi(catch_unwind)]
    pub fn succeeded(&self, ticket: f64, now_ms: f64) {
        self.report(ticket, CallOutcome::Success, now_ms);
    }

    /// Reports that the call of `ticket` failed.
    #[napi(catch_unwind)]
    pub fn failed(&self, ticket: f64, now_ms: f64) {
        self.report(ticket, CallOutcome::Failure, now_ms);
    }

    /// Reports that the call of `ticket` found a limit used up, until `resets_at` if that is known.
    #[napi(catch_unwind)]
    pub fn used_up(&self, ticket: f64, now_ms: f64, resets_at: Option<f64>) {
        self.report(ticket, CallOutcome::Quota(resets_at.map(|at| at as u64)), now_ms);
    }

    /// Reports that the call of `ticket` ended without showing anything about the provider.
    #[napi(catch_unwind)]
    pub fn passed(&self, ticket: f64, now_ms: f64) {
        self.report(ticket, CallOutcome::Neither, now_ms);
    }
}

impl NativeBreaker {
    fn lock(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, ticket: f64, outcome: CallOutcome, now_ms: f64) {
        self.lock()
            .report(Ticket::from_number(ticket as u64), outcome, now_ms as u64);
    }
}

/// The limit of a window of time, and how much of it is used.
#[napi]
pub struct NativeBudget {
    made: Made<Ledger>,
}

/// The reported usage of a request.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reported {
    tokens: Option<u64>,
    cost_usd: Option<f64>,
}

#[napi]
impl NativeBudget {
    /// `name` is shown in `status`. `options_json` is `{"budget": …}` as for a provider; `check` reports what is wrong with it.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: String, options_json: String) -> Self {
        NativeBudget {
            made: Made(ledger::of_options(&name, &options_json).map(Arc::new)),
        }
    }

    /// `{"ok": null}`, or `{"err": …}` that names the option.
    #[napi(catch_unwind)]
    pub fn check(&self) -> String {
        self.made.check()
    }

    /// Admits a request: `{"ok": {window}}`, `{"ok": {usedUp: {limit, what, resetsAt}}}`, or `{"err": …}` if the store can't be
    /// used.
    #[napi(catch_unwind)]
    pub fn admit<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let ledger = Arc::clone(self.made.get()?);
        promise(env, async move {
            outcome(match ledger.admit(now_ms()).await {
                Ok(admitted) => Ok(json!({"window": admitted.0.to_string()})),
                Err(Refused::UsedUp(used_up)) => Ok(json!({"usedUp": used_up})),
                Err(refused) => Err(refused.into_error(ledger.provider())),
            })
        })
    }

    /// Returns the admission of a request that was not made, in the window `window`. Settles with `{"ok": null}`; if the store
    /// fails, the request stays counted.
    #[napi(catch_unwind)]
    pub fn give_back<'env>(&self, env: &'env Env, window: String) -> napi::Result<PromiseRaw<'env, String>> {
        let ledger = Arc::clone(self.made.get()?);
        let number: u64 = from_json(&window)?;
        promise(env, async move {
            let _kept = ledger.give_back(Admitted(number), now_ms()).await;
            outcome(Ok(()))
        })
    }

    /// Counts `used_json`, `{tokens, costUsd}` as far as they are known: `{"ok": true}`, or `{"ok": false}` if the store did not
    /// take them. They are then counted with the next request.
    #[napi(catch_unwind)]
    pub fn settle<'env>(&self, env: &'env Env, used_json: String) -> napi::Result<PromiseRaw<'env, String>> {
        let ledger = Arc::clone(self.made.get()?);
        let reported: Reported = from_json(&used_json)?;
        promise(env, async move {
            let used = Used {
                tokens: reported.tokens.unwrap_or_default(),
                cost_usd: reported.cost_usd,
                answered: reported.tokens.is_some(),
            };
            outcome(Ok(ledger.settle(used, now_ms()).await.is_ok()))
        })
    }

    /// Ends the budget: `status` no longer shows it.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        if let Ok(ledger) = self.made.get() {
            ledger.hide();
        }
    }
}
