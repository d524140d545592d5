//! A call of a CLI, one of whose engines makes each attempt, and the parts that every attempt needs, whichever engine makes it.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, AttemptOutcome, AttemptStart, CallLimits};
use super::choices::ShownChoices;
use super::cli_provider::CliProvider;
use super::cli_request::{CliRequest, UNFIT, emulated};
use super::record::Sink;
use super::reply_check::RejectedReply;
use super::retry_loop::{Plan, RetryableCall, Waiting};
use super::session::forms::{self, EngineCall};
use super::{capabilities, commands};
use dfp_exchange::installed::Binary;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{EngineUsed, Event, RunInfo};
use dfp_model::message::Message;
use dfp_model::retry::{Policy, QuotaWait};
use dfp_process::limit::Permit;
use dfp_process::{ProcessLimits, Vars};
use dfp_provider::judge::CliRules;
use dfp_text::fold::Fold;
use dfp_text::schema::Schema;

/// A call of a CLI, and the engines that may make it.
pub(super) struct CliCall<'a> {
    pub cli: &'a Arc<CliProvider>,
    pub base_env: &'a Arc<Vars>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
    pub request: CliRequest,
    /// The call as each engine takes it, the best first.
    pub engines: Vec<EngineCall>,
    pub dropped: Dropped,
}

impl RetryableCall for CliCall<'_> {
    fn retry(&self) -> &Policy {
        &self.cli.options.retry
    }

    fn quota(&self) -> Option<QuotaWait> {
        self.request.options.quota_or(self.cli.options.quota)
    }

    fn timeout(&self) -> Option<Duration> {
        self.request.options.timeout_or(self.cli.options.timeout)
    }

    fn plan(&self) -> Plan<'_> {
        let model = self.request.provider_options(self.cli).choices.model.as_deref();
        Plan {
            used_up: &self.cli.used_up,
            env: Some(self.base_env),
            model: model.unwrap_or_default(),
        }
    }

    fn login(&self) -> Option<&str> {
        self.cli.login()
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.cli.closed()
    }

    /// Makes the attempt with the first engine that takes it.
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
        self.keep_dropped();
        for engine in &self.engines {
            let outcome = match engine.attempt(&attempt, info).await {
                Ok(None) => continue,
                Ok(Some(outcome)) => outcome,
                Err(error) => {
                    return Err(commands::with_node(self.cli, error, self.base_env, self.cancel).await);
                }
            };
            match &outcome {
                AttemptOutcome::FlagRefused(flag) => self.drop_flag(flag)?,
                AttemptOutcome::SchemaRefused(reason) => self.drop_schema(reason),
                _ => {}
            }
            return Ok(outcome);
        }
        let reason =
            "an agent is asked for an answer alone: it can't be handed a server of tools, nor be watched at work";
        Err(self.cli.refuse(Code::UnsupportedContent, reason))
    }

    fn extend(&mut self, messages: Vec<Message>, rejected: &RejectedReply) -> Result<(), Box<ProviderError>> {
        self.request.extend(self.cli, messages, rejected)?;
        self.engines = forms::calls(&self.cli.kept, self.cli, &mut self.request);
        self.dropped = Dropped::default();
        Ok(())
    }
}

/// The features that the CLI has refused during this call. The facts remembered for its file don't help if each attempt starts
/// another file.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// The refused flags, one for each refusal.
    flags: Mutex<Vec<String>>,
    /// The reason for which the CLI does not take the schema of the answer.
    schema: OnceLock<String>,
}

impl CliCall<'_> {
    /// Remembers, for the file that is there now, the flags that the call has seen refused.
    fn keep_dropped(&self) {
        let dropped = self
            .dropped
            .flags
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if dropped.is_empty() {
            return;
        }
        // A failure to find the program is reported by the attempt that starts it.
        if let Ok(program) = self.cli.look(self.base_env) {
            let known = capabilities::refused_by(program.binary());
            for flag in dropped.iter().filter(|flag| !known.contains(*flag)) {
                capabilities::remember_refused(program.binary(), flag);
            }
        }
    }

    /// Notes that the CLI has refused `flag`.
    ///
    /// # Errors
    /// `UNSUPPORTED_FLAG` if the CLI has refused more often than there are flags to leave out.
    fn drop_flag(&self, flag: &str) -> Result<(), Box<ProviderError>> {
        let mut dropped = self.dropped.flags.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.push(flag.to_owned());
        let optional = self.cli.provider.flags.iter().filter(|flag| flag.optional);
        if dropped.len() <= optional.count() {
            return Ok(());
        }
        let times = dropped.len();
        let reason =
            format!("unknown option {flag}: the CLI was started {times} times, without each flag that it had refused");
        Err(self.cli.refuse(Code::UnsupportedFlag, reason))
    }

    /// Notes that the CLI has refused the schema of the answer, for this reason.
    fn drop_schema(&self, reason: &str) {
        self.dropped.schema.get_or_init(|| reason.to_owned());
    }

    /// Returns whether the CLI has refused the schema in an attempt of this call.
    pub fn has_dropped_schema(&self) -> bool {
        self.dropped.schema.get().is_some()
    }

    /// The reason for which `binary` does not take `schema`, if one is known.
    pub fn schema_refusal(&self, binary: &Binary, schema: &Schema) -> Option<String> {
        let of_call = self.dropped.schema.get().cloned();
        of_call.or_else(|| capabilities::schema_refusal(binary, schema.text()))
    }
}

/// An attempt of a CLI call.
pub(super) struct CliAttempt<'a> {
    pub call: &'a CliCall<'a>,
    /// The attempt's number, from 1.
    pub number: u32,
    /// When the call's first attempt got its place in the queue.
    pub began: &'a OnceLock<Instant>,
    /// When the attempt's time began to run, if it is a turn of a process that serves many.
    pub clock: OnceLock<tokio::time::Instant>,
}

impl CliAttempt<'_> {
    /// Makes the attempt for a turn in a kept process. Its time runs since such a process was looked for.
    pub fn attempt<'a>(
        &'a self,
        engine: EngineUsed,
        prompt: impl FnOnce() -> String + Send + 'a,
        fold: Fold,
        opening: AttemptStart,
    ) -> Attempt<'a> {
        self.attempt_since(self.clock.get().copied(), &self.limits(engine), prompt, fold, opening)
    }

    /// Makes the attempt for a process of its own, which keeps `limits` from now on.
    pub fn print_attempt<'a>(
        &'a self,
        limits: &ProcessLimits,
        prompt: impl FnOnce() -> String + Send + 'a,
        fold: Fold,
        opening: AttemptStart,
    ) -> Attempt<'a> {
        let since = tokio::time::Instant::now().checked_sub(limits.spent);
        self.attempt_since(since, limits, prompt, fold, opening)
    }

    /// Makes the attempt, whose time runs since `since`, or from its beginning if that is `None`.
    fn attempt_since<'a>(
        &'a self,
        since: Option<tokio::time::Instant>,
        limits: &ProcessLimits,
        prompt: impl FnOnce() -> String + Send + 'a,
        fold: Fold,
        opening: AttemptStart,
    ) -> Attempt<'a> {
        let choices = &self.call.request.provider_options(self.call.cli).choices;
        Attempt {
            provider: self.call.cli.id(),
            rules: CliRules {
                output_is_checked: self.call.request.output.is_some(),
                ..CliRules::from(&*self.call.cli.provider)
            },
            limits: CallLimits {
                timeout: limits.timeout,
                since,
                idle_timeout: limits.idle_timeout,
                max_output: limits.max_stdout,
            },
            number: self.number,
            cancel: self.call.cancel,
            sink: self.call.sink,
            prompt: Box::new(prompt),
            fold: fold.behind_result(self.call.request.ends_with_result),
            checks: self.call.request.checks.clone(),
            model: choices.model.as_deref(),
            shown: ShownChoices::of(choices, self.call.cli.provider.off_effort),
            opening: Some(opening),
        }
    }

    /// The event that a live session is asked for the schema in its prompt, although its CLI takes other schemas.
    pub fn pending_note(&self) -> Option<Event> {
        let CliCall { cli, request, .. } = self.call;
        let schema = request.output.as_deref()?;
        (!cli.provider.schema.takes(schema))
            .then(|| emulated(cli, UNFIT))
            .flatten()
    }

    /// Sends the caller a warning.
    pub async fn warn(&self, warning: Event) {
        self.call.sink.send(&mut vec![warning]).await;
    }

    /// A place among the processes of the program `binary`; `None` if the call was cancelled before there was one.
    pub async fn permit(&self, binary: &Path, info: &mut RunInfo) -> Option<Permit> {
        let CliCall {
            cli,
            request,
            cancel,
            sink,
            ..
        } = self.call;
        info.cli_path = Some(binary.to_string_lossy().into_owned());
        let waiting = Waiting {
            at: &binary.to_string_lossy(),
            places: cli.options.max_concurrency,
            nested: request.nested_permit.as_ref(),
            number: self.number,
            began: self.began,
            cancel,
            sink,
        };
        waiting.permit(info).await
    }

    /// Starts the attempt's clock, unless it runs already, so that the start of a process counts; returns when it began.
    pub fn start_clock(&self) -> tokio::time::Instant {
        *self.clock.get_or_init(tokio::time::Instant::now)
    }

    /// The time that the attempt has used with an engine that then could not make it; zero if there was none.
    pub fn spent(&self) -> Duration {
        self.clock.get().map_or(Duration::ZERO, tokio::time::Instant::elapsed)
    }

    pub fn limits(&self, engine: EngineUsed) -> ProcessLimits {
        let options = &self.call.cli.options;
        ProcessLimits {
            timeout: self.call.request.options.timeout_or(options.timeout),
            idle_timeout: match engine {
                EngineUsed::Print | EngineUsed::Warm => options.idle_timeout,
                EngineUsed::Live => options.live_idle_timeout,
            },
            kill_grace: options.kill_grace,
            max_stdout: options.max_buffer,
            ..ProcessLimits::default()
        }
    }
}
