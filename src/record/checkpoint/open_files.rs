//! The checkpoint files of the runs that are at work in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CheckpointError, CheckpointFile};

/// A file that calls of the same run use one after the other.
type Shared = Arc<Mutex<CheckpointFile>>;

/// The open files, by run.
#[derive(Debug, Default, Clone)]
pub struct OpenFiles(Arc<Mutex<HashMap<String, Shared>>>);

impl OpenFiles {
    /// Keeps the file of `run_id`.
    pub fn put(&self, run_id: &str, file: CheckpointFile) {
        self.lock().insert(run_id.to_owned(), Arc::new(Mutex::new(file)));
    }

    /// The token of the attempt at `run_id` that is at work here; 0 if there is none.
    pub fn token(&self, run_id: &str) -> u64 {
        let shared = self.lock().get(run_id).cloned();
        shared.map_or(0, |file| file.lock().unwrap_or_else(PoisonError::into_inner).token)
    }

    /// Lets `act` use the file of `run_id`, for the attempt with `token`. Blocks while another call uses it.
    ///
    /// # Errors
    /// [`CheckpointError::Closed`], [`CheckpointError::Stale`], and the errors of `act`.
    pub fn with<T>(
        &self,
        run_id: &str,
        token: u64,
        act: impl FnOnce(&mut CheckpointFile) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        let shared = self.lock().get(run_id).cloned();
        let shared = shared.ok_or_else(|| CheckpointError::Closed(run_id.to_owned()))?;
        let mut file = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if file.token != token {
            return Err(CheckpointError::Stale(run_id.to_owned(), token));
        }
        act(&mut file)
    }

    /// Lets `act` use the file of `run_id` for the last time, and then closes it in any case.
    ///
    /// # Errors
    /// As for [`with`](OpenFiles::with).
    pub fn close(
        &self,
        run_id: &str,
        token: u64,
        act: impl FnOnce(&mut CheckpointFile) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let done = self.with(run_id, token, act);
        if !matches!(done, Err(CheckpointError::Stale(..) | CheckpointError::Closed(_))) {
            self.lock().remove(run_id);
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
