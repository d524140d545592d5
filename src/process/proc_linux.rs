//! Reading the table of processes from `/proc`, about 11 µs each. Linux only.

use std::io;

use super::env::RUN_VARIABLE;
use super::tree::{Mark, Proc, is_exhausted};

/// All processes of the system.
pub fn look() -> io::Result<Vec<Proc>> {
    let mut table = Vec::with_capacity(256);
    let mut buffer = Vec::with_capacity(1024);
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(pid) = pid {
            table.extend(read(pid, &mut buffer)?);
        }
    }
    Ok(table)
}

/// Returns whether a member of `group` is alive; `true` where it is unknown.
pub fn group_lives(group: i32) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return true;
    };
    let mut buffer = Vec::with_capacity(1024);
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| group_of(*pid) == Some(group))
        .any(|pid| read(pid, &mut buffer).is_ok_and(|member| member.is_some_and(|member| !member.zombie)))
}

/// The group of a process, if the process exists; 0 for the kernel's own.
#[expect(
    unsafe_code,
    reason = "rustix takes every group's id for nonzero, and panics at the kernel's"
)]
fn group_of(pid: i32) -> Option<i32> {
    // SAFETY: numbers in, a number out.
    let group = unsafe { libc::getpgid(pid) };
    (group >= 0).then_some(group)
}

/// The start time of a process, in clock ticks since boot, if the process exists.
pub fn started(pid: i32) -> Option<u64> {
    read(pid, &mut Vec::new()).ok()?.map(|p| p.start)
}

/// Reads one process; `None` if it has gone since it was listed.
///
/// # Errors
/// Fails if this process can open no more files: a table without the unreadable processes would claim that they are gone.
fn read(pid: i32, buffer: &mut Vec<u8>) -> io::Result<Option<Proc>> {
    use std::io::Read;
    buffer.clear();
    let read = std::fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read_to_end(buffer));
    match read {
        Ok(_) => Ok(parse(pid, buffer)),
        Err(error) if is_exhausted(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Parses `/proc/<pid>/stat` as in proc(5): `pid (name) state ppid pgrp …`, the 22nd field is the start time. The name may hold
/// anything.
pub fn parse(pid: i32, stat: &[u8]) -> Option<Proc> {
    let after_name = memchr::memrchr(b')', stat)? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let start = fields.nth(16)?.parse().ok()?;
    Some(Proc {
        pid,
        parent,
        group,
        start,
        zombie: matches!(state, "Z" | "X" | "x"),
    })
}

/// The parent of the kernel's threads, which have no environment.
const KTHREADD: i32 = 2;

/// The mark that `process` has, as seen from the run `run`.
pub fn mark(process: &Proc, run: &str) -> Mark {
    if process.parent == KTHREADD {
        return Mark::None;
    }
    let environ = match std::fs::read(format!("/proc/{}/environ", process.pid)) {
        Ok(environ) if environ.is_empty() => return Mark::Empty,
        Ok(environ) => environ,
        Err(error) if is_exhausted(&error) => return Mark::Empty,
        // Other users' environments can't be read, but no process of ours runs as another user.
        Err(_) => return Mark::None,
    };
    let is_marked = environ.split(|&b| b == 0).any(|entry| {
        let value = entry
            .strip_prefix(RUN_VARIABLE.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="));
        value == Some(run.as_bytes())
    });
    if is_marked { Mark::Run } else { Mark::None }
}
