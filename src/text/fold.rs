//! Folds a decoder's events into public events and one [`Reply`].
//!
//! Tool calls written as text become tool calls here, if the call's mode ([`TextCalls`]) allows it: the text of a message
//! streams through as far as it certainly belongs to no call. The pieces of a message that go out, joined, are that message;
//! `run()` is nothing but this fold.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::decode::lines::Stripper;
use crate::prompt::is_js_space;
use crate::toolcall::{Gate, TakenIds, TextCalls, make_unique};
use dfp_model::event::{AssistantMessage, Event, Failure, Outcome, Reply};
use dfp_model::message::reasoning::ReasoningDetail;
use dfp_model::message::{ToolCall, Usage};

/// The result of a call of the CLI's own tool that the CLI has not answered.
const UNANSWERED: &str = "Error: the CLI has not reported a result of this call";

/// The folded events of a run, before `judge` decides on success.
#[derive(Debug, Default)]
pub struct Folded {
    /// The reply, without usage if the provider reported none.
    pub reply: Reply,
    /// Tokens as the provider counts them.
    pub usage: Option<Usage>,
    /// True if the usage went out as an event.
    pub usage_reported: bool,
    /// The provider's report of its failure.
    pub failure: Option<Failure>,
    /// The provider's last report.
    pub outcome: Option<Outcome>,
    /// When the subscription's limit ends, ms since the epoch, if it was reached.
    pub limit_resets_at: Option<u64>,
    /// The number of public events that went out.
    pub events: u64,
    /// True if the last thing that the model has read is a tool's result: in the thread, or in the CLI's own run.
    pub is_behind_result: bool,
    /// True if pieces of a message came, but not the message: it broke off.
    pub breaks_off: bool,
    /// For each native call, the provider's id and the id that the reply has for it.
    pub call_ids: Vec<ProviderCallId>,
    /// The texts that came in. An answer may be long, so none is kept twice.
    received: Vec<ReceivedText>,
}

/// The two ids of a native call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCallId {
    pub provider: String,
    /// The caller's id: another one if the provider's was taken.
    pub id: String,
}

/// A text that came in.
#[derive(Debug)]
enum ReceivedText {
    /// The text is that of the reply's message at this index.
    Message(usize),
    /// The text held calls, or no message came of it.
    Text(String),
}

impl Folded {
    /// The text of all messages that came in: for a failed run's `partial`, and for an estimate if no usage was reported.
    pub fn text(&self) -> Cow<'_, str> {
        let mut parts = self.received.iter().map(|received| match received {
            ReceivedText::Message(place) => self.reply.messages.get(*place).map_or("", |message| &message.content),
            ReceivedText::Text(text) => text,
        });
        match (parts.next(), parts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(second)) => Cow::Owned([first, second].into_iter().chain(parts).collect()),
        }
    }
}

/// The fold's state between events.
#[derive(Debug)]
pub struct Fold {
    folded: Folded,
    /// The mode that decides which text is a call.
    text_calls: TextCalls,
    /// The filter for the message that is being written.
    gate: Option<Gate>,
    /// The pieces of the message so far; those of an abandoned message until anything else comes.
    pieces: String,
    /// Reasoning that no block holds yet.
    thinking: String,
    /// These remove a terminal's control sequences from the message and the reasoning, whichever wire or API they come by.
    ansi: Stripper,
    thinking_ansi: Stripper,
    /// The index of the last message in the reply, if any text of it is left.
    last: Option<usize>,
    /// True if there is a listener for the texts.
    has_listener: bool,
    /// The ids that no new call may have: those of the thread, then those assigned.
    taken: TakenIds,
    /// Native calls without a result, by the provider's id: each as it came, with the id assigned to it.
    native: HashMap<String, (ToolCall, String)>,
    /// Calls the CLI itself has answered.
    answered: HashSet<String>,
    /// Answers that the model has given by a call of the CLI's own tool, by their ids. They are not calls if the CLI accepts
    /// them.
    answers: HashMap<String, ToolCall>,
    /// The last of those answers that the CLI has accepted.
    taken_answer: Option<ToolCall>,
    /// The names of tools of the CLI's own, whose calls are never the caller's.
    own_tools: Vec<&'static str>,
    /// True if texts are not searched for calls and only the last one is kept: the CLI works on its own, maybe for hours.
    watching: bool,
}

impl Fold {
    /// Makes a fold. `taken` has the call ids of the thread so far, `text_calls` decides which text is a call.
    pub fn new(taken: HashSet<String>, text_calls: TextCalls) -> Self {
        Fold {
            folded: Folded::default(),
            text_calls,
            gate: None,
            pieces: String::new(),
            thinking: String::new(),
            ansi: Stripper::default(),
            thinking_ansi: Stripper::default(),
            last: None,
            has_listener: true,
            taken: taken.into(),
            native: HashMap::new(),
            answered: HashSet::new(),
            answers: HashMap::new(),
            taken_answer: None,
            own_tools: Vec::new(),
            watching: false,
        }
    }

    /// Makes a fold for a CLI that works on its own: its texts are only texts, its calls are its own, and memory is bounded
    /// however long it goes on. The reply has the last message, and no calls.
    pub fn watching() -> Self {
        Fold {
            watching: true,
            ..Fold::new(HashSet::new(), TextCalls::Off)
        }
    }

    /// Says whether the thread ends with a tool's result.
    #[must_use]
    pub fn behind_result(mut self, is_behind_result: bool) -> Self {
        self.folded.is_behind_result = is_behind_result;
        self
    }

    /// Says that calls of these tools are the CLI's own affair: one that has no result at the end gets one that says so.
    #[must_use]
    pub fn with_own_tools(mut self, names: Vec<&'static str>) -> Self {
        self.own_tools = names;
        self
    }

    /// Says whether there is a listener for the texts. Without one they don't become events, but they are counted all the same,
    /// and the reply has them.
    #[must_use]
    pub fn with_listener(mut self, has_listener: bool) -> Self {
        self.has_listener = has_listener;
        self
    }

    /// Takes one event of the decoder and appends public events to `out`, in order.
    pub fn push(&mut self, event: Event, out: &mut Vec<Event>) {
        let before = out.len();
        // An observer of a CLI at work is told of its calls, but not of every result.
        if matches!(event, Event::ToolResult { .. }) || (self.watching && matches!(event, Event::ToolCall { .. })) {
            self.folded.is_behind_result = true;
        }
        let event = self.without_ansi(event);
        match event {
            Event::Message { id, content } if self.watching => {
                let reply = &mut self.folded.reply;
                content.trim().clone_into(&mut reply.content);
                reply.message_id.clone_from(&id);
                reply.messages = vec![AssistantMessage {
                    id: id.clone(),
                    content: content.clone(),
                }];
                out.push(Event::Message { id, content });
            }
            Event::Abandoned | Event::Reasoning { .. } if self.watching => {}
            Event::TextDelta { .. }
            | Event::ThinkingDelta { .. }
            | Event::ToolCallDelta { .. }
            | Event::ToolCall { .. }
            | Event::InvalidToolCall { .. }
            | Event::ToolResult { .. }
                if self.watching =>
            {
                out.push(event);
            }
            Event::TextDelta { message_id, text } => {
                let gate = self.gate.get_or_insert_with(|| {
                    self.pieces.clear();
                    Gate::new(&self.text_calls)
                });
                self.pieces.push_str(&text);
                if self.has_listener {
                    out.extend(gate.push(&text).map(|text| Event::TextDelta { message_id, text }));
                } else {
                    self.folded.events += u64::from(gate.pass(&text));
                }
            }
            Event::Message { id, content } => self.message(id, content, out),
            // The next event has nothing to do with the message. Until then its text is the last one known.
            Event::Abandoned => {
                self.gate = None;
                self.thinking.clear();
            }
            Event::Reasoning { details } => {
                match details.iter().all(|detail| detail.shown().is_empty()) {
                    true => self.end_thinking(),
                    false => self.thinking.clear(),
                }
                self.folded.reply.reasoning.extend(details);
            }
            Event::Answer { tool_call } if self.watching => out.push(Event::ToolCall { tool_call }),
            Event::Answer { tool_call } => {
                let text = ReceivedText::Text(tool_call.args.get().to_owned());
                self.folded.received.push(text);
                self.answers.insert(tool_call.id.clone(), tool_call);
            }
            Event::ToolResult {
                ref tool_call_id,
                is_error,
                ..
            } if self.answers.contains_key(tool_call_id) => {
                let answer = self.answers.remove(tool_call_id);
                self.taken_answer = answer.filter(|_| !is_error).or(self.taken_answer.take());
            }
            // The pieces of a call that gets another id are not sent, since they would seem to belong to a call of the thread;
            // the whole call follows.
            Event::ToolCallDelta { tool_call_id, .. }
                if !self.has_listener || tool_call_id.is_empty() || self.taken.contains(&tool_call_id) => {}
            // A call that is printed both at its beginning and at its end is one call. With other arguments it is another call
            // under the same id.
            Event::ToolCall { tool_call } if self.is_known(&tool_call) => {}
            Event::ToolCall { mut tool_call } => {
                let own = tool_call.clone();
                make_unique(std::slice::from_mut(&mut tool_call), &mut self.taken);
                self.folded.call_ids.push(ProviderCallId {
                    provider: own.id.clone(),
                    id: tool_call.id.clone(),
                });
                self.native.insert(own.id.clone(), (own, tool_call.id.clone()));
                self.folded.reply.tool_calls.push(tool_call.clone());
                out.push(Event::ToolCall { tool_call });
            }
            // The result has the provider's id; it gets the id assigned to the call.
            Event::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => {
                let call = self.native.remove(&tool_call_id);
                let tool_call_id = call.map_or(tool_call_id, |(_, id)| id);
                self.answered.insert(tool_call_id.clone());
                out.push(Event::ToolResult {
                    tool_call_id,
                    content,
                    is_error,
                });
            }
            Event::Failure(failure) => self.folded.failure = Some(failure),
            Event::Outcome(outcome) => self.folded.outcome = Some(*outcome),
            // A failed request costs nothing, so no event reports it.
            Event::Usage { usage, .. } if usage.total_tokens == 0 => self.folded.usage = Some(usage),
            other => {
                self.note(&other);
                out.push(other);
            }
        }
        self.folded.events += (out.len() - before) as u64;
    }

    /// Removes a terminal's control sequences from the event's text. A call's arguments stay as the model wrote them, and
    /// sealed reasoning stays as its API returned it.
    fn without_ansi(&mut self, event: Event) -> Event {
        match event {
            Event::TextDelta { message_id, text } => Event::TextDelta {
                message_id,
                text: self.ansi.strip_piece(text),
            },
            Event::ThinkingDelta { message_id, text } => Event::ThinkingDelta {
                message_id,
                text: self.thinking_ansi.strip_piece(text),
            },
            Event::Message { id, content } => {
                (self.ansi, self.thinking_ansi) = Default::default();
                Event::Message {
                    id,
                    content: Stripper::default().strip_piece(content),
                }
            }
            Event::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => Event::ToolResult {
                tool_call_id,
                content: Stripper::default().strip_piece(content),
                is_error,
            },
            Event::Abandoned => {
                (self.ansi, self.thinking_ansi) = Default::default();
                event
            }
            other => other,
        }
    }

    /// Returns whether the same native call came before and has no result yet.
    fn is_known(&self, call: &ToolCall) -> bool {
        let known = self.native.get(&call.id).filter(|_| !call.id.is_empty());
        known.is_some_and(|(known, _)| known == call)
    }

    /// Keeps the facts that the reply needs of events that pass through.
    fn note(&mut self, event: &Event) {
        let reply = &mut self.folded.reply;
        match event {
            Event::Session {
                session_id,
                model,
                permission_mode,
                version,
            } => {
                reply.session_id.clone_from(session_id);
                reply.model.clone_from(model);
                reply.permission_mode.clone_from(permission_mode);
                reply.cli_version.clone_from(version);
            }
            Event::ThinkingDelta { text, .. } => {
                reply.thinking.push_str(text);
                self.thinking.push_str(text);
            }
            Event::InvalidToolCall { invalid_tool_call } => reply.invalid_tool_calls.push(invalid_tool_call.clone()),
            Event::Usage { usage, .. } => {
                self.folded.usage = Some(usage.clone());
                self.folded.usage_reported = true;
            }
            Event::RateLimit { status, resets_at, .. } if status == "rejected" => {
                self.folded.limit_resets_at = *resets_at
            }
            _ => {}
        }
    }

    /// Completes a message: sends the rest of its text, the message itself, and the calls found in it.
    fn message(&mut self, id: Option<String>, content: String, out: &mut Vec<Event>) {
        let pieces = std::mem::take(&mut self.pieces);
        // If the pieces differ from the message, they are out all the same; the whole message is the one that counts.
        let differs = self.gate.is_some() && pieces != content;
        let mut first = None;
        // Without pieces, the whole message passes through the filter like one piece.
        let gate = self.gate.take().filter(|_| !differs).unwrap_or_else(|| {
            let mut whole = Gate::new(&self.text_calls);
            first = whole.push(&content);
            whole
        });
        let (last, mut calls) = gate.finish();
        let rest = [first, last].into_iter().flatten().reduce(|first, last| first + &last);
        drop(pieces);
        if let Some(text) = rest.filter(|_| !differs) {
            let message_id = id.clone();
            self.emit(|| Event::TextDelta { message_id, text }, out);
        }
        let place = self.folded.reply.messages.len();
        // Only if calls were taken out, the text that came in is not the message itself.
        let (text, received) = match calls.is_empty() {
            true if content.is_empty() => (content, ReceivedText::Text(String::new())),
            true => (content, ReceivedText::Message(place)),
            false => (self.text_calls.remainder(&content), ReceivedText::Text(content)),
        };
        self.folded.received.push(received);
        self.folded.reply.message_id.clone_from(&id);
        self.last = (!text.is_empty()).then_some(place);
        if !text.is_empty() {
            self.emit(
                || Event::Message {
                    id: id.clone(),
                    content: text.clone(),
                },
                out,
            );
            let content = text;
            self.folded.reply.messages.push(AssistantMessage { id, content });
        }
        let reply = &mut self.folded.reply;
        if let Some(message) = calls.ignored {
            reply.diagnostics.push(message.clone());
            let code = "TOOL_CALLS_AS_TEXT".to_owned();
            out.push(Event::Warning { code, message });
        }
        make_unique(&mut calls.tool_calls, &mut self.taken);
        reply.tool_calls.extend(calls.tool_calls.iter().cloned());
        out.extend(
            calls
                .tool_calls
                .into_iter()
                .map(|tool_call| Event::ToolCall { tool_call }),
        );
        reply.invalid_tool_calls.extend(calls.invalid.iter().cloned());
        out.extend(
            calls
                .invalid
                .into_iter()
                .map(|invalid_tool_call| Event::InvalidToolCall { invalid_tool_call }),
        );
    }

    /// Makes a detail of the reasoning that no block holds.
    fn end_thinking(&mut self) {
        let thinking = std::mem::take(&mut self.thinking);
        self.folded
            .reply
            .reasoning
            .extend(ReasoningDetail::text(&thinking, None));
    }

    /// Sends an event with text, if there is a listener.
    fn emit(&mut self, event: impl FnOnce() -> Event, out: &mut Vec<Event>) {
        match self.has_listener {
            true => out.push(event()),
            false => self.folded.events += 1,
        }
    }

    /// Ends the events. Formats that have only an outcome get their message from it.
    pub fn finish(mut self, out: &mut Vec<Event>) -> Folded {
        // An answer that the CLI has not accepted is a call like any other.
        let is_taken = self
            .folded
            .outcome
            .as_ref()
            .is_some_and(|outcome| outcome.structured.is_some());
        for (_, tool_call) in std::mem::take(&mut self.answers) {
            match is_taken {
                true => self.taken_answer = Some(tool_call),
                false => self.push(Event::ToolCall { tool_call }, out),
            }
        }
        let own = std::mem::take(&mut self.own_tools);
        let unanswered: Vec<String> = (self.native.iter())
            .filter(|(_, (call, _))| own.contains(&call.name.as_str()))
            .map(|(id, _)| id.clone())
            .collect();
        for tool_call_id in unanswered {
            let result = Event::ToolResult {
                tool_call_id,
                content: UNANSWERED.to_owned(),
                is_error: true,
            };
            self.push(result, out);
        }
        // The value is the same as the model wrote it; claude's last event has its escapes resolved.
        if let Some(structured) = self
            .folded
            .outcome
            .as_mut()
            .and_then(|outcome| outcome.structured.as_mut())
            && let Some(answer) = &self.taken_answer
            && let Ok(written) = serde_json::from_str(answer.args.get())
        {
            *structured = written;
        }
        if self.folded.reply.messages.is_empty()
            && self.folded.reply.tool_calls.is_empty()
            && self.folded.failure.is_none()
            && let Some(outcome) = self.folded.outcome.as_ref().filter(|outcome| !outcome.is_error)
            && let Some(content) = outcome.text.clone().filter(|text| !text.is_empty())
        {
            self.push(Event::Message { id: None, content }, out);
        }
        if !self.pieces.is_empty() {
            self.folded.breaks_off = !self.pieces.trim().is_empty();
            self.folded
                .received
                .push(ReceivedText::Text(std::mem::take(&mut self.pieces)));
        }
        self.end_thinking();
        let reply = &mut self.folded.reply;
        if let Some(message) = self.last.and_then(|place| reply.messages.get(place)) {
            reply.content = message.content.trim_matches(is_js_space).to_owned();
        }
        reply.tool_calls.retain(|call| !self.answered.contains(&call.id));
        let Some(outcome) = &self.folded.outcome else {
            return self.folded;
        };
        reply.session_id = outcome.session_id.clone().or_else(|| reply.session_id.take());
        reply.model = outcome.model.clone().or_else(|| reply.model.take());
        reply.stop_reason.clone_from(&outcome.stop_reason);
        reply.cost_usd = outcome.cost_usd;
        reply.duration_ms = outcome.duration_ms;
        reply.num_turns = outcome.num_turns;
        reply.permission_denials.clone_from(&outcome.permission_denials);
        reply.cache_miss.clone_from(&outcome.cache_miss);
        reply.service_tier.clone_from(&outcome.service_tier);
        reply.speed.clone_from(&outcome.speed);
        reply.fast_mode.clone_from(&outcome.fast_mode);
        if self.folded.usage.is_none() {
            self.folded.usage.clone_from(&outcome.usage);
        }
        self.folded
    }
}

#[cfg(test)]
mod tests;
