//! Checkpoints of agents' runs in files: one file per run, lines of JSON.
//!
//! In: a folder, a run's id, and entries as JSON texts. Out: the stored entries; new ones are on the disk when they are confirmed.
//! One process at a time has a run's file, by a lock of the operating system, which ends with the process, however that ends.
//!
//! ```text
//! {"checkpoint":1,"runId":"job-7","sum":"…"}      the format, and whose file it is
//! {"lease":1,"sum":"…"}                           an attempt begins: its fencing token
//! {"entry":…,"sum":"…"}                           one for each entry
//! {"result":…,"sum":"…"}                          last: the run is finished
//! ```
//!
//! Every line has a checksum ([`write_with_sum`]). The files that are at work in this process are [`OpenFiles`].

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{FolderError, private_folder};

/// The reason why a checkpoint can't be used. Messages name the file.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Another process or attempt is at work on the run.
    #[error("the run \"{0}\" is at work elsewhere: another attempt holds {1:?}")]
    Locked(String, PathBuf),
    /// The entries went to a file that is no longer at its path: another attempt may have begun a new one there.
    #[error("the run \"{0}\" has lost its file: {1:?} was removed or replaced while it was at work")]
    Lost(String, PathBuf),
    /// Another program has changed the file's length: new entries would stand behind a hole, or behind foreign data.
    #[error(
        "the run \"{0}\" can't be kept: {1:?} had {2} bytes and has {3}, so somebody has changed it while the run was at work"
    )]
    Resized(String, PathBuf, u64, u64),
    /// The token is not that of the latest `load`.
    #[error("the run \"{0}\" is another attempt's: the lease {1} is over")]
    Stale(String, u64),
    /// The file is no checkpoint of this run, or one of a newer version.
    #[error("the checkpoint {0:?} can't be read: {1}")]
    Invalid(PathBuf, String),
    /// The path is a link or no file, or others may write to it.
    #[error("the checkpoint {0:?} is not used: {1}")]
    Unsafe(PathBuf, &'static str),
    /// Others may put files into the folder, which has this mode.
    #[error("the folder of the checkpoints {0:?} is not used: others may write to it (its mode is {1:03o})")]
    Writable(PathBuf, u32),
    /// The operating system refused an operation.
    #[error("the checkpoint {0:?} can't be kept: {1}")]
    Io(PathBuf, io::Error),
    /// This process doesn't have the run's file open.
    #[error("the run \"{0}\" is not held here: it was finished, given back, or never loaded")]
    Closed(String),
}

/// The stored state of a run.
#[derive(Debug)]
pub struct Loaded {
    /// The fencing token, which grows with every attempt.
    pub token: u64,
    pub entries: Vec<Box<RawValue>>,
    /// The result of a finished run. Nobody holds its file then.
    pub result: Option<Box<RawValue>>,
    /// The file of a run that is not finished.
    pub file: Option<CheckpointFile>,
}

/// The file of one run. This process alone holds it, until it is dropped.
#[derive(Debug)]
pub struct CheckpointFile {
    run_id: String,
    path: PathBuf,
    file: File,
    /// The length of the file in bytes, as far as attempts have written it.
    length: u64,
    token: u64,
    /// After a failed write, which may be half there, and after the result nothing more is added.
    state: CheckpointState,
}

/// The state of a file that is held.
#[derive(Debug, PartialEq, Eq)]
enum CheckpointState {
    Open,
    Broken,
    Finished,
}

/// Takes over a run. Its file in `folder` is made if there is none (file 0600, folder 0700), and is locked for this process. A last
/// line that a crash has torn is cut off. The token becomes greater than `last`, the token that this process gave before, because
/// the file may have been removed since. Blocks.
///
/// # Errors
/// [`CheckpointError`]; nothing was changed in that case.
pub fn load(folder: &Path, run_id: &str, last: u64) -> Result<Loaded, CheckpointError> {
    make_folder(folder)?;
    let path = folder.join(file_name(run_id));
    let io = |error| CheckpointError::Io(path.clone(), error);
    let mut file = open(&path, run_id)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    let (found, whole) = read_lines(&bytes, run_id).map_err(|reason| CheckpointError::Invalid(path.clone(), reason))?;
    if let Some(result) = found.result {
        return Ok(Loaded {
            token: found.token,
            entries: found.entries,
            result: Some(result),
            file: None,
        });
    }
    if whole < bytes.len() {
        file.set_len(whole as u64).map_err(io)?;
    }
    file.seek(SeekFrom::Start(whole as u64)).map_err(io)?;
    let token = found.token.max(last) + 1;
    let mut opened = CheckpointFile {
        run_id: run_id.to_owned(),
        path: path.clone(),
        file,
        length: whole as u64,
        token,
        state: CheckpointState::Open,
    };
    let mut lines = Vec::new();
    if whole == 0 {
        lines.push(Line {
            checkpoint: Some(VERSION),
            run_id: Some(run_id.to_owned()),
            ..Line::default()
        });
    }
    lines.push(Line {
        lease: Some(token),
        ..Line::default()
    });
    opened.write(&lines)?;
    if whole == 0 {
        // The file's name must survive a crash, too.
        sync_folder(folder).map_err(io)?;
    }
    Ok(Loaded {
        token,
        entries: found.entries,
        result: None,
        file: Some(opened),
    })
}

impl CheckpointFile {
    /// Appends `entries`, which are on the disk when this returns. Without any, it only checks that the file is still the run's.
    /// Blocks.
    ///
    /// # Errors
    /// [`CheckpointError::Io`], after which nothing more is taken; [`CheckpointError::Resized`]; [`CheckpointError::Lost`].
    pub fn append(&mut self, entries: Vec<Box<RawValue>>) -> Result<(), CheckpointError> {
        let lines = entries.into_iter().map(|entry| Line {
            entry: Some(entry),
            ..Line::default()
        });
        let lines: Vec<Line> = lines.collect();
        self.write(&lines)
    }

    /// Stores the result of the finished run. Blocks.
    ///
    /// # Errors
    /// As for [`append`](CheckpointFile::append).
    pub fn finish(&mut self, result: Box<RawValue>) -> Result<(), CheckpointError> {
        self.write(&[Line {
            result: Some(result),
            ..Line::default()
        }])?;
        self.state = CheckpointState::Finished;
        Ok(())
    }

    /// Appends lines, and returns once they are on the disk and the file is still the run's.
    fn write(&mut self, lines: &[Line]) -> Result<(), CheckpointError> {
        let io = |error| CheckpointError::Io(self.path.clone(), error);
        match self.state {
            CheckpointState::Open => {}
            CheckpointState::Broken => return Err(io(io::Error::other("an earlier write has failed"))),
            CheckpointState::Finished => return Err(CheckpointError::Closed(self.run_id.clone())),
        }
        if !lines.is_empty() {
            let mut bytes = Vec::new();
            for line in lines {
                line.write(&mut bytes).map_err(|error| io(error.into()))?;
            }
            self.check_length()?;
            if let Err(error) = self.file.write_all(&bytes).and_then(|()| self.file.sync_data()) {
                self.state = CheckpointState::Broken;
                return Err(CheckpointError::Io(self.path.clone(), error));
            }
            self.length += bytes.len() as u64;
        }
        self.check_length()?;
        // Checked after the write: a confirmed entry must be where the next attempt looks for it.
        match is_at(&self.file, &self.path) {
            true => Ok(()),
            false => Err(CheckpointError::Lost(self.run_id.clone(), self.path.clone())),
        }
    }

    /// Checks that the file has the expected length. The lock excludes only programs that ask for it.
    fn check_length(&mut self) -> Result<(), CheckpointError> {
        let found = self
            .file
            .metadata()
            .map_err(|error| CheckpointError::Io(self.path.clone(), error))?
            .len();
        if found == self.length {
            return Ok(());
        }
        self.state = CheckpointState::Broken;
        Err(CheckpointError::Resized(
            self.run_id.clone(),
            self.path.clone(),
            self.length,
            found,
        ))
    }
}

/// `true` if `path` leads to `file`.
#[cfg(unix)]
pub fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: std::fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(file), Ok(path)) => place(file) == place(path),
        _ => false,
    }
}

/// On Windows a file that is open without sharing can't be removed or replaced.
#[cfg(not(unix))]
pub fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Makes the folder, and refuses one that is not private.
fn make_folder(folder: &Path) -> Result<(), CheckpointError> {
    private_folder(folder).map_err(|refused| match refused {
        FolderError::Link => {
            CheckpointError::Unsafe(folder.to_owned(), "it is a symbolic link: name the folder itself")
        }
        FolderError::Foreign => CheckpointError::Unsafe(folder.to_owned(), "it belongs to another user"),
        FolderError::Writable(mode) => CheckpointError::Writable(folder.to_owned(), mode),
        FolderError::Io(error) => CheckpointError::Io(folder.to_owned(), error),
    })
}

/// Locks the file at `path` for this process until the returned file is dropped; the file is made if there is none. `None` if
/// another process has the lock, or this one has it already. The lock ends with the process, however that ends. Blocks.
///
/// # Errors
/// [`CheckpointError`]: it is not a file of its own, it belongs to somebody else, or the system refuses it.
pub fn lock(path: &Path) -> Result<Option<File>, CheckpointError> {
    match open(path, "") {
        Ok(file) => Ok(Some(file)),
        Err(CheckpointError::Locked(..)) => Ok(None),
        Err(refused) => Err(refused),
    }
}

#[cfg(unix)]
fn open(path: &Path, run_id: &str) -> Result<File, CheckpointError> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

    use rustix::fs::{FlockOperation, OFlags, flock};

    let io = |error| CheckpointError::Io(path.to_owned(), error);
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(CheckpointError::Unsafe(
            path.to_owned(),
            "it is not a file, or a link to one",
        ));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // These flags also guard against a link or a pipe that was put there since the check.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits());
    options.custom_flags(flags.unwrap_or_default());
    let file = options.open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(CheckpointError::Unsafe(path.to_owned(), "it is not a file of its own"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(CheckpointError::Unsafe(path.to_owned(), "it belongs to another user"));
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(CheckpointError::Locked(run_id.to_owned(), path.to_owned())),
        Err(error) => return Err(io(error.into())),
    }
    if found.mode() & 0o077 != 0 {
        let private = std::fs::Permissions::from_mode(found.mode() & 0o700);
        file.set_permissions(private).map_err(io)?;
    }
    Ok(file)
}

/// On Windows a file that is open without sharing is a lock by itself. Its folder decides who may read it.
#[cfg(windows)]
fn open(path: &Path, run_id: &str) -> Result<File, CheckpointError> {
    use std::os::windows::fs::OpenOptionsExt;
    /// The error code `ERROR_SHARING_VIOLATION`.
    const SHARING_VIOLATION: i32 = 32;
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(CheckpointError::Unsafe(
            path.to_owned(),
            "it is not a file, or a link to one",
        ));
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .share_mode(0);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(SHARING_VIOLATION) => CheckpointError::Locked(run_id.to_owned(), path.to_owned()),
        _ => CheckpointError::Io(path.to_owned(), error),
    })
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The longest id of a run, bytes.
const LONGEST_ID: usize = 128;

/// `true` if `run_id` can be an id. Ids become parts of file names, keys and headers.
pub fn is_run_id(run_id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@-".contains(&byte);
    run_id.len() <= LONGEST_ID
        && run_id.bytes().all(allowed)
        && run_id.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// The name of `run_id`'s file, the same on every system. `:` and the first letter of a device's name are written as `%XX`, which
/// can't be part of an id.
fn file_name(run_id: &str) -> String {
    let plain = run_id.replace(':', "%3A");
    match plain.chars().next() {
        Some(first) if is_device(run_id) => format!("%{:02X}{}.jsonl", u32::from(first), &plain[first.len_utf8()..]),
        _ => format!("{plain}.jsonl"),
    }
}

/// `true` if Windows takes `name` for a device, whatever comes behind its first dot or colon:
/// <https://learn.microsoft.com/windows/win32/fileio/naming-a-file>
fn is_device(name: &str) -> bool {
    let stem = name.split(['.', ':']).next().unwrap_or_default().to_ascii_uppercase();
    match stem.as_str() {
        "CON" | "PRN" | "AUX" | "NUL" => true,
        port => {
            let number = port.strip_prefix("COM").or_else(|| port.strip_prefix("LPT"));
            number.is_some_and(|number| number.len() == 1 && number.as_bytes()[0].is_ascii_digit())
        }
    }
}

// The lines of a checkpoint's file, every one checked by its checksum. If a disk returns a wrong bit, the line is often still
// valid JSON, and a run would go on with wrong data.

/// The version of the format. Lines of a newer version are refused, since their meaning is unknown.
const VERSION: u64 = 1;
/// The last token that can have a successor: JavaScript's greatest safe integer, less one.
const LAST_LEASE: u64 = (1 << 53) - 2;

/// A line ends with `,"sum":"…"}`: half of the SHA-256 of everything before it.
const SUM: &[u8] = b",\"sum\":\"";
const SUM_DIGITS: usize = 16;
const SUM_END: &[u8] = b"\"}";

/// One line of the file. Which field it has tells its kind; only the first line has two, `checkpoint` and `run_id`.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
}

impl Line {
    /// Appends the line to `bytes`.
    pub fn write(&self, bytes: &mut Vec<u8>) -> serde_json::Result<()> {
        write_with_sum(serde_json::to_vec(self)?, bytes);
        Ok(())
    }
}

/// Appends a line to `bytes`: `object`, JSON with at least one field, and its checksum.
pub fn write_with_sum(mut object: Vec<u8>, bytes: &mut Vec<u8>) {
    // The closing brace comes behind the checksum.
    object.pop();
    // JSON has line breaks only as white space between tokens, never inside strings.
    for byte in &mut object {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    let sum = sum(&object);
    for part in [object.as_slice(), SUM, sum.as_bytes(), SUM_END, b"\n"] {
        bytes.extend_from_slice(part);
    }
}

/// `true` if the line `text`, without its line break, has a checksum that fits it.
pub fn fits_sum(text: &[u8]) -> bool {
    split(text).is_some_and(|(content, written)| sum(content).as_bytes() == written)
}

/// The contents of a file.
#[derive(Default)]
struct Found {
    pub token: u64,
    pub entries: Vec<Box<RawValue>>,
    pub result: Option<Box<RawValue>>,
}

/// Reads the contents of `bytes`, and the number of bytes in complete lines. Lines of an earlier version of this package have no
/// checksum and are read without. Behind a line with a checksum every line must have one.
fn read_lines(bytes: &[u8], run_id: &str) -> Result<(Found, usize), String> {
    let mut found = Found::default();
    let (mut whole, mut number, mut summed) = (0, 0, false);
    while let Some(length) = bytes[whole..].iter().position(|byte| *byte == b'\n') {
        let text = &bytes[whole..whole + length];
        let end = whole + length + 1;
        number += 1;
        let written = split(text);
        let line = match serde_json::from_slice::<Line>(text) {
            // The last line was being written when the machine went down. A file's blocks reach the disk in any order, and those
            // that did not are zeros. In a file with checksums any other damage came later.
            Err(_) if end == bytes.len() && number > 1 && (!summed || text.contains(&0)) => return Ok((found, whole)),
            Err(error) => return Err(format!("line {number}: {error}")),
            Ok(line) => line,
        };
        match written {
            Some((content, written)) if sum(content).as_bytes() == written => summed = true,
            None if !summed => {}
            Some(_) => return Err(damaged(number, "does not fit its checksum")),
            None => return Err(damaged(number, "has no checksum")),
        }
        match line.checkpoint {
            Some(version) if version > VERSION => {
                return Err(format!(
                    "it is of version {version}, and this package knows versions up to {VERSION}"
                ));
            }
            None if number == 1 => return Err("it is no checkpoint".to_owned()),
            _ => {}
        }
        if line.run_id.is_some_and(|id| id != run_id) {
            return Err("it is of another run, whose id differs in upper and lower case".to_owned());
        }
        match line.lease {
            Some(lease) if lease > LAST_LEASE => {
                return Err(format!(
                    "line {number}: the lease {lease} is none of this package's, which count from 1"
                ));
            }
            Some(lease) => found.token = found.token.max(lease),
            None => {}
        }
        found.entries.extend(line.entry);
        found.result = line.result.or(found.result);
        whole = end;
    }
    Ok((found, whole))
}

fn damaged(number: usize, how: &str) -> String {
    format!("line {number} {how}: the file was damaged or edited after it was written")
}

/// The part of a line that its checksum covers, and the checksum.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = text.strip_suffix(SUM_END)?;
    let (rest, written) = rest.split_at_checked(rest.len().checked_sub(SUM_DIGITS)?)?;
    Some((rest.strip_suffix(SUM)?, written))
}

fn sum(content: &[u8]) -> String {
    let hash = digest(&SHA256, content);
    let half = hash.as_ref().iter().take(SUM_DIGITS / 2);
    half.map(|byte| format!("{byte:02x}")).collect()
}

/// A file that calls of the same run use one after the other.
type SharedFile = Arc<Mutex<CheckpointFile>>;

/// The open files, by run.
#[derive(Debug, Default, Clone)]
pub struct OpenFiles(Arc<Mutex<HashMap<String, SharedFile>>>);

impl OpenFiles {
    /// Keeps the file of `run_id`.
    pub fn put(&self, run_id: &str, file: CheckpointFile) {
        self.lock().insert(run_id.to_owned(), Arc::new(Mutex::new(file)));
    }

    /// The token of the attempt at `run_id` that is at work here; 0 if there is none.
    pub fn token(&self, run_id: &str) -> u64 {
        let shared = self.lock().get(run_id).cloned();
        shared.map_or(0, |file| file.lock().unwrap_or_else(PoisonError::into_inner).token)
    }

    /// Lets `act` use the file of `run_id`, for the attempt with `token`. Blocks while another call uses it.
    ///
    /// # Errors
    /// [`CheckpointError::Closed`], [`CheckpointError::Stale`], and the errors of `act`.
    pub fn with<T>(
        &self,
        run_id: &str,
        token: u64,
        act: impl FnOnce(&mut CheckpointFile) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        let shared = self.lock().get(run_id).cloned();
        let shared = shared.ok_or_else(|| CheckpointError::Closed(run_id.to_owned()))?;
        let mut file = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if file.token != token {
            return Err(CheckpointError::Stale(run_id.to_owned(), token));
        }
        act(&mut file)
    }

    /// Lets `act` use the file of `run_id` for the last time, and then closes it in any case.
    ///
    /// # Errors
    /// As for [`with`](OpenFiles::with).
    pub fn close(
        &self,
        run_id: &str,
        token: u64,
        act: impl FnOnce(&mut CheckpointFile) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let done = self.with(run_id, token, act);
        if !matches!(done, Err(CheckpointError::Stale(..) | CheckpointError::Closed(_))) {
            self.lock().remove(run_id);
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SharedFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
