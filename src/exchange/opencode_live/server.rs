//! One `opencode serve` process.
//!
//! In: requests of everybody who has a session in it ([`OpencodeServer::http`]). Out: their answers, and to each session what the server
//! tells of it. It listens on a port of its choosing on the loopback interface, which it prints, with a password nobody else knows. It
//! survives the end of its standard input and its parent's death (OTHER-LIVE 1.1): the supervisor ends it, and the watchdog where
//! Node is killed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::http::{Http, HttpFailure};
use super::inbound::{self, ServerEvent};
use crate::api::sse::Events;
use crate::command::{CommandLine, EnvText};
use crate::decode::cut::Cut;
use crate::decode::lines::{Line, Lines};
use crate::exchange::host::{Ending, Host, Life, NoHost, Patience};
use crate::exchange::http::client::Response;
use crate::exchange::live::inbox::{Inbox, Inboxes};
use crate::exchange::print::{self, NotStarted, Surroundings};
use crate::exchange::scratch::Scratch;
use crate::process::{Closer, Running, StartError, Stdin};

/// What the line says before the address.
const LISTENING: &str = "listening on ";
/// The variables of the password, and of the name it belongs to.
const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
const USERNAME: &str = "OPENCODE_SERVER_USERNAME";

/// How long an event may be, bytes: one tells a whole part, of which the longest that was measured had 4 MiB. A longer one is dropped, and
/// fails the call that it is of.
const MOST_KEPT: usize = 64 * 1024 * 1024;
/// What has more bytes than this has no end.
const ENDLESS: u64 = 256 * 1024 * 1024;

/// How long the exit of a process is waited for that has closed its output.
const EXIT: Duration = Duration::from_secs(10);

/// How long the end of a process may be unknown whose connection broke.
const NEWS: Duration = Duration::from_secs(2);

/// Why a server was ended whose stream of events is no more, or of no use.
const STREAM_ENDED: &str = "opencode's stream of events ended in the middle of a turn";
const EVENT_TOO_LONG: &str = "opencode's stream of events told one of more than 256 MiB";

/// A running server.
#[derive(Debug)]
pub struct OpencodeServer {
    /// The way to it.
    pub http: Http,
    pub host: Host,
    inboxes: Arc<Inboxes<ServerEvent>>,
    /// Why it was ended, where its stream of events is the reason.
    fault: Arc<OnceLock<&'static str>>,
}

impl OpencodeServer {
    /// Starts a process, and waits until it listens, as long as its first session may take.
    ///
    /// # Errors
    /// [`NoHost`].
    pub async fn start(
        mut line: CommandLine,
        surroundings: Surroundings,
        patience: Patience,
        cancel: &CancellationToken,
    ) -> Result<OpencodeServer, NoHost> {
        let password = password().map_err(|source| {
            let file = line.program.clone().into();
            NoHost::NotStarted(NotStarted::Process(StartError::Os { file, source }))
        })?;
        line.user_env.retain(|(name, _)| name != PASSWORD && name != USERNAME);
        line.set_env.push((PASSWORD, EnvText::Text(password.clone())));
        line.set_env.push((USERNAME, EnvText::Text("opencode".to_owned())));
        let tracker = surroundings.tracker.clone();
        let (running, scratch) = print::launch(line, Stdin::Null, surroundings, cancel)?;
        let folder = scratch.as_ref().map(Scratch::folder).unwrap_or_default();
        let (host, ending) = Host::new(&running, folder, patience);
        let patience = host.patience();
        let fault: Arc<OnceLock<&'static str>> = Arc::default();
        let inboxes: Arc<Inboxes<ServerEvent>> = Arc::default();
        let (address, listening) = oneshot::channel();
        tracker.spawn(serve(running, scratch, address, Arc::clone(&inboxes), ending));
        let Ok(address) = tokio::time::timeout(patience, listening).await else {
            let reason = format!("it did not listen within {} s", patience.as_secs());
            return Err(NoHost::Unsupported(reason));
        };
        let Ok(address) = address else {
            return Err(NoHost::Ended(host.ended(EXIT).await));
        };
        let http = Http::new(&address, &password).map_err(NoHost::Unsupported)?;
        let stream = http.open(Method::GET, "/global/event", None);
        let stream = match tokio::time::timeout(patience, stream).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(failure)) => {
                let lack = Lack::answered("it gives no stream of events: GET /global/event", &failure);
                return Err(no_host(&host, lack).await);
            }
            Err(_) => return Err(NoHost::Unsupported("it gives no stream of events".to_owned())),
        };
        let stream = Stream {
            body: stream,
            inboxes: Arc::clone(&inboxes),
            over: host.over().clone(),
            life: host.life().clone(),
            fault: Arc::clone(&fault),
            closer: host.closer(),
        };
        tracker.spawn(stream.listen());
        Ok(OpencodeServer {
            http,
            host,
            inboxes,
            fault,
        })
    }

    /// Asks for what needs neither network nor model.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn ask(&self, method: Method, path: &str) -> Result<Bytes, HttpFailure> {
        self.in_time(self.http.ask(method, path, None)).await
    }

    /// The same with `body` as JSON.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn send(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Bytes, HttpFailure> {
        self.in_time(self.http.send(method, path, body)).await
    }

    async fn in_time(&self, answer: impl Future<Output = Result<Bytes, HttpFailure>>) -> Result<Bytes, HttpFailure> {
        match self.host.answer(answer).await {
            Ok(answer) => answer,
            Err(unanswered) => Err(HttpFailure::Unanswered(unanswered)),
        }
    }

    /// What comes for `session` from now on.
    pub fn inbox(&self, session: &str) -> Inbox<ServerEvent> {
        self.inboxes.open(session)
    }

    /// Whether a connection that broke was the end of the process: the news of that comes a moment later.
    pub async fn has_ended(&self) -> bool {
        has_ended(&self.host).await
    }

    /// Why it is of no use that lacks this: it has ended, which says nothing of what it can, or it does not do what is needed.
    pub async fn no_host(&self, lack: Lack) -> NoHost {
        let no_host = no_host(&self.host, lack).await;
        match (no_host, self.fault()) {
            (NoHost::Ended(_), Some(fault)) => NoHost::Unsupported(fault.to_owned()),
            (no_host, _) => no_host,
        }
    }

    /// Why it was ended, where that was its stream of events.
    pub fn fault(&self) -> Option<&'static str> {
        self.fault.get().copied()
    }
}

/// What a server does not do that is needed.
#[derive(Debug)]
pub struct Lack {
    /// In words, with the request that shows it.
    pub what: String,
    /// It has not refused it: the connection broke.
    is_lost: bool,
}

impl Lack {
    /// What is known without an answer, or by one.
    pub fn of(what: impl Into<String>) -> Lack {
        Lack {
            what: what.into(),
            is_lost: false,
        }
    }

    /// What `failure` shows, the answer to a request.
    pub fn answered(what: &str, failure: &HttpFailure) -> Lack {
        Lack {
            what: format!("{what} ({failure})"),
            is_lost: matches!(failure, HttpFailure::Lost(_)),
        }
    }
}

async fn has_ended(host: &Host) -> bool {
    tokio::time::timeout(NEWS, host.over().cancelled()).await.is_ok()
}

async fn no_host(host: &Host, lack: Lack) -> NoHost {
    match lack.is_lost && has_ended(host).await {
        true => NoHost::Ended(host.ended(EXIT).await),
        false => NoHost::Unsupported(lack.what),
    }
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
    inboxes: Arc<Inboxes<ServerEvent>>,
    ending: Ending,
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
    ending.over();
    inboxes.close();
    // Its own exit code says more than that it was closed; one that lives on without output is ended.
    if tokio::time::timeout(NEWS, running.exited()).await.is_err() {
        running.closer().close();
    }
    let exit = running.exit().await;
    drop(scratch);
    ending.exited(exit);
}

/// The stream of what a server tells. Without it, nobody would learn what a turn does: its end is the server's.
struct Stream {
    body: Response,
    inboxes: Arc<Inboxes<ServerEvent>>,
    over: CancellationToken,
    life: Life,
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

    /// An event was too long to be kept: whom it is for must not wait for what was in it.
    fn lose(&self, event: &Cut) {
        match inbound::session_of(event) {
            Some(session) => self.inboxes.end(&session),
            None if inbound::is_told_twice(event) => {}
            // Whose it was can't be told.
            None => self.inboxes.clear(),
        }
    }

    /// Why there is no more.
    async fn deliver(&mut self) -> &'static str {
        let mut events = Events::with_limit(MOST_KEPT);
        loop {
            let piece = tokio::select! {
                biased;
                () = self.over.cancelled() => return STREAM_ENDED,
                piece = self.body.next() => piece,
            };
            let Ok(Some(piece)) = piece else { return STREAM_ENDED };
            self.life.mark_responsive();
            events.push(&piece, |data| {
                if let Some((session, event)) = inbound::read(data) {
                    self.inboxes.deliver(&session, event, data.len());
                }
            });
            if let Some(lost) = events.lost() {
                self.lose(&lost);
            }
            if events.waiting() > ENDLESS {
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
