//! A call of a CLI: its engines, one of which makes each attempt.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::admission::Plan;
use super::attempt::AttemptOutcome;
use super::cli_attempt::{CliAttempt, CliCall, Dropped};
use super::cli_request::CliRequest;
use super::engine::Engine;
use super::reply_check::RejectedReply;
use super::retry_loop::RetryableCall;
use super::session::forms::EngineCall;
use super::sink::Sink;
use super::version_probe;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::RunInfo;
use dfp_model::message::Message;
use dfp_model::retry::Policy;
use dfp_model::retry::quota::QuotaWait;
use dfp_process::Vars;

/// A call, and the engines that may make it.
pub(super) struct CallByEngines<'a> {
    pub engine: &'a Arc<Engine>,
    pub base_env: &'a Arc<Vars>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
    pub request: CliRequest,
    /// The call as each engine takes it, the best first.
    pub engines: Vec<EngineCall>,
    pub dropped: Dropped,
}

impl RetryableCall for CallByEngines<'_> {
    fn retry(&self) -> &Policy {
        &self.engine.options.retry
    }

    fn quota(&self) -> Option<QuotaWait> {
        self.request.options.quota_or(self.engine.options.quota)
    }

    fn timeout(&self) -> Option<Duration> {
        self.request.options.timeout_or(self.engine.options.timeout)
    }

    fn plan(&self) -> Plan<'_> {
        let model = self.request.provider_options(self.engine).choices.model.as_deref();
        Plan {
            used_up: &self.engine.used_up,
            env: Some(self.base_env),
            model: model.unwrap_or_default(),
        }
    }

    fn login(&self) -> Option<&str> {
        self.engine.login()
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.engine.closed()
    }

    /// Makes the attempt with the first engine that takes it.
    async fn attempt(
        &self,
        number: u32,
        began: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let call = CliCall {
            engine: &self.engine.base,
            request: &self.request,
            base_env: self.base_env,
            cancel: self.cancel,
            sink: self.sink,
            dropped: &self.dropped,
        };
        let attempt = CliAttempt {
            call: &call,
            number,
            began,
            clock: OnceLock::new(),
        };
        call.keep_dropped();
        for engine in &self.engines {
            let outcome = match engine.attempt(&attempt, info).await {
                Ok(None) => continue,
                Ok(Some(outcome)) => outcome,
                Err(error) => {
                    return Err(version_probe::with_node(self.engine, error, self.base_env, self.cancel).await);
                }
            };
            match &outcome {
                AttemptOutcome::FlagRefused(flag) => call.drop_flag(flag)?,
                AttemptOutcome::SchemaRefused(reason) => call.drop_schema(reason),
                _ => {}
            }
            return Ok(outcome);
        }
        let reason =
            "an agent is asked for an answer alone: it can't be handed a server of tools, nor be watched at work";
        Err(self.engine.refuse(Code::UnsupportedContent, reason))
    }

    fn extend(&mut self, messages: Vec<Message>, rejected: &RejectedReply) -> Result<(), Box<ProviderError>> {
        self.request.extend(self.engine, messages, rejected)?;
        self.engines = self.engine.calls_of(&mut self.request);
        self.dropped = Dropped::default();
        Ok(())
    }
}
