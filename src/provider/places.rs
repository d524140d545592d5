//! The places where installers put programs: data of the usual managers, from which a provider's data takes those that its CLI is
//! installed with.
//!
//! A host that a desktop or a service manager starts has none of the PATH's folders that a user's shell adds. Nothing here looks at
//! a disk: `run::places` makes paths of the data, and the process room searches them.

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
