//! Makes the events of a reply from the server's events on a turn.
//!
//! In: [`ServerEvent`]s, and at the end the [`OpencodeAnswer`]. Out: the events of a reply, the next step ([`OpencodeTurnStep`]), and the calls
//! with which it ended ([`OpencodeOpenCall`]). opencode itself answers calls of tools that are not there and asks the model again: the
//! reply then takes several requests, whose usage is added up. The answer is the authority: parts that the stream did not tell
//! are taken from it.

use std::slice;

use serde_json::Value;
use serde_json::value::RawValue;

use super::callers_name;
use super::history::is_replayed;
use super::inbound::{OpencodeAnswer, OpencodeTokens, Part, ServerEvent};
use super::server::Id;
use crate::live::session::push_outcome;
use dfp_model::error::clip;
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::reasoning::ReasoningDetail;
use dfp_model::message::{ToolCall, Usage, json_value};
use dfp_provider::declare::mcp::Declarations;
use dfp_text::toolcall::{TakenIds, make_unique};

/// The failure of a request that opencode would make again.
const RETRIED: &str = "retried_request";
/// The failure of a turn that did not tell how it ended.
const NO_FINISH: &str = "no_finish";
/// The failure of a session that was removed in the middle of its turn.
const GONE: &str = "session_gone";
/// The failure of a call that was run, although nobody permitted it.
const TOOL_RAN: &str = "tool_ran";

/// The next step for the turn.
#[derive(Debug, PartialEq, Eq)]
pub enum OpencodeTurnStep {
    /// There is more to come.
    More,
    /// The request of this id must be rejected.
    Reject(Id),
    /// Nothing is in progress any more.
    Idle,
    /// The turn failed, and would go on: it must be aborted. The reason is among the events.
    Abort,
}

/// A call with which the turn ended, and the place of its result.
#[derive(Debug, Clone)]
pub struct OpencodeOpenCall {
    /// The id among the calls of the turn: two of them may have the same from the API.
    pub id: String,
    /// The API's id of the call.
    pub api_id: String,
    pub message: Id,
    pub part: Id,
    /// The tool, by opencode's name.
    pub tool: String,
    pub input: Box<RawValue>,
}

/// The calls with which a turn ended.
#[derive(Debug, Default)]
pub struct OpenCalls {
    pub calls: Vec<OpencodeOpenCall>,
    /// True if opencode has lost a call to another one with the same id: it can't be given a result.
    pub has_lost: bool,
}

/// A message of the model that is being received.
#[derive(Debug)]
struct OpencodeMessage {
    id: Id,
    parts: Vec<OpencodePiece>,
}

/// A part that has text.
#[derive(Debug)]
struct OpencodePiece {
    id: Id,
    is_reasoning: bool,
    /// The text that was reported.
    text: String,
    is_over: bool,
}

/// A reply that is being read.
#[derive(Debug)]
pub struct OpencodeTurnReader<'a> {
    tools: &'a Declarations,
    session: String,
    model: Option<String>,
    /// The message that is being received.
    message: Option<OpencodeMessage>,
    /// The messages so far, including the current one.
    seen: Vec<Id>,
    /// The steps whose usage is counted.
    counted: Vec<Id>,
    usage: Option<Usage>,
    cost: f64,
    finish: Option<String>,
    /// The answer by a schema.
    structured: Option<Value>,
    failed: bool,
    /// The calls that have begun: id, tool and arguments. In opencode (1.18.34), a call with another's id replaces it.
    begun: Vec<(String, String, Box<RawValue>)>,
}

impl<'a> OpencodeTurnReader<'a> {
    /// Makes the reader of a reply in `session`.
    pub fn new(tools: &'a Declarations, session: &str) -> OpencodeTurnReader<'a> {
        OpencodeTurnReader {
            tools,
            session: session.to_owned(),
            model: None,
            message: None,
            seen: Vec::new(),
            counted: Vec::new(),
            usage: None,
            cost: 0.0,
            finish: None,
            structured: None,
            failed: false,
            begun: Vec::new(),
        }
    }

    /// Returns whether the model has begun to answer.
    pub fn has_begun(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Takes one event of the session, and adds its meaning to `events`.
    pub fn push(&mut self, event: ServerEvent, events: &mut Vec<Event>) -> OpencodeTurnStep {
        match event {
            ServerEvent::Message(info) => {
                let is_new = !self.seen.contains(&info.id) && !is_replayed(&info.id);
                if info.role == "assistant" && is_new {
                    self.begin(info.id, events);
                }
            }
            ServerEvent::Part(part) => return self.part(&part, events),
            ServerEvent::Delta { message, part, text } => {
                let of_message = self.message.as_mut().filter(|now| now.id == message);
                let piece = of_message.and_then(|now| now.parts.iter_mut().find(|known| known.id == part));
                if let Some(piece) = piece.filter(|piece| !piece.is_over) {
                    events.push(piece.more(&message, text));
                }
            }
            ServerEvent::PermissionAsked(request) => return OpencodeTurnStep::Reject(request),
            ServerEvent::Retry { reason } => return self.fail(RETRIED, reason, events),
            ServerEvent::Gone => {
                let reason = "opencode took the session away in the middle of its turn";
                return self.fail(GONE, reason.to_owned(), events);
            }
            ServerEvent::Idle => return OpencodeTurnStep::Idle,
        }
        OpencodeTurnStep::More
    }

    /// Ends the turn with this answer, and returns the calls that are the caller's to answer; `None` if the turn failed.
    pub fn finish(mut self, answer: OpencodeAnswer, events: &mut Vec<Event>) -> Option<OpenCalls> {
        let OpencodeAnswer { info, parts } = answer;
        if !self.seen.contains(&info.id) {
            self.begin(info.id.clone(), events);
        }
        for part in &parts {
            if self.part(part, events) == OpencodeTurnStep::Abort {
                return None;
            }
        }
        self.end_message(events);
        if let Some(model) = info.model {
            self.model = Some(match info.provider {
                Some(provider) => format!("{provider}/{model}"),
                None => model,
            });
        }
        if let Some(error) = info.error {
            self.failure(error.into_failure(), events);
            return None;
        }
        if info.finish.is_none() {
            let reason = "opencode ended the turn without saying how".to_owned();
            self.fail(NO_FINISH, reason, events);
            return None;
        }
        self.finish = info.finish;
        self.structured = info.structured;
        let (mut open, mut taken) = (OpenCalls::default(), TakenIds::default());
        for part in parts {
            let Some(name) = callers_name(self.tools, &part.tool).filter(|_| part.kind == "tool") else {
                continue;
            };
            let Some(state) = part.state else { continue };
            if state.status == "completed" {
                let reason = format!("opencode ran a call of the tool {name:?} that nobody permitted");
                self.fail(TOOL_RAN, reason, events);
                return None;
            }
            let input = state.input.filter(|input| input.get().starts_with('{'));
            let Some(input) = input.filter(|_| !part.call_id.is_empty()) else {
                continue;
            };
            let mut tell = |input: &RawValue| {
                let mut tool_call = ToolCall {
                    id: part.call_id.clone(),
                    name: name.to_owned(),
                    args: input.to_owned(),
                };
                make_unique(slice::from_mut(&mut tool_call), &mut taken);
                let id = tool_call.id.clone();
                events.push(Event::ToolCall { tool_call });
                id
            };
            for (id, tool, args) in &self.begun {
                if *id == part.call_id && *tool == part.tool && !is_same(args, &input) {
                    tell(args);
                    open.has_lost = true;
                }
            }
            let id = tell(&input);
            open.calls.push(OpencodeOpenCall {
                id,
                api_id: part.call_id,
                message: part.message,
                part: part.id,
                tool: part.tool,
                input,
            });
        }
        // With calls, any reason may be given (1.18.34).
        let is_whole = |finish: &str| matches!(finish, "stop" | "length" | "tool-calls");
        if let Some(finish) = self
            .finish
            .as_deref()
            .filter(|finish| open.calls.is_empty() && !is_whole(finish))
        {
            let reason = format!("opencode ended the turn with {:?}", clip(finish, 60));
            self.fail(NO_FINISH, reason, events);
            return None;
        }
        self.outcome(false, events);
        Some(open)
    }

    fn call_begun(&mut self, part: &Part) {
        let running = part.state.as_ref().filter(|state| state.status == "running");
        let Some(input) = running.and_then(|state| state.input.as_ref()) else {
            return;
        };
        let is_known = |(id, tool, args): &(String, String, Box<RawValue>)| {
            *id == part.call_id && *tool == part.tool && is_same(args, input)
        };
        if input.get().starts_with('{') && !self.begun.iter().any(is_known) {
            self.begun
                .push((part.call_id.clone(), part.tool.clone(), input.clone()));
        }
    }

    fn begin(&mut self, id: Id, events: &mut Vec<Event>) {
        self.end_message(events);
        self.seen.push(id.clone());
        self.message = Some(OpencodeMessage { id, parts: Vec::new() });
    }

    /// Takes the state of a part: reports the text that is new, keeps a call that has begun, and counts the usage of a finished
    /// step once.
    fn part(&mut self, part: &Part, events: &mut Vec<Event>) -> OpencodeTurnStep {
        match part.kind.as_str() {
            "text" | "reasoning" => {
                let Some(message) = self.message.as_mut().filter(|now| now.id == part.message) else {
                    return OpencodeTurnStep::More;
                };
                let at = message.parts.iter().position(|known| known.id == part.id);
                let at = at.unwrap_or_else(|| {
                    message.parts.push(OpencodePiece {
                        id: part.id.clone(),
                        is_reasoning: part.kind == "reasoning",
                        text: String::new(),
                        is_over: false,
                    });
                    message.parts.len() - 1
                });
                let piece = &mut message.parts[at];
                if piece.is_over {
                    return OpencodeTurnStep::More;
                }
                // opencode trims the end of a text once it is complete.
                if let Some(more) = part
                    .text
                    .strip_prefix(piece.text.as_str())
                    .filter(|more| !more.is_empty())
                {
                    let more = more.to_owned();
                    events.push(piece.more(&part.message, more));
                }
                if part.time.as_ref().is_some_and(|time| time.end.is_some()) {
                    piece.is_over = true;
                    if piece.is_reasoning {
                        let details: Vec<_> = ReasoningDetail::text(&piece.text, None).into_iter().collect();
                        events.push(Event::Reasoning { details });
                    }
                }
            }
            "tool" if self.seen.contains(&part.message) => self.call_begun(part),
            "step-finish" if self.seen.contains(&part.message) && !self.counted.contains(&part.id) => {
                self.counted.push(part.id.clone());
                return self.step_finish(part, events);
            }
            _ => {}
        }
        OpencodeTurnStep::More
    }

    fn step_finish(&mut self, part: &Part, events: &mut Vec<Event>) -> OpencodeTurnStep {
        if let Some(usage) = part.tokens.as_ref().map(OpencodeTokens::usage) {
            match &mut self.usage {
                Some(sum) => sum.add(&usage),
                None => self.usage = Some(usage),
            }
        }
        self.cost += part.cost.unwrap_or_default();
        self.finish.clone_from(&part.reason);
        if part.reason.as_deref() == Some("unknown") {
            let why = "the answer ended without a reason that opencode knows; it would ask again for ever";
            return self.fail("unknown", why.to_owned(), events);
        }
        OpencodeTurnStep::More
    }

    /// Ends the message, which is complete.
    fn end_message(&mut self, events: &mut Vec<Event>) {
        let Some(message) = self.message.take() else { return };
        let texts = message.parts.iter().filter(|piece| !piece.is_reasoning);
        let content: String = texts.map(|piece| piece.text.as_str()).collect();
        if !content.is_empty() {
            events.push(Event::Message {
                id: Some(message.id.as_str().to_owned()),
                content,
            });
        }
    }

    fn fail(&mut self, kind: &str, message: String, events: &mut Vec<Event>) -> OpencodeTurnStep {
        let failure = Failure {
            kind: Some(kind.to_owned()),
            message,
            ..Failure::default()
        };
        self.failure(failure, events);
        OpencodeTurnStep::Abort
    }

    /// Reports a failure, once: later events belong to attempts that opencode makes by itself.
    fn failure(&mut self, failure: Failure, events: &mut Vec<Event>) {
        if std::mem::replace(&mut self.failed, true) {
            return;
        }
        self.end_message(events);
        events.push(Event::Failure(failure));
        self.outcome(true, events);
    }

    fn outcome(&mut self, is_error: bool, events: &mut Vec<Event>) {
        let outcome = Outcome {
            is_error,
            stop_reason: self.finish.clone(),
            cost_usd: self.usage.is_some().then_some(self.cost),
            usage: self.usage.clone(),
            session_id: Some(self.session.clone()),
            model: self.model.clone(),
            structured: self.structured.take(),
            ..Outcome::default()
        };
        push_outcome(outcome, events);
    }
}

impl OpencodePiece {
    fn more(&mut self, message: &Id, text: String) -> Event {
        self.text.push_str(&text);
        let message_id = Some(message.as_str().to_owned());
        match self.is_reasoning {
            true => Event::ThinkingDelta { message_id, text },
            false => Event::TextDelta { message_id, text },
        }
    }
}

/// Returns whether these are the same arguments.
fn is_same(one: &RawValue, other: &RawValue) -> bool {
    one.get() == other.get() || json_value(one.get()) == json_value(other.get())
}

#[cfg(test)]
mod tests;
