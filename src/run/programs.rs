//! The program that the calls of a provider start, the engines it serves, and its command lines: found out once, not for each call.
//!
//! In: a provider, its options, the environment of a call. Out: a [`Program`]. A call that may continue a resting session uses the
//! [known](Programs::known) one: nothing is searched, looked at or built for it. A call that starts a process, or opens a session
//! in one that runs, [looks](Programs::look): the file is found on the PATH, or in the places of installers, and examined, and the command lines are built again
//! only if the file has changed, or has refused something new. So the next start notices an update, a removed file and another
//! PATH.
//!
//! The folders outside of the PATH in which a CLI is searched, and the Node of a script, come from [`search_folders`]: of the user's files
//! only `.npmrc` is read for them, for npm's prefix.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::capabilities::{self, Basis, LiveSupport};
use dfp_exchange::form::ProcessOptions;
use dfp_exchange::installed::{Binary, Installed};
use dfp_exchange::print;
use dfp_model::error::ProviderError;
use dfp_model::event::EngineUsed;
use dfp_process::{SearchFolders, StartError, Vars};
use dfp_provider::Provider;
use dfp_provider::command::{self, CommandLine, Cwd, Mode};
use dfp_provider::installed::{self, Place, Root};
use dfp_provider::options::Options;

/// The number of environments for which a provider remembers its program: a host has one, as a rule.
const MOST_ENVIRONMENTS: usize = 8;

/// The number of command lines that are kept for a program: they differ by system prompt (qwen) and by model.
const MOST_LINES: usize = 16;

/// The programs of one provider, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Programs(Mutex<Vec<Arc<Program>>>);

/// A program, as it was when it was last looked at.
#[derive(Debug)]
pub(super) struct Program {
    env: Arc<Vars>,
    search: Arc<Search>,
    binary: Binary,
    known: command::Installed,
    live: OnceLock<LiveSupport>,
    warm: OnceLock<LiveSupport>,
    lines: Arc<Lines>,
    /// The counter of new facts about the program, and its value when the program was looked at.
    news: Arc<AtomicU64>,
    heard: u64,
    looked: Instant,
}

/// The inputs of the search for a program in an environment, and the variables set there.
#[derive(Debug)]
struct Search {
    /// The name of the program, or of its launcher.
    name: String,
    launcher: Option<String>,
    path: Option<OsString>,
    /// The folders that are searched after the PATH.
    more: SearchFolders,
    /// The variables that forbid an engine.
    forbids: Vec<(EngineUsed, &'static str)>,
    /// A digest of the environment and options with which its processes run.
    surroundings: u64,
}

/// The way in which a process for calls is started.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LineKey {
    engine: EngineUsed,
    process: ProcessOptions,
}

/// The command lines of one program, the oldest first.
type Lines = Mutex<Vec<(LineKey, Arc<Installed>)>>;

/// The reason for which there is no program.
#[derive(Debug)]
pub(super) enum NotFound {
    /// The options can't be handed to the program.
    Refused(Box<ProviderError>),
    /// There is no program on the PATH, or none that can be executed.
    Start(StartError),
}

impl Programs {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Program>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, env: &Arc<Vars>) -> Option<Arc<Program>> {
        let all = self.lock();
        let found = all
            .iter()
            .rfind(|known| Arc::ptr_eq(&known.env, env) || known.env == *env);
        found.cloned()
    }

    /// The program of calls with this environment, as it was at the last look; `None` if that was minutes ago, or new facts of the
    /// program were learned since.
    pub fn known(&self, env: &Arc<Vars>) -> Option<Arc<Program>> {
        self.of(env).filter(|known| {
            known.news.load(Ordering::Acquire) == known.heard && known.looked.elapsed() < capabilities::MEMORY
        })
    }

    /// The program of calls with this environment, looked for now.
    ///
    /// # Errors
    /// [`NotFound`].
    pub fn look(&self, provider: &Provider, options: &Options, env: &Arc<Vars>) -> Result<Arc<Program>, NotFound> {
        let before = self.of(env);
        let looked = Instant::now();
        let search = match &before {
            Some(before) => Arc::clone(&before.search),
            None => Arc::new(Search::of(provider, options, env).map_err(NotFound::Refused)?),
        };
        let version_of = |file: &Path| {
            let check = provider.checks.live.or(provider.checks.warm);
            let of_package = check.and_then(|check| capabilities::version_in_file(&check, file));
            of_package.or_else(|| dfp_process::version_of_path(file))
        };
        let name = OsStr::new(&search.name);
        let found = dfp_process::resolve_also_in(name, search.path.as_deref(), &search.more, &version_of)
            .map_err(NotFound::Start)?;
        let args = provider.custom.as_ref().map_or(&[][..], |own| &own.default_args);
        let binary = Binary::new(found, options.login.as_deref())
            .with_args(args)
            .in_surroundings(search.surroundings)
            .behind(search.launcher.as_deref());
        let news = capabilities::news(&binary);
        // Facts that are learned from here on are new.
        let heard = news.load(Ordering::Acquire);
        let known = command::Installed {
            refused: capabilities::refused_by(&binary),
            version: match command::depends_on_version(provider) {
                true => (provider.checks.live).and_then(|check| capabilities::version(&check, &binary)),
                false => None,
            },
        };
        let same = before.filter(|before| before.binary == binary && before.known == known);
        let program = Arc::new(Program {
            env: same.as_ref().map_or(env, |same| &same.env).clone(),
            search,
            binary,
            known,
            live: OnceLock::new(),
            warm: OnceLock::new(),
            lines: same.map(|same| Arc::clone(&same.lines)).unwrap_or_default(),
            news,
            heard,
            looked,
        });
        let mut all = self.lock();
        all.retain(|known| known.env != program.env);
        if all.len() >= MOST_ENVIRONMENTS {
            all.remove(0);
        }
        all.push(Arc::clone(&program));
        Ok(program)
    }
}

impl Search {
    /// Reads the inputs of the search for the program from the options and the environment `env`.
    fn of(provider: &Provider, options: &Options, env: &Arc<Vars>) -> Result<Search, Box<ProviderError>> {
        let line = command::bare(provider, options)?;
        let is_set = |name: &str| print::variable(&line, env, name).is_some_and(|value| !value.is_empty());
        let forbids = [EngineUsed::Live, EngineUsed::Warm].into_iter().filter_map(|engine| {
            let names = provider.check_of(engine)?.print_env;
            Some((engine, *names.iter().find(|name| is_set(name))?))
        });
        let mut surroundings = DefaultHasher::new();
        (env, &options.env, &options.extra_args).hash(&mut surroundings);
        if let Some(launch) = &options.launch {
            (launch, &line.program).hash(&mut surroundings);
        }
        let launcher = options.launch.as_ref().map(|launch| launch.command.clone());
        Ok(Search {
            surroundings: surroundings.finish(),
            forbids: forbids.collect(),
            path: match launcher {
                // The variables of the CLI are those of the other side.
                Some(_) => dfp_process::variable(env, "PATH"),
                None => print::variable(&line, env, "PATH"),
            },
            more: match launcher {
                Some(_) => SearchFolders::default(),
                None => search_folders(provider, options, &line, |name| print::variable(&line, env, name)),
            },
            name: launcher.clone().unwrap_or(line.program),
            launcher,
        })
    }
}

impl Program {
    /// The program's file.
    pub fn binary(&self) -> &Binary {
        &self.binary
    }

    /// The support of `engine` by the program, as it was known when the program was looked at. Nothing is started to find out.
    pub fn support(&self, provider: &Provider, engine: EngineUsed) -> &LiveSupport {
        let kept = match engine {
            EngineUsed::Warm => &self.warm,
            EngineUsed::Live | EngineUsed::Print => &self.live,
        };
        kept.get_or_init(|| self.support_now(provider, engine))
    }

    /// The support of `engine` as it is known now: another call may have tried the program meanwhile.
    pub fn support_now(&self, provider: &Provider, engine: EngineUsed) -> LiveSupport {
        let Some(check) = provider.check_of(engine) else {
            let why = format!("there is no {} form of it", engine.name());
            return LiveSupport::unserved(Basis::Setting, why);
        };
        if let Some((_, name)) = self.search.forbids.iter().find(|(of, _)| *of == engine) {
            return LiveSupport::unserved(Basis::Setting, format!("{name} is set in the environment"));
        }
        match capabilities::support(engine, &check, &self.binary) {
            // No warm process is tried: a CLI that is not known to serve such calls is called in print form.
            LiveSupport::Unknown(why) if engine == EngineUsed::Warm => LiveSupport::unserved(Basis::Program, why),
            known => known,
        }
    }

    /// The program as a kept process of `engine` is started with `process` over the provider's own `options`. `finish` has the last
    /// word on the command line.
    ///
    /// # Errors
    /// Those of [`command::build`].
    pub fn installed(
        &self,
        provider: &Provider,
        options: &Options,
        engine: EngineUsed,
        process: ProcessOptions,
        finish: fn(CommandLine, &Path) -> CommandLine,
    ) -> Result<Arc<Installed>, Box<ProviderError>> {
        let key = LineKey { engine, process };
        if let Some((_, known)) = self.lines().iter().rfind(|(of, _)| *of == key) {
            return Ok(Arc::clone(known));
        }
        let mode = match engine {
            EngineUsed::Warm => Mode::Warm,
            EngineUsed::Live | EngineUsed::Print => Mode::Live,
        };
        let line = command::build(provider, &key.process.over(options), mode, true, &self.known)?;
        let installed = Arc::new(Installed {
            line: finish(line, self.binary.file()),
            binary: self.binary.clone(),
        });
        let mut lines = self.lines();
        if lines.len() >= MOST_LINES {
            lines.remove(0);
        }
        lines.push((key, Arc::clone(&installed)));
        Ok(installed)
    }

    fn lines(&self) -> MutexGuard<'_, Vec<(LineKey, Arc<Installed>)>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program as one process for one call is started.
    ///
    /// # Errors
    /// Those of [`command::build`].
    pub fn printing(
        &self,
        provider: &Provider,
        options: &Options,
        mode: Mode,
        partial: bool,
    ) -> Result<Installed, Box<ProviderError>> {
        Ok(Installed {
            line: command::build(provider, options, mode, partial, &self.known)?,
            binary: self.binary.clone(),
        })
    }
}

/// The most that is read of a `.npmrc`, bytes.
const NPMRC_BYTES: u64 = 64 * 1024;

/// The folders for the program of `line`, whose process has the variables that `variable` knows.
fn search_folders(
    provider: &Provider,
    options: &Options,
    line: &CommandLine,
    variable: impl Fn(&str) -> Option<OsString>,
) -> SearchFolders {
    if !options.searches_everywhere {
        return SearchFolders::default();
    }
    let roots = Roots {
        home: home(&variable),
        npm: npm_prefix(&variable),
        node: node_folder(),
        variable,
    };
    // A name of the user's own is no program of the vendor's installers.
    let is_own = line.program == *provider.command;
    let programs = provider.places.iter().copied().flatten().filter(|_| is_own);
    SearchFolders {
        programs: roots.folders(programs),
        interpreters: roots.folders(installed::HOMEBREW.iter().chain(installed::NODE)),
        never: working_folders(line, roots.home.as_deref()),
        home: roots.home,
    }
}

/// The beginnings of places' paths.
struct Roots<F> {
    home: Option<PathBuf>,
    npm: Option<PathBuf>,
    node: Option<PathBuf>,
    variable: F,
}

impl<F: Fn(&str) -> Option<OsString>> Roots<F> {
    /// The folders of `places`, each once.
    fn folders<'a>(&self, places: impl Iterator<Item = &'a Place>) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in places.filter_map(|place| self.folder(place)) {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders
    }

    /// The folder of `place`; `None` if this system or this user has no such root.
    fn folder(&self, place: &Place) -> Option<PathBuf> {
        let root = match place.root {
            Root::Home => self.home.clone()?,
            Root::System if cfg!(windows) => return None,
            Root::System => PathBuf::from("/"),
            Root::Variable(name, below) => match absolute((self.variable)(name)) {
                Some(folder) => folder,
                None => self.home.as_ref()?.join(below?),
            },
            Root::NpmPrefix => self.npm.clone()?,
            Root::Node => self.node.clone()?,
        };
        let parts = place.path.split('/').filter(|part| !part.is_empty());
        Some(parts.fold(root, |folder, part| folder.join(part)))
    }
}

/// The path of a variable's value; a relative or an empty one is none.
fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The user's home: that of the process's variables, or else the system's own record of it (a service may have no `HOME`).
fn home(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    absolute(variable(name)).or_else(|| std::env::home_dir().filter(|home| home.is_absolute()))
}

/// npm's prefix as the user has set it.
fn npm_prefix(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let by_variable = ["npm_config_prefix", "NPM_CONFIG_PREFIX"];
    let set = by_variable.into_iter().find_map(|name| absolute(variable(name)));
    set.or_else(|| {
        let home = home(&variable)?;
        let text = read_start(&home.join(".npmrc"))?;
        let value = text.lines().rev().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "prefix").then(|| value.trim().trim_matches('"').to_owned())
        })?;
        let below_home = ["~/", "${HOME}/"].iter().find_map(|start| value.strip_prefix(start));
        let prefix = below_home.map_or_else(|| PathBuf::from(&value), |below| home.join(below));
        Some(prefix).filter(|prefix| prefix.is_absolute())
    })
}

fn read_start(file: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(file).ok()?;
    file.take(NPMRC_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The folder of the Node that runs this process; `None` in another program, such as a desktop app.
fn node_folder() -> Option<PathBuf> {
    let file = std::env::current_exe().ok()?;
    let is_node = file.file_stem().is_some_and(|name| name == "node");
    file.parent().filter(|_| is_node).map(Path::to_owned)
}

/// The folders in which somebody works: this process's own, and that of the CLI. One that holds the user's home is no project.
fn working_folders(line: &CommandLine, home: Option<&Path>) -> Vec<PathBuf> {
    let of_line = match &line.cwd {
        Cwd::Path(path) => Some(PathBuf::from(path)),
        Cwd::Inherit | Cwd::Private => None,
    };
    let all = std::env::current_dir().ok().into_iter().chain(of_line);
    let mut folders: Vec<PathBuf> = all.filter_map(|folder| std::fs::canonicalize(folder).ok()).collect();
    let home = home.and_then(|home| std::fs::canonicalize(home).ok());
    folders.retain(|folder| folder.parent().is_some() && home.as_ref().is_none_or(|home| !home.starts_with(folder)));
    folders.dedup();
    folders
}

#[cfg(test)]
mod tests;
