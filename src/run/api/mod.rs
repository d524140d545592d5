//! A provider object of an OpenAI-compatible API: its options, its connections, and the facts it takes from the environment.
//!
//! In: a call, which is read, checked, connected and recorded, then tried until it ends. Out: its [`Run`], with the same events, retries
//! and records as a CLI's.
//!
//! A check finds out without a request that is billed whether the API is there and takes the key: [`Prepared`] makes one `GET /models`.

mod attempt;

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::timeout;

use self::attempt::{ApiCall, ApiQuestion};
use crate::choices;
use crate::lifecycle::{self, CallHandles, Ended, KnownModels, Lifecycle, Model, ProviderObject, Run, Work};
use crate::record::{self, Sink};
use crate::request::{Checked, EncodedRequest, Request, Unread};
use crate::retry_loop::{self, UsedUp, local_offset_min};
use crate::structured::FitsSchema;
use dfp_exchange::http::{Client, Response, Route};
use dfp_exchange::script::Script;
use dfp_model::error::{Code, ProviderError};
use dfp_process::activity::now_ms;
use dfp_process::{Vars, limit};
use dfp_provider::api::request::ACCEPTS;
use dfp_provider::api::settings::{self, Key, Settings, refusal, unserved};
use dfp_provider::api::{PROVIDER, read_models};
use dfp_provider::capability;
use dfp_provider::choices::OnUnsupported;
use dfp_provider::judge::{CliRules, Context, Evidence, HttpEnd, HttpEvidence, StopReason, judge};
use dfp_provider::models::ListedModel;
use dfp_text::fold::Folded;
use dfp_text::redact::{self, Redactor, Secret};
use dfp_text::schema::enforced;

/// A provider object of an API: its options, its connections, and its runs.
#[derive(Debug)]
pub struct ApiProvider {
    pub(super) settings: Settings,
    pub(super) lifecycle: Lifecycle,
    /// True if the server was sent the schema of an answer and refused it: schemas are asked for in words from then on.
    refuses_schemas: AtomicBool,
    /// The HTTP client, made with the first call.
    client: Mutex<Option<Client>>,
    /// The plans that are used up.
    pub(super) used_up: UsedUp,
    pub(super) known_models: KnownModels,
    /// The script that answers in the server's place.
    pub(super) script: Option<Arc<Script>>,
}

impl Deref for ApiProvider {
    type Target = Lifecycle;

    fn deref(&self) -> &Lifecycle {
        &self.lifecycle
    }
}

/// The facts that a call takes from the environment. They are read on JavaScript's thread, the only one that may change it.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub key: Result<Option<Secret>, Box<ProviderError>>,
    /// The route to the API; `None` if there is a client already.
    pub route: Option<Route>,
    /// The variables with names of secrets, and their values.
    pub secrets: Arc<Vec<(String, String)>>,
}

impl Surroundings {
    /// Makes the redactor of a call, which knows the secrets of the request itself and of the environment.
    pub fn redactor(&self, settings: &Settings) -> Redactor {
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

impl ApiProvider {
    /// Creates the provider object with the options of `options_json`. No connection is made.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
    pub fn new(options_json: &str) -> Result<ApiProvider, Box<ProviderError>> {
        let settings = Settings::parse(options_json)?;
        limit::global().allow(&settings.place(), settings.max_concurrency);
        Ok(ApiProvider {
            lifecycle: Lifecycle::new(Cow::Owned(settings.id.clone()), Some(PROVIDER))
                .with_budget(settings.budget.clone()),
            settings,
            refuses_schemas: AtomicBool::new(false),
            client: Mutex::new(None),
            used_up: UsedUp::default(),
            known_models: KnownModels::default(),
            script: None,
        })
    }

    /// Creates the provider object of a script, which needs no address and no key. No request leaves the process.
    ///
    /// # Errors
    /// `INVALID_OPTION`, as for [`ApiProvider::new`].
    pub fn scripted(options_json: &str, script: Arc<Script>) -> Result<ApiProvider, Box<ProviderError>> {
        /// Each has an address of its own, by which the queue counts.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let mut options: Map<String, Value> = serde_json::from_str(options_json).unwrap_or_default();
        options.insert("baseURL".to_owned(), format!("http://script.invalid/{number}").into());
        let api = ApiProvider::new(&Value::Object(options).to_string())?;
        Ok(ApiProvider {
            known_models: KnownModels::default(),
            script: Some(script),
            ..api
        })
    }

    /// Returns whether the server is known to refuse the schema of an answer.
    fn refuses_schemas(&self) -> bool {
        self.refuses_schemas.load(Ordering::Relaxed)
    }

    /// Notes that the server has refused the schema of an answer.
    fn remember_refused_schemas(&self) {
        self.refuses_schemas.store(true, Ordering::Relaxed);
    }

    /// Ends all runs and waits for them; unused connections are closed. Later calls fail with `CLOSED`.
    pub async fn close(&self) {
        self.lifecycle.end().await;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The scheme, host, port and path of the API, for people.
    pub fn place(&self) -> String {
        self.settings.place()
    }

    /// Reads the facts that a call takes from `env`, or from this process's environment.
    pub(super) fn surroundings(&self, env: Option<&Vars>) -> Surroundings {
        // This is JavaScript's thread, so it does not wait for a client that is being made. Looking for the route costs next to nothing.
        let known = self.client.try_lock().is_ok_and(|client| client.is_some());
        Surroundings {
            key: self.key(env),
            route: (!known).then(|| Route::find(&self.settings.chat, env)),
            secrets: Arc::new(secrets_of(env)),
        }
    }

    /// Returns the key, if one is to be sent.
    pub(super) fn key(&self, env: Option<&Vars>) -> Result<Option<Secret>, Box<ProviderError>> {
        let name = match &self.settings.key {
            Key::Value(key) => return Ok(Some(key.clone())),
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

    /// Returns the key and the HTTP client that a request needs; a script needs neither.
    async fn connect(
        self: &Arc<Self>,
        surroundings: Surroundings,
    ) -> Result<(Option<Secret>, Option<Client>), Box<ProviderError>> {
        if self.script.is_some() {
            return Ok((None, None));
        }
        let key = surroundings.key?;
        Ok((key, Some(self.client(surroundings.route).await?)))
    }

    /// Returns the client, and makes it if there is none.
    async fn client(self: &Arc<Self>, route: Option<Route>) -> Result<Client, Box<ProviderError>> {
        let api = Arc::clone(self);
        // Reading the system's certificates takes tens of milliseconds, and a thread of its own.
        let made = tokio::task::spawn_blocking(move || -> Result<Client, String> {
            let mut client = api.client.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(client) = &*client {
                return Ok(client.clone());
            }
            let route = route.unwrap_or_else(Route::direct);
            let made = Client::new(&api.settings.chat, route)?;
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

impl ApiProvider {
    pub(super) fn run(api: &Arc<ApiProvider>, surroundings: Surroundings, unread: Unread) -> Run {
        let of_task = Arc::clone(api);
        (api.lifecycle).begin(move |handles| of_task.call(unread, surroundings, handles))
    }

    /// Makes one call, to its end.
    async fn call(
        self: Arc<Self>,
        unread: Unread,
        surroundings: Surroundings,
        handles: CallHandles,
    ) -> Result<Ended, Box<ProviderError>> {
        let refuse = |(code, reason)| self.refuse(code, reason);
        let invalid = |reason| self.refuse(Code::InvalidOption, reason);
        let reading = unread.read(self.settings.timeout);
        let Some(read) = handles.cancel.run_until_cancelled(reading).await else {
            return Ok(self.closed().map_or(Ended::Cancelled, Ended::Failed));
        };
        let Checked {
            messages,
            tools,
            options,
            output,
            call_ids,
            recorded,
            nested_permit,
        } = read
            .map_err(refuse)?
            .check(self.id(), &ACCEPTS, Settings::check_timeout)
            .map_err(refuse)?;
        let choices = options.choices.read(Settings::choices).map_err(invalid)?;
        if let Some(choice) = &choices.tool_choice {
            let names = tools.iter().map(|tool| tool.name.as_str());
            choice.check(names).map_err(invalid)?;
        }
        let asked = choices.choices.clone().or(&self.settings.unserved);
        let on_unsupported = choices.on_unsupported.or(self.settings.on_unsupported);
        if let Some(feature) = unserved(&asked).next()
            && on_unsupported != Some(OnUnsupported::Warn)
        {
            return Err(Box::new(refusal(feature, self.id())));
        }
        let warning = |feature| choices::left_out_warning(capability::refusal(feature, self.id(), None));
        let left_out = unserved(&asked).map(warning).collect();
        let (of_api, of_env) = (Arc::clone(&self), surroundings.clone());
        let redactor = record::lazy_redactor(move || of_env.redactor(&of_api.settings));
        let (key, client) = self.connect(surroundings).await?;
        let mut checks = choices::checks(self.id(), choices.tool_choice.as_ref());
        if let Some(schema) = &output {
            checks.push(Arc::new(FitsSchema {
                schema: Arc::clone(schema),
                provider: self.id().to_owned(),
                cli_asks_again: false,
            }));
        }
        let output = output.map(|schema| {
            let is_told = enforced::is_one_object(schema.value());
            (schema, is_told)
        });
        let question = ApiQuestion::new(&self, choices.clone(), messages, tools, checks, output);
        let asked = choices.choices.model.clone();
        let cancel = handles.cancel.clone();
        let sink = Sink::of_call(&self.lifecycle, handles, &options, recorded, redactor)
            .await?
            .in_pieces(options.partial);
        let mut of_api = ApiCall {
            question,
            api: &self,
            left_out,
            client: client.as_ref(),
            redactor: self.settings.redactor(key.as_ref()),
            key: key.as_ref(),
            call_ids,
            options: &options,
            nested_permit,
            cancel: &cancel,
            sink: &sink,
        };
        let ended = retry_loop::answer(&mut of_api, &cancel, &sink).await;
        let asked = asked.as_deref().unwrap_or(&self.settings.model);
        let ended = self.known_models.advise(ended, asked);
        sink.close(&ended).await;
        Ok(ended)
    }
}

impl Model for ApiProvider {
    fn id(&self) -> &str {
        self.lifecycle.id()
    }

    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        self.refusal().map_or(Ok(()), Err)?;
        self.key(Some(env)).map(|_| ())
    }

    fn redactor(&self, env: &Vars) -> Redactor {
        let key = self.key(Some(env)).ok().flatten();
        record::redactor_of(env).and(&self.settings.redactor(key.as_ref()))
    }

    fn begin(self: Arc<Self>, request: Request) -> Run {
        let surroundings = self.surroundings(request.env.as_deref());
        ApiProvider::run(&self, surroundings, Unread::Made(Box::new(request)))
    }
}

impl ProviderObject for ApiProvider {
    fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn start(self: Arc<Self>, request: EncodedRequest, env: Option<Vars>) -> Run {
        let surroundings = self.surroundings(env.as_ref());
        ApiProvider::run(&self, surroundings, Unread::Encoded(request))
    }

    fn models(self: Arc<Self>, env: Option<Vars>) -> Work<Result<Vec<ListedModel>, Box<ProviderError>>> {
        // The environment is read here, on the caller's thread.
        let prepared = Prepared::new(&self, env.as_ref());
        Box::pin(async move { prepared.models().await })
    }

    fn close(self: Arc<Self>) -> Work<()> {
        Box::pin(async move { ApiProvider::close(&self).await })
    }
}

/// The time that the answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The longest list that is read: OpenRouter's has 1 MB.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A prepared look at the API, which can be taken any number of times. It is made where the environment may be read.
pub struct Prepared {
    api: Arc<ApiProvider>,
    surroundings: Surroundings,
}

/// The result of asking an API whether it is there.
#[derive(Debug)]
pub enum Probe {
    /// The server lists its models to this key.
    Listed,
    /// The server is there, and answers with this error. Its `http_status` is known.
    Answered(Box<ProviderError>),
    /// Nothing was sent, or no response came.
    Nothing(Box<ProviderError>),
}

impl Prepared {
    /// Reads the environment; `env` is that of [`crate::lifecycle::ProviderObject::start`].
    pub fn new(api: &Arc<ApiProvider>, env: Option<&Vars>) -> Prepared {
        Prepared {
            api: Arc::clone(api),
            surroundings: api.surroundings(env),
        }
    }

    /// The reason why a required key is missing.
    pub fn no_key(&self) -> Option<&ProviderError> {
        self.surroundings.key.as_ref().err().map(Box::as_ref)
    }

    /// Returns whether there is a key to send.
    pub fn has_key(&self) -> bool {
        matches!(self.surroundings.key, Ok(Some(_)))
    }

    /// Begins a call with the facts that [`Prepared::new`] read.
    pub fn call(&self, request: Request) -> Run {
        ApiProvider::run(&self.api, self.surroundings.clone(), Unread::Made(Box::new(request)))
    }

    /// Asks the server, with the key if there is one.
    pub async fn look(&self) -> Probe {
        match self.list().await {
            Ok(_) => Probe::Listed,
            Err(probe) => probe,
        }
    }

    /// The models that the server lists.
    ///
    /// # Errors
    /// `CLOSED`, or as a call where the server can't be asked; `UNSUPPORTED_OPTION` if it has no list.
    pub async fn models(&self) -> Result<Vec<ListedModel>, Box<ProviderError>> {
        let api = &self.api;
        api.refusal().map_or(Ok(()), Err)?;
        let not_listed = |why: &str| lifecycle::not_listed(api.id(), why);
        if api.script.is_some() {
            return Err(not_listed("a script answers"));
        }
        self.surroundings.key.as_ref().map_err(Clone::clone)?;
        let body = timeout(LIMIT, async {
            let mut response = self.list().await.map_err(|probe| match probe {
                Probe::Answered(error) if matches!(error.http_status, Some(404 | 405 | 501)) => {
                    not_listed("the server has no such list (GET /models)")
                }
                Probe::Answered(error) | Probe::Nothing(error) => error,
                Probe::Listed => not_listed("the server has no such list"),
            })?;
            let mut body = Vec::new();
            while let Some(piece) = response
                .next()
                .await
                .map_err(|why| api.refuse(Code::ConnectionLost, why))?
            {
                if body.len() + piece.len() > MOST_BYTES {
                    return Err(not_listed("the server's list has more than 16 MiB"));
                }
                body.extend_from_slice(&piece);
            }
            Ok(body)
        });
        let body = body.await.unwrap_or_else(|_| {
            let reason = format!("the server did not list its models within {} s", LIMIT.as_secs());
            Err(api.refuse(Code::Timeout, reason))
        })?;
        let listed =
            read_models(&body).ok_or_else(|| not_listed("the server's answer to GET /models is no list of models"))?;
        api.known_models.keep(&listed);
        Ok(listed)
    }

    /// The response with the list of models, or what came instead.
    async fn list(&self) -> Result<Response, Probe> {
        let api = &self.api;
        let key = self.surroundings.key.as_ref().ok().and_then(Option::clone);
        let client = match api.client(self.surroundings.route.clone()).await {
            Ok(client) => client,
            Err(error) => return Err(Probe::Nothing(error)),
        };
        let settings = &api.settings;
        let end = match timeout(LIMIT, client.models(settings, key.as_ref())).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(end)) => end,
            Err(_) => HttpEnd::Stopped(StopReason::Timeout(LIMIT)),
        };
        let is_answered = matches!(end, HttpEnd::Refused { .. });
        let context = Context {
            provider: api.id(),
            rules: CliRules::default(),
            now_ms: now_ms(),
            local_offset_min: local_offset_min(),
        };
        let evidence = Evidence::Http(HttpEvidence {
            origin: settings::origin(&settings.models),
            end,
            status: None,
            diagnostics: Vec::new(),
            redactor: settings.redactor(key.as_ref()),
        });
        let mut error = match judge(&context, evidence, Folded::default()) {
            Err(error) => error,
            // A refusal is never a success.
            Ok(_) => api.refuse(Code::Internal, "the look came to nothing"),
        };
        self.surroundings.redactor(settings).clean_error(&mut error);
        Err(match is_answered {
            true => Probe::Answered(error),
            false => Probe::Nothing(error),
        })
    }
}
