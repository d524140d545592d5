//! OpenAI-compatible APIs, as JavaScript holds them: the same methods as a CLI's provider.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::{PromiseRaw, Utf16String, within_runtime_if_available};
use napi_derive::napi;

use super::agent::NativeModel;
use super::environment::{promise, variables};
use super::provider::{NativeHealth, NativeRun};
use super::{Made, from_json, outcome};
use crate::health::Check;
use crate::run::api::ApiEngine;
use crate::run::model::Model;
use crate::run::request::EncodedRequest;
use crate::thread::Thread;

/// One provider object.
#[napi]
pub struct NativeApiProvider {
    engine: Made<ApiEngine>,
}

#[napi]
impl NativeApiProvider {
    /// What the options are worth, [`NativeApiProvider::check`] says.
    #[napi(constructor, catch_unwind)]
    pub fn new(options_json: String) -> Self {
        NativeApiProvider {
            engine: Made::new(ApiEngine::new(&options_json)),
        }
    }

    /// `{"ok": null}`, or `{"err": …}` that names the option.
    #[napi(catch_unwind)]
    pub fn check(&self) -> String {
        self.engine.check()
    }

    /// The provider's id.
    #[napi(getter, catch_unwind)]
    pub fn id(&self) -> napi::Result<String> {
        Ok(self.engine.get()?.id().to_owned())
    }

    /// Begins a run and returns at once. `env_json` as for `NativeProvider.start`: the key and the proxy are looked up there.
    #[napi(catch_unwind)]
    pub fn start(
        &self,
        messages_json: Utf16String,
        texts: Utf16String,
        tools_json: String,
        call_json: String,
        env_json: Option<String>,
    ) -> napi::Result<NativeRun> {
        let env = variables(env_json)?;
        let request = EncodedRequest {
            messages: Thread::new(messages_json, texts),
            tools: tools_json,
            options: call_json,
        };
        let engine = self.engine.get()?;
        Ok(NativeRun::new(within_runtime_if_available(|| {
            ApiEngine::start(engine, request, env)
        })))
    }

    /// The provider as an agent talks to it.
    #[napi(catch_unwind)]
    pub fn model(&self) -> napi::Result<NativeModel> {
        let model = Arc::clone(self.engine.get()?) as Arc<dyn Model>;
        Ok(NativeModel { model })
    }

    /// There is nothing to start ahead: `{"ok": null}`, or `{"err": …}` of a closed provider.
    #[napi(catch_unwind)]
    pub fn prewarm<'env>(
        &self,
        env: &'env Env,
        _known_json: String,
        _env_json: Option<String>,
    ) -> napi::Result<PromiseRaw<'env, String>> {
        let engine = Arc::clone(self.engine.get()?);
        promise(env, async move { outcome(engine.refusal().map_or(Ok(()), Err)) })
    }

    /// As `NativeProvider.health`.
    #[napi(catch_unwind)]
    pub fn health(&self, level_json: String, env_json: Option<String>) -> napi::Result<NativeHealth> {
        let level = from_json(&level_json)?;
        let env = variables(env_json)?;
        let engine = Arc::clone(self.engine.get()?);
        Ok(NativeHealth::new(within_runtime_if_available(|| {
            Check::of_api(&engine, level, env.as_ref())
        })))
    }

    /// Refuses further calls from now on; those that run or wait go on.
    #[napi(catch_unwind)]
    pub fn refuse_further(&self) -> napi::Result<()> {
        self.engine.get()?.refuse_further();
        Ok(())
    }

    /// Refuses further calls, and waits until those that run or wait have ended by themselves.
    #[napi(catch_unwind)]
    pub fn drain<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        let engine = Arc::clone(self.engine.get()?);
        promise(env, async move { engine.drain().await })
    }

    /// Ends all runs and waits for the last of them.
    #[napi(catch_unwind)]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        let engine = Arc::clone(self.engine.get()?);
        promise(env, async move { engine.close().await })
    }
}
