//! A budget that belongs to no provider: the limit of a gateway's key.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;
use serde_json::json;

use super::environment::promise;
use super::{Made, from_json, outcome};
use dfp_model::budget::{Admitted, Used};
use dfp_process::activity::now_ms;
use dfp_run::ledger::{self, Ledger, Refused};

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
