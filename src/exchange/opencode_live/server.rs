//! One `opencode serve` process.
//!
//! In: requests of everybody who has a session in it ([`OpencodeServer::http`]). Out: their answers, and to each session what the server
//! tells of it. It listens on a port of its choosing on the loopback interface, which it prints, with a password nobody else knows. It
//! survives the end of its standard input and its parent's death (OTHER-LIVE 1.1): the supervisor ends it, and the watchdog where
//! Node is killed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::http::Http;
use super::inbound::{self, ServerEvent};
use crate::api::sse::Events;
use crate::command::{CommandLine, EnvText};
use crate::decode::lines::{Line, Lines};
use crate::exchange::http::client::Response;
use crate::exchange::live::inbox::{Inbox, Inboxes};
use crate::exchange::print::{self, NotStarted, Surroundings};
use crate::exchange::scratch::Scratch;
use crate::process::{Closer, Exit, Running, StartError, Stdin};

/// What the line says before the address.
const LISTENING: &str = "listening on ";
/// The variables of the password, and of the name it belongs to.
const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
const USERNAME: &str = "OPENCODE_SERVER_USERNAME";

/// How long an event may be, bytes: one tells a whole part, of which the longest that was measured had 4 MiB.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// How long the end of a process may be unknown whose connection broke.
const NEWS: Duration = Duration::from_secs(2);

/// Why a server was ended whose stream of events is no more, or of no use.
const STREAM_ENDED: &str = "opencode's stream of events ended in the middle of a turn";
const EVENT_TOO_LONG: &str = "opencode's stream of events told one of more than 64 MiB";

/// A running server.
#[derive(Debug)]
pub struct OpencodeServer {
    /// The way to it.
    pub http: Http,
    inboxes: Arc<Inboxes<ServerEvent>>,
    process: Process,
    /// No new sessions: it has grown too large.
    retired: CancellationToken,
}

/// Its process.
#[derive(Debug)]
struct Process {
    ended: watch::Receiver<Option<Arc<Exit>>>,
    /// Cancelled when the process, or its stream of events, is no more.
    over: CancellationToken,
    /// Why it was ended, where its stream of events is the reason.
    fault: Arc<OnceLock<&'static str>>,
    closer: Closer,
    pid: u32,
    folder: PathBuf,
}

/// Why there is no server.
#[derive(Debug)]
pub enum NoServer {
    /// The process could not be started.
    NotStarted(NotStarted),
    /// It does not do what is needed, for this reason.
    Unsupported(String),
    /// It has ended before it was ready.
    Ended(Option<Arc<Exit>>),
}

impl Drop for Process {
    fn drop(&mut self) {
        self.closer.close();
    }
}

impl OpencodeServer {
    /// Starts a process, and waits until it listens, for `patience` at most.
    ///
    /// # Errors
    /// [`NoServer`].
    pub async fn start(
        mut line: CommandLine,
        surroundings: Surroundings,
        patience: Duration,
        cancel: &CancellationToken,
    ) -> Result<OpencodeServer, NoServer> {
        let password = password().map_err(|source| {
            let file = line.program.clone().into();
            NoServer::NotStarted(NotStarted::Process(StartError::Os { file, source }))
        })?;
        line.user_env.retain(|(name, _)| name != PASSWORD && name != USERNAME);
        line.set_env.push((PASSWORD, EnvText::Text(password.clone())));
        line.set_env.push((USERNAME, EnvText::Text("opencode".to_owned())));
        let tracker = surroundings.tracker.clone();
        let (running, scratch) =
            print::launch(line, Stdin::Null, surroundings, cancel).map_err(NoServer::NotStarted)?;
        let (over, ended) = watch::channel(None);
        let process = Process {
            ended,
            over: CancellationToken::new(),
            fault: Arc::default(),
            closer: running.closer(),
            pid: running.pid(),
            folder: scratch.as_ref().map(Scratch::folder).unwrap_or_default(),
        };
        let inboxes: Arc<Inboxes<ServerEvent>> = Arc::default();
        let (address, listening) = oneshot::channel();
        let gone = (process.over.clone(), Arc::clone(&inboxes));
        tracker.spawn(serve(running, scratch, address, gone, over));
        let Ok(address) = tokio::time::timeout(patience, listening).await else {
            let reason = format!("it did not listen within {} s", patience.as_secs());
            return Err(NoServer::Unsupported(reason));
        };
        let Ok(address) = address else {
            return Err(NoServer::Ended(exit_of(&process, patience).await));
        };
        let http = Http::new(&address, &password).map_err(NoServer::Unsupported)?;
        let stream = http.open(Method::GET, "/global/event", None);
        let stream = match tokio::time::timeout(patience, stream).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let reason = format!("it gives no stream of events: GET /global/event ({error})");
                return Err(NoServer::Unsupported(reason));
            }
            Err(_) => return Err(NoServer::Unsupported("it gives no stream of events".to_owned())),
        };
        let stream = Stream {
            body: stream,
            inboxes: Arc::clone(&inboxes),
            over: process.over.clone(),
            fault: Arc::clone(&process.fault),
            closer: process.closer.clone(),
        };
        tracker.spawn(stream.listen());
        Ok(OpencodeServer {
            http,
            inboxes,
            process,
            retired: CancellationToken::new(),
        })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// The empty folder it runs in.
    pub fn folder(&self) -> &Path {
        &self.process.folder
    }

    /// What comes for `session` from now on.
    pub fn inbox(&self, session: &str) -> Inbox<ServerEvent> {
        self.inboxes.open(session)
    }

    /// Whether the process is no more, or about to be.
    pub fn is_over(&self) -> bool {
        self.process.over.is_cancelled()
    }

    /// Whether a connection that broke was the end of the process: the news of that comes a moment later.
    pub async fn has_ended(&self) -> bool {
        tokio::time::timeout(NEWS, self.process.over.cancelled()).await.is_ok()
    }

    /// Takes no new sessions from now on; those that rest end.
    pub fn retire(&self) {
        self.retired.cancel();
    }

    /// Cancelled when it takes no new sessions any more.
    pub fn retired(&self) -> &CancellationToken {
        &self.retired
    }

    /// Begins to end the process.
    pub fn close(&self) {
        self.process.over.cancel();
        self.process.closer.close();
    }

    /// Why it was ended, where that was its stream of events.
    pub fn fault(&self) -> Option<&'static str> {
        self.process.fault.get().copied()
    }

    /// Waits for the end of the process, for `patience` at most.
    pub async fn ended(&self, patience: Duration) -> Option<Arc<Exit>> {
        exit_of(&self.process, patience).await
    }
}

async fn exit_of(process: &Process, patience: Duration) -> Option<Arc<Exit>> {
    let mut ended = process.ended.clone();
    let over = async { ended.wait_for(Option::is_some).await.ok()?.clone() };
    tokio::time::timeout(patience, over).await.ok().flatten()
}

/// What nobody can guess.
fn password() -> std::io::Result<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(format!("no random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The address that a line of its output tells: on the loopback interface, or none.
fn address(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(LISTENING)?;
    let port: u16 = rest
        .trim()
        .strip_prefix("http://127.0.0.1:")?
        .trim_end_matches('/')
        .parse()
        .ok()?;
    Some(format!("http://127.0.0.1:{port}"))
}

/// Reads what it prints until the process is gone.
async fn serve(
    mut running: Running,
    scratch: Option<Scratch>,
    listening: oneshot::Sender<String>,
    (gone, inboxes): (CancellationToken, Arc<Inboxes<ServerEvent>>),
    over: watch::Sender<Option<Arc<Exit>>>,
) {
    let mut listening = Some(listening);
    let mut lines = Lines::default();
    while let Some(chunk) = running.next().await {
        if listening.is_none() {
            continue;
        }
        lines.push(&chunk, |line| {
            if let Line::Text { text, .. } = line
                && let Some(address) = address(&text)
                && let Some(listening) = listening.take()
            {
                // Nobody may wait any more.
                let _ = listening.send(address);
            }
        });
    }
    drop(listening);
    gone.cancel();
    inboxes.close();
    // Its own exit code says more than that it was closed; one that lives on without output is ended.
    if tokio::time::timeout(NEWS, running.exited()).await.is_err() {
        running.closer().close();
    }
    let exit = running.exit().await;
    drop(scratch);
    over.send_replace(Some(Arc::new(exit)));
}

/// The stream of what a server tells. Without it, nobody would learn what a turn does: its end is the server's.
struct Stream {
    body: Response,
    inboxes: Arc<Inboxes<ServerEvent>>,
    over: CancellationToken,
    fault: Arc<OnceLock<&'static str>>,
    closer: Closer,
}

impl Stream {
    /// Delivers what it tells, until it ends.
    async fn listen(mut self) {
        let fault = self.deliver().await;
        // A process that ends takes it with it, and is what there is to tell of then.
        let is_over = tokio::time::timeout(NEWS, self.over.cancelled()).await.is_ok();
        if !is_over {
            // Nobody else sets it.
            let _ = self.fault.set(fault);
        }
        self.over.cancel();
        self.inboxes.close();
        if !is_over {
            self.closer.close();
        }
    }

    /// Why there is no more.
    async fn deliver(&mut self) -> &'static str {
        let mut events = Events::default();
        loop {
            let piece = tokio::select! {
                biased;
                () = self.over.cancelled() => return STREAM_ENDED,
                piece = self.body.next() => piece,
            };
            let Ok(Some(piece)) = piece else { return STREAM_ENDED };
            events.push(&piece, |data| {
                if let Some((session, event)) = inbound::read(data) {
                    self.inboxes.deliver(&session, event, data.len());
                }
            });
            if events.waiting() > MOST_WAITING {
                return EVENT_TOO_LONG;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn the_address_is_one_of_this_machine() {
        let line = "opencode server listening on http://127.0.0.1:4096";
        assert_eq!(address(line), Some("http://127.0.0.1:4096".to_owned()));
        for line in [
            "opencode server listening on http://10.0.0.1:80",
            "opencode server listening on http://127.0.0.1:80@host",
            "Warning: no password",
        ] {
            assert_eq!(address(line), None, "{line}");
        }
    }
}
