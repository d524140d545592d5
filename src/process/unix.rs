//! Starting a process group and ending it, on Linux and macOS.
//!
//! In: a [`Launch`]. Out: a [`Group`]: the leader, its group, and the escapees it started in sessions of their own.
//!
//! The start stays on `posix_spawn`: a process group of its own, a working folder, an environment and pipes all fit
//! it. `pre_exec`, `setsid` and `PDEATHSIG` would make the standard library fork, which copies the page tables of a
//! host of gigabytes while its event loop stands still.

use std::collections::HashSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep};

use super::fault::StartError;
use super::launch::{Launch, Pipes};
use super::proc::{self, Proc};
use super::registry::Registration;
use super::spec::Waiting;
use super::status::Status;
use super::target::{Target, kill_now};
use super::tree::{self, Table};
use super::wait::{self, Waiter};
pub use super::watchdog::FolderGuard;
pub(super) use super::watchdog::{Watchdog, watchdog_started};

/// The number of retries after `ETXTBSY`, with 1, 2, 4, … ms between, 31 ms in all. Another thread of the host forked while it
/// had the program open for writing, or an update is under way.
const BUSY_TRIES: u32 = 5;
/// Time after SIGKILL for which the rest of a group is still watched. A process that survives longer sleeps in the kernel.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Starts the process in a group of its own, with pipes for its stdio (stdin optionally the null device).
pub(super) fn spawn(launch: &Launch, stdin: bool, run: &str) -> Result<(Pipes, Target), StartError> {
    let mut command = Command::new(&launch.file);
    command
        .args(&launch.args)
        .env_clear()
        .envs(launch.vars.iter().map(|(name, value)| (name, value)))
        .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    let mut tries = 0;
    let child = loop {
        match command.spawn() {
            Ok(child) => break child,
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                std::thread::sleep(Duration::from_millis(1 << tries));
                tries += 1;
            }
            Err(error) => return Err(launch.explain(error)),
        }
    };
    #[cfg(target_os = "linux")]
    if let Some(stdout) = &child.stdout {
        widen(stdout);
    }
    match Pid::from_raw(child.id().cast_signed()) {
        // Dropping the standard library's handle neither kills nor reaps the process.
        Some(pid) => {
            let pipes = Pipes {
                stdin: child.stdin,
                stdout: child.stdout,
                stderr: child.stderr,
            };
            Ok((
                pipes,
                Target {
                    pid,
                    run: run.to_owned(),
                },
            ))
        }
        None => Err(launch.explain(std::io::ErrorKind::InvalidData.into())),
    }
}

/// Widens the stdout pipe to hold a whole answer. gemini and opencode exit without waiting for output that did not fit into the
/// pipe: of a thread of 400 KB, which gemini 0.61.0 echoes, between 210 and 400 KB arrived.
#[cfg(target_os = "linux")]
fn widen(stdout: &std::process::ChildStdout) {
    /// The pipe size that the system allows every user (`/proc/sys/fs/pipe-max-size`), bytes.
    const BYTES: usize = 1024 * 1024;
    // If the system refuses, stdout keeps the pipe it has.
    let _ = rustix::pipe::fcntl_setpipe_size(stdout, BYTES);
}

/// A started process and everything it started in turn. Dropping it kills whatever is left and reaps the leader.
#[derive(Debug)]
pub(super) struct Group {
    target: Target,
    waiter: Option<Waiter>,
    /// The run's living processes at the last look, without the leader. Members of the group are included, since they may leave
    /// it.
    known: HashSet<Proc>,
    /// The processes that the last look could not decide about; a second look decides.
    undecided: HashSet<Proc>,
    watchdog: Option<Watchdog>,
    /// `None` once the leader is reaped.
    registration: Option<Registration>,
}

impl Group {
    /// Takes over a started child; from here on it is ended in every case. The child's pipes stay with the caller.
    pub fn new(
        target: Target,
        registration: Registration,
        how: Waiting,
        watchdog: Option<Watchdog>,
    ) -> std::io::Result<Group> {
        let mut group = Group {
            target,
            waiter: None,
            known: HashSet::new(),
            undecided: HashSet::new(),
            watchdog,
            registration: Some(registration),
        };
        group.waiter = Some(Waiter::new(group.target.pid, how)?);
        Ok(group)
    }

    /// Has the watchdog end the group if the host is killed. `false` means that this holds only after [`watchdog_started`].
    pub fn guard(&mut self, grace: Duration) -> bool {
        match &mut self.watchdog {
            Some(watchdog) => watchdog.guard(self.target.pid, grace),
            None => true,
        }
    }

    /// Resolves when the leader has exited, without reaping it. Cancel safe.
    pub async fn exited(&self) -> Status {
        match &self.waiter {
            Some(waiter) => waiter.exited(self.target.pid).await,
            None => Status::UNKNOWN,
        }
    }

    /// Asks the run's processes to end (SIGTERM), whether or not their input was open. Also continues stopped processes, which
    /// could not receive the signal. Returns true: they have been asked.
    pub async fn ask(&mut self, _input_was_open: bool) -> bool {
        self.look_around().await;
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        true
    }

    /// Kills the run's processes.
    pub async fn force(&mut self) {
        self.look_around().await;
        self.signal(Signal::KILL);
    }

    /// Cleans up after the leader's exit: has everything else of the run gone by `kill_at` plus the time a kill takes, then
    /// reaps the leader. On systems that show no marks the look is skipped if the run ended `by_itself` and left nobody that
    /// can be seen.
    pub async fn clear(mut self, by_itself: bool, kill_at: Instant) {
        let escapees = cfg!(target_os = "linux") || !by_itself || !self.known.is_empty() || self.signalable();
        let mut pause = Duration::from_millis(5);
        let mut asked = false;
        let mut killed_at = None;
        while self.someone_lives(escapees).await {
            let now = Instant::now();
            if now >= kill_at {
                self.signal(Signal::KILL);
                // The time is counted from the first kill, not from when it was due: on a busy machine that may be long ago,
                // and processes forked meanwhile would be left alone.
                if now >= *killed_at.get_or_insert(now) + GIVE_UP {
                    // These processes outlive SIGKILL: they sleep in the kernel.
                    break;
                }
            } else if !asked {
                asked = true;
                self.signal(Signal::TERM);
                self.signal(Signal::CONT);
            }
            let until_kill = kill_at.saturating_duration_since(now);
            sleep(if until_kill.is_zero() {
                pause
            } else {
                pause.min(until_kill)
            })
            .await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        // This must happen before the group's id can be reused.
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss().await;
        }
        self.reap();
    }

    fn signal(&self, signal: Signal) {
        // If nobody is left (ESRCH; EPERM on macOS, where only zombies are), that is as good as a success.
        let _ = kill_process_group(self.target.pid, signal);
        let group = self.target.group();
        // Many a CLI takes a second SIGTERM as "at once", so members of the group are not signalled one by one as well.
        let in_person = self
            .known
            .iter()
            .filter(|escapee| escapee.group != group || signal == Signal::KILL);
        in_person.for_each(|escapee| tree::signal(escapee, signal));
    }

    async fn look_around(&mut self) {
        if let Ok(table) = look().await {
            self.note(&table);
        }
    }

    /// Takes over what a look has found; returns whether a second look has to decide about some process.
    fn note(&mut self, table: &Table) -> bool {
        let found = table.descendants(self.target.group(), &self.known, &self.target.run);
        let is_open = !found.undecided.is_subset(&self.undecided);
        (self.known, self.undecided) = (found.living, found.undecided);
        is_open
    }

    /// Returns whether a process of the run besides the leader is alive, or may be. The table of processes is read only if
    /// `escapees` are to be found; a member of the group is found without it.
    async fn someone_lives(&mut self, escapees: bool) -> bool {
        let group = self.target.group();
        let seen = match escapees {
            true => look().await.map(Some),
            false => Ok(None),
        };
        // A process that can't be seen now may still be there.
        if seen.as_ref().is_err_and(proc::is_exhausted) {
            return true;
        }
        if let Ok(Some(table)) = seen {
            let is_open = self.note(&table);
            let in_group = match cfg!(target_os = "linux") {
                true => table.has_living(group),
                false => self.signalable(),
            };
            return in_group || !self.known.is_empty() || is_open;
        }
        // On Linux the leader's zombie counts among the processes that can be signalled. Elsewhere zombies don't count.
        self.signalable() && !matches!(blocking(move || Ok(tree::group_lives(group))).await, Ok(false))
    }

    fn signalable(&self) -> bool {
        test_kill_process_group(self.target.pid).is_ok()
    }

    /// Reaps the leader. If it still has not exited, a thread waits for it, and it stays registered until then.
    fn reap(&mut self) {
        let Some(registration) = self.registration.take() else {
            return;
        };
        let pid = self.target.pid;
        if registration.release(|| wait::reap(pid)) {
            return;
        }
        let thread = std::thread::Builder::new()
            .name("process-reap".into())
            .stack_size(64 * 1024);
        let spawned = thread.spawn(move || {
            wait::block_until_exit(pid);
            while !registration.release(|| wait::reap(pid)) {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        // If the system starts no thread, a zombie stays until the host exits.
        drop(spawned);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.registration.is_some() {
            kill_now(std::slice::from_ref(&self.target));
            self.known
                .iter()
                .for_each(|escapee| tree::signal(escapee, Signal::KILL));
            self.watchdog = None;
            self.reap();
        }
    }
}

/// Looks at the table of processes, one look at a time. A look that begins after it was asked for serves that request, so a
/// hundred runs that end together share two looks.
async fn look() -> io::Result<Arc<Table>> {
    static LAST: Mutex<Option<(Instant, Arc<Table>)>> = Mutex::const_new(None);
    let wished = Instant::now();
    let mut last = LAST.lock().await;
    if let Some((_, table)) = last.as_ref().filter(|(began, _)| *began >= wished) {
        return Ok(table.clone());
    }
    let began = Instant::now();
    let table = Arc::new(blocking(Table::look).await?);
    *last = Some((began, table.clone()));
    Ok(table)
}

/// Runs a blocking question to the system off the runtime, two at a time: a hundred runs that end together would otherwise take
/// a hundred threads.
async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    static TURNS: Semaphore = Semaphore::const_new(2);
    let _turn = TURNS.acquire().await.map_err(io::Error::other)?;
    tokio::task::spawn_blocking(ask).await?
}
