//! The reports of an agent's run, to its caller and into its run log.
//!
//! In: the events of a run, in the order in which its caller gets them. Out: the events for the caller, and a run in the log file. The model's
//! turns and the runs that get a task are further runs of the same file, whose parent is this run. A log that fails while the run goes on is
//! reported once, and the run goes on without it. A log that can't be begun fails the run before anything is started.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::to_raw_value;

use super::event::{AgentEvent, Kind, Phase};
use super::{RunOrigin, Shared};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::Event;
use dfp_model::message::Message;
use dfp_record::recorder::Recorder;
use dfp_record::runlog::Prompt;
use dfp_run::LogRecord;
use dfp_run::record::{RecordOptions, redactor_of};
use dfp_run::request::SchemaOnce;

/// The code of the warning that a run is no longer recorded.
const LOST: &str = "RUN_LOG_FAILED";

/// Reports the events of one run.
pub(super) struct Reporter<'a> {
    pub shared: &'a Arc<Shared>,
    pub origin: RunOrigin,
    /// The agent's name; `None` for the run's own agent.
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

    /// Begins the log of the run, if it is recorded. `provider` is the id of the model's provider, `thread` what it is sent, `tools` the names
    /// of the tools it may call.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming `record`, if the log of the run's own agent can't be begun.
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
        // The secrets of all agents are redacted: one agent may get from another what that has seen.
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

    /// The call option `record` of a turn, which makes its log a part of this run.
    pub fn turn_record(&self) -> Option<RecordOptions> {
        Some(RecordOptions {
            parent_run_id: Some(self.origin.run_id.clone()),
            ..self.wanted()?.clone()
        })
    }

    /// The schema that the answer has to fit. Only the run's own agent answers the caller, so the others have none.
    pub fn output_schema(&self) -> Option<&SchemaOnce> {
        let schema = self.shared.spec.output_schema.as_ref();
        schema.filter(|_| self.origin.depth == 0)
    }

    /// Reports an event to the caller and into the log.
    pub async fn emit(&self, kind: Kind) {
        let event = self.event(kind);
        if is_lost(&event.kind) && self.shared.unrecorded.swap(true, Ordering::Relaxed) {
            // The log of another turn has failed before, and that was reported.
            return;
        }
        // A host that has gone is no failure here: its going ends the run.
        if let Some(lost) = self.write(&event).await {
            let _ = self.shared.events.send(self.event(lost)).await;
        }
        let _ = self.shared.events.send(event).await;
    }

    /// Passes on records for the user's logger.
    pub async fn emit_log(&self, records: Vec<LogRecord>) {
        if !records.is_empty() {
            let who = self.origin.agent;
            self.emit(Kind::Log { who, records }).await;
        }
    }

    /// Reports that the model's turn enters a phase, if the host asked for that (`heartbeat`). `until`: when the wait ends, ms since the epoch.
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

    /// Writes `event` into the log. Returns a warning, to be reported before the event, if that has failed.
    async fn write(&self, event: &AgentEvent) -> Option<Kind> {
        // Requests to the host have no event kind and are not logged.
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

/// `true` for the warning that the log of a turn failed.
fn is_lost(kind: &Kind) -> bool {
    matches!(kind, Kind::Event(Event::Warning { code, .. }) if code == LOST)
}
