//! Makes the events of a reply from the server's events on a turn.
//!
//! In: [`SessionEvent`]s. Out: events, and whether the reply is over ([`TurnStep`]). It is over if all its calls of the caller's
//! tools are pending, or with an answer without calls. Calls that copilot answers itself (of tools that are not there, with
//! arguments that are not JSON) are none of the caller's: the reply then takes several responses, whose usage is added up.
//! copilot's own continuation after a failure or a cut answer is no part of a reply: either fails the turn at once.

use std::collections::HashMap;
use std::slice;

use serde_json::value::RawValue;

use super::wire::{ModelReply, SessionEvent};
use crate::live::session::TurnStep;
use crate::live::turn::TurnFacts;
use dfp_model::error::clip;
use dfp_model::event::{Event, Failure};
use dfp_model::message::ToolCall;
use dfp_model::message::reasoning::ReasoningDetail;
use dfp_provider::copilot::TOOL_SEARCH;
use dfp_provider::declare::Tools;
use dfp_text::decode::DocumentEnd;
use dfp_text::decode::copilot::{LENGTH, cut_by_limit, reasoning_of};
use dfp_text::toolcall::{TakenIds, make_unique};

/// The finish reasons of a whole answer, of the three kinds of APIs that copilot asks.
const WHOLE: [&str; 7] = [
    "stop",
    "tool_calls",
    "function_call",
    "end_turn",
    "tool_use",
    "stop_sequence",
    "completed",
];
/// The finish reason of an answer that the API's filter has stopped.
const FILTERED: &str = "content_filter";
/// The failure of a turn that ended well without a word and without a call.
const NO_ANSWER: &str = "no_answer";
/// The failure of a session whose history copilot has replaced.
const COMPACTED: &str = "context_compaction";
/// The failure of a turn in which copilot has run a tool of its own.
const TOOL_RAN: &str = "tool_ran";
/// The failure of a session that was closed.
const CLOSED: &str = "session_closed";

/// A call of the caller's tools that the server has not answered itself.
#[derive(Debug)]
struct CopilotOpenCall {
    /// The API's id: two calls of one answer may have the same.
    api_id: String,
    /// The call, under a unique id.
    call: ToolCall,
    /// The server's request for its result, as soon as there is one.
    request: Option<String>,
}

/// A reply that is being read.
#[derive(Debug)]
pub struct CopilotTurnReader<'a> {
    tools: &'a Tools,
    /// True if the model may search for tools. Otherwise, what it calls so is a tool that there is not.
    searches_tools: bool,
    facts: TurnFacts,
    /// The arguments of calls as the model wrote them, by the API's ids, in their order.
    raw: Vec<(String, String)>,
    /// The calls of the caller's tools in this answer, as far as the server has not answered them itself.
    calls: Vec<CopilotOpenCall>,
    /// The ids that are taken by calls.
    taken: TakenIds,
    /// The progress of the arguments of calls that are told piece by piece, by the API's ids.
    deltas: HashMap<String, DocumentEnd>,
    /// The calls of copilot's own search for tools that have no result yet.
    searches: Vec<String>,
    /// The calls for whose results the server waits: the call, and its request.
    pending: Vec<(String, String)>,
    /// The requests of calls that no tool can take.
    unfit: Vec<String>,
    /// True if calls of this reply have one id: copilot gives their results to its model in any order, and the arguments of one to both.
    pub has_repeated_ids: bool,
    /// True if reasoning came piece by piece.
    has_thought: bool,
    /// True if an answer with a word, and without a call, has come.
    has_answer: bool,
}

impl<'a> CopilotTurnReader<'a> {
    /// Makes the reader of a reply in `session`, of this model as far as it is known.
    pub fn new(tools: &'a Tools, searches_tools: bool, session: &str, model: &str) -> CopilotTurnReader<'a> {
        CopilotTurnReader {
            tools,
            searches_tools,
            facts: TurnFacts::new(session, model),
            raw: Vec::new(),
            calls: Vec::new(),
            taken: TakenIds::default(),
            deltas: HashMap::new(),
            searches: Vec::new(),
            pending: Vec::new(),
            unfit: Vec::new(),
            has_repeated_ids: false,
            has_thought: false,
            has_answer: false,
        }
    }

    /// The calls that the server waits for, each with its request.
    pub fn into_pending(self) -> Vec<(String, String)> {
        self.pending
    }

    /// Takes the requests of calls with arguments that no tool can take.
    pub fn take_unfit(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unfit)
    }

    /// Takes one event of the session, and adds its meaning to `events`.
    pub fn push(&mut self, event: SessionEvent, events: &mut Vec<Event>) -> TurnStep {
        match event {
            SessionEvent::CallStarted { model } => self.named(model),
            SessionEvent::ReasoningDelta { delta } => {
                self.has_thought = true;
                events.push(Event::ThinkingDelta {
                    message_id: None,
                    text: delta,
                });
            }
            SessionEvent::TextDelta { message, delta } => events.push(Event::TextDelta {
                message_id: Some(message),
                text: delta,
            }),
            SessionEvent::CallDelta { call, name, delta } => {
                // Pieces that come after whole arguments belong to another call with the same id, which is reported whole.
                let told = self.deltas.entry(call.clone()).or_default();
                let is_over = told.is_over();
                told.push(delta.as_bytes());
                if let Some(name) = self.tools.callers_name(&name).filter(|_| !is_over) {
                    events.push(Event::ToolCallDelta {
                        tool_call_id: call,
                        name: name.to_owned(),
                        delta,
                    });
                }
            }
            SessionEvent::Usage {
                usage,
                finish_reason,
                model,
            } => {
                self.named(model);
                self.facts.add_usage(usage);
                self.facts.stop_reason.clone_from(&finish_reason);
                match finish_reason.as_deref() {
                    Some(LENGTH) => return self.facts.failed(cut_by_limit(), events),
                    Some(FILTERED) => {
                        let reason = "the API's filter has stopped the answer";
                        return self.facts.failed(Failure::named(FILTERED, reason), events);
                    }
                    None => {}
                    Some(reason) if WHOLE.contains(&reason) => {}
                    Some(reason) => {
                        let reason = format!("the API ended the answer with {:?}", clip(reason, 60));
                        return self.facts.failed(Failure::of(reason), events);
                    }
                }
            }
            SessionEvent::RawCalls(calls) => self.raw.extend(calls),
            SessionEvent::Message(said) => self.message(*said, events),
            SessionEvent::CallEnded { is_success: true } if self.has_answer => {
                return self.facts.replied(events);
            }
            SessionEvent::CallEnded { .. } => {}
            SessionEvent::CallPending { request, call } => {
                let is_asked = |open: &&mut CopilotOpenCall| open.api_id == call && open.request.is_none();
                match self.calls.iter_mut().find(is_asked) {
                    Some(open) => open.request = Some(request),
                    None => self.unfit.push(request),
                }
                return self.with_calls(events);
            }
            SessionEvent::CallAnswered {
                call,
                is_success,
                content,
            } if self.searches.contains(&call) => {
                self.searches.retain(|search| *search != call);
                events.push(Event::ToolResult {
                    tool_call_id: call,
                    content,
                    is_error: !is_success,
                });
            }
            SessionEvent::CallAnswered { call, is_success, .. } => {
                let of_id = |open: &CopilotOpenCall| open.api_id == call;
                let unasked = |open: &CopilotOpenCall| of_id(open) && open.request.is_none();
                let at = self.calls.iter().position(unasked);
                let at = at.or_else(|| self.calls.iter().position(of_id));
                let answered = at.map(|at| self.calls.remove(at));
                // Only the caller has the results of its tools. A failure is copilot's own answer to arguments that are not JSON.
                if is_success && answered.is_some() {
                    let reason = format!("copilot ran the call {call} by itself");
                    return self.facts.failed(Failure::named(TOOL_RAN, reason), events);
                }
                return self.with_calls(events);
            }
            SessionEvent::CallFailed(failure) | SessionEvent::Failed(failure) => {
                return self.facts.failed(*failure, events);
            }
            SessionEvent::Warning { code, message } => events.push(Event::Warning { code, message }),
            SessionEvent::Compaction => {
                let reason = "copilot shortens the history by itself, with which the thread would go on unseen";
                return self.facts.failed(Failure::named(COMPACTED, reason), events);
            }
            // An empty answer is reported as an error: a turn that ends without either was ended by something else.
            SessionEvent::Idle => {
                let reason = "the turn ended well, without a word and without a call";
                return self.facts.failed(Failure::named(NO_ANSWER, reason), events);
            }
            SessionEvent::Closed => {
                let reason = "copilot has closed the session in the middle of its turn";
                return self.facts.failed(Failure::named(CLOSED, reason), events);
            }
        }
        TurnStep::More
    }

    fn named(&mut self, model: String) {
        if !model.is_empty() {
            self.facts.model = model;
        }
    }

    /// Takes a whole message of the model: its reasoning, its text, and its calls of the caller's tools. Their arguments are
    /// taken as the model wrote them, if those came before; calls that copilot answers itself are left out.
    fn message(&mut self, said: ModelReply, events: &mut Vec<Event>) {
        let ModelReply {
            message_id,
            content,
            reasoning_text,
            reasoning_blocks,
            tool_requests,
        } = said;
        let thought = reasoning_text.unwrap_or_default();
        if !std::mem::take(&mut self.has_thought) && !thought.is_empty() {
            events.push(Event::ThinkingDelta {
                message_id: Some(message_id.clone()),
                text: thought.clone(),
            });
        }
        let sealed = reasoning_blocks.map(|blocks| reasoning_of(blocks.get()));
        let sealed = sealed.filter(|sealed| !sealed.is_empty());
        let details = sealed.unwrap_or_else(|| ReasoningDetail::text(&thought, None).into_iter().collect());
        if !details.is_empty() {
            events.push(Event::Reasoning { details });
        }
        self.has_answer = tool_requests.is_empty() && !content.is_empty();
        if !content.is_empty() {
            events.push(Event::Message {
                id: Some(message_id),
                content,
            });
        }
        for request in tool_requests {
            let Some(name) = self.tools.callers_name(&request.name) else {
                if self.searches_tools && request.name == TOOL_SEARCH {
                    self.searches.push(request.tool_call_id.clone());
                    let args = request.arguments.unwrap_or_else(|| RawValue::NULL.to_owned());
                    events.push(Event::ToolCall {
                        tool_call: ToolCall {
                            id: request.tool_call_id.clone(),
                            name: request.name,
                            args,
                        },
                    });
                }
                self.raw.retain(|(id, _)| *id != request.tool_call_id);
                continue;
            };
            let raw = self.raw.iter().position(|(id, _)| *id == request.tool_call_id);
            let raw = raw.map(|at| self.raw.remove(at).1);
            let raw = raw.map(|raw| serde_json::from_str::<Box<RawValue>>(&raw));
            let args = match raw {
                // copilot itself answers arguments that are not JSON.
                Some(Err(_)) => continue,
                Some(Ok(args)) => Some(args),
                None => request.arguments,
            };
            let Some(args) = args.filter(|args| args.get().starts_with('{')) else {
                continue;
            };
            let mut call = ToolCall {
                id: request.tool_call_id.clone(),
                name: name.to_owned(),
                args,
            };
            make_unique(slice::from_mut(&mut call), &mut self.taken);
            self.has_repeated_ids |= call.id != request.tool_call_id;
            self.calls.push(CopilotOpenCall {
                api_id: request.tool_call_id,
                call,
                request: None,
            });
        }
    }

    /// Ends the reply if the server waits for all calls of the caller's tools.
    fn with_calls(&mut self, events: &mut Vec<Event>) -> TurnStep {
        if self.calls.is_empty() || self.calls.iter().any(|open| open.request.is_none()) {
            return TurnStep::More;
        }
        for CopilotOpenCall { call, request, .. } in std::mem::take(&mut self.calls) {
            self.pending.extend(request.map(|request| (call.id.clone(), request)));
            events.push(Event::ToolCall { tool_call: call });
        }
        self.facts.replied(events)
    }
}

#[cfg(test)]
mod tests;
