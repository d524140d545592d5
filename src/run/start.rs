//! The beginning of a CLI call: it is checked and recorded, then tried until it ends.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::ask;
use super::auto::EngineUse;
use super::cli::CallByEngines;
use super::cli_request::CliRequest;
use super::engine::Engine;
use super::handle::{Ended, Run};
use super::lifecycle::{CallHandles, Lifecycle};
use super::model::{CallDelivery, Model, ProviderObject, Work};
use super::prewarm::prewarm;
use super::request::{EncodedRequest, NotCompiled, Request};
use super::{call, log};
use dfp_exchange::bridge::{self, BridgeOptions, ToolCallRequest};
use dfp_model::error::ProviderError;
use dfp_process::{Tees, Vars};
use dfp_provider::LiveForm;
use dfp_provider::options::EngineKind;
use dfp_text::decode::LineObserver;
use dfp_text::redact::Redactor;

/// The request of a call, before it is checked.
enum Asked {
    Encoded(EncodedRequest),
    /// A request of an agent, whose calls may come by callbacks.
    Request(Box<Request>, Option<(mpsc::Sender<ToolCallRequest>, BridgeOptions)>),
    /// A request of the adapter, which is checked already.
    Ready(Box<CliRequest>),
}

impl Engine {
    /// Begins a run of a CLI that is to work for itself. `prompt` goes to it and its events are passed on unchanged; `tees` get all
    /// that it prints, and `observer` sees every line of it as it is decoded. Otherwise this is [`ProviderObject::start`].
    pub fn watch(
        engine: &Arc<Engine>,
        prompt: String,
        tees: Tees,
        observer: Arc<dyn LineObserver>,
        env: Option<Vars>,
    ) -> Run {
        let watched = CliRequest::watched(prompt, tees, observer);
        Engine::begin(engine, Asked::Ready(Box::new(watched)), env.map(Arc::new))
    }

    fn begin(engine: &Arc<Engine>, asked: Asked, env: Option<Arc<Vars>>) -> Run {
        let base_env = env.unwrap_or_else(|| Arc::new(std::env::vars_os().collect()));
        let of_task = Arc::clone(engine);
        (engine.lifecycle).begin(move |handles| of_task.call(asked, base_env, handles))
    }

    /// Makes one call, to its end.
    async fn call(
        self: Arc<Self>,
        asked: Asked,
        base_env: Arc<Vars>,
        handles: CallHandles,
    ) -> Result<Ended, Box<ProviderError>> {
        let (mut request, callbacks) = match asked {
            Asked::Encoded(request) => {
                let read = request.read().map_err(|(code, reason)| self.refuse(code, reason))?;
                (Err(read), None)
            }
            Asked::Request(request, callbacks) => (Err(*request), callbacks),
            Asked::Ready(request) => (Ok(*request), None),
        };
        if let Err(request) = &mut request {
            match request.compile(self.options.timeout, &handles.cancel).await {
                Ok(()) => {}
                Err(NotCompiled::Cancelled) => return Ok(self.closed().map_or(Ended::Cancelled, Ended::Failed)),
                Err(NotCompiled::Refused(code, reason)) => return Err(self.refuse(code, reason)),
            }
        }
        let mut request = match request {
            Ok(ready) => ready,
            Err(request) => CliRequest::new(&self, request, callbacks)?,
        };
        let (of_engine, of_env) = (Arc::clone(&self), Arc::clone(&base_env));
        let redactor = log::lazy_redactor(move || of_engine.redactor(&of_env));
        let (recorded, cancel) = (request.recorded.take(), handles.cancel.clone());
        let sink = call::sink(&self, handles, &request.options, recorded, redactor)
            .await?
            .with_acting_tools(self.options.built_in_tools)
            .text_in_pieces(self.options.partial_messages.unwrap_or(request.options.partial));
        let mut of_engines = CallByEngines::new(&self, request, &base_env, &cancel, &sink);
        Ok(call::answer(&mut of_engines, &cancel, &sink).await)
    }

    /// Begins a run in which the CLI itself calls the request's tools: they are declared to it natively, the prompt does not
    /// describe them, and every call comes out of the receiver. The request must have only permitted tools. Must be called inside
    /// the runtime; returns at once.
    ///
    /// The run's reply and events contain no calls of these tools. `timeout` continues while a call waits, `idleTimeout` does not.
    /// After a call, no attempt is repeated. The run fails with `CALLBACKS_UNAVAILABLE` if the provider takes no such tools, or has
    /// answered without ever having asked for them.
    pub fn start_with_callbacks(
        engine: &Arc<Engine>,
        mut request: Request,
        options: BridgeOptions,
    ) -> (Run, mpsc::Receiver<ToolCallRequest>) {
        let (consumer, receiver) = bridge::call_channel();
        let env = request.env.take();
        let asked = Asked::Request(Box::new(request), Some((consumer, options)));
        (Engine::begin(engine, asked, env), receiver)
    }
}

impl Model for Engine {
    fn id(&self) -> &str {
        self.base.id()
    }

    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        self.refusal().map_or(Ok(()), Err)?;
        ask::file(self, env).map(|_| ())
    }

    fn redactor(&self, env: &Vars) -> Redactor {
        self.base.redactor(env)
    }

    fn begin(self: Arc<Self>, mut request: Request) -> Run {
        let env = request.env.take();
        Engine::begin(&self, Asked::Request(Box::new(request), None), env)
    }

    fn calls(&self) -> CallDelivery {
        // A provider with another engine than print accepts no other form.
        if !self.takes_callbacks() || matches!(self.options.engine, EngineKind::Live | EngineKind::Warm) {
            return CallDelivery::Turns;
        }
        // CLIs with a live form call natively there, with the end of a turn.
        let has_turns = |live: LiveForm| live.has_turns_in_print || self.options.engine == EngineKind::Auto;
        let has_turns = self.provider.live.is_some_and(has_turns);
        if has_turns {
            CallDelivery::Either
        } else {
            CallDelivery::Callbacks
        }
    }

    /// A CLI that turns out to keep no conversations, because the installed one is not known to, calls natively in print form
    /// again.
    fn calls_now(&self, env: Option<&Arc<Vars>>) -> CallDelivery {
        let calls = self.calls();
        if calls != CallDelivery::Either || self.provider.live.is_some_and(|live| live.has_turns_in_print) {
            return calls;
        }
        let env = env.map_or_else(|| Arc::new(std::env::vars_os().collect()), Arc::clone);
        match self.known_engine_choice(&env) {
            Ok(Some(choice)) if matches!(choice.uses, EngineUse::Print | EngineUse::Warm) => CallDelivery::Callbacks,
            _ => calls,
        }
    }

    fn begin_with_callbacks(self: Arc<Self>, request: Request) -> (Run, Option<mpsc::Receiver<ToolCallRequest>>) {
        let (run, calls) = Engine::start_with_callbacks(&self, request, BridgeOptions::default());
        (run, Some(calls))
    }
}

impl ProviderObject for Engine {
    fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn start(self: Arc<Self>, request: EncodedRequest, env: Option<Vars>) -> Run {
        Engine::begin(&self, Asked::Encoded(request), env.map(Arc::new))
    }

    fn prewarm(self: Arc<Self>, known: String, env: Option<Vars>) -> Work<Result<(), Box<ProviderError>>> {
        let env = env.unwrap_or_else(|| std::env::vars_os().collect());
        Box::pin(async move { prewarm(&self, &known, env).await })
    }

    fn close(self: Arc<Self>) -> Work<()> {
        Box::pin(async move { Engine::close(&self).await })
    }
}
