//! The fingerprint of a run's options: everything on which its recorded entries depend.
//!
//! In: a spec. Out: a [`Fingerprint`], and the differences between two: a reason why the run can't be resumed, or harmless changes to report.
//! Texts are kept as hashes only, because a checkpoint need not hold a prompt.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::spec::{AgentSpec, Spec};
use crate::executor::policy::PolicyDecision;

/// The options a run was begun with, as far as its entries depend on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fingerprint {
    /// The SHA-256 of the thread.
    messages: String,
    /// The built-in tools that are on.
    builtins: String,
    output_schema: Option<String>,
    /// The agents by name; the run's own agent has the empty name.
    agents: BTreeMap<String, AgentPrint>,
}

/// The options of one agent on which recorded entries depend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentPrint {
    provider: String,
    system_prompt: Option<String>,
    choices: String,
    tools: BTreeMap<String, ToolPrint>,
}

/// The options of one tool: a hash of its schema, and whether it is allowed, denied or asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ToolPrint {
    schema: String,
    permission: String,
}

impl Fingerprint {
    /// The fingerprint of `spec`; `providers` are the ids of the providers of its agents, in their order.
    pub fn new(spec: &Spec, providers: &[&str]) -> Fingerprint {
        let agents = spec.agents.iter().zip(providers);
        Fingerprint {
            messages: hash(spec.messages.get()),
            builtins: spec.builtins_named(),
            output_schema: spec.output_schema.as_ref().map(|schema| hash(schema.original().get())),
            agents: agents
                .map(|(agent, provider)| (agent.name.clone().unwrap_or_default(), AgentPrint::new(agent, provider)))
                .collect(),
        }
    }

    /// Compares the options of the first attempt with those of `now`, and returns the harmless changes.
    ///
    /// # Errors
    /// The change with which the run can't go on.
    pub fn compare(&self, now: &Fingerprint) -> Result<Vec<String>, String> {
        let same = |field: &str, same: bool| match same {
            true => Ok(()),
            false => Err(format!("\"{field}\" has changed")),
        };
        same("messages", self.messages == now.messages)?;
        same("builtins", self.builtins == now.builtins)?;
        same("outputSchema", self.output_schema == now.output_schema)?;
        let mut changes = Vec::new();
        for (name, before) in &self.agents {
            let path = match name.as_str() {
                "" => String::new(),
                name => format!("builtins.handoff.agents.{name}."),
            };
            let now = now.agents.get(name).ok_or_else(|| format!("\"{path}\" is gone"))?;
            same(
                &format!("{path}systemPrompt"),
                before.system_prompt == now.system_prompt,
            )?;
            for (tool, was) in &before.tools {
                let is = now.tools.get(tool);
                let is = is.ok_or_else(|| format!("the tool \"{tool}\" of \"{path}tools\" is gone"))?;
                if is.schema != was.schema {
                    return Err(format!(
                        "the schema of the tool \"{tool}\" of \"{path}tools\" has changed"
                    ));
                }
                if is.permission != was.permission {
                    let (was, is) = (&was.permission, &is.permission);
                    return Err(format!(
                        "\"{path}permissions\" has changed: the tool \"{tool}\" was \"{was}\" and is \"{is}\""
                    ));
                }
            }
            if before.provider != now.provider {
                let (was, is) = (&before.provider, &now.provider);
                changes.push(format!("\"{path}provider\" was {was} and is {is}"));
            }
            if before.choices != now.choices {
                changes.push(format!(
                    "the choices of the model's calls (\"{path}model\" and others) have changed"
                ));
            }
            let added = now.tools.keys().filter(|tool| !before.tools.contains_key(*tool));
            changes.extend(added.map(|tool| format!("\"{path}tools\" has one more: \"{tool}\"")));
        }
        Ok(changes)
    }
}

impl AgentPrint {
    fn new(agent: &AgentSpec, provider: &str) -> AgentPrint {
        let tools = agent.tools.iter().map(|tool| {
            let schema = serde_json::from_str(tool.schema.get()).map(sorted);
            let permission = match agent.policy.verdict(&tool.name) {
                PolicyDecision::Allowed(_) => "allowed",
                PolicyDecision::Ask => "asked about",
                PolicyDecision::Denied(_) => "denied",
            };
            let print = ToolPrint {
                schema: hash(&schema.unwrap_or_default().to_string()),
                permission: permission.to_owned(),
            };
            (tool.name.clone(), print)
        });
        let choices = to_raw_value(&sorted(Value::Object(agent.choices.original().clone())));
        AgentPrint {
            provider: provider.to_owned(),
            system_prompt: agent.system_prompt.as_deref().map(hash),
            choices: choices.map(|choices| hash(choices.get())).unwrap_or_default(),
            tools: tools.collect(),
        }
    }
}

/// Sorts the keys of all objects: an object means the same whatever their order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Object(map) => {
            let entries: BTreeMap<String, Value> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(entries.into_iter().collect())
        }
        other => other,
    }
}

fn hash(text: &str) -> String {
    let bytes = digest(&SHA256, text.as_bytes());
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
