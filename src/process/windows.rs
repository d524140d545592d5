//! Starting a job object and ending it, on Windows.
//!
//! In: a [`Launch`]. Out: a [`Group`]. The same interface as the Unix file's; type-checked for
//! `x86_64-pc-windows-msvc`, not yet run on a Windows machine.
//!
//! Differences that the operating system imposes: there is no polite signal, so the grace begins with the closed stdin
//! and ends with the job's termination (exit code 1); descendants can't leave the job, so there are no escapees; the exit
//! is looked for every 10 ms, for waiting on a handle takes unsafe code; and if the host is killed the job lives on.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use process_wrap::std::{CommandWrap, CreationFlags, JobObject};
use tokio::time::{Instant, sleep, sleep_until};

use super::fault::StartError;
use super::launch::{Launch, Pipes};
use super::registry::Registration;
use super::spec::Waiting;
use super::status::Status;
use super::target::Target;

const CREATE_NO_WINDOW: u32 = 0x0800_0000;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Starts the process in a job of its own, without a console window, its stdio being pipes.
pub(super) fn spawn(launch: &Launch, stdin: bool, _run: &str) -> Result<(Pipes, Target), StartError> {
    let mut command = Command::new(&launch.file);
    command
        .args(&launch.args)
        .env_clear()
        .envs(launch.vars.iter().map(|(name, value)| (name, value)))
        .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(text) = &launch.verbatim {
        std::os::windows::process::CommandExt::raw_arg(&mut command, text);
    }
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    let mut flags = CreationFlags(Default::default());
    flags.0.0 = CREATE_NO_WINDOW;
    let mut command = CommandWrap::from(command);
    command.wrap(flags).wrap(JobObject);
    let mut child = command.spawn().map_err(|error| launch.explain(error))?;
    let pipes = Pipes {
        stdin: child.stdin().take(),
        stdout: child.stdout().take(),
        stderr: child.stderr().take(),
    };
    let target = Target {
        pid: child.id(),
        job: Arc::new(Mutex::new(child)),
    };
    Ok((pipes, target))
}

/// Nothing to do here yet: see above of a killed host.
#[derive(Debug)]
pub(super) struct Watchdog;

impl Watchdog {
    /// What outlives a host that is killed: nothing needs to, the job ends with its last handle.
    pub fn spawn() -> Watchdog {
        Watchdog
    }
}

/// Nothing is about to start.
pub(super) async fn watchdog_started() {}

/// A started process and everything it started in turn. Dropping it kills whatever is left.
#[derive(Debug)]
pub(super) struct Group {
    target: Target,
    /// `None` once everything has been dealt with.
    registration: Option<Registration>,
}

impl Group {
    /// Takes over a started child; from here on it is ended in every case.
    pub fn new(
        target: Target,
        registration: Registration,
        _how: Waiting,
        _watchdog: Option<Watchdog>,
    ) -> io::Result<Group> {
        Ok(Group {
            target,
            registration: Some(registration),
        })
    }

    /// As guarded as it can be here.
    pub fn guard(&mut self, _grace: Duration, _folder: Option<&Path>) -> bool {
        true
    }

    /// Resolves when the leader has exited. Cancel safe.
    pub async fn exited(&self) -> Status {
        loop {
            // Not the job's own try_wait, which is about all of its processes.
            let looked = self.target.lock().inner_mut().try_wait();
            match looked {
                Ok(Some(status)) => {
                    return Status {
                        code: status.code(),
                        signal: None,
                    };
                }
                Ok(None) => sleep(LOOK_EVERY).await,
                Err(_) => return Status::UNKNOWN,
            }
        }
    }

    /// Nothing to send: the closed stdin is what asks.
    pub async fn ask(&mut self) {}

    /// Terminates the job.
    pub async fn force(&mut self) {
        self.target.terminate();
    }

    /// After the leader's exit: terminates what is left of the job at `kill_at`, or at once unless it exited `by_itself`: its
    /// owner waits for this then.
    pub async fn clear(mut self, by_itself: bool, kill_at: Instant) {
        if by_itself {
            sleep_until(kill_at).await;
        }
        self.finish();
    }

    fn finish(&mut self) {
        self.target.terminate();
        if let Some(registration) = self.registration.take() {
            registration.release(|| true);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.registration.is_some() {
            self.finish();
        }
    }
}
