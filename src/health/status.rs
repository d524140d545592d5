//! The current state of this process ([`own`]), and that of this machine with the usage in run logs ([`of_machine`]).
//!
//! In: this process's own state, the states that other processes publish, the table of processes, and files of logs. Out: JSON for
//! `limits()` and for the `status` command. Everything but the first is foreign: it is shown, and no action depends on it. A log is read
//! line by line and never held in memory as a whole, and links are not followed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

use dfp_model::error::{Code, ProviderError};
use dfp_model::message::Usage;
use dfp_process::activity::{self, AllRuns, BudgetActivity, ProcessState, RateLimitWindow, Runs};
use dfp_process::resident_bytes;
use dfp_record::runlog::BEGINNING;
use dfp_record::runlog::spending::{Adder, Spending};

/// The provider that errors without one name.
const PACKAGE: &str = "deep-factor-providers";

/// The state of this process: `ProcessLimits` in index.d.ts. Reading memory costs about 10 µs per process.
pub fn own() -> Value {
    let now = activity::snapshot();
    let processes: Vec<Process> = now
        .processes
        .into_iter()
        .map(|process| Process {
            memory_bytes: resident_bytes(process.pid),
            descendants: None,
            pid: process.pid,
            provider: process.provider,
            engine: process.engine,
            state: process.state,
            started_at: process.started_at,
            conversations: process.conversations,
            usage: process.usage,
        })
        .collect();
    json!({
        "processWide": now.process_wide, "perBinary": now.per_binary, "processes": processes,
        "rateLimits": now.rate_limits, "budgets": now.budgets,
    })
}

/// The state of this machine for processes of this user, and the usage in the logs at `paths` (files, or folders of them) since
/// `since`, ms since the epoch.
///
/// # Errors
/// `NOT_FOUND`: a path doesn't exist. `INTERNAL`: the work was aborted.
pub async fn of_machine(paths: Vec<PathBuf>, since: u64) -> Result<Value, Box<ProviderError>> {
    let work = tokio::task::spawn_blocking(move || {
        let spent = add_up(&paths, since).map_err(|missing| {
            let reason = format!(
                "there are no run logs at {}: {}",
                missing.path.display(),
                missing.source
            );
            Box::new(refused(Code::NotFound, reason).with_hint("Name a run log, or a folder that holds some."))
        })?;
        Ok(whole(spent.as_ref()))
    });
    match work.await {
        Ok(done) => done,
        Err(error) => Err(Box::new(refused(Code::Internal, error.to_string()))),
    }
}

fn whole(spent: Option<&(Spending, Files)>) -> Value {
    let mut whole = json!({"machine": machine()});
    if let (Some((spending, files)), Some(whole)) = (spent, whole.as_object_mut()) {
        whole.insert("spending".to_owned(), json!(spending));
        whole.insert("files".to_owned(), json!(files));
    }
    whole
}

/// The state of other processes; `None` if the system doesn't show their environments: everywhere but on Linux.
fn machine() -> Option<Machine> {
    #[cfg(target_os = "linux")]
    return Some(machine::look());
    #[cfg(not(target_os = "linux"))]
    None
}

fn refused(code: Code, reason: String) -> ProviderError {
    ProviderError::new(PACKAGE, code, reason)
}

// The shown facts about processes: `ProcessLimits` and `Status` in index.d.ts.

/// A process that this package has started.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    pub pid: u32,
    pub provider: String,
    pub engine: String,
    pub state: ProcessState,
    pub started_at: u64,
    pub conversations: Vec<String>,
    /// The tokens of all answers in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Resident memory in bytes: the process's own and, seen from another program, that of all processes it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The number of running processes that it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descendants: Option<usize>,
}

/// A program that uses this package.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Program {
    pub pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    pub process_wide: AllRuns,
    pub per_binary: BTreeMap<String, Runs>,
    pub processes: Vec<Process>,
    pub rate_limits: Vec<RateLimitWindow>,
    pub budgets: Vec<BudgetActivity>,
    /// The addresses at which its gateways listen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
}

/// A process whose program has ended, or doesn't know it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Leftover {
    pub pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The program that has started it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
}

/// The state of other processes.
#[derive(Debug, Default, Serialize)]
struct Machine {
    pub hosts: Vec<Program>,
    pub leftovers: Vec<Leftover>,
}

/// Finds the programs of this user that use this package, by what they publish, and the processes with this package's mark. Linux only.
///
/// In: `/proc`. Out: a [`Machine`]. Other programs of this user have written what is read there, so its size is limited, it is checked,
/// and no process is signalled because of it.
#[cfg(target_os = "linux")]
mod machine {
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
    mod tests;
}

// The usage in run logs.

/// The longest line that is read, bytes. The longest recorded result is far shorter.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// The depth to which folders are searched.
const DEEPEST: usize = 4;

/// The most files in folders that are read.
const MOST_FILES: usize = 10_000;

/// The files that were looked at.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Files {
    pub read: usize,
    /// The number of files that were not read, because nothing was written to them since the given time.
    pub older: usize,
    /// The files that could not be read, each with the reason.
    pub unreadable: Vec<String>,
    /// There were more files than are read.
    pub truncated: bool,
}

/// A path that a person has named, and that doesn't exist.
#[derive(Debug)]
struct Missing {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Adds up the usage in the logs at `paths` since `since`, ms since the epoch; `None` if `paths` is empty.
fn add_up(paths: &[PathBuf], since: u64) -> Result<Option<(Spending, Files)>, Missing> {
    if paths.is_empty() {
        return Ok(None);
    }
    let mut files = Files::default();
    let mut adder = Adder::new(since);
    let begin = UNIX_EPOCH + Duration::from_millis(since);
    for path in paths {
        let missing = |source| Missing {
            path: path.clone(),
            source,
        };
        let found = fs::metadata(path).map_err(missing)?;
        let mut logs = Vec::new();
        match found.is_dir() {
            true => search(path, DEEPEST, &mut logs, &mut files),
            false => logs.push(path.clone()),
        }
        logs.sort();
        for log in logs {
            let modified = fs::metadata(&log).and_then(|found| found.modified());
            if modified.is_ok_and(|modified| modified < begin) {
                files.older += 1;
                continue;
            }
            match read(&log, &mut adder) {
                Ok(true) => files.read += 1,
                // A folder may have files of other kinds, which is no error.
                Ok(false) if found.is_dir() => {}
                Ok(false) => files.unreadable.push(format!("{}: it is not a run log", log.display())),
                Err(error) => files.unreadable.push(format!("{}: {error}", log.display())),
            }
        }
    }
    Ok(Some((adder.finish(), files)))
}

/// Finds the `.jsonl` files in `folder` and in the folders below it.
fn search(folder: &Path, depth: usize, logs: &mut Vec<PathBuf>, files: &mut Files) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return files.unreadable.push(format!("{}: {error}", folder.display())),
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            search(&path, depth - 1, logs, files);
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
            if logs.len() == MOST_FILES {
                files.truncated = true;
                return;
            }
            logs.push(path);
        }
    }
}

/// Adds up one file. Returns `false` if it is no run log.
fn read(path: &Path, adder: &mut Adder) -> io::Result<bool> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let beginning = BEGINNING.split(|byte| *byte == b',').next().unwrap_or(BEGINNING);
    if !reader.fill_buf()?.starts_with(beginning) {
        return Ok(false);
    }
    let mut line = Vec::new();
    loop {
        match next_line(&mut reader, &mut line)? {
            Next::Line => adder.line(&line),
            Next::TooLong => adder.unreadable_line(),
            Next::End => break,
        }
    }
    adder.end_of_file();
    Ok(true)
}

/// The result of reading a line.
enum Next {
    Line,
    TooLong,
    End,
}

/// Reads the next line into `line`, which never holds more than [`LONGEST_LINE`].
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Next> {
    line.clear();
    let mut is_too_long = false;
    let mut is_empty = true;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(match (is_empty, is_too_long) {
                (true, _) => Next::End,
                (_, true) => Next::TooLong,
                _ => Next::Line,
            });
        }
        is_empty = false;
        let end = memchr::memchr(b'\n', buffer);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        is_too_long |= line.len() + part.len() > LONGEST_LINE;
        if !is_too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(if is_too_long { Next::TooLong } else { Next::Line });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"format":"deep-factor-run","version":1,"runId":"r","provider":"claude","startedAt":1}"#;

    fn done(at: u64) -> String {
        format!(
            r#"{{"at":{at},"t":1,"run":"r","event":{{"type":"done","reply":{{"usage":{{"inputTokens":1,"outputTokens":2,"totalTokens":3}}}}}}}}"#
        )
    }

    #[test]
    fn folders_are_looked_through_and_old_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir_all(place("a/b")).unwrap();
        fs::write(place("one.jsonl"), format!("{HEADER}\n{}\n", done(2_000))).unwrap();
        // This log lacks its last line feed, because it is being written.
        fs::write(place("a/b/two.jsonl"), format!("{HEADER}\n{}", done(2_000))).unwrap();
        fs::write(place("a/other.jsonl"), "{\"no\": \"log\"}\n").unwrap();
        fs::write(place("a/notes.txt"), HEADER).unwrap();
        let old = File::create(place("old.jsonl")).unwrap();
        old.set_modified(UNIX_EPOCH + Duration::from_millis(500)).unwrap();
        let (spending, files) = add_up(&[folder.path().to_path_buf()], 1_000).unwrap().unwrap();
        let calls: Vec<_> = spending
            .spent
            .iter()
            .map(|spent| (spent.calls, spent.usage.total_tokens))
            .collect();
        assert_eq!(calls, [(2, 6)]);
        let expected = Files {
            read: 2,
            older: 1,
            unreadable: Vec::new(),
            truncated: false,
        };
        assert_eq!(files, expected);
    }

    #[test]
    fn what_is_named_and_no_log_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        fs::write(&file, "hello\n").unwrap();
        let (_, files) = add_up(std::slice::from_ref(&file), 0).unwrap().unwrap();
        assert_eq!(files.unreadable, [format!("{}: it is not a run log", file.display())]);
        assert!(add_up(&[folder.path().join("missing")], 0).is_err());
        assert!(add_up(&[], 0).unwrap().is_none());
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let long = LONGEST_LINE + 10;
        let mut reader = BufReader::new(io::Read::chain(
            io::Read::take(io::repeat(b'x'), long as u64),
            &b"\nshort\n"[..],
        ));
        let mut line = Vec::new();
        assert!(matches!(next_line(&mut reader, &mut line).unwrap(), Next::TooLong));
        assert!(matches!(next_line(&mut reader, &mut line).unwrap(), Next::Line));
        assert_eq!(line, b"short");
        assert!(matches!(next_line(&mut reader, &mut line).unwrap(), Next::End));
    }
}
