//! A dialogue as a transcript that claude resumes, and the user line behind it.
//!
//! In: a [`Dialogue`]. Out: the lines up to the model's last message, and what is left for standard input ([`Transcript`]). Everything
//! is written by serde, a line for each message: no text of a thread becomes a line, a role or a field of the CLI's.
//!
//! A dialogue that ends in results of calls has a line behind the calls that marks one of them as deferred: without it the CLI would
//! answer the calls by itself. The CLI asks its tools' server for the result of that call, and takes all others from the user line.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::dialogue::{Dialogue, NotNative, RoundReply, UserSide};
use super::memory::{Opening, Recalled};
use crate::live::setup::Setup;
use crate::stream_json::{self, Block};
use dfp_model::message::content::{Kind, Part, Source, parts};
use dfp_model::message::reasoning::{Origin, Returned, thinking_blocks};
use dfp_model::message::{Content, Message, Role, ToolCall, json_value};
use dfp_provider::Guard;
use dfp_provider::claude::TOOL_SEARCH;
use dfp_provider::claude::requests::{MOST_RESULT_CHARS, facts_of};

/// The prefix that the CLI gives the caller's tools.
const PREFIX: &str = "mcp__df__";

/// The most characters of base64 in an image that a tool's server hands over: the CLI makes larger images smaller.
const MOST_IMAGE: usize = 500_000;

/// The facts of a conversation that its messages don't tell.
#[derive(Debug, Clone, Copy)]
pub struct TranscriptContext<'a> {
    pub setup: &'a Setup,
    /// The guard that keeps a text of the user's from being a command of the CLI's.
    pub guard: Option<Guard>,
    /// Text that is said after the thread and is no part of it.
    pub note: Option<&'a str>,
    /// The surroundings that the process will tell, unless others are remembered; `None` for a version that has no lines for them.
    pub opening: Option<&'a Opening>,
    /// The login that the provider has chosen.
    pub login: Option<&'a str>,
    /// True if the model's API wants the call whose result is sent to begin with thinking.
    pub needs_thinking: bool,
    /// The time of all lines, in ISO 8601.
    pub time: &'a str,
}

/// A thread, ready for a process that is started for it.
#[derive(Debug)]
pub struct Transcript {
    /// The lines of the file.
    pub lines: String,
    /// The user line.
    pub line: String,
    /// The call whose result the CLI asks for.
    pub deferred: Option<DeferredCall>,
    /// The effort of the turn that the user line goes on with, where the CLI keeps it.
    pub kept_effort: Option<String>,
}

/// A call that is marked as deferred.
#[derive(Debug, Clone)]
pub struct DeferredCall {
    /// The API's id of the call.
    pub id: String,
    /// Its result, as MCP has it.
    pub result: Box<RawValue>,
}

/// Writes `dialogue`, which has a reply of the model's.
///
/// # Errors
/// [`NotNative`].
pub fn write(dialogue: &Dialogue, context: &TranscriptContext) -> Result<Transcript, NotNative> {
    let last_reply = dialogue.rounds.last().map(|round| &round.reply);
    let mut blocks = side_blocks(&dialogue.last, context.guard)?;
    blocks.extend(context.note.map(Block::text));
    if blocks.is_empty() {
        return Err(NotNative {
            message: last_reply.map_or(1, |reply| reply.at + 1),
            why: "is the model's, and nothing is said behind it",
        });
    }
    if let Some(reply) = last_reply
        && context.needs_thinking
        && !dialogue.last.results.is_empty()
        && reply.recalled.is_none()
        && content_of(reply, context)
            .first()
            .is_none_or(|block| block["type"] == "text" || block["type"] == "tool_use")
    {
        return Err(NotNative {
            message: reply.at + 1,
            why: "has a call without the thinking that its model's API wants before it",
        });
    }
    let mut writer = Writer::new(context.time);
    for (at, round) in dialogue.rounds.iter().enumerate() {
        let blocks = side_blocks(&round.side, context.guard)?;
        writer.message(
            "user",
            json!({"role": "user", "content": stream_json::content(&blocks)}),
            None,
        );
        if at == 0
            && let Some(now) = context.opening
        {
            let then = round
                .reply
                .recalled
                .as_ref()
                .and_then(|recalled| recalled.opening.as_ref());
            writer.opening(then.unwrap_or(now));
        }
        writer.systems(&round.side);
        writer.reply(&round.reply, at, context);
    }
    let goes_on = context.note.is_none() && context.opening.is_some() && dialogue.last.is_results_alone();
    let recalled = last_reply.and_then(|reply| reply.recalled.as_ref());
    let kept_effort = recalled.filter(|_| goes_on).and_then(Recalled::turn_effort);
    let deferred = match dialogue.last.results.is_empty() {
        true => None,
        false => Some(deferred(&dialogue.last, context.setup)?),
    };
    // The last lines of this kind are told behind the user line.
    writer.systems(&dialogue.last);
    if let Some((call, _)) = &deferred {
        let name = wire_name(context.setup, call);
        writer.attachment(json!({"type": "hook_deferred_tool", "toolUseID": call.id, "toolName": name}));
    }
    Ok(Transcript {
        lines: writer.lines,
        line: stream_json::user(&blocks),
        deferred: deferred.map(|(call, result)| DeferredCall {
            id: call.id.clone(),
            result,
        }),
        kept_effort: kept_effort.map(str::to_owned),
    })
}

/// The blocks of what the user's side says at once.
fn side_blocks(side: &UserSide, guard: Option<Guard>) -> Result<Vec<Block>, NotNative> {
    let results = side
        .results
        .iter()
        .map(|(call, result)| stream_json::result(&call.id, result));
    let mut blocks: Vec<Block> = results.collect();
    if !side.humans.is_empty() {
        let words = stream_json::of_humans(side.humans.iter().copied(), guard).ok_or(NotNative {
            message: side.at + 1,
            why: "is the user's and says nothing",
        })?;
        blocks.extend(words);
    }
    Ok(blocks)
}

/// The name that the CLI has for the tool of `call`.
fn wire_name(setup: &Setup, call: &ToolCall) -> String {
    format!("{PREFIX}{}", setup.declarations().wire_name(&call.name))
}

/// The call to be marked as deferred: the first one whose result MCP hands over as it is, of a tool that is declared.
fn deferred<'a>(side: &UserSide<'a>, setup: &Setup) -> Result<(&'a ToolCall, Box<RawValue>), NotNative> {
    let mut answered = side.results.iter();
    let found = answered.find_map(|(call, result)| {
        let is_declared = setup.ours(&wire_name(setup, call)).is_some();
        Some((*call, of_mcp(result)?)).filter(|_| is_declared)
    });
    found.ok_or(NotNative {
        message: side.at + 1,
        why: "is a result, and none of those beside it can be told by a tool's server either (of a tool that is not bound, empty, \
              with a document, or too long)",
    })
}

/// The result in `message` as MCP has it; `None` if the CLI would make something else of it.
fn of_mcp(message: &Message) -> Option<Box<RawValue>> {
    let parts = match &message.content {
        Content::Text(text) => vec![Part::Text(text.clone())],
        Content::Blocks(raw) => parts(raw, &message.role),
    };
    let mut chars = 0;
    let mut blocks = Vec::new();
    for part in &parts {
        match part {
            Part::Text(text) if !text.trim().is_empty() => {
                chars += text.encode_utf16().count();
                blocks.push(json!({"type": "text", "text": text}));
            }
            Part::Media(media) if media.kind == Kind::Image && !message.is_error => {
                match (&media.source, &media.mime) {
                    (Source::Base64(data), Some(mime)) if data.len() <= MOST_IMAGE => {
                        blocks.push(json!({"type": "image", "data": data, "mimeType": mime}));
                    }
                    _ => return None,
                }
            }
            _ => return None,
        }
    }
    // The text of a failure becomes one string.
    let is_plain = !message.is_error || blocks.len() == 1;
    let fits = !blocks.is_empty() && chars <= MOST_RESULT_CHARS && is_plain;
    let result = match message.is_error {
        true => json!({"content": blocks, "isError": true}),
        false => json!({"content": blocks}),
    };
    fits.then(|| to_raw_value(&result).ok()).flatten()
}

/// A line of a transcript.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TranscriptLine<'a> {
    parent_uuid: Option<String>,
    uuid: String,
    timestamp: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attachment: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
}

/// Writes lines, each of which names the one before it.
struct Writer<'a> {
    lines: String,
    written: usize,
    time: &'a str,
    /// The tools that the model has found so far, by the CLI's names.
    found: HashSet<String>,
}

impl<'a> Writer<'a> {
    fn new(time: &'a str) -> Writer<'a> {
        Writer {
            lines: String::new(),
            written: 0,
            time,
            found: HashSet::new(),
        }
    }

    fn line(&mut self, line: TranscriptLine) {
        if let Ok(line) = serde_json::to_string(&line) {
            self.lines.push_str(&line);
            self.lines.push('\n');
            self.written += 1;
        }
    }

    /// The next line, of this type, with nothing in it.
    fn next<'l>(&self, r#type: &'static str) -> TranscriptLine<'l>
    where
        'a: 'l,
    {
        let uuid = |number: usize| format!("00000000-0000-4000-8000-{number:012x}");
        TranscriptLine {
            parent_uuid: (self.written > 0).then(|| uuid(self.written)),
            uuid: uuid(self.written + 1),
            timestamp: self.time,
            r#type,
            message: None,
            attachment: None,
            effort: None,
        }
    }

    fn message(&mut self, r#type: &'static str, message: Value, effort: Option<&str>) {
        let line = TranscriptLine {
            message: Some(message),
            effort,
            ..self.next(r#type)
        };
        self.line(line);
    }

    fn attachment(&mut self, attachment: Value) {
        let line = TranscriptLine {
            attachment: Some(attachment),
            ..self.next("attachment")
        };
        self.line(line);
    }

    /// Writes the system messages of `side`. The CLI tells them behind the user's message, with a blank line between them: as system
    /// messages, and as reminders to a model that knows none in the middle (2.1.197, 2.1.332).
    fn systems(&mut self, side: &UserSide) {
        for message in &side.systems {
            self.attachment(json!({"type": "critical_system_reminder", "content": message.content.as_text()}));
        }
    }

    /// Writes what the CLI says of its surroundings behind the first message.
    fn opening(&mut self, opening: &Opening) {
        if let Some(environment) = &opening.environment {
            self.attachment(json!({"type": "environment", "snapshot": environment}));
        }
        if let Some(model) = &opening.model {
            self.attachment(introduction(model));
        }
        if let Some(date) = &opening.date {
            self.attachment(json!({"type": "date", "date": date}));
        }
    }

    /// Writes the search that must have come before the calls of `reply`, which is not remembered: the CLI declares to its API the tools
    /// alone that a result in the thread names.
    fn search(&mut self, reply: &RoundReply, at: usize, setup: &Setup) {
        if !setup.searches_tools() {
            return;
        }
        let called = reply.calls.iter().map(|call| wire_name(setup, call));
        let declared = called.filter(|name| setup.ours(name).is_some());
        let new: Vec<String> = declared.filter(|name| self.found.insert(name.clone())).collect();
        if new.is_empty() {
            return;
        }
        let id = format!("toolu_df{at:018x}");
        let query = format!("select:{}", new.join(","));
        let call = json!({"type": "tool_use", "id": id, "name": TOOL_SEARCH, "input": {"query": query}});
        let model = reply.messages.iter().find_map(|message| Returned::model(message));
        let mut message = json!({"role": "assistant", "id": format!("msg_df_search{at:018x}"), "content": [call]});
        if let Some(model) = model {
            message["model"] = Value::from(model);
        }
        self.message("assistant", message, None);
        let found: Vec<Value> = (new.iter())
            .map(|name| json!({"type": "tool_reference", "tool_name": name}))
            .collect();
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": found});
        self.message("user", json!({"role": "user", "content": [result]}), None);
    }

    /// Writes the reply of the round number `at`.
    fn reply(&mut self, reply: &RoundReply, at: usize, context: &TranscriptContext) {
        let Some(recalled) = &reply.recalled else {
            self.search(reply, at, context.setup);
            // Without an id the CLI takes it for a part of another message.
            let id = format!("msg_df{at:024x}");
            let mut message = json!({"role": "assistant", "id": id, "content": content_of(reply, context)});
            if let Some(model) = reply.messages.iter().find_map(|message| Returned::model(message)) {
                message["model"] = Value::from(model);
            }
            return self.message("assistant", message, None);
        };
        for message in &recalled.messages {
            let effort = recalled.effort.as_deref().or(message.default_effort());
            let line =
                json!({"role": "assistant", "id": message.id, "model": message.model, "content": message.content});
            self.message("assistant", line, effort);
            let found = message.results.iter().filter_map(|result| result["content"].as_array());
            let named = found.flatten().filter_map(|block| block["tool_name"].as_str());
            self.found.extend(named.map(str::to_owned));
            if !message.results.is_empty() {
                self.message("user", json!({"role": "user", "content": message.results}), None);
            }
        }
    }
}

/// The words with which the CLI introduces a model to itself.
fn introduction(model: &str) -> Value {
    let facts = facts_of(model);
    let text = match facts {
        Some(facts) => format!(
            "You are powered by the model named {}. The exact model ID is {model}. Assistant knowledge cutoff is {}.",
            facts.name, facts.cutoff
        ),
        None => format!("You are powered by the model {model}."),
    };
    let identity = json!({
        "modelId": model, "marketingName": facts.map(|facts| facts.name), "knowledgeCutoff": facts.map(|facts| facts.cutoff),
    });
    json!({"type": "model", "identity": identity, "text": text})
}

/// The blocks of a reply that is not remembered: the reasoning that came back, the words, and the calls.
fn content_of(reply: &RoundReply, context: &TranscriptContext) -> Vec<Value> {
    let origin = Origin {
        provider: "claude".to_owned(),
        login: context.login.map(str::to_owned),
        model: String::new(),
    };
    let mut content = Vec::new();
    for message in &reply.messages {
        content.extend(thinking_blocks(&Returned::to(&origin, message).unwrap_or_default()));
        let texts: Vec<String> = match &message.content {
            Content::Text(text) => vec![text.clone()],
            Content::Blocks(raw) => {
                let parts = parts(raw, &Role::Ai).into_iter();
                let text = |part| match part {
                    Part::Text(text) => Some(text),
                    _ => None,
                };
                parts.filter_map(text).collect()
            }
        };
        let texts = texts.iter().filter(|text| !text.trim().is_empty());
        content.extend(texts.map(|text| json!({"type": "text", "text": text})));
    }
    content.extend(reply.calls.iter().map(|call| {
        let name = wire_name(context.setup, call);
        json!({"type": "tool_use", "id": call.id, "name": name, "input": json_value(call.args.get())})
    }));
    content
}

#[cfg(test)]
mod tests;
