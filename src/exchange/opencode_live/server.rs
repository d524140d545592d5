//! One `opencode serve` process.
//!
//! In: requests of all sessions in the process ([`OpencodeServer::http`]). Out: their answers, and for each session its events.
//! The server listens on a port of its choice on the loopback interface, which it prints, with a password that nobody else knows.
//! It survives the end of its standard input and its parent's death (OTHER-LIVE 1.1): the supervisor ends it, and the watchdog if
//! Node is killed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::inbound::{self, ServerEvent};
use super::wire::{Http, HttpFailure};
use crate::host::{Ending, Host, Life, Patience};
use crate::http::Response;
use crate::live::inbox::{Inbox, Inboxes};
use crate::print::{self, NotStarted, Surroundings};
use crate::random;
use crate::scratch::Scratch;
use dfp_process::{Closer, Running, StartError, Stdin};
use dfp_provider::api::sse::Events;
use dfp_provider::command::{CommandLine, EnvText};
use dfp_text::decode::lines::{Cut, Line, Lines};

/// The text before the address in the printed line.
const LISTENING: &str = "listening on ";
/// The variables of the password, and of its user name.
const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
const USERNAME: &str = "OPENCODE_SERVER_USERNAME";

/// The longest event, bytes: an event holds a whole part, of which the longest that was measured had 4 MiB. A longer one is
/// dropped, and fails its call.
const MOST_KEPT: usize = 64 * 1024 * 1024;
/// The size in bytes beyond which an event is taken to have no end.
const ENDLESS: u64 = 256 * 1024 * 1024;

/// The time to wait for the exit of a process that has closed its output.
const EXIT: Duration = Duration::from_secs(10);

/// The time within which the end of a process becomes known after its connection broke.
const NEWS: Duration = Duration::from_secs(2);

/// The reason for ending a server whose stream of events has ended.
const STREAM_ENDED: &str = "opencode's stream of events ended in the middle of a turn";
const EVENT_TOO_LONG: &str = "opencode's stream of events told one of more than 256 MiB";

/// A running server.
#[derive(Debug)]
pub struct OpencodeServer {
    /// The client of the server.
    pub http: Http,
    pub host: Host,
    inboxes: Arc<Inboxes<ServerEvent>>,
    /// The reason why it was ended, if its stream of events is the reason.
    fault: Arc<OnceLock<&'static str>>,
}

impl OpencodeServer {
    /// Starts a process, and waits until it listens, at most as long as its first session may take.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn start(
        mut line: CommandLine,
        surroundings: Surroundings,
        patience: Patience,
        cancel: &CancellationToken,
    ) -> Result<OpencodeServer, NotStarted> {
        let password = random::hex::<256>().map_err(|source| {
            let file = line.program.clone().into();
            NotStarted::Process(StartError::Os { file, source })
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
            return Err(NotStarted::Unsupported(reason));
        };
        let Ok(address) = address else {
            return Err(NotStarted::Ended(host.ended(EXIT).await));
        };
        let http = Http::new(&address, &password).map_err(NotStarted::Unsupported)?;
        let stream = http.open(Method::GET, "/global/event", None);
        let stream = match tokio::time::timeout(patience, stream).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(failure)) => {
                let lack = Lack::answered("it gives no stream of events: GET /global/event", &failure);
                return Err(no_host(&host, lack).await);
            }
            Err(_) => return Err(NotStarted::Unsupported("it gives no stream of events".to_owned())),
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

    /// Sends a request that needs neither network nor model.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn ask(&self, method: Method, path: &str) -> Result<Bytes, HttpFailure> {
        self.in_time(self.http.ask(method, path, None)).await
    }

    /// Sends a request like [`OpencodeServer::ask`], with `body` as JSON.
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

    /// Opens the inbox for `session`: it gets everything that comes from now on.
    pub fn inbox(&self, session: &str) -> Inbox<ServerEvent> {
        self.inboxes.open(session)
    }

    /// Returns whether a connection broke because the process has ended, which becomes known a moment later.
    pub async fn has_ended(&self) -> bool {
        has_ended(&self.host).await
    }

    /// The reason why a server with this `lack` is of no use: it has ended, which tells nothing about its features, or it lacks
    /// one.
    pub async fn no_host(&self, lack: Lack) -> NotStarted {
        let no_host = no_host(&self.host, lack).await;
        match (no_host, self.fault()) {
            (NotStarted::Ended(_), Some(fault)) => NotStarted::Unsupported(fault.to_owned()),
            (no_host, _) => no_host,
        }
    }

    /// The reason why it was ended, if that was its stream of events.
    pub fn fault(&self) -> Option<&'static str> {
        self.fault.get().copied()
    }
}

/// A needed feature that a server lacks.
#[derive(Debug)]
pub struct Lack {
    /// The feature in words, with the request that shows it.
    pub what: String,
    /// True if it was not refused, but the connection broke.
    is_lost: bool,
}

impl Lack {
    /// A lack that is known without a request, or from an answer.
    pub fn of(what: impl Into<String>) -> Lack {
        Lack {
            what: what.into(),
            is_lost: false,
        }
    }

    /// The lack that `failure`, the result of a request, shows.
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

async fn no_host(host: &Host, lack: Lack) -> NotStarted {
    match lack.is_lost && has_ended(host).await {
        true => NotStarted::Ended(host.ended(EXIT).await),
        false => NotStarted::Unsupported(lack.what),
    }
}

/// The address that a line of the output tells, if it is on the loopback interface.
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

/// Reads the process's output until the process is gone.
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
                // It may be that nobody waits any more.
                let _ = listening.send(address);
            }
        });
    }
    drop(listening);
    ending.over();
    inboxes.close();
    // The process's own exit code says more than that it was closed; a process that lives on without output is ended.
    if tokio::time::timeout(NEWS, running.exited()).await.is_err() {
        running.closer().close();
    }
    let exit = running.exit().await;
    drop(scratch);
    ending.exited(exit);
}

/// The stream of a server's events. Without it, nobody would learn what a turn does: its end is the end of the server.
struct Stream {
    body: Response,
    inboxes: Arc<Inboxes<ServerEvent>>,
    over: CancellationToken,
    life: Life,
    fault: Arc<OnceLock<&'static str>>,
    closer: Closer,
}

impl Stream {
    /// Delivers the events until the stream ends.
    async fn listen(mut self) {
        let fault = self.deliver().await;
        // The stream also ends with its process; then the end of the process is what is reported.
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

    /// Handles an event that was too long to be kept: its receiver must not wait for its content.
    fn lose(&self, event: &Cut) {
        match inbound::session_of(event) {
            Some(session) => self.inboxes.end(&session),
            None if inbound::is_told_twice(event) => {}
            // The event's receiver is unknown.
            None => self.inboxes.clear(),
        }
    }

    /// Delivers the events, and returns the reason why there are no more.
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
