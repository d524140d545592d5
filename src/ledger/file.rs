//! The file in which processes count together.
//!
//! In: a path, and what is to become of a window. Out: that it has. Who changes it has it alone meanwhile, by the lock of the operating
//! system that checkpoints have, too, which ends with its process.
//!
//! ```text
//! {"budget":1,"serial":6,"minute":…,"hour":…,"day":…,"sum":"…"}      two lines of one length, blanks before their ends:
//! {"budget":1,"serial":7,"minute":…,"hour":…,"day":…,"sum":"…"}      the one with the greater serial counts
//! ```
//!
//! A change is written over the line that does not count, so one that a crash has torn leaves the other. There is a window of each length:
//! budgets of different ones may name the same file, and are counted apart.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::budget::{Per, Window};
use crate::checkpoint::{self, Refused};

/// The format. What a newer one means is not known here.
const VERSION: u64 = 1;
/// Bytes of a line: the longest numbers make 600.
const LINE: usize = 1024;
/// How long a change waits for those of others, each of which takes some 100 µs.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long it is between two looks at a lock that another has: twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    budget: u64,
    /// One more with each change.
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

    /// Of a file that nobody has counted in.
    fn of_nobody(serial: u64) -> Counts {
        Counts {
            budget: VERSION,
            serial,
            ..Counts::default()
        }
    }

    /// As a line; the longest one fits.
    fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = Vec::with_capacity(LINE);
        checkpoint::write_with_sum(serde_json::to_vec(self)?, &mut line);
        line.pop();
        line.resize(LINE - 1, b' ');
        line.push(b'\n');
        Ok(line)
    }
}

/// Why the file can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    /// With the file's name.
    pub why: String,
    pub kind: Trouble,
}

/// What may become of a file that can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It is none that can be counted in, or there can't be one there.
    Unfit,
    /// Another process has it, and may give it back.
    Busy,
    /// The system can't do it just now (a full disk, too many open files), or somebody is at work on the file.
    Passing,
}

/// A file as it was last seen: what stands in it may only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    file: FileId,
    serial: u64,
}

/// Device and inode, where there are such.
type FileId = Option<(u64, u64)>;

/// How a file is looked at.
pub(super) struct Look<'a> {
    /// As this process saw it before.
    pub seen: Option<Seen>,
    /// Nobody waits for the change any more: it is not made then.
    pub is_abandoned: &'a AtomicBool,
}

/// What `change` makes of the windows in the file at `path`, which is made if there is none (0600), and how the file is now. Blocks.
///
/// # Errors
/// Why the file can't be used; nothing was changed in it then.
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
        // Who writes a file in use anew may not be done with it.
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

/// What becomes of a file that the system refuses with `error`.
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
    /// `ERROR_TOO_MANY_OPEN_FILES`
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

/// The file, for this process alone until it is dropped; `None` if others have it for too long.
fn lock(path: &Path, is_abandoned: &AtomicBool) -> Result<Option<File>, (String, Trouble)> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if is_abandoned.load(Ordering::Relaxed) {
            return Err(("nobody waits for it any more".to_owned(), Trouble::Busy));
        }
        match checkpoint::lock(path) {
            // Else it was removed or replaced meanwhile, and others count elsewhere.
            Ok(Some(file)) if checkpoint::is_at(&file, path) => return Ok(Some(file)),
            Ok(_) => {}
            Err(Refused::Unsafe(_, why)) => return Err((why.to_owned(), Trouble::Unfit)),
            Err(Refused::Io(_, error)) => return Err((error.to_string(), kind_of(&error))),
            Err(other) => return Err((other.to_string(), Trouble::Unfit)),
        }
        if began.elapsed() > LONGEST_WAIT {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// All of it, and of a file that is too long to be one a little more than one has.
fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(2 * LINE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn initial() -> io::Result<Vec<u8>> {
    Ok([Counts::of_nobody(0).line()?, Counts::of_nobody(1).line()?].concat())
}

/// Makes it one in which nobody has counted: it is new, or a crash came while it was made.
fn begin(file: &mut File) -> io::Result<Counts> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&initial()?)?;
    // Blocks that never came would be zeros, which nobody could tell from damage.
    file.sync_data()?;
    Ok(Counts::of_nobody(1))
}

/// Whether a file begins as a store does.
fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{\"budget\":")
}

/// The counts of the line that counts.
fn parse(bytes: &[u8]) -> Result<Counts, String> {
    if bytes.len() != 2 * LINE {
        return Err(match is_ours(bytes) && bytes.len() < 2 * LINE {
            true => format!("it was cut: it has {} bytes of {}", bytes.len(), 2 * LINE),
            false => "it is no store of budgets".to_owned(),
        });
    }
    // A newer package may have written one line: the other is not what counts then.
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

/// The version of a line that is whole and of another one.
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
