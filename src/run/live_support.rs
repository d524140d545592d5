//! Decides whether an installed CLI serves live sessions by looking at its file: nothing is started.
//!
//! In: a file, and the provider's [`EngineCheck`]. Out: a [`LiveSupport`] with its reason. What the file says of itself when it runs
//! (`--version`) is no proof: test doubles say the same.
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

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use dfp_provider::{EngineCheck, Versions};

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
pub fn look(check: &EngineCheck, file: &Path) -> LiveSupport {
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
pub fn version(check: &EngineCheck, file: &Path) -> Option<[u64; 3]> {
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
pub fn parse_version(text: &str) -> Option<[u64; 3]> {
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

#[cfg(test)]
mod tests;
