//! The arguments of the system call that starts a process, and the meaning of its refusal.
//!
//! In: a [`Launch`], and the `errno` of the attempt. Out: a [`StartError`]. `ENOENT` alone means three things (no program, no
//! working folder, no interpreter), so the file system is asked afterwards.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout};

use super::fault::{StartError, TooLong};

/// This process's ends of a child's stdio pipes.
pub(super) struct Pipes {
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
}

/// Everything that the operating system needs to start a process, resolved.
#[derive(Debug)]
pub(super) struct Launch {
    pub file: PathBuf,
    pub args: Vec<OsString>,
    /// See [`super::Spec::verbatim`].
    #[cfg(windows)]
    pub verbatim: Option<OsString>,
    pub vars: super::env::Vars,
    pub cwd: Option<PathBuf>,
}

impl Launch {
    /// Refuses input that would fail later with a worse message.
    pub fn check(&self) -> Result<(), StartError> {
        let nul = |text: &OsStr| text.as_encoded_bytes().contains(&0);
        let what = if nul(self.file.as_os_str()) {
            "the program's path contains a NUL character".to_owned()
        } else if self.cwd.as_ref().is_some_and(|cwd| nul(cwd.as_os_str())) {
            "the working folder's path contains a NUL character".to_owned()
        } else if let Some(at) = self.args.iter().position(|arg| nul(arg)) {
            format!("argument {} contains a NUL character", at + 1)
        } else if self.verbatim().is_some_and(nul) {
            "the command line contains a NUL character".to_owned()
        } else {
            return Ok(());
        };
        Err(StartError::InvalidInput { what })
    }

    #[cfg(windows)]
    fn verbatim(&self) -> Option<&OsStr> {
        self.verbatim.as_deref()
    }

    #[cfg(not(windows))]
    #[expect(clippy::unused_self, reason = "Windows has one")]
    fn verbatim(&self) -> Option<&OsStr> {
        None
    }

    /// The [`StartError`] that the operating system's `error` means for this launch.
    pub fn explain(&self, error: io::Error) -> StartError {
        #[cfg(unix)]
        let explained = self.explain_errno(&error);
        #[cfg(windows)]
        let explained = self.explain_windows(&error);
        explained.unwrap_or_else(|| StartError::Os {
            file: self.file.clone(),
            source: error,
        })
    }

    /// Explains an `errno` of Unix; `None` for one without a meaning of its own.
    #[cfg(unix)]
    fn explain_errno(&self, error: &io::Error) -> Option<StartError> {
        use rustix::io::Errno;
        let file = self.file.clone();
        Some(match Errno::from_io_error(error)? {
            Errno::NOENT => self
                .cwd_fault()
                .unwrap_or_else(|| match super::resolve::missing_interpreter(&file) {
                    Some(interpreter) if file.exists() => StartError::InterpreterNotFound { file, interpreter },
                    _ => StartError::NotFound { file },
                }),
            Errno::NOTDIR => self.cwd_fault().unwrap_or(StartError::NotFound { file }),
            Errno::ACCESS | Errno::PERM => self.cwd_fault().unwrap_or_else(|| {
                if file.is_dir() {
                    StartError::IsDirectory { file }
                } else if rustix::fs::access(&file, rustix::fs::Access::EXEC_OK).is_err() {
                    StartError::NotExecutable { file }
                } else {
                    StartError::PermissionDenied { file }
                }
            }),
            Errno::NOEXEC => StartError::BadFormat { file },
            // EBADARCH of sys/errno.h, "bad CPU type in executable".
            _ if cfg!(target_vendor = "apple") && error.raw_os_error() == Some(86) => StartError::BadFormat { file },
            Errno::TOOBIG => self.too_long(),
            Errno::TXTBSY => StartError::Busy { file },
            Errno::MFILE => StartError::TooManyFiles { system: false },
            Errno::NFILE => StartError::TooManyFiles { system: true },
            Errno::AGAIN => StartError::TooManyProcesses,
            Errno::NOMEM => StartError::OutOfMemory,
            _ => return None,
        })
    }

    /// Explains an error code of Windows; `None` for one without a meaning of its own.
    #[cfg(windows)]
    fn explain_windows(&self, error: &io::Error) -> Option<StartError> {
        let file = self.file.clone();
        if error.raw_os_error().is_none() && error.kind() == io::ErrorKind::InvalidInput && is_batch(&file) {
            let what = format!(
                "{} is a batch file, and cmd.exe, which runs it, can't be handed these arguments safely: name the program behind it \
                 (`cliPath`), or leave out the arguments with quotes, percent signs or line ends",
                file.display()
            );
            return Some(StartError::InvalidInput { what });
        }
        // winerror.h: 2 and 3 file or path not found, 5 access denied, 87 and 206 command line too long,
        // 193 bad EXE format, 267 the directory name is invalid.
        Some(match error.raw_os_error()? {
            2 | 3 => self.cwd_fault().unwrap_or(StartError::NotFound { file }),
            5 if file.is_dir() => StartError::IsDirectory { file },
            5 => self.cwd_fault().unwrap_or(StartError::PermissionDenied { file }),
            193 => StartError::BadFormat { file },
            87 | 206 if self.total() > COMMAND_LINE => StartError::TooLong {
                what: TooLong::Total,
                bytes: self.total(),
                limit: COMMAND_LINE,
            },
            267 => self.cwd_fault()?,
            4 => StartError::TooManyFiles { system: false },
            8 | 14 => StartError::OutOfMemory,
            _ => return None,
        })
    }

    fn cwd_fault(&self) -> Option<StartError> {
        let cwd = self.cwd.clone()?;
        match std::fs::metadata(&cwd) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(StartError::CwdDenied { cwd }),
            Err(_) => Some(StartError::CwdNotFound { cwd }),
            Ok(meta) if !meta.is_dir() => Some(StartError::CwdNotDirectory { cwd }),
            #[cfg(unix)]
            Ok(_) if rustix::fs::access(&cwd, rustix::fs::Access::EXEC_OK).is_err() => {
                Some(StartError::CwdDenied { cwd })
            }
            Ok(_) => None,
        }
    }

    /// Finds the argument or variable to blame for `E2BIG`: one that is too long by itself, or all of them together.
    #[cfg(unix)]
    fn too_long(&self) -> StartError {
        if cfg!(target_os = "linux") {
            // MAX_ARG_STRLEN in linux/binfmts.h: 32 pages for one string, its NUL included.
            let limit = 32 * rustix::param::page_size() - 1;
            let args = self
                .args
                .iter()
                .enumerate()
                .map(|(i, arg)| (TooLong::Argument(i + 1), arg.len()));
            let vars = self.vars.iter().map(|(name, value)| {
                (
                    TooLong::Variable(name.to_string_lossy().into_owned()),
                    name.len() + 1 + value.len(),
                )
            });
            if let Some((what, bytes)) = args.chain(vars).max_by_key(|&(_, bytes)| bytes).filter(|x| x.1 > limit) {
                return StartError::TooLong { what, bytes, limit };
            }
        }
        StartError::TooLong {
            what: TooLong::Total,
            bytes: self.total(),
            limit: total_limit(),
        }
    }

    /// Bytes that the strings of argv and environment take, with their NULs and pointers (on Windows: the command line's
    /// length).
    fn total(&self) -> usize {
        let per_string = 1 + size_of::<usize>();
        let args = self.args.iter().map(|arg| arg.len() + per_string);
        if cfg!(windows) {
            return self.file.as_os_str().len() + args.sum::<usize>();
        }
        let vars = self
            .vars
            .iter()
            .map(|(name, value)| name.len() + 1 + value.len() + per_string);
        self.file.as_os_str().len() + per_string + args.chain(vars).sum::<usize>()
    }
}

/// Returns whether `file` is a batch file, which `cmd.exe` runs.
#[cfg(windows)]
fn is_batch(file: &std::path::Path) -> bool {
    let extension = file.extension().unwrap_or_default();
    extension.eq_ignore_ascii_case("cmd") || extension.eq_ignore_ascii_case("bat")
}

/// The limit of CreateProcessW for a command line, in characters.
#[cfg(windows)]
const COMMAND_LINE: usize = 32_767;

#[cfg(unix)]
fn total_limit() -> usize {
    if cfg!(target_vendor = "apple") {
        // ARG_MAX in sys/syslimits.h.
        return 1024 * 1024;
    }
    // fs/exec.c: a quarter of the stack's limit, between ARG_MAX (128 KiB) and three quarters of 8 MiB.
    let stack = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    stack
        .map_or(usize::MAX, |bytes| usize::try_from(bytes / 4).unwrap_or(usize::MAX))
        .clamp(128 << 10, 6 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_refused_by_place_and_not_by_content() {
        let launch = Launch {
            file: "/bin/true".into(),
            args: vec!["a".into(), "se\0cret".into()],
            #[cfg(windows)]
            verbatim: None,
            vars: Vec::new(),
            cwd: None,
        };
        let message = launch.check().map_err(|error| error.to_string());
        assert_eq!(message, Err("argument 2 contains a NUL character".to_owned()));
    }
}
