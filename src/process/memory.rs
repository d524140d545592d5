//! How much memory a process takes. Linux only; elsewhere nobody is asked, and nothing depends on the answer.

/// Resident memory of `pid`, bytes; `None` where it is unknown, or the process is gone.
#[cfg(target_os = "linux")]
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    resident_pages(&statm)?.checked_mul(rustix::param::page_size() as u64)
}

/// Resident memory of `pid`, bytes; `None` where it is unknown, or the process is gone.
#[cfg(not(target_os = "linux"))]
pub fn resident_bytes(_pid: u32) -> Option<u64> {
    None
}

/// The second figure of `/proc/<pid>/statm`.
#[cfg(target_os = "linux")]
fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_and_nobody_s() {
        let own = resident_bytes(std::process::id()).unwrap();
        assert!((1 << 20..1 << 40).contains(&own), "{own}");
        assert_eq!(resident_bytes(u32::MAX), None);
        assert_eq!(resident_pages("8000 250 3 1 0 9 0\n"), Some(250));
        assert_eq!(resident_pages("8000"), None);
    }
}
