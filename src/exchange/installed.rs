//! An installed CLI: which file it is, and the command line that starts it.

use std::path::Path;
use std::time::SystemTime;

use crate::command::CommandLine;
use crate::process::Resolved;

/// A binary: where it is and which file is there, so that an update is asked anew.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binary {
    resolved: Resolved,
    changed: Option<SystemTime>,
    size: u64,
    /// Device and inode, where there are such.
    identity: Option<(u64, u64)>,
    /// The folder of the login it runs with, where that is not the default one: what it does may depend on its settings.
    login: Option<String>,
    /// What makes a program of the user's own an agent: a runtime may be any of them.
    args: Vec<String>,
    /// A digest of the environment and the further arguments that it runs with, which choose its settings: what it does with a broken
    /// configuration says nothing of what it does with another.
    surroundings: u64,
}

impl Binary {
    /// The binary that was found, with this login.
    pub fn new(resolved: Resolved, login: Option<&str>) -> Binary {
        let metadata = std::fs::metadata(resolved.script()).ok();
        Binary {
            changed: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
            size: metadata.as_ref().map_or(0, std::fs::Metadata::len),
            identity: metadata.as_ref().and_then(identity),
            login: login.map(str::to_owned),
            args: Vec::new(),
            surroundings: 0,
            resolved,
        }
    }

    /// The same, as the agent that it is with these arguments.
    #[must_use]
    pub fn with_args(self, args: &[String]) -> Binary {
        Binary {
            args: args.to_vec(),
            ..self
        }
    }

    /// The same, as it is with these surroundings, a digest of them.
    #[must_use]
    pub fn in_surroundings(self, surroundings: u64) -> Binary {
        Binary { surroundings, ..self }
    }

    /// The same file as it is now.
    #[must_use]
    pub fn looked_at_again(&self) -> Binary {
        let again = Binary::new(self.resolved.clone(), self.login.as_deref());
        again.with_args(&self.args).in_surroundings(self.surroundings)
    }

    /// What is executed for it.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Where it is: for a script that Windows runs by a runtime, the script.
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

/// A CLI as calls with the same options and the same environment start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// What it is started with.
    pub line: CommandLine,
    pub binary: Binary,
}
