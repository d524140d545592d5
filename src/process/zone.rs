//! The machine's time zone, in which CLIs tell times (`try again at 10:50 PM`).

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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// The program `date` asks the same system.
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
}
