//! Reading the table of processes from `ps`, the one source on every Unix that needs no unsafe call. On macOS its `lstart`
//! tells processes apart by the second, and environments can't be seen: a process that forked twice before the first look stays
//! unknown there.

use std::io;

use super::tree::Proc;

/// All processes of the system.
pub fn look() -> io::Result<Vec<Proc>> {
    let ps = std::process::Command::new("/bin/ps")
        .args(["-A", "-o", "pid=,ppid=,pgid=,stat=,lstart="])
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(std::process::Stdio::null())
        .output()?;
    Ok(String::from_utf8_lossy(&ps.stdout).lines().filter_map(parse).collect())
}

/// Parses a line of `ps`: `  501     1   501 Ss   Mon Sep  1 12:34:56 2025`
pub fn parse(line: &str) -> Option<Proc> {
    let mut fields = line.split_ascii_whitespace();
    let pid = fields.next()?.parse().ok()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let zombie = fields.next()?.starts_with('Z');
    let (_weekday, month, day) = (fields.next()?, fields.next()?, fields.next()?);
    let (time, year) = (fields.next()?, fields.next()?);
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(month)? as u64 / 3;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let clock = time
        .split(':')
        .try_fold(0, |sum, part| Some(sum * 60 + part.parse::<u64>().ok()?))?;
    // This is not seconds since the epoch, but in the same order.
    let start = ((year * 12 + month) * 31 + day) * 86_400 + clock;
    Some(Proc {
        pid,
        parent,
        group,
        start,
        zombie,
    })
}
