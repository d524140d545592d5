//! The bridge: the caller's tools as an MCP server on 127.0.0.1, for CLIs that call tools in the middle of one process run.
//!
//! In: the permitted tools. Out: [`ToolCallRequest`]s, one for each call of the model's, and their answers back to the CLI. One bridge
//! serves one run: its port is of the system's choosing and its bearer token is random, so nothing that is known of one
//! run helps with another. `docs/reference/mcp-bridge.md` has the threat model and the limits.
//!
//! ```text
//! CLI ─HTTP─▶ server (bounds) ─▶ request_guard (host, origin, token, path) ─▶ rpc_body ─▶ rmcp ─▶ handler ─▶ calls ─▶ ToolCallRequest
//!         ◀── SSE: progress … result ◀───────────────────────────────────────────────── answer ◀── reply
//! ```

mod calls;
mod content;
mod handler;
mod random;
mod request_guard;
mod rpc_body;
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
use random::random_hex;
use request_guard::{PATH, RequestGuard};
pub use server::BridgeOptions;
use server::HttpServer;

use crate::declare::mcp::Declarations;
use crate::message::ToolSpec;

/// An MCP server of the caller's tools. Dropping it ends it as [`Bridge::close`] does, in the background.
pub struct Bridge {
    url: String,
    token: String,
    connection: watch::Receiver<Connection>,
    traffic: watch::Receiver<Traffic>,
    /// No further calls, and an error for those that wait.
    closing: CancellationToken,
    tasks: TaskTracker,
    _end_on_drop: DropGuard,
}

impl fmt::Debug for Bridge {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Bridge {
    /// Serves `tools` on a free port of 127.0.0.1. Must be called inside the runtime.
    ///
    /// # Errors
    /// The system gives no port, or no random bytes.
    pub fn start(
        tools: Vec<ToolSpec>,
        options: BridgeOptions,
    ) -> io::Result<(Bridge, mpsc::Receiver<ToolCallRequest>)> {
        let (sender, receiver) = call_channel();
        let bridge = Bridge::start_for(Declarations::new(&tools), options, sender)?;
        Ok((bridge, receiver))
    }

    /// As [`Bridge::start`], where one consumer takes the calls of several bridges, one after the other.
    ///
    /// # Errors
    /// As [`Bridge::start`].
    pub fn start_for(
        declarations: Declarations,
        options: BridgeOptions,
        consumer: mpsc::Sender<ToolCallRequest>,
    ) -> io::Result<Bridge> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let port = listener.local_addr()?.port();
        let token = random_hex::<32>()?;
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

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What every request must carry as `Authorization: Bearer`: 256 random bits in hexadecimal. Never for argv or a log.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// How far the CLI has come.
    pub fn connected(&self) -> watch::Receiver<Connection> {
        self.connection.clone()
    }

    /// How busy it is.
    pub fn traffic(&self) -> watch::Receiver<Traffic> {
        self.traffic.clone()
    }

    /// Ends it: calls that wait are answered with an error, connections have half a second to take their answers, and then
    /// all of them are closed. Returns when that is done.
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
