//! What the operating system is handed to start a process, and the reasons why it starts none.
//!
//! In: a [`Launch`], and the `errno` of the attempt. Out: a [`StartError`], which says what to repair. `ENOENT` alone means three
//! things (no program, no working folder, no interpreter), so the file system is asked afterwards. Of a file that the system can't
//! execute, the reason is its format: for which machine it was made, or that it is no program.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, ChildStdout};

use super::env::Vars;
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
    #[error("{} {}", file.display(), of_file(file))]
    BadFormat { file: PathBuf },
    /// The file stands in an archive that only the host's own runtime can read.
    #[error("{} lies inside of the archive {}, from which nothing can be started", file.display(), archive.display())]
    InArchive { file: PathBuf, archive: PathBuf },
    /// The script's `#!` line, or the binary's loader, names a program that is missing.
    #[error("{} needs {}, which is missing{}", file.display(), interpreter.display(), libc_of(interpreter))]
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
    /// The environment that wanted the process is shutting down ([`super::kill_all`]).
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
    pub vars: Vars,
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
fn is_batch(file: &Path) -> bool {
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

// In: a file's first bytes. Out: the end of a sentence about the file. The numbers are those of `elf.h`, `mach-o/loader.h` and
// winnt.h.

/// The part of a file that is read, bytes: the header of a Windows program begins behind a short program for DOS.
const HEAD: u64 = 4096;

/// Says what `file` is, after its name.
fn of_file(file: &Path) -> String {
    let mut head = Vec::new();
    let read = File::open(file).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    match read {
        Ok(_) => of_head(&head, &here()),
        Err(_) => OTHER.to_owned(),
    }
}

const OTHER: &str = "is not a program that this system can run";

/// This machine, in the words of [`machine`].
fn here() -> String {
    let system = match std::env::consts::OS {
        "macos" => "macOS",
        "windows" => "Windows",
        "linux" => "Linux",
        other => other,
    };
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system} on {cpu}")
}

/// Says what a file is that begins with `head`, on the machine `here`.
fn of_head(head: &[u8], here: &str) -> String {
    if head.is_empty() {
        return "is empty".to_owned();
    }
    match machine(head) {
        Some(made_for) if made_for != here => format!("is a program for {made_for}, and this machine is {here}"),
        Some(_) => OTHER.to_owned(),
        // npm packages of native programs have a text there until their script has run.
        None if !head.starts_with(b"#!") && std::str::from_utf8(head).is_ok() => {
            "is a text without a `#!` line, as a package leaves it whose install script did not run".to_owned()
        }
        None => OTHER.to_owned(),
    }
}

/// The system and processor for which a program was made, if `head` is a program's.
fn machine(head: &[u8]) -> Option<String> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (system, cpu) = if head.starts_with(b"\x7fELF") {
        ("Linux", u16_at(18).map(|machine| (machine, 62, 183)))
    } else if u32_at(0) == Some(0xfeed_facf) {
        // The upper byte says that it has 64 bits.
        let cpu = u32_at(4)? & 0x00ff_ffff;
        ("macOS", u16::try_from(cpu).ok().map(|cpu| (cpu, 7, 12)))
    } else if head.starts_with(b"MZ") {
        let header = u32_at(0x3c).and_then(|at| usize::try_from(at).ok()?.checked_add(4));
        (
            "Windows",
            header.and_then(u16_at).map(|machine| (machine, 0x8664, 0xaa64)),
        )
    } else {
        return None;
    };
    let cpu = match cpu {
        Some((found, x64, _)) if found == x64 => "x64",
        Some((found, _, arm64)) if found == arm64 => "arm64",
        _ => "another processor",
    };
    Some(format!("{system} on {cpu}"))
}

/// Says for which C library a program was made whose loader is missing; nothing about another interpreter.
fn libc_of(interpreter: &OsStr) -> &'static str {
    let name = interpreter.to_string_lossy();
    if name.contains("/ld-musl") {
        ": it was built for musl, and this system has another C library"
    } else if name.contains("/ld-linux") {
        ": it was built for glibc, and this system has another C library or processor"
    } else {
        ""
    }
}

/// The archive of an Electron app, a file, in which `file` stands.
pub(super) fn archive_of(file: &Path) -> Option<PathBuf> {
    let mut above = file.ancestors().skip(1);
    let archive = above.find(|path| path.extension() == Some(OsStr::new("asar")))?;
    archive.is_file().then(|| archive.to_owned())
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

    fn elf(machine: u16) -> Vec<u8> {
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(18, 0);
        head.extend(machine.to_le_bytes());
        head
    }

    fn mach_o(cpu: u32) -> Vec<u8> {
        [0xfeed_facf_u32.to_le_bytes(), cpu.to_le_bytes()].concat()
    }

    fn pe(machine: u16) -> Vec<u8> {
        let mut head = b"MZ".to_vec();
        head.resize(0x3c, 0);
        head.extend(0x40_u32.to_le_bytes());
        head.extend(b"PE\0\0");
        head.extend(machine.to_le_bytes());
        head
    }

    #[test]
    fn a_file_says_for_which_machine_it_was_made() {
        let here = "Linux on x64";
        let made_for = |machine: &str| format!("is a program for {machine}, and this machine is {here}");
        for (head, expected) in [
            (elf(183), made_for("Linux on arm64")),
            (elf(243), made_for("Linux on another processor")),
            (elf(62), OTHER.to_owned()),
            (mach_o(0x0100_000c), made_for("macOS on arm64")),
            (mach_o(0x0100_0007), made_for("macOS on x64")),
            (pe(0x8664), made_for("Windows on x64")),
            (pe(0xaa64), made_for("Windows on arm64")),
            (b"MZ".to_vec(), made_for("Windows on another processor")),
            (vec![], "is empty".to_owned()),
            (vec![0xff, 0xfe, 0, 0, 1], OTHER.to_owned()),
            (b"#!/bin/sh\n".to_vec(), OTHER.to_owned()),
        ] {
            assert_eq!(of_head(&head, here), expected, "{head:?}");
        }
        assert!(of_head(b"echo Error", here).starts_with("is a text without a `#!` line"));
    }

    #[test]
    fn an_archive_is_a_file_on_the_way() {
        let app = tempfile::tempdir().unwrap();
        let archive = app.path().join("app.asar");
        let inside = archive.join("node_modules/x/cli");
        assert_eq!(archive_of(&inside), None);
        std::fs::write(&archive, "").unwrap();
        assert_eq!(archive_of(&inside), Some(archive));
        assert_eq!(archive_of(&app.path().join("app.asar.unpacked/cli")), None);
    }

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
