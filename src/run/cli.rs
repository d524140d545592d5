//! One call of a CLI: which kind of exchange each attempt is.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::cli_attempt::{CliAttempt, CliCall};
use super::quota::UsedUp;
use super::retry_loop::{AttemptOutcome, RetryableCall};
use super::session::drive::{Reading, Way};
use super::session::kept::KeptCall;
use super::session::warm::{self, WarmServers};
use crate::error::ProviderError;
use crate::event::RunInfo;
use crate::retry::Policy;
use crate::retry::quota::QuotaWait;

/// A call, and the processes that may take it.
pub(super) struct KeptOrPrinted<'a> {
    pub call: CliCall<'a>,
    /// The call as kept processes take it.
    pub session: Option<&'a dyn KeptCall>,
    pub warm: Option<&'a Arc<WarmServers>>,
}

impl RetryableCall for KeptOrPrinted<'_> {
    fn retry(&self) -> &Policy {
        &self.call.engine.options.retry
    }

    fn quota(&self) -> Option<QuotaWait> {
        self.call.request.options.quota_or(self.call.engine.options.quota)
    }

    fn plan(&self) -> (&UsedUp, &str) {
        let model = self
            .call
            .request
            .provider_options(self.call.engine)
            .choices
            .model
            .as_deref();
        (&self.call.engine.used_up, model.unwrap_or_default())
    }

    fn login(&self) -> Option<&str> {
        self.call.engine.login()
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.call.engine.closed()
    }

    async fn attempt(
        &self,
        number: u32,
        began: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let attempt = CliAttempt {
            call: &self.call,
            number,
            began,
            clock: OnceLock::new(),
        };
        let outcome = self.made(&attempt, info).await;
        match outcome {
            Err(error) => Err(self
                .call
                .engine
                .with_node(error, self.call.base_env, self.call.cancel)
                .await),
            Ok(outcome) => Ok(outcome),
        }
    }
}

impl KeptOrPrinted<'_> {
    /// Made by the first engine that takes it: in a session, by itself in a warm process, by a process of its own.
    async fn made(&self, attempt: &CliAttempt<'_>, info: &mut RunInfo) -> Result<AttemptOutcome, Box<ProviderError>> {
        let sink = self.call.sink;
        if let Some(call) = self.session {
            let reading = Reading {
                notes: attempt.untold_note().into_iter().collect(),
                ..Reading::default()
            };
            match call.attempt(attempt, reading, info).await? {
                Way::Outcome(outcome) => return Ok(outcome),
                Way::Next(told) => sink.send(&mut told.into_iter().collect()).await,
            }
        }
        if let Some(servers) = self.warm {
            match warm::attempt(servers, attempt, info).await? {
                Way::Outcome(outcome) => return Ok(outcome),
                Way::Next(told) => sink.send(&mut told.into_iter().collect()).await,
            }
        }
        attempt.print(info).await
    }
}
