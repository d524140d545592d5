//! Running one command line in the system's shell, under the same supervision as every other process.
//!
//! In: a [`ShellCommand`] and a cancellation token. Out: a [`ShellReport`], when nothing is left of what the command has
//! started. Both output streams are joined, and only the end is kept.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::env::{EnvPlan, Vars};
use super::fault::StartError;
use super::pipes::{Tee, Tees};
use super::running::End;
use super::start::{ProcessLimits, Spec, Stdin, start};

/// The number of characters kept of the output.
const SHOWN: usize = 4_000;
/// Bytes of the longest character of UTF-8.
const CHARACTER: usize = 4;

/// A command line to run.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellCommand {
    /// The line as a person would write it: for `/bin/sh -c`, on Windows for `cmd.exe /d /s /c`.
    pub command: String,
    pub cwd: PathBuf,
    /// The time limit, ms; 0 for no limit.
    pub timeout: u64,
}

/// The result of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellReport {
    /// The exit code; `None` if it was ended by a signal.
    pub exit_code: Option<i32>,
    /// True if the command was ended by its time limit.
    pub timed_out: bool,
    /// The last 4,000 characters printed, on either stream.
    pub output: String,
}

/// Runs `command` with the environment `base` and an empty standard input. When the command exits, whatever it left running is
/// ended, also processes in sessions of their own (Linux); if this process is killed, everything is ended.
///
/// # Errors
/// The same as those of [`start`].
pub async fn run_shell(
    command: ShellCommand,
    base: Arc<Vars>,
    owner: u64,
    cancel: CancellationToken,
) -> Result<ShellReport, StartError> {
    let printed = Arc::new(Tail::default());
    let tee: Arc<dyn Tee> = Arc::clone(&printed) as Arc<dyn Tee>;
    let tracker = TaskTracker::new();
    let mut running = start(
        Spec {
            env: EnvPlan {
                base: Some(base),
                ..EnvPlan::default()
            },
            cwd: Some(command.cwd),
            limits: ProcessLimits {
                timeout: (command.timeout > 0).then(|| Duration::from_millis(command.timeout)),
                max_stdout: usize::MAX,
                ..ProcessLimits::default()
            },
            owner,
            guarded: true,
            tracker: tracker.clone(),
            tees: Tees {
                stdout: Some(Arc::clone(&tee)),
                stderr: Some(tee),
            },
            ..shell(command.command)
        },
        cancel,
    )?;
    while running.next().await.is_some() {}
    let exit = running.exit().await;
    // The caller may look at the folder next: by then no process works in it any more.
    tracker.close();
    tracker.wait().await;
    Ok(ShellReport {
        exit_code: if exit.end == End::Timeout { None } else { exit.code },
        timed_out: exit.end == End::Timeout,
        output: printed.text(),
    })
}

/// Makes the process of a command. Its shell waits for a line, which it gets once the watchdog knows of it, and only then
/// starts the command's own shell. If this process is killed earlier, the shell finds its input at an end and exits.
#[cfg(unix)]
fn shell(command: String) -> Spec {
    const GATE: &str = r#"read -r go || exit; exec /bin/sh -c "$1" </dev/null"#;
    Spec {
        args: ["-c", GATE, "sh", &command].map(OsString::from).into(),
        stdin: Stdin::Bytes(bytes::Bytes::from_static(b"go\n")),
        ..Spec::new("/bin/sh")
    }
}

#[cfg(windows)]
fn shell(command: String) -> Spec {
    Spec {
        args: ["/d", "/s", "/c"].map(OsString::from).into(),
        // `cmd.exe` has its own rules of quoting: it takes the text between the outer quotes as it is.
        verbatim: Some(format!("\"{command}\"").into()),
        stdin: Stdin::Null,
        ..Spec::new("cmd.exe")
    }
}

/// The end of the output.
#[derive(Debug, Default)]
struct Tail(Mutex<Vec<u8>>);

impl Tail {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        let left_out = text.chars().count().saturating_sub(SHOWN);
        text.chars().skip(left_out).collect()
    }
}

impl Tee for Tail {
    fn copy(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        // The buffer is cut seldom, so that each byte is moved once or twice.
        if kept.len() > 4 * SHOWN * CHARACTER {
            let left_out = kept.len() - SHOWN * CHARACTER;
            kept.drain(..left_out);
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    async fn run(command: &str, timeout: u64, cancel: CancellationToken) -> ShellReport {
        let folder = tempfile::tempdir().unwrap();
        let command = ShellCommand {
            command: command.to_owned(),
            cwd: folder.path().to_owned(),
            timeout,
        };
        run_shell(command, Arc::new(std::env::vars_os().collect()), 0, cancel)
            .await
            .unwrap()
    }

    fn report(exit_code: Option<i32>, timed_out: bool, output: &str) -> ShellReport {
        ShellReport {
            exit_code,
            timed_out,
            output: output.to_owned(),
        }
    }

    #[tokio::test]
    async fn gives_the_code_and_what_both_streams_have_said() {
        let never = CancellationToken::new;
        let quoted = run(r#"printf '%s' "a  b" >&2; cat; exit 3"#, 0, never()).await;
        assert_eq!(quoted, report(Some(3), false, "a  b"));
        assert_eq!(run("kill -9 $$", 0, never()).await, report(None, false, ""));
        assert_eq!(
            run("echo on; exec sleep 100", 2_000, never()).await,
            report(None, true, "on\n")
        );
        let long = run(
            "i=0; while [ $i -lt 3000 ]; do printf 'äöü '; i=$((i+1)); done",
            0,
            never(),
        )
        .await;
        assert_eq!(long, report(Some(0), false, &"äöü ".repeat(1000)));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn leaves_nothing_behind_when_it_has_exited() {
        let left = run("sleep 100 >/dev/null 2>&1 & echo $!", 0, CancellationToken::new()).await;
        // A zombie, which its new parent has to reap, has no command line.
        let line = std::fs::read(format!("/proc/{}/cmdline", left.output.trim())).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&line), "");
    }
}
