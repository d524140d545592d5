//! What an agent's run reports, to its caller and into its run log.
//!
//! In: the events of a run, in the order in which its caller gets them. Out: the same to the caller, and one run of the log's
//! file. The turns of its model and the runs it hands tasks to are runs of the same file, parts of this one. A log that fails is
//! reported once, and the run goes on without: only one that can't be begun refuses it, before anything is started.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::to_raw_value;

use super::event::{AgentEvent, Kind, Phase};
use super::shared::{RunOrigin, Shared};
use crate::error::{Code, ProviderError};
use crate::event::Event;
use crate::message::Message;
use crate::recorder::Recorder;
use crate::run::LogRecord;
use crate::run::record::{RecordOptions, redactor_of};
use crate::run::request::SchemaOnce;
use crate::runlog::Prompt;

/// The code of the warning that a run is no longer recorded.
const LOST: &str = "RUN_LOG_FAILED";

/// Reports for one run.
pub(super) struct Reporter<'a> {
    pub shared: &'a Arc<Shared>,
    pub origin: RunOrigin,
    /// The agent's name; the run's own has none.
    name: Option<String>,
    /// The run's log, if it is recorded.
    recorder: Option<Recorder>,
}

impl<'a> Reporter<'a> {
    pub fn new(shared: &'a Arc<Shared>, origin: RunOrigin) -> Reporter<'a> {
        Reporter {
            name: shared.spec.agents[origin.agent].name.clone(),
            shared,
            origin,
            recorder: None,
        }
    }

    /// Begins the log of the run, whose model `provider` is sent `thread` and may call `tools`, if it is to have one.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming `record`, where that of the first run can't be begun.
    pub async fn begin_log(
        &mut self,
        provider: &str,
        thread: &[Message],
        tools: &[String],
    ) -> Result<(), Box<ProviderError>> {
        let RunOrigin { run_id, parent, .. } = &self.origin;
        let Some(record) = self.wanted() else { return Ok(()) };
        let messages = to_raw_value(thread).map_err(|error| {
            let reason = format!("messages can't be written into the run log: {error}");
            Box::new(ProviderError::new(provider, Code::InvalidMessages, reason))
        })?;
        let prompt = Prompt::new(messages, thread, tools.to_vec(), record.prompts);
        let wanted = RecordOptions {
            parent_run_id: parent.clone(),
            ..record.clone()
        };
        // What one agent has seen, another may get from it.
        let env = &self.shared.env;
        let of_models = self.shared.models.iter().map(|talk| talk.model.redactor(env));
        let redactor = of_models.fold(redactor_of(env), |all, of_model| all.and(&of_model));
        let begun = wanted.begin(provider, run_id, Some(prompt), redactor).await;
        let recorder = begun.map_err(|refused| {
            let reason = format!("option \"record\": {refused}");
            Box::new(ProviderError::new(provider, Code::InvalidOption, reason))
        })?;
        self.recorder = Some(recorder);
        Ok(())
    }

    /// The call option `record` of a turn: a part of this run.
    pub fn turn_record(&self) -> Option<RecordOptions> {
        Some(RecordOptions {
            parent_run_id: Some(self.origin.run_id.clone()),
            ..self.wanted()?.clone()
        })
    }

    /// What the answer has to fit: only the run's own agent answers the caller.
    pub fn output_schema(&self) -> Option<&SchemaOnce> {
        let schema = self.shared.spec.output_schema.as_ref();
        schema.filter(|_| self.origin.depth == 0)
    }

    /// Reports `kind`.
    pub async fn emit(&self, kind: Kind) {
        let event = self.event(kind);
        if is_lost(&event.kind) && self.shared.unrecorded.swap(true, Ordering::Relaxed) {
            // A turn's log has failed, and another one reported it for all.
            return;
        }
        // A host that has gone is no reason to fail: its going ends the run.
        if let Some(lost) = self.write(&event).await {
            let _ = self.shared.events.send(self.event(lost)).await;
        }
        let _ = self.shared.events.send(event).await;
    }

    /// Passes on the records of a turn for the user's logger, a JSON array.
    pub async fn emit_log(&self, records: Vec<LogRecord>) {
        if !records.is_empty() {
            let who = self.origin.agent;
            self.emit(Kind::Log { who, records }).await;
        }
    }

    /// What the model's turn waits for from now on, for whoever wants to know.
    pub async fn enter_phase(&self, phase: Phase, until: Option<u64>) {
        if self.shared.spec.heartbeat {
            self.emit(Kind::Phase { phase, until }).await;
        }
    }

    fn event(&self, kind: Kind) -> AgentEvent {
        AgentEvent {
            kind,
            run_id: self.origin.run_id.clone(),
            agent: self.name.clone(),
            parent_run_id: self.origin.parent.clone(),
        }
    }

    /// Writes `event` into the log. What comes back is to be reported before it.
    async fn write(&self, event: &AgentEvent) -> Option<Kind> {
        // The rest are requests to the host.
        let (recorder, kind) = (self.recorder.as_ref()?, event.kind.event_kind()?);
        recorder.event(event).await;
        if kind.is_last() {
            recorder.settle().await;
        }
        let reason = recorder.failure()?;
        let reported = self.shared.unrecorded.swap(true, Ordering::Relaxed);
        (!reported).then(|| Kind::warning(LOST, format!("the run goes on and is no longer recorded: {reason}")))
    }

    fn wanted(&self) -> Option<&RecordOptions> {
        let lost = self.shared.unrecorded.load(Ordering::Relaxed);
        self.shared.spec.record.as_ref().filter(|_| !lost)
    }
}

/// Whether it says that the log of a turn failed.
fn is_lost(kind: &Kind) -> bool {
    matches!(kind, Kind::Event(Event::Warning { code, .. }) if code == LOST)
}
