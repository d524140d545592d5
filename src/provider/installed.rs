//! The types of a provider's data about an installed CLI: the places where installers put it, what it is asked before a call, and what is
//! read from its file.
//!
//! In: nothing. Out: [`Checks`] and its parts; [`Place`], and the places of the usual managers, from which a provider's data takes those
//! that its CLI is installed with. A host that a desktop or a service manager starts has none of the PATH's folders that a user's shell
//! adds. Nothing here looks at a disk: `run::programs` makes paths of the data, and the process room searches them.

/// The ways to ask a CLI about itself. Only commands that end by themselves without a terminal belong here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// The arguments with which it prints its version.
    pub version: &'static [&'static str],
    /// The command that says whether it is logged in; `None` if it has no such command.
    pub login: Option<LoginCheck>,
    /// The check whether an installed copy serves live sessions; `None` if the CLI has no live form.
    pub live: Option<EngineCheck>,
    /// The check whether an installed copy serves warm calls; `None` if the CLI has no warm form.
    pub warm: Option<EngineCheck>,
    /// The login that a version of the CLI offers and its vendor no longer serves.
    pub ended_login: Option<EndedLogin>,
    /// The user's options with which its model reads texts from outside the thread.
    pub reading: Reading,
}

/// The user's options with which a model reads texts that stand in no thread: by tools of the CLI's own, by servers, or in an older
/// session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub flags: &'static [&'static str],
    /// The beginnings of such settings that a flag takes (`mcp_servers` of codex's `-c mcp_servers.x.url=…`).
    pub settings: &'static [&'static str],
    /// Keys of the option `config` with the same effect.
    pub config: &'static [&'static str],
}

impl Reading {
    /// No options at all.
    pub const NONE: Reading = Reading {
        flags: &[],
        settings: &[],
        config: &[],
    };
}

/// A kind of login that a vendor no longer serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedLogin {
    /// The variables that choose another kind; if one of them is set, there is no problem.
    pub unless: &'static [&'static str],
    /// The message that says which login has ended, and when.
    pub message: &'static str,
    pub hint: &'static str,
}

impl Checks {
    /// The checks of a CLI that has `--version`, and no command that tells its login.
    pub const VERSION_ONLY: Checks = Checks {
        version: &["--version"],
        login: None,
        live: None,
        warm: None,
        ended_login: None,
        reading: Reading::NONE,
    };
}

/// The check whether an installed CLI serves an engine other than print, before anything is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineCheck {
    /// Its npm package. The packages with the binary of one platform have the same name with a `-` and the platform behind it.
    pub package: &'static str,
    /// Nested folders in which an installer puts a file or a folder named by the version, alone or behind the program's name and a
    /// `-`.
    pub version_folders: &'static [&'static [&'static str]],
    /// The name of the program, also in the scripts that start it.
    pub program: &'static str,
    /// The versions that serve the engine.
    pub versions: Versions,
    /// The flags that a user may add and that make sense only for one process per call.
    pub print_flags: &'static [&'static str],
    /// The variables that, set to anything, keep a session from leaving calls to the caller.
    pub print_env: &'static [&'static str],
    /// The reasons of which a caller who has not chosen an engine is warned.
    pub announces: Announced,
    /// True if a call that wants this engine alone is refused unless the file is known to serve it: an older or a newer version may
    /// answer wrongly.
    pub measured_only: bool,
}

/// The reasons of which a caller is warned who is served by another engine than the installed CLI should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// The CLI turned out not to serve the engine, or its version does not. A file that is no such program gives no warning: test
    /// doubles are usual (SPEC-01's of claude), which print and do nothing else.
    Versions,
    /// The reasons of `Versions`, and that nothing says that the file is the program.
    All,
}

/// Versions of a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// This version and every newer one.
    Since([u64; 3]),
    /// The versions that were measured: the vendor does not promise the behaviour that is relied on.
    Measured(&'static [[u64; 3]]),
    /// The versions that were measured. A process of any other version is tested when it runs, without a request to a model, and
    /// takes calls if it passes.
    Probed(&'static [[u64; 3]]),
}

impl Versions {
    /// Returns whether `version` is one of them.
    pub fn contains(self, version: [u64; 3]) -> bool {
        match self {
            Versions::Since(oldest) => version >= oldest,
            Versions::Measured(all) | Versions::Probed(all) => all.contains(&version),
        }
    }
}

/// The command that asks a CLI whether it is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginCheck {
    pub args: &'static [&'static str],
    /// The place of the answer.
    pub answer: LoginAnswer,
    /// The signs of each kind of login in the answer: the first that holds counts.
    pub kinds: &'static [LoginSign],
    /// The members of its JSON that tell more about the login, without secrets and names of persons.
    pub details: &'static [&'static str],
    /// Variables by which requests go to another server than the vendor's.
    pub gateways: &'static [GatewayVariable],
}

/// The kind of a login: who lets a CLI's requests in, and who is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginKind {
    /// A plan with the vendor: a person's or a company's login.
    Plan,
    /// A key of the vendor's API.
    Key,
    /// A server between: a cloud that serves the vendor's models, or one that a base URL names.
    Gateway,
}

/// A sign of a kind of login in a CLI's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginSign {
    pub kind: LoginKind,
    pub says: LoginWords,
    /// The variable that has to be set as well, if the words alone don't decide.
    pub variable: Option<&'static str>,
    /// The member of the JSON object that has to have this text as well, if the words alone don't decide.
    pub beside: Option<(&'static str, &'static str)>,
}

impl LoginSign {
    /// Makes the sign that `says` alone means `kind`.
    pub const fn new(kind: LoginKind, says: LoginWords) -> LoginSign {
        LoginSign {
            kind,
            says,
            variable: None,
            beside: None,
        }
    }
}

/// The words of a CLI about its login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginWords {
    /// This member of the JSON object on standard output has this text.
    Member(&'static str, &'static str),
    /// A line of its output begins with this text.
    Line(&'static str),
}

/// A variable by which requests go to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayVariable {
    /// The variable's name; it holds a URL.
    pub name: &'static str,
    /// The vendor's own server.
    pub own_host: &'static str,
}

/// The place where a CLI says whether it is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginAnswer {
    /// The answer is this boolean of the JSON object on standard output.
    JsonFlag(&'static str),
    /// The answer is the exit code: 0 is yes, and 1 with this on standard error is no.
    ExitCode(&'static str),
}

/// A folder in which an installer puts programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub root: Root,
    /// The path below the root, with `/` between folders. `*` is a folder of any name.
    pub path: &'static str,
    /// The installer, and where it says that it puts programs there.
    pub source: &'static str,
}

/// The beginning of a place's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The user's home.
    Home,
    /// The root of the file system; not on Windows.
    System,
    /// The folder that this variable names, or else, if there is one, this folder of the home.
    Variable(&'static str, Option<&'static str>),
    /// The folder that npm's `prefix` names: the variable `npm_config_prefix`, or a line of the home's `.npmrc`.
    NpmPrefix,
    /// The folder of the Node that runs this process: npm's prefix, if nothing else is said.
    Node,
}

impl Place {
    pub(crate) const fn new(root: Root, path: &'static str, source: &'static str) -> Place {
        Place { root, path, source }
    }

    /// Creates a place in the user's home.
    pub(crate) const fn home(path: &'static str, source: &'static str) -> Place {
        Place::new(Root::Home, path, source)
    }
}

/// Where npm and the managers of Node's versions put `node`, and the programs of npm's global packages.
pub const NODE: &[Place] = &[
    Place::new(Root::NpmPrefix, "bin", "npm: `prefix` (docs.npmjs.com, folders)"),
    Place::new(
        Root::Node,
        "",
        "npm: the folder of `node`, its default prefix (docs.npmjs.com, folders)",
    ),
    Place::home(
        ".npm-global/bin",
        "npm: docs.npmjs.com, Resolving EACCES permissions errors",
    ),
    Place::new(
        Root::Variable("NVM_DIR", Some(".nvm")),
        "versions/node/*/bin",
        "nvm: `nvm_version_path` of nvm.sh",
    ),
    Place::new(
        Root::Variable("FNM_DIR", Some(".local/share/fnm")),
        "node-versions/*/installation/bin",
        "fnm: `FNM_DIR` (docs/configuration.md)",
    ),
    Place::home(
        "Library/Application Support/fnm/node-versions/*/installation/bin",
        "fnm on macOS",
    ),
    Place::home(".fnm/node-versions/*/installation/bin", "fnm: its older folder"),
    Place::new(
        Root::Variable("VOLTA_HOME", Some(".volta")),
        "bin",
        "volta: docs.volta.sh, Installers",
    ),
    Place::new(
        Root::Variable("ASDF_DATA_DIR", Some(".asdf")),
        "installs/nodejs/*/bin",
        "asdf: asdf-vm.com, Directory Structure",
    ),
    Place::new(
        Root::Variable("MISE_DATA_DIR", Some(".local/share/mise")),
        "installs/*/*/bin",
        "mise: mise.jdx.dev, Directory Structure",
    ),
    Place::new(Root::Variable("N_PREFIX", None), "bin", "n: `N_PREFIX` (README)"),
    Place::new(
        Root::Variable("PNPM_HOME", Some(".local/share/pnpm")),
        "",
        "pnpm: pnpm.io, Settings, `globalBinDir`",
    ),
    Place::new(
        Root::Variable("PNPM_HOME", Some(".local/share/pnpm")),
        "bin",
        "pnpm 11: `globalBinDir`",
    ),
    Place::home("Library/pnpm", "pnpm on macOS"),
    Place::new(
        Root::Variable("BUN_INSTALL", Some(".bun")),
        "bin",
        "Bun: bun.sh, `bun install --global`",
    ),
    Place::home(".yarn/bin", "Yarn 1: `yarn global bin`"),
    Place::new(
        Root::System,
        "usr/local/bin",
        "npm: the prefix of nodejs.org's installer",
    ),
    Place::new(
        Root::Variable("APPDATA", None),
        "npm",
        "npm on Windows (docs.npmjs.com, folders)",
    ),
    Place::new(Root::Variable("NVM_SYMLINK", None), "", "nvm-windows: `NVM_SYMLINK`"),
    Place::new(Root::Variable("LOCALAPPDATA", None), "Volta/bin", "volta on Windows"),
    Place::new(Root::Variable("LOCALAPPDATA", None), "pnpm", "pnpm on Windows"),
    Place::new(
        Root::Variable("ProgramFiles", None),
        "nodejs",
        "nodejs.org's installer on Windows",
    ),
];

/// Where Homebrew links programs (docs.brew.sh, Installation): Apple silicon, Intel, Linux.
pub const HOMEBREW: &[Place] = &[
    Place::new(
        Root::Variable("HOMEBREW_PREFIX", None),
        "bin",
        "Homebrew: `HOMEBREW_PREFIX`",
    ),
    Place::new(Root::System, "opt/homebrew/bin", "Homebrew on Apple silicon"),
    Place::new(Root::System, "usr/local/bin", "Homebrew on Intel"),
    Place::new(Root::System, "home/linuxbrew/.linuxbrew/bin", "Homebrew on Linux"),
    Place::home(".linuxbrew/bin", "Homebrew on Linux, in the home"),
];

/// Where winget and scoop link programs on Windows.
pub const WINDOWS: &[Place] = &[
    Place::new(
        Root::Variable("LOCALAPPDATA", None),
        "Microsoft/WinGet/Links",
        "winget: portable packages",
    ),
    Place::new(
        Root::Variable("SCOOP", Some("scoop")),
        "shims",
        "scoop: `SCOOP` (wiki, Folder Layout)",
    ),
];

/// Where programs of the user's own are put (XDG Base Directory Specification, `$HOME/.local/bin`).
pub const LOCAL_BIN: &[Place] = &[Place::home(".local/bin", "XDG Base Directory Specification")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cli_names_its_places_with_their_sources() {
        for provider in crate::ALL {
            let all: Vec<&Place> = provider.places.iter().copied().flatten().collect();
            assert!(!all.is_empty(), "{}", provider.id);
            for (at, place) in all.iter().enumerate() {
                assert!(!place.source.is_empty(), "{}: {place:?}", provider.id);
                assert!(
                    !place.path.starts_with('/') && !place.path.contains('\\'),
                    "{}: {place:?}",
                    provider.id
                );
                let is_same = |other: &&&Place| (other.root, other.path) == (place.root, place.path);
                let twice = all[..at].iter().find(is_same);
                // Homebrew on Intel shares its folder with nodejs.org's installer.
                assert!(
                    twice.is_none() || place.path == "usr/local/bin",
                    "{}: {place:?}",
                    provider.id
                );
            }
        }
    }
}
