//! Makes the events of a reply from the server's events on a turn.
//!
//! In: [`ThreadEvent`]s. Out: the events of a reply, and whether it is over ([`TurnStep`]). A reply is over if calls of the
//! caller's tools are pending at the end of a response, or with the turn. Calls that codex answers itself (of tools that are not
//! there, with arguments that are not JSON) are none of the caller's: the reply then takes several responses, whose usage is
//! added up (CODEX-LIVE pitfalls 3, 5 and 7).

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::inbound::{RateLimits, ThreadEvent, TurnError};
use super::items;
use super::rollout::{RecalledItems, ToldItem};
use crate::live::session::TurnStep;
use crate::live::turn::TurnFacts;
use dfp_model::event::{Event, Failure};
use dfp_model::message::reasoning::ReasoningDetail;
use dfp_model::message::{ToolCall, Usage};
use dfp_provider::codex::WEB_SEARCH;
use dfp_provider::declare::Tools;
use dfp_provider::options::{OUR_NAMESPACE, TOOL_FUNCTIONS};

/// The failure of a turn that ended well and without a word, though the model had begun a message.
const REFUSED: &str = "refused_answer";
/// The failure of a thread whose history codex has replaced.
const COMPACTED: &str = "context_compaction";
/// The failure of a thread with a request of codex that nobody here understands.
const UNKNOWN_REQUEST: &str = "unknown_server_request";
/// The failure of a stream that fell silent after a call.
const SILENT: &str = "silent_stream";

/// A call of the model, as the API gave it.
#[derive(Debug)]
struct CodexCall {
    id: String,
    name: String,
    /// True if it is a call of one of the caller's tools.
    is_ours: bool,
    arguments: String,
}

/// A reply that is being read.
#[derive(Debug)]
pub struct CodexTurnReader<'a> {
    tools: &'a Tools,
    /// The turn's id, as soon as it is known.
    pub turn: Option<String>,
    /// All items of the model in this reply.
    items: Vec<Value>,
    /// The items that codex was told since the reply before.
    pub told: Vec<ToldItem>,
    /// The model's calls since the end of the last response.
    calls: Vec<CodexCall>,
    /// The ids of the calls that are the caller's to answer.
    callers: Vec<String>,
    /// The ids of calls that codex waits for and the caller can't answer.
    unfit: Vec<String>,
    facts: TurnFacts,
    /// True if reasoning came piece by piece.
    thought: bool,
    has_text: bool,
    has_begun_message: bool,
}

impl<'a> CodexTurnReader<'a> {
    /// Makes the reader of a reply in the thread `session`, of a turn that is in progress or about to begin.
    pub fn new(tools: &'a Tools, session: &str, model: &str, turn: Option<String>) -> CodexTurnReader<'a> {
        CodexTurnReader {
            tools,
            turn,
            items: Vec::new(),
            told: Vec::new(),
            calls: Vec::new(),
            callers: Vec::new(),
            unfit: Vec::new(),
            facts: TurnFacts::new(session, model),
            thought: false,
            has_text: false,
            has_begun_message: false,
        }
    }

    /// The reply as it is remembered: its items, without codex's own notes, and the calls that are the caller's to answer.
    pub fn into_recalled(self) -> RecalledItems {
        let recalled = RecalledItems::new(self.items.iter().map(items::plain).collect(), self.callers);
        // Of a resumed thread, only what a response has used tells that it has ended.
        match self.facts.usage.is_some() {
            true => recalled.in_thread(self.facts.session, self.told),
            false => recalled,
        }
    }

    /// Takes the ids of calls whose arguments are JSON but not an object: codex waits for them, and no tool can take them.
    pub fn take_unfit(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unfit)
    }

    /// Returns whether calls have come whose response has not ended.
    pub fn waits_behind_call(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Takes one event of the thread, and adds its meaning to `events`. `limits` are the account's current ones.
    pub fn push(&mut self, event: ThreadEvent, limits: &RateLimits, events: &mut Vec<Event>) -> TurnStep {
        match event {
            ThreadEvent::TurnStarted { turn } => self.turn = Some(turn),
            ThreadEvent::TextDelta { item, delta } => {
                self.has_text |= !delta.is_empty();
                events.push(Event::TextDelta {
                    message_id: Some(item),
                    text: delta,
                });
            }
            ThreadEvent::ReasoningDelta { item, delta } => {
                self.thought = true;
                events.push(Event::ThinkingDelta {
                    message_id: Some(item),
                    text: delta,
                });
            }
            // Injected items come back as well, with another turn.
            ThreadEvent::RawItem { turn, item } if self.is_current(&turn) => self.item(item, events),
            ThreadEvent::RawItem { item, .. } => self.told.extend(ToldItem::of(&item)),
            ThreadEvent::ResponseCompleted { turn, usage } if self.is_current(&turn) => {
                return self.response(usage, limits, events);
            }
            ThreadEvent::ResponseCompleted { .. } => {}
            ThreadEvent::TurnCompleted { turn, status, error } if self.is_current(&turn) => {
                return self.turn_over(&status, error, limits, events);
            }
            ThreadEvent::TurnCompleted { .. } => {}
            ThreadEvent::Error {
                will_retry: true,
                error,
            } => {
                // The pieces of a message that have come so far come again.
                events.push(Event::Abandoned);
                events.push(Event::Retry {
                    by: "cli",
                    attempt: 1,
                    max_attempts: None,
                    delay_ms: 0,
                    reason: error.message,
                    http_status: error.http_status,
                });
            }
            // `turn/completed` tells it again.
            ThreadEvent::Error { .. } => {}
            ThreadEvent::MessageStarted => self.has_begun_message = true,
            ThreadEvent::Rerouted { model } => self.facts.model = model,
            ThreadEvent::Warning { message } => events.push(Event::Warning {
                code: "CLI_WARNING".to_owned(),
                message,
            }),
            ThreadEvent::Compaction => {
                let reason =
                    "codex replaces the history by a summary of its own, with which the thread would go on unseen";
                return self.failed(COMPACTED, reason.to_owned(), limits, events);
            }
            ThreadEvent::UnknownRequest { method } => {
                let reason = format!("codex asks for {method}, which is not understood here");
                return self.failed(UNKNOWN_REQUEST, reason, limits, events);
            }
            ThreadEvent::Closed => {
                let reason = "codex has closed the thread in the middle of its turn";
                return self.failed(UNKNOWN_REQUEST, reason.to_owned(), limits, events);
            }
            ThreadEvent::ToolCall { .. } | ThreadEvent::ItemCompleted { .. } => {}
        }
        TurnStep::More
    }

    /// Fails the turn because the stream fell silent after a call: it broke, which codex does not report until the call is
    /// answered (CODEX-LIVE pitfall 4).
    pub fn silent(&mut self, limits: &RateLimits, events: &mut Vec<Event>) -> TurnStep {
        let reason = "stream disconnected before completion: nothing came behind a tool call";
        self.failed(SILENT, reason.to_owned(), limits, events)
    }

    fn is_current(&self, turn: &str) -> bool {
        self.turn.as_deref() == Some(turn)
    }

    /// Takes a complete item of the API: a message, reasoning or a call. Items of other types are not part of a reply.
    fn item(&mut self, item: Value, events: &mut Vec<Event>) {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match item.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message" if text("role") == "assistant" => {
                let content = joined(&item, "content");
                self.has_text |= !content.is_empty();
                // A message that ends with a text, even an empty one, is no refusal: of a refusal, codex reports only the
                // beginning.
                self.has_begun_message &= !has_texts(&item);
                events.push(Event::Message {
                    id: Some(text("id")).filter(|id| !id.is_empty()),
                    content,
                });
            }
            "reasoning" => {
                let summary = joined(&item, "summary");
                // The whole summary, if it did not come piece by piece.
                if !std::mem::take(&mut self.thought) && !summary.is_empty() {
                    events.push(Event::ThinkingDelta {
                        message_id: Some(text("id")),
                        text: summary,
                    });
                }
                let details = ReasoningDetail::of_item(&item);
                if !details.is_empty() {
                    events.push(Event::Reasoning { details });
                }
            }
            "function_call" => self.calls.push(CodexCall {
                id: text("call_id"),
                name: text("name"),
                is_ours: matches!(text("namespace").as_str(), "" | TOOL_FUNCTIONS | OUR_NAMESPACE),
                arguments: text("arguments"),
            }),
            "web_search_call" => events.extend(web_search(&item, self.items.len())),
            // codex's own answer to a call for which it asks nobody.
            "function_call_output" if self.items.iter().any(|known| is_call(known, &text("call_id"))) => {}
            _ => return self.told.extend(ToldItem::of(&item)),
        }
        self.items.push(item);
    }

    /// Ends a response: its calls are known now.
    fn response(&mut self, usage: Option<Usage>, limits: &RateLimits, events: &mut Vec<Event>) -> TurnStep {
        self.facts.add_usage(usage);
        for call in std::mem::take(&mut self.calls) {
            let name = self.tools.callers_name(&call.name).filter(|_| call.is_ours);
            let Some(name) = name else { continue };
            match serde_json::from_str::<Box<RawValue>>(&call.arguments) {
                Ok(args) if args.get().starts_with('{') => {
                    self.callers.push(call.id.clone());
                    let tool_call = ToolCall {
                        id: call.id,
                        name: name.to_owned(),
                        args,
                    };
                    events.push(Event::ToolCall { tool_call });
                }
                // codex hands over arguments that are JSON, and waits.
                Ok(_) => self.unfit.push(call.id),
                Err(_) => {}
            }
        }
        if !self.callers.is_empty() {
            return self.over(limits, events);
        }
        TurnStep::More
    }

    /// Ends the turn: a reply if it was completed and the model did not refuse, a failure otherwise.
    fn turn_over(
        &mut self,
        status: &str,
        error: Option<TurnError>,
        limits: &RateLimits,
        events: &mut Vec<Event>,
    ) -> TurnStep {
        // There is nothing left to be interrupted.
        self.turn = None;
        match (status, error) {
            ("completed", None) if self.has_begun_message && !self.has_text => {
                let reason = "the model began an answer and gave none: it refused";
                self.failed(REFUSED, reason.to_owned(), limits, events)
            }
            ("completed", None) => self.over(limits, events),
            (status, error) => {
                let error = error.unwrap_or_else(|| TurnError {
                    message: format!("codex ended the turn as \"{status}\""),
                    ..TurnError::default()
                });
                self.limits(limits, true, events);
                let failure = Failure {
                    // "other" means nothing; the text does.
                    kind: error.kind.filter(|kind| kind != "other"),
                    http_status: error.http_status,
                    ..Failure::of(error.message)
                };
                self.facts.failed(failure, events)
            }
        }
    }

    fn failed(&mut self, kind: &str, message: String, limits: &RateLimits, events: &mut Vec<Event>) -> TurnStep {
        self.limits(limits, false, events);
        self.facts.failed(Failure::named(kind, message), events)
    }

    fn over(&mut self, limits: &RateLimits, events: &mut Vec<Event>) -> TurnStep {
        self.limits(limits, false, events);
        self.facts.replied(events)
    }

    /// Adds the account's limits, if the API has reported any.
    fn limits(&self, limits: &RateLimits, is_failure: bool, events: &mut Vec<Event>) {
        for (at, window) in limits.windows.iter().enumerate() {
            let is_fullest = at + 1 == limits.windows.len();
            let is_rejected = is_failure && is_fullest && (limits.reached.is_some() || window.used >= 1.0);
            events.push(Event::RateLimit {
                status: if is_rejected { "rejected" } else { "allowed" }.to_owned(),
                resets_at: window.resets_at.map(|seconds| seconds.saturating_mul(1000)),
                limit_type: window.name().or_else(|| limits.reached.clone()),
                utilization: Some(window.used),
            });
        }
    }
}

/// The events of a search, which the API has made itself: a call of its own tool, and that it is answered.
fn web_search(item: &Value, at: usize) -> [Event; 2] {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let id = text("id").filter(|id| !id.is_empty());
    let id = id.map_or_else(|| format!("{WEB_SEARCH}_{at}"), str::to_owned);
    let action = item.get("action").filter(|action| action.is_object());
    let tool_call = ToolCall {
        id: id.clone(),
        name: WEB_SEARCH.to_owned(),
        args: to_raw_value(action.unwrap_or(&json!({}))).unwrap_or_else(|_| RawValue::NULL.to_owned()),
    };
    let result = Event::ToolResult {
        tool_call_id: id,
        // What was found is known to the model alone.
        content: String::new(),
        is_error: text("status") == Some("failed"),
    };
    [Event::ToolCall { tool_call }, result]
}

fn is_call(item: &Value, id: &str) -> bool {
    item.get("type").and_then(Value::as_str) == Some("function_call")
        && item.get("call_id").and_then(Value::as_str) == Some(id)
}

/// Returns whether a message has any part that is text.
pub fn has_texts(item: &Value) -> bool {
    let parts = item.get("content").and_then(Value::as_array);
    parts
        .into_iter()
        .flatten()
        .any(|part| part.get("text").is_some_and(Value::is_string))
}

/// Joins the texts of an item's parts.
fn joined(item: &Value, field: &str) -> String {
    let parts = item.get(field).and_then(Value::as_array);
    let texts = parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("text")?.as_str());
    let joint = if field == "summary" { "\n\n" } else { "" };
    texts.collect::<Vec<_>>().join(joint)
}

#[cfg(test)]
mod tests;
