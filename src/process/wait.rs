//! Learning that a child has exited, without reaping it. Unix only.
//!
//! In: the child's id. Out: its [`Status`]. The zombie stays, so that neither its id nor its group's can be reused before the
//! group has been dealt with.
//!
//! `SIGCHLD` and `waitpid(-1)` belong to the host (libuv) and are never touched. Where Linux has `pidfd_open`, the runtime's
//! own poller waits; elsewhere (macOS, old kernels, some sandboxes) a small thread sleeps in `waitid`.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::sync::watch;

use super::spec::Waiting;
use super::status::Status;

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
pub(super) fn peek(pid: Pid) -> Option<Status> {
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
