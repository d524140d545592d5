//! Finds the programs of this user that use this package, by what they publish, and the processes with this package's mark. Linux
//! only.
//!
//! In: `/proc`. Out: a [`Machine`]. Other programs of this user have written what is read there, so its size is limited, it is
//! checked, and no process is signalled because of it.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Leftover, Machine, Process, Program};
use dfp_process::activity::{PUBLISHED_NAME, Snapshot};
use dfp_process::{OWNER_VARIABLE, RUN_VARIABLE, resident_bytes, started};

/// The most bytes of a published status. A longer one is ignored.
const LONGEST: u64 = 1024 * 1024;

/// The longest environment that is searched, bytes; the kernel's own limit is close to it.
const LONGEST_ENVIRONMENT: u64 = 4 * 1024 * 1024;

/// How often a status is read again while it is being written, and the pause in between.
const READS: usize = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// A process that is marked as one of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marked {
    pid: u32,
    run: String,
    owner: Option<Owner>,
}

/// The program that started a process, as the mark names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    pid: u32,
    start: u64,
    engine: String,
    provider: String,
}

/// Looks at all processes of this user.
pub(super) fn look() -> Machine {
    let mut hosts = Vec::new();
    let mut marked = Vec::new();
    for pid in own_processes() {
        hosts.extend(published_by(pid).into_iter().map(|snapshot| (pid, snapshot)));
        marked.extend(mark_of(pid));
    }
    put_together(hosts, &marked, is_alive)
}

/// Assigns marked processes to programs. `is_alive` says whether the program that a mark names still exists.
fn put_together(hosts: Vec<(u32, Snapshot)>, marked: &[Marked], is_alive: impl Fn(&Owner) -> bool) -> Machine {
    let mut members: HashMap<&str, Vec<u32>> = HashMap::new();
    for process in marked {
        members.entry(&process.run).or_default().push(process.pid);
    }
    let mut hosts: Vec<Program> = hosts
        .into_iter()
        .map(|(pid, snapshot)| {
            let processes = snapshot.processes.into_iter().map(|process| {
                // The run's processes are removed from `members`, so that the rest has no program.
                let all = members.remove(process.run.as_str()).unwrap_or_default();
                let others = all.iter().filter(|member| **member != process.pid);
                let known = std::iter::once(&process.pid).chain(others.clone());
                let memory: u64 = known.filter_map(|member| resident_bytes(*member)).sum();
                Process {
                    descendants: Some(others.count()),
                    memory_bytes: Some(memory).filter(|bytes| *bytes > 0),
                    pid: process.pid,
                    provider: process.provider,
                    engine: process.engine,
                    state: process.state,
                    started_at: process.started_at,
                    conversations: process.conversations,
                    usage: process.usage,
                }
            });
            Program {
                processes: processes.collect(),
                pid,
                memory_bytes: resident_bytes(pid),
                process_wide: snapshot.process_wide,
                per_binary: snapshot.per_binary,
                rate_limits: snapshot.rate_limits,
                budgets: snapshot.budgets,
                gateways: snapshot.gateways,
            }
        })
        .collect();
    hosts.sort_by_key(|host| host.pid);
    let left = |process: &&Marked| {
        members.contains_key(process.run.as_str()) && !process.owner.as_ref().is_some_and(&is_alive)
    };
    let leftovers = marked.iter().filter(left).map(|process| Leftover {
        pid: process.pid,
        provider: process.owner.as_ref().map(|owner| owner.provider.clone()),
        engine: process.owner.as_ref().map(|owner| owner.engine.clone()),
        memory_bytes: resident_bytes(process.pid),
        owner: process.owner.as_ref().map(|owner| owner.pid),
    });
    let mut leftovers: Vec<Leftover> = leftovers.collect();
    leftovers.sort_by_key(|process| process.pid);
    Machine { hosts, leftovers }
}

/// The ids of all processes of this user.
fn own_processes() -> Vec<u32> {
    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            (entry.metadata().ok()?.uid() == user).then_some(pid)
        })
        .collect()
}

/// The status that a process publishes: several if it has loaded several copies of this package.
fn published_by(pid: u32) -> Vec<Snapshot> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let name = format!("/memfd:{}", PUBLISHED_NAME);
    files
        .flatten()
        .map(|file| file.path())
        .filter(|file| fs::read_link(file).is_ok_and(|target| target.to_string_lossy().starts_with(&name)))
        .filter_map(|file| snapshot_in(&file))
        .collect()
}

/// Reads a published status. A status that is half written can't be parsed, and is read again.
fn snapshot_in(file: &PathBuf) -> Option<Snapshot> {
    for _ in 0..READS {
        let text = fs::File::open(file).and_then(|file| {
            let mut text = Vec::new();
            file.take(LONGEST).read_to_end(&mut text)?;
            Ok(text)
        });
        let line = text.ok()?;
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        match serde_json::from_slice::<Snapshot>(line) {
            Ok(snapshot) => return Some(shown(snapshot)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    None
}

/// The snapshot with all its texts made visible. Ids come from a CLI and paths from a person, and an odd one must not hide the
/// program.
fn shown(mut snapshot: Snapshot) -> Snapshot {
    for process in &mut snapshot.processes {
        let texts = [&mut process.provider, &mut process.engine, &mut process.run];
        texts
            .into_iter()
            .chain(&mut process.conversations)
            .for_each(make_visible);
    }
    for limit in &mut snapshot.rate_limits {
        let texts = [&mut limit.provider, &mut limit.status];
        let texts = texts.into_iter().chain(&mut limit.login);
        texts.chain(&mut limit.limit_type).for_each(make_visible);
    }
    for budget in &mut snapshot.budgets {
        make_visible(&mut budget.provider);
        budget.store.as_mut().map(make_visible);
    }
    snapshot.gateways.iter_mut().for_each(make_visible);
    let binaries = std::mem::take(&mut snapshot.per_binary);
    snapshot.per_binary = binaries
        .into_iter()
        .map(|(mut binary, load)| {
            make_visible(&mut binary);
            (binary, load)
        })
        .collect();
    snapshot
}

/// The most characters of a text that are shown.
const SHOWN: usize = 4096;

/// Replaces control characters and cuts the text, if it can't be shown as it is.
fn make_visible(text: &mut String) {
    if !is_shown(text) {
        let visible = |char: char| {
            if char.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                char
            }
        };
        *text = text.chars().take(SHOWN).map(visible).collect();
    }
}

fn is_shown(text: &str) -> bool {
    text.len() <= SHOWN && !text.contains(char::is_control)
}

/// The mark in the environment with which the process was started.
fn mark_of(pid: u32) -> Option<Marked> {
    let mut environment = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(LONGEST_ENVIRONMENT).read_to_end(&mut environment).ok()?;
    marked(pid, &environment)
}

/// The mark in `environment`, the variables of process `pid`, if there is one.
fn marked(pid: u32, environment: &[u8]) -> Option<Marked> {
    let value = |name: &str| {
        let found = environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        std::str::from_utf8(found).ok()
    };
    let run = value(RUN_VARIABLE).filter(|run| !run.is_empty() && is_shown(run))?;
    Some(Marked {
        pid,
        run: run.to_owned(),
        owner: value(OWNER_VARIABLE).and_then(owner),
    })
}

/// Reads the mark `<pid>:<start>:<engine>:<provider>`.
fn owner(text: &str) -> Option<Owner> {
    let mut parts = text.splitn(4, ':');
    let (pid, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (engine, provider) = (parts.next()?, parts.next()?);
    (text.len() <= 256 && is_shown(text)).then(|| Owner {
        pid,
        start,
        engine: engine.to_owned(),
        provider: provider.to_owned(),
    })
}

/// `true` if the process with that id is still the one that was started then.
fn is_alive(owner: &Owner) -> bool {
    let start = i32::try_from(owner.pid).ok().and_then(started);
    start.is_some_and(|start| owner.start == 0 || start == owner.start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use dfp_process::activity::{AllRuns, ProcessActivity, ProcessState, Runs};

    const DEAD: u32 = u32::MAX - 7;

    fn environment(entries: &[&str]) -> Vec<u8> {
        entries.join("\0").into_bytes()
    }

    fn process(pid: u32, run: &str) -> ProcessActivity {
        ProcessActivity {
            pid,
            provider: "claude".to_owned(),
            engine: "live".to_owned(),
            state: ProcessState::Resting,
            started_at: 5,
            run: run.to_owned(),
            conversations: vec!["c".to_owned()],
            usage: None,
        }
    }

    fn of(run: &str, pid: u32, owner: Option<&str>) -> Marked {
        Marked {
            pid,
            run: run.to_owned(),
            owner: owner.and_then(super::owner),
        }
    }

    #[test]
    fn what_belongs_to_a_process_is_its_own_and_the_rest_is_left_over() {
        let snapshot = Snapshot {
            process_wide: AllRuns {
                limit: 4,
                running: 1,
                waiting: 2,
            },
            per_binary: Default::default(),
            processes: vec![process(DEAD, "run-1")],
            rate_limits: Vec::new(),
            budgets: Vec::new(),
            gateways: Vec::new(),
        };
        let marks = [
            of("run-1", DEAD, Some("10:7:live:claude")),
            of("run-1", DEAD + 1, Some("10:7:live:claude")),
            // The program exists; it is about to end this process, or has not published it yet.
            of("run-2", DEAD + 2, Some("10:7:print:codex")),
            of("run-3", DEAD + 3, Some("11:7:print:codex")),
            of("run-4", DEAD + 4, None),
        ];
        let machine = put_together(vec![(10, snapshot)], &marks, |owner| owner.pid == 10);
        let seen: Vec<_> = machine.hosts[0]
            .processes
            .iter()
            .map(|p| (p.pid, p.descendants))
            .collect();
        assert_eq!(seen, [(DEAD, Some(1))]);
        let left: Vec<_> = machine
            .leftovers
            .iter()
            .map(|one| (one.pid, one.provider.as_deref(), one.owner))
            .collect();
        assert_eq!(left, [(DEAD + 3, Some("codex"), Some(11)), (DEAD + 4, None, None)]);
    }

    #[test]
    fn an_owner_whose_id_is_somebody_elses_is_gone() {
        let id = std::process::id();
        let start = started(i32::try_from(id).unwrap()).unwrap();
        let owner = |start: u64| owner(&format!("{id}:{start}:live:claude")).unwrap();
        assert!(is_alive(&owner(start)));
        assert!(is_alive(&owner(0)));
        assert!(!is_alive(&owner(start + 1)));
    }

    #[test]
    fn marks_are_read_and_what_is_none_is_not() {
        let run = "DEEP_FACTOR_RUN=00ab-1";
        let owner = "DEEP_FACTOR_OWNER=7:12345:print:my:own";
        let read = marked(3, &environment(&["A=b", run, owner])).unwrap();
        let expected = Marked {
            pid: 3,
            run: "00ab-1".to_owned(),
            owner: Some(Owner {
                pid: 7,
                start: 12345,
                engine: "print".to_owned(),
                provider: "my:own".to_owned(),
            }),
        };
        assert_eq!(read, expected);
        assert_eq!(marked(3, &environment(&["A=b", owner])), None);
        assert_eq!(marked(3, &environment(&["XDEEP_FACTOR_RUN=1"])), None);
        for foreign in [
            "",
            "7",
            "x:1:print:claude",
            "7:1:print",
            "7:-1:print:claude",
            "7:1:a\u{1b}[2J:claude",
        ] {
            let entry = format!("DEEP_FACTOR_OWNER={foreign}");
            let read = marked(3, &environment(&[run, &entry])).unwrap();
            assert_eq!(read.owner, None, "{foreign:?}");
        }
    }

    #[test]
    fn odd_texts_hide_no_program() {
        let one = |conversation: &str, provider: &str, binary: &str| {
            let mut process = process(DEAD, "run-1");
            process.conversations = vec![conversation.to_owned()];
            process.provider = provider.to_owned();
            let all = AllRuns {
                limit: 4,
                running: 0,
                waiting: 0,
            };
            Snapshot {
                process_wide: all,
                per_binary: [(binary.to_owned(), Runs { running: 1, waiting: 1 })].into(),
                processes: vec![process],
                rate_limits: Vec::new(),
                budgets: Vec::new(),
                gateways: Vec::new(),
            }
        };
        let odd = one("a\u{1b}]0;b\u{7}\u{9b}c", &"x".repeat(5_000), "/bin/a\nb");
        let seen = one("a\u{fffd}]0;b\u{fffd}\u{fffd}c", &"x".repeat(4_096), "/bin/a\u{fffd}b");
        assert_eq!(shown(odd), seen);
        assert_eq!(shown(seen.clone()), seen);
    }

    proptest! {
        #[test]
        fn no_environment_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut environment = b"DEEP_FACTOR_RUN=r\0DEEP_FACTOR_OWNER=".to_vec();
            environment.extend(bytes);
            if let Some(Marked { owner: Some(owner), .. }) = marked(1, &environment) {
                prop_assert!(is_shown(&owner.provider) && is_shown(&owner.engine));
            }
        }
    }
}
