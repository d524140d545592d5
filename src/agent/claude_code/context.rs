//! The context of `execute` and the config of a run in it, and the folders and files of the run, before anything is started.
//!
//! In: the context's JSON. Out: a [`Context`] with its [`Config`], and every violation by field, as far as that is possible without the
//! disk; then the text of the prompt and the artifacts' files, or the problems by field ([`prepare`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use dfp_model::error::{Problem, clip};
use dfp_provider::options::{self, ENV, TIMEOUT, check, describe, nearest};

/// The time limit of a context without `timeout`, ms (the document's DEFAULT_TIMEOUT_MS).
pub const DEFAULT_TIMEOUT_MS: u64 = 300_000;

/// The names of all fields of a context.
const CONTEXT_FIELDS: &[&str] = &["workspaceDir", "repoDir", "artifactsDir", "config", "timeout", "env"];

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
    for name in map.keys().filter(|name| !CONTEXT_FIELDS.contains(&name.as_str())) {
        problems.push(unknown(CONTEXT_FIELDS, name));
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
        Some(Value::Object(config)) => read_config(config, problems),
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

// The config of a run: the fields that CLAUDE-CODE-ADAPTER-DATA-MODEL defines, with the values that the real CLI takes.

/// The longest prompt, characters.
const MAX_PROMPT: usize = 1_000_000;
/// The longest `prompt_file`, characters.
const MAX_PATH: usize = 500;
/// The longest `agent_name`, characters.
const MAX_AGENT: usize = 100;
/// The longest `model`, characters.
const MAX_MODEL: usize = 200;
/// The longest `append_system_prompt`, characters.
const MAX_APPENDED: usize = 10_000;
/// The longest `system_prompt`, characters.
const MAX_SYSTEM: usize = 50_000;
/// The longest rule in `allowed_tools`, characters.
const MAX_TOOL: usize = 1_000;
/// The largest `max_tokens`.
const MAX_TOKENS: u64 = 200_000;

/// The names of all fields, in the document's order.
pub const CONFIG_FIELDS: &[&str] = &[
    "prompt",
    "prompt_file",
    "agent_name",
    "model",
    "append_system_prompt",
    "permission_mode",
    "allowed_tools",
    "system_prompt",
    "max_tokens",
    "temperature",
];

/// The source of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    Text(String),
    /// The path of a file in the workspace.
    File(String),
}

/// The handling of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionMode {
    /// Edits in the workspace, and whatever else the CLI takes for safe there, are allowed without asking.
    Auto,
    /// The CLI makes a plan and changes nothing.
    Plan,
    /// Everything that needs a permission is denied, since nobody is there to give it.
    Ask,
}

impl PermissionMode {
    const ALL: [(&str, PermissionMode); 3] = [
        ("auto", PermissionMode::Auto),
        ("plan", PermissionMode::Plan),
        ("ask", PermissionMode::Ask),
    ];

    /// The CLI's name for the mode, the same in 2.1.197 and 2.1.330. The CLI's own mode `auto` is something else: it lets a second
    /// model decide, and reads outside the workspace.
    pub fn of_cli(self) -> &'static str {
        match self {
            PermissionMode::Auto => "acceptEdits",
            PermissionMode::Plan => "plan",
            PermissionMode::Ask => "default",
        }
    }
}

/// A config that breaks no rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The field `prompt` or `prompt_file`.
    pub prompt: Prompt,
    /// The field `agent_name`.
    pub agent_name: Option<String>,
    /// The field `model`.
    pub model: Option<String>,
    /// The field `append_system_prompt`.
    pub append_system_prompt: Option<String>,
    /// The field `permission_mode`.
    pub permission_mode: Option<PermissionMode>,
    /// The field `allowed_tools`.
    pub allowed_tools: Vec<String>,
    /// The field `system_prompt`.
    pub system_prompt: Option<String>,
    /// The field `max_tokens`.
    pub max_tokens: Option<u64>,
    /// The field `temperature`. No released CLI has a way to set it.
    pub temperature: Option<f64>,
}

/// Reads `config`. Every violation is added to `problems`, and `None` is returned if there is any.
pub fn read_config(config: &Map<String, Value>, problems: &mut Vec<Problem>) -> Option<Config> {
    let before = problems.len();
    let mut fields = Fields { config, problems };
    fields.unknown();
    let prompt = fields.prompt();
    let read = Config {
        agent_name: fields.text("agent_name", AGENT, |text| {
            (1..=MAX_AGENT).contains(&text.chars().count()) && text.chars().all(is_word)
        }),
        model: fields.text("model", MODEL, is_model),
        append_system_prompt: fields
            .text("append_system_prompt", APPENDED, |text| fits(text, MAX_APPENDED))
            .filter(|text| !text.is_empty()),
        permission_mode: fields.permission_mode(),
        allowed_tools: fields.allowed_tools(),
        system_prompt: fields.text("system_prompt", SYSTEM, |text| fits(text, MAX_SYSTEM)),
        max_tokens: fields.number("max_tokens", TOKENS, |number| {
            let whole = number.as_u64().or_else(|| {
                let float = number.as_f64()?;
                (float.fract() == 0.0 && float >= 0.0 && float <= MAX_TOKENS as f64).then_some(float as u64)
            });
            whole.filter(|tokens| (1..=MAX_TOKENS).contains(tokens))
        }),
        temperature: fields.number("temperature", TEMPERATURE, |number| {
            number.as_f64().filter(|degree| (0.0..=1.0).contains(degree))
        }),
        prompt: prompt.unwrap_or_else(|| Prompt::Text(String::new())),
    };
    (problems.len() == before).then_some(read)
}

const AGENT: &str = "a name of 1 to 100 letters, digits, hyphens and underscores";
const MODEL: &str = "a model's name or alias as the CLI takes it, such as \"sonnet\" or \"claude-opus-4-8[1m]\"";
const APPENDED: &str = "a string of at most 10000 characters";
const SYSTEM: &str = "a string of at most 50000 characters";
const TOKENS: &str = "a whole number from 1 to 200000";
const TEMPERATURE: &str = "a number from 0 to 1";
const TOOL: &str =
    "a tool's name, or a name with a rule in brackets, such as \"Read\", \"Bash(git *)\" or \"mcp__files__*\"";
const PROMPT: &str = "a string of 1 to 1000000 characters that is not only white space";
const PATH: &str = "a path of 1 to 500 characters, relative to the workspace, without \"..\"";

/// Reads a config's fields, and collects their violations.
struct Fields<'a> {
    config: &'a Map<String, Value>,
    problems: &'a mut Vec<Problem>,
}

impl Fields<'_> {
    fn wrong(&mut self, field: impl Into<String>, message: String) {
        let field = field.into();
        self.problems.push(Problem { field, message });
    }

    fn unknown(&mut self) {
        for name in self
            .config
            .keys()
            .filter(|name| !CONFIG_FIELDS.contains(&name.as_str()))
        {
            let problem = unknown(CONFIG_FIELDS, name);
            self.problems.push(problem);
        }
    }

    /// The string in the field `name`, if it `fits`.
    fn text(&mut self, name: &str, allowed: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
        let value = self.config.get(name)?;
        match value.as_str().filter(|text| fits(text)) {
            Some(text) => Some(text.to_owned()),
            None => {
                self.wrong(name, refusal(allowed, value));
                None
            }
        }
    }

    fn number<T>(&mut self, name: &str, allowed: &str, read: impl Fn(&serde_json::Number) -> Option<T>) -> Option<T> {
        let value = self.config.get(name)?;
        let found = value.as_number().and_then(read);
        if found.is_none() {
            self.wrong(name, refusal(allowed, value));
        }
        found
    }

    /// The prompt: exactly one of `prompt` and `prompt_file` must be there.
    fn prompt(&mut self) -> Option<Prompt> {
        let text = self.text("prompt", PROMPT, is_prompt);
        let file = self.text("prompt_file", PATH, is_inside);
        match (
            self.config.contains_key("prompt"),
            self.config.contains_key("prompt_file"),
        ) {
            (true, false) => text.map(Prompt::Text),
            (false, true) => file.map(Prompt::File),
            (both, _) => {
                let present = if both { "both" } else { "neither" };
                let message = format!("exactly one of prompt and prompt_file must be given; given: {present}");
                self.wrong("prompt", message);
                None
            }
        }
    }

    fn permission_mode(&mut self) -> Option<PermissionMode> {
        let value = self.config.get("permission_mode")?;
        let known = PermissionMode::ALL
            .iter()
            .find(|(name, _)| value.as_str() == Some(name));
        if known.is_none() {
            self.wrong("permission_mode", refusal("one of \"auto\", \"plan\", \"ask\"", value));
        }
        known.map(|(_, mode)| *mode)
    }

    fn allowed_tools(&mut self) -> Vec<String> {
        let Some(value) = self.config.get("allowed_tools") else {
            return Vec::new();
        };
        let Some(items) = value.as_array() else {
            self.wrong("allowed_tools", refusal("an array of strings", value));
            return Vec::new();
        };
        for (index, item) in items.iter().enumerate() {
            if !item.as_str().is_some_and(is_tool) {
                self.wrong(format!("allowed_tools[{index}]"), refusal(TOOL, item));
            }
        }
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

/// The problem of an unknown field. It suggests the field that was probably meant.
pub fn unknown(names: &[&str], name: &str) -> Problem {
    let message = match nearest(names, name) {
        Some(near) => format!("there is no such field: did you mean \"{near}\"?"),
        None => format!("there is no such field; allowed: {}", names.join(", ")),
    };
    Problem {
        field: clip(name, 60),
        message,
    }
}

/// Says what is allowed and what was given. Of a long text only the length is given, because it may be anything.
pub fn refusal(allowed: &str, value: &Value) -> String {
    let shown = match value.as_str().map(|text| text.chars().count()) {
        Some(length) if length > 80 => format!("a string of {length} characters"),
        _ => describe(value),
    };
    format!("must be {allowed}; given: {shown}")
}

fn fits(text: &str, limit: usize) -> bool {
    // A character has at least one byte, so a text with few bytes need not be counted.
    text.len() <= limit || text.chars().count() <= limit
}

/// `true` if a text can be a prompt. claude refuses a prompt of white space (CLI-FACTS 1.2).
fn is_prompt(text: &str) -> bool {
    !text.trim().is_empty() && fits(text, MAX_PROMPT)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// `true` for a model's name: `sonnet`, `claude-opus-4-8[1m]`, `us.anthropic.claude-sonnet-4-5-v1:0`, `arn:aws:bedrock:…/…`,
/// `claude-x@20250101`.
fn is_model(text: &str) -> bool {
    let name = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some((name, window)) if !window.is_empty() && window.chars().all(|c| c.is_ascii_alphanumeric()) => name,
        Some(_) => return false,
        None => text,
    };
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && chars.all(|c| is_word(c) || matches!(c, '.' | ':' | '/' | '@'))
        && text.chars().count() <= MAX_MODEL
}

/// `true` for the rule of a tool: `Read`, `mcp__files__*`, `Bash(git *)`. The text in the brackets is left to the CLI to judge.
fn is_tool(text: &str) -> bool {
    let name = match text.split_once('(') {
        Some((name, rule)) => match rule.strip_suffix(')') {
            Some(rule) if !rule.trim().is_empty() && !rule.chars().any(char::is_control) => name,
            _ => return false,
        },
        None => text,
    };
    let name = name.strip_suffix('*').unwrap_or(name);
    name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && name.chars().all(is_word)
        && text.chars().count() <= MAX_TOOL
}

/// `true` for a relative path that doesn't lead out of its folder. Both separators count on every system, because the config may be
/// used on another one.
fn is_inside(path: &str) -> bool {
    let drive = path.as_bytes().get(1) == Some(&b':');
    !path.is_empty()
        && fits(path, MAX_PATH)
        && !path.contains('\0')
        && !path.starts_with(['/', '\\'])
        && !drive
        && path.split(['/', '\\']).all(|part| part != "..")
}

/// The name of the artifact with all of standard output.
pub const STDOUT: &str = "stdout.log";
/// The name of the artifact with all of standard error.
pub const STDERR: &str = "stderr.log";
/// The name of the artifact with the `ProviderEvent`s, one per line.
pub const EVENTS: &str = "events.jsonl";
/// The name of the normalised log (the document's name for it).
pub const LOG: &str = "youbencha-log.json";

/// The prepared prompt and artifacts.
#[derive(Debug)]
pub struct PreparedWorkspace {
    pub prompt: String,
    pub artifacts: Option<Artifacts>,
}

/// Files for copies of all output, readable only for the user.
#[derive(Debug)]
pub struct Artifacts {
    pub folder: PathBuf,
    /// The file [`STDOUT`].
    pub stdout: File,
    /// The file [`STDERR`].
    pub stderr: File,
    /// The file [`EVENTS`].
    pub events: File,
}

/// Checks the folders and reads the prompt. Problems are added to `problems`; the artifacts' files are made only if there are none.
pub fn prepare(context: &Context, problems: &mut Vec<Problem>) -> Option<PreparedWorkspace> {
    let before = problems.len();
    if let Err(why) = check_folder(&context.workspace) {
        problems.push(problem("workspaceDir", why));
    }
    if let Some(Err(why)) = context.repo.as_deref().map(check_folder) {
        problems.push(problem("repoDir", why));
    }
    let broken = problems.len() > before;
    let prompt = match &context.config.prompt {
        Prompt::Text(text) => Some(text.clone()),
        Prompt::File(_) if broken => None,
        Prompt::File(path) => match read_prompt(&context.workspace, path) {
            Ok(text) => Some(text),
            Err(why) => {
                problems.push(problem("prompt_file", why));
                None
            }
        },
    };
    if problems.len() > before {
        return None;
    }
    let artifacts = match context.artifacts.as_deref().map(Artifacts::create).transpose() {
        Ok(artifacts) => artifacts,
        Err(error) => {
            problems.push(problem("artifactsDir", format!("can't be written to: {error}")));
            return None;
        }
    };
    Some(PreparedWorkspace {
        prompt: prompt?,
        artifacts,
    })
}

/// Checks that `path` is a folder that can be read. The error is a reason for people.
fn check_folder(path: &Path) -> Result<(), String> {
    let meta = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("can't be looked at: {error}"),
    })?;
    if !meta.is_dir() {
        return Err("is not a folder".to_owned());
    }
    // `read_dir` needs the right to list the folder, `metadata` of `.` the right to enter it.
    let usable = fs::read_dir(path).and_then(|_| fs::metadata(path.join(".")));
    usable.map(|_| ()).map_err(|error| format!("can't be read: {error}"))
}

/// The text of a file in the workspace. The error is a reason for people.
fn read_prompt(workspace: &Path, path: &str) -> Result<String, String> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("must name a file of the workspace; there is no \"{path}\""),
        _ => format!("can't be read: {error}"),
    };
    let root = fs::canonicalize(workspace).map_err(unreadable)?;
    let file = fs::canonicalize(root.join(path)).map_err(unreadable)?;
    if !file.starts_with(&root) {
        return Err(format!(
            "must stay in the workspace; \"{path}\" is a link that leads out of it"
        ));
    }
    // Checked before the file is opened: opening a named pipe would wait for a writer.
    let meta = fs::metadata(&file).map_err(unreadable)?;
    if !meta.is_file() {
        return Err(format!("must be a regular file; \"{path}\" is none"));
    }
    let too_long = || format!("must hold at most {MAX_PROMPT} characters; \"{path}\" holds more");
    // A character has at most four bytes.
    let limit = 4 * MAX_PROMPT as u64;
    let mut bytes = Vec::new();
    let opened = File::open(&file).map_err(unreadable)?;
    opened.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(too_long());
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("must be UTF-8 text; \"{path}\" is not"))?;
    match is_prompt(&text) {
        true => Ok(text),
        false if text.trim().is_empty() => Err(format!("must hold a prompt; \"{path}\" is empty")),
        false => Err(too_long()),
    }
}

impl Artifacts {
    /// Makes the folder (mode 0700) and the files of the artifacts.
    fn create(folder: &Path) -> io::Result<Artifacts> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        Ok(Artifacts {
            stdout: private(&folder.join(STDOUT))?,
            stderr: private(&folder.join(STDERR))?,
            events: private(&folder.join(EVENTS))?,
            folder: folder.to_owned(),
        })
    }
}

/// Creates a file of mode 0600, in place of whatever has this name. A link of that name is replaced, not followed.
pub fn private(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
