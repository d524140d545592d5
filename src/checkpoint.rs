//! Checkpoints of agents' runs in files: one per run, lines of JSON.
//!
//! In: a folder, a run's id, and entries as JSON texts. Out: the entries that are there, and new ones, each on the disk when it is
//! acknowledged. Whoever has a run's file open has it alone, by a lock of the operating system, which ends with its process, however
//! that ends.
//!
//! ```text
//! {"checkpoint":1,"runId":"job-7"}      the format, and whose file it is
//! {"lease":1}                           an attempt begins: its fencing token
//! {"entry":…}                           one for each entry
//! {"result":…}                          last: the run is finished
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The format of the file. What a newer one means is not known here.
const VERSION: u64 = 1;
/// The longest id of a run, bytes.
const LONGEST_ID: usize = 128;

/// Why a checkpoint can't be had. The message names the file.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Somebody is at work on the run.
    #[error("the run \"{0}\" is at work elsewhere: another attempt holds {1:?}")]
    Locked(String, PathBuf),
    /// What is there is no checkpoint of this run, or of a newer version.
    #[error("the checkpoint {0:?} can't be read: {1}")]
    Invalid(PathBuf, String),
    /// A name that leads elsewhere, or that others may write to.
    #[error("the checkpoint {0:?} is not used: {1}")]
    Unsafe(PathBuf, &'static str),
    /// What the operating system says.
    #[error("the checkpoint {0:?} can't be kept: {1}")]
    Io(PathBuf, io::Error),
    /// It was given back.
    #[error("the run \"{0}\" is not open here: it was finished, or never loaded")]
    Closed(String),
}

/// What is there of a run.
#[derive(Debug)]
pub struct Loaded {
    /// The fencing token: one more with every attempt.
    pub token: u64,
    /// In their order.
    pub entries: Vec<Box<RawValue>>,
    /// Of a run that is finished: nobody holds it then.
    pub result: Option<Box<RawValue>>,
    /// The file, of any other.
    pub file: Option<CheckpointFile>,
}

/// The file of one run, held by this process alone until it is dropped.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    file: File,
    /// What a write that failed may have left half written: nothing is added behind it.
    broken: bool,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

/// Whether `run_id` can be one: it is part of a file's name, of keys and of headers.
pub fn is_run_id(run_id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@-".contains(&byte);
    run_id.len() <= LONGEST_ID
        && run_id.bytes().all(allowed)
        && run_id.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// Takes the run: its file in `folder` is made if there is none (0600, the folder 0700), and is this process's alone from now on.
/// A last line that a crash has torn is cut off. Blocks.
///
/// # Errors
/// [`Refused`]; nothing was changed then.
pub fn load(folder: &Path, run_id: &str) -> Result<Loaded, Refused> {
    make_folder(folder)?;
    let path = folder.join(format!("{}.jsonl", run_id.replace(':', "%3A")));
    let io = |error| Refused::Io(path.clone(), error);
    let mut file = open(&path, run_id)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    let (found, whole) = read(&bytes, run_id).map_err(|reason| Refused::Invalid(path.clone(), reason))?;
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
    let mut opened = CheckpointFile {
        path: path.clone(),
        file,
        broken: false,
    };
    let token = found.token + 1;
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
        // The file's name has to survive, too.
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
    /// Adds `entries`: they are on the disk when this returns. Blocks.
    ///
    /// # Errors
    /// [`Refused::Io`]; nothing further is taken then.
    pub fn append(&mut self, entries: Vec<Box<RawValue>>) -> Result<(), Refused> {
        let lines = entries.into_iter().map(|entry| Line {
            entry: Some(entry),
            ..Line::default()
        });
        let lines: Vec<Line> = lines.collect();
        self.write(&lines)
    }

    /// The run is finished. Blocks.
    ///
    /// # Errors
    /// [`Refused::Io`].
    pub fn finish(mut self, result: Box<RawValue>) -> Result<(), Refused> {
        self.write(&[Line {
            result: Some(result),
            ..Line::default()
        }])
    }

    fn write(&mut self, lines: &[Line]) -> Result<(), Refused> {
        if lines.is_empty() {
            return Ok(());
        }
        let io = |error| Refused::Io(self.path.clone(), error);
        if self.broken {
            return Err(io(io::Error::other("an earlier write has failed")));
        }
        let mut bytes = Vec::new();
        for line in lines {
            let json = serde_json::to_string(line).map_err(|error| io(error.into()))?;
            // Outside of strings a line break is white space, inside there is none.
            bytes.extend(
                json.bytes()
                    .map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }),
            );
            bytes.push(b'\n');
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        self.broken = written.is_err();
        written.map_err(|error| Refused::Io(self.path.clone(), error))
    }
}

/// Files of runs that are at work in this process, by run.
#[derive(Debug, Default, Clone)]
pub struct OpenFiles(Arc<Mutex<std::collections::HashMap<String, CheckpointFile>>>);

impl OpenFiles {
    /// Keeps the file of `run_id`.
    pub fn put(&self, run_id: &str, file: CheckpointFile) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(run_id.to_owned(), file);
    }

    /// Takes the file of `run_id` for one write.
    ///
    /// # Errors
    /// [`Refused::Closed`].
    pub fn take(&self, run_id: &str) -> Result<CheckpointFile, Refused> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(run_id).ok_or_else(|| Refused::Closed(run_id.to_owned()))
    }
}

#[derive(Default)]
struct Found {
    token: u64,
    entries: Vec<Box<RawValue>>,
    result: Option<Box<RawValue>>,
}

/// What `bytes` hold, and how many of them are whole lines.
fn read(bytes: &[u8], run_id: &str) -> Result<(Found, usize), String> {
    let mut found = Found::default();
    let (mut whole, mut number) = (0, 0);
    while let Some(length) = bytes[whole..].iter().position(|byte| *byte == b'\n') {
        let line = serde_json::from_slice::<Line>(&bytes[whole..whole + length]);
        let end = whole + length + 1;
        number += 1;
        let line = match line {
            Ok(line) => line,
            // The last one, which was written when the machine went down: the blocks of a file come in any order.
            Err(_) if end == bytes.len() && number > 1 => return Ok((found, whole)),
            Err(error) => return Err(format!("line {number}: {error}")),
        };
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
        found.token = line.lease.unwrap_or(found.token);
        found.entries.extend(line.entry);
        found.result = line.result.or(found.result);
        whole = end;
    }
    Ok((found, whole))
}

fn make_folder(folder: &Path) -> Result<(), Refused> {
    let io = |error| Refused::Io(folder.to_owned(), error);
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(io)?;
    let found = folder.symlink_metadata().map_err(io)?;
    if found.is_symlink() {
        return Err(Refused::Unsafe(
            folder.to_owned(),
            "it is a symbolic link: name the folder itself",
        ));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(Refused::Unsafe(folder.to_owned(), "it belongs to another user"));
        }
        if found.mode() & 0o022 != 0 {
            return Err(Refused::Unsafe(folder.to_owned(), "others may write to it"));
        }
    }
    Ok(())
}

#[cfg(unix)]
fn open(path: &Path, run_id: &str) -> Result<File, Refused> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

    use rustix::fs::{FlockOperation, OFlags, flock};

    let io = |error| Refused::Io(path.to_owned(), error);
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(Refused::Unsafe(path.to_owned(), "it is not a file, or a link to one"));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // Also what was put there since.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits());
    options.custom_flags(flags.unwrap_or_default());
    let file = options.open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(Refused::Unsafe(path.to_owned(), "it is not a file of its own"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(Refused::Unsafe(path.to_owned(), "it belongs to another user"));
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(Refused::Locked(run_id.to_owned(), path.to_owned())),
        Err(error) => return Err(io(error.into())),
    }
    if found.mode() & 0o077 != 0 {
        let private = std::fs::Permissions::from_mode(found.mode() & 0o700);
        file.set_permissions(private).map_err(io)?;
    }
    Ok(file)
}

/// A file that is open for nobody else is a lock by itself. Who may read it is what its folder says.
#[cfg(windows)]
fn open(path: &Path, run_id: &str) -> Result<File, Refused> {
    use std::os::windows::fs::OpenOptionsExt;
    /// `ERROR_SHARING_VIOLATION`
    const SHARING_VIOLATION: i32 = 32;
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(Refused::Unsafe(path.to_owned(), "it is not a file, or a link to one"));
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .share_mode(0);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(SHARING_VIOLATION) => Refused::Locked(run_id.to_owned(), path.to_owned()),
        _ => Refused::Io(path.to_owned(), error),
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

#[cfg(test)]
mod tests;
