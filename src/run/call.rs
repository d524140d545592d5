//! The frame of every call, whether a CLI or an API answers it: it reports itself from its beginning to its end.
//!
//! In: the handles of a call. Out: its [`Sink`], with a log that has begun if one is wanted, and the call's end.

use tokio_util::sync::CancellationToken;

use super::lifecycle::{CallHandles, Lifecycle};
use super::log::RunRedactor;
use super::request::CallOptions;
use super::retry_loop::{self, RetryableCall};
use super::sink::Sink;
use super::{handle::Ended, record};
use dfp_model::error::ProviderError;
use dfp_record::runlog::Prompt;
use dfp_text::redact::Redactor;

/// Makes the sink for the events of a call. `recorded` is its thread as its log has it; `redactor` takes its secrets out.
///
/// # Errors
/// `INVALID_OPTION` if the log can't be begun.
pub(super) async fn sink(
    provider: &Lifecycle,
    handles: CallHandles,
    options: &CallOptions,
    recorded: Option<Prompt>,
    redactor: RunRedactor,
) -> Result<Sink, Box<ProviderError>> {
    let CallHandles { log, consumer, cancel } = handles;
    let recorder = match &options.record {
        Some(record) => Some(
            record
                .begin_call(provider.id(), log.run_id(), recorded, Redactor::clone(&redactor))
                .await
                .map_err(|(code, reason)| provider.refuse(code, reason))?,
        ),
        None => None,
    };
    let sink = Sink::of_call(options, consumer, log, recorder);
    let sink = sink.redacting(redactor).ending_with(&cancel);
    Ok(sink.counting(provider.ledger.clone()))
}

/// Makes `call` to its end, and once more if the reply does not fit. All of the call's log is written when this returns.
pub(super) async fn answer(call: &mut (impl RetryableCall + Send), cancel: &CancellationToken, sink: &Sink) -> Ended {
    let ended = retry_loop::answer(call, cancel, sink).await;
    sink.close(record::end_of(&ended).as_ref()).await;
    ended
}
