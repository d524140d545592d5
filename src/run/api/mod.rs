//! Calls of an OpenAI-compatible API: build the request, queue, send, decode, fold, judge, try again.
//!
//! In: an [`ApiEngine`] (one provider object) and the JSON of one call. Out: a [`Run`], as of a CLI: the same events, the same
//! retries, the same records.

mod attempt;
pub mod probe;

use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::handle::{Ended, Run};
use super::lifecycle::{CLOSED, CallHandles, Lifecycle};
use super::log;
use super::model::Model;
use super::request::{Checked, EncodedRequest, Request as ModelRequest};
use super::sink::Sink;
use super::{record, retry_loop};
use crate::api::PROVIDER;
use crate::api::content::ACCEPTS;
use crate::api::request::Request;
use crate::api::settings::{Key, Settings};
use crate::classify;
use crate::error::{Code, ProviderError};
use crate::exchange::http::client::{Client, Route};
use crate::process::{Vars, limit};
use crate::redact::{self, Redactor, Secret};
use attempt::ApiCall;

/// One provider object: its options, its connections, and the runs it has.
#[derive(Debug)]
pub struct ApiEngine {
    settings: Settings,
    lifecycle: Lifecycle,
    /// Made with the first call.
    client: Mutex<Option<Client>>,
}

/// What a call takes from the environment, on the thread that alone may change it.
#[derive(Clone)]
struct Surroundings {
    key: Result<Option<Secret>, Box<ProviderError>>,
    /// `None` where there is a client for certain.
    route: Option<Route>,
    /// Variables with names of secrets, and their values.
    secrets: Arc<Vec<(String, String)>>,
}

impl Surroundings {
    /// What knows the secrets of a call: the request's own and the environment's.
    fn redactor(&self, settings: &Settings) -> Redactor {
        let of_env = self.secrets.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let key = self.key.as_ref().ok().and_then(Option::as_ref);
        Redactor::new(of_env, []).and(&settings.redactor(key))
    }
}

/// The variables of `env` (of this process) that have names of secrets.
fn secrets_of(env: Option<&Vars>) -> Vec<(String, String)> {
    let readable = |(name, value): (&OsString, &OsString)| {
        let name = name.to_str().filter(|name| redact::is_secret_name(name))?;
        Some((name.to_owned(), value.to_str()?.to_owned()))
    };
    match env {
        Some(vars) => vars
            .iter()
            .map(|(name, value)| (name, value))
            .filter_map(readable)
            .collect(),
        None => std::env::vars_os()
            .filter_map(|(name, value)| readable((&name, &value)))
            .collect(),
    }
}

impl ApiEngine {
    /// The engine with the options of `options_json`. Nothing is connected to.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what was given and what is allowed.
    pub fn new(options_json: &str) -> Result<ApiEngine, Box<ProviderError>> {
        let settings = Settings::parse(options_json)?;
        limit::global().raise_limit(settings.max_concurrency);
        Ok(ApiEngine {
            settings,
            lifecycle: Lifecycle::default(),
            client: Mutex::new(None),
        })
    }

    /// The provider's id.
    pub fn id(&self) -> &str {
        &self.settings.id
    }

    /// Begins a run of what JavaScript asks for. Must be called inside the runtime; returns at once, and reads it later. `env` is
    /// where the key and the proxy are looked up; `None` is this process's environment, read here, on the caller's thread.
    pub fn start(engine: &Arc<ApiEngine>, request: EncodedRequest, env: Option<Vars>) -> Run {
        let surroundings = engine.surroundings(env.as_ref());
        ApiEngine::run(engine, surroundings, |engine| {
            request.read().map_err(|(code, reason)| engine.refuse(code, reason))
        })
    }

    fn run(
        engine: &Arc<ApiEngine>,
        surroundings: Surroundings,
        read: impl FnOnce(&ApiEngine) -> Result<ModelRequest, Box<ProviderError>> + Send + 'static,
    ) -> Run {
        let (of_close, of_task) = (Arc::clone(engine), Arc::clone(engine));
        let work = move |handles| of_task.call(read, surroundings, handles);
        (engine.lifecycle).begin(
            Cow::Owned(engine.id().to_owned()),
            move || of_close.closed_error(),
            work,
        )
    }

    /// One call, to its end.
    async fn call(
        self: Arc<Self>,
        read: impl FnOnce(&ApiEngine) -> Result<ModelRequest, Box<ProviderError>> + Send,
        surroundings: Surroundings,
        CallHandles { log, consumer, cancel }: CallHandles,
    ) -> Result<Ended, Box<ProviderError>> {
        let refuse = |(code, reason)| self.refuse(code, reason);
        let Checked {
            messages,
            tools,
            options,
            call_ids,
            recorded,
            lent,
        } = read(&self)?
            .check((self.id(), &ACCEPTS), Settings::check_timeout)
            .map_err(refuse)?;
        let (of_engine, of_env) = (Arc::clone(&self), surroundings.clone());
        let redactor = log::lazy_redactor(move || of_env.redactor(&of_engine.settings));
        let (key, client) = self.connect(surroundings).await?;
        let of_request = self.settings.redactor(key.as_ref());
        let recorder = match &options.record {
            Some(record) => Some(
                record
                    .begin_call(self.id(), log.run_id(), recorded, Redactor::clone(&redactor))
                    .await
                    .map_err(refuse)?,
            ),
            None => None,
        };
        let request = Request::new(&self.settings, &messages, &tools);
        drop((messages, tools));
        let sink = Sink::of_call(&options, consumer, false, log, recorder)
            .in_pieces(&options)
            .redacting(redactor)
            .ending_with(&cancel);
        let call = ApiCall {
            engine: &self,
            client: &client,
            redactor: of_request,
            key: key.as_ref(),
            body: Bytes::from(request.body),
            tools: request.tools,
            call_ids,
            timeout: options.timeout,
            lent,
            cancel: &cancel,
            sink: &sink,
        };
        let ended = retry_loop::drive(&call, &cancel, &sink).await;
        sink.close(record::end_of(&ended).as_ref()).await;
        Ok(ended)
    }

    /// Refuses further calls with `CLOSED` from now on; those that run or wait go on.
    pub fn refuse_further(&self) {
        self.lifecycle.refuse_further();
    }

    /// Lets the calls that run or wait come to their ends, and refuses further ones. [`ApiEngine::close`] ends it.
    pub async fn drain(&self) {
        self.lifecycle.drain().await;
    }

    /// Ends all runs and waits for them; unused connections are closed. Later calls fail with `CLOSED`.
    pub async fn close(&self) {
        self.lifecycle.close().await;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Cancelled when the provider is closed.
    pub fn token(&self) -> CancellationToken {
        self.lifecycle.closing.child_token()
    }

    /// The error of whoever asks a provider that was closed, or is about to be; `None` for an open one.
    pub fn refusal(&self) -> Option<Box<ProviderError>> {
        self.lifecycle.refuses().then(|| self.closed_error())
    }

    /// The error of a call whose provider was closed meanwhile.
    fn closed(&self) -> Option<Box<ProviderError>> {
        self.lifecycle.is_closed().then(|| self.closed_error())
    }

    fn closed_error(&self) -> Box<ProviderError> {
        self.refuse(Code::Closed, CLOSED)
    }

    fn refuse(&self, code: Code, reason: impl Into<String>) -> Box<ProviderError> {
        Box::new(ProviderError::new(self.id(), code, reason).with_hint(classify::hint(PROVIDER, code)))
    }

    fn surroundings(&self, env: Option<&Vars>) -> Surroundings {
        // Not waited for: while it is being made, this is JavaScript's thread, and looking for the route costs next to nothing.
        let known = self.client.try_lock().is_ok_and(|client| client.is_some());
        Surroundings {
            key: self.key(env),
            route: (!known).then(|| Route::find(&self.settings.chat, env)),
            secrets: Arc::new(secrets_of(env)),
        }
    }

    /// The key, if one is to be sent.
    fn key(&self, env: Option<&Vars>) -> Result<Option<Secret>, Box<ProviderError>> {
        let name = match &self.settings.key {
            Key::Given(key) => return Ok(Some(key.clone())),
            Key::Nobody => return Ok(None),
            Key::Env(name) => name,
        };
        let wanted = OsString::from(name);
        let value = match env {
            Some(vars) => vars
                .iter()
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| value.clone()),
            None => std::env::var_os(name),
        };
        let value = value.and_then(|value| value.into_string().ok());
        match value.as_deref().map(str::trim).filter(|value| !value.is_empty()) {
            Some(value) if http::HeaderValue::from_str(value).is_ok() => Ok(Some(Secret::new(value))),
            Some(_) => {
                let reason = format!("the API key in {name} holds characters that no HTTP header can");
                Err(self.refuse(Code::InvalidApiKey, reason))
            }
            None => Err(self.refuse(Code::NotLoggedIn, format!("there is no API key: {name} is not set"))),
        }
    }

    /// What a request needs.
    async fn connect(
        self: &Arc<Self>,
        surroundings: Surroundings,
    ) -> Result<(Option<Secret>, Client), Box<ProviderError>> {
        let key = surroundings.key?;
        Ok((key, self.client(surroundings.route).await?))
    }

    /// The client, made now if there is none.
    async fn client(self: &Arc<Self>, route: Option<Route>) -> Result<Client, Box<ProviderError>> {
        let engine = Arc::clone(self);
        // Reading the system's certificates takes tens of milliseconds, and a thread of its own.
        let made = tokio::task::spawn_blocking(move || -> Result<Client, String> {
            let mut client = engine.client.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(client) = &*client {
                return Ok(client.clone());
            }
            let route = route.unwrap_or_else(Route::direct);
            let made = Client::new(&engine.settings.chat, route)?;
            *client = Some(made.clone());
            Ok(made)
        });
        match made.await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(why)) => Err(self.refuse(Code::ConnectionFailed, format!("no request can be made: {why}"))),
            Err(panic) => Err(self.refuse(
                Code::Internal,
                format!("a bug in this package stopped the call: {panic}"),
            )),
        }
    }
}

impl Model for ApiEngine {
    fn id(&self) -> &str {
        ApiEngine::id(self)
    }

    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        self.refusal().map_or(Ok(()), Err)?;
        self.key(Some(env)).map(|_| ())
    }

    fn redactor(&self, env: &Vars) -> Redactor {
        let key = self.key(Some(env)).ok().flatten();
        record::redactor_of(env).and(&self.settings.redactor(key.as_ref()))
    }

    fn begin(self: Arc<Self>, request: ModelRequest) -> Run {
        let surroundings = self.surroundings(request.env.as_deref());
        ApiEngine::run(&self, surroundings, |_| Ok(request))
    }
}
