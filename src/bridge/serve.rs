//! The HTTP server: connections within bounds, requests through the door, sessions.
//!
//! In: TCP connections to a loopback port. Out: answers of the MCP server behind it. rmcp serves every request by itself, with
//! no session of its own (there, a stream that nobody reads would hold up all others); sessions are ids here, and what
//! belongs to them is in [`Calls`](super::calls::Calls).
//!
//! A connection carries one request. So a client that dawdles over its head is told apart from one that keeps an idle
//! connection, and no client reuses a connection that is just being closed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::content::Reader;
use super::door::{Door, Refusal};
use super::handler::{Asked, Handler, Server};
use super::letter;
use super::{BridgeOptions, random_hex};

/// So many connections at a time; more wait to be accepted. Each may be a call that is held open.
const MAX_CONNECTIONS: usize = 512;
/// A client opens one session, and perhaps another after a lost connection.
const MAX_SESSIONS: usize = 64;
/// How long what is being said at the end may take, before connections are cut.
const FAREWELL: Duration = Duration::from_millis(500);
/// Between two tries to accept where the system has no more file descriptors.
const BREATH: Duration = Duration::from_millis(50);
/// Room for a request's head, bytes.
const MAX_HEAD: usize = 32 * 1024;

const SESSION: &str = "mcp-session-id";

type Answer = Response<BoxBody<Bytes, Infallible>>;

const NO_SESSION: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    reason: "the Mcp-Session-Id header is missing: begin with `initialize`",
};
const UNKNOWN_SESSION: Refusal = Refusal {
    status: StatusCode::NOT_FOUND,
    reason: "there is no such session: begin again with `initialize`",
};
const TOO_MANY_SESSIONS: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "there are too many sessions",
};

/// Everything a connection needs.
pub(super) struct Front {
    door: Door,
    mcp: StreamableHttpService<Handler, NeverSessionManager>,
    server: Arc<Server>,
    sessions: Mutex<HashMap<Arc<str>, Reader>>,
    options: BridgeOptions,
}

impl Front {
    pub fn new(door: Door, server: Arc<Server>, options: BridgeOptions) -> Front {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_sse_keep_alive(Some(options.progress))
            .with_sse_retry(None)
            .with_max_request_body_bytes(options.max_body);
        let handler = Handler(Arc::clone(&server));
        Front {
            door,
            mcp: StreamableHttpService::new(move || Ok(handler.clone()), Arc::default(), config),
            server,
            sessions: Mutex::default(),
            options,
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        self.heard(request).await.unwrap_or_else(refuse)
    }

    async fn heard(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        self.door.check(request.method(), request.uri(), request.headers())?;
        let (mut head, body) = request.into_parts();
        let session = head.headers.get(SESSION).map(|value| self.known(value));
        if head.method == Method::DELETE {
            let (session, _) = session.ok_or(NO_SESSION)?.ok_or(UNKNOWN_SESSION)?;
            self.sessions().remove(&session);
            self.server.calls.end(&session);
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        let body = letter::collect(body, self.options.max_body, self.options.patience).await?;
        let letter = letter::read(body)?;
        let begins = match letter.method.as_deref() {
            Some("initialize") => true,
            // 2.1.330 asks before it initialises; the answer is an error (CLI-FACTS 1b §4).
            Some("server/discover") => false,
            _ => {
                let (session, reader) = session.ok_or(NO_SESSION)?.ok_or(UNKNOWN_SESSION)?;
                if let Some(request) = &letter.cancels {
                    self.server.calls.take_back(&session, request);
                }
                let args = letter.args.map(Arc::from);
                head.extensions.insert(Asked { session, reader, args });
                false
            }
        };
        let fresh = if begins {
            Some(self.open(Reader::of(letter.client.as_deref()))?)
        } else {
            None
        };
        let mut answer = self.mcp.handle(Request::from_parts(head, Full::new(letter.body))).await;
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

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Reader>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, value: &HeaderValue) -> Option<(Arc<str>, Reader)> {
        let sessions = self.sessions();
        let (session, reader) = sessions.get_key_value(value.to_str().ok()?)?;
        Some((Arc::clone(session), *reader))
    }

    fn open(&self, reader: Reader) -> Result<Arc<str>, Refusal> {
        let id: Arc<str> = random_hex::<16>().map_err(|_| TOO_MANY_SESSIONS)?.into();
        let mut sessions = self.sessions();
        if sessions.len() >= MAX_SESSIONS {
            return Err(TOO_MANY_SESSIONS);
        }
        sessions.insert(Arc::clone(&id), reader);
        Ok(id)
    }
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default().boxed());
    *answer.status_mut() = status;
    answer
}

/// A refusal as clients of MCP read it: an error without an id.
fn refuse(refusal: Refusal) -> Answer {
    let code = match refusal.status {
        StatusCode::BAD_REQUEST => -32600,
        _ => -32000,
    };
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": refusal.reason}});
    let mut answer = Response::new(Full::from(error.to_string()).boxed());
    *answer.status_mut() = refusal.status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match refusal.status {
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

/// Accepts connections until `closing`; then those there are have a moment to end.
pub(super) async fn serve(listener: TcpListener, front: Arc<Front>, closing: CancellationToken, tasks: TaskTracker) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = async {
            // Never closed, so there always is one in the end.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = closing.cancelled() => return,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection to the bridge was not accepted");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let (front, closing) = (Arc::clone(&front), closing.clone());
        tasks.spawn(async move {
            connection(stream, front, closing).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, front: Arc<Front>, closing: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let patience = front.options.patience;
    let service = service_fn(move |request| {
        let front = Arc::clone(&front);
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the bridge broke off");
    }
}
