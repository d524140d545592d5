//! How a call of a CLI begins: read, recorded, then tried until it ends.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::cli_attempt::CliCall;
use super::engine::Engine;
use super::handle::{Ended, Run};
use super::log;
use super::model::{Calls, Model, Question};
use super::request::Request;
use super::sink::Sink;
use super::{record, retry_loop};
use crate::bridge::{self, BridgeOptions, ToolCallRequest};
use crate::error::{Code, ProviderError};
use crate::process::{Tees, Vars};
use crate::provider::options::EngineKind;
use crate::recorder::Recorder;
use crate::redact::Redactor;
use crate::thread::Thread;

impl Engine {
    /// Begins a run. Must be called inside the runtime; returns at once.
    ///
    /// `env` is what the process inherits; `None` is this process's own, which is read here, on the caller's thread: that
    /// of JavaScript, which alone may change it.
    pub fn start(engine: &Arc<Engine>, messages: Thread, tools: String, call: String, env: Option<Vars>) -> Run {
        Engine::answer(
            engine,
            Question {
                messages,
                tools,
                call,
                env,
                lent: None,
            },
        )
    }

    fn answer(engine: &Arc<Engine>, question: Question) -> Run {
        let Question {
            messages,
            tools,
            call,
            env,
            lent,
        } = question;
        let read = move |engine: &Engine| Ok(Request::read(engine, (&messages, &tools, &call), None)?.with(lent));
        Engine::begin(engine, read, env)
    }

    /// Begins a run of a CLI that is to work for itself: `prompt` goes to it as it is, its events are told as they are, and
    /// `tees` get all it prints. Otherwise as [`Engine::start`].
    pub fn watch(engine: &Arc<Engine>, prompt: String, tees: Tees, env: Option<Vars>) -> Run {
        Engine::begin(engine, move |_| Ok(Request::watched(prompt, tees)), env)
    }

    fn begin(
        engine: &Arc<Engine>,
        read: impl FnOnce(&Engine) -> Result<Request, Box<ProviderError>> + Send + 'static,
        env: Option<Vars>,
    ) -> Run {
        let base_env: Arc<Vars> = Arc::new(env.unwrap_or_else(|| std::env::vars_os().collect()));
        let cancel = engine.closing.child_token();
        let (task_engine, task_cancel) = (Arc::clone(engine), cancel.clone());
        // Decided now: what was begun before `drain` is not refused by it.
        let (refused, call) = (engine.refusal(), engine.calls.token());
        Run::begin(
            engine.provider.id.clone(),
            cancel,
            &engine.runs,
            |log, consumer| async move {
                let _call = call;
                let closed = task_engine.closed();
                if let Some(closed) = refused.or(closed) {
                    return Ended::Failed(closed);
                }
                if task_cancel.is_cancelled() {
                    return Ended::Cancelled;
                }
                let request = match read(&task_engine) {
                    Ok(request) => request,
                    Err(error) => return Ended::Failed(error),
                };
                let recorder = match task_engine.recorder(&request, &base_env, log.run_id()).await {
                    Ok(recorder) => recorder,
                    Err(error) => return Ended::Failed(error),
                };
                let acts = task_engine.options.built_in_tools;
                let (of_engine, of_env) = (Arc::clone(&task_engine), Arc::clone(&base_env));
                let redactor = log::lazy_redactor(move || of_engine.redactor(&of_env));
                let sink = Sink::of_call(&request.call, consumer, acts, log, recorder)
                    .redacting(redactor)
                    .ending_with(&task_cancel);
                let call = CliCall {
                    engine: &task_engine,
                    request: &request,
                    base_env: &base_env,
                    cancel: &task_cancel,
                    sink: &sink,
                };
                let ended = retry_loop::drive(&call, &task_cancel, &sink).await;
                sink.close(record::end_of(&ended).as_ref()).await;
                ended
            },
        )
    }

    /// Begins a run in which the CLI calls the question's tools itself: they are declared to it natively, the prompt does not
    /// speak of them, and every call comes out of the receiver. Only the permitted tools belong into the question. Must be
    /// called inside the runtime; returns at once.
    ///
    /// The run's reply and events hold no calls of these tools. `timeout` counts on while a call waits, `idleTimeout` does not.
    /// No attempt is made again after a call. The run fails with `CALLBACKS_UNAVAILABLE` where the provider takes no such
    /// tools, or has answered without ever having asked for them.
    pub fn start_with_callbacks(
        engine: &Arc<Engine>,
        question: Question,
        options: BridgeOptions,
    ) -> (Run, mpsc::Receiver<ToolCallRequest>) {
        let (consumer, receiver) = bridge::call_channel();
        let Question {
            messages,
            tools,
            call,
            env,
            lent,
        } = question;
        let read = move |engine: &Engine| {
            let callbacks = Some((consumer, options));
            Ok(Request::read(engine, (&messages, &tools, &call), callbacks)?.with(lent))
        };
        (Engine::begin(engine, read, env), receiver)
    }

    /// Begins the log that the call asks for, if it does.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming `record`, where it can't be begun.
    async fn recorder(
        &self,
        request: &Request,
        base_env: &Arc<Vars>,
        run_id: &str,
    ) -> Result<Option<Recorder>, Box<ProviderError>> {
        let Some(wanted) = &request.call.record else {
            return Ok(None);
        };
        let recorded = request.recorded.clone();
        let begun = wanted.begin(self.id(), run_id, recorded, self.redactor(base_env)).await;
        begun
            .map(Some)
            .map_err(|refused| self.refuse(Code::InvalidOption, record::unusable(&refused)))
    }
}

impl Model for Engine {
    fn id(&self) -> &str {
        Engine::id(self)
    }

    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        self.refusal().map_or(Ok(()), Err)?;
        self.file(env).map(|_| ())
    }

    fn redactor(&self, env: &Vars) -> Redactor {
        Engine::redactor(self, env)
    }

    fn begin(self: Arc<Self>, question: Question) -> Run {
        Engine::answer(&self, question)
    }

    fn calls(&self) -> Calls {
        // Who says "live" says that nothing else will do.
        if !self.takes_callbacks() || self.options.engine == EngineKind::Live {
            return Calls::Turns;
        }
        // Those that have a live form call natively there, with the end of a turn.
        let has_forms = self.provider.option("engine").is_some();
        if has_forms { Calls::Either } else { Calls::Callbacks }
    }

    fn begin_with_callbacks(self: Arc<Self>, question: Question) -> Option<(Run, mpsc::Receiver<ToolCallRequest>)> {
        let begun = Engine::start_with_callbacks(&self, question, BridgeOptions::default());
        Some(begun)
    }
}
