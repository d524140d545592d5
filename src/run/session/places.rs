//! Starts a process for one conversation, in its place among those of its provider.

use crate::base::{Base, not_started};
use crate::session::pools::Processes;
use dfp_exchange::form::{ProcessForm, ProcessStart, SessionCall};
use dfp_exchange::live::setup::Setup;
use dfp_exchange::print::NotStarted;
use dfp_process::StartError;
use dfp_process::limit::Permit;

use super::source::{NotBegun, TurnAsked};

/// Starts a fresh process for a turn, with its place among those of the provider.
pub(super) fn start<F: ProcessForm>(
    processes: &Processes<F>,
    asked: &TurnAsked<'_, SessionCall<Setup>>,
    place: Option<Permit>,
    start: ProcessStart<'_, F::Input>,
) -> Result<F::Session, NotStarted> {
    let call = asked.attempt.call;
    let surroundings = call.engine.surroundings(&asked.installed.binary, call.base_env, place);
    let closing = &call.engine.lifecycle.closing;
    processes.form.start(asked.installed, surroundings, closing, start)
}

/// The reason for which there is no process.
pub(super) fn not_begun(engine: &Base, error: &NotStarted) -> NotBegun {
    match error {
        NotStarted::Process(StartError::Cancelled) => NotBegun::Cancelled,
        error => NotBegun::Failed(not_started(engine, error)),
    }
}

/// Waits for the place of a process. A run that another run waits for goes on without one, since the other's place may never become
/// free.
pub(super) async fn place<F: ProcessForm>(
    processes: &Processes<F>,
    asked: &TurnAsked<'_, SessionCall<Setup>>,
) -> Result<Option<Permit>, NotBegun> {
    let call = asked.attempt.call;
    if call.request.nested_permit.is_some() {
        return Ok(None);
    }
    match call.cancel.run_until_cancelled(processes.pool.place()).await {
        Some(place) => Ok(place.map(Permit::taken)),
        None => Err(NotBegun::Cancelled),
    }
}
