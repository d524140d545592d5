//! Starting a process group and ending it, on Linux and macOS.
//!
//! In: a [`Launch`]. Out: a [`Group`]: the leader, its group, and the escapees it started in sessions of their own.
//!
//! The start stays on `posix_spawn`: a process group of its own, a working folder, an environment and pipes all fit
//! it. `pre_exec`, `setsid` and `PDEATHSIG` would make the standard library fork, which copies the page tables of a
//! host of gigabytes while its event loop stands still.
//!
//! Below are the waiting for a leader's exit, and the killing of whole runs at once.

use std::collections::HashSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, test_kill_process_group, waitid,
};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::{Instant, sleep};

use super::fault::{Launch, Pipes, StartError};
use super::running::Status;
use super::start::{Registration, Waiting};
use super::tree::{self, Proc, Table};

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
        if seen.as_ref().is_err_and(tree::is_exhausted) {
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
        if registration.release(|| reap(pid)) {
            return;
        }
        let thread = std::thread::Builder::new()
            .name("process-reap".into())
            .stack_size(64 * 1024);
        let spawned = thread.spawn(move || {
            block_until_exit(pid);
            while !registration.release(|| reap(pid)) {
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

/// The facts about a run that [`kill_now`] needs.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub pid: Pid,
    pub run: String,
}

impl Target {
    pub fn pid(&self) -> u32 {
        self.group().cast_unsigned()
    }

    /// The group's id, which is the leader's.
    pub fn group(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

/// Kills whole runs at once, without a runtime: their groups and, where the table of processes shows them, processes that left
/// the group. The leaders must not have been reaped.
pub(super) fn kill_now(targets: &[Target]) {
    if targets.is_empty() {
        return;
    }
    let mut known: Vec<HashSet<Proc>> = vec![HashSet::new(); targets.len()];
    // The second round finds processes that were forked during the first, and those whose environment was not there yet.
    for round in 0..3 {
        let table = Table::look().ok();
        let mut found = false;
        for (target, known) in targets.iter().zip(&mut known) {
            if let Some(table) = &table {
                let escapees = table.descendants(target.group(), known, &target.run);
                found |= !escapees.living.is_subset(known) || !escapees.undecided.is_empty();
                *known = escapees.living;
            }
            // If nobody is left, that is as good as a success.
            let _ = kill_process_group(target.pid, Signal::KILL);
            known.iter().for_each(|escapee| tree::signal(escapee, Signal::KILL));
        }
        if round > 0 && !found {
            return;
        }
    }
}

// Learning that a child has exited, without reaping it. Unix only.
//
// In: the child's id. Out: its [`Status`]. The zombie stays, so that neither its id nor its group's can be reused before the
// group has been dealt with.
//
// `SIGCHLD` and `waitpid(-1)` belong to the host (libuv) and are never touched. Where Linux has `pidfd_open`, the runtime's
// own poller waits; elsewhere (macOS, old kernels, some sandboxes) a small thread sleeps in `waitid`.

/// The means of waiting for one child.
#[derive(Debug)]
pub(super) enum Waiter {
    #[cfg(target_os = "linux")]
    Pidfd(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    Thread(watch::Receiver<bool>),
}

impl Waiter {
    /// Prepares to wait for `pid`, a child that no other code reaps. Needs a tokio runtime.
    pub fn new(pid: Pid, how: Waiting) -> io::Result<Waiter> {
        #[cfg(target_os = "linux")]
        if how == Waiting::Auto {
            use rustix::process::{PidfdFlags, pidfd_open};
            // Old kernels (before 5.3) and the filters of some sandboxes refuse this.
            if let Ok(fd) = pidfd_open(pid, PidfdFlags::empty())
                && let Some(fd) = watched(fd)
            {
                return Ok(Waiter::Pidfd(fd));
            }
        }
        let _ = how;
        let (exited, receiver) = watch::channel(false);
        std::thread::Builder::new()
            .name("process-wait".into())
            .stack_size(64 * 1024)
            .spawn(move || {
                block_until_exit(pid);
                exited.send_replace(true);
            })?;
        Ok(Waiter::Thread(receiver))
    }

    /// Resolves as soon as the child has exited; may be awaited again and again. Cancel safe.
    pub async fn exited(&self, pid: Pid) -> Status {
        match self {
            #[cfg(target_os = "linux")]
            Waiter::Pidfd(fd) => loop {
                if let Some(status) = peek(pid) {
                    return status;
                }
                match fd.readable().await {
                    Ok(mut ready) if peek(pid).is_none() => ready.clear_ready(),
                    Ok(_) => {}
                    // The poller is shutting down, and with it the task that asks.
                    Err(_) => tokio::time::sleep(RETRY).await,
                }
            },
            Waiter::Thread(exited) => {
                // An error means that the thread is gone, which happens only after the exit.
                let _ = exited.clone().wait_for(|exited| *exited).await;
                peek(pid).unwrap_or(Status::UNKNOWN)
            }
        }
    }
}

/// Registers `fd` with the runtime's poller.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "tokio has no safe constructor that is not deprecated")]
fn watched(fd: std::os::fd::OwnedFd) -> Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    // SAFETY: an OwnedFd names the same open descriptor for all of its life, and the AsyncFd owns it.
    unsafe { tokio::io::unix::AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) }.ok()
}

/// The pause between two looks where the system offers no way to wait.
const RETRY: Duration = Duration::from_millis(20);

/// The status of a child that has exited; `None` while it runs. Reaps nothing.
fn peek(pid: Pid) -> Option<Status> {
    match waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
    ) {
        Ok(Some(status)) => read(&status),
        Ok(None) | Err(Errno::INTR) => None,
        // ECHILD: the host reaped the child (`waitpid(-1)`, or SIGCHLD ignored). It has exited; its status is lost.
        Err(_) => Some(Status::UNKNOWN),
    }
}

fn read(status: &WaitIdStatus) -> Option<Status> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Status {
            code: Some(code),
            signal: None,
        }),
        (None, Some(signal)) => Some(Status {
            code: None,
            signal: Some(signal),
        }),
        // macOS 26 answers WEXITED for a child that only stopped.
        (None, None) => None,
    }
}

/// Sleeps until the child has exited; reaps nothing.
pub(super) fn block_until_exit(pid: Pid) {
    loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) if read(&status).is_some() => return,
            Ok(_) => std::thread::sleep(RETRY),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Reaps the child if it has exited; returns whether it is reaped now.
pub(super) fn reap(pid: Pid) -> bool {
    match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
        Ok(Some(_)) => true,
        Ok(None) | Err(Errno::INTR) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn pid(child: &std::process::Child) -> Pid {
        Pid::from_raw(child.id().cast_signed()).unwrap()
    }

    // The test's `reap` waits for it.
    #[expect(clippy::zombie_processes)]
    async fn both_ways(script: &str, expected: Status) {
        for how in [Waiting::Auto, Waiting::Thread] {
            let mut child = Command::new("/bin/sh")
                .args(["-c", script])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let waiter = Waiter::new(pid(&child), how).unwrap();
            assert_eq!(peek(pid(&child)), None, "it waits for its stdin");
            drop(child.stdin.take());
            assert_eq!(waiter.exited(pid(&child)).await, expected);
            assert_eq!(waiter.exited(pid(&child)).await, expected, "asked twice");
            assert_eq!(peek(pid(&child)), Some(expected), "not reaped");
            assert!(reap(pid(&child)));
            assert_eq!(peek(pid(&child)), Some(Status::UNKNOWN), "reaped");
        }
    }

    #[tokio::test]
    async fn exit_codes() {
        both_ways(
            "read x; exit 7",
            Status {
                code: Some(7),
                signal: None,
            },
        )
        .await;
    }

    #[tokio::test]
    async fn signals() {
        both_ways(
            "read x; kill -9 $$",
            Status {
                code: None,
                signal: Some(9),
            },
        )
        .await;
    }
}
