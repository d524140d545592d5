//! A call's run log: where it goes, what its header says, and what is secret in it.

use std::path::PathBuf;

use serde::Deserialize;

use super::clock::now_ms;
use super::handle::Ended;
use crate::error::Code;
use crate::process::Vars;
use crate::recorder::{Recorder, Refused};
use crate::redact::Redactor;
use crate::runlog::{End, Header, Prompt};

/// The call option `record`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordOptions {
    /// The file, absolute.
    pub path: PathBuf,
    /// The thread's messages too.
    #[serde(default)]
    pub prompts: bool,
    /// The run this one is part of.
    #[serde(default)]
    pub parent_run_id: Option<String>,
}

impl RecordOptions {
    /// Begins the log of the run `run_id` of `provider`. Where it can't be begun, a run that is part of another goes on
    /// without: its log says so.
    ///
    /// # Errors
    /// What is wrong with the path.
    pub async fn begin(
        &self,
        provider: &str,
        run_id: &str,
        prompt: Option<Prompt>,
        redactor: Redactor,
    ) -> Result<Recorder, Refused> {
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

    /// The same for the call option.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming it, where the log can't be begun.
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

/// What knows the secrets of an environment.
pub(crate) fn redactor_of(env: &Vars) -> Redactor {
    Redactor::new(readable(env), [])
}

pub(super) fn readable(env: &Vars) -> impl Iterator<Item = (&str, &str)> {
    env.iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
}

/// The line that a run's end adds: none where its last event says it.
pub(super) fn end_of(ended: &Ended) -> Option<End> {
    match ended {
        Ended::Replied(_) => None,
        Ended::Cancelled => Some(End::Cancelled),
        Ended::Failed(error) => serde_json::value::to_raw_value(error)
            .ok()
            .map(|error| End::Failed { error }),
    }
}
