//! A call of a CLI, and the decision which kind of exchange each attempt is.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::ask;
use super::cli_attempt::{CliAttempt, CliCall};
use super::quota::Plan;
use super::retry_loop::{AttemptOutcome, RetryableCall};
use super::session::drive::EngineResult;
use super::session::forms::KeptCall;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::RunInfo;
use dfp_model::retry::Policy;
use dfp_model::retry::quota::QuotaWait;

/// A call, and the processes that may take it.
pub(super) struct KeptOrPrinted<'a> {
    pub call: CliCall<'a>,
    /// The call as kept processes take it, the best first.
    pub kept: &'a [KeptCall],
}

impl RetryableCall for KeptOrPrinted<'_> {
    fn retry(&self) -> &Policy {
        &self.call.engine.options.retry
    }

    fn quota(&self) -> Option<QuotaWait> {
        self.call.request.options.quota_or(self.call.engine.options.quota)
    }

    fn timeout(&self) -> Option<Duration> {
        self.call.request.options.timeout_or(self.call.engine.options.timeout)
    }

    fn plan(&self) -> Plan<'_> {
        let model = self
            .call
            .request
            .provider_options(self.call.engine)
            .choices
            .model
            .as_deref();
        Plan {
            used_up: &self.call.engine.used_up,
            env: Some(self.call.base_env),
            model: model.unwrap_or_default(),
        }
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
        self.call.keep_dropped();
        let outcome = self.made(&attempt, info).await;
        match &outcome {
            Ok(AttemptOutcome::FlagRefused(flag)) => self.call.drop_flag(flag)?,
            Ok(AttemptOutcome::SchemaRefused(reason)) => self.call.drop_schema(reason),
            _ => {}
        }
        match outcome {
            Err(error) => Err(ask::with_node(self.call.engine, error, self.call.base_env, self.call.cancel).await),
            Ok(outcome) => Ok(outcome),
        }
    }
}

impl KeptOrPrinted<'_> {
    /// Makes the attempt with the first engine that takes it: with a kept process, or with one of its own.
    async fn made(&self, attempt: &CliAttempt<'_>, info: &mut RunInfo) -> Result<AttemptOutcome, Box<ProviderError>> {
        for call in self.kept {
            match call.attempt(attempt, info).await? {
                EngineResult::Outcome(outcome) => return Ok(outcome),
                EngineResult::Next(told) => self.call.sink.send(&mut told.into_iter().collect()).await,
            }
        }
        if !self.call.engine.provider.has_print() {
            let reason =
                "an agent is asked for an answer alone: it can't be handed a server of tools, nor be watched at work";
            return Err(self.call.engine.refuse(Code::UnsupportedContent, reason));
        }
        attempt.print(info).await
    }
}
