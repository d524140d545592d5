//! One claude process that takes one turn after the other.
//!
//! In: a user line per turn. Out: [`Pulse`]s with the events of the turn, until it is over. Questions of the CLI's are answered
//! on the way, between turns as well ([`Session::rest`]).
//!
//! ```text
//! start ─▶ spare ─begin─▶ handshake + turn ─▶ resting ─begin─▶ turn ─▶ resting …
//!            └────────────── end (killed, removed, awaited in the background) ◀──┘
//! ```

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::mcp::{self, Answered};
use super::setup::Setup;
use super::wire::{self, Inbound};
use crate::command::CommandLine;
use crate::decode::lines::{Line, Lines};
use crate::decode::{Decoder, Wire};
use crate::event::Event;
use crate::exchange::EndedProcess;
use crate::exchange::print::{self, NotStarted, Surroundings, TAIL_BYTES};
use crate::exchange::scratch::{Leftover, Scratch};
use crate::process::{Running, StartError, Stdin, StdinWriter};

/// Our request ids; the CLI only repeats them.
const INITIALIZE: &str = "df-initialize";
const INTERRUPT: &str = "df-interrupt";

/// How far the handshake is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// Nothing was said yet: a spare.
    Unasked,
    /// `initialize` is under way since then.
    Asked(Instant),
    /// The CLI speaks the protocol.
    Done,
}

/// What [`Session::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Pulse {
    /// A line, and perhaps events.
    Alive,
    /// The turn's result is among the events.
    TurnOver,
    /// The CLI does not do what a session needs; the reason.
    Unsupported(String),
    /// Standard output has ended: the process is going or gone.
    Ended,
}

/// A live process.
#[derive(Debug)]
pub struct Session {
    running: Running,
    stdin: StdinWriter,
    /// Lines of ours that wait to be taken.
    outbox: VecDeque<Bytes>,
    splitter: Lines,
    /// Lines of the CLI's that wait to be read; `None` where one was too long.
    inbox: VecDeque<Option<String>>,
    decoder: Decoder,
    handshake: Handshake,
    setup: Arc<Setup>,
    /// What all turns before this one cost: the CLI tells the sum (CLI-FACTS 1.6).
    cost_usd: f64,
    turn: Turn,
    owner: u64,
    tracker: TaskTracker,
    scratch: Option<Scratch>,
    socket: Option<Leftover>,
}

/// Figures of the turn that is going on.
#[derive(Debug)]
struct Turn {
    began: Instant,
    bytes: usize,
    lines: u64,
    tail: VecDeque<u8>,
}

impl Turn {
    fn new() -> Turn {
        Turn {
            began: Instant::now(),
            bytes: 0,
            lines: 0,
            tail: VecDeque::new(),
        }
    }
}

impl Session {
    /// Starts a process that is told nothing yet.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub fn start(
        line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
    ) -> Result<Session, NotStarted> {
        let (owner, tracker) = (surroundings.owner, surroundings.tracker.clone());
        let program = PathBuf::from(&line.program);
        let (mut running, scratch) = print::launch(line, Stdin::Open, surroundings, cancel)?;
        let stdin = running.stdin().ok_or_else(|| {
            NotStarted::Process(StartError::Os {
                file: program,
                source: io::Error::from(io::ErrorKind::BrokenPipe),
            })
        })?;
        Ok(Session {
            running,
            stdin,
            outbox: VecDeque::new(),
            splitter: Lines::default(),
            inbox: VecDeque::new(),
            decoder: Decoder::new(Wire::ClaudeStream),
            handshake: Handshake::Unasked,
            setup: Arc::new(Setup::new(None, None, &[])),
            cost_usd: 0.0,
            turn: Turn::new(),
            owner,
            tracker,
            scratch,
            socket: None,
        })
    }

    /// Begins a turn with the user line `user`. The first turn tells the CLI `setup`, in the same write: it reaches the API
    /// in 41 ms that way, and the CLI takes its lines in order (CLI-FACTS 1.7).
    pub fn begin(&mut self, user: &str, setup: &Arc<Setup>) {
        self.turn = Turn::new();
        self.decoder = Decoder::new(Wire::ClaudeStream);
        let mut lines = String::new();
        if self.handshake == Handshake::Unasked {
            self.handshake = Handshake::Asked(Instant::now());
            self.setup = Arc::clone(setup);
            lines = wire::initialize(INITIALIZE, setup);
        }
        lines.push_str(user);
        self.outbox.push_back(lines.into());
    }

    /// Waits for the next line; what it means goes to `events`. Cancel safe.
    pub async fn next(&mut self, events: &mut Vec<Event>) -> Pulse {
        match self.line().await {
            None => {
                let decoder = &mut self.decoder;
                self.splitter.finish(|line| {
                    if let Line::Text { text, .. } = line {
                        decoder.push(text.as_bytes(), events);
                    }
                });
                decoder.finish(events);
                Pulse::Ended
            }
            Some(None) => Pulse::Alive,
            Some(Some(line)) => self.read(&line, events),
        }
    }

    /// Answers what the CLI asks between turns; returns when it is gone. Cancel safe.
    pub async fn rest(&mut self) {
        let mut unheard = Vec::new();
        while let Some(line) = self.line().await {
            if let Some(line) = line {
                let _ = self.read(&line, &mut unheard);
                unheard.clear();
            }
        }
    }

    /// Asks the CLI to stop the turn, and waits for its result or its end, `patience` at most.
    pub async fn interrupt(&mut self, patience: Duration) {
        self.outbox.push_back(wire::interrupt(INTERRUPT).into());
        let mut unheard = Vec::new();
        let over = async {
            while self.next(&mut unheard).await == Pulse::Alive {
                unheard.clear();
            }
        };
        let _ = tokio::time::timeout(patience, over).await;
    }

    /// Ends the process and waits until nothing of it is left.
    pub async fn finish(self) -> EndedProcess {
        let closer = self.running.closer();
        closer.close();
        self.finished().await
    }

    /// Waits for the exit of a process whose output has [ended](Pulse::Ended).
    pub async fn finished(self) -> EndedProcess {
        let Session {
            running,
            stdin,
            decoder,
            turn,
            scratch,
            socket,
            ..
        } = self;
        drop(stdin);
        let exit = running.exit().await;
        drop((scratch, socket));
        EndedProcess {
            exit,
            plain: decoder.plain_text(),
            cut_short: decoder.cut_short(),
            diagnostics: decoder.diagnostics().to_vec(),
            stdout_tail: tail_of(&turn.tail),
        }
    }

    /// Ends the process in the background.
    pub fn end(self) {
        let tracker = self.tracker.clone();
        tracker.spawn(self.finish());
    }

    /// The process.
    pub fn process(&self) -> &Running {
        &self.running
    }

    /// How far the handshake is.
    pub fn handshake(&self) -> Handshake {
        self.handshake
    }

    /// Since the turn began.
    pub fn elapsed(&self) -> Duration {
        self.turn.began.elapsed()
    }

    /// Bytes of standard output in this turn.
    pub fn turn_bytes(&self) -> usize {
        self.turn.bytes
    }

    /// Lines of standard output in this turn.
    pub fn turn_lines(&self) -> u64 {
        self.turn.lines
    }

    /// The last bytes of this turn's output.
    pub fn turn_tail(&self) -> String {
        tail_of(&self.turn.tail)
    }

    /// Lines of this turn that were no events.
    pub fn diagnostics(&self) -> &[String] {
        self.decoder.diagnostics()
    }

    /// The next line; `Some(None)` is one that was too long. `None` when there are no more. Cancel safe: what is said and what
    /// is heard goes through queues.
    async fn line(&mut self) -> Option<Option<String>> {
        loop {
            if let Some(line) = self.inbox.pop_front() {
                return Some(line);
            }
            let heard = match self.outbox.front().cloned() {
                None => self.running.next().await,
                // Listening all the while: a CLI that waits for us to listen would never take what we say.
                Some(words) => tokio::select! {
                    biased;
                    said = self.stdin.write_all(words) => {
                        self.outbox.pop_front();
                        if said.is_err() {
                            self.outbox.clear();
                        }
                        continue;
                    }
                    heard = self.running.next() => heard,
                },
            };
            self.hear(&heard?);
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
                Line::TooLong { bytes, .. } => {
                    tracing::warn!(bytes, "a line of a live session is too long; dropped");
                    None
                }
            });
        });
    }

    fn read(&mut self, line: &str, events: &mut Vec<Event>) -> Pulse {
        self.turn.lines += 1;
        if let Some(inbound) = wire::read(line) {
            return self.control(inbound);
        }
        self.note_socket(line);
        let before = events.len();
        self.decoder.push(line.as_bytes(), events);
        self.decoder.push(b"\n", events);
        let mut over = false;
        for event in &mut events[before..] {
            match event {
                Event::ToolCall { tool_call } => tool_call.name = self.setup.callers_name(&tool_call.name),
                Event::Outcome(outcome) => {
                    outcome.cost_usd = outcome.cost_usd.map(|total| turn_cost(&mut self.cost_usd, total));
                    over = true;
                }
                _ => {}
            }
        }
        if over { Pulse::TurnOver } else { Pulse::Alive }
    }

    fn control(&mut self, inbound: Inbound) -> Pulse {
        let answer = match inbound {
            Inbound::Hook { request_id } => wire::deferred(&request_id),
            Inbound::Mcp { request_id, message } => match mcp::answer(self.setup.tools(), &message) {
                Answered::With(answer) => wire::mcp_answer(&request_id, &answer),
                Answered::ToolCallRequest => {
                    return Pulse::Unsupported(
                        "it runs tools instead of leaving them to the caller (its hooks are off)".into(),
                    );
                }
            },
            Inbound::Permission { request_id } => wire::denied(&request_id),
            Inbound::Unknown { request_id, subtype } => wire::refused(
                &request_id,
                &format!("deep-factor-providers knows no request {subtype}"),
            ),
            Inbound::Answer { request_id, refused } if request_id == INITIALIZE => {
                if let Some(reason) = refused {
                    return Pulse::Unsupported(format!("it refuses to be initialised: {reason}"));
                }
                self.handshake = Handshake::Done;
                return Pulse::Alive;
            }
            Inbound::Answer { .. } | Inbound::Nothing => return Pulse::Alive,
        };
        self.outbox.push_back(answer.into());
        Pulse::Alive
    }

    /// 2.1.330 opens a socket in the temp folder and leaves it there when it is killed (CLI-FACTS 1b §1).
    fn note_socket(&mut self, line: &str) {
        #[derive(Deserialize)]
        struct Init {
            messaging_socket_path: Option<PathBuf>,
        }
        if self.socket.is_some() || !line.contains("\"messaging_socket_path\"") {
            return;
        }
        let told = serde_json::from_str::<Init>(line).ok();
        let told = told.and_then(|init| init.messaging_socket_path);
        if let Some(path) = told.filter(|path| is_socket_of(path, self.running.pid())) {
            self.socket = Some(Leftover::adopt(path, self.owner));
        }
    }
}

/// What a turn cost, when the CLI tells that all of them cost `total` US dollars, and those before it cost `before`.
fn turn_cost(before: &mut f64, total: f64) -> f64 {
    let cost = (total - *before).max(0.0);
    *before = total;
    // The CLI's own sums have no more digits than this; the difference of two would.
    (cost * 1e9).round() / 1e9
}

/// Whether `path` is what the CLI names its socket, and nothing else's: it will be removed.
fn is_socket_of(path: &Path, pid: u32) -> bool {
    let named = path
        .file_name()
        .is_some_and(|name| name == format!("{pid}.sock").as_str());
    path.is_absolute() && named && path.parent().is_some_and(|folder| folder.ends_with("cc-socks"))
}

fn tail_of(tail: &VecDeque<u8>) -> String {
    let (head, rest) = tail.as_slices();
    String::from_utf8_lossy(&[head, rest].concat()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clis_own_socket_is_removed() {
        for (path, expected) in [
            ("/tmp/cc-socks/17.sock", cfg!(unix)),
            ("/tmp/cc-socks/18.sock", false),
            ("/tmp/17.sock", false),
            ("cc-socks/17.sock", false),
            ("/home/user/cc-socks/17.sock/..", false),
        ] {
            assert_eq!(is_socket_of(Path::new(path), 17), expected, "{path}");
        }
    }
}
