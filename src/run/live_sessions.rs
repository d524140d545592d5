//! The sessions of one provider, those at work and those that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_util::task::TaskTracker;

use crate::exchange::claude_live::pool::Pool;
use crate::provider::options::{EngineKind, Options};

/// The sessions of one provider.
#[derive(Debug)]
pub(super) struct LiveSessions {
    pub pool: Arc<Pool>,
    pub at_work: Arc<AtomicUsize>,
}

impl LiveSessions {
    /// `None` where the options want no sessions.
    pub fn new(options: &Options, runs: &TaskTracker) -> Option<LiveSessions> {
        let pool = || {
            Pool::new(
                options.max_concurrency,
                options.keep_alive,
                options.spares,
                runs.clone(),
            )
        };
        (options.engine != EngineKind::Print).then(|| LiveSessions {
            pool: Arc::new(pool()),
            at_work: Arc::default(),
        })
    }

    /// Counts a process as working until the seat is dropped.
    pub fn seat(&self) -> Seat {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(&self.at_work))
    }

    /// How many processes work just now.
    pub fn working(&self) -> usize {
        self.at_work.load(Ordering::Relaxed)
    }
}

/// A process that works.
pub(super) struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
