//! The lines of a process: those it has printed, and those it is to read.
//!
//! In: bytes of its standard output, lines for its standard input. Out: one [`StreamEvent`] after the other, and the figures of
//! the turn to which they belong.

use std::collections::VecDeque;
use std::future::pending;

use bytes::Bytes;
use tokio::time::Instant;

use crate::EndedProcess;
use crate::print::TAIL_BYTES;
use dfp_model::event::Failure;
use dfp_process::{Exit, Running, StdinWriter};
use dfp_text::decode::Decoder;
use dfp_text::decode::lines::{Line, Lines, MAX_LINE};

/// The bytes that may wait for a process that does not read; beyond that, the process is ended. Several threads with images fit.
pub const MOST_OWED: usize = 128 << 20;

/// The bytes that a line takes in memory beside its text.
pub const LINE_ITSELF: usize = 64;

/// An event on the streams of a process.
pub enum StreamEvent {
    /// A line came; `None` if it was too long.
    Line(Option<String>),
    /// A line of ours was taken, or a piece of a line came.
    Progress,
    /// Output has ended: there are no more lines.
    Ended,
}

/// Figures of the turn in progress.
#[derive(Debug)]
pub struct Figures {
    pub began: Instant,
    pub bytes: usize,
    pub lines: u64,
    tail: VecDeque<u8>,
}

impl Figures {
    fn new() -> Figures {
        Figures {
            began: Instant::now(),
            bytes: 0,
            lines: 0,
            tail: VecDeque::new(),
        }
    }

    /// The last bytes of the process's output.
    pub fn tail(&self) -> String {
        let (head, rest) = self.tail.as_slices();
        String::from_utf8_lossy(&[head, rest].concat()).into_owned()
    }
}

/// The failure of a turn of which a line was dropped.
pub fn line_too_long() -> Failure {
    let reason = format!(
        "a line of the CLI's output has more than {} MiB, which are not taken: the answer is not whole",
        MAX_LINE >> 20
    );
    Failure::named("line_too_long", reason)
}

/// A process and its lines.
#[derive(Debug)]
pub struct Streams {
    running: Running,
    stdin: StdinWriter,
    /// Lines of ours that wait to be taken.
    outbox: VecDeque<Bytes>,
    /// The number of bytes in the outbox.
    owed: usize,
    splitter: Lines,
    /// Lines of the CLI that wait to be read; `None` for a line that was too long.
    inbox: VecDeque<Option<String>>,
    turn: Figures,
    /// True if nothing was printed since the process began to wait for a turn.
    rested: bool,
}

impl Streams {
    pub fn new(running: Running, stdin: StdinWriter) -> Streams {
        Streams {
            running,
            stdin,
            outbox: VecDeque::new(),
            owed: 0,
            splitter: Lines::default(),
            inbox: VecDeque::new(),
            turn: Figures::new(),
            rested: false,
        }
    }

    /// Waits for the next event. Cancel safe: written and read lines go through queues.
    pub async fn step(&mut self) -> StreamEvent {
        loop {
            if self.owed > MOST_OWED {
                // The process asks on and on, and reads no answer.
                self.close();
                return StreamEvent::Ended;
            }
            if let Some(line) = self.inbox.pop_front() {
                return StreamEvent::Line(line);
            }
            // A launcher that was ended leaves its CLI behind, which holds the pipes and would answer (qwen 0.24.4): that session
            // is over. During a turn, everything printed counts to the end.
            let exited = self.rested.then(|| self.running.exited());
            let gone = async move {
                match exited {
                    Some(exited) => exited.await,
                    None => pending().await,
                }
            };
            let read = match self.outbox.front().cloned() {
                None => tokio::select! {
                    biased;
                    () = gone => return StreamEvent::Ended,
                    read = self.running.next() => read,
                },
                // Reading goes on all the while: a CLI that waits until its output is read would never take what is sent.
                Some(line) => tokio::select! {
                    biased;
                    () = gone => return StreamEvent::Ended,
                    written = self.stdin.write_all(line) => {
                        if let Some(line) = self.outbox.pop_front() {
                            self.owed -= line.len() + LINE_ITSELF;
                        }
                        if written.is_err() {
                            self.outbox.clear();
                            self.owed = 0;
                        }
                        return StreamEvent::Progress;
                    }
                    read = self.running.next() => read,
                },
            };
            match read {
                Some(bytes) => {
                    self.hear(&bytes);
                    // A line that never ends counts before its end.
                    if self.inbox.is_empty() {
                        return StreamEvent::Progress;
                    }
                }
                None => return StreamEvent::Ended,
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.turn.bytes += bytes.len();
        let tail = &mut self.turn.tail;
        tail.extend(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
        let inbox = &mut self.inbox;
        self.splitter.push(bytes, |line| {
            inbox.push_back(match line {
                Line::Text { text, .. } => Some(text.into_owned()),
                Line::TooLong { .. } => None,
            });
        });
    }

    /// Hands over a last line that has no line end.
    pub fn finish(&mut self, mut last: impl FnMut(&str)) {
        self.splitter.finish(|line| {
            if let Line::Text { text, .. } = line {
                last(&text);
            }
        });
    }

    /// Queues a line for the process to read.
    pub fn say(&mut self, line: String) {
        self.owed += line.len() + LINE_ITSELF;
        self.outbox.push_back(line.into());
    }

    /// Returns whether every line was taken.
    pub fn is_all_written(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Notes that the process waits for a turn.
    pub fn rest(&mut self) {
        self.rested = true;
    }

    /// Begins to count anew.
    pub fn begin_turn(&mut self) {
        self.turn = Figures::new();
    }

    /// Counts a line that was read.
    pub fn count_line(&mut self) {
        self.turn.lines += 1;
        self.rested = false;
    }

    pub fn turn(&self) -> &Figures {
        &self.turn
    }

    pub fn process(&self) -> &Running {
        &self.running
    }

    /// Ends the process.
    pub fn close(&self) {
        self.running.closer().close();
    }

    /// Kills the process.
    pub fn kill(&self) {
        self.running.kill();
    }

    /// Waits for the exit; the result includes the last bytes of the output.
    pub async fn exit(self) -> (Exit, String) {
        let Streams {
            running, stdin, turn, ..
        } = self;
        drop(stdin);
        (running.exit().await, turn.tail())
    }

    /// Waits for the end of the process, of whose output `decoder` has read all. `kept` is held until then, since the process may
    /// need it.
    pub async fn ended(self, decoder: Decoder, kept: impl Send) -> EndedProcess {
        let (exit, stdout_tail) = self.exit().await;
        drop(kept);
        EndedProcess {
            exit,
            plain: decoder.plain_text(),
            cut_short: decoder.cut_short(),
            dropped_line: decoder.dropped_line(),
            diagnostics: decoder.diagnostics().to_vec(),
            stdout_tail,
        }
    }
}
