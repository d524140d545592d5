//! One `opencode serve` process, and the requests to it.
//!
//! In: requests of all sessions in the process ([`OpencodeServer::http`]). Out: their answers, and for each session its events.
//! The server listens on a port of its choice on the loopback interface, which it prints, with a password that nobody else knows.
//! It survives the end of its standard input and its parent's death (OTHER-LIVE 1.1): the supervisor ends it, and the watchdog if
//! Node is killed.
//!
//! The requests are paths and bodies, which [`Http`] sends. Ids come from the server, and calls' ids from the API behind it: only a plain
//! word may become part of a path ([`Id`]).

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Uri};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Model;
use super::inbound::{self, ServerEvent};
use crate::host::{Ending, Host, Inbox, Inboxes, Life, Patience, Unanswered};
use crate::http::{Client, Response, Route};
use crate::print::{self, NotStarted, Surroundings};
use crate::random;
use crate::scratch::Scratch;
use dfp_process::{Closer, Running, StartError, Stdin};
use dfp_provider::api::stream::Events;
use dfp_provider::command::{CommandLine, EnvText};
use dfp_provider::judge::HttpEnd;
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

/// The name of our agent (`provider::opencode` configures it).
pub const AGENT: &str = "pipe";

/// The longest text that counts as an id, bytes: opencode's ids have 30.
const MOST_ID: usize = 64;

/// An id of opencode's, fit to be a segment of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Id(String);

impl Id {
    /// `text`, if it has the form of an id.
    pub fn new(text: &str) -> Option<Id> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        ((1..=MOST_ID).contains(&text.len()) && text.bytes().all(fits)).then(|| Id(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Id::new(&text).ok_or_else(|| serde::de::Error::custom("no id"))
    }
}

/// `path` with `directory` as its instance.
pub fn of_directory(path: &str, directory: &str) -> String {
    let mut query = String::with_capacity(path.len() + directory.len() + 16);
    query.push_str(path);
    query.push_str("?directory=");
    for byte in directory.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => query.push(char::from(byte)),
            _ => {
                query.push('%');
                query.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])));
            }
        }
    }
    query
}

/// The path of the session `id`.
pub fn session(id: &Id) -> String {
    format!("/session/{}", id.as_str())
}

/// The path of the messages of the session `id`.
pub fn messages(id: &Id) -> String {
    format!("/session/{}/message", id.as_str())
}

/// The path of a part of a message.
pub fn part(session: &Id, message: &Id, part: &Id) -> String {
    let (session, message, part) = (session.as_str(), message.as_str(), part.as_str());
    format!("/session/{session}/message/{message}/part/{part}")
}

/// The path that aborts the turn of a session.
pub fn abort(id: &Id) -> String {
    format!("/session/{}/abort", id.as_str())
}

/// The path of the answer to a request for permission.
pub fn permission(id: &Id) -> String {
    format!("/permission/{}/reply", id.as_str())
}

/// The answer to [`new_session`].
#[derive(Debug, Deserialize)]
pub struct SessionOpened {
    pub id: Id,
}

/// The body of a new session, with a title: without one, the model is asked for it.
pub fn new_session() -> Value {
    json!({"title": "x"})
}

/// The body that rejects a request for permission.
pub fn reject() -> Value {
    json!({"reply": "reject"})
}

/// The time that opencode may wait for an answer of the MCP server of the caller's tools, ms: by default it gives up after 5 s
/// (1.18.34). It is less than the server may take for the request that declares them.
const TOOLS_WITHIN: u64 = 15_000;

/// The body that adds the MCP server of the caller's tools.
pub fn mcp(name: &str, url: &str, token: &str) -> Value {
    json!({
        "name": name,
        "config": {
            "type": "remote",
            "url": url,
            "oauth": false,
            "timeout": TOOLS_WITHIN,
            "headers": {"authorization": format!("Bearer {token}")},
        },
    })
}

/// A message of the user, and the settings that are sent with it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt<'a> {
    pub agent: &'static str,
    /// The model that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a Model>,
    /// The variant of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<&'a str>,
    /// The form of the answer, if it is not a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<AnswerFormat<'a>>,
    /// The system prompt.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub system: &'a str,
    /// True if the message is only added, and not answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_reply: bool,
    pub parts: &'a [InputPart],
}

/// An answer by a schema, which the model gives with a tool of opencode's own (1.18.34).
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerFormat<'a> {
    JsonSchema { schema: &'a RawValue },
}

/// A part of a message of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum InputPart {
    Text {
        text: String,
    },
    File {
        mime: String,
        /// The file's data, as a `data:` URL.
        url: String,
    },
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpencodeCallResult {
    pub text: String,
    pub is_error: bool,
    /// The content that is not text.
    pub files: Vec<InputPart>,
}

impl OpencodeCallResult {
    /// The state of a call of `input` with this result. `attached` makes a file a part of the call's message.
    pub fn state(&self, input: &RawValue, attached: impl Fn(&InputPart) -> Value) -> Value {
        let time = json!({"start": 1, "end": 1});
        // Arguments that are not JSON become an empty object.
        let input: Value = serde_json::from_str(input.get()).unwrap_or_else(|_| json!({}));
        if self.is_error {
            return json!({"status": "error", "input": input, "error": self.text, "time": time});
        }
        let mut state = json!({
            "status": "completed", "input": input, "output": self.text, "title": "", "metadata": {}, "time": time,
        });
        if !self.files.is_empty() {
            state["attachments"] = self.files.iter().map(attached).collect();
        }
        state
    }
}

/// The longest answer, bytes: the longest that was measured had 4 MiB.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// The length of a refusal's body that is reported, characters.
const MOST_OF_BODY: usize = 200;

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpFailure {
    /// The server answered with this status and this body.
    Refused(u16, String),
    /// The connection broke, or the server is gone.
    Lost(String),
    /// The server's answer is not what was asked for.
    Unfit(String),
    /// The answer has more bytes than this.
    TooLong(usize),
    /// The server did not answer in time.
    Unanswered(Unanswered),
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpFailure::Refused(status, body) => {
                let start: String = body.trim().chars().take(MOST_OF_BODY).collect();
                let (colon, start) = if start.is_empty() {
                    ("", "")
                } else {
                    (": ", start.as_str())
                };
                write!(f, "status {status}{colon}{start}")
            }
            HttpFailure::Lost(reason) | HttpFailure::Unfit(reason) => f.write_str(reason),
            HttpFailure::Unanswered(unanswered) => unanswered.fmt(f),
            HttpFailure::TooLong(most) => write!(f, "an answer of more than {most} bytes"),
        }
    }
}

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
    base: String,
    headers: HeaderMap,
}

impl Http {
    /// Makes the client of the server at `base` (`http://127.0.0.1:4096`), whose password is `password`.
    ///
    /// # Errors
    /// The reason why there can be none.
    pub fn new(base: &str, password: &str) -> Result<Http, String> {
        use base64::Engine as _;
        let uri: Uri = base.parse().map_err(|_| "its address is none".to_owned())?;
        let login = base64::engine::general_purpose::STANDARD.encode(format!("opencode:{password}"));
        let mut login = HeaderValue::from_str(&format!("Basic {login}")).map_err(|error| error.to_string())?;
        login.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, login);
        Ok(Http {
            client: Client::new(&uri, Route::direct())?,
            base: base.to_owned(),
            headers,
        })
    }

    /// Sends a request for `path`, whose answer comes piece by piece.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn open(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Response, HttpFailure> {
        let mut headers = self.headers.clone();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = self.client.send(method, format!("{}{path}", self.base), headers, body);
        answer.await.map_err(|end| match end {
            HttpEnd::Refused { status, body, .. } => HttpFailure::Refused(status, body),
            HttpEnd::Lost(reason) => HttpFailure::Lost(reason),
            other => HttpFailure::Lost(format!("no connection: {other:?}")),
        })
    }

    /// Sends a request for `path`, and reads the answer.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn ask(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes, HttpFailure> {
        self.ask_up_to(MOST_BYTES, method, path, body).await
    }

    /// Sends a request like [`Http::ask`], for an answer of at most `most` bytes.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn ask_up_to(
        &self,
        most: usize,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, HttpFailure> {
        let mut answer = self.open(method, path, body).await?;
        let mut whole = BytesMut::new();
        while let Some(piece) = answer.next().await.map_err(HttpFailure::Lost)? {
            if whole.len() + piece.len() > most {
                return Err(HttpFailure::TooLong(most));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Sends `body` as JSON.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn send(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Bytes, HttpFailure> {
        let body = serde_json::to_vec(body).map_err(|error| HttpFailure::Lost(error.to_string()))?;
        self.ask(method, path, Some(body.into())).await
    }
}

#[cfg(test)]
mod tests {
    use super::{address, *};

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

    #[test]
    fn only_plain_words_are_ids() {
        assert!(Id::new("ses_dfc6e53f3ffe21sU8pbZJSMOA1").is_some());
        for text in ["", "../x", "a/b", "a?b", "a%2e", "ä", &"x".repeat(65)] {
            assert_eq!(Id::new(text), None, "{text:?}");
        }
    }

    #[test]
    fn directories_are_escaped() {
        assert_eq!(
            of_directory("/mcp", "/tmp/a b&c=é"),
            "/mcp?directory=%2Ftmp%2Fa%20b%26c%3D%C3%A9"
        );
    }
}
