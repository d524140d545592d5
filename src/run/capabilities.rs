//! What is known of an installed CLI (flags it has refused, whether it serves live sessions), remembered for that binary: what it has
//! turned out to do for [minutes](MEMORY), what its file says as long as the process lives.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::live_support::{self, Basis, LiveSupport};
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

/// How long it is remembered what a binary has turned out to do: it may have been the machine's fault, or that of something behind a
/// launcher, which is replaced while the launcher stays.
const MEMORY: Duration = Duration::from_secs(10 * 60);

/// What a binary has turned out to do, and since when that is known.
#[derive(Debug)]
struct Remembered(LiveSupport, Instant);

impl Remembered {
    fn now(support: LiveSupport) -> Option<Remembered> {
        Some(Remembered(support, Instant::now()))
    }

    /// What it is, unless that is too long ago at `now`.
    fn at(&self, now: Instant) -> Option<&LiveSupport> {
        (now.saturating_duration_since(self.1) < MEMORY).then_some(&self.0)
    }
}

/// What is known of one binary.
#[derive(Debug, Default)]
struct Facts {
    refused_flags: BTreeSet<String>,
    live: Option<Remembered>,
    /// Its version; looked for once.
    version: Option<Option<[u64; 3]>>,
    warm: Option<Remembered>,
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
    known_live(binary).unwrap_or_else(|| {
        remember_live(binary, found.clone());
        found
    })
}

/// Whether `binary` serves warm calls, by what it is or has turned out to be.
pub fn warm_support(check: &EngineCheck, binary: &Binary) -> LiveSupport {
    let known = || {
        let facts = facts();
        facts.get(binary)?.warm.as_ref()?.at(Instant::now()).cloned()
    };
    if let Some(known) = known() {
        return known;
    }
    let found = live_support::look(check, binary.file());
    // Somebody may have tried it meanwhile.
    known().unwrap_or_else(|| {
        facts().entry(binary.clone()).or_default().warm = Remembered::now(found.clone());
        found
    })
}

/// `binary` has turned out not to serve warm calls, for this reason.
pub fn remember_no_warm(binary: &Binary, reason: String) {
    let support = LiveSupport::unserved(Basis::Trial, reason);
    facts().entry(binary.clone()).or_default().warm = Remembered::now(support);
}

/// `binary` has turned out to serve live sessions, or not to.
pub fn remember_live(binary: &Binary, support: LiveSupport) {
    facts().entry(binary.clone()).or_default().live = Remembered::now(support);
}

/// `binary` has turned out not to serve live sessions, for this reason.
pub fn remember_no_live(binary: &Binary, reason: impl Into<String>) {
    remember_live(binary, LiveSupport::unserved(Basis::Trial, reason));
}

/// `binary`, of which its file did not tell, has turned out to serve live sessions, for this reason.
pub fn settle_live(binary: &Binary, why: String) {
    if !matches!(known_live(binary), Some(LiveSupport::Served(_))) {
        remember_live(binary, LiveSupport::Served(why));
    }
}

/// What is known of `binary`'s live sessions, if anything is.
pub fn known_live(binary: &Binary) -> Option<LiveSupport> {
    let facts = facts();
    facts.get(binary)?.live.as_ref()?.at(Instant::now()).cloned()
}

/// To be held while `binary` is tried: it is tried once.
pub fn trial_of(binary: &Binary) -> Arc<tokio::sync::Mutex<()>> {
    Arc::clone(&facts().entry(binary.clone()).or_default().trial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_is_known_for_ten_minutes() {
        let support = LiveSupport::unserved(Basis::Trial, "it ended");
        let since = Instant::now();
        let known = Remembered(support.clone(), since);
        let after = |seconds: u64| known.at(since + Duration::from_secs(seconds)).cloned();
        assert_eq!([after(0), after(599)], [Some(support.clone()), Some(support)]);
        assert_eq!(after(600), None);
    }
}
