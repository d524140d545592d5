//! The executor decides what an agent's run does next, in the same way for every provider.
//!
//! ```text
//! Input (a call, a decision, a result, a turn's end …) ─step(State, Input)─▶ (State, Vec<Effect>)
//! ```
//!
//! In: what happened, one [`Input`] at a time. Out: the state it leads to, and the [`Effect`]s that the driver (`agent`) carries
//! out. The executor does nothing itself and reads no clock, so every order of events can be tested. In every order it holds that:
//!
//! - every call gets exactly one [`Effect::Reply`], however the run ends;
//! - nothing is executed that was not permitted first, and nothing after the end;
//! - a call that can't run (unknown, ill-formed, denied, failed) is reported to the model, and is not an error of the run.
//!
//! A state belongs to one run. A child's run has a state of its own, so the two can't interfere.
//!
//! The [`Rules`] by which it decides are here, too: the tools of a run, the built-in ones among them, who may call them, its limits, and
//! what it has to deliver. The run under way is in `running`.

mod running;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use dfp_model::error::ProviderError;
use dfp_model::message::{Spent, ToolCall, ToolResult, ToolSpec};
use dfp_text::schema::Schema;
pub use running::RunState;

/// The state of a run.
#[derive(Debug)]
pub enum State {
    /// Before the beginning.
    Idle(Box<Rules>),
    /// The model is at work, or the tools it has called are.
    Running(Box<RunState>),
    /// Only answers of other agents are missing.
    AwaitingDeferred(Box<RunState>),
    Complete,
    /// The run has failed, was cancelled, or was stopped by a limit.
    Failed,
}

/// The way in which a call was delivered, which is also the way its result goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// With the end of a turn. The results of all its calls go into the next turn.
    Turn,
    /// In the middle of a turn, by a callback that waits. The result goes back at once.
    Callback,
}

/// Something that happened in a run.
#[derive(Debug)]
pub enum Input {
    /// The run is to begin.
    Started,
    /// The model calls a tool.
    Call(ToolCall, Origin),
    /// The model wrote something that was meant as a call. The text tells the model what is wrong with it.
    Unreadable(String),
    /// Call `id` was decided about by whoever was asked.
    Decided {
        id: String,
        /// The call may run.
        allow: bool,
        /// The reason, for the model and the log.
        reason: Option<String>,
        /// Arguments that replace the model's.
        args: Option<Box<RawValue>>,
    },
    /// Call `id` has been executed, successfully or not.
    Executed {
        id: String,
        /// The tool's result.
        answer: ToolResult,
    },
    /// The agent that got the task of call `id` has ended.
    ChildEnded {
        id: String,
        /// The agent's answer, or the reason why there is none.
        answer: ToolResult,
        /// The tokens and dollars that the agent has used.
        spent: Spent,
    },
    /// The provider has withdrawn call `id`, which it had made by a callback.
    TakenBack { id: String },
    /// Tokens and dollars that the run's own model has used.
    Spent(Spent),
    /// The latest text of the model.
    Output(String),
    /// The model's turn is over. Its text and its calls came before.
    TurnEnded,
    /// The provider has failed.
    ProviderFailed(Box<ProviderError>),
    /// The caller has cancelled the run.
    Cancelled,
    /// The limit `timeoutMs` has passed.
    TimeUp,
}

/// Something that the driver has to do. Effects are carried out in their order.
#[derive(Debug)]
pub enum Effect {
    /// Ask whether this call may run; the answer is [`Input::Decided`].
    Ask(ToolCall),
    /// Report the decision about a call.
    Permission(Permission),
    /// Run this call of one of the caller's tools; the answer is [`Input::Executed`].
    Execute(ToolCall),
    /// Start another agent's run for this task; the answer is [`Input::ChildEnded`].
    StartChild { id: String, task: Task },
    /// Give a call its one result.
    Reply { call: ToolCall, answer: ToolResult },
    /// The result of this call is no longer needed: end its tool or its agent, and withdraw the question about it.
    Abandon(String),
    /// Send the thread, which has grown by calls and results, to the model; the answer is [`Input::TurnEnded`]. `notes` are added
    /// to it as user messages.
    NextTurn {
        /// Further things that the model has to know.
        notes: Vec<String>,
    },
    /// End the model's turn, if one is under way.
    Stop,
    /// The run is over. This is the last effect, and comes once.
    Finish(Box<RunOutcome>),
}

/// The decision about a call.
#[derive(Debug, Clone)]
pub struct Permission {
    pub id: String,
    pub name: String,
    /// The call may run.
    pub allow: bool,
    pub by: By,
    /// The reason, if one was given.
    pub reason: Option<String>,
    /// The arguments it runs with, if the model's were replaced.
    pub args: Option<Box<RawValue>>,
}

/// The way in which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The model has given its final answer.
    Completed,
    /// The provider failed, or the model did not deliver what was required.
    Failed,
    /// The caller cancelled the run.
    Cancelled,
    /// A limit was reached.
    Limit,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    pub status: Status,
    /// The model's final text, or its latest one if the run did not complete.
    pub output: String,
    /// All tokens and dollars, including those of agents that got tasks.
    pub spent: Spent,
    /// The number of times the model was asked.
    pub steps: u32,
    /// The arguments of `completion-report`.
    pub report: Option<Box<RawValue>>,
    /// The arguments of the last `planner-output`.
    pub plan: Option<Box<RawValue>>,
    /// The limit that was reached.
    pub limit: Option<Limit>,
    /// The reason why the run failed or was stopped; `None` if it was cancelled.
    pub error: Option<Box<ProviderError>>,
}

/// The state to which `input` leads from `state`, and the effects.
pub fn step(state: State, input: Input) -> (State, Vec<Effect>) {
    let mut effects = Vec::new();
    let state = match state {
        State::Idle(rules) => match input {
            Input::Started | Input::Cancelled | Input::TimeUp | Input::ProviderFailed(_) => {
                RunState::new(*rules).step(input, &mut effects)
            }
            other => {
                refuse(other, &mut effects);
                State::Idle(rules)
            }
        },
        State::Running(run) | State::AwaitingDeferred(run) => run.step(input, &mut effects),
        over @ (State::Complete | State::Failed) => {
            refuse(input, &mut effects);
            over
        }
    };
    (state, effects)
}

/// Handles an input before the run or after it. Nothing is done, except that a call is answered.
fn refuse(input: Input, effects: &mut Vec<Effect>) {
    if let Input::Call(call, _) = input {
        let answer = ToolResult::error(format!("\"{}\" was not run: the run is not under way", call.name));
        effects.push(Effect::Reply { call, answer });
    }
}

// The rules of a run. In: the caller's options. Out: [`Rules`], checked.

/// A limit of a run, by the name of its option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// The number of times the model may be asked.
    MaxSteps,
    /// The number of calls of the caller's tools, and of handoffs.
    MaxToolCalls,
    /// The duration.
    TimeoutMs,
    /// The cost.
    MaxCostUsd,
    /// The number of times the same call may be made.
    MaxRepeatedCalls,
}

impl Limit {
    /// The name of the limit's option in TypeScript.
    pub fn as_str(self) -> &'static str {
        match self {
            Limit::MaxSteps => "maxSteps",
            Limit::MaxToolCalls => "maxToolCalls",
            Limit::TimeoutMs => "timeoutMs",
            Limit::MaxCostUsd => "maxCostUsd",
            Limit::MaxRepeatedCalls => "maxRepeatedCalls",
        }
    }
}

/// The limits of a run. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLimits {
    /// The number of times the model may be asked.
    pub max_steps: u32,
    /// The number of calls of the caller's tools, and of handoffs.
    pub max_tool_calls: Option<u32>,
    /// The duration in ms. The driver watches it.
    pub timeout_ms: Option<u64>,
    /// The cost in US dollars from which on the model is not asked again.
    pub max_cost_usd: Option<f64>,
    /// The number of times the same tool may be called with the same arguments.
    pub max_repeated_calls: Option<u32>,
}

impl Default for RunLimits {
    fn default() -> Self {
        RunLimits {
            max_steps: 50,
            max_tool_calls: None,
            timeout_ms: None,
            max_cost_usd: None,
            max_repeated_calls: None,
        }
    }
}

/// The built-in tools of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Builtins {
    /// The setting of `completion-report`.
    pub report: Need,
    /// The setting of `planner-output`.
    pub plan: Need,
    /// The agents to which `handoff` may give a task. If there are none, `handoff` is off.
    pub targets: Vec<Target>,
}

/// The rules of a run.
#[derive(Debug)]
pub struct Rules {
    /// The provider's id, for errors.
    pub provider: String,
    pub tools: BTreeMap<String, Arc<Tool>>,
    /// The names of the tools, in the order in which the model sees them.
    pub order: Vec<String>,
    /// The permissions of the tools.
    pub policy: Policy,
    /// The limits.
    pub limits: RunLimits,
    /// The setting of `completion-report`.
    pub report: Need,
    /// The setting of `planner-output`.
    pub plan: Need,
}

impl Rules {
    /// Checks that the caller's tools can have these names beside the built-in ones.
    ///
    /// # Errors
    /// The first name that is wrong, and the reason.
    pub fn check_names<'a>(
        names: impl IntoIterator<Item = &'a str>,
        builtins: &Builtins,
    ) -> Result<(), (String, String)> {
        let own = [
            (REPORT, builtins.report != Need::Off),
            (PLAN, builtins.plan != Need::Off),
            (HANDOFF, !builtins.targets.is_empty()),
        ];
        let mut known = HashSet::new();
        for name in names {
            let refuse = |reason: &str| Err((name.to_owned(), reason.to_owned()));
            if own.contains(&(name, true)) {
                return refuse("the name is that of a built-in tool, which is on");
            }
            if !known.insert(name) {
                return refuse("there are two of that name");
            }
        }
        Ok(())
    }

    /// The rules of a run with the caller's `tools` and the built-in ones.
    ///
    /// # Errors
    /// The name of the first tool that is wrong, and the reason.
    pub fn new(
        provider: &str,
        tools: &[Arc<Tool>],
        builtins: &Builtins,
        policy: Policy,
        limits: RunLimits,
    ) -> Result<Rules, (String, String)> {
        Rules::check_names(tools.iter().map(|tool| tool.spec.name.as_str()), builtins)?;
        let mut rules = Rules {
            provider: provider.to_owned(),
            tools: BTreeMap::new(),
            order: Vec::new(),
            policy,
            limits,
            report: builtins.report,
            plan: builtins.plan,
        };
        let own =
            |made: Result<Tool, String>, name: &str| made.map(Arc::new).map_err(|reason| (name.to_owned(), reason));
        if builtins.report != Need::Off {
            rules.add(own(report_tool(builtins.report), REPORT)?);
        }
        if builtins.plan != Need::Off {
            rules.add(own(plan_tool(builtins.plan), PLAN)?);
        }
        if !builtins.targets.is_empty() {
            rules.add(own(handoff_tool(&builtins.targets), HANDOFF)?);
        }
        let own_tools = std::mem::take(&mut rules.order);
        for tool in tools {
            rules.add(Arc::clone(tool));
        }
        rules.order.extend(own_tools);
        Ok(rules)
    }

    fn add(&mut self, tool: Arc<Tool>) {
        let name = tool.spec.name.clone();
        self.order.push(name.clone());
        self.tools.insert(name, tool);
    }

    /// The tools as the model sees them: the caller's in the caller's order, then the built-in ones.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.order
            .iter()
            .filter_map(|name| self.tools.get(name))
            .map(|tool| &tool.spec)
    }
}

// A tool as the executor knows it: its name, its description, and the check of arguments by its schema. A check runs right in the
// executor's step, because [`Schema::check`] limits its cost.

/// The kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// A tool of the caller, who runs it.
    Caller,
    /// The built-in tool `completion-report`.
    Report,
    /// The built-in tool `planner-output`.
    Plan,
    /// The built-in tool `handoff`.
    Handoff,
}

/// A tool that the model may call.
#[derive(Debug)]
pub struct Tool {
    /// The specification that the model sees.
    pub spec: ToolSpec,
    pub kind: ToolKind,
    schema: Arc<Schema>,
}

impl Tool {
    /// A tool; `schema` is the compiled schema of `spec`.
    pub fn new(spec: ToolSpec, kind: ToolKind, schema: Arc<Schema>) -> Tool {
        Tool { spec, kind, schema }
    }

    /// Checks `args` by the schema.
    ///
    /// # Errors
    /// A description for the model of what is wrong with them.
    pub fn check(&self, args: &RawValue) -> Result<(), String> {
        let value: Value = serde_json::from_str(args.get()).map_err(|error| format!("they can't be read: {error}"))?;
        self.schema.check_quoting(&value)
    }
}

// The built-in tools: `completion-report`, `planner-output` and `handoff`, with schemas for the model by which its arguments are
// checked.

/// The name of the tool by which the model reports its work.
pub const REPORT: &str = "completion-report";
/// The name of the tool by which the model delivers its plan.
pub const PLAN: &str = "planner-output";
/// The name of the tool by which the model gives a task to another agent.
pub const HANDOFF: &str = "handoff";

/// The setting of `completion-report` or `planner-output` for a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Need {
    /// The tool is off.
    #[default]
    Off,
    /// The model may use the tool.
    Offered,
    /// The run fails if the model doesn't use the tool.
    Required,
}

/// An agent to which a task may be handed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name by which the model selects it.
    pub name: String,
    /// A description for the model of what the agent is good at.
    pub description: Option<String>,
}

/// The arguments of `handoff`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Task {
    /// The agent that is to do the task.
    pub agent: String,
    /// The task, as text.
    pub task: String,
}

/// The tool `completion-report`.
///
/// # Errors
/// Only in the case of a bug: the schema doesn't compile.
pub fn report_tool(need: Need) -> Result<Tool, String> {
    let when = match need {
        Need::Required => "Call it exactly once, before your last answer.",
        Need::Off | Need::Offered => "Call it once, when the work is done.",
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "outcome": {"enum": ["success", "partial", "failure"], "description": "How it went"},
            "summary": {"type": "string", "description": "What was done, for the person who asked"},
        },
        "required": ["summary"],
    });
    tool(
        ToolKind::Report,
        REPORT,
        format!("Reports what you have done. {when}"),
        &schema,
    )
}

/// The tool `planner-output`.
///
/// # Errors
/// Only in the case of a bug: the schema doesn't compile.
pub fn plan_tool(need: Need) -> Result<Tool, String> {
    let when = match need {
        Need::Required => "You must call it before your last answer.",
        Need::Off | Need::Offered => "Call it when the plan is made.",
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "plan": {"type": "string", "description": "The plan as a whole"},
            "steps": {"type": "array", "items": {"type": "string"}, "description": "Its steps, in order"},
        },
        "required": ["plan"],
    });
    let description = format!("Hands over your plan. {when} If you call it again, the last plan counts.");
    tool(ToolKind::Plan, PLAN, description, &schema)
}

/// The tool `handoff` to one of `targets`.
///
/// # Errors
/// Only in the case of a bug: the schema doesn't compile.
pub fn handoff_tool(targets: &[Target]) -> Result<Tool, String> {
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let mut description =
        "Gives a task to another agent and returns its answer. It knows nothing but what you write. The agents:"
            .to_owned();
    for target in targets {
        description.push_str("\n- ");
        description.push_str(&target.name);
        if let Some(about) = &target.description {
            description.push_str(": ");
            description.push_str(about);
        }
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "agent": {"enum": names, "description": "Who is to do it"},
            "task": {"type": "string", "minLength": 1, "description": "What is to be done, with all that it takes to know"},
        },
        "required": ["agent", "task"],
    });
    tool(ToolKind::Handoff, HANDOFF, description, &schema)
}

/// A built-in tool with a compiled schema.
fn tool(kind: ToolKind, name: &str, description: String, schema: &Value) -> Result<Tool, String> {
    let schema: Box<RawValue> = to_raw_value(schema).map_err(|error| error.to_string())?;
    let spec = ToolSpec {
        name: name.to_owned(),
        description: Some(description),
        schema,
    };
    let schema = Schema::new(spec.schema.get())?;
    Ok(Tool::new(spec, kind, Arc::new(schema)))
}

// The policy: which tools an agent may call, as far as that is decided without asking anybody. `deny` wins over everything, and
// `allow` over `ask`. If neither `allow` nor `ask` is set, every tool is allowed that is not denied.

/// A set of tools, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Names {
    /// Patterns in which `*` stands for any number of characters.
    #[serde(default)]
    pub globs: Vec<String>,
    /// Names without patterns: the tools that the caller's regular expressions match. Only JavaScript can match those.
    #[serde(default)]
    pub exact: Vec<String>,
}

impl Names {
    /// `true` if `name` is in the set.
    pub fn contains(&self, name: &str) -> bool {
        self.exact.iter().any(|exact| exact == name) || self.globs.iter().any(|glob| matches(glob, name))
    }
}

/// An agent's `permissions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Policy {
    /// Tools that are allowed without asking. `None` means that there is no list, which is not the same as an empty one.
    #[serde(default)]
    pub allow: Option<Names>,
    /// Tools that are never allowed.
    #[serde(default)]
    pub deny: Names,
    /// The caller has given a function that decides.
    #[serde(default)]
    pub ask: bool,
}

/// The authority that decided about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The list of allowed tools.
    Allow,
    /// The list of denied tools.
    Deny,
    Ask,
    /// The run itself: its built-in tools are always allowed.
    Builtin,
    /// The default, as no list has the tool and nobody is to be asked.
    Default,
}

/// The decision about a call by the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyDecision {
    Allowed(By),
    Denied(By),
    /// The caller's function has to be asked.
    Ask,
}

impl Policy {
    /// The decision about the tool `name` by the lists.
    pub fn verdict(&self, name: &str) -> PolicyDecision {
        if self.deny.contains(name) {
            return PolicyDecision::Denied(By::Deny);
        }
        match &self.allow {
            Some(allow) if allow.contains(name) => PolicyDecision::Allowed(By::Allow),
            _ if self.ask => PolicyDecision::Ask,
            Some(_) => PolicyDecision::Denied(By::Default),
            None => PolicyDecision::Allowed(By::Default),
        }
    }
}

/// `true` if `name` matches `glob`. The time is at most the product of both lengths.
fn matches(glob: &str, name: &str) -> bool {
    // Comparing bytes is enough: `*` is ASCII, and everything else is compared for equality.
    let (glob, name) = (glob.as_bytes(), name.as_bytes());
    let (mut g, mut n) = (0, 0);
    // The position behind the last `*`, and the end of the text that it stands for.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if glob.get(g) == Some(&b'*') {
            star = Some((g, n));
            g += 1;
        } else if glob.get(g) == Some(&name[n]) {
            (g, n) = (g + 1, n + 1);
        } else if let Some((at, end)) = star {
            star = Some((at, end + 1));
            (g, n) = (at + 1, end + 1);
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
