//! The bridge: the caller's tools as an MCP server on 127.0.0.1, for CLIs that call tools in the middle of a process's run.
//!
//! In: the permitted tools. Out: [`ToolCallRequest`]s, one for each call of the model, and their answers back to the CLI. One
//! bridge serves one run: the system chooses its port, and its bearer token is random, so knowledge of one run doesn't help with
//! another. `docs/reference/mcp-bridge.md` has the threat model and the limits.
//!
//! ```text
//! CLI ─HTTP─▶ server (bounds) ─▶ request_guard (host, origin, token, path; then the body) ─▶ Server ─▶ calls ─▶ ToolCallRequest
//!         ◀── SSE: progress … result ◀──────────────────────────────────────────────────── answer ◀── reply
//! ```
//!
//! `Server` replies to the messages of sessions that the guard has let pass. The answers that need no call are those of every MCP
//! server of ours ([`mcp`]).

mod calls;
mod request_guard;
mod server;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use hyper::body::Frame;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, interval_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use calls::{CallAnswer, CallQueue, CallRejection, ContentReader, MAX_PENDING, Waiting, blocks};
pub use calls::{ToolCallRequest, Traffic};
use request_guard::{CallParams, PATH, RequestGuard, RpcBody};
pub use server::BridgeOptions;
use server::HttpServer;

use dfp_model::message::{ToolCall, ToolResult, ToolSpec};
use dfp_provider::declare::mcp::{self, Answered, Declarations, INTERNAL, INVALID_PARAMS, INVALID_REQUEST};

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

/// The CLI's progress with the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Connection {
    /// The CLI has never asked for the tools.
    #[default]
    None,
    /// The CLI has asked for the tools, so the model knows them.
    Listed,
}

/// The session that a message belongs to.
#[derive(Debug, Clone)]
struct SessionContext {
    pub session: Arc<str>,
    pub reader: ContentReader,
}

/// The state that all requests share.
struct Server {
    pub declarations: Declarations,
    pub calls: CallQueue,
    pub connection: watch::Sender<Connection>,
    /// The time between two signs of life of a call.
    pub progress: Duration,
    /// The tools are declared as read-only.
    pub parallel: bool,
}

/// The reply to a message.
#[derive(Debug)]
enum Reply {
    /// The message wants no answer.
    Accepted,
    /// The answer.
    Answer(Box<RawValue>),
    /// The answer comes when the caller has run the tool.
    Held(HeldCall),
}

impl Server {
    /// Replies to `message`; one without a session is answered only if it calls no tool.
    fn reply(&self, message: RpcBody, context: Option<SessionContext>) -> Reply {
        let rpc = message.rpc();
        let id = rpc.id.unwrap_or(RawValue::NULL);
        match mcp::answer(self.declarations.tools(), self.parallel, &rpc) {
            Answered::Nothing => Reply::Accepted,
            Answered::With(answer) => Reply::Answer(answer),
            Answered::Tools(answer) => {
                self.connection.send_if_modified(|connection| {
                    std::mem::replace(connection, Connection::Listed) != Connection::Listed
                });
                Reply::Answer(answer)
            }
            Answered::Call => match (&message.call, context) {
                (Some(call), Some(context)) => self.call(id, &message, call, context),
                _ => Reply::Answer(mcp::error(id, INVALID_PARAMS, "a call needs the name of a tool")),
            },
        }
    }

    fn call(&self, id: &RawValue, message: &RpcBody, params: &CallParams, context: SessionContext) -> Reply {
        let Some(name) = self.declarations.known(&params.name) else {
            let reason = format!("there is no tool {:?}, or it is not permitted", params.name);
            let refused = ToolResult::error(reason);
            return Reply::Answer(mcp::result(id, CallToolResult::of(&refused, ContentReader::Plain)));
        };
        let call = ToolCall {
            name: name.to_owned(),
            args: params.args.clone(),
            id: params.call_id.clone().unwrap_or_default(),
        };
        let Some(request) = &message.id else {
            return Reply::Accepted;
        };
        match self.calls.begin(&context.session, request, call) {
            Ok(waiting) => Reply::Held(HeldCall {
                waiting,
                ticks: interval_at(Instant::now() + self.progress, self.progress),
                progress: params.progress.clone(),
                sent: 0,
                id: id.to_owned(),
                reader: context.reader,
            }),
            Err(why) => {
                let reason = match why {
                    CallRejection::IdReused => "this request id was used for another call",
                    CallRejection::Forgotten => {
                        "this call was answered, its answer is no longer kept, and it is not run again"
                    }
                };
                Reply::Answer(mcp::error(id, INVALID_REQUEST, reason))
            }
        }
    }
}

/// A call whose answer a client waits for.
#[derive(Debug)]
struct HeldCall {
    waiting: Waiting,
    ticks: Interval,
    /// The client's token for notifications of progress, if it wants them.
    progress: Option<Box<RawValue>>,
    /// The number of notifications so far.
    sent: u64,
    id: Box<RawValue>,
    reader: ContentReader,
}

impl HeldCall {
    /// The events of the response: signs of life, then the answer. Without them clients abort a call after 60 s or 300 s (CLI-FACTS
    /// 1.7). If the client goes, the call goes on: the client may ask again.
    fn events(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        stream::unfold(Some(self), |held| async {
            let mut held = held?;
            let answer = tokio::select! {
                answer = answer_of(&mut held.waiting) => Some(held.message(answer)),
                _ = held.ticks.tick() => None,
            };
            let (event, held) = match answer {
                Some(message) => (event(&message), None),
                None => (held.sign_of_life(), Some(held)),
            };
            Some((Ok(Frame::data(Bytes::from(event))), held))
        })
    }

    fn message(&self, answer: Option<CallAnswer>) -> Box<RawValue> {
        match answer {
            Some(CallAnswer::Result(result)) => mcp::result(&self.id, CallToolResult::of(&result, self.reader)),
            Some(CallAnswer::TakenBack) => mcp::error(&self.id, INVALID_REQUEST, "the call was taken back"),
            None => mcp::error(&self.id, INTERNAL, "the run is over"),
        }
    }

    /// A notification of progress, or a comment for a client that wants none.
    fn sign_of_life(&mut self) -> String {
        let Some(token) = &self.progress else {
            return ":\n\n".to_owned();
        };
        self.sent += 1;
        let params = json!({"progressToken": token, "progress": self.sent});
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        format!("data: {notification}\n\n")
    }
}

/// The event of a message.
fn event(message: &RawValue) -> String {
    format!("data: {}\n\n", message.get())
}

async fn answer_of(waiting: &mut Waiting) -> Option<CallAnswer> {
    waiting.wait_for(Option::is_some).await.ok()?.clone()
}

/// The result of a call, as MCP has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallToolResult {
    content: Vec<Value>,
    is_error: bool,
}

impl CallToolResult {
    fn of(result: &ToolResult, reader: ContentReader) -> CallToolResult {
        CallToolResult {
            content: blocks(&result.content, reader),
            is_error: result.is_error,
        }
    }
}
