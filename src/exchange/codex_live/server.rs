//! One `codex app-server` process that serves many threads.
//!
//! In: requests ([`AppServer::request`]) and answers ([`AppServer::send`]) of everybody who has a thread in it. Out: to each its
//! answers, and to each thread what the server tells of it ([`Inbox`]). A task of its own reads and writes; it ends with the
//! process, and the process ends with the last handle.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::inbound::{self, Inbound, Limits, RpcError, ThreadEvent};
use super::wire;
use crate::command::CommandLine;
use crate::decode::lines::{Line, Lines};
use crate::exchange::live::inbox::{Inbox, Inboxes};
use crate::exchange::print::{self, NotStarted, Surroundings};
use crate::exchange::scratch::Scratch;
use crate::process::{Closer, Exit, Running, StartError, Stdin, StdinWriter};

/// A request that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The server refused it.
    Refused(RpcError),
    /// The process is no more.
    Gone,
}

/// A running server.
#[derive(Debug)]
pub struct AppServer {
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Arc<Exit>>>,
    closer: Closer,
    pid: u32,
    /// The empty folder it runs in.
    folder: PathBuf,
    /// No new threads: it has grown too large.
    retired: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    outbox: mpsc::UnboundedSender<Bytes>,
    next_id: AtomicU64,
    /// What comes for the threads.
    inboxes: Inboxes<ThreadEvent>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: HashMap<u64, oneshot::Sender<Result<Box<RawValue>, RequestError>>>,
    limits: Limits,
    /// The process is no more.
    over: bool,
}

impl AppServer {
    /// Starts a process; nothing is sent to it yet.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub fn start(
        line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
    ) -> Result<AppServer, NotStarted> {
        let tracker = surroundings.tracker.clone();
        let program = line.program.clone().into();
        let (mut running, scratch) = print::launch(line, Stdin::Open, surroundings, cancel)?;
        let stdin = running.stdin().ok_or_else(|| {
            let source = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            NotStarted::Process(StartError::Os { file: program, source })
        })?;
        let (outbox, lines) = mpsc::unbounded_channel();
        let (over, ended) = watch::channel(None);
        let shared = Arc::new(Shared {
            outbox,
            next_id: AtomicU64::new(1),
            inboxes: Inboxes::default(),
            state: Mutex::default(),
        });
        let server = AppServer {
            shared: Arc::clone(&shared),
            ended,
            closer: running.closer(),
            pid: running.pid(),
            folder: scratch.as_ref().map(Scratch::folder).unwrap_or_default(),
            retired: CancellationToken::new(),
        };
        tracker.spawn(serve(running, scratch, (stdin, lines), shared, over));
        Ok(server)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The empty folder it runs in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Asks for something and waits for the answer.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn request(&self, method: &str, params: &impl Serialize) -> Result<Box<RawValue>, RequestError> {
        self.post(method, params).await.unwrap_or(Err(RequestError::Gone))
    }

    /// Asks for something; the answer comes out of what is returned. What is asked for in one breath is done in order.
    pub fn post(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> oneshot::Receiver<Result<Box<RawValue>, RequestError>> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if !state.over {
                state.requests.insert(id, sender);
            }
        }
        self.send(wire::request(id, method, params));
        answer
    }

    /// Sends a line.
    pub fn send(&self, line: String) {
        // Refused only where the process is gone, which everybody learns who waits for something.
        let _ = self.shared.outbox.send(line.into());
    }

    /// What comes for `thread` from now on.
    pub fn inbox(&self, thread: &str) -> Inbox<ThreadEvent> {
        self.shared.inboxes.open(thread)
    }

    /// The limits of the account, as far as they are known.
    pub fn limits(&self) -> Limits {
        self.shared.lock().limits.clone()
    }

    /// Whether the process is no more, or about to be.
    pub fn is_over(&self) -> bool {
        self.shared.lock().over
    }

    /// Takes no new threads from now on; those that rest end.
    pub fn retire(&self) {
        self.retired.cancel();
    }

    /// Cancelled when it takes no new threads any more.
    pub fn retired(&self) -> &CancellationToken {
        &self.retired
    }

    /// Begins to end the process.
    pub fn close(&self) {
        self.closer.close();
    }

    /// Waits for the end of the process, for `patience` at most.
    pub async fn ended(&self, patience: Duration) -> Option<Arc<Exit>> {
        let mut ended = self.ended.clone();
        let over = async { ended.wait_for(Option::is_some).await.ok()?.clone() };
        tokio::time::timeout(patience, over).await.ok().flatten()
    }
}

impl Drop for AppServer {
    fn drop(&mut self) {
        self.closer.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, line: &str) {
        let (thread, event) = match inbound::read(line) {
            Inbound::Nothing => return,
            Inbound::Answer { id, result } => {
                if let Some(asker) = self.lock().requests.remove(&id) {
                    // Who has gone needs no answer.
                    let _ = asker.send(result.map_err(RequestError::Refused));
                }
                return;
            }
            Inbound::Limits(limits) => {
                self.lock().limits = limits;
                return;
            }
            Inbound::Request {
                id,
                method,
                thread,
                event,
            } => {
                let known = thread.filter(|thread| self.inboxes.has(thread));
                // Nobody will ever answer it otherwise.
                if known.is_none() || matches!(event, ThreadEvent::UnknownRequest { .. }) {
                    let _ = self.outbox.send(wire::refusal(&id, &method).into());
                }
                match known {
                    Some(thread) => (thread, event),
                    None => return,
                }
            }
            Inbound::Thread(thread, event) => (thread, event),
        };
        self.inboxes.deliver(&thread, event, line.len());
    }
}

/// Reads and writes until the process is gone.
async fn serve(
    mut running: Running,
    scratch: Option<Scratch>,
    (stdin, mut lines): (StdinWriter, mpsc::UnboundedReceiver<Bytes>),
    shared: Arc<Shared>,
    over: watch::Sender<Option<Arc<Exit>>>,
) {
    let mut splitter = Lines::default();
    let mut outbox: VecDeque<Bytes> = VecDeque::new();
    loop {
        let chunk = tokio::select! {
            biased;
            // Listening all the while: a server that waits for us to listen would never take what is sent.
            chunk = running.next() => chunk,
            sent = stdin.write_all(outbox.front().cloned().unwrap_or_default()), if !outbox.is_empty() => {
                outbox.pop_front();
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
        splitter.push(&chunk, |line| match line {
            Line::Text { text, .. } => shared.read(&text),
            // Whose it was can't be told: no thread may wait for what was in it.
            Line::TooLong { .. } => shared.inboxes.clear(),
        });
    }
    {
        let mut state = shared.lock();
        state.over = true;
        state.requests.clear();
    }
    shared.inboxes.close();
    drop(stdin);
    let exit = running.exit().await;
    drop(scratch);
    over.send_replace(Some(Arc::new(exit)));
}
