//! The MCP server itself: its capabilities, its tools, and the way of a call to its answer.
//!
//! In: requests that rmcp has read and the guard has let pass. Out: the permitted tools, and results. Everything that is known of
//! the session comes with the request ([`SessionContext`]); a handler itself has no state.

use std::borrow::Cow;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult, MetaObject,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestMetaObject,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, interval_at};

use super::calls::{CallAnswer, CallQueue, CallRejection, Waiting};
use super::content::{ContentReader, blocks};
use dfp_model::message::{ToolCall, ToolResult};
use dfp_provider::declare::mcp::{Declarations, MAX_RESULT_CHARS, MAX_RESULT_KEY};

/// The CLI's progress with the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Connection {
    /// The CLI has never asked for the tools.
    #[default]
    None,
    /// The CLI has asked for the tools, so the model knows them.
    Listed,
}

/// The facts that the HTTP server has found about a request. They travel in the request's extensions.
#[derive(Debug, Clone)]
pub(super) struct SessionContext {
    pub session: Arc<str>,
    pub reader: ContentReader,
    pub args: Option<Arc<RawValue>>,
}

/// The state that all requests share.
pub(super) struct Server {
    pub declarations: Declarations,
    pub calls: CallQueue,
    pub connection: watch::Sender<Connection>,
    /// The time between two progress notifications.
    pub progress: Duration,
    /// The tools are declared as read-only.
    pub parallel: bool,
}

/// The handler of one request.
#[derive(Clone)]
pub(super) struct Handler(pub Arc<Server>);

impl Server {
    fn connected(&self, at_least: Connection) {
        self.connection.send_if_modified(|connection| {
            let further = *connection < at_least;
            *connection = at_least.max(*connection);
            further
        });
    }

    /// The tools as MCP declares them.
    fn tools(&self) -> Vec<Tool> {
        let mut meta = Map::new();
        meta.insert(MAX_RESULT_KEY.to_owned(), Value::from(MAX_RESULT_CHARS));
        let declared = self.declarations.tools().iter().map(|declared| {
            let schema: Map<String, Value> = serde_json::from_str(&declared.schema).unwrap_or_default();
            let description = declared.description.clone().map(Cow::Owned);
            let mut tool = Tool::new_with_raw(declared.name.clone(), description, Arc::new(schema));
            tool.meta = Some(MetaObject(meta.clone()));
            tool.annotations = self.parallel.then(|| ToolAnnotations::new().read_only(true));
            tool
        });
        declared.collect()
    }

    /// Waits for the call's answer, and sends progress notifications to a client that wants them.
    async fn answer(&self, mut waiting: Waiting, context: &RequestContext<RoleServer>) -> Option<CallAnswer> {
        let token = context.meta.get_progress_token();
        tokio::select! {
            answer = waiting.wait_for(Option::is_some) => answer.ok().and_then(|answer| answer.clone()),
            () = send_progress(&context.peer, token, self.progress) => None,
            () = context.ct.cancelled() => None,
        }
    }
}

/// Sends progress notifications without end. Without them clients abort a call after 60 s or 300 s (CLI-FACTS 1.7).
async fn send_progress(peer: &Peer<RoleServer>, token: Option<ProgressToken>, every: Duration) {
    let Some(token) = token else {
        return pending().await;
    };
    let mut ticks = interval_at(Instant::now() + every, every);
    let mut sent = 0.0;
    loop {
        ticks.tick().await;
        sent += 1.0;
        // If the client has gone, its connection ends this request.
        let _ = peer
            .notify_progress(ProgressNotificationParam::new(token.clone(), sent))
            .await;
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("deep-factor-providers", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(name)
    }

    /// Later versions have no sessions, by which repeated requests are recognised, and no CLI was measured with them.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.connected(Connection::Listed);
        Ok(ListToolsResult::with_all_items(self.0.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(name) = self.0.declarations.known(&request.name) else {
            let reason = format!("there is no tool {:?}, or it is not permitted", request.name);
            return Ok(result(&ToolResult::error(reason), ContentReader::Plain));
        };
        let parts = context.extensions.get::<http::request::Parts>();
        let Some(session) = parts.and_then(|parts| parts.extensions.get::<SessionContext>()) else {
            return Err(ErrorData::internal_error("the request belongs to no session", None));
        };
        let none = || RawValue::from_string("{}".to_owned()).unwrap_or_default();
        let call = ToolCall {
            name: name.to_owned(),
            args: session.args.as_deref().map_or_else(none, RawValue::to_owned),
            id: call_id(&context.meta).unwrap_or_default(),
        };
        let waiting = self
            .0
            .calls
            .begin(&session.session, &context.id, call)
            .map_err(rejected)?;
        match self.0.answer(waiting, &context).await {
            Some(CallAnswer::Result(answer)) => Ok(result(&answer, session.reader)),
            Some(CallAnswer::TakenBack) => Err(ErrorData::invalid_request("the call was taken back", None)),
            None => Err(ErrorData::internal_error("the connection is gone", None)),
        }
    }
}

fn call_id(meta: &RequestMetaObject) -> Option<String> {
    let meta = serde_json::to_value(meta).ok()?;
    dfp_provider::every()
        .filter_map(|provider| provider.mcp.call_id)
        .find_map(|key| meta.get(key)?.as_str().map(str::to_owned))
}

fn rejected(why: CallRejection) -> ErrorData {
    let reason = match why {
        CallRejection::IdReused => "this request id was used for another call",
        CallRejection::Forgotten => "this call was answered, its answer is no longer kept, and it is not run again",
    };
    ErrorData::invalid_request(reason, None)
}

fn result(of: &ToolResult, reader: ContentReader) -> CallToolResponse {
    let blocks = blocks(&of.content, reader);
    CallToolResponse::Complete(match of.is_error {
        true => CallToolResult::error(blocks),
        false => CallToolResult::success(blocks),
    })
}
