//! Writing a child's standard input: bytes known in advance, or messages of an owner who keeps the input open.
//!
//! In: bytes. Out: the child's stdin, closed at the end. A child that does not read its input (`EPIPE`, or for ever) has not
//! failed by that alone: its exit says what it thought of the input.

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use super::sys::watchdog_started;

/// The number of messages that may wait for a child that does not read.
const QUEUE: usize = 8;

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
        let (messages, receiver) = mpsc::channel(QUEUE);
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
