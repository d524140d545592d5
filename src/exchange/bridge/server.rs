//! The HTTP server: it limits connections, passes requests through the guard, and knows the sessions.
//!
//! In: TCP connections to a loopback port. Out: answers of the MCP server behind it, each as an event stream of its own (MCP's
//! streamable HTTP). Sessions are ids, and their calls are in [`CallQueue`](super::calls::CallQueue).
//!
//! A connection serves one request. So a client that is slow to send a head can be told from one that keeps an idle connection, and
//! no client uses a connection again while it is being closed. Error responses to a client with the token leave the connection open
//! ([`ends_connection`]).

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::ContentReader;
use super::request_guard::{self, Rejection, RequestGuard};
use super::{Reply, Server, SessionContext, event};
use crate::random;
use dfp_provider::declare::mcp::{LATEST, VERSIONS};

/// The behaviour of a bridge. The default is the one with which the CLIs were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeOptions {
    /// The time between two signs of life of a call that is held open: progress notifications if the client wants them, else
    /// comments. Default: 15 s.
    pub progress: Duration,
    /// The time limit for a request's head, and again for its body. Default: 10 s.
    pub patience: Duration,
    /// The most bytes of a request's body. Default: 4 MiB.
    pub max_body: usize,
    /// Tools are declared as read-only (`readOnlyHint`). That only tells the CLI that it need not take care; the caller decides
    /// about permissions. claude then runs the calls of a turn in parallel, else one after the other (CLI-FACTS 1.7). Default:
    /// true.
    pub parallel: bool,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        BridgeOptions {
            progress: Duration::from_secs(15),
            patience: Duration::from_secs(10),
            max_body: 4 * 1024 * 1024,
            parallel: true,
        }
    }
}

/// The most connections at a time; further ones wait to be accepted. Each may be a call that is held open.
const MAX_CONNECTIONS: usize = 512;
/// The most sessions. A client opens one, and perhaps another after a lost connection.
const MAX_SESSIONS: usize = 64;
/// The time that clients have at the end to receive their answers, before connections are closed.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);
/// The wait between two attempts to accept when the system has no more file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// The most bytes of a request's head.
const MAX_HEAD: usize = 32 * 1024;

/// The header with the session's id.
const SESSION: &str = "mcp-session-id";

/// The header with the version of the protocol.
const VERSION: &str = "mcp-protocol-version";

type HttpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

const NO_SESSION: Rejection = Rejection {
    status: StatusCode::BAD_REQUEST,
    reason: "the Mcp-Session-Id header is missing: begin with `initialize`",
};
const UNKNOWN_SESSION: Rejection = Rejection {
    status: StatusCode::NOT_FOUND,
    reason: "there is no such session: begin again with `initialize`",
};
const TOO_MANY_SESSIONS: Rejection = Rejection {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "there are too many sessions",
};

const NOT_ACCEPTABLE: Rejection = Rejection {
    status: StatusCode::NOT_ACCEPTABLE,
    reason: "the Accept header must have application/json and text/event-stream",
};
const NO_JSON: Rejection = Rejection {
    status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
    reason: "the Content-Type header must be application/json",
};
const UNKNOWN_VERSION: Rejection = Rejection {
    status: StatusCode::BAD_REQUEST,
    reason: "the MCP-Protocol-Version header names an unknown version",
};

/// The state that all connections share.
pub(super) struct HttpServer {
    guard: RequestGuard,
    server: Arc<Server>,
    sessions: Mutex<HashMap<Arc<str>, ContentReader>>,
    options: BridgeOptions,
}

impl HttpServer {
    pub fn new(guard: RequestGuard, server: Arc<Server>, options: BridgeOptions) -> HttpServer {
        HttpServer {
            guard,
            server,
            sessions: Mutex::default(),
            options,
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        let mut answer = self.handle(request).await.unwrap_or_else(reject);
        if ends_connection(answer.status()) {
            let headers = answer.headers_mut();
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// Handles a request that is not rejected: the guard, then the body, the session, and the MCP server.
    async fn handle(&self, request: Request<Incoming>) -> Result<HttpResponse, Rejection> {
        self.guard.check(request.method(), request.uri(), request.headers())?;
        let (head, body) = request.into_parts();
        let session = head.headers.get(SESSION).map(|value| self.known(value));
        if head.method == Method::DELETE {
            let (session, _) = session.ok_or(NO_SESSION)?.ok_or(UNKNOWN_SESSION)?;
            self.sessions().remove(&session);
            self.server.calls.end(&session);
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        let body = request_guard::collect(body, self.options.max_body, self.options.patience).await?;
        media_types(&head.headers)?;
        let message = request_guard::read(&body)?;
        let method = message.rpc().method.map(|method| method.into_owned());
        let mut fresh = None;
        let mut context = None;
        match method.as_deref() {
            Some("initialize") => fresh = Some(self.open(ContentReader::of(message.client.as_deref()))?),
            // claude 2.1.330 sends this before it initialises, and expects an error (CLI-FACTS 1b §4).
            Some("server/discover") => {}
            _ => {
                let (session, reader) = session.ok_or(NO_SESSION)?.ok_or(UNKNOWN_SESSION)?;
                known_version(&head.headers)?;
                if let Some(request) = &message.cancels {
                    self.server.calls.take_back(&session, request);
                }
                context = Some(SessionContext { session, reader });
            }
        }
        let mut answer = match self.server.reply(message, context) {
            Reply::Accepted => empty(StatusCode::ACCEPTED),
            Reply::Answer(message) => events(Full::from(event(&message)).boxed_unsync()),
            Reply::Held(call) => events(StreamBody::new(call.events()).boxed_unsync()),
        };
        if let Some(session) = fresh {
            match HeaderValue::from_str(&session) {
                Ok(value) if answer.status() == StatusCode::OK => {
                    answer.headers_mut().insert(SESSION, value);
                }
                _ => {
                    self.sessions().remove(&session);
                }
            }
        }
        Ok(answer)
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, ContentReader>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, value: &HeaderValue) -> Option<(Arc<str>, ContentReader)> {
        let sessions = self.sessions();
        let (session, reader) = sessions.get_key_value(value.to_str().ok()?)?;
        Some((Arc::clone(session), *reader))
    }

    fn open(&self, reader: ContentReader) -> Result<Arc<str>, Rejection> {
        let id: Arc<str> = random::hex::<128>().map_err(|_| TOO_MANY_SESSIONS)?.into();
        let mut sessions = self.sessions();
        if sessions.len() >= MAX_SESSIONS {
            return Err(TOO_MANY_SESSIONS);
        }
        sessions.insert(Arc::clone(&id), reader);
        Ok(id)
    }
}

/// `true` if a response with this status closes the connection. Bun's client (opencode 1.18.34) sends its next request over a
/// connection that was answered with an error, even if that closed it, and fails: after the refusal of its `GET` it would not get
/// the list of tools. A client without the token, and one whose body was not read, is disconnected all the same.
fn ends_connection(status: StatusCode) -> bool {
    let refused = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::PAYLOAD_TOO_LARGE,
    ];
    status.is_success() || refused.contains(&status)
}

/// Checks that the client sends JSON, and takes both forms of answers.
fn media_types(headers: &HeaderMap) -> Result<(), Rejection> {
    let has = |name: header::HeaderName, wanted: &str| {
        let values = headers
            .get_all(name)
            .into_iter()
            .filter_map(|value| value.to_str().ok());
        let mut types = values.flat_map(|value| value.split(','));
        types.any(|kind| {
            kind.split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .eq_ignore_ascii_case(wanted)
        })
    };
    if !has(header::ACCEPT, "application/json") || !has(header::ACCEPT, "text/event-stream") {
        return Err(NOT_ACCEPTABLE);
    }
    if !has(header::CONTENT_TYPE, "application/json") {
        return Err(NO_JSON);
    }
    Ok(())
}

/// Checks the version of the protocol, if the client names one. A later one is let pass: some clients name their own.
fn known_version(headers: &HeaderMap) -> Result<(), Rejection> {
    let Some(version) = headers.get(VERSION) else {
        return Ok(());
    };
    match version.to_str() {
        Ok(version) if VERSIONS.contains(&version) || version > LATEST => Ok(()),
        _ => Err(UNKNOWN_VERSION),
    }
}

/// A response that is a stream of events.
fn events(body: UnsyncBoxBody<Bytes, Infallible>) -> HttpResponse {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

fn empty(status: StatusCode) -> HttpResponse {
    let mut answer = Response::new(Full::default().boxed_unsync());
    *answer.status_mut() = status;
    answer
}

/// The response to a rejected request, in the form that MCP clients read: an error without an id.
fn reject(rejection: Rejection) -> HttpResponse {
    let code = match rejection.status {
        StatusCode::BAD_REQUEST => -32600,
        _ => -32000,
    };
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": rejection.reason}});
    let mut answer = Response::new(Full::from(error.to_string()).boxed_unsync());
    *answer.status_mut() = rejection.status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match rejection.status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST, DELETE"));
        }
        _ => {}
    }
    answer
}

/// Accepts connections until `closing`. Open connections then have a moment to end.
pub(super) async fn serve(
    listener: TcpListener,
    server: Arc<HttpServer>,
    closing: CancellationToken,
    tasks: TaskTracker,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = async {
            // The semaphore is never closed, so a permit always comes in the end.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = closing.cancelled() => return,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(ACCEPT_BACKOFF).await;
                continue;
            }
        };
        let (server, closing) = (Arc::clone(&server), closing.clone());
        tasks.spawn(async move {
            connection(stream, server, closing).await;
            drop(place);
        });
    }
}

/// Serves one connection, until it ends or the bridge closes.
async fn connection(stream: TcpStream, server: Arc<HttpServer>, closing: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let patience = server.options.patience;
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // A broken connection is the client's affair.
    let _ = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(SHUTDOWN_GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
}
