//! What the operating system knows of this machine and its user: memory, the time zone, and the profile's folder.

// Memory: Linux only; elsewhere it is unknown, and nothing depends on it.

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

// The machine's time zone, in which CLIs tell times (`try again at 10:50 PM`).

/// Minutes by which local time is east of UTC at `at_ms`, ms since the epoch. `None` where it is unknown: on Windows, where
/// finding it takes a call that this package has not tried.
#[cfg(unix)]
#[expect(unsafe_code, reason = "neither the standard library nor rustix knows of time zones")]
pub fn local_offset_min(at_ms: u64) -> Option<i32> {
    let at = libc::time_t::try_from(at_ms / 1000).ok()?;
    // SAFETY: all of a `tm` may be zero (a null zone included), and both pointers are to values of this function.
    let local = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        (!libc::localtime_r(&raw const at, &raw mut local).is_null()).then_some(local)
    }?;
    i32::try_from(local.tm_gmtoff / 60).ok()
}

/// Always `None`: the offset is not known here.
#[cfg(not(unix))]
pub fn local_offset_min(_at_ms: u64) -> Option<i32> {
    None
}

// The user's profile folder, as Windows reports it.

/// The folder of the user's profile, whatever the variable `USERPROFILE` says.
#[cfg(windows)]
pub fn profile_folder() -> Option<std::path::PathBuf> {
    use std::ffi::OsString;
    use std::os::windows::ffi::OsStringExt;

    use windows_sys::Win32::System::Com::CoTaskMemFree;
    use windows_sys::Win32::UI::Shell::{FOLDERID_Profile, KF_FLAG_DONT_VERIFY, SHGetKnownFolderPath};

    let mut text = std::ptr::null_mut();
    let which = FOLDERID_Profile;
    #[expect(unsafe_code, reason = "the standard library takes USERPROFILE first")]
    // SAFETY: no token is the process's own; what comes back is a text that ends with a zero, or null, and is the caller's to free.
    unsafe {
        let result = SHGetKnownFolderPath(
            &raw const which,
            KF_FLAG_DONT_VERIFY.cast_unsigned(),
            std::ptr::null_mut(),
            &raw mut text,
        );
        let found = (result == 0 && !text.is_null()).then(|| {
            let length = (0..).take_while(|&at| *text.add(at) != 0).count();
            OsString::from_wide(std::slice::from_raw_parts(text, length)).into()
        });
        CoTaskMemFree(text.cast());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_its_own_and_nobody_s() {
        let own = resident_bytes(std::process::id()).unwrap();
        assert!((1 << 20..1 << 40).contains(&own), "{own}");
        assert_eq!(resident_bytes(u32::MAX), None);
        assert_eq!(resident_pages("8000 250 3 1 0 9 0\n"), Some(250));
        assert_eq!(resident_pages("8000"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_how_much_the_machine_has() {
        assert!(machine_bytes().unwrap() >= resident_bytes(std::process::id()).unwrap());
        assert_eq!(total_bytes("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
    }

    /// The program `date` asks the same system.
    #[cfg(unix)]
    #[test]
    fn it_is_the_offset_of_date() {
        let date = std::process::Command::new("date")
            .args(["-d", "@1795294800", "+%z"])
            .output();
        let Some(output) = date.ok().filter(|date| date.status.success()) else {
            return;
        };
        let offset = String::from_utf8(output.stdout).unwrap();
        let number: i32 = offset.trim().parse().unwrap();
        assert_eq!(
            local_offset_min(1_795_294_800_000),
            Some(number / 100 * 60 + number % 100)
        );
    }

    #[cfg(windows)]
    #[test]
    fn there_is_a_profile_folder() {
        assert!(profile_folder().is_some_and(|folder| folder.is_absolute()));
    }
}
