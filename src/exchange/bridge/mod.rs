//! The bridge: the caller's tools as an MCP server on 127.0.0.1, for CLIs that call tools in the middle of a process's run.
//!
//! In: the permitted tools. Out: [`ToolCallRequest`]s, one for each call of the model, and their answers back to the CLI. One
//! bridge serves one run: the system chooses its port, and its bearer token is random, so knowledge of one run doesn't help with
//! another. `docs/reference/mcp-bridge.md` has the threat model and the limits.
//!
//! ```text
//! CLI ─HTTP─▶ server (bounds) ─▶ request_guard (host, origin, token, path; then the body) ─▶ handler ─▶ calls ─▶ ToolCallRequest
//!         ◀── SSE: progress … result ◀──────────────────────────────────────────────────── answer ◀── reply
//! ```

mod calls;
mod handler;
mod request_guard;
mod server;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use calls::{CallQueue, MAX_PENDING};
pub use calls::{ToolCallRequest, Traffic};
pub use handler::Connection;
use handler::Server;
use request_guard::{PATH, RequestGuard};
pub use server::BridgeOptions;
use server::HttpServer;

use dfp_model::message::ToolSpec;
use dfp_provider::declare::mcp::Declarations;

/// An MCP server with the caller's tools. Dropping it closes it like [`Bridge::close`], in the background.
pub struct Bridge {
    url: String,
    token: String,
    connection: watch::Receiver<Connection>,
    traffic: watch::Receiver<Traffic>,
    /// When cancelled, further calls are refused and waiting ones answered with an error.
    closing: CancellationToken,
    tasks: TaskTracker,
    _end_on_drop: DropGuard,
}

impl fmt::Debug for Bridge {
    /// Leaves out the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Bridge {
    /// Serves `tools` on a free port of 127.0.0.1. Must be called inside the runtime.
    ///
    /// # Errors
    /// The system has no free port, or no random bytes.
    pub fn start(
        tools: Vec<ToolSpec>,
        options: BridgeOptions,
    ) -> io::Result<(Bridge, mpsc::Receiver<ToolCallRequest>)> {
        let (sender, receiver) = call_channel();
        let bridge = Bridge::start_for(Declarations::new(&tools), options, sender)?;
        Ok((bridge, receiver))
    }

    /// Like [`Bridge::start`], for a consumer that takes the calls of several bridges, one after the other.
    ///
    /// # Errors
    /// As for [`Bridge::start`].
    pub fn start_for(
        declarations: Declarations,
        options: BridgeOptions,
        consumer: mpsc::Sender<ToolCallRequest>,
    ) -> io::Result<Bridge> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let port = listener.local_addr()?.port();
        let token = crate::random::hex::<256>()?;
        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (connection, connected) = watch::channel(Connection::None);
        let calls = CallQueue::new(consumer, closing.clone(), tasks.clone());
        let traffic = calls.traffic();
        let server = Arc::new(Server {
            declarations,
            calls,
            connection,
            progress: options.progress,
            parallel: options.parallel,
        });
        let guard = RequestGuard {
            port,
            token: token.clone(),
        };
        let http = Arc::new(HttpServer::new(guard, server, options));
        tasks.spawn(server::serve(listener, http, closing.clone(), tasks.clone()));
        Ok(Bridge {
            url: format!("http://127.0.0.1:{port}{PATH}"),
            token,
            connection: connected,
            traffic,
            _end_on_drop: closing.clone().drop_guard(),
            closing,
            tasks,
        })
    }

    /// The bridge's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The token that every request must carry as `Authorization: Bearer`: 256 random bits in hexadecimal. It must not get into
    /// argv or a log.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The CLI's progress with the bridge, as it changes.
    pub fn connected(&self) -> watch::Receiver<Connection> {
        self.connection.clone()
    }

    /// The load of the bridge, as it changes.
    pub fn traffic(&self) -> watch::Receiver<Traffic> {
        self.traffic.clone()
    }

    /// Closes the bridge and returns when that is done. Waiting calls are answered with an error, clients have half a second to
    /// receive their answers, and then all connections are closed.
    pub async fn close(self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A channel with room for all calls that may wait at once.
pub fn call_channel() -> (mpsc::Sender<ToolCallRequest>, mpsc::Receiver<ToolCallRequest>) {
    mpsc::channel(MAX_PENDING)
}
