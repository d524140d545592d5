//! What a run reports: the `AgentEvent`s of index.d.ts, and requests to the host, in one stream and so in one order.
//!
//! In: nothing; this is vocabulary. Out: JSON, `{"type": "tool_call", …, "runId", "agent"}`.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::ProviderError;
use crate::event::{Event, EventKind, Reply};
use crate::executor::policy::By;
use crate::executor::rules::Limit;
use crate::executor::{RunOutcome, Status};
use crate::message::{Content, ToolCall, Usage};
use crate::run::LogRecord;

/// One thing that happened in a run, and in which.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentEvent {
    #[serde(flatten)]
    pub kind: Kind,
    pub run_id: String,
    /// The agent's name; the run's own has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run that handed the task to this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
}

/// What happened. Those that are for the host never reach the caller.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum Kind {
    RunStarted {
        provider: String,
        tools: Vec<String>,
        /// What earlier attempts at the run have brought.
        #[serde(skip_serializing_if = "Option::is_none")]
        resumed: Option<Resumed>,
    },
    /// Whether a call may run, and what decided that.
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
    /// The answer to a call, as the model gets it.
    ToolResult {
        tool_call_id: String,
        name: String,
        content: Content,
        is_error: bool,
    },
    /// What a turn has used.
    Usage {
        usage: Usage,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The model that answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A call waits for another agent.
    Deferred {
        tool_call_id: String,
        action: &'static str,
        to: String,
        child_run_id: String,
    },
    /// Last, of a run that ended well.
    RunCompleted {
        output: String,
        steps: u32,
        usage: Usage,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// Last, of any other run.
    RunFailed {
        status: Status,
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Box<ProviderError>>,
    },

    /// To the host: run this tool of that agent, and say what came of it (`complete`).
    Execute {
        request: u32,
        who: usize,
        tool_call: ToolCall,
        idempotency_key: String,
    },
    /// To the host: decide about this call of that agent's (`decide`).
    Ask {
        request: u32,
        who: usize,
        tool_call: ToolCall,
        /// The tool had begun when an earlier attempt was interrupted: whether it may run once more.
        interrupted: bool,
    },
    /// To the host: keep this entry, and say when it is durable (`stored`).
    Append { request: u32, entry: String },
    /// To the host: what the model's turn waits for.
    Phase {
        phase: Phase,
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// To the host: nobody waits for that request any more.
    Abandon { request: u32 },
    /// To the host: records for the logger of that agent's provider.
    Log { who: usize, records: Vec<LogRecord> },
    /// To the host, where it observes the agent's turns: what one came to.
    TurnOver {
        #[serde(skip_serializing_if = "Option::is_none")]
        reply: Option<Box<Reply>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Box<ProviderError>>,
    },

    /// What any run reports in the same words: a piece of what the model says, its text, a call, a limit, a further attempt, a warning.
    #[serde(untagged)]
    Event(Event),
}

impl Kind {
    /// What it is, by the name it has in logs and in JavaScript; `None` for a request to the host.
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

    /// Something to know that is no failure.
    pub fn warning(code: &str, message: String) -> Kind {
        Kind::Event(Event::Warning {
            code: code.to_owned(),
            message,
        })
    }

    /// The last event of a run that came to `outcome`.
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

/// What the model's turn waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// A place of the queue, or its process.
    Queue,
    Model,
    /// The model's plan, which is used up.
    Quota,
    /// No turn is under way.
    None,
}

/// What of a run's result earlier attempts have brought.
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

/// What a run came to: `AgentResult`, of which the façade makes messages.
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
    /// The answer as a value, where a schema asks for one; of a run that is completed only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<ProviderError>>,
    /// What of this earlier attempts at the run have brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resumed>,
    /// What the thread has grown by.
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
