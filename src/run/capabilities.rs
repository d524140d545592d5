//! What is known of an installed CLI (flags it has refused, whether it serves live sessions), remembered for that binary as long as
//! the process lives.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::live_support::{self, LiveSupport};
use crate::process::Resolved;
use crate::provider::EngineCheck;

/// A binary: where it is and which file is there, so that an update is asked anew.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binary {
    resolved: Resolved,
    changed: Option<SystemTime>,
    size: u64,
    /// Device and inode, where there are such.
    identity: Option<(u64, u64)>,
    /// The folder of the login it runs with, where that is not the default one: what it does may depend on its settings.
    login: Option<String>,
}

impl Binary {
    /// The binary that was found, with this login.
    pub fn new(resolved: Resolved, login: Option<&str>) -> Binary {
        let metadata = std::fs::metadata(&resolved.file).ok();
        Binary {
            changed: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
            size: metadata.as_ref().map_or(0, std::fs::Metadata::len),
            identity: metadata.as_ref().and_then(identity),
            login: login.map(str::to_owned),
            resolved,
        }
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

#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// What is known of one binary.
#[derive(Debug, Default)]
struct Facts {
    refused_flags: BTreeSet<String>,
    live: Option<LiveSupport>,
    /// Its version; looked for once.
    version: Option<Option<[u64; 3]>>,
    warm: Option<LiveSupport>,
    /// Held by whoever tries it.
    trial: Arc<tokio::sync::Mutex<()>>,
}

static FACTS: LazyLock<Mutex<HashMap<Binary, Facts>>> = LazyLock::new(Mutex::default);

fn facts() -> MutexGuard<'static, HashMap<Binary, Facts>> {
    FACTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flags `binary` has refused so far.
pub fn refused_by(binary: &Binary) -> BTreeSet<String> {
    let facts = facts();
    facts
        .get(binary)
        .map(|facts| facts.refused_flags.clone())
        .unwrap_or_default()
}

/// `binary` has refused `flag`.
pub fn remember_refused(binary: &Binary, flag: &str) {
    facts()
        .entry(binary.clone())
        .or_default()
        .refused_flags
        .insert(flag.to_owned());
}

/// The version of `binary`, as the npm package that it stands in has it; `None` where it stands in none.
pub fn version(check: &EngineCheck, binary: &Binary) -> Option<[u64; 3]> {
    if let Some(known) = facts().get(binary).and_then(|facts| facts.version) {
        return known;
    }
    let found = live_support::version(check, binary.file());
    facts().entry(binary.clone()).or_default().version = Some(found);
    found
}

/// Whether `binary` serves live sessions, by what it is or has turned out to be.
pub fn live_support(check: &EngineCheck, binary: &Binary) -> LiveSupport {
    if let Some(known) = known_live(binary) {
        return known;
    }
    let found = live_support::look(check, binary.file());
    // Somebody may have tried it meanwhile.
    facts()
        .entry(binary.clone())
        .or_default()
        .live
        .get_or_insert(found)
        .clone()
}

/// Whether `binary` serves warm calls, by what it is or has turned out to be.
pub fn warm_support(check: &EngineCheck, binary: &Binary) -> LiveSupport {
    if let Some(known) = facts().get(binary).and_then(|facts| facts.warm.clone()) {
        return known;
    }
    let found = live_support::look(check, binary.file());
    let mut facts = facts();
    facts
        .entry(binary.clone())
        .or_default()
        .warm
        .get_or_insert(found)
        .clone()
}

/// `binary` has turned out not to serve warm calls, for this reason.
pub fn remember_no_warm(binary: &Binary, reason: String) {
    facts().entry(binary.clone()).or_default().warm = Some(LiveSupport::Unserved(reason));
}

/// `binary` has turned out to serve live sessions, or not to.
pub fn remember_live(binary: &Binary, support: LiveSupport) {
    facts().entry(binary.clone()).or_default().live = Some(support);
}

/// `binary`, of which its file did not tell, has turned out to serve live sessions, for this reason.
pub fn settle_live(binary: &Binary, why: String) {
    if !matches!(known_live(binary), Some(LiveSupport::Served(_))) {
        remember_live(binary, LiveSupport::Served(why));
    }
}

/// What is known of `binary`'s live sessions, if anything is.
pub fn known_live(binary: &Binary) -> Option<LiveSupport> {
    facts().get(binary).and_then(|facts| facts.live.clone())
}

/// To be held while `binary` is tried: it is tried once.
pub fn trial_of(binary: &Binary) -> Arc<tokio::sync::Mutex<()>> {
    Arc::clone(&facts().entry(binary.clone()).or_default().trial)
}
