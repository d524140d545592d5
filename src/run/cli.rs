//! One call of a CLI: which kind of exchange each attempt is.

use std::sync::OnceLock;
use std::time::Instant;

use super::cli_attempt::{CliAttempt, CliCall};
use super::live_request::LiveCall;
use super::live_sessions::Live;
use super::quota::UsedUp;
use super::request::QuotaChoice;
use super::retry_loop::{AttemptOutcome, RetryableCall};
use crate::error::ProviderError;
use crate::event::RunInfo;
use crate::retry::Policy;
use crate::retry::quota::QuotaWait;

impl RetryableCall for CliCall<'_> {
    fn retry(&self) -> &Policy {
        &self.engine.options.retry
    }

    fn quota(&self) -> Option<QuotaWait> {
        self.request
            .options
            .quota
            .map_or(self.engine.options.quota, QuotaChoice::wait)
    }

    fn plan(&self) -> (&UsedUp, &str) {
        let model = self.request.provider_options(self.engine).choices.model.as_deref();
        (&self.engine.used_up, model.unwrap_or_default())
    }

    fn login(&self) -> Option<&str> {
        self.engine.login()
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.engine.closed()
    }

    async fn attempt(
        &self,
        number: u32,
        began: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let attempt = CliAttempt {
            call: self,
            number,
            began,
        };
        match (&self.engine.live, &self.request.live) {
            (Some(Live::Claude(live)), Some(LiveCall::Claude(request))) => attempt.live(live, request, info).await,
            (Some(Live::Qwen(live)), Some(LiveCall::Qwen(request))) => attempt.qwen_live(live, request, info).await,
            (Some(Live::Codex(live)), Some(LiveCall::Codex(request))) => attempt.codex_live(live, request, info).await,
            (Some(Live::Opencode(live)), Some(LiveCall::Opencode(request))) => {
                attempt.opencode_live(live, request, info).await
            }
            _ => attempt.without_session(info).await,
        }
    }
}
