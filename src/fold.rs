//! A decoder's events in, public events and one [`Reply`] out.
//!
//! Here tool calls written as text become tool calls, where the call allows any ([`TextCalls`]): the text of a message streams through as far as it is certain not to
//! belong to one. The pieces of a message that go out, joined, are that message; `run()` is nothing but this fold.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::decode::ansi::Stripper;
use crate::event::{AssistantMessage, Event, Failure, Outcome, Reply};
use crate::message::reasoning::ReasoningDetail;
use crate::message::{ToolCall, Usage};
use crate::prompt::is_js_space;
use crate::toolcall::{Gate, TakenIds, TextCalls, make_unique};

/// What a run came to, before anybody judges it.
#[derive(Debug, Default)]
pub struct Folded {
    /// The reply, without usage where the provider reported none.
    pub reply: Reply,
    /// Tokens as the provider counts them.
    pub usage: Option<Usage>,
    /// Whether they went out as an event.
    pub usage_reported: bool,
    /// What the provider says of its failure.
    pub failure: Option<Failure>,
    /// The provider's last word.
    pub outcome: Option<Outcome>,
    /// When the subscription's limit ends, ms since the epoch, if it was reached.
    pub limit_resets_at: Option<u64>,
    /// How many public events went out.
    pub events: u64,
    /// A tool's result is what the model has read last: in the thread, or in the CLI's own run.
    pub is_behind_result: bool,
    /// Pieces of a message came, and it did not: it broke off.
    pub breaks_off: bool,
    /// Of each native call, the provider's id and the one the reply has for it.
    pub call_ids: Vec<ProviderCallId>,
    /// The texts that came in. An answer may be long: none is kept a second time.
    received: Vec<ReceivedText>,
}

/// The two ids of a native call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCallId {
    pub provider: String,
    /// The caller's: another one where the provider's was taken.
    pub id: String,
}

/// A text that came in.
#[derive(Debug)]
enum ReceivedText {
    /// It is the reply's message at this place.
    Message(usize),
    /// It held calls, or no message came of it.
    Text(String),
}

impl Folded {
    /// The text that came in, of all messages: for a failed run's `partial`, and to be counted where nobody reported usage.
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
    /// Which text is a call.
    text_calls: TextCalls,
    /// The message being written.
    gate: Option<Gate>,
    /// Its pieces so far; those of an abandoned one until anything else comes.
    pieces: String,
    /// Reasoning that is in no block yet.
    thinking: String,
    /// Take a terminal's control sequences out of the message and the reasoning that come: whatever wire or API they come by.
    ansi: Stripper,
    thinking_ansi: Stripper,
    /// Where the last message is among the reply's, if any text is left of it.
    last: Option<usize>,
    /// Somebody hears the texts.
    has_listener: bool,
    /// Ids no new call may have: those of the thread, then those assigned.
    taken: TakenIds,
    /// Native calls without a result, by the provider's id, as they came, and the ids assigned to them.
    native: HashMap<String, (ToolCall, String)>,
    /// Calls the CLI itself has answered.
    answered: HashSet<String>,
    /// Answers that the model has given by a tool of the CLI's own, by their ids: no calls, if the CLI has taken them.
    answers: HashMap<String, ToolCall>,
    /// The last of them that the CLI has called a good one.
    taken_answer: Option<ToolCall>,
    /// Nothing is looked for in texts and only the last one is kept: the CLI works for itself, for hours maybe.
    watching: bool,
}

impl Fold {
    /// `taken`: the call ids of the thread so far. `text_calls`: which text is a call.
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
            watching: false,
        }
    }

    /// For a CLI that works for itself: its texts are texts, its calls its own, and memory is bounded however long it goes
    /// on. The reply has the last message, and no calls.
    pub fn watching() -> Self {
        Fold {
            watching: true,
            ..Fold::new(HashSet::new(), TextCalls::Off)
        }
    }

    /// For a thread that ends with a tool's result, where this is so.
    #[must_use]
    pub fn behind_result(mut self, is_behind_result: bool) -> Self {
        self.folded.is_behind_result = is_behind_result;
        self
    }

    /// Texts become events only if somebody hears them; they are counted all the same, and the reply has them.
    #[must_use]
    pub fn with_listener(mut self, has_listener: bool) -> Self {
        self.has_listener = has_listener;
        self
    }

    /// Takes one event of the decoder; public events go to `out`, in order.
    pub fn push(&mut self, event: Event, out: &mut Vec<Event>) {
        let before = out.len();
        // Who watches a CLI at work is told of its calls, but not of every result.
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
            // What comes next has nothing to do with it. Its text is the last that is known, until then.
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
            // A call that gets another id is told whole: its pieces would belong to a call that the thread has.
            Event::ToolCallDelta { tool_call_id, .. }
                if !self.has_listener || tool_call_id.is_empty() || self.taken.contains(&tool_call_id) => {}
            // Printed twice, when it begins and when it ends, it is one call. With other arguments it is another one under the same id.
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
            // The result of a call has the id assigned to the call.
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
            // A failed request costs nothing: no news.
            Event::Usage { usage, .. } if usage.total_tokens == 0 => self.folded.usage = Some(usage),
            other => {
                self.note(&other);
                out.push(other);
            }
        }
        self.folded.events += (out.len() - before) as u64;
    }

    /// `event` without what a terminal would obey in its text. A call's arguments are what the model wrote, and what its API seals is
    /// returned as it came.
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

    /// Whether a native call came before, and has no result yet.
    fn is_known(&self, call: &ToolCall) -> bool {
        let known = self.native.get(&call.id).filter(|_| !call.id.is_empty());
        known.is_some_and(|(known, _)| known == call)
    }

    /// Keeps what the reply needs of events that pass through.
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

    /// A message is complete: the rest of its text, the message itself, the calls found in it.
    fn message(&mut self, id: Option<String>, content: String, out: &mut Vec<Event>) {
        let pieces = std::mem::take(&mut self.pieces);
        // Where its pieces differed they are out all the same; what counts is the whole one.
        let differs = self.gate.is_some() && pieces != content;
        let mut first = None;
        // Where no pieces of it came it is one itself.
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
        // Only where something was taken out of what came, that is not the message itself.
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

    /// What the model thought and no block holds is one.
    fn end_thinking(&mut self) {
        let thinking = std::mem::take(&mut self.thinking);
        self.folded
            .reply
            .reasoning
            .extend(ReasoningDetail::text(&thinking, None));
    }

    /// A text goes out, if anybody hears it.
    fn emit(&mut self, event: impl FnOnce() -> Event, out: &mut Vec<Event>) {
        match self.has_listener {
            true => out.push(event()),
            false => self.folded.events += 1,
        }
    }

    /// No more events will come. Formats that only have a last word get their message from it.
    pub fn finish(mut self, out: &mut Vec<Event>) -> Folded {
        // What the CLI has not taken for an answer is a call like any other.
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
        // The same value, as the model wrote it: claude's last word has its escapes resolved.
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
        if self.folded.usage.is_none() {
            self.folded.usage.clone_from(&outcome.usage);
        }
        self.folded
    }
}

#[cfg(test)]
mod tests;
