//! One call of a CLI: which kind of exchange each attempt is.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::cli_attempt::{CliAttempt, CliCall};
use super::quota::UsedUp;
use super::request::QuotaChoice;
use super::retry_loop::{AttemptOutcome, RetryableCall};
use super::session::drive::{Reading, Way};
use super::session::kept::KeptCall;
use super::session::warm::{self, WarmServers};
use crate::classify::OLD_NODE;
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
        self.call
            .request
            .options
            .quota
            .map_or(self.call.engine.options.quota, QuotaChoice::wait)
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
            Err(error) if error.message.starts_with(OLD_NODE) => Err(self.call.with_node(error).await),
            outcome => outcome,
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

impl CliCall<'_> {
    /// `error`, which an old Node is the cause of, with its version and where it is: the CLI tells neither.
    async fn with_node(&self, mut error: Box<ProviderError>) -> Box<ProviderError> {
        let Ok(Some(node)) = self.engine.resolved(self.base_env).map(|found| found.interpreter) else {
            return error;
        };
        let asked = self.engine.interpreter_version(&node, self.base_env, self.cancel);
        if let Some(version) = asked.await {
            let named = format!("{OLD_NODE}, Node {version} ({})", node.display());
            error.message = error.message.replacen(OLD_NODE, &named, 1);
        }
        error
    }
}
