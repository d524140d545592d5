//! Starts the processes that a call will need, ahead of it.

use std::sync::Arc;

use super::ask;
use super::auto::EngineUse;
use super::engine::Engine;
use super::session::ahead::NextCallJson;
use super::session::forms::KeptEngine;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::EngineUsed;
use dfp_process::Vars;

/// Starts a process for the next call, or as many as `spares` says, and waits until they have answered. `known` is JSON that
/// describes that call: `{"system": text?, "tools": [spec…]?}`; what is missing there is taken from the last call. `env` is the
/// environment that they inherit.
///
/// In print form nothing is started, nor if processes at rest leave no room within `maxProcesses`.
///
/// # Errors
/// `CLOSED`, `INVALID_TOOL`; as a call where the CLI can't be started, or ends instead of answering.
pub(super) async fn prewarm(engine: &Arc<Engine>, known: &str, env: Vars) -> Result<(), Box<ProviderError>> {
    // `close` waits for everything that holds a token, so it also ends a process that is being started just now.
    let _starting = engine.lifecycle.runs.token();
    engine.refusal().map_or(Ok(()), Err)?;
    let next: NextCallJson = serde_json::from_str(known)
        .map_err(|error| engine.refuse(Code::InvalidTool, format!("tools can't be read: {error}")))?;
    let env = Arc::new(env);
    let kept: &KeptEngine = match engine.kept.as_slice() {
        [] => return engine.closed().map_or(Ok(()), Err),
        [only] => only,
        [best, others @ ..] => {
            let uses = engine.engine_choice(&env)?.map(|choice| choice.uses);
            let used = others.iter().find(|kept| match kept.engine() {
                EngineUsed::Live => uses == Some(EngineUse::Live),
                EngineUsed::Warm => uses == Some(EngineUse::Warm),
                EngineUsed::Print => false,
            });
            used.unwrap_or(best)
        }
    };
    let ready = match kept.prewarm(&engine.base, next, &env).await {
        Ok(()) => Ok(()),
        Err(error) => Err(ask::with_node(&engine.base, error, &env, &engine.lifecycle.closing).await),
    };
    engine.closed().map_or(ready, Err)
}
