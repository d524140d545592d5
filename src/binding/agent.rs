//! An agent's run, as JavaScript holds it.

use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;

use super::environment::{promise, variables};
use super::outcome;
use dfp_agent::{Agent, AgentRun, Conversation};
use dfp_model::error::ProviderError;
use dfp_model::message::well_formed;
use dfp_run::Model;

/// A model that an agent can talk to. A provider makes its own by `model()`.
#[napi]
pub struct NativeModel {
    pub(super) model: Arc<dyn Model>,
}

/// A run that is read and not begun.
#[napi]
pub struct NativeAgent {
    agent: Mutex<Result<Option<Agent>, Box<ProviderError>>>,
    models: Mutex<Vec<Conversation>>,
}

#[napi]
impl NativeAgent {
    /// Reads and checks the specification of a run; `check` reports what is wrong with it.
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

    /// Adds the model of the spec's next agent: `{"ok": null}`, or `{"err": …}` if it can't deliver calls as the agent wants them.
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

    /// Has the run go on after the entries of earlier attempts, a JSON array of texts, and stores entries from then on: `{"ok":
    /// null}` or `{"err": …}`. To be called after the models were added.
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

    /// Begins the run and returns at once; can be called once. `env_json` as for `NativeProvider.start`. A run that is already
    /// `cancelled` asks no model.
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

    /// Answers the request `execute` with this number.
    #[napi(catch_unwind)]
    pub fn complete(&self, request: u32, answer_json: String) -> napi::Result<()> {
        let done = self.run.complete(request, &well_formed(answer_json));
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Answers the request `ask` with this number.
    #[napi(catch_unwind)]
    pub fn decide(&self, request: u32, decision_json: String) -> napi::Result<()> {
        let done = self.run.decide(request, &well_formed(decision_json));
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Answers the request `append` with this number: `null`, or `{"locked", "message"}`.
    #[napi(catch_unwind)]
    pub fn stored(&self, request: u32, answer_json: String) -> napi::Result<()> {
        let done = self.run.stored(request, &answer_json);
        done.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Cancels the run; `result` then reports that.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.run.cancel();
    }
}
