//! Providers, the threads that they are sent, and their runs, as JavaScript holds them.

use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{PromiseRaw, Uint32Array, Utf16String, within_runtime_if_available};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status};
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use super::agent::NativeModel;
use super::{Made, Text, from_json, outcome, promise, text, variables};
use dfp_exchange::script::Script;
use dfp_health::{Check, Checkable};
use dfp_model::error::ProviderError;
use dfp_model::message::well_formed;
use dfp_model::thread::{Shelf, Unfit};
use dfp_run::Model;
use dfp_run::api::ApiProvider;
use dfp_run::commands::execute_file;
use dfp_run::request::EncodedRequest;
use dfp_run::{CliProvider, Ended, LogBatch, Run};

/// One provider object, for a CLI or an API.
#[napi]
pub struct NativeProvider {
    provider: Made<dyn Checkable>,
}

impl NativeProvider {
    pub(super) fn of<P: Checkable + 'static>(made: Result<P, Box<ProviderError>>) -> Self {
        let provider = made.map(|provider| Arc::new(provider) as Arc<dyn Checkable>);
        NativeProvider {
            provider: Made(provider),
        }
    }
}

#[napi]
impl NativeProvider {
    /// Makes a built-in provider; [`NativeProvider::check`] reports what is wrong with the options.
    #[napi(constructor, catch_unwind)]
    pub fn new(kind: String, options_json: String, owner: u32) -> Self {
        NativeProvider::of(CliProvider::new(&kind, &well_formed(options_json), u64::from(owner)))
    }

    /// Makes the provider that `config_json` describes; [`NativeProvider::check`] reports what is wrong with its fields and the
    /// options.
    #[napi(factory, catch_unwind)]
    pub fn custom(config_json: String, options_json: String, owner: u32) -> Self {
        NativeProvider::of(CliProvider::custom(
            &well_formed(config_json),
            &well_formed(options_json),
            u64::from(owner),
        ))
    }

    /// Makes a provider for the agent that `config_json` describes, over the Agent Client Protocol; [`NativeProvider::check`]
    /// reports what is wrong with its fields and the options.
    #[napi(factory, catch_unwind)]
    pub fn acp(config_json: String, options_json: String, owner: u32) -> Self {
        NativeProvider::of(CliProvider::agent(
            &well_formed(config_json),
            &well_formed(options_json),
            u64::from(owner),
        ))
    }

    /// Makes a provider for an OpenAI-compatible API.
    #[napi(factory, catch_unwind)]
    pub fn api(options_json: String) -> Self {
        NativeProvider::of(ApiProvider::new(&well_formed(options_json)))
    }

    /// The provider's id.
    #[napi(getter, catch_unwind)]
    pub fn id(&self) -> napi::Result<String> {
        Ok(self.provider.get()?.id().to_owned())
    }

    /// `{"ok": null}`, or `{"err": …}` that names the option.
    #[napi(catch_unwind)]
    pub fn check(&self) -> String {
        self.provider.check()
    }

    /// Begins a run of the thread that [`Shelf::thread`] makes of `packed`, and returns at once; everything slow happens on the
    /// runtime's threads. `null` if a number of the plan has no message: then the thread has to be handed over as a whole. `env_json` is
    /// set if JavaScript's environment variables are not the process's: in worker threads.
    #[napi(catch_unwind)]
    pub fn start(
        &self,
        shelf: &NativeShelf,
        packed: (Utf16String, Utf16String, Uint32Array),
        tools_json: String,
        call_json: String,
        env_json: Option<String>,
    ) -> napi::Result<Option<NativeRun>> {
        let (messages_json, texts, plan) = packed;
        let messages = match shelf.shelf.thread(messages_json, texts, &plan) {
            Ok(thread) => thread,
            Err(Unfit::Unknown) => return Ok(None),
            Err(Unfit::Lengths) => return Err(napi::Error::from_reason("lengths that are not those of the strings")),
        };
        let provider = Arc::clone(self.provider.get()?);
        let env = variables(env_json)?;
        let request = EncodedRequest {
            messages,
            tools: well_formed(tools_json),
            options: well_formed(call_json),
        };
        let run = within_runtime_if_available(|| provider.start(request, env));
        Ok(Some(NativeRun::new(run)))
    }

    /// The provider as an agent's model.
    #[napi(catch_unwind)]
    pub fn model(&self) -> napi::Result<NativeModel> {
        let model: Arc<dyn Model> = Arc::<dyn Checkable>::clone(self.provider.get()?);
        Ok(NativeModel { model })
    }

    /// Starts processes for the next calls, and resolves when they are ready: `{"ok": null}` or `{"err": …}`. `known_json`:
    /// `{"system": text?, "tools": [spec…]?}`; `env_json` as for [`NativeProvider::start`].
    #[napi(catch_unwind)]
    pub fn prewarm<'env>(
        &self,
        env: &'env Env,
        known_json: String,
        env_json: Option<String>,
    ) -> napi::Result<PromiseRaw<'env, String>> {
        let vars = variables(env_json)?;
        let ready = Arc::clone(self.provider.get()?).prewarm(well_formed(known_json), vars);
        promise(env, async move { outcome(ready.await) })
    }

    /// The models of the provider's login: `{"ok": [model…]}` or `{"err": …}`. `env_json` as for [`NativeProvider::start`].
    #[napi(catch_unwind)]
    pub fn models<'env>(&self, env: &'env Env, env_json: Option<String>) -> napi::Result<PromiseRaw<'env, String>> {
        let vars = variables(env_json)?;
        let listed = Arc::clone(self.provider.get()?).models(vars);
        promise(env, async move { outcome(listed.await) })
    }

    /// Begins a health check and returns at once. `level_json`: `"command"`, `"version"`, `"auth"` or `"request"`; `env_json` as
    /// for [`NativeProvider::start`].
    #[napi(catch_unwind)]
    pub fn health(&self, level_json: String, env_json: Option<String>) -> napi::Result<NativeHealth> {
        let level = from_json(&level_json)?;
        let env = variables(env_json)?;
        let provider = Arc::clone(self.provider.get()?);
        Ok(NativeHealth::new(within_runtime_if_available(|| {
            provider.check(level, env)
        })))
    }

    /// Refuses all further calls. Calls that run or wait go on.
    #[napi(catch_unwind)]
    pub fn refuse_further(&self) -> napi::Result<()> {
        self.provider.get()?.lifecycle().refuse_further();
        Ok(())
    }

    /// Refuses all further calls, and waits until those that run or wait have ended by themselves.
    #[napi(catch_unwind)]
    pub fn drain<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        let provider = Arc::clone(self.provider.get()?);
        promise(env, async move { provider.lifecycle().drain().await })
    }

    /// Ends all runs and waits until the last of their processes has ended.
    #[napi(catch_unwind)]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        promise(env, Arc::clone(self.provider.get()?).close())
    }
}

/// One run.
#[napi]
pub struct NativeRun {
    run: Arc<Run>,
    /// The answer's text, until it is taken.
    text: Arc<Mutex<String>>,
    unwatched: CancellationToken,
}

impl NativeRun {
    fn new(run: Run) -> Self {
        NativeRun {
            run: Arc::new(run),
            text: Arc::default(),
            unwatched: CancellationToken::new(),
        }
    }
}

#[napi]
impl NativeRun {
    /// The next batch of events as a JSON array; `null` when no more will come.
    #[napi(catch_unwind)]
    pub fn next<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Option<Text>>> {
        let run = Arc::clone(&self.run);
        promise(env, async move { run.next().await.map(text) })
    }

    /// `{"ok": reply}`, `{"err": error}` or `{"cancelled": true}`. The reply's `content` is left empty, because it may be long, and
    /// is fetched by [`NativeRun::take_text`]. Its `messages` are left empty, too: the `done` event has them.
    #[napi(catch_unwind)]
    pub fn result<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Text>> {
        let (run, content) = (Arc::clone(&self.run), Arc::clone(&self.text));
        promise(env, async move {
            text(match run.result().await {
                Ended::Replied(mut reply) => {
                    reply.messages = Vec::new();
                    let answer = std::mem::take(&mut reply.content);
                    *content.lock().unwrap_or_else(PoisonError::into_inner) = answer;
                    outcome(Ok(reply))
                }
                Ended::Failed(error) => outcome::<()>(Err(error)),
                Ended::Cancelled => r#"{"cancelled":true}"#.to_owned(),
            })
        })
    }

    /// The text of the answer. It can be taken once, after [`NativeRun::result`].
    #[napi(catch_unwind)]
    pub fn take_text(&self) -> Text {
        text(std::mem::take(
            &mut *self.text.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    /// Resolves when the run has failed, was cancelled, or its time is up, so that nobody needs to wait for a consumer that is slow
    /// to take events. `unwatch` ends the wait.
    #[napi(catch_unwind)]
    pub fn lost<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        let (run, unwatched) = (Arc::clone(&self.run), self.unwatched.clone());
        promise(env, async move {
            tokio::select! {
                () = run.lost() => {}
                () = unwatched.cancelled() => {}
            }
        })
    }

    /// Resolves the promise of `lost`.
    #[napi(catch_unwind)]
    pub fn unwatch(&self) {
        self.unwatched.cancel();
    }

    /// The next log records as soon as there are any: `{"batch": n, "records": [LogRecord…]}`; `null` when the run is over.
    #[napi(catch_unwind)]
    pub fn next_log<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Option<String>>> {
        let run = Arc::clone(&self.run);
        promise(env, async move { run.next_log().await.and_then(batch) })
    }

    /// The log records since the last call, in the form of [`NativeRun::next_log`]; `null` if there are none.
    #[napi(catch_unwind)]
    pub fn take_log(&self) -> Option<String> {
        self.run.take_log().and_then(batch)
    }

    /// Cancels the run; `result` then reports that.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.run.cancel();
    }
}

/// A health check of a provider.
#[napi]
pub struct NativeHealth {
    check: Arc<Result<Check, Box<ProviderError>>>,
}

impl NativeHealth {
    fn new(check: Result<Check, Box<ProviderError>>) -> Self {
        NativeHealth { check: Arc::new(check) }
    }
}

#[napi]
impl NativeHealth {
    /// `{"ok": report}`, `{"err": …}` for a closed provider, or `{"cancelled": true}`.
    #[napi(catch_unwind)]
    pub fn result<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let check = Arc::clone(&self.check);
        promise(env, async move {
            match check.as_ref() {
                Ok(check) => match check.result().await {
                    Ok(Some(report)) => outcome(Ok(report)),
                    Ok(None) => r#"{"cancelled":true}"#.to_owned(),
                    Err(error) => outcome::<()>(Err(error)),
                },
                Err(error) => outcome::<()>(Err(error.clone())),
            }
        })
    }

    /// Ends everything that the check has started; `result` then reports that it was cancelled.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        if let Ok(check) = self.check.as_ref() {
            check.cancel();
        }
    }
}

/// Every built-in provider as JSON: `[{id, name, command, versions, models, pure, hands, dropsChoices}]`. `hands` lists the kinds of
/// content besides text that at least one of its engines hands to the model.
#[napi(catch_unwind)]
pub fn providers() -> String {
    let all = dfp_provider::ALL.iter().map(|provider| {
        let about = provider.about;
        serde_json::json!({
            "id": provider.id,
            "name": about.name,
            "command": provider.command,
            "versions": about.versions,
            "models": provider.models,
            "pure": provider.capabilities.is_pure(),
            "hands": provider.capabilities.handed_over(),
            "dropsChoices": provider.drops_choices,
        })
    });
    serde_json::Value::Array(all.collect()).to_string()
}

/// The JSON of a batch of log records. Writing it can't fail, since records are made of JSON values.
fn batch(batch: LogBatch) -> Option<String> {
    serde_json::to_string(&batch).ok()
}

/// Runs a program without a shell: `{"ok": stdout}` or `{"err": …}` (SPEC-01's `execFileAsync`). `env_json` as for
/// [`NativeProvider::start`]. The environment is read on JavaScript's thread, because only that one may change it.
#[napi(catch_unwind)]
pub fn exec_file<'env>(
    env: &'env Env,
    file: String,
    args_json: String,
    options_json: String,
    owner: u32,
    env_json: Option<String>,
) -> napi::Result<PromiseRaw<'env, String>> {
    let args: Vec<String> = from_json(&well_formed(args_json))?;
    let base = variables(env_json)?.unwrap_or_else(|| std::env::vars_os().collect());
    promise(env, async move {
        outcome(execute_file(&file, args, &options_json, Arc::new(base), u64::from(owner)).await)
    })
}

// The messages that JavaScript can hand over again by their numbers.

/// One shelf of messages. Its numbers mean nothing to another copy of the package, or to another thread.
#[napi]
#[derive(Default)]
pub struct NativeShelf {
    shelf: Shelf,
}

#[napi]
impl NativeShelf {
    /// An empty shelf.
    #[napi(constructor, catch_unwind)]
    pub fn new() -> Self {
        NativeShelf::default()
    }

    /// Drops the messages of these numbers. Runs that have begun keep theirs.
    #[napi(catch_unwind)]
    pub fn release(&self, numbers: Uint32Array) {
        self.shelf.release(&numbers);
    }

    /// Drops all messages.
    #[napi(catch_unwind)]
    pub fn clear(&self) {
        self.shelf.clear();
    }
}

// The script of a test, which answers a provider's requests in JavaScript.

/// A function of JavaScript's that keeps nothing alive: the run that waits for it does.
type Listener = ThreadsafeFunction<Text, (), Text, Status, false, true>;

/// A provider whose requests a function answers.
#[napi]
pub struct NativeScript {
    script: Arc<Script>,
    options: String,
}

#[napi]
impl NativeScript {
    /// Makes the script. `listener` gets `{"number", "request": {"messages", "tools", "options"}}`, and `{"number", "left": true}` when
    /// nobody waits for an answer any more; it must not throw. `options_json` is that of an API, without an address.
    #[napi(constructor, catch_unwind)]
    pub fn new(options_json: String, listener: Listener) -> Self {
        let ask = move |message: String| {
            // The environment may be about to end: then nobody waits either.
            let _status = listener.call(text(message), ThreadsafeFunctionCallMode::NonBlocking);
        };
        NativeScript {
            script: Arc::new(Script::new(Arc::new(ask))),
            options: well_formed(options_json),
        }
    }

    /// The provider that asks the script.
    #[napi(catch_unwind)]
    pub fn provider(&self) -> NativeProvider {
        NativeProvider::of(ApiProvider::scripted(&self.options, Arc::clone(&self.script)))
    }

    /// Lets go of the listener. To be called when the provider is closed: until then, each holds the other.
    #[napi(catch_unwind)]
    pub fn end(&self) {
        self.script.end();
    }

    /// Takes a part of the answer to the request `number`: a JSON array of events, each an object of one field, its kind.
    #[napi(catch_unwind)]
    pub fn tell(&self, number: u32, events_json: String) {
        self.script.tell(number, well_formed(events_json));
    }
}
