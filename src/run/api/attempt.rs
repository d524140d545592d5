//! One attempt of an API: queue, and an HTTP exchange.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::engine::ApiEngine;
use crate::api::answer::Answer;
use crate::declare::Tools;
use crate::error::ProviderError;
use crate::event::RunInfo;
use crate::exchange::http::client::Client;
use crate::exchange::http::{HttpExchange, HttpRequest};
use crate::fold::Fold;
use crate::judge::CliRules;
use crate::process::limit::{self, NestedPermit};
use crate::redact::{Redactor, Secret};
use crate::retry::Policy;
use crate::run::attempt::{Attempt, CallLimits, Opening, run_attempt};
use crate::run::clock::millis as ms;
use crate::run::log::Level;
use crate::run::retry_loop::{AttemptOutcome, RetryableCall};
use crate::run::sink::Sink;
use crate::toolcall::TextCalls;

/// One call of an API.
pub(super) struct ApiCall<'a> {
    pub engine: &'a ApiEngine,
    pub client: &'a Client,
    pub key: Option<&'a Secret>,
    /// Knows the request's own secrets.
    pub redactor: Redactor,
    pub body: Bytes,
    pub tools: Tools,
    pub call_ids: HashSet<String>,
    /// ms, instead of the provider's.
    pub timeout: Option<u64>,
    /// A place beside the queue.
    pub nested_permit: Option<NestedPermit>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

impl RetryableCall for ApiCall<'_> {
    fn retry(&self) -> &Policy {
        &self.engine.settings.retry
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
        let settings = &self.engine.settings;
        let place = settings.place();
        let permit = limit::global().acquire_or(
            self.nested_permit.as_ref(),
            &place,
            settings.max_concurrency,
            self.cancel,
        );
        let Ok(permit) = permit.await else {
            self.sink
                .log
                .say(Level::Info, "cancelled in the queue", json!({"attempt": number}));
            return Ok(AttemptOutcome::Cancelled);
        };
        began.get_or_init(Instant::now);
        info.queued_ms = Some(ms(permit.queued()));
        let limit = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
        let attempt = Attempt {
            provider: self.engine.id(),
            rules: CliRules::default(),
            limits: CallLimits {
                timeout: self.timeout.map_or(settings.timeout, limit),
                idle_timeout: settings.idle_timeout,
                max_output: settings.max_buffer,
            },
            number,
            cancel: self.cancel,
            sink: self.sink,
            prompt: String::from_utf8_lossy(&self.body),
            fold: Fold::new(self.call_ids.clone(), TextCalls::Off).with_listener(self.sink.has_listener()),
            opening: Some(Opening {
                message: "started",
                fields: json!({"attempt": number, "stream": settings.stream, "bytes": self.body.len()}),
                notes: Vec::new(),
            }),
        };
        let request = HttpRequest {
            client: self.client,
            settings,
            key: self.key,
            body: self.body.clone(),
            redactor: &self.redactor,
            permit,
            tracker: &self.engine.lifecycle.runs,
            closing: self.engine.token(),
        };
        let exchange = HttpExchange::new(request, Answer::new(self.tools.clone(), self.redactor.clone()));
        Ok(run_attempt(attempt, exchange, info).await?.outcome())
    }
}
