//! The folders outside of the PATH in which a provider's CLI is searched, and the Node of a script.
//!
//! In: a provider's places, the options, the variables of its process. Out: an [`SearchFolders`], whose folders the process room searches.
//! Of the user's files only `.npmrc` is read, for npm's prefix.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use dfp_process::SearchFolders;
use dfp_provider::Provider;
use dfp_provider::command::{CommandLine, Cwd};
use dfp_provider::options::Options;
use dfp_provider::places::{self, Place, Root};

/// The most that is read of a `.npmrc`, bytes.
const NPMRC_BYTES: u64 = 64 * 1024;

/// The folders for the program of `line`, whose process has the variables that `variable` knows.
pub(super) fn search_folders(
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
        interpreters: roots.folders(places::HOMEBREW.iter().chain(places::NODE)),
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
mod tests {
    use super::*;
    use dfp_provider::command;

    fn of(options: &str, vars: &[(&str, &str)]) -> SearchFolders {
        let provider = dfp_provider::find("claude").unwrap();
        let options = Options::parse(provider, options).unwrap();
        let line = command::bare(provider, &options).unwrap();
        search_folders(provider, &options, &line, |name| {
            let found = vars.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[cfg(unix)]
    #[test]
    fn places_are_made_of_the_variables_of_the_process() {
        let folders = of(
            "{}",
            &[("HOME", "/home/me"), ("NVM_DIR", "/opt/nvm"), ("FNM_DIR", "relative")],
        )
        .programs;
        let begins: Vec<&str> = folders.iter().take(3).map(|folder| folder.to_str().unwrap()).collect();
        assert_eq!(
            begins,
            [
                "/home/me/.local/bin",
                "/home/me/.claude/local",
                "/home/me/.claude/local/node_modules/.bin"
            ]
        );
        for folder in ["/opt/nvm/versions/node/*/bin", "/opt/homebrew/bin", "/home/me/.bun/bin"] {
            assert!(folders.contains(&PathBuf::from(folder)), "{folder}: {folders:?}");
        }
        assert!(
            !folders
                .iter()
                .any(|folder| folder.to_string_lossy().contains("relative"))
        );
        let without = of("{}", &[]).programs;
        let home = std::env::home_dir().unwrap();
        assert_eq!(without.first(), Some(&home.join(".local/bin")));
    }

    #[cfg(unix)]
    #[test]
    fn npms_prefix_is_read() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().to_str().unwrap();
        std::fs::write(
            home.path().join(".npmrc"),
            "//registry/:_authToken=x\nprefix = ~/packages\n",
        )
        .unwrap();
        assert!(
            of("{}", &[("HOME", at)])
                .programs
                .contains(&home.path().join("packages/bin"))
        );
        let set = of("{}", &[("HOME", at), ("npm_config_prefix", "/opt/npm")]).programs;
        assert!(set.contains(&PathBuf::from("/opt/npm/bin")));
        assert!(!set.contains(&home.path().join("packages/bin")));
    }

    #[test]
    fn the_path_alone_is_searched_for_a_name_of_ones_own() {
        assert_eq!(of(r#"{"cliSearch": "path"}"#, &[]), SearchFolders::default());
        let own = of(r#"{"cliPath": "my-claude"}"#, &[]);
        assert_eq!(own.programs, Vec::<PathBuf>::new());
        assert!(!own.interpreters.is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_working_folder_is_one_that_does_not_hold_the_home() {
        let line = |cwd: &Path| {
            let provider = dfp_provider::find("claude").unwrap();
            let options = Options::parse(provider, &serde_json::json!({ "cwd": cwd }).to_string()).unwrap();
            command::bare(provider, &options).unwrap()
        };
        let root = tempfile::tempdir().unwrap();
        let (home, work) = (root.path().join("home"), root.path().join("work"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(&work).unwrap();
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let real = |folder: &Path| folder.canonicalize().unwrap();
        assert_eq!(working_folders(&line(&work), Some(&home)), [here.clone(), real(&work)]);
        for folder in [root.path(), home.as_path(), Path::new("/")] {
            assert_eq!(
                working_folders(&line(folder), Some(&home)),
                std::slice::from_ref(&here),
                "{folder:?}"
            );
        }
    }
}
