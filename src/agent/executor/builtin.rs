//! The run's built-in tools: `completion-report`, `planner-output` and `handoff`.
//!
//! In: which of them are on, and the agents to which a task may be handed. Out: the tools, with schemas for the model by which its
//! arguments are checked.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::tool::{Tool, ToolKind};
use dfp_model::message::ToolSpec;
use dfp_text::schema::Schema;

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
pub fn report(need: Need) -> Result<Tool, String> {
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
pub fn plan(need: Need) -> Result<Tool, String> {
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
pub fn handoff(targets: &[Target]) -> Result<Tool, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tool: &Tool, args: &str) -> Result<(), String> {
        tool.check(&RawValue::from_string(args.to_owned()).unwrap())
    }

    #[test]
    fn the_schemas_hold_what_their_tools_need() {
        let report = report(Need::Required).unwrap();
        assert_eq!(
            check(&report, r#"{"summary":"done","outcome":"success","files":2}"#),
            Ok(())
        );
        assert!(check(&report, r#"{"outcome":"success"}"#).is_err());
        let plan = plan(Need::Offered).unwrap();
        assert_eq!(check(&plan, r#"{"plan":"p","steps":["a"]}"#), Ok(()));
        assert!(check(&plan, r#"{"steps":["a"]}"#).is_err());
        let targets = [Target {
            name: "reviewer".to_owned(),
            description: Some("reads diffs".to_owned()),
        }];
        let handoff = handoff(&targets).unwrap();
        assert!(
            handoff
                .spec
                .description
                .as_deref()
                .unwrap()
                .ends_with("\n- reviewer: reads diffs")
        );
        assert_eq!(check(&handoff, r#"{"agent":"reviewer","task":"look"}"#), Ok(()));
        assert!(check(&handoff, r#"{"agent":"nobody","task":"look"}"#).is_err());
    }
}
