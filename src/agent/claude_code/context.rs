//! The context of `execute`, checked as far as that is possible without the disk.
//!
//! In: the context's JSON. Out: a [`Context`], and every violation by field.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::config::{self, Config, refusal, unknown};
use dfp_model::error::Problem;
use dfp_provider::options::{self, ENV, TIMEOUT, check};

/// The time limit of a context without `timeout`, ms (the document's DEFAULT_TIMEOUT_MS).
pub const DEFAULT_TIMEOUT_MS: u64 = 300_000;

/// The names of all fields of a context.
const FIELDS: &[&str] = &["workspaceDir", "repoDir", "artifactsDir", "config", "timeout", "env"];

/// A context that breaks no rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// The field `workspaceDir`: the folder in which the CLI works.
    pub workspace: PathBuf,
    /// The field `repoDir`, which is only noted in the log.
    pub repo: Option<PathBuf>,
    /// The field `artifactsDir`: the folder for copies of all output.
    pub artifacts: Option<PathBuf>,
    /// The field `config`.
    pub config: Config,
    /// The field `timeout`; `None` for no limit.
    pub timeout: Option<Duration>,
    /// The field `env`: variables to set, or to remove where the value is `None`.
    pub env: Vec<(String, Option<String>)>,
}

/// Reads a context. Every violation is added to `problems`, and `None` is returned if there is any.
pub fn read(json: &str, problems: &mut Vec<Problem>) -> Option<Context> {
    let before = problems.len();
    let map = match serde_json::from_str(json) {
        Ok(Value::Object(map)) => map,
        Ok(other) => {
            problems.push(problem("context", refusal("an object", &other)));
            return None;
        }
        Err(error) => {
            problems.push(problem("context", format!("can't be read as JSON: {error}")));
            return None;
        }
    };
    for name in map.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        problems.push(unknown(FIELDS, name));
    }
    if !map.contains_key("workspaceDir") {
        problems.push(problem("workspaceDir", "is missing: the folder to work in".to_owned()));
    }
    let workspace = folder(&map, "workspaceDir", problems);
    let repo = folder(&map, "repoDir", problems);
    let artifacts = folder(&map, "artifactsDir", problems);
    for spec in [TIMEOUT, ENV] {
        if let Some(value) = map.get(spec.name)
            && let Err(allowed) = check(&spec, value)
        {
            problems.push(problem(spec.name, refusal(&allowed, value)));
        }
    }
    let config = match map.get("config") {
        Some(Value::Object(config)) => config::read(config, problems),
        Some(other) => {
            problems.push(problem("config", refusal("an object", other)));
            None
        }
        None => {
            problems.push(problem("config", "is missing: what the CLI is to do".to_owned()));
            None
        }
    };
    let context = Context {
        workspace: workspace?,
        repo,
        artifacts,
        config: config?,
        timeout: match options::number(&map, TIMEOUT.name).unwrap_or(DEFAULT_TIMEOUT_MS) {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        },
        env: options::environment(&map, ENV.name),
    };
    (problems.len() == before).then_some(context)
}

/// The absolute path in the field `name`, if the field is there.
fn folder(map: &Map<String, Value>, name: &str, problems: &mut Vec<Problem>) -> Option<PathBuf> {
    let value = map.get(name)?;
    let fits = |text: &&str| !text.contains('\0') && Path::new(text).is_absolute();
    let path = value.as_str().filter(fits).map(PathBuf::from);
    if path.is_none() {
        problems.push(problem(name, refusal("an absolute path", value)));
    }
    path
}

pub(super) fn problem(field: &str, message: String) -> Problem {
    Problem {
        field: field.to_owned(),
        message,
    }
}
