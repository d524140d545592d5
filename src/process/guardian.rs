//! Ending a run whose host was killed. Unix only.
//!
//! In: a process group. Out: a tiny shell in that group which waits for the end of its input. The host holds the other end,
//! so the input ends when the host does, in whichever way: SIGKILL, an unhandled SIGINT or SIGTERM, a crash. Then the
//! shell has its own group gone: SIGTERM, the grace, SIGKILL. Being a member, it can't hit anybody else's.
//!
//! It is needed where the process does not heed the end of its own input: claude in print form has read all of it by the
//! time it asks the API, and outlives its host until the answer comes (claude 2.1.197 and 2.1.330).

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

/// `$1` is the grace in seconds. The signals are ignored because the group is asked with them.
const SCRIPT: &str = "trap '' HUP INT TERM; read -r _; kill -TERM 0; kill -CONT 0; sleep \"$1\"; kill -KILL 0";

/// The shell. Dropping it dismisses it.
#[derive(Debug)]
pub(super) struct Guardian(Child);

impl Guardian {
    /// A guardian for `group`; `None` where it can't be started: the run goes on without.
    pub fn new(group: Pid, grace: Duration) -> Option<Guardian> {
        use std::os::unix::process::CommandExt;
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "deep-factor-guardian", &seconds.to_string()])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(group.as_raw_nonzero().get())
            .spawn();
        child
            .map(Guardian)
            .map_err(|error| tracing::debug!(%error, "no guardian"))
            .ok()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // Not reaped yet, so the id is its own. SIGKILL can't be ignored, so the wait is short.
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            tracing::debug!(%error, "the guardian is gone already");
        }
    }
}
