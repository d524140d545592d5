//! Starting a job object and ending it, on Windows.
//!
//! In: a [`Launch`]. Out: a [`Group`]. It has the same interface as the Unix file; the tests of whole runs hold both to the
//! same promises (`tests/integration/process`, `__tests__/windows`).
//!
//! The operating system imposes differences. There is no polite signal, so there is a grace only where closing stdin asks the
//! process to end, and it ends with the job's termination (exit code 1). Descendants can't leave the job. The exit is looked
//! for every 10 ms. A killed host's jobs end with their last handle, so there is no watchdog.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicAccountingInformation,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NO_WINDOW, CREATE_SUSPENDED, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME,
};

use super::fault::{Launch, Pipes, StartError};
use super::running::Status;
use super::start::{Registration, Waiting};

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
    resume(child.id())
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

/// The facts about a run that [`kill_now`] needs.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub pid: u32,
    pub leader: Arc<Mutex<Child>>,
    pub job: Arc<Job>,
}

impl Target {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn leader(&self) -> MutexGuard<'_, Child> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn terminate(&self) {
        // A job that is over can't be ended, and need not be.
        let _ = self.job.end();
    }
}

/// Terminates whole jobs at once, without a runtime.
pub(super) fn kill_now(targets: &[Target]) {
    targets.iter().for_each(Target::terminate);
}

// Job objects: a process and all that it starts, ended as one, whatever they do.
//
// In: a process that was started suspended. Out: a [`Job`], which ends with its last handle. This process holds the only one,
// so the job ends when this process does, in whichever way.

/// The exit code of processes that were ended, the same that Node's `kill` and the task manager set.
const ENDED: u32 = 1;

/// A job object. Dropping it ends the processes in it.
#[derive(Debug)]
pub(super) struct Job(OwnedHandle);

impl Job {
    /// Makes an empty job, whose handle no child inherits.
    pub fn new() -> io::Result<Job> {
        #[expect(unsafe_code, reason = "the standard library knows no job objects")]
        // SAFETY: both pointers may be null: default security, no name. A handle that is not null is ours alone.
        let job = unsafe {
            let handle = CreateJobObjectW(std::ptr::null(), std::ptr::null());
            if handle.is_null() {
                return Err(io::Error::last_os_error());
            }
            Job(OwnedHandle::from_raw_handle(handle))
        };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        #[expect(unsafe_code, reason = "the standard library knows no job objects")]
        // SAFETY: the handle is open, and the structure is the one of this class, with its size.
        let done = unsafe {
            SetInformationJobObject(
                job.0.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_u32::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
            )
        };
        check(done)?;
        Ok(job)
    }

    /// Puts a process into the job, and with it all that the process will start.
    pub fn take_in(&self, process: BorrowedHandle<'_>) -> io::Result<()> {
        #[expect(unsafe_code, reason = "the standard library knows no job objects")]
        // SAFETY: both handles are open.
        let done = unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process.as_raw_handle()) };
        check(done)
    }

    /// Ends everything in the job. An empty job can be ended as well.
    pub fn end(&self) -> io::Result<()> {
        #[expect(unsafe_code, reason = "the standard library knows no job objects")]
        // SAFETY: the handle is open.
        let done = unsafe { TerminateJobObject(self.0.as_raw_handle(), ENDED) };
        check(done)
    }

    /// The number of living processes in the job.
    pub fn living(&self) -> io::Result<u32> {
        let mut counts = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        #[expect(unsafe_code, reason = "the standard library knows no job objects")]
        // SAFETY: the handle is open, the structure is the one of this class, with its size, and its length need not be told.
        let done = unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut counts).cast(),
                size_of_u32::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>(),
                std::ptr::null_mut(),
            )
        };
        check(done).map(|()| counts.ActiveProcesses)
    }
}

/// Lets the process `pid`, which was started suspended, run. Its main thread is searched for, since the standard library does
/// not give out the thread's handle.
fn resume(pid: u32) -> io::Result<()> {
    let threads = threads_of(pid)?;
    if threads.is_empty() {
        return Err(io::Error::other("the process that was started has no thread"));
    }
    for thread in threads {
        #[expect(unsafe_code, reason = "the standard library can't let a process go on")]
        // SAFETY: the handle that is not null is ours alone, and open when it is used.
        let resumed = unsafe {
            let handle = OpenThread(THREAD_SUSPEND_RESUME, 0, thread);
            if handle.is_null() {
                return Err(io::Error::last_os_error());
            }
            let handle = OwnedHandle::from_raw_handle(handle);
            ResumeThread(handle.as_raw_handle())
        };
        if resumed == u32::MAX {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The ids of the threads of a process, from a snapshot of all threads of the system.
fn threads_of(pid: u32) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    let mut entry = THREADENTRY32 {
        dwSize: size_of_u32::<THREADENTRY32>(),
        ..THREADENTRY32::default()
    };
    #[expect(unsafe_code, reason = "the standard library lists no threads")]
    // SAFETY: the snapshot's handle is ours alone, and the entry has its size in it.
    unsafe {
        let snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
        if snapshot == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        let snapshot = OwnedHandle::from_raw_handle(snapshot);
        let mut more = Thread32First(snapshot.as_raw_handle(), &raw mut entry);
        while more != 0 {
            if entry.th32OwnerProcessID == pid {
                found.push(entry.th32ThreadID);
            }
            more = Thread32Next(snapshot.as_raw_handle(), &raw mut entry);
        }
    }
    Ok(found)
}

/// Turns the return value of a Windows call into a result: 0 means that it failed.
fn check(done: i32) -> io::Result<()> {
    match done {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "structures of some hundred bytes")]
fn size_of_u32<T>() -> u32 {
    size_of::<T>() as u32
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::AsHandle;
    use std::os::windows::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    const CREATE_SUSPENDED: u32 = 4;

    fn suspended() -> std::process::Child {
        // This program waits for input that never comes.
        Command::new("cmd.exe")
            .args(["/d", "/q", "/k"])
            .creation_flags(CREATE_SUSPENDED)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[test]
    fn what_is_in_a_job_ends_with_it() {
        let job = Job::new().unwrap();
        assert_eq!(job.living().unwrap(), 0);
        let mut child = suspended();
        job.take_in(child.as_handle()).unwrap();
        resume(child.id()).unwrap();
        assert_eq!((job.living().unwrap(), child.try_wait().unwrap()), (1, None));
        drop(job);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }

    #[test]
    fn a_job_that_is_ended_can_be_ended_again() {
        let job = Job::new().unwrap();
        let mut child = suspended();
        job.take_in(child.as_handle()).unwrap();
        job.end().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1));
        job.end().unwrap();
        assert_eq!(job.living().unwrap(), 0);
    }

    #[test]
    fn nobody_is_no_process() {
        assert_eq!(resume(u32::MAX).unwrap_err().kind(), io::ErrorKind::Other);
    }
}
