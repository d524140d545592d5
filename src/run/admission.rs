//! The one door by which attempts come to a provider that has a budget: whoever asks, and whatever answers.
//!
//! In: an attempt that is to be made, and what is known of it afterwards. Out: that it is counted, or the error of a budget that is used up.

use serde_json::json;

use super::log::Level;
use super::sink::Sink;
use crate::budget::Admitted;
use crate::error::ProviderError;

/// An attempt that may be made.
pub(super) struct Admission(Option<Admitted>);

/// Lets an attempt in.
///
/// # Errors
/// `BUDGET_EXCEEDED`; `INVALID_OPTION` where the store of the budget can't be used, and `OVERLOADED` where another process keeps it.
pub(super) async fn admit(sink: &Sink, now_ms: u64) -> Result<Admission, Box<ProviderError>> {
    let Some(ledger) = &sink.ledger else {
        return Ok(Admission(None));
    };
    let mut error = match ledger.admit(now_ms).await {
        Ok(admitted) => return Ok(Admission(Some(admitted))),
        Err(refused) => refused.into_error(ledger.provider()),
    };
    sink.log.say(
        Level::Warn,
        "refused",
        json!({"code": error.code, "resetsAt": error.resets_at}),
    );
    sink.redactor().clean_error(&mut error);
    Err(error)
}

impl Admission {
    /// The attempt is over; it `has_asked` the provider, or nobody. What it has used the sink was told.
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
        // The answer is there: it is the next attempt that is refused.
        if let Err(why) = kept {
            sink.log.say(Level::Error, "not counted", json!({"why": why}));
        }
    }
}
