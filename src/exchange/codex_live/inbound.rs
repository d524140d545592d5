//! The messages of `codex app-server`, line by line.
//!
//! In: a notification or a request of the server's. Out: its meaning for a thread ([`ThreadEvent`]) or for the account
//! ([`RateLimits`]). [`super::wire`] has the messages in the other direction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::rpc::message::{Request, Version};
use crate::rpc::{Asked, Protocol};
use dfp_model::message::Usage;

/// The protocol of `codex app-server`: JSON-RPC without its version field.
#[derive(Debug, Default)]
pub struct CodexProtocol {
    limits: Mutex<RateLimits>,
    /// The threads whose ids are in use.
    threads: Mutex<HashMap<String, TakenThread>>,
    /// Notified when an id is free again.
    freed: Notify,
}

/// A thread whose id is in use: the server has it in its memory, or somebody here has taken the id.
#[derive(Debug, Default)]
struct TakenThread {
    /// True if its id was taken, for a file of the thread.
    is_taken: bool,
    /// True if the server has it in its memory.
    is_loaded: bool,
    /// True if it is to be forgotten.
    is_closing: bool,
}

/// The time for which a thread may be closing: 3 ms were measured.
const CLOSING: Duration = Duration::from_secs(1);

impl CodexProtocol {
    /// The limits of the account, as far as they are known.
    pub fn limits(&self) -> RateLimits {
        self.known().clone()
    }

    fn known(&self) -> MutexGuard<'_, RateLimits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<String, TakenThread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the server has opened the thread `id`.
    pub fn opened(&self, id: &str) {
        self.threads().entry(id.to_owned()).or_default().is_loaded = true;
    }

    /// Notes that the thread `id` is to be forgotten.
    pub fn closing(&self, id: &str) {
        if let Some(thread) = self.threads().get_mut(id) {
            thread.is_closing = true;
        }
    }

    /// Takes the id `id` for a thread that is to be resumed, as soon as one of this id is closed, and returns whether it could: somebody may
    /// have the thread, or its end takes too long. Whoever has taken it gives it [back](CodexProtocol::left).
    pub async fn take(&self, id: &str) -> bool {
        let taken = async {
            loop {
                let freed = self.freed.notified();
                let mut freed = std::pin::pin!(freed);
                // What is freed from now on is not missed.
                freed.as_mut().enable();
                match self.threads().entry(id.to_owned()) {
                    Entry::Vacant(free) => {
                        let thread = free.insert(TakenThread::default());
                        thread.is_taken = true;
                        return true;
                    }
                    Entry::Occupied(thread) if !thread.get().is_closing => return false,
                    Entry::Occupied(_) => {}
                }
                freed.await;
            }
        };
        tokio::time::timeout(CLOSING, taken).await.unwrap_or(false)
    }

    /// Gives back the id `id`, which was taken: no file has it any more.
    pub fn left(&self, id: &str) {
        self.changed(id, |thread| thread.is_taken = false);
    }

    /// Notes that the server has closed the thread `id`.
    fn closed(&self, id: &str) {
        self.changed(id, |thread| {
            thread.is_loaded = false;
            thread.is_closing = true;
        });
    }

    fn changed(&self, id: &str, change: impl FnOnce(&mut TakenThread)) {
        let mut threads = self.threads();
        let Some(thread) = threads.get_mut(id) else { return };
        change(thread);
        if !thread.is_taken && !thread.is_loaded {
            threads.remove(id);
            drop(threads);
            self.freed.notify_waiters();
        }
    }
}

impl Protocol for CodexProtocol {
    type Event = ThreadEvent;

    const VERSION: Version = None;

    const SESSION: &'static str = "threadId";

    /// The end of an item is told by the thread's other lines as well: one that is too long was of a result.
    fn matters(method: &str) -> bool {
        KNOWN.contains(&method) && method != "item/completed"
    }

    fn notification(&self, method: &str, params: &str) -> Option<(String, ThreadEvent)> {
        match read(method, params)? {
            Notice::Thread(thread, event) => {
                if matches!(event, ThreadEvent::Closed) {
                    self.closed(&thread);
                }
                Some((thread, event))
            }
            Notice::RateLimits(limits) => {
                *self.known() = limits;
                None
            }
        }
    }

    fn asked(&self, request: &Request<'_>) -> Asked<ThreadEvent> {
        match asked(request) {
            (Some(thread), event @ ThreadEvent::ToolCall { .. }) => Asked::Session(thread, event),
            (thread, event) => Asked::Refused(thread.map(|thread| (thread, event))),
        }
    }
}

/// The meaning of a notification.
#[derive(Debug)]
pub enum Notice {
    /// An event of the thread with this id.
    Thread(String, ThreadEvent),
    /// The limits of the account, as far as the API has reported them.
    RateLimits(RateLimits),
}

/// The notifications that matter here.
const KNOWN: &[&str] = &[
    "turn/started",
    "turn/completed",
    "item/agentMessage/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "item/reasoning/summaryPartAdded",
    "rawResponseItem/completed",
    "rawResponse/completed",
    "item/started",
    "item/completed",
    "error",
    "model/rerouted",
    "warning",
    "thread/closed",
    "thread/deleted",
    "account/rateLimits/updated",
];

/// An event of a thread.
#[derive(Debug)]
pub enum ThreadEvent {
    /// A turn has begun.
    TurnStarted {
        turn: String,
    },
    /// A piece of a message has come.
    TextDelta {
        item: String,
        delta: String,
    },
    /// A piece of the reasoning has come.
    ReasoningDelta {
        item: String,
        delta: String,
    },
    /// An item of the API is complete: of an answer, or of the input.
    RawItem {
        /// The turn; an injected item has another one.
        turn: String,
        item: Value,
    },
    /// A response of the API is complete.
    ResponseCompleted {
        turn: String,
        /// The usage of the response, if the API tells it.
        usage: Option<Usage>,
    },
    /// The server asks for the result of a call.
    ToolCall {
        /// The id of the request, to be repeated in the answer.
        request: Box<RawValue>,
        /// The API's id of the call.
        call: String,
    },
    /// The turn is over.
    TurnCompleted {
        turn: String,
        /// `completed`, `failed`, `interrupted`.
        status: String,
        error: Option<TurnError>,
    },
    /// Something went wrong, and is tried again or not; `turn/completed` decides.
    Error {
        /// True if codex tries again.
        will_retry: bool,
        error: TurnError,
    },
    /// A message has begun, which may never come: a refusal begins one and leaves it empty.
    MessageStarted,
    /// A message or a piece of reasoning is complete, of which the server has told before.
    ItemCompleted {
        item: String,
        /// The message; empty for reasoning.
        text: String,
    },
    /// Something began that changes the history without the caller's knowledge.
    Compaction,
    /// The API answered with another model.
    Rerouted {
        model: String,
    },
    /// A message that the user should know.
    Warning {
        message: String,
    },
    /// The server sent a request that nobody here understands, and which was refused.
    UnknownRequest {
        method: String,
    },
    Closed,
}

/// The reason why a turn failed, as codex reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnError {
    pub message: String,
    /// codex's name for the kind of error: `usageLimitExceeded`.
    pub kind: Option<String>,
    /// The HTTP status of the API's answer, if it is reported.
    pub http_status: Option<u16>,
}

/// The limits of the account that pays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RateLimits {
    /// The windows of its plan, the fullest last.
    pub windows: Vec<LimitWindow>,
    /// The limit that has refused the request.
    pub reached: Option<String>,
}

/// A window of the account's plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LimitWindow {
    /// Its length, minutes.
    pub minutes: Option<u64>,
    /// The used share, 0 to 1.
    pub used: f64,
    /// When it ends, s since the epoch.
    pub resets_at: Option<u64>,
}

impl LimitWindow {
    /// The window's name, by its length, as other plans' windows are called.
    pub fn name(&self) -> Option<String> {
        Some(match self.minutes? {
            300 => "five_hour".to_owned(),
            10_080 => "seven_day".to_owned(),
            minutes => format!("{minutes}_minutes"),
        })
    }
}

/// The meaning of a request of the server, and its thread.
pub fn asked(request: &Request<'_>) -> (Option<String>, ThreadEvent) {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase")]
    struct RequestParams {
        thread_id: Option<String>,
        call_id: Option<String>,
    }
    let params: RequestParams = serde_json::from_str(request.params).unwrap_or_default();
    let event = match (&*request.method, params.call_id) {
        ("item/tool/call", Some(call)) => ThreadEvent::ToolCall {
            request: request.id.to_owned(),
            call,
        },
        _ => ThreadEvent::UnknownRequest {
            method: request.method.to_string(),
        },
    };
    (params.thread_id, event)
}

/// The fields of `item/completed`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompletedParams {
    thread_id: String,
    item: CompletedItem,
}

#[derive(Deserialize)]
struct CompletedItem {
    r#type: String,
    id: String,
    #[serde(default)]
    text: String,
}

/// The fields of all notifications that matter.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct CodexParams {
    thread_id: Option<String>,
    turn_id: String,
    turn: TurnParams,
    item_id: String,
    delta: String,
    summary_index: u64,
    item: Value,
    usage: Option<UsageParams>,
    will_retry: bool,
    error: Option<ErrorParams>,
    to_model: String,
    message: String,
    rate_limits: Option<RateLimitParams>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TurnParams {
    id: String,
    status: String,
    error: Option<ErrorParams>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ErrorParams {
    message: String,
    codex_error_info: Value,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UsageParams {
    total_tokens: u64,
    input_tokens: u64,
    cached_input_tokens: Option<u64>,
    cache_write_input_tokens: Option<u64>,
    output_tokens: u64,
    reasoning_output_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RateLimitParams {
    primary: Option<WindowParams>,
    secondary: Option<WindowParams>,
    rate_limit_reached_type: Option<String>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
struct WindowParams {
    used_percent: f64,
    window_duration_mins: Option<u64>,
    resets_at: Option<u64>,
}

/// Reads the notification `method` with `params`; `None` for one that does not matter here.
pub fn read(method: &str, params: &str) -> Option<Notice> {
    if !KNOWN.contains(&method) {
        return None;
    }
    if method == "item/completed" {
        let CompletedParams { thread_id, item } = serde_json::from_str(params).ok()?;
        // A result may have megabytes, which come as a raw item already.
        let is_told_in_pieces = matches!(item.r#type.as_str(), "agentMessage" | "reasoning");
        let event = ThreadEvent::ItemCompleted {
            item: item.id,
            text: item.text,
        };
        return is_told_in_pieces.then_some(Notice::Thread(thread_id, event));
    }
    let params: CodexParams = serde_json::from_str(params).ok()?;
    if let Some(limits) = params.rate_limits {
        return Some(Notice::RateLimits(limits.into()));
    }
    let event = match method {
        "turn/started" => ThreadEvent::TurnStarted { turn: params.turn.id },
        "turn/completed" => ThreadEvent::TurnCompleted {
            turn: params.turn.id,
            status: params.turn.status,
            error: params.turn.error.map(TurnError::from),
        },
        "item/agentMessage/delta" => ThreadEvent::TextDelta {
            item: params.item_id,
            delta: params.delta,
        },
        "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => ThreadEvent::ReasoningDelta {
            item: params.item_id,
            delta: params.delta,
        },
        // The separator between two parts of a summary.
        "item/reasoning/summaryPartAdded" if params.summary_index > 0 => ThreadEvent::ReasoningDelta {
            item: params.item_id,
            delta: "\n\n".to_owned(),
        },
        "rawResponseItem/completed" => ThreadEvent::RawItem {
            turn: params.turn_id,
            item: params.item,
        },
        "rawResponse/completed" => ThreadEvent::ResponseCompleted {
            turn: params.turn_id,
            usage: params.usage.map(Usage::from),
        },
        "item/started" => match params.item.get("type").and_then(Value::as_str) {
            Some("agentMessage") => ThreadEvent::MessageStarted,
            Some("contextCompaction") => ThreadEvent::Compaction,
            _ => return None,
        },
        "error" => ThreadEvent::Error {
            will_retry: params.will_retry,
            error: params.error.map(TurnError::from).unwrap_or_default(),
        },
        "model/rerouted" => ThreadEvent::Rerouted { model: params.to_model },
        "warning" => ThreadEvent::Warning {
            message: params.message,
        },
        "thread/closed" | "thread/deleted" => ThreadEvent::Closed,
        _ => return None,
    };
    Some(Notice::Thread(params.thread_id?, event))
}

impl From<ErrorParams> for TurnError {
    /// `codexErrorInfo` is a word, or an object with the word as its only key.
    fn from(error: ErrorParams) -> Self {
        let (kind, http_status) = match &error.codex_error_info {
            Value::String(word) => (Some(word.clone()), None),
            Value::Object(map) => {
                let entry = map.iter().next();
                let status = entry.and_then(|(_, fields)| fields.get("httpStatusCode")?.as_u64());
                let status = status.and_then(|status| u16::try_from(status).ok());
                (entry.map(|(word, _)| word.clone()), status)
            }
            _ => (None, None),
        };
        TurnError {
            message: error.message,
            kind,
            http_status,
        }
    }
}

impl From<UsageParams> for Usage {
    /// `inputTokens` includes the cached ones, `outputTokens` the reasoning.
    fn from(usage: UsageParams) -> Self {
        Usage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            total_tokens: match usage.total_tokens {
                0 => usage.input_tokens.saturating_add(usage.output_tokens),
                total => total,
            },
            cache_read_tokens: usage.cached_input_tokens,
            cache_write_tokens: usage.cache_write_input_tokens,
            reasoning_tokens: usage.reasoning_output_tokens,
            ..Usage::default()
        }
    }
}

impl From<RateLimitParams> for RateLimits {
    fn from(limits: RateLimitParams) -> Self {
        let windows = [limits.primary, limits.secondary].into_iter().flatten();
        let windows = windows.map(|window| LimitWindow {
            minutes: window.window_duration_mins,
            used: window.used_percent / 100.0,
            resets_at: window.resets_at,
        });
        let mut windows: Vec<LimitWindow> = windows.collect();
        windows.sort_by(|a, b| a.used.total_cmp(&b.used));
        RateLimits {
            windows,
            reached: limits.rate_limit_reached_type,
        }
    }
}
