//! What an installed CLI can't do (flags it has refused, live sessions), remembered for that binary as long as the process lives.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::process::Resolved;

/// A binary: where it is and when it was last changed, so that an update is asked anew.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binary {
    resolved: Resolved,
    changed: Option<SystemTime>,
}

impl Binary {
    /// The binary that was found.
    pub fn new(resolved: Resolved) -> Binary {
        let metadata = std::fs::metadata(&resolved.file);
        let changed = metadata.and_then(|metadata| metadata.modified()).ok();
        Binary { resolved, changed }
    }

    /// What is executed for it.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.resolved.file
    }
}

static REFUSED: LazyLock<Mutex<HashMap<Binary, BTreeSet<String>>>> = LazyLock::new(Mutex::default);

fn refused() -> MutexGuard<'static, HashMap<Binary, BTreeSet<String>>> {
    REFUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flags `binary` has refused so far.
pub fn refused_by(binary: &Binary) -> BTreeSet<String> {
    refused().get(binary).cloned().unwrap_or_default()
}

/// `binary` has refused `flag`.
pub fn remember_refused(binary: &Binary, flag: &str) {
    refused().entry(binary.clone()).or_default().insert(flag.to_owned());
}

static PRINT_ONLY: LazyLock<Mutex<HashSet<Binary>>> = LazyLock::new(Mutex::default);

/// Whether `binary` has turned out to take no live sessions.
pub fn prints_only(binary: &Binary) -> bool {
    let known = PRINT_ONLY.lock().unwrap_or_else(PoisonError::into_inner);
    known.contains(binary)
}

/// `binary` takes no live sessions.
pub fn remember_print_only(binary: &Binary) {
    let mut known = PRINT_ONLY.lock().unwrap_or_else(PoisonError::into_inner);
    known.insert(binary.clone());
}
