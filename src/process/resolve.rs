//! Finding the file that a program's name stands for, and checking that the file's interpreter is there.
//!
//! In: a name or path, the child's PATH, and the folders that are searched after it ([`SearchFolders`]). Out: the file to execute (on
//! Windows also the script behind an npm shim). Answers are cached by all three and checked again by one `stat` each time they are
//! used; one from outside of the PATH is searched again after a minute, since a newer version has another place.
//!
//! Empty and relative folders of the PATH (`PATH=$PATH:`, `.`, `bin`) are skipped, as Go does since 1.19 (os/exec, `ErrDot`):
//! they depend on the working folder, which others may control. On Windows the working folder is not searched either. The child
//! itself gets its PATH unchanged.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::fault::StartError;
use super::search_folders::{NotTaken, SearchFolders, VersionOf};

/// The file to execute for a program, and how to call it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// The absolute path of the file.
    pub file: PathBuf,
    /// Arguments that come before the caller's: the script behind a Windows shim.
    pub prefix: Vec<OsString>,
    /// The program of the file's `#!` line, if it has one.
    pub interpreter: Option<PathBuf>,
    /// The arguments for calling the interpreter directly. Set where the `#!` line goes through `env`, which would search
    /// folders that are skipped here.
    pub called_with: Option<Vec<OsString>>,
    /// A folder outside of the PATH with the interpreter. It is added at the PATH's end, since a script may start others like it.
    pub also_on_path: Option<PathBuf>,
}

impl Resolved {
    /// A file that is executed as it is.
    fn direct(file: PathBuf) -> Resolved {
        Resolved {
            file,
            prefix: Vec::new(),
            interpreter: None,
            called_with: None,
            also_on_path: None,
        }
    }

    /// The CLI's own file: the script, where a Windows shim's runtime is executed.
    pub fn script(&self) -> &Path {
        self.prefix.last().map_or(&self.file, Path::new)
    }

    /// The file to execute, and the arguments that come before the caller's.
    pub fn command(self) -> (PathBuf, Vec<OsString>) {
        match (self.interpreter, self.called_with) {
            (Some(interpreter), Some(mut args)) => {
                args.push(self.file.into_os_string());
                args.extend(self.prefix);
                (interpreter, args)
            }
            _ => (self.file, self.prefix),
        }
    }

    fn still_there(&self) -> bool {
        self.file.is_file() && self.script().is_file() && self.interpreter.as_ref().is_none_or(|file| file.is_file())
    }
}

/// A question: a program, the PATH, and the folders beside it.
type Question = (OsString, OsString, SearchFolders);

/// An answer, and until when it counts: for ever, if all of it is on the PATH.
type Answer = (Resolved, Option<Instant>);

static CACHE: LazyLock<Mutex<HashMap<Question, Answer>>> = LazyLock::new(Mutex::default);
/// The time for which an answer from outside of the PATH counts.
const OFF_PATH: Duration = Duration::from_secs(60);
/// The largest number of cached answers. A host uses a handful of programs; one that exceeds this makes up names.
const CACHE_LIMIT: usize = 256;
/// The folders that `execvp` searches when there is no PATH (`confstr(_CS_PATH)` of glibc).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Finds the file of `program`: a bare name on `path` (the child's PATH), anything with a separator relative to the
/// host's working folder, whatever the child's will be.
///
/// # Errors
/// [`StartError::NotOnPath`], [`StartError::NotFound`], [`StartError::IsDirectory`], [`StartError::NotExecutable`], and
/// [`StartError::InterpreterNotFound`] for a script whose `#!` line (also `#!/usr/bin/env NAME`) leads nowhere.
pub fn resolve(program: &OsStr, path: Option<&OsStr>) -> Result<Resolved, StartError> {
    resolve_also_in(program, path, &SearchFolders::default(), &|_| None)
}

/// Finds the file of `program` as [`resolve`] does, and where the PATH does not have it, or the interpreter of a script, in the
/// folders of `more`. There, the newest copy by `version_of` is taken.
///
/// # Errors
/// Those of [`resolve`].
pub fn resolve_also_in(
    program: &OsStr,
    path: Option<&OsStr>,
    more: &SearchFolders,
    version_of: VersionOf,
) -> Result<Resolved, StartError> {
    #[cfg(any(test, feature = "test-support"))]
    counted::RESOLVED.set(counted::RESOLVED.get() + 1);
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let program = if is_bare(program) {
        program.to_owned()
    } else {
        absolute(program)?.into_os_string()
    };
    let key = (program, path.to_owned(), more.clone());
    let cached = lock().get(&key).cloned();
    let counts = |(found, until): &Answer| until.is_none_or(|until| Instant::now() < until) && found.still_there();
    if let Some((found, _)) = cached.filter(counts) {
        return Ok(found);
    }
    let (found, is_off_path) = search(&key.0, path, more, version_of)?;
    let mut cache = lock();
    if cache.len() >= CACHE_LIMIT {
        cache.clear();
    }
    let until = is_off_path.then(|| Instant::now() + OFF_PATH);
    cache.insert(key, (found.clone(), until));
    Ok(found)
}

fn lock() -> std::sync::MutexGuard<'static, HashMap<Question, Answer>> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_bare(program: &OsStr) -> bool {
    let mut parts = Path::new(program).components();
    let bare = matches!(parts.next(), Some(std::path::Component::Normal(_))) && parts.next().is_none();
    // "claude/" has one component as well.
    bare && !program
        .as_encoded_bytes()
        .iter()
        .any(|&b| std::path::is_separator(b.into()))
}

fn absolute(program: &OsStr) -> Result<PathBuf, StartError> {
    if program.is_empty() {
        return Err(StartError::InvalidInput {
            what: "the program's name is empty".to_owned(),
        });
    }
    std::path::absolute(program).map_err(|source| StartError::Os {
        file: program.into(),
        source,
    })
}

/// The folders of a PATH: those that are searched, and those that are skipped; and those that are searched after it.
struct Folders<'a> {
    searched: Vec<PathBuf>,
    skipped: Vec<PathBuf>,
    more: &'a SearchFolders,
}

/// An interpreter, and whether the PATH has it.
struct Interpreter {
    file: PathBuf,
    is_on_path: bool,
}

impl Interpreter {
    /// Runs it as the program, with these arguments first.
    fn running(self, prefix: Vec<OsString>) -> Resolved {
        let also_on_path = self.file.parent().filter(|_| !self.is_on_path).map(Path::to_owned);
        Resolved {
            prefix,
            also_on_path,
            ..Resolved::direct(self.file)
        }
    }
}

impl Folders<'_> {
    fn of<'a>(path: &OsStr, more: &'a SearchFolders) -> Folders<'a> {
        // `~/bin`, which bash reads as the home's, is what `which` makes of it, too.
        let has_home = std::env::home_dir().is_some_and(|home| home.is_absolute());
        let is_searched = |folder: &PathBuf| folder.is_absolute() || (has_home && folder.starts_with("~"));
        let (searched, skipped) = std::env::split_paths(path).partition(is_searched);
        Folders {
            searched,
            skipped,
            more,
        }
    }

    /// The file that the bare name `program` stands for.
    fn find(&self, program: &OsStr) -> Option<PathBuf> {
        find_in(program, &self.searched, Path::new("/"))
    }

    /// The interpreter `name` of `script`, from the PATH or from outside of it. A script from outside takes the one beside it first:
    /// managers of Node's versions keep them together.
    fn interpreter(&self, name: &OsStr, script: &Path, is_off_path: bool) -> Option<Interpreter> {
        let not_on_path = |file| Interpreter {
            file,
            is_on_path: false,
        };
        let searches = !self.more.interpreters.is_empty();
        let beside = script.parent().filter(|_| searches).and_then(|folder| {
            let file = find_in(name, &[folder.to_owned()], Path::new("/"))?;
            self.more.trusted(file).map(not_on_path)
        });
        let (first, last) = if is_off_path { (beside, None) } else { (None, beside) };
        let on_path = || {
            let file = self.find(name)?;
            Some(Interpreter { file, is_on_path: true })
        };
        first
            .or_else(on_path)
            .or(last)
            .or_else(|| self.more.interpreter(name).map(not_on_path))
    }

    /// The file that `program` would stand for in a folder that is skipped; errors mention it.
    fn find_skipped(&self, program: &OsStr) -> Option<PathBuf> {
        find_in(program, &self.skipped, &std::env::current_dir().ok()?)
    }
}

fn find_in(program: &OsStr, folders: &[PathBuf], here: &Path) -> Option<PathBuf> {
    if folders.is_empty() {
        return None;
    }
    let whole: Vec<PathBuf> = folders.iter().map(|folder| here.join(folder)).collect();
    // A folder that can't be joined into a PATH came from one and is quoted there (Windows).
    let path = std::env::join_paths(whole).ok()?;
    which::which_in(program, Some(path), here).ok()
}

/// Finds the file of `program` without the cache, and checks its interpreter. Returns as well whether any of it was found outside of
/// the PATH.
fn search(
    program: &OsStr,
    path: &OsStr,
    more: &SearchFolders,
    version_of: VersionOf,
) -> Result<(Resolved, bool), StartError> {
    let folders = Folders::of(path, more);
    let found = match is_bare(program) {
        true => folders.find(program),
        // It is absolute by now. Windows itself does not take a script for a program.
        false if cfg!(windows) && is_script(Path::new(program)) => {
            Some(PathBuf::from(program)).filter(|file| file.is_file())
        }
        false => which::which_in(program, Some(""), "/").ok(),
    };
    let (file, is_off_path) = match found {
        Some(file) => (file, false),
        None if !is_bare(program) => return Err(not_found(program, path, &folders, Vec::new())),
        None => match more.program(program, version_of) {
            Ok(file) => (file, true),
            Err(not_taken) => return Err(not_found(program, path, &folders, not_taken)),
        },
    };
    if cfg!(windows) {
        let found = behind_shim(file, &folders, is_off_path)?;
        let is_off_path = is_off_path || found.also_on_path.is_some();
        return Ok((found, is_off_path));
    }
    let Some(line) = shebang(&head(&file)) else {
        return Ok((Resolved::direct(file), is_off_path));
    };
    let Some(interpreter) = line.locate(&file, &folders, is_off_path) else {
        let interpreter = line.wanted().into();
        return Err(StartError::InterpreterNotFound { file, interpreter });
    };
    let is_looked_up = line.env_name.is_some() && (!folders.skipped.is_empty() || !interpreter.is_on_path);
    // A shell script that a package manager has made starts Node by its name.
    let node = || folders.interpreter(OsStr::new("node"), &file, true);
    let started = match (interpreter.is_on_path, is_off_path) {
        (false, _) => Some(interpreter.file.clone()),
        (true, true) => node().filter(|node| !node.is_on_path).map(|node| node.file),
        (true, false) => None,
    };
    let also_on_path = started.and_then(|file| Some(file.parent()?.to_owned()));
    let is_off_path = is_off_path || also_on_path.is_some();
    let found = Resolved {
        also_on_path,
        interpreter: Some(interpreter.file),
        called_with: is_looked_up.then(|| line.env_args.into_iter().map(OsString::from).collect()),
        ..Resolved::direct(file)
    };
    Ok((found, is_off_path))
}

/// Tells a missing file from a folder and from a file without permission to execute.
fn not_found(program: &OsStr, path: &OsStr, folders: &Folders, not_taken: Vec<NotTaken>) -> StartError {
    if !is_bare(program) {
        let file = PathBuf::from(program);
        return match std::fs::metadata(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => StartError::PermissionDenied { file },
            Err(_) => match super::fault::archive_of(&file) {
                Some(archive) => StartError::InArchive { file, archive },
                None => StartError::NotFound { file },
            },
            Ok(meta) if meta.is_dir() => StartError::IsDirectory { file },
            Ok(_) => StartError::NotExecutable { file },
        };
    }
    let mut candidates = folders.searched.iter().map(|folder| folder.join(program));
    match candidates.find(|file| file.is_file()) {
        Some(file) => StartError::NotExecutable { file },
        None => StartError::NotOnPath {
            program: program.to_owned(),
            path: path.to_owned(),
            skipped: folders.find_skipped(program),
            searched: Box::new(folders.more.searched(not_taken)),
        },
    }
}

/// The first 4 KiB of a file; empty if it can't be read, since executing does not need that permission.
fn head(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(file) {
        // A binary's loader is named in its first page; Linux reads 256 bytes of a `#!` line.
        let read = file.take(4096).read_to_end(&mut bytes);
        if read.is_err() {
            bytes.clear();
        }
    }
    bytes
}

/// A parsed `#!` line: the interpreter, and the program that `env` looks for.
#[derive(Debug, PartialEq, Eq)]
struct Shebang {
    path: String,
    env_name: Option<String>,
    /// The arguments that `env -S` passes before the script.
    env_args: Vec<String>,
}

impl Shebang {
    fn wanted(&self) -> &str {
        match &self.env_name {
            Some(name) if Path::new(&self.path).is_file() => name,
            _ => &self.path,
        }
    }

    /// The interpreter of `script`, which was found on the PATH or not.
    fn locate(&self, script: &Path, folders: &Folders, is_off_path: bool) -> Option<Interpreter> {
        let interpreter = PathBuf::from(&self.path);
        if !interpreter.is_file() {
            return None;
        }
        let by_path = |file| Interpreter { file, is_on_path: true };
        match &self.env_name {
            None => Some(by_path(interpreter)),
            Some(name) if is_bare(OsStr::new(name)) => folders.interpreter(OsStr::new(name), script, is_off_path),
            Some(name) => which::which_in(name, Some(""), std::env::current_dir().ok()?)
                .ok()
                .map(by_path),
        }
    }
}

/// Parses the `#!` line at the beginning of a file.
fn shebang(head: &[u8]) -> Option<Shebang> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|&b| b == b'\n').next()?;
    // Without the end of the line in sight, this is no script that a person wrote.
    let line = std::str::from_utf8(line).ok().filter(|line| line.len() < 255)?;
    let mut parts = line.split_ascii_whitespace();
    let path = parts.next()?.to_owned();
    let (mut env_name, mut env_args) = (None, Vec::new());
    if Path::new(&path).file_name() == Some(OsStr::new("env")) {
        let name = parts
            .next()
            .and_then(|part| if part == "-S" { parts.next() } else { Some(part) });
        // Options and assignments are left to env; only the plain form is looked at.
        env_name = name
            .filter(|name| !name.starts_with('-') && !name.contains('='))
            .map(str::to_owned);
        env_args = parts.map(str::to_owned).collect();
    }
    Some(Shebang {
        path,
        env_name,
        env_args,
    })
}

/// The program that `file` needs in order to run and that is missing: its `#!` program, or a binary's dynamic loader (a glibc
/// binary on a musl system).
#[cfg(unix)]
pub(super) fn missing_interpreter(file: &Path) -> Option<OsString> {
    let head = head(file);
    if let Some(line) = shebang(&head) {
        return (!Path::new(&line.path).is_file()).then(|| line.path.into());
    }
    let elf = head.strip_prefix(b"\x7fELF")?;
    let loader = elf
        .split(|&b| b == 0)
        .filter_map(|text| std::str::from_utf8(text).ok())
        .find(|text| text.starts_with('/') && text.contains("/ld"))?;
    (!Path::new(loader).exists()).then(|| loader.into())
}

/// The program or script behind an npm shim, so that neither `cmd.exe` nor PowerShell is needed.
///
/// A `.ps1` is taken for the `.cmd` that npm writes beside it. A batch file that is no shim is left to the standard library,
/// which runs it with `cmd.exe` and refuses arguments that can't be quoted safely.
fn behind_shim(file: PathBuf, folders: &Folders, is_off_path: bool) -> Result<Resolved, StartError> {
    let extension = file.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    let batch = match extension.as_deref() {
        Some("cmd" | "bat") => file,
        Some("ps1") if file.with_extension("cmd").is_file() => file.with_extension("cmd"),
        Some("ps1") => return Err(StartError::NotExecutable { file }),
        _ if is_script(&file) => return by_node(file, folders, is_off_path),
        _ => return Ok(Resolved::direct(file)),
    };
    let text = std::fs::read_to_string(&batch).unwrap_or_default();
    let (Some(shim), Some(folder)) = (parse_shim(&text), batch.parent()) else {
        return Ok(Resolved::direct(batch));
    };
    let below = |relative: &str| {
        relative
            .split('\\')
            .fold(folder.to_owned(), |path, part| path.join(part))
    };
    let target = below(&shim.target);
    if !target.is_file() {
        return Err(StartError::InterpreterNotFound {
            file: batch,
            interpreter: target.into_os_string(),
        });
    }
    let Some(runtime) = shim.runtime else {
        return Ok(Resolved::direct(target));
    };
    let beside = below(&format!("{runtime}{}", std::env::consts::EXE_SUFFIX));
    let runtime = match beside.is_file() {
        true => Interpreter {
            file: beside,
            is_on_path: true,
        },
        false => folders
            .interpreter(OsStr::new(&runtime), &batch, is_off_path)
            .ok_or_else(|| StartError::InterpreterNotFound {
                file: batch.clone(),
                interpreter: runtime.into(),
            })?,
    };
    let mut prefix: Vec<OsString> = shim.runtime_args.into_iter().map(OsString::from).collect();
    prefix.push(target.into_os_string());
    Ok(runtime.running(prefix))
}

/// Returns whether `file` has the name of a script that Node runs.
fn is_script(file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default();
    ["js", "mjs", "cjs"]
        .iter()
        .any(|script| extension.eq_ignore_ascii_case(script))
}

/// Runs a script with the Node of the PATH: on Windows it has neither a `#!` line that counts nor, here, a shim.
fn by_node(file: PathBuf, folders: &Folders, is_off_path: bool) -> Result<Resolved, StartError> {
    let Some(node) = folders.interpreter(OsStr::new("node"), &file, is_off_path) else {
        let interpreter = "node".into();
        return Err(StartError::InterpreterNotFound { file, interpreter });
    };
    Ok(node.running(vec![file.into_os_string()]))
}

/// A counter for tests of whole calls.
#[cfg(any(test, feature = "test-support"))]
pub mod counted {
    use std::cell::Cell;

    thread_local! {
        /// The number of times a program was searched for.
        pub static RESOLVED: Cell<usize> = const { Cell::new(0) };
    }
}

// Parsing the `.cmd` files that npm, pnpm and yarn put on the PATH on Windows, so that their program runs without a shell.
//
// In: the text of a shim. Out: the program or script behind it. Pure, so it is tested on every platform.
//
// A shim forwards `%*` to a target below its own folder, either a native program or a script for `node`. Running it
// through `cmd.exe` would open it to that shell's quoting rules; the target itself needs none.

/// The command behind a shim, relative to the folder that the shim lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shim {
    /// The program that runs `target`, such as `node`; `None` if `target` is a program itself.
    pub runtime: Option<String>,
    /// Arguments the shim puts between the runtime and the target.
    pub runtime_args: Vec<String>,
    /// The file behind the shim, with `\` between folders.
    pub target: String,
}

/// Reads the shim that [cmd-shim](https://www.npmjs.com/package/cmd-shim) or pnpm's fork of it wrote; `None` for
/// anything else.
fn parse_shim(text: &str) -> Option<Shim> {
    // The last line with %* is the one for "no node.exe beside the shim"; the target is the same in both.
    let line = text.lines().rev().find(|line| line.contains("%*"))?;
    let command = line.split("%*").next()?;
    // npm's line does some housekeeping first: `endLocal & goto … || title %COMSPEC% & "%_prog%" "…"`.
    let command = command.rsplit('&').next()?.trim().trim_start_matches('@');
    let mut arguments = split_arguments(command);
    let target = beside_shim(&arguments.pop()?)?.to_owned();
    if arguments.is_empty() {
        return Some(Shim {
            runtime: None,
            runtime_args: Vec::new(),
            target,
        });
    }
    let first = arguments.remove(0);
    let runtime = match beside_shim(&first) {
        Some(local) => local.trim_end_matches(".exe").to_owned(),
        None if first == "%_prog%" => prog(text)?,
        None => first,
    };
    Some(Shim {
        runtime: Some(runtime),
        runtime_args: arguments,
        target,
    })
}

/// The value that `SET "_prog=node"` sets, in the branch without a folder.
fn prog(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| {
            line.split_once("_prog=")
                .map(|(_, value)| value.trim().trim_end_matches('"'))
        })
        .find(|value| !value.contains('%'))
        .map(str::to_owned)
}

/// The path below the shim's folder, if `word` is one.
fn beside_shim(word: &str) -> Option<&str> {
    ["%~dp0\\", "%dp0%\\", "%~dp0", "%dp0%"]
        .iter()
        .find_map(|prefix| word.strip_prefix(prefix))
}

/// Splits at blanks outside of double quotes and removes the quotes.
fn split_arguments(command: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    arguments.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        arguments.push(word);
    }
    arguments
}

#[cfg(test)]
mod tests;
