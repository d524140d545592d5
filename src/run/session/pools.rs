//! The sessions of one provider, both those at work and those that wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::task::TaskTracker;

use dfp_exchange::form::ProcessForm;
use dfp_exchange::live::pool::{Bounds, EvictionReason, Pool};
use dfp_exchange::live::setup::Setup;
use dfp_model::event::Event;
use dfp_provider::options::Options;

/// A warning.
pub(crate) fn warning(code: &str, message: String) -> Event {
    Event::Warning {
        code: code.to_owned(),
        message,
    }
}

/// The warning that the thread was sent whole to another session than the one that knew it. `places` names the limit of places.
pub(crate) fn evicted_warning(why: EvictionReason, options: &Options, places: &str) -> Event {
    let reason = match why {
        EvictionReason::Expired => format!(
            "unused for {} ms, the option `keepAlive`",
            options.keep_alive.as_millis()
        ),
        EvictionReason::Displaced => format!("other threads needed its place: {places}"),
        EvictionReason::Crowded => "those at rest took too much of the machine's memory".to_owned(),
        EvictionReason::Grown => "its process took more than 1 GiB of memory".to_owned(),
    };
    warning(
        "SESSION_EXPIRED",
        format!("the session that knew this thread has ended ({reason}): the thread was sent whole to another"),
    )
}

/// The processes of one provider that serve one conversation each.
#[derive(Debug)]
pub(crate) struct Processes<F: ProcessForm> {
    pub form: F,
    pub pool: Arc<Pool<F::Session>>,
    recent: Mutex<Recent>,
}

/// The setups of the last calls' sessions.
#[derive(Debug, Default)]
struct Recent {
    setup: Option<Arc<Setup>>,
    /// The number of calls in a row with this setup.
    times: u32,
}

/// The number of calls in a row that need the same setup before the next call is expected to need it, too.
const STABLE: u32 = 2;

impl<F: ProcessForm> Processes<F> {
    /// Creates the set, without processes.
    pub fn new(form: F, options: &Options, runs: &TaskTracker) -> Processes<F> {
        let pool = Pool::new(
            Bounds::of_processes(options.max_processes),
            options.max_concurrency,
            options.keep_alive,
            options.spares,
            runs.clone(),
        );
        Processes {
            form,
            pool: Arc::new(pool),
            recent: Mutex::default(),
        }
    }

    /// Notes that a call's session has the setup `setup`.
    pub fn note(&self, setup: &Arc<Setup>) {
        let mut recent = self.recent();
        recent.times = match recent.setup.as_ref() == Some(setup) {
            true => recent.times.saturating_add(1),
            false => 1,
        };
        recent.setup = Some(Arc::clone(setup));
    }

    /// The setup of the last call's session.
    pub fn last_setup(&self) -> Option<Arc<Setup>> {
        self.recent().setup.clone()
    }

    /// The most likely setup of the next call's session.
    pub fn likely_setup(&self) -> Option<Arc<Setup>> {
        let recent = self.recent();
        recent.setup.clone().filter(|_| recent.times >= STABLE)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
