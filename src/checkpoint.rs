//! Checkpoints of agents' runs in files: one per run, lines of JSON.
//!
//! In: a folder, a run's id, and entries as JSON texts. Out: the entries that are there, and new ones, each on the disk when it is
//! acknowledged. Whoever has a run's file open has it alone, by a lock of the operating system, which ends with its process, however
//! that ends.
//!
//! ```text
//! {"checkpoint":1,"runId":"job-7","sum":"…"}      the format, and whose file it is
//! {"lease":1,"sum":"…"}                           an attempt begins: its fencing token
//! {"entry":…,"sum":"…"}                           one for each entry
//! {"result":…,"sum":"…"}                          last: the run is finished
//! ```
//!
//! What a line holds is held against its checksum (`checkpoint/line.rs`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use line::{Line, VERSION};

mod line;
mod names;
mod open_files;

pub(crate) use line::{fits_sum, write_with_sum};
pub use names::is_run_id;
pub use open_files::OpenFiles;

/// Why a checkpoint can't be had. The message names the file.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Somebody is at work on the run.
    #[error("the run \"{0}\" is at work elsewhere: another attempt holds {1:?}")]
    Locked(String, PathBuf),
    /// What was written went to a file that nobody finds any more: another attempt may have begun a new one.
    #[error("the run \"{0}\" has lost its file: {1:?} was removed or replaced while it was at work")]
    Lost(String, PathBuf),
    /// Somebody has changed the file's length: what is added would stand behind a hole, or behind what is not this run's.
    #[error(
        "the run \"{0}\" can't be kept: {1:?} had {2} bytes and has {3}, so somebody has changed it while the run was at work"
    )]
    Resized(String, PathBuf, u64, u64),
    /// The token is not that of the last `load`.
    #[error("the run \"{0}\" is another attempt's: the lease {1} is over")]
    Stale(String, u64),
    /// What is there is no checkpoint of this run, or of a newer version.
    #[error("the checkpoint {0:?} can't be read: {1}")]
    Invalid(PathBuf, String),
    /// A name that leads elsewhere, or that others may write to.
    #[error("the checkpoint {0:?} is not used: {1}")]
    Unsafe(PathBuf, &'static str),
    /// A folder in which others may put files, and its mode.
    #[error("the folder of the checkpoints {0:?} is not used: others may write to it (its mode is {1:03o})")]
    Writable(PathBuf, u32),
    /// What the operating system says.
    #[error("the checkpoint {0:?} can't be kept: {1}")]
    Io(PathBuf, io::Error),
    /// Nobody has it here.
    #[error("the run \"{0}\" is not held here: it was finished, given back, or never loaded")]
    Closed(String),
}

/// What is there of a run.
#[derive(Debug)]
pub struct Loaded {
    /// The fencing token: one more with every attempt.
    pub token: u64,
    pub entries: Vec<Box<RawValue>>,
    /// Of a run that is finished: nobody holds it then.
    pub result: Option<Box<RawValue>>,
    /// The file, of any other.
    pub file: Option<CheckpointFile>,
}

/// The file of one run, held by this process alone until it is dropped.
#[derive(Debug)]
pub struct CheckpointFile {
    run_id: String,
    path: PathBuf,
    file: File,
    /// Bytes that were written, by everybody so far.
    length: u64,
    token: u64,
    /// Nothing is added behind a write that failed, which may be half there, nor behind the result.
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    Broken,
    Finished,
}

/// Takes the run: its file in `folder` is made if there is none (0600, the folder 0700), and is this process's alone from now on.
/// A last line that a crash has torn is cut off. Its token is greater than `last`, which this process has given before: the file may
/// have been removed since. Blocks.
///
/// # Errors
/// [`Refused`]; nothing was changed then.
pub fn load(folder: &Path, run_id: &str, last: u64) -> Result<Loaded, Refused> {
    make_folder(folder)?;
    let path = folder.join(names::file_name(run_id));
    let io = |error| Refused::Io(path.clone(), error);
    let mut file = open(&path, run_id)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    let (found, whole) = line::read(&bytes, run_id).map_err(|reason| Refused::Invalid(path.clone(), reason))?;
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
        state: State::Open,
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
    /// Adds `entries`: they are on the disk when this returns. Without any, it only says whether the file is still the run's. Blocks.
    ///
    /// # Errors
    /// [`Refused::Io`]: nothing further is taken then. [`Refused::Lost`].
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
    /// As for [`append`](CheckpointFile::append).
    pub fn finish(&mut self, result: Box<RawValue>) -> Result<(), Refused> {
        self.write(&[Line {
            result: Some(result),
            ..Line::default()
        }])?;
        self.state = State::Finished;
        Ok(())
    }

    fn write(&mut self, lines: &[Line]) -> Result<(), Refused> {
        let io = |error| Refused::Io(self.path.clone(), error);
        match self.state {
            State::Open => {}
            State::Broken => return Err(io(io::Error::other("an earlier write has failed"))),
            State::Finished => return Err(Refused::Closed(self.run_id.clone())),
        }
        if !lines.is_empty() {
            let mut bytes = Vec::new();
            for line in lines {
                line.write(&mut bytes).map_err(|error| io(error.into()))?;
            }
            self.check_length()?;
            if let Err(error) = self.file.write_all(&bytes).and_then(|()| self.file.sync_data()) {
                self.state = State::Broken;
                return Err(Refused::Io(self.path.clone(), error));
            }
            self.length += bytes.len() as u64;
        }
        self.check_length()?;
        // Behind the write: what is acknowledged is where the next attempt looks for it.
        match is_at(&self.file, &self.path) {
            true => Ok(()),
            false => Err(Refused::Lost(self.run_id.clone(), self.path.clone())),
        }
    }

    /// Whether the file is as long as it was made: who holds its lock is alone with it only among those who ask for that.
    fn check_length(&mut self) -> Result<(), Refused> {
        let found = self
            .file
            .metadata()
            .map_err(|error| Refused::Io(self.path.clone(), error))?
            .len();
        if found == self.length {
            return Ok(());
        }
        self.state = State::Broken;
        Err(Refused::Resized(
            self.run_id.clone(),
            self.path.clone(),
            self.length,
            found,
        ))
    }
}

/// Whether `path` leads to `file`.
#[cfg(unix)]
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: std::fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(file), Ok(path)) => place(file) == place(path),
        _ => false,
    }
}

/// A file that is open for nobody else can't be removed or replaced.
#[cfg(not(unix))]
pub(crate) fn is_at(_: &File, _: &Path) -> bool {
    true
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
            return Err(Refused::Writable(folder.to_owned(), found.mode() & 0o777));
        }
    }
    Ok(())
}

/// The file at `path`, made if there is none, for this process alone until it is dropped; `None` if another has it, or this one
/// already. However a process ends, it is free then. Blocks.
///
/// # Errors
/// [`Refused`]: it is no file of its own, it belongs to somebody else, or the system refuses it.
pub fn lock(path: &Path) -> Result<Option<File>, Refused> {
    match open(path, "") {
        Ok(file) => Ok(Some(file)),
        Err(Refused::Locked(..)) => Ok(None),
        Err(refused) => Err(refused),
    }
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
