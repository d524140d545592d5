//! An agent's run, as JavaScript holds it.

use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;

use super::environment::{promise, variables};
use super::outcome;
use crate::agent::{Agent, AgentRun, Conversation};
use crate::error::ProviderError;
use crate::message::well_formed;
use crate::run::model::Model;

/// Whatever an agent can talk to. A provider gives its own (`model()`).
#[napi]
pub struct NativeModel {
    pub(super) model: Arc<dyn Model>,
}

/// What is to be run.
#[napi]
pub struct NativeAgent {
    agent: Mutex<Result<Option<Agent>, Box<ProviderError>>>,
    models: Mutex<Vec<Conversation>>,
}

#[napi]
impl NativeAgent {
    /// Reads and checks what is to be run; `check` says what is wrong with it.
    #[napi(constructor, catch_unwind)]
    pub fn new(spec_json: String) -> Self {
        NativeAgent {
            agent: Mutex::new(Agent::new(&well_formed(spec_json)).map(Some)),
            models: Mutex::default(),
        }
    }

    /// `{"ok": null}`, or `{"err": …}` that names the field.
    #[napi(catch_unwind)]
    pub fn check(&self) -> String {
        let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        outcome(agent.as_ref().map(|_| ()).map_err(Clone::clone))
    }

    /// The model of the spec's next agent: `{"ok": null}`, or `{"err": …}` if it can't be called as the agent is to be.
    #[napi(catch_unwind)]
    pub fn add_model(&self, model: &NativeModel) -> String {
        let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let agent = agent.as_ref().ok().and_then(Option::as_ref);
        let (way, path) = agent
            .and_then(|agent| agent.tool_calls(models.len()))
            .unwrap_or_default();
        outcome(Conversation::new(&model.model, way, &path).map(|model| models.push(model)))
    }

    /// The run goes on after what earlier attempts have left, a JSON array of texts, and what happens in it is kept: `{"ok": null}`, or
    /// `{"err": …}`. After the models were added.
    #[napi(catch_unwind)]
    pub fn resume(&self, entries_json: String) -> String {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        outcome(match agent.as_mut() {
            Ok(Some(agent)) => agent.resume(&entries_json, &models),
            Ok(None) => Ok(()),
            Err(error) => Err(error.clone()),
        })
    }

    /// Begins the run, once, and returns at once. `env_json` as for `NativeProvider.start`; one that is `cancelled` already asks
    /// nobody.
    #[napi(catch_unwind)]
    pub fn start(&self, env_json: Option<String>, cancelled: bool) -> napi::Result<NativeAgentRun> {
        let env = variables(env_json)?;
        let models = std::mem::take(&mut *self.models.lock().unwrap_or_else(PoisonError::into_inner));
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(Some(agent)) = agent.as_mut().map(Option::take) else {
            return Err(napi::Error::from_reason("it can't be run, or was run before"));
        };
        let run = napi::bindgen_prelude::within_runtime_if_available(|| agent.start(models, env, cancelled));
        match run {
            Ok(run) => Ok(NativeAgentRun { run: Arc::new(run) }),
            Err(error) => Err(napi::Error::from_reason(error.message.clone())),
        }
    }
}

/// One run under way.
#[napi]
pub struct NativeAgentRun {
    run: Arc<AgentRun>,
}

#[napi]
impl NativeAgentRun {
    /// The next batch of events and requests as a JSON array; `null` when no more will come.
    #[napi(catch_unwind)]
    pub fn next<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Option<String>>> {
        let run = Arc::clone(&self.run);
        promise(env, async move { run.next().await })
    }

    /// `{"ok": result}` or `{"err": …}`, once everything the run has started has ended.
    #[napi(catch_unwind)]
    pub fn result<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let run = Arc::clone(&self.run);
        promise(env, async move { outcome(run.result().await) })
    }

    /// Answers the request `execute` of that number.
    #[napi(catch_unwind)]
    pub fn complete(&self, request: u32, answer_json: String) -> napi::Result<()> {
        let done = self.run.complete(request, &well_formed(answer_json));
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Answers the request `ask` of that number.
    #[napi(catch_unwind)]
    pub fn decide(&self, request: u32, decision_json: String) -> napi::Result<()> {
        let done = self.run.decide(request, &well_formed(decision_json));
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Answers the request `append` of that number: `null`, or `{"locked", "message"}`.
    #[napi(catch_unwind)]
    pub fn stored(&self, request: u32, answer_json: String) -> napi::Result<()> {
        let done = self.run.stored(request, &answer_json);
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Ends the run; `result` then says so.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.run.cancel();
    }
}
