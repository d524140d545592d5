//! What is known of an installed CLI (flags it has refused, whether it serves live sessions), remembered for that binary: what it has
//! turned out to do for [minutes](MEMORY), what its file says as long as the process lives.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::live_support::{self, Basis, LiveSupport};
use crate::event::EngineUsed;
use crate::exchange::installed::Binary;
use crate::provider::EngineCheck;

/// How long it is remembered what a binary has turned out to do: it may have been the machine's fault, or that of something behind a
/// launcher, which is replaced while the launcher stays.
pub const MEMORY: Duration = Duration::from_secs(10 * 60);

/// What a binary has turned out to do, and since when that is known.
#[derive(Debug)]
struct Remembered(LiveSupport, Instant);

impl Remembered {
    /// What it is, unless that is too long ago at `now`.
    fn at(&self, now: Instant) -> Option<&LiveSupport> {
        is_known(self.1, now).then_some(&self.0)
    }
}

/// Whether what was found out `since` is still known at `now`.
fn is_known(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < MEMORY
}

/// What is known of one binary.
#[derive(Debug, Default)]
struct Facts {
    /// Which flags it has refused, and when.
    refused_flags: HashMap<String, Instant>,
    /// Whether it serves an engine.
    engines: HashMap<EngineUsed, Remembered>,
    /// Its version; looked for once.
    version: Option<Option<[u64; 3]>>,
    /// How often it has turned out to do something that was not known.
    news: Arc<AtomicU64>,
    /// Held by whoever tries it.
    trial: Arc<tokio::sync::Mutex<()>>,
}

static FACTS: LazyLock<Mutex<HashMap<Binary, Facts>>> = LazyLock::new(Mutex::default);

fn facts() -> MutexGuard<'static, HashMap<Binary, Facts>> {
    FACTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts how often `binary` has turned out to do something that was not known: who has kept what was known before looks again.
pub fn news(binary: &Binary) -> Arc<AtomicU64> {
    Arc::clone(&facts().entry(binary.clone()).or_default().news)
}

/// The flags `binary` has refused so far.
pub fn refused_by(binary: &Binary) -> BTreeSet<String> {
    refused_at(binary, Instant::now())
}

fn refused_at(binary: &Binary, now: Instant) -> BTreeSet<String> {
    let facts = facts();
    let flags = facts.get(binary).into_iter().flat_map(|facts| &facts.refused_flags);
    let known = flags.filter(|(_, since)| is_known(**since, now));
    known.map(|(flag, _)| flag.clone()).collect()
}

/// `binary` has refused `flag`.
pub fn remember_refused(binary: &Binary, flag: &str) {
    let mut facts = facts();
    let of_binary = facts.entry(binary.clone()).or_default();
    of_binary.refused_flags.insert(flag.to_owned(), Instant::now());
    of_binary.news.fetch_add(1, Ordering::Release);
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

/// Whether `binary` serves `engine`, by what it is or has turned out to do.
pub fn support(engine: EngineUsed, check: &EngineCheck, binary: &Binary) -> LiveSupport {
    if let Some(known) = known(engine, binary) {
        return known;
    }
    let found = live_support::look(check, binary.file());
    // Somebody may have tried it meanwhile.
    known(engine, binary).unwrap_or_else(|| {
        // Whoever looks at this file finds the same: that is no news.
        note(engine, binary, found.clone());
        found
    })
}

/// `binary` has turned out to serve `engine`, or not to.
pub fn remember(engine: EngineUsed, binary: &Binary, support: LiveSupport) {
    note(engine, binary, support);
    news(binary).fetch_add(1, Ordering::Release);
}

fn note(engine: EngineUsed, binary: &Binary, support: LiveSupport) {
    facts()
        .entry(binary.clone())
        .or_default()
        .engines
        .insert(engine, Remembered(support, Instant::now()));
}

/// `binary` has turned out not to serve `engine`, for this reason.
pub fn remember_unserved(engine: EngineUsed, binary: &Binary, reason: impl Into<String>) {
    remember(engine, binary, LiveSupport::unserved(Basis::Trial, reason));
}

/// `binary`, of which its file did not tell, has turned out to serve `engine`, for this reason.
pub fn settle(engine: EngineUsed, binary: &Binary, why: String) {
    if !matches!(known(engine, binary), Some(LiveSupport::Served(_))) {
        remember(engine, binary, LiveSupport::Served(why));
    }
}

/// What is known of `binary` and `engine`, if anything is.
fn known(engine: EngineUsed, binary: &Binary) -> Option<LiveSupport> {
    let facts = facts();
    facts.get(binary)?.engines.get(&engine)?.at(Instant::now()).cloned()
}

/// To be held while `binary` is tried: it is tried once.
pub fn trial_of(binary: &Binary) -> Arc<tokio::sync::Mutex<()>> {
    Arc::clone(&facts().entry(binary.clone()).or_default().trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Resolved;

    #[test]
    fn what_was_tried_is_known_for_ten_minutes() {
        let support = LiveSupport::unserved(Basis::Trial, "it ended");
        let since = Instant::now();
        let known = Remembered(support.clone(), since);
        let after = |seconds: u64| known.at(since + Duration::from_secs(seconds)).cloned();
        assert_eq!([after(0), after(599)], [Some(support.clone()), Some(support)]);
        assert_eq!(after(600), None);
    }

    #[test]
    fn so_is_a_refused_flag() {
        let file = std::env::temp_dir().join("deep-factor-capabilities-no-such-file");
        let resolved = Resolved {
            file,
            prefix: Vec::new(),
            interpreter: None,
            called_with: None,
        };
        let binary = Binary::new(resolved, None);
        let since = Instant::now();
        remember_refused(&binary, "--some");
        let after = |seconds: u64| refused_at(&binary, since + Duration::from_secs(seconds)).len();
        // It was refused a moment after `since`.
        assert_eq!([after(0), after(599), after(601)], [1, 1, 0]);
    }
}
