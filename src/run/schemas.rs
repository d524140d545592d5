//! Compiles the schemas of callers: away from Node's thread, once for each text, and only while somebody waits.
//!
//! In: a schema's text. Out: the [`Schema`], which all users of the same text share, or the reason why there is none. Compiling
//! blocks and can't be cancelled from outside, so each compilation has a thread of its own, few at a time, which is told to stop
//! when nobody waits for it any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OnceCell, Semaphore, oneshot};
use tokio::time::timeout;

use dfp_text::schema::Schema;

/// The time that compiling one schema may take. A schema of 100 KB takes milliseconds, a pattern of many letters a tenth of a
/// second.
const TIME: Duration = Duration::from_secs(1);
/// The number of schemas that are compiled at a time.
const AT_A_TIME: usize = 2;
/// The greatest length of a text that does not wait behind longer ones, bytes: with few patterns, it takes milliseconds.
const SMALL: usize = 16 * 1024;
const SMALL_PATTERNS: usize = 8;
/// The time for which a text that took too long is refused at once. Later it is tried again: on an idle machine it may fit.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// The stack of the thread that compiles: a schema's depth and its references are limited by what needs less.
const STACK: usize = 4 * 1024 * 1024;

/// The number of schemas that are kept.
const KEPT: usize = 128;
/// The bytes of text that the kept schemas have together. Their compiled form is some times larger.
const KEPT_BYTES: usize = 2 * 1024 * 1024;

/// The schema, or the reason why there is none.
type SchemaResult = Result<Arc<Schema>, Wrong>;
type Compiled = Arc<OnceCell<SchemaResult>>;

/// The reason for which a text is no schema.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wrong {
    /// The text is no usable schema, for this reason, and never will be.
    Text(String),
    /// Compiling took too long, at this moment.
    Late(String, Instant),
}

impl Wrong {
    fn is_over(&self) -> bool {
        matches!(self, Wrong::Late(_, at) if at.elapsed() > REFUSED_FOR)
    }

    fn reason(&self) -> String {
        match self {
            Wrong::Text(reason) | Wrong::Late(reason, _) => reason.clone(),
        }
    }
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
static PLACES: Semaphore = Semaphore::const_new(AT_A_TIME);
/// The places in which small schemas are compiled: they don't wait for those that take long.
static SMALL_PLACES: Semaphore = Semaphore::const_new(AT_A_TIME);

/// The number of times that each text was compiled, with which tests observe the cache.
#[cfg(any(test, feature = "test-support"))]
static COMPILED: LazyLock<Mutex<HashMap<String, u32>>> = LazyLock::new(Mutex::default);

/// The number of times that `text` was compiled.
#[cfg(any(test, feature = "test-support"))]
pub fn times(text: &str) -> u32 {
    let counts = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    counts.get(text).copied().unwrap_or_default()
}

/// The schemas that were asked for last.
#[derive(Debug, Default)]
struct Cache {
    entries: HashMap<String, (u64, Compiled)>,
    bytes: usize,
    clock: u64,
}

impl Cache {
    fn entry(&mut self, text: &str) -> Compiled {
        self.clock += 1;
        let now = self.clock;
        if let Some((used, compiled)) = self.entries.get_mut(text) {
            *used = now;
            return Arc::clone(compiled);
        }
        let compiled = Compiled::default();
        self.bytes += text.len();
        self.entries.insert(text.to_owned(), (now, Arc::clone(&compiled)));
        while self.entries.len() > KEPT || self.bytes > KEPT_BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(text, _)| text.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
        compiled
    }

    fn remove(&mut self, text: &str) {
        if self.entries.remove(text).is_some() {
            self.bytes -= text.len();
        }
    }
}

fn cache() -> MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The compiled schema of `text`. Dropping the future stops the work.
///
/// # Errors
/// The reason for which the text is no usable schema.
pub async fn compiled(text: &str) -> Result<Arc<Schema>, String> {
    // A fault that shows without compiling is reported at once, without a thread.
    Schema::look(text)?;
    let mut entry = cache().entry(text);
    if entry
        .get()
        .is_some_and(|found| found.as_ref().is_err_and(Wrong::is_over))
    {
        let mut cache = cache();
        cache.remove(text);
        entry = cache.entry(text);
    }
    // An invalid schema is cached, too: the next attempt would fail the same way, and take as long. A failure to compile at all is not
    // cached.
    let found = entry.get_or_try_init(|| compile(text.to_owned())).await?;
    found.clone().map_err(|wrong| wrong.reason())
}

/// Runs `check`, which may take long: it occupies a thread of the pool, and keeps nobody else waiting.
pub fn aside<T>(check: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(check),
        _ => check(),
    }
}

/// Returns whether compiling `text` takes hardly any time.
fn is_small(text: &str) -> bool {
    text.len() <= SMALL
        && text.matches("\"pattern").take(SMALL_PATTERNS + 1).count() <= SMALL_PATTERNS
        && !text.contains("\\\\p{")
}

/// Compiles `text` on a thread of its own, in one of the places, for at most [`TIME`].
///
/// # Errors
/// The reason for which the text could not be compiled at all.
async fn compile(text: String) -> Result<SchemaResult, String> {
    let places = if is_small(&text) { &SMALL_PLACES } else { &PLACES };
    let Ok(place) = places.acquire().await else {
        return Err("this process ends".to_owned());
    };
    #[cfg(any(test, feature = "test-support"))]
    {
        *COMPILED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(text.clone())
            .or_default() += 1;
    }
    let stop = StopOnDrop(Arc::default());
    let (answer, answered) = oneshot::channel();
    let flag = Arc::clone(&stop.0);
    let compiling = thread::Builder::new()
        .name("df-schema".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            // The place is given back when the work is over, whoever waits for it.
            let _place = place;
            let _ = answer.send(Schema::compile(&text, &flag).map(Arc::new));
        });
    if let Err(error) = compiling {
        return Err(format!("no thread can be started for it: {error}"));
    }
    match timeout(TIME, answered).await {
        Ok(Ok(compiled)) => Ok(compiled.map_err(Wrong::Text)),
        // The compiling thread has panicked.
        Ok(Err(_)) => Ok(Err(Wrong::Text("the validator can't read it".to_owned()))),
        Err(_) => {
            let reason = format!(
                "it takes more than {} s to compile: its patterns are too large together",
                TIME.as_secs()
            );
            Ok(Err(Wrong::Late(reason, Instant::now())))
        }
    }
}

/// Stops a compilation that nobody waits for any more, when it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_text_is_compiled_once() {
        let text = r#"{"type":"object","title":"one_text_is_compiled_once"}"#;
        let (first, second) = tokio::join!(compiled(text), compiled(text));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first, &compiled(text).await.unwrap()));
        assert_eq!(times(text), 1);
        // A schema that is known to be invalid is refused again without being compiled.
        let wrong = r#"{"type":"objec","title":"one_text_is_compiled_once"}"#;
        let told = compiled(wrong).await.unwrap_err();
        assert_eq!((compiled(wrong).await.unwrap_err(), times(wrong)), (told, 1));
        assert!(
            compiled(&format!("{{\"not\":{wrong}"))
                .await
                .unwrap_err()
                .starts_with("it can't be read")
        );
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_was_asked_for_last() {
        let mut cache = Cache::default();
        let asked_for = cache.entry("often");
        for at in 0..10 * KEPT {
            cache.entry(&format!("{at}"));
            assert!(Arc::ptr_eq(&asked_for, &cache.entry("often")));
        }
        assert_eq!(cache.entries.len(), KEPT);
        for at in 0..20 {
            cache.entry(&format!("{at}{}", "x".repeat(KEPT_BYTES / 10)));
        }
        assert!(cache.bytes <= KEPT_BYTES && cache.entries.len() < 11);
        assert_eq!(cache.bytes, cache.entries.keys().map(String::len).sum::<usize>());
    }

    /// A small schema does not wait for places that large ones may hold for long.
    #[tokio::test]
    async fn a_small_schema_waits_for_no_large_one() {
        let _large = PLACES.acquire_many(u32::try_from(AT_A_TIME).unwrap()).await.unwrap();
        let small = r#"{"type":"object","title":"a_small_schema","properties":{"a":{"pattern":"^[a-z]+$"}}}"#;
        assert!(compiled(small).await.is_ok());
        let large = format!(r#"{{"title":"{}"}}"#, "x".repeat(SMALL));
        assert!(timeout(Duration::from_millis(50), compiled(&large)).await.is_err());
        assert!(!is_small(r#"{"pattern":"^\\p{L}{1,64}$"}"#));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_ended() {
        let patterns: Vec<String> = (0..150)
            .map(|at| format!("\"p{at}\":{{\"pattern\":\"^\\\\p{{L}}{{1,6{}}}{at}$\"}}", at % 5))
            .collect();
        let text = format!("{{\"properties\":{{{}}}}}", patterns.join(","));
        let waited = timeout(Duration::from_millis(50), compiled(&text)).await;
        assert!(waited.is_err(), "{waited:?}");
        // The compiling thread gives its place back after the present pattern, without compiling the others.
        let all = PLACES.acquire_many(u32::try_from(AT_A_TIME).unwrap()).await.unwrap();
        drop(all);
    }
}
