//! The store of a budget: a file in which several processes count together.
//!
//! In: a path, and a change of a window. Out: the changed file. A process has the file alone while it changes it, by the same lock
//! of the operating system as for checkpoints, which ends with the process.
//!
//! ```text
//! {"budget":1,"serial":6,"minute":…,"hour":…,"day":…,"sum":"…"}      two lines of one length, blanks before their ends:
//! {"budget":1,"serial":7,"minute":…,"hour":…,"day":…,"sum":"…"}      the one with the greater serial counts
//! ```
//!
//! A change overwrites the line that does not count, so if a crash tears it, the other line is left. There is a window of each
//! length, so budgets with different lengths may share a file, and are counted separately.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use dfp_model::budget::{Per, Window};
use dfp_record::checkpoint::{self, CheckpointError};

/// The version of the format. Files of a newer version are refused, since their meaning is unknown.
const VERSION: u64 = 1;
/// The bytes of a line; with the longest numbers 600 are used.
const LINE: usize = 1024;
/// The longest wait for the changes of other processes, each of which takes about 100 µs.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The first pause between two looks at a lock that another process has. It doubles each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The contents of a line: a window of each length. `budget` is the format's version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    budget: u64,
    /// A number that grows by one with each change.
    serial: u64,
    minute: Window,
    hour: Window,
    day: Window,
}

impl Counts {
    fn window(&mut self, per: Per) -> &mut Window {
        match per {
            Per::Minute => &mut self.minute,
            Per::Hour => &mut self.hour,
            Per::Day => &mut self.day,
        }
    }

    /// The counts of a new file.
    fn of_nobody(serial: u64) -> Counts {
        Counts {
            budget: VERSION,
            serial,
            ..Counts::default()
        }
    }

    /// The line of these counts. The longest fits.
    fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = Vec::with_capacity(LINE);
        checkpoint::write_with_sum(serde_json::to_vec(self)?, &mut line);
        line.pop();
        line.resize(LINE - 1, b' ');
        line.push(b'\n');
        Ok(line)
    }
}

/// The reason why the file can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    /// The reason as text, with the file's name.
    pub why: String,
    pub kind: Trouble,
}

/// The kinds of reasons why a file can't be used, by whether it may be usable again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The file is no store, or there can't be one at this path.
    Unfit,
    /// Another process has the lock, and may release it.
    Busy,
    /// The system can't do it at the moment (a full disk, too many open files), or another program is changing the file.
    Passing,
}

/// A file as this process last saw it. Its serial can only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    file: FileId,
    serial: u64,
}

/// The device and inode, on systems that have them.
type FileId = Option<(u64, u64)>;

/// The conditions of a change.
pub(super) struct Look<'a> {
    /// The file as this process last saw it.
    pub seen: Option<Seen>,
    /// Nobody waits for the change any more, so it must not be made.
    pub is_abandoned: &'a AtomicBool,
}

/// Applies `change` to the window of the length `per` in the file at `path`, which is made if there is none (0600). Returns the
/// result of `change`, and the file's new state. Blocks.
///
/// # Errors
/// The reason why the file can't be used. Nothing was changed in it then.
pub(super) fn update<T>(
    path: &Path,
    per: Per,
    look: Look<'_>,
    change: impl FnOnce(&mut Window) -> T,
) -> Result<(T, Seen), Unusable> {
    let unusable = |why: &dyn std::fmt::Display, kind| Unusable {
        why: format!("{}: {why}", path.display()),
        kind,
    };
    let io = |error: io::Error| unusable(&error, kind_of(&error));
    let mut file = match lock(path, look.is_abandoned) {
        Ok(Some(file)) => file,
        Ok(None) => {
            let waited = LONGEST_WAIT.as_secs();
            let why = format!("another process has kept it locked for {waited} s");
            return Err(unusable(&why, Trouble::Busy));
        }
        Err((why, kind)) => return Err(unusable(&why, kind)),
    };
    let id = id_of(&file).map_err(io)?;
    let bytes = read(&mut file).map_err(io)?;
    let was_used = look
        .seen
        .is_some_and(|seen| id.is_some() && seen.file == id && seen.serial > 1);
    let mut counts = if initial().map_err(io)?.starts_with(&bytes) && bytes.len() < 2 * LINE {
        if was_used {
            let why = "it was emptied while it was in use, so nobody knows what was used: remove it to begin anew";
            return Err(unusable(&why, Trouble::Passing));
        }
        begin(&mut file).map_err(io)?
    } else {
        // Another program may be in the middle of rewriting the file.
        let is_cut = bytes.len() < 2 * LINE;
        let kind = if was_used && is_cut && is_ours(&bytes) {
            Trouble::Passing
        } else {
            Trouble::Unfit
        };
        parse(&bytes).map_err(|why| unusable(&why, kind))?
    };
    let before = *counts.window(per);
    let changed = change(counts.window(per));
    if *counts.window(per) != before {
        counts.serial = counts.serial.saturating_add(1);
        write(&mut file, &counts).map_err(io)?;
    }
    let seen = Seen {
        file: id,
        serial: counts.serial,
    };
    Ok((changed, seen))
}

/// The kind of trouble that the system's `error` means.
fn kind_of(error: &io::Error) -> Trouble {
    let is_passing = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::OutOfMemory
    );
    match is_passing || has_too_many_files(error) {
        true => Trouble::Passing,
        false => Trouble::Unfit,
    }
}

#[cfg(unix)]
fn has_too_many_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[cfg(windows)]
fn has_too_many_files(error: &io::Error) -> bool {
    /// The error code `ERROR_TOO_MANY_OPEN_FILES`.
    const TOO_MANY: i32 = 4;
    error.raw_os_error() == Some(TOO_MANY)
}

#[cfg(unix)]
fn id_of(file: &File) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map(|found| Some((found.dev(), found.ino())))
}

#[cfg(windows)]
fn id_of(_: &File) -> io::Result<FileId> {
    Ok(None)
}

/// Locks the file for this process until it is dropped; `None` if other processes have had the lock for too long.
fn lock(path: &Path, is_abandoned: &AtomicBool) -> Result<Option<File>, (String, Trouble)> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if is_abandoned.load(Ordering::Relaxed) {
            return Err(("nobody waits for it any more".to_owned(), Trouble::Busy));
        }
        match checkpoint::lock(path) {
            // Otherwise the file was removed or replaced meanwhile, and others count in the new one.
            Ok(Some(file)) if checkpoint::is_at(&file, path) => return Ok(Some(file)),
            Ok(_) => {}
            Err(CheckpointError::Unsafe(_, why)) => return Err((why.to_owned(), Trouble::Unfit)),
            Err(CheckpointError::Io(_, error)) => return Err((error.to_string(), kind_of(&error))),
            Err(other) => return Err((other.to_string(), Trouble::Unfit)),
        }
        if began.elapsed() > LONGEST_WAIT {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Reads the whole file. Of one that is too long to be a store, a little more than a store is read.
fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(2 * LINE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn initial() -> io::Result<Vec<u8>> {
    Ok([Counts::of_nobody(0).line()?, Counts::of_nobody(1).line()?].concat())
}

/// Writes the counts of a new store, because the file is new or a crash interrupted its making.
fn begin(file: &mut File) -> io::Result<Counts> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&initial()?)?;
    // After a crash, missing blocks would read as zeros, which look like damage.
    file.sync_data()?;
    Ok(Counts::of_nobody(1))
}

/// `true` if the bytes begin like a store.
fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{\"budget\":")
}

/// The counts of the valid line with the greater serial.
fn parse(bytes: &[u8]) -> Result<Counts, String> {
    if bytes.len() != 2 * LINE {
        return Err(match is_ours(bytes) && bytes.len() < 2 * LINE {
            true => format!("it was cut: it has {} bytes of {}", bytes.len(), 2 * LINE),
            false => "it is no store of budgets".to_owned(),
        });
    }
    // If a newer version of this package has written one line, the other one is outdated.
    if let Some(newer) = bytes.chunks(LINE).find_map(newer) {
        return Err(format!(
            "it is of version {newer}, and this package knows version {VERSION}"
        ));
    }
    let lines = bytes.chunks(LINE).zip(0_u64..);
    let read = lines.map(|(line, place)| parse_line(line, place));
    let (whole, wrong): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
    let latest = whole.into_iter().flatten().max_by_key(|counts| counts.serial);
    let Some(counts) = latest else {
        return Err(wrong.into_iter().find_map(Result::err).unwrap_or_default());
    };
    Ok(counts)
}

/// The version of a complete line, if it is another one.
fn newer(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Versioned {
        budget: u64,
    }
    let text = line.trim_ascii_end();
    let Versioned { budget } = serde_json::from_slice(text)
        .ok()
        .filter(|_| checkpoint::fits_sum(text))?;
    (budget != VERSION).then_some(budget)
}

/// Reads and checks the line at `place`, 0 or 1. Even serials stand in the first line, odd ones in the second, so that a change
/// never overwrites the line that counts.
fn parse_line(line: &[u8], place: u64) -> Result<Counts, String> {
    let number = place + 1;
    let text = line.trim_ascii_end();
    if !text.starts_with(b"{\"budget\":") {
        return Err("it is no store of budgets".to_owned());
    }
    if !checkpoint::fits_sum(text) {
        return Err(format!(
            "line {number} does not fit its checksum: the file was damaged or edited after it was written"
        ));
    }
    let value: serde_json::Value = serde_json::from_slice(text).map_err(|error| format!("line {number}: {error}"))?;
    if value["budget"].as_u64() != Some(VERSION) {
        return Err("it is no store of budgets".to_owned());
    }
    for name in Per::NAMES {
        serde_json::from_value::<Window>(value[name].clone())
            .map_err(|error| format!("line {number}, the field \"{name}\": {error}"))?;
    }
    let counts: Counts = serde_json::from_value(value).map_err(|error| format!("line {number}: {error}"))?;
    match counts.serial % 2 == place {
        true => Ok(counts),
        false => Err(format!(
            "line {number}, the field \"serial\": {} is the other line's",
            counts.serial
        )),
    }
}

fn write(file: &mut File, counts: &Counts) -> io::Result<()> {
    let place = (counts.serial % 2) * LINE as u64;
    file.seek(SeekFrom::Start(place))?;
    file.write_all(&counts.line()?)
}

#[cfg(test)]
mod tests;
