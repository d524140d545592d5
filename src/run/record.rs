//! What a run tells of itself: its records for the user's `logger`, and its run log.
//!
//! In: an occurrence, with figures and names. Out: records as JSON, few of them, kept until JavaScript takes them. Prompts, system prompts,
//! environment values and the model's words never get in there: fields hold numbers, codes, and fixed texts of ours. The run log has
//! everything, with secrets taken out; [`RecordOptions`] says where.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::lifecycle::Ended;
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
    pub(super) async fn begin_call(
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
pub(super) fn end_of(ended: &Ended) -> Option<End> {
    match ended {
        Ended::Replied(_) => None,
        Ended::Cancelled => Some(End::Cancelled),
        Ended::Failed(error) => serde_json::value::to_raw_value(error)
            .ok()
            .map(|error| End::Failed { error }),
    }
}

/// The redactor of all that leaves a run, made when it is first needed: most runs say nothing that has to be redacted.
pub(super) type RunRedactor = Arc<LazyLock<Redactor, Box<dyn FnOnce() -> Redactor + Send>>>;

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
    pub fn redact_with(&self, redactor: RunRedactor) {
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
}
