//! The known facts of an installed CLI, remembered for its binary: the flags and schemas it has refused, and whether it serves live
//! sessions. Observed behaviour is remembered for [minutes](MEMORY), and what its file says as long as the process lives.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::live_support::{self, Basis, LiveSupport};
use dfp_exchange::installed::Binary;
use dfp_model::event::EngineUsed;
use dfp_provider::EngineCheck;

/// The time for which a binary's observed behaviour is remembered. The cause may have been the machine, or something behind a
/// launcher, which is replaced while the launcher stays.
pub const MEMORY: Duration = Duration::from_secs(10 * 60);

/// The observed support of an engine, and since when it is known.
#[derive(Debug)]
struct Remembered(LiveSupport, Instant);

impl Remembered {
    /// The support, unless it was observed too long before `now`.
    fn at(&self, now: Instant) -> Option<&LiveSupport> {
        is_known(self.1, now).then_some(&self.0)
    }
}

/// Returns whether a fact found out at `since` still counts at `now`.
fn is_known(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < MEMORY
}

/// The known facts of one binary.
#[derive(Debug, Default)]
struct Facts {
    /// The flags that it has refused, and when.
    refused_flags: HashMap<String, Instant>,
    /// The schemas that it has refused, by the hashes of their texts: when, and why.
    refused_schemas: HashMap<u64, (Instant, String)>,
    /// The refusals of the API behind it, and when.
    of_api: HashMap<ApiRefusal, Instant>,
    /// The support of each engine, as far as it was observed.
    engines: HashMap<EngineUsed, Remembered>,
    /// The engines that have given a reply.
    replied: HashSet<EngineUsed>,
    /// Its version, which is looked for once; `Some(None)` if none was found.
    version: Option<Option<[u64; 3]>>,
    /// The number of new facts learned so far.
    news: Arc<AtomicU64>,
    /// The lock that is held while the binary is tried.
    trial: Arc<tokio::sync::Mutex<()>>,
}

static FACTS: LazyLock<Mutex<HashMap<Binary, Facts>>> = LazyLock::new(Mutex::default);

/// The number of binaries, each with its surroundings, whose facts are kept before all are forgotten: environments that change from
/// call to call must not fill the memory.
const MOST_KNOWN: usize = 4096;

fn facts() -> MutexGuard<'static, HashMap<Binary, Facts>> {
    let mut facts = FACTS.lock().unwrap_or_else(PoisonError::into_inner);
    if facts.len() > MOST_KNOWN {
        for known in facts.values() {
            known.news.fetch_add(1, Ordering::Release);
        }
        facts.clear();
    }
    facts
}

/// The number of new facts learned about `binary`: whoever keeps older facts looks again when it has grown.
pub fn news(binary: &Binary) -> Arc<AtomicU64> {
    Arc::clone(&facts().entry(binary.clone()).or_default().news)
}

/// The flags that `binary` has refused so far.
pub fn refused_by(binary: &Binary) -> BTreeSet<String> {
    refused_at(binary, Instant::now())
}

fn refused_at(binary: &Binary, now: Instant) -> BTreeSet<String> {
    let facts = facts();
    let flags = facts.get(binary).into_iter().flat_map(|facts| &facts.refused_flags);
    let known = flags.filter(|(_, since)| is_known(**since, now));
    known.map(|(flag, _)| flag.clone()).collect()
}

/// Remembers that `binary` has refused `flag`.
pub fn remember_refused(binary: &Binary, flag: &str) {
    let mut facts = facts();
    let of_binary = facts.entry(binary.clone()).or_default();
    of_binary.refused_flags.insert(flag.to_owned(), Instant::now());
    of_binary.news.fetch_add(1, Ordering::Release);
}

/// The number of refused schemas that are remembered for one binary. A caller with more of them has its schema sent natively once
/// more.
const MAX_SCHEMAS: usize = 256;

/// The reason for which `binary` has refused `schema`, if it has.
pub fn schema_refusal(binary: &Binary, schema: &str) -> Option<String> {
    let facts = facts();
    let (since, reason) = facts.get(binary)?.refused_schemas.get(&hash_of(schema))?;
    is_known(*since, Instant::now()).then(|| reason.clone())
}

/// Remembers that `binary` has refused `schema`, for this reason. That says nothing about other schemas.
pub fn remember_refused_schema(binary: &Binary, schema: &str, reason: &str) {
    let now = Instant::now();
    let mut facts = facts();
    let refused = &mut facts.entry(binary.clone()).or_default().refused_schemas;
    if refused.len() >= MAX_SCHEMAS {
        refused.retain(|_, (since, _)| is_known(*since, now));
    }
    if refused.len() < MAX_SCHEMAS {
        refused.insert(hash_of(schema), (now, reason.to_owned()));
    }
}

/// A refusal of the API behind a binary, for one model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ApiRefusal {
    /// The API does not take this field of a request.
    OfField(String, &'static str),
    /// The API does not take this value of the field: a hash of its text.
    OfValue(String, &'static str, u64),
    /// A refusal that names no field is no field's fault: the call was refused without the fields, too.
    Unrelated(String),
}

impl ApiRefusal {
    /// The refusal of `value` in `field` for `model`.
    pub fn of_value(model: &str, field: &'static str, value: &str) -> ApiRefusal {
        ApiRefusal::OfValue(model.to_owned(), field, hash_of(value))
    }
}

/// The number of refusals of an API that are remembered for one binary. Beyond it, calls are refused once more before they are made in
/// the other way.
const MAX_API_REFUSALS: usize = 256;

/// Returns whether `refusal` is known of the API behind `binary`.
pub fn is_of_api(binary: &Binary, refusal: &ApiRefusal) -> bool {
    let facts = facts();
    let since = facts.get(binary).and_then(|facts| facts.of_api.get(refusal));
    since.is_some_and(|since| is_known(*since, Instant::now()))
}

/// Remembers `refusal` of the API behind `binary`.
pub fn remember_of_api(binary: &Binary, refusal: ApiRefusal) {
    let now = Instant::now();
    let mut facts = facts();
    let of_api = &mut facts.entry(binary.clone()).or_default().of_api;
    if of_api.len() >= MAX_API_REFUSALS {
        of_api.retain(|_, since| is_known(*since, now));
    }
    if of_api.len() < MAX_API_REFUSALS {
        of_api.insert(refusal, now);
    }
}

fn hash_of(schema: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    schema.hash(&mut hasher);
    hasher.finish()
}

/// The version of `binary`, by its file; `None` if that does not tell it.
pub fn version(check: &EngineCheck, binary: &Binary) -> Option<[u64; 3]> {
    if let Some(known) = facts().get(binary).and_then(|facts| facts.version) {
        return known;
    }
    // Behind a launcher, the version is known when the CLI has told it.
    if binary.launcher().is_some() {
        return None;
    }
    let found = live_support::version(check, binary.file());
    facts().entry(binary.clone()).or_default().version = Some(found);
    found
}

/// Remembers the version that a CLI behind a launcher has told.
pub fn remember_version(binary: &Binary, version: &str) {
    if binary.launcher().is_some()
        && let Some(version) = live_support::parse_version(version)
    {
        facts().entry(binary.clone()).or_default().version = Some(Some(version));
    }
}

/// Returns whether `binary` serves `engine`, by its file or its observed behaviour.
pub fn support(engine: EngineUsed, check: &EngineCheck, binary: &Binary) -> LiveSupport {
    if let Some(known) = known(engine, binary) {
        return known;
    }
    let found = match binary.launcher() {
        Some(launcher) => LiveSupport::Unknown(format!("it is started by {launcher}: a handshake tells")),
        None => live_support::look(check, binary.file()),
    };
    // Another call may have tried the binary meanwhile.
    known(engine, binary).unwrap_or_else(|| {
        // Every look at this file has this result, so it is no new fact.
        note(engine, binary, found.clone());
        found
    })
}

/// Remembers whether `binary` has turned out to serve `engine`.
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

/// Remembers that `binary` has turned out not to serve `engine`, for this reason.
pub fn remember_unserved(engine: EngineUsed, binary: &Binary, reason: impl Into<String>) {
    remember(engine, binary, LiveSupport::unserved(Basis::Trial, reason));
}

/// Remembers that `binary` was refused before any model was asked, for this reason. A binary that has given replies by `engine`
/// serves it, whatever was wrong this time.
pub fn remember_not_begun(engine: EngineUsed, binary: &Binary, reason: impl Into<String>) {
    let has_replied = facts().get(binary).is_some_and(|facts| facts.replied.contains(&engine));
    if !has_replied {
        remember_unserved(engine, binary, reason);
    }
}

/// Remembers that `binary` has given a reply by `engine`.
pub fn remember_reply(engine: EngineUsed, binary: &Binary) {
    facts().entry(binary.clone()).or_default().replied.insert(engine);
}

/// Remembers that `binary`, whose file did not tell, has turned out to serve `engine`, for this reason.
pub fn settle(engine: EngineUsed, binary: &Binary, why: String) {
    if !matches!(known(engine, binary), Some(LiveSupport::Served(_))) {
        remember(engine, binary, LiveSupport::Served(why));
    }
}

/// The remembered support of `engine` by `binary`, if there is any.
fn known(engine: EngineUsed, binary: &Binary) -> Option<LiveSupport> {
    let facts = facts();
    facts.get(binary)?.engines.get(&engine)?.at(Instant::now()).cloned()
}

/// The lock to hold while `binary` is tried, so that it is tried only once.
pub fn trial_of(binary: &Binary) -> Arc<tokio::sync::Mutex<()>> {
    Arc::clone(&facts().entry(binary.clone()).or_default().trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_process::Resolved;

    #[test]
    fn what_was_tried_is_known_for_ten_minutes() {
        let support = LiveSupport::unserved(Basis::Trial, "it ended");
        let since = Instant::now();
        let known = Remembered(support.clone(), since);
        let after = |seconds: u64| known.at(since + Duration::from_secs(seconds)).cloned();
        assert_eq!([after(0), after(599)], [Some(support.clone()), Some(support)]);
        assert_eq!(after(600), None);
    }

    fn binary(name: &str) -> Binary {
        let file = std::env::temp_dir().join(name);
        let resolved = Resolved {
            file,
            prefix: Vec::new(),
            interpreter: None,
            called_with: None,
            also_on_path: None,
        };
        Binary::new(resolved, None)
    }

    #[test]
    fn a_refused_schema_is_known_of_that_schema_and_of_so_many() {
        let binary = binary("deep-factor-capabilities-no-such-schema");
        remember_refused_schema(&binary, "{}", "odd");
        assert_eq!(schema_refusal(&binary, "{}").as_deref(), Some("odd"));
        assert_eq!(schema_refusal(&binary, "{ }"), None);
        for n in 0..2 * MAX_SCHEMAS {
            remember_refused_schema(&binary, &n.to_string(), "odd");
        }
        assert_eq!(facts()[&binary].refused_schemas.len(), MAX_SCHEMAS);
    }

    #[test]
    fn what_was_tried_belongs_to_the_surroundings_and_overrules_no_reply() {
        let [one, other, replied] = [1, 2, 3]
            .map(|surroundings| binary("deep-factor-capabilities-no-such-settings").in_surroundings(surroundings));
        remember_reply(EngineUsed::Live, &replied);
        for refused in [&one, &replied] {
            remember_not_begun(EngineUsed::Live, refused, "it refuses");
        }
        let refused = LiveSupport::unserved(Basis::Trial, "it refuses");
        let known = [&one, &other, &replied].map(|binary| known(EngineUsed::Live, binary));
        assert_eq!(known, [Some(refused), None, None]);
    }

    #[test]
    fn so_is_a_refused_flag() {
        let binary = binary("deep-factor-capabilities-no-such-file");
        let since = Instant::now();
        remember_refused(&binary, "--some");
        let after = |seconds: u64| refused_at(&binary, since + Duration::from_secs(seconds)).len();
        // The flag was refused a moment after `since`.
        assert_eq!([after(0), after(599), after(601)], [1, 1, 0]);
    }
}
