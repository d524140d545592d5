//! The MCP server itself: its tools, and the way of a call to its answer.
//!
//! In: messages of a session that the guard has let pass. Out: a [`Reply`] to each. The answers that need no call are those of
//! every server of ours ([`mcp_server`]).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use hyper::body::Frame;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, interval_at};

use super::calls::{CallAnswer, CallQueue, CallRejection, ContentReader, Waiting, blocks};
use super::request_guard::{CallParams, RpcBody};
use dfp_model::message::{ToolCall, ToolResult};
use dfp_provider::declare::mcp::Declarations;
use dfp_provider::declare::mcp_server::{self, Answered, INTERNAL, INVALID_PARAMS, INVALID_REQUEST};

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
pub(super) struct SessionContext {
    pub session: Arc<str>,
    pub reader: ContentReader,
}

/// The state that all requests share.
pub(super) struct Server {
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
pub(super) enum Reply {
    /// The message wants no answer.
    Accepted,
    /// The answer.
    Answer(Box<RawValue>),
    /// The answer comes when the caller has run the tool.
    Held(HeldCall),
}

impl Server {
    /// Replies to `message`; one without a session is answered only if it calls no tool.
    pub(super) fn reply(&self, message: RpcBody, context: Option<SessionContext>) -> Reply {
        let rpc = message.rpc();
        let id = rpc.id.unwrap_or(RawValue::NULL);
        match mcp_server::answer(self.declarations.tools(), self.parallel, &rpc) {
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
                _ => Reply::Answer(mcp_server::error(id, INVALID_PARAMS, "a call needs the name of a tool")),
            },
        }
    }

    fn call(&self, id: &RawValue, message: &RpcBody, params: &CallParams, context: SessionContext) -> Reply {
        let Some(name) = self.declarations.known(&params.name) else {
            let reason = format!("there is no tool {:?}, or it is not permitted", params.name);
            let refused = ToolResult::error(reason);
            return Reply::Answer(mcp_server::result(
                id,
                CallToolResult::of(&refused, ContentReader::Plain),
            ));
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
                Reply::Answer(mcp_server::error(id, INVALID_REQUEST, reason))
            }
        }
    }
}

/// A call whose answer a client waits for.
#[derive(Debug)]
pub(super) struct HeldCall {
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
    pub(super) fn events(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
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
            Some(CallAnswer::Result(result)) => mcp_server::result(&self.id, CallToolResult::of(&result, self.reader)),
            Some(CallAnswer::TakenBack) => mcp_server::error(&self.id, INVALID_REQUEST, "the call was taken back"),
            None => mcp_server::error(&self.id, INTERNAL, "the run is over"),
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
pub(super) fn event(message: &RawValue) -> String {
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
