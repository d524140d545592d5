//! A provider object of a CLI: its options, its runs, and the processes it keeps.
//!
//! In: a call ([`ProviderObject::start`]), which is checked and recorded, then tried until it ends. Out: its [`Run`].

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::auto::EngineUse;
use super::cli_attempt::{CliCall, Dropped};
use super::cli_base::CliBase;
use super::cli_request::CliRequest;
use super::lifecycle::{
    self, CallDelivery, CallHandles, Ended, KnownModels, Lifecycle, Model, ProviderObject, Run, Work,
};
use super::record::{self, Sink};
use super::request::{EncodedRequest, Request, Unread, Watched};
use super::session::ahead::NextCallJson;
use super::session::forms;
use super::session::forms::KeptEngine;
use super::{commands, retry_loop};
use dfp_exchange::bridge;
use dfp_exchange::bridge::{BridgeOptions, ToolCallRequest};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{EngineUsed, Event};
use dfp_process::{Tees, Vars};
use dfp_provider::choices::lacking;
use dfp_provider::models::ListedModel;
use dfp_provider::options::{EngineKind, Options};
use dfp_provider::{LiveForm, Provider};
use dfp_text::decode::LineObserver;
use dfp_text::redact::Redactor;

/// A provider object of a CLI: its options, its runs, and the processes it keeps.
#[derive(Debug)]
pub struct CliProvider {
    pub(super) base: Arc<CliBase>,
    /// The kinds of kept processes, the best first: each call goes to the first kind that takes it.
    pub(super) kept: Vec<KeptEngine>,
    known_models: KnownModels,
}

impl Deref for CliProvider {
    type Target = CliBase;

    fn deref(&self) -> &CliBase {
        &self.base
    }
}

impl CliProvider {
    /// The provider object of provider `kind` with the options of `options_json`; its processes belong to `owner`.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
    pub fn new(kind: &str, options_json: &str, owner: u64) -> Result<CliProvider, Box<ProviderError>> {
        CliBase::new(kind, options_json, owner).map(CliProvider::with)
    }

    /// The provider object of the CLI that `config_json` describes.
    ///
    /// # Errors
    /// `INVALID_CONFIG` or `INVALID_OPTION`, naming the field or the option, what it holds and what is allowed.
    pub fn custom(config_json: &str, options_json: &str, owner: u64) -> Result<CliProvider, Box<ProviderError>> {
        CliBase::custom(config_json, options_json, owner).map(CliProvider::with)
    }

    /// The provider object of the agent that `config_json` describes.
    ///
    /// # Errors
    /// `INVALID_CONFIG` or `INVALID_OPTION`, naming the field or the option, what it holds and what is allowed.
    pub fn agent(config_json: &str, options_json: &str, owner: u64) -> Result<CliProvider, Box<ProviderError>> {
        CliBase::agent(config_json, options_json, owner).map(CliProvider::with)
    }

    /// The provider object of `provider` with `options`; its processes belong to `owner`.
    pub fn of(provider: Cow<'static, Provider>, options: Options, owner: u64) -> CliProvider {
        CliProvider::with(CliBase::of(provider, options, owner))
    }

    fn with(base: CliBase) -> CliProvider {
        CliProvider {
            kept: forms::of(&base.provider, &base.options, &base.lifecycle.runs),
            base: Arc::new(base),
            known_models: KnownModels::default(),
        }
    }

    /// Ends all runs and waits until their processes are gone. Later calls fail with `CLOSED`.
    pub async fn close(&self) {
        self.lifecycle.end().await;
        for kept in &self.kept {
            kept.forget();
        }
    }

    /// The models that the login has, from a process that is there or is started for it. No request to a model is made.
    ///
    /// # Errors
    /// `CLOSED`, `TIMEOUT`; `UNSUPPORTED_OPTION` if the CLI does not tell its models; as a call, where it can't be started or has
    /// no login.
    async fn listed_models(self: &Arc<Self>, env: Arc<Vars>) -> Result<Vec<ListedModel>, Box<ProviderError>> {
        // `close` waits for everything that holds a token.
        let _asking = self.lifecycle.runs.token();
        self.refusal().map_or(Ok(()), Err)?;
        let listing = self.list_models(env);
        let in_time = async {
            match self.options.timeout {
                None => listing.await,
                Some(limit) => tokio::time::timeout(limit, listing).await.unwrap_or_else(|_| {
                    let reason = format!("the CLI did not list its models within {} ms", limit.as_millis());
                    Err(self.refuse(Code::Timeout, reason))
                }),
            }
        };
        let listed = self.lifecycle.closing.run_until_cancelled(in_time).await;
        self.closed().map_or(Ok(()), Err)?;
        let listed = listed.unwrap_or_else(|| Err(lifecycle::not_listed(self.id(), "the provider was closed")))?;
        self.known_models.keep(&listed);
        Ok(listed)
    }

    /// `error` without the secrets of `env` and of the options: a CLI's words may have them. A call's sink does the same.
    fn without_secrets(&self, mut error: Box<ProviderError>, env: &Vars) -> Box<ProviderError> {
        self.base.redactor(env).clean_error(&mut error);
        error
    }

    async fn list_models(self: &Arc<Self>, env: Arc<Vars>) -> Result<Vec<ListedModel>, Box<ProviderError>> {
        let data = &self.provider;
        let of_config = data.custom.as_ref().map(|custom| custom.listed());
        if let Some(listed) = of_config.filter(|listed| !listed.is_empty()) {
            return Ok(listed);
        }
        if self.kept.is_empty() && (data.live.is_some() || data.warm.is_some()) {
            // A provider of print form alone keeps no process that could be asked: another one starts it and ends it.
            let options = Options {
                engine: EngineKind::Auto,
                built_in_tools: false,
                ..self.options.clone()
            };
            let asking = CliProvider::of(self.provider.clone(), options, self.owner);
            let listed = first_list(&asking, &env).await;
            asking.close().await;
            return listed;
        }
        first_list(self, &env).await
    }

    /// Returns the same provider with its tools in one namespace.
    pub fn with_tool_namespace(&self) -> CliProvider {
        let options = Options {
            tool_namespace: true,
            ..self.options.clone()
        };
        let mut base = CliBase::of(self.provider.clone(), options, self.owner);
        // Both objects share one budget.
        base.lifecycle.ledger.clone_from(&self.lifecycle.ledger);
        CliProvider::with(base)
    }
}

/// The environment that a call's processes inherit: `env`, or this process's own. To be called on JavaScript's thread, the only one that
/// may change the latter.
fn inherited(env: Option<Vars>) -> Arc<Vars> {
    Arc::new(env.unwrap_or_else(|| std::env::vars_os().collect()))
}

impl CliProvider {
    /// Begins a run of a CLI that is to work for itself. `prompt` goes to it and its events are passed on unchanged; `tees` get all
    /// that it prints, and `observer` sees every line of it as it is decoded. Otherwise this is [`Model::begin`].
    pub fn watch(
        cli: &Arc<CliProvider>,
        prompt: String,
        tees: Tees,
        observer: Arc<dyn LineObserver>,
        env: Option<Vars>,
    ) -> Run {
        let watched = Watched { prompt, tees, observer };
        Model::begin(
            Arc::clone(cli),
            Request {
                watched: Some(watched),
                env: env.map(Arc::new),
                ..Request::default()
            },
        )
    }

    /// Makes one call, to its end.
    async fn call(
        self: Arc<Self>,
        unread: Unread,
        base_env: Arc<Vars>,
        handles: CallHandles,
    ) -> Result<Ended, Box<ProviderError>> {
        let reading = unread.read(self.options.timeout);
        let Some(read) = handles.cancel.run_until_cancelled(reading).await else {
            return Ok(self.closed().map_or(Ended::Cancelled, Ended::Failed));
        };
        let read = read.map_err(|(code, reason)| self.refuse(code, reason))?;
        let mut request = CliRequest::new(&self, read)?;
        let (of_cli, of_env) = (Arc::clone(&self), Arc::clone(&base_env));
        let redactor = record::lazy_redactor(move || of_cli.redactor(&of_env));
        let (recorded, cancel) = (request.recorded.take(), handles.cancel.clone());
        let sink = Sink::of_call(&self, handles, &request.options, recorded, redactor)
            .await?
            .with_acting_tools(self.options.built_in_tools)
            .text_in_pieces(self.options.partial_messages.unwrap_or(request.options.partial));
        let asked = request
            .provider_options(&self)
            .choices
            .model
            .clone()
            .unwrap_or_default();
        let mut call = CliCall {
            engines: forms::calls(&self.kept, &self, &mut request),
            cli: &self,
            base_env: &base_env,
            cancel: &cancel,
            sink: &sink,
            request,
            dropped: Dropped::default(),
        };
        let ended = retry_loop::answer(&mut call, &cancel, &sink).await;
        let ended = self.known_models.advise(ended, &asked);
        sink.close(&ended).await;
        Ok(ended)
    }

    /// The warnings about choices of a call with `options` that its model does not have, by the list that a process or `models()` has
    /// told before.
    pub(super) fn lacking(&self, options: &Options, env: &Arc<Vars>) -> Vec<Event> {
        let choices = &options.choices;
        let chooses = choices.effort.is_some() || choices.reasoning_off || choices.is_fast();
        let Some(model) = choices
            .model
            .as_deref()
            .filter(|_| self.provider.drops_choices && chooses)
        else {
            return Vec::new();
        };
        // A failure to find the program is reported by the attempt that starts it.
        let told = self.look(env).ok().and_then(|program| {
            let told = |kept: &KeptEngine| kept.reported_models(program.binary());
            self.kept.iter().find_map(told)
        });
        let known = told.map_or_else(|| self.known_models.listed(), Arc::from);
        lacking(self.id(), &known, model, choices)
    }

    /// Begins a run in which the CLI itself calls the request's tools: they are declared to it natively, the prompt does not
    /// describe them, and every call comes out of the receiver. The request must have only permitted tools. Must be called inside
    /// the runtime; returns at once.
    ///
    /// The run's reply and events contain no calls of these tools. `timeout` continues while a call waits, `idleTimeout` does not.
    /// After a call, no attempt is repeated. The run fails with `CALLBACKS_UNAVAILABLE` if the provider takes no such tools, or has
    /// answered without ever having asked for them.
    pub fn start_with_callbacks(
        cli: &Arc<CliProvider>,
        mut request: Request,
        options: BridgeOptions,
    ) -> (Run, mpsc::Receiver<ToolCallRequest>) {
        let (consumer, receiver) = bridge::call_channel();
        request.callbacks = Some((consumer, options));
        (Model::begin(Arc::clone(cli), request), receiver)
    }
}

impl Model for CliProvider {
    fn id(&self) -> &str {
        self.base.id()
    }

    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        self.refusal().map_or(Ok(()), Err)?;
        commands::file(self, env).map(|_| ())
    }

    fn redactor(&self, env: &Vars) -> Redactor {
        self.base.redactor(env)
    }

    fn begin(self: Arc<Self>, mut request: Request) -> Run {
        let (cli, env) = (Arc::clone(&self), request.env.take());
        let env = env.unwrap_or_else(|| inherited(None));
        (self.lifecycle).begin(move |handles| cli.call(Unread::Made(Box::new(request)), env, handles))
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
        let env = env.map_or_else(|| inherited(None), Arc::clone);
        match self.known_engine_choice(&env) {
            Ok(Some(choice)) if matches!(choice.uses, EngineUse::Print | EngineUse::Warm) => CallDelivery::Callbacks,
            _ => calls,
        }
    }

    fn begin_with_callbacks(self: Arc<Self>, request: Request) -> (Run, Option<mpsc::Receiver<ToolCallRequest>>) {
        let (run, calls) = CliProvider::start_with_callbacks(&self, request, BridgeOptions::default());
        (run, Some(calls))
    }
}

impl ProviderObject for CliProvider {
    fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn start(self: Arc<Self>, request: EncodedRequest, env: Option<Vars>) -> Run {
        let (cli, env) = (Arc::clone(&self), inherited(env));
        (self.lifecycle).begin(move |handles| cli.call(Unread::Encoded(request), env, handles))
    }

    fn prewarm(self: Arc<Self>, known: String, env: Option<Vars>) -> Work<Result<(), Box<ProviderError>>> {
        let env = inherited(env);
        Box::pin(async move {
            let ready = prewarm(&self, &known, Arc::clone(&env)).await;
            ready.map_err(|error| self.without_secrets(error, &env))
        })
    }

    fn models(self: Arc<Self>, env: Option<Vars>) -> Work<Result<Vec<ListedModel>, Box<ProviderError>>> {
        let env = inherited(env);
        Box::pin(async move {
            let listed = self.listed_models(Arc::clone(&env)).await;
            listed.map_err(|error| self.without_secrets(error, &env))
        })
    }

    fn close(self: Arc<Self>) -> Work<()> {
        Box::pin(async move { CliProvider::close(&self).await })
    }
}

/// The models that the first of the kept processes of `cli` tells that tells any.
async fn first_list(cli: &CliProvider, env: &Arc<Vars>) -> Result<Vec<ListedModel>, Box<ProviderError>> {
    let mut why = None;
    for kept in &cli.kept {
        match kept.models(&cli.base, env).await {
            Ok(Ok(models)) => return Ok(models),
            Ok(Err(reason)) => why = why.or(Some(reason)),
            Err(error) => {
                return Err(commands::with_node(&cli.base, error, env, &cli.lifecycle.closing).await);
            }
        }
    }
    let why = why.unwrap_or_else(|| "its CLI has no way to tell them".to_owned());
    Err(lifecycle::not_listed(cli.id(), &why))
}

/// Starts a process for the next call, or as many as `spares` says, and waits until they have answered. `known` is JSON that
/// describes that call: `{"system": text?, "tools": [spec…]?}`; what is missing there is taken from the last call. `env` is the
/// environment that they inherit.
///
/// In print form nothing is started, nor if processes at rest leave no room within `maxProcesses`.
///
/// # Errors
/// `CLOSED`, `INVALID_TOOL`; as a call where the CLI can't be started, or ends instead of answering.
pub(super) async fn prewarm(cli: &Arc<CliProvider>, known: &str, env: Arc<Vars>) -> Result<(), Box<ProviderError>> {
    // `close` waits for everything that holds a token, so it also ends a process that is being started just now.
    let _starting = cli.lifecycle.runs.token();
    cli.refusal().map_or(Ok(()), Err)?;
    let next: NextCallJson = serde_json::from_str(known)
        .map_err(|error| cli.refuse(Code::InvalidTool, format!("tools can't be read: {error}")))?;
    let kept: &KeptEngine = match cli.kept.as_slice() {
        [] => return cli.closed().map_or(Ok(()), Err),
        [only] => only,
        [best, others @ ..] => {
            let uses = cli.engine_choice(&env)?.map(|choice| choice.uses);
            let used = others.iter().find(|kept| match kept.engine() {
                EngineUsed::Live => uses == Some(EngineUse::Live),
                EngineUsed::Warm => uses == Some(EngineUse::Warm),
                EngineUsed::Print => false,
            });
            used.unwrap_or(best)
        }
    };
    let ready = match kept.prewarm(&cli.base, next, &env).await {
        Ok(()) => Ok(()),
        Err(error) => Err(commands::with_node(&cli.base, error, &env, &cli.lifecycle.closing).await),
    };
    cli.closed().map_or(ready, Err)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::session::sessions::Sessions;
    use crate::session::tests::made_up::MadeUp;

    #[tokio::test]
    async fn a_provider_that_is_closed_gives_back_what_it_keeps() {
        let base = CliBase::new("codex", "{}", u64::MAX).unwrap();
        let form = MadeUp::default();
        let forgotten = Arc::clone(&form.forgotten);
        let sessions = Sessions::new(form, &base.options, &base.lifecycle.runs);
        let cli = CliProvider {
            kept: vec![KeptEngine::MadeUp(Arc::new(sessions))],
            ..CliProvider::with(base)
        };
        assert_eq!(forgotten.load(Ordering::Relaxed), 0);
        cli.close().await;
        assert_eq!(forgotten.load(Ordering::Relaxed), 1);
    }
}
