//! A provider object from its first call to its close, whether it calls a CLI or an API.
//!
//! In: the work of one call. Out: a [`Run`] that counts as one of the provider's; it is refused if the provider was closed, and
//! ends with the provider. An agent sees the object as a [`Model`], the binding as a [`ProviderObject`]; both know its models
//! ([`KnownModels`]).
//!
//! The ids of runs are unique over machines and containers, and ordered by time ([`next_id`]).

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::record::{Log, LogBatch};
use super::request::{EncodedRequest, Request};
use crate::ledger::Ledger;
use dfp_exchange::bridge::ToolCallRequest;
use dfp_exchange::random;
use dfp_model::budget::Budget;
use dfp_model::error::{Code, ProviderError, clip};
use dfp_model::event::{self, Event, Reply};
use dfp_process::Vars;
use dfp_process::activity::now_ms;
use dfp_provider::classify;
use dfp_provider::models::ListedModel;
use dfp_provider::options::nearest;
use dfp_text::redact::Redactor;

/// The reason for which a closed provider takes no call.
const CLOSED: &str = "the provider was closed";

/// The state of beginning and end that the calls of one provider object share.
#[derive(Debug)]
pub struct Lifecycle {
    identity: Identity,
    /// Cancelled when the provider is closed.
    pub(super) closing: CancellationToken,
    /// Cancelled when no further call may begin; those that have begun go on.
    draining: CancellationToken,
    /// The calls that go on or wait.
    calls: TaskTracker,
    /// The tasks that have to be over before the provider is closed.
    pub(super) runs: TaskTracker,
    /// The rest of the provider's budget, if it has one.
    pub(super) ledger: Option<Arc<Ledger>>,
}

/// The names by which a provider speaks of itself.
#[derive(Debug, Clone)]
struct Identity {
    id: Cow<'static, str>,
    /// The id of the provider whose hints its errors give; `None` means its own.
    hints: Option<&'static str>,
}

impl Identity {
    fn refuse(&self, code: Code, reason: impl Into<String>) -> Box<ProviderError> {
        let hint = classify::hint(self.hints.unwrap_or(&self.id), code);
        Box::new(ProviderError::new(&self.id, code, reason).with_hint(hint))
    }
}

/// The handles of a call: its records, the receiver of its events, and the token that cancels it.
pub(super) struct CallHandles {
    pub log: Arc<Log>,
    pub consumer: mpsc::Sender<Event>,
    pub cancel: CancellationToken,
}

impl Lifecycle {
    /// Creates the lifecycle of a provider with the id `id`, whose errors give the hints of `hints`, or those of `id` if that is
    /// `None`.
    pub(super) fn new(id: Cow<'static, str>, hints: Option<&'static str>) -> Lifecycle {
        Lifecycle {
            identity: Identity { id, hints },
            closing: CancellationToken::new(),
            draining: CancellationToken::new(),
            calls: TaskTracker::new(),
            runs: TaskTracker::new(),
            ledger: None,
        }
    }

    /// Returns this lifecycle with a budget.
    pub(super) fn with_budget(self, budget: Option<Budget>) -> Lifecycle {
        let ledger = budget.map(|budget| Arc::new(Ledger::new(self.id(), budget)));
        Lifecycle { ledger, ..self }
    }

    /// The provider's id.
    pub fn id(&self) -> &str {
        &self.identity.id
    }

    /// Begins `work` as a call of the provider.
    pub(super) fn begin<F>(&self, work: impl FnOnce(CallHandles) -> F + Send + 'static) -> Run
    where
        F: Future<Output = Result<Ended, Box<ProviderError>>> + Send + 'static,
    {
        let (identity, closing, cancel) = (self.identity.clone(), self.closing.clone(), self.closing.child_token());
        // This is decided now, so that `drain` does not refuse calls that began before it.
        let (refused, call) = (self.refuses(), self.calls.token());
        let (consumer, events) = mpsc::channel(EVENTS_WAITING);
        let log = Arc::new(Log::new(identity.id.clone(), next_id("run")));
        let (over, replied) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let (of_run, of_reply) = (over.clone().drop_guard(), Arc::clone(&replied));
        let handles = CallHandles {
            log: Arc::clone(&log),
            consumer,
            cancel: cancel.clone(),
        };
        let task = self.runs.spawn(async move {
            // The guard is dropped even if the work panics.
            let (_of_run, _call) = (of_run, call);
            let ended = if refused || closing.is_cancelled() {
                Ended::Failed(identity.refuse(Code::Closed, CLOSED))
            } else if handles.cancel.is_cancelled() {
                Ended::Cancelled
            } else {
                work(handles).await.unwrap_or_else(Ended::Failed)
            };
            of_reply.store(matches!(ended, Ended::Replied(_)), Ordering::Relaxed);
            ended
        });
        Run {
            cancel,
            events: AsyncMutex::new(Some(events)),
            task: AsyncMutex::new(Some(task)),
            log,
            over,
            replied,
        }
    }

    /// The error of a call that is refused for this reason.
    pub(super) fn refuse(&self, code: Code, reason: impl Into<String>) -> Box<ProviderError> {
        self.identity.refuse(code, reason)
    }

    /// The error of a call to a provider that was closed, or is about to be; `None` for an open one.
    pub fn refusal(&self) -> Option<Box<ProviderError>> {
        self.refuses().then(|| self.refuse(Code::Closed, CLOSED))
    }

    /// The error of a call whose provider was closed during it.
    pub(super) fn closed(&self) -> Option<Box<ProviderError>> {
        let is_closed = self.closing.is_cancelled();
        is_closed.then(|| self.refuse(Code::Closed, CLOSED))
    }

    /// Returns whether the provider takes no further calls.
    fn refuses(&self) -> bool {
        self.closing.is_cancelled() || self.draining.is_cancelled()
    }

    /// The token that is cancelled when the provider is closed.
    pub fn token(&self) -> CancellationToken {
        self.closing.child_token()
    }

    /// Takes no further calls from now on; those that run or wait go on.
    pub fn refuse_further(&self) {
        self.draining.cancel();
    }

    /// Lets the calls that run or wait end by themselves, and takes no further ones. [`Lifecycle::end`] ends the wait.
    pub async fn drain(&self) {
        self.refuse_further();
        self.calls.close();
        self.calls.wait().await;
    }

    /// Ends all runs and waits until nothing of them is left. Later calls fail with `CLOSED`.
    pub(super) async fn end(&self) {
        self.closing.cancel();
        self.runs.close();
        self.runs.wait().await;
        if let Some(ledger) = &self.ledger {
            ledger.hide();
        }
    }
}

/// The number of events that may wait for a slow consumer; then the process's output waits in its pipe.
const EVENTS_WAITING: usize = 256;

/// The end of a run.
#[derive(Debug)]
pub enum Ended {
    Replied(Box<Reply>),
    Failed(Box<ProviderError>),
    /// The run was cancelled.
    Cancelled,
}

/// A run that goes on, or has ended.
#[derive(Debug)]
pub struct Run {
    cancel: CancellationToken,
    events: AsyncMutex<Option<mpsc::Receiver<Event>>>,
    task: AsyncMutex<Option<JoinHandle<Ended>>>,
    log: Arc<Log>,
    over: CancellationToken,
    /// True if the run is over and has a reply.
    replied: Arc<AtomicBool>,
}

impl Run {
    /// The next batch of events as a JSON array; `None` when no more will come. A slow consumer makes the run wait, which bounds
    /// its memory, so nothing is dropped.
    pub async fn next(&self) -> Option<String> {
        let batch = self.batch().await?;
        Some(event::to_json(&batch).unwrap_or_else(|error| {
            let warning = serde_json::json!([{"type": "warning", "code": "INTERNAL", "message": error.to_string()}]);
            warning.to_string()
        }))
    }

    /// The next events, like [`Run::next`] for callers in Rust. Nothing is lost if the future is dropped before it is ready.
    pub async fn batch(&self) -> Option<Vec<Event>> {
        let mut events = self.events.lock().await;
        let mut batch = Vec::new();
        if events.as_mut()?.recv_many(&mut batch, EVENTS_WAITING).await == 0 {
            *events = None;
            return None;
        }
        Some(batch)
    }

    /// Waits for the end. Events that were not taken by then are dropped.
    pub async fn result(&self) -> Ended {
        if let Ok(mut events) = self.events.try_lock() {
            *events = None;
        }
        let Some(task) = self.task.lock().await.take() else {
            return Ended::Failed(Box::new(ProviderError::new(
                "",
                Code::Internal,
                "the run's result was taken before",
            )));
        };
        match task.await {
            Ok(ended) => ended,
            Err(panic) => Ended::Failed(Box::new(
                ProviderError::new(
                    "",
                    Code::Internal,
                    format!("a bug in this package stopped the run: {panic}"),
                )
                .with_hint("Please report it with what you did."),
            )),
        }
    }

    /// Waits until the run no longer needs its consumer: it has failed, was cancelled, or its time is up.
    pub async fn lost(&self) {
        self.over.cancelled().await;
        if self.replied.load(Ordering::Relaxed) {
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.log.time_up() => {}
            }
        }
    }

    /// The next records, for the user's logger, as soon as there are any; `None` when the run is over and all are taken.
    pub async fn next_log(&self) -> Option<LogBatch> {
        loop {
            let is_over = self.over.is_cancelled();
            if let Some(records) = self.log.take() {
                return Some(records);
            }
            if is_over {
                return None;
            }
            tokio::select! {
                () = self.log.added() => {}
                () = self.over.cancelled() => {}
            }
        }
    }

    /// Takes the records that the run has logged since the last call, for the user's logger; `None` if there are none.
    pub fn take_log(&self) -> Option<LogBatch> {
        self.log.take()
    }

    /// Ends the run's processes; [`Run::result`] then returns [`Ended::Cancelled`].
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[cfg(any(test, feature = "test-support"))]
impl Run {
    /// A run that sends `events` and ends with the result of `end`, which gets the token that cancels the run.
    pub fn scripted<F>(events: Vec<dfp_model::event::Event>, end: impl FnOnce(CancellationToken) -> F) -> Run
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let (sender, receiver) = tokio::sync::mpsc::channel(events.len().max(1));
        for event in events {
            let _ = sender.try_send(event);
        }
        let cancel = CancellationToken::new();
        let task = tokio::spawn(end(cancel.clone()));
        Run {
            cancel,
            events: tokio::sync::Mutex::new(Some(receiver)),
            task: tokio::sync::Mutex::new(Some(task)),
            over: CancellationToken::new(),
            replied: Arc::default(),
            log: Arc::new(super::record::Log::new("fake".into(), "run-fake".to_owned())),
        }
    }
}

/// Crockford's base 32, without I, L, O and U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Milliseconds since the epoch, and 80 random bits. Later ids of one process are greater, also within a millisecond and when
/// the clock is set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    ms: u64,
    random: u128,
}

impl Moment {
    /// The moment after `last`, at `now_ms`.
    fn after(last: Option<Moment>, now_ms: u64, fresh: impl FnOnce() -> u128) -> Moment {
        const RANDOM: u128 = (1 << 80) - 1;
        match last {
            Some(last) if last.ms >= now_ms && last.random < RANDOM => Moment {
                random: last.random + 1,
                ..last
            },
            Some(last) if last.ms >= now_ms => Moment {
                ms: last.ms + 1,
                random: fresh() & RANDOM,
            },
            _ => Moment {
                ms: now_ms,
                random: fresh() & RANDOM,
            },
        }
    }

    /// The id as a ULID (github.com/ulid/spec): 26 characters.
    fn encoded(self) -> String {
        let bits = u128::from(self.ms) << 80 | self.random;
        let digit = |place: u32| char::from(ALPHABET[usize::try_from(bits >> (5 * place) & 31).unwrap_or_default()]);
        (0..26).rev().map(digit).collect()
    }
}

/// A new id: `run-01JD3Z9V5N8Q4W2X7Y6T5R4E3M` for the prefix `run`.
pub fn next_id(prefix: &str) -> String {
    static LAST: Mutex<Option<Moment>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let next = Moment::after(*last, now_ms(), random::id_bits);
    *last = Some(next);
    format!("{prefix}-{}", next.encoded())
}

/// The ways in which a model's calls can reach the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDelivery {
    /// Calls come with the end of a turn.
    Turns,
    /// Calls come also in the middle of a turn, by a callback that waits for the result.
    Either,
    /// Calls come either way, and natively only by a callback.
    Callbacks,
}

/// Shows its id alone: a provider's options hold secrets.
impl fmt::Debug for dyn Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Model").field(&self.id()).finish()
    }
}

/// A model, which answers threads.
pub trait Model: Send + Sync {
    /// The provider's id.
    fn id(&self) -> &str;

    /// Checks that nothing is missing before the model can answer, as far as a look at this machine tells; `env` is the environment
    /// that its processes inherit.
    ///
    /// # Errors
    /// The error that a call would have: the provider was closed, its program is not there, …
    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        let _ = env;
        Ok(())
    }

    /// The redactor for the log and the errors of a run that the model takes part in; `env` is the environment that its processes
    /// inherit.
    fn redactor(&self, env: &Vars) -> Redactor;

    /// Begins to answer. Must be called inside the runtime; returns at once.
    fn begin(self: Arc<Self>, request: Request) -> Run;

    /// The ways in which the model's calls can come.
    fn calls(&self) -> CallDelivery {
        CallDelivery::Turns
    }

    /// The ways in which they can come with the CLI as it is installed now, in the environment `env`; `None` is this process's own.
    fn calls_now(&self, _env: Option<&Arc<Vars>>) -> CallDelivery {
        self.calls()
    }

    /// Begins a call like [`Model::begin`], with the tool calls coming out of the receiver; neither the run's events nor its reply
    /// contain them then. There is no receiver if calls can't come this way ([`Model::calls`]).
    fn begin_with_callbacks(self: Arc<Self>, request: Request) -> (Run, Option<mpsc::Receiver<ToolCallRequest>>) {
        (self.begin(request), None)
    }
}

/// A boxed future, for work that takes its time.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A provider object, as its owner uses it.
pub trait ProviderObject: Model {
    /// The lifecycle of the object's calls: whether it takes further ones, and their draining.
    fn lifecycle(&self) -> &Lifecycle;

    /// Begins a run of a request from JavaScript. Must be called inside the runtime; returns at once, and reads the request later.
    ///
    /// `env` is the environment that a process inherits, and in which an API's key and proxy are looked up. `None` is this
    /// process's own, which is read here, on the caller's thread: JavaScript's, the only one that may change it.
    fn start(self: Arc<Self>, request: EncodedRequest, env: Option<Vars>) -> Run;

    /// Starts processes for the next calls, which `known` describes, and waits until they have answered; `env` is that of
    /// [`ProviderObject::start`]. If no processes are kept, nothing is started.
    ///
    /// # Errors
    /// `CLOSED`, or the reason for which the processes can't be started.
    fn prewarm(self: Arc<Self>, known: String, env: Option<Vars>) -> Work<Result<(), Box<ProviderError>>> {
        let _ = (known, env);
        let ready = self.lifecycle().refusal().map_or(Ok(()), Err);
        Box::pin(std::future::ready(ready))
    }

    /// The models that its login has, by the word of the CLI or the API; no request to a model is made. `env` is that of
    /// [`ProviderObject::start`].
    ///
    /// # Errors
    /// `CLOSED`; `UNSUPPORTED_OPTION` if it does not tell them; as a call, where it can't be asked.
    fn models(self: Arc<Self>, env: Option<Vars>) -> Work<Result<Vec<ListedModel>, Box<ProviderError>>>;

    /// Ends all runs and waits for the last of them. Later calls fail with `CLOSED`.
    fn close(self: Arc<Self>) -> Work<()>;
}

/// The error of `provider`, whose models can't be listed, for `reason`.
pub(crate) fn not_listed(provider: &str, reason: &str) -> Box<ProviderError> {
    let reason = format!("the models can't be listed: {reason}");
    let error = ProviderError::new(provider, Code::UnsupportedOption, reason);
    Box::new(error.with_hint("look in its documentation; any name can be given as `model`"))
}

/// The number of characters of a list of models that an error names.
const MOST_NAMED: usize = 300;

/// The models that a provider has listed last, if it was asked.
#[derive(Debug, Default)]
pub(crate) struct KnownModels(Mutex<Arc<[ListedModel]>>);

impl KnownModels {
    /// Keeps `listed` in the place of those before.
    pub(crate) fn keep(&self, listed: &[ListedModel]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = listed.into();
    }

    /// The models that it has listed last; empty if it was not asked.
    pub(crate) fn listed(&self) -> Arc<[ListedModel]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Names the listed models in the advice of a call that has `ended` because the model `asked` is unknown.
    pub(crate) fn advise(&self, ended: Ended, asked: &str) -> Ended {
        let known = self.listed();
        // claude lists what it was asked for, too (2.1.332).
        let names = known
            .iter()
            .map(|model| model.id.as_str())
            .filter(|name| *name != asked);
        let names: Vec<&str> = names.collect();
        let error = match ended {
            Ended::Failed(error) if error.code == Code::ModelNotFound && !names.is_empty() => error,
            ended => return ended,
        };
        let listed = clip(&names.join(", "), MOST_NAMED);
        Ended::Failed(Box::new(error.with_hint(match nearest(&names, asked) {
            Some(near) => format!("did you mean \"{near}\"? There are: {listed}"),
            None => format!("there are: {listed}"),
        })))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_ulids_in_the_order_of_time() {
        let random = 0x0123_4567_89AB_CDEF_0123;
        let first = Moment::after(None, 1_700_000_000_000, || random);
        assert_eq!(first.encoded(), "01HF7YAT0004HMASW9NF6YY093");
        let same = Moment::after(Some(first), 1_700_000_000_000, || 0);
        let set_back = Moment::after(Some(same), 5, || 0);
        let later = Moment::after(Some(set_back), 1_700_000_000_001, || 0);
        let full = Moment {
            random: (1 << 80) - 1,
            ..later
        };
        let over = Moment::after(Some(full), 5, || 0);
        let all = [first, same, set_back, later, full, over].map(Moment::encoded);
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn many_at_once_are_all_different() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..5_000).map(|_| next_id("run")).collect::<Vec<_>>()))
            .collect();
        let mut all = HashSet::new();
        for thread in threads {
            let made = thread.join().unwrap();
            assert!(made.is_sorted());
            assert!(made.iter().all(|id| id.len() == 30 && id.starts_with("run-")));
            all.extend(made);
        }
        assert_eq!(all.len(), 20_000);
    }
}
