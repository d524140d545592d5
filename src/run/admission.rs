//! Admission of attempts to a provider that has a budget: the one place that every attempt passes, of a CLI or an API.
//!
//! In: an attempt before it is made, and its usage afterwards. Out: the count of the attempt, or the error of a budget that is used
//! up.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::log::Level;
use super::sink::Sink;
use dfp_model::budget::Admitted;
use dfp_model::error::{Code, ProviderError};
use dfp_provider::classify;

/// An attempt that may be made.
pub(super) struct Admission(Option<Admitted>);

/// Waits until the budget admits an attempt.
///
/// # Errors
/// `BUDGET_EXCEEDED`; `INVALID_OPTION` where the store of the budget can't be used; `OVERLOADED` where it can't be just now, and `TIMEOUT`
/// where that takes longer than `limit`.
pub(super) async fn admit(sink: &Sink, now_ms: u64, limit: Option<Duration>) -> Result<Admission, Box<ProviderError>> {
    let Some(ledger) = &sink.ledger else {
        return Ok(Admission(None));
    };
    let admitted = match limit {
        Some(limit) => timeout(limit, ledger.admit(now_ms))
            .await
            .map_err(|_| late(ledger.provider(), limit)),
        None => Ok(ledger.admit(now_ms).await),
    };
    let mut error = match admitted {
        Ok(Ok(admitted)) => return Ok(Admission(Some(admitted))),
        Ok(Err(refused)) => refused.into_error(ledger.provider()),
        Err(error) => error,
    };
    sink.log.say(
        Level::Warn,
        "refused",
        json!({"code": error.code, "resetsAt": error.resets_at}),
    );
    sink.redactor().clean_error(&mut error);
    Err(error)
}

fn late(provider: &str, limit: Duration) -> Box<ProviderError> {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let reason =
        format!("no answer within {limit_ms} ms: another process kept the store of the budget, so nothing was asked");
    let error = ProviderError::new(provider, Code::Timeout, reason);
    Box::new(error.with_hint(classify::time_limit_hint(Code::Timeout, limit_ms)))
}

impl Admission {
    /// Ends the attempt; `has_asked` says whether a request reached the provider. The sink knows the attempt's usage.
    pub async fn settle(self, sink: &Sink, has_asked: bool, now_ms: u64) {
        let used = sink.take_used();
        let (Admission(Some(admitted)), Some(ledger)) = (self, &sink.ledger) else {
            return;
        };
        let kept = match (has_asked, used) {
            (false, _) => ledger.give_back(admitted, now_ms).await,
            (true, Some(used)) => ledger.settle(used, now_ms).await,
            (true, None) => Ok(()),
        };
        // The answer is there, so the next attempt is refused instead.
        if let Err(why) = kept {
            sink.log.say(Level::Error, "not counted", json!({"why": why}));
        }
    }
}
