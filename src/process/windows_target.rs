//! Terminating whole runs at once, without a runtime, on Windows.

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::job::Job;

/// The facts about a run that [`kill_now`] needs.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub pid: u32,
    pub leader: Arc<Mutex<Child>>,
    pub job: Arc<Job>,
}

impl Target {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn leader(&self) -> MutexGuard<'_, Child> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn terminate(&self) {
        // A job that is over can't be ended, and need not be.
        let _ = self.job.end();
    }
}

/// Terminates whole jobs at once, without a runtime.
pub(super) fn kill_now(targets: &[Target]) {
    targets.iter().for_each(Target::terminate);
}
