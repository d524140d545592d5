//! What this process tells of itself: to its own JavaScript, and to `status` in other programs.

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;

use super::environment::promise;
use super::outcome;
use dfp_health::status;
use dfp_process::activity;

/// The value of `limits()` as JSON (`Limits` in index.d.ts).
#[napi(catch_unwind)]
pub fn limits() -> String {
    status::own().to_string()
}

/// Publishes the addresses of all gateways in this process, for `status` in other programs. Settles with `{"ok": null}`.
#[napi(catch_unwind)]
pub fn note_gateways(env: &Env, addresses: Vec<String>) -> napi::Result<PromiseRaw<'_, String>> {
    promise(env, async move {
        activity::note_gateways(addresses);
        outcome(Ok(()))
    })
}
