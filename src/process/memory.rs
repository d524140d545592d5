//! The memory that a process takes. Linux only; elsewhere it is unknown, and nothing depends on it.

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

/// The memory of this machine, bytes, or of its container if that is limited to less; `None` where it is unknown.
#[cfg(target_os = "linux")]
pub fn machine_bytes() -> Option<u64> {
    let machine = total_bytes(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    // The limit of the control group at the root of what this process sees: a container's limit.
    let own = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let own = own.and_then(|bytes| bytes.trim().parse().ok());
    Some(own.map_or(machine, |own: u64| own.min(machine)))
}

/// The memory of this machine, bytes; `None` where it is unknown.
#[cfg(not(target_os = "linux"))]
pub fn machine_bytes() -> Option<u64> {
    None
}

/// `MemTotal` of `/proc/meminfo`.
#[cfg(target_os = "linux")]
fn total_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
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

    #[test]
    fn reads_how_much_the_machine_has() {
        assert!(machine_bytes().unwrap() >= resident_bytes(std::process::id()).unwrap());
        assert_eq!(total_bytes("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
    }
}
