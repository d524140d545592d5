//! The events of an agent's run, and how they are reported to its caller and into its run log.
//!
//! The events are the `AgentEvent`s of index.d.ts and the requests to the host, in one stream and therefore in one order. An event is
//! JSON: `{"type": "tool_call", …, "runId", "agent"}`. The [`Reporter`] sends them, and writes those that have a place there into a run of
//! the log file.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{RunOrigin, Shared};
use crate::executor::{By, Limit, RunOutcome, Status};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{Event, EventKind, Reply};
use dfp_model::message::{Content, InvalidToolCall, Message, ToolCall, Usage};
use dfp_record::recorder::Recorder;
use dfp_record::runlog::Prompt;
use dfp_run::LogRecord;
use dfp_run::record::{RecordOptions, redactor_of};
use dfp_run::request::SchemaOnce;
use dfp_text::prompt::is_js_space;

/// One event, and the run it belongs to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentEvent {
    #[serde(flatten)]
    pub kind: Kind,
    pub run_id: String,
    /// The agent's name; `None` for the run's own agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The id of the run that handed its task to this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
}

/// The event itself. Requests to the host are answered by the façade and never reach the caller.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum Kind {
    RunStarted {
        provider: String,
        tools: Vec<String>,
        /// Totals of earlier attempts, if the run is resumed.
        #[serde(skip_serializing_if = "Option::is_none")]
        resumed: Option<Resumed>,
    },
    /// The decision on whether a call may run, and who made it.
    Permission {
        tool_call_id: String,
        name: String,
        allow: bool,
        by: By,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        args: Option<Box<RawValue>>,
    },
    /// The result of a call, as the model gets it.
    ToolResult {
        tool_call_id: String,
        name: String,
        content: Content,
        is_error: bool,
    },
    /// The tokens and cost of one turn.
    Usage {
        usage: Usage,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The model that answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A call waits for another agent's run.
    Deferred {
        tool_call_id: String,
        action: &'static str,
        to: String,
        child_run_id: String,
    },
    /// The last event of a run that completed.
    RunCompleted {
        output: String,
        steps: u32,
        usage: Usage,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The last event of a run that did not complete.
    RunFailed {
        status: Status,
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Box<ProviderError>>,
    },

    /// Request to the host: run this tool of agent number `who`. Answered by `complete`.
    Execute {
        request: u32,
        who: usize,
        tool_call: ToolCall,
        idempotency_key: String,
    },
    /// Request to the host: decide whether this call of agent number `who` may run. Answered by `decide`.
    Ask {
        request: u32,
        who: usize,
        tool_call: ToolCall,
        /// The tool had begun when an earlier attempt was interrupted, and the question is whether it may run once more.
        interrupted: bool,
    },
    /// Request to the host: store this entry. Answered by `stored` once it is durable.
    Append { request: u32, entry: String },
    /// Message to the host: the phase of the model's turn has changed.
    Phase {
        phase: Phase,
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// Message to the host: the answer to that request is no longer needed.
    Abandon { request: u32 },
    /// Message to the host: records for the logger of agent number `who`'s provider.
    Log { who: usize, records: Vec<LogRecord> },
    /// Message to a host that observes the agent's turns: a turn has ended, with a reply or an error.
    TurnOver {
        #[serde(skip_serializing_if = "Option::is_none")]
        reply: Option<Box<Reply>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Box<ProviderError>>,
    },

    /// An event that has the same form in every run: a piece of the model's text, a message, a call, a limit, another attempt, a warning.
    #[serde(untagged)]
    Event(Event),
}

impl Kind {
    /// The kind of the event, by the name it has in logs and in JavaScript; `None` for a message to the host.
    pub fn event_kind(&self) -> Option<EventKind> {
        Some(match self {
            Kind::Event(event) => return event.kind(),
            Kind::RunStarted { .. } => EventKind::RunStarted,
            Kind::Permission { .. } => EventKind::Permission,
            Kind::ToolResult { .. } => EventKind::ToolResult,
            Kind::Usage { .. } => EventKind::Usage,
            Kind::Deferred { .. } => EventKind::Deferred,
            Kind::RunCompleted { .. } => EventKind::RunCompleted,
            Kind::RunFailed { .. } => EventKind::RunFailed,
            Kind::Execute { .. }
            | Kind::Ask { .. }
            | Kind::Append { .. }
            | Kind::Phase { .. }
            | Kind::Abandon { .. }
            | Kind::Log { .. }
            | Kind::TurnOver { .. } => return None,
        })
    }

    /// A warning: `code` is stable, `message` is for people.
    pub fn warning(code: &str, message: String) -> Kind {
        Kind::Event(Event::Warning {
            code: code.to_owned(),
            message,
        })
    }

    /// The last event of a run with this outcome.
    pub fn ended(outcome: &RunOutcome) -> Kind {
        match outcome.status {
            Status::Completed => Kind::RunCompleted {
                output: outcome.output.clone(),
                steps: outcome.steps,
                usage: outcome.spent.usage.clone(),
                cost_usd: outcome.spent.cost_usd,
            },
            status => Kind::RunFailed {
                status,
                limit: outcome.limit,
                error: outcome.error.clone(),
            },
        }
    }
}

/// The phase of the model's turn: what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// For a place in the queue, or for its process to start.
    Queue,
    Model,
    /// For the model's plan, which is used up, to be renewed.
    Quota,
    /// No turn is under way.
    None,
}

/// The part of a run's result that comes from earlier attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resumed {
    /// Turns of the run's own agent.
    pub steps: u32,
    /// Calls that have ended.
    pub tool_calls: u32,
    pub usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// The result of a run: `AgentResult` of index.d.ts, whose messages the façade makes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentResult {
    pub status: Status,
    pub run_id: String,
    pub output: String,
    pub steps: u32,
    pub usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_report: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planner_output: Option<Box<RawValue>>,
    /// The answer as a value, if an output schema asks for one. Only a completed run has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<ProviderError>>,
    /// Totals of earlier attempts, which the figures above include.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resumed>,
    /// The messages that the run has added to the thread.
    pub messages: Vec<super::conversation::ThreadMessage>,
}

impl AgentResult {
    pub fn new(
        run_id: String,
        outcome: RunOutcome,
        structured: Option<Value>,
        messages: Vec<super::conversation::ThreadMessage>,
    ) -> AgentResult {
        AgentResult {
            status: outcome.status,
            run_id,
            output: outcome.output,
            steps: outcome.steps,
            usage: outcome.spent.usage,
            cost_usd: outcome.spent.cost_usd,
            completion_report: outcome.report,
            planner_output: outcome.plan,
            structured: structured.filter(|_| outcome.status == Status::Completed),
            limit: outcome.limit,
            error: outcome.error,
            resumed: None,
            messages,
        }
    }
}

// The events of a provider's run as those of the agent's run, if they are any. Calls, usage and the end are left out, because the
// agent's run reports them itself, in an order that is the same for every provider.

/// The most characters of an unreadable call that are shown to the model.
const SHOWN: usize = 2000;

/// Calls that a provider answers itself: of its own tools, and of tools that don't exist. They are reported once they have their result, like
/// any other call. The executor has no part in them.
#[derive(Debug, Default)]
pub(super) struct OwnCalls {
    open: HashMap<String, ToolCall>,
}

impl OwnCalls {
    /// The events that the caller gets for `event`.
    pub fn kinds(&mut self, event: Event) -> Vec<Kind> {
        match event {
            Event::ToolCall { tool_call } => {
                self.open.insert(tool_call.id.clone(), tool_call);
                Vec::new()
            }
            Event::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => {
                let Some(tool_call) = self.open.remove(&tool_call_id) else {
                    return Vec::new();
                };
                let name = tool_call.name.clone();
                let content = Content::Text(content);
                vec![
                    Kind::Event(Event::ToolCall { tool_call }),
                    Kind::ToolResult {
                        tool_call_id,
                        name,
                        content,
                        is_error,
                    },
                ]
            }
            other => passed_on(other).map(Kind::Event).into_iter().collect(),
        }
    }
}

/// The event as the run's caller gets it: without the id of the message in the model's API, which is the provider's own affair.
fn passed_on(event: Event) -> Option<Event> {
    match event {
        Event::TextDelta { text, .. } => Some(Event::TextDelta { message_id: None, text }),
        Event::Message { content, .. } => {
            let content = content.trim_matches(is_js_space);
            (!content.is_empty()).then(|| Event::Message {
                id: None,
                content: content.to_owned(),
            })
        }
        Event::RateLimit { .. } | Event::Retry { .. } | Event::Waiting { .. } | Event::Warning { .. } => Some(event),
        _ => None,
    }
}

/// The text that tells the model of a call that can't be read.
pub(super) fn unreadable(call: &InvalidToolCall) -> String {
    let of = call
        .name
        .as_ref()
        .map_or(String::new(), |name| format!(" of \"{name}\""));
    let shown = dfp_model::error::clip(&call.args, SHOWN);
    format!(
        "Your tool call{of} could not be read: {}. Nothing was run. You wrote:\n\n{shown}\n\nWrite the call again, as one \
         valid JSON object.",
        call.error
    )
}

// The reports of a run. In: its events, in the order in which its caller gets them. Out: the events for the caller, and a run in the log
// file. The model's turns and the runs that get a task are further runs of the same file, whose parent is this run. A log that fails while
// the run goes on is reported once, and the run goes on without it. A log that can't be begun fails the run before anything is started.

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

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use dfp_model::event::EventKind;
    use dfp_model::message::Usage;

    fn call() -> ToolCall {
        ToolCall {
            name: "add".to_owned(),
            args: RawValue::from_string(r#"{"b": 1.50, "a":2}"#.to_owned()).unwrap(),
            id: "c1".to_owned(),
        }
    }

    /// The types of the events that the caller gets for `events`, and their names in logs.
    fn types_and_kinds(events: Vec<Event>) -> Vec<(String, Option<EventKind>)> {
        let mut own = OwnCalls::default();
        let kinds = events.into_iter().flat_map(|event| own.kinds(event));
        let written = kinds.map(|kind| {
            let named = kind.event_kind();
            let event = AgentEvent {
                kind,
                run_id: "r".to_owned(),
                agent: Some("a".to_owned()),
                parent_run_id: None,
            };
            (serde_json::to_string(&event).unwrap(), named)
        });
        written.collect()
    }

    /// The events as JSON, byte for byte as JavaScript and a run log get them.
    #[test]
    fn a_provider_s_events_become_an_agent_s() {
        let text = |message_id: Option<&str>, text: &str| Event::TextDelta {
            message_id: message_id.map(str::to_owned),
            text: text.to_owned(),
        };
        let message = |content: &str| Event::Message {
            id: Some("m1".to_owned()),
            content: content.to_owned(),
        };
        let whole_limit = Event::RateLimit {
            status: "allowed".to_owned(),
            resets_at: Some(7),
            limit_type: Some("five_hour".to_owned()),
            utilization: Some(0.5),
        };
        let bare_limit = Event::RateLimit {
            status: "rejected".to_owned(),
            resets_at: None,
            limit_type: None,
            utilization: None,
        };
        let retry = |max_attempts, http_status| Event::Retry {
            by: "cli",
            attempt: 1,
            max_attempts,
            delay_ms: 5,
            reason: "busy".to_owned(),
            http_status,
        };
        let waiting = Event::Waiting {
            until: 9,
            reason: "used up".to_owned(),
        };
        let warning = Event::Warning {
            code: "X".to_owned(),
            message: "\"x\"".to_owned(),
        };
        for (event, kind, expected) in [
            (
                text(Some("m1"), " hi\n"),
                EventKind::TextDelta,
                r#"{"type":"text_delta","text":" hi\n""#,
            ),
            (
                text(None, ""),
                EventKind::TextDelta,
                r#"{"type":"text_delta","text":"""#,
            ),
            (
                message("\u{feff} hi \n"),
                EventKind::Message,
                r#"{"type":"message","content":"hi""#,
            ),
            (
                whole_limit,
                EventKind::RateLimit,
                r#"{"type":"rate_limit","status":"allowed","resetsAt":7,"limitType":"five_hour","utilization":0.5"#,
            ),
            (
                bare_limit,
                EventKind::RateLimit,
                r#"{"type":"rate_limit","status":"rejected""#,
            ),
            (
                retry(Some(3), Some(529)),
                EventKind::Retry,
                r#"{"type":"retry","by":"cli","attempt":1,"maxAttempts":3,"delayMs":5,"reason":"busy","httpStatus":529"#,
            ),
            (
                retry(None, None),
                EventKind::Retry,
                r#"{"type":"retry","by":"cli","attempt":1,"delayMs":5,"reason":"busy""#,
            ),
            (
                waiting,
                EventKind::Waiting,
                r#"{"type":"waiting","until":9,"reason":"used up""#,
            ),
            (
                warning,
                EventKind::Warning,
                r#"{"type":"warning","code":"X","message":"\"x\"""#,
            ),
        ] {
            let expected = (format!(r#"{expected},"runId":"r","agent":"a"}}"#), Some(kind));
            assert_eq!(types_and_kinds(vec![event]), [expected]);
        }
    }

    #[test]
    fn a_call_that_the_provider_answers_is_told_of_with_its_result() {
        let result = || Event::ToolResult {
            tool_call_id: "c1".to_owned(),
            content: "[1]".to_owned(),
            is_error: false,
        };
        let expected = [
            (
                r#"{"type":"tool_call","toolCall":{"id":"c1","name":"add","args":{"b": 1.50, "a":2}},"runId":"r","agent":"a"}"#,
                EventKind::ToolCall,
            ),
            (
                r#"{"type":"tool_result","toolCallId":"c1","name":"add","content":"[1]","isError":false,"runId":"r","agent":"a"}"#,
                EventKind::ToolResult,
            ),
        ];
        let expected = expected.map(|(json, kind)| (json.to_owned(), Some(kind)));
        assert_eq!(
            types_and_kinds(vec![Event::ToolCall { tool_call: call() }, result()]),
            expected
        );
        // The result of an unknown call is dropped.
        assert_eq!(types_and_kinds(vec![result()]), []);
    }

    #[test]
    fn what_the_run_tells_itself_it_is_not_told_by_its_provider() {
        let usage = Event::Usage {
            usage: Usage::default(),
            raw_stop_reason: None,
        };
        let silent = Event::Message {
            id: None,
            content: " \n".to_owned(),
        };
        let thinking = Event::ThinkingDelta {
            message_id: None,
            text: "hm".to_owned(),
        };
        assert_eq!(types_and_kinds(vec![usage, silent, thinking, Event::Abandoned]), []);
    }
}
