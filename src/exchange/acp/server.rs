//! One `--acp` process that serves many calls: ready when it has answered the handshake.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedRwLockReadGuard, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::wire::{self, Acp, InitializeResponse};
use crate::host::{Host, Patience};
use crate::print::{NotStarted, Surroundings};
use crate::rpc::{RequestError, RpcHost};
use crate::scratch::SessionFiles;
use dfp_provider::command::{CommandLine, Cwd};

/// The time that a process may take to answer the handshake: gemini 0.61.0 takes 2 to 5 s, and more on a busy machine.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// The time that a process which has served calls may take to open a session: eight take 0.3 s (gemini 0.61.0), but a login may
/// have to be renewed for it, over a network.
const PATIENCE: Patience = Patience {
    first: HANDSHAKE,
    later: Duration::from_secs(20),
};

/// The time to wait for the exit of a process that has closed its output.
pub const EXIT: Duration = Duration::from_secs(5);

/// The time that sessions may take to close: 1 ms as a rule (grok 1.0.41).
const CLOSE: Duration = Duration::from_secs(3);

/// A running process.
#[derive(Debug)]
pub struct AcpServer {
    /// The JSON-RPC connection to the process.
    pub rpc: RpcHost<Acp>,
    /// The command line that it was started with.
    pub line: CommandLine,
    /// Held while a session is opened.
    opening: Arc<AsyncMutex<()>>,
    /// Held for reading by calls under way, and for writing while sessions are closed.
    calls: Arc<RwLock<()>>,
    /// The sessions that are over, until no call is under way and they are closed.
    over: Mutex<Vec<EndedSession>>,
    /// The number of sessions that were closed.
    closed: AtomicU32,
    /// The CLI's version, if it tells one.
    version: Option<String>,
    /// True if a session can be told a server of tools.
    pub takes_servers: bool,
    /// True if a session can be closed.
    closes: bool,
    /// The number of sessions that have had a folder of their own.
    own_folders: AtomicUsize,
}

/// The permit to open a session, until it is dropped.
pub type OpeningPermit = OwnedMutexGuard<()>;

/// The permit to send the agent a request: no session is closed while it is held.
pub type CallPermit = OwnedRwLockReadGuard<()>;

/// A session that is sent nothing more.
#[derive(Debug)]
pub(crate) struct EndedSession {
    pub id: String,
    /// The session's files, which are removed when it is closed.
    pub _files: Option<SessionFiles>,
}

impl AcpServer {
    /// Starts a process and waits until it has answered the handshake.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn start(
        line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
    ) -> Result<AcpServer, NotStarted> {
        let (rpc, agent) = RpcHost::ready(line.clone(), surroundings, PATIENCE, cancel, handshake).await?;
        rpc.protocol().is_agent(agent.name());
        Ok(AcpServer {
            rpc,
            line,
            opening: Arc::default(),
            calls: Arc::default(),
            over: Mutex::default(),
            closed: AtomicU32::new(0),
            takes_servers: agent.takes_servers(),
            closes: agent.closes(),
            own_folders: AtomicUsize::new(0),
            version: agent.version(),
        })
    }

    /// The host of the process.
    pub fn host(&self) -> &Host {
        self.rpc.host()
    }

    /// The CLI's version, if it tells one.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns whether the process runs in a folder of ours.
    pub fn is_private(&self) -> bool {
        self.line.cwd == Cwd::Private
    }

    /// Makes a folder for one session, in that of the process: opencode keeps MCP servers by folder, and would let a session call
    /// those of another (1.18.34).
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn own_folder(&self) -> io::Result<PathBuf> {
        let number = self.own_folders.fetch_add(1, Ordering::Relaxed);
        let folder = self.host().folder().join(format!("s{number}"));
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Waits for the permit to open a session; one is opened at a time. gemini keeps a lock while it opens a session, and another
    /// one tries it again after 100 ms, 200 ms, 400 ms, …: eight at once took 13 s, one after the other 0.3 s (0.61.0). `None` if
    /// the process takes no new calls any more.
    pub async fn opening_permit(&self) -> Option<OpeningPermit> {
        let permit = Arc::clone(&self.opening).lock_owned();
        self.host().retired().run_until_cancelled(permit).await
    }

    /// Waits for the permit to send the agent a request, until no session is being closed.
    pub async fn call_permit(&self) -> CallPermit {
        Arc::clone(&self.calls).read_owned().await
    }

    /// Ends `session`, whose call had `permit`: if the agent can close sessions, it is closed as soon as no call is under way.
    pub(crate) fn end_session(
        self: &Arc<Self>,
        session: EndedSession,
        permit: Option<CallPermit>,
        tracker: &TaskTracker,
    ) {
        if self.closes {
            self.over().push(session);
        }
        // Only afterwards, so that the last call under way finds the session in the list.
        drop(permit);
        self.close_ended(tracker);
    }

    /// Closes the sessions that are over, unless a call is under way: the end of one session of grok's ends the requests of
    /// others over a connection that it has opened, and grok then reports their partial answers as whole ones (1.0.41).
    pub fn close_ended(self: &Arc<Self>, tracker: &TaskTracker) {
        let Ok(alone) = Arc::clone(&self.calls).try_write_owned() else {
            return;
        };
        let over = std::mem::take(&mut *self.over());
        let closing: Vec<_> = over
            .iter()
            .map(|session| self.rpc.post("session/close", &wire::session_close(&session.id)))
            .collect();
        if closing.is_empty() {
            return;
        }
        self.closed
            .fetch_add(u32::try_from(closing.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        // Nobody waits for the process: if it ends, this waiting ends, too.
        let (server, for_more) = (Arc::downgrade(self), tracker.clone());
        tracker.spawn(async move {
            let answers = async {
                for answer in closing {
                    let _ = answer.await;
                }
            };
            let _ = tokio::time::timeout(CLOSE, answers).await;
            drop((over, alone));
            // Closes the sessions that have ended meanwhile.
            if let Some(server) = server.upgrade() {
                server.close_ended(&for_more);
            }
        });
    }

    /// The number of sessions that the process holds: those in use, those that can't be closed, and those that could not be
    /// closed yet.
    pub fn held_sessions(&self) -> u32 {
        self.host()
            .sessions()
            .saturating_sub(self.closed.load(Ordering::Relaxed))
    }

    fn over(&self) -> MutexGuard<'_, Vec<EndedSession>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn handshake(rpc: RpcHost<Acp>) -> Result<(RpcHost<Acp>, InitializeResponse), NotStarted> {
    let answer = rpc.post("initialize", &wire::initialize()).await;
    let answer = match answer.unwrap_or(Err(RequestError::Gone)) {
        Ok(answer) => answer,
        Err(RequestError::Refused(error)) => {
            return Err(NotStarted::Unsupported(format!("it refuses: {}", error.reason())));
        }
        Err(RequestError::Gone) => return Err(NotStarted::Ended(rpc.host().ended(EXIT).await)),
        Err(RequestError::TooLong | RequestError::Unanswered(_)) => {
            return Err(NotStarted::Unsupported("it does not speak the protocol".to_owned()));
        }
    };
    match serde_json::from_str::<InitializeResponse>(answer.get()) {
        Ok(agent) if agent.is_understood() => Ok((rpc, agent)),
        Ok(agent) => {
            let reason = format!("it speaks version {} of the protocol", agent.protocol_version);
            Err(NotStarted::Unsupported(reason))
        }
        Err(_) => Err(NotStarted::Unsupported("it does not speak the protocol".to_owned())),
    }
}
