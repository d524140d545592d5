//! Job objects: a process and all that it starts, ended as one, whatever they do. Windows only.
//!
//! In: a process that was started suspended. Out: a [`Job`], which ends with its last handle. This process holds the only one,
//! so the job ends when this process does, in whichever way.

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicAccountingInformation,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{OpenThread, ResumeThread, THREAD_SUSPEND_RESUME};

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
pub(super) fn resume(pid: u32) -> io::Result<()> {
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
