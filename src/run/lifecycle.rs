//! From a provider object's first call to its close, whatever it asks: a CLI or an API.
//!
//! In: the work of one call. Out: a [`Run`] that counts as one of the provider's, is refused when that was closed, and ends with it.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handle::{Ended, Run};
use super::log::Log;
use crate::error::ProviderError;
use crate::event::Event;

/// Why a closed provider takes no call.
pub(super) const CLOSED: &str = "the provider was closed";

/// What a provider's calls share of beginning and end.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// Cancelled when the provider is closed.
    pub closing: CancellationToken,
    /// No further call begins; those that have go on.
    draining: CancellationToken,
    /// Those that go on or wait.
    calls: TaskTracker,
    /// Everything that has to be over when the provider is closed.
    pub runs: TaskTracker,
}

/// What a call works with: its records, where its events go, and what ends it.
pub(super) struct CallHandles {
    pub log: Arc<Log>,
    pub consumer: mpsc::Sender<Event>,
    pub cancel: CancellationToken,
}

impl Lifecycle {
    /// Begins `work` as a call of `provider`. `closed` makes the error of one that comes too late.
    pub fn begin<F>(
        &self,
        provider: Cow<'static, str>,
        closed: impl FnOnce() -> Box<ProviderError> + Send + 'static,
        work: impl FnOnce(CallHandles) -> F + Send + 'static,
    ) -> Run
    where
        F: Future<Output = Result<Ended, Box<ProviderError>>> + Send + 'static,
    {
        let (closing, cancel) = (self.closing.clone(), self.closing.child_token());
        // Decided now: what was begun before `drain` is not refused by it.
        let (refused, call) = (self.refuses(), self.calls.token());
        Run::begin(provider, cancel.clone(), &self.runs, move |log, consumer| async move {
            let _call = call;
            if refused || closing.is_cancelled() {
                return Ended::Failed(closed());
            }
            if cancel.is_cancelled() {
                return Ended::Cancelled;
            }
            let handles = CallHandles { log, consumer, cancel };
            work(handles).await.unwrap_or_else(Ended::Failed)
        })
    }

    /// Whether it takes no further call.
    pub fn refuses(&self) -> bool {
        self.is_closed() || self.draining.is_cancelled()
    }

    /// Whether those that go on are ended.
    pub fn is_closed(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Takes no further calls from now on; those that run or wait go on.
    pub fn refuse_further(&self) {
        self.draining.cancel();
    }

    /// Lets the calls that run or wait come to their ends, and takes no further ones. [`Lifecycle::close`] ends it.
    pub async fn drain(&self) {
        self.refuse_further();
        self.calls.close();
        self.calls.wait().await;
    }

    /// Ends all runs and waits until nothing of them is left.
    pub async fn close(&self) {
        self.closing.cancel();
        self.runs.close();
        self.runs.wait().await;
    }
}
