//! The rules of a run: its tools, the built-in ones among them, who may call them, its limits, and what it has to deliver.
//!
//! In: the caller's options. Out: [`Rules`], checked.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use dfp_model::message::ToolSpec;
use dfp_text::schema::Schema;

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
fn tool(kind: ToolKind, name: &str, description: String, schema: &serde_json::Value) -> Result<Tool, String> {
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
mod tests {
    use super::*;

    fn tool(schema: &str) -> Result<Tool, String> {
        let spec = ToolSpec {
            name: "t".to_owned(),
            description: None,
            schema: RawValue::from_string(schema.to_owned()).unwrap(),
        };
        let schema = Schema::new(spec.schema.get())?;
        Ok(Tool::new(spec, ToolKind::Caller, Arc::new(schema)))
    }

    fn check(schema: &str, args: &str) -> Result<(), String> {
        tool(schema)
            .unwrap()
            .check(&RawValue::from_string(args.to_owned()).unwrap())
    }

    #[test]
    fn tells_every_mistake_with_its_place() {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer","minimum":1}},
                        "required":["path"],"additionalProperties":false}"#;
        assert_eq!(check(schema, r#"{"path":"a","n":2}"#), Ok(()));
        assert_eq!(
            check(schema, r#"{"n":0,"more":true}"#).unwrap_err(),
            "/n: 0 is less than the minimum of 1; Additional properties are not allowed ('more' was unexpected); \
             \"path\" is a required property"
        );
        let lone = check(schema, r#"{"path":"\ud800"}"#).unwrap_err();
        assert!(lone.starts_with("they can't be read: "), "{lone}");
    }

    #[test]
    fn refuses_a_schema_that_is_none() {
        assert!(tool("true").is_ok() && tool("{}").is_ok());
        for schema in ["3", r#"{"type":"strin"}"#, r##"{"$ref":"#/nowhere"}"##] {
            assert!(tool(schema).is_err(), "{schema}");
        }
        // Nothing is fetched for a schema.
        assert!(tool(r#"{"$ref":"http://127.0.0.1:9/schema.json"}"#).is_err());
    }

    #[test]
    fn every_draft_and_what_references_itself_is_read() {
        let list = r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
            "properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["next"]}"##;
        assert_eq!(check(list, r#"{"next":{"next":null}}"#), Ok(()));
        assert!(check(list, r#"{"next":{}}"#).is_err());
        let tuple = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array",
            "prefixItems":[{"type":"string"}],"items":false}"#;
        assert_eq!(check(tuple, r#"["a"]"#), Ok(()));
        assert!(check(tuple, r#"["a",1]"#).is_err());
    }

    fn check_tool(tool: &Tool, args: &str) -> Result<(), String> {
        tool.check(&RawValue::from_string(args.to_owned()).unwrap())
    }

    #[test]
    fn the_schemas_hold_what_their_tools_need() {
        let report = report_tool(Need::Required).unwrap();
        assert_eq!(
            check_tool(&report, r#"{"summary":"done","outcome":"success","files":2}"#),
            Ok(())
        );
        assert!(check_tool(&report, r#"{"outcome":"success"}"#).is_err());
        let plan = plan_tool(Need::Offered).unwrap();
        assert_eq!(check_tool(&plan, r#"{"plan":"p","steps":["a"]}"#), Ok(()));
        assert!(check_tool(&plan, r#"{"steps":["a"]}"#).is_err());
        let targets = [Target {
            name: "reviewer".to_owned(),
            description: Some("reads diffs".to_owned()),
        }];
        let handoff = handoff_tool(&targets).unwrap();
        assert!(
            handoff
                .spec
                .description
                .as_deref()
                .unwrap()
                .ends_with("\n- reviewer: reads diffs")
        );
        assert_eq!(check_tool(&handoff, r#"{"agent":"reviewer","task":"look"}"#), Ok(()));
        assert!(check_tool(&handoff, r#"{"agent":"nobody","task":"look"}"#).is_err());
    }

    fn policy(json: &str) -> Policy {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, expected) in [
            ("read", "read", true),
            ("read", "reader", false),
            ("read_*", "read_file", true),
            ("read_*", "read_", true),
            ("*", "", true),
            ("*file", "read_file_file", true),
            ("*a*b*", "xaxxbx", true),
            ("*a*b", "xaxxbx", false),
            ("**", "ä", true),
            ("ä*", "äö", true),
            ("", "x", false),
            ("a?c", "abc", false),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn deny_wins_and_a_list_of_what_is_allowed_excludes_the_rest() {
        use PolicyDecision::{Allowed, Ask, Denied};
        let lists = r#""allow":{"globs":["read_*"],"exact":["x*"]},"deny":{"globs":["*_secret"]}"#;
        for (json, name, expected) in [
            ("{}".to_owned(), "any", Allowed(By::Default)),
            (r#"{"ask":true}"#.to_owned(), "any", Ask),
            (r#"{"allow":{}}"#.to_owned(), "any", Denied(By::Default)),
            (r#"{"deny":{"exact":["any"]}}"#.to_owned(), "any", Denied(By::Deny)),
            (
                r#"{"deny":{"exact":["any"]}}"#.to_owned(),
                "other",
                Allowed(By::Default),
            ),
            (format!("{{{lists}}}"), "read_file", Allowed(By::Allow)),
            (format!("{{{lists}}}"), "read_secret", Denied(By::Deny)),
            (format!("{{{lists}}}"), "write", Denied(By::Default)),
            (format!("{{{lists},\"ask\":true}}"), "write", Ask),
            (format!("{{{lists},\"ask\":true}}"), "read_file", Allowed(By::Allow)),
            // A tool that a regular expression matched is a name, not a pattern.
            (format!("{{{lists}}}"), "x*", Allowed(By::Allow)),
            (format!("{{{lists}}}"), "xy", Denied(By::Default)),
        ] {
            assert_eq!(policy(&json).verdict(name), expected, "{json} {name}");
        }
    }
}
