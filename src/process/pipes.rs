//! A child's three pipes: its output is read, as chunks of stdout for a consumer and as head and tail of stderr, and its input is
//! written.
//!
//! In: two pipes to read, and bytes to write. Out: [`Bytes`] into a bounded channel, counts, and copies of the output ([`Tee`]). A slow
//! consumer holds the child up, not the supervisor, and loses nothing.
//!
//! A pipe's end is no sign of the child's end, nor the reverse: a grandchild may hold the pipe long after. So reading goes on
//! after the leader's exit, but only while data comes. What the leader itself wrote is in the pipe by then and is read in any
//! case; what others still write is waited for only for a limited time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::sys::watchdog_started;

/// The largest chunk handed on, bytes: the capacity of a pipe on Linux.
const CHUNK: usize = 64 * 1024;
/// A new buffer is taken when less than this is left of the old one, bytes.
const ROOM: usize = 4 * 1024;
/// The number of chunks that may wait for the consumer: with [`CHUNK`] about 1 MiB per run.
pub(super) const CHUNKS: usize = 16;
/// Bytes, the most a pipe can hold (`/proc/sys/fs/pipe-max-size` is 1 MiB): whatever comes after that many bytes since the
/// leader's exit was not written by the leader.
const PIPE_LIMIT: u64 = 1024 * 1024;

/// The state that the readers of a child's output share with its supervisor.
#[derive(Debug)]
pub(super) struct Flow {
    started: Instant,
    /// Ms from `started` to the last byte, or to the moment the consumer last took a chunk.
    last: AtomicU64,
    consumer_is_slow: AtomicBool,
    /// The number of [`Flow::hold`]s not yet released: owners working on something that the child waits for.
    holds: AtomicUsize,
    stdout_bytes: AtomicU64,
    first_byte: OnceLock<Duration>,
    stderr: Mutex<HeadTail>,
    /// Notified when more of stderr has come.
    stderr_grew: Notify,
    tees: Tees,
    /// Set by the supervisor when the leader has exited, or is no longer waited for.
    pub exited: CancellationToken,
    /// Set by the reader of stdout when more bytes came than are allowed.
    pub over_limit: CancellationToken,
}

impl Flow {
    pub fn new(started: Instant, tees: Tees) -> Self {
        Flow {
            started,
            last: AtomicU64::new(0),
            consumer_is_slow: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
            stdout_bytes: AtomicU64::new(0),
            first_byte: OnceLock::new(),
            stderr: Mutex::new(HeadTail::new(STDERR_HEAD, STDERR_TAIL)),
            stderr_grew: Notify::new(),
            tees,
            exited: CancellationToken::new(),
            over_limit: CancellationToken::new(),
        }
    }

    fn touch(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    /// Stops counting time as silence until [`Flow::release`].
    pub fn hold(&self) {
        self.holds.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one [`Flow::hold`] back: silence is counted from now.
    pub fn release(&self) {
        self.touch();
        self.holds.fetch_sub(1, Ordering::Relaxed);
    }

    /// Resolves when nothing has come for `limit`. Time in which the child could not write, because the consumer had
    /// not taken what was there, is not the child's silence; nor is time on hold.
    pub async fn idle(&self, limit: Duration) {
        loop {
            let last = self.started + Duration::from_millis(self.last.load(Ordering::Relaxed));
            let left = limit.saturating_sub(last.elapsed());
            let excused = self.consumer_is_slow.load(Ordering::Relaxed) || self.holds.load(Ordering::Relaxed) > 0;
            if excused {
                sleep(limit.max(Duration::from_millis(1))).await;
            } else if left.is_zero() {
                return;
            } else {
                sleep(left).await;
            }
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn stdout_bytes(&self) -> u64 {
        self.stdout_bytes.load(Ordering::Relaxed)
    }

    pub fn first_byte(&self) -> Option<Duration> {
        self.first_byte.get().copied()
    }

    /// Resolves when more of stderr has come than when this future was made.
    pub fn stderr_grew(&self) -> Notified<'_> {
        self.stderr_grew.notified()
    }

    /// The text of stderr so far, and its length in bytes.
    pub fn stderr(&self) -> (String, u64) {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        (text_of(&kept), kept.total())
    }
}

/// Reads `pipe` to its end, or to the end of patience, and sends at most `limit` bytes to `consumer`.
///
/// Output over the limit, or output that is no longer taken, is read and dropped, so that the child is not held up.
pub(super) async fn stdout(
    pipe: impl AsyncRead + Unpin,
    consumer: mpsc::Sender<Bytes>,
    flow: &Flow,
    limit: u64,
    patience: Duration,
) {
    let mut pipe = Patient::new(pipe, flow, patience);
    let mut buffer = BytesMut::new();
    let mut wanted = true;
    while pipe.read(&mut buffer).await > 0 {
        let mut chunk = buffer.split();
        if let Some(tee) = &flow.tees.stdout {
            tee.copy(&chunk);
        }
        let before = flow.stdout_bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        flow.first_byte.get_or_init(|| flow.started.elapsed());
        let room = limit.saturating_sub(before);
        if chunk.len() as u64 > room {
            flow.over_limit.cancel();
            chunk.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        }
        if !wanted || chunk.is_empty() {
            continue;
        }
        wanted = match consumer.try_send(chunk.freeze()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(chunk)) => {
                flow.consumer_is_slow.store(true, Ordering::Relaxed);
                let sent = consumer.send(chunk).await;
                flow.touch();
                flow.consumer_is_slow.store(false, Ordering::Relaxed);
                sent.is_ok()
            }
        };
    }
}

/// Reads `pipe` to its end, or to the end of patience, and keeps head and tail in `flow`.
pub(super) async fn stderr(pipe: impl AsyncRead + Unpin, flow: &Flow, patience: Duration) {
    let mut pipe = Patient::new(pipe, flow, patience);
    let mut buffer = BytesMut::new();
    while pipe.read(&mut buffer).await > 0 {
        if let Some(tee) = &flow.tees.stderr {
            tee.copy(&buffer);
        }
        flow.stderr.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer);
        flow.stderr_grew.notify_waiters();
        buffer.clear();
    }
}

/// A pipe that is waited on without limit until the leader's exit, and for `left` in all after it.
struct Patient<'a, P> {
    pipe: P,
    flow: &'a Flow,
    exited_at: Option<Instant>,
    patience: Duration,
    left: Duration,
    since_exit: u64,
}

impl<'a, P: AsyncRead + Unpin> Patient<'a, P> {
    fn new(pipe: P, flow: &'a Flow, patience: Duration) -> Self {
        Patient {
            pipe,
            flow,
            exited_at: None,
            patience,
            left: patience,
            since_exit: 0,
        }
    }

    /// Appends to `buffer` and returns how many bytes; 0 means that the end of the data has come.
    async fn read(&mut self, buffer: &mut BytesMut) -> usize {
        if buffer.capacity() - buffer.len() < ROOM {
            buffer.reserve(CHUNK);
        }
        if self.flow.exited.is_cancelled() {
            self.exited_at.get_or_insert_with(Instant::now);
        }
        let mut read: Option<io::Result<usize>> = None;
        if self.exited_at.is_none() {
            tokio::select! {
                biased;
                r = self.pipe.read_buf(buffer) => read = Some(r),
                () = self.flow.exited.cancelled() => self.exited_at = Some(Instant::now()),
            }
        }
        if let (None, Some(exited_at)) = (&read, self.exited_at) {
            // Another process writes without end.
            if self.since_exit > PIPE_LIMIT && exited_at.elapsed() > self.patience {
                return 0;
            }
            let asked = Instant::now();
            // Biased: patience only counts where the pipe is empty.
            tokio::select! {
                biased;
                r = self.pipe.read_buf(buffer) => read = Some(r),
                () = sleep(self.left) => return 0,
            }
            self.left = self.left.saturating_sub(asked.elapsed());
        }
        let n = match read {
            Some(Ok(n)) => n,
            // A pipe that can't be read is treated as one at its end.
            Some(Err(_)) | None => 0,
        };
        if n > 0 {
            self.flow.touch();
        }
        if self.exited_at.is_some() {
            self.since_exit += n as u64;
        }
        n
    }
}

/// Bytes kept of the beginning of stderr, where a program says what it is about to do and what it did not understand.
const STDERR_HEAD: usize = 8 * 1024;
/// Bytes kept of the end of stderr, where a program says why it failed.
const STDERR_TAIL: usize = 24 * 1024;

/// The kept parts of stderr as text, with a line in place of what is left out.
fn text_of(kept: &HeadTail) -> String {
    let (mut head, mut tail) = kept.ends();
    if kept.is_whole() {
        head.append(&mut tail);
        return String::from_utf8_lossy(&head).into_owned();
    }
    let left_out = kept.total() - (head.len() + tail.len()) as u64;
    // The cuts may have split characters.
    let half = head.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
    let head = String::from_utf8_lossy(&head[..head.len() - half]);
    let begin = tail.iter().take_while(|byte| **byte & 0xC0 == 0x80).count();
    let tail = String::from_utf8_lossy(&tail[begin..]);
    format!("{head}\n… {left_out} bytes left out …\n{tail}")
}

// Writing a child's standard input: bytes known in advance, or messages of an owner who keeps the input open.
//
// In: bytes. Out: the child's stdin, closed at the end. A child that does not read its input (`EPIPE`, or for ever) has not
// failed by that alone: its exit says what it thought of the input.

/// The number of messages that may wait for a child that does not read.
const MESSAGES: usize = 8;

/// The input to write, and whether it may be written at once or only after [`watchdog_started`].
#[derive(Debug)]
pub(super) struct Feed {
    what: What,
    at_once: bool,
}

#[derive(Debug)]
enum What {
    /// Nothing is left to write.
    Done,
    /// The rest of the known bytes, then the end of the input.
    Rest(ChildStdin, Bytes),
    /// Messages from a [`StdinWriter`]; the input ends when the writer is closed.
    Open(ChildStdin, mpsc::Receiver<Bytes>),
}

impl Feed {
    /// A feed that writes nothing and that nobody waits for.
    pub const NONE: Feed = Feed {
        what: What::Done,
        at_once: true,
    };

    /// Writes what fits into the pipe at once, so that the child finds its input there when it first looks: claude
    /// 2.1.197 gives up on a stdin that is silent for 3 s (CLI-FACTS 1.2), and a busy runtime may come late.
    pub fn bytes(pipe: ChildStdin, bytes: Bytes, at_once: bool) -> Feed {
        #[cfg(unix)]
        let bytes = {
            use std::os::fd::AsFd;
            let mut bytes = bytes;
            while at_once && !bytes.is_empty() {
                // The runtime has made the pipe non-blocking.
                match rustix::io::write(pipe.as_fd(), &bytes) {
                    Ok(n) => bytes = bytes.slice(n..),
                    Err(rustix::io::Errno::INTR) => {}
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(_) => return Feed::NONE,
                }
            }
            bytes
        };
        if bytes.is_empty() {
            Feed::NONE
        } else {
            let what = What::Rest(pipe, bytes);
            Feed { what, at_once }
        }
    }

    /// Keeps the pipe open for a [`StdinWriter`].
    pub fn open(pipe: ChildStdin, at_once: bool) -> (Feed, StdinWriter) {
        let (messages, receiver) = mpsc::channel(MESSAGES);
        let what = What::Open(pipe, receiver);
        (Feed { what, at_once }, StdinWriter { messages })
    }

    /// Writes to the end and closes the pipe; dropping the future closes it as well.
    pub async fn run(self) {
        if !self.at_once {
            watchdog_started().await;
        }
        // A child that does not take all of its input says by its exit what it thought of it.
        let _: std::io::Result<()> = match self.what {
            What::Done => Ok(()),
            What::Rest(mut pipe, bytes) => pipe.write_all(&bytes).await,
            What::Open(mut pipe, mut messages) => loop {
                let Some(message) = messages.recv().await else {
                    break Ok(());
                };
                if let Err(error) = pipe.write_all(&message).await {
                    break Err(error);
                }
            },
        };
    }
}

/// A writer for the open stdin of a live process.
///
/// A message is taken whole or not at all, so a dropped `write_all` leaves no half line behind. At most 8 messages wait
/// for a child that does not read; the ninth `write_all` waits with them.
#[derive(Debug)]
pub struct StdinWriter {
    messages: mpsc::Sender<Bytes>,
}

/// The stdin is closed: the child has exited, is being ended, or has closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the process takes no more input")]
pub struct StdinClosed;

impl StdinWriter {
    /// Hands `bytes` over to be written, in order. Cancel safe.
    ///
    /// # Errors
    /// [`StdinClosed`]; messages that were taken before may not have reached the child either.
    pub async fn write_all(&self, bytes: impl Into<Bytes>) -> Result<(), StdinClosed> {
        self.messages.send(bytes.into()).await.map_err(|_| StdinClosed)
    }

    /// Closes the stdin after what was handed over is written. Dropping the writer does the same.
    pub fn close(self) {}
}

/// A buffer that keeps the first and the last bytes pushed into it, and counts all.
#[derive(Debug)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl HeadTail {
    /// Makes a buffer that keeps at most `head_limit` bytes of the beginning and `tail_limit` of the end.
    pub fn new(head_limit: usize, tail_limit: usize) -> HeadTail {
        HeadTail {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_limit,
            tail_limit,
            total: 0,
        }
    }

    /// Adds the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    /// The number of bytes pushed so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns whether nothing was left out, so that the two ends together are the whole output.
    pub fn is_whole(&self) -> bool {
        self.total == (self.head.len() + self.tail.len()) as u64
    }

    /// Returns copies of both ends.
    pub fn ends(&self) -> (Vec<u8>, Vec<u8>) {
        (self.head.clone(), self.tail.iter().copied().collect())
    }
}

// Copies of a process's output, unchanged, for a reader such as the recorder.

/// Shows the name alone: the addon need not hold the code that shows every implementor.
impl fmt::Debug for dyn Tee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tee")
    }
}

/// A receiver of copied bytes. It is called on the runtime's threads, so it must not wait for anything slower than a local
/// disk.
pub trait Tee: Send + Sync {
    /// Takes the next bytes, any number of them.
    fn copy(&self, bytes: &[u8]);
}

/// The receivers of a process's output, by stream.
#[derive(Debug, Clone, Default)]
pub struct Tees {
    /// Receives all of standard output.
    pub stdout: Option<Arc<dyn Tee>>,
    /// Receives all of standard error.
    pub stderr: Option<Arc<dyn Tee>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_whole() {
        let mut kept = HeadTail::new(STDERR_HEAD, STDERR_TAIL);
        kept.push("a💡".as_bytes());
        kept.push(b"\xFF!\n");
        assert_eq!((text_of(&kept), kept.total()), ("a💡\u{FFFD}!\n".to_owned(), 8));
    }

    #[test]
    fn long_text_keeps_both_ends_whatever_the_chunks() {
        let text: Vec<u8> = (0..50_000u32).flat_map(|i| format!("{i},").into_bytes()).collect();
        let texts: Vec<(String, u64)> = [1, 7, 4096, 30_000, text.len()]
            .iter()
            .map(|&size| {
                let mut kept = HeadTail::new(STDERR_HEAD, STDERR_TAIL);
                text.chunks(size).for_each(|chunk| kept.push(chunk));
                (text_of(&kept), kept.total())
            })
            .collect();
        let whole = std::str::from_utf8(&text).unwrap();
        let left_out = text.len() - STDERR_HEAD - STDERR_TAIL;
        let expected = format!(
            "{}\n… {left_out} bytes left out …\n{}",
            &whole[..STDERR_HEAD],
            &whole[whole.len() - STDERR_TAIL..]
        );
        assert!(texts.iter().all(|t| *t == (expected.clone(), text.len() as u64)));
    }

    #[test]
    fn cuts_inside_of_characters_leave_no_rubbish() {
        let mut kept = HeadTail::new(STDERR_HEAD, STDERR_TAIL);
        kept.push(&[b"x".as_slice(), "💡".repeat(20_000).as_bytes()].concat());
        let text = text_of(&kept);
        assert!(!text.contains('\u{FFFD}') && text.starts_with("x💡") && text.ends_with('💡'));
    }

    #[tokio::test]
    async fn the_limit_cuts_to_the_byte_and_reading_goes_on() {
        for (limit, expected) in [(0, ""), (5, "01234"), (10, "0123456789"), (11, "0123456789")] {
            let flow = Flow::new(Instant::now(), Tees::default());
            let (tx, mut rx) = mpsc::channel(CHUNKS);
            stdout(&b"0123456789"[..], tx, &flow, limit, Duration::ZERO).await;
            let mut got = Vec::new();
            while let Some(chunk) = rx.recv().await {
                got.extend_from_slice(&chunk);
            }
            assert_eq!(got, expected.as_bytes());
            assert_eq!((flow.over_limit.is_cancelled(), flow.stdout_bytes()), (limit < 10, 10));
        }
    }

    #[tokio::test]
    async fn a_writer_without_end_is_left_when_the_leaders_own_data_is_read() {
        let flow = Flow::new(Instant::now(), Tees::default());
        flow.exited.cancel();
        let (tx, rx) = mpsc::channel(CHUNKS);
        drop(rx);
        stdout(
            tokio::io::repeat(b'x').take(64 * PIPE_LIMIT),
            tx,
            &flow,
            u64::MAX,
            Duration::ZERO,
        )
        .await;
        let read = flow.stdout_bytes();
        assert!(read > PIPE_LIMIT && read <= PIPE_LIMIT + CHUNK as u64, "{read} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_exit_patience_is_counted_in_silence_only() {
        let (mut grandchild, pipe) = tokio::io::duplex(64);
        let flow = Flow::new(Instant::now(), Tees::default());
        let (tx, mut rx) = mpsc::channel(CHUNKS);
        flow.exited.cancel();
        let began = Instant::now();
        let reading = stdout(pipe, tx, &flow, 100, Duration::from_millis(250));
        let writing = async {
            sleep(Duration::from_millis(100)).await;
            tokio::io::AsyncWriteExt::write_all(&mut grandchild, b"late")
                .await
                .unwrap();
            grandchild
        };
        let ((), _held_open) = tokio::join!(reading, writing);
        assert_eq!(rx.recv().await, Some(Bytes::from_static(b"late")));
        assert_eq!((rx.recv().await, began.elapsed()), (None, Duration::from_millis(250)));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_begins_when_the_last_hold_is_released() {
        let flow = Flow::new(Instant::now(), Tees::default());
        flow.hold();
        flow.hold();
        let releasing = async {
            sleep(Duration::from_millis(350)).await;
            flow.release();
            sleep(Duration::from_millis(350)).await;
            flow.release();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = flow.idle(Duration::from_millis(100)) => assert_eq!(flow.elapsed(), Duration::from_millis(800)),
            () = releasing => unreachable!("it waits for ever"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_consumer_is_not_the_childs_silence() {
        let flow = Flow::new(Instant::now(), Tees::default());
        let (tx, mut rx) = mpsc::channel(1);
        let (mut child, pipe) = tokio::io::duplex(64);
        let reading = stdout(pipe, tx, &flow, 100, Duration::ZERO);
        let consuming = async {
            for byte in [b"a", b"b", b"c"] {
                tokio::io::AsyncWriteExt::write_all(&mut child, byte).await.unwrap();
                tokio::task::yield_now().await;
            }
            sleep(Duration::from_millis(350)).await;
            let got = [rx.recv().await, rx.recv().await, rx.recv().await];
            std::future::pending::<()>().await;
            drop((child, got));
        };
        let idle = async {
            flow.idle(Duration::from_millis(100)).await;
            flow.started.elapsed()
        };
        tokio::select! {
            at = idle => assert_eq!(at, Duration::from_millis(450)),
            _ = async { tokio::join!(reading, consuming) } => unreachable!("the child lives"),
        }
    }

    #[test]
    fn both_ends_are_the_same_whatever_the_pieces() {
        let text: Vec<u8> = (0..1_000u32).flat_map(|i| format!("{i},").into_bytes()).collect();
        for size in [1, 7, 100, text.len()] {
            let mut kept = HeadTail::new(50, 150);
            text.chunks(size).for_each(|chunk| kept.push(chunk));
            let ends = (text[..50].to_vec(), text[text.len() - 150..].to_vec());
            assert_eq!(
                (kept.ends(), kept.total(), kept.is_whole()),
                (ends, text.len() as u64, false)
            );
        }
    }

    #[test]
    fn what_fits_is_whole() {
        let mut kept = HeadTail::new(2, 3);
        kept.push(b"abcde");
        assert_eq!(
            (kept.ends(), kept.is_whole()),
            ((b"ab".to_vec(), b"cde".to_vec()), true)
        );
        kept.push(b"f");
        assert_eq!(
            (kept.ends(), kept.is_whole()),
            ((b"ab".to_vec(), b"def".to_vec()), false)
        );
        assert_eq!(HeadTail::new(0, 0).ends(), (vec![], vec![]));
    }
}
