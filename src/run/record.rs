//! A call's run log: its place, its header, and the secrets that are kept out of it.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lifecycle::Ended;
use dfp_model::error::{Code, ProviderError};
use dfp_process::Vars;
use dfp_process::activity::now_ms;
use dfp_record::recorder::{Recorder, RecorderError};
use dfp_record::runlog::{End, Header, Prompt};
use dfp_text::redact::Redactor;

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
