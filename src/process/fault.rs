//! The reasons why a process could not be started, told apart as far as the operating system allows.
//!
//! Each [`StartError`] says what to repair. `launch` finds out what an `errno` means.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::search_folders::Searched;
use dfp_model::error::Code;

/// The reason why there is no process. Arguments and values of variables are never part of it: they may hold prompts and keys.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program is a bare name that no folder of the child's PATH has.
    #[error("{} is not in any folder of the PATH{}", program.display(), looked_at(skipped.as_deref(), searched))]
    NotOnPath {
        program: OsString,
        /// The PATH that was searched: the child's, not the host's.
        path: OsString,
        /// A file of that name in an empty or relative folder of the PATH; such folders are not searched.
        skipped: Option<PathBuf>,
        /// The places that were searched after the PATH.
        searched: Box<Searched>,
    },
    /// The program is a path that does not exist.
    #[error("{} does not exist", file.display())]
    NotFound {
        /// The path, made absolute against the host's working folder.
        file: PathBuf,
    },
    /// The file exists, but is a folder.
    #[error("{} is a folder", file.display())]
    IsDirectory { file: PathBuf },
    /// The file exists, but without the permission to execute it.
    #[error("{} is not executable", file.display())]
    NotExecutable { file: PathBuf },
    /// The file is executable by its mode, yet the system refuses: a parent folder, a `noexec` mount or a security policy.
    #[error("permission to execute {} is denied", file.display())]
    PermissionDenied { file: PathBuf },
    /// The file is not a program of this machine: wrong architecture, an empty file, a script without `#!`.
    #[error("{} {}", file.display(), super::format::of_file(file))]
    BadFormat { file: PathBuf },
    /// The file stands in an archive that only the host's own runtime can read.
    #[error("{} lies inside of the archive {}, from which nothing can be started", file.display(), archive.display())]
    InArchive { file: PathBuf, archive: PathBuf },
    /// The script's `#!` line, or the binary's loader, names a program that is missing.
    #[error("{} needs {}, which is missing{}", file.display(), interpreter.display(), super::format::libc_of(interpreter))]
    InterpreterNotFound {
        file: PathBuf,
        /// A path, or the name that `#!/usr/bin/env NAME` looks for on the child's PATH.
        interpreter: OsString,
    },
    /// The working folder does not exist.
    #[error("the working folder {} does not exist", cwd.display())]
    CwdNotFound { cwd: PathBuf },
    /// The working folder exists, but is not a folder.
    #[error("the working folder {} is not a folder", cwd.display())]
    CwdNotDirectory {
        /// The path that should have been a folder.
        cwd: PathBuf,
    },
    /// The permission to enter the working folder is missing.
    #[error("permission to enter the working folder {} is denied", cwd.display())]
    CwdDenied { cwd: PathBuf },
    /// The command line or environment is longer than the system passes to a process (`E2BIG`).
    #[error("{what} has {bytes} bytes, more than the {limit} the operating system passes to a process")]
    TooLong {
        /// The part that is too long.
        what: TooLong,
        bytes: usize,
        /// The limit that was exceeded, bytes.
        limit: usize,
    },
    /// Another program is writing the file just now (`ETXTBSY`), and still was after some tries.
    #[error("{} is being written just now", file.display())]
    Busy { file: PathBuf },
    /// There is no file descriptor left, for this process (`EMFILE`) or the whole system (`ENFILE`).
    #[error("too many open files{}", if *system { " in the system" } else { "" })]
    TooManyFiles {
        /// True if the whole system's limit was reached, false if it was this process's.
        system: bool,
    },
    /// There is no process or thread left for this user or container (`EAGAIN`).
    #[error("too many processes")]
    TooManyProcesses,
    /// The system has no memory left (`ENOMEM`).
    #[error("out of memory")]
    OutOfMemory,
    /// An argument or variable can't be passed on by any operating system, for example because it contains NUL.
    #[error("{what}")]
    InvalidInput {
        /// The input, and the problem with it.
        what: String,
    },
    /// The environment that wanted the process is shutting down ([`super::registry::kill_all`]).
    #[error("the process's owner has ended")]
    OwnerEnded,
    /// The run was cancelled before its process was started.
    #[error("cancelled before the start")]
    Cancelled,
    /// The start was called outside of a tokio runtime, which is a bug of the caller.
    #[error("no async runtime is running")]
    NoRuntime,
    /// Any other failure of the operating system.
    #[error("{} could not be started: {source}", file.display())]
    Os { file: PathBuf, source: io::Error },
}

/// The part of a command line or environment that was too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TooLong {
    /// One argument, counted from 1.
    #[error("argument {0}")]
    Argument(usize),
    /// One variable of the environment, with its name.
    #[error("the environment variable {0}")]
    Variable(String),
    /// Arguments and environment together.
    #[error("the command line with its environment")]
    Total,
}

/// The end of the sentence that a program is not on the PATH: the file and the places that were not taken.
fn looked_at(skipped: Option<&Path>, searched: &Searched) -> String {
    searched.end_of(skipped.map_or_else(String::new, |file| {
        format!(
            ": its empty and relative folders are skipped, so {} was not taken",
            file.display()
        )
    }))
}

impl StartError {
    /// The stable error code that programs see.
    pub fn code(&self) -> Code {
        match self {
            StartError::NotOnPath { .. } | StartError::NotFound { .. } => Code::CliNotFound,
            StartError::IsDirectory { .. }
            | StartError::NotExecutable { .. }
            | StartError::PermissionDenied { .. }
            | StartError::BadFormat { .. }
            | StartError::InArchive { .. } => Code::CliNotExecutable,
            StartError::InterpreterNotFound { .. } => Code::InterpreterNotFound,
            StartError::CwdNotFound { .. } | StartError::CwdNotDirectory { .. } | StartError::CwdDenied { .. } => {
                Code::CwdNotFound
            }
            StartError::TooLong { .. } => Code::PromptTooLong,
            StartError::InvalidInput { .. } => Code::InvalidOption,
            StartError::OwnerEnded | StartError::Cancelled => Code::Closed,
            StartError::NoRuntime => Code::Internal,
            StartError::Busy { .. }
            | StartError::TooManyFiles { .. }
            | StartError::TooManyProcesses
            | StartError::OutOfMemory
            | StartError::Os { .. } => Code::SpawnFailed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_whose_fault_it_is() {
        let file = PathBuf::from("/x");
        assert_eq!(StartError::NotFound { file: file.clone() }.code(), Code::CliNotFound);
        assert_eq!(
            StartError::IsDirectory { file: file.clone() }.code(),
            Code::CliNotExecutable
        );
        assert_eq!(
            StartError::InterpreterNotFound {
                file,
                interpreter: "node".into()
            }
            .code(),
            Code::InterpreterNotFound
        );
        assert_eq!(StartError::CwdNotFound { cwd: "/y".into() }.code(), Code::CwdNotFound);
        assert_eq!(
            StartError::TooLong {
                what: TooLong::Argument(2),
                bytes: 200_000,
                limit: 131_071
            }
            .code(),
            Code::PromptTooLong
        );
        assert_eq!(StartError::TooManyFiles { system: true }.code(), Code::SpawnFailed);
    }

    #[test]
    fn messages_name_the_thing_and_the_limit() {
        let error = StartError::TooLong {
            what: TooLong::Argument(2),
            bytes: 200_000,
            limit: 131_071,
        };
        assert_eq!(
            error.to_string(),
            "argument 2 has 200000 bytes, more than the 131071 the operating system passes to a process"
        );
        let error = StartError::InterpreterNotFound {
            file: "/bin/cli".into(),
            interpreter: "node".into(),
        };
        assert_eq!(error.to_string(), "/bin/cli needs node, which is missing");
    }
}
