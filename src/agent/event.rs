//! The events of an agent's run: the `AgentEvent`s of index.d.ts and the requests to the host, in one stream and therefore in one order.
//!
//! Only vocabulary. An event is JSON: `{"type": "tool_call", …, "runId", "agent"}`.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::executor::policy::By;
use crate::executor::rules::Limit;
use crate::executor::{RunOutcome, Status};
use dfp_model::error::ProviderError;
use dfp_model::event::{Event, EventKind, Reply};
use dfp_model::message::{Content, ToolCall, Usage};
use dfp_run::LogRecord;

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
    pub messages: Vec<super::thread::ThreadMessage>,
}

impl AgentResult {
    pub fn new(
        run_id: String,
        outcome: RunOutcome,
        structured: Option<Value>,
        messages: Vec<super::thread::ThreadMessage>,
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
