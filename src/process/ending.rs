//! A look at whether a process is about to exit, before the system reports it. Linux only; elsewhere its exit is waited for.

/// Returns whether `pid` is gone, is exiting, or has a SIGKILL pending that it has not died of yet.
#[cfg(target_os = "linux")]
pub fn is_ending(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => is_dying(&status),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Always false: this system has no cheap way to tell.
#[cfg(not(target_os = "linux"))]
pub fn is_ending(_pid: u32) -> bool {
    false
}

/// Returns whether the text of `/proc/<pid>/status` shows a dying process.
#[cfg(target_os = "linux")]
fn is_dying(status: &str) -> bool {
    /// SIGKILL is signal 9.
    const KILLED: u64 = 1 << 8;
    status.lines().any(|line| match line.split_once(":\t") {
        Some(("State", state)) => state.starts_with(['Z', 'X']),
        Some(("SigPnd" | "ShdPnd", pending)) => {
            u64::from_str_radix(pending.trim(), 16).is_ok_and(|pending| pending & KILLED != 0)
        }
        _ => false,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn sees_the_dead_the_dying_and_the_living() {
        assert!(!is_ending(std::process::id()));
        assert!(is_ending(u32::MAX));
        let status = |state: &str, pending: &str| {
            format!("Name:\tnode\nState:\t{state}\nSigPnd:\t0000000000000000\nShdPnd:\t{pending}\n")
        };
        assert!(!is_dying(&status("S (sleeping)", "0000000000000000")));
        assert!(!is_dying(&status("R (running)", "0000000000004000")));
        assert!(is_dying(&status("S (sleeping)", "0000000000000100")));
        assert!(is_dying(&status("Z (zombie)", "0000000000000000")));
    }
}
