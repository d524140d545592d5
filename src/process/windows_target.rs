//! What a run is ended by at once, on Windows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use process_wrap::std::ChildWrapper;

/// What [`kill_now`] needs to know of a run.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub pid: u32,
    pub job: Arc<Mutex<Box<dyn ChildWrapper>>>,
}

impl Target {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn lock(&self) -> MutexGuard<'_, Box<dyn ChildWrapper>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn terminate(&self) {
        // A job that is over can't be terminated, and need not be.
        let _ = self.lock().start_kill();
    }
}

/// Terminates whole jobs at once, without a runtime.
pub(super) fn kill_now(targets: &[Target]) {
    targets.iter().for_each(Target::terminate);
}
