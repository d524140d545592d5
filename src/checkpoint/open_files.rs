//! The files of the runs that are at work in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CheckpointFile, Refused};

type Shared = Arc<Mutex<CheckpointFile>>;

/// Files of runs that are at work in this process, by run.
#[derive(Debug, Default, Clone)]
pub struct OpenFiles(Arc<Mutex<HashMap<String, Shared>>>);

impl OpenFiles {
    /// Keeps the file of `run_id`.
    pub fn put(&self, run_id: &str, file: CheckpointFile) {
        self.lock().insert(run_id.to_owned(), Arc::new(Mutex::new(file)));
    }

    /// The greatest token that was given for `run_id` and not given back.
    pub fn token(&self, run_id: &str) -> u64 {
        let shared = self.lock().get(run_id).cloned();
        shared.map_or(0, |file| file.lock().unwrap_or_else(PoisonError::into_inner).token)
    }

    /// What `act` does with the file of `run_id`, for the attempt whose lease is `token`. Blocks while another act has it.
    ///
    /// # Errors
    /// [`Refused::Closed`], [`Refused::Stale`], and those of `act`.
    pub fn with<T>(
        &self,
        run_id: &str,
        token: u64,
        act: impl FnOnce(&mut CheckpointFile) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let shared = self.lock().get(run_id).cloned();
        let shared = shared.ok_or_else(|| Refused::Closed(run_id.to_owned()))?;
        let mut file = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if file.token != token {
            return Err(Refused::Stale(run_id.to_owned(), token));
        }
        act(&mut file)
    }

    /// Gives the file of `run_id` back, whatever `act`, the last that is done with it, comes to.
    ///
    /// # Errors
    /// As for [`with`](OpenFiles::with).
    pub fn close(
        &self,
        run_id: &str,
        token: u64,
        act: impl FnOnce(&mut CheckpointFile) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let done = self.with(run_id, token, act);
        if !matches!(done, Err(Refused::Stale(..) | Refused::Closed(_))) {
            self.lock().remove(run_id);
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
