//! One `--acp` process that serves many calls.
//!
//! In: requests of everybody who has a call in it. Out: to each call what comes for it ([`Inbox`]). A task of its own reads and writes;
//! it ends with the process, and the process ends with the last handle.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::wire::{self, Agent, Inbound, RpcError, Update};
use crate::command::{CommandLine, Cwd};
use crate::decode::lines::{Line, Lines};
use crate::exchange::print::{self, NotStarted, Surroundings};
use crate::exchange::scratch::Scratch;
use crate::process::{Closer, Exit, Running, StartError, Stdin, StdinWriter};

/// How much may wait for a call's owner, bytes. An owner that takes nothing must not hold up the others, nor take all memory.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// How long a process may take until it has answered the handshake: gemini 0.61.0 takes 2 to 5 s, and more on a busy machine.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// How long the end of a process that has closed its output is waited for.
const EXIT: Duration = Duration::from_secs(5);

/// A running process.
#[derive(Debug)]
pub struct AcpServer {
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Arc<Exit>>>,
    closer: Closer,
    pid: u32,
    /// The folder of its sessions.
    folder: PathBuf,
    /// Held by who opens a session.
    opening: Arc<AsyncMutex<()>>,
    /// How many sessions were opened.
    sessions: AtomicU32,
    /// The CLI's version, where it says it.
    version: OnceLock<String>,
    /// No new calls.
    retired: CancellationToken,
}

/// The right to open a session, until it is dropped.
pub type OpeningPermit = OwnedMutexGuard<()>;

/// Why there is no process that serves calls.
#[derive(Debug)]
pub enum NoServer {
    /// It could not be started.
    NotStarted(NotStarted),
    /// It does not do what is needed, for this reason.
    Unsupported(String),
    /// It has ended before it was ready.
    Ended(Option<Arc<Exit>>),
}

#[derive(Debug)]
struct Shared {
    outbox: mpsc::UnboundedSender<Bytes>,
    next_id: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Who waits for which answer.
    requests: HashMap<u64, Route>,
    /// Whose session it is.
    sessions: HashMap<String, Route>,
    /// The process is no more.
    over: bool,
}

/// The way to a call's owner.
#[derive(Debug, Clone)]
struct Route {
    events: mpsc::UnboundedSender<Delivered>,
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Delivered {
    /// None: nothing more will come.
    message: Option<ServerMessage>,
    bytes: usize,
}

impl Route {
    /// Nothing more will come.
    fn end(&self) {
        // Who has gone needs no news.
        let _ = self.events.send(Delivered {
            message: None,
            bytes: 0,
        });
    }
}

/// What comes for a call.
#[derive(Debug)]
pub enum ServerMessage {
    /// An answer to one of its requests.
    Answer(u64, Result<Box<RawValue>, RpcError>),
    /// Something about its session.
    Update(Update),
}

/// What comes for one call. Dropping it ends the delivery.
#[derive(Debug)]
pub struct Inbox {
    /// Its requests and its session: what is to be forgotten.
    asked: Vec<u64>,
    session: Option<String>,
    events: mpsc::UnboundedReceiver<Delivered>,
    /// Given to each of them.
    route: Route,
    shared: Arc<Shared>,
    /// Bytes so far.
    bytes: u64,
}

impl AcpServer {
    /// Starts a process and waits until it has answered the handshake.
    ///
    /// # Errors
    /// [`NoServer`].
    pub async fn start(
        line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
    ) -> Result<AcpServer, NoServer> {
        let tracker = surroundings.tracker.clone();
        let program = line.program.clone().into();
        let own_folder = match &line.cwd {
            Cwd::Path(path) => Some(PathBuf::from(path)),
            Cwd::Private => None,
            Cwd::Inherit => std::env::current_dir().ok(),
        };
        let launched = print::launch(line, Stdin::Open, surroundings, cancel);
        let (mut running, scratch) = launched.map_err(NoServer::NotStarted)?;
        let stdin = running.stdin().ok_or_else(|| {
            let source = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            NoServer::NotStarted(NotStarted::Process(StartError::Os { file: program, source }))
        })?;
        let (outbox, lines) = mpsc::unbounded_channel();
        let (over, ended) = watch::channel(None);
        let shared = Arc::new(Shared {
            outbox,
            next_id: AtomicU64::new(1),
            state: Mutex::default(),
        });
        let folder = own_folder.or_else(|| scratch.as_ref().map(Scratch::folder));
        let server = AcpServer {
            shared: Arc::clone(&shared),
            ended,
            closer: running.closer(),
            pid: running.pid(),
            folder: folder.unwrap_or_default(),
            opening: Arc::default(),
            sessions: AtomicU32::new(0),
            version: OnceLock::new(),
            retired: CancellationToken::new(),
        };
        tracker.spawn(serve(running, scratch, (stdin, lines), shared, over));
        let ready = tokio::time::timeout(HANDSHAKE, server.handshake()).await;
        let agent = ready.unwrap_or_else(|_| {
            let reason = format!("it did not answer the handshake within {} s", HANDSHAKE.as_secs());
            Err(NoServer::Unsupported(reason))
        })?;
        if let Some(version) = agent.agent_info.version {
            server.version.get_or_init(|| version);
        }
        Ok(server)
    }

    async fn handshake(&self) -> Result<Agent, NoServer> {
        let mut inbox = self.inbox();
        self.ask(&mut inbox, "initialize", &wire::initialize());
        let result = match inbox.next().await {
            Some(ServerMessage::Answer(_, result)) => result,
            Some(ServerMessage::Update(_)) | None => return Err(NoServer::Ended(self.exit().await)),
        };
        let answer = result.map_err(|error| NoServer::Unsupported(format!("it refuses: {}", error.reason())))?;
        match serde_json::from_str::<Agent>(answer.get()) {
            Ok(agent) if agent.is_understood() => Ok(agent),
            Ok(agent) => {
                let reason = format!("it speaks version {} of the protocol", agent.protocol_version);
                Err(NoServer::Unsupported(reason))
            }
            Err(_) => Err(NoServer::Unsupported("it does not speak the protocol".to_owned())),
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The folder in which its sessions are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The CLI's version, where it says it.
    pub fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }

    /// How many sessions were opened.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// A session was opened.
    pub fn count_session(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// A call's end of the line.
    pub fn inbox(&self) -> Inbox {
        let (sender, events) = mpsc::unbounded_channel();
        Inbox {
            asked: Vec::new(),
            session: None,
            events,
            route: Route {
                events: sender,
                waiting: Arc::default(),
            },
            shared: Arc::clone(&self.shared),
            bytes: 0,
        }
    }

    /// Asks for something; the answer comes to `inbox`, under the number that is returned.
    pub fn ask(&self, inbox: &mut Inbox, method: &str, params: &Value) -> u64 {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let mut state = self.shared.lock();
        match state.over {
            true => inbox.route.end(),
            false => drop(state.requests.insert(id, inbox.route.clone())),
        }
        drop(state);
        inbox.asked.push(id);
        self.send(wire::request(id, method, params));
        id
    }

    /// The right to open a session, of one at a time: gemini keeps a lock while it opens one, and who comes meanwhile tries it again after
    /// 100 ms, 200 ms, 400 ms, … Eight at once took 13 s, one after the other 0.3 s (0.61.0).
    pub async fn opening_permit(&self) -> OpeningPermit {
        Arc::clone(&self.opening).lock_owned().await
    }

    /// What is told of `session` comes to `inbox` from now on.
    pub fn listen(&self, inbox: &mut Inbox, session: &str) {
        let mut state = self.shared.lock();
        match state.over {
            true => inbox.route.end(),
            false => drop(state.sessions.insert(session.to_owned(), inbox.route.clone())),
        }
        drop(state);
        inbox.session = Some(session.to_owned());
    }

    /// Sends a line.
    pub fn send(&self, line: String) {
        // Refused only where the process is gone, which everybody learns who waits for something.
        let _ = self.shared.outbox.send(line.into());
    }

    /// Whether the process is no more, or about to be.
    pub fn is_over(&self) -> bool {
        self.shared.lock().over
    }

    /// Takes no new calls from now on; those under way come to their ends.
    pub fn retire(&self) {
        self.retired.cancel();
    }

    /// Whether it takes no new calls.
    pub fn is_retired(&self) -> bool {
        self.retired.is_cancelled()
    }

    /// Waits, a few seconds at most, for the end of the process.
    pub async fn exit(&self) -> Option<Arc<Exit>> {
        let mut ended = self.ended.clone();
        let over = async { ended.wait_for(Option::is_some).await.ok()?.clone() };
        tokio::time::timeout(EXIT, over).await.ok().flatten()
    }
}

impl Drop for AcpServer {
    fn drop(&mut self) {
        self.closer.close();
    }
}

impl Inbox {
    /// What comes next; `None` where nothing more will. Cancel safe.
    pub async fn next(&mut self) -> Option<ServerMessage> {
        let Delivered { message, bytes } = self.events.recv().await?;
        self.route.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes += bytes as u64;
        message
    }

    /// How many bytes have come.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        for id in &self.asked {
            state.requests.remove(id);
        }
        if let Some(session) = &self.session {
            state.sessions.remove(session);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, line: &str) {
        let (route, message, session) = match wire::read(line) {
            Inbound::Nothing => return,
            Inbound::Request { id, method } => {
                // Nobody will ever answer it otherwise.
                let _ = self.outbox.send(wire::refusal(&id, &method).into());
                return;
            }
            Inbound::Answer { id, result } => {
                let route = self.lock().requests.remove(&id);
                (route, ServerMessage::Answer(id, result), None)
            }
            Inbound::Update { session, update } => {
                let route = self.lock().sessions.get(&session).cloned();
                (route, ServerMessage::Update(update), Some(session))
            }
        };
        let Some(route) = route else { return };
        let bytes = line.len();
        let waiting = route.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if waiting > MOST_WAITING {
            if let Some(session) = session {
                self.lock().sessions.remove(&session);
            }
            return route.end();
        }
        // Who has gone needs no news.
        let _ = route.events.send(Delivered {
            message: Some(message),
            bytes,
        });
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
            // Listening all the while: a process that waits for us to listen would never take what is sent.
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
            // Whose it was can't be told: no call may wait for what was in it.
            Line::TooLong { .. } => shared.lock().forget_all(),
        });
    }
    {
        let mut state = shared.lock();
        state.over = true;
        state.forget_all();
    }
    drop(stdin);
    let exit = running.exit().await;
    drop(scratch);
    over.send_replace(Some(Arc::new(exit)));
}

impl State {
    fn forget_all(&mut self) {
        let requests = self.requests.drain().map(|(_, route)| route);
        let sessions = self.sessions.drain().map(|(_, route)| route);
        requests.chain(sessions).for_each(|route| route.end());
    }
}
