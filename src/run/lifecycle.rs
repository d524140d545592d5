//! The life of a provider object from its first call to its close, whether it calls a CLI or an API.
//!
//! In: the work of one call. Out: a [`Run`] that counts as one of the provider's; it is refused if the provider was closed, and
//! ends with the provider.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handle::{Ended, Run};
use super::log::Log;
use crate::ledger::Ledger;
use dfp_model::budget::Budget;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::Event;
use dfp_provider::classify;

/// The reason for which a closed provider takes no call.
const CLOSED: &str = "the provider was closed";

/// The state of beginning and end that the calls of one provider object share.
#[derive(Debug)]
pub struct Lifecycle {
    identity: Identity,
    /// Cancelled when the provider is closed.
    pub(super) closing: CancellationToken,
    /// Cancelled when no further call may begin; those that have begun go on.
    draining: CancellationToken,
    /// The calls that go on or wait.
    calls: TaskTracker,
    /// The tasks that have to be over before the provider is closed.
    pub(super) runs: TaskTracker,
    /// The rest of the provider's budget, if it has one.
    pub(super) ledger: Option<Arc<Ledger>>,
}

/// The names by which a provider speaks of itself.
#[derive(Debug, Clone)]
struct Identity {
    id: Cow<'static, str>,
    /// The id of the provider whose hints its errors give; `None` means its own.
    hints: Option<&'static str>,
}

impl Identity {
    fn refuse(&self, code: Code, reason: impl Into<String>) -> Box<ProviderError> {
        let hint = classify::hint(self.hints.unwrap_or(&self.id), code);
        Box::new(ProviderError::new(&self.id, code, reason).with_hint(hint))
    }
}

/// The handles of a call: its records, the receiver of its events, and the token that cancels it.
pub(super) struct CallHandles {
    pub log: Arc<Log>,
    pub consumer: mpsc::Sender<Event>,
    pub cancel: CancellationToken,
}

impl Lifecycle {
    /// Creates the lifecycle of a provider with the id `id`, whose errors give the hints of `hints`, or those of `id` if that is
    /// `None`.
    pub(super) fn new(id: Cow<'static, str>, hints: Option<&'static str>) -> Lifecycle {
        Lifecycle {
            identity: Identity { id, hints },
            closing: CancellationToken::new(),
            draining: CancellationToken::new(),
            calls: TaskTracker::new(),
            runs: TaskTracker::new(),
            ledger: None,
        }
    }

    /// Returns this lifecycle with a budget.
    pub(super) fn with_budget(self, budget: Option<Budget>) -> Lifecycle {
        let ledger = budget.map(|budget| Arc::new(Ledger::new(self.id(), budget)));
        Lifecycle { ledger, ..self }
    }

    /// The provider's id.
    pub fn id(&self) -> &str {
        &self.identity.id
    }

    /// Begins `work` as a call of the provider.
    pub(super) fn begin<F>(&self, work: impl FnOnce(CallHandles) -> F + Send + 'static) -> Run
    where
        F: Future<Output = Result<Ended, Box<ProviderError>>> + Send + 'static,
    {
        let (identity, closing, cancel) = (self.identity.clone(), self.closing.clone(), self.closing.child_token());
        // This is decided now, so that `drain` does not refuse calls that began before it.
        let (refused, call) = (self.refuses(), self.calls.token());
        Run::begin(
            identity.id.clone(),
            cancel.clone(),
            &self.runs,
            move |log, consumer| async move {
                let _call = call;
                if refused || closing.is_cancelled() {
                    return Ended::Failed(identity.refuse(Code::Closed, CLOSED));
                }
                if cancel.is_cancelled() {
                    return Ended::Cancelled;
                }
                let handles = CallHandles { log, consumer, cancel };
                work(handles).await.unwrap_or_else(Ended::Failed)
            },
        )
    }

    /// The error of a call that is refused for this reason.
    pub(super) fn refuse(&self, code: Code, reason: impl Into<String>) -> Box<ProviderError> {
        self.identity.refuse(code, reason)
    }

    /// The error of a call to a provider that was closed, or is about to be; `None` for an open one.
    pub fn refusal(&self) -> Option<Box<ProviderError>> {
        self.refuses().then(|| self.refuse(Code::Closed, CLOSED))
    }

    /// The error of a call whose provider was closed during it.
    pub(super) fn closed(&self) -> Option<Box<ProviderError>> {
        let is_closed = self.closing.is_cancelled();
        is_closed.then(|| self.refuse(Code::Closed, CLOSED))
    }

    /// Returns whether the provider takes no further calls.
    fn refuses(&self) -> bool {
        self.closing.is_cancelled() || self.draining.is_cancelled()
    }

    /// The token that is cancelled when the provider is closed.
    pub fn token(&self) -> CancellationToken {
        self.closing.child_token()
    }

    /// Takes no further calls from now on; those that run or wait go on.
    pub fn refuse_further(&self) {
        self.draining.cancel();
    }

    /// Lets the calls that run or wait end by themselves, and takes no further ones. [`Lifecycle::end`] ends the wait.
    pub async fn drain(&self) {
        self.refuse_further();
        self.calls.close();
        self.calls.wait().await;
    }

    /// Ends all runs and waits until nothing of them is left. Later calls fail with `CLOSED`.
    pub(super) async fn end(&self) {
        self.closing.cancel();
        self.runs.close();
        self.runs.wait().await;
        if let Some(ledger) = &self.ledger {
            ledger.hide();
        }
    }
}
