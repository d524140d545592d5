//! Ending a run whose host was killed. Unix only.
//!
//! In: a process group. Out: a tiny shell beside it which waits for the end of its input. The host holds the other end, so
//! the input ends when the host does, in whichever way: SIGKILL, an unhandled SIGINT or SIGTERM, a crash. Then the shell
//! has the group gone (SIGTERM, the grace, SIGKILL) and removes the run's private folder.
//!
//! It is needed where the process does not heed the end of its own input: claude in print form has read all of it by the
//! time it asks the API, and outlives its host until the answer comes (claude 2.1.197 and 2.1.330).
//!
//! The shell acts within a moment of the host's death and stops when the group is empty: an id of a group that became
//! somebody else's would have to do so within that moment. While the host lives, the leader is not reaped before the shell
//! is dismissed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

/// `$1` is the group, `$2` the grace in tenths of a second, `$3` a folder to remove, or nothing.
const SCRIPT: &str = r#"trap '' HUP INT TERM
read -r _
kill -s TERM -- "-$1" && {
  kill -s CONT -- "-$1"
  tenths=0
  while [ "$tenths" -lt "$2" ] && kill -s 0 -- "-$1"; do
    sleep 0.1
    tenths=$((tenths + 1))
  done
  kill -s KILL -- "-$1"
}
[ -z "$3" ] || rm -rf -- "$3""#;

/// The shell. Dropping it dismisses it.
#[derive(Debug)]
pub(super) struct Guardian(Child);

impl Guardian {
    /// A guardian for `group`; `None` where it can't be started: the run goes on without.
    pub fn new(group: Pid, grace: Duration, folder: Option<&Path>) -> Option<Guardian> {
        use std::os::unix::process::CommandExt;
        let tenths = grace.as_millis().div_ceil(100);
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "deep-factor-guardian"])
            .args([group.as_raw_nonzero().to_string(), tenths.to_string()])
            .arg(folder.unwrap_or(Path::new("")))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
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
