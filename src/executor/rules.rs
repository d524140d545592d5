//! What holds for a whole run: its tools, who may call them, how far it may go, and what it has to bring.
//!
//! In: what the caller gave. Out: [`Rules`], checked.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::builtin::{self, Need, Target};
use super::policy::Policy;
use super::tool::Tool;
use crate::message::ToolSpec;

/// A limit of a run, by its name in TypeScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// How often the model may be asked.
    MaxSteps,
    /// How many calls of the caller's tools, and handoffs, there may be.
    MaxToolCalls,
    /// How long it may take.
    TimeoutMs,
    /// What it may cost.
    MaxCostUsd,
    /// How often the same call may be made.
    MaxRepeatedCalls,
}

impl Limit {
    /// Its name in TypeScript.
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

/// How far a run may go. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLimits {
    /// How often the model may be asked.
    pub max_steps: u32,
    /// How many calls of the caller's tools, and handoffs, there may be.
    pub max_tool_calls: Option<u32>,
    /// How long it may take, ms: the driver's to watch.
    pub timeout_ms: Option<u64>,
    /// US dollars from which on the model is not asked again.
    pub max_cost_usd: Option<f64>,
    /// How often the same tool may be called with the same arguments.
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

/// Which of the run's own tools are on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Builtins {
    /// `completion-report`.
    pub report: Need,
    /// `planner-output`.
    pub plan: Need,
    /// Whom `handoff` may give a task to; nobody: it is off.
    pub targets: Vec<Target>,
}

/// What holds for a whole run.
#[derive(Debug)]
pub struct Rules {
    /// The provider's id, for errors.
    pub provider: String,
    pub tools: BTreeMap<String, Arc<Tool>>,
    /// The names in the order in which the model sees them.
    pub order: Vec<String>,
    /// Who may call what.
    pub policy: Policy,
    /// How far it may go.
    pub limits: RunLimits,
    /// `completion-report`.
    pub report: Need,
    /// `planner-output`.
    pub plan: Need,
}

impl Rules {
    /// Whether tools of these names, the caller's, can be together with the run's own.
    ///
    /// # Errors
    /// The name of the one that can't, and why.
    pub fn check_names<'a>(
        names: impl IntoIterator<Item = &'a str>,
        builtins: &Builtins,
    ) -> Result<(), (String, String)> {
        let own = [
            (builtin::REPORT, builtins.report != Need::Off),
            (builtin::PLAN, builtins.plan != Need::Off),
            (builtin::HANDOFF, !builtins.targets.is_empty()),
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

    /// The rules of a run with the caller's `tools` and the run's own.
    ///
    /// # Errors
    /// The name of the tool that can't be one of them, and why.
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
            rules.add(own(builtin::report(builtins.report), builtin::REPORT)?);
        }
        if builtins.plan != Need::Off {
            rules.add(own(builtin::plan(builtins.plan), builtin::PLAN)?);
        }
        if !builtins.targets.is_empty() {
            rules.add(own(builtin::handoff(&builtins.targets), builtin::HANDOFF)?);
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

    /// What the model sees: the caller's tools in the caller's order, then the run's own.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.order
            .iter()
            .filter_map(|name| self.tools.get(name))
            .map(|tool| &tool.spec)
    }
}
