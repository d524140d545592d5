//! A ready codex server: it has answered, its version supports its sessions, and the user's configuration is known. And the parts with
//! which it is started: its program, its home, and its model catalog.
//!
//! In: a command line of `app-server` and the vendor's catalog. Out: a [`CodexService`], or the reason why there is none.
//!
//! In: the file that a command line would execute. Out: the file of the program itself ([`direct_program`]): npm's `codex` is a script
//! that starts another program and waits for it. The program is found in the same way as by that script. A server lives long: without the
//! script in between there is one process instead of two, whose memory is codex's own, and which is gone when it is killed.
//!
//! In: a command line. Out: the command line with `CODEX_HOME` in its private folder (`prepare_home`), with links to the user's login and
//! configuration, and nothing else of theirs. AGENTS.md, skills, hooks, memories and prompts of the user's home are not there, and files
//! that codex writes are removed with the folder; a token that it renews is written through the link (CODEX-LIVE §3.2).
//!
//! In: the vendor's catalog (`codex debug models --bundled`) and the models that may be asked. Out: the JSON of `model_catalog_json`
//! ([`catalog`]). Without it most models get our tools only through a JavaScript tool of codex's, results are cut to 12 or 48 KB, and a
//! long history is replaced by a summary, all without notice (CODEX-LIVE pitfalls 1 and 2).

use std::collections::HashMap;
use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::inbound::CodexProtocol;
use super::settings::UserConfig;
use super::wire::{ConfigRead, Initialize, Interrupt, ThreadDelete, ThreadList, Unsubscribe};
use crate::host::{Heartbeat, Host, Patience};
use crate::print::{self, NotStarted, Surroundings};
use crate::rpc::{Answering, RpcHost};
use dfp_provider::PrivateHome;
use dfp_provider::command::{Arg, CommandLine, Cwd, EnvText, PrivateFile};
use dfp_provider::models::ListedModel;

/// The time that a server may take to answer: a tenth of a second on an idle machine.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// The time for which a server that has served may leave a request unanswered that needs neither network nor model:
/// `thread/start` takes 10 to 17 ms (0.169.0). No load of the machine makes that a hundred times longer.
const PATIENCE: Patience = Patience {
    first: HANDSHAKE,
    later: Duration::from_secs(10),
};
/// The first version that reports the end of a response (CODEX-LIVE §8).
const OLDEST: (u32, u32) = (0, 150);
/// The first version of which it is known that a resumed thread asks for the same bytes, and how the end of a response is found.
const OLDEST_RESUMING: (u32, u32) = (0, 169);
/// The first version that sends the tier [`FLEX`] for every model: 0.150.0 does not.
const OLDEST_FLEX: (u32, u32) = (0, 169);
const FLEX: &str = "flex";

/// The parts with which a server is started.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The command line of `codex app-server` with the settings of a process.
    pub line: &'a CommandLine,
    /// The vendor's model catalog; null if it is not available: models get entries of our own then.
    pub vendor: &'a Value,
    /// The models that calls have chosen.
    pub models: Vec<&'a str>,
    /// True if the user's configuration may name the model.
    pub asks_config: bool,
    /// The parts of the vendor's catalog that stay as they are.
    pub keep: Keep,
    /// True if the user's configuration applies.
    pub with_config: bool,
}

/// A server that is ready.
#[derive(Debug)]
pub struct CodexService {
    pub server: Arc<RpcHost<CodexProtocol>>,
    /// The user's configuration.
    pub config: UserConfig,
    /// codex's version, if it tells one.
    pub version: Option<String>,
    /// The empty folder of its threads.
    pub folder: String,
    /// True if its home is a private one, which it shares with this process.
    has_own_home: bool,
    /// The models in its catalog: for others it would hide tools, cut results and shorten threads (CODEX-LIVE pitfalls 1 and 2).
    models: Vec<String>,
    /// The levels of reasoning that they have by themselves, as far as that is known.
    efforts: HashMap<String, String>,
    /// The service tiers of all its models, once a call has chosen one; `None` if it does not tell.
    tiers: OnceCell<Option<HashMap<String, Vec<String>>>>,
    /// True if it has not written of a resumed thread what is needed here.
    writes_too_little: AtomicBool,
    /// The settings that it does not take.
    refused: Mutex<Vec<String>>,
}

impl CodexService {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn start(
        plan: &Plan<'_>,
        surroundings: impl Fn() -> Surroundings,
        cancel: &CancellationToken,
    ) -> Result<CodexService, NotStarted> {
        let mut home = Home::Links;
        let mut models: Vec<String> = plan.models.iter().map(|model| (*model).to_owned()).collect();
        loop {
            let names: Vec<&str> = models.iter().map(String::as_str).collect();
            let catalog = catalog(plan.vendor, &names, plan.keep);
            let surroundings = surroundings();
            let mut line = plan.line.clone();
            prepare_home(&mut line, home, plan.with_config, &catalog);
            let mut service = RpcHost::ready(line, surroundings, PATIENCE, cancel, CodexService::handshake).await?;
            // Only now the parts are known with which it should have been started.
            let listed = slugs(&catalog);
            let unlisted = service.config.model.as_deref().filter(|_| plan.asks_config);
            let unlisted = unlisted.filter(|model| !listed.contains(model));
            match (unlisted, home) {
                (_, Home::Links) if service.config.keyring && plan.with_config => home = Home::Users,
                (Some(model), _) => models.push(model.to_owned()),
                _ => {
                    service.has_own_home = home == Home::Links && plan.line.launch.is_none();
                    let effort = |model: &&str| {
                        let effort = default_effort(&catalog, model)?;
                        Some(((*model).to_owned(), effort.to_owned()))
                    };
                    service.efforts = listed.iter().filter_map(effort).collect();
                    service.models = listed.into_iter().map(str::to_owned).collect();
                    return Ok(service);
                }
            }
        }
    }

    /// Makes the handshake, checks codex's version, and reads the user's configuration.
    async fn handshake(server: RpcHost<CodexProtocol>) -> Result<CodexService, NotStarted> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct InitializeAnswer {
            #[serde(default)]
            user_agent: String,
        }
        let initialize = Initialize::default();
        let answer = server.shake("initialize", &initialize, NotStarted::Refused).await?;
        let agent = serde_json::from_str::<InitializeAnswer>(answer.get()).map(|answer| answer.user_agent);
        let version = agent.ok().as_deref().and_then(version_of).map(str::to_owned);
        if let Some(version) = &version
            && numbers(version).is_some_and(|numbers| numbers < OLDEST)
        {
            let (major, minor) = OLDEST;
            let reason = format!("codex {version} does not tell where a response ends; {major}.{minor}.0 does");
            return Err(NotStarted::Unsupported(reason));
        }
        server.notify::<()>("initialized", None);
        let folder = server.folder();
        let read = ConfigRead { cwd: &folder };
        let config = server.shake("config/read", &read, NotStarted::Refused).await?;
        let config = UserConfig::read(config.get());
        Ok(CodexService {
            server: Arc::new(server),
            config,
            version,
            folder,
            has_own_home: false,
            models: Vec::new(),
            efforts: HashMap::new(),
            tiers: OnceCell::new(),
            writes_too_little: AtomicBool::new(false),
            refused: Mutex::default(),
        })
    }

    /// The host of the process.
    pub fn host(&self) -> &Host {
        self.server.host()
    }

    /// Interrupts the turn `turn` of the thread `thread`.
    pub fn interrupt(&self, thread: &str, turn: &str) -> Answering {
        let interrupt = Interrupt {
            thread_id: thread,
            turn_id: turn,
        };
        self.server.post("turn/interrupt", &interrupt)
    }

    /// Makes the server forget the thread `thread`.
    pub fn unsubscribe(&self, thread: &str) {
        drop(
            self.server
                .post("thread/unsubscribe", &Unsubscribe { thread_id: thread }),
        );
    }

    /// Makes the server forget the thread `thread`, which was resumed, and remove what it has stored of it.
    pub fn delete(&self, thread: &str) -> Answering {
        self.server.post("thread/delete", &ThreadDelete { thread_id: thread })
    }

    /// The private folder of a server that resumes threads as if it had always had them: one of a version of which that is known, and
    /// whose home is a private one that it shares with this process. A newer version may write other lines than those that are known:
    /// once that was [seen](CodexService::resumes_no_more), it resumes none.
    pub fn resumes(&self) -> Option<&Path> {
        let version = self.version.as_deref().and_then(numbers);
        let writes_enough = !self.writes_too_little.load(Ordering::Relaxed);
        let folder = self
            .server
            .private_folder()
            .filter(|_| self.has_own_home && writes_enough);
        folder.filter(|_| version >= Some(OLDEST_RESUMING))
    }

    /// Notes that it has not written of a resumed thread what is needed here.
    pub fn resumes_no_more(&self) {
        self.writes_too_little.store(true, Ordering::Relaxed);
    }

    /// Checks that the server answers: it is asked for the list of its threads.
    pub fn heartbeat(&self) -> Heartbeat {
        self.server.heartbeat("thread/loaded/list", &ThreadList {})
    }

    /// Returns whether threads of `model` can be opened; `None` is the model of the user's configuration.
    pub fn serves(&self, model: Option<&str>) -> bool {
        model.is_none_or(|model| self.models.iter().any(|known| known == model))
    }

    /// The level of reasoning of `model` where nothing is chosen, if that is known: the one of the user's configuration, or its own.
    pub fn default_effort(&self, model: &str) -> Option<&str> {
        let users = self.config.effort.as_deref();
        users.or_else(|| self.efforts.get(model).map(String::as_str))
    }

    /// Asks once which service tiers its models have: 2 ms (0.169.0).
    pub async fn learn_tiers(&self) {
        let ask = async || {
            let models = super::list(self, true).await.ok()?;
            let tiers = |model: ListedModel| Some((model.id, model.service_tiers?));
            Some(models.into_iter().filter_map(tiers).collect())
        };
        self.tiers.get_or_init(ask).await;
    }

    /// The service tiers that it sends to the API for `model`, beside those of no choice; `None` if it has not told them.
    pub fn tiers(&self, model: &str) -> Option<Vec<&str>> {
        let version = self.version.as_deref().and_then(numbers);
        let flex = (version >= Some(OLDEST_FLEX)).then_some(FLEX);
        let own = self.tiers.get()?.as_ref()?.get(model)?;
        Some(own.iter().map(String::as_str).chain(flex).collect())
    }

    /// The models in its catalog.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(String::as_str)
    }

    /// The settings of a thread that it has refused.
    pub fn refused_settings(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that it does not take the setting `name`.
    pub fn remember_refused(&self, name: String) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }
}

/// The vendor's model catalog, from the binary that `line` starts; null if it is not available.
pub async fn vendors_catalog(line: &CommandLine, surroundings: Surroundings, cancel: &CancellationToken) -> Value {
    let mut line = line.clone();
    line.args = ["debug", "models", "--bundled"]
        .map(|word| Arg::Text(word.to_owned()))
        .to_vec();
    with_empty_home(&mut line);
    match print::output(line, surroundings, cancel).await {
        Ok(output) if output.exit.success() => serde_json::from_slice(&output.stdout).unwrap_or_default(),
        _ => Value::Null,
    }
}

/// The version in the user agent: `0.169.0` in `deep_factor_providers/0.169.0 (Debian 12.0.0; x86_64) …`.
fn version_of(agent: &str) -> Option<&str> {
    agent
        .split_once('/')?
        .1
        .split([' ', '('])
        .next()
        .filter(|version| !version.is_empty())
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A limit for results that none ever reaches, in bytes.
const NO_TRUNCATION: u64 = 1_000_000_000;
/// A limit for threads that none ever reaches, in tokens: the API itself refuses a thread that is too long.
const NO_COMPACTION: u64 = 100_000_000;

/// The fields of entries that make codex offer tools of its own, hide ours, or send instructions of its own.
const DROPPED: [&str; 9] = [
    "tool_mode",
    "apply_patch_tool_type",
    "multi_agent_version",
    "multi_agent_reasoning_effort",
    "auto_compact_token_limit",
    "availability_nux",
    "upgrade",
    "description",
    "model_messages",
];

/// The names of the models in `catalog`.
fn slugs(catalog: &Value) -> Vec<&str> {
    let models = catalog.get("models").and_then(Value::as_array);
    let slugs = models
        .into_iter()
        .flatten()
        .filter_map(|model| model.get("slug")?.as_str());
    slugs.collect()
}

/// The level of reasoning that `model` has by itself, by `catalog`.
fn default_effort<'c>(catalog: &'c Value, model: &str) -> Option<&'c str> {
    let models = catalog.get("models").and_then(Value::as_array)?;
    let entry = models.iter().find(|entry| entry["slug"] == model)?;
    entry["default_reasoning_level"].as_str()
}

/// The parts of the vendor's entries that stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// True if codex's own instructions stay.
    pub instructions: bool,
    /// True if the way stays in which models are offered tools: then ours are a namespace, which is never hidden.
    pub tool_mode: bool,
}

/// Makes the catalog for `models`, beside all models that `vendor` has.
pub fn catalog(vendor: &Value, models: &[&str], keep: Keep) -> Value {
    let known: Vec<&Value> = vendor
        .get("models")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let slug = |model: &Value| model.get("slug").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut entries: Vec<Value> = known.iter().map(|model| adapted(model, keep)).collect();
    for name in models {
        if entries.iter().any(|entry| slug(entry) == *name) {
            continue;
        }
        // The same rule as codex's: `gpt-5.5-2026-04-01` is a `gpt-5.5`.
        let similar = known
            .iter()
            .filter(|model| name.starts_with(&slug(model)) && !slug(model).is_empty());
        let mut entry = match similar.max_by_key(|model| slug(model).len()) {
            Some(similar) => adapted(similar, keep),
            None => unknown(),
        };
        entry["slug"] = json!(name);
        entry["display_name"] = json!(name);
        entries.push(entry);
    }
    json!({"models": entries})
}

/// The vendor's entry with our changes.
fn adapted(model: &Value, keep: Keep) -> Value {
    let fields = model.as_object().cloned().unwrap_or_default();
    let keeps = |name: &str| match name {
        "model_messages" => keep.instructions,
        "tool_mode" => keep.tool_mode,
        name => !DROPPED.contains(&name),
    };
    let mut entry: Map<String, Value> = fields.into_iter().filter(|(name, _)| keeps(name)).collect();
    let changes = json!({
        "shell_type": "disabled",
        "experimental_supported_tools": [],
        "supports_search_tool": false,
        "include_skills_usage_instructions": false,
        "include_plugin_usage_instructions": false,
        "include_apps_usage_instructions": false,
        "truncation_policy": {"mode": "bytes", "limit": NO_TRUNCATION},
        "context_window": NO_COMPACTION,
        "max_context_window": NO_COMPACTION,
    });
    let changes = changes.as_object().cloned().unwrap_or_default();
    entry.extend(changes);
    if !keep.instructions {
        entry.insert("base_instructions".to_owned(), json!(""));
    }
    Value::Object(entry)
}

/// The entry of a model that the vendor does not know: with codex's defaults, but without the cuts.
fn unknown() -> Value {
    adapted(
        &json!({
            "supported_reasoning_levels": [],
            "visibility": "list",
            "supported_in_api": true,
            "priority": 99,
            "support_verbosity": false,
            "supports_reasoning_summaries": false,
            "input_modalities": ["text", "image"],
            "base_instructions": "",
        }),
        Keep::default(),
    )
}

/// The home's folder within the private one.
pub const FOLDER: &str = "codex-home";
/// A home with nothing in it.
const EMPTY: PrivateHome = PrivateHome {
    when: &[&[]],
    variable: "CODEX_HOME",
    folder: FOLDER,
    users: ".codex",
    by_system: true,
    login: &[],
    rest: &[],
    named: None,
    hides_folder: false,
};
/// The variable of the folder of codex's databases.
const DATABASES: &str = "CODEX_SQLITE_HOME";
/// The file of the catalog.
const CATALOG: &str = "catalog.json";

/// The kind of home that codex gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    /// A private home with links.
    Links,
    /// The user's own home, but for databases and logs: the key ring finds the login by its path. Its AGENTS.md is sent.
    Users,
}

/// Gives `line` this home and this catalog. `with_config`: the user's configuration applies.
fn prepare_home(line: &mut CommandLine, home: Home, with_config: bool, catalog: &Value) {
    // No project may be found.
    line.cwd = Cwd::Private;
    line.files.push(PrivateFile {
        name: CATALOG,
        content: catalog.to_string(),
    });
    line.args.push(Arg::Text("-c".to_owned()));
    line.args.push(Arg::FileSetting("model_catalog_json", CATALOG));
    // codex keeps the text of threads that it resumes in its databases: they go to the private folder, wherever the user has theirs. So do
    // logs.
    line.user_env.retain(|(name, _)| name != DATABASES);
    line.set_env.push((DATABASES, EnvText::Folder(FOLDER)));
    for setting in ["sqlite_home", "log_dir"] {
        line.args.push(Arg::Text("-c".to_owned()));
        line.args.push(Arg::FileSetting(setting, FOLDER));
    }
    match home {
        Home::Links => {
            line.home = Some(PrivateHome {
                login: &["auth.json"],
                rest: if with_config { &["config.toml", ".env"] } else { &[] },
                ..EMPTY
            });
        }
        Home::Users => {}
    }
}

/// Gives `line` an empty home, for a question about codex alone.
fn with_empty_home(line: &mut CommandLine) {
    line.cwd = Cwd::Private;
    line.home = Some(EMPTY);
}

/// Replaces the script in `line`, which executes `file`, by the program itself.
pub fn direct_program(line: CommandLine, file: &Path) -> CommandLine {
    match program(file) {
        Some(program) => CommandLine {
            program: program.to_string_lossy().into_owned(),
            ..line
        },
        None => line,
    }
}

/// The program behind `file`, if that is npm's script (`@openai/codex` 0.150.0 and 0.169.0).
fn program(file: &Path) -> Option<PathBuf> {
    let script = std::fs::canonicalize(file).ok()?;
    let package = script.parent()?.parent()?;
    if !script.ends_with("@openai/codex/bin/codex.js") {
        return None;
    }
    let (platform, triple) = target()?;
    let beside = package.parent()?.join(platform);
    let within = package.join("node_modules/@openai").join(platform);
    let name = if cfg!(windows) { "codex.exe" } else { "codex" };
    let of_package = |folder: PathBuf| folder.join("vendor").join(triple).join("bin").join(name);
    [within, beside, package.to_owned()]
        .into_iter()
        .map(of_package)
        .find(|program| program.is_file())
}

/// The package of this platform, and the name of the folder in it.
fn target() -> Option<(&'static str, &'static str)> {
    Some(match (OS, ARCH) {
        ("linux" | "android", "x86_64") => ("codex-linux-x64", "x86_64-unknown-linux-musl"),
        ("linux" | "android", "aarch64") => ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
        ("macos", "x86_64") => ("codex-darwin-x64", "x86_64-apple-darwin"),
        ("macos", "aarch64") => ("codex-darwin-arm64", "aarch64-apple-darwin"),
        ("windows", "x86_64") => ("codex-win32-x64", "x86_64-pc-windows-msvc"),
        ("windows", "aarch64") => ("codex-win32-arm64", "aarch64-pc-windows-msvc"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_user_agent() {
        let agent = "dfp/0.169.0 (Debian 12.0.0; x86_64) unknown (dfp; 0.1)";
        assert_eq!(version_of(agent), Some("0.169.0"));
        assert_eq!(version_of("dfp/0.170.0-alpha.3 (x)").and_then(numbers), Some((0, 170)));
        assert_eq!(version_of("dfp"), None);
        assert!(numbers("0.149.9") < Some(OLDEST) && numbers("1.0.0") > Some(OLDEST));
        assert_eq!(numbers("next"), None);
    }

    /// An entry of 0.169.0 (`codex debug models --bundled`), shortened.
    fn vendor() -> Value {
        json!({"models": [{
            "slug": "gpt-6-luna", "display_name": "GPT-6-Luna", "description": "d", "default_reasoning_level": "medium",
            "supported_reasoning_levels": [{"effort": "low", "description": "l"}], "shell_type": "unified_exec",
            "visibility": "list", "supported_in_api": true, "priority": 1, "model_messages": {"persistent_instructions": "p"},
            "include_skills_usage_instructions": true, "support_verbosity": true, "apply_patch_tool_type": "freeform",
            "truncation_policy": {"mode": "tokens", "limit": 10000}, "context_window": 372000, "max_context_window": 372000,
            "experimental_supported_tools": ["clock"], "use_responses_lite": true, "tool_mode": "code_mode_only",
            "multi_agent_version": "v2", "base_instructions": "You are Codex", "some_new_word": 1,
        }]})
    }

    #[test]
    fn the_vendors_entry_offers_our_tools_only_and_cuts_nothing() {
        assert_eq!(
            catalog(&vendor(), &["gpt-6-luna"], Keep::default()),
            json!({"models": [{
                "slug": "gpt-6-luna", "display_name": "GPT-6-Luna", "default_reasoning_level": "medium",
                "supported_reasoning_levels": [{"effort": "low", "description": "l"}], "shell_type": "disabled",
                "visibility": "list", "supported_in_api": true, "priority": 1,
                "include_skills_usage_instructions": false, "support_verbosity": true,
                "truncation_policy": {"mode": "bytes", "limit": 1_000_000_000}, "context_window": 100_000_000,
                "max_context_window": 100_000_000, "experimental_supported_tools": [], "use_responses_lite": true,
                "base_instructions": "", "some_new_word": 1, "supports_search_tool": false,
                "include_plugin_usage_instructions": false, "include_apps_usage_instructions": false,
            }]})
        );
    }

    #[test]
    fn models_that_are_not_in_it_get_an_entry() {
        let made = catalog(&vendor(), &["gpt-6-luna-2026", "mine"], Keep::default());
        assert_eq!(slugs(&made), ["gpt-6-luna", "gpt-6-luna-2026", "mine"]);
        assert_eq!(made["models"][1]["use_responses_lite"], json!(true));
        assert_eq!(made["models"][2].get("use_responses_lite"), None);
        assert_eq!(slugs(&catalog(&Value::Null, &["mine"], Keep::default())), ["mine"]);
    }

    #[test]
    fn codexs_own_instructions_stay_where_they_are_wanted() {
        let keep = Keep {
            instructions: true,
            tool_mode: true,
        };
        let made = catalog(&vendor(), &[], keep);
        assert_eq!(made["models"][0]["tool_mode"], json!("code_mode_only"));
        assert_eq!(made["models"][0]["base_instructions"], json!("You are Codex"));
        assert_eq!(
            made["models"][0]["model_messages"],
            json!({"persistent_instructions": "p"})
        );
    }

    fn put(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn the_program_is_found_beside_the_package_or_in_it() {
        let Some((platform, triple)) = target() else { return };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let script = root.join("node_modules/@openai/codex/bin/codex.js");
        put(&script);
        assert_eq!(program(&script), None);
        let name = if cfg!(windows) { "codex.exe" } else { "codex" };
        for place in [
            root.join("node_modules/@openai"),
            root.join("node_modules/@openai/codex/node_modules/@openai"),
        ] {
            let binary = place.join(platform).join("vendor").join(triple).join("bin").join(name);
            put(&binary);
            assert_eq!(program(&script), Some(binary));
        }
        let other = root.join("codex.js");
        put(&other);
        assert_eq!(program(&other), None);
        assert_eq!(program(&root.join("nowhere")), None);
    }
}
