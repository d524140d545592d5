//! Errors for JavaScript: the list of codes, the classification of a text, and a provider's circuit breaker.

use std::sync::{Mutex, PoisonError};

use napi_derive::napi;
use serde_json::json;

use super::outcome;
use dfp_model::breaker::{Admission, Breaker, CallOutcome, Ticket};
use dfp_model::error::{Category, Code};
use dfp_model::message::well_formed;
use dfp_process::local_offset_min;
use dfp_provider::{classify, options};

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
