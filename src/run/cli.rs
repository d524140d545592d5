//! One call of a CLI: which kind of exchange each attempt is.

use std::sync::OnceLock;
use std::time::Instant;

use super::cli_attempt::{CliAttempt, CliCall};
use super::live_request::LiveCall;
use super::live_sessions::Live;
use super::quota::UsedUp;
use super::request::QuotaChoice;
use super::retry_loop::{AttemptOutcome, RetryableCall};
use crate::classify::OLD_NODE;
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
            clock: OnceLock::new(),
        };
        let outcome = match (&self.engine.live, &self.request.live) {
            (Some(Live::Claude(live)), Some(LiveCall::Claude(request))) => attempt.live(live, request, info).await,
            (Some(Live::Qwen(live)), Some(LiveCall::Qwen(request))) => attempt.qwen_live(live, request, info).await,
            (Some(Live::Codex(live)), Some(LiveCall::Codex(request))) => attempt.codex_live(live, request, info).await,
            (Some(Live::Opencode(live)), Some(LiveCall::Opencode(request))) => {
                attempt.opencode_live(live, request, info).await
            }
            _ => attempt.without_session(info).await,
        };
        match outcome {
            Err(error) if error.message.starts_with(OLD_NODE) => Err(self.with_node(error).await),
            outcome => outcome,
        }
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
