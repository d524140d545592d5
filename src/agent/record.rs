//! An agent's run on its way into a run log.
//!
//! In: the events of a run, in the order in which its caller gets them. Out: one run of the file. The turns of its model and
//! the runs it hands tasks to are runs of the same file, parts of this one. A log that fails is told of once, and the run
//! goes on without: only one that can't be begun refuses it, before anything is started.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::drive::{Driver, Lineage};
use super::event::{AgentEvent, Kind};
use super::perform::warning;
use crate::error::{Code, ProviderError};
use crate::message::Message;
use crate::run::record::{RecordOptions, redactor_of};
use crate::runlog::Prompt;

/// The code of the warning that a run is no longer recorded.
const LOST: &str = "RUN_LOG_FAILED";

impl Driver<'_> {
    /// Begins the log of the run, whose model may call `tools`, if it is to have one.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming `record`, where that of the first run can't be begun.
    pub(super) async fn begin_log(&mut self, tools: &[String]) -> Result<(), Box<ProviderError>> {
        let Lineage { run_id, parent, .. } = &self.lineage;
        let Some(record) = self.record() else { return Ok(()) };
        let thread = self.thread.question();
        let messages: Vec<Message> = serde_json::from_str(&thread).unwrap_or_default();
        let characters = messages.iter().map(|message| message.content.as_text().chars().count());
        let prompt = Prompt::new(
            &thread,
            messages.len(),
            characters.sum(),
            tools.to_vec(),
            record.prompts,
        );
        let wanted = RecordOptions {
            parent_run_id: parent.clone(),
            ..record.clone()
        };
        // What an agent was told, another may be told by it.
        let env = &self.shared.env;
        let of_models = self.shared.models.iter().map(|model| model.redactor(env));
        let redactor = of_models.fold(redactor_of(env), |all, of_model| all.and(&of_model));
        let begun = wanted.begin(self.model.id(), run_id, Some(prompt), redactor).await;
        let recorder = begun.map_err(|refused| {
            let reason = format!("option \"record\": {refused}");
            Box::new(ProviderError::new(self.model.id(), Code::InvalidOption, reason))
        })?;
        self.recorder = Some(recorder);
        Ok(())
    }

    /// The call option `record` of a turn: a part of this run.
    pub(super) fn turn_record(&self) -> Option<Value> {
        let RecordOptions { path, prompts, .. } = self.record()?;
        Some(json!({"path": path, "prompts": prompts, "parentRunId": self.lineage.run_id}))
    }

    /// Writes `event` into the log. What comes back is to be told before it.
    pub(super) async fn write(&self, event: &AgentEvent) -> Option<Kind> {
        let recorder = self.recorder.as_ref().filter(|_| is_told(&event.kind))?;
        recorder.event(event).await;
        if matches!(event.kind, Kind::RunCompleted { .. } | Kind::RunFailed { .. }) {
            recorder.settle().await;
        }
        let reason = recorder.failure()?;
        let told = self.shared.unrecorded.swap(true, Ordering::Relaxed);
        (!told).then(|| warning(LOST, format!("the run goes on and is no longer recorded: {reason}")))
    }

    fn record(&self) -> Option<&RecordOptions> {
        let lost = self.shared.unrecorded.load(Ordering::Relaxed);
        self.shared.spec.record.as_ref().filter(|_| !lost)
    }
}

/// Whether it says that the log of a turn failed.
pub(super) fn is_lost(kind: &Kind) -> bool {
    matches!(kind, Kind::Warning { code, .. } if code == LOST)
}

/// Whether the caller gets it: the rest are requests to the host.
fn is_told(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::Execute { .. } | Kind::Ask { .. } | Kind::Abandon { .. } | Kind::Log { .. }
    )
}
