//! The models that a login has, as the CLI's kept processes tell them.
//!
//! In: the question of a caller, who asked for nothing else. Out: the list, from a process that is there, or from one that is started
//! for it and stays. No model is asked.

use std::sync::Arc;

use super::ahead::{self, NextCallJson};
use super::servers::login_missing;
use super::sessions::Sessions;
use crate::base::{Base, not_found};
use dfp_exchange::form::{Form, ModelsAsked};
use dfp_model::error::ProviderError;
use dfp_model::listed_model::ListedModel;
use dfp_process::Vars;

/// The models that a process of `sessions` tells; the reason if there is none to ask, or it does not tell.
///
/// # Errors
/// Those of a call whose CLI can't be started; `NOT_LOGGED_IN` and its like.
pub(crate) async fn models<F: Form>(
    sessions: &Arc<Sessions<F>>,
    engine: &Arc<Base>,
    env: &Arc<Vars>,
) -> Result<Result<Vec<ListedModel>, String>, Box<ProviderError>> {
    if !F::LISTS_MODELS {
        return Ok(Err("its kept processes tell no models".to_owned()));
    }
    let next = || NextCallJson {
        system: Some(String::new()),
        tools: Some(Vec::new()),
    };
    if F::PROCESSES.are_shared() {
        let server = ahead::server(sessions, engine, next(), env).await?;
        let Some(server) = server else {
            return Ok(Err(no_process()));
        };
        let asked = ModelsAsked {
            options: &engine.options,
            tracker: &engine.lifecycle.runs,
        };
        return match F::models(&server, asked).await {
            Ok(models) => Ok(Ok(models)),
            Err(reason) => match login_missing(engine, &reason) {
                Some(error) => Err(error),
                None => Ok(Err(reason)),
            },
        };
    }
    let program = engine.look(env).map_err(|error| not_found(engine, error))?;
    if let Some(told) = sessions.form.reported_models(program.binary()) {
        return Ok(Ok(told));
    }
    ahead::prewarm(sessions, engine, next(), env).await?;
    Ok(sessions.form.reported_models(program.binary()).ok_or_else(no_process))
}

fn no_process() -> String {
    "no process could be started that tells them: the installed CLI keeps none, or `maxProcesses` leaves no room"
        .to_owned()
}
