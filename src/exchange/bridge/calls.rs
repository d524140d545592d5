//! The tool calls of a run. Each reaches the caller once, and every request for it gets the same answer.
//!
//! In: `tools/call` requests of sessions. Out: [`ToolCallRequest`]s for the caller, and a [`Waiting`] for every request. A request
//! that is sent again (because its connection broke, or the client is impatient) waits for the same answer, or gets it at once: a
//! session never runs a tool twice for one id. When a client withdraws a call, the caller notices that its reply is closed.
//!
//! A tool's result becomes MCP content ([`blocks`]), be it text, or content blocks in any of these forms: MCP, LangChain (two), OpenAI,
//! Anthropic. Content that MCP can't hold is replaced by a note to the model.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::random;
use dfp_model::message::content::{self, Kind, Part, Source};
use dfp_model::message::{Content, Role, ToolCall, ToolResult};

/// The most calls that wait for the caller at once: more than any CLI makes (claude: 10, CLI-FACTS 1.7).
pub(super) const MAX_PENDING: usize = 256;

/// The most bytes of all answers together that are kept in order to be sent again.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// A call of one of the caller's tools, whose result the model waits for.
#[derive(Debug)]
pub struct ToolCallRequest {
    /// The call. Its id is unique within the run: the model's own if the CLI passes it on (claude, as `_meta`), else a new one. Its
    /// name is always that of a tool with which the bridge was started. Its arguments are not checked by the schema.
    pub call: ToolCall,
    /// The channel for the result. It is closed when nobody waits for it any more: the CLI has withdrawn the call, or the run is
    /// over. Dropping it answers the call with an error.
    pub reply: oneshot::Sender<ToolResult>,
}

/// The load of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// The number of calls that wait for the caller.
    pub waiting: usize,
    /// The number of calls that the caller has received so far.
    pub all: usize,
}

/// The answer to a request; `None` until it is there.
pub(super) type Waiting = watch::Receiver<Option<CallAnswer>>;

/// The answer to a call.
#[derive(Debug, Clone)]
pub(super) enum CallAnswer {
    /// The tool's result, or an error in its place.
    Result(Arc<ToolResult>),
    /// The client has withdrawn the call.
    TakenBack,
}

/// The reason why a call is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallRejection {
    /// The session has used this id for another call.
    IdReused,
    /// The call was answered, and the answer is no longer kept.
    Forgotten,
}

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RequestId {
    Number(i64),
    Text(String),
}

impl RequestId {
    /// Reads an id as it is written; `None` if JSON-RPC has no such ids.
    pub fn read(id: &RawValue) -> Option<RequestId> {
        match serde_json::from_str(id.get()).ok()? {
            Value::Number(number) => number.as_i64().map(RequestId::Number),
            Value::String(text) => Some(RequestId::Text(text)),
            _ => None,
        }
    }
}

/// A session, and one of its request ids.
type Key = (Arc<str>, RequestId);

/// A call under one of its request ids.
#[derive(Clone)]
struct CallEntry {
    /// The hash of name and arguments: the same id with others is another call.
    fingerprint: u64,
    /// The answer; `None` when it is no longer kept.
    waiting: Option<Waiting>,
    taken_back: CancellationToken,
}

/// The calls of a run. `entries` has them by request; `kept_bytes` is the sum over `kept`.
#[derive(Default)]
struct CallsState {
    entries: HashMap<Key, CallEntry>,
    /// Waiting calls by the model's own id. claude 2.1.330 repeats a call under another request id when its connection ends.
    /// Gateways may give a call of the next turn the same id, but only after the answer.
    open: HashMap<String, CallEntry>,
    /// All ids that were given to calls: they are unique within the run.
    ids: HashSet<String>,
    /// Answered calls, the oldest first, with the bytes of their answers.
    kept: VecDeque<(Key, usize)>,
    kept_bytes: usize,
}

/// All calls of a run.
pub(super) struct CallQueue {
    state: Arc<Mutex<CallsState>>,
    consumer: mpsc::Sender<ToolCallRequest>,
    traffic: Arc<watch::Sender<Traffic>>,
    closing: CancellationToken,
    tasks: TaskTracker,
}

fn locked(state: &Mutex<CallsState>) -> MutexGuard<'_, CallsState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CallQueue {
    /// Calls are sent to `consumer`. When `closing` is cancelled, those that wait are answered with an error.
    pub fn new(consumer: mpsc::Sender<ToolCallRequest>, closing: CancellationToken, tasks: TaskTracker) -> CallQueue {
        CallQueue {
            state: Arc::default(),
            consumer,
            traffic: Arc::default(),
            closing,
            tasks,
        }
    }

    /// The load, as it changes.
    pub fn traffic(&self) -> watch::Receiver<Traffic> {
        self.traffic.subscribe()
    }

    /// Begins the call that `session` makes with `request`, or joins the one that it has made with it before. The call's id is the
    /// model's own if the client passes that on, else empty.
    pub fn begin(&self, session: &Arc<str>, request: &RequestId, mut call: ToolCall) -> Result<Waiting, CallRejection> {
        let key = (Arc::clone(session), request.clone());
        let fingerprint = fingerprint(&call);
        let mut state = locked(&self.state);
        if let Some(known) = state.entries.get(&key) {
            return match &known.waiting {
                _ if known.fingerprint != fingerprint => Err(CallRejection::IdReused),
                Some(waiting) => Ok(waiting.clone()),
                None => Err(CallRejection::Forgotten),
            };
        }
        let models_id = Some(call.id.clone()).filter(|id| !id.is_empty());
        let open = models_id.as_ref().and_then(|id| state.open.get(id));
        if let Some(known) = open.filter(|open| open.fingerprint == fingerprint).cloned()
            && let Some(waiting) = known.waiting.clone()
        {
            state.entries.insert(key, known);
            return Ok(waiting);
        }
        let (answer, waiting) = watch::channel(None);
        let taken_back = CancellationToken::new();
        let entry = CallEntry {
            fingerprint,
            waiting: Some(waiting.clone()),
            taken_back: taken_back.clone(),
        };
        if let Some(id) = &models_id {
            state.open.insert(id.clone(), entry.clone());
        }
        state.entries.insert(key.clone(), entry);
        call.id = unique(call.id, &mut state.ids);
        drop(state);
        let (reply, result) = oneshot::channel();
        if let Some(reason) = self.deliver(ToolCallRequest { call, reply }) {
            let outcome = CallAnswer::Result(Arc::new(ToolResult::error(reason)));
            keep(&self.state, key, models_id, &answer, outcome);
            return Ok(waiting);
        }
        let (state, traffic, closing) = (Arc::clone(&self.state), Arc::clone(&self.traffic), self.closing.clone());
        self.tasks.spawn(async move {
            let outcome = tokio::select! {
                biased;
                result = result => CallAnswer::Result(Arc::new(
                    result.unwrap_or_else(|_| ToolResult::error("the agent has dropped the call")),
                )),
                () = taken_back.cancelled() => CallAnswer::TakenBack,
                () = closing.cancelled() => CallAnswer::Result(Arc::new(ToolResult::error("the run is over"))),
            };
            keep(&state, key, models_id, &answer, outcome);
            traffic.send_modify(|traffic| traffic.waiting -= 1);
        });
        Ok(waiting)
    }

    /// Sends the call to the caller and counts it as waiting, or returns the reason why that is impossible.
    fn deliver(&self, request: ToolCallRequest) -> Option<&'static str> {
        let mut free = false;
        self.traffic.send_if_modified(|traffic| {
            free = traffic.waiting < MAX_PENDING && !self.closing.is_cancelled();
            traffic.waiting += usize::from(free);
            free
        });
        if !free {
            return Some("too many calls wait for their results already, or the run is over");
        }
        let sent = self.consumer.try_send(request);
        self.traffic.send_modify(|traffic| match sent {
            Ok(()) => traffic.all += 1,
            Err(_) => traffic.waiting -= 1,
        });
        match sent {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(_)) => Some("too many calls wait for their results already"),
            Err(mpsc::error::TrySendError::Closed(_)) => Some("nobody runs this agent's tools any more"),
        }
    }

    /// The client doesn't want the answer any more. Nothing happens if it has the answer already: opencode sends this after every
    /// call (CLI-FACTS 5).
    pub fn take_back(&self, session: &Arc<str>, request: &RequestId) {
        if let Some(entry) = locked(&self.state).entries.get(&(Arc::clone(session), request.clone())) {
            entry.taken_back.cancel();
        }
    }

    /// Withdraws all calls of a session.
    pub fn end(&self, session: &Arc<str>) {
        for ((of, _), entry) in &locked(&self.state).entries {
            if of == session {
                entry.taken_back.cancel();
            }
        }
    }
}

/// Publishes the answer, and keeps it for repeated requests as long as there is room.
fn keep(
    state: &Mutex<CallsState>,
    key: Key,
    models_id: Option<String>,
    answer: &watch::Sender<Option<CallAnswer>>,
    outcome: CallAnswer,
) {
    let size = match &outcome {
        CallAnswer::Result(result) => size(&result.content),
        CallAnswer::TakenBack => 0,
    };
    let mut state = locked(state);
    answer.send_replace(Some(outcome));
    if let Some(id) = models_id {
        state.open.remove(&id);
    }
    state.kept.push_back((key, size));
    state.kept_bytes += size;
    while state.kept_bytes > MAX_KEPT_BYTES
        && let Some((oldest, size)) = state.kept.pop_front()
    {
        state.kept_bytes -= size;
        if let Some(entry) = state.entries.get_mut(&oldest) {
            // Requests that wait have a receiver of their own.
            entry.waiting = None;
        }
    }
}

fn size(content: &Content) -> usize {
    content.as_text().len()
}

fn fingerprint(call: &ToolCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&call.name, call.args.get()).hash(&mut hasher);
    hasher.finish()
}

/// The model's own id if there is one and it is not taken, else a new one.
fn unique(own: String, taken: &mut HashSet<String>) -> String {
    let mut id = own;
    while id.is_empty() || taken.contains(&id) {
        id = random::bits().map_or_else(
            |_| format!("call_{}", taken.len()),
            |bits| format!("call_{:016x}", bits as u64),
        );
    }
    taken.insert(id.clone());
    id
}

/// The way in which a client reads content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ContentReader {
    /// The client takes blocks as they are.
    #[default]
    Plain,
    /// If the first text can be read as JSON, the client takes it for `structuredContent`, and then refuses anything but an object
    /// there, for example a plain number ([`dfp_provider::declare::mcp::McpClient::parsing`]).
    Parsing,
}

impl ContentReader {
    /// The reader for a client, by the name that it gives itself.
    pub fn of(client: Option<&str>) -> ContentReader {
        let parsing = |name: &&str| {
            let mut prefixes = dfp_provider::every().filter_map(|provider| provider.mcp.parsing);
            prefixes.any(|prefix| name.starts_with(prefix))
        };
        client
            .filter(parsing)
            .map_or(ContentReader::Plain, |_| ContentReader::Parsing)
    }
}

/// `content` as MCP blocks.
pub(super) fn blocks(content: &Content, reader: ContentReader) -> Vec<Value> {
    let mut blocks = match content {
        Content::Text(text) => vec![text_block(text)],
        Content::Blocks(raw) => of_raw(raw),
    };
    let misread = |block: &Value| {
        let text = block["text"].as_str();
        text.is_some_and(|text| serde_json::from_str::<Value>(text).is_ok_and(|value| !value.is_object()))
    };
    if reader == ContentReader::Parsing && blocks.first().is_some_and(misread) {
        // An empty text is no JSON.
        blocks.insert(0, text_block(""));
    }
    blocks
}

/// The MCP blocks for content blocks in JSON: an array of blocks, or a single one.
fn of_raw(raw: &RawValue) -> Vec<Value> {
    let items = match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
        Ok(items) if !items.is_empty() => items,
        _ => vec![raw],
    };
    // A block that only MCP has in this form.
    let own = |item: &&RawValue| serde_json::from_str::<Value>(item.get()).ok().filter(is_resource);
    if !items.iter().any(|item| own(item).is_some()) {
        return content::parts(raw, &Role::Tool).into_iter().map(block).collect();
    }
    let blocks = items.iter().flat_map(|item| match own(item) {
        Some(own) => vec![own],
        None => content::parts(item, &Role::Tool).into_iter().map(block).collect(),
    });
    blocks.collect()
}

/// Returns whether `block` is a resource, or a link to one, in MCP's own form.
fn is_resource(block: &Value) -> bool {
    let has = |object: &Value, name: &str| object[name].is_string();
    match block["type"].as_str() {
        Some("resource") => {
            let resource = &block["resource"];
            has(resource, "uri") && (has(resource, "text") || has(resource, "blob"))
        }
        Some("resource_link") => has(block, "uri") && has(block, "name"),
        _ => false,
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// One block for MCP. The call waits for its result, so content that MCP can't hold is named in a note. Binary data is never sent
/// as text.
fn block(part: Part) -> Value {
    let what = match part {
        Part::Text(text) => return text_block(&text),
        Part::Media(media) => match (media.kind, &media.source, &media.mime) {
            (Kind::Image, Source::Base64(data), Some(mime)) => {
                return json!({"type": "image", "data": data, "mimeType": mime});
            }
            (Kind::Audio, Source::Base64(data), Some(mime)) => {
                return json!({"type": "audio", "data": data, "mimeType": mime});
            }
            _ => media.name(),
        },
        Part::Unknown(what) => what,
        Part::Omitted | Part::Call(_) => return text_block(""),
    };
    text_block(&format!(
        "[The tool returned {what} here, which can't be handed on: results hold text, images and audio.]"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(capacity: usize) -> (CallQueue, mpsc::Receiver<ToolCallRequest>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (
            CallQueue::new(sender, CancellationToken::new(), TaskTracker::new()),
            receiver,
        )
    }

    fn call(args: &str, id: Option<&str>) -> ToolCall {
        ToolCall {
            name: "add".to_owned(),
            args: RawValue::from_string(args.to_owned()).unwrap(),
            id: id.unwrap_or_default().to_owned(),
        }
    }

    async fn text(mut waiting: Waiting) -> (String, bool) {
        let answer = waiting.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        match answer {
            CallAnswer::Result(result) => (result.content.as_text().to_owned(), result.is_error),
            CallAnswer::TakenBack => ("taken back".to_owned(), true),
        }
    }

    fn session(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    fn result(text: &str) -> ToolResult {
        ToolResult {
            content: Content::Text(text.to_owned()),
            is_error: false,
        }
    }

    #[tokio::test]
    async fn one_id_is_one_call_before_and_after_its_answer() {
        let (calls, mut caller) = calls(8);
        let (one, id) = (session("a"), RequestId::Number(1));
        let first = calls.begin(&one, &id, call("{}", Some("toolu_1"))).unwrap();
        let second = calls.begin(&one, &id, call("{}", Some("toolu_1"))).unwrap();
        let ToolCallRequest { call: called, reply } = caller.recv().await.unwrap();
        assert_eq!(
            (called.id.as_str(), called.name.as_str(), called.args.get()),
            ("toolu_1", "add", "{}")
        );
        assert_eq!(*calls.traffic().borrow(), Traffic { waiting: 1, all: 1 });
        reply.send(result("3")).unwrap();
        let third = async { text(calls.begin(&one, &id, call("{}", None)).unwrap()).await };
        let same = ("3".to_owned(), false);
        assert_eq!(
            (text(first).await, text(second).await, third.await),
            (same.clone(), same.clone(), same)
        );
        assert!(caller.try_recv().is_err(), "it was called once");
        calls.traffic().wait_for(|traffic| traffic.waiting == 0).await.unwrap();
        assert_eq!(
            calls.begin(&one, &id, call("[1]", None)).unwrap_err(),
            CallRejection::IdReused
        );
    }

    /// claude 2.1.330 did this when its connection ended in the middle of a call.
    #[tokio::test]
    async fn the_models_own_id_is_one_call_as_long_as_it_waits() {
        let (calls, mut caller) = calls(8);
        let begin = |name: &str, id: i64| {
            let id = RequestId::Number(id);
            calls.begin(&session(name), &id, call("{}", Some("toolu_1"))).unwrap()
        };
        let (first, again, elsewhere) = (begin("a", 1), begin("a", 2), begin("b", 1));
        caller.recv().await.unwrap().reply.send(result("3")).unwrap();
        for waiting in [first, again, elsewhere] {
            assert_eq!(text(waiting).await.0, "3");
        }
        assert!(caller.try_recv().is_err(), "it was called once");
        begin("a", 3);
        assert_ne!(
            caller.recv().await.unwrap().call.id,
            "toolu_1",
            "another call, after the answer"
        );
    }

    #[tokio::test]
    async fn sessions_number_their_requests_apart_and_ids_stay_unique() {
        let (calls, mut caller) = calls(8);
        for (name, args) in [("a", "{}"), ("b", r#"{"a":1}"#)] {
            calls
                .begin(&session(name), &RequestId::Number(1), call(args, Some("x")))
                .unwrap();
        }
        calls
            .begin(&session("a"), &RequestId::Number(2), call("{}", None))
            .unwrap();
        let mut ids = HashSet::new();
        for _ in 0..3 {
            ids.insert(caller.recv().await.unwrap().call.id);
        }
        assert!(ids.len() == 3 && ids.contains("x"), "{ids:?}");
    }

    #[tokio::test]
    async fn the_caller_learns_what_is_taken_back_and_the_answered_stays_answered() {
        let (calls, mut caller) = calls(8);
        let (one, id) = (session("a"), RequestId::Number(1));
        let waiting = calls.begin(&one, &id, call("{}", None)).unwrap();
        let mut called = caller.recv().await.unwrap();
        calls.take_back(&one, &id);
        called.reply.closed().await;
        assert_eq!(text(waiting).await.0, "taken back");
        let other = RequestId::Number(2);
        let waiting = calls.begin(&one, &other, call("{}", None)).unwrap();
        caller.recv().await.unwrap().reply.send(result("3")).unwrap();
        assert_eq!(text(waiting.clone()).await.0, "3");
        calls.take_back(&one, &other);
        calls.end(&one);
        assert_eq!(text(waiting).await.0, "3");
    }

    #[tokio::test]
    async fn a_call_that_nobody_can_take_is_answered() {
        let (calls, caller) = calls(MAX_PENDING * 2);
        let begin = |id: usize| {
            let id = RequestId::Number(i64::try_from(id).unwrap());
            calls.begin(&session("a"), &id, call("{}", None)).unwrap()
        };
        for id in 0..MAX_PENDING {
            begin(id);
        }
        assert!(text(begin(MAX_PENDING)).await.0.starts_with("too many calls"));
        calls.closing.cancel();
        calls.traffic().wait_for(|traffic| traffic.waiting == 0).await.unwrap();
        assert!(text(begin(MAX_PENDING + 1)).await.0.ends_with("the run is over"));
        let dropped = super::CallQueue::new(calls.consumer.clone(), CancellationToken::new(), TaskTracker::new());
        drop(caller);
        let waiting = dropped
            .begin(&session("a"), &RequestId::Number(0), call("{}", None))
            .unwrap();
        assert_eq!(text(waiting).await.0, "nobody runs this agent's tools any more");
        assert_eq!(*dropped.traffic().borrow(), Traffic::default());
    }

    #[tokio::test]
    async fn answers_are_kept_as_long_as_there_is_room_and_never_run_again() {
        let (calls, mut caller) = calls(8);
        let one = session("a");
        let big = "x".repeat(MAX_KEPT_BYTES / 2 + 1);
        for id in 0..2 {
            let waiting = calls.begin(&one, &RequestId::Number(id), call("{}", None)).unwrap();
            caller.recv().await.unwrap().reply.send(result(&big)).unwrap();
            assert_eq!(text(waiting).await.0.len(), big.len());
        }
        let again = |id: i64| calls.begin(&one, &RequestId::Number(id), call("{}", None));
        assert_eq!(again(0).unwrap_err(), CallRejection::Forgotten);
        assert!(again(1).is_ok() && caller.try_recv().is_err());
    }

    fn of(content: Value) -> Value {
        let raw = serde_json::value::to_raw_value(&content).unwrap();
        serde_json::to_value(blocks(&Content::Blocks(raw), ContentReader::Plain)).unwrap()
    }

    #[test]
    fn every_vocabulary_comes_out_as_mcp() {
        let image = json!({"type": "image", "data": "QUJD", "mimeType": "image/png"});
        let resource =
            json!({"type": "resource", "resource": {"uri": "x://y", "mimeType": "text/plain", "text": "hi"}});
        let left_out = |what: &str| {
            let text = format!(
                "[The tool returned {what} here, which can't be handed on: results hold text, images and audio.]"
            );
            json!({"type": "text", "text": text})
        };
        assert_eq!(
            of(json!([
                "plain",
                {"type": "text", "text": "", "cache_control": {}},
                image,
                {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "QUJD"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                {"type": "image_url", "image_url": "https://example.test/a.png"},
                {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
                resource,
                {"type": "unheard_of", "data": "QUJD"},
                {"type": "file", "mime_type": "application/pdf", "data": "QUJD"},
                7,
            ])),
            json!([
                {"type": "text", "text": "plain"},
                {"type": "text", "text": ""},
                image,
                image,
                image,
                image,
                left_out("an image"),
                {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
                resource,
                left_out("a block of the unknown type \"unheard_of\""),
                left_out("a document (application/pdf)"),
                {"type": "text", "text": "7"},
            ])
        );
        assert_eq!(of(json!({"a": 1})), json!([{"type": "text", "text": r#"{"a":1}"#}]));
        assert_eq!(
            serde_json::to_value(blocks(&Content::Text("a\n".into()), ContentReader::Plain)).unwrap(),
            json!([{"type": "text", "text": "a\n"}])
        );
    }

    /// gemini's model once got "Invalid input: expected record, received number" for a tool that returned 3.
    #[test]
    fn a_number_is_not_read_as_a_structure() {
        let parsing = ContentReader::of(Some("gemini-cli-mcp-client"));
        let texts = |text: &str, reader| {
            let value = serde_json::to_value(blocks(&Content::Text(text.to_owned()), reader)).unwrap();
            value
                .as_array()
                .unwrap()
                .iter()
                .map(|block| block["text"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        for misread in ["3", "[1]", "true", " null "] {
            assert_eq!(texts(misread, parsing), ["", misread]);
            assert_eq!(texts(misread, ContentReader::of(Some("claude-code"))), [misread]);
        }
        for fine in ["three", "", r#"{"a":1}"#] {
            assert_eq!(texts(fine, parsing), [fine]);
        }
    }
}
