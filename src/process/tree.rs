//! Descent of processes: one look at the system's table of processes, and questions to it. Unix only.
//!
//! In: `/proc` on Linux (about 11 µs a process), `ps` elsewhere. Out: a [`Table`], which finds everything a run has started,
//! whichever session it moved to.
//!
//! A process is identified by its id and its start time together: an id alone may belong to another process a moment later.

use std::collections::HashSet;
use std::io;

use rustix::process::{Pid, Signal};

#[cfg(target_os = "linux")]
pub use linux::started;

/// All processes at one moment.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Proc>);

/// The processes of a run that one look found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The living processes without the leader.
    pub living: HashSet<Proc>,
    /// Processes whose environment was empty, not part of `living`: only a second look can tell whether they belong to the run.
    pub undecided: HashSet<Proc>,
}

impl Table {
    /// Looks at the table now. Takes about a millisecond for a hundred processes on Linux, some ten elsewhere; blocks.
    pub fn look() -> io::Result<Table> {
        #[cfg(target_os = "linux")]
        return linux::look().map(Table);
        #[cfg(not(target_os = "linux"))]
        return ps::look().map(Table);
    }

    fn find(&self, pid: i32) -> Option<&Proc> {
        self.0.iter().find(|p| p.pid == pid)
    }

    /// Returns whether a member of `group` is alive.
    pub fn has_living(&self, group: i32) -> bool {
        self.0.iter().any(|p| p.group == group && !p.zombie)
    }

    /// Finds the living processes of the run without its leader: its group, the leader's descendants, the `known` ones of an
    /// earlier look with their descendants, and those marked with `run`.
    ///
    /// The leader may be a zombie but must not have been waited for.
    pub fn descendants(&self, leader: i32, known: &HashSet<Proc>, run: &str) -> Found {
        self.descendants_by(leader, known, |process| mark(process, run))
    }

    /// Finds the run's processes, with `mark` as the look at an environment. Of processes older than the leader, only known ones
    /// and members of the group count.
    fn descendants_by(&self, leader: i32, known: &HashSet<Proc>, mark: impl Fn(&Proc) -> Mark) -> Found {
        let since = self.find(leader).map_or(0, |p| p.start);
        let same = |p: &Proc| known.iter().any(|k| k.pid == p.pid && k.start == p.start);
        let mut ours: HashSet<i32> = HashSet::from([leader]);
        let young = |p: &&Proc| p.start >= since;
        ours.extend(self.0.iter().filter(|p| p.group == leader || same(p)).map(|p| p.pid));
        let (mut marked, mut empty) = (HashSet::new(), HashSet::new());
        for process in self
            .0
            .iter()
            .filter(young)
            .filter(|p| !p.zombie && !ours.contains(&p.pid))
        {
            match mark(process) {
                Mark::Run => drop(marked.insert(process.pid)),
                Mark::Empty => drop(empty.insert(*process)),
                Mark::None => {}
            }
        }
        ours.extend(marked);
        // A process is usually listed after its parent, but ids wrap around: repeat until nothing is added.
        loop {
            let found: Vec<i32> = (self.0.iter().filter(young))
                .filter(|p| !ours.contains(&p.pid) && ours.contains(&p.parent))
                .map(|p| p.pid)
                .collect();
            if found.is_empty() {
                break;
            }
            ours.extend(found);
        }
        empty.retain(|process| !ours.contains(&process.pid));
        Found {
            living: (self.0.iter())
                .filter(|p| p.pid != leader && !p.zombie && ours.contains(&p.pid))
                .copied()
                .collect(),
            undecided: empty,
        }
    }
}

/// Returns whether a member of `group` is alive, not counting its dead leader. On Linux that is a small call per process
/// instead of reading a file, a fiftieth of the cost of a [`Table`]. Elsewhere `true`: the caller has seen that the group can
/// be signalled, which zombies can't be.
pub(super) fn group_lives(group: i32) -> bool {
    #[cfg(target_os = "linux")]
    return linux::group_lives(group);
    #[cfg(not(target_os = "linux"))]
    return {
        let _ = group;
        true
    };
}

fn mark(process: &Proc, run: &str) -> Mark {
    #[cfg(target_os = "linux")]
    return linux::mark(process, run);
    #[cfg(not(target_os = "linux"))]
    return {
        let _ = (process, run);
        Mark::None
    };
}

/// Sends a signal to `process` if its id still belongs to it. If it is gone, nothing happens.
pub(super) fn signal(process: &Proc, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    // A pidfd taken now refers to one process for ever; it only remains to check that it is the right one.
    #[cfg(target_os = "linux")]
    let sent = match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        Ok(fd) if linux::started(process.pid) == Some(process.start) => rustix::process::pidfd_send_signal(fd, signal),
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM)
            if linux::started(process.pid) == Some(process.start) =>
        {
            rustix::process::kill_process(pid, signal)
        }
        _ => Ok(()),
    };
    #[cfg(not(target_os = "linux"))]
    let sent = rustix::process::kill_process(pid, signal);
    // If the process is gone, or its id was reused, that is as good as a success.
    let _ = sent;
}

/// One process of the system's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Proc {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// Any number that grows with time and stays the same for a process's life: clock ticks since boot on Linux,
    /// a time of day folded into a number elsewhere.
    pub start: u64,
    /// True if the process is dead and only not waited for yet.
    pub zombie: bool,
}

/// The run mark that a process's environment has.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "elsewhere nobody's environment is shown")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The environment has the mark of the run in question.
    Run,
    /// The environment has no mark, or another run's.
    None,
    /// The environment is empty. It also looks empty in the middle of an `exec`, when the new environment is not in place yet
    /// and the parent already goes on, and maybe exits: such a process is nobody's child and in no known group.
    Empty,
}

/// Returns whether a look failed because the host has no room for another open file; a later look may succeed.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// The table of processes from `/proc`, about 11 µs each.
#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use super::super::env::RUN_VARIABLE;
    use super::{Mark, Proc, is_exhausted};

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
}

/// The table of processes from `ps`, the one source on every Unix that needs no unsafe call. On macOS its `lstart` tells processes
/// apart by the second, and environments can't be seen: a process that forked twice before the first look stays unknown there.
#[cfg(any(test, not(target_os = "linux")))]
mod ps {
    use std::io;

    use super::Proc;

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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(pid: i32, parent: i32, group: i32, start: u64) -> Proc {
        Proc {
            pid,
            parent,
            group,
            start,
            zombie: false,
        }
    }

    fn pids(found: &HashSet<Proc>) -> Vec<i32> {
        let mut pids: Vec<i32> = found.iter().map(|p| p.pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn descendants_are_found_wherever_they_went() {
        let big = i32::MAX - 10; // above every pid, so that no environment is there to be read
        let table = Table(vec![
            proc(big + 4, big + 1, big + 4, 105), // own session, below a member; listed before its parent
            proc(big, 1, big, 100),               // the leader
            proc(big + 1, big, big, 101),         // in the group
            proc(big + 2, 1, big + 2, 102),       // seen before, reparented since
            proc(big + 3, big + 2, big + 2, 103), // its child
            proc(big + 5, 1, big + 5, 90),        // somebody else's
            proc(big + 6, big + 1, big + 6, 99),  // older than the run: the parent's id was used again
            Proc {
                zombie: true,
                ..proc(big + 7, big, big + 7, 107)
            },
        ]);
        let known = HashSet::from([proc(big + 2, big, big + 2, 102), proc(big + 5, big, big + 5, 91)]);
        assert_eq!(
            pids(&table.descendants(big, &known, "run").living),
            [big + 1, big + 2, big + 3, big + 4]
        );
        assert!(table.has_living(big) && !table.has_living(big + 7));
    }

    /// A daemon in the middle of its `exec`, whose parent has ended: it is in no group of the run's, nobody's child, and
    /// without the mark.
    #[test]
    fn one_without_an_environment_is_undecided() {
        let (leader, daemon, marked) = (proc(10, 1, 10, 100), proc(12, 1, 11, 102), proc(13, 1, 13, 103));
        let (child, older) = (proc(14, 13, 13, 104), proc(5, 1, 5, 90));
        let dead = Proc {
            zombie: true,
            ..proc(15, 1, 15, 105)
        };
        let table = Table(vec![leader, daemon, marked, child, older, dead]);
        let found = table.descendants_by(10, &HashSet::new(), |process| match process.pid {
            13 => Mark::Run,
            _ => Mark::Empty,
        });
        let expected = Found {
            living: HashSet::from([marked, child]),
            undecided: HashSet::from([daemon]),
        };
        assert_eq!(found, expected);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_mark_is_read_from_the_environment() {
        use crate::RUN_VARIABLE;
        let with = |variable: Option<&str>| {
            let mut cat = std::process::Command::new("/bin/cat");
            cat.env_clear().env("OTHER", "1").stdin(std::process::Stdio::piped());
            cat.envs(variable.map(|run| (RUN_VARIABLE, run)));
            let mut cat = cat.spawn().unwrap();
            let process = proc(cat.id().cast_signed(), 1, 1, 1);
            // The start returns in the middle of the exec, when there is no environment yet.
            let found = std::iter::repeat_with(|| mark(&process, "r1")).find(|found| *found != Mark::Empty);
            drop(cat.stdin.take());
            cat.wait().unwrap();
            (found.unwrap(), mark(&process, "r1"))
        };
        assert_eq!(with(Some("r1")), (Mark::Run, Mark::None));
        assert_eq!(with(Some("r10")), (Mark::None, Mark::None));
        assert_eq!(with(None), (Mark::None, Mark::None));
        assert_eq!(mark(&proc(std::process::id().cast_signed(), 2, 0, 1), "r1"), Mark::None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stat_with_a_hostile_name() {
        let stat = b"42 (a) R 7 (b) S 10 20 20 0 -1 4194560 100 0 0 0 1 2 3 4 20 0 1 0 987654 1000 10 0";
        assert_eq!(linux::parse(42, stat), Some(proc(42, 10, 20, 987_654)));
        assert_eq!(linux::parse(42, b"42 (cut"), None);
    }

    #[test]
    fn ps_lines() {
        let parsed = ps::parse("  501     1   501 Ss   Mon Sep  1 12:34:56 2025").unwrap();
        assert_eq!(
            (parsed.pid, parsed.parent, parsed.group, parsed.zombie),
            (501, 1, 501, false)
        );
        let later = ps::parse("7 1 7 Z+ Wed Oct 1 00:00:01 2025").unwrap();
        assert!(later.start > parsed.start && later.zombie);
        assert_eq!(ps::parse("PID PPID"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_group_lives_as_long_as_a_member_that_is_no_zombie() {
        use std::os::unix::process::CommandExt;
        let mut cat = std::process::Command::new("/bin/cat");
        cat.process_group(0).stdin(std::process::Stdio::piped());
        let mut cat = cat.spawn().unwrap();
        let group = cat.id().cast_signed();
        assert!(group_lives(group));
        drop(cat.stdin.take());
        super::super::sys::block_until_exit(Pid::from_raw(group).unwrap());
        assert!(rustix::process::test_kill_process_group(Pid::from_raw(group).unwrap()).is_ok());
        assert!(!group_lives(group), "there is only a zombie, which can be signalled");
        cat.wait().unwrap();
        assert!(!group_lives(group));
    }

    #[test]
    fn this_process_is_in_every_table() {
        let own = std::process::id().cast_signed();
        let mut tables = vec![Table::look().unwrap()];
        if std::path::Path::new("/bin/ps").exists() {
            tables.push(Table(ps::look().unwrap()));
        }
        for table in tables {
            let found = table.find(own).expect("this process is listed");
            assert_eq!(found.group, rustix::process::getpgrp().as_raw_nonzero().get());
            assert!(table.has_living(found.group));
        }
    }
}
