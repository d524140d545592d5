//! What a run tells of itself: its events for the consumer, its records for the user's `logger`, and its run log.
//!
//! In: an event, or an occurrence with figures and names. Out: the `Sink` writes an event to the log first, then sends it to the
//! consumer. It remembers whether any of them was output, since output that was delivered can't be taken back by a further attempt.
//!
//! The `Log` has records as JSON, few of them, kept until JavaScript takes them. Prompts, system prompts, environment values and the
//! model's words never get in there: fields hold numbers, codes, and fixed texts of ours. The run log has everything, with secrets taken
//! out; [`RecordOptions`] says where.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::lifecycle::{CallHandles, Ended, Lifecycle};
use super::request::CallOptions;
use crate::ledger::Ledger;
use dfp_model::budget::Used;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::Event;
use dfp_process::Vars;
use dfp_process::activity::now_ms;
use dfp_record::recorder::{Recorder, RecorderError};
use dfp_record::runlog::{End, Header, Prompt};
use dfp_text::redact::{Channel, Redactor};

/// The call option `record`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordOptions {
    /// The file, absolute.
    pub path: PathBuf,
    /// True if the thread's messages are recorded, too.
    #[serde(default)]
    pub prompts: bool,
    /// The id of the run that this one is part of.
    #[serde(default)]
    pub parent_run_id: Option<String>,
}

impl RecordOptions {
    /// Begins the log of the run `run_id` of `provider`. If that fails, a run that is part of another goes on without a log of its
    /// own, and says so there.
    ///
    /// # Errors
    /// The fault of the path.
    pub async fn begin(
        &self,
        provider: &str,
        run_id: &str,
        prompt: Option<Prompt>,
        redactor: Redactor,
    ) -> Result<Recorder, RecorderError> {
        let header = Header {
            run_id: run_id.to_owned(),
            parent_run_id: self.parent_run_id.clone(),
            provider: provider.to_owned(),
            started_at: now_ms(),
            prompt,
        };
        match Recorder::begin(&self.path, &header, redactor).await {
            Err(refused) if self.parent_run_id.is_some() => Ok(Recorder::failed(refused.to_string())),
            begun => begun,
        }
    }

    /// Begins the record of a call, for the call option.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, if the log can't be begun.
    async fn begin_call(
        &self,
        provider: &str,
        run_id: &str,
        prompt: Option<Prompt>,
        redactor: Redactor,
    ) -> Result<Recorder, (Code, String)> {
        let begun = self.begin(provider, run_id, prompt, redactor).await;
        begun.map_err(|refused| (Code::InvalidOption, format!("the call's option \"record\": {refused}")))
    }
}

/// A call that was refused before it became a run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedCall {
    /// The id by which the call is known elsewhere.
    run_id: String,
    provider: String,
    /// The call's time, ms since the epoch.
    started_at: u64,
    /// A `ProviderError` as JSON.
    error: Box<RawValue>,
}

impl RefusedCall {
    /// Adds it to the log at `path`, as a run that has failed without an event.
    ///
    /// # Errors
    /// `INVALID_OPTION` if the log can't be begun.
    pub async fn record(self, path: &Path) -> Result<(), Box<ProviderError>> {
        let header = Header {
            run_id: self.run_id,
            parent_run_id: None,
            provider: self.provider,
            started_at: self.started_at,
            prompt: None,
        };
        let invalid = |refused: RecorderError| {
            let reason = format!("the option \"record\": {refused}");
            Box::new(ProviderError::new(&header.provider, Code::InvalidOption, reason))
        };
        let recorder = Recorder::begin(path, &header, Redactor::default())
            .await
            .map_err(invalid)?;
        recorder.end(Some(&End::Failed { error: self.error })).await;
        recorder.settle().await;
        Ok(())
    }
}

/// Makes the redactor that knows the secrets of an environment.
pub fn redactor_of(env: &Vars) -> Redactor {
    Redactor::new(readable(env), [])
}

pub(super) fn readable(env: &Vars) -> impl Iterator<Item = (&str, &str)> {
    env.iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
}

/// The line that a run's end adds to the log; `None` if its last event says it.
fn end_of(ended: &Ended) -> Option<End> {
    match ended {
        Ended::Replied(_) => None,
        Ended::Cancelled => Some(End::Cancelled),
        Ended::Failed(error) => serde_json::value::to_raw_value(error)
            .ok()
            .map(|error| End::Failed { error }),
    }
}

/// The redactor of all that leaves a run, made when it is first needed: most runs say nothing that has to be redacted.
type RunRedactor = Arc<LazyLock<Redactor, Box<dyn FnOnce() -> Redactor + Send>>>;

/// A redactor that `make` makes.
pub(super) fn lazy_redactor(make: impl FnOnce() -> Redactor + Send + 'static) -> RunRedactor {
    Arc::new(LazyLock::new(Box::new(make)))
}

/// The level of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Records that were taken together, numbered from 0: a caller that takes some through a promise and some directly orders them by
/// number.
#[derive(Debug, Serialize)]
pub struct LogBatch {
    /// The number of batches of the run that were taken before.
    pub batch: u64,
    /// The records, oldest first.
    pub records: Vec<LogRecord>,
}

/// A log record: index.d.ts's `LogRecord`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRecord {
    level: Level,
    /// The record's time, ms since the epoch.
    time: u64,
    message: &'static str,
    provider: Cow<'static, str>,
    run_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    fields: Map<String, Value>,
}

/// The records of one run.
#[derive(Debug)]
pub(super) struct Log {
    provider: Cow<'static, str>,
    run_id: String,
    state: Mutex<LogState>,
    redactor: OnceLock<RunRedactor>,
    /// Notified when a record was added.
    added: Notify,
    deadline: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct LogState {
    /// True if somebody takes the records.
    wanted: bool,
    /// The process of the current attempt.
    pid: Option<u32>,
    records: Vec<LogRecord>,
    /// The number of batches that were taken.
    taken: u64,
}

impl Log {
    pub fn new(provider: Cow<'static, str>, run_id: String) -> Log {
        Log {
            provider,
            run_id,
            state: Mutex::default(),
            redactor: OnceLock::new(),
            added: Notify::new(),
            deadline: Mutex::default(),
        }
    }

    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Keeps records from now on.
    pub fn want(&self) {
        self.locked().wanted = true;
    }

    /// Sets the redactor that takes secrets out of fields worded by a CLI or a server: ids, file names.
    fn redact_with(&self, redactor: RunRedactor) {
        let _ = self.redactor.set(redactor);
    }

    /// Sets the moment at which the current attempt has used up its time; `None` if it has no limit.
    pub fn ends_at(&self, deadline: Option<Instant>) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    /// Waits until the attempt's time is up; forever if it has no limit.
    pub async fn time_up(&self) {
        let deadline = *self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Waits until there may be records to take.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Sets the process that the next records are about.
    pub fn about(&self, pid: Option<u32>) {
        self.locked().pid = pid;
    }

    /// Adds a record. `fields` is an object; its nulls are left out.
    pub fn say(&self, level: Level, message: &'static str, fields: Value) {
        if !self.locked().wanted {
            return;
        }
        let mut fields: Map<String, Value> = match fields {
            Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        };
        fields.values_mut().for_each(|value| self.clean(value));
        let mut state = self.locked();
        let pid = state.pid;
        state.records.push(LogRecord {
            level,
            time: now_ms(),
            message,
            provider: self.provider.clone(),
            run_id: self.run_id.clone(),
            pid,
            fields,
        });
        drop(state);
        self.added.notify_one();
    }

    fn clean(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(redactor) = self.redactor.get() {
                    *text = redactor.redact(Channel::Record, text).into_owned();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean(item)),
            _ => {}
        }
    }

    /// Adds the record of an event, if the event has one.
    pub fn event(&self, event: &Event) {
        match event {
            Event::Retry {
                by,
                attempt,
                max_attempts,
                delay_ms,
                http_status,
                ..
            } => self.say(
                Level::Warn,
                "tried again",
                json!({"by": by, "attempt": attempt, "maxAttempts": max_attempts, "delayMs": delay_ms, "httpStatus": http_status}),
            ),
            Event::Waiting { until, .. } => self.say(Level::Warn, "waiting for its plan", json!({"until": until})),
            Event::Warning { code, .. } => self.say(Level::Warn, "warned", json!({"code": code})),
            Event::RateLimit {
                status,
                resets_at,
                limit_type,
                utilization,
            } => self.say(
                if status == "allowed" { Level::Debug } else { Level::Warn },
                "reported its limits",
                json!({"status": status, "resetsAt": resets_at, "limitType": limit_type, "utilization": utilization}),
            ),
            _ => {}
        }
    }

    /// Takes the records since the last call; `None` if there are none.
    pub fn take(&self) -> Option<LogBatch> {
        let mut state = self.locked();
        let records = std::mem::take(&mut state.records);
        if records.is_empty() {
            return None;
        }
        let batch = state.taken;
        state.taken += 1;
        Some(LogBatch { batch, records })
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiver of a run's events.
pub(super) struct Sink {
    /// The consumer; `None` if nobody asked for events, so that nothing is ever delivered.
    consumer: Option<mpsc::Sender<Event>>,
    /// True if the tools that run are the CLI's own, which change things: running one counts as output, whoever listens.
    tools_act: bool,
    committed: AtomicBool,
    pub log: Arc<Log>,
    /// The run's log, if it is recorded.
    recorder: Option<Recorder>,
    /// True if pieces of messages are for the log alone.
    whole_only: bool,
    /// True if pieces of texts are for the log alone, since the whole text comes, too. Reasoning comes in no other form.
    whole_texts: bool,
    redactor: RunRedactor,
    /// Cancelled with the run.
    cancel: CancellationToken,
    /// The ledger that counts the attempts, if the provider has a budget.
    pub ledger: Option<Arc<Ledger>>,
    /// The known usage of the attempt that goes on.
    used: Mutex<Option<Used>>,
    /// The options of which it was told that they have no effect: a further attempt does not tell it again.
    told: Mutex<Vec<String>>,
}

impl Sink {
    /// Creates a sink. `pieces` says whether the consumer wants pieces of messages; a recorder always gets them.
    pub fn new(
        consumer: Option<mpsc::Sender<Event>>,
        tools_act: bool,
        log: Arc<Log>,
        recorder: Option<Recorder>,
        pieces: bool,
    ) -> Sink {
        Sink {
            consumer,
            tools_act,
            committed: AtomicBool::new(false),
            log,
            whole_only: recorder.is_some() && !pieces,
            whole_texts: false,
            recorder,
            redactor: lazy_redactor(Redactor::default),
            cancel: CancellationToken::new(),
            ledger: None,
            used: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Makes the sink of a call that says whether it wants events and records. `recorded` is its thread as its log has it; `redactor`
    /// takes its secrets out.
    ///
    /// # Errors
    /// `INVALID_OPTION` if the log can't be begun.
    pub async fn of_call(
        provider: &Lifecycle,
        handles: CallHandles,
        options: &CallOptions,
        recorded: Option<Prompt>,
        redactor: RunRedactor,
    ) -> Result<Sink, Box<ProviderError>> {
        let CallHandles { log, consumer, cancel } = handles;
        let recorder = match &options.record {
            Some(record) => Some(
                record
                    .begin_call(provider.id(), log.run_id(), recorded, Redactor::clone(&redactor))
                    .await
                    .map_err(|(code, reason)| provider.refuse(code, reason))?,
            ),
            None => None,
        };
        if options.log {
            log.want();
        }
        log.redact_with(Arc::clone(&redactor));
        let consumer = options.events.then_some(consumer);
        Ok(Sink {
            redactor,
            cancel,
            ledger: provider.ledger.clone(),
            ..Sink::new(consumer, false, log, recorder, options.partial)
        })
    }

    /// Returns this sink for a CLI; `tools_act` says whether the tools that it runs are its own.
    pub fn with_acting_tools(mut self, tools_act: bool) -> Sink {
        self.tools_act = tools_act;
        self
    }

    /// Returns this sink for a run that `cancel` ends: then nobody waits for its consumer.
    #[cfg(test)]
    pub fn ending_with(mut self, cancel: &CancellationToken) -> Sink {
        self.cancel = cancel.clone();
        self
    }

    /// Returns this sink with `ledger` counting the attempts.
    #[cfg(test)]
    pub fn counting(mut self, ledger: Option<Arc<Ledger>>) -> Sink {
        self.ledger = ledger;
        self
    }

    /// Notes the usage of the attempt that goes on. Returns a warning, once, if costs are counted and the cost of an answer is
    /// unknown.
    pub fn note_used(&self, used: Used) -> Option<Event> {
        let ledger = self.ledger.as_ref()?;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(used);
        let is_missing = used.answered && used.cost_usd.is_none() && ledger.misses_cost();
        is_missing.then(|| Event::Warning {
            code: "BUDGET_COST_UNKNOWN".to_owned(),
            message: "the provider does not tell what this answer has cost, so `budget.costUsd` counts nothing for it: limit `requests` or \
                      `tokens`"
                .to_owned(),
        })
    }

    /// Takes the usage that [`note_used`](Sink::note_used) was told of the attempt that is over.
    pub fn take_used(&self) -> Option<Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Hands `event` to the consumer. Waits for a slow consumer until the run is cancelled or its time is up: a stuck consumer must
    /// not hold up the run's end.
    async fn hand(&self, consumer: &mpsc::Sender<Event>, event: Event) {
        let event = match consumer.try_send(event) {
            Ok(()) | Err(TrySendError::Closed(_)) => return,
            Err(TrySendError::Full(event)) => event,
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {}
            _ = consumer.send(event) => {}
            () = self.log.time_up() => {}
        }
    }

    /// The redactor that takes the run's secrets out.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns this sink for an engine that always reports pieces; `wanted` says whether the consumer gets them, too.
    pub fn in_pieces(mut self, wanted: bool) -> Sink {
        self.whole_only = !wanted;
        self
    }

    /// Returns this sink for a CLI that may report pieces; `wanted` says whether the consumer gets those of texts.
    pub fn text_in_pieces(mut self, wanted: bool) -> Sink {
        self.whole_texts = !wanted;
        self
    }

    /// Returns whether anybody reads the events. The CLI's retries, warnings and limits go to the log in any case.
    pub fn has_listener(&self) -> bool {
        self.consumer.is_some() || self.recorder.is_some()
    }

    /// Sends all of `events` in order. Waits while the consumer is slow; a consumer that has gone is no failure.
    pub async fn send(&self, events: &mut Vec<Event>) {
        events.retain(|event| self.is_news(event));
        self.record(events).await;
        for mut event in events.drain(..) {
            if Redactor::concerns(&event) {
                self.redactor.clean_event(&mut event);
            }
            self.log.event(&event);
            let is_kept_back = match event {
                Event::TextDelta { .. } | Event::ToolCallDelta { .. } => self.whole_only || self.whole_texts,
                Event::ThinkingDelta { .. } => self.whole_only,
                _ => false,
            };
            if is_kept_back {
                continue;
            }
            let delivered = self.consumer.is_some() && is_output(&event);
            let acted = self.tools_act && matches!(event, Event::ToolCall { .. } | Event::ToolResult { .. });
            if delivered || acted {
                self.committed.store(true, Ordering::Relaxed);
            }
            if let Some(consumer) = &self.consumer {
                self.hand(consumer, event).await;
            }
        }
    }

    /// Returns whether `event` is no warning about an option that was sent before.
    fn is_news(&self, event: &Event) -> bool {
        let Event::Warning { code, message } = event else {
            return true;
        };
        if code != Code::UnsupportedOption.as_str() {
            return true;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = !told.contains(message);
        if is_news {
            told.push(message.clone());
        }
        is_news
    }

    /// Notes that something was done that must not be done again.
    pub fn mark_side_effect(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// Writes `events` into the run's log. A failure to write is reported behind them, but before the last.
    async fn record(&self, events: &mut Vec<Event>) {
        let Some(recorder) = &self.recorder else { return };
        // The pieces of a call's arguments are not recorded, since the call has them.
        for event in events
            .iter()
            .filter(|event| !matches!(event, Event::ToolCallDelta { .. }))
        {
            recorder.event(event).await;
        }
        let last = matches!(events.last(), Some(Event::Done { .. }));
        if last {
            recorder.settle().await;
        }
        if let Some(reason) = recorder.failure() {
            events.insert(events.len() - usize::from(last), not_recorded(&reason));
        }
    }

    /// Ends the run, which has `ended`: all of its log is in the file when this returns.
    pub async fn close(&self, ended: &Ended) {
        let Some(recorder) = &self.recorder else { return };
        recorder.end(end_of(ended).as_ref()).await;
        recorder.settle().await;
        self.send(&mut Vec::new()).await;
    }

    /// Returns whether a further attempt would say, or do, something twice.
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }
}

fn not_recorded(reason: &str) -> Event {
    Event::Warning {
        code: "RUN_LOG_FAILED".to_owned(),
        message: format!("the run goes on and is no longer recorded: {reason}"),
    }
}

/// Returns whether the event is the model's own text or a call, as opposed to news about the run.
fn is_output(event: &Event) -> bool {
    matches!(
        event,
        Event::TextDelta { .. }
            | Event::ThinkingDelta { .. }
            | Event::Message { .. }
            | Event::ToolCallDelta { .. }
            | Event::ToolCall { .. }
            | Event::InvalidToolCall { .. }
            | Event::ToolResult { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_kept_where_they_are_wanted_and_taken_once() {
        let log = Log::new("claude".into(), "run-1".to_owned());
        log.say(Level::Info, "unheard", json!({}));
        assert!(log.take().is_none());
        log.want();
        log.about(Some(7));
        log.say(Level::Warn, "ended", json!({"exitCode": 3, "signal": null}));
        log.event(&Event::Warning {
            code: "C".to_owned(),
            message: "not delivered".to_owned(),
        });
        let mut taken: Value = serde_json::to_value(log.take().unwrap()).unwrap();
        assert_eq!(taken["batch"], 0);
        let mut records = taken["records"].take();
        for record in records.as_array_mut().unwrap() {
            assert!(record["time"].take().as_u64().unwrap() > 1_700_000_000_000);
        }
        let record = |message, fields| {
            json!({"level": "warn", "time": null, "message": message, "provider": "claude", "runId": "run-1",
                   "pid": 7, "fields": fields})
        };
        assert_eq!(
            records,
            json!([
                record("ended", json!({"exitCode": 3})),
                record("warned", json!({"code": "C"}))
            ])
        );
        assert!(log.take().is_none());
        log.say(Level::Info, "ended", json!({}));
        assert_eq!(log.take().unwrap().batch, 1);
    }

    fn text() -> Event {
        Event::Message {
            id: None,
            content: "hi".to_owned(),
        }
    }

    fn acted() -> Event {
        Event::ToolResult {
            tool_call_id: "t1".to_owned(),
            content: String::new(),
            is_error: false,
        }
    }

    fn news() -> Event {
        Event::Warning {
            code: "X".to_owned(),
            message: String::new(),
        }
    }

    #[tokio::test]
    async fn what_was_given_or_done_must_not_be_repeated() {
        for (listens, tools_act, event, expected) in [
            (true, false, text(), true),
            (true, false, news(), false),
            (false, false, text(), false),
            (false, false, acted(), false),
            (false, true, acted(), true),
            (false, true, text(), false),
        ] {
            let (sender, _receiver) = mpsc::channel(1);
            let sink = Sink::new(
                listens.then_some(sender),
                tools_act,
                Arc::new(Log::new("claude".into(), "r".to_owned())),
                None,
                true,
            );
            let case = format!("{event:?}, listens: {listens}, tools act: {tools_act}");
            sink.send(&mut vec![event]).await;
            assert_eq!(sink.is_committed(), expected, "{case}");
        }
    }

    #[tokio::test]
    async fn pieces_for_the_log_alone_are_not_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let header = dfp_record::runlog::Header {
            run_id: "r".to_owned(),
            parent_run_id: None,
            provider: "claude".to_owned(),
            started_at: 1,
            prompt: None,
        };
        let recorder = Recorder::begin(&path, &header, Redactor::default()).await.unwrap();
        let (sender, mut receiver) = mpsc::channel(2);
        let log = Arc::new(Log::new("claude".into(), "r".to_owned()));
        let sink = Sink::new(Some(sender), false, log, Some(recorder), false);
        let piece = Event::TextDelta {
            message_id: None,
            text: "hi".to_owned(),
        };
        sink.send(&mut vec![piece]).await;
        assert!(!sink.is_committed());
        sink.send(&mut vec![text()]).await;
        sink.close(&Ended::Replied(Box::default())).await;
        assert!(matches!(receiver.recv().await, Some(Event::Message { .. })));
        let recording = dfp_record::runlog::read::read(&std::fs::read(&path).unwrap()).unwrap();
        let kinds: Vec<_> = recording.runs[0]
            .entries
            .iter()
            .map(|entry| entry.kind.as_str())
            .collect();
        assert_eq!(kinds, ["text_delta", "message"]);
    }
}
