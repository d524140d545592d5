//! Answers that fit a schema: the call option `outputSchema`.
//!
//! In: the schema as the call has it. Out: a check of the reply, which leaves the value in it, and the way in which the model
//! learns the schema: natively if the provider's exchange has a way for it, in the prompt otherwise.
//!
//! The schemas of callers are compiled away from Node's thread, once for each text, and only while somebody waits.
//! All users of the same text share the [`Schema`], or the reason why there is none. Compiling
//! blocks and can't be cancelled from outside, so each compilation has a thread of its own, few at a time, which is told to stop
//! when nobody waits for it any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OnceCell, Semaphore, oneshot};
use tokio::time::timeout;

use super::reply_check::{RejectedReply, ReplyCheck, correction};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{Event, Reply};
use dfp_model::message::Message;
use dfp_provider::classify;
use dfp_text::schema::{self, Schema};

/// The schema of a call's option, compiled.
///
/// # Errors
/// The reason for which it is no usable schema.
pub async fn read(given: &RawValue) -> Result<Arc<Schema>, String> {
    look(given)?;
    compiled(given.get()).await.map_err(unusable)
}

fn unusable(reason: String) -> String {
    format!("the call's option \"outputSchema\" can't be used: {reason}")
}

/// Checks of a schema all that can be seen without compiling it.
///
/// # Errors
/// The reason for which it is no usable schema.
pub fn look(given: &RawValue) -> Result<(), String> {
    let schema = Schema::look(given.get()).map_err(unusable)?;
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => Ok(()),
        kind => {
            let given = kind.map_or("none".to_owned(), Value::to_string);
            Err(format!(
                "the call's option \"outputSchema\" must be the schema of an object, with type \"object\" at its top, given: type \
                 {given}. Put it into a field of an object"
            ))
        }
    }
}

/// The flag in `args` with which a user asks for an answer by a schema.
pub(super) fn own_flag(args: &[String]) -> Option<&str> {
    let name = |arg: &'_ String| dfp_provider::schema_flags().find(|flag| arg.split('=').next() == Some(flag));
    args.iter().find_map(name)
}

/// The event that the schema is asked for in the prompt, although the provider has another way.
pub(super) fn emulated(provider: &str, why: &str) -> Event {
    Event::Warning {
        code: "OUTPUT_SCHEMA_EMULATED".to_owned(),
        message: format!("{provider} is asked in the prompt for an answer that fits `outputSchema`: {why}"),
    }
}

/// The check that the reply fits a schema, unless it calls tools.
#[derive(Debug)]
pub(super) struct FitsSchema {
    pub schema: Arc<Schema>,
    pub provider: String,
    /// True if the CLI itself lets its model try again before it fails.
    pub cli_asks_again: bool,
}

impl ReplyCheck for FitsSchema {
    fn check(&self, mut reply: Reply) -> Result<Reply, Box<RejectedReply>> {
        let given = reply.structured.take();
        // The value comes in a later turn, when the calls have their results.
        if !reply.tool_calls.is_empty() || !reply.invalid_tool_calls.is_empty() {
            return Ok(reply);
        }
        let by_tool = given.is_some();
        let fits = |value: Value| aside(|| self.schema.check(&value)).map(|()| value);
        let found = match given {
            Some(value) => fits(value),
            None => schema::value_of(&reply.content).and_then(fits),
        };
        match found {
            Ok(value) => {
                if by_tool {
                    // In the thread's next call, the message has to be the value, without the text beside it.
                    reply.content = value.to_string();
                }
                reply.structured = Some(value);
                Ok(reply)
            }
            Err(reasons) => Err(Box::new(RejectedReply {
                messages: correction(&reply, self.reasons(&reasons)),
                error: self.rejected(&reasons),
                reply,
            })),
        }
    }

    fn mend(&self, error: &ProviderError) -> Option<Vec<Message>> {
        if error.code != Code::OutputInvalid || self.cli_asks_again {
            return None;
        }
        let said = error.partial.as_ref().map_or("", |partial| partial.text.as_str());
        let reasons = match schema::value_of(said).and_then(|value| aside(|| self.schema.check(&value))) {
            Err(reasons) => reasons,
            Ok(()) => "it did not come as it was asked for".to_owned(),
        };
        let reply = Reply {
            content: said.to_owned(),
            ..Reply::default()
        };
        Some(correction(&reply, self.reasons(&reasons)))
    }
}

impl FitsSchema {
    /// The user message about an answer that does not fit.
    fn reasons(&self, reasons: &str) -> String {
        format!(
            "Your answer does not fit the JSON Schema that it has to fit: {reasons}. Answer again, with one JSON value that fits this \
             schema and nothing else:\n\n{}",
            self.schema.text()
        )
    }

    fn rejected(&self, reasons: &str) -> Box<ProviderError> {
        let reason = format!("the reply does not fit `outputSchema`: {reasons}");
        let hint = classify::hint(&self.provider, Code::OutputInvalid);
        Box::new(ProviderError::new(&self.provider, Code::OutputInvalid, reason).with_hint(hint))
    }
}

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
mod tests;
