//! Starting a job object and ending it, on Windows.
//!
//! In: a [`Launch`]. Out: a [`Group`]. It has the same interface as the Unix file; the tests of whole runs hold both to the
//! same promises (`tests/integration/process`, `__tests__/windows`).
//!
//! The operating system imposes differences. There is no polite signal, so there is a grace only where closing stdin asks the
//! process to end, and it ends with the job's termination (exit code 1). Descendants can't leave the job. The exit is looked
//! for every 10 ms. A killed host's jobs end with their last handle, so there is no watchdog.

use std::io;
use std::os::windows::io::AsHandle;
use std::os::windows::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use windows_sys::Win32::System::Threading::{CREATE_NO_WINDOW, CREATE_SUSPENDED};

use super::fault::StartError;
use super::job::{self, Job};
use super::launch::{Launch, Pipes};
use super::registry::Registration;
use super::spec::Waiting;
use super::status::Status;
use super::target::Target;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Starts the process in a job of its own, without a console window, with pipes for its stdio.
pub(super) fn spawn(launch: &Launch, stdin: bool, _run: &str) -> Result<(Pipes, Target), StartError> {
    let mut command = Command::new(&launch.file);
    command
        .args(&launch.args)
        .env_clear()
        .envs(launch.vars.iter().map(|(name, value)| (name, value)))
        .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // The process starts suspended: what it starts before it is in its job would be in no job.
        .creation_flags(CREATE_NO_WINDOW | CREATE_SUSPENDED);
    if let Some(text) = &launch.verbatim {
        command.raw_arg(text);
    }
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    let failed = |error| launch.explain(error);
    let job = Job::new().map_err(failed)?;
    let mut child = command.spawn().map_err(failed)?;
    if let Err(error) = begin(&job, &child) {
        // The process may not be in a job yet, so it is killed by itself.
        let _ = child.kill();
        return Err(failed(error));
    }
    let pipes = Pipes {
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
    };
    let target = Target {
        pid: child.id(),
        leader: Arc::new(Mutex::new(child)),
        job: Arc::new(job),
    };
    Ok((pipes, target))
}

/// Puts the suspended `child` into `job` and lets it run.
fn begin(job: &Job, child: &Child) -> io::Result<()> {
    job.take_in(child.as_handle())?;
    job::resume(child.id())
}

/// A watchdog that does nothing: the jobs of a killed host end with it.
#[derive(Debug)]
pub(super) struct Watchdog;

impl Watchdog {
    /// Makes a watchdog without starting anything.
    pub fn spawn() -> Watchdog {
        Watchdog
    }
}

/// Returns at once: no watchdog is about to start.
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

    /// Does nothing: the job guards the group, and the next host removes the private folder (`exchange/scratch`).
    pub fn guard(&mut self, _grace: Duration) -> bool {
        true
    }

    /// Resolves when the leader has exited. Cancel safe.
    pub async fn exited(&self) -> Status {
        loop {
            let looked = self.target.leader().try_wait();
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

    /// Returns whether the processes have been asked to end. There is nothing to send; only an open stdin that was just closed
    /// asks them.
    pub async fn ask(&mut self, input_was_open: bool) -> bool {
        input_was_open
    }

    /// Terminates the job.
    pub async fn force(&mut self) {
        self.target.terminate();
    }

    /// Cleans up after the leader's exit: terminates the rest of the job at `kill_at`, or at once if the leader did not exit
    /// `by_itself`, since the owner waits for this then.
    pub async fn clear(mut self, by_itself: bool, kill_at: Instant) {
        let mut pause = LOOK_EVERY;
        while by_itself && self.target.job.living().is_ok_and(|living| living > 0) {
            let left = kill_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(Duration::from_millis(100));
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
