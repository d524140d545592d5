//! The lines of a process: those it has printed, and those it is to read.
//!
//! In: bytes of its standard output, lines for its standard input. Out: one [`StreamEvent`] after the other, and the figures of
//! the turn to which they belong.
//!
//! A [`LineProcess`] has these, and what else is the same for each process that takes one turn after the other.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::session::{Handshake, Pulse, failed_turn};
use crate::EndedProcess;
use crate::print::{self, NotStarted, Surroundings, TAIL_BYTES};
use crate::scratch::Scratch;
use dfp_model::event::{Event, Failure};
use dfp_process::{Running, StdinWriter};
use dfp_provider::command::CommandLine;
use dfp_provider::declare::mcp::Declarations;
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
                    () = gone => return self.left_behind(),
                    read = self.running.next() => read,
                },
                // Reading goes on all the while: a CLI that waits until its output is read would never take what is sent.
                Some(line) => tokio::select! {
                    biased;
                    () = gone => return self.left_behind(),
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

    /// Kills what a launcher has left behind: asked to end, it would use the time to ask its API again.
    fn left_behind(&self) -> StreamEvent {
        self.kill();
        StreamEvent::Ended
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

    /// Waits for the end of the process, of whose output `decoder` has read all, and of everything that it has started. `kept` is held
    /// until then, since they may need it.
    async fn ended(self, decoder: Decoder, kept: impl Send) -> EndedProcess {
        let cleared = self.running.cleared();
        let Streams {
            running, stdin, turn, ..
        } = self;
        drop(stdin);
        let exit = running.exit().await;
        cleared.await;
        drop(kept);
        EndedProcess {
            exit,
            plain: decoder.plain_text(),
            cut_short: decoder.cut_short(),
            dropped_line: decoder.dropped_line(),
            diagnostics: decoder.diagnostics().to_vec(),
            stdout_tail: turn.tail(),
        }
    }
}

/// A session's own process, which takes one turn after the other.
#[derive(Debug)]
pub struct LineProcess {
    pub streams: Streams,
    /// The decoder of the turn.
    pub decoder: Decoder,
    pub handshake: Handshake,
    /// True if it was reported that a turn would not wait for its start.
    is_reported: bool,
    tracker: TaskTracker,
    scratch: Option<Scratch>,
}

impl LineProcess {
    /// Starts the process of `line`, whose output `decoder` reads. `prepare` first writes into its private folder, and is told the
    /// folder that it runs in.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub(crate) fn start(
        line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
        decoder: Decoder,
        prepare: impl FnOnce(&Scratch, &Path) -> io::Result<()>,
    ) -> Result<LineProcess, NotStarted> {
        let tracker = surroundings.tracker.clone();
        let (running, stdin, scratch) = print::launch_open(line, surroundings, cancel, prepare)?;
        Ok(LineProcess {
            streams: Streams::new(running, stdin),
            decoder,
            handshake: Handshake::Unasked,
            is_reported: false,
            tracker,
            scratch,
        })
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.streams.process().pid()
    }

    /// The private folder, if it has one.
    pub fn folder(&self) -> Option<PathBuf> {
        self.scratch.as_ref().map(Scratch::path)
    }

    /// Tracks what it leaves behind.
    pub fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// Begins a turn, whose output `decoder` reads.
    pub fn begin_turn(&mut self, decoder: Decoder) {
        self.streams.begin_turn();
        self.decoder = decoder;
    }

    /// Adds the meaning of `line` to `events`.
    pub fn decode(&mut self, line: &str, events: &mut Vec<Event>) {
        self.decoder.push(line.as_bytes(), events);
        self.decoder.push(b"\n", events);
    }

    /// The tools that the CLI says to offer, if it has just said so.
    ///
    /// # Errors
    /// The end of the turn, if those of `tools` are not all among them.
    pub fn offered(&mut self, tools: &Declarations) -> Result<Option<Vec<String>>, Vec<Event>> {
        let Some(offered) = self.decoder.take_offered() else {
            return Ok(None);
        };
        let missing = tools.missing(&offered);
        match missing.is_empty() {
            true => Ok(Some(offered)),
            false => Err(failed_turn(print::not_offered(&missing)).into()),
        }
    }

    /// The line that `step` of a turn has brought, to be read.
    ///
    /// # Errors
    /// The pulse that the step stands for, if it is no line; `events` gets its meaning.
    pub fn line_of(&mut self, step: StreamEvent, events: &mut Vec<Event>) -> Result<String, Pulse> {
        match step {
            StreamEvent::Line(Some(line)) => Ok(line),
            StreamEvent::Line(None) => {
                self.decoder.finish(events);
                events.push(Event::Failure(line_too_long()));
                Err(Pulse::TurnOver)
            }
            StreamEvent::Progress => Err(Pulse::Alive),
            StreamEvent::Ended => {
                let decoder = &mut self.decoder;
                self.streams.finish(|text| decoder.push(text.as_bytes(), events));
                decoder.finish(events);
                Err(Pulse::Ended)
            }
        }
    }

    /// Returns whether it is to be reported that a process which waits for a turn has become ready. If it ends before, its output says
    /// why; from then on, it only waits.
    pub fn becomes_ready(&mut self, is_ready: bool) -> bool {
        if self.is_reported {
            self.streams.rest();
            return false;
        }
        self.is_reported = is_ready;
        is_ready
    }

    /// Returns whether its readiness was reported.
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Has its readiness reported once more: it was asked for something ahead of its turn.
    pub fn report_again(&mut self) {
        self.is_reported = false;
    }

    /// Waits for the end of the process and of everything that it has started, after asking for it unless it `has_ended` by itself.
    /// `kept` is held until then, since they may need it.
    pub async fn ended(self, has_ended: bool, kept: impl Send) -> EndedProcess {
        if !has_ended {
            self.streams.close();
        }
        let LineProcess {
            streams,
            decoder,
            scratch,
            ..
        } = self;
        streams.ended(decoder, (kept, scratch)).await
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::scratch::Scratch;
    use dfp_process::{Spec, Stdin};
    use dfp_text::decode::Wire;
    use tokio_util::sync::CancellationToken;

    /// Something that the process needs: a file.
    struct Needed(PathBuf);

    impl Drop for Needed {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// A child that notes when what it needs is gone, and takes no notice of being asked to end.
    const CHILD: &str = r#"trap "" TERM; echo $$; while [ -e "$1/needed" ]; do sleep 0.01; done; : > "$1/asked""#;

    #[tokio::test]
    async fn the_child_of_a_launcher_that_was_killed_finds_what_it_needs_until_it_is_gone_too() {
        let folder = Scratch::empty(u64::MAX - 11).unwrap();
        let path = folder.folder();
        std::fs::write(path.join("needed"), "").unwrap();
        let needed = Needed(path.join("needed"));
        let launcher = r#"sh -c "$0" sh "$1" & wait"#;
        let mut spec = Spec::new("/bin/sh");
        spec.args = vec!["-c".into(), launcher.into(), CHILD.into(), path.clone().into()];
        spec.stdin = Stdin::Open;
        let mut running = dfp_process::start(spec, CancellationToken::new()).unwrap();
        let stdin = running.stdin().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(running.pid()).unwrap()).unwrap();
        let mut streams = Streams::new(running, stdin);
        let child = loop {
            if let StreamEvent::Line(Some(line)) = streams.step().await {
                break line;
            }
        };
        streams.rest();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert!(matches!(streams.step().await, StreamEvent::Ended));
        let ended = streams.ended(Decoder::new(Wire::ClaudeStream), needed);
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
        assert_eq!(ended.exit.signal.as_deref(), Some("SIGKILL"));
        // Nobody may have reaped it.
        let state = || {
            let mut ps = std::process::Command::new("ps");
            ps.args(["-o", "stat=", "-p", &child]).output().unwrap().stdout
        };
        while state().trim_ascii().first().is_some_and(|state| *state != b'Z') {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let there = (path.join("needed").exists(), path.join("asked").exists());
        assert_eq!(there, (false, false));
    }
}
