//! The known facts of an installed CLI: whether it serves live sessions, and the flags, schemas and fields that it has refused.
//!
//! In: a file, and the provider's [`EngineCheck`]; and what calls have seen of the CLI. Out: a [`LiveSupport`] with its reason, before
//! anything is started. Observed behaviour is remembered for [minutes](MEMORY), and what the file says as long as the process lives. What
//! the file says of itself when it runs (`--version`) is no proof: test doubles say the same.
//!
//! | the file | is |
//! | --- | --- |
//! | stands in the vendor's npm package, of a version that serves sessions | served |
//! | is named by such a version in an installer's folder | served |
//! | stands in the package of a vendor whose CLI can be asked, of a version that was not measured | unknown: tried |
//! | is a script that starts the CLI with its own arguments, or a program that is called as the CLI | unknown: tried by a handshake |
//! | is anything else, an older version included | not served |
//!
//! A shell's launcher hands all its arguments on to a program that it names (`exec
//! "$HOME/.claude/local/node_modules/.bin/claude" "$@"`). A test double reads or prints them instead, and must not be started more often
//! than it expects, so a script that can't be recognised as a launcher counts as a double.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

use dfp_exchange::installed::Binary;
use dfp_model::event::EngineUsed;
use dfp_provider::{EngineCheck, Versions};

/// The time for which a binary's observed behaviour is remembered. The cause may have been the machine, or something behind a
/// launcher, which is replaced while the launcher stays.
pub const MEMORY: Duration = Duration::from_secs(10 * 60);

/// The observed support of an engine, and since when it is known.
#[derive(Debug)]
struct Remembered(LiveSupport, Instant);

impl Remembered {
    /// The support, unless it was observed too long before `now`.
    fn at(&self, now: Instant) -> Option<&LiveSupport> {
        is_known(self.1, now).then_some(&self.0)
    }
}

/// Returns whether a fact found out at `since` still counts at `now`.
fn is_known(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < MEMORY
}

/// The known facts of one binary.
#[derive(Debug, Default)]
struct Facts {
    /// The flags that it has refused, and when.
    refused_flags: HashMap<String, Instant>,
    /// The schemas that it has refused, by the hashes of their texts: when, and why.
    refused_schemas: HashMap<u64, (Instant, String)>,
    /// The refusals of the API behind it, and when.
    of_api: HashMap<ApiRefusal, Instant>,
    /// The support of each engine, as far as it was observed.
    engines: HashMap<EngineUsed, Remembered>,
    /// The engines that have given a reply.
    replied: HashSet<EngineUsed>,
    /// Its version, which is looked for once; `Some(None)` if none was found.
    version: Option<Option<[u64; 3]>>,
    /// The number of new facts learned so far.
    news: Arc<AtomicU64>,
    /// The lock that is held while the binary is tried.
    trial: Arc<tokio::sync::Mutex<()>>,
}

static FACTS: LazyLock<Mutex<HashMap<Binary, Facts>>> = LazyLock::new(Mutex::default);

/// The number of binaries, each with its surroundings, whose facts are kept before all are forgotten: environments that change from
/// call to call must not fill the memory.
const MOST_KNOWN: usize = 4096;

fn facts() -> MutexGuard<'static, HashMap<Binary, Facts>> {
    let mut facts = FACTS.lock().unwrap_or_else(PoisonError::into_inner);
    if facts.len() > MOST_KNOWN {
        for known in facts.values() {
            known.news.fetch_add(1, Ordering::Release);
        }
        facts.clear();
    }
    facts
}

/// The number of new facts learned about `binary`: whoever keeps older facts looks again when it has grown.
pub fn news(binary: &Binary) -> Arc<AtomicU64> {
    Arc::clone(&facts().entry(binary.clone()).or_default().news)
}

/// The flags that `binary` has refused so far.
pub fn refused_by(binary: &Binary) -> BTreeSet<String> {
    refused_at(binary, Instant::now())
}

fn refused_at(binary: &Binary, now: Instant) -> BTreeSet<String> {
    let facts = facts();
    let flags = facts.get(binary).into_iter().flat_map(|facts| &facts.refused_flags);
    let known = flags.filter(|(_, since)| is_known(**since, now));
    known.map(|(flag, _)| flag.clone()).collect()
}

/// Remembers that `binary` has refused `flag`.
pub fn remember_refused(binary: &Binary, flag: &str) {
    let mut facts = facts();
    let of_binary = facts.entry(binary.clone()).or_default();
    of_binary.refused_flags.insert(flag.to_owned(), Instant::now());
    of_binary.news.fetch_add(1, Ordering::Release);
}

/// The number of refused schemas that are remembered for one binary. A caller with more of them has its schema sent natively once
/// more.
const MAX_SCHEMAS: usize = 256;

/// The reason for which `binary` has refused `schema`, if it has.
pub fn schema_refusal(binary: &Binary, schema: &str) -> Option<String> {
    let facts = facts();
    let (since, reason) = facts.get(binary)?.refused_schemas.get(&hash_of(schema))?;
    is_known(*since, Instant::now()).then(|| reason.clone())
}

/// Remembers that `binary` has refused `schema`, for this reason. That says nothing about other schemas.
pub fn remember_refused_schema(binary: &Binary, schema: &str, reason: &str) {
    let now = Instant::now();
    let mut facts = facts();
    let refused = &mut facts.entry(binary.clone()).or_default().refused_schemas;
    if refused.len() >= MAX_SCHEMAS {
        refused.retain(|_, (since, _)| is_known(*since, now));
    }
    if refused.len() < MAX_SCHEMAS {
        refused.insert(hash_of(schema), (now, reason.to_owned()));
    }
}

/// A refusal of the API behind a binary, for one model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ApiRefusal {
    /// The API does not take this field of a request.
    OfField(String, &'static str),
    /// The API does not take this value of the field: a hash of its text.
    OfValue(String, &'static str, u64),
    /// A refusal that names no field is no field's fault: the call was refused without the fields, too.
    Unrelated(String),
}

impl ApiRefusal {
    /// The refusal of `value` in `field` for `model`.
    pub fn of_value(model: &str, field: &'static str, value: &str) -> ApiRefusal {
        ApiRefusal::OfValue(model.to_owned(), field, hash_of(value))
    }
}

/// The number of refusals of an API that are remembered for one binary. Beyond it, calls are refused once more before they are made in
/// the other way.
const MAX_API_REFUSALS: usize = 256;

/// Returns whether `refusal` is known of the API behind `binary`.
pub fn is_of_api(binary: &Binary, refusal: &ApiRefusal) -> bool {
    let facts = facts();
    let since = facts.get(binary).and_then(|facts| facts.of_api.get(refusal));
    since.is_some_and(|since| is_known(*since, Instant::now()))
}

/// Remembers `refusal` of the API behind `binary`.
pub fn remember_of_api(binary: &Binary, refusal: ApiRefusal) {
    let now = Instant::now();
    let mut facts = facts();
    let of_api = &mut facts.entry(binary.clone()).or_default().of_api;
    if of_api.len() >= MAX_API_REFUSALS {
        of_api.retain(|_, since| is_known(*since, now));
    }
    if of_api.len() < MAX_API_REFUSALS {
        of_api.insert(refusal, now);
    }
}

fn hash_of(schema: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    schema.hash(&mut hasher);
    hasher.finish()
}

/// The version of `binary`, by its file; `None` if that does not tell it.
pub fn version(check: &EngineCheck, binary: &Binary) -> Option<[u64; 3]> {
    if let Some(known) = facts().get(binary).and_then(|facts| facts.version) {
        return known;
    }
    // Behind a launcher, the version is known when the CLI has told it.
    if binary.launcher().is_some() {
        return None;
    }
    let found = version_in_file(check, binary.file());
    facts().entry(binary.clone()).or_default().version = Some(found);
    found
}

/// Remembers the version that a CLI behind a launcher has told.
pub fn remember_version(binary: &Binary, version: &str) {
    if binary.launcher().is_some()
        && let Some(version) = parse_version(version)
    {
        facts().entry(binary.clone()).or_default().version = Some(Some(version));
    }
}

/// Returns whether `binary` serves `engine`, by its file or its observed behaviour.
pub fn support(engine: EngineUsed, check: &EngineCheck, binary: &Binary) -> LiveSupport {
    if let Some(known) = known(engine, binary) {
        return known;
    }
    let found = match binary.launcher() {
        Some(launcher) => LiveSupport::Unknown(format!("it is started by {launcher}: a handshake tells")),
        None => look(check, binary.file()),
    };
    // Another call may have tried the binary meanwhile.
    known(engine, binary).unwrap_or_else(|| {
        // Every look at this file has this result, so it is no new fact.
        note(engine, binary, found.clone());
        found
    })
}

/// Remembers whether `binary` has turned out to serve `engine`.
pub fn remember(engine: EngineUsed, binary: &Binary, support: LiveSupport) {
    note(engine, binary, support);
    news(binary).fetch_add(1, Ordering::Release);
}

fn note(engine: EngineUsed, binary: &Binary, support: LiveSupport) {
    facts()
        .entry(binary.clone())
        .or_default()
        .engines
        .insert(engine, Remembered(support, Instant::now()));
}

/// Remembers that `binary` has turned out not to serve `engine`, for this reason.
pub fn remember_unserved(engine: EngineUsed, binary: &Binary, reason: impl Into<String>) {
    remember(engine, binary, LiveSupport::unserved(Basis::Trial, reason));
}

/// Remembers that `binary` was refused before any model was asked, for this reason. A binary that has given replies by `engine`
/// serves it, whatever was wrong this time.
pub fn remember_not_begun(engine: EngineUsed, binary: &Binary, reason: impl Into<String>) {
    let has_replied = facts().get(binary).is_some_and(|facts| facts.replied.contains(&engine));
    if !has_replied {
        remember_unserved(engine, binary, reason);
    }
}

/// Remembers that `binary` has given a reply by `engine`.
pub fn remember_reply(engine: EngineUsed, binary: &Binary) {
    facts().entry(binary.clone()).or_default().replied.insert(engine);
}

/// Remembers that `binary`, whose file did not tell, has turned out to serve `engine`, for this reason.
pub fn settle(engine: EngineUsed, binary: &Binary, why: String) {
    if !matches!(known(engine, binary), Some(LiveSupport::Served(_))) {
        remember(engine, binary, LiveSupport::Served(why));
    }
}

/// The remembered support of `engine` by `binary`, if there is any.
fn known(engine: EngineUsed, binary: &Binary) -> Option<LiveSupport> {
    let facts = facts();
    facts.get(binary)?.engines.get(&engine)?.at(Instant::now()).cloned()
}

/// The lock to hold while `binary` is tried, so that it is tried only once.
pub fn trial_of(binary: &Binary) -> Arc<tokio::sync::Mutex<()>> {
    Arc::clone(&facts().entry(binary.clone()).or_default().trial)
}

/// The part of a script that is read, bytes: a launcher has a few lines.
const SCRIPT_BYTES: u64 = 64 * 1024;
/// The number of folders above a program in which its package.json is looked for: `bin/claude.exe`, `cli.js`,
/// `vendor/x64/bin/codex`.
const MANIFEST_LEVELS: usize = 4;
/// The most that is read of a package.json, bytes: it has a few kilobytes.
const MANIFEST_BYTES: u64 = 256 * 1024;

/// The support of live sessions by a file, with the reason for the finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveSupport {
    Served(String),
    /// The file may serve them: only a handshake tells.
    Unknown(String),
    /// The file does not serve them, or nothing says that it does.
    Unserved(Unserved),
}

/// The finding that a file serves no live sessions, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    pub why: String,
    /// The source of the finding.
    pub basis: Basis,
}

/// The source of the finding that a file serves no live sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The provider has no such form, or the environment forbids it.
    Setting,
    /// The file is the CLI, of a version that does not serve them.
    Version,
    /// Nothing says that the file is the CLI.
    Program,
    /// The file was tried, a short while ago.
    Trial,
}

impl LiveSupport {
    /// Creates the finding that a file serves no live sessions, known by `basis`.
    pub fn unserved(basis: Basis, why: impl Into<String>) -> LiveSupport {
        LiveSupport::Unserved(Unserved { why: why.into(), basis })
    }
}

/// The number of scripts that may hand on their arguments to the next before the CLI comes.
const MOST_SCRIPTS: usize = 4;

/// Finds out whether `file` serves live sessions.
fn look(check: &EngineCheck, file: &Path) -> LiveSupport {
    look_behind(check, file, MOST_SCRIPTS)
}

/// Does the work of [`look`], through at most `scripts` scripts that hand their arguments on.
fn look_behind(check: &EngineCheck, file: &Path, scripts: usize) -> LiveSupport {
    // A shim on the PATH is a link to the real program.
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Some((name, version)) = manifest(check, &real) {
        return support_of(check, &name, &version, "its package.json");
    }
    let Some(head) = head(&real) else {
        return LiveSupport::unserved(Basis::Program, "it can't be read");
    };
    let program = check.program;
    if let Some(text) = script_text(&head) {
        for target in targets(text, file, scripts) {
            match look_behind(check, &target, scripts - 1) {
                LiveSupport::Unserved(Unserved {
                    basis: Basis::Program, ..
                }) => {}
                found => return found,
            }
        }
        return match starts(program, text) {
            true => LiveSupport::Unknown(format!("it is a script that starts {program}: a handshake tells")),
            false => LiveSupport::unserved(Basis::Program, format!("it is a script that does not start {program}")),
        };
    }
    if let Some(version) = version_of_path(check, &real) {
        return support_of(check, program, &version, "its path");
    }
    let is_called = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        name.contains(program)
    };
    if is_called(file) || is_called(&real) {
        return LiveSupport::Unknown(format!(
            "it is called {program}, and neither a package.json nor its path names its version: a handshake tells"
        ));
    }
    LiveSupport::unserved(Basis::Program, format!("nothing says that it is {program}"))
}

/// The version of the vendor's npm package that contains `file`, or that an installer's folder names; `None` if there is neither.
pub fn version_in_file(check: &EngineCheck, file: &Path) -> Option<[u64; 3]> {
    version_behind(check, file, MOST_SCRIPTS)
}

fn version_behind(check: &EngineCheck, file: &Path, scripts: usize) -> Option<[u64; 3]> {
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Some((_, version)) = manifest(check, &real) {
        return parse_version(&version);
    }
    if let Some(version) = version_of_path(check, &real) {
        return parse_version(&version);
    }
    let head = head(&real)?;
    let mut targets = targets(script_text(&head)?, file, scripts).into_iter();
    targets.find_map(|target| version_behind(check, &target, scripts - 1))
}

/// The files to which the script `text`, which is `file`, hands its arguments; none if it is the last script that is looked at.
fn targets(text: &str, file: &Path, scripts: usize) -> Vec<PathBuf> {
    match file.parent() {
        Some(folder) if scripts > 0 => handed_to(text, folder),
        _ => Vec::new(),
    }
}

fn support_of(check: &EngineCheck, name: &str, version: &str, source: &str) -> LiveSupport {
    match by_version(check, name, version, source) {
        Ok(why) => LiveSupport::Served(why),
        Err(_) if matches!(check.versions, Versions::Probed(_)) => LiveSupport::Unknown(format!(
            "it is {name} {version}, says {source}: it is asked what it does when it runs"
        )),
        Err(why) => LiveSupport::unserved(Basis::Version, why),
    }
}

/// The finding by `version` of the program `name`, as `source` tells it.
///
/// # Errors
/// The reason for which it does not serve them.
pub fn by_version(check: &EngineCheck, name: &str, version: &str, source: &str) -> Result<String, String> {
    if parse_version(version).is_some_and(|found| check.versions.contains(found)) {
        return Ok(format!("it is {name} {version}, says {source}"));
    }
    let wanted = match check.versions {
        Versions::Since(oldest) => format!("{} is the oldest that serves sessions", text(oldest)),
        Versions::Measured(all) | Versions::Probed(all) => {
            let all: Vec<String> = all.iter().copied().map(text).collect();
            format!("what it serves was measured with {}", all.join(", "))
        }
    };
    Err(format!("it is {name} {version}, says {source}: {wanted}"))
}

/// Returns whether `version`, as the CLI itself reports it, is too old.
pub fn is_too_old(check: &EngineCheck, version: &str) -> bool {
    parse_version(version).is_some_and(|found| !check.versions.contains(found))
}

fn text([major, minor, patch]: [u64; 3]) -> String {
    format!("{major}.{minor}.{patch}")
}

/// Parses `2.1.330`, also with something behind a `-` or `+`.
fn parse_version(text: &str) -> Option<[u64; 3]> {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let numbers: Option<Vec<u64>> = core.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// The name and version of the vendor's package that contains `file`.
fn manifest(check: &EngineCheck, file: &Path) -> Option<(String, String)> {
    #[derive(Deserialize)]
    struct Manifest {
        name: String,
        version: String,
    }
    let folders = file.ancestors().skip(1).take(MANIFEST_LEVELS);
    let found = folders
        .map(|folder| folder.join("package.json"))
        .find(|path| path.is_file())?;
    let mut text = String::new();
    let opened = File::open(found).ok()?;
    opened.take(MANIFEST_BYTES).read_to_string(&mut text).ok()?;
    let Manifest { name, version } = serde_json::from_str(&text).ok()?;
    let rest = name.strip_prefix(check.package)?;
    (rest.is_empty() || rest.starts_with('-')).then_some((name, version))
}

/// The version in the name of the folder or the file under which an installer has put `file`.
fn version_of_path(check: &EngineCheck, file: &Path) -> Option<String> {
    let names: Vec<&str> = file
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    // The file itself, or the folder it stands in.
    let candidates = (names.len().saturating_sub(2)..names.len()).rev();
    let version = |at: usize| {
        let (before, name) = (&names[..at], names[at]);
        let version = name
            .strip_prefix(check.program)
            .and_then(|rest| rest.strip_prefix('-'))
            .unwrap_or(name);
        let is_installers = check.version_folders.iter().any(|folders| before.ends_with(folders));
        (is_installers && parse_version(version).is_some()).then(|| version.to_owned())
    };
    candidates.filter_map(version).next()
}

fn head(file: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let opened = File::open(PathBuf::from(file)).ok()?;
    opened.take(SCRIPT_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

/// The text of a file that begins with `head`, if it is a script.
fn script_text(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head was cut in the middle of a character.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

/// The spellings of "all arguments" in the shells' and Windows' command language.
const ALL_ARGUMENTS: [&str; 6] = ["\"$@\"", "$@", "${@}", "\"$*\"", "$*", "%*"];
/// Returns whether the script `text` starts `program` with its own arguments.
fn starts(program: &str, text: &str) -> bool {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    lines
        .filter(|line| !is_comment(line))
        .any(|line| is_launch(program, line))
}

fn is_comment(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["#", "rem ", "::", "@rem "].iter().any(|mark| line.starts_with(mark))
}

/// Returns whether a line of a shell's script names `program` and hands all arguments on behind it.
fn is_launch(program: &str, line: &str) -> bool {
    launched(line).any(|word| names(program, word))
}

/// The words of a line before all the arguments that it hands on; none if it hands on none.
fn launched(line: &str) -> impl DoubleEndedIterator<Item = &str> {
    let at = ALL_ARGUMENTS.iter().filter_map(|all| line.find(all)).min();
    let command = at.map_or("", |at| &line[..at]);
    // Only the command that has the arguments counts: `claude --version; echo "$@"` is no launch.
    let command = command.rsplit([';', '|', '&', '(', '`']).next().unwrap_or_default();
    let first = command.split_whitespace().next();
    // A text that is printed is not started.
    let is_printed = matches!(first, Some("echo" | "printf" | "set" | "for" | "case" | "test" | "["));
    let command = if is_printed { "" } else { command };
    command.split_whitespace().map(|word| word.trim_matches(['"', '\'']))
}

/// The files to which the script `text` in `folder` hands all its arguments, the last first: as pnpm writes launchers, `exec node
/// "$basedir/../@openai/codex/bin/codex.js" "$@"`.
fn handed_to(text: &str, folder: &Path) -> Vec<PathBuf> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !is_comment(line));
    let words = lines.flat_map(|line| launched(line).rev().map(str::to_owned).collect::<Vec<_>>());
    let files = words.filter_map(|word| {
        let beside = BASE_FOLDERS.iter().find_map(|base| word.strip_prefix(base));
        match beside {
            Some(below) => Some(folder.join(below.trim_start_matches('/'))),
            None => Some(PathBuf::from(&word)).filter(|file| file.is_absolute()),
        }
    });
    files.filter(|file| file.is_file()).collect()
}

/// The names that launchers of npm and pnpm have for the folder that they are in.
const BASE_FOLDERS: [&str; 2] = ["$basedir/", "${basedir}/"];

/// Returns whether `word` is the program, a path to it, its npm package, or a variable named after it.
fn names(program: &str, word: &str) -> bool {
    if let Some(variable) = word.strip_prefix('$') {
        let variable = variable.trim_matches(['{', '}']);
        let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name(variable) {
            return variable.to_lowercase().contains(program);
        }
    }
    let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.strip_prefix('.').unwrap_or(name);
    // `.claude-wrapped` (Nix), `claude.exe`, `@anthropic-ai/claude-code@latest`.
    let rest = name
        .strip_prefix(program)
        .map(|rest| rest.split('@').next().unwrap_or_default());
    matches!(
        rest,
        Some("" | ".exe" | ".cmd" | "-code" | "-wrapped" | "-real" | "-original")
    )
}
