//! The bridge: the caller's tools as an MCP server on 127.0.0.1, for CLIs that call tools in the middle of one process run.
//!
//! In: the permitted tools. Out: [`ToolCallRequest`]s, one for each call of the model's, and their answers back to the CLI. One bridge
//! serves one run: its port is of the system's choosing and its bearer token is random, so nothing that was learnt of one
//! run helps with another. `docs/mcp-bridge.md` has the threat model and the limits.
//!
//! ```text
//! CLI ─HTTP─▶ server (bounds) ─▶ request_guard (host, origin, token, path) ─▶ rpc_body ─▶ rmcp ─▶ handler ─▶ calls ─▶ ToolCallRequest
//!         ◀── SSE: progress … result ◀───────────────────────────────────────────────── answer ◀── reply
//! ```

mod calls;
mod content;
mod handler;
mod request_guard;
mod rpc_body;
mod server;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use calls::Traffic;
use calls::{Calls, MAX_PENDING};
use handler::Server;
use request_guard::{PATH, RequestGuard};
use server::HttpServer;

use crate::declare::mcp::Declarations;
use crate::message::{ToolCall, ToolResult, ToolSpec};

/// A call of one of the caller's tools, which the model waits for.
#[derive(Debug)]
pub struct ToolCallRequest {
    /// The call. Its id is unique within the run: the model's own where the CLI passes it on (claude, as `_meta`), else made. Its name is
    /// the caller's own, always of one of the tools the bridge was started with; its arguments are not checked against the schema.
    pub call: ToolCall,
    /// Where the result goes. Closed when nobody waits for it any more: the CLI has taken the call back, or the run is over.
    /// Dropping it answers the call with an error.
    pub reply: oneshot::Sender<ToolResult>,
}

/// How far the CLI has come with the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Connection {
    /// It has never asked for the tools.
    #[default]
    None,
    /// It has asked for the tools, so the model knows them.
    Listed,
}

/// How a bridge behaves. The default is what the CLIs were measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeOptions {
    /// Between two signs of life of a call that is held open: notifications of progress where the client wants them, else
    /// comments. Default: 15 s.
    pub progress: Duration,
    /// How long a request's head, and then its body, may take to arrive. Default: 10 s.
    pub patience: Duration,
    /// How many bytes a request's body may have. Default: 4 MiB.
    pub max_body: usize,
    /// Tools are declared as read-only (`readOnlyHint`), which only says that the CLI need not take care: who may call what is
    /// the caller's to decide. claude runs calls of one turn at once then, else one after the other (CLI-FACTS 1.7).
    /// Default: true.
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
    pub async fn start(
        tools: Vec<ToolSpec>,
        options: BridgeOptions,
    ) -> io::Result<(Bridge, mpsc::Receiver<ToolCallRequest>)> {
        let (sender, receiver) = call_channel();
        let bridge = Bridge::start_for(Declarations::new(&tools), options, sender).await?;
        Ok((bridge, receiver))
    }

    /// As [`Bridge::start`], where one consumer takes the calls of several bridges, one after the other.
    ///
    /// # Errors
    /// As [`Bridge::start`].
    pub async fn start_for(
        declarations: Declarations,
        options: BridgeOptions,
        consumer: mpsc::Sender<ToolCallRequest>,
    ) -> io::Result<Bridge> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let token = random_hex::<32>()?;
        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (connection, connected) = watch::channel(Connection::None);
        let calls = Calls::new(consumer, closing.clone(), tasks.clone());
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

/// `BYTES` random bytes in hexadecimal.
fn random_hex<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
