//! What a run is to be, as the façade writes it down.
//!
//! In: JSON `{"agents": [root, …those a task may be handed to], "messages": […], "builtins": {…}, "handoff": {…},
//! "record"?: {…}}`. Out: a [`Spec`], every option checked, or one error that names the field. This is read on Node's thread: schemas are
//! looked at here ([`Schema::look`]), and compiled when the run has begun ([`Spec::compiled`]).

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::conversation::ToolCalls;
use crate::error::{Code, ProviderError};
use crate::executor::builtin::{Need, Target};
use crate::executor::policy::Policy;
use crate::executor::rules::{Builtins, Rules, RunLimits};
use crate::executor::tool::{Kind as ToolKind, Tool};
use crate::message::ToolSpec;
use crate::provider::options::{self, Kind, OptionSpec};
use crate::run::record::RecordOptions;
use crate::run::request::{ChoicesOnce, SchemaOnce};
use crate::run::{schemas, structured};
use crate::schema::Schema;

/// The most that a count may be.
const COUNT: u64 = 1_000_000;
/// 2^31-1 ms, as everywhere.
const MAX_MS: u64 = 2_147_483_647;
/// How deep handoffs may nest at most.
const MAX_DEPTH: u64 = 10;

const fn option(name: &'static str, kind: Kind) -> OptionSpec {
    OptionSpec { name, kind }
}

const LIMITS: &[OptionSpec] = &[
    option("maxSteps", Kind::Whole(1, COUNT)),
    option("maxToolCalls", Kind::Whole(0, COUNT)),
    option("timeoutMs", Kind::Ms(1, MAX_MS)),
    option("maxCostUsd", Kind::Positive),
    option("maxRepeatedCalls", Kind::Whole(1, COUNT)),
];

const BUILTINS: &[OptionSpec] = &[
    option("completionReport", Kind::FlagOr("required")),
    option("plannerOutput", Kind::FlagOr("required")),
    // Its agents hold functions: the façade reads them.
    option("handoff", Kind::Object),
];

/// Of one agent.
const HOW: &[OptionSpec] = &[option("toolCalls", Kind::OneOf(&["auto", "turns", "callbacks"]))];

const HANDOFF: &[OptionSpec] = &[
    option("agents", Kind::Object),
    option("maxDepth", Kind::Whole(1, MAX_DEPTH)),
];

/// One agent.
#[derive(Debug)]
pub(super) struct AgentSpec {
    /// `None` for the run's own.
    pub name: Option<String>,
    pub system_prompt: Option<String>,
    /// With their schemas as they were given.
    pub tools: Vec<ToolSpec>,
    pub policy: Policy,
    pub limits: RunLimits,
    /// Somebody takes its provider's records.
    pub log: bool,
    /// Somebody takes what its turns come to.
    pub observe: bool,
    /// How its provider's calls come.
    pub tool_calls: ToolCalls,
    /// What its provider's calls choose (`model`, `reasoning`, …).
    pub choices: ChoicesOnce,
    /// What becomes of a tool that had begun and not ended when the run was interrupted.
    pub on_resume: HashMap<String, OnResume>,
    /// What its options are called in errors: `builtins.handoff.agents.reviewer.`; empty for the run's own.
    pub path: String,
}

/// What becomes of a call whose tool had begun and not ended: the tool's `onResume`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnResume {
    /// It runs once more, with the same idempotency key.
    Rerun,
    /// Whoever decides about calls is asked.
    Ask,
    /// The model learns that nobody knows whether it happened.
    #[default]
    Fail,
}

/// What is to be run.
#[derive(Debug)]
pub(super) struct Spec {
    /// The run's own agent, then those that a task may be handed to.
    pub agents: Vec<AgentSpec>,
    /// The thread, not read yet: an array of [`crate::message::Message`]s.
    pub messages: Box<RawValue>,
    /// Where it is recorded.
    pub record: Option<RecordOptions>,
    /// The JSON Schema that the answer of the run's own agent has to fit.
    pub output_schema: Option<SchemaOnce>,
    /// What the caller calls the run.
    pub run_id: Option<String>,
    /// What happens in it is kept.
    pub checkpoint: bool,
    /// Somebody wants to know what it waits for.
    pub heartbeat: bool,
    builtins: Builtins,
    max_depth: u32,
}

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentJson {
    #[serde(default)]
    name: Option<String>,
    /// What its options are called in errors: `builtins.handoff.agents.reviewer.`; empty for the run's own.
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
    /// `{"toolCalls"?}`
    how: Box<RawValue>,
    #[serde(default)]
    choices: ChoicesOnce,
    #[serde(default)]
    on_resume: HashMap<String, OnResume>,
}

impl Spec {
    /// The run that JavaScript describes in `json`.
    ///
    /// # Errors
    /// Of the field that is not what it has to be.
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
            // As with the most built-in tools that it may have; the root's are a child's, too, but for those it reports with.
            let depth = u32::from(spec.agents.len() > 1);
            let names = spec.agents.last().map(|agent| &agent.tools).into_iter().flatten();
            Rules::check_names(names.map(|tool| tool.name.as_str()), &spec.builtins_at(depth))
                .map_err(|(name, reason)| wrong_tool(&path, &name, &reason))?;
        }
        Ok(spec)
    }

    /// Which built-in tools are on, for whoever compares.
    pub fn builtins_named(&self) -> String {
        let Builtins { report, plan, targets } = &self.builtins;
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        format!("{report:?} {plan:?} {names:?} {}", self.max_depth)
    }

    /// Which built-in tools an agent has, so many handoffs deep.
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

    /// The rules of a run of `agent` with `tools`, which are its own, so many handoffs deep.
    ///
    /// # Errors
    /// None but those that [`Spec::parse`] has found.
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

    /// Compiles all schemas of the run, so that what is wrong with one shows before anything is asked.
    ///
    /// # Errors
    /// `INVALID_OPTION` or `INVALID_TOOL`: the first that is none.
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
    /// Its tools, with their schemas compiled.
    ///
    /// # Errors
    /// `INVALID_TOOL`, naming the first whose schema is none.
    pub async fn compiled_tools(&self) -> Result<Vec<Arc<Tool>>, Box<ProviderError>> {
        let mut tools = Vec::with_capacity(self.tools.len());
        for spec in &self.tools {
            let schema = schemas::compiled(spec.schema.get()).await;
            let schema = schema.map_err(|reason| no_schema(&self.path, &spec.name, &reason))?;
            tools.push(Arc::new(Tool::new(spec.clone(), ToolKind::Caller, schema)));
        }
        Ok(tools)
    }
}

fn no_schema(path: &str, name: &str, reason: &str) -> Box<ProviderError> {
    wrong_tool(path, name, &format!("its schema is not a JSON Schema: {reason}"))
}

/// Which way calls come where a run is to survive: with the end of a turn. In the middle of one nothing of it is over.
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
