//! Writes run logs to files.
//!
//! In: events, as they happen. Out: whole lines, in order, written by a separate thread: neither Node's thread nor a run's
//! waits for a disk. The lines that wait for the disk are bounded: beyond `ROOM` bytes the run waits too, and a file that
//! accepts nothing for `PATIENCE` is abandoned. A failed log never fails its run: [`Recorder::failure`] gives the reason, once.
//!
//! Every line is handed to the operating system at once, so it survives this process, whichever way that ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::runlog::Lines;
use crate::runlog::{BEGINNING, End, Header, Stamp, end_line, header_line};
use dfp_text::redact::Redactor;

/// The bytes that may wait for the disk. A longer line waits alone.
const ROOM: usize = 16 * 1024 * 1024;

/// The number of lines that may wait for the disk.
const LINES: usize = 4096;

/// The time for which a file may accept nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bytes up to which lines are written together.
const BATCH: usize = 256 * 1024;

/// The reason why a log can't be begun. The message names the path.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The log's folder does not exist.
    #[error("there is no folder {0:?} to write it into")]
    NoFolder(PathBuf),
    /// The file is not a run log of this version.
    #[error("{0:?} exists and is not a run log of this version: it is left alone")]
    NotOurs(PathBuf),
    /// The path is a folder, a pipe or a socket.
    #[error("{0:?} is not a file")]
    NoFile(PathBuf),
    /// The path is a symbolic link, whose maker would choose the file that is written.
    #[error("{0:?} is a symbolic link: name the file itself")]
    Link(PathBuf),
    /// The log belongs to another user, who could read added lines.
    #[error("{0:?} belongs to another user: name a file of your own")]
    NotOwned(PathBuf),
    /// The operating system reported an error.
    #[error("{0:?} can't be opened: {1}")]
    Io(PathBuf, io::Error),
}

/// The log of one run. Several recorders may write to one file.
#[derive(Debug)]
pub struct Recorder {
    started: Instant,
    lines: Mutex<Lines>,
    queue: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
    fault: Arc<Fault>,
}

/// A task for the writing thread.
enum Job {
    Write(String, OwnedSemaphorePermit),
    /// Report when all lines before it are written.
    Settled(oneshot::Sender<()>),
}

/// The reason why the log was abandoned, if it was.
#[derive(Debug, Default)]
struct Fault(StdMutex<RecorderState>);

#[derive(Debug, Default)]
struct RecorderState {
    reason: Option<String>,
    reported: bool,
}

impl Fault {
    fn locked(&self) -> std::sync::MutexGuard<'_, RecorderState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, reason: String) {
        self.locked().reason.get_or_insert(reason);
    }

    fn is_set(&self) -> bool {
        self.locked().reason.is_some()
    }
}

impl Recorder {
    /// Begins the log of a run: its header is written when this returns, or the log has failed.
    ///
    /// The file is made, for its owner alone (0600), or appended to if it is a run log of this user's, which others can't read
    /// from then on. Links are not followed. A device is written to as it is.
    ///
    /// # Errors
    /// [`RecorderError`], before anything was written.
    pub async fn begin(path: &Path, header: &Header, redactor: Redactor) -> Result<Recorder, RecorderError> {
        // The time is taken together with the header's own: the work here takes time, the first redaction of a process most.
        let started = Instant::now();
        let owned = path.to_owned();
        let opened = tokio::task::spawn_blocking(move || open(&owned)).await;
        let file = opened.unwrap_or_else(|panic| Err(RecorderError::Io(path.to_owned(), io::Error::other(panic))))?;
        let line = header_line(header, &redactor).map_err(|error| RecorderError::Io(path.to_owned(), error.into()))?;
        let recorder = LogFile::of(file)
            .and_then(|file| Recorder::over(file, header.run_id.clone(), redactor, started))
            .map_err(|error| RecorderError::Io(path.to_owned(), error))?;
        recorder.enqueue(line).await;
        recorder.settle().await;
        Ok(recorder)
    }

    /// Makes a failed log, for a run that goes on without one: [`Recorder::failure`] gives the reason.
    pub fn failed(reason: String) -> Recorder {
        let (queue, _) = mpsc::channel(1);
        let fault = Fault::default();
        fault.set(reason);
        Recorder {
            started: Instant::now(),
            lines: Mutex::new(Lines::new(String::new(), Redactor::default())),
            queue,
            room: Arc::new(Semaphore::new(ROOM)),
            fault: Arc::new(fault),
        }
    }

    /// Makes the recorder of a run, with a thread that writes to `file`.
    fn over(
        file: impl Write + Send + 'static,
        run_id: String,
        redactor: Redactor,
        started: Instant,
    ) -> io::Result<Recorder> {
        let (queue, jobs) = mpsc::channel(LINES);
        let fault = Arc::new(Fault::default());
        let of_thread = Arc::clone(&fault);
        std::thread::Builder::new()
            .name("dfp-run-log".to_owned())
            .spawn(move || write(file, jobs, &of_thread))?;
        Ok(Recorder {
            started,
            lines: Mutex::new(Lines::new(run_id, redactor)),
            queue,
            room: Arc::new(Semaphore::new(ROOM)),
            fault,
        })
    }

    /// Adds an event. Waits if too much is waiting for the disk already.
    pub async fn event(&self, event: &impl Serialize) {
        match serde_json::to_string(event) {
            Ok(json) => self.event_json(json).await,
            Err(error) => self.fault.set(format!("an event can't be written: {error}")),
        }
    }

    /// Adds an event that is already JSON: an object with a `type`.
    pub async fn event_json(&self, json: String) {
        if self.fault.is_set() {
            return;
        }
        // The lock is held until the lines are in the queue, so that they keep their order.
        let mut lines = self.lines.lock().await;
        let mut ready = Vec::new();
        lines.push(self.stamp(), json, &mut ready);
        for line in ready {
            self.enqueue(line).await;
        }
    }

    /// Adds the end of the run, if no event tells it, after the events that are still held back.
    pub async fn end(&self, end: Option<&End>) {
        if self.fault.is_set() {
            return;
        }
        let mut lines = self.lines.lock().await;
        let mut ready = Vec::new();
        lines.flush(&mut ready);
        if let Some(end) = end {
            match end_line(lines.run(), self.stamp(), end, lines.redactor()) {
                Ok(line) => ready.push(line),
                Err(error) => self.fault.set(format!("the run's end can't be written: {error}")),
            }
        }
        for line in ready {
            self.enqueue(line).await;
        }
    }

    /// Waits until all lines so far are in the file, or the log has failed.
    pub async fn settle(&self) {
        let (done, written) = oneshot::channel();
        let both = async {
            if self.queue.send(Job::Settled(done)).await.is_ok() {
                let _ = written.await;
            }
        };
        if !self.fault.is_set() && timeout(PATIENCE, both).await.is_err() {
            self.give_up();
        }
    }

    /// The reason why the log failed, if it has; returned once.
    pub fn failure(&self) -> Option<String> {
        let mut state = self.fault.locked();
        if state.reported {
            return None;
        }
        state.reported = state.reason.is_some();
        state.reason.clone()
    }

    async fn enqueue(&self, mut line: String) {
        if self.fault.is_set() {
            return;
        }
        line.push('\n');
        // At most ROOM, which is no more than a u32 holds.
        let size = u32::try_from(line.len().min(ROOM)).unwrap_or(u32::MAX);
        let handed = async {
            if let Ok(permit) = Arc::clone(&self.room).acquire_many_owned(size).await {
                let _ = self.queue.send(Job::Write(line, permit)).await;
            }
        };
        if timeout(PATIENCE, handed).await.is_err() {
            self.give_up();
        }
    }

    fn give_up(&self) {
        self.fault
            .set(format!("the file took nothing for {} s", PATIENCE.as_secs()));
    }

    fn stamp(&self) -> Stamp {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Stamp {
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, ms),
            t: ms(self.started.elapsed()),
        }
    }
}

/// A log's file. Others may add to it, but nobody may remove anything: the rest would begin in the middle.
#[derive(Debug)]
struct LogFile {
    file: File,
    /// The file's length at the last look, bytes; `None` for a device.
    length: Option<u64>,
}

impl LogFile {
    fn of(file: File) -> io::Result<LogFile> {
        let found = file.metadata()?;
        let length = found.is_file().then_some(found.len());
        Ok(LogFile { file, length })
    }

    fn check_length(&mut self) -> io::Result<()> {
        let Some(before) = self.length else { return Ok(()) };
        let found = self.file.metadata()?.len();
        self.length = Some(found);
        match found < before {
            true => Err(io::Error::other(format!(
                "somebody has cut the file while it was written: it had {before} bytes and has {found}"
            ))),
            false => Ok(()),
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check_length()?;
        let written = self.file.write(bytes)?;
        self.length = self.length.map(|length| length + written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.check_length()
    }
}

/// Runs the writing thread: it takes jobs until the recorder is gone, and closes the file.
fn write(mut file: impl Write, mut jobs: mpsc::Receiver<Job>, fault: &Fault) {
    while let Some(first) = jobs.blocking_recv() {
        let mut next = Some(first);
        let (mut bytes, mut permits, mut settled) = (Vec::new(), Vec::new(), None);
        while let Some(job) = next {
            match job {
                Job::Write(line, permit) => {
                    bytes.extend_from_slice(line.as_bytes());
                    permits.push(permit);
                }
                Job::Settled(done) => {
                    settled = Some(done);
                    break;
                }
            }
            next = if bytes.len() < BATCH {
                jobs.try_recv().ok()
            } else {
                None
            };
        }
        // Nothing is added after a line that failed: the lines before it are the log.
        if !bytes.is_empty()
            && !fault.is_set()
            && let Err(error) = file.write_all(&bytes).and_then(|()| file.flush())
        {
            fault.set(error.to_string());
        }
        drop(permits);
        if let Some(done) = settled {
            let _ = done.send(());
        }
    }
}

/// Opens the file for appending.
fn open(path: &Path) -> Result<File, RecorderError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(RecorderError::NoFolder(folder.to_owned()));
    }
    let io = |error| RecorderError::Io(path.to_owned(), error);
    // This is checked before opening: a pipe would wait for its reader.
    let device = match path.metadata() {
        Ok(found) if is_device(&found) => true,
        Ok(found) if !found.is_file() => return Err(RecorderError::NoFile(path.to_owned())),
        _ => false,
    };
    let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    // The device /dev/stdout is a link.
    if is_link && !device {
        return Err(RecorderError::Link(path.to_owned()));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(!device).read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
        if !device {
            // This also excludes a link that was put there since.
            let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits());
            options.custom_flags(no_link.unwrap_or_default());
        }
    }
    let mut file = match options.open(path) {
        // A file that may only be written is accepted: a log does not need to read it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => options.read(false).open(path).map_err(io)?,
        opened => opened.map_err(io)?,
    };
    let found = file.metadata().map_err(io)?;
    if !found.is_file() {
        return Ok(file);
    }
    if found.len() == 0 {
        make_private(path, &file, &found)?;
        return Ok(file);
    }
    let mut beginning = Vec::new();
    let read = (&mut file).take(BEGINNING.len() as u64).read_to_end(&mut beginning);
    if read.is_err() || beginning != BEGINNING {
        return Err(RecorderError::NotOurs(path.to_owned()));
    }
    make_private(path, &file, &found)?;
    // The rest of a line that a crash has torn must not swallow the next line.
    let mut last = [0];
    file.seek(SeekFrom::End(-1))
        .and_then(|_| file.read_exact(&mut last))
        .map_err(io)?;
    if last != *b"\n" {
        file.write_all(b"\n").map_err(io)?;
    }
    Ok(file)
}

/// Makes the file private to its owner, who must be this process's user.
#[cfg(unix)]
fn make_private(path: &Path, file: &File, found: &std::fs::Metadata) -> Result<(), RecorderError> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(RecorderError::NotOwned(path.to_owned()));
    }
    if found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let private = std::fs::Permissions::from_mode(found.mode() & 0o700);
    file.set_permissions(private)
        .map_err(|error| RecorderError::Io(path.to_owned(), error))
}

/// Does nothing: the file's folder decides who may read it.
#[cfg(not(unix))]
fn make_private(_: &Path, _: &File, _: &std::fs::Metadata) -> Result<(), RecorderError> {
    Ok(())
}

#[cfg(unix)]
fn is_device(found: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_char_device(&found.file_type())
}

#[cfg(not(unix))]
fn is_device(_: &std::fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests;
