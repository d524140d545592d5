//! A budget that no provider has: what a face's own keys may use.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;
use serde_json::json;

use super::environment::promise;
use super::{Made, from_json, outcome};
use crate::budget::{Admitted, Used};
use crate::ledger::{self, Ledger, Refused};
use crate::process::activity::now_ms;

/// What may be used in a window of time, and what was.
#[napi]
pub struct NativeBudget {
    made: Made<Ledger>,
}

/// What a request is known to have used.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reported {
    tokens: Option<u64>,
    cost_usd: Option<f64>,
}

#[napi]
impl NativeBudget {
    /// `name`: by what it is called in `status`. `options_json`: `{"budget": …}` as a provider's option. `check` says whether it can be
    /// one.
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

    /// Lets a request in: `{"ok": {window}}`, `{"ok": {usedUp: {limit, what, resetsAt}}}`, or `{"err": …}` where its store can't be used.
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

    /// Gives back what was let in as of this `window`. Settles with `{"ok": null}` in any case but a bug: what was not taken stays counted.
    #[napi(catch_unwind)]
    pub fn give_back<'env>(&self, env: &'env Env, window: String) -> napi::Result<PromiseRaw<'env, String>> {
        let ledger = Arc::clone(self.made.get()?);
        let number: u64 = from_json(&window)?;
        promise(env, async move {
            let _kept = ledger.give_back(Admitted(number), now_ms()).await;
            outcome(Ok(()))
        })
    }

    /// Counts `used_json`, `{tokens, costUsd}` as far as they are known: `{"ok": true}`, or `{"ok": false}` where the store has not taken
    /// it, which it is to do with the next request.
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

    /// It is over: `status` shows it no more.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        if let Ok(ledger) = self.made.get() {
            ledger.hide();
        }
    }
}
