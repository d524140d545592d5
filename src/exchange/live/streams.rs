//! The lines of a process: those it has printed, and those it is to read.
//!
//! In: bytes of its standard output, lines for its standard input. Out: one [`StreamEvent`] after the other, and the figures of the turn
//! they belong to.

use std::collections::VecDeque;
use std::future::pending;

use bytes::Bytes;
use tokio::time::Instant;

use crate::decode::Decoder;
use crate::decode::lines::{Line, Lines, MAX_LINE};
use crate::event::Failure;
use crate::exchange::EndedProcess;
use crate::exchange::print::TAIL_BYTES;
use crate::process::{Exit, Running, StdinWriter};

/// How much may wait for a process that does not read, bytes: a process that owes us more is ended. Several threads with images fit.
pub const MOST_OWED: usize = 128 << 20;

/// What a line takes beside its text, bytes.
pub const LINE_ITSELF: usize = 64;

/// What has happened to the streams of a process.
pub enum StreamEvent {
    /// A line came; `None` if it was too long.
    Line(Option<String>),
    /// A line of ours was taken, or a piece of a line came.
    Progress,
    /// There are no more lines.
    Ended,
}

/// Figures of the turn that is going on.
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

    /// The last bytes of its output.
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
    /// How many bytes they are.
    owed: usize,
    splitter: Lines,
    /// Lines of the CLI's that wait to be read; `None` where one was too long.
    inbox: VecDeque<Option<String>>,
    turn: Figures,
    /// Nothing was printed since it waited for a turn.
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

    /// The next thing that happens. Cancel safe: what is written and what is read goes through queues.
    pub async fn step(&mut self) -> StreamEvent {
        loop {
            if self.owed > MOST_OWED {
                // It asks on and on, and reads no answer.
                self.close();
                return StreamEvent::Ended;
            }
            if let Some(line) = self.inbox.pop_front() {
                return StreamEvent::Line(line);
            }
            // A launcher that was ended leaves its CLI behind, which holds the pipes and would answer (qwen 0.24.4): that
            // session is over. While a turn goes on, what is printed counts to the end.
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
                // Listening all the while: a CLI that waits for us to listen would never take what we say.
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
                    // A line that never ends counts before it does.
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

    /// What is left where output ends without a line's end.
    pub fn finish(&mut self, mut last: impl FnMut(&str)) {
        self.splitter.finish(|line| {
            if let Line::Text { text, .. } = line {
                last(&text);
            }
        });
    }

    /// A line for the process to read.
    pub fn say(&mut self, line: String) {
        self.owed += line.len() + LINE_ITSELF;
        self.outbox.push_back(line.into());
    }

    /// Whether every line was taken.
    pub fn is_all_written(&self) -> bool {
        self.outbox.is_empty()
    }

    /// The process waits for a turn.
    pub fn rest(&mut self) {
        self.rested = true;
    }

    /// Counts anew from here.
    pub fn begin_turn(&mut self) {
        self.turn = Figures::new();
    }

    /// A line was read.
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

    /// Waits for the exit; the last output on the way out comes with it.
    pub async fn exit(self) -> (Exit, String) {
        let Streams {
            running, stdin, turn, ..
        } = self;
        drop(stdin);
        (running.exit().await, turn.tail())
    }

    /// Waits for the end of the process, of whose output `decoder` has read all. What it may need until then is `kept`.
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
