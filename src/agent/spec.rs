//! The specification of a run, as the façade writes it.
//!
//! In: JSON `{"agents": [root, …those a task may be handed to], "messages": […], "builtins": {…}, "handoff": {…}, "record"?: {…}}`. Out: a
//! [`Spec`] with every option checked, or one error that names the field. This is read on Node's thread: schemas are only looked at here
//! ([`Schema::look`]), and compiled once the run has begun ([`Spec::compile`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::conversation::ToolCalls;
use crate::executor::{Builtins, Need, Policy, PolicyDecision, Rules, RunLimits, Target, Tool, ToolKind};
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::ToolSpec;
use dfp_provider::options::{self, Kind, OptionSpec};
use dfp_run::record::RecordOptions;
use dfp_run::request::{ChoicesOnce, SchemaOnce};
use dfp_run::structured;
use dfp_text::schema::Schema;

/// The highest number that an option for a count takes.
const COUNT: u64 = 1_000_000;
/// The longest time that an option takes, ms: 2^31-1, the limit of Node's timers.
const MAX_MS: u64 = 2_147_483_647;
/// The deepest nesting of handoffs that an option takes.
const MAX_DEPTH: u64 = 10;

const fn option(name: &'static str, kind: Kind) -> OptionSpec {
    OptionSpec { name, kind }
}

/// The options of an agent's `limits`.
const LIMITS: &[OptionSpec] = &[
    option("maxSteps", Kind::Whole(1, COUNT)),
    option("maxToolCalls", Kind::Whole(0, COUNT)),
    option("timeoutMs", Kind::Ms(1, MAX_MS)),
    option("maxCostUsd", Kind::Positive),
    option("maxRepeatedCalls", Kind::Whole(1, COUNT)),
];

/// The options of `builtins`.
const BUILTINS: &[OptionSpec] = &[
    option("completionReport", Kind::FlagOr("required")),
    option("plannerOutput", Kind::FlagOr("required")),
    // Agents hold functions, so the façade reads them.
    option("handoff", Kind::Object),
];

/// The options of one agent that say how its provider is called.
const HOW: &[OptionSpec] = &[option("toolCalls", Kind::OneOf(&["auto", "turns", "callbacks"]))];

/// The options of `builtins.handoff`.
const HANDOFF: &[OptionSpec] = &[
    option("agents", Kind::Object),
    option("maxDepth", Kind::Whole(1, MAX_DEPTH)),
];

/// One agent of the run.
#[derive(Debug)]
pub(super) struct AgentSpec {
    /// `None` for the run's own agent.
    pub name: Option<String>,
    pub system_prompt: Option<String>,
    /// The tools with their schemas as they were given, not compiled.
    pub tools: Vec<ToolSpec>,
    pub policy: Policy,
    pub limits: RunLimits,
    /// The host takes the records of its provider, for a logger.
    pub log: bool,
    /// The host observes how its turns end.
    pub observe: bool,
    /// How its provider delivers tool calls.
    pub tool_calls: ToolCalls,
    /// The model choices of its calls (`model`, `reasoning`, …).
    pub choices: ChoicesOnce,
    /// By tool: what a resumed run does about a call of it that had begun and not ended.
    pub on_resume: HashMap<String, OnResume>,
    /// The prefix of its options' names in errors: `builtins.handoff.agents.reviewer.`; empty for the run's own agent.
    pub path: String,
}

/// The action of a resumed run for a call whose tool had begun and not ended: the tool's option `onResume`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnResume {
    /// Runs the tool once more, with the same idempotency key.
    Rerun,
    /// Asks whoever decides about calls.
    Ask,
    /// Tells the model that it is unknown whether the call took effect.
    #[default]
    Fail,
}

/// A run to be made, with every option checked.
#[derive(Debug)]
pub(super) struct Spec {
    /// The run's own agent, followed by those to which it may hand a task.
    pub agents: Vec<AgentSpec>,
    /// The thread as JSON, not read yet: an array of [`dfp_model::message::Message`]s.
    pub messages: Box<RawValue>,
    /// Where and how the run is recorded.
    pub record: Option<RecordOptions>,
    /// The JSON Schema that the answer of the run's own agent has to fit.
    pub output_schema: Option<SchemaOnce>,
    /// The caller's id for the run.
    pub run_id: Option<String>,
    /// The run has a checkpoint: its entries are stored.
    pub checkpoint: bool,
    /// The host wants to know what the run waits for.
    pub heartbeat: bool,
    builtins: Builtins,
    max_depth: u32,
}

/// The JSON of a run, before its options are checked.
#[derive(Deserialize)]
struct SpecJson {
    agents: Vec<AgentJson>,
    messages: Box<RawValue>,
    builtins: Box<RawValue>,
    handoff: Box<RawValue>,
    #[serde(default)]
    record: Option<RecordOptions>,
    #[serde(default, rename = "outputSchema")]
    output_schema: Option<SchemaOnce>,
    #[serde(default, rename = "runId")]
    run_id: Option<String>,
    #[serde(default)]
    checkpoint: bool,
    #[serde(default)]
    heartbeat: bool,
}

/// The JSON of one agent, before its options are checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentJson {
    #[serde(default)]
    name: Option<String>,
    /// The prefix of its options' names in errors, as in [`AgentSpec::path`].
    path: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    system_prompt: Option<String>,
    tools: Vec<ToolSpec>,
    permissions: Policy,
    limits: Box<RawValue>,
    #[serde(default)]
    log: bool,
    #[serde(default)]
    observe: bool,
    /// An object with the options of [`HOW`].
    how: Box<RawValue>,
    #[serde(default)]
    choices: ChoicesOnce,
    #[serde(default)]
    on_resume: HashMap<String, OnResume>,
}

impl Spec {
    /// Reads the run that JavaScript describes in `json`.
    ///
    /// # Errors
    /// `INVALID_OPTION` or `INVALID_TOOL`, naming the field that is wrong. `INTERNAL`: `json` doesn't have the form that the façade writes.
    pub fn parse(json: &str) -> Result<Spec, Box<ProviderError>> {
        let parsed: SpecJson = serde_json::from_str(json).map_err(|error| {
            let reason = format!("the run can't be read: {error}");
            Box::new(ProviderError::new("", Code::Internal, reason))
        })?;
        if let Some(schema) = &parsed.output_schema {
            let refuse = |reason| Box::new(ProviderError::new("", Code::InvalidOption, reason));
            structured::look(schema.original()).map_err(refuse)?;
        }
        let builtins = options::checked_within("", BUILTINS, parsed.builtins.get(), "builtins.")?;
        let handoff = options::checked_within("", HANDOFF, parsed.handoff.get(), "builtins.handoff.")?;
        let targets = parsed.agents.iter().filter_map(|agent| {
            Some(Target {
                name: agent.name.clone()?,
                description: agent.description.clone(),
            })
        });
        let builtins = Builtins {
            report: need(&builtins, "completionReport"),
            plan: need(&builtins, "plannerOutput"),
            targets: targets.collect(),
        };
        let max_depth = options::number(&handoff, "maxDepth").unwrap_or(1);
        let mut spec = Spec {
            agents: Vec::new(),
            messages: parsed.messages,
            record: parsed.record,
            output_schema: parsed.output_schema,
            run_id: parsed.run_id,
            checkpoint: parsed.checkpoint,
            heartbeat: parsed.heartbeat,
            builtins,
            max_depth: u32::try_from(max_depth).unwrap_or(u32::MAX),
        };
        for agent in parsed.agents {
            let path = agent.path.clone();
            let mut agent = AgentSpec::read(agent)?;
            if spec.checkpoint {
                agent.tool_calls = durable(agent.tool_calls, &path)?;
            }
            spec.agents.push(agent);
            // Names are checked against the most built-in tools that the agent may have: the root has all, a child all but those that report.
            let depth = u32::from(spec.agents.len() > 1);
            let names = spec.agents.last().map(|agent| &agent.tools).into_iter().flatten();
            Rules::check_names(names.map(|tool| tool.name.as_str()), &spec.builtins_at(depth))
                .map_err(|(name, reason)| wrong_tool(&path, &name, &reason))?;
        }
        Ok(spec)
    }

    /// The built-in tools that are on, as a text that two attempts can compare.
    pub fn builtins_named(&self) -> String {
        let Builtins { report, plan, targets } = &self.builtins;
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        format!("{report:?} {plan:?} {names:?} {}", self.max_depth)
    }

    /// The built-in tools of an agent at the given depth of handoffs.
    fn builtins_at(&self, depth: u32) -> Builtins {
        Builtins {
            report: if depth == 0 { self.builtins.report } else { Need::Off },
            plan: if depth == 0 { self.builtins.plan } else { Need::Off },
            targets: match depth < self.max_depth {
                true => self.builtins.targets.clone(),
                false => Vec::new(),
            },
        }
    }

    /// The rules of a run of `agent` with its own `tools`, at the given depth of handoffs.
    ///
    /// # Errors
    /// Name and reason of a tool that is wrong. [`Spec::parse`] has refused those, so none is left.
    pub fn rules(
        &self,
        provider: &str,
        agent: &AgentSpec,
        tools: &[Arc<Tool>],
        depth: u32,
    ) -> Result<Rules, (String, String)> {
        Rules::new(
            provider,
            tools,
            &self.builtins_at(depth),
            agent.policy.clone(),
            agent.limits,
        )
    }

    /// Compiles all schemas of the run, so that a wrong one shows before any model is asked.
    ///
    /// # Errors
    /// `INVALID_OPTION` or `INVALID_TOOL`, for the first schema that is none.
    pub async fn compile(&self) -> Result<(), Box<ProviderError>> {
        if let Some(schema) = &self.output_schema {
            let refuse = |reason| Box::new(ProviderError::new("", Code::InvalidOption, reason));
            structured::read(schema.original()).await.map_err(refuse)?;
        }
        for agent in &self.agents {
            agent.compiled_tools().await?;
        }
        Ok(())
    }
}

impl AgentSpec {
    fn read(json: AgentJson) -> Result<AgentSpec, Box<ProviderError>> {
        let limits = limits(json.limits.get(), &format!("{}limits.", json.path))?;
        let how = options::checked_within("", HOW, json.how.get(), &json.path)?;
        for tool in &json.tools {
            Schema::look(tool.schema.get()).map_err(|reason| no_schema(&json.path, &tool.name, &reason))?;
        }
        Ok(AgentSpec {
            name: json.name,
            system_prompt: json.system_prompt,
            tools: json.tools,
            policy: json.permissions,
            limits,
            log: json.log,
            observe: json.observe,
            tool_calls: how
                .get("toolCalls")
                .and_then(Value::as_str)
                .map_or(ToolCalls::Auto, ToolCalls::from_word),
            choices: json.choices,
            on_resume: json.on_resume,
            path: json.path,
        })
    }
}

impl AgentSpec {
    /// The agent's tools, with their schemas compiled.
    ///
    /// # Errors
    /// `INVALID_TOOL`, naming the first tool whose schema is none.
    pub async fn compiled_tools(&self) -> Result<Vec<Arc<Tool>>, Box<ProviderError>> {
        let mut tools = Vec::with_capacity(self.tools.len());
        for spec in &self.tools {
            let schema = structured::compiled(spec.schema.get()).await;
            let schema = schema.map_err(|reason| no_schema(&self.path, &spec.name, &reason))?;
            tools.push(Arc::new(Tool::new(spec.clone(), ToolKind::Caller, schema)));
        }
        Ok(tools)
    }
}

fn no_schema(path: &str, name: &str, reason: &str) -> Box<ProviderError> {
    wrong_tool(path, name, &format!("its schema is not a JSON Schema: {reason}"))
}

/// The delivery of calls in a run with a checkpoint: with the end of a turn. A turn that is interrupted by callbacks can't be resumed, because
/// nothing of it is complete.
fn durable(way: ToolCalls, path: &str) -> Result<ToolCalls, Box<ProviderError>> {
    if way != ToolCalls::Callbacks {
        return Ok(ToolCalls::Turns);
    }
    let reason = format!(
        "option \"{path}toolCalls\" can't be \"callbacks\" with `checkpoint`: calls in the middle of a turn can't be gone on from; \
         leave it out, or use \"turns\""
    );
    Err(Box::new(ProviderError::new("", Code::InvalidOption, reason)))
}

fn wrong_tool(path: &str, name: &str, reason: &str) -> Box<ProviderError> {
    let reason = format!("{path}tools: \"{name}\" can't be bound: {reason}");
    Box::new(ProviderError::new("", Code::InvalidTool, reason))
}

/// Reads the options of `limits`. `path` is the prefix of their names in errors.
fn limits(json: &str, path: &str) -> Result<RunLimits, Box<ProviderError>> {
    let limits = options::checked_within("", LIMITS, json, path)?;
    let count = |name: &str| options::number(&limits, name).and_then(|number| u32::try_from(number).ok());
    Ok(RunLimits {
        max_steps: count("maxSteps").unwrap_or(RunLimits::default().max_steps),
        max_tool_calls: count("maxToolCalls"),
        timeout_ms: options::number(&limits, "timeoutMs"),
        max_cost_usd: limits.get("maxCostUsd").and_then(Value::as_f64),
        max_repeated_calls: count("maxRepeatedCalls"),
    })
}

fn need(options: &Map<String, Value>, name: &str) -> Need {
    match options.get(name) {
        Some(Value::Bool(true)) => Need::Offered,
        Some(Value::String(_)) => Need::Required,
        _ => Need::Off,
    }
}

// The fingerprint of a run's options: everything on which its recorded entries depend.
//
// In: a spec. Out: a [`Fingerprint`], and the differences between two: a reason why the run can't be resumed, or harmless changes to
// report. Texts are kept as hashes only, because a checkpoint need not hold a prompt.

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
