//! The rules of a run: its tools, who may call them, its limits, and what it has to deliver.
//!
//! In: the caller's options. Out: [`Rules`], checked.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::builtin::{self, Need, Target};
use super::policy::Policy;
use super::tool::Tool;
use dfp_model::message::ToolSpec;

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

    /// The tools as the model sees them: the caller's in the caller's order, then the built-in ones.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.order
            .iter()
            .filter_map(|name| self.tools.get(name))
            .map(|tool| &tool.spec)
    }
}
