//! JSON-RPC over the standard input and output of a process that serves many calls, for any set of methods.
//!
//! In: requests of all sessions in the process ([`RpcHost::post`]) and the answers to its own requests
//! ([`RpcHost::answer_request`]). Out: the answers, and for each session the messages of the process about it ([`Inbox`]). A
//! [`Protocol`] knows the meaning of the methods. A task reads and writes; it ends with the process, and the process ends with
//! the last handle.

pub mod message;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::message::{Frame, Frames, Message, Request, RpcError, Version, framed};
use super::host::{Ending, Heartbeat, Host, Inbox, Inboxes, Life, Patience, Unanswered};
use super::live::session::EXIT;
use super::live::streams::{LINE_ITSELF, MOST_OWED};
use super::print::{self, NotStarted, Surroundings};
use super::scratch::Scratch;
use dfp_process::{End, Running, StdinWriter};
use dfp_provider::command::{CommandLine, Cwd};
use dfp_text::decode::lines::{Cut, Line, Lines};

/// The size in bytes beyond which a line, or a message with a length, is taken to have no end.
const ENDLESS: u64 = 256 << 20;

/// The meaning of the methods of a process.
pub trait Protocol: std::fmt::Debug + Default + Send + Sync + 'static {
    /// A message about a session.
    type Event: std::fmt::Debug + Send + 'static;

    /// The version of JSON-RPC that its lines name.
    const VERSION: Version;

    /// The way in which messages are separated.
    const FRAMING: Framing = Framing::Lines;

    /// The name of the parameter that names the session.
    const SESSION: &'static str;

    /// Returns whether a notification of this method tells anything that matters here.
    fn matters(method: &str) -> bool;

    /// Reads a notification: the session, and the event for it.
    fn notification(&self, method: &str, params: &str) -> Option<(String, Self::Event)>;

    /// Decides what a request of the process means for a session of it.
    fn asked(&self, _request: &Request<'_>) -> Asked<Self::Event> {
        Asked::Refused(None)
    }

    /// The answer to a request that nobody answers.
    fn refusal(request: &Request<'_>) -> String {
        message::refusal(Self::VERSION, request.id, &request.method)
    }
}

/// The ways in which messages are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Each message is a line.
    Lines,
    /// Each message has a header with its length.
    Length,
}

/// The decision on a request of the process.
#[derive(Debug)]
pub enum Asked<E> {
    /// The session of this name answers it.
    Session(String, E),
    /// The request gets this answer at once, whatever sessions there are.
    Answered(Value),
    /// The request is refused, and the session, if any, gets the event.
    Refused(Option<(String, E)>),
}

/// The error of a request that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The process refused the request.
    Refused(RpcError),
    /// The request was not answered in time.
    Unanswered(Unanswered),
    /// The answer has more bytes than can be taken.
    TooLong,
    /// The process has exited.
    Gone,
}

/// The result of a request.
pub type Answer = Result<Box<RawValue>, RequestError>;

/// An answer that is still to come.
pub type Answering = oneshot::Receiver<Answer>;

/// A running process that speaks a protocol.
#[derive(Debug)]
pub struct RpcHost<P: Protocol> {
    host: Host,
    /// The process's private folder, if it has one.
    private: Option<PathBuf>,
    shared: Arc<Shared<P>>,
}

#[derive(Debug)]
struct Shared<P: Protocol> {
    protocol: P,
    outbox: mpsc::UnboundedSender<Bytes>,
    /// The bytes of the outbox that the process has not taken yet.
    owed: AtomicUsize,
    life: Life,
    next_id: AtomicU64,
    /// The inboxes of the sessions.
    inboxes: Inboxes<P::Event>,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    askers: HashMap<u64, oneshot::Sender<Answer>>,
    /// True if the process has exited, so that nothing will be answered.
    over: bool,
}

impl<P: Protocol> RpcHost<P> {
    /// Starts a process, and has `handshake` make it ready, in the time for which `patience` waits at first.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn ready<T, F: Future<Output = Result<T, NotStarted>>>(
        line: CommandLine,
        surroundings: Surroundings,
        patience: Patience,
        cancel: &CancellationToken,
        handshake: impl FnOnce(RpcHost<P>) -> F,
    ) -> Result<T, NotStarted> {
        let server = RpcHost::start(line, surroundings, patience, cancel)?;
        let ready = tokio::time::timeout(patience.first, handshake(server)).await;
        ready.unwrap_or_else(|_| {
            let reason = format!("it did not answer the handshake within {} s", patience.first.as_secs());
            Err(NotStarted::Unsupported(reason))
        })
    }

    /// Sends a request of the handshake, and returns its answer. `refused` says what the reason of a refusal means.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn shake(
        &self,
        method: &str,
        params: &impl Serialize,
        refused: impl FnOnce(String) -> NotStarted,
    ) -> Result<Box<RawValue>, NotStarted> {
        match self.post(method, params).await.unwrap_or(Err(RequestError::Gone)) {
            Ok(answer) => Ok(answer),
            Err(RequestError::Refused(error)) => Err(refused(error.message)),
            Err(RequestError::Gone) => Err(NotStarted::Ended(self.host.ended(EXIT).await)),
            Err(RequestError::Unanswered(_) | RequestError::TooLong) => Err(NotStarted::Unsupported(
                "its answer to the handshake can't be read".to_owned(),
            )),
        }
    }

    /// Asks for a list that the process can give by itself. `refused` says for people why a request was refused.
    ///
    /// # Errors
    /// The reason why there is no list.
    pub async fn listed<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        refused: impl FnOnce(String) -> String,
    ) -> Result<T, String> {
        match self.request(method, params).await {
            Ok(answer) => {
                serde_json::from_str(answer.get()).map_err(|_| format!("its answer to {method} can't be read"))
            }
            Err(RequestError::Refused(error)) => Err(refused(error.message)),
            Err(_) => Err(format!("it does not answer {method}")),
        }
    }

    /// Starts a process; nothing is sent to it yet.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub fn start(
        line: CommandLine,
        surroundings: Surroundings,
        patience: Patience,
        cancel: &CancellationToken,
    ) -> Result<RpcHost<P>, NotStarted> {
        let tracker = surroundings.tracker.clone();
        let own_folder = match &line.cwd {
            Cwd::Path(path) => Some(PathBuf::from(path)),
            Cwd::Private => None,
            Cwd::Inherit => std::env::current_dir().ok(),
        };
        let (running, stdin, scratch) = print::launch_open(line, surroundings, cancel, |_, _| Ok(()))?;
        let folder = own_folder.or_else(|| scratch.as_ref().map(Scratch::folder));
        let (host, ending) = Host::new(&running, folder.unwrap_or_default(), patience);
        let (outbox, lines) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            protocol: P::default(),
            outbox,
            owed: AtomicUsize::new(0),
            life: host.life().clone(),
            next_id: AtomicU64::new(1),
            inboxes: Inboxes::default(),
            requests: Mutex::default(),
        });
        let server = RpcHost {
            host,
            private: scratch.as_ref().map(Scratch::path),
            shared: Arc::clone(&shared),
        };
        tracker.spawn(serve(running, scratch, stdin, lines, shared, ending));
        Ok(server)
    }

    /// The host of the process.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The empty folder in which the process runs.
    pub fn folder(&self) -> String {
        self.host.folder().to_string_lossy().into_owned()
    }

    /// Sends a request that the process can answer at once, to check that it answers.
    pub fn heartbeat(&self, method: &str, params: &impl Serialize) -> Heartbeat {
        self.host.heartbeat(self.post(method, params))
    }

    /// The process's private folder, if it has one.
    pub fn private_folder(&self) -> Option<&Path> {
        self.private.as_deref()
    }

    /// The meaning of the methods, with what the process has told about all sessions.
    pub fn protocol(&self) -> &P {
        &self.shared.protocol
    }

    /// Sends a request that needs only the process, and waits for the answer as long as the host's patience allows.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn request(&self, method: &str, params: &impl Serialize) -> Answer {
        self.answer(self.post(method, params)).await
    }

    /// Waits for the answer to a request that [`RpcHost::post`] has sent.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn answer(&self, answer: impl Future<Output = Result<Answer, RecvError>>) -> Answer {
        match self.host.answer(answer).await {
            Ok(answer) => answer.unwrap_or(Err(RequestError::Gone)),
            Err(unanswered) => Err(RequestError::Unanswered(unanswered)),
        }
    }

    /// Sends a request; the answer comes through the returned receiver, however long that takes. Requests that are posted one
    /// after the other are handled in order.
    pub fn post(&self, method: &str, params: &impl Serialize) -> Answering {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut requests = self.shared.requests();
            if !requests.over {
                requests.askers.insert(id, sender);
            }
        }
        self.shared.send(message::request(P::VERSION, id, method, params));
        answer
    }

    /// Sends a notification.
    pub fn notify<T: Serialize>(&self, method: &str, params: Option<&T>) {
        self.shared.send(message::notification(P::VERSION, method, params));
    }

    /// Answers the process's request `id`.
    pub fn answer_request(&self, id: &RawValue, result: &impl Serialize) {
        self.shared.send(message::answer(P::VERSION, id, result));
    }

    /// Returns whether anybody waits for messages for `session`.
    pub fn has_inbox(&self, session: &str) -> bool {
        self.shared.inboxes.has(session)
    }

    /// Opens the inbox for `session`: it gets everything that comes from now on.
    pub fn inbox(&self, session: &str) -> Inbox<P::Event> {
        self.shared.inboxes.open(session)
    }
}

impl<P: Protocol> Shared<P> {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, line: String) {
        let line = match P::FRAMING {
            Framing::Lines => line,
            Framing::Length => framed(&line),
        };
        self.owed.fetch_add(line.len() + LINE_ITSELF, Ordering::Relaxed);
        // Sending fails only if the process is gone, which everybody who waits for something learns.
        let _ = self.outbox.send(line.into());
    }

    fn read(&self, line: &str) {
        match message::read(line) {
            Message::Nothing => {}
            Message::Answer { id, result } => self.answered(id, result.map_err(RequestError::Refused)),
            Message::Notification { method, params } => {
                if let Some((session, event)) = self.protocol.notification(&method, params) {
                    self.inboxes.deliver(&session, event, line.len());
                }
            }
            Message::Request(request) => {
                let told = match self.protocol.asked(&request) {
                    Asked::Session(session, event) if self.inboxes.has(&session) => Some((session, event)),
                    // Nobody will ever answer it otherwise.
                    Asked::Session(..) => {
                        self.send(P::refusal(&request));
                        None
                    }
                    Asked::Answered(answer) => {
                        self.send(message::answer(P::VERSION, request.id, &answer));
                        None
                    }
                    Asked::Refused(told) => {
                        self.send(P::refusal(&request));
                        told
                    }
                };
                if let Some((session, event)) = told {
                    self.inboxes.deliver(&session, event, line.len());
                }
            }
        }
    }

    fn answered(&self, id: u64, answer: Answer) {
        if let Some(asker) = self.requests().askers.remove(&id) {
            // An asker that has gone needs no answer.
            let _ = asker.send(answer);
        }
    }

    /// Handles a line that was too long to be kept: its receiver must not wait for what was in it.
    fn lost(&self, line: &Cut) {
        let id = line.member(&[], "id").and_then(|id| id.parse().ok());
        match (line.text(&[], "method"), id, line.text(&["params"], P::SESSION)) {
            (None, Some(id), _) => self.answered(id, Err(RequestError::TooLong)),
            (Some(method), None, _) if !P::matters(&method) => {}
            (Some(_), _, Some(session)) => self.inboxes.end(&session),
            // The line's receiver is unknown.
            _ => {
                self.requests().askers.clear();
                self.inboxes.clear();
            }
        }
    }
}

/// Reads and writes until the process is gone.
async fn serve<P: Protocol>(
    mut running: Running,
    scratch: Option<Scratch>,
    stdin: StdinWriter,
    mut lines: mpsc::UnboundedReceiver<Bytes>,
    shared: Arc<Shared<P>>,
    ending: Ending,
) {
    let (mut in_lines, mut in_frames) = (Lines::default(), Frames::default());
    let mut outbox: VecDeque<Bytes> = VecDeque::new();
    let mut ended_as = None;
    loop {
        let chunk = tokio::select! {
            biased;
            // Reading goes on all the while: a process that waits until its output is read would never take what is sent.
            chunk = running.next() => chunk,
            sent = stdin.write_all(outbox.front().cloned().unwrap_or_default()), if !outbox.is_empty() => {
                let taken = outbox.pop_front().map_or(0, |line| line.len() + LINE_ITSELF);
                shared.owed.fetch_sub(taken, Ordering::Relaxed);
                if sent.is_err() {
                    outbox.clear();
                    lines.close();
                }
                continue;
            }
            Some(line) = lines.recv() => {
                outbox.push_back(line);
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        shared.life.mark_responsive();
        match P::FRAMING {
            Framing::Lines => in_lines.push(&chunk, |line| match line {
                Line::Text { text, .. } => shared.read(&text),
                Line::TooLong { cut, .. } => shared.lost(&cut),
            }),
            Framing::Length => in_frames.push(&chunk, |frame| match frame {
                Frame::Text(text) => shared.read(&text),
                Frame::TooLong(cut) => shared.lost(&cut),
            }),
        }
        // The process asks on and on and reads no answer, or sends a message without an end.
        let unfinished = in_lines.unfinished() + in_frames.unfinished();
        if shared.owed.load(Ordering::Relaxed) > MOST_OWED || unfinished > ENDLESS {
            // No caller has closed it: what it did is why it ends.
            ended_as = Some(if unfinished > ENDLESS {
                End::OutputLimit
            } else {
                End::Exited
            });
            running.closer().close();
            break;
        }
    }
    ending.over();
    {
        let mut requests = shared.requests();
        requests.over = true;
        requests.askers.clear();
    }
    shared.inboxes.close();
    drop(stdin);
    let mut exit = running.exit().await;
    if let Some(end) = ended_as {
        exit.end = end;
        if end == End::OutputLimit {
            // The signal was ours, and says nothing about the program.
            exit.signal = None;
        }
    }
    drop(scratch);
    ending.exited(exit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Plain;

    impl Protocol for Plain {
        type Event = ();

        const VERSION: Version = None;
        const SESSION: &'static str = "threadId";

        fn matters(method: &str) -> bool {
            method != "noise"
        }

        fn notification(&self, _: &str, _: &str) -> Option<(String, ())> {
            None
        }
    }

    #[test]
    fn a_line_that_is_lost_ends_what_it_is_of_alone() {
        let shared: Shared<Plain> = Shared {
            protocol: Plain,
            outbox: mpsc::unbounded_channel().0,
            owed: AtomicUsize::new(0),
            life: Life::default(),
            next_id: AtomicU64::new(1),
            inboxes: Inboxes::default(),
            requests: Mutex::default(),
        };
        let long = "x".repeat(20_000);
        let lose = |line: String| {
            let mut cut = Cut::default();
            cut.push(line.as_bytes());
            shared.lost(&cut);
        };
        let inboxes = ["a", "b", "c", "d"].map(|session| shared.inboxes.open(session));
        let open = || ["a", "b", "c", "d"].map(|session| shared.inboxes.has(session));
        let mut answers = [7, 8].map(|id| {
            let (sender, answer) = oneshot::channel();
            shared.requests().askers.insert(id, sender);
            answer
        });
        lose(format!(r#"{{"method":"noise","params":{{"text":"{long}"}}}}"#));
        assert_eq!(open(), [true; 4]);
        lose(format!(
            r#"{{"method":"x","params":{{"threadId":"a","text":"{long}"}}}}"#
        ));
        assert_eq!(open(), [false, true, true, true]);
        // The session's name comes after the long part.
        lose(format!(
            r#"{{"method":"x","params":{{"item":{{"text":"{long}"}},"threadId":"b"}},"at":1}}"#
        ));
        assert_eq!(open(), [false, false, true, true]);
        lose(format!(r#"{{"id":7,"result":{{"text":"{long}"}}}}"#));
        assert_eq!(
            answers[0].try_recv().map(|answer| answer.unwrap_err()),
            Ok(RequestError::TooLong)
        );
        assert!(
            answers[1]
                .try_recv()
                .is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
        );
        assert_eq!(open(), [false, false, true, true]);
        // The line's receiver is unknown.
        lose(format!(r#"{{"method":"x","params":{{"text":"{long}"}}}}"#));
        assert_eq!(open(), [false; 4]);
        assert!(
            answers[1]
                .try_recv()
                .is_err_and(|error| error == oneshot::error::TryRecvError::Closed)
        );
        drop(inboxes);
    }
}
