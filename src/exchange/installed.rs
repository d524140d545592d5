//! An installed CLI: its file, and the command line that starts it.

use std::path::Path;
use std::time::SystemTime;

use dfp_process::Resolved;
use dfp_provider::command::CommandLine;

/// A binary: its place, and marks of the file there, so that an updated CLI counts as another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binary {
    resolved: Resolved,
    changed: Option<SystemTime>,
    size: u64,
    /// Device and inode, on systems that have them.
    identity: Option<(u64, u64)>,
    /// The folder of the login, if it is not the default one: the CLI's behaviour may depend on the settings there.
    login: Option<String>,
    /// The arguments that make a program of the user's own an agent: a runtime may be any agent.
    args: Vec<String>,
    /// A digest of the environment and the further arguments, which choose the settings: a failure with a broken configuration
    /// says nothing about another configuration.
    surroundings: u64,
    /// The launcher, which is the file here: nothing is known of the CLI's own.
    launcher: Option<String>,
}

impl Binary {
    /// Describes the binary that was found, with this login.
    pub fn new(resolved: Resolved, login: Option<&str>) -> Binary {
        let metadata = std::fs::metadata(resolved.script()).ok();
        Binary {
            changed: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
            size: metadata.as_ref().map_or(0, std::fs::Metadata::len),
            identity: metadata.as_ref().and_then(identity),
            login: login.map(str::to_owned),
            args: Vec::new(),
            surroundings: 0,
            launcher: None,
            resolved,
        }
    }

    /// This binary as the agent that it is with these arguments.
    #[must_use]
    pub fn with_args(self, args: &[String]) -> Binary {
        Binary {
            args: args.to_vec(),
            ..self
        }
    }

    /// This binary in surroundings with this digest.
    #[must_use]
    pub fn in_surroundings(self, surroundings: u64) -> Binary {
        Binary { surroundings, ..self }
    }

    /// This binary as the CLI that it starts, if it is a `launcher`.
    #[must_use]
    pub fn behind(self, launcher: Option<&str>) -> Binary {
        Binary {
            launcher: launcher.map(str::to_owned),
            ..self
        }
    }

    /// The launcher that starts the CLI.
    pub fn launcher(&self) -> Option<&str> {
        self.launcher.as_deref()
    }

    /// The file that is executed.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// The binary's own file: the script, if Windows runs it by a runtime.
    pub fn file(&self) -> &Path {
        self.resolved.script()
    }
}

#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// A CLI, as calls with the same options and the same environment start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The command line that starts it.
    pub line: CommandLine,
    pub binary: Binary,
}
